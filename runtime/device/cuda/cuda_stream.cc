// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/cuda_stream.h"

#include <fmt/core.h>

#include <array>
#include <atomic>
#include <exception>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/device/beside_pool.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/joint_launch.h"
#include "runtime/device/kernel.h"

namespace plimsoll::device::cuda {
namespace {

Address address(const void* pointer) { return reinterpret_cast<Address>(pointer); }

}  // namespace

Result<std::unique_ptr<Event>> CudaEvent::create(std::shared_ptr<const Context> context) {
  EventHandle handle = nullptr;
  PLIMSOLL_RETURN_IF_ERROR(context->call(&Driver::event_create, &handle, 0U));
  return std::unique_ptr<Event>(new CudaEvent(std::move(context), handle));
}

CudaEvent::~CudaEvent() { (void)context_->call(&Driver::event_destroy, handle_); }

std::shared_ptr<const Reports> CudaEvent::reports() const {
  const std::lock_guard lock(mutex_);
  return reports_;
}

Status CudaEvent::wait() {
  const auto reports = this->reports();
  if (reports == nullptr) return ok_status();
  PLIMSOLL_RETURN_IF_ERROR(context_->call(&Driver::event_synchronize, handle_));
  return reports->look();
}

bool CudaEvent::is_reached() const {
  if (reports() == nullptr) return true;
  const auto answer = context_->ask(&Driver::event_query, handle_);
  return !answer.ok() || *answer != DriverResult::not_ready;
}

Result<double> CudaEvent::seconds_since(const Event& earlier) const {
  const auto& since = static_cast<const CudaEvent&>(earlier);
  if (reports() == nullptr || since.reports() == nullptr || !is_reached() || !since.is_reached()) {
    return failed_precondition(context_->name() +
                               ": the time between events of which one was not reached");
  }
  float milliseconds = 0;
  PLIMSOLL_RETURN_IF_ERROR(
      context_->call(&Driver::event_elapsed_time, &milliseconds, since.handle_, handle_));
  return static_cast<double>(milliseconds) / 1e3;
}

Result<std::unique_ptr<Stream>> CudaStream::create(CudaDevice& device) {
  PLIMSOLL_ASSIGN_OR_RETURN(auto reports, Reports::create(device.pinned()));
  StreamHandle handle = nullptr;
  PLIMSOLL_RETURN_IF_ERROR(
      device.context()->call(&Driver::stream_create, &handle, kStreamNonBlocking));
  return std::unique_ptr<Stream>(
      new CudaStream(device, device.context(), handle, std::move(reports)));
}

// What the driver is given the address of, until it has been called.
struct CudaStream::HostCall {
  std::function<Status()> work;
  std::shared_ptr<Reports> reports;
  std::atomic<bool> is_over{false};

