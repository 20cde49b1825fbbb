// SPDX-License-Identifier: Apache-2.0
// Floats that are made of bytes: what reads two of them multiplies the bytes.
#include "tests/import/onnx/one_node.h"

namespace plimsoll::testing {
namespace {

std::string raw_floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}
std::string raw_bytes(const std::vector<std::int8_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size()};
}

// y = op(0.5 (x - 3), scales w), where scales lie along `axis`.
std::string quantized_model(const MessageWriter& op, const std::vector<std::string>& x_dims,
                            const std::vector<std::uint64_t>& w_dims,
                            const std::vector<std::int8_t>& w, const std::vector<float>& scales,
                            std::int64_t axis) {
  GraphParts parts;
  parts.inputs = {value_info("x", 2, x_dims)};
  parts.initializers = {raw_tensor("x_scale", 1, {}, raw_floats({0.5F})),
                        raw_tensor("x_zero", 2, {}, "\3"), raw_tensor("w", 3, w_dims, raw_bytes(w)),
                        raw_tensor("w_scale", 1, {scales.size()}, raw_floats(scales)),
                        raw_tensor("w_zero", 3, {scales.size()}, std::string(scales.size(), '\0'))};
  parts.nodes = {
      node("DequantizeLinear", {"x", "x_scale", "x_zero"}, {"a"}),
      node("DequantizeLinear", {"w", "w_scale", "w_zero"}, {"b"}, {attribute("axis", axis)}), op};
  parts.outputs = {shapeless_info("y", 1)};
  return model(parts, 17);
}

Result<ir::Literal> run(const std::string& bytes, const ir::Literal& x) {
  PLIMSOLL_ASSIGN_OR_RETURN(const auto module, import::read_program(bytes, "m.onnx"));
  return ir::interpret(*module, std::vector{x});
}

TEST(OnnxQuantized, ProductsOfFloatsMadeOfBytesAreOfBytes) {
  const std::vector<std::int8_t> w{1, -2, 3, 4, -5, 6};  // [2,3], or [3,2] turned
  const auto x = array<std::uint8_t>({2, 2}, {3, 4, 0, 255});
  const double left[2][2] = {{0, 0.5}, {-1.5, 126}};
  const std::vector<float> scales{1, 0.5F, 2};
  for (const bool is_turned : {false, true}) {
    const auto op = is_turned ? node("Gemm", {"a", "b"}, {"y"}, {attribute("transB", 1)})
                              : node("MatMul", {"a", "b"}, {"y"});
    const std::vector<std::uint64_t> dims =
        is_turned ? std::vector<std::uint64_t>{3, 2} : std::vector<std::uint64_t>{2, 3};
    const auto bytes = quantized_model(op, {"2", "2"}, dims, w, scales, is_turned ? 0 : 1);
    EXPECT_EQ(products_of(bytes), std::make_pair(1, 0));
    std::vector<double> wanted;
    for (const auto& row : left) {
      for (std::size_t k = 0; k < 3; ++k) {
        const double up = w[is_turned ? 2 * k : k], down = w[is_turned ? 2 * k + 1 : 3 + k];
        wanted.push_back((row[0] * up + row[1] * down) * double{scales[k]});
      }
    }
    expect_near(run(bytes, x), {2, 3}, wanted, 1e-4);
    // Scales along the depth can't be taken out of the sums.
    EXPECT_EQ(products_of(quantized_model(op, {"2", "2"}, dims, w, {1, 2}, is_turned ? 1 : 0)),
              std::make_pair(0, 1));
  }
}

TEST(OnnxQuantized, DeepConvolutionsOfFloatsMadeOfBytesAreOfBytes) {
  constexpr int kChannels = 300;
  std::vector<std::int8_t> w;
  std::vector<std::uint8_t> x;
  for (int i = 0; i < 2 * kChannels * 3; ++i) w.push_back(static_cast<std::int8_t>(i * 7));
  for (int i = 0; i < kChannels * 2; ++i) x.push_back(static_cast<std::uint8_t>(i * 11));
  const auto bytes = quantized_model(
      node("Conv", {"a", "b"}, {"y"}, {attribute("pads", std::vector<std::int64_t>{1, 1})}),
      {"1", "300", "2"}, {2, kChannels, 3}, w, {1, 0.25F}, 0);
  EXPECT_EQ(products_of(bytes), std::make_pair(1, 0));
  std::vector<double> wanted;
  for (int filter = 0; filter < 2; ++filter) {
    for (int place = 0; place < 2; ++place) {
      double sum = 0;
      for (int channel = 0; channel < kChannels; ++channel) {
        for (int tap = 0; tap < 3; ++tap) {
          const int from = place + tap - 1;
          if (from < 0 || from > 1) continue;
          sum += (x[static_cast<std::size_t>(channel * 2 + from)] - 3) * 0.5 *
                 w[static_cast<std::size_t>((filter * kChannels + channel) * 3 + tap)];
        }
      }
      wanted.push_back(sum * (filter == 0 ? 1 : 0.25));
    }
  }
  expect_near(run(bytes, array<std::uint8_t>({1, kChannels, 2}, x)), {1, 2, 2}, wanted, 0.5);
}

// 2^31 / 255^2 = 33,025 products of bytes fit a sum of 32 bits, however great they are.
TEST(OnnxQuantized, SumsThatBytesMayOverflowAreOfFloats) {
  constexpr std::int64_t kDeepest = 33025;
  const auto model_of = [](std::int64_t depth, bool convolves) {
    const auto count = static_cast<std::uint64_t>(depth);
    const std::vector<std::uint64_t> dims =
        convolves ? std::vector<std::uint64_t>{1, count, 1} : std::vector<std::uint64_t>{count, 1};
    GraphParts parts;
    parts.inputs = {value_info("x", 2,
                               convolves ? std::vector<std::string>{"1", std::to_string(depth), "1"}
                                         : std::vector<std::string>{"1", std::to_string(depth)})};
    parts.initializers = {raw_tensor("scale", 1, {}, raw_floats({0.5F})),
                          raw_tensor("w", 2, dims, std::string(count, '\xff'))};
    parts.nodes = {node("DequantizeLinear", {"x", "scale"}, {"a"}),
                   node("DequantizeLinear", {"w", "scale"}, {"b"}),
                   node(convolves ? "Conv" : "MatMul", {"a", "b"}, {"y"})};
    parts.outputs = {shapeless_info("y", 1)};
    return model(parts, 17);
  };
  for (const bool convolves : {false, true}) {
    for (const std::int64_t depth : {kDeepest, kDeepest + 1, std::int64_t{40000}}) {
      const std::string bytes = model_of(depth, convolves);
      EXPECT_EQ(products_of(bytes),
                depth <= kDeepest ? std::make_pair(1, 0) : std::make_pair(0, 1));
      const std::vector<std::uint8_t> x(static_cast<std::size_t>(depth), 255);
      const ir::Dims x_dims = convolves ? ir::Dims{1, depth, 1} : ir::Dims{1, depth};
      const ir::Dims y_dims = convolves ? ir::Dims{1, 1, 1} : ir::Dims{1, 1};
      const double wanted = 127.5 * 127.5 * static_cast<double>(depth);
      expect_near(run(bytes, array<std::uint8_t>(x_dims, x)), y_dims, {wanted}, 1e-4 * wanted);
    }
  }
}

}  // namespace
}  // namespace plimsoll::testing
