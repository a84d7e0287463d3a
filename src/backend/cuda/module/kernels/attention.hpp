#pragma once

#include "backend/cuda/module/plans.hpp"

namespace inferno::cuda {

/// Workgroups of a dispatch whose size only the device knows: they take its workgroups in turn.
inline constexpr unsigned kIndirectGroups = 132 * 6;

/// attend on the tensor cores; no function if the shape is not for them.
Launch plan_attend_tiles(const Command& command);

}  // namespace inferno::cuda
