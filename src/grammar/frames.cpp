#include "grammar/frames.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <new>
#include <unordered_map>

#include "engine/token_constraint.hpp"

namespace inferno::grammar {
namespace {

using Copies = std::unordered_map<const Frame*, const Frame*>;

/// Recurses as deep as the stacks are: by the nesting that is allowed.
const Frame* copy(const Frame* frame, FrameArena& to, Copies& copies) {
  if (const auto known = copies.find(frame); known != copies.end()) return known->second;
  std::vector<const Frame*> parents;
  parents.reserve(frame->parent_count);
  for (const auto* parent : frame->above()) parents.push_back(copy(parent, to, copies));
  auto moved = *frame;
  moved.parents = to.add_parents(parents);
  const auto* result = to.add(moved);
  copies.emplace(frame, result);
  return result;
}

}  // namespace

const Frame* FrameArena::add(const Frame& frame) {
  return new (allocate(sizeof(Frame))) Frame(frame);
}

const Frame* const* FrameArena::add_parents(std::span<const Frame* const> parents) {
  if (parents.empty()) return nullptr;
  auto* place = static_cast<const Frame**>(allocate(parents.size_bytes()));
  std::copy(parents.begin(), parents.end(), place);
  return place;
}

/// Frames and pointers have the same alignment, and sizes that are multiples of it.
void* FrameArena::allocate(std::size_t bytes) {
  constexpr std::size_t kAlignment = alignof(const Frame*);
  static_assert(alignof(Frame) == kAlignment && sizeof(Frame) % kAlignment == 0);
  while (mark_.block < blocks_.size() && mark_.used + bytes > blocks_[mark_.block].size) {
    ++mark_.block;
    mark_.used = 0;
  }
  if (mark_.block == blocks_.size()) {
    if (used() + bytes > kMostBytes) {
      throw ConstraintRefused(
          fmt::format("the schema leaves so much open at once that one token takes more than {} MiB to find; "
                      "expected fewer alternatives that can hold together",
                      kMostBytes >> 20U));
    }
    const auto size = std::max(bytes, kBlockBytes);
    blocks_.push_back({.bytes = std::make_unique<std::byte[]>(size), .size = size});
    mark_.used = 0;
  }
  void* place = blocks_[mark_.block].bytes.get() + mark_.used;
  mark_.used += bytes;
  return place;
}

std::vector<const Frame*> copy_frames(std::span<const Frame* const> frames, FrameArena& to) {
  Copies copies;
  std::vector<const Frame*> out;
  out.reserve(frames.size());
  for (const auto* frame : frames) out.push_back(copy(frame, to, copies));
  return out;
}

}  // namespace inferno::grammar
