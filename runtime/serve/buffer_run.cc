// SPDX-License-Identifier: Apache-2.0
#include "runtime/serve/buffer_run.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "collectives/local.h"
#include "collectives/membership.h"
#include "runtime/base/alignment.h"
#include "runtime/base/fork.h"

namespace plimsoll::executor {
namespace {

using buffers::Buffer;
using buffers::ContentMaker;
using buffers::ContentRef;
using planner::ParameterResidency;

// Waking a thread and being woken by it costs about a tenth of that.
constexpr double kShortRunSeconds = 1e-4;

std::string name_of(const ServedProgram& served, std::size_t i) {
  return "run: parameter " + std::to_string(i) + " (" + served.parameters[i].name + ")";
}

Status check_parameter(const ServedProgram& served, std::size_t i, const Buffer* buffer) {
  if (buffer == nullptr) return invalid_argument(name_of(served, i) + " is NULL");
  const ir::Shape& shape = served.parameters[i].shape;
  if (!(buffer->shape() == shape)) {
    return invalid_argument(name_of(served, i) + " is " + shape.to_string() + ", the buffer " +
                            buffer->shape().to_string());
  }
  if (buffer->budget() != served.budget) {
    return invalid_argument(name_of(served, i) + " belongs to another context");
  }
  const bool is_reached = buffer->is_on_host() || served.budget->device().is_host_memory();
  if (served.residency(i) == ParameterResidency::host && !is_reached) {
    return failed_precondition(name_of(served, i) +
                               " is placed in host memory, the buffer is device memory (pass one "
                               "in host memory, or create the executable with it placed RESIDENT "
                               "or DONATED)");
  }
  return ok_status();
}

Status deleted(const ServedProgram& served, std::size_t i) {
  return failed_precondition(name_of(served, i) + " was deleted or donated");
}

// What is donated is passed once.
Status check_donations(const ServedProgram& served, std::span<Buffer* const> parameters,
                       const std::vector<bool>& gives) {
  if (std::find(gives.begin(), gives.end(), true) == gives.end()) return ok_status();
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(parameters[a], a) < std::pair(parameters[b], b);
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const std::size_t first = order[i - 1], second = order[i];
    if (parameters[first] != parameters[second] || !(gives[first] || gives[second])) continue;
    const auto [given, other] = gives[first] ? std::pair(first, second) : std::pair(second, first);
    return invalid_argument(name_of(served, given) + " is donated, and passed as parameter " +
                            std::to_string(other) + ", too");
  }
  return ok_status();
}

// What the parts of a run together share.
struct Meeting {
  Meeting(std::size_t parts, std::chrono::duration<double> timeout)
      : group(static_cast<std::int64_t>(parts), timeout), running(parts) {}

  // Of the last part, tells the user.
  void end(const Status& status) {
    bool is_last = false;
    {
      const std::lock_guard lock(mutex);
      if (first.ok()) first = status;
      is_last = --running == 0;
    }
    if (!is_last) return;
    if (done != nullptr) done(first);
    ended.notify_all();
  }
  Status wait() {
    std::unique_lock lock(mutex);
    ended.wait(lock, [&] { return running == 0; });
    return first;
  }

  collectives::LocalGroup group;
  std::function<void(const Status&)> done;
  std::mutex mutex;  // guards what follows
  std::condition_variable ended;
  std::size_t running;
  Status first;
};

// All that one run needs, wherever it runs.
struct Task {
  std::shared_ptr<const ServedProgram> served;
  RunControl control;
  std::vector<ContentRef> parameters;
  std::vector<ContentMaker> results;
  std::vector<bool> gives;       // per parameter: the content is the run's
  std::vector<bool> is_on_host;  // per parameter
  std::function<void(const Status&)> done;
  std::shared_ptr<Meeting> meeting;  // null: of one participant
  std::int64_t participant = 0;
  bool inherits = false;  // fails because a parameter has failed
  memory::Announcement announced;

