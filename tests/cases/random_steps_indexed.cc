// SPDX-License-Identifier: Apache-2.0
// Gathers, scatters and sorts of every form.
#include <algorithm>
#include <string>

#include "tests/cases/written_step.h"

namespace plimsoll::cases {
namespace {

using ir::DType;
using ir::Instruction;
using ir::Opcode;

DType index_dtype(Random& random) {
  const DType dtypes[] = {DType::s32, DType::s32, DType::s64, DType::u32, DType::s16};
  return dtypes[random.below(5)];
}

// Extents of what is read or written, and of the places in it.
struct Sizes {
  explicit Sizes(Builder& b)
      : batch(b.random.between(1, 4)),
        rows(b.random.between(3, 24)),
        columns(b.random.between(1, 40)),
        count(b.random.between(1, 20)),
        dtype(index_dtype(b.random)) {}
  std::int64_t batch, rows, columns, count;
  DType dtype;
  Letters letters() const {
    return {{'B', text_of(batch)}, {'R', text_of(rows)},  {'C', text_of(columns)},
            {'N', text_of(count)}, {'I', text_of(dtype)}, {'H', text_of((columns + 1) / 2)}};
  }
};

struct Form {
  const char* text;
  ir::Dims (*operand)(const Sizes&);
  ir::Dims (*indices)(const Sizes&);
  ir::Dims (*updates)(const Sizes&);  // of a scatter
};

const Form kGathers[] = {
    {"ENTRY e { x = f32[$B,$R,$C] parameter(0)\n k = $I[$B,$N] parameter(1)\n"
     " ROOT r = f32[$B,$N,$C] gather(x, k), offset_dims={2}, collapsed_slice_dims={1}, "
     "start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
     "index_vector_dim=2, slice_sizes={1,1,$C} }",
     [](const Sizes& s) { return ir::Dims{s.batch, s.rows, s.columns}; },
     [](const Sizes& s) { return ir::Dims{s.batch, s.count}; }, nullptr},
    {"ENTRY e { x = f32[$R,$C] parameter(0)\n k = $I[$N,2] parameter(1)\n"
     " ROOT r = f32[$N,2,$H] gather(x, k), offset_dims={1,2}, collapsed_slice_dims={}, "
     "start_index_map={1,0}, index_vector_dim=1, slice_sizes={2,$H} }",
     [](const Sizes& s) { return ir::Dims{s.rows, s.columns}; },
     [](const Sizes& s) { return ir::Dims{s.count, 2}; }, nullptr},
    {"ENTRY e { x = f32[$R,$C] parameter(0)\n k = $I[2,$B,$N] parameter(1)\n"
     " ROOT r = f32[$B,$N] gather(x, k), offset_dims={}, collapsed_slice_dims={0,1}, "
     "start_index_map={0,1}, index_vector_dim=0, slice_sizes={1,1} }",
     [](const Sizes& s) { return ir::Dims{s.rows, s.columns}; },
     [](const Sizes& s) { return ir::Dims{2, s.batch, s.count}; }, nullptr},
    {"ENTRY e { x = f32[$C,$R] parameter(0)\n k = $I[$N] parameter(1)\n"
     " ROOT r = f32[$C,$N] gather(x, k), offset_dims={0}, collapsed_slice_dims={1}, "
     "start_index_map={1}, index_vector_dim=1, slice_sizes={$C,1} }",
     [](const Sizes& s) { return ir::Dims{s.columns, s.rows}; },
     [](const Sizes& s) { return ir::Dims{s.count}; }, nullptr},
    // Batching in another order than that of the operand.
    {"ENTRY e { x = f32[$R,$B,$C] parameter(0)\n k = $I[$N,$B,1] parameter(1)\n"
     " ROOT r = f32[$N,$B,$C] gather(x, k), offset_dims={2}, collapsed_slice_dims={0}, "
     "start_index_map={0}, operand_batching_dims={1}, start_indices_batching_dims={1}, "
     "index_vector_dim=2, slice_sizes={1,1,$C}, indices_are_sorted=false }",
     [](const Sizes& s) { return ir::Dims{s.rows, s.batch, s.columns}; },
     [](const Sizes& s) { return ir::Dims{s.count, s.batch, 1}; }, nullptr},
};

const Form kScatters[] = {
    {"x = f32[$B,$R,$C] parameter(0)\n k = $I[$B,$N] parameter(1)\n"
     " u = f32[$B,$N,$C] parameter(2)\n ROOT r = f32[$B,$R,$C] scatter(x, k, u), "
     "update_window_dims={2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
     "input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=f }",
     [](const Sizes& s) { return ir::Dims{s.batch, s.rows, s.columns}; },
     [](const Sizes& s) { return ir::Dims{s.batch, s.count}; },
     [](const Sizes& s) { return ir::Dims{s.batch, s.count, s.columns}; }},
    {"x = f32[$R,$C] parameter(0)\n k = $I[$N,2] parameter(1)\n u = f32[$N,2,$H] parameter(2)\n"
     " ROOT r = f32[$R,$C] scatter(x, k, u), update_window_dims={1,2}, inserted_window_dims={}, "
     "scatter_dims_to_operand_dims={1,0}, index_vector_dim=1, to_apply=f }",
     [](const Sizes& s) { return ir::Dims{s.rows, s.columns}; },
     [](const Sizes& s) { return ir::Dims{s.count, 2}; },
     [](const Sizes& s) { return ir::Dims{s.count, 2, (s.columns + 1) / 2}; }},
    {"x = f32[$R,$C] parameter(0)\n k = $I[2,$B,$N] parameter(1)\n u = f32[$B,$N] parameter(2)\n"
     " ROOT r = f32[$R,$C] scatter(x, k, u), update_window_dims={}, inserted_window_dims={0,1}, "
     "scatter_dims_to_operand_dims={0,1}, index_vector_dim=0, to_apply=f }",
     [](const Sizes& s) { return ir::Dims{s.rows, s.columns}; },
     [](const Sizes& s) { return ir::Dims{2, s.batch, s.count}; },
     [](const Sizes& s) { return ir::Dims{s.batch, s.count}; }},
    {"x = f32[$C,$R] parameter(0)\n k = $I[$N] parameter(1)\n u = f32[$C,$N] parameter(2)\n"
     " ROOT r = f32[$C,$R] scatter(x, k, u), update_window_dims={0}, inserted_window_dims={1}, "
     "scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=f }",
     [](const Sizes& s) { return ir::Dims{s.columns, s.rows}; },
     [](const Sizes& s) { return ir::Dims{s.count}; },
     [](const Sizes& s) { return ir::Dims{s.columns, s.count}; }},
};

void gathered_anyhow(Builder& b) {
  const Form& form = kGathers[b.random.below(std::size(kGathers))];
  const Sizes sizes(b);
  const Value x = b.graph.fitted(b.any(), form.operand(sizes));
  const std::int64_t limit = std::max(sizes.rows, sizes.columns);
  Instruction* k = places(b, form.indices(sizes), limit, sizes.dtype);
  b.push({written(b, filled(form.text, sizes.letters()), {x.at, k}), x.bound, x.exact});
}

void scattered_anyhow(Builder& b) {
  const Form& form = kScatters[b.random.below(std::size(kScatters))];
  const Sizes sizes(b);
  const char* kinds[] = {"add(p, q)", "maximum(p, q)", "minimum(p, q)", "multiply(p, q)",
                         "copy(q)"};
  const std::size_t kind = b.random.below(5);
  const Value x = b.graph.fitted(b.any(), form.operand(sizes));
  Value u = b.graph.fitted(b.any(), form.updates(sizes));
  if (kind == 3) u = b.graph.unary(Opcode::tanh, u, 1);
  Instruction* k = places(b, form.indices(sizes), std::max(sizes.rows, sizes.columns), sizes.dtype);
  const std::string head = "f { p = f32[] parameter(0)\n q = f32[] parameter(1)\n ROOT s = f32[] " +
                           std::string(kinds[kind]) + " }\nENTRY e { ";
  const bool rounds = kind == 0 || kind == 3;
  const double count = static_cast<double>(u.at->shape().element_count());
  const double bound = kind == 0   ? x.bound + u.bound * count
                       : kind == 3 ? x.bound
                                   : std::max(x.bound, u.bound);
  b.push({written(b, filled(head + form.text, sizes.letters()), {x.at, k, u.at}), bound,
          !rounds && x.exact && u.exact});
}

// Two arrays at once, of floats and of integers.
void scattered_in_pairs(Builder& b) {
  const Sizes sizes(b);
  const Value x = b.graph.fitted(b.any_exact(), {sizes.rows, sizes.columns});
  const Value u = b.graph.fitted(b.any_exact(), {sizes.count, sizes.columns});
  Instruction* k = places(b, {sizes.count}, sizes.rows, sizes.dtype);
  Instruction* y = places(b, x.dims(), 50, DType::s32);
  Instruction* v = places(b, u.dims(), 50, DType::s32);
  const std::string text =
      "both { a = f32[] parameter(0)\n b = s32[] parameter(1)\n c = f32[] parameter(2)\n"
      " d = s32[] parameter(3)\n m = f32[] maximum(a, c)\n s = s32[] add(b, d)\n"
      " ROOT t = (f32[], s32[]) tuple(m, s) }\n"
      "ENTRY e { x = f32[$R,$C] parameter(0)\n y = s32[$R,$C] parameter(1)\n"
      " k = $I[$N] parameter(2)\n u = f32[$N,$C] parameter(3)\n v = s32[$N,$C] parameter(4)\n"
      " ROOT r = (f32[$R,$C], s32[$R,$C]) scatter(x, y, k, u, v), update_window_dims={1}, "
      "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
      "to_apply=both }";
  const auto parts = written_parts(b, filled(text, sizes.letters()), {x.at, y, k, u.at, v});
  b.push({parts[0], std::max(x.bound, u.bound), true});
  const double most = 75.0 * static_cast<double>(1 + sizes.count);
  b.push({b.graph.scaled({b.graph.convert(parts[1], DType::f32), most, true}, 1 / most)});
}

// By a whole number with many ties, then by a float; the others come along.
void sorted_by_keys(Builder& b) {
  const Sizes sizes(b);
  const Value x = b.graph.fitted(b.any_exact(), {sizes.batch, sizes.rows, sizes.columns});
  const Value y = b.graph.fitted(b.any(), x.dims());
  Instruction* key = places(b, x.dims(), 4, b.random.chance(0.5) ? DType::s32 : DType::u8);
  Instruction* small = b.graph.convert(x.at, b.random.chance(0.5) ? DType::bf16 : DType::pred);
  Letters letters = sizes.letters();
  letters.emplace_back('K', text_of(key->shape().dtype()));
  letters.emplace_back('S', text_of(small->shape().dtype()));
  letters.emplace_back('D', text_of(static_cast<std::int64_t>(b.random.below(3))));
  letters.emplace_back('L', b.random.chance(0.5) ? "LT" : "GT");
  const std::string text =
      "order { a = $K[] parameter(0)\n b = $K[] parameter(1)\n c = f32[] parameter(2)\n"
      " d = f32[] parameter(3)\n p = f32[] parameter(4)\n q = f32[] parameter(5)\n"
      " s = $S[] parameter(6)\n t = $S[] parameter(7)\n l = pred[] compare(a, b), direction=LT\n"
      " e = pred[] compare(a, b), direction=EQ\n m = pred[] compare(c, d), direction=$L\n"
      " n = pred[] and(e, m)\n ROOT o = pred[] or(l, n) }\n"
      "ENTRY e { k = $K[$B,$R,$C] parameter(0)\n x = f32[$B,$R,$C] parameter(1)\n"
      " y = f32[$B,$R,$C] parameter(2)\n s = $S[$B,$R,$C] parameter(3)\n"
      " ROOT r = ($K[$B,$R,$C], f32[$B,$R,$C], f32[$B,$R,$C], $S[$B,$R,$C]) sort(k, x, y, s), "
      "dimensions={$D}, is_stable=true, to_apply=order }";
  const auto parts = written_parts(b, filled(text, letters), {key, x.at, y.at, small});
  b.push(b.graph.scaled({b.graph.convert(parts[0], DType::f32), 8, true}, 0.25));
  b.push({parts[1], x.bound, true});
  b.push({parts[2], y.bound, y.exact});
  b.push({b.graph.convert(parts[3], DType::f32), std::max(x.bound, 1.0), true});
}

// In the order of the bits, from the largest; what is not a key comes along.
void sorted_totally(Builder& b) {
  const Value x = b.graph.fitted(b.any_exact(), b.any_shape());
  const Value y = b.graph.fitted(b.any(), x.dims());
  const std::string text =
      "order { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = f32[] parameter(2)\n"
      " d = f32[] parameter(3)\n ROOT o = pred[] compare(a, b), direction=GT, type=TOTALORDER }\n"
      "ENTRY e { x = f32[$R,$C] parameter(0)\n y = f32[$R,$C] parameter(1)\n"
      " ROOT r = (f32[$R,$C], f32[$R,$C]) sort(x, y), dimensions={$D}, is_stable=true, "
      "to_apply=order }";
  const auto parts =
      written_parts(b,
                    filled(text, {{'R', text_of(x.dims()[0])},
                                  {'C', text_of(x.dims()[1])},
                                  {'D', text_of(static_cast<std::int64_t>(b.random.below(2)))}}),
                    {x.at, y.at});
  b.push({parts[0], x.bound, true});
  b.push({parts[1], y.bound, y.exact});
}

void largest(Builder& b) {
  const Value x = b.graph.fitted(b.any_exact(), b.any_shape());
  const std::int64_t columns = x.dims()[1],
                     count = b.random.between(1, std::min<std::int64_t>(columns, 9));
  const auto parts =
      written_parts(b,
                    filled("ENTRY e { x = f32[$R,$C] parameter(0)\n"
                           " ROOT t = (f32[$R,$N], s32[$R,$N]) topk(x), k=$N, largest=$L }",
                           {{'R', text_of(x.dims()[0])},
                            {'C', text_of(columns)},
                            {'N', text_of(count)},
                            {'L', b.random.chance(0.7) ? "true" : "false"}}),
                    {x.at});
  b.push({parts[0], x.bound, true});
  const Value at{b.graph.convert(parts[1], DType::f32), static_cast<double>(columns), true};
  b.push(b.graph.scaled(at, 1.0 / static_cast<double>(columns)));
}

// Slices whose starts follow from the data, in several dims, with an index dtype of any width.
void sliced_anywhere(Builder& b) {
  const Sizes sizes(b);
  const Value x = b.graph.fitted(b.any(), {sizes.batch, sizes.rows, sizes.columns});
  const Value u = b.graph.fitted(b.any(), {1, (sizes.rows + 1) / 2, (sizes.columns + 1) / 2});
  std::vector<Instruction*> starts;
  for (const std::int64_t extent : x.dims()) starts.push_back(places(b, {}, extent, sizes.dtype));
  Letters letters = sizes.letters();
  letters.emplace_back('M', text_of((sizes.rows + 1) / 2));
  if (b.random.chance(0.5)) {
    b.push({written(b,
                    filled("ENTRY e { x = f32[$B,$R,$C] parameter(0)\n i = $I[] parameter(1)\n"
                           " j = $I[] parameter(2)\n k = $I[] parameter(3)\n ROOT r = f32[1,$M,$H] "
                           "dynamic-slice(x, i, j, k), dynamic_slice_sizes={1,$M,$H} }",
                           letters),
                    {x.at, starts[0], starts[1], starts[2]}),
            x.bound, x.exact});
    return;
  }
  b.push({written(b,
                  filled("ENTRY e { x = f32[$B,$R,$C] parameter(0)\n u = f32[1,$M,$H] "
                         "parameter(1)\n i = $I[] parameter(2)\n j = $I[] parameter(3)\n"
                         " k = $I[] parameter(4)\n ROOT r = f32[$B,$R,$C] "
                         "dynamic-update-slice(x, u, i, j, k) }",
                         letters),
                  {x.at, u.at, starts[0], starts[1], starts[2]}),
          std::max(x.bound, u.bound), x.exact && u.exact});
}

// Products by parts of one array of parameters, some of them read twice, the other time turned,
// some where an index says.
void stacked_weights(Builder& b) {
  const std::int64_t layers = b.random.between(2, 4), width = 16 * b.random.between(2, 3);
  const Value weights = b.parameter({layers, width, width});
  Value x = b.graph.fitted(b.any(), {b.random.between(1, 9), width});
  for (std::int64_t i = 0; i < layers; ++i) {
    Value part;
    if (b.random.chance(0.3)) {
      Instruction* const zero = b.graph.scalar(std::int32_t{0});
      ir::Attributes attributes;
      attributes.slice_sizes = {1, width, width};
      part = {b.graph.op(Opcode::dynamic_slice,
                         {weights.at, places(b, {}, layers, DType::s32), zero, zero},
                         std::move(attributes)),
              weights.bound, true};
    } else {
      const std::int64_t at = b.random.between(0, layers - 1);
      part = b.graph.sliced(weights, {at, 0, 0}, {at + 1, width, width}, {1, 1, 1});
    }
    part = b.graph.reshaped(part, {width, width});
    x = b.graph.unary(Opcode::tanh, b.graph.dot(x, part), 1);
    if (b.random.chance(0.5)) x = b.graph.dot(x, b.graph.transposed(part, {1, 0}));
    if (b.random.chance(0.2)) b.push(part);
  }
  b.push(x);
}

}  // namespace

std::vector<Step> indexed_steps() {
  return {gathered_anyhow, scattered_anyhow, scattered_in_pairs, sorted_by_keys,
          sorted_totally,  largest,          sliced_anywhere,    stacked_weights};
}

}  // namespace plimsoll::cases
