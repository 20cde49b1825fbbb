// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <mutex>
#include <string>

#include "runtime/base/file.h"
#include "runtime/c_api/handles.h"
#include "runtime/executor/calibration.h"
#include "runtime/executor/plan_ladder.h"
#include "runtime/ir/text.h"

using namespace plimsoll;
using c_api::guarded;
using c_api::unwrap;
using planner::ParameterResidency;

namespace {

struct Leaf {
  ir::Shape shape;
  std::string name;
};

struct Bound {
  trace::Tensor* tensor = nullptr;      // holds the node, so that no assignment takes its memory
  std::shared_ptr<trace::Value> value;  // held, so that it stays where it is
};

void let_go(trace::Context& context, const Bound& bound) {
  context.let_go(bound.tensor->node);
  context.release_tensor(bound.tensor);
}

}  // namespace

struct plm_executable {
  trace::Context* context = nullptr;  // retained
  std::shared_ptr<memory::Budget> budget;
  std::shared_ptr<jit::Compiler> compiler;
  std::shared_ptr<const executor::Program> program;
  std::shared_ptr<executor::PlanLadder> ladder;
  planner::PlanOptions options;
  std::vector<Leaf> parameters, results;
  std::vector<Bound> bound;
  std::string summary;
  mutable std::mutex floor_mutex;
  mutable std::int64_t floor_bytes = -1;

  ~plm_executable() {
    for (const Bound& one : bound) {
      if (one.tensor != nullptr) let_go(*context, one);
    }
    if (context != nullptr) context->release();
  }
};

struct plm_cancellation {
  std::shared_ptr<Cancellation> shared;  // with the runs that use it
};

namespace {

void add_leaves(const ir::Shape& shape, const std::string& name, std::vector<Leaf>& out) {
  const auto leaves = ir::leaves(shape);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    out.push_back({*leaves[i], leaves.size() == 1 ? name : name + "." + std::to_string(i)});
  }
}

Status create(plm_context* handle, std::string_view text, const char* source_name,
              const plm_executable_options* given, plm_executable** out) {
  PLIMSOLL_ASSIGN_OR_RETURN(const plm_executable_options options, c_api::read_options(given));
  if (options.memory_limit_bytes < 0) {
    return invalid_argument("executable: memory_limit_bytes " +
                            std::to_string(options.memory_limit_bytes) + " (must not be negative)");
  }
  trace::Context& context = *unwrap(handle);
  const bool calibrate = context.options().calibrate;
  PLIMSOLL_ASSIGN_OR_RETURN(auto module,
                            ir::parse_module(text, source_name == nullptr ? "hlo" : source_name));
  auto made = std::make_unique<plm_executable>();
  made->options = context.options().planning;
  const ir::Computation& entry = *module->entry();
  for (const ir::Instruction* parameter : entry.parameters()) {
    add_leaves(parameter->shape(), parameter->name(), made->parameters);
  }
  add_leaves(entry.root()->shape(), entry.root()->name(), made->results);
  if (options.placements != nullptr && options.placement_count != made->parameters.size()) {
    return invalid_argument("executable: " + std::to_string(options.placement_count) +
                            " placements for " + std::to_string(made->parameters.size()) +
                            " parameters");
  }
  for (std::size_t i = 0; i < made->parameters.size(); ++i) {
    if (options.placements != nullptr && options.placements[i] != PLM_PLACEMENT_HOST &&
        options.placements[i] != PLM_PLACEMENT_RESIDENT) {
      return invalid_argument("executable: placement " + std::to_string(options.placements[i]) +
                              " of parameter " + std::to_string(i) + " does not exist");
    }
    const bool resident =
        options.placements != nullptr && options.placements[i] == PLM_PLACEMENT_RESIDENT;
    made->options.parameters.push_back(resident ? ParameterResidency::resident
                                                : ParameterResidency::host);
  }
  if (options.planner != nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(made->options.policy, c_api::policy_from(options.planner));
  }
  made->budget = context.budget();
  made->compiler = context.compiler();
  made->options.limit_bytes =
      options.memory_limit_bytes > 0 ? options.memory_limit_bytes : planner::kUnlimited;
  PLIMSOLL_ASSIGN_OR_RETURN(
      made->program,
      executor::Program::create(
          std::move(module), *made->compiler, options.disable_optimization == 0,
          calibrate ? executor::machine_speeds(*made->compiler) : planner::Roofline()));
  PLIMSOLL_ASSIGN_OR_RETURN(made->ladder,
                            executor::PlanLadder::create(made->program, made->options, made->budget,
                                                         context.options().replan_drift));
  const executor::PlanLadder::Rung first = made->ladder->rungs().front();
  made->summary = "{\"limit_bytes\": " +
                  (first.limit_bytes == planner::kUnlimited ? std::string("null")
                                                            : std::to_string(first.limit_bytes)) +
                  ", " + trace::plan_json_fields(first.executable->plan()) + "}";
  made->bound.resize(made->parameters.size());
  made->context = &context;
  context.retain();
  *out = made.release();
  return ok_status();
}

