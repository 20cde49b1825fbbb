// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/communicator.hpp"
#include "plimsoll/error.hpp"
#include "plimsoll/plimsoll.h"

namespace plimsoll {

namespace optim {
class Optimizer;
}

namespace internal {

// What a trainable Tensor's copies share.
struct Variable {
  explicit Variable(plm_tensor* tensor) : handle(tensor) { plm_tensor_retain(handle); }
  ~Variable() {
    plm_tensor_release(gradient);
    plm_tensor_release(handle);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

  void set_gradient(plm_tensor* owned) {
    plm_tensor_release(gradient);
    gradient = owned;
  }

  plm_tensor* handle;
  plm_tensor* gradient = nullptr;
  bool trainable = true;
};

// Is told of variables, by their tensors.
using Listener = std::function<void(std::span<plm_tensor* const>)>;

inline void tell(std::vector<std::weak_ptr<Listener>>& listeners,
                 std::span<plm_tensor* const> variables) {
  std::erase_if(listeners, [](const auto& listener) { return listener.expired(); });
  for (const auto& weak : std::vector(listeners)) {
    if (const auto listener = weak.lock()) (*listener)(variables);
  }
}

}  // namespace internal

struct ContextOptions {
  std::int64_t memory_limit_bytes = 0;  // 0: from PLIMSOLL_MEMORY_LIMIT, else none
  std::string planner{};                // empty: from PLIMSOLL_PLANNER, else "default"
  std::uint64_t seed = 0;               // of the random states that dropout draws
  std::int64_t max_pending_ops = 0;     // 0: 100,000
  // Gets one line per cut; on the thread that caused it. Empty: silent.
  std::function<void(const std::string&)> log{};
  bool optimize = true;             // false: no fusion and no simplification (for comparisons)
  std::string remedies{};           // e.g. "recompute,swap"; empty: from PLIMSOLL_REMEDIES
  std::int64_t min_size_bytes = 0;  // smaller values are always kept; 0: from PLIMSOLL_MIN_SIZE
  double planning_seconds = 0;      // 0: from PLIMSOLL_PLANNING_SECONDS
  // Host memory and a file that values may be swapped to.
  std::int64_t host_limit_bytes = 0;   // 0: from PLIMSOLL_HOST_LIMIT, else none
  std::string spill_dir{};             // empty: from PLIMSOLL_SPILL_DIR, else none
  std::int64_t spill_limit_bytes = 0;  // 0: from PLIMSOLL_SPILL_LIMIT, else what is free there
  std::string planning{};       // "background", "full" or "first"; empty: from PLIMSOLL_PLANNING
  Communicator communicator{};  // what operations between participants meet by; empty: no others
};

struct MemoryStatistics {
  std::optional<std::int64_t> limit_bytes;  // none: unlimited
  std::int64_t used_bytes = 0;
  std::int64_t peak_bytes = 0;
  // Of the host memory and the disk that values are swapped to.
  std::int64_t host_peak_bytes = 0, disk_peak_bytes = 0;
  std::int64_t swapped_out_bytes = 0, swapped_in_bytes = 0;  // since the context was made
  // What the device's bytes are for (plm_memory_statistics): their sum is used_bytes, peak_bytes.
  struct ByUse {
    std::int64_t parameters = 0, constants = 0, activations = 0, workspaces = 0, encoded = 0,
                 staging = 0;
  };
  ByUse used, peak;
  std::int64_t code_bytes = 0, peak_code_bytes = 0;  // of compiled kernels, in host memory
};

struct MemoryNeeds {
  std::int64_t floor_bytes = 0;           // the smallest limit that would do
  std::int64_t unlimited_peak_bytes = 0;  // of the plan that nothing limits
};

// A trace in recording, a memory limit, and a thread that executes (plm_context): a handle; copies
// share it. Used by one thread at a time. Tensors keep what they need of it alive.
class Context {
 public:
  explicit Context(const ContextOptions& options = {}) : state_(std::make_shared<State>()) {
    state_->log = options.log;
    plm_context_options c = {};
    c.struct_size = sizeof c;
    c.memory_limit_bytes = options.memory_limit_bytes;
    c.planner = options.planner.empty() ? nullptr : options.planner.c_str();
    c.seed = options.seed;
    c.max_pending_ops = options.max_pending_ops;
    c.disable_optimization = options.optimize ? 0 : 1;
    c.remedies = options.remedies.empty() ? nullptr : options.remedies.c_str();
    c.min_size_bytes = options.min_size_bytes;
    c.planning_seconds = options.planning_seconds;
    c.host_limit_bytes = options.host_limit_bytes;
    c.spill_dir = options.spill_dir.empty() ? nullptr : options.spill_dir.c_str();
    c.spill_limit_bytes = options.spill_limit_bytes;
    c.planning = options.planning.empty() ? nullptr : options.planning.c_str();
    c.communicator = options.communicator.handle();
    if (options.log) {
      c.log = [](void* user, plm_log_level, const char* message) {
        static_cast<State*>(user)->log(message);
      };
      c.log_user = state_.get();
    }
    internal::check(plm_context_create(&c, &state_->handle));
  }

