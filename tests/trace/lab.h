// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/trace/context/context.h"

namespace plimsoll::trace {

// Owns tensors as a user would.
class Handle {
 public:
  Handle() = default;
  Handle(Context& context, const NodeRef& node) : tensor_(context.make_tensor(node.get())) {}
  Handle(Handle&& other) noexcept : tensor_(std::exchange(other.tensor_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(tensor_, other.tensor_);
    return *this;
  }
  ~Handle() { reset(); }
  void reset() {
    if (tensor_ != nullptr) tensor_->context->release_tensor(tensor_);
    tensor_ = nullptr;
  }
  Tensor& operator*() const { return *tensor_; }
  Node* node() const { return tensor_->node; }

 private:
  Tensor* tensor_ = nullptr;
};

// A context and the few formulas the tests need.
class Lab {
 public:
  explicit Lab(ContextOptions options = {}) {
    options.log = [this](LogLevel, std::string_view line) { log.emplace_back(line); };
    auto made = Context::create(std::move(options));
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    context_ = std::move(made).value();
  }
  Context& operator*() { return *context_; }
  Context* operator->() { return context_.get(); }

  Handle host(std::vector<float> values) {
    const ir::Shape shape(ir::DType::f32, {static_cast<std::int64_t>(values.size())});
    return Handle(*context_, context_->from_host(shape, std::as_bytes(std::span(values))));
  }
  Handle device(std::vector<float> values) {
    Handle handle = host(std::move(values));
    Node* node = handle.node();
    EXPECT_TRUE(context_->evaluate(std::span(&node, 1)).ok());
    return handle;
  }
  Handle op(ir::Opcode opcode, std::initializer_list<Node*> operands) {
    auto node = context_->recorder().record(opcode, std::vector<Node*>(operands));
    EXPECT_TRUE(node.ok()) << node.status().to_string();
    return Handle(*context_, *node);
  }
  // pred: a > b.
  Handle greater(Node* a, Node* b) {
    OpAttributes attributes;
    attributes.attributes.comparison_direction = ir::ComparisonDirection::gt;
    Node* const operands[] = {a, b};
    auto node = context_->recorder().record(ir::Opcode::compare, operands, &attributes);
    EXPECT_TRUE(node.ok()) << node.status().to_string();
    return Handle(*context_, *node);
  }
  Handle scalar(double value) {
    return Handle(*context_, context_->recorder().scalar(ir::DType::f32, value, false));
  }
  Status evaluate(std::initializer_list<Node*> nodes) {
    return context_->evaluate(std::vector<Node*>(nodes));
  }
  std::vector<float> read(const Handle& handle) {
    std::vector<float> values(static_cast<std::size_t>(handle.node()->byte_size() / 4));
    const Status status = context_->read(handle.node(), std::as_writable_bytes(std::span(values)));
    EXPECT_TRUE(status.ok()) << status.to_string();
    return values;
  }
  Status read_status(const Handle& handle) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(handle.node()->byte_size()));
    return context_->read(handle.node(), bytes);
  }

  std::vector<std::string> log;

 private:
  std::unique_ptr<Context> context_;
};

}  // namespace plimsoll::trace
