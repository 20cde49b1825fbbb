// SPDX-License-Identifier: Apache-2.0
#include "runtime/serve/program_run.h"

#include <chrono>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "runtime/base/alignment.h"
#include "runtime/base/index.h"
#include "runtime/ir/truths.h"

namespace plimsoll::executor {

using planner::ParameterResidency;

namespace {

// After so long a run that waits for its turn sees whether it is to stop.
constexpr std::chrono::milliseconds kLongestUnasked(20);

}  // namespace

Status ProgramRun::add_host(const void* data) {
  const std::size_t i = next();
  const ServedProgram::Leaf& leaf = served_.parameters[i];
  if (data == nullptr && leaf.shape.byte_size() > 0) {
    return invalid_argument("run: parameter " + std::to_string(i) + " (" + leaf.name + ") is NULL");
  }
  if (served_.residency(i) != ParameterResidency::host) {
    staged_.push_back({i, device::CopyKind::host_to_device});
  }
  if (leaf.shape.dtype() == ir::DType::pred) {
    const std::span bytes(static_cast<const std::byte*>(data), at(leaf.shape.byte_size()));
    if (!ir::are_truths(bytes)) {
      data = truths_.emplace_back(bytes.begin(), bytes.end()).data();
      ir::make_truths(truths_.back());
    }
  }
  parameters_.push_back(const_cast<void*>(data));
  return ok_status();
}

void ProgramRun::add_resident(void* data, std::int64_t bytes) {
  const std::size_t i = next();
  parameters_.push_back(data);
  if (served_.residency(i) == ParameterResidency::donated) {
    staged_.push_back({i, device::CopyKind::device_to_device});
  } else {
    bound_bytes_ += aligned_bytes(bytes);
  }
}

void ProgramRun::add_donated(memory::Allocation memory) {
  const std::size_t i = next();
  donated_.resize(served_.parameters.size());
  parameters_.push_back(memory.data());
  bound_bytes_ += memory.bytes();
  donated_[i] = std::move(memory);
}

Status ProgramRun::bring(std::size_t i, device::CopyKind kind) {
  const ServedProgram::Leaf& leaf = served_.parameters[i];
  const std::int64_t bytes = leaf.shape.byte_size();
  PLIMSOLL_ASSIGN_OR_RETURN(auto block,
                            entry_.admitted.reservation().allocate(bytes, memory::Tag::parameters,
                                                                   "parameter " + leaf.name));
  PLIMSOLL_RETURN_IF_ERROR(stream_->copy(block.data(), parameters_[i], bytes, kind));
  parameters_[i] = block.data();
  if (served_.residency(i) == ParameterResidency::donated) {
    donated_.resize(served_.parameters.size());
    donated_[i] = std::move(block);
  } else {
    held_.push_back(std::move(block));
  }
  return ok_status();
}

Status ProgramRun::launch() {
  PLIMSOLL_ASSIGN_OR_RETURN(stream_, served_.budget->device().create_stream());
  PLIMSOLL_ASSIGN_OR_RETURN(entry_,
                            served_.plans->admit(bound_bytes_, control_.stop, control_.may_wait));
  announced_ = {};
  for (const Staged& one : staged_) PLIMSOLL_RETURN_IF_ERROR(bring(one.parameter, one.kind));
  std::vector<void*> pointers;
  for (std::size_t i = 0; i < served_.results.size(); ++i) {
    const ServedProgram::Leaf& leaf = served_.results[i];
    if (served_.is_result_on_host(i)) {
      host_results_.resize(served_.results.size());
      PLIMSOLL_ASSIGN_OR_RETURN(
          host_results_[i],
          buffers::HostMemory::allocate(served_.budget->shared_device(), leaf.shape.byte_size(),
                                        served_.result_memory(i) == ir::ArrayMemory::pinned_host));
      results_.emplace_back();
      pointers.push_back(host_results_[i].data());
      continue;
    }
    if (entry_.executable->output_parameter(static_cast<int>(i)) >= 0) {
      results_.emplace_back();
      pointers.push_back(nullptr);
      continue;
    }
    PLIMSOLL_ASSIGN_OR_RETURN(
        auto block, entry_.admitted.reservation().allocate(
                        leaf.shape.byte_size(), memory::Tag::outputs, "result " + leaf.name));
    pointers.push_back(block.data());
    results_.push_back(std::move(block));
  }
  executor::RunOptions options{&entry_.admitted, control_.stop, control_.communicator};
  std::unique_lock<std::timed_mutex> turn;
  if (served_.peers != nullptr) {
    turn = std::unique_lock(served_.peers->in_turn, std::defer_lock);
    while (!turn.try_lock_for(kLongestUnasked)) PLIMSOLL_RETURN_IF_ERROR(control_.stop.check());
    options.communicator = served_.peers->communicator.get();
  }
  PLIMSOLL_RETURN_IF_ERROR(
      entry_.executable->run(*stream_, *served_.budget, {parameters_, pointers}, options));
  if (turn.owns_lock()) turn.unlock();
  for (std::size_t i = 0; i < served_.results.size(); ++i) {
    const int parameter = entry_.executable->output_parameter(static_cast<int>(i));
    if (parameter >= 0) results_[i] = std::move(donated_[at(parameter)]);
  }
  donated_.clear();
  return ok_status();
}

Status ProgramRun::copy_result(std::size_t i, void* to) {
  if (served_.is_result_on_host(i)) {
    const auto bytes = at(served_.results[i].shape.byte_size());
    if (bytes > 0) std::memcpy(to, host_results_[i].data(), bytes);
    return ok_status();
  }
  PLIMSOLL_RETURN_IF_ERROR(stream_->copy(to, results_[i].data(),
                                         served_.results[i].shape.byte_size(),
                                         device::CopyKind::device_to_host));
  return stream_->synchronize();
}

memory::Allocation ProgramRun::take_result(std::size_t i) { return std::move(results_[i]); }

buffers::HostMemory ProgramRun::take_host_result(std::size_t i) {
  return std::move(host_results_[i]);
}

}  // namespace plimsoll::executor
