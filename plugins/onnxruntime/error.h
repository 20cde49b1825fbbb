// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plimsoll/plimsoll.h>

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "plugins/onnxruntime/api.h"

namespace plimsoll::ort {

inline Status* make_error(const Api& api, abi::ErrorCode code, const std::string& message) {
  return api.create_status(code, ("plimsoll: " + message).c_str());
}
// Takes the status; null for success.
Status* from_status(const Api& api, plm_status* status);

// Runs `body`, which returns a Status*, and lets no exception out.
template <typename Body>
Status* guarded(const Api& api, Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return api.create_status(abi::kFail, "plimsoll: the host is out of memory");
  } catch (const std::exception& error) {
    return api.create_status(abi::kFail, error.what());
  }
}

}  // namespace plimsoll::ort
