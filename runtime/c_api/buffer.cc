// SPDX-License-Identifier: Apache-2.0
#include "runtime/c_api/buffer.h"

#include <span>
#include <string>

#include "runtime/c_api/executable.h"
#include "runtime/device/shared_device.h"
#include "runtime/serve/buffer_run.h"

using namespace plimsoll;
using buffers::Buffer;
using buffers::ContentRef;
using c_api::guarded;
using c_api::require;
using c_api::unwrap;

namespace {

static_assert(PLM_BUFFER_ALIGNMENT == device::kBufferAlignment);

// A C callback as one of ours.
std::function<void(const Status&)> told(plm_done_function done, void* user) {
  if (done == nullptr) return nullptr;
  return [done, user](const Status& status) {
    plm_status* const given = status.ok() ? nullptr : c_api::make_status(status);
    done(user, given);
    plm_status_free(given);
  };
}

Result<ContentRef> content_of(const plm_buffer* buffer, const char* what) {
  PLIMSOLL_RETURN_IF_ERROR(require(buffer != nullptr, "buffer: the pointer is NULL"));
  ContentRef content = buffer->buffer->content();
  if (!content) {
    return failed_precondition(std::string(what) + ": the buffer of " +
                               buffer->buffer->shape().to_string() + " was deleted or donated");
  }
  return content;
}

Result<executor::BufferRunOptions> read_run(const plm_buffer_run_options* given,
                                            size_t parameter_count) {
  PLIMSOLL_ASSIGN_OR_RETURN(plm_buffer_run_options options, c_api::read_options(given));
  options.run.struct_size = sizeof options.run;
  executor::BufferRunOptions run;
  PLIMSOLL_ASSIGN_OR_RETURN(run.control, c_api::read_control(&options.run));
  switch (options.mode) {
    case PLM_RUN_SYNCHRONOUS:
      run.mode = executor::RunMode::synchronous;
      break;
    case PLM_RUN_ASYNCHRONOUS:
      run.mode = executor::RunMode::asynchronous;
      break;
    case PLM_RUN_AUTOMATIC:
      run.mode = executor::RunMode::automatic;
      break;
    default:
      return invalid_argument("run: mode " + std::to_string(options.mode) + " does not exist");
  }
  if (options.keep != nullptr) run.keep = {options.keep, parameter_count};
  run.done = told(options.done, options.done_user);
  return run;
}

std::vector<Buffer*> buffers_of(plm_buffer* const* parameters, size_t count) {
  std::vector<Buffer*> buffers;
  buffers.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    buffers.push_back(parameters[i] == nullptr ? nullptr : parameters[i]->buffer.get());
  }
  return buffers;
}

void give(std::vector<std::shared_ptr<Buffer>> made, plm_buffer** results) {
  std::vector<std::unique_ptr<plm_buffer>> handles;
  for (auto& buffer : made) handles.push_back(std::make_unique<plm_buffer>(std::move(buffer)));
  for (size_t i = 0; i < handles.size(); ++i) results[i] = handles[i].release();
}

Status check_lists(const plm_executable* executable, plm_buffer* const* parameters,
                   size_t parameter_count, plm_buffer** results, size_t result_count) {
  PLIMSOLL_RETURN_IF_ERROR(require(executable != nullptr, "run: the executable is NULL"));
  PLIMSOLL_RETURN_IF_ERROR(c_api::check_mark(executable));
  PLIMSOLL_RETURN_IF_ERROR(c_api::check_counts(
      *executable, parameter_count, result_count,
      (parameters == nullptr && parameter_count > 0) || (results == nullptr && result_count > 0)));
  for (size_t i = 0; i < parameter_count; ++i) {
    PLIMSOLL_RETURN_IF_ERROR(c_api::check_mark(parameters[i]));
  }
  return ok_status();
}

Status run_buffers(const plm_executable* executable, plm_buffer* const* parameters,
                   size_t parameter_count, plm_buffer** results, size_t result_count,
                   const plm_buffer_run_options* given) {
  PLIMSOLL_RETURN_IF_ERROR(
      check_lists(executable, parameters, parameter_count, results, result_count));
  PLIMSOLL_RETURN_IF_ERROR(c_api::require_alone(*executable));
  PLIMSOLL_ASSIGN_OR_RETURN(executor::BufferRunOptions run, read_run(given, parameter_count));
  const std::vector<Buffer*> buffers = buffers_of(parameters, parameter_count);
  PLIMSOLL_ASSIGN_OR_RETURN(
      auto ran, executor::run_on_buffers(executable->served, executable->context->dispatcher(),
                                         buffers, std::move(run)));
  give(std::move(ran), results);
  return ok_status();
}