  Status run();
  Status add(ProgramRun& run, std::size_t i);
  Status finish() noexcept;
};

Status Task::add(ProgramRun& run, std::size_t i) {
  ContentRef& content = parameters[i];
  const Status made = content->wait();
  if (!made.ok()) {
    inherits = true;
    // The first parameter is named, and not each of a thousand runs that read each other's results.
    return content->is_inherited() ? made : made.with_context(name_of(*served, i));
  }
  if (is_on_host[i] || served->residency(i) == ParameterResidency::host) {
    return run.add_host(content->data());
  }
  if (gives[i] && content.is_only() && content->is_own()) {
    run.add_donated(content->take());
  } else {
    run.add_resident(content->data(), served->parameters[i].shape.byte_size());
  }
  return ok_status();
}

// Results are seen when all else of the run is over: who waits for one finds the memory of the
// parameters free, and can delete the others.
Status Task::run() {
  {
    ProgramRun run(*served, control);
    run.set_announced(std::move(announced));
    for (std::size_t i = 0; i < parameters.size(); ++i) PLIMSOLL_RETURN_IF_ERROR(add(run, i));
    PLIMSOLL_RETURN_IF_ERROR(run.launch());
    for (std::size_t i = 0; i < results.size(); ++i) {
      results[i].fill(served->is_result_on_host(i) ? buffers::Storage(run.take_host_result(i))
                                                   : buffers::Storage(run.take_result(i)));
    }
  }
  parameters.clear();
  for (ContentMaker& result : results) result.set();
  return ok_status();
}

Status Task::finish() noexcept {
  Status status;
  try {
    status = run();
  } catch (const std::bad_alloc&) {
    status = Status(StatusCode::resource_exhausted, "run: the host is out of memory");
  } catch (const std::exception& error) {
    status = Status(StatusCode::internal, error.what());
  }
  parameters.clear();
  announced = {};
  for (ContentMaker& result : results) {
    if (!status.ok() && result.is_pending()) result.fail(status, inherits);
  }
  if (meeting != nullptr) {
    // The first to fail says why, before the others hear of it.
    const Status whose = status.with_context("participant " + std::to_string(participant));
    meeting->end(whose);
    meeting->group.leave(participant, whose);
  }
  if (done != nullptr) done(status);
  return status;
}

// Checks everything, takes the parameters' contents, deletes nothing.
Result<std::shared_ptr<Task>> prepare(const std::shared_ptr<const ServedProgram>& served,
                                      std::span<Buffer* const> parameters,
                                      std::span<const unsigned char> keep) {
  const std::size_t count = served->parameters.size();
  if (parameters.size() != count) {
    return invalid_argument("run: " + std::to_string(parameters.size()) + " parameters, must be " +
                            std::to_string(count));
  }
  if (!keep.empty() && keep.size() != count) {
    return invalid_argument("run: " + std::to_string(keep.size()) + " flags of what is kept for " +
                            std::to_string(count) + " parameters");
  }
  auto task = std::make_shared<Task>();
  task->served = served;
  for (std::size_t i = 0; i < count; ++i) {
    PLIMSOLL_RETURN_IF_ERROR(check_parameter(*served, i, parameters[i]));
    const bool is_donated = served->residency(i) == ParameterResidency::donated ||
                            (!served->donated_on_host.empty() && served->donated_on_host[i]);
    task->gives.push_back(is_donated && (keep.empty() || keep[i] == 0));
    task->is_on_host.push_back(parameters[i]->is_on_host());
  }
  PLIMSOLL_RETURN_IF_ERROR(check_donations(*served, parameters, task->gives));
  for (std::size_t i = 0; i < count; ++i) {
    task->parameters.push_back(parameters[i]->content());
    if (!task->parameters[i]) return deleted(*served, i);
  }
  return task;
}

// Deletes what is donated; the results, pending.
std::vector<std::shared_ptr<Buffer>> open(Task& task, std::span<Buffer* const> parameters) {
  std::vector<std::shared_ptr<Buffer>> results;
  for (std::size_t i = 0; i < task.served->results.size(); ++i) {
    ContentMaker& maker = task.results.emplace_back();
    results.push_back(std::make_shared<Buffer>(task.served->results[i].shape, task.served->budget,
                                               maker.use(), task.served->result_memory(i)));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (task.gives[i]) parameters[i]->remove();
  }
  return results;
}

// Device memory that the run takes besides its parameters.
std::int64_t need_of(const Task& task) {
  std::int64_t need = task.served->plans->first().get()->plan().peak_bytes;
  for (std::size_t i = 0; i < task.parameters.size(); ++i) {
    const bool is_there =
        !task.is_on_host[i] && task.served->residency(i) != ParameterResidency::host;
    if (is_there) need -= aligned_bytes(task.served->parameters[i].shape.byte_size());
  }
  return std::max<std::int64_t>(0, need);
}

// A run that is handed over holds its parameters until its turn comes, and so do those behind it: a
// caller who runs ahead would fill the memory with arguments that the run before them needs. So
// where there is no room for the run beside all others that were handed over, those end first.
//
// Example: a training loop that waits for no step. While one step runs, the next batch is brought,
// and its step is handed over when that fits; the batch after it waits for the first step.
void announce(Task& task, buffers::Dispatcher& dispatcher) {
  memory::Admission& admission = task.served->budget->admission();
  const std::int64_t need = need_of(task);
  if (!admission.has_room_for(need)) dispatcher.wait_idle();
  task.announced = admission.announce(need);
}

bool runs_here(RunMode mode, const Task& task, const buffers::Dispatcher& dispatcher) {
  if (mode != RunMode::automatic) return mode == RunMode::synchronous;
  const bool is_short =
      task.served->plans->first().get()->plan().predicted_seconds < kShortRunSeconds;
  return is_short && dispatcher.is_idle() &&
         std::none_of(task.parameters.begin(), task.parameters.end(),
                      [](const ContentRef& content) { return content->is_pending(); });
}

}  // namespace

