#pragma once

#include <cstddef>
#include <span>

namespace inferno {

/// Brings anonymous memory in now rather than when it is touched, by as many threads as there are processors,
/// and returns when it is there. The first touch of a huge page can take the system several milliseconds
/// (zeroing it, and on a virtual machine asking the host for it): longer than a decode step of a small model.
/// Nothing in the memory changes, and others may use it meanwhile. Where the system cannot do it nothing
/// happens and pages come when they are touched.
void populate_pages(std::span<std::byte> pages);

}  // namespace inferno
