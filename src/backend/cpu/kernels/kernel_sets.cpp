#include <array>
#include <cstdlib>
#include <string>

#include <inferno/error.hpp>

#include "backend/cpu/kernels/kernel_set.hpp"
#include "backend/cpu/kernels/sets.hpp"

namespace inferno::cpu {
namespace {

constexpr const char* kVariable = "INFERNO_KERNELS";

std::string names(bool (*wanted)(const KernelSet& set)) {
  std::string list;
  for (const auto* set : kernel_sets()) {
    if (!wanted(*set)) continue;
    if (!list.empty()) list += ", ";
    list += set->name;
  }
  return list;
}

const KernelSet& named_set(std::string_view name) {
  for (const auto* set : kernel_sets()) {
    if (set->name != name) continue;
    if (set->supported()) return *set;
    throw Error(std::string(kVariable) + "=" + std::string(name) + " needs a processor with " +
                std::string(set->needs) + "; this one can run " +
                names([](const KernelSet& other) { return other.supported(); }));
  }
  throw UsageError(std::string(kVariable) + "=" + std::string(name) +
                   " names no kernels of this build; it has " + names([](const KernelSet&) { return true; }));
}

}  // namespace

std::span<const KernelSet* const> kernel_sets() {
#if defined(__x86_64__)
  static constexpr std::array kSets{&kAmx, &kAvx512Vnni, &kAvxVnni, &kAvx2, &kSse2, &kPlain};
#elif defined(__aarch64__)
  static constexpr std::array kSets{&kNeonDot, &kNeon, &kPlain};
#else
  static constexpr std::array kSets{&kPlain};
#endif
  return kSets;
}

const KernelSet& best_kernel_set() {
  const char* name = std::getenv(kVariable);
  if (name != nullptr && *name != '\0') return named_set(name);
  for (const auto* set : kernel_sets()) {
    if (set->supported()) return *set;
  }
  return kPlain;
}

}  // namespace inferno::cpu
