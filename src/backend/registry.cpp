#include "backend/registry.hpp"

#include <array>
#include <exception>
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

/// What a backend computes with.
enum class Runs : std::uint8_t {
  on_one_thread,
  on_threads,
  on_device,             ///< a GPU, by itself
  on_threads_and_device  ///< a CPU that a GPU helps
};

}  // namespace

/// One backend: what it would run on here, and how it is made. Names that stand for a choice between
/// backends are not in the table of these.
struct Backend {
  std::string_view name;
  Runs runs;
  /// The device, or the reason why there is none; does not create anything costly.
  BackendStatus (*probe)(std::string_view name);
  Offer (*create)(const LoadedModel& model, const BackendOptions& options);

  bool takes_threads() const { return runs == Runs::on_threads || runs == Runs::on_threads_and_device; }
  bool has_devices() const { return runs == Runs::on_device || runs == Runs::on_threads_and_device; }
};

namespace {

BackendStatus probe_scalar(std::string_view name) {
  return {std::string(name), true, std::string(scalar::ScalarExecutor::kDevice), {}};
}

Offer create_scalar(const LoadedModel& model, const BackendOptions& /*options*/) {
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
    {"scalar", Runs::on_one_thread, probe_scalar, create_scalar},
    {"reference", Runs::on_one_thread, probe_reference, create_reference},
    {"simd", Runs::on_one_thread, probe_cpu<cpu::Threading::serial>, create_simd},
    {"parallel", Runs::on_threads, probe_cpu<cpu::Threading::spawning>, create_parallel},
    {"pool", Runs::on_threads, probe_cpu<cpu::Threading::pool>, create_pool},
    {"hybrid", Runs::on_threads_and_device, vulkan::probe_hybrid, vulkan::create_hybrid},
    // Another name for hybrid.
    {"metal", Runs::on_threads_and_device, vulkan::probe_hybrid, vulkan::create_hybrid},
    {"vulkan", Runs::on_device, vulkan::probe, vulkan::create},
    {"cuda", Runs::on_device, cuda::probe, cuda::create},
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

void append(std::string& reasons, std::string_view reason) {
  reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", reason);
}

/// A backend that cannot even be asked is one line of the list, not the end of it.
BackendStatus status_of(const Backend& backend) {
  try {
    return backend.probe(backend.name);
  } catch (const std::exception& error) {
    return {std::string(backend.name), false, {}, error.what()};
  }
}

BackendStatus status_of(const Preference& preference) {
  std::string reasons;
  for (const auto name : preference.order) {
    const BackendStatus status = status_of(*find_backend(name));
    if (status.available) {
      return {std::string(preference.name), true, fmt::format("{}: {}", name, status.device), {}};
    }
    append(reasons, fmt::format("{}: {}", name, status.reason));
  }
  return {std::string(preference.name), false, {}, reasons};
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

bool takes_threads(std::string_view backend) {
  const Backend* found = find_backend(backend);
  return found != nullptr && found->takes_threads();
}

BackendChoice::BackendChoice(std::string_view name, const LoadedModel& model, const BackendOptions& options)
    : name_(name), model_(&model), options_(options) {
  if (options.threads > cpu::kMaxThreads) {
    throw UsageError(
        fmt::format("{} threads were asked for; expected at most {}", options.threads, cpu::kMaxThreads));
  }
  if (const Preference* preference = find_preference(name)) {
    leaves_choice_ = true;
    options_.software = false;
    for (const auto of : preference->order) {
      const Backend* backend = find_backend(of);
      // Whoever names a device wants that one, and no CPU in its place.
      if (backend->has_devices() || !options.device) order_.push_back(backend);
    }
    return;
  }
  order_.push_back(find_backend(name));
  if (order_.front() == nullptr) {
    throw UsageError(fmt::format("unknown backend {}; expected one of {}", quote(name), known_names()));
  }
}

void BackendChoice::add_reason(const Backend& backend, std::string_view reason) {
  append(reasons_, leaves_choice_ ? fmt::format("{}: {}", backend.name, reason) : std::string(reason));
}

std::unique_ptr<Executor> BackendChoice::next(std::string_view why) {
  if (next_ > 0) {
    add_reason(given(), why);
    has_replaced_ = true;
  }
  while (next_ < order_.size()) {
    const Backend& backend = *order_[next_++];
    if (!backend.has_devices() && options_.device.value_or(0) != 0) {
      add_reason(backend, fmt::format("it has one device, number 0; {} was asked for", *options_.device));
      continue;
    }
    Offer offer = backend.create(*model_, options_);
    if (!offer.executor) {
      add_reason(backend, offer.reason);
      continue;
    }
    if (backend.runs == Runs::on_one_thread && options_.threads > 1) {
      log().warn("{} runs on one thread; the {} asked for are not used", backend.name, options_.threads);
    } else if (backend.runs == Runs::on_device && options_.threads > 0 && !leaves_choice_) {
      log().warn("{} computes on its device; the {} threads asked for are used only if that is lost",
                 backend.name, options_.threads);
    }
    return std::move(offer.executor);
  }
  if (!leaves_choice_) throw Error(fmt::format("backend {} cannot be used here: {}", name_, reasons_));
  if (options_.device) {
    throw Error(fmt::format("{} finds no GPU number {}: {}", name_, *options_.device, reasons_));
  }
  throw Error(fmt::format("no backend works for {}: {}", name_, reasons_));
}

bool BackendChoice::may_go_on() const {
  return next_ > 0 && next_ < order_.size() && given().has_devices();
}

std::string BackendChoice::all_reasons(std::string_view why) const {
  if (!has_replaced_) return std::string(why);
  return fmt::format("no backend works for {}: {}; {}: {}", name_, reasons_, given().name, why);
}

void BackendChoice::settle() {
  if (reasons_ == said_) return;
  said_ = reasons_;
  log().info("running on {}: {}", given().has_devices() ? given().name : "the CPU", reasons_);
}

void use_or_replace(BackendChoice& choice, std::unique_ptr<Executor>& executor,
                    const std::function<void(Executor&)>& use) {
  for (;;) {
    std::string why;
    try {
      use(*executor);
      return choice.settle();
    } catch (const UsageError&) {
      throw;  // nobody else could do it either
    } catch (const Error& error) {
      why = error.what();  // outlives the executor
      if (!choice.may_go_on()) {
        if (const auto all = choice.all_reasons(why); all != why) throw Error(all);
        throw;
      }
    }
    executor.reset();
    executor = choice.next(why);
  }
}

std::vector<BackendStatus> list_backends() {
  std::vector<BackendStatus> list;
  list.reserve(kBackends.size() + kPreferences.size());
  for (const Backend& backend : kBackends) list.push_back(status_of(backend));
  for (const Preference& preference : kPreferences) list.push_back(status_of(preference));
  return list;
}

std::unique_ptr<Executor> create_executor(std::string_view name, const LoadedModel& model,
                                          const BackendOptions& options) {
  BackendChoice choice(name, model, options);
  auto executor = choice.next();
  choice.settle();
  return executor;
}

}  // namespace inferno
