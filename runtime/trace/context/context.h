// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/fork.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/buffers/dispatcher.h"
#include "runtime/device/communicator.h"
#include "runtime/device/kernel_provider.h"
#include "runtime/memory/budget/budget.h"
#include "runtime/planner/planner.h"
#include "runtime/program/program_compiler.h"
#include "runtime/residency/execution.h"
#include "runtime/residency/live_values.h"
#include "runtime/trace/cut/cut.h"
#include "runtime/trace/cut/program_cache.h"
#include "runtime/trace/cut/segments.h"
#include "runtime/trace/record/node.h"
#include "runtime/trace/record/recorder.h"

namespace plimsoll::trace {

struct ContextOptions {
  std::int64_t limit_bytes = planner::kUnlimited;
  memory::Tiers tiers;  // where values may go that the limit has no room for
  planner::PlanPolicy planning;
  double replan_drift = 0;  // serve/current_executable.h
  std::uint64_t seed = 0;
  std::int64_t max_pending = 100000;
  executor::CompilerOptions compilation;
  // This context's end of what collectives meet by; null: there are no others.
  std::shared_ptr<device::SharedCommunicator> communicator;
  std::function<void(LogLevel, std::string_view)> log;  // beside the process-wide log
};

// What the last cut did.
struct CutReport {
  bool hit = false;
  std::string miss_reason;
  std::int64_t operations = 0, parameters = 0, outputs = 0;
  std::int64_t limit_bytes = 0;      // of the context
  std::int64_t available_bytes = 0;  // to this cut's plan
  std::int64_t floor_bytes = 0;      // of a cut that did not fit
  double compile_seconds = 0;
  std::int64_t replans = 0;  // of this cut's plan, since its times drifted
  // Programs that the cut was run as, one after the other, since its plan did not fit as a whole; 0
  // if it did.
  std::int64_t segments = 0;
  std::shared_ptr<const executor::Executable> executable;      // null for a cut that failed
  std::shared_ptr<const executor::CurrentExecutable> current;  // where it comes from
  std::shared_ptr<std::atomic<double>> seconds;  // of the execution; 0 until it has run
};

// Device bytes, other tensors' memory included.
struct MemoryNeeds {
  std::int64_t floor_bytes = 0;           // the smallest limit that would do
  std::int64_t unlimited_peak_bytes = 0;  // of the plan that nothing limits
};

// A user's handle on a node. Made and freed by its context.
struct Tensor;

// A trace in recording and everything needed to run it. One thread at a time, except where noted.
// Nodes passed in are kept alive by the caller.
class Context {
 public:
  static Result<std::unique_ptr<Context>> create(ContextOptions options);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  Recording& recording() { return recording_; }
  Recorder& recorder() { return recorder_; }
  const std::shared_ptr<memory::Budget>& budget() const { return budget_; }  // any thread
  // The limit from here on. A lower one waits for what was evaluated before: that was planned under
  // the old one, and there may be no room for it under the new one. Except while operations between
  // participants are among it, which the caller may have to evaluate elsewhere first. Any thread.
  void set_limit(std::int64_t limit_bytes);
  const std::shared_ptr<const executor::ProgramCompiler>& compiler() const { return compiler_; }
  const ContextOptions& options() const { return options_; }
  // Runs on buffers that nobody waits for. Any thread.
  buffers::Dispatcher& dispatcher() { return dispatcher_; }

  // A leaf with a copy of `bytes` in host memory.
  NodeRef from_host(const ir::Shape& shape, std::span<const std::byte> bytes);
  // A leaf with device memory that holds its value already.
  NodeRef from_device(const ir::Shape& shape, memory::Allocation allocation);
  // A u64[2] leaf: a fresh state of the counter-based generator.
  NodeRef random_state();
  // States drawn so far; set, it goes on from there.
  std::uint64_t random_counter() const { return random_counter_; }
  void set_random_counter(std::uint64_t counter) { random_counter_ = counter; }

  // FAILED_PRECONDITION while a callback is recorded (scope.h), and for nodes of one that has
  // ended. Everything that evaluates, reads or assigns asks for it.
  Status check_outside(std::string_view what, std::span<Node* const> nodes) const;
  // Cuts when too many operations are pending: every pending node a tensor holds is evaluated.
  Status limit_pending();
  // Plans and starts what `wanted` and the assignments need. On an error nothing has changed.
  Status evaluate(std::span<Node* const> wanted);
  // What evaluating `wanted` now would need: compiles and plans, runs nothing, changes nothing.
  Result<MemoryNeeds> measure(std::span<Node* const> wanted);
  // The bytes of a value, waiting for it and evaluating it first where needed.
  Status read(Node* node, std::span<std::byte> out);
  // Restores a leaf's bytes where they were evicted, and keeps them there until `unpin`;
  // blocks until they are there.
  Status pin(Node* leaf);
  void unpin(Node* leaf);
  // Gives up other values until this much could be allocated beside what is there.
  Status make_room(std::int64_t bytes);
  Status wait_all() { return worker_.wait_all(); }
  // Blocks until nothing runs; errors stay to be reported.
  void wait_idle() { worker_.wait_idle(); }
  // Fault injection for tests: the n-th tensor from now (1 = next) that is encoded or decoded to
  // keep it in fewer bytes, wherever, fails; 0 turns it off. Gives what was left of the n before: 0
  // where that failure has come.
  std::int64_t fail_codec(std::int64_t n) { return worker_.fail_codec(n); }
  // A device leaf's value, kept alive by the caller. Precondition: it is pinned.
  std::shared_ptr<Value> value_of(Node* leaf) const { return leaf->value; }

