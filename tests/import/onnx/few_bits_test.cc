// SPDX-License-Identifier: Apache-2.0
// Products by weights of 2, 4 or 8 bits, beside their formula.
#include <algorithm>
#include <memory>
#include <random>

#include "runtime/passes/passes.h"
#include "tests/import/onnx/one_node.h"

namespace plimsoll::testing {
namespace {

using ir::DType;

enum class Zeros { none, packed, floats };

// A node with random operands, and what it computes.
struct Case {
  OneNode node = OneNode("MatMulNBits", "com.microsoft", 17);
  ir::Dims dims;
  std::vector<double> wanted;

  Case(std::int64_t rows, std::int64_t depth, std::int64_t columns, std::int64_t bits,
       std::int64_t block, Zeros zeros) {
    const std::int64_t blocks = (depth + block - 1) / block, in_a_byte = 8 / bits;
    const std::int64_t zero_bytes = (blocks + in_a_byte - 1) / in_a_byte;
    std::vector<float> x(static_cast<std::size_t>(rows * depth));
    std::vector<float> scales(static_cast<std::size_t>(columns * blocks)), reals(scales.size());
    std::vector<std::uint8_t> w(static_cast<std::size_t>(columns * blocks * block / in_a_byte));
    std::vector<std::uint8_t> packed(static_cast<std::size_t>(columns * zero_bytes));
    std::mt19937_64 random(static_cast<std::uint64_t>(rows + 100 * bits));
    const auto real = [&] { return static_cast<float>(random() % 2001) / 1000 - 1; };
    std::generate(x.begin(), x.end(), real);
    std::generate(scales.begin(), scales.end(), real);
    std::generate(reals.begin(), reals.end(), real);
    for (auto* bytes : {&w, &packed}) {
      for (std::uint8_t& byte : *bytes) byte = static_cast<std::uint8_t>(random());
    }
    // Number `i` of those that begin at byte `from`.
    const auto number = [&](const std::vector<std::uint8_t>& bytes, std::int64_t from,
                            std::int64_t i) {
      const int byte = bytes[static_cast<std::size_t>(from + i / in_a_byte)];
      return byte >> (i % in_a_byte * bits) & ((1 << bits) - 1);
    };
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        double sum = 0;
        for (std::int64_t k = 0; k < depth; ++k) {
          const auto place = static_cast<std::size_t>(column * blocks + k / block);
          const double zero = zeros == Zeros::none ? 1 << (bits - 1)
                              : zeros == Zeros::floats
                                  ? double{reals[place]}
                                  : number(packed, column * zero_bytes, k / block);
          const double weight = number(w, column * blocks * block / in_a_byte, k) - zero;
          sum +=
              double{x[static_cast<std::size_t>(row * depth + k)]} * weight * double{scales[place]};
        }
        wanted.push_back(sum);
      }
    }
    node.input(array<float>({rows, depth}, x));
    node.constant(array<std::uint8_t>({columns, blocks, block / in_a_byte}, w));
    node.constant(array<float>({columns * blocks}, scales));
    if (zeros == Zeros::packed) node.constant(array<std::uint8_t>({columns * zero_bytes}, packed));
    if (zeros == Zeros::floats) node.constant(array<float>({columns, blocks}, reals));
    node.with(attribute("K", depth)).with(attribute("N", columns));
    node.with(attribute("bits", bits)).with(attribute("block_size", block));
    dims = {rows, columns};
  }
};

TEST(OnnxFewBits, WeightsAreUnpackedByBlocks) {
  for (const std::int64_t bits : {2, 4, 8}) {
    for (const Zeros zeros : {Zeros::none, Zeros::packed, Zeros::floats}) {
      for (const std::int64_t rows : {1, 3, 5}) {
        SCOPED_TRACE(std::to_string(bits) + " bits, " + std::to_string(rows) + " rows");
        const Case whole(rows, 32, 6, bits, 16, zeros), cut_off(rows, 37, 3, bits, 8, zeros);
        expect_near(whole.node.result(DType::f32), whole.dims, whole.wanted, 0.01);
        expect_near(cut_off.node.result(DType::f32), cut_off.dims, cut_off.wanted, 0.01);
      }
    }
  }
}

// Of many columns the passes make a loop over tiles.
TEST(OnnxFewBits, OfManyRowsBecomeFloatsByTiles) {
  for (const Zeros zeros : {Zeros::none, Zeros::packed}) {
    const Case made(5, 1024, 509, 4, 32, zeros);
    const auto module = import::read_program(made.node.bytes(DType::f32), "m.onnx");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const auto tiled = passes::tile_narrow_products(**module, 1 << 18);
    ASSERT_TRUE(tiled.ok()) << tiled.status().to_string();
    EXPECT_TRUE(*tiled);
    expect_near(made.node.result(DType::f32), made.dims, made.wanted, 0.05);
  }
}

TEST(OnnxFewBits, SaysWhatIsWrong) {
  const auto error_of = [](std::int64_t bits, std::int64_t block) {
    OneNode made("MatMulNBits", "com.microsoft", 17);
    made.input(array<float>({1, 3}, {1, 2, 3})).input(array<std::uint8_t>({1, 1, 4}, {0, 0, 0, 0}));
    made.input(array<float>({1}, {1})).with(attribute("K", 3)).with(attribute("N", 1));
    return made.with(attribute("bits", bits))
        .with(attribute("block_size", block))
        .error(DType::f32);
  };
  EXPECT_NE(error_of(3, 4).find("bits"), std::string::npos);
  EXPECT_NE(error_of(4, 0).find("block_size"), std::string::npos);
  EXPECT_NE(error_of(2, 3).find("block_size"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::testing
