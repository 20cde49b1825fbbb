// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "runtime/base/cancellation.h"
#include "runtime/base/status.h"
#include "runtime/buffers/host_memory.h"
#include "runtime/device/device.h"
#include "runtime/memory/budget/admission.h"
#include "runtime/serve/served_program.h"

namespace plimsoll::executor {

// When a run is to stop, whether it may wait for room, and whom it computes with.
struct RunControl {
  Stop stop;
  bool may_wait = true;
  device::Communicator* communicator = nullptr;  // RunOptions::communicator
};

// One run of a served program: its parameters, one after the other and in order; launch(), which
// waits for room and runs; then its results. For one thread; `served` outlives it.
class ProgramRun {
 public:
  ProgramRun(const ServedProgram& served, RunControl control)
      : served_(served), control_(std::move(control)) {}

  // Host memory: of a parameter that is passed so, or copied to device memory for this run. Of
  // pred every byte but 0 counts as 1.
  Status add_host(const void* data);
  // Device memory that is in use already: read only, and copied for this run where the plan may
  // write it.
  void add_resident(void* data, std::int64_t bytes);
  // Device memory for this run to keep, of a parameter that the plan may write: freed afterwards,
  // or a result's.
  void add_donated(memory::Allocation memory);

  // What this run was announced with, which ends when it is let in.
  void set_announced(memory::Announcement announced) { announced_ = std::move(announced); }

  // Of what was added.
  std::int64_t bound_bytes() const { return bound_bytes_; }

  // Waits for room, runs, waits for the end. On an error there are no results.
  Status launch();

  std::size_t result_count() const { return served_.results.size(); }
  // Blocking copy to host memory.
  Status copy_result(std::size_t i, void* to);
  // Precondition: returned in device memory (ServedProgram::is_result_on_host).
  memory::Allocation take_result(std::size_t i);
  // Precondition: returned in host memory.
  buffers::HostMemory take_host_result(std::size_t i);

 private:
  std::size_t next() const { return parameters_.size(); }
  Status bring(std::size_t i, device::CopyKind kind);

  const ServedProgram& served_;
  const RunControl control_;
  std::vector<void*> parameters_;
  struct Staged {
    std::size_t parameter = 0;
    device::CopyKind kind = device::CopyKind::host_to_device;
  };
  std::vector<Staged> staged_;                 // parameters to be copied to device memory
  std::deque<std::vector<std::byte>> truths_;  // instead of those that were neither 0 nor 1
  std::int64_t bound_bytes_ = 0;
  std::vector<memory::Allocation> donated_;  // by parameter; empty when none is
  memory::Announcement announced_;
  SharedPlans::Entry entry_;
  std::vector<memory::Allocation> held_, results_;  // of the entry's reservation
  std::vector<buffers::HostMemory> host_results_;   // by result; empty: none are on the host
  std::unique_ptr<device::Stream> stream_;          // goes first, with its work
};

}  // namespace plimsoll::executor
