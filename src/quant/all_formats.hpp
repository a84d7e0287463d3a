#pragma once

#include "quant/format.hpp"

/// The formats by name, for `formats()`; everybody else asks that. Each is defined in the file of its name.
namespace inferno::quant {

extern const Format kF32;
extern const Format kF16;
extern const Format kQ4_0;
extern const Format kQ5_0;
extern const Format kQ8_0;
extern const Format kBF16;

}  // namespace inferno::quant
