// SPDX-License-Identifier: Apache-2.0
// Runs of executables, their deadlines and cancellations.
#include <chrono>
#include <string>

#include "runtime/c_api/executable.h"

using namespace plimsoll;
using c_api::check_tensor;
using c_api::evaluate_and_pin;
using c_api::guarded;
using c_api::Leaf;
using c_api::unwrap;
using planner::ParameterResidency;

struct plm_cancellation {
  std::shared_ptr<Cancellation> shared;  // with the runs that use it
};

namespace {

// When a run is to stop, and whether it may wait.
struct RunControl {
  Stop stop;
  bool may_wait = true;
};

Result<RunControl> read_control(const plm_run_options* given) {
  PLIMSOLL_ASSIGN_OR_RETURN(const plm_run_options options, c_api::read_options(given));
  RunControl control;
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
  if (options.cancellation != nullptr) control.stop.cancellation = options.cancellation->shared;
  control.may_wait = options.dont_wait == 0;
  return control;
}

// One run: its parameters, then `enter`, which waits for room, then `launch`.
class Run {
 public:
  explicit Run(const plm_executable& owner) : owner_(owner) {}

  Status begin(size_t parameter_count, size_t result_count, bool lists_missing,
               const plm_run_options* options) {
    if (parameter_count != owner_.parameters.size() || result_count != owner_.results.size()) {
      return invalid_argument("run: " + std::to_string(parameter_count) + " parameters and " +
                              std::to_string(result_count) + " results, must be " +
                              std::to_string(owner_.parameters.size()) + " and " +
                              std::to_string(owner_.results.size()));
    }
    if (lists_missing) return invalid_argument("run: a list is NULL");
    PLIMSOLL_ASSIGN_OR_RETURN(control_, read_control(options));
    PLIMSOLL_ASSIGN_OR_RETURN(stream_, owner_.budget->device().create_stream());
    residency_ = owner_.plans->first().get();
    return ok_status();
  }

  bool is_host(size_t i) const {
    return residency_->residency(static_cast<int>(i)) == ParameterResidency::host;
  }

  // Host memory that the plan reads itself.
  void add_pointer(const void* pointer) { parameters_.push_back(const_cast<void*>(pointer)); }

  void add_resident(const trace::Value& value) {
    bound_bytes_ += value.bytes;
    add_pointer(value.device.data());
  }

  Status add_host(size_t i, const void* data) {
    const Leaf& leaf = owner_.parameters[i];
    if (data == nullptr && leaf.shape.byte_size() > 0) {
      return invalid_argument("run: parameter " + std::to_string(i) + " (" + leaf.name +
                              ") is NULL");
    }
    if (!is_host(i)) staged_.push_back(i);
    add_pointer(data);
    return ok_status();
  }

  std::int64_t bound_bytes() const { return bound_bytes_; }

  Status launch() {
    PLIMSOLL_ASSIGN_OR_RETURN(entry_,
                              owner_.plans->admit(bound_bytes_, control_.stop, control_.may_wait));
    memory::Reservation& reservation = entry_.admitted.reservation();
    for (const size_t i : staged_) {
      const Leaf& leaf = owner_.parameters[i];
      const std::int64_t bytes = leaf.shape.byte_size();
      PLIMSOLL_ASSIGN_OR_RETURN(auto block, reservation.allocate(bytes, memory::Tag::parameters,
                                                                 "parameter " + leaf.name));
      PLIMSOLL_RETURN_IF_ERROR(
          stream_->copy(block.data(), parameters_[i], bytes, device::CopyKind::host_to_device));
      parameters_[i] = block.data();
      held_.push_back(std::move(block));
    }
    std::vector<void*> pointers;
    for (const Leaf& leaf : owner_.results) {
      PLIMSOLL_ASSIGN_OR_RETURN(auto block,
                                reservation.allocate(leaf.shape.byte_size(), memory::Tag::outputs,
                                                     "result " + leaf.name));
      pointers.push_back(block.data());
      results_.push_back(std::move(block));
    }
    return entry_.executable->run(*stream_, *owner_.budget, {parameters_, pointers},
                                  {&entry_.admitted, control_.stop});
  }

