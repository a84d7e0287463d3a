#pragma once

#include <string>

#include "backend/cuda/module.hpp"

namespace inferno::cuda {

/// The CUDA module of this process, or why there is none.
struct Library {
  const Module* module = nullptr;
  std::string reason;  ///< empty if there is a module with at least one device
  int devices = 0;
};

/// Looks for the module, loads it and asks for devices; once, the answer holds for the life of the process.
/// The file is INFERNO_CUDA_MODULE's if that is set, else the first found beside the program, above it (test
/// programs), in ../lib/inferno and in that of the configured prefix.
const Library& library();

}  // namespace inferno::cuda
