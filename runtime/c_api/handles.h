// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/float_environment.h"
#include "runtime/base/fork.h"
#include "runtime/base/status.h"
#include "runtime/include/plimsoll/plimsoll.h"
#include "runtime/trace/context/context.h"

// The ABI's opaque types are the library's own: the casts are here and nowhere else.
namespace plimsoll::c_api {

inline trace::Context* unwrap(plm_context* context) {
  return reinterpret_cast<trace::Context*>(context);
}
inline const trace::Context* unwrap(const plm_context* context) {
  return reinterpret_cast<const trace::Context*>(context);
}
inline plm_context* wrap(trace::Context* context) {
  return reinterpret_cast<plm_context*>(context);
}
inline trace::Tensor* unwrap(plm_tensor* tensor) {
  return reinterpret_cast<trace::Tensor*>(tensor);
}
inline const trace::Tensor* unwrap(const plm_tensor* tensor) {
  return reinterpret_cast<const trace::Tensor*>(tensor);
}
inline plm_tensor* wrap(trace::Tensor* tensor) { return reinterpret_cast<plm_tensor*>(tensor); }

inline const char* kind_of(const plm_context*) { return "context"; }
inline const char* kind_of(const plm_tensor*) { return "tensor"; }
inline const char* kind_of(const plm_executable*) { return "executable"; }
inline const char* kind_of(const plm_buffer*) { return "buffer"; }
inline const char* kind_of(const plm_communicator*) { return "communicator"; }
inline const char* kind_of(const plm_cancellation*) { return "cancellation"; }

// NULL for success. Never throws: when there is no memory for an error, a static one says so.
plm_status* make_status(const Status& status) noexcept;
plm_status* out_of_host_memory() noexcept;

// Runs `body`, which returns a Status, and lets no exception out, nor in what modes the caller
// computes with floats.
template <typename Body>
plm_status* guarded(Body&& body) noexcept {
  const FloatEnvironment floats;
  try {
    const Status status = std::forward<Body>(body)();
    return status.ok() ? nullptr : make_status(status);
  } catch (const std::bad_alloc&) {
    return out_of_host_memory();
  } catch (const std::exception& error) {
    return make_status(Status(StatusCode::internal, error.what()));
  } catch (...) {
    return make_status(Status(StatusCode::internal, "unknown exception"));
  }
}

// What a child that fork() makes may do with handles of its parent: see them refused, and give them
// up, which then frees nothing.
//
// When what a handle stands for was made. Other handles have a mark of their own.
inline const ForkMark& mark_of(const plm_context* context) { return unwrap(context)->mark; }
inline const ForkMark& mark_of(const plm_tensor* tensor) { return unwrap(tensor)->context->mark; }
template <typename Handle>
const ForkMark& mark_of(const Handle* handle) {
  return handle->mark;
}
// Whether it comes from before a fork: it must be left as it is. NULL does not.
template <typename Handle>
bool is_inherited(const Handle* handle) {
  return handle != nullptr && mark_of(handle).is_inherited();
}
template <typename Handle>
Status check_mark(const Handle* handle) {
  return handle == nullptr ? ok_status() : mark_of(handle).check(kind_of(handle));
}

// The same with handles, NULL allowed, that must not come from before a fork.
template <typename Handle, typename... Rest>
plm_status* guarded(Handle* handle, Rest&&... rest) noexcept {
  if (is_inherited(handle)) {
    return guarded([&] { return check_mark(handle); });
  }
  return guarded(std::forward<Rest>(rest)...);
}

// A copy of the caller's struct with the fields it does not know set to zero. The caller's struct
// may be older (shorter) or newer (longer) than ours.
// Options without a size would silently count for nothing, a limit among them: an error.
template <typename T>
Result<T> read_options(const T* options) {
  T copy;
  std::memset(&copy, 0, sizeof copy);
  if (options != nullptr) {
    if (options->struct_size < sizeof(std::size_t)) {
      return invalid_argument("struct_size is not set");
    }
    std::memcpy(&copy, options, std::min(options->struct_size, sizeof copy));
  }
  copy.struct_size = sizeof copy;
  return copy;
}

// The other direction, for structs that the library fills.
template <typename T>
Status write_struct(const T& value, T* out) {
  if (out == nullptr) return invalid_argument("the output pointer is NULL");
  const std::size_t size = std::min(out->struct_size, sizeof value);
  if (size < sizeof(std::size_t)) return invalid_argument("struct_size is not set");
  const std::size_t keep = out->struct_size;
  std::memcpy(out, &value, size);
  out->struct_size = keep;
  return ok_status();
}

Status require(bool condition, const char* what);
bool is_dtype(int dtype);
// Of tensors; the others are met in programs and buffers.
bool is_recorded_dtype(int dtype);
// An error for any other; `what` starts the message.
Status check_tensor_dtype(std::string_view what, int dtype);

// An error for what was recorded in a callback that has ended; `what` starts the message.
Status check_recordable(const char* what, std::size_t number, const trace::Node& node);
// The nodes of tensors that must belong to `context`; `what` starts the message.
Status collect_nodes(const char* what, const plm_context* context, const plm_tensor* const* tensors,
                     std::size_t count, std::vector<trace::Node*>& nodes);
// Checks dtype, rank and dims.
Result<ir::Shape> make_shape(const char* what, int dtype, const std::int64_t* dims,
                             std::size_t rank);

// The same for tensors.
Result<ir::Shape> make_tensor_shape(const char* what, int dtype, const std::int64_t* dims,
                                    std::size_t rank);

// Gives the text to the caller until the next call with this context.
const char* keep_text(trace::Context& context, std::string text);

}  // namespace plimsoll::c_api