Status run_together(std::span<const plm_executable* const> executables,
                    plm_buffer* const* const* parameters, size_t parameter_count,
                    plm_buffer** const* results, size_t result_count,
                    const plm_buffer_run_options* given) {
  for (size_t p = 0; p < executables.size(); ++p) {
    PLIMSOLL_RETURN_IF_ERROR(
        check_lists(executables[p], parameters[p], parameter_count, results[p], result_count));
    if (executables[p]->participant == p && executables[p]->participants == executables.size()) {
      continue;
    }
    return invalid_argument("run: executable " + std::to_string(p) + " of " +
                            std::to_string(executables.size()) + " is participant " +
                            std::to_string(executables[p]->participant) + " of " +
                            std::to_string(executables[p]->participants));
  }
  PLIMSOLL_ASSIGN_OR_RETURN(executor::BufferRunOptions run, read_run(given, parameter_count));
  std::vector<std::vector<Buffer*>> buffers;
  for (size_t p = 0; p < executables.size(); ++p) {
    buffers.push_back(buffers_of(parameters[p], parameter_count));
  }
  std::vector<executor::BufferRunPart> parts;
  for (size_t p = 0; p < executables.size(); ++p) {
    parts.push_back({executables[p]->served, &executables[p]->context->dispatcher(), buffers[p]});
  }
  PLIMSOLL_ASSIGN_OR_RETURN(auto ran, executor::run_on_buffers_together(parts, std::move(run)));
  for (size_t p = 0; p < executables.size(); ++p) give(std::move(ran[p]), results[p]);
  return ok_status();
}

}  // namespace

extern "C" {

plm_status* plm_buffer_from_host(plm_context* context, plm_dtype dtype, const int64_t* dims,
                                 size_t rank, const void* data, const int64_t* byte_strides,
                                 plm_buffer** out) {
  return plm_buffer_from_host_in(context, PLM_MEMORY_DEVICE, dtype, dims, rank, data, byte_strides,
                                 out);
}

plm_status* plm_buffer_from_host_in(plm_context* context, plm_memory memory, plm_dtype dtype,
                                    const int64_t* dims, size_t rank, const void* data,
                                    const int64_t* byte_strides, plm_buffer** out) {
  return guarded(context, [&]() -> Status {
    if (memory != PLM_MEMORY_DEVICE && memory != PLM_MEMORY_HOST &&
        memory != PLM_MEMORY_UNPINNED_HOST) {
      return invalid_argument("buffer: memory " + std::to_string(memory) + " does not exist");
    }
    PLIMSOLL_RETURN_IF_ERROR(
        require(context != nullptr && out != nullptr, "buffer: a pointer is NULL"));
    PLIMSOLL_ASSIGN_OR_RETURN(const ir::Shape shape,
                              c_api::make_shape("buffer", dtype, dims, rank));
    PLIMSOLL_RETURN_IF_ERROR(
        require(data != nullptr || shape.byte_size() == 0, "buffer: the data pointer is NULL"));
    trace::Context& owner = *unwrap(context);
    std::span<const std::int64_t> strides;
    if (byte_strides != nullptr) strides = {byte_strides, rank};
    PLIMSOLL_ASSIGN_OR_RETURN(
        auto made, buffers::copy_from_host(owner.budget(), &owner.dispatcher(), shape, data,
                                           strides, static_cast<ir::ArrayMemory>(memory)));
    *out = new plm_buffer(std::move(made));
    return ok_status();
  });
}

plm_status* plm_buffer_borrow(plm_context* context, plm_dtype dtype, const int64_t* dims,
                              size_t rank, void* data, plm_release_function release, void* user,
                              plm_buffer** out) {
  return guarded(context, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(context != nullptr && out != nullptr && release != nullptr,
                                     "buffer: a pointer is NULL"));
    PLIMSOLL_ASSIGN_OR_RETURN(const ir::Shape shape,
                              c_api::make_shape("buffer", dtype, dims, rank));
    PLIMSOLL_RETURN_IF_ERROR(
        require(data != nullptr || shape.byte_size() == 0, "buffer: the data pointer is NULL"));
    trace::Context& owner = *unwrap(context);
    PLIMSOLL_ASSIGN_OR_RETURN(
        auto made, buffers::borrow_from_host(owner.budget(), &owner.dispatcher(), shape, data,
                                             [release, user] { release(user); }));
    *out = new plm_buffer(std::move(made));
    return ok_status();
  });
}

plm_status* plm_buffer_borrow_device(plm_context* context, plm_dtype dtype, const int64_t* dims,
                                     size_t rank, void* data, const int64_t* byte_strides,
                                     plm_release_function release, void* user, plm_buffer** out) {
  return guarded(context, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(context != nullptr && out != nullptr && release != nullptr,
                                     "buffer: a pointer is NULL"));
    PLIMSOLL_ASSIGN_OR_RETURN(const ir::Shape shape,
                              c_api::make_shape("buffer", dtype, dims, rank));
    PLIMSOLL_RETURN_IF_ERROR(
        require(data != nullptr || shape.byte_size() == 0, "buffer: the data pointer is NULL"));
    trace::Context& owner = *unwrap(context);
    std::span<const std::int64_t> strides;
    if (byte_strides != nullptr) strides = {byte_strides, rank};
    PLIMSOLL_ASSIGN_OR_RETURN(
        auto made, buffers::borrow_from_device(owner.budget(), &owner.dispatcher(), shape, data,
                                               strides, [release, user] { release(user); }));
    *out = new plm_buffer(std::move(made));
    return ok_status();
  });
}

