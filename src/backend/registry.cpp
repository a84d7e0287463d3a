#include "backend/registry.hpp"

#include <array>
#include <fmt/format.h>
#include <optional>
#include <span>

#include <inferno/error.hpp>

#include "backend/cpu/cpu_backends.hpp"
#include "backend/cpu/parallel/policy.hpp"
#include "backend/cpu/reference/executor.hpp"
#include "backend/cpu/scalar/executor.hpp"
#include "backend/cuda/offer.hpp"
#include "backend/vulkan/offer.hpp"
#include "platform/log.hpp"
#include "platform/quote.hpp"

namespace inferno {
namespace {

/// One backend: what it would run on here, and how it is made. Names that stand for a choice between
/// backends are not in this table.
struct Backend {
  std::string_view name;
  /// The device, or the reason why there is none; does not create anything costly.
  BackendStatus (*probe)(std::string_view name);
  Offer (*create)(const LoadedModel& model, const BackendOptions& options);
};

BackendStatus probe_scalar(std::string_view name) {
  return {std::string(name), true, std::string(scalar::ScalarExecutor::kDevice), {}};
}

Offer create_scalar(const LoadedModel& model, const BackendOptions& options) {
  if (options.device.value_or(0) != 0) {
    return {nullptr, fmt::format("it has one device, number 0; {} was asked for", *options.device)};
  }
  if (options.threads > 1) {
    log().warn("scalar runs on one thread; the {} threads asked for are not used", options.threads);
  }
  return {std::make_unique<scalar::ScalarExecutor>(model), {}};
}

BackendStatus probe_reference(std::string_view name) {
  return {std::string(name), true, std::string(reference::ReferenceExecutor::kDevice), {}};
}

Offer create_reference(const LoadedModel& model, const BackendOptions& /*options*/) {
  return {std::make_unique<reference::ReferenceExecutor>(model), {}};
}

template <cpu::Threading kThreading>
BackendStatus probe_cpu(std::string_view name) {
  return cpu::probe(name, kThreading);
}

Offer create_simd(const LoadedModel& model, const BackendOptions& options) {
  return cpu::create("simd", cpu::Threading::serial, model, options);
}

Offer create_parallel(const LoadedModel& model, const BackendOptions& options) {
  return cpu::create("parallel", cpu::Threading::spawning, model, options);
}

Offer create_pool(const LoadedModel& model, const BackendOptions& options) {
  return cpu::create("pool", cpu::Threading::pool, model, options);
}

constexpr std::array<Backend, 9> kBackends = {{
    {"scalar", probe_scalar, create_scalar},
    {"reference", probe_reference, create_reference},
    {"simd", probe_cpu<cpu::Threading::serial>, create_simd},
    {"parallel", probe_cpu<cpu::Threading::spawning>, create_parallel},
    {"pool", probe_cpu<cpu::Threading::pool>, create_pool},
    {"hybrid", vulkan::probe_hybrid, vulkan::create_hybrid},
    {"metal", vulkan::probe_hybrid, vulkan::create_hybrid},  // another name for hybrid
    {"vulkan", vulkan::probe, vulkan::create},
    {"cuda", cuda::probe, cuda::create},
}};

/// A name that takes the first backend of a list that works.
struct Preference {
  std::string_view name;
  std::span<const std::string_view> order;
};

constexpr std::array<std::string_view, 3> kGpuOrder = {"cuda", "vulkan", "pool"};
// Not scalar: its arithmetic is another, and whoever asked for nothing must not get other bits than
// everybody.
constexpr std::array<std::string_view, 4> kAutoOrder = {"cuda", "vulkan", "pool", "simd"};
constexpr std::array<Preference, 2> kPreferences = {{{"gpu", kGpuOrder}, {"auto", kAutoOrder}}};

const Backend* find_backend(std::string_view name) {
  for (const Backend& backend : kBackends) {
    if (backend.name == name) return &backend;
  }
  return nullptr;
}

const Preference* find_preference(std::string_view name) {
  for (const Preference& preference : kPreferences) {
    if (preference.name == name) return &preference;
  }
  return nullptr;
}

/// Reasons so far as one line: "cuda: not part of this build; vulkan: no device".
void add_reason(std::string& reasons, std::string_view name, std::string_view reason) {
  reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", name, reason);
}

BackendStatus probe_preference(const Preference& preference) {
  std::string reasons;
  for (const auto name : preference.order) {
    const BackendStatus status = find_backend(name)->probe(name);
    if (status.available) {
      return {std::string(preference.name), true, fmt::format("{}: {}", name, status.device), {}};
    }
    add_reason(reasons, name, status.reason);
  }
  return {std::string(preference.name), false, {}, reasons};
}

std::unique_ptr<Executor> create_preferred(const Preference& preference, const LoadedModel& model,
                                           const BackendOptions& options) {
  std::string reasons;
  for (const auto name : preference.order) {
    Offer offer = find_backend(name)->create(model, options);
    if (offer.executor) {
      // Whoever asked for a GPU is told why it is none; whoever asked for nothing need not be.
      const auto level = preference.name == "gpu" ? spdlog::level::info : spdlog::level::debug;
      if (!reasons.empty()) log().log(level, "backend {} takes {} ({})", preference.name, name, reasons);
      return std::move(offer.executor);
    }
    add_reason(reasons, name, offer.reason);
  }
  throw Error(fmt::format("no backend works for {}: {}", preference.name, reasons));
}

std::string known_names() {
  std::string names;
  for (const Backend& backend : kBackends) names += fmt::format("{}, ", backend.name);
  for (const Preference& preference : kPreferences) {
    names += fmt::format("{}{}", preference.name, &preference == &kPreferences.back() ? "" : ", ");
  }
  return names;
}

}  // namespace

std::vector<BackendStatus> list_backends() {
  std::vector<BackendStatus> list;
  list.reserve(kBackends.size() + kPreferences.size());
  for (const Backend& backend : kBackends) list.push_back(backend.probe(backend.name));
  for (const Preference& preference : kPreferences) list.push_back(probe_preference(preference));
  return list;
}

std::unique_ptr<Executor> create_executor(std::string_view name, const LoadedModel& model,
                                          const BackendOptions& options) {
  if (options.threads > cpu::kMaxThreads) {
    throw UsageError(
        fmt::format("{} threads were asked for; expected at most {}", options.threads, cpu::kMaxThreads));
  }
  const Preference* preference = find_preference(name);
  if (preference != nullptr) return create_preferred(*preference, model, options);
  const Backend* backend = find_backend(name);
  if (backend == nullptr) {
    throw UsageError(fmt::format("unknown backend {}; expected one of {}", quote(name), known_names()));
  }
  Offer offer = backend->create(model, options);
  if (!offer.executor) throw Error(fmt::format("backend {} cannot be used here: {}", name, offer.reason));
  return std::move(offer.executor);
}

}  // namespace inferno
