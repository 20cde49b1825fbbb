// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plimsoll/context.hpp"
#include "plimsoll/dtype.hpp"
#include "plimsoll/error.hpp"
#include "plimsoll/hint.hpp"

namespace plimsoll {

using Dims = std::vector<std::int64_t>;

// A value of the current context: an operation not run yet, host data or device memory. A handle:
// copies share the value and see assign(); snapshot() doesn't. Operations are free functions
// (plimsoll/ops.hpp); recording one computes nothing. Same thread rule as its context.
class Tensor {
 public:
  // No value; defined() is false and every operation on it throws.
  Tensor() = default;
  // Takes over one reference.
  explicit Tensor(plm_tensor* owned) : handle_(owned) {}
  ~Tensor() { plm_tensor_release(handle_); }
  Tensor(const Tensor& other) : handle_(other.handle_), variable_(other.variable_) {
    if (handle_ != nullptr) plm_tensor_retain(handle_);
  }
  Tensor(Tensor&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), variable_(std::move(other.variable_)) {}
  Tensor& operator=(Tensor other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(variable_, other.variable_);
    return *this;
  }

  // `values` in row-major order; copied.
  template <typename T>
  static Tensor from_host(std::span<const T> values, const Dims& dims) {
    std::int64_t count = 1;
    for (const std::int64_t dim : dims) count *= dim;
    if (count != std::ssize(values)) {
      throw Error(ErrorCode::invalid_argument, "[from_host] " + std::to_string(values.size()) +
                                                   " values for " + std::to_string(count) +
                                                   " elements");
    }
    plm_tensor* out = nullptr;
    internal::check(plm_tensor_from_host(Context::current().handle(),
                                         static_cast<plm_dtype>(dtype_of<T>()), dims.data(),
                                         dims.size(), values.data(), &out));
    return Tensor(out);
  }
  template <typename T>
    requires(!std::is_same_v<T, bool>)
  static Tensor from_host(const std::vector<T>& values, const Dims& dims) {
    return from_host(std::span<const T>(values), dims);
  }
  template <typename T>
  static Tensor from_host(std::initializer_list<T> values, const Dims& dims) {
    return from_host(std::span<const T>(values.begin(), values.size()), dims);
  }

  // A rank-0 constant.
  static Tensor scalar(double value, DType dtype = DType::f32) {
    plm_tensor* out = nullptr;
    internal::check(
        plm_scalar(Context::current().handle(), static_cast<plm_dtype>(dtype), value, &out));
    return Tensor(out);
  }
  // A rank-0 value that changes from step to step (a learning rate): an input of the compiled step,
  // so that a new value never costs a compilation.
  static Tensor scalar_input(double value, DType dtype = DType::f32) {
    plm_tensor* out = nullptr;
    internal::check(
        plm_scalar_input(Context::current().handle(), static_cast<plm_dtype>(dtype), value, &out));
    return Tensor(out);
  }

  bool defined() const { return handle_ != nullptr; }
  plm_tensor* handle() const { return handle_; }

  DType dtype() const { return static_cast<DType>(plm_tensor_dtype(require("dtype"))); }
  std::int64_t rank() const { return static_cast<std::int64_t>(plm_tensor_rank(require("rank"))); }
  // Valid until the tensor is assigned to or its last handle is gone.
  std::span<const std::int64_t> dims() const {
    return {plm_tensor_dims(require("dims")), plm_tensor_rank(handle_)};
  }
  // Counts from the end when `axis` is negative.
  std::int64_t dim(std::int64_t axis) const {
    return dims()[static_cast<std::size_t>(normalize_axis(axis))];
  }
  std::int64_t size() const {
    std::int64_t count = 1;
    for (const std::int64_t dim : dims()) count *= dim;
    return count;
  }
  std::int64_t byte_size() const {
    return static_cast<std::int64_t>(plm_tensor_byte_size(require("byte_size")));
  }
  // 0 <= result < rank(); throws out_of_range.
  std::int64_t normalize_axis(std::int64_t axis) const {
    const std::int64_t result = axis < 0 ? axis + rank() : axis;
    if (result < 0 || result >= rank()) {
      throw Error(ErrorCode::out_of_range, "axis " + std::to_string(axis) + " of " + shape_text());
    }
    return result;
  }
  // `f32[2,3]`
  std::string shape_text() const {
    std::string text = to_string(dtype()) + "[";
    for (const std::int64_t dim : dims()) text += std::to_string(dim) + ",";
    if (text.back() == ',') text.pop_back();
    return text + "]";
  }

  // True while nothing has been planned for the value.
  bool is_pending() const { return plm_tensor_is_pending(require("is_pending")) != 0; }
  // Cuts the trace for this value and starts computing it. See eval(tensors).
  const Tensor& eval() const {
    plm_tensor* handle = require("eval");
    internal::check(plm_eval(plm_tensor_context(handle), &handle, 1));
    return *this;
  }