  // Threads that wait for the GPU may hold all of the pool.
  static void run(void* argument) {
    auto& call = *static_cast<HostCall*>(argument);
    {
      const BesidePool beside;
      if (const Status status = call.result(); !status.ok()) call.reports->fail(status);
    }
    call.is_over.store(true, std::memory_order_release);  // the stream may free it from here on
  }
  // Nothing may pass through the driver.
  Status result() const {
    try {
      return work();
    } catch (const std::exception& error) {
      return internal_error(std::string("a function on the host: ") + error.what());
    } catch (...) {
      return internal_error("a function on the host: unknown exception");
    }
  }
};

CudaStream::CudaStream(CudaDevice& device, std::shared_ptr<const Context> context,
                       StreamHandle handle, std::shared_ptr<Reports> reports)
    : device_(device),
      context_(std::move(context)),
      handle_(handle),
      reports_(std::move(reports)) {}

CudaStream::~CudaStream() {
  (void)context_->call(&Driver::stream_synchronize, handle_);
  (void)context_->call(&Driver::stream_destroy, handle_);
  if (staging_ != nullptr) device_.deallocate_host(staging_, staging_bytes_);
}

Status CudaStream::copy(void* destination, const void* source, std::int64_t bytes, CopyKind kind) {
  PLIMSOLL_RETURN_IF_ERROR(device_.count(Call::copy));
  if (bytes == 0) return ok_status();
  const std::size_t size = at(bytes);
  switch (kind) {
    case CopyKind::host_to_device:
      return context_->call(&Driver::copy_to_device, address(destination), source, size, handle_);
    case CopyKind::device_to_host:
      return context_->call(&Driver::copy_to_host, destination, address(source), size, handle_);
    case CopyKind::device_to_device:
      if (captured_ != nullptr && may_be_small(destination, source, bytes)) {
        return copy_by_kernel(destination, source, bytes);
      }
      break;
  }
  return context_->call(&Driver::copy_on_device, address(destination), address(source), size,
                        handle_);
}

bool CudaStream::may_be_small(const void* to, const void* from, std::int64_t bytes) const {
  return device_.small_copies() != nullptr && bytes <= SmallCopies::kMostBytes &&
         (address(to) | address(from)) % SmallCopies::kPiece == 0;
}

Status CudaStream::copy_by_kernel(void* to, const void* from, std::int64_t bytes) {
  constexpr std::uint64_t kOfBlock = SmallCopies::kPiece * SmallCopies::kThreads;
  const auto size = static_cast<std::uint64_t>(bytes);
  const Entry entry{device_.small_copies()->function(),
                    static_cast<std::uint32_t>((size + kOfBlock - 1) / kOfBlock),
                    SmallCopies::kThreads};
  // The last parameter is as wide as a pointer, and none.
  std::array<const void*, 3> parameters{to, from, reinterpret_cast<const void*>(size)};
  return launch_entry(entry, parameters);
}

Status CudaStream::launch(const Kernel& kernel, const KernelArguments& arguments) {
  PLIMSOLL_RETURN_IF_ERROR(device_.count(Call::launch));
  return kernel.launch(*this, arguments);
}

Status CudaStream::launch(const JointLaunch& joint, std::span<const void* const> inputs,
                          std::span<void* const> outputs, std::span<void* const> workspaces) {
  PLIMSOLL_RETURN_IF_ERROR(device_.count(Call::launch));
  return joint.launch(*this, inputs, outputs, workspaces);
}

Status CudaStream::record(Event& event) {
  auto& recorded = static_cast<CudaEvent&>(event);
  PLIMSOLL_RETURN_IF_ERROR(context_->call(&Driver::event_record, recorded.handle_, handle_));
  const std::lock_guard lock(recorded.mutex_);
  recorded.reports_ = reports_;
  return ok_status();
}

Status CudaStream::wait(Event& event) {
  const auto& awaited = static_cast<CudaEvent&>(event);
  if (awaited.reports() == nullptr) return ok_status();
  return context_->call(&Driver::stream_wait_event, handle_, awaited.handle_, 0U);
}

Status CudaStream::synchronize() {
  const Status done = context_->call(&Driver::stream_synchronize, handle_);
  Status reported = reports_->take();
  if (!reported_.ok()) reported = std::exchange(reported_, ok_status());
  for (const auto& reports : std::exchange(of_graphs_, {})) {
    const Status of_graph = reports->read();
    if (reported.ok()) reported = of_graph;
  }
  return done.ok() ? reported : done;
}

CudaGraph::~CudaGraph() { (void)context_->call(&Driver::graph_executable_destroy, handle_); }

// Host memory can't be pinned while the thread captures, so the words come before.
Status CudaStream::begin_capture() {
  PLIMSOLL_ASSIGN_OR_RETURN(captured_, Reports::create(device_.pinned()));
  const Status begun = context_->call(&Driver::stream_begin_capture, handle_, kCaptureThreadLocal);
  if (!begun.ok()) captured_.reset();
  return begun;
}

Result<std::unique_ptr<Graph>> CudaStream::end_capture() {
  const std::shared_ptr<Reports> reports = std::exchange(captured_, nullptr);
  if (reports == nullptr) return failed_precondition("end_capture: no capture has begun");
  GraphHandle graph = nullptr;
  PLIMSOLL_RETURN_IF_ERROR(context_->call(&Driver::stream_end_capture, handle_, &graph));
  GraphExecutableHandle made = nullptr;
  const Status status = context_->call(&Driver::graph_instantiate, &made, graph, 0ULL);
  (void)context_->call(&Driver::graph_destroy, graph);
  PLIMSOLL_RETURN_IF_ERROR(status);
  return std::unique_ptr<Graph>(new CudaGraph(context_, made, reports));
}

Status CudaStream::launch(Graph& graph) {
  PLIMSOLL_RETURN_IF_ERROR(device_.count(Call::launch));
  auto& launched = static_cast<CudaGraph&>(graph);
  PLIMSOLL_RETURN_IF_ERROR(context_->call(&Driver::graph_launch, launched.handle_, handle_));
  if (!launched.reports_->is_empty()) of_graphs_.push_back(launched.reports_);
  return ok_status();
}

// The driver reads the pointers before it returns.
Status CudaStream::launch_entry(const Entry& entry, std::span<const void*> pointers) {
  constexpr std::size_t kMostInline = 32;
  std::array<void*, kMostInline> few{};
  std::vector<void*> many;
  void** parameters = few.data();
  if (pointers.size() > kMostInline) {
    many.resize(pointers.size());
    parameters = many.data();
  }
  for (std::size_t i = 0; i < pointers.size(); ++i) parameters[i] = &pointers[i];
  return context_->call(&Driver::launch_kernel, entry.function, entry.grid, 1U, 1U, entry.block, 1U,
                        1U, entry.shared_bytes, handle_, parameters, static_cast<void**>(nullptr));
}

Status CudaStream::fill(void* to, std::byte value, std::int64_t bytes) {
  if (bytes == 0) return ok_status();
  return context_->call(&Driver::fill_bytes, address(to), static_cast<unsigned char>(value),
                        at(bytes), handle_);
}

Status CudaStream::fill_word(void* to, std::uint32_t value) {
  return context_->call(&Driver::fill_words, address(to), value, std::size_t{1}, handle_);
}

Status CudaStream::copy_rows(void* to, std::int64_t to_stride, const void* from,
                             std::int64_t from_stride, std::int64_t bytes, std::int64_t rows) {
  if (bytes == 0 || rows == 0) return ok_status();
  if (rows == 1 || (to_stride == bytes && from_stride == bytes)) {
    return copy(to, from, bytes * rows, CopyKind::device_to_device);
  }
  PLIMSOLL_RETURN_IF_ERROR(device_.count(Call::copy));
  RowsCopy copied;
  copied.from = address(from);
  copied.from_pitch = at(from_stride);
  copied.to = address(to);
  copied.to_pitch = at(to_stride);
  copied.bytes = at(bytes);
  copied.rows = at(rows);
  return context_->call(&Driver::copy_rows, &copied, handle_);
}

Result<std::byte*> CudaStream::staging(std::int64_t bytes) {
  if (captured_ != nullptr) return unimplemented("a graph with work for the host");
  if (bytes <= staging_bytes_) return staging_;
  if (staging_ != nullptr) {
    PLIMSOLL_RETURN_IF_ERROR(context_->call(&Driver::stream_synchronize, handle_));
    device_.deallocate_host(std::exchange(staging_, nullptr), std::exchange(staging_bytes_, 0));
  }
  PLIMSOLL_ASSIGN_OR_RETURN(void* const made, device_.allocate_host(bytes));
  staging_ = static_cast<std::byte*>(made);
  staging_bytes_ = bytes;
  return staging_;
}

Status CudaStream::call_on_host(std::function<Status()> work) {
  if (captured_ != nullptr) return unimplemented("a graph with work for the host");
  std::erase_if(host_calls_,
                [](const auto& call) { return call->is_over.load(std::memory_order_acquire); });
  auto& call = host_calls_.emplace_back(std::make_unique<HostCall>());
  call->work = std::move(work);
  call->reports = reports_;
  const Status given =
      context_->call(&Driver::call_host, handle_, &HostCall::run, static_cast<void*>(call.get()));
  if (!given.ok()) host_calls_.pop_back();
  return given;
}

Result<std::uint32_t*> CudaStream::report_word(const std::string& name) {
  if (captured_ != nullptr) {
    if (std::uint32_t* const word = captured_->next(name); word != nullptr) return word;
    return unimplemented("a graph with more than so many kernels that report: " +
                         std::to_string(Reports::kWords));
  }
  if (std::uint32_t* const word = reports_->next(name); word != nullptr) return word;
  PLIMSOLL_RETURN_IF_ERROR(context_->call(&Driver::stream_synchronize, handle_));
  const Status reported = reports_->take();
  if (reported_.ok()) reported_ = reported;
  return reports_->next(name);
}

}  // namespace plimsoll::device::cuda
