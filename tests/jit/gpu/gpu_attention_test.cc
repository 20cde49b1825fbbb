// SPDX-License-Identifier: Apache-2.0
// Attention as a GPU's kernels, against the interpreter on the composed form.
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "jit/gpu/gpu_code.h"
#include "runtime/ir/fusions/attention.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "tests/cases/compare.h"
#include "tests/jit/gpu/gpu_check.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

using ir::AttentionForm;
using ir::DType;
using ir::Literal;
using ir::Shape;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Sizes {
  std::int64_t batch = 1, heads = 2, queries = 1, keys = 1, depth = 1, value_depth = 1;
};

// The dims of an array that lies in `order`.
Shape stored(DType dtype, const std::vector<std::int64_t>& dims, const ir::DimOrder& order) {
  std::vector<std::int64_t> result(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    result[static_cast<std::size_t>(order[i])] = dims[i];
  }
  return Shape(dtype, ir::Dims(result));
}

// Arrays lie in `order`.
AttentionForm form_of(bool backward, const AttentionForm& like, const ir::DimOrder& order) {
  AttentionForm form = like;
  form.backward = backward;
  form.query = form.key = form.value = form.output = order;
  if (backward) {
    form.output_gradient = form.query_gradient = form.key_gradient = form.value_gradient = order;
  } else {
    form.gradient_scale = 1;
    form.wants_query = form.wants_key = form.wants_value = true;
  }
  form.statistics = !backward;
  return form;
}

std::unique_ptr<ir::Module> module_of(const AttentionForm& form, const Sizes& s, DType dtype) {
  const std::vector<std::int64_t> q = {s.batch, s.heads, s.queries, s.depth},
                                  k = {s.batch, s.heads, s.keys, s.depth},
                                  v = {s.batch, s.heads, s.keys, s.value_depth},
                                  o = {s.batch, s.heads, s.queries, s.value_depth};
  const std::int64_t scores[] = {s.batch, s.heads, s.queries, s.keys};
  std::vector<Shape> shapes = {stored(dtype, q, form.query), stored(dtype, k, form.key),
                               stored(dtype, v, form.value)};
  const auto part = [&](DType of, const std::vector<std::int64_t>& dims) {
    ir::Dims kept;
    for (const std::int64_t d : dims) kept.push_back(scores[d]);
    shapes.push_back(Shape(of, kept));
  };
  if (form.bias.has_value()) part(DType::f32, *form.bias);
  if (form.mask.has_value()) part(DType::pred, *form.mask);
  if (form.backward) {
    shapes.push_back(stored(dtype, o, form.output));
    shapes.push_back(stored(dtype, o, form.output_gradient));
    for (int i = 0; i < 2; ++i) shapes.push_back(Shape(DType::f32, {s.batch, s.heads, s.queries}));
  }
  auto module = std::make_unique<ir::Module>("m");
  auto body = ir::add_attention_body(*module, form, shapes);
  EXPECT_TRUE(body.ok()) << body.status().to_string();
  ir::Computation* entry = module->add_computation("e");
  std::vector<ir::Instruction*> parameters;
  for (const Shape& shape : shapes) {
    parameters.push_back(entry->add_parameter(static_cast<std::int64_t>(parameters.size()), shape));
  }
  ir::Instruction* fusion = entry->add(ir::Opcode::fusion, (*body)->root()->shape(), parameters,
                                       "a", ir::attention_attributes(form));
  fusion->set_called_computations({*body});
  module->set_entry(entry);
  return module;
}

