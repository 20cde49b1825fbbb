// SPDX-License-Identifier: Apache-2.0
#include <new>

#include "runtime/c_api/handles.h"
#include "runtime/ir/dtype.h"
#include "runtime/ir/opcode.h"

struct plm_status {
  plimsoll::Status status;
};

namespace plimsoll::c_api {
namespace {

// Stands for "out of host memory" by its address; holds an empty status that is never read.
plm_status out_of_memory_status;

bool is_static(const plm_status* status) { return status == &out_of_memory_status; }

}  // namespace

plm_status* out_of_host_memory() noexcept { return &out_of_memory_status; }

plm_status* make_status(const Status& status) noexcept {
  if (status.ok()) return nullptr;
  auto* made = new (std::nothrow) plm_status;
  if (made == nullptr) return out_of_host_memory();
  made->status = status;
  return made;
}

Status require(bool condition, const char* what) {
  return condition ? ok_status() : invalid_argument(what);
}

}  // namespace plimsoll::c_api

using plimsoll::c_api::is_static;

#define PLIMSOLL_STATUS_CODE(name, text, number) \
  static_assert(number == static_cast<int>(plimsoll::StatusCode::name));
#include "runtime/base/status_codes.def"
#undef PLIMSOLL_STATUS_CODE
static_assert(PLM_OK == 0 && PLM_RESOURCE_EXHAUSTED == 8 && PLM_DATA_LOSS == 15);

extern "C" {

uint32_t plm_version(void) {
  return PLM_VERSION_MAJOR << 16 | PLM_VERSION_MINOR << 8 | PLM_VERSION_PATCH;
}

plm_code plm_status_code(const plm_status* status) {
  if (status == nullptr) return PLM_OK;
  if (is_static(status)) return PLM_RESOURCE_EXHAUSTED;
  return static_cast<plm_code>(status->status.code());
}

plm_status* plm_status_create(plm_code code, const char* message) {
  return plimsoll::c_api::make_status(
      plimsoll::Status(static_cast<plimsoll::StatusCode>(code), message == nullptr ? "" : message));
}

const char* plm_code_name(plm_code code) {
  switch (static_cast<int>(code)) {
#define PLIMSOLL_STATUS_CODE(name, text, number) \
  case number:                                   \
    return text;
#include "runtime/base/status_codes.def"
#undef PLIMSOLL_STATUS_CODE
    default:
      return "";
  }
}

const char* plm_status_message(const plm_status* status) {
  if (status == nullptr) return "";
  if (is_static(status)) return "out of host memory";
  return status->status.message().c_str();
}

int64_t plm_status_limit_bytes(const plm_status* status) {
  if (status == nullptr || status->status.shortage() == nullptr) return 0;
  return status->status.shortage()->limit_bytes;
}

int64_t plm_status_floor_bytes(const plm_status* status) {
  if (status == nullptr || status->status.shortage() == nullptr) return 0;
  return status->status.shortage()->floor_bytes;
}

const char* plm_status_culprit(const plm_status* status) {
  if (status == nullptr || status->status.shortage() == nullptr) return "";
  return status->status.shortage()->culprit.c_str();
}

void plm_status_free(plm_status* status) {
  if (!is_static(status)) delete status;
}

}  // extern "C"
