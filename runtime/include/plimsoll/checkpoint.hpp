// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/array_file.hpp"
#include "plimsoll/nn.hpp"
#include "plimsoll/optim.hpp"
#include "plimsoll/parallel/data_parallel.hpp"

namespace plimsoll {

// What a training run is made of, to be saved and to go on from: tensors and counts, each under a
// name. It refers to what is added, which outlives it. A run that is resumed gives the same bits as
// one that was not stopped, where the program also goes on with its data (a count of steps) and has
// the same seeds.
//
// Of a run of several participants (DataParallel) files hold what those of one process do, whole
// arrays, whatever the number of participants and what each keeps a share of: a run may go on with
// others. All participants call save() and load() at the same place then, with the same path:
// participant 0 writes the file, and everybody reads it, each its own pieces.
class Checkpoint {
 public:
  // Parameters and buffers.
  void add(const std::string& name, const nn::Module& module) {
    for (auto& [own, tensor] : module.named_parameters()) add(name + "." + own, tensor);
    for (auto& [own, tensor] : module.named_buffers()) add(name + "." + own, tensor);
  }
  // Its state, and how many steps it has done. Learning rates are the program's to set.
  void add(const std::string& name, optim::Optimizer& optimizer) {
    const std::vector<Tensor> state = optimizer.state();
    for (std::size_t i = 0; i < state.size(); ++i) {
      add(name + "." + std::to_string(i), state[i]);
    }
    optimizers_.emplace_back(name + ".steps", &optimizer);
  }
  // The same of a module that is trained by `parallel`, and of an optimizer of its parameters().
  // Buffers are each participant's own: those of participant 0 are saved.
  void add(const std::string& name, const nn::Module& module, DataParallel& parallel) {
    together(parallel);
    for (auto& [own, tensor] : module.named_parameters()) {
      const std::ptrdiff_t number = parallel.number_of(tensor);
      Part part{name + "." + own, tensor};
      if (number >= 0 && parallel.sharding_ != Sharding::none) {
        part = {part.name, parallel.is_recipe(number) ? Tensor() : tensor,
                parallel.shares_[static_cast<std::size_t>(number)], number};
      }
      parts_.push_back(std::move(part));
    }
    for (auto& [own, tensor] : module.named_buffers()) add(name + "." + own, tensor);
  }
  void add(const std::string& name, optim::Optimizer& optimizer, DataParallel& parallel) {
    together(parallel);
    const std::vector<Tensor>& updated = optimizer.parameters();
    const std::vector<Tensor> state = optimizer.state();
    for (std::size_t i = 0; i < state.size(); ++i) {
      Part part{name + "." + std::to_string(i), state[i]};
      const Tensor& of = updated[i % updated.size()];
      const std::ptrdiff_t number = parallel.number_of_share(of);
      if (number >= 0 && std::ranges::equal(of.dims(), state[i].dims())) {
        part = {part.name, Tensor(), state[i], number};
      }
      parts_.push_back(std::move(part));
    }
    optimizers_.emplace_back(name + ".steps", &optimizer);
  }
  void add(const std::string& name, const Tensor& tensor) { parts_.push_back({name, tensor}); }
  // A count of the program's own, as of steps.
  void add(const std::string& name, std::int64_t& count) { counts_.emplace_back(name, &count); }

  // To a safetensors file, which is there as a whole or as it was before, whatever ends the process
  // meanwhile. Also the position of the current context's random states. Waits for what runs. Takes
  // host memory for all of it, of participant 0 alone, and device memory for one array at a time.
  void save(const std::string& path) const {
    std::map<std::string, std::string> metadata = {{kFormat, "1"}};
    for (const auto& [name, count] : counts_) metadata[name] = std::to_string(*count);
    for (const auto& [name, optimizer] : optimizers_) {
      metadata[name] = std::to_string(optimizer->step_count());
    }
    metadata[kRandom] = std::to_string(plm_random_counter(Context::current().handle()));
    const bool writes = parallel_ == nullptr || parallel_->participant() == 0;
    std::vector<internal::HostArray> arrays;
    for (const Part& part : parts_) {
      internal::HostArray array = internal::read_array(part.name, whole_of(part));
      if (writes) arrays.push_back(std::move(array));
    }
    by_all("save", path, [&] {
      if (writes) internal::write_arrays(path, arrays, metadata);
    });
  }

