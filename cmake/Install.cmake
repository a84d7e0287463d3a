# What `cmake --install` lays out: programs, the library inferno::inferno as one archive with a package
# config, the public headers, the model, licence and README. Everything is found relative to where it lies,
# so the tree may be moved.
include(CMakePackageConfigHelpers)

# System libraries that an installed libinferno.a may ask for; inferno-config.cmake.in finds each of them.
set(INFERNO_FINDABLE Threads::Threads fmt::fmt spdlog::spdlog
  PkgConfig::PCRE2 PkgConfig::UTF8PROC PkgConfig::XXHASH ${CMAKE_DL_LIBS})
# Headers that leave nothing behind to link.
set(INFERNO_HEADER_ONLY nlohmann_json::nlohmann_json CLI11::CLI11 inferno_flags)

# inferno_link_closure(OBJECTS LIBRARIES ROOT): the modules that target ROOT needs, itself included, and the
# system libraries that they link.
function(inferno_link_closure modules_out libraries_out root)
  set(modules "")
  set(libraries "")
  set(open ${root})
  while(open)
    list(POP_FRONT open target)
    if(target IN_LIST modules)
      continue()
    endif()
    list(APPEND modules ${target})
    get_target_property(linked ${target} LINK_LIBRARIES)
    foreach(library IN LISTS linked)
      if(library IN_LIST INFERNO_HEADER_ONLY)
        continue()
      elseif(library MATCHES "^inferno_")
        list(APPEND open ${library})
      elseif(library IN_LIST INFERNO_FINDABLE)
        list(APPEND libraries ${library})
      else()
        message(FATAL_ERROR "${target} links ${library}, which an installed inferno would not find: "
                            "add it to cmake/inferno-config.cmake.in and to INFERNO_FINDABLE")
      endif()
    endforeach()
  endwhile()
  list(REMOVE_DUPLICATES libraries)
  set(${modules_out} ${modules} PARENT_SCOPE)
  set(${libraries_out} ${libraries} PARENT_SCOPE)
endfunction()

# The public API is implemented by the module `engine`; the library is what that needs.
inferno_link_closure(library_modules library_dependencies inferno_engine)
list(TRANSFORM library_modules REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE library_objects)
add_library(inferno_library STATIC ${library_objects})
add_library(inferno::inferno ALIAS inferno_library)
set_target_properties(inferno_library PROPERTIES
  OUTPUT_NAME inferno
  EXPORT_NAME inferno
  LINKER_LANGUAGE CXX)
target_compile_features(inferno_library INTERFACE cxx_std_20)
target_include_directories(inferno_library INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_link_libraries(inferno_library PRIVATE ${library_dependencies})

# What a user runs, without tests and library.
add_custom_target(programs DEPENDS inferno_program model_generate)
if(INFERNO_CUDA_FOUND)  # loaded at run time, from beside the program or from lib/inferno
  add_dependencies(programs inferno_cuda_module)
  install(TARGETS inferno_cuda_module LIBRARY DESTINATION lib/inferno)
endif()

install(TARGETS inferno_program model_generate RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/inferno")
install(TARGETS inferno_library EXPORT inferno-targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT inferno-targets NAMESPACE inferno:: DESTINATION "${package_dir}")
configure_package_config_file(cmake/inferno-config.cmake.in "${PROJECT_BINARY_DIR}/cmake/inferno-config.cmake"
  INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/cmake/inferno-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/cmake/inferno-config.cmake"
  "${PROJECT_BINARY_DIR}/cmake/inferno-config-version.cmake"
  DESTINATION "${package_dir}")
install(DIRECTORY include/inferno DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.hpp")

install(FILES models/tale-12m-q8_0.gguf models/tale-12m-q8_0.golden.json models/README.md DESTINATION "${CMAKE_INSTALL_DATADIR}/inferno/models")
install(FILES LICENSE README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
