# What `cmake --install` puts in place: header, both libraries, program, man page, and what other builds
# find them by: carat.pc for pkg-config, caratConfig.cmake for find_package(carat).
#
# The installed tree may be moved as a whole: the static library's BLAS is named, not located.

include(CMakePackageConfigHelpers)

install(DIRECTORY include/carat DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS carat_shared carat_static EXPORT carat_targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
set_target_properties(carat_shared PROPERTIES EXPORT_NAME carat)
add_library(carat::carat ALIAS carat_shared) # the same names in a tree that takes Carat in by add_subdirectory
add_library(carat::carat_static ALIAS carat_static)
if(CARAT_CLI)
    install(TARGETS carat RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/docs/carat.1)
    install(FILES docs/carat.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# ---- CMake package ---------------------------------------------------------------------------------

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/carat)
configure_package_config_file(cmake/caratConfig.cmake.in ${PROJECT_BINARY_DIR}/caratConfig.cmake
    INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/caratConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT carat_targets FILE caratTargets.cmake NAMESPACE carat:: DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/caratConfig.cmake ${PROJECT_BINARY_DIR}/caratConfigVersion.cmake
    DESTINATION ${package_dir})

# ---- pkg-config ------------------------------------------------------------------------------------

# A prefix relative to the file's own place, so that the tree can move.
file(RELATIVE_PATH carat_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" carat_pc_prefix "${carat_pc_prefix}")
# The BLAS by name: its own openblas.pc would ask for the Fortran library of a static OpenBLAS besides.
set(carat_pc_libraries "")
foreach(library IN LISTS carat_blas_names CMAKE_DL_LIBS)
    if(library MATCHES "^-|/")
        string(APPEND carat_pc_libraries " ${library}")
    else()
        string(APPEND carat_pc_libraries " -l${library}")
    endif()
endforeach()
configure_file(cmake/carat.pc.in ${PROJECT_BINARY_DIR}/carat.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/carat.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
