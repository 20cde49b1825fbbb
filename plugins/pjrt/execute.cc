// SPDX-License-Identifier: Apache-2.0
// Runs of loaded executables.
#include <algorithm>
#include <memory>
#include <vector>

#include "plugins/pjrt/api.h"
#include "plugins/pjrt/buffer.h"
#include "plugins/pjrt/event.h"
#include "plugins/pjrt/executable.h"

// Nothing is kept between runs.
struct plimsoll::pjrt::abi::ExecuteContext {};

namespace plimsoll::pjrt {
namespace {

using namespace abi;

// The parameters that the caller keeps, whatever the program says: a flag each, or none.
Error* read_kept(const ExecuteOptions* options, std::size_t count,
                 std::vector<unsigned char>& out) {
  if (options == nullptr || options->num_non_donatable_input_indices == 0) return nullptr;
  out.resize(count);
  for (std::size_t i = 0; i < options->num_non_donatable_input_indices; ++i) {
    const std::int64_t index = options->non_donatable_input_indices[i];
    if (index < 0 || index >= static_cast<std::int64_t>(count)) {
      return invalid_argument("there is no argument " + std::to_string(index) +
                              " that could be kept");
    }
    out[static_cast<std::size_t>(index)] = 1;
  }
  return nullptr;
}

Error* check(const LoadedExecutable_Execute_Args& args) {
  if (args.executable->is_deleted) {
    return make_error(kFailedPrecondition, "the executable was deleted");
  }
  const std::size_t devices = args.executable->program->devices.size();
  if (args.num_devices != devices) {
    return invalid_argument("arguments for " + std::to_string(args.num_devices) +
                            " devices, the program is for " + std::to_string(devices));
  }
  const std::size_t count = args.executable->program->parameter_count;
  if (devices > 0 && args.num_args != count) {
    return invalid_argument(std::to_string(args.num_args) + " arguments, the program has " +
                            std::to_string(count) + " parameters");
  }
  if (args.options != nullptr &&
      (args.options->num_send_ops > 0 || args.options->num_recv_ops > 0)) {
    return unimplemented("send and receive callbacks");
  }
  return nullptr;
}

Error* execute(LoadedExecutable_Execute_Args& args) {
  PLIMSOLL_PJRT_RETURN_IF_ERROR(check(args));
  const CompiledProgram& program = *args.executable->program;
  const std::size_t devices = program.devices.size(), count = program.types.size();
  std::vector<std::vector<plm_buffer*>> given(devices), made(devices);
  std::vector<plm_buffer* const*> parameters;
  std::vector<plm_buffer**> results;
  std::vector<const plm_executable*> executables;
  for (std::size_t d = 0; d < devices; ++d) {
    for (std::size_t i = 0; i < args.num_args; ++i) {
      given[d].push_back(args.argument_lists[d][i]->handle.get());
    }
    made[d].resize(count);
    parameters.push_back(given[d].data());
    results.push_back(made[d].data());
    executables.push_back(program.executables[d].get());
  }
  if (devices == 0) return nullptr;
  std::vector<unsigned char> kept;
  PLIMSOLL_PJRT_RETURN_IF_ERROR(read_kept(args.options, args.num_args, kept));
  std::vector<std::shared_ptr<Moment>> ended;
  const auto run = [&](std::size_t first, std::size_t together) -> Error* {
    plm_buffer_run_options options = {};
    options.struct_size = sizeof options;
    // What waits for other processes, or for this one's other participants, waits elsewhere.
    options.mode = program.is_shared() ? PLM_RUN_ASYNCHRONOUS : PLM_RUN_AUTOMATIC;
    options.keep = kept.empty() ? nullptr : kept.data();
    std::unique_ptr<std::shared_ptr<Moment>> user;
    if (args.device_complete_events != nullptr || program.calls_python) {
      ended.push_back(make_moment());
      user = std::make_unique<std::shared_ptr<Moment>>(ended.back());
      options.done = end_moment;
      options.done_user = user.get();
    }
    PLIMSOLL_PJRT_RETURN_IF_ERROR(from_status(
        together == 1
            ? plm_executable_run_buffers(executables[first], parameters[first], args.num_args,
                                         results[first], count, &options)
            : plm_executable_run_buffers_together(executables.data(), together, parameters.data(),
                                                  args.num_args, results.data(), count, &options)));
    (void)user.release();
    return nullptr;
  };
  if (program.is_shared()) {
    for (std::size_t d = 0; d < devices; ++d) PLIMSOLL_PJRT_RETURN_IF_ERROR(run(d, 1));
  } else {
    PLIMSOLL_PJRT_RETURN_IF_ERROR(run(0, devices));
  }
  // What functions of Python say has been said when the call returns, as on XLA's CPU backend. Its
  // error is the results'.
  if (program.calls_python) {
    for (const auto& one : ended) {
      const std::unique_ptr<Error, DestroyError> error(one->wait());
    }
  }
  for (std::size_t d = 0; d < devices; ++d) {
    for (std::size_t i = 0; i < count; ++i) {
      args.output_lists[d][i] = new Buffer(program.devices[d], made[d][i]);
    }
    if (args.device_complete_events != nullptr) {
      args.device_complete_events[d] = make_event(ended[std::min(d, ended.size() - 1)]);
    }
  }
  return nullptr;
}

}  // namespace

Error* LoadedExecutable_Execute(LoadedExecutable_Execute_Args* args) {
  return guarded([&] { return execute(*args); });
}

Error* ExecuteContext_Create(ExecuteContext_Create_Args* args) {
  return guarded([&]() -> Error* {
    args->context = new ExecuteContext;
    return nullptr;
  });
}

Error* ExecuteContext_Destroy(ExecuteContext_Destroy_Args* args) {
  delete args->context;
  return nullptr;
}

}  // namespace plimsoll::pjrt
