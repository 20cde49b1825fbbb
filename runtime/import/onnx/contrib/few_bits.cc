// SPDX-License-Identifier: Apache-2.0
// Products by weights of a few bits each, as files of language models have them.
#include <fmt/format.h>
#include <vector>

#include "runtime/import/onnx/ops/node_context.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;
using ir::Opcode;

// Numbers of a few bits each, the first in the lowest bits of a byte: another `count` along the
// last dim.
Array unpacked(Emit& e, const Array& bytes, std::int64_t bits, std::int64_t count) {
  if (bytes.dtype() != DType::u8 || bytes.rank() == 0) {
    e.fail("takes packed numbers as bytes");
    return {};
  }
  std::vector<Array> parts;
  const Array mask = e.scalar(static_cast<double>((1 << bits) - 1), DType::u8);
  for (std::int64_t low = 0; low < 8; low += bits) {
    const Array shift = e.scalar(static_cast<double>(low), DType::u8);
    parts.push_back(
        e.unsqueeze(e.binary(Opcode::shift_right_logical, bytes, shift) & mask, bytes.rank()));
  }
  Sizes dims = bytes.dims();
  dims.back() *= 8 / bits;
  if (dims.back() < count) {
    e.fail("has fewer packed numbers than it says");
    return {};
  }
  const Array all = e.reshape(e.concatenate(parts, bytes.rank()), dims);
  return e.slice(all, std::ssize(dims) - 1, 0, count);
}

// What MatMulNBits is given.
struct FewBits {
  std::int64_t bits, block, columns, blocks;
  Array packed;       // u8 [columns, blocks, bytes of a block]
  Array scale, zero;  // [columns, blocks, 1], or one zero for all

  std::int64_t in_a_byte() const { return 8 / bits; }
  std::int64_t depth() const { return blocks * block; }
};

// Number `part` of those in each byte, in floats of `dtype`.
Array weights(Emit& e, const FewBits& given, std::int64_t part, DType dtype) {
  const Array shift = e.scalar(static_cast<double>(part * given.bits), DType::u8);
  const Array mask = e.scalar(static_cast<double>((1 << given.bits) - 1), DType::u8);
  const Array low = e.binary(Opcode::shift_right_logical, given.packed, shift);
  const Array number = e.convert(low & mask, dtype);
  return (number - e.convert(given.zero, dtype)) * e.convert(given.scale, dtype);
}

// `a`, [rows, depth], as what meets each part of the bytes: [rows, blocks, bytes of a block] each.
std::vector<Array> parts_of(Emit& e, const Array& a, const FewBits& given) {
  const std::int64_t count = given.in_a_byte(), bytes = given.block / count;
  const Array all = e.reshape(a, {a.dim(0), given.blocks, bytes, count});
  std::vector<Array> parts;
  for (std::int64_t part = 0; part < count; ++part) {
    parts.push_back(e.squeeze(e.slice(all, 3, part, part + 1), 3));
  }
  return parts;
}

// The bytes become floats on the way to the sums, for all rows at once.
Array product_of_few_rows(Emit& e, const Array& a, const FewBits& given) {
  const std::vector<Array> parts = parts_of(e, e.convert(a, DType::f32), given);
  std::vector<Array> each;
  for (std::int64_t part = 0; part < given.in_a_byte(); ++part) {
    each.push_back(weights(e, given, part, DType::f32));
  }
  std::vector<Array> rows;
  for (std::int64_t row = 0; row < a.dim(0); ++row) {
    Array product;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const Array one = e.slice(parts[part], 0, row, row + 1) * each[part];
      product = product.is_null() ? one : product + one;
    }
    rows.push_back(e.unsqueeze(e.sum(product, {1, 2}, false), 0));
  }
  return e.convert(e.concatenate(rows, 0), a.dtype());
}

// The depth goes in the order in which the bytes lie: first what is lowest in each. They become
// floats a tile of columns at a time (passes::tile_narrow_products).
Array product_of_rows(Emit& e, const Array& a, const FewBits& given) {
  const std::int64_t count = given.in_a_byte(), part_depth = given.depth() / count;
  std::vector<Array> left, right;
  for (const Array& part : parts_of(e, a, given)) {
    const auto number = static_cast<std::int64_t>(right.size());
    left.push_back(e.reshape(part, {a.dim(0), part_depth}));
    right.push_back(e.reshape(weights(e, given, number, a.dtype()), {given.columns, part_depth}));
  }
  return e.dot(e.concatenate(left, 1), e.concatenate(right, 1), {{1}, {1}, {}, {}});
}

// A product by weights of a few bits, in blocks with a scale and a zero point of their own.
void product_of_few_bits(NodeContext& n) {
  Emit& e = n.e;
  const Array a = n.in(0);
  const std::int64_t depth = n.number("K", 0), columns = n.number("N", 0);
  const std::int64_t bits = n.number("bits", 4), block = n.number("block_size", 0);
  if (bits != 2 && bits != 4 && bits != 8) {
    return n.wrong("bits", fmt::format("is {} (must be 2, 4 or 8)", bits));
  }
  if (n.has(4)) return e.fail(unimplemented("groups of rows by an index (g_idx)"));
  if (depth < 1 || columns < 1 || block < 1 || block > (1 << 20) || depth > (1 << 30) ||
      columns > (1 << 30)) {
    return n.wrong("block_size", "or K or N is missing or too large");
  }
  if (block * bits % 8 != 0) {
    return n.wrong("block_size", fmt::format("is {}, of {} bits each: no bytes", block, bits));
  }
  if (a.rank() < 1 || a.dim(a.rank() - 1) != depth) return e.fail("the rows have not K elements");
  const std::int64_t blocks = (depth + block - 1) / block;
  FewBits given{bits, block, columns, blocks, {}, {}, {}};
  if (n.in(1).dtype() != DType::u8) return e.fail("takes packed numbers as bytes");
  given.packed = e.reshape(n.in(1), {columns, blocks, block * bits / 8});
  given.scale = e.reshape(n.in(2), {columns, blocks, 1});
  if (!n.has(3)) {
    given.zero = e.scalar(static_cast<double>(1 << (bits - 1)), DType::f32);
  } else if (n.in(3).dtype() == DType::u8) {
    const Array rows = e.reshape(n.in(3), {columns, (blocks * bits + 7) / 8});
    given.zero = e.unsqueeze(unpacked(e, rows, bits, blocks), 2);
  } else {
    given.zero = e.reshape(n.in(3), {columns, blocks, 1});
  }
  if (!e.status().ok()) return;
  Sizes dims = a.dims();
  const std::int64_t rows = a.element_count() / depth;
  Array left = e.reshape(a, {rows, depth});
  if (given.depth() > depth) {
    left = e.pad(left, e.scalar(0, a.dtype()), {{0, 0, 0}, {0, given.depth() - depth, 0}});
  }
  constexpr std::int64_t kFewRows = 4;
  const Array product =
      rows <= kFewRows ? product_of_few_rows(e, left, given) : product_of_rows(e, left, given);
  dims.back() = columns;
  const Array made = e.reshape(product, dims);
  n.set(0, n.has(5) ? made + n.in(5) : made);
}

}  // namespace

void add_few_bits(OpTable& t) { t["com.microsoft:MatMulNBits"] = {product_of_few_bits}; }

}  // namespace plimsoll::onnx
