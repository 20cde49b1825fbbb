// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/fusions/attention.h"

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/attention/attention.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/kernels/kernel_harness.h"

namespace plimsoll::kernels {
namespace {

using ir::AttentionForm;
using ir::DType;
using ir::Literal;
using ir::Shape;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Sizes {
  std::int64_t batch = 1, heads = 2, queries = 1, keys = 1, depth = 1, value_depth = 1;
};

ir::DimOrder in_order(int rank) {
  ir::DimOrder order;
  for (int i = 0; i < rank; ++i) order.push_back(i);
  return order;
}

// The dims of an array that lies in `order`.
Shape stored(DType dtype, const std::vector<std::int64_t>& dims, const ir::DimOrder& order) {
  std::vector<std::int64_t> result(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i)
    result[static_cast<std::size_t>(order[i])] = dims[i];
  return Shape(dtype, ir::Dims(result));
}

AttentionForm plain_form(bool backward) {
  AttentionForm form;
  form.backward = backward;
  for (ir::DimOrder* order : {&form.query, &form.key, &form.value, &form.output}) {
    *order = in_order(4);
  }
  if (backward) {
    for (ir::DimOrder* order :
         {&form.output_gradient, &form.query_gradient, &form.key_gradient, &form.value_gradient}) {
      *order = in_order(4);
    }
  }
  form.statistics = !backward;
  return form;
}

// A module whose entry is one attention.
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
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    parameters.push_back(entry->add_parameter(static_cast<std::int64_t>(i), shapes[i]));
  }
  ir::Instruction* fusion = entry->add(ir::Opcode::fusion, (*body)->root()->shape(), parameters,
                                       "a", ir::attention_attributes(form));
  fusion->set_called_computations({*body});
  module->set_entry(entry);
  EXPECT_TRUE(ir::verify(*module).ok()) << ir::verify(*module).to_string();
  return module;
}

std::vector<Literal> arguments_of(const ir::Module& module, double magnitude = 1) {
  std::vector<Literal> arguments;
  unsigned seed = 1;
  for (const ir::Instruction* parameter : module.entry()->parameters()) {
    Literal value = parameter->shape().dtype() == DType::pred
                        ? small_integers(parameter->shape(), seed++)
                        : random_floats(parameter->shape(), seed++);
    for (std::int64_t i = 0; magnitude != 1 && i < value.shape().element_count(); ++i) {
      value.set(i, value.at(i) * magnitude);
    }
    arguments.push_back(std::move(value));
  }
  return arguments;
}

// Errors are of f32 sums: some ulps of the greatest value.
constexpr double kTolerance = 4e-6;

// `products`: those to compute with; null for the ones that are chosen.
void check(const AttentionForm& form, const Sizes& sizes, DType dtype = DType::f32,
           double tolerance = kTolerance, double magnitude = 1,
           const BlockProducts* products = nullptr) {
  const auto module = module_of(form, sizes, dtype);
  const ir::Instruction& root = *module->entry()->root();
  std::vector<Literal> arguments = arguments_of(*module, magnitude);
  if (form.backward) {
    // Maxima and sums that belong to the operands.
    AttentionForm forward = form;
    forward.backward = false;
    forward.statistics = true;
    const auto pair = module_of(forward, sizes, dtype);
    const auto operands =
        std::span(arguments).first(static_cast<std::size_t>(forward.operand_count()));
    auto results = ir::interpret(*pair->entry()->root(), operands);
    ASSERT_TRUE(results.ok()) << results.status().to_string();
    for (std::size_t i = 0; i < 2; ++i) {
      arguments[arguments.size() - 2 + i] = results->elements()[i + 1];
    }
  }
  auto expected = ir::interpret(root, arguments);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  const auto kernel = products != nullptr ? make_attention_of(root, *products) : make_kernel(root);
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  auto got = run_kernel(**kernel, root.shape(), arguments);
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  EXPECT_EQ((*kernel)->name(), form.backward ? "attention.backward" : "attention.forward");
  EXPECT_EQ(cases::compare_close(*expected, *got, tolerance), "")
      << ir::to_text(*module).substr(0, 200) << "\nqueries " << sizes.queries << " keys "
      << sizes.keys << " depth " << sizes.depth;
}

void check_both(const AttentionForm& like, const Sizes& sizes, DType dtype = DType::f32,
                double tolerance = kTolerance, double magnitude = 1,
                const BlockProducts* products = nullptr) {
  for (const bool backward : {false, true}) {
    SCOPED_TRACE(backward ? "backward" : "forward");
    AttentionForm form = plain_form(backward);
    form.scale = like.scale;
    form.gradient_scale = backward ? like.gradient_scale : 1;
    form.causal = like.causal;
    form.fill = like.fill;
    form.mask = like.mask;
    form.bias = like.bias;
    form.result_dtype = dtype;
    check(form, sizes, dtype, tolerance, magnitude, products);
  }
}

