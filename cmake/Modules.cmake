# inferno_module(NAME SOURCES a.cpp ... [DEPENDS other_module lib ...])
#   one folder of src/ as the static library inferno_NAME. Includes are spelled from src/: "gguf/reader.hpp".
function(inferno_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(inferno_${name} STATIC ${arg_SOURCES})
  target_include_directories(inferno_${name} PUBLIC "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(inferno_${name} PUBLIC ${arg_DEPENDS} PRIVATE inferno_flags)
  set_target_properties(inferno_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  set_property(GLOBAL APPEND PROPERTY INFERNO_MODULES inferno_${name})
endfunction()

# inferno_test(NAME SOURCES a.cpp ... [DEPENDS lib ...])
#   a GoogleTest program; its cases are registered one by one as NAME.Suite.Case.
function(inferno_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(test_${name} ${arg_SOURCES})
  target_link_libraries(test_${name} PRIVATE ${arg_DEPENDS} inferno_flags GTest::gmock GTest::gtest_main)
  target_include_directories(test_${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(test_${name} PRIVATE
    INFERNO_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
    INFERNO_MODELS="${PROJECT_SOURCE_DIR}/models")
  gtest_discover_tests(test_${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT 600 LABELS "${name}")
endfunction()
