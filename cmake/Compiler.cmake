# Language level, warnings and floating-point rules that every target of the project shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(INFERNO_CCACHE ccache)
if(INFERNO_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${INFERNO_CCACHE}")
endif()

# A contracted multiply-add rounds once where the arithmetic contract rounds twice: results would
# differ between processors. -ffast-math is never used for the same reason.
add_library(inferno_flags INTERFACE)
target_compile_options(inferno_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -ffp-contract=off)
if(INFERNO_SANITIZE)
  add_compile_options(-fsanitize=${INFERNO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${INFERNO_SANITIZE})
endif()
if(INFERNO_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "INFERNO_FUZZ needs clang (libFuzzer comes with it), found ${CMAKE_CXX_COMPILER_ID}: "
                        "configure with -DCMAKE_CXX_COMPILER=clang++-16, or cmake --preset fuzz")
  endif()
  # Coverage counters in every module, so that the fuzzer sees which input reaches new code.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
