#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace inferno::cpu {

/// A borrowed function `void(unsigned part, unsigned parts)`: a part of an operation. Not owned, never
/// allocates; the callable outlives the call it is given to. Tasks must not throw.
class Task {
 public:
  template <typename Callable, typename = std::enable_if_t<!std::is_same_v<std::decay_t<Callable>, Task>>>
  // NOLINTNEXTLINE(google-explicit-constructor, bugprone-forwarding-reference-overload): a view
  Task(Callable&& callable)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, unsigned part, unsigned parts) {
          (*static_cast<std::remove_reference_t<Callable>*>(object))(part, parts);
        }) {}

  void operator()(unsigned part, unsigned parts) const { call_(object_, part, parts); }

 private:
  void* object_;
  void (*call_)(void*, unsigned, unsigned);
};

/// The half-open share of `part` among `count` items split evenly over `parts`.
struct Share {
  std::size_t begin;
  std::size_t end;
};

inline Share share_of(std::size_t count, unsigned part, unsigned parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

}  // namespace inferno::cpu
