// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <string>

#include "runtime/autograd/gradient.h"
#include "runtime/base/environment.h"
#include "runtime/base/unknown_variables.h"
#include "runtime/c_api/communicator.h"
#include "runtime/c_api/handles.h"
#include "runtime/device/devices.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/options.h"

namespace plimsoll::c_api {

const char* keep_text(trace::Context& context, std::string text) {
  context.text_given_out = std::move(text);
  return context.text_given_out.c_str();
}

namespace {

Result<std::int64_t> limit_from_environment() {
  const std::string text = variable_text(Variable::memory_limit).text;
  if (text.empty()) return planner::kUnlimited;
  const std::string name(variable_info(Variable::memory_limit).name);
  PLIMSOLL_ASSIGN_OR_RETURN(const MemoryLimit limit,
                            parse_memory_limit(text, name, Shares::of_device));
  return limit.resolve(device::default_device()->bytes(), 0);
}

Result<trace::ContextOptions> context_options(const plm_context_options& in) {
  trace::ContextOptions options;
  if (in.memory_limit_bytes < 0) {
    return invalid_argument("memory_limit_bytes: " + std::to_string(in.memory_limit_bytes) +
                            " (must not be negative)");
  }
  options.limit_bytes = in.memory_limit_bytes;
  if (in.memory_limit_bytes == 0) {
    PLIMSOLL_ASSIGN_OR_RETURN(options.limit_bytes, limit_from_environment());
  }
  PLIMSOLL_ASSIGN_OR_RETURN(options.planning, planner::policy_from_environment());
  if (in.planner != nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(options.planning.policy,
                              planner::parse_policy(in.planner, "planner"));
  }
  if (in.remedies != nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(options.planning.remedies,
                              planner::parse_remedies(in.remedies, "remedies"));
  }
  if (in.min_size_bytes < 0) {
    return invalid_argument(
        fmt::format("min_size_bytes: {} (must not be negative)", in.min_size_bytes));
  }
  constexpr double kMostPlanningSeconds = 1e9;
  if (!(in.planning_seconds >= 0 && in.planning_seconds < kMostPlanningSeconds)) {
    return invalid_argument(fmt::format("planning_seconds: {} (must be from 0 to below {})",
                                        in.planning_seconds, kMostPlanningSeconds));
  }
  if (in.planning != nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(options.planning.effort,
                              planner::parse_effort(in.planning, "planning"));
  }
  if (in.min_size_bytes > 0) options.planning.min_bytes = in.min_size_bytes;
  if (in.planning_seconds > 0) options.planning.planning_seconds = in.planning_seconds;
  PLIMSOLL_ASSIGN_OR_RETURN(options.replan_drift, number_variable(Variable::replan_drift));
  PLIMSOLL_ASSIGN_OR_RETURN(options.compilation, executor::compiler_options_from_environment());
  options.seed = in.seed;
  if (in.max_pending_ops < 0) {
    return invalid_argument("max_pending_ops: " + std::to_string(in.max_pending_ops) +
                            " (must not be negative)");
  }
  options.max_pending = in.max_pending_ops;
  if (options.max_pending == 0) {
    PLIMSOLL_ASSIGN_OR_RETURN(options.max_pending, count_variable(Variable::trace_limit, 100000));
  }
  options.compilation.program.optimize = in.disable_optimization == 0;
  if (in.host_limit_bytes < 0 || in.spill_limit_bytes < 0) {
    return invalid_argument(
        "host_limit_bytes, spill_limit_bytes: " + std::to_string(in.host_limit_bytes) + ", " +
        std::to_string(in.spill_limit_bytes) + " (must not be negative)");
  }
  PLIMSOLL_ASSIGN_OR_RETURN(memory::TierOptions tiers, memory::tier_options_from_environment());
  if (in.host_limit_bytes > 0) tiers.host_bytes = in.host_limit_bytes;
  if (in.spill_dir != nullptr) tiers.spill_folder = in.spill_dir;
  if (in.spill_limit_bytes > 0) tiers.spill_bytes = in.spill_limit_bytes;
  PLIMSOLL_ASSIGN_OR_RETURN(options.tiers, memory::make_tiers(tiers, device::default_device()));
  PLIMSOLL_RETURN_IF_ERROR(check_mark(in.communicator));
  if (in.communicator != nullptr) {
    options.communicator = in.communicator->peers;
    options.compilation.program.participants_here =
        options.communicator->communicator->participants_here();
    if (const auto speeds = options.communicator->communicator->speeds()) {
      options.compilation.program.collective_speeds = {speeds->message_seconds,
                                                       speeds->bytes_per_second};
    }
  }
  if (in.log != nullptr) {
    options.log = [log = in.log, user = in.log_user](LogLevel level, std::string_view line) {
      const std::string text(line);
      log(user, level <= LogLevel::warning ? PLM_LOG_WARNING : PLM_LOG_INFO, text.c_str());
    };
  }
  return options;
}

}  // namespace
}  // namespace plimsoll::c_api

