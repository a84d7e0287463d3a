#pragma once

#include <cstddef>
#include <string>

namespace inferno {
class Engine;
}

namespace inferno::cli {

/// The bytes of stdin, and between them what the terminal tells by signals: Ctrl-C is not lost between a look
/// and a wait. One object in a program: signals are the program's.
class TypedBytes {
 public:
  // Instead of a byte.
  static constexpr int kEnd = -1;
  static constexpr int kInterrupted = -2;  ///< Ctrl-C
  static constexpr int kResized = -3;      ///< the terminal's size is another
  static constexpr int kContinued =
      -4;  ///< the program goes on after Ctrl-Z: the terminal's modes are others

  /// Errors: no pipe can be opened.
  TypedBytes();
  ~TypedBytes();
  TypedBytes(const TypedBytes&) = delete;
  TypedBytes& operator=(const TypedBytes&) = delete;

  /// Waits for the next byte, or one of the above. Errors: stdin cannot be read.
  int next();
  /// The byte that came last comes once more.
  void again() { --next_; }

 private:
  std::string typed_;     ///< read from stdin
  std::size_t next_ = 0;  ///< byte of it
};

/// While it lives Ctrl-C cancels what this engine generates and is not told by TypedBytes.
class CancelledByInterrupt {
 public:
  explicit CancelledByInterrupt(Engine& engine);
  ~CancelledByInterrupt();
  CancelledByInterrupt(const CancelledByInterrupt&) = delete;
  CancelledByInterrupt& operator=(const CancelledByInterrupt&) = delete;
};

}  // namespace inferno::cli
