// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/buffers/buffer.h"
#include "runtime/buffers/dispatcher.h"
#include "runtime/serve/program_run.h"
#include "runtime/serve/served_program.h"

namespace plimsoll::executor {

// Who runs.
enum class RunMode : std::uint8_t {
  synchronous,   // the caller, before it returns
  asynchronous,  // the dispatcher, after what it was given before
  automatic,     // the caller, where nothing has to be waited for and handing the run over would
                 // take about as long as the run; else the dispatcher
};

struct BufferRunOptions {
  RunControl control;
  RunMode mode = RunMode::synchronous;
  // Per parameter: nonzero where the caller keeps the buffer of a donated parameter, which is
  // copied for the run; empty: none.
  std::span<const unsigned char> keep;
  // Called once when the run has ended, after its results are ready or failed, on the thread that
  // ran it; not for a run that was refused before it began. Must not throw.
  std::function<void(const Status&)> done;
};

// Runs a program on buffers. Parameters in device memory are read where they are, without copies,
// those in host memory are uploaded inside the plan (or before it, where the program has them in
// device memory); buffers of donated parameters are deleted at once, whatever becomes of the run,
// and their memory is given to results or freed, as far as nobody else holds it. A parameter may
// still be pending; one that fails makes the run fail. Gives the results' buffers, pending as long
// as the run goes on, which fail as it does.
//
// INVALID_ARGUMENT for wrong shapes, buffers of another budget, or a buffer that is donated and
// passed twice; FAILED_PRECONDITION for deleted ones, and for device memory that the host does not
// reach where the program has the parameter in host memory: nothing has been deleted then. In
// synchronous mode also what the run itself fails with.
Result<std::vector<std::shared_ptr<buffers::Buffer>>> run_on_buffers(
    const std::shared_ptr<const ServedProgram>& served, buffers::Dispatcher& dispatcher,
    std::span<buffers::Buffer* const> parameters, BufferRunOptions options);

// One participant's part of a run: of the same program, with a budget and a dispatcher of its own.
struct BufferRunPart {
  std::shared_ptr<const ServedProgram> served;
  buffers::Dispatcher* dispatcher = nullptr;
  std::span<buffers::Buffer* const> parameters;
};

// run_on_buffers for all participants of a program, in their order, each on its dispatcher, where
// runs together begin in one order everywhere, so that they never wait for each other crosswise.
// `keep` holds for every part. Results by participant. Where one fails, all do. `done` is called
// once, when the last has ended, with the first error. INVALID_ARGUMENT also for parts that are not
// all the participants of one program, or that share a dispatcher; nothing has been deleted then.
Result<std::vector<std::vector<std::shared_ptr<buffers::Buffer>>>> run_on_buffers_together(
    std::span<const BufferRunPart> parts, BufferRunOptions options);

}  // namespace plimsoll::executor
