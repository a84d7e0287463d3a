// What the kernels of a decode step cost on a Vulkan device, each in a chain of its own with a barrier behind
// every dispatch, as in a step: microseconds per dispatch, at the shape of Qwen3-0.6B in Q8_0, weights of 28
// layers in turn so that no cache holds them. The first lines are what a chain costs whose kernels do nothing
// much.
//
//   bench_vulkan [DEVICE [NAME]]    NAME: only chains with it in their names

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "arith/constants.hpp"
#include "backend/gpu/device.hpp"
#include "backend/vulkan/open_device.hpp"

namespace inferno::gpu {
namespace {

constexpr std::uint32_t kLayers = 28;
constexpr std::uint32_t kHidden = 1024;
constexpr std::uint32_t kFfn = 3072;
constexpr std::uint32_t kHeads = 16;
constexpr std::uint32_t kKvHeads = 8;
constexpr std::uint32_t kHead = 128;
constexpr std::uint32_t kVocab = 151936;
constexpr std::uint32_t kBlock = 256;
constexpr std::uint32_t kRounds = 8;  // of all layers in a recording
constexpr int kRepeats = 5;
constexpr std::chrono::milliseconds kWarmUp{100};
constexpr float kEpsilon = 1e-6F;

std::uint64_t packed(std::uint32_t rows, std::uint32_t columns) {
  return std::uint64_t{divide_up(rows, kPanel)} * divide_up(columns, kPadColumns) * 17 * 128;
}

class Bench {
 public:
  /// Only chains with `only` in their names are run.
  Bench(Device& device, std::string only) : device_(device), only_(std::move(only)) {}

  std::unique_ptr<Buffer> random(std::uint64_t bytes) {
    std::vector<std::uint32_t> words(bytes / 4);
    // Halves and floats of any bytes are numbers here: no exponent is all ones.
    for (auto& word : words) word = static_cast<std::uint32_t>(engine_()) & 0xBFFFBBFFU;
    auto buffer = device_.create_buffer(bytes, Memory::device, "a benchmark");
    device_.upload(*buffer, std::as_bytes(std::span(words)));
    return buffer;
  }
  std::unique_ptr<Buffer> floats(std::uint64_t count) {
    std::vector<float> values(count);
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(engine_);
    auto buffer = device_.create_buffer(count * 4, Memory::device, "a benchmark");
    device_.upload(*buffer, std::as_bytes(std::span(values)));
    return buffer;
  }
  std::unique_ptr<Buffer> zeros(std::uint64_t bytes) {
    return device_.create_buffer(bytes, Memory::device, "a benchmark");
  }
  std::unique_ptr<Buffer> words(std::initializer_list<std::uint32_t> values) {
    auto buffer = device_.create_buffer(values.size() * 4, Memory::device, "a benchmark");
    device_.upload(*buffer, std::as_bytes(std::span(values.begin(), values.size())));
    return buffer;
  }

  /// `encode(recorder, i)` for i below `count`; the shortest of a few runs, per dispatch.
  void chain(const std::string& name, std::uint32_t count,
             const std::function<void(Recorder&, std::uint32_t)>& encode, bool barriers = true) {
    if (name.find(only_) == std::string::npos) return;
    const auto recorder = device_.record();
    for (std::uint32_t i = 0; i < count; ++i) {
      encode(*recorder, i);
      if (barriers) recorder->barrier();
    }
    const auto recording = recorder->finish();
    // A card that had nothing to do takes a while to run at its full clock.
    const auto end = std::chrono::steady_clock::now() + kWarmUp;
    while (std::chrono::steady_clock::now() < end) {
      device_.submit(*recording, 1);
      device_.wait();
    }
    double best = std::numeric_limits<double>::max();
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      const auto start = std::chrono::steady_clock::now();
      device_.submit(*recording, 1);
      device_.wait();
      const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count());
    }
    fmt::print("{:<44} {:>9.2f} us\n", name, best / count);
  }

 private:
  Device& device_;
  std::string only_;
  std::mt19937 engine_{1};
};

