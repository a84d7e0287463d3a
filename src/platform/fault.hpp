#pragma once

#include <string_view>

/// Faults on demand, so that paths which need broken hardware can be tested.
/// `INFERNO_FAULT=name[:k][,name[:k]...]` makes the k-th arrival (default 1, counted from 1) at the
/// named place fail, once; it is read once, at the first question. Compiled in with INFERNO_FAULTS
/// (debug and test builds) only: elsewhere `hit` is always false and costs nothing.
namespace inferno::fault {

inline constexpr std::string_view kAllocation = "alloc";   ///< an executor's reserve allocation
inline constexpr std::string_view kSubmission = "submit";  ///< a submission is refused by the device
inline constexpr std::string_view kDeviceLost = "lost";    ///< the device disappears in mid-work
inline constexpr std::string_view kCapture = "capture";    ///< recording a command buffer or graph fails

#ifdef INFERNO_FAULTS
inline constexpr bool kCompiledIn = true;
/// Counts an arrival at `place`; true if this one is to fail.
bool hit(std::string_view place);
/// Replaces what is armed, as INFERNO_FAULT would ("" disarms), and restarts the counts. For tests.
void arm(std::string_view specification);
#else
inline constexpr bool kCompiledIn = false;
inline bool hit(std::string_view) {
  return false;
}
inline void arm(std::string_view) {}
#endif

}  // namespace inferno::fault
