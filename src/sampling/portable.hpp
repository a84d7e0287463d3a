#ifndef INFERNO_SAMPLING_PORTABLE_HPP_
#define INFERNO_SAMPLING_PORTABLE_HPP_

#include "arith/portable.hpp"

// What the sampler's arithmetic takes of the ground that all portable code stands on.

#if defined(__cplusplus)
namespace inferno::sampling {

using arith::float_bits;
using arith::float_from_bits;
using arith::multiply;
using arith::multiply_high;
using arith::uint;

}  // namespace inferno::sampling
#endif

#endif  // INFERNO_SAMPLING_PORTABLE_HPP_
