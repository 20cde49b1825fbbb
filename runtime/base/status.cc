// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/status.h"

namespace plimsoll {

std::string_view to_string(StatusCode code) {
  switch (code) {
#define PLIMSOLL_STATUS_CODE(name, text, number) \
  case StatusCode::name:                         \
    return text;
#include "runtime/base/status_codes.def"
#undef PLIMSOLL_STATUS_CODE
  }
  return "UNKNOWN";
}

Status::Status(StatusCode code, std::string message) {
  if (code == StatusCode::ok) return;
  state_ = std::make_shared<const State>(State{code, std::move(message), std::nullopt});
}

Status Status::resource_exhausted(std::string message, MemoryShortage shortage) {
  Status status;
  status.state_ = std::make_shared<const State>(
      State{StatusCode::resource_exhausted, std::move(message), std::move(shortage)});
  return status;
}

StatusCode Status::code() const { return ok() ? StatusCode::ok : state_->code; }

const std::string& Status::message() const {
  static const std::string empty;
  return ok() ? empty : state_->message;
}

const MemoryShortage* Status::shortage() const {
  return ok() || !state_->shortage ? nullptr : &*state_->shortage;
}

std::string Status::to_string() const {
  if (ok()) return "OK";
  return std::string(plimsoll::to_string(state_->code)) + ": " + state_->message;
}

Status Status::with_context(std::string_view context) const {
  if (ok()) return *this;
  State state = *state_;
  state.message = std::string(context) + ": " + state.message;
  Status status;
  status.state_ = std::make_shared<const State>(std::move(state));
  return status;
}

Status invalid_argument(std::string message) {
  return Status(StatusCode::invalid_argument, std::move(message));
}
Status not_found(std::string message) { return Status(StatusCode::not_found, std::move(message)); }
Status failed_precondition(std::string message) {
  return Status(StatusCode::failed_precondition, std::move(message));
}
Status out_of_range(std::string message) {
  return Status(StatusCode::out_of_range, std::move(message));
}
Status unimplemented(std::string message) {
  return Status(StatusCode::unimplemented, std::move(message));
}
Status internal_error(std::string message) {
  return Status(StatusCode::internal, std::move(message));
}
Status unavailable(std::string message) {
  return Status(StatusCode::unavailable, std::move(message));
}
Status data_loss(std::string message) { return Status(StatusCode::data_loss, std::move(message)); }

}  // namespace plimsoll
