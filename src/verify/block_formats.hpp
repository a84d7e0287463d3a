#pragma once

#include <vector>

#include "model/loaded_model.hpp"
#include "quant/format.hpp"
#include "verify/verify.hpp"

namespace inferno::verify {

/// Compares `format.decode` with the independent definition on `samples` blocks of pseudo-random bytes (every
/// scale and code occurs: infinities, NaNs and denormals too) and on the first blocks of each of the model's
/// tensors of this format. They must be equal, bit for bit but for the kind of NaN.
Rung check_format(const quant::Format& format, const LoadedModel& model);

}  // namespace inferno::verify
