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

# inferno_test(NAME [LONG] [THREADS [FILTER]] SOURCES a.cpp ... [DEPENDS lib ...])
#   a GoogleTest program; its cases are registered one by one as NAME.Suite.Case with the label NAME (in sanitizer
#   builds the whole program as NAME). A program that starts threads (its sources say so, or THREADS if a library
#   does it) has the label NAME+threads instead and belongs to the target `threaded_tests`: what ThreadSanitizer
#   has something to say about: of its cases, those that match FILTER. LONG adds +long before that: instrumented it
#   takes minutes, and `scripts/test --quick` leaves it out there.
function(inferno_test name)
  cmake_parse_arguments(arg "LONG" "" "THREADS;SOURCES;DEPENDS" ${ARGN})
  add_executable(test_${name} ${arg_SOURCES})
  target_link_libraries(test_${name} PRIVATE ${arg_DEPENDS} inferno_flags GTest::gmock GTest::gtest_main)
  target_include_directories(test_${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  if(INFERNO_SANITIZE)
    # Instrumented GoogleTest macros take the optimizer longer than the tests run; what is tested stays optimized.
    target_compile_options(test_${name} PRIVATE -O0)
  endif()
  target_compile_definitions(test_${name} PRIVATE
    INFERNO_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
    INFERNO_MODELS="${PROJECT_SOURCE_DIR}/models")
  set(label "${name}")
  set(filter "")
  set(starts_threads FALSE)
  if("THREADS" IN_LIST ARGN)
    set(starts_threads TRUE)
  endif()
  foreach(source IN LISTS arg_SOURCES)
    file(STRINGS "${source}" threads REGEX "#include <(thread|future|pthread\\.h)>" LIMIT_COUNT 1)
    if(threads)
      set(starts_threads TRUE)
    endif()
  endforeach()
  if(arg_LONG)
    string(APPEND label "+long")
  endif()
  if(starts_threads)
    string(APPEND label "+threads")
    if(NOT TARGET threaded_tests)
      add_custom_target(threaded_tests)
    endif()
    add_dependencies(threaded_tests test_${name})
  endif()
  if(INFERNO_SANITIZE)
    # One process for all cases: a sanitizer's start, and what a case reads first (a vocabulary of 150,000
    # tokens), take longer than most cases.
    if(INFERNO_SANITIZE MATCHES "thread" AND arg_THREADS)
      set(filter "--gtest_filter=${arg_THREADS}")
    endif()
    add_test(NAME ${name} COMMAND test_${name} --gtest_brief=1 ${filter})
    set_tests_properties(${name} PROPERTIES TIMEOUT 1800 LABELS "${label}")
  else()
    gtest_discover_tests(test_${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
      PROPERTIES TIMEOUT 600 LABELS "${label}")
  endif()
endfunction()

# inferno_fuzz(NAME SOURCES a.cpp ... [DEPENDS lib ...])
#   the libFuzzer program fuzz_NAME, part of the target `fuzz_targets`; its seeds are the files of
#   tests/fuzz/corpus/NAME.
function(inferno_fuzz name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(fuzz_${name} ${arg_SOURCES})
  target_link_libraries(fuzz_${name} PRIVATE ${arg_DEPENDS} inferno_flags)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  if(NOT TARGET fuzz_targets)
    add_custom_target(fuzz_targets)
  endif()
  add_dependencies(fuzz_targets fuzz_${name})
endfunction()
