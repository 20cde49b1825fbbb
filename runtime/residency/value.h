// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/kernel_provider.h"
#include "runtime/ir/hint.h"
#include "runtime/memory/budget/budget.h"
#include "runtime/memory/evictor/lineage.h"
#include "runtime/residency/tier_copy.h"

namespace plimsoll::trace {

struct EncodedForm;
struct Execution;

enum class ValueState : std::uint8_t {
  ready,    // the bytes are there
  running,  // an execution that was started will make it
  failed,   // that execution failed; `producer` is kept when it may be tried again
};

// The bytes behind a leaf: in host memory (given by the user), or in device memory (made by an
// execution), where LiveValues may evict and restore it. Shared between the trace and the
// executions that read or write it. Everything but `state` is written by one side at a time: by the
// executing thread (or, with the worker's mutex held, whoever moves it ahead of its turn) until the
// state leaves `running`, by the recording thread afterwards.
struct Value {
  std::int64_t bytes = 0;
  int element_bytes = 0;  // 0: not known
  bool on_host = false;
  std::vector<std::byte> host;
  memory::Allocation device;
  std::atomic<ValueState> state{ValueState::ready};
  Status error;                         // why, when failed
  std::shared_ptr<Execution> producer;  // while running, or failed and worth another try

  std::int32_t pending = 0;  // executions and loads to come that make it; guarded by the worker

  // The recording thread's.
  memory::TensorId tensor = -1;             // in the lineage of its context
  std::int32_t recipes = 0;                 // that keep it to recompute others
  std::shared_ptr<const EncodedForm> form;  // of a copy in device memory; null: none
  ir::Hint hint = ir::Hint::none;
  // The executing thread's.
  std::unique_ptr<TierCopy> copy;  // in another tier
  memory::Tier* tier = nullptr;    // that one
  memory::Allocation encoded;      // a copy in device memory
  device::CodecKernels codec;      // of that one
  bool has_copy() const { return copy != nullptr || encoded; }
  std::uint64_t generation = 0;  // how often its bytes were made or evicted

  // What the queue up to some place does with it; scratch of Worker::look_ahead.
  enum class Use : std::uint8_t { read, written };
  std::uint64_t walk = 0;  // that `use` was found in
  Use use = Use::read;
};

}  // namespace plimsoll::trace
