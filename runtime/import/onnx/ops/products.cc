// SPDX-License-Identifier: Apache-2.0
// Products of matrices and tensors, and the determinant.
#include <fmt/format.h>
#include <algorithm>
#include <map>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/node_context.h"
#include "runtime/import/onnx/ops/quantization.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;
using ir::Opcode;

void gemm(NodeContext& n) {
  Array a = n.in(0), b = n.in(1);
  if (a.rank() != 2 || b.rank() != 2) return n.e.fail("takes matrices");
  const std::int64_t left = n.number("transA", 0) != 0 ? 0 : 1;
  const std::int64_t right = n.number("transB", 0) != 0 ? 1 : 0;
  Array made = left == 1 ? product_of_quantized(n, right == 1) : Array();
  if (made.is_null()) made = n.e.dot(a, b, {{left}, {right}, {}, {}});
  const double alpha = n.real("alpha", 1), beta = n.real("beta", 1);
  if (alpha != 1) made = made * alpha;
  if (n.has(2)) {
    const Array c = n.in(2);
    made = made + n.e.broadcast_to(beta == 1 ? c : c * beta, made.dims());
  }
  n.set(0, made);
}

// One operand of a contraction: a label for each dim.
struct Labelled {
  Array array;
  std::string labels;
};

// A label that comes twice stands for the diagonal.
Labelled diagonal(Emit& e, Labelled x) {
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    const std::size_t k = x.labels.find(x.labels[i], i + 1);
    if (k == std::string::npos) continue;
    const Sizes dims = x.array.dims();
    const Array here = e.iota(DType::s64, dims, static_cast<std::int64_t>(i)) ==
                       e.iota(DType::s64, dims, static_cast<std::int64_t>(k));
    x.array = e.sum(e.select(here, x.array, e.scalar(0, x.array.dtype())),
                    {static_cast<std::int64_t>(k)}, false);
    x.labels.erase(k, 1);
    return diagonal(e, std::move(x));
  }
  return x;
}

// Sums over what nobody needs any more.
Labelled sum_out(Emit& e, Labelled x, const std::string& needed) {
  Sizes axes;
  std::string left;
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    if (needed.find(x.labels[i]) == std::string::npos) {
      axes.push_back(static_cast<std::int64_t>(i));
    } else {
      left += x.labels[i];
    }
  }
  return {e.sum(x.array, axes, false), left};
}

// A dim of size 1 that the other operand has wider is of no use.
void drop_ones(Emit& e, Labelled& x, const Labelled& other) {
  for (std::size_t i = 0; i < x.labels.size();) {
    const std::size_t k = other.labels.find(x.labels[i]);
    const auto place = static_cast<std::int64_t>(i);
    if (k == std::string::npos || x.array.dim(place) != 1 ||
        other.array.dim(static_cast<std::int64_t>(k)) == 1) {
      ++i;
      continue;
    }
    x.array = e.squeeze(x.array, place);
    x.labels.erase(i, 1);
  }
}

Labelled contract(Emit& e, Labelled a, Labelled b, const std::string& needed) {
  drop_ones(e, a, b);
  drop_ones(e, b, a);
  a = sum_out(e, std::move(a), needed + b.labels);
  b = sum_out(e, std::move(b), needed + a.labels);
  ir::DotDimensions dims;
  std::string batch, left, right;
  for (std::size_t i = 0; i < a.labels.size(); ++i) {
    const char label = a.labels[i];
    const std::size_t k = b.labels.find(label);
    if (k == std::string::npos) {
      left += label;
      continue;
    }
    const bool stays = needed.find(label) != std::string::npos;
    (stays ? dims.lhs_batch : dims.lhs_contracting).push_back(static_cast<std::int64_t>(i));
    (stays ? dims.rhs_batch : dims.rhs_contracting).push_back(static_cast<std::int64_t>(k));
    if (stays) batch += label;
  }
  for (const char label : b.labels) {
    if (a.labels.find(label) == std::string::npos) right += label;
  }
  return {e.dot(a.array, b.array, dims), batch + left + right};
}