using namespace plimsoll;
using c_api::guarded;
using c_api::require;
using c_api::unwrap;

extern "C" {

plm_status* plm_context_create(const plm_context_options* options, plm_context** out) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(out != nullptr, "context: the output pointer is NULL"));
    PLIMSOLL_RETURN_IF_ERROR(check_environment());
    PLIMSOLL_RETURN_IF_ERROR(check_unknown_variables());
    PLIMSOLL_RETURN_IF_ERROR(device::check_device());
    PLIMSOLL_ASSIGN_OR_RETURN(const auto known, c_api::read_options(options));
    PLIMSOLL_ASSIGN_OR_RETURN(auto converted, c_api::context_options(known));
    PLIMSOLL_ASSIGN_OR_RETURN(auto context, trace::Context::create(std::move(converted)));
    *out = c_api::wrap(context.release());
    return ok_status();
  });
}

void plm_context_destroy(plm_context* handle) {
  if (handle == nullptr || c_api::is_inherited(handle)) return;
  trace::Context* context = unwrap(handle);
  plm_status_free(guarded([&] {
    (void)context->wait_all();
    return ok_status();
  }));
  context->disown();
}

plm_status* plm_context_set_limit(plm_context* context, int64_t limit_bytes) {
  return guarded(context, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(context != nullptr, "set_limit: the context is NULL"));
    if (limit_bytes <= 0) {
      return invalid_argument("set_limit: " + std::to_string(limit_bytes) +
                              " (must be above zero; PLM_NO_LIMIT for none)");
    }
    unwrap(context)->set_limit(limit_bytes);
    return ok_status();
  });
}

const char* plm_context_device(const plm_context* context) {
  return context == nullptr ? "" : unwrap(context)->budget()->device().name().data();
}

int plm_context_is_host_memory(const plm_context* context) {
  return context != nullptr && unwrap(context)->budget()->device().is_host_memory() ? 1 : 0;
}

int64_t plm_context_participant(const plm_context* context) {
  if (context == nullptr || unwrap(context)->options().communicator == nullptr) return 0;
  return unwrap(context)->options().communicator->communicator->participant();
}

int64_t plm_context_participants(const plm_context* context) {
  if (context == nullptr || unwrap(context)->options().communicator == nullptr) return 1;
  return unwrap(context)->options().communicator->communicator->participants();
}

int64_t plm_context_collective_bucket(const plm_context* context) {
  return context == nullptr
             ? 0
             : unwrap(context)->options().compilation.program.collective_bucket_bytes;
}

plm_status* plm_parse_memory_limit(const char* text, const char* what, int64_t unlimited_peak_bytes,
                                   int64_t* bytes) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(c_api::require(text != nullptr && what != nullptr && bytes != nullptr,
                                            "memory limit: a pointer is NULL"));
    const Shares shares = unlimited_peak_bytes > 0 ? Shares::of_device_or_peak : Shares::of_device;
    PLIMSOLL_ASSIGN_OR_RETURN(const MemoryLimit limit, parse_memory_limit(text, what, shares));
    *bytes = limit.resolve(device::default_device()->bytes(), unlimited_peak_bytes);
    return ok_status();
  });
}

int64_t plm_context_limit(const plm_context* context) {
  if (context == nullptr || c_api::is_inherited(context)) return 0;
  return unwrap(context)->budget()->statistics().limit_bytes;
}

