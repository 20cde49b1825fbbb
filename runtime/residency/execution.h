// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/communicator.h"
#include "runtime/device/device.h"
#include "runtime/executor/executable.h"
#include "runtime/memory/budget/admission.h"
#include "runtime/memory/budget/budget.h"
#include "runtime/residency/encoded_form.h"
#include "runtime/residency/value.h"

namespace plimsoll::trace {

// One run of a plan: what it reads, what it makes.
struct Execution {
  std::shared_ptr<const executor::Executable> executable;
  std::vector<std::shared_ptr<Value>> parameters;
  std::vector<std::int64_t> scalars;  // lifted constants: the last parameters, by their bits
  std::vector<std::weak_ptr<Value>> outputs;
  std::vector<std::int64_t> output_bytes;
  std::vector<memory::Tag> output_tags;
  std::shared_ptr<const EncodedForms> forms;     // of the outputs; null: none
  std::shared_ptr<std::atomic<double>> seconds;  // set when it has run
  bool meets = false;                            // other participants, in collectives
  bool reported = false;                         // its failure has been given to the user
  bool retryable = false;                        // failed, and may be tried again
  Status failure;                                // of one that is

  // Something of what it reads is overwritten.
  bool donates() const;
  // Device bytes it takes while it runs, beside what it reads.
  std::int64_t needed_bytes() const;
  // Of these, what stays afterwards; less than 0 where more goes that it was given.
  std::int64_t kept_bytes() const;
  // Device bytes it takes while it runs, beside what it reads and makes.
  std::int64_t workspace_bytes() const;
  // Of what it donates and makes, what no value accounts for any more: until it has run, buffers
  // that no output will take; while it runs, outputs that nobody has.
  std::int64_t unbooked_bytes() const;
};

// What went wrong in the background.
struct Failures {
  std::vector<std::shared_ptr<Value>> stores;          // their bytes are in device memory still
  std::vector<std::shared_ptr<Execution>> executions;  // retryable; in their order
};

// A store that took less of its tier than the value has bytes.
struct Saving {
  std::weak_ptr<Value> value;
  std::uint64_t number = 0;  // of the store
  std::int64_t bytes = 0;
};

// Of all stores in tiers that succeeded.
struct StoredBytes {
  std::int64_t given = 0;  // of values
  std::int64_t taken = 0;  // of tiers
};

// The thread that runs executions, and moves values, in the order of submission; at most `kDepth`
// executions wait. Transfers run beside them: a store begins when its value has been made, and its
// device bytes are free when an allocation needs them; a load begins when there is room beside all
// that comes before it, and is waited for by what reads it. What was begun ahead of its turn and
// fails is tried again in turn. An execution that meets other participants and fails ends what they
// share, with its error, and is not tried again: they wait, or have gone on. Thread-safe against
// its own thread; used by one other thread at a time.
class Worker {
 public:
  explicit Worker(std::shared_ptr<memory::Budget> budget,
                  std::shared_ptr<device::SharedCommunicator> communicator = nullptr)
      : budget_(std::move(budget)), communicator_(std::move(communicator)) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // Every output value's state is `running` from here on. Blocks while the queue is full.
  Status submit(std::shared_ptr<Execution> execution);
  // Gives up the value's device bytes.
  Status drop(std::shared_ptr<Value> value) { return move(Movement::drop, std::move(value)); }
  // Copies the value to `tier`, which outlives this, and evicts its device bytes then. With
  // `codes`, in fewer bytes where that saves; `number` tells this store from others (Saving).
  Status store(std::shared_ptr<Value> value, memory::Tier& tier, bool codes = false,
               std::uint64_t number = 0) {
    return move({Movement::store, nullptr, std::move(value), &tier, 0, {}, codes, number});
  }
  // Copies it back, and frees the copy. The value is `running` until then.
  Status load(std::shared_ptr<Value> value, memory::Tier& tier) {
    return move(Movement::load, std::move(value), &tier);
  }
  // The same in device memory: `bytes` of it for the copy.
  Status encode(std::shared_ptr<Value> value, std::int64_t bytes, device::CodecKernels codec) {
    return move({Movement::encode, nullptr, std::move(value), nullptr, bytes, std::move(codec)});
  }
  Status decode(std::shared_ptr<Value> value) { return move(Movement::decode, std::move(value)); }
  Status discard_copy(std::shared_ptr<Value> value) {
    return move(Movement::discard_copy, std::move(value));
  }
  // Blocks until the value is not `running`; its error, if it failed. The failure of an execution
  // that could be tried again is reported once; after that it is tried again here.
  Status wait(const std::shared_ptr<Value>& value);
  // Submits again, in their order, the executions that failed for lack of memory. To be called
  // before a new execution, so that none overtakes them.
  Status revive();
  // Whether something has failed since the failures were last taken.
  bool has_failures() const { return has_failures_.load(std::memory_order_acquire); }
  // Blocks until nothing runs. Executions stay retryable unless they are abandoned.
  Failures take_failures();
  // What stores have saved since they were last taken.
  std::vector<Saving> take_savings();
  StoredBytes stored_bytes() const;
  // The execution won't be tried again. Precondition: nothing runs.
  void abandon(const std::shared_ptr<Execution>& execution);
  // What was to be dropped once `execution` had been tried again: it stays, and is returned.
  std::vector<std::shared_ptr<Value>> keep_deferred(const Execution& execution);
  // Blocks until nothing runs or waits; the first error since the last call.
  Status wait_all();
  void wait_idle();
  // Blocks until what had been submitted at the call has ended, however it did. Not for executions
  // that meet other participants, which the caller may have to bring along first; nor on the
  // worker's own thread. Any thread.
  void wait_for_submitted();