  // Takes over what plm_context_create made.
  static Context adopt(plm_context* owned) {
    auto state = std::make_shared<State>();
    state->handle = owned;
    return Context(state);
  }

  // The context that new tensors of this thread belong to: the innermost ContextScope's, else one
  // with default options, made when first asked for.
  static Context& current() {
    std::optional<Context>& slot = current_slot();
    if (!slot) slot.emplace();
    return *slot;
  }

  plm_context* handle() const { return state_->handle; }
  // Which participant this is among how many; 0 of 1 without a communicator.
  std::int64_t participant() const { return plm_context_participant(handle()); }
  std::int64_t participants() const { return plm_context_participants(handle()); }

  void set_limit(std::int64_t bytes) { internal::check(plm_context_set_limit(handle(), bytes)); }
  void remove_limit() { set_limit(PLM_NO_LIMIT); }

  MemoryStatistics memory() const {
    plm_memory_statistics c = {};
    c.struct_size = sizeof c;
    internal::check(plm_context_memory(handle(), &c));
    MemoryStatistics result;
    if (c.limit_bytes != PLM_NO_LIMIT) result.limit_bytes = c.limit_bytes;
    result.used_bytes = c.used_bytes;
    result.peak_bytes = c.peak_bytes;
    result.host_peak_bytes = c.host_peak_bytes;
    result.disk_peak_bytes = c.disk_peak_bytes;
    result.swapped_out_bytes = c.swapped_out_bytes;
    result.swapped_in_bytes = c.swapped_in_bytes;
    result.used = {c.used_parameters, c.used_constants, c.used_activations,
                   c.used_workspaces, c.used_encoded,   c.used_all_staging};
    result.peak = {c.peak_parameters, c.peak_constants, c.peak_activations,
                   c.peak_workspaces, c.peak_encoded,   c.peak_all_staging};
    result.code_bytes = c.code_bytes;
    result.peak_code_bytes = c.peak_code_bytes;
    return result;
  }
  void reset_peak() { plm_context_reset_peak(handle()); }

  // Cuts what assignments ask for and starts it: the end of a training step.
  void step() { internal::check(plm_step(handle())); }
  // What step() would need now, found by planning alone: nothing runs.
  MemoryNeeds measure_step() {
    plm_memory_needs c = {};
    c.struct_size = sizeof c;
    internal::check(plm_measure(handle(), nullptr, 0, &c));
    return {c.floor_bytes, c.unlimited_peak_bytes};
  }
  // Waits until everything started has ended; throws the first error since the last wait.
  void wait() { internal::check(plm_wait(handle())); }

  // What the last cut did and how it ran, as a JSON object (plm_context_report).
  std::string report() {
    const char* text = nullptr;
    internal::check(plm_context_report(handle(), &text));
    return text;
  }
  void enable_profile(bool on) { plm_context_enable_profile(handle(), on ? 1 : 0); }

  friend bool operator==(const Context& a, const Context& b) { return a.state_ == b.state_; }

 private:
  friend class ContextScope;
  friend class DataParallel;
  friend class optim::Optimizer;
  friend class Tensor;

  struct State {
    ~State() { plm_context_destroy(handle); }
    plm_context* handle = nullptr;
    std::function<void(const std::string&)> log{};
    // In order of creation, so that backward() records in an order that doesn't vary.
    std::vector<std::weak_ptr<internal::Variable>> variables;
    // Told what backward() has given gradients, in the order in which it made these; and what an
    // optimizer has updated.
    std::vector<std::weak_ptr<internal::Listener>> after_backward, after_update;
  };

  explicit Context(std::shared_ptr<State>& state) : state_(state) {}

  static std::optional<Context>& current_slot() {
    thread_local std::optional<Context> slot;
    return slot;
  }

  std::shared_ptr<State> state_;
};

// Makes a context this thread's current one until the end of the scope.
class ContextScope {
 public:
  explicit ContextScope(const Context& context)
      : before_(std::exchange(Context::current_slot(), context)) {}
  ~ContextScope() { Context::current_slot() = std::move(before_); }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  std::optional<Context> before_;
};

}  // namespace plimsoll