  // The pending nodes that `wanted` needs as a module.
  std::unique_ptr<ir::Module> module_of(std::span<Node* const> wanted);

  Tensor* make_tensor(Node* node);
  // The context may be gone afterwards.
  void release_tensor(Tensor* tensor);
  // `variable` takes the value, whose shape is checked.
  Status assign(Tensor& variable, Node* value);
  // The same, but no cut evaluates the value for the variable's sake.
  Status assign_recipe(Tensor& variable, Node* value);
  // Whether what the tensor holds, now and after each assignment, is a variable (kVariable).
  void set_variable(Tensor& tensor, bool is_variable);
  void set_name(Node* node, std::string_view name);
  const std::string& name_of(const Node* node) const { return names_[node->name]; }
  std::string text_given_out;  // what the C ABI last returned by pointer
  // In a child that was forked later nothing of it can be used, and nobody may destroy it.
  const ForkMark mark;

  // Owners: the user, all tensors together, executables. The last one to go deletes the context.
  // Any thread.
  void retain() { owners_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  // The user's part in it ends: nothing is logged to where the options said any more.
  void disown() {
    options_.log = nullptr;
    release();
  }

  const CutReport& last_cut() const { return last_cut_; }
  struct Counts {
    std::int64_t cuts = 0, hits = 0, misses = 0;
  };
  const Counts& counts() const { return counts_; }
  const memory::EvictionStatistics& evictions() const { return live_.statistics(); }
  StoredBytes stored_bytes() const { return worker_.stored_bytes(); }
  void enable_profile(bool on) { profiling_ = on; }
  bool profiling() const { return profiling_; }

 private:
  Context(ContextOptions options, std::shared_ptr<memory::Budget> budget,
          std::shared_ptr<const executor::ProgramCompiler> compiler);
  Status upload(Node* leaf);
  std::vector<Node*> pick_outputs(std::span<Node* const> wanted, std::vector<Node*>& old_leaves);
  using PlanAnswer = executor::ExecutableCache::Answer;
  Result<PlanAnswer> choose_plan(LiveValues& live, CachedProgram& program,
                                 std::span<const planner::ParameterResidency> residency,
                                 std::int64_t held_bytes);
  bool keep_what_is_needed(LiveValues& live);
  std::shared_ptr<const EncodedForms> forms_of(CachedProgram& program);
  bool has_room(LiveValues& live, CachedProgram& program, std::int64_t held_bytes);
  bool would_do(std::span<const std::shared_ptr<Value>> uploads, CachedProgram* program,
                std::int64_t limit);
  Status refuse_pin(Node* leaf, const Status& why);
  void settle();
  std::int64_t limit_that_does(std::int64_t likely, const std::function<bool(std::int64_t)>& does);
  std::vector<std::shared_ptr<Value>> segment_parameters(const CachedProgram& program);
  Status start(const PlanAnswer& plan, CachedProgram& program);
  Result<std::shared_ptr<Segments>> segments_of(CachedProgram& program, std::size_t form);
  Status run_segments(CachedProgram& program);
  Status run_segments(Segments& segments, std::vector<std::shared_ptr<Value>> values,
                      LiveValues& live, bool submits, std::vector<std::shared_ptr<Value>>& results);
  void materialize(std::vector<std::shared_ptr<Value>> values);
  Status refuse(CachedProgram& program, const Status& why, bool has_plan);
  Status refuse_upload(std::span<Node* const> leaves, std::span<Node* const> wanted,
                       const Status& why);
  void log(LogLevel level, std::string_view line) const;
  void log_cut() const;

  ContextOptions options_;
  const std::shared_ptr<memory::Budget> budget_;
  const std::shared_ptr<const executor::ProgramCompiler> compiler_;
  Recording recording_;
  Recorder recorder_;
  ProgramCache cache_;
  Cut cut_;
  struct Assignment {
    NodeRef value;  // pending when assigned
    NodeRef old;    // device leaf whose memory the value may take; may be empty
  };
  std::vector<Assignment> assignments_;
  std::vector<std::string> names_{""};
  std::unordered_map<std::string, std::uint32_t> name_index_;
  std::int64_t live_tensors_ = 0;
  std::atomic<std::int64_t> owners_{1};
  std::int64_t next_pending_limit_;
  std::uint64_t random_counter_ = 0;
  CutReport last_cut_;
  Counts counts_;
  bool profiling_ = false;
  LiveValues live_;  // uses the worker
  Worker worker_;    // its thread ends before anything else goes, and this one's before that:
  buffers::Dispatcher dispatcher_;
};

struct Tensor {
  Context* context = nullptr;
  Node* node = nullptr;
  std::uint32_t refs = 1;
  std::uint8_t size_class = 0;
  bool is_variable = false;  // of its present value and of all that it is assigned: kVariable
};

// The report as a JSON object; with `profile`, the kernels' times too.
std::string report_json(const Context& context);
// The part of it that concerns a plan, with the limit that it was made for.
std::string plan_report_json(const planner::Plan& plan, std::int64_t limit_bytes);

}  // namespace plimsoll::trace
