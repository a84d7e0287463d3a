#include <thread>
#include <vector>

#include "backend/cpu/parallel/policy.hpp"

namespace inferno::cpu {
namespace {

class SerialPolicy : public ParallelPolicy {
 public:
  unsigned threads() const override { return 1; }
  void run(const Task& task, unsigned /*parts_per_thread*/) override { task(0, 1); }
};

class SpawningPolicy : public ParallelPolicy {
 public:
  explicit SpawningPolicy(unsigned threads) : threads_(threads) {}
  unsigned threads() const override { return threads_; }
  void run(const Task& task, unsigned /*parts_per_thread*/) override {
    std::vector<std::jthread> workers;
    workers.reserve(threads_ - 1);
    for (unsigned part = 1; part < threads_; ++part) {
      workers.emplace_back([&task, part, this] { task(part, threads_); });
    }
    task(0, threads_);
  }

 private:
  unsigned threads_;
};

}  // namespace

std::unique_ptr<ParallelPolicy> make_serial_policy() {
  return std::make_unique<SerialPolicy>();
}

std::unique_ptr<ParallelPolicy> make_spawning_policy(unsigned threads) {
  return std::make_unique<SpawningPolicy>(threads);
}

}  // namespace inferno::cpu
