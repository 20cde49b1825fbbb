// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plimsoll/plimsoll.h>

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "plugins/pjrt/abi.h"

// An error as frameworks see it. Owned by whoever receives it.
struct plimsoll::pjrt::abi::Error {
  const ErrorTable* table;  // first: frameworks read it
  Code code;
  std::string message;
};

namespace plimsoll::pjrt {

using abi::Error;

Error* make_error(abi::Code code, std::string_view message);
inline Error* invalid_argument(std::string_view message) {
  return make_error(abi::kInvalidArgument, message);
}
inline Error* unimplemented(std::string_view message) {
  return make_error(abi::kUnimplemented, message);
}
// Takes the status; NULL for success.
Error* from_status(plm_status* status);
// Leaves it.
Error* from_borrowed(const plm_status* status);
// Another one that says the same; NULL of NULL.
Error* copy_of(const Error* error);
void destroy(Error* error);

// Owns one.
struct DestroyError {
  void operator()(Error* error) const { destroy(error); }
};

// Runs `body`, which returns an Error*, and lets no exception out.
template <typename Body>
Error* guarded(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return make_error(abi::kResourceExhausted, "plimsoll: the host is out of memory");
  } catch (const std::exception& error) {
    return make_error(abi::kInternal, error.what());
  }
}

#define PLIMSOLL_PJRT_RETURN_IF_ERROR(expression)                                       \
  do {                                                                                  \
    if (::plimsoll::pjrt::abi::Error* const failed = (expression); failed != nullptr) { \
      return failed;                                                                    \
    }                                                                                   \
  } while (false)

}  // namespace plimsoll::pjrt