  Status copy_result(size_t i, void* to) {
    return stream_->copy(to, results_[i].data(), owner_.results[i].shape.byte_size(),
                         device::CopyKind::device_to_host);
  }
  Status finish() { return stream_->synchronize(); }
  memory::Allocation take_result(size_t i) { return std::move(results_[i]); }

 private:
  const plm_executable& owner_;
  RunControl control_;
  std::shared_ptr<const executor::Executable> residency_;  // the same in all plans
  std::unique_ptr<device::Stream> stream_;
  std::vector<void*> parameters_;
  std::vector<size_t> staged_;  // parameters to be copied to device memory
  std::int64_t bound_bytes_ = 0;
  executor::SharedPlans::Entry entry_;
  std::vector<memory::Allocation> held_, results_;  // of the entry's reservation
};

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
  if (cancellation != nullptr) cancellation->shared->cancel();
}

void plm_cancellation_destroy(plm_cancellation* cancellation) { delete cancellation; }

plm_status* plm_executable_run(const plm_executable* executable, const void* const* parameters,
                               size_t parameter_count, void* const* results, size_t result_count) {
  return plm_executable_run_with(executable, parameters, parameter_count, results, result_count,
                                 nullptr);
}

plm_status* plm_executable_run_with(const plm_executable* executable, const void* const* parameters,
                                    size_t parameter_count, void* const* results,
                                    size_t result_count, const plm_run_options* options) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(c_api::require(executable != nullptr, "run: the executable is NULL"));
    Run run(*executable);
    PLIMSOLL_RETURN_IF_ERROR(run.begin(
        parameter_count, result_count,
        (parameters == nullptr && parameter_count > 0) || (results == nullptr && result_count > 0),
        options));
    for (size_t i = 0; i < parameter_count; ++i) {
      if (executable->bound[i].value != nullptr) {
        run.add_resident(*executable->bound[i].value);
      } else {
        PLIMSOLL_RETURN_IF_ERROR(run.add_host(i, parameters[i]));
      }
    }
    PLIMSOLL_RETURN_IF_ERROR(run.launch());
    for (size_t i = 0; i < result_count; ++i) {
      if (results[i] != nullptr) PLIMSOLL_RETURN_IF_ERROR(run.copy_result(i, results[i]));
    }
    return run.finish();
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
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(c_api::require(executable != nullptr, "run: the executable is NULL"));
    Run run(*executable);
    PLIMSOLL_RETURN_IF_ERROR(run.begin(
        parameter_count, result_count,
        (parameters == nullptr && parameter_count > 0) || (results == nullptr && result_count > 0),
        options));
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
        run.add_resident(*executable->bound[i].value);
        continue;
      }
      PLIMSOLL_RETURN_IF_ERROR(check_tensor(*executable, i, unwrap(parameters[i])));
      trace::Node* node = unwrap(parameters[i])->node;
      PLIMSOLL_RETURN_IF_ERROR(evaluate_and_pin(context, node, !run.is_host(i)));
      pinned.nodes.push_back(node);
      if (!run.is_host(i)) {
        run.add_resident(*node->value);
      } else if (node->value->on_host) {
        run.add_pointer(node->value->host.data());
      } else {
        staged[i].resize(static_cast<size_t>(node->byte_size()));
        PLIMSOLL_RETURN_IF_ERROR(context.read(node, staged[i]));
        run.add_pointer(staged[i].data());
      }
    }
    // Other tensors make room; where they can't, the run says what is missing.
    (void)context.make_room(
        std::max<std::int64_t>(0, plm_executable_peak(executable) - run.bound_bytes()));
    context.wait_idle();
    PLIMSOLL_RETURN_IF_ERROR(run.launch());
    for (size_t i = 0; i < result_count; ++i) {
      const trace::NodeRef node =
          context.from_device(executable->results[i].shape, run.take_result(i));
      results[i] = c_api::wrap(context.make_tensor(node.get()));
    }
    return ok_status();
  });
}

}  // extern "C"
