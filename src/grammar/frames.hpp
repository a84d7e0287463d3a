#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "grammar/program.hpp"

namespace inferno::grammar {

/// One machine at work and, through `parents`, what goes on when it is done: a stack, or rather a graph of
/// stacks, since what several ways have in common is kept once. Frames are never changed, so that stacks
/// share their lower parts.
struct Frame {
  MachineId machine = kNone;  ///< kRootMachine: the bottom
  std::uint16_t depth = 0;    ///< objects and arrays that are open, this one too
  std::uint8_t phase = 0;     ///< the machine's
  std::uint32_t parent_count = 0;
  std::uint32_t count = 0;  ///< of an object whose properties are counted: those that have begun
  std::uint64_t a = 0;      ///< the machine's
  std::uint64_t b = 0;
  const Frame* const* parents = nullptr;

  std::span<const Frame* const> above() const { return {parents, parent_count}; }
  bool alike(const Frame& other) const {
    return machine == other.machine && depth == other.depth && phase == other.phase && count == other.count &&
           a == other.a && b == other.b;
  }
};

inline constexpr MachineId kRootMachine = kNone - 1;

/// Memory of frames: given back all at once, or back to a mark.
class FrameArena {
 public:
  struct Mark {
    std::size_t block = 0;
    std::size_t used = 0;
  };

  const Frame* add(const Frame& frame);
  const Frame* const* add_parents(std::span<const Frame* const> parents);
  Mark mark() const { return mark_; }
  void release(const Mark& mark) { mark_ = mark; }
  /// Bytes handed out, about.
  std::size_t used() const { return mark_.block * kBlockBytes + mark_.used; }

  /// One request's frames never take more: ConstraintRefused.
  static constexpr std::size_t kMostBytes = std::size_t{32} << 20U;

 private:
  static constexpr std::size_t kBlockBytes = std::size_t{1} << 16U;

  void* allocate(std::size_t bytes);

  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
  };
  std::vector<Block> blocks_;
  Mark mark_;
};

/// Goes back to where an arena was, unless it is told to stay.
class ArenaReturn {
 public:
  explicit ArenaReturn(FrameArena& arena) : arena_(&arena), mark_(arena.mark()) {}
  ~ArenaReturn() {
    if (arena_ != nullptr) arena_->release(mark_);
  }
  ArenaReturn(const ArenaReturn&) = delete;
  ArenaReturn& operator=(const ArenaReturn&) = delete;
  void stay() { arena_ = nullptr; }

 private:
  FrameArena* arena_;
  FrameArena::Mark mark_;
};

/// Copies frames and all they stand on to another arena; what they share stays shared.
std::vector<const Frame*> copy_frames(std::span<const Frame* const> frames, FrameArena& to);

}  // namespace inferno::grammar