TEST(Attention, LengthsAroundBlockEdgesMatchTheInterpreter) {
  for (const std::int64_t length : {1, 7, 31, 32, 33, 63, 64, 65, 127, 130}) {
    AttentionForm form;
    form.scale = form.gradient_scale = 0.25f;
    check_both(form, {1, 2, length, length, 16, 16});
    form.causal = 0;
    form.fill = -kInfinity;
    check_both(form, {1, 2, length, length, 16, 16});
  }
}

TEST(Attention, ManyBlocksMatchTheInterpreter) {
  AttentionForm form;
  form.scale = form.gradient_scale = 0.125f;
  form.causal = 0;
  form.fill = -1e9f;
  check_both(form, {1, 1, 300, 300, 64, 64});
}

TEST(Attention, DepthsAroundVectorEdgesMatchTheInterpreter) {
  for (const std::int64_t depth : {1, 8, 16, 33, 64, 80, 128}) {
    check_both({}, {1, 1, 66, 70, depth, depth}, DType::f32, 2e-5);
  }
  check_both({}, {1, 1, 66, 70, 24, 40});
}

TEST(Attention, ManyHeadsShareSlots) {
  AttentionForm form;
  form.causal = 0;
  form.fill = -kInfinity;
  check_both(form, {3, 7, 70, 70, 8, 8});
}

TEST(Attention, LengthsOfQueriesAndKeysMayDiffer) {
  AttentionForm form;
  for (const auto& [queries, keys] :
       {std::pair<std::int64_t, std::int64_t>{1, 200}, {200, 3}, {70, 130}, {130, 70}}) {
    form.causal.reset();
    check_both(form, {1, 2, queries, keys, 16, 16});
    // The last query sees the last key.
    form.fill = -kInfinity;
    form.causal = keys - queries;
    if (keys >= queries) check_both(form, {1, 2, queries, keys, 16, 16});
  }
}

const std::vector<ir::DimOrder> kOrders = {{0, 2, 1, 3}, {0, 1, 3, 2}, {1, 2, 0, 3}, {3, 0, 2, 1}};

// Its arrays in orders of dims that differ, those from number `first` on.
AttentionForm form_in_orders(std::size_t first, bool backward) {
  const auto order = [&](std::size_t k) { return kOrders[(first + k) % kOrders.size()]; };
  AttentionForm form = plain_form(backward);
  form.query = order(0);
  form.key = order(1);
  form.value = order(2);
  form.output = order(3);
  if (backward) {
    form.output_gradient = order(0);
    form.query_gradient = order(1);
    form.key_gradient = order(2);
    form.value_gradient = order(3);
  }
  return form;
}

TEST(Attention, EveryOrderOfDimsIsReadInPlace) {
  for (std::size_t i = 0; i < kOrders.size(); ++i) {
    for (const bool backward : {false, true}) {
      AttentionForm form = form_in_orders(i, backward);
      check(form, {2, 3, 40, 70, 16, 32});
    }
  }
}

TEST(Attention, MasksAndBiasesOfAnyDimsApply) {
  using Parts = std::vector<std::int64_t>;
  for (const Parts& dims : {Parts{0, 1, 2, 3}, Parts{2, 3}, Parts{0, 3}, Parts{3}, Parts{1, 2}}) {
    AttentionForm form;
    form.fill = -3e4f;
    form.mask = dims;
    check_both(form, {2, 2, 70, 67, 8, 8});
    form.mask.reset();
    form.bias = dims;
    check_both(form, {2, 2, 70, 67, 8, 8});
    form.mask = Parts{0, 2, 3};
    form.causal = 2;
    check_both(form, {2, 2, 70, 67, 8, 8});
  }
}

TEST(Attention, RowsWithoutASeenKeyAreAsComposed) {
  // Rows before -causal see nothing: NaN under -inf, the mean of all values under a finite fill.
  for (const float fill : {-kInfinity, -1e9f, -50.0f}) {
    AttentionForm form;
    form.causal = -5;
    form.fill = fill;
    check_both(form, {1, 1, 70, 140, 8, 8});
  }
}

