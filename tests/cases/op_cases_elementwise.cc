// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/op_case_groups.h"

namespace plimsoll::cases {
namespace {

struct FloatOp {
  const char* opcode;
  InputRange range;  // where it is smooth, for the plain and the gradient cases
  bool differentiable = true;
};

const FloatOp kUnary[] = {
    {"abs", {-2, 2}},
    {"negate", {-2, 2}},
    {"sign", {-2, 2}},
    {"ceil", {-9, 9}, false},
    {"floor", {-9, 9}, false},
    {"round-nearest-afz", {-9, 9}, false},
    {"round-nearest-even", {-9, 9}, false},
    {"exponential", {-3, 3}},
    {"exponential-minus-one", {-2, 2}},
    {"log", {0.1, 4}},
    {"log-plus-one", {-0.8, 3}},
    {"logistic", {-5, 5}},
    {"tanh", {-3, 3}},
    {"sine", {-4, 4}},
    {"cosine", {-4, 4}},
    {"tan", {-1.2, 1.2}},
    {"erf", {-3, 3}},
    {"sqrt", {0.1, 4}},
    {"rsqrt", {0.1, 4}},
    {"cbrt", {0.2, 4}},
    {"sinh", {-3, 3}},
    {"cosh", {-3, 3}},
    {"asinh", {-3, 3}},
    {"acosh", {1.2, 4}},
    {"atanh", {-0.8, 0.8}},
    {"asin", {-0.8, 0.8}},
    {"acos", {-0.8, 0.8}},
    {"atan", {-3, 3}},
    {"copy", {-2, 2}},
};

const FloatOp kBinary[] = {
    {"add", {-2, 2}},     {"subtract", {-2, 2}},        {"multiply", {-2, 2}},
    {"divide", {0.5, 2}}, {"remainder", {1, 9}, false}, {"power", {0.3, 2}},
    {"maximum", {-2, 2}}, {"minimum", {-2, 2}},         {"atan2", {0.2, 2}},
};

const char* const kFloats[] = {"f32", "f64", "f16", "bf16"};

void add_float_op(std::vector<OpCase>& table, const FloatOp& op, int operands) {
  const std::string opcode = op.opcode;
  const std::string call = opcode + (operands == 1 ? "(p0)" : "(p0, p1)");
  const auto add = [&](const std::string& suffix, const std::string& shape, bool specials) {
    OpCase c;
    c.name = opcode + "." + suffix;
    c.hlo = module_text(std::vector<std::string>(static_cast<std::size_t>(operands), shape),
                        "  ROOT r = " + shape + " " + call);
    InputRange range = op.range;
    if (specials) range = {-20, 20, true};
    c.ranges.assign(static_cast<std::size_t>(operands), range);
    const bool wide = shape.starts_with("f32") || shape.starts_with("f64");
    if (op.differentiable && !specials && wide) {
      for (int i = 0; i < operands; ++i) c.differentiable.push_back(i);
    }
    table.push_back(std::move(c));
  };
  for (const char* dtype : kFloats) {
    add(std::string(dtype) + ".17", std::string(dtype) + "[17]", false);
    add(std::string(dtype) + ".special", std::string(dtype) + "[331]", true);
  }
  add("f32.scalar", "f32[]", false);
  add("f32.one", "f32[1]", false);
  add("f32.3", "f32[3]", false);
  add("f32.1000", "f32[1000]", false);
  add("f32.3x5x7", "f32[3,5,7]", false);
  add("f32.empty", "f32[0,4]", false);
}

// Six directions in one program.
std::string all_comparisons(const std::string& dtype, const std::string& shape,
                            const std::string& type) {
  const std::string dims = shape.substr(dtype.size());
  std::string body;
  std::string types, names;
  for (const char* direction : {"EQ", "NE", "GE", "GT", "LE", "LT"}) {
    body += "  c" + std::string(direction) + " = pred" + dims +
            " compare(p0, p1), direction=" + direction + type + "\n";
    types += (types.empty() ? "" : ", ") + ("pred" + dims);
    names += (names.empty() ? "c" : ", c") + std::string(direction);
  }
  return body + "  ROOT r = (" + types + ") tuple(" + names + ")";
}

void add_comparisons(std::vector<OpCase>& table) {
  for (const char* name : {"pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16",
                           "bf16", "f32", "f64"}) {
    const std::string dtype = name;
    const std::string shape = dtype + "[257]";
    const InputRange range{-3, 3, dtype != "pred"};
    table.push_back({"compare." + dtype,
                     module_text({shape, shape}, all_comparisons(dtype, shape, "")),
                     0,
                     {},
                     {range, range}});
    const bool floating = dtype[0] == 'f' || dtype[0] == 'b';
    if (!floating) continue;
    table.push_back(
        {"compare.total." + dtype,
         module_text({shape, shape}, all_comparisons(dtype, shape, ", type=TOTALORDER")),
         0,
         {},
         {range, range}});
  }
}

// From one dtype to all.
void add_converts(std::vector<OpCase>& table) {
  const char* const all[] = {"pred", "s8",  "s16", "s32",  "s64", "u8", "u16",
                             "u32",  "u64", "f16", "bf16", "f32", "f64"};
  for (const std::string from : all) {
    for (bool specials : {false, true}) {
      if (specials && from == "pred") continue;
      std::string body, types, names;
      for (const std::string to : all) {
        body += "  to_" + to + " = " + to + "[61] convert(p0)\n";
        types += (types.empty() ? "" : ", ") + to + "[61]";
        names += (names.empty() ? "" : ", ") + ("to_" + to);
      }
      table.push_back(
          {"convert." + from + (specials ? ".special" : ""),
           module_text({from + "[61]"}, body + "  ROOT r = (" + types + ") tuple(" + names + ")"),
           0,
           {},
           {InputRange{-300, 300, specials}}});
    }
  }
  table.push_back({"convert.f32.f64.gradient",
                   module_text({"f32[7]"}, "  ROOT r = f64[7] convert(p0)"),
                   0,
                   {0},
                   {}});
  table.push_back({"bitcast-convert.f32.s32",
                   module_text({"f32[33]"}, "  ROOT r = s32[33] bitcast-convert(p0)"),
                   0,
                   {},
                   {InputRange{-9, 9, true}}});
  table.push_back({"bitcast-convert.u16.bf16",
                   module_text({"u16[33]"}, "  ROOT r = bf16[33] bitcast-convert(p0)"),
                   0,
                   {},
                   {InputRange{0, 32000}}});
  table.push_back({"bitcast-convert.s32.u8",
                   module_text({"s32[3,5]"}, "  ROOT r = u8[3,5,4] bitcast-convert(p0)"),
                   0,
                   {},
                   {InputRange{-1e9, 1e9}}});
  table.push_back({"bitcast-convert.u16.u64",
                   module_text({"u16[3,4]"}, "  ROOT r = u64[3] bitcast-convert(p0)"),
                   0,
                   {},
                   {InputRange{0, 65535}}});
  // Truths are 0 or 1, whatever they are made of.
  table.push_back({"bitcast-convert.u8.pred",
                   module_text({"u8[33]"},
                               "  t = pred[33] bitcast-convert(p0)\n"
                               "  ROOT r = u8[33] bitcast-convert(t)"),
                   0,
                   {},
                   {InputRange{0, 4}}});
  table.push_back({"bitcast-convert.s16.pred",
                   module_text({"s16[3,5]"}, "  ROOT r = pred[3,5,2] bitcast-convert(p0)"),
                   0,
                   {},
                   {InputRange{-3, 300}}});
}

void add_ternary(std::vector<OpCase>& table) {
  for (const std::string dtype : {"f32", "f64", "bf16", "f16", "s32", "u8", "s64", "pred"}) {
    const std::string shape = dtype + "[5,13]";
    OpCase c{
        "select." + dtype,
        module_text({"pred[5,13]", shape, shape}, "  ROOT r = " + shape + " select(p0, p1, p2)"),
        0,
        {},
        {}};
    if (dtype == "f32" || dtype == "f64") c.differentiable = {1, 2};
    table.push_back(c);
    table.push_back(
        {"select.scalar." + dtype,
         module_text({"pred[]", shape, shape}, "  ROOT r = " + shape + " select(p0, p1, p2)"),
         0,
         {},
         {}});
    if (dtype == "pred") continue;
    c.name = "clamp." + dtype;
    c.hlo = module_text({shape, shape, shape}, "  ROOT r = " + shape + " clamp(p0, p1, p2)");
    c.ranges = {{-2, -1}, {-3, 3}, {1, 2}};
    if (!c.differentiable.empty()) c.differentiable = {1};
    table.push_back(c);
    c.name = "clamp.scalar." + dtype;
    c.hlo = module_text({dtype + "[]", shape, dtype + "[]"},
                        "  ROOT r = " + shape + " clamp(p0, p1, p2)");
    table.push_back(c);
    c.name = "clamp.special." + dtype;
    c.ranges = {{-2, -1}, {-3, 3, true}, {1, 2}};
    c.differentiable.clear();
    table.push_back(c);
  }
}

}  // namespace

void add_elementwise_cases(std::vector<OpCase>& table) {
  for (const FloatOp& op : kUnary) add_float_op(table, op, 1);
  for (const FloatOp& op : kBinary) add_float_op(table, op, 2);
  for (const char* dtype : kFloats) {
    const std::string name = dtype;
    const InputRange range{-9, 9, true};
    table.push_back({"is-finite." + name,
                     module_text({name + "[200]"}, "  ROOT r = pred[200] is-finite(p0)"),
                     0,
                     {},
                     {range}});
    for (const char* bits :
         {"exponent_bits=5, mantissa_bits=10", "exponent_bits=8, mantissa_bits=7",
          "exponent_bits=4, mantissa_bits=3", "exponent_bits=3, mantissa_bits=0"}) {
      table.push_back({"reduce-precision." + name + "." + (bits + 14)[0] + (bits + 31)[0],
                       module_text({name + "[200]"},
                                   "  ROOT r = " + name + "[200] reduce-precision(p0), " + bits),
                       0,
                       {},
                       {range}});
    }
  }
  // Floats of different widths meet in the wider one.
  table.push_back({"add.mixed.bf16.f32",
                   module_text({"bf16[9]", "f32[9]"}, "  ROOT r = f32[9] add(p0, p1)"),
                   0,
                   {},
                   {}});
  table.push_back({"multiply.mixed.f32.to.bf16",
                   module_text({"f32[9]", "f32[9]"}, "  ROOT r = bf16[9] multiply(p0, p1)"),
                   0,
                   {},
                   {}});
  add_comparisons(table);
  add_converts(table);
  add_ternary(table);
}

}  // namespace plimsoll::cases