Status describe(const plm_executable* executable, std::vector<Leaf> plm_executable::* list,
                size_t index, plm_value_info* out) {
  if (executable == nullptr) return invalid_argument("executable: the pointer is NULL");
  const std::vector<Leaf>& leaves = executable->*list;
  if (index >= leaves.size()) {
    return out_of_range("executable: no value " + std::to_string(index) + " of " +
                        std::to_string(leaves.size()));
  }
  const Leaf& leaf = leaves[index];
  plm_value_info info{};
  info.dtype = static_cast<plm_dtype>(leaf.shape.dtype());
  info.rank = static_cast<size_t>(leaf.shape.rank());
  for (int i = 0; i < leaf.shape.rank(); ++i) info.dims[i] = leaf.shape.dim(i);
  info.byte_size = static_cast<size_t>(leaf.shape.byte_size());
  info.name = leaf.name.c_str();
  return c_api::write_struct(info, out);
}

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
    residency_ = owner_.ladder->first().get();
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
                              owner_.ladder->admit(bound_bytes_, control_.stop, control_.may_wait));
    memory::Reservation& room = entry_.admitted.reservation();
    for (const size_t i : staged_) {
      const Leaf& leaf = owner_.parameters[i];
      const std::int64_t bytes = leaf.shape.byte_size();
      PLIMSOLL_ASSIGN_OR_RETURN(
          auto block, room.allocate(bytes, memory::Tag::parameters, "parameter " + leaf.name));
      PLIMSOLL_RETURN_IF_ERROR(
          stream_->copy(block.data(), parameters_[i], bytes, device::CopyKind::host_to_device));
      parameters_[i] = block.data();
      held_.push_back(std::move(block));
    }
    std::vector<void*> pointers;
    for (const Leaf& leaf : owner_.results) {
      PLIMSOLL_ASSIGN_OR_RETURN(
          auto block,
          room.allocate(leaf.shape.byte_size(), memory::Tag::outputs, "result " + leaf.name));
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
  executor::PlanLadder::Entry entry_;
  std::vector<memory::Allocation> held_, results_;  // of the entry's room
};

Status check_tensor(const plm_executable& owner, size_t i, const trace::Tensor* tensor) {
  const Leaf& leaf = owner.parameters[i];
  if (tensor == nullptr) {
    return invalid_argument("run: parameter " + std::to_string(i) + " (" + leaf.name + ") is NULL");
  }
  if (tensor->context != owner.context) {
    return invalid_argument("run: parameter " + leaf.name + " belongs to another context");
  }
  if (!(tensor->node->shape() == leaf.shape)) {
    return invalid_argument("run: parameter " + leaf.name + " is " + leaf.shape.to_string() +
                            ", the tensor " + tensor->node->shape().to_string());
  }
  return ok_status();
}

// Evaluates; on return the node is a leaf whose bytes are there.
// The value is there afterwards, and held.
Status settle(trace::Context& context, trace::Node* node, bool on_device) {
  if (node->is_pending() || (on_device && node->value->on_host)) {
    PLIMSOLL_RETURN_IF_ERROR(context.evaluate(std::span(&node, 1)));
  }
  return context.hold(node);
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
  if (cancellation != nullptr) cancellation->shared->cancel();
}