TEST(Attention, ScoresBelowTheFillKeepTheirMeaning) {
  // Every seen score is far below what stands for unseen ones.
  AttentionForm form;
  form.causal = 0;
  form.fill = -10;
  form.bias = std::vector<std::int64_t>{3};
  AttentionForm forward = plain_form(false);
  forward.causal = form.causal;
  forward.fill = form.fill;
  forward.bias = form.bias;
  const auto module = module_of(forward, {1, 1, 130, 130, 8, 8}, DType::f32);
  std::vector<Literal> arguments = arguments_of(*module);
  for (std::int64_t i = 0; i < 130; ++i) arguments[3].set(i, -1000);
  const ir::Instruction& root = *module->entry()->root();
  EXPECT_EQ(cases::compare_close(*ir::interpret(root, arguments), *run_instruction(root, arguments),
                                 kTolerance),
            "");
}

TEST(Attention, LargeScoresDoNotOverflow) {
  AttentionForm form;
  form.causal = 0;
  form.fill = -kInfinity;
  // Scores to 8e4: rounding of a score moves its power, so that the tolerance is a score's ulp.
  check_both(form, {1, 2, 70, 70, 8, 8}, DType::f32, 3e-2, 100);
}

TEST(Attention, HalfPrecisionIsComputedInF32) {
  AttentionForm form;
  form.scale = form.gradient_scale = 0.2f;
  form.causal = 0;
  form.fill = -1e9f;
  // Results are rounded once; where f32 sums differ, a rounding may go the other way.
  check_both(form, {1, 3, 70, 70, 24, 24}, DType::bf16, 8e-3, 1, &f32_products());
  check_both(form, {1, 3, 70, 70, 24, 24}, DType::f16, 1e-3);
}

// Where the machine has products of bf16; elsewhere these repeat what f32 gives.
constexpr double kBf16Tolerance = 1.2e-2;

TEST(AttentionOfBf16, LengthsAroundBlockEdgesMatchTheInterpreter) {
  for (const std::int64_t length : {1, 2, 7, 31, 33, 63, 64, 65, 127, 130}) {
    AttentionForm form;
    form.scale = form.gradient_scale = 0.25f;
    check_both(form, {1, 2, length, length, 16, 16}, DType::bf16, kBf16Tolerance);
    form.causal = 0;
    form.fill = -kInfinity;
    check_both(form, {1, 2, length, length, 16, 16}, DType::bf16, kBf16Tolerance);
  }
}

TEST(AttentionOfBf16, DepthsAroundPairsAndVectorsMatchTheInterpreter) {
  for (const std::int64_t depth : {1, 2, 3, 15, 16, 17, 33, 64, 80, 128}) {
    AttentionForm form;
    form.scale = form.gradient_scale = 1 / std::sqrt(static_cast<float>(depth));
    check_both(form, {1, 1, 66, 70, depth, depth}, DType::bf16, kBf16Tolerance);
  }
  check_both({}, {1, 1, 33, 71, 24, 41}, DType::bf16, kBf16Tolerance);
}

TEST(AttentionOfBf16, MasksAndBiasesApply) {
  using Parts = std::vector<std::int64_t>;
  for (const Parts& dims : {Parts{0, 1, 2, 3}, Parts{0, 3}}) {
    AttentionForm form;
    form.scale = form.gradient_scale = 0.3f;
    form.fill = -3e4f;
    form.mask = dims;
    check_both(form, {2, 2, 71, 67, 8, 8}, DType::bf16, kBf16Tolerance);
    form.mask.reset();
    form.bias = dims;
    form.causal = 2;
    check_both(form, {2, 2, 71, 67, 8, 8}, DType::bf16, kBf16Tolerance);
  }
}

TEST(AttentionOfBf16, EveryOrderOfDimsIsRead) {
  for (std::size_t i = 0; i < kOrders.size(); ++i) {
    for (const bool backward : {false, true}) {
      AttentionForm form = form_in_orders(i, backward);
      form.scale = form.gradient_scale = 0.2f;
      form.result_dtype = DType::bf16;
      check(form, {2, 3, 41, 71, 17, 32}, DType::bf16, kBf16Tolerance);
    }
  }
}

TEST(AttentionOfBf16, GradientsThatNobodyWantsAreLeftOut) {
  for (int kept = 1; kept < 8; ++kept) {
    AttentionForm form = plain_form(true);
    form.scale = form.gradient_scale = 0.25f;
    form.wants_query = (kept & 1) != 0;
    form.wants_key = (kept & 2) != 0;
    form.wants_value = (kept & 4) != 0;
    form.result_dtype = DType::bf16;
    check(form, {1, 2, 70, 67, 16, 16}, DType::bf16, kBf16Tolerance);
  }
}

TEST(AttentionOfBf16, RowsWithoutASeenKeyAreAsComposed) {
  for (const float fill : {-kInfinity, -1e9f}) {
    AttentionForm form;
    form.causal = -5;
    form.fill = fill;
    check_both(form, {1, 1, 70, 141, 8, 8}, DType::bf16, kBf16Tolerance);
  }
}