void run(Device& device, const std::string& only) {
  Bench bench(device, only);
  const auto& can = device.capabilities();
  fmt::print("{}: subgroups of {}, integer dot {}, attention at once {}\n", can.name, can.subgroup_size,
             can.integer_dot, device.has(Kernel::attend_one_128));

  // A chain of little.
  const auto x = bench.floats(256 * 1024);
  const auto branch = bench.floats(256 * 1024);
  const auto grid = bench.words({1, 1, 1, 0});
  const AddConstants add{256, 256};
  constexpr std::uint32_t kMany = 1000;
  for (const std::uint32_t groups : {1U, 128U, 1024U}) {
    bench.chain(fmt::format("add, {} workgroups", groups), kMany, [&](Recorder& recorder, std::uint32_t) {
      recorder.dispatch(Kernel::add, {*x, *branch}, add, {1, groups});
    });
  }
  bench.chain("add, 1 workgroup, indirect", kMany, [&](Recorder& recorder, std::uint32_t) {
    recorder.dispatch_indirect(Kernel::add, {*x, *branch}, add, *grid);
  });
  bench.chain(
      "add, 1 workgroup, no barriers", kMany,
      [&](Recorder& recorder, std::uint32_t) {
        recorder.dispatch(Kernel::add, {*x, *branch}, add, {1, 1});
      },
      false);

  struct Layer {
    std::unique_ptr<Buffer> qkv, output, gate_up, down;
  };
  std::vector<Layer> layers;
  for (std::uint32_t i = 0; i < kLayers; ++i) {
    layers.push_back({bench.random(packed(4096, kHidden)), bench.random(packed(kHidden, 2048)),
                      bench.random(packed(2 * kFfn, kHidden)), bench.random(packed(kHidden, kFfn))});
  }
  const auto hidden = bench.floats(kHidden);
  const auto weight = bench.floats(kHidden);
  const auto qkv = bench.floats(4096);
  const auto quants = bench.random(4096);
  const auto scales = bench.floats(4096 / 32);
  const auto factors = bench.floats(1);
  const auto activated = bench.floats(4096);
  const auto to_quants = bench.zeros(4096);
  const auto to_scales = bench.zeros(4096 / 8);
  const auto y = bench.floats(kVocab);
  const auto matvec = [&](Recorder& recorder, const Buffer& weights, std::uint32_t rows,
                          std::uint32_t columns, std::uint32_t accumulate) {
    const std::uint32_t segments = divide_up(columns, kPadColumns);
    const MatrixConstants constants{rows,           segments,  1, 0, rows, matvec_lanes(segments),
                                    1 - accumulate, accumulate};
    recorder.dispatch(Kernel::matvec_q8, {weights, *quants, *scales, *factors, *y}, constants,
                      matvec_grid(rows, segments));
  };
  constexpr std::uint32_t kSteps = kLayers * kRounds;
  const NormMatrixConstants norm_matvec{4096, 4, 0, fused_lanes(4), 1.0F / kHidden, kEpsilon};
  const auto encode_qkv = [&](Recorder& recorder, std::uint32_t i) {
    recorder.dispatch(Kernel::norm_matvec_q8, {*layers[i % kLayers].qkv, *hidden, *weight, *qkv}, norm_matvec,
                      fused_grid(4096, 4));
  };
  const NormSwigluConstants norm_swiglu{kFfn, 4, fused_lanes(4), 1.0F / kHidden, kEpsilon};
  const auto encode_ffn = [&](Recorder& recorder, std::uint32_t i) {
    recorder.dispatch(Kernel::norm_swiglu_q8, {*layers[i % kLayers].gate_up, *hidden, *weight, *activated},
                      norm_swiglu, fused_grid(kFfn, 4));
  };
  const auto add_product = [&](Recorder& recorder, const Buffer& weights, std::uint32_t columns) {
    const std::uint32_t segments = divide_up(columns, kPadColumns);
    recorder.dispatch(Kernel::quantize_matvec_q8, {weights, *activated, *hidden},
                      QuantizeMatrixConstants{kHidden, segments, 0, fused_lanes(segments)},
                      fused_grid(kHidden, segments));
  };
  const auto encode_output = [&](Recorder& recorder, std::uint32_t i) {
    add_product(recorder, *layers[i % kLayers].output, 2048);
  };
  const auto encode_down = [&](Recorder& recorder, std::uint32_t i) {
    add_product(recorder, *layers[i % kLayers].down, kFfn);
  };
  for (const bool barriers : {true, false}) {
    const std::string suffix = barriers ? "" : ", no barriers";
    bench.chain("norm_matvec_q8, query key value" + suffix, kSteps, encode_qkv, barriers);
    bench.chain("quantize_matvec_q8, attention output" + suffix, kSteps, encode_output, barriers);
    bench.chain("norm_swiglu_q8, gate and up" + suffix, kSteps, encode_ffn, barriers);
    bench.chain("quantize_matvec_q8, down" + suffix, kSteps, encode_down, barriers);
  }

  // One kernel after another, and after itself.
  const auto pair = [&](const std::string& name, const auto& one, const auto& other) {
    bench.chain(name, kSteps, [&](Recorder& recorder, std::uint32_t i) {
      one(recorder, i);
      recorder.barrier();
      other(recorder, i);
    });
  };
  pair("attention output, down", encode_output, encode_down);
  pair("attention output, query key value", encode_output, encode_qkv);
  pair("gate and up, down", encode_ffn, encode_down);

  const auto sink = bench.zeros(std::uint64_t{1} << 20U);
  const auto read_ahead = [&](Recorder& recorder, const Buffer& weights) {
    const auto groups = static_cast<std::uint32_t>(weights.bytes() / (kMeasureThreads * kMeasureUnits * 16));
    recorder.dispatch(Kernel::measure_read, {weights, *sink}, MeasureConstants{kMeasureUnits}, {groups});
  };

  const std::uint32_t most = 32768;
  const std::uint32_t splits = most / kBlock + 1;
  const auto query_norm = bench.floats(kHead);
  const auto rope = bench.floats(std::uint64_t{most + kBlock} * kHead);
  const std::uint64_t block_bytes = std::uint64_t{kKvHeads} * 2 * kBlock * (kHead + kHead / 8);
  std::vector<std::unique_ptr<Buffer>> caches;
  for (int i = 0; i < 4; ++i) caches.push_back(bench.random(block_bytes * splits));
  const auto statistics = bench.zeros(std::uint64_t{kHeads} * splits * 8);
  const auto outputs = bench.zeros(std::uint64_t{kHeads} * splits * kHead * 4);
  const auto done = bench.zeros(kKvHeads * 4);
  std::vector<std::uint32_t> table(splits);
  for (std::uint32_t i = 0; i < splits; ++i) table[i] = i;
  const auto tables = device.create_buffer(splits * 4, Memory::device, "a benchmark");
  device.upload(*tables, std::as_bytes(std::span(table)));
  const AttendOneConstants attend{kHeads, kKvHeads,     kHead,    kHead,        4096,
                                  2048,   3072,         kBlock,   splits,       0,
                                  2048,   1.0F / kHead, kEpsilon, 0.088388346F, kWriteFloats};
  for (const std::uint32_t depth : {0U, 100U, 255U, 511U, 2100U, 4150U, 8150U, 32767U}) {
    const auto tiles = bench.words({0, 1, depth, 0});
    const auto slots = bench.words({depth / kBlock, depth % kBlock});
    const auto attention_grid = bench.words({depth / kBlock + 1, kKvHeads, 1, 0});
    const auto encode_attention = [&](Recorder& recorder, std::uint32_t i) {
      recorder.dispatch_indirect(
          Kernel::attend_one_128,
          {*qkv, *query_norm, *query_norm, *rope, *slots, *caches[i % caches.size()], *tables, *tiles,
           *statistics, *outputs, *done, *activated, *to_quants, *to_scales},
          attend, *attention_grid);
    };
    bench.chain(fmt::format("attend_one at {}", depth), kSteps, encode_attention);
    pair(fmt::format("attend_one at {}, attention output", depth), encode_attention, encode_output);
    for (const bool ahead : {false, true}) {
      bench.chain(fmt::format("a layer at {}{}", depth, ahead ? ", its weights read beside attention" : ""),
                  kSteps, [&](Recorder& recorder, std::uint32_t i) {
                    const Layer& layer = layers[i % kLayers];
                    encode_qkv(recorder, i);
                    recorder.barrier();
                    if (ahead) {
                      read_ahead(recorder, *layer.output);
                      read_ahead(recorder, *layer.gate_up);
                      read_ahead(recorder, *layer.down);
                      read_ahead(recorder, *layers[(i + 1) % kLayers].qkv);
                    }
                    encode_attention(recorder, i);
                    recorder.barrier();
                    encode_output(recorder, i);
                    recorder.barrier();
                    encode_ffn(recorder, i);
                    recorder.barrier();
                    encode_down(recorder, i);
                  });
    }
  }

  const auto head = bench.random(packed(kVocab, kHidden));
  const auto best = bench.zeros(std::uint64_t{argmax_chunks_of(kVocab)} * 8);
  const auto chosen = bench.zeros(4);
  bench.chain("matvec_q8, head", 10,
              [&](Recorder& recorder, std::uint32_t) { matvec(recorder, *head, kVocab, kHidden, 0); });
  const ArgmaxConstants argmax{kVocab, kVocab, argmax_chunks_of(kVocab)};
  bench.chain("argmax_chunks", 10, [&](Recorder& recorder, std::uint32_t) {
    recorder.dispatch(Kernel::argmax_chunks, {*y, *best}, argmax, {argmax.chunks});
  });
  bench.chain("argmax", 10, [&](Recorder& recorder, std::uint32_t) {
    recorder.dispatch(Kernel::argmax, {*best, *chosen}, argmax, {});
  });
}

}  // namespace
}  // namespace inferno::gpu

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    inferno::vulkan::OpenOptions options;
    if (argc > 1) options.device = static_cast<std::uint32_t>(std::atoi(argv[1]));
    const auto device = inferno::vulkan::open_device(options);
    inferno::gpu::run(*device, argc > 2 ? argv[2] : "");
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