  // The elements in row-major order; evaluates the value and waits for it. T must be the type of
  // the dtype.
  template <typename T>
  std::vector<T> to_vector() const {
    expect_dtype(dtype_of<T>(), "to_vector");
    std::vector<T> values(static_cast<std::size_t>(size()));
    if constexpr (std::is_same_v<T, bool>) {
      std::vector<std::uint8_t> bytes(values.size());
      read_bytes(bytes.data(), bytes.size());
      values.assign(bytes.begin(), bytes.end());
    } else {
      read_bytes(values.data(), values.size() * sizeof(T));
    }
    return values;
  }
  // The value of a tensor with one element.
  template <typename T>
  T item() const {
    expect_dtype(dtype_of<T>(), "item");
    if (size() != 1) {
      throw Error(ErrorCode::invalid_argument, "[item] " + shape_text() + " is not one element");
    }
    T value;
    read_bytes(&value, sizeof value);
    return value;
  }
  // Copies the value to `bytes` = byte_size() bytes of host memory.
  void read_bytes(void* destination, std::size_t bytes) const {
    internal::check(plm_tensor_read(require("read_bytes"), destination, bytes));
  }

  // Takes a new value of the same shape and dtype, from here on, for every copy of this handle; the
  // old memory is donated to it when the trace is cut.
  void assign(const Tensor& value) {
    plm_tensor* handle = require("assign");
    internal::check(plm_assign(plm_tensor_context(handle), handle, value.require("assign")));
  }
  // The same, but no cut computes the value for it: a recipe, which every cut that reads it follows
  // again (plm_assign_recipe).
  void assign_recipe(const Tensor& value) {
    plm_tensor* handle = require("assign_recipe");
    internal::check(
        plm_assign_recipe(plm_tensor_context(handle), handle, value.require("assign_recipe")));
  }
  // The present value, which later assignments don't change.
  Tensor snapshot() const {
    plm_tensor* out = nullptr;
    internal::check(plm_tensor_alias(require("snapshot"), &out));
    return Tensor(out);
  }

  // What is to be done with the value while nobody reads it, wherever memory is short; `keep`
  // binds. Returns the tensor: `y = relu(x).hint(Hint::compress)`. A value that is there already
  // stays as it is.
  const Tensor& hint(Hint hint) const {
    internal::check(plm_tensor_hint(require("hint"), static_cast<plm_hint>(hint)));
    return *this;
  }

  void set_name(const std::string& name) {
    internal::check(plm_tensor_set_name(require("set_name"), name.c_str()));
  }

  // A trainable tensor that starts as `value`: backward() fills its grad(). Of the current context.
  static Tensor parameter(const Tensor& value) {
    Tensor result = value.snapshot();
    if (plm_tensor_context(result.handle_) != Context::current().handle()) {
      throw Error(ErrorCode::failed_precondition,
                  "[parameter] the value belongs to another context than the current one");
    }
    internal::check(plm_tensor_set_variable(result.handle_, 1));
    result.variable_ = std::make_shared<internal::Variable>(result.handle_);
    std::erase_if(registry(), [](const auto& variable) { return variable.expired(); });
    registry().push_back(result.variable_);
    return result;
  }
  bool is_parameter() const { return variable_ != nullptr; }
  // Parameters only: whether backward() computes a gradient for it.
  void set_trainable(bool trainable) {
    internal::Variable& variable = require_variable("set_trainable");
    internal::check(plm_tensor_set_variable(variable.handle, trainable ? 1 : 0));
    variable.trainable = trainable;
  }
  bool trainable() const { return variable_ != nullptr && variable_->trainable; }
  // The gradient since the last clear_grad(); not defined() where the losses don't depend on it.
  Tensor grad() const { return retained(require_variable("grad").gradient); }
  void set_grad(const Tensor& gradient) {
    internal::Variable& variable = require_variable("set_grad");
    variable.set_gradient(Tensor(gradient).release());
  }
  void clear_grad() { require_variable("clear_grad").set_gradient(nullptr); }

  // Adds the gradient of this rank-0 value to grad() of every trainable parameter of the current
  // context that it depends on. To be called before what lies between is evaluated: throws
  // failed_precondition where a value on the way was, unless stop_gradient() lets gradients end
  // there. What a parameter or buffer was assigned is no such value: gradients begin at it.
  void backward() const;

  plm_tensor* require(const char* what) const {
    if (handle_ == nullptr) {
      throw Error(ErrorCode::invalid_argument, std::string("[") + what + "] the tensor is empty");
    }
    return handle_;
  }

