// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plimsoll/ops.hpp"

namespace plimsoll::nn {

using NamedTensor = std::pair<std::string, Tensor>;

namespace internal {

// A layer's size, which must be 1 or more.
inline void check_size(const char* layer, const char* what, std::int64_t size) {
  if (size >= 1) return;
  throw Error(ErrorCode::invalid_argument, std::string("[") + layer + "] " + what + " is " +
                                               std::to_string(size) + ", must be 1 or more");
}

}  // namespace internal

// A part of a model: trainable parameters, buffers (state that is not trained) and child modules.
// Children are members, or owned some other way, and live as long as their parent; hence modules
// are neither copied nor moved.
class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Own first, then the children's, in order of registration; names are joined by dots.
  std::vector<NamedTensor> named_parameters() const {
    std::vector<NamedTensor> result;
    collect(&Module::parameters_, "", result);
    return result;
  }
  std::vector<NamedTensor> named_buffers() const {
    std::vector<NamedTensor> result;
    collect(&Module::buffers_, "", result);
    return result;
  }
  std::vector<Tensor> parameters() const { return values(named_parameters()); }
  std::vector<Tensor> buffers() const { return values(named_buffers()); }

  std::int64_t parameter_count() const {
    std::int64_t count = 0;
    for (const Tensor& parameter : parameters()) count += parameter.size();
    return count;
  }

  // Training mode: dropout drops and batch normalization uses the batch's statistics. On at first.
  void train(bool on = true) {
    training_ = on;
    for (const auto& [name, child] : children_) child->train(on);
  }
  bool is_training() const { return training_; }

  // Moves parameters and buffers to device memory now, so that the first step is the same program
  // as all later ones.
  void materialize() const {
    std::vector<Tensor> all = parameters();
    const std::vector<Tensor> state = buffers();
    all.insert(all.end(), state.begin(), state.end());
    eval(all);
  }

  void clear_gradients() {
    for (Tensor& parameter : parameters()) parameter.clear_grad();
  }

 protected:
  Module() = default;

  Tensor add_parameter(std::string name, const Tensor& initial) {
    Tensor parameter = Tensor::parameter(initial);
    parameter.set_name(name);
    parameters_.emplace_back(std::move(name), parameter);
    return parameter;
  }
  Tensor add_buffer(std::string name, const Tensor& initial) {
    Tensor buffer = initial.snapshot();
    buffer.set_name(name);
    buffers_.emplace_back(std::move(name), buffer);
    return buffer;
  }
  void add_child(std::string name, Module& child) {
    children_.emplace_back(std::move(name), &child);
  }

 private:
  static std::vector<Tensor> values(std::vector<NamedTensor> named) {
    std::vector<Tensor> result;
    for (auto& [name, tensor] : named) result.push_back(std::move(tensor));
    return result;
  }
  void collect(std::vector<NamedTensor> Module::* list, const std::string& prefix,
               std::vector<NamedTensor>& out) const {
    for (const auto& [name, tensor] : this->*list) out.emplace_back(prefix + name, tensor);
    for (const auto& [name, child] : children_) child->collect(list, prefix + name + ".", out);
  }

  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
  std::vector<std::pair<std::string, Module*>> children_;
  bool training_ = true;
};

// A module from one tensor to one.
class Layer : public Module {
 public:
  virtual Tensor forward(const Tensor& x) = 0;
  Tensor operator()(const Tensor& x) { return forward(x); }
};

}  // namespace plimsoll::nn
