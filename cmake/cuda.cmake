# SPDX-License-Identifier: MIT
# The CUDA backend, included at the top when NIBBLE_BACKEND=cuda. Needs nvcc >= 12.4 but no GPU;
# .ci/cuda_toolkit.sh shows how a toolkit comes from PyPI. The runtime is linked statically.
set(CMAKE_CUDA_ARCHITECTURES "${NIBBLE_CUDA_ARCHITECTURES}")
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "NIBBLE_BACKEND=cuda needs nvcc. Install the CUDA Toolkit, or nvidia-cuda-nvcc, "
    "nvidia-cuda-runtime, nvidia-cuda-crt, nvidia-nvvm and nvidia-cuda-cccl (PyPI), and set CUDACXX.")
endif()
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4)
  message(FATAL_ERROR "nvcc ${CMAKE_CUDA_COMPILER_VERSION} is too old: 12.4 or newer is needed")
endif()
find_package(CUDAToolkit 12.4 REQUIRED)
string(REPLACE ";" " " nibble_cuda_list "${NIBBLE_CUDA_ARCHITECTURES}")
list(APPEND NIBBLE_FEATURES "CUDA|1|${CMAKE_CUDA_COMPILER_VERSION}, architectures ${nibble_cuda_list}")

function(nibble_add_cuda target)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cuda/*.cu")
  target_sources(${target} PRIVATE ${sources})
  # CMake 3.25 does not know that recent nvcc speaks C++20, so the option is given by hand.
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;-Xcompiler=-Wall,-Wextra,-Wshadow;-Werror=cross-execution-space-call>")
  set_target_properties(${target} PROPERTIES CUDA_VISIBILITY_PRESET hidden CUDA_RUNTIME_LIBRARY None)
  target_link_libraries(${target} PRIVATE CUDA::cudart_static)
endfunction()
