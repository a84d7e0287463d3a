#pragma once

#include <stdexcept>

namespace inferno {

/// The work could not be done: a bad file, a missing device, an impossible request. `what()` is one
/// line that says what was expected, what was found and where, and suggests a next step if there is
/// one. Programs exit with code 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller asked for something that makes no sense: an unknown name, a value out of range.
/// Programs exit with code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

}  // namespace inferno