 private:
  static std::vector<std::weak_ptr<internal::Variable>>& registry() {
    return Context::current().state_->variables;
  }
  static Tensor retained(plm_tensor* handle) {
    if (handle != nullptr) plm_tensor_retain(handle);
    return Tensor(handle);
  }
  plm_tensor* release() { return std::exchange(handle_, nullptr); }
  internal::Variable& require_variable(const char* what) const {
    if (variable_ == nullptr) {
      throw Error(ErrorCode::failed_precondition,
                  std::string("[") + what + "] the tensor is no parameter");
    }
    return *variable_;
  }
  void expect_dtype(DType wanted, const char* what) const {
    if (dtype() == wanted) return;
    throw Error(ErrorCode::invalid_argument, std::string("[") + what + "] " + shape_text() +
                                                 " read as " + to_string(wanted) +
                                                 " (convert it first)");
  }

  plm_tensor* handle_ = nullptr;
  std::shared_ptr<internal::Variable> variable_;
};

// Cuts the trace for all of `tensors` at once and returns while it runs. Throws resource_exhausted
// when no plan fits the limit; everything stays pending then.
inline void eval(std::span<const Tensor> tensors) {
  if (tensors.empty()) return;
  std::vector<plm_tensor*> handles;
  for (const Tensor& tensor : tensors) handles.push_back(tensor.require("eval"));
  internal::check(plm_eval(plm_tensor_context(handles[0]), handles.data(), handles.size()));
}
inline void eval(std::initializer_list<Tensor> tensors) {
  eval(std::span<const Tensor>(tensors.begin(), tensors.size()));
}

// The gradients of the rank-0 `loss` with respect to each of `wrt`, in their order; zeros where it
// doesn't depend on one.
inline std::vector<Tensor> gradients(const Tensor& loss, std::span<const Tensor> wrt) {
  std::vector<const plm_tensor*> handles;
  for (const Tensor& tensor : wrt) handles.push_back(tensor.require("gradients"));
  std::vector<plm_tensor*> out(wrt.size(), nullptr);
  const plm_tensor* output = loss.require("gradients");
  plm_gradient_options options = {};
  options.struct_size = sizeof options;
  options.allow_unused = 1;
  internal::check(plm_gradients(plm_tensor_context(output), &output, nullptr, 1, handles.data(),
                                handles.size(), &options, out.data()));
  return std::vector<Tensor>(out.begin(), out.end());
}
inline std::vector<Tensor> gradients(const Tensor& loss, std::initializer_list<Tensor> wrt) {
  return gradients(loss, std::span<const Tensor>(wrt.begin(), wrt.size()));
}

inline void Tensor::backward() const {
  const plm_tensor* loss = require("backward");
  plm_context* context = plm_tensor_context(loss);
  if (context != Context::current().handle()) {
    throw Error(ErrorCode::failed_precondition,
                "[backward] the loss belongs to another context than the current one");
  }
  if (rank() != 0) {
    throw Error(ErrorCode::invalid_argument,
                "[backward] the loss is " + shape_text() + " (reduce it to one number)");
  }
  std::vector<std::shared_ptr<internal::Variable>> variables;
  std::vector<const plm_tensor*> wrt;
  for (const auto& weak : registry()) {
    auto variable = weak.lock();
    if (!variable || !variable->trainable) continue;
    wrt.push_back(variable->handle);
    variables.push_back(std::move(variable));
  }
  if (wrt.empty()) {
    throw Error(ErrorCode::failed_precondition, "[backward] there are no trainable parameters");
  }
  std::vector<plm_tensor*> fresh(wrt.size(), nullptr);
  plm_gradient_options options = {};
  options.struct_size = sizeof options;
  options.null_unused = 1;
  options.unbroken = 1;
  internal::check(
      plm_gradients(context, &loss, nullptr, 1, wrt.data(), wrt.size(), &options, fresh.data()));
  // Owned at once: the sum below may throw.
  const std::vector<Tensor> owned(fresh.begin(), fresh.end());
  for (std::size_t i = 0; i < owned.size(); ++i) {
    if (!owned[i].defined()) continue;
    if (variables[i]->gradient == nullptr) {
      variables[i]->set_gradient(Tensor(owned[i]).release());
      continue;
    }
    const plm_tensor* operands[] = {variables[i]->gradient, owned[i].handle()};
    plm_tensor* sum = nullptr;
    internal::check(plm_op(context, PLM_OP_ADD, operands, 2, nullptr, &sum, 1));
    variables[i]->set_gradient(sum);
  }
  auto& listeners = Context::current().state_->after_backward;
  if (listeners.empty()) return;
  std::vector<std::pair<std::uint64_t, plm_tensor*>> made;
  for (std::size_t i = 0; i < owned.size(); ++i) {
    if (!owned[i].defined()) continue;
    made.emplace_back(plm_tensor_sequence(owned[i].handle()), variables[i]->handle);
  }
  std::stable_sort(made.begin(), made.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<plm_tensor*> in_order;
  for (const auto& [sequence, handle] : made) in_order.push_back(handle);
  internal::tell(listeners, in_order);
}

}  // namespace plimsoll