void einsum(NodeContext& n) {
  std::string equation;
  for (const char c : n.text("equation", "")) {
    if (c != ' ') equation += c;
  }
  const auto wrong = [&] { n.wrong("equation", "is '" + equation + "'"); };
  const std::size_t arrow = equation.find("->");
  std::vector<std::string> terms(1);
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  if (std::ssize(terms) != n.input_count()) return wrong();
  // An ellipsis stands for dims that are aligned from the last; '0' is the last of them.
  std::vector<Labelled> operands;
  std::string around;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    Labelled x{n.in(static_cast<int>(i)), terms[i]};
    if (const auto dots = x.labels.find("..."); dots != std::string::npos) {
      const std::int64_t count = x.array.rank() - (std::ssize(x.labels) - 3);
      if (count < 0) return wrong();
      std::string open;
      for (std::int64_t k = count; k-- > 0;) open += static_cast<char>('0' + k);
      x.labels.replace(dots, 3, open);
      if (open.size() > around.size()) around = open;
    }
    if (std::ssize(x.labels) != x.array.rank()) return wrong();
    operands.push_back(std::move(x));
  }
  std::string result;
  if (arrow != std::string::npos) {
    result = equation.substr(arrow + 2);
    if (const auto dots = result.find("..."); dots != std::string::npos) {
      result.replace(dots, 3, around);
    }
  } else {  // labels that come once, in their order
    std::map<char, int> counts;
    for (const Labelled& x : operands) {
      for (const char c : x.labels) ++counts[c];
    }
    result = around;
    for (const auto& [label, count] : counts) {
      if (count == 1 && around.find(label) == std::string::npos) result += label;
    }
  }
  for (Labelled& x : operands) x = diagonal(n.e, std::move(x));
  Labelled made = operands[0];
  for (std::size_t i = 1; i < operands.size(); ++i) {
    std::string needed = result;
    for (std::size_t k = i + 1; k < operands.size(); ++k) needed += operands[k].labels;
    made = contract(n.e, std::move(made), operands[i], needed);
  }
  made = sum_out(n.e, std::move(made), result);
  Sizes order;
  for (const char label : result) {
    const std::size_t place = made.labels.find(label);
    if (place == std::string::npos) return wrong();
    order.push_back(static_cast<std::int64_t>(place));
  }
  if (order.size() != made.labels.size()) return wrong();
  n.set(0, n.e.transpose(made.array, order));
}

// Gaussian elimination with the greatest element of each column as the pivot.
void determinant(NodeContext& n) {
  Array m = n.in(0);
  const std::int64_t size = m.dim(m.rank() - 1);
  constexpr std::int64_t kLargest = 64;
  if (m.rank() < 2 || m.dim(m.rank() - 2) != size) return n.e.fail("takes square matrices");
  if (size > kLargest) {
    return n.e.fail(unimplemented(fmt::format("matrices of {} rows (at most {})", size, kLargest)));
  }
  Sizes batch = m.dims();
  batch.resize(batch.size() - 2);
  const std::int64_t count = product(batch);
  m = n.e.reshape(m, {count, size, size});
  Array made = n.e.splat(1, m.dtype(), {count});
  for (std::int64_t left = size; left > 0 && !m.is_null(); --left) {
    const Array column = n.e.slice(m, 2, 0, 1);  // [count, left, 1]
    const Array greatest = n.e.reduce(Opcode::maximum, abs(column), {1}, true);
    const Array places = n.e.iota(DType::s64, {count, left, 1}, 1);
    const Array pivot =
        n.e.reduce(Opcode::minimum,
                   n.e.select(abs(column) == greatest, places, n.e.highest(DType::s64)), {1}, true);
    const Array is_pivot = n.e.broadcast_to(places == pivot, {count, left, left});
    const Array row = n.e.sum(n.e.select(is_pivot, m, n.e.scalar(0, m.dtype())), {1}, true);
    const Array head = n.e.slice(row, 2, 0, 1);
    made = made * n.e.reshape(head, {count});
    // The first row takes the pivot's place; where they differ the sign turns.
    const Array swaps = n.e.reshape(
        n.e.compare(ir::ComparisonDirection::ne, pivot, n.e.scalar(0, DType::s64)), {count});
    made = n.e.select(swaps, -made, made);
    const Array moved = n.e.select(is_pivot, n.e.slice(m, 1, 0, 1), m);
    if (left == 1) break;
    const Array below = n.e.slice(moved, 1, 1, left);
    const Array is_singular = head == 0;
    const Array factor =
        n.e.slice(below, 2, 0, 1) / n.e.select(is_singular, n.e.scalar(1, m.dtype()), head);
    m = n.e.slice(below - factor * row, 2, 1, left);
  }
  n.set(0, n.e.reshape(made, batch));
}

}  // namespace

void add_products(OpTable& t) {
  t["MatMul"] = {[](NodeContext& n) {
    const Array made = product_of_quantized(n);
    n.set(0, made.is_null() ? n.e.matmul(n.in(0), n.in(1)) : made);
  }};
  t["Gemm"] = {gemm};
  t["Einsum"] = {einsum};
  t["Det"] = {determinant};
}

}  // namespace plimsoll::onnx
