# SPDX-License-Identifier: MIT
# Kernels per instruction set: every folder src/cpu/isa/<isa> becomes one OBJECT library with its own
# flags, taken from the table below; src/cpu/dispatch.cpp picks one at run time and learns what exists
# from NIBBLE_HAVE_ISA_<ISA>. dispatch must test every extension named here before it calls a unit.
# All other code is built for the compiler's default processor.
set(nibble_avx2 -mavx2 -mfma -mf16c -mbmi -mbmi2)
set(nibble_avx512 ${nibble_avx2} -mavx512f -mavx512cd -mavx512bw -mavx512dq -mavx512vl)
set(nibble_avx512vnni ${nibble_avx512} -mavx512vnni -mavx512vbmi -mavx512vbmi2)

set(NIBBLE_ISA_FLAGS_scalar "")
set(NIBBLE_ISA_FLAGS_avx2 ${nibble_avx2})
set(NIBBLE_ISA_FLAGS_avxvnni ${nibble_avx2} -mavxvnni)
set(NIBBLE_ISA_FLAGS_avx512 ${nibble_avx512})
set(NIBBLE_ISA_FLAGS_avx512vnni ${nibble_avx512vnni})
set(NIBBLE_ISA_FLAGS_avx512fp16 ${nibble_avx512vnni} -mavx512bf16 -mavx512fp16)
set(NIBBLE_ISA_FLAGS_amx ${nibble_avx512vnni} -mavx512bf16 -mamx-tile -mamx-bf16 -mamx-int8)
set(NIBBLE_ISA_FLAGS_neon_dot -march=armv8.2-a+dotprod)
set(NIBBLE_ISA_FLAGS_neon_i8mm -march=armv8.2-a+dotprod+i8mm)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(nibble_candidate_isas scalar avx2 avxvnni avx512 avx512vnni avx512fp16 amx)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(nibble_candidate_isas scalar neon_dot neon_i8mm)
else()
  set(nibble_candidate_isas scalar)
endif()

if(NIBBLE_ONLY_ISA)
  set(nibble_candidate_isas ${NIBBLE_ONLY_ISA})
endif()

# The vector units of x86 are written over xsimd.
if(NOT NIBBLE_HAS_XSIMD)
  list(FILTER nibble_candidate_isas INCLUDE REGEX "^(scalar|neon_.*)$")
  if(NOT nibble_candidate_isas)
    message(FATAL_ERROR "NIBBLE_ONLY_ISA=${NIBBLE_ONLY_ISA} needs xsimd. Install libxsimd-dev (Debian).")
  endif()
endif()

set(NIBBLE_ISAS "")
set(NIBBLE_ISA_OBJECTS "")
set(NIBBLE_ISA_DEFINITIONS "")

# For tests: the units named here are built without the instructions that their name adds, which their headers
# then compute exactly with others (avxvnni with AVX2, avx512vnni and amx with AVX-512), and run on any machine with those.
set(NIBBLE_EMULATED_ISAS "" CACHE STRING "instruction sets to emulate, for tests: avxvnni;avx512vnni;amx")
set(NIBBLE_EMULATION_avxvnni ${nibble_avx2})
set(NIBBLE_EMULATION_avx512vnni ${nibble_avx512})
set(NIBBLE_EMULATION_amx ${nibble_avx512})

# Called from src/: makes nibble_isa_<isa> and appends to the three lists above in the caller's scope.
function(nibble_add_isa isa)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cpu/isa/${isa}/*.cpp")
  if(NOT sources)
    return()
  endif()
  set(flags ${NIBBLE_ISA_FLAGS_${isa}})
  if(isa IN_LIST NIBBLE_EMULATED_ISAS)
    if(NOT DEFINED NIBBLE_EMULATION_${isa})
      message(FATAL_ERROR "NIBBLE_EMULATED_ISAS: ${isa} has no emulation")
    endif()
    set(flags ${NIBBLE_EMULATION_${isa}})
  endif()
  if(flags)
    include(CheckCXXCompilerFlag)
    list(JOIN flags " " joined)
    check_cxx_compiler_flag("${joined}" NIBBLE_COMPILER_KNOWS_${isa})
    if(NOT NIBBLE_COMPILER_KNOWS_${isa})
      return()
    endif()
  endif()
  set(target nibble_isa_${isa})
  add_library(${target} OBJECT ${sources})
  nibble_own_target(${target})
  # Kernels are defined in headers that each unit includes into its own namespace: clang-tidy would call that a fault.
  set_target_properties(${target} PROPERTIES CXX_CLANG_TIDY "")
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/include"
    "${PROJECT_BINARY_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
  if(NOT isa MATCHES "^(scalar|neon_.*)$")
    target_link_libraries(${target} PRIVATE nibble_xsimd)
  endif()
  # Unoptimized vector code is useless even in debug builds (at -O2 g++ 12 keeps tiles in memory), and only
  # optimized code keeps the inline
  # functions of <immintrin.h> and xsimd out of the symbol table. Without exceptions and run-time types no
  # weak helper symbols of theirs leave the unit either.
  target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Release>>:-O3> -fno-exceptions -fno-rtti ${flags})
  # Vector units are unrolled intrinsics: instrumenting each of their operations takes the compiler ten minutes
  # and finds what the scalar unit's instrumentation finds. Memory and threads are still watched.
  if(NOT isa STREQUAL "scalar")
    string(REPLACE "," ";" sanitizers "${NIBBLE_SANITIZE}")
    list(FILTER sanitizers EXCLUDE REGEX "^(address|thread)$")
    list(TRANSFORM sanitizers PREPEND "-fno-sanitize=")
    target_compile_options(${target} PRIVATE ${sanitizers})
  endif()
  string(TOUPPER ${isa} upper)
  set(NIBBLE_ISAS ${NIBBLE_ISAS} ${isa} PARENT_SCOPE)
  set(NIBBLE_ISA_OBJECTS ${NIBBLE_ISA_OBJECTS} $<TARGET_OBJECTS:${target}> PARENT_SCOPE)
  set(NIBBLE_ISA_DEFINITIONS ${NIBBLE_ISA_DEFINITIONS} NIBBLE_HAVE_ISA_${upper}=1
    $<$<IN_LIST:${isa},${NIBBLE_EMULATED_ISAS}>:NIBBLE_EMULATES_${upper}=1> PARENT_SCOPE)
endfunction()