void plm_buffer_retain(plm_buffer* buffer) {
  if (buffer != nullptr) buffer->references.fetch_add(1, std::memory_order_relaxed);
}

void plm_buffer_release(plm_buffer* buffer) {
  if (buffer == nullptr || c_api::is_inherited(buffer)) return;
  if (buffer->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete buffer;
}

plm_dtype plm_buffer_dtype(const plm_buffer* buffer) {
  if (buffer == nullptr) return PLM_PRED;
  return static_cast<plm_dtype>(buffer->buffer->shape().dtype());
}
size_t plm_buffer_rank(const plm_buffer* buffer) {
  return buffer == nullptr ? 0 : static_cast<size_t>(buffer->buffer->shape().rank());
}
const int64_t* plm_buffer_dims(const plm_buffer* buffer) {
  return buffer == nullptr ? nullptr : buffer->buffer->shape().dims().begin();
}
size_t plm_buffer_byte_size(const plm_buffer* buffer) {
  return buffer == nullptr ? 0 : static_cast<size_t>(buffer->buffer->shape().byte_size());
}
plm_memory plm_buffer_memory(const plm_buffer* buffer) {
  return buffer == nullptr ? PLM_MEMORY_DEVICE : static_cast<plm_memory>(buffer->buffer->memory());
}
int plm_buffer_is_deleted(const plm_buffer* buffer) {
  if (c_api::is_inherited(buffer)) return 1;
  return buffer != nullptr && buffer->buffer->is_deleted() ? 1 : 0;
}
int plm_buffer_is_ready(const plm_buffer* buffer) {
  if (buffer == nullptr) return 0;
  if (c_api::is_inherited(buffer)) return 1;
  const ContentRef content = buffer->buffer->content();
  return !content || !content->is_pending() ? 1 : 0;
}

void plm_buffer_delete(plm_buffer* buffer) {
  if (buffer != nullptr && !c_api::is_inherited(buffer)) buffer->buffer->remove();
}

plm_status* plm_buffer_wait(plm_buffer* buffer) {
  return guarded(buffer, [&]() -> Status {
    PLIMSOLL_ASSIGN_OR_RETURN(const ContentRef content, content_of(buffer, "wait"));
    return content->wait();
  });
}

plm_status* plm_buffer_when_ready(plm_buffer* buffer, plm_done_function done, void* user) {
  return guarded(buffer, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(done != nullptr, "when ready: the function is NULL"));
    PLIMSOLL_ASSIGN_OR_RETURN(const ContentRef content, content_of(buffer, "when ready"));
    content->when_done(told(done, user));
    return ok_status();
  });
}

plm_status* plm_buffer_read(plm_buffer* buffer, void* destination, size_t bytes) {
  return guarded(buffer, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(buffer != nullptr, "read: the buffer is NULL"));
    const std::size_t size = plm_buffer_byte_size(buffer);
    PLIMSOLL_RETURN_IF_ERROR(
        require(destination != nullptr || size == 0, "read: the destination is NULL"));
    if (bytes != size) {
      return invalid_argument("read: " + std::to_string(bytes) + " bytes of a buffer of " +
                              std::to_string(size));
    }
    return buffers::read(*buffer->buffer, {static_cast<std::byte*>(destination), bytes});
  });
}

plm_status* plm_buffer_hold(plm_buffer* buffer, void** data, plm_hold** out) {
  return guarded(buffer, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(out != nullptr, "hold: the output pointer is NULL"));
    PLIMSOLL_ASSIGN_OR_RETURN(ContentRef content, content_of(buffer, "hold"));
    PLIMSOLL_RETURN_IF_ERROR(content->wait());
    if (data != nullptr) *data = content->data();
    *out = new plm_hold{std::move(content), buffer->buffer->budget()->shared_device()};
    return ok_status();
  });
}

void plm_hold_release(plm_hold* hold) {
  if (hold == nullptr || c_api::is_inherited(hold)) return;
  (void)device::wait_for_all(*hold->device);  // where that fails, nothing runs any more
  delete hold;
}

plm_status* plm_executable_run_buffers_together(const plm_executable* const* executables,
                                                size_t count, plm_buffer* const* const* parameters,
                                                size_t parameter_count, plm_buffer** const* results,
                                                size_t result_count,
                                                const plm_buffer_run_options* options) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(
        require(executables != nullptr && count > 0 && parameters != nullptr && results != nullptr,
                "run: a list is NULL"));
    return run_together({executables, count}, parameters, parameter_count, results, result_count,
                        options);
  });
}

plm_status* plm_executable_run_buffers(const plm_executable* executable,
                                       plm_buffer* const* parameters, size_t parameter_count,
                                       plm_buffer** results, size_t result_count,
                                       const plm_buffer_run_options* options) {
  return guarded(executable, [&] {
    return run_buffers(executable, parameters, parameter_count, results, result_count, options);
  });
}

}  // extern "C"
