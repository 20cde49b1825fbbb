// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include "plimsoll/plimsoll.h"

namespace plimsoll::examples::serve {

// What a request ends with instead of a result: an HTTP status and a message for people. 4xx: the
// client's fault; 503: worth another try after `retry_after` seconds.
class HttpError : public std::runtime_error {
 public:
  HttpError(int status, const std::string& message, int retry_after = 0)
      : std::runtime_error(message), status_(status), retry_after_(retry_after) {}
  int status() const { return status_; }
  int retry_after() const { return retry_after_; }

 private:
  int status_;
  int retry_after_;
};

inline HttpError bad_request(const std::string& message) { return HttpError(400, message); }
inline HttpError busy(const std::string& message) { return HttpError(503, message, 1); }

// Throws for a status that is not NULL, which it frees: 503 where there was no room or no time, 500
// otherwise, as requests are checked before they run.
inline void check(plm_status* status) {
  if (status == nullptr) return;
  const plm_code code = plm_status_code(status);
  const std::string message = std::string(plm_code_name(code)) + ": " + plm_status_message(status);
  plm_status_free(status);
  switch (code) {
    case PLM_RESOURCE_EXHAUSTED:
    case PLM_DEADLINE_EXCEEDED:
    case PLM_CANCELLED:
    case PLM_UNAVAILABLE:
      throw busy(message);
    default:
      throw HttpError(500, message);
  }
}

// A name or value from a request for use in a message, cut to what people read.
inline std::string in_quotes(const std::string& text) {
  constexpr std::size_t kLongest = 80;
  return "'" + (text.size() <= kLongest ? text : text.substr(0, kLongest) + "...") + "'";
}

}  // namespace plimsoll::examples::serve
