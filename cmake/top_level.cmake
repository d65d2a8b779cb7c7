# SPDX-License-Identifier: MIT
# Comforts for working on nibble itself; a parent project decides these things for its subprojects.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(NIBBLE_CCACHE ccache)
  if(NIBBLE_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${NIBBLE_CCACHE}")
  endif()
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
