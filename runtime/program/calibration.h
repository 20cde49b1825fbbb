// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "runtime/device/kernel_provider.h"
#include "runtime/memory/tiers.h"
#include "runtime/planner/cost/cost_model.h"

namespace plimsoll::executor {

// The table for a device whose speeds nobody has measured: planner::Roofline's, or, where launches
// cost something, that of a GPU.
planner::Roofline built_in_speeds(const device::Device& device);

// Measures the speeds of the provider's device with the kernels that programs use. About 0.5 s on a
// CPU. (machine_speeds.cc)
Result<planner::Roofline> measure_machine(device::KernelProvider& provider);

// The calibration of the device's model kept in `folder`, else a new one, which is kept there where
// that is possible (empty: nowhere). One that is not settled is measured again, and the better of
// all figures kept, until two measurements agree or five were made: the first may have been made
// while the machine was busy. A damaged file is as none.
Result<planner::Roofline> load_or_measure(const std::string& folder,
                                          device::KernelProvider& provider);

// The calibration kept in `folder` is not settled any more, unless it was made within the last
// hour: the next process measures again, and the better figures of both count.
void doubt_calibration(const std::string& folder, const device::KernelProvider& provider);

// The speeds that programs are planned by: the device's, measured or read at its first call of the
// process, or the table where measuring fails. Thread-safe.
planner::Roofline machine_speeds(device::KernelProvider& provider);

// Runs contradict what machine_speeds() says: once a process, what is kept of it is doubted
// (doubt_calibration). Thread-safe.
void doubt_machine_speeds(const device::KernelProvider& provider);

// The host tier's link goes at this speed, and is not measured again; other tiers, which a
// calibration says nothing of, are taken to be as fast as the table has it when `machine` is the
// table.
void set_link_speeds(const memory::Tiers& tiers, const planner::Roofline& machine);

}  // namespace plimsoll::executor
