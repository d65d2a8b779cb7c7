# SPDX-License-Identifier: MIT
# nibble_own_target(TARGET): what holds for every target with nibble's own sources. Nothing here is
# global and nothing reaches the consumer, except that sanitized objects need a sanitized link.
set(NIBBLE_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion)

function(nibble_own_target target)
  # g++ 12 sees an overlapping copy in every `"text" + string` (its bug 105651) once it inlines enough.
  set(noise "")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    set(noise $<$<NOT:$<CONFIG:Debug>>:-Wno-restrict>)
  endif()
  # Contracting a*b+c into an FMA would make decoded weights differ between targets and compilers;
  # where a fused multiply-add is wanted, the code says so.
  set(options ${NIBBLE_WARNINGS} ${noise} $<$<BOOL:${NIBBLE_WERROR}>:-Werror> -ffp-contract=off)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  if(NIBBLE_SANITIZE)
    list(APPEND options -fsanitize=${NIBBLE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${NIBBLE_SANITIZE})
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${options}>")
  if(NIBBLE_CLANG_TIDY)
    find_program(NIBBLE_CLANG_TIDY_PROGRAM NAMES clang-tidy clang-tidy-14 REQUIRED)
    set_target_properties(${target} PROPERTIES CXX_CLANG_TIDY "${NIBBLE_CLANG_TIDY_PROGRAM};--quiet")
  endif()
endfunction()
