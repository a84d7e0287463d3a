#include "step/result.hpp"

namespace inferno {

std::string_view row_status_name(RowStatus status) {
  switch (status) {
    case RowStatus::ok:
      return "ok";
    case RowStatus::stopped:
      return "stopped";
    case RowStatus::skipped:
      return "skipped";
    case RowStatus::cancelled:
      return "cancelled";
    case RowStatus::failed:
      return "failed";
  }
  return "unknown";
}

}  // namespace inferno
