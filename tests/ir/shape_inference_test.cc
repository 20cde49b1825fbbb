// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/shapes/shape_inference.h"

#include <gtest/gtest.h>

#include "runtime/ir/shapes/builder.h"

namespace plimsoll::ir {
namespace {

std::string infer(Opcode opcode, const std::vector<Shape>& operands, const Attributes& attributes,
                  const Shape* given = nullptr, std::vector<Computation*> called = {}) {
  std::vector<const Shape*> pointers;
  for (const Shape& operand : operands) pointers.push_back(&operand);
  const Result<Shape> result = infer_shape(opcode, pointers, attributes, called, given);
  return result.ok() ? result->to_string() : result.status().message();
}

Shape f32(Dims dims) { return Shape(DType::f32, dims); }

TEST(ShapeInference, ElementwiseKeepsDimsAndNamesWhatDiffers) {
  EXPECT_EQ(infer(Opcode::add, {f32({2, 3}), f32({2, 3})}, {}), "f32[2,3]");
  EXPECT_EQ(infer(Opcode::add, {f32({2}), f32({3})}, {}), "add: f32[2] and f32[3] differ in dims");
  EXPECT_EQ(infer(Opcode::add, {f32({2}), f32({})}, {}), "add: f32[2] and f32[] differ in dims");
  EXPECT_EQ(infer(Opcode::add, {f32({2}), Shape(DType::s32, {2})}, {}),
            "add: f32[2] and s32[2] differ in element type");
  EXPECT_EQ(infer(Opcode::compare, {f32({2}), f32({2})}, {}), "pred[2]");
  EXPECT_EQ(infer(Opcode::add, {f32({2})}, {}), "add: 1 operands, must have 2");
}

TEST(ShapeInference, ElementTypesFitTheOperation) {
  const Shape s32(DType::s32, {2}), pred(DType::pred, {2});
  EXPECT_EQ(infer(Opcode::exponential, {s32}, {}),
            "exponential: element type s32 must be floating");
  EXPECT_EQ(infer(Opcode::and_, {f32({2}), f32({2})}, {}),
            "and: element type f32 must be pred or an integer");
  EXPECT_EQ(infer(Opcode::negate, {pred}, {}), "negate: element type pred must be a number");
  EXPECT_EQ(infer(Opcode::shift_left, {pred, pred}, {}),
            "shift-left: element type pred must be an integer");
  EXPECT_EQ(infer(Opcode::not_, {pred}, {}), "pred[2]");
}

TEST(ShapeInference, MixedPrecisionTakesTheGivenOrTheHigherType) {
  const Shape bf16(DType::bf16, {2}), f64(DType::f64, {2});
  EXPECT_EQ(infer(Opcode::add, {bf16, f32({2})}, {}), "f32[2]");
  EXPECT_EQ(infer(Opcode::add, {f32({2}), f64}, {}), "f64[2]");
  EXPECT_EQ(infer(Opcode::add, {bf16, f32({2})}, {}, &bf16), "bf16[2]");
  const Shape s32(DType::s32, {2});
  EXPECT_EQ(infer(Opcode::add, {bf16, bf16}, {}, &s32), "add: result is bf16[2], not s32[2]");
}

TEST(ShapeInference, SelectAndClampTakeScalars) {
  EXPECT_EQ(infer(Opcode::select, {Shape(DType::pred, {}), f32({4}), f32({4})}, {}), "f32[4]");
  EXPECT_EQ(infer(Opcode::select, {Shape(DType::pred, {3}), f32({4}), f32({4})}, {}),
            "select: pred[3] and f32[4] differ in dims");
  EXPECT_EQ(infer(Opcode::clamp, {f32({}), f32({4}), f32({})}, {}), "f32[4]");
  EXPECT_EQ(infer(Opcode::clamp, {f32({2}), f32({4}), f32({})}, {}),
            "clamp: f32[4] and f32[2] differ in dims");
}

TEST(ShapeInference, BroadcastNamesTheDimsThatDoNotFit) {
  Attributes a;
  a.dimensions = {1};
  const Shape to = f32({3, 4});
  EXPECT_EQ(infer(Opcode::broadcast, {f32({4})}, a, &to), "f32[3,4]");
  EXPECT_EQ(infer(Opcode::broadcast, {f32({3})}, a, &to),
            "broadcast: f32[3] does not fit f32[3,4] at dimensions=[1]");
  a.dimensions = {2};
  EXPECT_EQ(infer(Opcode::broadcast, {f32({4})}, a, &to),
            "broadcast: dimensions=[2] out of range for rank 2");
  a.dimensions = {};
  EXPECT_EQ(infer(Opcode::broadcast, {f32({4})}, a, &to),
            "broadcast: 0 values in dimensions for rank 1");
}

TEST(ShapeInference, MovementFollowsItsAttributes) {
  Attributes transpose;
  transpose.dimensions = {2, 0, 1};
  EXPECT_EQ(infer(Opcode::transpose, {f32({2, 3, 4})}, transpose), "f32[4,2,3]");
  transpose.dimensions = {0, 0, 1};
  EXPECT_EQ(infer(Opcode::transpose, {f32({2, 3, 4})}, transpose),
            "transpose: dimensions=[0,0,1] names 0 twice");
  Attributes slice;
  slice.slice_starts = {1};
  slice.slice_limits = {8};
  slice.slice_strides = {3};
  EXPECT_EQ(infer(Opcode::slice, {f32({8})}, slice), "f32[3]");
  EXPECT_EQ(infer(Opcode::slice, {f32({7})}, slice),
            "slice: [1:8:3] out of range in dimension 0 of f32[7]");
  Attributes pad;
  pad.padding = {{.low = -1, .high = 2, .interior = 1}};
  EXPECT_EQ(infer(Opcode::pad, {f32({3}), f32({})}, pad), "f32[6]");
  pad.padding = {{.low = -4, .high = 0, .interior = 0}};
  EXPECT_EQ(infer(Opcode::pad, {f32({3}), f32({})}, pad),
            "pad: padding leaves dimension 0 of f32[3] negative");
  Attributes concatenate;
  concatenate.dimensions = {1};
  EXPECT_EQ(infer(Opcode::concatenate, {f32({2, 3}), f32({2, 5})}, concatenate), "f32[2,8]");
  EXPECT_EQ(infer(Opcode::concatenate, {f32({2, 3}), f32({3, 5})}, concatenate),
            "concatenate: f32[2,3] and f32[3,5] differ outside dimension 1");
}

TEST(ShapeInference, DotPutsBatchThenLeftThenRightDims) {
  Attributes a;
  a.dot = std::make_shared<DotDimensions>(DotDimensions{
      .lhs_contracting = {2}, .rhs_contracting = {1}, .lhs_batch = {0}, .rhs_batch = {0}});
  EXPECT_EQ(infer(Opcode::dot, {f32({5, 2, 3}), f32({5, 3, 7})}, a), "f32[5,2,7]");
  EXPECT_EQ(infer(Opcode::dot, {f32({5, 2, 3}), f32({5, 4, 7})}, a),
            "dot: f32[5,2,3] and f32[5,4,7] differ in dims 2 and 1");
  const Shape s32(DType::s32, {5, 2, 7});
  EXPECT_EQ(infer(Opcode::dot, {Shape(DType::s8, {5, 2, 3}), Shape(DType::s8, {5, 3, 7})}, a, &s32),
            "s32[5,2,7]");
}

TEST(ShapeInference, ConvolutionCountsWindowsAndGroups) {
  Attributes a;
  a.convolution =
      std::make_shared<ConvolutionDimensions>(ConvolutionDimensions{.input_batch = 0,
                                                                    .input_feature = 3,
                                                                    .kernel_input_feature = 2,
                                                                    .kernel_output_feature = 3,
                                                                    .output_batch = 0,
                                                                    .output_feature = 3,
                                                                    .input_spatial = {1, 2},
                                                                    .kernel_spatial = {0, 1},
                                                                    .output_spatial = {1, 2}});
  a.window = {{.size = 3, .stride = 2, .padding_low = 1, .padding_high = 1},
              {.size = 3, .window_dilation = 2}};
  EXPECT_EQ(infer(Opcode::convolution, {f32({8, 28, 28, 4}), f32({3, 3, 4, 16})}, a),
            "f32[8,14,24,16]");
  a.feature_group_count = 2;
  EXPECT_EQ(infer(Opcode::convolution, {f32({8, 28, 28, 4}), f32({3, 3, 4, 16})}, a),
            "convolution: f32[8,28,28,4] has 4 features, the kernel wants 4 x 2 groups");
  EXPECT_EQ(infer(Opcode::convolution, {f32({8, 28, 28, 4}), f32({3, 3, 2, 16})}, a),
            "f32[8,14,24,16]");
}

TEST(ShapeInference, ReduceChecksItsComputation) {
  Module module("m");
  Computation* sum = scalar_computation(module, Opcode::add, DType::f32);
  Attributes a;
  a.dimensions = {0, 2};
  EXPECT_EQ(infer(Opcode::reduce, {f32({2, 3, 4}), f32({})}, a, nullptr, {sum}), "f32[3]");
  EXPECT_EQ(infer(Opcode::reduce, {f32({2, 3, 4}), f32({1})}, a, nullptr, {sum}),
            "reduce: initial value f32[1] does not fit f32[2,3,4]");
  Computation* integers = scalar_computation(module, Opcode::add, DType::s32);
  EXPECT_EQ(infer(Opcode::reduce, {f32({2, 3, 4}), f32({})}, a, nullptr, {integers}),
            "reduce: 'add_s32' works on s32[], the initial value is f32[]");
  EXPECT_EQ(infer(Opcode::reduce, {f32({2, 3, 4}), f32({})}, a),
            "reduce: calls 0 computations, must call 1");
}

TEST(ShapeInference, GatherPlacesOffsetsAmongBatchDims) {
  Attributes a;
  a.gather = std::make_shared<GatherDimensions>(GatherDimensions{.offset_dims = {2},
                                                                 .collapsed_slice_dims = {0},
                                                                 .start_index_map = {0},
                                                                 .operand_batching_dims = {},
                                                                 .start_indices_batching_dims = {},
                                                                 .index_vector_dim = 2});
  a.slice_sizes = {1, 16};
  EXPECT_EQ(infer(Opcode::gather, {f32({100, 16}), Shape(DType::s32, {4, 8})}, a), "f32[4,8,16]");
  a.slice_sizes = {2, 16};
  EXPECT_EQ(infer(Opcode::gather, {f32({100, 16}), Shape(DType::s32, {4, 8})}, a),
            "gather: slice_sizes=[2,16] out of range for f32[100,16]");
}

TEST(ShapeInference, HugeResultsAreErrors) {
  Attributes a;
  a.padding = {{.low = std::int64_t{1} << 55, .high = std::int64_t{1} << 55, .interior = 0}};
  EXPECT_EQ(infer(Opcode::pad, {f32({3}), f32({})}, a),
            "pad: result dims [72057594037927939] are negative or too large");
  Attributes window;
  window.window = {{.size = 1, .base_dilation = std::int64_t{1} << 62}};
  Module module("m");
  Computation* sum = scalar_computation(module, Opcode::add, DType::f32);
  EXPECT_EQ(infer(Opcode::reduce_window, {f32({9}), f32({})}, window, nullptr, {sum}),
            "reduce-window: value is too large in window dim 0");
}

}  // namespace
}  // namespace plimsoll::ir