  // Fault injection for tests: the n-th encoding or decoding from now (1 = next), in device memory
  // or for a tier, fails; 0 turns it off. Gives what was left of the n before.
  std::int64_t fail_codec(std::int64_t n) { return fail_codec_in_.exchange(n); }

 private:
  enum class Movement : std::uint8_t { run, drop, store, load, encode, decode, discard_copy };
  struct Work {
    Movement movement = Movement::run;
    std::shared_ptr<Execution> execution;  // run
    std::shared_ptr<Value> value;          // the others
    memory::Tier* tier = nullptr;
    std::int64_t bytes = 0;      // encode
    device::CodecKernels codec;  // encode
    bool codes = false;          // store
    std::uint64_t number = 0;    // store
    bool done = false;           // ahead of its turn
    bool failed = false;         // then
    bool could_begin = false;    // a load, as far as its value goes
  };
  // A copy under way to a tier, respectively from it.
  struct Open {
    std::shared_ptr<Value> value;
    memory::Tier* tier = nullptr;
    std::shared_ptr<memory::Transfer> transfer;
    bool due = true;           // its turn has come
    std::uint64_t number = 0;  // of a store
    bool drop = true;          // a store: the device bytes, when it has arrived
    bool ended = false;
    Status status;  // when it has
    // Of a load that is not due, which gives them back to what comes before it.
    memory::Admitted admitted;
    memory::Allocation device;
  };
  using Opens = std::vector<std::shared_ptr<Open>>;
  // A drop that waits for a retryable execution.
  struct Deferred {
    std::weak_ptr<Execution> reader;
    std::shared_ptr<Value> value;
    std::uint64_t generation = 0;
  };
  static constexpr std::size_t kDepth = 2;

