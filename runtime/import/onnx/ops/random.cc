// SPDX-License-Identifier: Apache-2.0
// What is drawn at random: the same at every run and every limit, by the node's seed, or by its
// name where it has none.
#include <fmt/format.h>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "runtime/base/hash.h"
#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/node_context.h"
#include "runtime/import/onnx/ops/uniform.h"

namespace plimsoll::onnx {

using ir::DType;
using ir::Literal;
using ir::Opcode;

Array uniform(NodeContext& n, const Sizes& dims, std::uint64_t stream) {
  std::uint64_t seed = hash_text(n.node.describe());
  if (n.attribute("seed") != nullptr) {
    const double given = n.real("seed", 0);
    std::memcpy(&seed, &given, sizeof seed);
  }
  const std::uint64_t start[] = {seed, stream << 32U};
  ir::Attributes attributes;
  attributes.rng_algorithm = ir::RngAlgorithm::three_fry;
  const Array state = n.e.constant(Literal::array<std::uint64_t>({2}, start));
  if (product(dims) < 0 || dims.size() > at(ir::kMaxRank)) {
    n.e.fail(fmt::format("the shape [{}] has no size", fmt::join(dims, ",")));
    return {};
  }
  const ir::Shape made =
      ir::Shape::tuple({ir::Shape(DType::u64, {2}), ir::Shape(DType::u32, dims)});
  const Array drawn =
      n.e.make(Opcode::rng_bit_generator, {state}, std::move(attributes), {}, &made);
  const Array bits = n.e.element_of(drawn, 1);
  if (bits.is_null()) return {};
  // 24 bits, which a float holds exactly.
  constexpr double kBits = 8;
  const Array kept = n.e.binary(Opcode::shift_right_logical, bits, n.e.scalar(kBits, DType::u32));
  return n.e.convert(kept, DType::f32) * 0x1p-24;
}

namespace {

// By two uniform numbers each (Box and Muller, 1958).
Array normal(NodeContext& n, const Sizes& dims) {
  const Array radius = sqrt(log(1.0 - uniform(n, dims, 0)) * -2.0);
  return radius * n.e.unary(Opcode::cosine, uniform(n, dims, 1) * (2 * std::numbers::pi));
}

Handler drawn(bool is_normal, bool is_like) {
  return [is_normal, is_like](NodeContext& n) {
    const Array like = is_like ? n.in(0) : Array();
    const Sizes dims = is_like ? like.dims() : n.numbers("shape");
    const DType dtype =
        is_like && n.attribute("dtype") == nullptr ? like.dtype() : n.dtype("dtype", 1);
    if (!ir::is_floating(dtype)) return n.wrong("dtype", "must be a float");
    Array made;
    if (is_normal) {
      made = normal(n, dims) * n.real("scale", 1) + n.real("mean", 0);
    } else {
      const double low = n.real("low", 0), high = n.real("high", 1);
      made = uniform(n, dims, 0) * (high - low) + low;
    }
    n.set(0, n.e.convert(made, dtype));
  };
}

void bernoulli(NodeContext& n) {
  const Array x = n.in(0);
  const DType dtype = n.attribute("dtype") == nullptr ? x.dtype() : n.dtype("dtype", 1);
  const Array drawn = uniform(n, x.dims(), 0);
  n.set(0, n.e.convert(drawn < n.e.convert(x, DType::f32), dtype));
}

}  // namespace

void add_random(OpTable& t) {
  t["RandomUniform"] = {drawn(false, false), false};
  t["RandomUniformLike"] = {drawn(false, true), false};
  t["RandomNormal"] = {drawn(true, false), false};
  t["RandomNormalLike"] = {drawn(true, true), false};
  t["Bernoulli"] = {bernoulli, false};
}

}  // namespace plimsoll::onnx
