// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace plimsoll {

// Canonical status codes. The numbers are those of the C ABI and never change.
enum class StatusCode : int {
#define PLIMSOLL_STATUS_CODE(name, text, number) name = number,
#include "runtime/base/status_codes.def"
#undef PLIMSOLL_STATUS_CODE
};

// The code's canonical spelling, e.g. "INVALID_ARGUMENT".
std::string_view to_string(StatusCode code);

// What a RESOURCE_EXHAUSTED status says in numbers: the limit that was asked for, the smallest
// limit that would do (0 when unknown), and the instruction or buffer that needs it.
struct MemoryShortage {
  std::int64_t limit_bytes = 0;
  std::int64_t floor_bytes = 0;
  std::string culprit;
};

// Success, or a code and a message of the form `what failed: value (limit, remedy)`.
// Cheap to move; success carries no allocation. Not thread-safe to mutate; safe to read
// concurrently.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message);

  static Status resource_exhausted(std::string message, MemoryShortage shortage);

  bool ok() const { return state_ == nullptr; }
  StatusCode code() const;
  // Empty for success.
  const std::string& message() const;
  // Null unless the status is a RESOURCE_EXHAUSTED that carries its numbers.
  const MemoryShortage* shortage() const;
  // `CODE: message`, or `OK`.
  std::string to_string() const;
  // The same status with `context: ` put before the message; success stays success.
  Status with_context(std::string_view context) const;

 private:
  struct State {
    StatusCode code;
    std::string message;
    std::optional<MemoryShortage> shortage;
  };
  std::shared_ptr<const State> state_;
};

inline Status ok_status() { return Status(); }
Status invalid_argument(std::string message);
Status not_found(std::string message);
Status failed_precondition(std::string message);
Status out_of_range(std::string message);
Status unimplemented(std::string message);
Status internal_error(std::string message);
Status unavailable(std::string message);
Status data_loss(std::string message);

// A value or the status that says why there is none. Reading the value of a failure is undefined.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {}

  bool ok() const { return state_.index() == 0; }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }

  T& value() & { return *std::get_if<0>(&state_); }
  const T& value() const& { return *std::get_if<0>(&state_); }
  T&& value() && { return std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace plimsoll

#define PLIMSOLL_CONCAT_INNER(a, b) a##b
#define PLIMSOLL_CONCAT(a, b) PLIMSOLL_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expression` is a failed Status.
#define PLIMSOLL_RETURN_IF_ERROR(expression)             \
  do {                                                   \
    ::plimsoll::Status plimsoll_status_ = (expression);  \
    if (!plimsoll_status_.ok()) return plimsoll_status_; \
  } while (false)

// `PLIMSOLL_ASSIGN_OR_RETURN(auto x, f());` binds the value, or returns the failure.
#define PLIMSOLL_ASSIGN_OR_RETURN(declaration, expression)                                 \
  PLIMSOLL_ASSIGN_OR_RETURN_IMPL(PLIMSOLL_CONCAT(plimsoll_result_, __LINE__), declaration, \
                                 expression)
#define PLIMSOLL_ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                           \
  if (!result.ok()) return result.status();                             \
  declaration = std::move(result).value()
