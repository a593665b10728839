# Installation: find_package(fit), pkg-config fit, and the Debian package by `cpack -G DEB`.

function(fit_install)
  include(GNUInstallDirs)
  include(CMakePackageConfigHelpers)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/fit)
  get_property(layers GLOBAL PROPERTY fit_layers)
  list(REVERSE layers)  # the linker takes the upper ones first
  list(TRANSFORM layers PREPEND fit_ OUTPUT_VARIABLE libraries)
  if(BUILD_SHARED_LIBS)
    set(shared fit_shared)
  endif()
  install(TARGETS fit ${libraries} ${shared} EXPORT fitTargets FILE_SET HEADERS)
  install(EXPORT fitTargets NAMESPACE fit:: DESTINATION ${package})
  configure_package_config_file(core/cmake/fitConfig.cmake.in fitConfig.cmake INSTALL_DESTINATION ${package})
  write_basic_package_version_file(fitConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/fitConfig.cmake ${PROJECT_BINARY_DIR}/fitConfigVersion.cmake
                core/cmake/fitOpenBLAS.cmake DESTINATION ${package})

  if(BUILD_SHARED_LIBS)
    set(pc_libs "-lfit")
  else()  # a program that links it links its dependencies, too
    list(TRANSFORM libraries PREPEND -l)
    list(JOIN libraries " " pc_libs)
    string(APPEND pc_libs " -pthread -Wl,--gc-sections")
    set(pc_requires "openblas zlib")
  endif()
  file(RELATIVE_PATH pc_up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  set(pc_definitions)
  foreach(definition ${fit_glibcxx_debug} ${fit_libcxx})
    string(APPEND pc_definitions " -D${definition}")
  endforeach()
  configure_file(core/cmake/fit.pc.in fit.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/fit.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  install(FILES core/cmake/fit_printers.py DESTINATION ${CMAKE_INSTALL_DATADIR}/fit)
  install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
endfunction()

macro(fit_debian_package)  # CPack reads variables of the top folder
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME libfit-dev)
  set(CPACK_PACKAGE_CONTACT "the authors of fit <fit@localhost>")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_STRIP_FILES OFF)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
  # the dependencies of a program that is linked with fit, and of <fit/tensor/xtensor.hpp>
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libopenblas-dev, zlib1g-dev, libxtensor-dev (>= 0.24)")
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libopenmpi-dev")  # fit::mpi
  include(CPack)
endmacro()