plm_status* plm_context_memory(const plm_context* context, plm_memory_statistics* out) {
  return guarded(context, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(context != nullptr, "memory: the context is NULL"));
    const memory::Statistics s = unwrap(context)->budget()->statistics();
    const auto used = [&](memory::Tag tag) { return s.used_by_tag[static_cast<size_t>(tag)]; };
    const auto peak = [&](memory::Tag tag) { return s.peak_by_tag[static_cast<size_t>(tag)]; };
    plm_memory_statistics filled = {};
    filled.limit_bytes = s.limit_bytes;
    filled.used_bytes = s.used_bytes;
    filled.peak_bytes = s.peak_bytes;
    filled.used_parameters = used(memory::Tag::parameters);
    filled.used_constants = used(memory::Tag::constants);
    filled.used_outputs = used(memory::Tag::outputs);
    filled.used_arena = used(memory::Tag::arena);
    filled.used_staging = used(memory::Tag::staging);
    filled.peak_parameters = peak(memory::Tag::parameters);
    filled.peak_constants = peak(memory::Tag::constants);
    filled.peak_outputs = peak(memory::Tag::outputs);
    filled.peak_arena = peak(memory::Tag::arena);
    filled.peak_staging = peak(memory::Tag::staging);
    filled.allocations = s.allocations;
    const memory::Tiers& tiers = unwrap(context)->budget()->tiers();
    const auto of = [](const memory::Tier* tier) {
      return tier == nullptr ? memory::TierStatistics{} : tier->statistics();
    };
    const memory::TierStatistics host = of(tiers.host.get()), disk = of(tiers.disk.get());
    filled.host_limit_bytes = host.limit_bytes;
    filled.host_used_bytes = host.used_bytes;
    filled.host_peak_bytes = host.peak_bytes;
    filled.disk_limit_bytes = disk.limit_bytes;
    filled.disk_used_bytes = disk.used_bytes;
    filled.disk_peak_bytes = disk.peak_bytes;
    for (const MemorySpace tier : kTiers) {
      const memory::TierStatistics moved = of(tiers[tier].get());
      filled.swapped_out_bytes += moved.out.bytes;
      filled.swapped_in_bytes += moved.in.bytes;
    }
    filled.reserved_bytes = s.reserved_bytes;
    const memory::AdmissionStatistics runs = unwrap(context)->budget()->admission().statistics();
    filled.running_runs = runs.running;
    filled.waiting_runs = runs.waiting;
    filled.admitted_runs = runs.admitted;
    filled.waited_runs = runs.waited;
    filled.most_passed = runs.most_passed;
    const auto used_for = [&](memory::Use use) { return s.used_by_use[static_cast<size_t>(use)]; };
    const auto peak_for = [&](memory::Use use) { return s.peak_by_use[static_cast<size_t>(use)]; };
    filled.used_activations = used_for(memory::Use::activations);
    filled.used_workspaces = used_for(memory::Use::workspaces);
    filled.used_encoded = used_for(memory::Use::encoded);
    filled.used_all_staging = used_for(memory::Use::staging);
    filled.peak_activations = peak_for(memory::Use::activations);
    filled.peak_workspaces = peak_for(memory::Use::workspaces);
    filled.peak_encoded = peak_for(memory::Use::encoded);
    filled.peak_all_staging = peak_for(memory::Use::staging);
    const executor::CodeBytes code = unwrap(context)->compiler()->code_bytes();
    filled.code_bytes = code.now;
    filled.peak_code_bytes = code.peak;
    filled.recomputed_bytes = s.recomputed_bytes;
    filled.encoded_bytes = s.encoded_bytes;
    return c_api::write_struct(filled, out);
  });
}

void plm_context_reset_peak(plm_context* context) {
  if (context == nullptr || c_api::is_inherited(context)) return;
  memory::Budget& budget = *unwrap(context)->budget();
  budget.reset_peak();
  for (const MemorySpace tier : kTiers) {
    if (budget.tiers()[tier] != nullptr) budget.tiers()[tier]->reset_peak();
  }
}

void plm_context_fail_allocation(plm_context* context, int64_t n) {
  if (context == nullptr || c_api::is_inherited(context)) return;
  unwrap(context)->budget()->fail_allocation(n);
}

plm_status* plm_context_report(plm_context* context, const char** json) {
  return guarded(context, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(
        require(context != nullptr && json != nullptr, "report: a pointer is NULL"));
    unwrap(context)->wait_idle();
    *json = c_api::keep_text(*unwrap(context), trace::report_json(*unwrap(context)));
    return ok_status();
  });
}

void plm_context_enable_profile(plm_context* context, int on) {
  if (context != nullptr) unwrap(context)->enable_profile(on != 0);
}

plm_status* plm_eval(plm_context* context, plm_tensor* const* tensors, size_t count) {
  return guarded(context, [&]() -> Status {
    std::vector<trace::Node*> nodes;
    PLIMSOLL_RETURN_IF_ERROR(c_api::collect_nodes("eval", context, tensors, count, nodes));
    return unwrap(context)->evaluate(nodes);
  });
}