  // Gives everything that was added what the file has. Throws not_found where there is no file, and
  // invalid_argument, before anything has changed, where it is none of this program: a name that is
  // missing or more, another shape or dtype. Of several participants all throw.
  void load(const std::string& path) const {
    std::unique_ptr<const ArrayFile> file;
    std::vector<std::int64_t> counts, steps;
    std::int64_t drawn = 0;
    by_all("load", path, [&] {
      file = std::make_unique<const ArrayFile>(path);
      const auto bad = [&](const std::string& what) {
        return Error(ErrorCode::invalid_argument, "[Checkpoint::load] " + path + ": " + what);
      };
      const auto number = [&](const std::string& name) {
        const std::string text = file->metadata(name).value_or("");
        std::int64_t value = 0;
        const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (text.empty() || code != std::errc() || end != text.data() + text.size() || value < 0) {
          throw bad("no number '" + name + "'");
        }
        return value;
      };
      if (number(kFormat) != 1) throw bad("a checkpoint of another version");
      for (const Part& part : parts_) check(file->at(part.name), like(part), bad);
      if (file->size() != parts_.size()) {
        throw bad(std::to_string(file->size()) + " arrays for a program of " +
                  std::to_string(parts_.size()));
      }
      for (const auto& [name, count] : counts_) counts.push_back(number(name));
      for (const auto& [name, optimizer] : optimizers_) steps.push_back(number(name));
      drawn = number(kRandom);
    });
    // One by one: the old value's memory is the new one's before the next comes.
    for (const Part& part : parts_) {
      if (part.share.defined()) {
        Tensor to = part.share;
        to.assign(parallel_->piece_of(file->at(part.name).bytes, to));
        to.eval();
      }
      if (part.tensor.defined()) {
        Tensor to = part.tensor;
        to.assign(file->load(part.name));
        to.eval();
      }
    }
    if (parallel_ != nullptr) parallel_->gather_for_readers();
    for (std::size_t i = 0; i < counts.size(); ++i) *counts_[i].second = counts[i];
    for (std::size_t i = 0; i < steps.size(); ++i) optimizers_[i].second->set_step_count(steps[i]);
    internal::check(
        plm_set_random_counter(Context::current().handle(), static_cast<std::uint64_t>(drawn)));
  }

 private:
  static constexpr const char* kFormat = "plimsoll.checkpoint";
  static constexpr const char* kRandom = "plimsoll.random_counter";

  // An array of the file: a tensor, or what each participant has a share of, or both.
  struct Part {
    std::string name;
    Tensor tensor;
    Tensor share = Tensor();
    std::ptrdiff_t number = -1;  // of the parameter that it is a share of, or is shaped as
  };

  void together(DataParallel& parallel) {
    if (parallel_ != nullptr && parallel_ != &parallel) {
      throw Error(ErrorCode::invalid_argument,
                  "[Checkpoint::add] parts of two DataParallel (one checkpoint for each)");
    }
    parallel_ = &parallel;
  }
  // What has the shape and the dtype of the array.
  Tensor like(const Part& part) const {
    if (!part.share.defined()) return part.tensor;
    return parallel_->parameters_[static_cast<std::size_t>(part.number)];
  }
  Tensor whole_of(const Part& part) const {
    if (part.tensor.defined()) return part.tensor;
    return parallel_->whole(all_gather(part.share), static_cast<std::size_t>(part.number));
  }

  // What may fail for one participant fails for all.
  template <typename Body>
  void by_all(const char* what, const std::string& path, Body&& body) const {
    if (parallel_ == nullptr || parallel_->participants() == 1) return body();
    std::exception_ptr own;
    try {
      body();
    } catch (const Error&) {
      own = std::current_exception();
    }
    const float failed = all_reduce(full({}, own == nullptr ? 0.0 : 1.0)).item<float>();
    if (own != nullptr) std::rethrow_exception(own);
    if (failed > 0) {
      throw Error(ErrorCode::failed_precondition, std::string("[Checkpoint::") + what + "] " +
                                                      path + ": another participant could not " +
                                                      what + " it, and says why");
    }
  }

  template <typename Bad>
  static void check(const ArrayFile::Array& array, const Tensor& tensor, const Bad& bad) {
    const auto dims = tensor.dims();
    const bool same = array.dtype == tensor.dtype() &&
                      std::equal(dims.begin(), dims.end(), array.dims.begin(), array.dims.end());
    if (same) return;
    std::string has = to_string(array.dtype) + "[";
    for (const std::int64_t dim : array.dims) has += std::to_string(dim) + ",";
    if (has.back() == ',') has.pop_back();
    throw bad("'" + array.name + "' is " + has + "], the program's " + tensor.shape_text());
  }

  std::vector<Part> parts_;
  std::vector<std::pair<std::string, std::int64_t*>> counts_;
  std::vector<std::pair<std::string, optim::Optimizer*>> optimizers_;
  DataParallel* parallel_ = nullptr;
};

}  // namespace plimsoll
