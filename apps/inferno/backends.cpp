#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "backend/registry.hpp"
#include "command.hpp"

namespace inferno::cli {
namespace {

/// Each device once: those of hybrid are Vulkan's.
bool lists_devices(const BackendStatus& backend) {
  return !backend.devices.empty() && backend.name != "hybrid" && backend.name != "metal";
}

void print_table(const std::vector<BackendStatus>& backends) {
  for (const auto& backend : backends) {
    fmt::print("{:<10} {:<4} {}\n", backend.name, backend.available ? "yes" : "no",
               backend.available ? backend.device : backend.reason);
  }
  for (const auto& backend : backends) {
    if (!lists_devices(backend)) continue;
    fmt::print("\n{} devices, for --device:\n", backend.name);
    int number = 0;
    for (const auto& device : backend.devices) fmt::print("{:>4}  {}\n", number++, device);
  }
}

void print_json(const std::vector<BackendStatus>& backends) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& backend : backends) {
    list.push_back({{"name", backend.name},
                    {"available", backend.available},
                    {"device", backend.device},
                    {"reason", backend.reason},
                    {"devices", backend.devices}});
  }
  fmt::print("{}\n", list.dump(2));
}

}  // namespace

void add_backends(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("backends", "list the backends, what they would run on here, or why they cannot");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "as JSON");
  set_examples(*command, "  inferno backends\n  inferno backends --json");
  command->callback([&action, json] {
    action = [json] {
      const auto backends = list_backends();
      *json ? print_json(backends) : print_table(backends);
      return 0;
    };
  });
}

}  // namespace inferno::cli
