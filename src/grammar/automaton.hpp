#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "grammar/frames.hpp"
#include "grammar/program.hpp"
#include "grammar/work_meter.hpp"

namespace inferno::grammar {

using FrameList = std::vector<const Frame*>;

/// Runs a program over bytes: takes all ways at once. A position is a list of frames, each of which takes the
/// next byte (or is the end); no two are alike. Every frame has a way to the end: a position is empty only
/// after a byte that cannot come. What the meter throws passes; then nothing has changed but the list that
/// was being made and the arena.
class Automaton {
 public:
  /// `marker_is_token`: by index of the program's markers, whether it is a token, which `take_marker` takes,
  /// or text. All must outlive this.
  Automaton(const Program& program, const std::vector<bool>& marker_is_token, FrameArena& arena,
            WorkMeter& meter)
      : program_(program), marker_is_token_(marker_is_token), arena_(arena), meter_(meter) {}

  /// Appends the position at the beginning: behind at most `newlines` line feeds comes the root value.
  void begin(std::uint32_t newlines, FrameList& out);
  /// Appends to `out` the position behind `byte`. `from` may be a part of `out`, named by its place in it.
  void step(std::size_t from_begin, std::size_t from_end, std::uint8_t byte, FrameList& out);
  void step(std::span<const Frame* const> from, std::uint8_t byte, FrameList& out);
  /// Appends the position behind the marker `text`.
  void take_marker(std::span<const Frame* const> from, const std::string& text, FrameList& out);
  /// Appends what goes on when `frame` (a text) is done.
  void leave(const Frame& frame, FrameList& out);

  /// The text may end here.
  static bool is_end(const Frame& frame);

 private:
  void take(const Frame& frame, std::uint8_t byte);
  void take_root(const Frame& frame, std::uint8_t byte);
  void take_object(const Frame& frame, std::uint8_t byte);
  void take_object_key(const Frame& frame, const ObjectMachine& object, std::uint8_t byte);
  void take_object_space(const Frame& frame, const ObjectMachine& object, std::uint8_t byte);
  void take_array(const Frame& frame, std::uint8_t byte);
  void take_text(const Frame& frame, std::uint8_t byte);
  void take_number(const Frame& frame, std::uint8_t byte);
  void take_choice(const Frame& frame, std::uint8_t byte);
  void take_marker_byte(const Frame& frame, std::uint8_t byte);

  void enter(ValueId value, const Frame& parent_state);
  void enter_item(const Frame& frame, std::uint64_t count);
  void begin_key(const Frame& frame);
  void begin_object_value(const Frame& frame, std::uint32_t property);
  void done(const Frame& frame);
  void resume(const Frame& frame);
  void emit(const Frame& frame);

  bool fits(ValueId value, std::uint32_t depth) const;
  bool has_key(const ObjectMachine& object, const Frame& frame, std::uint32_t next, std::uint32_t low,
               std::uint32_t high) const;
  std::uint32_t counted_end(const ObjectMachine& object, const Frame& frame, std::uint32_t next,
                            std::uint32_t end) const;
  bool may_add(const ObjectMachine& object, const Frame& frame, std::uint32_t next) const;
  static bool may_close(const ObjectMachine& object, std::uint32_t next);
  static std::uint64_t item_count(const ArrayMachine& array, std::uint64_t state);
  ValueId item_at(const ArrayMachine& array, std::uint64_t count, std::uint32_t depth) const;

  const Program& program_;
  const std::vector<bool>& marker_is_token_;
  FrameArena& arena_;
  WorkMeter& meter_;
  FrameList* out_ = nullptr;
  std::size_t begin_ = 0;  ///< of the position that is being made in *out_
};

/// What a text may be at most at once. A schema that needs more is refused, or fails the request.
inline constexpr std::size_t kMaxFrames = 4096;

}  // namespace inferno::grammar