  Status start_thread();
  Status move(Movement movement, std::shared_ptr<Value> value, memory::Tier* tier = nullptr) {
    return move({movement, nullptr, std::move(value), tier, 0, {}});
  }
  Status move(Work work);
  void loop();
  void finish(const std::shared_ptr<Execution>& execution);
  void leave_others(const Status& status);
  Status check_donations(const Execution& execution);
  Status run(Execution& execution, std::vector<std::shared_ptr<Value>>& outputs, bool& untouched);
  void move_now(const Work& work);
  void drop_now(const std::shared_ptr<Value>& value);
  void free_device_bytes(const std::shared_ptr<Value>& value);
  void store_now(const Work& work);
  void load_now(const std::shared_ptr<Value>& value, memory::Tier& tier);
  void encode_now(const Work& work);
  void decode_now(const std::shared_ptr<Value>& value);
  Status encode(Value& value, std::int64_t bytes);
  Status decode(Value& value);
  Status launch(const device::Kernel& kernel, const void* from, void* to);
  void not_stored(const std::shared_ptr<Value>& value);
  void fetch(Value& value);
  Status load_again(Value& value);
  void end_load(const std::shared_ptr<Value>& value, const Status& status);
  // Room for that much, with what is leaving, loads that are not due, and runs of other threads
  // waited for where it takes that.
  Result<memory::Admitted> admit(std::int64_t bytes, std::string_view what);
  Result<memory::Allocation> allocate(std::int64_t bytes, memory::Tag tag, std::string_view what,
                                      const memory::ArenaParts& parts = {});
  // Waits for the value's transfers that are due.
  void wait_for_due(const Value* value);
  // The oldest that is due; whether there was one.
  bool wait_for_store();
  bool wait_for_load();
  void wait_for_load(const std::shared_ptr<Open>& open);

  // With the mutex held, by any thread: what can be done ahead of its turn.
  void look_ahead();
  void mark(Value& value, Value::Use use);
  void mark_uses(const Work& work);
  // Nothing in the queue before it, as far as look_ahead has come, has to do with the value.
  bool is_untouched(const Value& value) const { return value.walk != walk_; }
  void drop_ahead(Work& work);
  void store_ahead(Work& work, bool may_begin, std::int64_t plan_bytes);
  bool can_load_ahead(Work& work);
  void begin_loads();
  bool begin_load(const Work& work);
  bool begin_store(const Work& work, bool due);
  void begin_load_to(const std::shared_ptr<Open>& open, void* to);
  void stored(const Open& open);
  void ended(Open& open, const Status& status);
  static std::shared_ptr<Open> open_of(const Opens& opens, const Value* value, bool due);

  // The youngest load that is not due gives its room back; whether there was one.
  bool give_back_load();
  void give_back_load(std::shared_ptr<Open> open, std::unique_lock<std::mutex>& lock);
  void drop_deferred();
  std::shared_ptr<Execution> retryable_reader(const Value* value);

  const std::shared_ptr<memory::Budget> budget_;
  const std::shared_ptr<device::SharedCommunicator> communicator_;  // of what meets others
  std::unique_ptr<device::Stream> stream_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;             // the front one runs
  std::uint64_t submitted_ = 0;        // works that were ever put into queue_
  std::size_t waiting_runs_ = 0;       // of queue_
  std::size_t waiting_transfers_ = 0;  // of queue_: stores and loads
  Opens storing_, loading_;            // in the order in which they began
  bool front_is_admitted_ = false;     // the front one runs in what it was given
  bool holds_loads_back_ = false;      // the thread waits for room that loads may not take
  std::uint64_t walk_ = 0;
  bool waiting_for_transfers_ = false;  // the queue is empty, but transfers are waited for
  bool is_tidying_ = false;             // what the last work held is being freed
  bool stopping_ = false;
  Status first_error_;
  // Failed before they touched anything, and wanted still: the values they should make hold them.
  std::vector<std::weak_ptr<Execution>> retryable_;
  std::vector<Deferred> deferred_;
  Failures failures_;
  std::vector<Saving> savings_;
  StoredBytes stored_bytes_;
  std::atomic<bool> has_failures_{false};
  std::atomic<std::int64_t> fail_codec_in_{0};
  std::thread thread_;
};

}  // namespace plimsoll::trace