Result<std::vector<std::shared_ptr<Buffer>>> run_on_buffers(
    const std::shared_ptr<const ServedProgram>& served, buffers::Dispatcher& dispatcher,
    std::span<Buffer* const> parameters, BufferRunOptions options) {
  PLIMSOLL_ASSIGN_OR_RETURN(const std::shared_ptr<Task> task,
                            prepare(served, parameters, options.keep));
  task->control = std::move(options.control);
  task->done = std::move(options.done);
  const bool is_handed_over = !runs_here(options.mode, *task, dispatcher);
  if (is_handed_over) announce(*task, dispatcher);
  std::vector<std::shared_ptr<Buffer>> results = open(*task, parameters);
  if (is_handed_over) {
    dispatcher.submit([task] { (void)task->finish(); });
    return results;
  }
  const Status ran = task->finish();
  if (options.mode == RunMode::synchronous && !ran.ok()) return ran;
  return results;
}

Result<std::vector<std::vector<std::shared_ptr<Buffer>>>> run_on_buffers_together(
    std::span<const BufferRunPart> parts, BufferRunOptions options) {
  std::vector<std::shared_ptr<Task>> tasks;
  PLIMSOLL_ASSIGN_OR_RETURN(const auto timeout, collectives::collective_timeout());
  auto meeting = std::make_shared<Meeting>(parts.size(), timeout);
  meeting->done = std::move(options.done);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const BufferRunPart& part = parts[p];
    for (std::size_t other = 0; other < p; ++other) {
      if (parts[other].dispatcher != part.dispatcher &&
          parts[other].served->program == part.served->program) {
        continue;
      }
      return invalid_argument("run: participants " + std::to_string(other) + " and " +
                              std::to_string(p) +
                              " must be of one program, in contexts of their own");
    }
    auto task = prepare(part.served, part.parameters, options.keep);
    if (!task.ok()) return task.status().with_context("participant " + std::to_string(p));
    (*task)->control = options.control;
    (*task)->meeting = meeting;
    (*task)->participant = static_cast<std::int64_t>(p);
    (*task)->control.communicator = &meeting->group.communicator((*task)->participant);
    tasks.push_back(std::move(*task));
  }
  for (std::size_t p = 0; p < parts.size(); ++p) announce(*tasks[p], *parts[p].dispatcher);
  std::vector<std::vector<std::shared_ptr<Buffer>>> results;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    results.push_back(open(*tasks[p], parts[p].parameters));
  }
  {
    static auto* const order = new ProcessMutex;
    const std::lock_guard lock(*order);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      parts[p].dispatcher->submit([task = tasks[p]] { (void)task->finish(); });
    }
  }
  if (options.mode != RunMode::synchronous) return results;
  PLIMSOLL_RETURN_IF_ERROR(meeting->wait());
  return results;
}

}  // namespace plimsoll::executor
