#pragma once

#include "backend/cuda/module/plans.hpp"

namespace inferno::cuda {

// attend for heads of 64 and 128 elements and cache blocks of 256 positions: of any tiles, and of tiles of
// one token.
Launch plan_attend_tiles(const Command& command);
Launch plan_attend_rows(const Command& command);

}  // namespace inferno::cuda
