# SPDX-License-Identifier: MIT
# Installed: headers, the library, an exported CMake package and a pkg-config file. All paths are
# relative to the prefix, which may be moved afterwards.
include(CMakePackageConfigHelpers)

set(nibble_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/nibble")
export(TARGETS nibble_quantize nibble_library NAMESPACE nibble::
  FILE "${PROJECT_BINARY_DIR}/nibbleTargets.cmake")

if(NOT NIBBLE_INSTALL)
  return()
endif()

if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  set_target_properties(nibble_library PROPERTIES INSTALL_RPATH "$ORIGIN")
endif()
install(TARGETS nibble_quantize nibble_library EXPORT nibbleTargets)
if(TARGET nibble)
  file(RELATIVE_PATH to_lib "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
  set_target_properties(nibble PROPERTIES INSTALL_RPATH "$ORIGIN/${to_lib}")
  install(TARGETS nibble)
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/nibble" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.def")
install(FILES "${PROJECT_BINARY_DIR}/include/nibble/config.hpp"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/nibble")
install(EXPORT nibbleTargets NAMESPACE nibble:: DESTINATION "${nibble_package_dir}")

configure_package_config_file(cmake/nibbleConfig.cmake.in "${PROJECT_BINARY_DIR}/nibbleConfig.cmake"
  INSTALL_DESTINATION "${nibble_package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/nibbleConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/nibbleConfig.cmake" "${PROJECT_BINARY_DIR}/nibbleConfigVersion.cmake"
  DESTINATION "${nibble_package_dir}")

# pkg-config: ${pcfiledir} is where the file lies, so the prefix follows when it is moved.
file(RELATIVE_PATH NIBBLE_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" NIBBLE_PC_PREFIX "${NIBBLE_PC_PREFIX}")
set(NIBBLE_PC_CFLAGS "")
if(BUILD_SHARED_LIBS)
  set(NIBBLE_PC_CFLAGS " -DNIBBLE_SHARED=1")
endif()
configure_file(cmake/nibble.pc.in nibble.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/nibble.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
