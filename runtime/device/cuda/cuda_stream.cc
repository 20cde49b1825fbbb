// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/cuda_stream.h"

#include <array>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
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

CudaStream::~CudaStream() {
  (void)context_->call(&Driver::stream_synchronize, handle_);
  (void)context_->call(&Driver::stream_destroy, handle_);
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
      break;
  }
  return context_->call(&Driver::copy_on_device, address(destination), address(source), size,
                        handle_);
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
