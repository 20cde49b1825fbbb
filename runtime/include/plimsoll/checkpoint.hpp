// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/array_file.hpp"
#include "plimsoll/nn.hpp"
#include "plimsoll/optim.hpp"

namespace plimsoll {

// What a training run is made of, to be saved and to go on from: tensors and counts, each under a
// name. It refers to what is added, which outlives it. A run that is resumed gives the same bits as
// one that was not stopped, where the program also goes on with its data (a count of steps) and has
// the same seeds.
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
  void add(const std::string& name, const Tensor& tensor) { tensors_.emplace_back(name, tensor); }
  // A count of the program's own, as of steps.
  void add(const std::string& name, std::int64_t& count) { counts_.emplace_back(name, &count); }

  // To a safetensors file, which is there as a whole or as it was before, whatever ends the process
  // meanwhile. Also the position of the current context's random states. Waits for what runs.
  void save(const std::string& path) const {
    std::map<std::string, std::string> metadata = {{kFormat, "1"}};
    for (const auto& [name, count] : counts_) metadata[name] = std::to_string(*count);
    for (const auto& [name, optimizer] : optimizers_) {
      metadata[name] = std::to_string(optimizer->step_count());
    }
    metadata[kRandom] = std::to_string(plm_random_counter(Context::current().handle()));
    save_arrays(path, tensors_, metadata);
  }

  // Gives everything that was added what the file has. Throws not_found where there is no file, and
  // invalid_argument, before anything has changed, where it is none of this program: a name that is
  // missing or more, another shape or dtype.
  void load(const std::string& path) const {
    const ArrayFile file(path);
    const auto bad = [&](const std::string& what) {
      return Error(ErrorCode::invalid_argument, "[Checkpoint::load] " + path + ": " + what);
    };
    const auto number = [&](const std::string& name) {
      const std::string text = file.metadata(name).value_or("");
      std::int64_t value = 0;
      const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (text.empty() || code != std::errc() || end != text.data() + text.size() || value < 0) {
        throw bad("no number '" + name + "'");
      }
      return value;
    };
    if (number(kFormat) != 1) throw bad("a checkpoint of another version");
    for (const auto& [name, tensor] : tensors_) check(file.at(name), tensor, bad);
    if (file.size() != tensors_.size()) {
      throw bad(std::to_string(file.size()) + " arrays for a program of " +
                std::to_string(tensors_.size()));
    }
    std::vector<std::int64_t> counts, steps;
    for (const auto& [name, count] : counts_) counts.push_back(number(name));
    for (const auto& [name, optimizer] : optimizers_) steps.push_back(number(name));
    const std::int64_t drawn = number(kRandom);
    // One by one: the old value's memory is the new one's before the next comes.
    for (const auto& [name, tensor] : tensors_) {
      Tensor to = tensor;
      to.assign(file.load(name));
      to.eval();
    }
    for (std::size_t i = 0; i < counts.size(); ++i) *counts_[i].second = counts[i];
    for (std::size_t i = 0; i < steps.size(); ++i) optimizers_[i].second->set_step_count(steps[i]);
    internal::check(
        plm_set_random_counter(Context::current().handle(), static_cast<std::uint64_t>(drawn)));
  }

 private:
  static constexpr const char* kFormat = "plimsoll.checkpoint";
  static constexpr const char* kRandom = "plimsoll.random_counter";

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

  std::vector<std::pair<std::string, Tensor>> tensors_;
  std::vector<std::pair<std::string, std::int64_t*>> counts_;
  std::vector<std::pair<std::string, optim::Optimizer*>> optimizers_;
};

}  // namespace plimsoll
