#include "platform/thread_priority.hpp"

#include <sys/resource.h>

namespace inferno {

void lower_thread_priority() {
#ifdef __linux__
  // Here 0 names the calling thread; elsewhere it would be the whole process. About a tenth of what a thread
  // of normal priority gets. What fails changes nothing that anybody relies on.
  constexpr int kNice = 10;
  setpriority(PRIO_PROCESS, 0, kNice);
#endif
}

}  // namespace inferno
