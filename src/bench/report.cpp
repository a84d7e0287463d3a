#include "bench/report.hpp"

#include <fmt/format.h>
#include <iterator>

namespace inferno::bench {
namespace {

nlohmann::ordered_json to_json(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}

double percent(double share) {
  return 100.0 * share;
}

/// A figure that is 0 because it is not known.
nlohmann::ordered_json known(double value) {
  return value == 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(value);
}

/// What the model's matrix products are compared with.
std::string prefill_limit(const Result& result) {
  const auto& operations = result.prefill_operations;
  if (operations.float32 == 0) return fmt::format("{:.1f} int8 GOP/s", result.machine.int8_gops);
  if (operations.int8 == 0) return fmt::format("{:.1f} float GFLOP/s", result.machine.fp32_gflops);
  return "the int8 and float peaks";
}

std::string machine_line(const MachineLimits& machine) {
  if (machine.threads == 0) {
    if (machine.read_gb_per_second == 0) return "the device, whose limits this backend cannot measure";
    return fmt::format("the device: read {:.1f} GB/s, int8 {:.1f} GOP/s ({}), float {:.1f} GFLOP/s ({})",
                       machine.read_gb_per_second, machine.int8_gops, machine.int8_kernel,
                       machine.fp32_gflops, machine.fp32_kernel);
  }
  return fmt::format("{} thread{}: read {:.1f} GB/s, int8 {:.1f} GOP/s ({}), float {:.1f} GFLOP/s ({})",
                     machine.threads, machine.threads == 1 ? "" : "s", machine.read_gb_per_second,
                     machine.int8_gops, machine.int8_kernel, machine.fp32_gflops, machine.fp32_kernel);
}

std::string workload_line(const Workload& workload) {
  return fmt::format(
      "{} row{}, prompt {}, {} tokens from depth {}, kv {}, {} step{} a submission; median of {}",
      workload.rows, workload.rows == 1 ? "" : "s", workload.prompt, workload.gen, workload.depth_or_prompt(),
      kv_kind_name(workload.kv), workload.steps_per_submit, workload.steps_per_submit == 1 ? "" : "s",
      workload.repeats);
}

}  // namespace

nlohmann::ordered_json to_json(const MachineLimits& machine) {
  return {{"read_gb_per_second", known(machine.read_gb_per_second)},
          {"int8_gops", known(machine.int8_gops)},
          {"fp32_gflops", known(machine.fp32_gflops)},
          {"threads", machine.threads},
          {"buffer_bytes", machine.buffer_bytes},
          {"int8_kernel", machine.int8_kernel},
          {"fp32_kernel", machine.fp32_kernel}};
}

nlohmann::ordered_json to_json(const Result& result) {
  const auto& workload = result.workload;
  const bool unmeasured = result.machine.threads == 0 && result.machine.read_gb_per_second == 0;
  const auto share = [unmeasured](double value) {
    return unmeasured ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(value);
  };
  return {{"backend", result.backend},
          {"device", result.device},
          {"model", result.model},
          {"rows", workload.rows},
          {"prompt", workload.prompt},
          {"gen", workload.gen},
          {"depth", workload.depth_or_prompt()},
          {"kv", kv_kind_name(workload.kv)},
          {"cache_format", result.cache_format},
          {"steps_per_submit", workload.steps_per_submit},
          {"prefill_chunk", workload.prefill_chunk},
          {"repeats", workload.repeats},
          {"prefill_tokens_per_second", result.prefill_tokens_per_second.median},
          {"decode_tokens_per_second", result.decode_tokens_per_second.median},
          {"prefill_spread", to_json(result.prefill_tokens_per_second)},
          {"decode_spread", to_json(result.decode_tokens_per_second)},
          {"prefill_gops", result.prefill_gops},
          {"prefill_share", share(result.prefill_share)},
          {"decode_gb_per_second", result.decode_gb_per_second},
          {"decode_share", share(result.decode_share)},
          {"weight_bytes_per_step", result.weight_bytes_per_step},
          {"cache_bytes_per_step", result.cache_bytes_per_step},
          {"machine", to_json(result.machine)},
          {"submissions_per_token", result.submissions_per_token},
          {"stages_per_token", result.stages_per_token},
          {"dispatches_per_token", result.dispatches_per_token}};
}

nlohmann::ordered_json to_json(std::span<const LadderEntry> ladder) {
  auto entries = nlohmann::ordered_json::array();
  nlohmann::ordered_json machine;
  for (const auto& entry : ladder) {
    if (entry.result) {
      entries.push_back(to_json(*entry.result));
      machine = to_json(entry.result->machine);
    } else {
      entries.push_back({{"backend", entry.backend}, {"available", false}, {"reason", entry.reason}});
    }
  }
  return {{"ladder", entries}, {"machine", machine}};
}

std::string to_text(const Result& result) {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "model    {}\nbackend  {}: {}\nmachine  {}\nwork     {}\n\n", result.model,
                 result.backend, result.device, machine_line(result.machine), workload_line(result.workload));
  fmt::format_to(out, "{:<8} {:>12} {:>12} {:>12}  {}\n", "", "tokens/s", "min", "max",
                 "of the machine's limit");
  const auto row = [&](std::string_view name, const Spread& spread, const std::string& share) {
    fmt::format_to(out, "{:<8} {:>12.2f} {:>12.2f} {:>12.2f}  {}\n", name, spread.median, spread.min,
                   spread.max, share);
  };
  if (result.workload.prompt > 0) {
    row("prefill", result.prefill_tokens_per_second,
        result.prefill_share == 0
            ? fmt::format("{:.1f} GOP/s in matrix products", result.prefill_gops)
            : fmt::format("{:.1f} GOP/s in matrix products: {:.1f} % of {}", result.prefill_gops,
                          percent(result.prefill_share), prefill_limit(result)));
  }
  if (result.workload.gen > 0) {
    row("decode", result.decode_tokens_per_second,
        result.decode_share == 0
            ? fmt::format("{:.2f} GB/s", result.decode_gb_per_second)
            : fmt::format("{:.2f} GB/s: {:.1f} % of {:.1f} GB/s read", result.decode_gb_per_second,
                          percent(result.decode_share), result.machine.read_gb_per_second));
    fmt::format_to(
        out,
        "\na decode step reads {:.2f} MB of weights and {:.2f} MB of cache ({}); a token takes {:.4g} "
        "submissions, {:.4g} stages, {:.4g} dispatches\n",
        static_cast<double>(result.weight_bytes_per_step) / 1e6, result.cache_bytes_per_step / 1e6,
        result.cache_format, result.submissions_per_token, result.stages_per_token,
        result.dispatches_per_token);
  }
  return text;
}