TEST(AttentionOfBf16, WhatIsBeyondTheLastQueryReachesNoGradient) {
  // An infinite key makes the scores of lanes beyond the last query NaN.
  AttentionForm form = plain_form(true);
  form.result_dtype = DType::bf16;
  const Sizes sizes = {1, 1, 3, 4, 2, 2};
  const auto module = module_of(form, sizes, DType::bf16);
  std::vector<Literal> arguments = arguments_of(*module);
  for (std::int64_t i = 0; i < 3 * 2; ++i) arguments[0].set(i, 1);
  arguments[1].set(0, -kInfinity);
  const ir::Instruction& root = *module->entry()->root();
  const auto got = run_instruction(root, arguments);
  ASSERT_TRUE(got.ok());
  const Literal& values = got->elements()[2];
  for (std::int64_t i = 0; i < values.shape().element_count(); ++i) {
    EXPECT_FALSE(std::isnan(values.at(i))) << i;
  }
}

TEST(Attention, GradientsThatNobodyWantsAreLeftOut) {
  for (int kept = 1; kept < 8; ++kept) {
    AttentionForm form = plain_form(true);
    form.wants_query = (kept & 1) != 0;
    form.wants_key = (kept & 2) != 0;
    form.wants_value = (kept & 4) != 0;
    check(form, {1, 2, 70, 67, 16, 16});
  }
}

void check_threads(DType dtype) {
  const int before = device::thread_count();
  for (const bool backward : {false, true}) {
    for (const std::int64_t heads : {1, 5}) {
      AttentionForm form = plain_form(backward);
      form.causal = 0;
      form.fill = -kInfinity;
      form.result_dtype = dtype;
      const auto module = module_of(form, {1, heads, 300, 300, 16, 16}, dtype);
      const ir::Instruction& root = *module->entry()->root();
      const std::vector<Literal> arguments = arguments_of(*module);
      device::set_thread_count(1);
      const auto expected = run_instruction(root, arguments);
      ASSERT_TRUE(expected.ok());
      for (const int threads : {2, 5}) {
        device::set_thread_count(threads);
        const auto got = run_instruction(root, arguments);
        ASSERT_TRUE(got.ok());
        EXPECT_TRUE(*expected == *got) << threads;
      }
    }
  }
  device::set_thread_count(before);
}

TEST(Attention, BitsDoNotDependOnThreads) { check_threads(DType::f32); }
TEST(AttentionOfBf16, BitsDoNotDependOnThreads) { check_threads(DType::bf16); }

TEST(Attention, WorkspaceDoesNotGrowWithTheScores) {
  for (const bool backward : {false, true}) {
    const auto bytes = [&](std::int64_t length) {
      const auto module =
          module_of(plain_form(backward), {1, 1, length, length, 64, 64}, DType::f32);
      return (*make_kernel(*module->entry()->root()))->workspace_bytes();
    };
    EXPECT_LE(bytes(8192), 2 * bytes(4096));
    EXPECT_LT(bytes(8192), 8192LL * 8192 * 4 / 3);
  }
}

TEST(Attention, TextRoundTripKeepsTheKernel) {
  AttentionForm form = plain_form(true);
  form.key = {0, 2, 1, 3};
  form.scale = 0.1f;
  form.gradient_scale = 0.3f;
  form.causal = -7;
  form.fill = -kInfinity;
  form.mask = std::vector<std::int64_t>{0, 3};
  form.wants_value = false;
  const auto module = module_of(form, {2, 3, 5, 6, 7, 8}, DType::bf16);
  auto again = ir::parse_module(ir::to_text(*module));
  ASSERT_TRUE(again.ok()) << again.status().to_string() << ir::to_text(*module);
  const auto read = ir::read_attention(*(*again)->entry()->root());
  ASSERT_TRUE(read.has_value()) << ir::to_text(*module);
  EXPECT_TRUE(*read == form);
}

TEST(Attention, BodyThatIsNotWhatItClaimsHasNoKernel) {
  AttentionForm form = plain_form(false);
  form.scale = 0.5f;
  const auto module = module_of(form, {1, 2, 8, 8, 4, 4}, DType::f32);
  ir::Instruction& root = *module->entry()->root();
  form.scale = 0.25f;
  root.attributes() = ir::attention_attributes(form);
  EXPECT_FALSE(ir::read_attention(root).has_value());
  EXPECT_EQ(make_kernel(root).status().code(), StatusCode::unimplemented);
}

}  // namespace
}  // namespace plimsoll::kernels