plm_status* plm_step(plm_context* context) { return plm_eval(context, nullptr, 0); }

plm_status* plm_measure(plm_context* context, plm_tensor* const* tensors, size_t count,
                        plm_memory_needs* out) {
  return guarded(context, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(out != nullptr, "measure: the output pointer is NULL"));
    std::vector<trace::Node*> nodes;
    PLIMSOLL_RETURN_IF_ERROR(c_api::collect_nodes("measure", context, tensors, count, nodes));
    PLIMSOLL_ASSIGN_OR_RETURN(const trace::MemoryNeeds needs, unwrap(context)->measure(nodes));
    plm_memory_needs filled;
    filled.floor_bytes = needs.floor_bytes;
    filled.unlimited_peak_bytes = needs.unlimited_peak_bytes;
    return c_api::write_struct(filled, out);
  });
}

plm_status* plm_wait(plm_context* context) {
  return guarded(context, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(context != nullptr, "wait: the context is NULL"));
    return unwrap(context)->wait_all();
  });
}

plm_status* plm_trace_text(plm_context* context, plm_tensor* const* tensors, size_t count,
                           const char** text) {
  return guarded(context, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(text != nullptr, "trace_text: the output pointer is NULL"));
    std::vector<trace::Node*> nodes;
    PLIMSOLL_RETURN_IF_ERROR(c_api::collect_nodes("trace_text", context, tensors, count, nodes));
    PLIMSOLL_RETURN_IF_ERROR(unwrap(context)->check_outside("trace_text", nodes));
    *text = c_api::keep_text(*unwrap(context), ir::to_text(*unwrap(context)->module_of(nodes)));
    return ok_status();
  });
}

plm_status* plm_gradients(plm_context* context, const plm_tensor* const* outputs,
                          const plm_tensor* const* output_gradients, size_t output_count,
                          const plm_tensor* const* wrt, size_t wrt_count,
                          const plm_gradient_options* options, plm_tensor** gradients) {
  return guarded(context, [&]() -> Status {
    std::vector<trace::Node*> of, weights, with_respect_to;
    PLIMSOLL_RETURN_IF_ERROR(c_api::collect_nodes("gradients", context, outputs, output_count, of));
    PLIMSOLL_RETURN_IF_ERROR(
        c_api::collect_nodes("gradients", context, wrt, wrt_count, with_respect_to));
    if (output_gradients != nullptr) {
      for (size_t i = 0; i < output_count; ++i) {
        std::vector<trace::Node*> weight = {nullptr};
        if (output_gradients[i] != nullptr) {
          weight.clear();
          PLIMSOLL_RETURN_IF_ERROR(c_api::collect_nodes("gradients: output_gradients", context,
                                                        output_gradients + i, 1, weight));
        }
        weights.push_back(weight[0]);
      }
    }
    PLIMSOLL_RETURN_IF_ERROR(
        require(gradients != nullptr || wrt_count == 0, "gradients: the output pointer is NULL"));
    PLIMSOLL_ASSIGN_OR_RETURN(const plm_gradient_options known, c_api::read_options(options));
    const auto unused = known.null_unused    ? autograd::Unused::null
                        : known.allow_unused ? autograd::Unused::zeros
                                             : autograd::Unused::error;
    trace::Context& target = *unwrap(context);
    if (known.unbroken) {
      PLIMSOLL_RETURN_IF_ERROR(autograd::check_unbroken(target.recorder(), of));
    }
    PLIMSOLL_ASSIGN_OR_RETURN(const auto made, autograd::gradients(target.recorder(), of, weights,
                                                                   with_respect_to, unused));
    for (size_t i = 0; i < wrt_count; ++i) {
      gradients[i] = made[i] ? c_api::wrap(target.make_tensor(made[i].get())) : nullptr;
    }
    return ok_status();
  });
}

plm_status* plm_backward(plm_context* context, const plm_tensor* loss, const plm_tensor* const* wrt,
                         size_t wrt_count, plm_tensor** gradients) {
  if (loss != nullptr && plm_tensor_rank(loss) != 0) {
    return guarded([&] {
      return invalid_argument("backward: the loss is " + unwrap(loss)->node->shape().to_string() +
                              ", must be rank 0");
    });
  }
  return plm_gradients(context, &loss, nullptr, 1, wrt, wrt_count, nullptr, gradients);
}

}  // extern "C"
