// SPDX-License-Identifier: Apache-2.0
// Operations that few programs have: narrow and complex dtypes, functions of libraries, what is
// written by its formula, functions of numbers that no other step takes.
#include <algorithm>
#include <cmath>
#include <string>

#include "tests/cases/written_step.h"

namespace plimsoll::cases {
namespace {

using ir::DType;
using ir::Instruction;
using ir::Opcode;

// A few operations of an exact value as another dtype, and back; the text has `x` and `y` of it.
void through(Builder& b, const char* dtype, double scale, const char* operation) {
  const Value x = b.any_exact();
  const Value y = b.graph.fitted(b.any_exact(), x.dims());
  const double most = scale * std::max(x.bound, y.bound);
  const std::string dims = text_of(x.dims());
  Instruction* made = written(b,
                              filled("ENTRY e { a = f32$X parameter(0)\n b = f32$X parameter(1)\n"
                                     " x = $T$X convert(a)\n y = $T$X convert(b)\n z = $T$X $O\n"
                                     " s = $T$X subtract(z, y)\n ROOT r = f32$X convert(s) }",
                                     {{'X', dims}, {'T', dtype}, {'O', operation}}),
                              {b.graph.scaled(x, scale).at, b.graph.scaled(y, scale).at});
  // A NaN or an infinity where the dtype has them and the number is too large for it.
  const Value bounded{
      b.graph.op(Opcode::clamp, {b.graph.scalar(static_cast<float>(-4 * most)), made,
                                 b.graph.scalar(static_cast<float>(4 * most))}),
      4 * most, true};
  Instruction* is_number = b.graph.compare(made, made, ir::ComparisonDirection::eq);
  const Value zero = b.graph.constant(0, x.dims());
  b.push(
      b.graph.scaled({b.graph.op(Opcode::select, {is_number, bounded.at, zero.at}), 4 * most, true},
                     0.25 / scale));
}

void narrow_integers(Builder& b) {
  const char* dtypes[] = {"s4", "u4", "s2", "u2"};
  const char* operations[] = {"add(x, y)",    "multiply(x, y)", "maximum(x, y)",  "and(x, y)",
                              "divide(x, y)", "xor(x, y)",      "remainder(x, y)"};
  through(b, dtypes[b.random.below(4)], 5, operations[b.random.below(7)]);
}

void narrow_floats(Builder& b) {
  const char* dtypes[] = {"f8e5m2",        "f8e4m3fn",   "f8e4m3",     "f8e3m4",
                          "f8e4m3b11fnuz", "f8e4m3fnuz", "f8e5m2fnuz", "f4e2m1fn"};
  const char* operations[] = {"add(x, y)", "multiply(x, y)", "maximum(x, y)", "tanh(x)",
                              "divide(x, y)"};
  through(b, dtypes[b.random.below(8)], 1.5, operations[b.random.below(5)]);
}

// Products of narrow numbers, which round once in the end.
void narrow_products(Builder& b) {
  const bool whole = b.random.chance(0.5);
  const std::int64_t m = b.random.between(1, 20), n = b.random.between(1, 20),
                     k = b.random.between(1, 40);
  const Value x = b.graph.scaled(b.graph.fitted(b.any_exact(), {m, k}), whole ? 3 : 1);
  const Value y = b.graph.scaled(b.graph.fitted(b.any_exact(), {k, n}), whole ? 3 : 1);
  const char* floats[] = {"f8e5m2", "f8e4m3fn", "f8e4m3fnuz"};
  Instruction* sum = written(b,
                             filled("ENTRY e { a = f32[$M,$K] parameter(0)\n"
                                    " b = f32[$K,$N] parameter(1)\n x = $T[$M,$K] convert(a)\n"
                                    " y = $T[$K,$N] convert(b)\n d = $S[$M,$N] dot(x, y), "
                                    "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                                    " ROOT r = f32[$M,$N] convert(d) }",
                                    {{'M', text_of(m)},
                                     {'N', text_of(n)},
                                     {'K', text_of(k)},
                                     {'T', whole ? "s4" : floats[b.random.below(3)]},
                                     {'S', whole ? "s32" : "f32"}}),
                             {x.at, y.at});
  const double bound = 8 * x.bound * y.bound * static_cast<double>(k);
  b.push(b.graph.scaled({sum, bound, whole}, 1 / std::sqrt(bound)));
}

// A few rows by weights that come as bytes or bf16 and are widened for the product.
void narrow_weights(Builder& b) {
  const std::int64_t rows = b.random.between(1, 5), depth = 128,
                     columns = b.random.between(128, 150);
  const bool rows_first = b.random.chance(0.5), depth_first = b.random.chance(0.5);
  const char* dtypes[] = {"s8", "u8", "bf16"};
  const char* dtype = dtypes[b.random.below(3)];
  const std::string dims = depth_first ? text_of({depth, columns}) : text_of({columns, depth});
  const Value x = b.graph.fitted(b.any(), {rows, depth});
  const Value scales = b.parameter({columns});
  const auto number = static_cast<std::int64_t>(b.graph.computation().parameters().size());
  const ir::Shape shape(dtype[0] == 'b'   ? DType::bf16
                        : dtype[0] == 's' ? DType::s8
                                          : DType::u8,
                        depth_first ? ir::Dims{depth, columns} : ir::Dims{columns, depth});
  Instruction* const weights = b.graph.computation().add_parameter(number, shape);
  const std::string depth_dim = depth_first ? "0" : "1", column_dim = depth_first ? "1" : "0";
  const std::string wide = rows_first ? "x, m" : "m, x";
  const std::string sides =
      rows_first ? "lhs_contracting_dims={1}, rhs_contracting_dims={" + depth_dim + "}"
                 : "lhs_contracting_dims={" + depth_dim + "}, rhs_contracting_dims={1}";
  Instruction* const made =
      written(b,
              filled("ENTRY e { x = f32[$R,$K] parameter(0)\n w = $T$W parameter(1)\n"
                     " s = f32[$N] parameter(2)\n f = f32$W convert(w)\n"
                     " t = f32$W broadcast(s), dimensions={$C}\n m = f32$W multiply(f, t)\n"
                     " ROOT y = f32$Y dot($O), $D }",
                     {{'R', text_of(rows)},
                      {'K', text_of(depth)},
                      {'N', text_of(columns)},
                      {'T', dtype},
                      {'W', dims},
                      {'C', column_dim},
                      {'Y', rows_first ? text_of({rows, columns}) : text_of({columns, rows})},
                      {'O', wide},
                      {'D', sides}}),
              {x.at, weights, scales.at});
  // Random bytes are at most 2 in magnitude, too.
  const double bound = x.bound * 4 * static_cast<double>(depth);
  b.push(b.graph.scaled({made, bound, false}, 1 / std::sqrt(bound)));
}

void complex_numbers(Builder& b) {
  const Value x = b.graph.fitted(b.any(), b.any_shape()), y = b.graph.fitted(b.any(), x.dims());
  struct Kind {
    const char* text;
    double (*bound)(double);
  };
  // Of a number of parts at most m.
  const Kind kinds[] = {{"multiply(z, z)", [](double m) { return 2 * m * m; }},
                        {"add(z, z)", [](double m) { return 2 * m; }},
                        {"exponential(z)", [](double m) { return std::exp(m); }},
                        {"tanh(z)", [](double) { return 1e3; }},
                        {"sine(z)", [](double m) { return std::cosh(m); }},
                        {"negate(z)", [](double m) { return m; }}};
  // tanh has poles; what is near them is left out.
  const std::size_t kind = b.random.below(6);
  const double scale = kind == 3 ? 0.5 : 1;
  const double m = scale * std::max(x.bound, y.bound);
  const bool again = b.random.chance(0.5);
  const auto parts = written_parts(
      b,
      filled(std::string("ENTRY e { a = f32$X parameter(0)\n b = f32$X parameter(1)\n"
                         " z = c64$X complex(a, b)\n w = c64$X $O\n") +
                 (again ? " t = c64$Y transpose(w), dimensions={1,0}\n"
                          " v = c64$X transpose(t), dimensions={1,0}\n"
                        : " v = c64$X subtract(w, z)\n") +
                 " p = f32$X real(v)\n q = f32$X imag(v)\n ROOT r = (f32$X, f32$X) tuple(p, q) }",
             {{'X', text_of(x.dims())},
              {'Y', text_of({x.dims()[1], x.dims()[0]})},
              {'O', kinds[kind].text}}),
      {b.graph.scaled(x, scale).at, b.graph.scaled(y, scale).at});
  const double bound = kinds[kind].bound(m) + m;
  for (Instruction* part : parts) b.push({part, bound, x.exact && y.exact && kind == 5});
}

// There and back, with a function of the spectrum between.
void transformed(Builder& b) {
  const std::int64_t batch = b.random.between(1, 6), length = b.random.between(2, 40);
  const bool real = b.random.chance(0.5), back = b.random.chance(0.5);
  const std::int64_t half = real ? length / 2 + 1 : length;
  const Value x = b.graph.fitted(b.any(), {batch, length});
  const Letters letters{{'B', text_of(batch)},
                        {'N', text_of(length)},
                        {'H', text_of(half)},
                        {'F', real ? "RFFT" : "FFT"},
                        {'G', real ? "IRFFT" : "IFFT"}};
  std::string text = "ENTRY e { x = f32[$B,$N] parameter(0)\n";
  if (!real) text += " n = f32[$B,$N] negate(x)\n z = c64[$B,$N] complex(x, n)\n";
  text += std::string(" s = c64[$B,$H] fft(") + (real ? "x" : "z") +
          "), fft_type=$F, fft_length={$N}\n";
  if (!back) {
    text += " a = f32[$B,$H] real(s)\n b = f32[$B,$H] imag(s)\n ROOT r = f32[$B,$H] add(a, b) }";
  } else {
    text += std::string(" ROOT r = ") + (real ? "f32[$B,$N]" : "c64[$B,$N]") +
            " fft(s), fft_type=$G, fft_length={$N} }";
    if (!real) {
      text.replace(text.rfind(" ROOT r"), 8, " c");
      text.replace(text.rfind("}"), 1, "\n ROOT r = f32[$B,$N] imag(c) }");
    }
  }
  const Value made{written(b, filled(text, letters), {x.at}),
                   back ? 2 * x.bound : 4 * x.bound * static_cast<double>(length), false};
  b.push(b.graph.scaled(made, back ? 0.5 : 1 / std::sqrt(made.bound)));
}

// Of matrices that are well conditioned: near the unit matrix.
void solved(Builder& b) {
  const std::int64_t batch = b.random.between(1, 4), n = b.random.between(1, 9),
                     count = b.random.between(1, 12);
  const bool left = b.random.chance(0.5);
  const ir::Dims right = left ? ir::Dims{batch, n, count} : ir::Dims{batch, count, n};
  const Value a =
      b.graph.scaled(b.graph.fitted(b.any(), {batch, n, n}), 0.4 / static_cast<double>(n));
  const Value y = b.graph.fitted(b.any(), right);
  const char* transposes[] = {"NO_TRANSPOSE", "TRANSPOSE"};
  const std::string unit =
      " i = s32[$N,$N] iota(), iota_dimension=0\n j = s32[$N,$N] iota(), iota_dimension=1\n"
      " e = pred[$N,$N] compare(i, j), direction=EQ\n u = f32[$N,$N] convert(e)\n"
      " ub = f32[$B,$N,$N] broadcast(u), dimensions={1,2}\n";
  const Letters letters{{'B', text_of(batch)},
                        {'N', text_of(n)},
                        {'Y', "f32" + text_of(right)},
                        {'L', left ? "true" : "false"},
                        {'W', b.random.chance(0.5) ? "true" : "false"},
                        {'T', transposes[b.random.below(2)]},
                        {'D', b.random.chance(0.3) ? "true" : "false"}};
  if (b.random.chance(0.5)) {
    // Diagonals in [0.6, 1.4] besides entries under 0.4 / n times 2 in sum.
    b.push(
        {written(b,
                 filled("ENTRY e { a = f32[$B,$N,$N] parameter(0)\n y = $Y parameter(1)\n" + unit +
                            " m = f32[$B,$N,$N] add(a, ub)\n"
                            " ROOT r = $Y triangular-solve(m, y), left_side=$L, lower=$W, "
                            "transpose_a=$T, unit_diagonal=$D }",
                        letters),
                 {a.at, y.at}),
         60 * y.bound, false});
    return;
  }
  b.push(
      {written(b,
               filled("ENTRY e { a = f32[$B,$N,$N] parameter(0)\n" + unit +
                          " p = f32[$B,$N,$N] dot(a, a), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                          "lhs_contracting_dims={2}, rhs_contracting_dims={2}\n"
                          " m = f32[$B,$N,$N] add(p, ub)\n"
                          " c = f32[$B,$N,$N] cholesky(m), lower=$W\n"
                          " v = pred[$N,$N] compare(i, j), direction=$L\n"
                          " vb = pred[$B,$N,$N] broadcast(v), dimensions={1,2}\n"
                          " z = f32[$B,$N,$N] subtract(ub, ub)\n"
                          " ROOT r = f32[$B,$N,$N] select(vb, c, z) }",
                      {{'B', text_of(batch)},
                       {'N', text_of(n)},
                       {'W', left ? "true" : "false"},
                       {'L', left ? "GE" : "LE"}}),
               {a.at}),
       2, false});
}

// What an expansion writes out.
void formulas(Builder& b) {
  const std::int64_t rows = b.random.between(2, 20), columns = b.random.between(1, 12);
  const Value x = b.graph.fitted(b.any(), {rows, columns, 2});
  const Value s = b.graph.fitted(b.any(), {columns}), o = b.graph.fitted(b.any(), {columns});
  const Letters letters{{'X', "f32" + text_of(x.dims())},
                        {'V', "f32" + text_of(ir::Dims{columns})}};
  const std::string end = ", epsilon=0.1, feature_index=1";
  switch (b.random.below(3)) {
    case 0: {
      const auto parts = written_parts(
          b,
          filled("ENTRY e { x = $X parameter(0)\n s = $V parameter(1)\n o = $V parameter(2)\n"
                 " ROOT r = ($X, $V, $V) batch-norm-training(x, s, o)" +
                     end + " }",
                 letters),
          {x.at, s.at, o.at});
      b.push({parts[0], 7 * x.bound * s.bound + o.bound, false});
      b.push({parts[1], x.bound, false});
      return b.push({parts[2], x.bound * x.bound, false});
    }
    case 1:
      return b.push({written(b,
                             filled("ENTRY e { x = $X parameter(0)\n s = $V parameter(1)\n"
                                    " o = $V parameter(2)\n v = $V multiply(o, o)\n"
                                    " ROOT r = $X batch-norm-inference(x, s, o, o, v)" +
                                        end + " }",
                                    letters),
                             {x.at, s.at, o.at}),
                     3.2 * (x.bound + o.bound) * s.bound + o.bound, false});
    default: {
      const Value d = b.graph.fitted(b.any(), x.dims());
      const auto parts = written_parts(
          b,
          filled("ENTRY e { x = $X parameter(0)\n s = $V parameter(1)\n o = $V parameter(2)\n"
                 " d = $X parameter(3)\n v = $V multiply(o, o)\n"
                 " ROOT r = ($X, $V, $V) batch-norm-grad(x, s, o, v, d)" +
                     end + " }",
                 letters),
          {x.at, s.at, o.at, d.at});
      for (Instruction* part : parts) b.push({part, 1e4, false});
    }
  }
}

void summed_so_far(Builder& b) {
  const std::int64_t rows = b.random.between(1, 16), rounds = b.random.between(1, 6);
  const Value x = b.graph.fitted(b.any(), {rows, rounds}), z = b.graph.fitted(b.any(), {rows});
  const auto parts = written_parts(
      b,
      filled("round { x = f32[$R] parameter(0)\n sum = f32[$R] parameter(1)\n"
             " next = f32[$R] add(sum, x)\n p = f32[$R] multiply(sum, x)\n"
             " ROOT r = (f32[$R], f32[$R], f32[$R]) tuple(next, p, next) }\n"
             "ENTRY e { x = f32[$R,$N] parameter(0)\n z = f32[$R] parameter(1)\n"
             " ROOT s = (f32[$R,$N], f32[$R,$N], f32[$R]) scan(x, z), dimensions={1}, "
             "num_carries=1, is_reverse=$V, to_apply=round }",
             {{'R', text_of(rows)},
              {'N', text_of(rounds)},
              {'V', b.random.chance(0.5) ? "true" : "false"}}),
      {x.at, z.at});
  for (Instruction* part : parts) b.push({part, 100, false});
}

// Rows that belong to groups of given sizes, and blocks that share a scale.
void grouped_products(Builder& b) {
  if (b.random.chance(0.5)) {
    const std::int64_t rows = b.random.between(2, 24);
    const Value x = b.graph.fitted(b.any(), {rows, 6}), w = b.graph.fitted(b.any(), {3, 6, 5});
    Instruction* sizes = b.graph.op(
        Opcode::clamp, {b.graph.scalar(std::int32_t{0}), places(b, {3}, rows / 2, DType::s32),
                        b.graph.scalar(static_cast<std::int32_t>(rows / 3))});
    b.push({written(b,
                    filled("ENTRY e { a = f32[$R,6] parameter(0)\n b = f32[3,6,5] parameter(1)\n"
                           " g = s32[3] parameter(2)\n ROOT r = f32[$R,5] ragged-dot(a, b, g), "
                           "lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
                           "lhs_ragged_dims={0}, rhs_group_dims={0} }",
                           {{'R', text_of(rows)}}),
                    {x.at, w.at, sizes}),
            6 * x.bound * w.bound, false});
    return;
  }
  const std::int64_t m = b.random.between(1, 16), n = b.random.between(1, 16);
  const Value x = b.graph.fitted(b.any(), {m, 8}), y = b.graph.fitted(b.any(), {8, n});
  const Value s = b.graph.fitted(b.any(), {m, 2}), t = b.graph.fitted(b.any(), {});
  b.push({written(b,
                  filled("ENTRY e { a = f32[$M,8] parameter(0)\n b = f32[8,$N] parameter(1)\n"
                         " s = f32[$M,2] parameter(2)\n t = f32[] parameter(3)\n"
                         " ROOT r = f32[$M,$N] scaled-dot(a, b, s, t), lhs_contracting_dims={1}, "
                         "rhs_contracting_dims={0} }",
                         {{'M', text_of(m)}, {'N', text_of(n)}}),
                  {x.at, y.at, s.at, t.at}),
          8 * x.bound * y.bound * s.bound * t.bound, false});
}

// Functions of numbers, of which the steps give only bits that all implementations have.
void rare_functions(Builder& b) {
  struct Function {
    Opcode opcode;
    double low, high, bound;  // what it is given, and how large it gets
    bool steps;               // jumps: of exact values only
  };
  static constexpr Function kFunctions[] = {
      {Opcode::ceil, -2, 2, 2, true},
      {Opcode::sign, -2, 2, 1, true},
      {Opcode::round_nearest_afz, -2, 2, 2, true},
      {Opcode::round_nearest_even, -2, 2, 2, true},
      {Opcode::exponential_minus_one, -2, 1, 2, false},
      {Opcode::log, 0.2, 3, 1.7, false},
      {Opcode::tan, -1, 1, 1.6, false},
      {Opcode::cbrt, 0.1, 2, 1.3, false},
      {Opcode::sinh, -1, 1, 1.2, false},
      {Opcode::cosh, -1, 1, 1.6, false},
      {Opcode::asinh, -2, 2, 1.5, false},
      {Opcode::acosh, 1.1, 3, 1.8, false},
      {Opcode::atanh, -0.8, 0.8, 1.1, false},
      {Opcode::asin, -0.9, 0.9, 1.2, false},
      {Opcode::acos, -0.9, 0.9, 2.7, false},
      {Opcode::atan, -2, 2, 1.2, false},
      {Opcode::copy, -2, 2, 2, false},
  };
  const Function& f = kFunctions[b.random.below(std::size(kFunctions))];
  const Value x = f.steps ? b.any_exact() : b.any();
  Instruction* within = b.graph.op(Opcode::clamp, {b.graph.scalar(static_cast<float>(f.low)), x.at,
                                                   b.graph.scalar(static_cast<float>(f.high))});
  b.push({b.graph.op(f.opcode, {within}), f.bound, x.exact});
}

void rare_pairs(Builder& b) {
  const Value x = b.any(), y = b.graph.fitted(b.any(), x.dims());
  const Value base = b.graph.binary(Opcode::add, b.graph.unary(Opcode::abs, x, x.bound),
                                    b.graph.constant(0.5, x.dims()), x.bound + 0.5);
  if (b.random.chance(0.5)) {
    const Value exponent = b.graph.unary(Opcode::tanh, y, 1);
    return b.push(b.graph.binary(Opcode::power, base, exponent, base.bound + 2));
  }
  b.push(b.graph.binary(Opcode::atan2, y, base, 1.6));
}

// Bits of exact values, as integers and floats.
void bits(Builder& b) {
  const Value x = b.any_exact();
  const Value y = b.graph.fitted(b.any_exact(), x.dims());
  const std::string dims = text_of(x.dims());
  const char* bodies[] = {
      " z = s32$X shift-left(p, q)\n",
      " z = s32$X shift-right-arithmetic(p, q)\n",
      " z = s32$X shift-right-logical(p, q)\n",
      " z = s32$X popcnt(p)\n",
      " z = s32$X count-leading-zeros(p)\n",
      " z = s32$X divide(p, q)\n",
      " z = s32$X remainder(p, q)\n",
      " z = s32$X mulhi(p, p)\n",
      " z = s32$X not(p)\n",
      " z = s32$X power(p, q)\n",
      " w = f32$X remainder(a, b)\n z = s32$X bitcast-convert(w)\n",
      " w = f32$X reduce-precision(a), exponent_bits=5, mantissa_bits=4\n"
      " z = s32$X bitcast-convert(w)\n",
      " w = pred$X is-finite(a)\n z = s32$X convert(w)\n",
      " v = u16$H bitcast-convert(a)\n n = u16$H not(v)\n z = s32$X bitcast-convert(n)\n",
      " u = u32$X bitcast-convert(b)\n z = s32$X stochastic-convert(a, u)\n",
  };
  std::string halves = dims;
  halves.insert(halves.size() - 1, x.dims().empty() ? "2" : ",2");
  Instruction* made =
      written(b,
              filled("ENTRY e { a = f32$X parameter(0)\n b = f32$X parameter(1)\n"
                     " p = s32$X bitcast-convert(a)\n h = f32[] constant(12)\n"
                     " hb = f32$X broadcast(h), dimensions={}\n s = f32$X multiply(b, hb)\n"
                     " q = s32$X convert(s)\n" +
                         std::string(bodies[b.random.below(std::size(bodies))]) +
                         " m = s32[] constant(1023)\n mb = s32$X broadcast(m), dimensions={}\n"
                         " l = s32$X and(z, mb)\n ROOT r = f32$X convert(l) }",
                     {{'X', dims}, {'H', halves}}),
              {x.at, y.at});
  b.push(b.graph.scaled({made, 1024, true}, 1.0 / 1024));
}

// What only says how or when something is computed.
void said_otherwise(Builder& b) {
  const Value x = b.any();
  const char* texts[] = {
      "ENTRY e { x = $X parameter(0)\n s = ($X, $X, u32[]) copy-start(x)\n"
      " ROOT d = $X copy-done(s) }",
      "inner { p = $X parameter(0)\n ROOT t = $X tanh(p) }\n"
      "ENTRY e { x = $X parameter(0)\n s = (($X), $X, u32[]) async-start(x), calls=inner\n"
      " u = (($X), $X, u32[]) async-update(s)\n ROOT d = $X async-done(u) }",
      "ENTRY e { x = $X parameter(0)\n t = token[] after-all()\n u = token[] after-all(t, t)\n"
      " ROOT r = $X add-dependency(x, u) }",
      "ENTRY e { x = $X parameter(0)\n y = $X domain(x), domain={kind=\"sharding\", entry={}, "
      "exit={}}\n ROOT r = $X copy(y) }",
      "inner { p = $X parameter(0)\n s = $X sine(p)\n ROOT t = $X multiply(s, p) }\n"
      "ENTRY e { x = $X parameter(0)\n ROOT r = $X fusion(x), kind=kLoop, calls=inner }",
      "inner { p = f32[] parameter(0)\n q = f32[] parameter(1)\n t = f32[] tanh(p)\n"
      " ROOT m = f32[] multiply(t, q) }\n"
      "ENTRY e { x = $X parameter(0)\n y = $X sine(x)\n"
      " ROOT r = $X map(x, y), dimensions={$D}, to_apply=inner }",
      "ENTRY e { x = $X parameter(0)\n f = f32[$N] bitcast(x)\n t = f32[$N] tanh(f)\n"
      " ROOT r = $X bitcast(t) }",
      "ENTRY e { x = $X parameter(0)\n ROOT r = $X custom-call(x), "
      "custom_call_target=\"annotate_device_placement\" }",
      "ENTRY e { x = $X parameter(0)\n p = u32[] partition-id()\n q = u32[] replica-id()\n"
      " s = u32[] add(p, q)\n f = f32[] convert(s)\n b = $X broadcast(f), dimensions={}\n"
      " c = $X cosine(b)\n ROOT r = $X multiply(x, c) }",
      "ENTRY e { x = $X parameter(0)\n t = ($X, $X) tuple(x, x)\n"
      " b = ($X, ($X, $X)) tuple(x, t)\n o = ($X, ($X, $X)) opt-barrier(b)\n"
      " i = ($X, $X) get-tuple-element(o), index=1\n ROOT r = $X get-tuple-element(i), index=1 }",
  };
  std::string all;
  for (int d = 0; d < x.dims().size(); ++d) all += (d == 0 ? "" : ",") + text_of(d);
  b.push({written(b,
                  filled(texts[b.random.below(std::size(texts))],
                         {{'X', "f32" + text_of(x.dims())},
                          {'D', all},
                          {'N', text_of(x.at->shape().element_count())}}),
                  {x.at}),
          std::max(x.bound, 2.0), x.exact});
}

// From the generators that are not philox, and from several dtypes of bits.
void other_random_bits(Builder& b) {
  const ir::Dims dims = b.any_shape();
  const char* dtypes[] = {"u8", "u16", "u32", "u64", "s32"};
  const std::size_t dtype = b.random.below(5);
  const bool default_one = b.random.chance(0.5);
  const auto parts =
      written_parts(b,
                    filled("ENTRY e { x = f32[] parameter(0)\n s = u64[2] constant({$K, 7})\n"
                           " g = (u64[2], $T$X) rng-bit-generator(s), algorithm=$A\n"
                           " h = u64[2] get-tuple-element(g), index=0\n"
                           " k = (u64[2], $T$X) rng-bit-generator(h), algorithm=$A\n"
                           " b = $T$X get-tuple-element(k), index=1\n m = $T[] constant(63)\n"
                           " mb = $T$X broadcast(m), dimensions={}\n l = $T$X and(b, mb)\n"
                           " f = f32$X convert(l)\n ROOT r = (f32$X, f32[]) tuple(f, x) }",
                           {{'X', text_of(dims)},
                            {'T', dtypes[dtype]},
                            {'K', text_of(b.random.between(0, 999))},
                            {'A', default_one ? "rng_default" : "rng_philox"}}),
                    {b.graph.constant(1, {}).at});
  b.push(b.graph.scaled({parts[0], 64, true}, 1.0 / 64));
}

}  // namespace

std::vector<Step> rare_steps() {
  return {narrow_integers, narrow_floats,  narrow_products,  narrow_weights, complex_numbers,
          transformed,     solved,         formulas,         summed_so_far,  grouped_products,
          rare_functions,  rare_functions, rare_pairs,       bits,           bits,
          said_otherwise,  said_otherwise, other_random_bits};
}

}  // namespace plimsoll::cases
