// SPDX-License-Identifier: Apache-2.0
// Windows, reductions and contractions of every form.
#include <algorithm>
#include <cmath>
#include <string>

#include "tests/cases/written_step.h"

namespace plimsoll::cases {
namespace {

using ir::DType;
using ir::Instruction;
using ir::Opcode;

const std::string kReducers =
    "add { p = f32[] parameter(0)\n q = f32[] parameter(1)\n ROOT s = f32[] add(p, q) }\n"
    "maximum { p = f32[] parameter(0)\n q = f32[] parameter(1)\n ROOT s = f32[] maximum(p, q) }\n"
    "minimum { p = f32[] parameter(0)\n q = f32[] parameter(1)\n ROOT s = f32[] minimum(p, q) }\n"
    "ge { p = f32[] parameter(0)\n q = f32[] parameter(1)\n"
    " ROOT s = pred[] compare(p, q), direction=GE }\n"
    "argmax { xv = f32[] parameter(0)\n xi = s32[] parameter(1)\n yv = f32[] parameter(2)\n"
    " yi = s32[] parameter(3)\n gt = pred[] compare(xv, yv), direction=GT\n"
    " eq = pred[] compare(xv, yv), direction=EQ\n lt = pred[] compare(xi, yi), direction=LT\n"
    " tie = pred[] and(eq, lt)\n keep = pred[] or(gt, tie)\n v = f32[] select(keep, xv, yv)\n"
    " i = s32[] select(keep, xi, yi)\n ROOT t = (f32[], s32[]) tuple(v, i) }\n";

// One window each over [B, R, C]: its text, the extents that come of it, the elements that it has.
struct Windows {
  std::string text;
  ir::Dims dims;
  double elements = 1;
};

Windows any_windows(Builder& b, const ir::Dims& from) {
  Windows made;
  std::string sizes, strides, pads, bases, dilations;
  for (int d = 0; d < from.size(); ++d) {
    const bool plain = d == 0 || b.random.chance(0.3);
    // What runs over all there was before is a sum so far.
    const bool prefix = !plain && b.random.chance(0.15);
    const std::int64_t size = plain ? 1 : prefix ? from[d] : b.random.between(1, 4);
    const std::int64_t stride = prefix ? 1 : b.random.between(1, plain ? 1 : 3);
    const std::int64_t base = plain || prefix || b.random.chance(0.7) ? 1 : 2;
    const std::int64_t dilation = plain || prefix || b.random.chance(0.7) ? 1 : 2;
    const std::int64_t reach = (size - 1) * dilation + 1;
    const std::int64_t low = prefix ? size - 1 : plain ? 0 : b.random.between(0, reach - 1);
    std::int64_t high = prefix || plain ? 0 : b.random.between(0, reach - 1);
    const std::int64_t extent = (from[d] - 1) * base + 1;
    high = std::max(high, reach - extent - low);
    made.dims.push_back((extent + low + high - reach) / stride + 1);
    made.elements *= static_cast<double>(size);
    const std::string mark = d == 0 ? "" : "x";
    sizes += mark + text_of(size);
    strides += mark + text_of(stride);
    pads += mark + text_of(low) + "_" + text_of(high);
    bases += mark + text_of(base);
    dilations += mark + text_of(dilation);
  }
  made.text = "size=" + sizes + " stride=" + strides + " pad=" + pads + " lhs_dilate=" + bases +
              " rhs_dilate=" + dilations;
  return made;
}

// [4, up to 17, up to 24], no larger than what else there is.
ir::Dims small_block(Builder& b) {
  return {b.random.between(1, 4), b.random.between(4, 17), b.random.between(3, 24)};
}

void windowed(Builder& b) {
  const Value x = b.graph.fitted(b.any(), small_block(b));
  const Windows windows = any_windows(b, x.dims());
  const char* kinds[] = {"add", "maximum", "minimum"};
  const std::size_t kind = b.random.below(3);
  // Where nothing but padding is under a window, its value is the initial one.
  const char* initials[] = {"0", "-1.5", "1.5"};
  const Value made{
      written(b,
              kReducers + filled("ENTRY e { x = $X parameter(0)\n z = f32[] constant($I)\n"
                                 " ROOT r = $Y reduce-window(x, z), window={$W}, to_apply=$F }",
                                 {{'X', "f32" + text_of(x.dims())},
                                  {'Y', "f32" + text_of(windows.dims)},
                                  {'I', initials[kind]},
                                  {'W', windows.text},
                                  {'F', kinds[kind]}}),
              {x.at}),
      kind == 0 ? x.bound * windows.elements : std::max(x.bound, 1.5), x.exact && kind != 0};
  b.push(kind == 0 ? b.graph.scaled(made, 1 / windows.elements) : made);
}

// The gradient of pooling, whose windows may overlap.
void scattered_by_windows(Builder& b) {
  const Value x = b.graph.fitted(b.any_exact(), small_block(b));
  const std::int64_t size = b.random.between(1, 3), stride = b.random.between(1, 3);
  const std::int64_t pad = b.random.between(0, size - 1);
  ir::Dims dims = x.dims();
  dims[1] = (dims[1] + 2 * pad - size) / stride + 1;
  dims[2] = (dims[2] - 2) / 2 + 1;
  const Value u = b.graph.fitted(b.any(), dims);
  Instruction* made = written(
      b,
      kReducers + filled("ENTRY e { x = $X parameter(0)\n u = $Y parameter(1)\n"
                         " z = f32[] constant(0)\n ROOT r = $X select-and-scatter(x, u, z), "
                         "window={size=1x$Nx2 stride=1x$Sx2 pad=0_0x$P_$Px0_0}, select=ge, "
                         "scatter=add }",
                         {{'X', "f32" + text_of(x.dims())},
                          {'Y', "f32" + text_of(dims)},
                          {'N', text_of(size)},
                          {'S', text_of(stride)},
                          {'P', text_of(pad)}}),
      {x.at, u.at});
  b.push({made, u.bound * static_cast<double>(size * size), false});
}

// The largest and where it stands, over windows or dimensions.
void placed_maxima(Builder& b) {
  const Value x = b.graph.fitted(b.any_exact(), small_block(b));
  ir::Attributes along;
  along.dimensions = {static_cast<std::int64_t>(b.random.between(0, 2))};
  const double extent = static_cast<double>(x.dims()[static_cast<int>(along.dimensions[0])]);
  Instruction* numbers =
      b.graph.given(Opcode::iota, ir::Shape(DType::s32, x.dims()), {}, std::move(along));
  const std::string head =
      kReducers + filled(
                      "ENTRY e { x = f32$X parameter(0)\n i = s32$X parameter(1)\n"
                      " z = f32[] constant(-inf)\n n = s32[] constant(9999)\n",
                      {{'X', text_of(x.dims())}});
  std::vector<Instruction*> parts;
  if (b.random.chance(0.5)) {
    // Every window holds an element.
    const ir::Dims dims{x.dims()[0], x.dims()[1] - 2, (x.dims()[2] - 1) / 2 + 1};
    const std::string type = text_of(dims);
    parts = written_parts(b,
                          head + "ROOT r = (f32" + type + ", s32" + type +
                              ") reduce-window(x, i, z, n), window={size=1x3x1 stride=1x1x2}, "
                              "to_apply=argmax }",
                          {x.at, numbers});
  } else {
    const bool two = b.random.chance(0.5);
    const ir::Dims dims = two ? ir::Dims{x.dims()[1]} : ir::Dims{x.dims()[0], x.dims()[2]};
    const std::string type = text_of(dims);
    parts = written_parts(b,
                          head + "ROOT r = (f32" + type + ", s32" + type +
                              ") reduce(x, i, z, n), dimensions={" + (two ? "0,2" : "1") +
                              "}, to_apply=argmax }",
                          {x.at, numbers});
  }
  b.push({parts[0], x.bound, true});
  b.push(b.graph.scaled({b.graph.convert(parts[1], DType::f32), extent, true}, 1 / extent));
}

// Of other dtypes, and by other operations than sums and maxima.
void reduced_anyhow(Builder& b) {
  const Value x = b.graph.fitted(b.any_exact(), small_block(b));
  const char* dims[] = {"{0}", "{1}", "{2}", "{0,1}", "{0,2}", "{1,2}", "{0,1,2}"};
  const ir::Dims kept[] = {{x.dims()[1], x.dims()[2]},
                           {x.dims()[0], x.dims()[2]},
                           {x.dims()[0], x.dims()[1]},
                           {x.dims()[2]},
                           {x.dims()[1]},
                           {x.dims()[0]},
                           {}};
  const std::size_t over = b.random.below(7);
  struct Kind {
    const char *dtype, *opcode, *initial;
    bool whole;  // integers in [-75, 75]
  };
  const Kind kinds[] = {{"pred", "and", "true", false}, {"pred", "or", "false", false},
                        {"s32", "xor", "0", true},      {"s32", "add", "7", true},
                        {"u8", "maximum", "0", true},   {"s64", "minimum", "99", true},
                        {"s8", "multiply", "1", true},  {"bf16", "maximum", "-1", false},
                        {"f16", "minimum", "1", false}, {"f64", "maximum", "-0.5", false}};
  const Kind& kind = kinds[b.random.below(std::size(kinds))];
  const DType dtype = *ir::parse_dtype(kind.dtype);
  Instruction* from =
      kind.whole ? places(b, x.dims(), 50, dtype)
      : dtype == DType::pred
          ? b.graph.compare(x.at, b.graph.constant(0.3, x.dims()).at, ir::ComparisonDirection::lt)
          : b.graph.convert(x.at, dtype);
  Instruction* made = written(
      b,
      filled("f { p = $T[] parameter(0)\n q = $T[] parameter(1)\n ROOT s = $T[] $F(p, q) }\n"
             "ENTRY e { x = $X parameter(0)\n z = $T[] constant($I)\n"
             " ROOT r = $Y reduce(x, z), dimensions=$D, to_apply=f }",
             {{'T', kind.dtype},
              {'F', kind.opcode},
              {'I', kind.initial},
              {'X', from->shape().to_string()},
              {'Y', ir::Shape(dtype, kept[over]).to_string()},
              {'D', dims[over]}}),
      {from});
  if (!kind.whole) return b.push({b.graph.convert(made, DType::f32), std::max(x.bound, 1.0), true});
  // The lowest bits: sums and products may have wrapped.
  Instruction* low = b.graph.op(
      Opcode::and_,
      {made, b.graph.spread(b.graph.convert(b.graph.scalar(std::int32_t{63}), dtype), kept[over])});
  b.push(b.graph.scaled({b.graph.convert(low, DType::f32), 64, true}, 1.0 / 64));
}

// Dots with batches, with several contracted dims and in any order of dims.
void multiplied_anyhow(Builder& b) {
  struct Form {
    const char* text;
    ir::Dims (*lhs)(const std::int64_t*);
    ir::Dims (*rhs)(const std::int64_t*);
    double (*terms)(const std::int64_t*);
  };
  using Extents = const std::int64_t*;  // B M N K L
  static const Form kForms[] = {
      {"f32[$B,$M,$N] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, "
       "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
       [](Extents e) { return ir::Dims{e[0], e[1], e[3]}; },
       [](Extents e) { return ir::Dims{e[0], e[3], e[2]}; },
       [](Extents e) { return static_cast<double>(e[3]); }},
      {"f32[$B,$N,$M] dot(x, y), lhs_batch_dims={2}, rhs_batch_dims={1}, "
       "lhs_contracting_dims={0}, rhs_contracting_dims={2}",
       [](Extents e) { return ir::Dims{e[3], e[2], e[0]}; },
       [](Extents e) { return ir::Dims{e[1], e[0], e[3]}; },
       [](Extents e) { return static_cast<double>(e[3]); }},
      {"f32[$M,$N] dot(x, y), lhs_contracting_dims={0,2}, rhs_contracting_dims={2,0}",
       [](Extents e) { return ir::Dims{e[3], e[1], e[4]}; },
       [](Extents e) { return ir::Dims{e[4], e[2], e[3]}; },
       [](Extents e) { return static_cast<double>(e[3] * e[4]); }},
      {"f32[$M] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
       [](Extents e) { return ir::Dims{e[1], e[3]}; }, [](Extents e) { return ir::Dims{e[3]}; },
       [](Extents e) { return static_cast<double>(e[3]); }},
      {"f32[] dot(x, y), lhs_contracting_dims={0,1}, rhs_contracting_dims={1,0}",
       [](Extents e) { return ir::Dims{e[1], e[3]}; },
       [](Extents e) { return ir::Dims{e[3], e[1]}; },
       [](Extents e) { return static_cast<double>(e[1] * e[3]); }},
      {"f32[$M,$N] dot(x, y), lhs_contracting_dims={}, rhs_contracting_dims={}",
       [](Extents e) { return ir::Dims{e[1]}; }, [](Extents e) { return ir::Dims{e[2]}; },
       [](Extents) { return 1.0; }},
      {"f32[$B,$L,$M,$N] dot(x, y), lhs_batch_dims={0,1}, rhs_batch_dims={1,0}, "
       "lhs_contracting_dims={3}, rhs_contracting_dims={3}",
       [](Extents e) { return ir::Dims{e[0], e[4], e[1], e[3]}; },
       [](Extents e) { return ir::Dims{e[4], e[0], e[2], e[3]}; },
       [](Extents e) { return static_cast<double>(e[3]); }},
  };
  const Form& form = kForms[b.random.below(std::size(kForms))];
  const std::int64_t e[] = {b.random.between(1, 4), b.random.between(1, 20),
                            b.random.between(1, 20), b.random.between(1, 24),
                            b.random.between(1, 4)};
  const bool narrow = b.random.chance(0.3);  // of what is exact in bf16, added in f32
  Value x = b.graph.fitted(narrow ? b.any_exact() : b.any(), form.lhs(e));
  Value y = b.graph.fitted(narrow ? b.any_exact() : b.any(), form.rhs(e));
  if (narrow) {
    x.at = b.graph.convert(x.at, DType::bf16);
    y.at = b.graph.convert(y.at, DType::bf16);
  }
  const std::string text = filled(
      "ENTRY e { x = " + x.at->shape().to_string() + " parameter(0)\n y = " +
          y.at->shape().to_string() + " parameter(1)\n ROOT r = " + form.text + " }",
      {{'B', text_of(e[0])}, {'M', text_of(e[1])}, {'N', text_of(e[2])}, {'L', text_of(e[4])}});
  const double terms = form.terms(e);
  const Value sum{written(b, text, {x.at, y.at}), x.bound * y.bound * terms, false};
  b.push(b.graph.scaled(sum, 1 / (2 * std::sqrt(terms))));
}

// Integers, whose sums have the same bits in any order.
void multiplied_whole(Builder& b) {
  const std::int64_t m = b.random.between(1, 20), n = b.random.between(1, 20),
                     k = b.random.between(1, 40);
  const DType dtype = b.random.chance(0.5) ? DType::s8 : DType::u8;
  Instruction* x = places(b, {m, k}, 9, dtype);
  Instruction* y = places(b, {k, n}, 9, dtype);
  Instruction* sum = written(b,
                             filled("ENTRY e { x = $X parameter(0)\n y = $Y parameter(1)\n"
                                    " ROOT r = s32[$M,$N] dot(x, y), lhs_contracting_dims={1}, "
                                    "rhs_contracting_dims={0} }",
                                    {{'X', x->shape().to_string()},
                                     {'Y', y->shape().to_string()},
                                     {'M', text_of(m)},
                                     {'N', text_of(n)}}),
                             {x, y});
  const double bound = 200.0 * static_cast<double>(k);
  b.push(b.graph.scaled({b.graph.convert(sum, DType::f32), bound, true}, 2 / bound));
}

// Groups of features, dilations, windows turned around, one and three spatial dims, other orders
// of dims.
void convolved_anyhow(Builder& b) {
  struct Form {
    const char *text, *result;
    ir::Dims input, kernel;
    double terms;
  };
  static const Form kForms[] = {
      {"window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01, feature_group_count=4",
       "f32[2,8,6,7]",
       {2, 4, 6, 7},
       {8, 1, 3, 3},
       9},
      {"window={size=3 stride=2 pad=1_0}, dim_labels=b0f_0io->b0f",
       "f32[3,8,5]",
       {3, 17, 4},
       {3, 4, 5},
       12},
      {"window={size=3x2 pad=2_2x1_1 lhs_dilate=2x2 rhs_dilate=1x2}, dim_labels=b01f_01io->b01f",
       "f32[2,11,9,3]",
       {2, 5, 5, 4},
       {3, 2, 4, 3},
       24},
      {"window={size=2x3 rhs_reversal=1x1}, dim_labels=f01b_i01o->01bf",
       "f32[5,4,3,5]",
       {2, 6, 6, 3},
       {2, 2, 3, 5},
       12},
      {"window={size=2x2x2 stride=1x2x1}, dim_labels=b012f_012io->b012f",
       "f32[1,3,3,4,6]",
       {1, 4, 6, 5, 2},
       {2, 2, 2, 2, 6},
       16},
      {"window={size=3x3}, dim_labels=b01f_01io->b01f, batch_group_count=2",
       "f32[2,4,4,4]",
       {4, 6, 6, 3},
       {3, 3, 3, 4},
       27},
      {"window={size=1x1}, dim_labels=b01f_01io->b01f",
       "f32[2,6,6,7]",
       {2, 6, 6, 5},
       {1, 1, 5, 7},
       5},
  };
  const Form& form = kForms[b.random.below(std::size(kForms))];
  const Value x = b.graph.fitted(b.any(), form.input);
  const Value k =
      b.random.chance(0.5) ? b.parameter(form.kernel) : b.graph.fitted(b.any(), form.kernel);
  const Value sum{
      written(b,
              "ENTRY e { x = f32" + text_of(form.input) + " parameter(0)\n k = " + "f32" +
                  text_of(form.kernel) + " parameter(1)\n ROOT r = " + form.result +
                  " convolution(x, k), " + form.text + " }",
              {x.at, k.at}),
      x.bound * k.bound * form.terms, false};
  b.push(b.graph.scaled(sum, 1 / (2 * std::sqrt(form.terms))));
}

// Edges that are cut, gaps between elements, and arrays that are empty on the way.
void padded_anyhow(Builder& b) {
  const Value x = b.graph.fitted(b.any(), small_block(b));
  ir::Attributes attributes;
  for (int d = 0; d < 3; ++d) {
    attributes.padding.push_back(
        {b.random.between(-2, 3), b.random.between(-1, 3), b.random.between(0, 2)});
    if (x.dims()[d] < 4) attributes.padding.back().low = attributes.padding.back().high = 1;
  }
  const Value padded{b.graph.op(Opcode::pad, {x.at, b.graph.scalar(-0.5f)}, std::move(attributes)),
                     std::max(x.bound, 0.5), x.exact};
  b.push(padded);
  if (b.random.chance(0.6)) return;
  const std::string type = "f32" + text_of(x.dims());
  const std::string rows = text_of(x.dims()[1]), columns = text_of(x.dims()[2]);
  b.push(
      {written(b,
               filled("add { p = f32[] parameter(0)\n q = f32[] parameter(1)\n"
                      " ROOT s = f32[] add(p, q) }\n"
                      "ENTRY e { x = $X parameter(0)\n n = f32[0,$R,$C] slice(x), "
                      "slice={[1:1], [0:$R], [0:$C]}\n t = f32[0,$R,$C] tanh(n)\n"
                      " z = f32[] constant(0.75)\n s = f32[$R,$C] reduce(t, z), dimensions={0}, "
                      "to_apply=add\n u = f32[1,$R,$C] reshape(s)\n"
                      " ROOT r = f32[$D,$R,$C] concatenate(t, x, u, t), dimensions={0} }",
                      {{'X', type}, {'R', rows}, {'C', columns}, {'D', text_of(x.dims()[0] + 1)}}),
               {x.at}),
       x.bound, x.exact});
}

}  // namespace

std::vector<Step> window_steps() {
  return {windowed,          windowed,         scattered_by_windows, placed_maxima, reduced_anyhow,
          multiplied_anyhow, multiplied_whole, convolved_anyhow,     padded_anyhow};
}

}  // namespace plimsoll::cases
