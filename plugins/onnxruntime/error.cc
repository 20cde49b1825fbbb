// SPDX-License-Identifier: Apache-2.0
#include "plugins/onnxruntime/error.h"

namespace plimsoll::ort {
namespace {

abi::ErrorCode code_of(plm_code code) {
  switch (code) {
    case PLM_INVALID_ARGUMENT:
      return abi::kInvalidArgument;
    case PLM_UNIMPLEMENTED:
      return abi::kNotImplemented;
    case PLM_RESOURCE_EXHAUSTED:
      return abi::kRuntimeException;
    default:
      return abi::kFail;
  }
}

}  // namespace

Status* from_status(const Api& api, plm_status* status) {
  if (status == nullptr) return nullptr;
  const plm_code code = plm_status_code(status);
  const std::string message = std::string(plm_code_name(code)) + ": " + plm_status_message(status);
  plm_status_free(status);
  return make_error(api, code_of(code), message);
}

}  // namespace plimsoll::ort
