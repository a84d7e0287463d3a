# Whether the CUDA module is built. AUTO: if nvcc is found and this is an ordinary build for this machine; ON: it must
# be; OFF: it is not, and `inferno backends` says so.
set(INFERNO_CUDA AUTO CACHE STRING "build the CUDA module: AUTO, ON or OFF")
set_property(CACHE INFERNO_CUDA PROPERTY STRINGS AUTO ON OFF)
set(INFERNO_CUDA_ARCHITECTURES "80;90a" CACHE STRING
  "compute capabilities that the CUDA module has machine code for; the first is there as PTX, too")

set(INFERNO_CUDA_FOUND OFF)
if(INFERNO_CUDA STREQUAL "ON" OR (INFERNO_CUDA STREQUAL "AUTO" AND NOT CMAKE_CROSSCOMPILING AND NOT INFERNO_SANITIZE))
  # What the compiler is tried with; the module's own architectures are set below.
  list(TRANSFORM INFERNO_CUDA_ARCHITECTURES APPEND "-real" OUTPUT_VARIABLE CMAKE_CUDA_ARCHITECTURES)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(INFERNO_CUDA_FOUND ON)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 knows of C++17 for nvcc
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    list(GET INFERNO_CUDA_ARCHITECTURES 0 ptx_architecture)
    list(APPEND CMAKE_CUDA_ARCHITECTURES "${ptx_architecture}-virtual")
  elseif(INFERNO_CUDA STREQUAL "ON")
    message(FATAL_ERROR "INFERNO_CUDA is ON, but there is no nvcc: add it to PATH, or set CMAKE_CUDA_COMPILER")
  endif()
endif()