void plm_cancellation_destroy(plm_cancellation* cancellation) { delete cancellation; }

plm_status* plm_executable_create(plm_context* context, const char* text, size_t text_size,
                                  const char* source_name, const plm_executable_options* options,
                                  plm_executable** out) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(c_api::require(context != nullptr && out != nullptr && text != nullptr,
                                            "executable: a pointer is NULL"));
    return create(context, {text, text_size}, source_name, options, out);
  });
}

plm_status* plm_executable_load(plm_context* context, const char* path,
                                const plm_executable_options* options, plm_executable** out) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(c_api::require(context != nullptr && out != nullptr && path != nullptr,
                                            "executable: a pointer is NULL"));
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string text, read_file(path));
    return create(context, text, path, options, out);
  });
}

void plm_executable_destroy(plm_executable* executable) { delete executable; }

size_t plm_executable_parameter_count(const plm_executable* executable) {
  return executable->parameters.size();
}
size_t plm_executable_result_count(const plm_executable* executable) {
  return executable->results.size();
}
plm_status* plm_executable_parameter(const plm_executable* executable, size_t index,
                                     plm_value_info* out) {
  return guarded([&] { return describe(executable, &plm_executable::parameters, index, out); });
}
plm_status* plm_executable_result(const plm_executable* executable, size_t index,
                                  plm_value_info* out) {
  return guarded([&] { return describe(executable, &plm_executable::results, index, out); });
}

plm_status* plm_executable_floor(const plm_executable* executable, int64_t* bytes) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(
        c_api::require(executable != nullptr && bytes != nullptr, "floor: a pointer is NULL"));
    const std::lock_guard lock(executable->floor_mutex);
    if (executable->floor_bytes < 0) {
      PLIMSOLL_ASSIGN_OR_RETURN(
          const planner::Floor floor,
          executor::least_floor(*executable->program, executor::complete_options(
                                                          executable->options, *executable->program,
                                                          *executable->budget)));
      executable->floor_bytes = floor.bytes;
    }
    *bytes = executable->floor_bytes;
    return ok_status();
  });
}

int64_t plm_executable_peak(const plm_executable* executable) {
  return executable->ladder->first().get()->plan().peak_bytes;
}
const char* plm_executable_summary(const plm_executable* executable) {
  return executable->summary.c_str();
}

plm_status* plm_executable_bind(plm_executable* executable, size_t parameter, plm_tensor* tensor) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(c_api::require(executable != nullptr, "bind: the executable is NULL"));
    if (parameter >= executable->parameters.size()) {
      return out_of_range("bind: no parameter " + std::to_string(parameter));
    }
    PLIMSOLL_RETURN_IF_ERROR(check_tensor(*executable, parameter, unwrap(tensor)));
    if (executable->ladder->first().get()->residency(static_cast<int>(parameter)) !=
        ParameterResidency::resident) {
      return failed_precondition("bind: parameter " + executable->parameters[parameter].name +
                                 " is not placed resident");
    }
    trace::Context& context = *executable->context;
    trace::Node* node = unwrap(tensor)->node;
    PLIMSOLL_RETURN_IF_ERROR(settle(context, node, true));
    Bound& slot = executable->bound[parameter];
    if (slot.tensor != nullptr) let_go(context, slot);
    slot = {context.make_tensor(node), node->value};
    return ok_status();
  });
}

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
        for (trace::Node* node : nodes) context.let_go(node);
      }
    } holds{context, {}};
    holds.nodes.reserve(parameter_count);
    for (size_t i = 0; i < parameter_count; ++i) {
      if (executable->bound[i].value != nullptr) {
        run.add_resident(*executable->bound[i].value);
        continue;
      }
      PLIMSOLL_RETURN_IF_ERROR(check_tensor(*executable, i, unwrap(parameters[i])));
      trace::Node* node = unwrap(parameters[i])->node;
      PLIMSOLL_RETURN_IF_ERROR(settle(context, node, !run.is_host(i)));
      holds.nodes.push_back(node);
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
