// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plimsoll/nn/module.hpp"
#include "plimsoll/parallel/buckets.hpp"

namespace plimsoll {

struct DataParallelOptions {
  // Gradients meet in buckets of at most so many bytes; 0: one by one; below zero:
  // PLIMSOLL_COLLECTIVE_BUCKET. The same for all participants.
  std::int64_t bucket_bytes = -1;
};

// Trains one model by the participants of the current context's communicator
// (ContextOptions::communicator), each with its own part of every batch, as PyTorch's
// DistributedDataParallel does: parameters and buffers start as those of participant 0, and
// backward() leaves the mean of all participants' gradients in grad(), so that optimizers with the
// same settings keep the parameters the same, bit for bit. Nothing else changes: the loop, the
// optimizer and the limit are as for one. The means go in buckets, in the order in which backward
// makes the gradients, the last of them small.
//
// Every participant makes it at the same place, with the same model, and records the same
// operations; each loss is the mean over a part of the same size. Buffers (the running statistics
// of batch normalization) and the statistics of a batch are each participant's own. Without a
// communicator, or alone, it does nothing. Of the context's thread; lives no longer than the
// module.
class DataParallel {
 public:
  explicit DataParallel(nn::Module& module, const DataParallelOptions& options = {})
      : DataParallel(module.parameters(), module.buffers(), options) {}
  DataParallel(std::vector<Tensor> parameters, std::vector<Tensor> buffers,
               const DataParallelOptions& options = {})
      : context_(Context::current()),
        participants_(context_.participants()),
        bucket_bytes_(options.bucket_bytes >= 0 ? options.bucket_bytes
                                                : plm_context_collective_bucket(context_.handle())),
        parameters_(std::move(parameters)),
        buffers_(std::move(buffers)) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      number_of_[parameters_[i].require("DataParallel")] = i;
    }
    if (participants_ == 1) return;
    std::vector<Tensor> all = parameters_;
    all.insert(all.end(), buffers_.begin(), buffers_.end());
    take_from_first(all);
    hook_ = std::make_shared<internal::AfterBackward>(
        [this](std::span<plm_tensor* const> made) { after_backward(made); });
    context_.state_->after_backward.push_back(hook_);
  }
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // While one lives, backward() leaves gradients as they are, each participant's own: all but the
  // last of a batch in several parts. The next backward() without averages what has come together.
  class NoSync {
   public:
    explicit NoSync(DataParallel& of) : of_(of) { ++of_.held_back_; }
    ~NoSync() { --of_.held_back_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DataParallel& of_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

  // Everybody's buffers become those of participant 0: before a test, or before they are saved.
  void broadcast_buffers() { take_from_first(buffers_); }

  // The mean of all participants' values.
  Tensor mean(const Tensor& x) const {
    return participants_ == 1 ? x : all_reduce(x) / static_cast<double>(participants_);
  }

  std::int64_t participant() const { return context_.participant(); }
  std::int64_t participants() const { return participants_; }
  std::int64_t bucket_bytes() const { return bucket_bytes_; }

 private:
  void take_from_first(std::vector<Tensor>& tensors) {
    if (participants_ == 1 || tensors.empty()) return;
    const std::vector<Tensor> given = internal::in_buckets(
        tensors, bucket_bytes_, [](std::span<const Tensor> bucket) { return broadcast(bucket); });
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].assign(given[i]);
    eval(tensors);
  }

  // What has a gradient to be averaged, in the order in which it was made; what earlier parts of
  // the batch have left comes last.
  std::vector<std::size_t> ready(std::span<plm_tensor* const> made) {
    std::vector<std::size_t> numbers;
    for (plm_tensor* handle : made) {
      const auto found = number_of_.find(handle);
      if (found != number_of_.end()) numbers.push_back(found->second);
    }
    for (const std::size_t number : left_) {
      const bool is_new = std::find(numbers.begin(), numbers.end(), number) == numbers.end();
      if (is_new && parameters_[number].grad().defined()) numbers.push_back(number);
    }
    left_.clear();
    return numbers;
  }

  void after_backward(std::span<plm_tensor* const> made) {
    const std::vector<std::size_t> numbers = ready(made);
    if (held_back_ > 0) {
      left_ = numbers;
      return;
    }
    std::vector<Tensor> gradients;
    for (const std::size_t number : numbers) gradients.push_back(parameters_[number].grad());
    const std::vector<Tensor> sums =
        internal::in_buckets(gradients, bucket_bytes_,
                             [](std::span<const Tensor> bucket) { return all_reduce(bucket); });
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      parameters_[numbers[i]].set_grad(sums[i] / static_cast<double>(participants_));
    }
  }

  Context context_;
  std::int64_t participants_;
  std::int64_t bucket_bytes_;
  std::vector<Tensor> parameters_;
  std::vector<Tensor> buffers_;
  std::unordered_map<plm_tensor*, std::size_t> number_of_;
  std::shared_ptr<internal::AfterBackward> hook_;
  std::vector<std::size_t> left_;  // parameters with gradients of no_sync
  int held_back_ = 0;
};

}  // namespace plimsoll
