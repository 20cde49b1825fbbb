// SPDX-License-Identifier: Apache-2.0
// Runs of executables, their deadlines and cancellations.
#include <chrono>
#include <string>

#include "runtime/c_api/executable.h"

using namespace plimsoll;
using c_api::check_tensor;
using c_api::evaluate_and_pin;
using c_api::guarded;
using c_api::unwrap;
using planner::ParameterResidency;

struct plm_cancellation {
  std::shared_ptr<Cancellation> shared;  // with the runs that use it
  ForkMark mark = {};
};

namespace plimsoll::c_api {

Result<executor::RunControl> read_control(const plm_run_options* given) {
  PLIMSOLL_ASSIGN_OR_RETURN(const plm_run_options options, c_api::read_options(given));
  executor::RunControl control;
  if (!(options.deadline_seconds >= 0)) {
    return invalid_argument("run: deadline_seconds " + std::to_string(options.deadline_seconds) +
                            " (must not be negative)");
  }
  // More than a clock can count is none.
  constexpr double kLongest = 1e9;
  if (options.deadline_seconds > 0 && options.deadline_seconds < kLongest) {
    control.stop.deadline =
        Stop::Clock::now() + std::chrono::duration_cast<Stop::Clock::duration>(
                                 std::chrono::duration<double>(options.deadline_seconds));
  }
  PLIMSOLL_RETURN_IF_ERROR(check_mark(options.cancellation));
  if (options.cancellation != nullptr) control.stop.cancellation = options.cancellation->shared;
  control.may_wait = options.dont_wait == 0;
  return control;
}

Status require_alone(const plm_executable& owner) {
  if (owner.participants == 1) return ok_status();
  return failed_precondition("run: this executable is participant " +
                             std::to_string(owner.participant) + " of " +
                             std::to_string(owner.participants) +
                             " (plm_executable_run_buffers_together runs all of them)");
}

Status check_counts(const plm_executable& owner, size_t parameter_count, size_t result_count,
                    bool lists_missing) {
  const executor::ServedProgram& served = *owner.served;
  if (parameter_count != served.parameters.size() || result_count != served.results.size()) {
    return invalid_argument("run: " + std::to_string(parameter_count) + " parameters and " +
                            std::to_string(result_count) + " results, must be " +
                            std::to_string(served.parameters.size()) + " and " +
                            std::to_string(served.results.size()));
  }
  if (lists_missing) return invalid_argument("run: a list is NULL");
  return ok_status();
}

}  // namespace plimsoll::c_api

namespace {

void add_value(executor::ProgramRun& run, const trace::Value& value) {
  run.add_resident(value.device.data(), value.bytes);
}

}  // namespace

extern "C" {

plm_status* plm_cancellation_create(plm_cancellation** out) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(
        c_api::require(out != nullptr, "cancellation: the output pointer is NULL"));
    *out = new plm_cancellation{std::make_shared<Cancellation>()};
    return ok_status();
  });
}

void plm_cancellation_cancel(plm_cancellation* cancellation) {
  if (cancellation != nullptr && !c_api::is_inherited(cancellation)) {
    cancellation->shared->cancel();
  }
}

void plm_cancellation_destroy(plm_cancellation* cancellation) {
  if (!c_api::is_inherited(cancellation)) delete cancellation;
}

plm_status* plm_executable_run(const plm_executable* executable, const void* const* parameters,
                               size_t parameter_count, void* const* results, size_t result_count) {
  return plm_executable_run_with(executable, parameters, parameter_count, results, result_count,
                                 nullptr);
}

