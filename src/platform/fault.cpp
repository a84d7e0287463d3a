#include "platform/fault.hpp"

#ifdef INFERNO_FAULTS

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace inferno::fault {
namespace {

struct Switch {
  unsigned long fails_at = 1;
  unsigned long arrivals = 0;
};

std::mutex mutex;
std::map<std::string, Switch, std::less<>> switches;
bool read = false;

void parse(std::string_view specification) {
  switches.clear();
  while (!specification.empty()) {
    const auto comma = specification.find(',');
    const std::string entry(specification.substr(0, comma));
    specification = comma == std::string_view::npos ? std::string_view{} : specification.substr(comma + 1);
    const auto colon = entry.find(':');
    Switch armed;
    if (colon != std::string::npos) armed.fails_at = std::strtoul(entry.c_str() + colon + 1, nullptr, 10);
    switches[entry.substr(0, colon)] = armed;
  }
}

}  // namespace

bool hit(std::string_view place) {
  const std::lock_guard lock(mutex);
  if (!read) {
    read = true;
    if (const char* environment = std::getenv("INFERNO_FAULT")) parse(environment);
  }
  const auto found = switches.find(place);
  return found != switches.end() && ++found->second.arrivals == found->second.fails_at;
}

void arm(std::string_view specification) {
  const std::lock_guard lock(mutex);
  read = true;
  parse(specification);
}

}  // namespace inferno::fault

#endif
