// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "plimsoll/plimsoll.h"

namespace plimsoll {

// The canonical status codes; the numbers are those of plm_status_code.
enum class ErrorCode : int {
  cancelled = 1,
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  already_exists = 6,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  out_of_range = 11,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  data_loss = 15,
};

// What every function of the C++ API throws. Nothing below the C++ API throws, and nothing in it
// throws anything else but std::bad_alloc.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message, std::int64_t limit_bytes = 0,
        std::int64_t floor_bytes = 0, std::string culprit = {})
      : code_(code),
        message_(std::move(message)),
        culprit_(std::move(culprit)),
        limit_bytes_(limit_bytes),
        floor_bytes_(floor_bytes) {}

  const char* what() const noexcept override { return message_.c_str(); }
  ErrorCode code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }

  // Only of a resource_exhausted error that knows them, 0 and empty otherwise: the limit that was
  // in force, the smallest limit that would do, and the operation that needs it.
  std::int64_t limit_bytes() const noexcept { return limit_bytes_; }
  std::int64_t floor_bytes() const noexcept { return floor_bytes_; }
  const std::string& culprit() const noexcept { return culprit_; }

 private:
  ErrorCode code_;
  std::string message_;
  std::string culprit_;
  std::int64_t limit_bytes_;
  std::int64_t floor_bytes_;
};

namespace internal {

// Throws when `status` is a failure, and frees it.
inline void check(plm_status* status) {
  if (status == nullptr) return;
  const std::unique_ptr<plm_status, decltype(&plm_status_free)> owned(status, &plm_status_free);
  throw Error(static_cast<ErrorCode>(plm_status_code(status)), plm_status_message(status),
              plm_status_limit_bytes(status), plm_status_floor_bytes(status),
              plm_status_culprit(status));
}

}  // namespace internal

}  // namespace plimsoll
