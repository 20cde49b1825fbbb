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
#include "plimsoll/optim/optimizer.hpp"
#include "plimsoll/parallel/buckets.hpp"

namespace plimsoll {

// What of a training step's memory each participant keeps a share of, one of as many as there are,
// as the stages of ZeRO (Rajbhandari et al., arXiv:1910.02054). The weights are the same.
enum class Sharding {
  none,
  optimizer,   // the optimizer's state: each participant updates its share of every parameter
  gradients,   // and averaged gradients, of which it gets that share alone
  parameters,  // and parameters, gathered where a step reads them, forwards and again backwards
};

struct DataParallelOptions {
  // Gradients meet in buckets of at most so many bytes; 0: one by one; below zero:
  // PLIMSOLL_COLLECTIVE_BUCKET. The same for all participants.
  std::int64_t bucket_bytes = -1;
  Sharding sharding = Sharding::none;
  // Of Sharding::parameters: a parameter of fewer bytes stays whole, as it is sooner kept than
  // gathered. The same for all participants.
  std::int64_t whole_bytes = std::int64_t{64} << 10;
};

// Trains one model by the participants of the current context's communicator
// (ContextOptions::communicator), each with its own part of every batch, as PyTorch's
// DistributedDataParallel does: parameters and buffers start as those of participant 0, and
// backward() leaves the mean of all participants' gradients in grad(), so that optimizers with the
// same settings keep the parameters the same, bit for bit. Nothing else changes: the loop, the
// optimizer and the limit are as for one. The means go in buckets, in the order in which backward
// makes the gradients, the last of them small.
//
// With sharding, an optimizer of parameters() updates this participant's shares, and with them
// everybody's parameters: each is an array of its own, a piece of the parameter's elements in
// row-major order (zeros where they don't suffice). Averaged gradients are theirs, and the
// parameters' own grad() is cleared. Updates that work element by element, as those of all
// optimizers here, give the same bits as without. Clip by clip_grad_norm() then.
//
// With Sharding::parameters a parameter of the module is a recipe (Tensor::assign_recipe): what
// reads it gathers it of all shares, several at once, up to the bytes of a bucket and a sixteenth
// of them all. A program of a step gathers it once before its forward pass reads it and once more
// before its backward pass does, but what forward reads last only once. Reading a parameter
// (to_vector(), a checkpoint) is a meeting of all participants then, and leaves it whole until the
// next backward() or update.
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
        buffers_(std::move(buffers)),
        sharding_(participants_ == 1 ? Sharding::none : options.sharding) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      number_of_[parameters_[i].require("DataParallel")] = i;
    }
    if (participants_ == 1) return;
    std::vector<Tensor> all = parameters_;
    all.insert(all.end(), buffers_.begin(), buffers_.end());
    take_from_first(all);
    after_backward_ = std::make_shared<internal::Listener>(
        [this](std::span<plm_tensor* const> made) { average(made); });
    context_.state_->after_backward.push_back(after_backward_);
    if (sharding_ == Sharding::none) return;
    for (const Tensor& parameter : parameters_) {
      add_share(parameter);
    }
    eval(shares_);
    find_units(options.whole_bytes);
    gather_for_readers();
    after_update_ = std::make_shared<internal::Listener>(
        [this](std::span<plm_tensor* const> updated) { gather(updated); });
    context_.state_->after_update.push_back(after_update_);
  }
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // What an optimizer is to be made of: the module's parameters, or this participant's shares.
  const std::vector<Tensor>& parameters() const {
    return sharding_ == Sharding::none ? parameters_ : shares_;
  }
  // As optim::clip_grad_norm of the module's parameters; of shares the squares are added up in
  // another order.
  Tensor clip_grad_norm(double max_norm) {
    if (sharding_ == Sharding::none) return optim::clip_grad_norm(parameters_, max_norm);
    const Tensor squares = internal::sum_of_squares(shares_);
    if (!squares.defined()) return Tensor::scalar(0);
    const Tensor norm = sqrt(all_reduce(squares));
    internal::limit_norm(shares_, norm, max_norm);
    return norm;
  }

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
  friend class Checkpoint;  // which has whole arrays

  // Which of the module's parameters it is, or it is the share of; -1: none.
  std::ptrdiff_t number_of(const Tensor& parameter) const {
    const auto found = number_of_.find(parameter.handle());
    return found == number_of_.end() ? -1 : static_cast<std::ptrdiff_t>(found->second);
  }
  std::ptrdiff_t number_of_share(const Tensor& share) const {
    const auto found = number_of_share_.find(share.handle());
    return found == number_of_share_.end() ? -1 : static_cast<std::ptrdiff_t>(found->second);
  }
  bool is_recipe(std::ptrdiff_t number) const {
    return sharding_ == Sharding::parameters && is_gathered(static_cast<std::size_t>(number));
  }
  // This participant's piece, of the shape of `share`, of a whole array in host memory.
  Tensor piece_of(std::span<const std::byte> whole, const Tensor& share) const {
    const auto bytes = static_cast<std::size_t>(share.byte_size());
    std::vector<std::byte> piece(bytes);
    const std::size_t first = bytes * static_cast<std::size_t>(participant());
    if (first < whole.size()) {
      const auto own = whole.subspan(first, std::min(bytes, whole.size() - first));
      std::copy(own.begin(), own.end(), piece.begin());
    }
    plm_tensor* made = nullptr;
    internal::check(plm_tensor_from_host(context_.handle(), static_cast<plm_dtype>(share.dtype()),
                                         share.dims().data(), share.dims().size(), piece.data(),
                                         &made));
    return Tensor(made);
  }

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

  void average(std::span<plm_tensor* const> made) {
    const std::vector<std::size_t> numbers = ready(made);
    gather_for_readers();
    if (held_back_ > 0) {
      left_ = numbers;
      return;
    }
    const bool scatters = sharding_ == Sharding::gradients || sharding_ == Sharding::parameters;
    std::vector<Tensor> gradients;
    for (const std::size_t number : numbers) {
      const Tensor gradient = parameters_[number].grad();
      gradients.push_back(scatters ? in_pieces(gradient) : gradient);
    }
    const std::vector<Tensor> sums =
        internal::in_buckets(gradients, unit_bytes_, [scatters](std::span<const Tensor> bucket) {
          return scatters ? reduce_scatter(bucket) : all_reduce(bucket);
        });
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const Tensor average = sums[i] / static_cast<double>(participants_);
      Tensor& parameter = parameters_[numbers[i]];
      if (sharding_ == Sharding::none) {
        parameter.set_grad(average);
        continue;
      }
      parameter.clear_grad();
      Tensor& share = shares_[numbers[i]];
      const Tensor own = scatters ? average : own_piece(average);
      share.set_grad(share.grad().defined() ? share.grad() + own : own);
    }
  }

  // One row of elements, as many as the participants can share equally.
  Tensor in_pieces(const Tensor& x) const {
    const std::int64_t rest = x.size() % participants_;
    const Tensor row = reshape(x, {x.size()});
    return rest == 0 ? row : pad(row, {0}, {participants_ - rest});
  }
  Tensor own_piece(const Tensor& x) const {
    const Tensor row = in_pieces(x);
    const std::int64_t size = row.size() / participants_, first = size * participant();
    return slice_axis(row, 0, first, first + size);
  }
  void add_share(const Tensor& parameter) {
    Tensor share = Tensor::parameter(own_piece(parameter));
    share.set_trainable(false);  // no loss depends on it
    number_of_share_[share.handle()] = shares_.size();
    shares_.push_back(std::move(share));
  }

  // Which parameters are gathered by their readers, and how many at once.
  void find_units(std::int64_t whole_bytes) {
    if (sharding_ != Sharding::parameters) return;
    constexpr std::int64_t kPartOfAll = 16;
    std::int64_t all = 0;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const std::int64_t bytes = parameters_[i].byte_size();
      all += bytes;
      if (bytes >= whole_bytes) gathered_.push_back(i);
    }
    unit_bytes_ = std::min(bucket_bytes_, all / kPartOfAll);
  }
  bool is_gathered(std::size_t number) const {
    return std::binary_search(gathered_.begin(), gathered_.end(), number);
  }
  Tensor whole(const Tensor& row, std::size_t number) const {
    const Tensor& parameter = parameters_[number];
    const Dims dims(parameter.dims().begin(), parameter.dims().end());
    return reshape(slice_axis(row, 0, 0, parameter.size()), dims);
  }

  // From now on whoever reads such a parameter gathers what the shares are now.
  void gather_for_readers() {
    std::vector<Tensor> shares;
    for (const std::size_t number : gathered_) shares.push_back(shares_[number]);
    // Buckets are counted in the bytes of a share.
    std::vector<Tensor> rows =
        internal::in_buckets(shares, unit_bytes_ / participants_,
                             [](std::span<const Tensor> bucket) { return all_gather(bucket); });
    for (std::size_t i = 0; i < gathered_.size(); ++i) {
      rows[i].hint(Hint::recompute);
      parameters_[gathered_[i]].assign_recipe(whole(rows[i], gathered_[i]));
    }
  }

  // The parameters become what all participants' shares have become.
  void gather(std::span<plm_tensor* const> updated) {
    std::vector<std::size_t> numbers;
    std::vector<Tensor> shares;
    for (plm_tensor* handle : updated) {
      if (number_of_.contains(handle)) {
        throw Error(ErrorCode::failed_precondition,
                    "[DataParallel] an optimizer of the module's parameters has no gradients to "
                    "go by where they are sharded (make it of DataParallel::parameters())");
      }
      const auto found = number_of_share_.find(handle);
      if (found == number_of_share_.end() || is_gathered(found->second)) continue;
      numbers.push_back(found->second);
      shares.push_back(shares_[found->second]);
    }
    const std::vector<Tensor> rows = internal::in_buckets(
        shares, bucket_bytes_, [](std::span<const Tensor> bucket) { return all_gather(bucket); });
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      parameters_[numbers[i]].assign(whole(rows[i], numbers[i]));
    }
    gather_for_readers();
  }

  Context context_;
  std::int64_t participants_;
  std::int64_t bucket_bytes_;
  std::int64_t unit_bytes_ = bucket_bytes_;  // of gradients, and of parameters that are gathered
  std::vector<Tensor> parameters_;
  std::vector<Tensor> buffers_;
  Sharding sharding_;
  std::vector<Tensor> shares_;         // by parameter, of all but Sharding::none
  std::vector<std::size_t> gathered_;  // parameters that are recipes, in their order
  std::unordered_map<plm_tensor*, std::size_t> number_of_, number_of_share_;
  std::shared_ptr<internal::Listener> after_backward_, after_update_;
  std::vector<std::size_t> left_;  // parameters with gradients of no_sync
  int held_back_ = 0;
};

}  // namespace plimsoll
