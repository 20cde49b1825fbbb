// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/convolution_shape.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/ir/text/text.h"

namespace plimsoll::kernels::cuda {
namespace {

using Places = std::vector<std::int64_t>;

// Of a convolution of arrays of these shapes.
std::unique_ptr<ir::Module> convolution_of(const std::string& lhs, const std::string& rhs,
                                           const std::string& result,
                                           const std::string& attributes) {
  auto module = ir::parse_module(
      "HloModule m\nENTRY e {\n  a = " + lhs + " parameter(0)\n  b = " + rhs +
          " parameter(1)\n  ROOT r = " + result + " convolution(a, b), " + attributes + "\n}\n",
      "convolution");
  if (!module.ok()) {
    ADD_FAILURE() << module.status().to_string();
    return nullptr;
  }
  return *std::move(module);
}

std::optional<ConvolutionShape> convolution_shape_of(const std::string& lhs, const std::string& rhs,
                                                     const std::string& result,
                                                     const std::string& attributes) {
  const auto module = convolution_of(lhs, rhs, result, attributes);
  return module == nullptr ? std::nullopt : read_convolution(*module->entry()->root());
}

TEST(ConvolutionShape, FiltersAreBroughtIntoTheOrderOfTheImages) {
  const auto first = convolution_shape_of("f32[2,3,9,8]", "f32[4,3,3,2]", "f32[2,4,4,8]",
                                          "window={size=3x2 stride=2x1 pad=0_0x0_1}, "
                                          "dim_labels=bf01_oi01->bf01");
  EXPECT_FALSE(first) << "padding of one side that is read";
  const auto even = convolution_shape_of("f32[2,3,9,8]", "f32[4,3,3,3]", "f32[2,4,5,8]",
                                         "window={size=3x3 stride=2x1 pad=1_1x1_1}, "
                                         "dim_labels=bf01_oi01->bf01");
  ASSERT_TRUE(even);
  EXPECT_EQ(even->mode, ConvolutionMode::forward);
  EXPECT_FALSE(even->is_channels_last);
  EXPECT_EQ(even->inputs, 3);
  EXPECT_EQ(even->outputs, 4);
  EXPECT_EQ(even->stride, (Places{2, 1}));
  EXPECT_EQ(even->padding, (Places{1, 1}));
  EXPECT_TRUE(even->filter_dims.empty()) << "as they lie";
  const auto last = convolution_shape_of("f32[2,9,8,3]", "f32[3,3,3,4]", "f32[2,5,8,4]",
                                         "window={size=3x3 stride=2x1 pad=1_1x1_1}, "
                                         "dim_labels=b01f_01io->b01f");
  ASSERT_TRUE(last);
  EXPECT_TRUE(last->is_channels_last);
  EXPECT_EQ(last->filter_dims, (Places{3, 0, 1, 2}));
  EXPECT_EQ(last->filter_shape(), (Places{4, 3, 3, 3}));
  EXPECT_FALSE(
      convolution_shape_of("f32[9,8,2,3]", "f32[3,3,3,4]", "f32[5,8,2,4]",
                           "window={size=3x3 stride=2x1 pad=1_1x1_1}, dim_labels=01bf_01io->01bf"))
      << "images in an order that the library has not";
}

// A row of padding on one side alone that no window reads is none.
TEST(ConvolutionShape, PaddingIsThatOfBothSides) {
  const auto shape = convolution_shape_of("f32[2,8,8,3]", "f32[4,1,1,3]", "f32[2,4,4,4]",
                                          "window={size=1x1 stride=2x2 pad=0_-1x0_-1}, "
                                          "dim_labels=b01f_o01i->b01f");
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->padding, (Places{0, 0}));
  EXPECT_FALSE(
      convolution_shape_of("f32[2,8,8,3]", "f32[4,3,3,3]", "f32[2,4,4,4]",
                           "window={size=3x3 stride=2x2 pad=0_1x0_1}, dim_labels=b01f_o01i->b01f"));
}

TEST(ConvolutionShape, GradientsAreSeenByTheirAttributes) {
  // Of a convolution of [2,9,9,3] by 3 x 3 with stride 2.
  const auto image =
      convolution_shape_of("f32[2,4,4,5]", "f32[3,3,3,5]", "f32[2,9,9,3]",
                           "window={size=3x3 pad=2_2x2_2 lhs_dilate=2x2 rhs_reversal=1x1}, "
                           "dim_labels=b01f_01oi->b01f");
  ASSERT_TRUE(image);
  EXPECT_EQ(image->mode, ConvolutionMode::input_gradient);
  EXPECT_EQ(image->x, (Places{9, 9}));
  EXPECT_EQ(image->y, (Places{4, 4}));
  EXPECT_EQ(image->inputs, 3);
  EXPECT_EQ(image->outputs, 5);
  EXPECT_EQ(image->stride, (Places{2, 2}));
  EXPECT_EQ(image->padding, (Places{0, 0}));
  EXPECT_FALSE(image->is_flipped);
  EXPECT_EQ(image->filter_dims, (Places{3, 0, 1, 2}));
  // Filters that were reversed before.
  const auto flipped = convolution_shape_of("f32[2,4,4,5]", "f32[3,3,3,5]", "f32[2,9,9,3]",
                                            "window={size=3x3 pad=2_2x2_2 lhs_dilate=2x2}, "
                                            "dim_labels=b01f_01oi->b01f");
  ASSERT_TRUE(flipped);
  EXPECT_TRUE(flipped->is_flipped);
  const auto filter =
      convolution_shape_of("f32[2,9,9,3]", "f32[2,4,4,5]", "f32[3,3,3,5]",
                           "window={size=4x4 rhs_dilate=2x2}, dim_labels=f01b_i01o->01bf");
  ASSERT_TRUE(filter);
  EXPECT_EQ(filter->mode, ConvolutionMode::filter_gradient);
  EXPECT_EQ(filter->window, (Places{3, 3}));
  EXPECT_EQ(filter->stride, (Places{2, 2}));
  EXPECT_EQ(filter->batch, 2);
  EXPECT_EQ(filter->filter_dims, (Places{3, 0, 1, 2}));
  const auto module = convolution_of("f32[2,9,9,3]", "f32[2,4,4,5]", "f32[3,3,3,5]",
                                     "window={size=4x4 rhs_dilate=2x2}, "
                                     "dim_labels=f01b_i01o->01bf");
  ASSERT_NE(module, nullptr);
  const auto reordered = reordered_filters(*module->entry()->root(), *filter);
  ASSERT_TRUE(reordered.ok()) << reordered.status().to_string();
  EXPECT_EQ((*reordered)->entry()->root()->shape().to_string(), "f32[3,3,3,5]");
  EXPECT_EQ((*reordered)->entry()->parameters()[0]->shape().to_string(), "f32[5,3,3,3]");
}

// As measured: docs/gpu.md.
TEST(ConvolutionShape, TheLibraryIsFasterByDtypeLayoutAndWindow) {
  const auto by = [](const std::string& dtype, bool is_last, const std::string& window,
                     bool allows_tf32 = false) {
    const auto of = [&](const std::string& dims) { return dtype + "[" + dims + "]"; };
    const auto shape =
        is_last ? convolution_shape_of(of("2,9,9,4"), of("8," + window + ",4"), of("2,9,9,8"),
                                       std::string("window={") +
                                           (window == "1,1" ? "size=1x1" : "size=3x3 pad=1_1x1_1") +
                                           "}, dim_labels=b01f_o01i->b01f")
                : convolution_shape_of(of("2,4,9,9"), of("8,4," + window), of("2,8,9,9"),
                                       std::string("window={") +
                                           (window == "1,1" ? "size=1x1" : "size=3x3 pad=1_1x1_1") +
                                           "}, dim_labels=bf01_oi01->bf01");
    return shape && is_faster_by_library(*shape, allows_tf32);
  };
  EXPECT_TRUE(by("bf16", true, "3,3"));
  EXPECT_TRUE(by("f16", true, "3,3"));
  EXPECT_FALSE(by("bf16", true, "1,1"));
  EXPECT_FALSE(by("bf16", false, "3,3"));
  EXPECT_FALSE(by("f32", true, "3,3"));
  EXPECT_TRUE(by("f32", false, "3,3"));
  EXPECT_TRUE(by("f32", true, "3,3", true));
  EXPECT_FALSE(by("f32", false, "3,3", true));
  EXPECT_FALSE(by("f64", false, "3,3"));
}

TEST(ConvolutionShape, LinesHaveOneMoreDim) {
  const auto shape = convolution_shape_of("f16[2,9,4]", "f16[3,2,6]", "f16[2,9,6]",
                                          "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, "
                                          "feature_group_count=2");
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->groups, 2);
  EXPECT_EQ(shape->x, (Places{1, 9}));
  EXPECT_EQ(shape->window, (Places{1, 3}));
  EXPECT_EQ(shape->padding, (Places{0, 1}));
  EXPECT_EQ(shape->filter_shape(), (Places{6, 1, 3, 2}));
  EXPECT_FALSE(convolution_shape_of("s32[2,9,4]", "s32[3,4,6]", "s32[2,9,6]",
                                    "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f"));
}

}  // namespace
}  // namespace plimsoll::kernels::cuda
