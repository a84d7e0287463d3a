#pragma once

namespace inferno {

/// Lets other threads go first on processors that are busy; on idle ones nothing changes. For the calling
/// thread, from now on. Does nothing where the system cannot tell threads apart.
void lower_thread_priority();

}  // namespace inferno