void check(const AttentionForm& like, const Sizes& sizes, DType dtype = DType::f32,
           double tolerance = 1e-5, const ir::DimOrder& order = {0, 1, 2, 3}) {
  AttentionForm with_dtype = like;
  with_dtype.result_dtype = dtype;
  const AttentionForm forward = form_of(false, with_dtype, order);
  std::vector<Literal> statistics;
  for (const bool backward : {false, true}) {
    SCOPED_TRACE(std::string(backward ? "backward" : "forward") + ", queries " +
                 std::to_string(sizes.queries) + ", keys " + std::to_string(sizes.keys));
    const AttentionForm form = backward ? form_of(true, with_dtype, order) : forward;
    const auto module = module_of(form, sizes, dtype);
    const ir::Instruction& root = *module->entry()->root();
    std::vector<Literal> arguments;
    std::uint64_t seed = 1;
    for (const ir::Instruction* parameter : module->entry()->parameters()) {
      arguments.push_back(cases::random_literal(parameter->shape(), seed++, {-1, 1}));
    }
    if (backward) {
      for (std::size_t i = 0; i < 2; ++i) arguments[arguments.size() - 2 + i] = statistics[i + 1];
    }
    const auto expected = ir::interpret(root, arguments);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    std::vector<Literal> leaves =
        expected->shape().is_tuple() ? expected->elements() : std::vector<Literal>{*expected};
    if (!backward) statistics = leaves;
    GpuCheck totals;
    EXPECT_EQ(check_on_gpu(root, arguments, totals,
                           [&](const std::vector<Literal>& results) {
                             for (std::size_t i = 0; i < results.size(); ++i) {
                               const std::string message =
                                   cases::compare_close(leaves[i], results[i], tolerance);
                               if (!message.empty()) {
                                 return "result " + std::to_string(i) + ": " + message;
                               }
                             }
                             return std::string();
                           }),
              "");
    EXPECT_TRUE(is_gpu_library_kernel(root));
  }
}

TEST(GpuAttention, LengthsAroundTilesMatchTheInterpreter) {
  AttentionForm form;
  form.scale = form.gradient_scale = 0.25f;
  for (const std::int64_t length : {1, 5, 64, 65}) {
    check(form, {1, 2, length, length, 16, 16});
  }
  check(form, {2, 1, 3, 150, 20, 7});
  check(form, {1, 1, 150, 3, 7, 20});
}

TEST(GpuAttention, HeadsOfManyColumnsMatchTheInterpreter) {
  check({}, {1, 1, 9, 20, 128, 80}, DType::f32, 3e-5);
  check({}, {1, 1, 9, 20, 33, 128}, DType::f32, 3e-5);
}

// Queries that see some keys, tiles of keys that no query sees, and queries that see none.
TEST(GpuAttention, CausalMasksMatchTheInterpreter) {
  AttentionForm form;
  form.scale = form.gradient_scale = 0.5f;
  for (const float fill : {-kInfinity, -1e30f, -1e9f, -3.0f}) {
    SCOPED_TRACE(fill);
    form.fill = fill;
    form.causal = fill == -1e9f ? 2 : 0;
    check(form, {1, 1, 70, 140, 8, 8});
  }
  form.fill = -1e9f;
  form.causal = -70;
  check(form, {1, 1, 130, 70, 8, 8});
}

TEST(GpuAttention, BiasAndMasksMatchTheInterpreter) {
  AttentionForm form;
  form.fill = -1e9f;
  form.mask = {{0, 3}};
  check(form, {2, 1, 10, 70, 8, 8});
  form.bias = {{1, 2, 3}};
  check(form, {1, 2, 10, 70, 8, 8});
  form.mask = {{2, 3}};
  form.causal = 1;
  check(form, {1, 1, 66, 67, 8, 8});
}

TEST(GpuAttention, ArraysInOtherOrdersAndDtypesMatchTheInterpreter) {
  AttentionForm form;
  form.scale = form.gradient_scale = 0.25f;
  check(form, {2, 3, 20, 30, 16, 24}, DType::f32, 1e-5, {0, 2, 1, 3});
  check(form, {2, 1, 20, 30, 16, 24}, DType::f32, 1e-5, {0, 1, 3, 2});
  check(form, {1, 1, 20, 70, 16, 16}, DType::bf16, 1e-2);
  check(form, {1, 1, 20, 70, 16, 16}, DType::f16, 2e-3);
}

TEST(GpuAttention, GradientsThatNobodyWantsAreLeftOut) {
  for (const int left_out : {0, 1, 2}) {
    AttentionForm form;
    form.wants_query = left_out != 0;
    form.wants_key = left_out != 1;
    form.wants_value = left_out != 2;
    check(form, {1, 1, 20, 66, 16, 8});
  }
}

TEST(GpuAttention, WhatHasNoKernelIsRefused) {
  for (const bool backward : {false, true}) {
    const auto module = module_of(form_of(backward, {}, {0, 1, 2, 3}),
                                  {1, 1, 8, 8, 8, backward ? 129 : 257}, DType::f32);
    const auto refused = write_gpu_code(*module->entry()->root());
    EXPECT_EQ(refused.status().code(), StatusCode::unimplemented);
    EXPECT_NE(refused.status().message().find(backward ? "128 are" : "256 are"), std::string::npos)
        << refused.status().message();
  }
}

}  // namespace
}  // namespace plimsoll::jit::testing