std::string to_text(std::span<const LadderEntry> ladder) {
  std::string text;
  auto out = std::back_inserter(text);
  for (const auto& entry : ladder) {
    if (!entry.result) continue;
    fmt::format_to(out, "model    {}\nmachine  {}\nwork     {}\n\n", entry.result->model,
                   machine_line(entry.result->machine), workload_line(entry.result->workload));
    break;
  }
  fmt::format_to(out, "{:<10} {:>14} {:>9} {:>9} {:>14} {:>9} {:>9}\n", "backend", "prefill tok/s", "GOP/s",
                 "of peak", "decode tok/s", "GB/s", "of read");
  for (const auto& entry : ladder) {
    if (!entry.result) {
      fmt::format_to(out, "{:<10} not available: {}\n", entry.backend, entry.reason);
      continue;
    }
    const auto& result = *entry.result;
    fmt::format_to(out, "{:<10} {:>14.2f} {:>9.1f} {:>7.1f} % {:>14.2f} {:>9.2f} {:>7.1f} %\n",
                   result.backend, result.prefill_tokens_per_second.median, result.prefill_gops,
                   percent(result.prefill_share), result.decode_tokens_per_second.median,
                   result.decode_gb_per_second, percent(result.decode_share));
  }
  return text;
}

}  // namespace inferno::bench