plm_status* plm_executable_run_with(const plm_executable* executable, const void* const* parameters,
                                    size_t parameter_count, void* const* results,
                                    size_t result_count, const plm_run_options* options) {
  return guarded(executable, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(c_api::require(executable != nullptr, "run: the executable is NULL"));
    PLIMSOLL_RETURN_IF_ERROR(c_api::require_alone(*executable));
    PLIMSOLL_RETURN_IF_ERROR(c_api::check_counts(*executable, parameter_count, result_count,
                                                 (parameters == nullptr && parameter_count > 0) ||
                                                     (results == nullptr && result_count > 0)));
    PLIMSOLL_ASSIGN_OR_RETURN(executor::RunControl control, c_api::read_control(options));
    executor::ProgramRun run(*executable->served, std::move(control));
    for (size_t i = 0; i < parameter_count; ++i) {
      if (executable->bound[i].value != nullptr) {
        add_value(run, *executable->bound[i].value);
      } else {
        PLIMSOLL_RETURN_IF_ERROR(run.add_host(parameters[i]));
      }
    }
    PLIMSOLL_RETURN_IF_ERROR(run.launch());
    for (size_t i = 0; i < result_count; ++i) {
      if (results[i] != nullptr) PLIMSOLL_RETURN_IF_ERROR(run.copy_result(i, results[i]));
    }
    return ok_status();
  });
}

plm_status* plm_executable_run_tensors(const plm_executable* executable,
                                       plm_tensor* const* parameters, size_t parameter_count,
                                       plm_tensor** results, size_t result_count) {
  return plm_executable_run_tensors_with(executable, parameters, parameter_count, results,
                                         result_count, nullptr);
}

plm_status* plm_executable_run_tensors_with(const plm_executable* executable,
                                            plm_tensor* const* parameters, size_t parameter_count,
                                            plm_tensor** results, size_t result_count,
                                            const plm_run_options* options) {
  return guarded(executable, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(c_api::require(executable != nullptr, "run: the executable is NULL"));
    PLIMSOLL_RETURN_IF_ERROR(c_api::require_alone(*executable));
    PLIMSOLL_RETURN_IF_ERROR(c_api::check_counts(*executable, parameter_count, result_count,
                                                 (parameters == nullptr && parameter_count > 0) ||
                                                     (results == nullptr && result_count > 0)));
    PLIMSOLL_ASSIGN_OR_RETURN(executor::RunControl control, c_api::read_control(options));
    executor::ProgramRun run(*executable->served, std::move(control));
    trace::Context& context = *executable->context;
    std::vector<std::vector<std::byte>> staged(parameter_count);
    struct Holds {
      trace::Context& context;
      std::vector<trace::Node*> nodes;
      ~Holds() {
        for (trace::Node* node : nodes) context.unpin(node);
      }
    } pinned{context, {}};
    pinned.nodes.reserve(parameter_count);
    for (size_t i = 0; i < parameter_count; ++i) {
      if (executable->bound[i].value != nullptr) {
        add_value(run, *executable->bound[i].value);
        continue;
      }
      PLIMSOLL_RETURN_IF_ERROR(check_tensor(*executable, i, unwrap(parameters[i])));
      trace::Node* node = unwrap(parameters[i])->node;
      const bool on_device = executable->served->residency(i) != ParameterResidency::host;
      PLIMSOLL_RETURN_IF_ERROR(evaluate_and_pin(context, node, on_device));
      pinned.nodes.push_back(node);
      if (on_device) {
        add_value(run, *node->value);
      } else if (node->value->on_host) {
        PLIMSOLL_RETURN_IF_ERROR(run.add_host(node->value->host.data()));
      } else {
        staged[i].resize(static_cast<size_t>(node->byte_size()));
        PLIMSOLL_RETURN_IF_ERROR(context.read(node, staged[i]));
        PLIMSOLL_RETURN_IF_ERROR(run.add_host(staged[i].data()));
      }
    }
    for (size_t i = 0; i < result_count; ++i) {
      if (!executable->served->is_result_on_host(i)) continue;
      return failed_precondition("run: result " + std::to_string(i) +
                                 " is returned in host memory, a tensor is device memory "
                                 "(plm_executable_run_buffers and plm_executable_run return it)");
    }
    // Other tensors make room; where they can't, the run says what is missing.
    (void)context.make_room(
        std::max<std::int64_t>(0, plm_executable_peak(executable) - run.bound_bytes()));
    context.wait_idle();
    PLIMSOLL_RETURN_IF_ERROR(run.launch());
    for (size_t i = 0; i < result_count; ++i) {
      const trace::NodeRef node =
          context.from_device(executable->served->results[i].shape, run.take_result(i));
      results[i] = c_api::wrap(context.make_tensor(node.get()));
    }
    return ok_status();
  });
}

}  // extern "C"
