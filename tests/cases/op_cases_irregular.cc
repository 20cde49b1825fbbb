// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/op_case_groups.h"

namespace plimsoll::cases {
namespace {

struct Indexed {
  const char* name;
  std::vector<std::string> parameters;  // "T" stands for the dtype
  const char* root;
  InputRange indices;
};

const std::vector<Indexed>& gathers() {
  static const std::vector<Indexed> all = {
      {"rows",
       {"T[9,4]", "s32[5]"},
       "T[5,4] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
       "index_vector_dim=1, slice_sizes={1,4}",
       {0, 8}},
      {"rows.out-of-bounds",
       {"T[9,4]", "s32[7]"},
       "T[7,4] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
       "index_vector_dim=1, slice_sizes={1,4}",
       {-6, 14}},
      {"embedding",
       {"T[9,4]", "s64[2,3,1]"},
       "T[2,3,4] gather(p0, p1), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, "
       "index_vector_dim=2, slice_sizes={1,4}",
       {0, 8}},
      {"columns",
       {"T[4,9]", "u32[3]"},
       "T[4,3] gather(p0, p1), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, "
       "index_vector_dim=1, slice_sizes={4,1}",
       {0, 8}},
      {"points",
       {"T[5,6]", "s32[7,2]"},
       "T[7] gather(p0, p1), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={1,0}, "
       "index_vector_dim=1, slice_sizes={1,1}",
       {0, 5}},
      {"windows",
       {"T[8,6]", "s32[3,2]"},
       "T[3,2,3] gather(p0, p1), offset_dims={1,2}, collapsed_slice_dims={}, "
       "start_index_map={0,1}, "
       "index_vector_dim=1, slice_sizes={2,3}",
       {-2, 9}},
      {"vector-first",
       {"T[8,6]", "s32[2,3]"},
       "T[2,3] gather(p0, p1), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={0,1}, "
       "index_vector_dim=0, slice_sizes={2,1}",
       {0, 5}},
      {"batching",
       {"T[3,8]", "s32[3,2]"},
       "T[3,2] gather(p0, p1), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, "
       "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, "
       "slice_sizes={1,1}",
       {0, 7}},
      {"one-slice",
       {"T[8,6]", "s32[2]"},
       "T[3,2] gather(p0, p1), offset_dims={0,1}, collapsed_slice_dims={}, start_index_map={0,1}, "
       "index_vector_dim=0, slice_sizes={3,2}",
       {0, 7}},
      {"no-indices",
       {"T[9,4]", "s32[0]"},
       "T[0,4] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
       "index_vector_dim=1, slice_sizes={1,4}",
       {0, 8}},
  };
  return all;
}

const std::vector<Indexed>& scatters() {
  static const std::vector<Indexed> all = {
      {"rows",
       {"T[9,4]", "s32[5]", "T[5,4]"},
       "T[9,4] scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1",
       {0, 8}},
      {"rows.out-of-bounds",
       {"T[9,4]", "s32[9]", "T[9,4]"},
       "T[9,4] scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1",
       {-5, 13}},
      {"embedding",
       {"T[9,4]", "s64[2,3,1]", "T[2,3,4]"},
       "T[9,4] scatter(p0, p1, p2), update_window_dims={2}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=2",
       {0, 8}},
      {"columns",
       {"T[4,9]", "u32[3]", "T[4,3]"},
       "T[4,9] scatter(p0, p1, p2), update_window_dims={0}, inserted_window_dims={1}, "
       "scatter_dims_to_operand_dims={1}, index_vector_dim=1",
       {0, 8}},
      {"points",
       {"T[5,6]", "s32[7,2]", "T[7]"},
       "T[5,6] scatter(p0, p1, p2), update_window_dims={}, inserted_window_dims={0,1}, "
       "scatter_dims_to_operand_dims={1,0}, index_vector_dim=1",
       {0, 5}},
      {"windows",
       {"T[8,6]", "s32[3,2]", "T[3,2,3]"},
       "T[8,6] scatter(p0, p1, p2), update_window_dims={1,2}, inserted_window_dims={}, "
       "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1",
       {-2, 9}},
      {"batching",
       {"T[3,8]", "s32[3,2]", "T[3,2]"},
       "T[3,8] scatter(p0, p1, p2), update_window_dims={}, inserted_window_dims={1}, "
       "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
       "scatter_indices_batching_dims={0}, index_vector_dim=2",
       {0, 7}},
      {"no-updates",
       {"T[9,4]", "s32[0]", "T[0,4]"},
       "T[9,4] scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1",
       {0, 8}},
  };
  return all;
}

void add_indexed(std::vector<OpCase>& table) {
  const InputRange values{-2, 2};
  for (const std::string dtype : {"f32", "f64", "bf16", "s32", "pred"}) {
    const bool gradients = dtype == "f32" || dtype == "f64";
    const auto parameters_of = [&](const Indexed& c) {
      std::vector<std::string> parameters;
      for (const std::string& p : c.parameters) parameters.push_back(with_dtype(p, dtype));
      return parameters;
    };
    for (const Indexed& g : gathers()) {
      OpCase c;
      c.name = std::string("gather.") + g.name + "." + dtype;
      c.hlo = module_text(parameters_of(g), "  ROOT r = " + with_dtype(g.root, dtype));
      c.ranges = {values, g.indices};
      if (gradients) c.differentiable = {0};
      table.push_back(std::move(c));
    }
    for (const std::string opcode : {"add", "maximum", "minimum", "multiply"}) {
      if (dtype == "pred" && opcode != "maximum") continue;
      for (const Indexed& s : scatters()) {
        OpCase c;
        c.name = "scatter." + opcode + "." + s.name + "." + dtype;
        c.hlo = module_text(
            parameters_of(s),
            "  ROOT r = " + with_dtype(s.root, dtype) + ", to_apply=" + reducer_name(opcode, dtype),
            reducer(opcode, dtype));
        c.ranges = {values, s.indices, values};
        const bool rounds = opcode == "add" || opcode == "multiply";
        if (rounds && dtype == "f32") c.tolerance = 1e-6;
        if (rounds && dtype == "f64") c.tolerance = 1e-15;
        if (rounds && dtype == "bf16") c.tolerance = 1.6e-2;
        if (gradients && opcode == "add") c.differentiable = {0, 2};
        table.push_back(std::move(c));
      }
    }
  }
  // The last update wins.
  table.push_back({"scatter.replace.f32",
                   module_text({"f32[6,2]", "s32[9]", "f32[9,2]"},
                               "  ROOT r = f32[6,2] scatter(p0, p1, p2), update_window_dims={1}, "
                               "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
                               "index_vector_dim=1, to_apply=second",
                               "second {\n  a = f32[] parameter(0)\n"
                               "  ROOT b = f32[] parameter(1)\n}\n"),
                   0,
                   {},
                   {values, {0, 5}, values}});
  table.push_back(
      {"scatter.variadic",
       module_text(
           {"f32[6]", "s32[6]", "s32[4]", "f32[4]", "s32[4]"},
           "  ROOT r = (f32[6], s32[6]) scatter(p0, p1, p2, p3, p4), update_window_dims={}, "
           "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
           "index_vector_dim=1, to_apply=both",
           "both {\n  a = f32[] parameter(0)\n  b = s32[] parameter(1)\n"
           "  c = f32[] parameter(2)\n  d = s32[] parameter(3)\n"
           "  m = f32[] maximum(a, c)\n  s = s32[] add(b, d)\n"
           "  ROOT t = (f32[], s32[]) tuple(m, s)\n}\n"),
       0,
       {},
       {values, values, {0, 5}, values, values}});
}

std::string comparator(const std::string& name, const std::vector<std::string>& dtypes,
                       const std::string& direction, const std::string& type = "") {
  std::string text = name + " {\n";
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    for (int side = 0; side < 2; ++side) {
      const std::string n = std::to_string(2 * i + static_cast<std::size_t>(side));
      text += "  q" + n + " = " + dtypes[i] + "[] parameter(" + n + ")\n";
    }
  }
  return text + "  ROOT k = pred[] compare(q0, q1), direction=" + direction + type + "\n}\n";
}

void add_sorts(std::vector<OpCase>& table) {
  const InputRange many{-50, 50}, few{-2, 2}, special{-3, 3, true};
  for (const std::string dtype : {"f32", "f64", "f16", "bf16", "s32", "u8", "s64", "u32"}) {
    for (const std::string direction : {"LT", "GT"}) {
      const auto add = [&](const char* name, const std::string& dims, const char* along,
                           InputRange range) {
        OpCase c{std::string("sort.") + name + "." + direction + "." + dtype,
                 module_text({dtype + dims},
                             "  ROOT r = " + dtype + dims + " sort(p0), dimensions={" + along +
                                 "}, to_apply=order",
                             comparator("order", {dtype}, direction)),
                 0,
                 {},
                 {range}};
        if (dtype == "f32" || dtype == "f64") c.differentiable = {0};
        table.push_back(std::move(c));
      };
      add("1d", "[37]", "0", many);
      add("rows", "[5,17]", "1", many);
      add("columns", "[17,5]", "0", many);
    }
    table.push_back({"sort.pairs.stable." + dtype,
                     module_text({dtype + "[41]", "s32[41]"},
                                 "  ROOT r = (" + dtype +
                                     "[41], s32[41]) sort(p0, p1), "
                                     "dimensions={0}, is_stable=true, to_apply=order",
                                 comparator("order", {dtype, "s32"}, "LT")),
                     0,
                     {},
                     {few, many}});
  }
  for (const std::string dtype : {"f32", "bf16", "f64"}) {
    table.push_back({"sort.total." + dtype,
                     module_text({dtype + "[63]"},
                                 "  ROOT r = " + dtype +
                                     "[63] sort(p0), dimensions={0}, "
                                     "is_stable=true, to_apply=order",
                                 comparator("order", {dtype}, "LT", ", type=TOTALORDER")),
                     0,
                     {},
                     {special}});
  }
  // What JAX writes: all NaNs are one, and so are the zeros.
  for (const std::string dtype : {"f32", "bf16", "f16", "f64"}) {
    for (const bool turned : {false, true}) {
      const auto scalar = [&](const std::string& name, const std::string& text) {
        return "  " + name + " = " + text + "\n";
      };
      std::string order = "order {\n";
      for (const std::string x : {"a", "b"}) {
        order += scalar(x, dtype + "[] parameter(" + (x == "a" ? "0" : "1") + ")");
        order += scalar(x + "zero", dtype + "[] constant(0)");
        order += scalar(x + "nan", dtype + "[] constant(nan)");
        order += scalar(x + "none", "pred[] compare(" + x + ", " + x + "), direction=NE");
        order += scalar(x + "is", "pred[] compare(" + x + ", " + x + "zero), direction=EQ");
        order += scalar(x + "1", dtype + "[] select(" + x + "is, " + x + "zero, " + x + ")");
        order += scalar(x + "2", dtype + "[] select(" + x + "none, " + x + "nan, " + x + "1)");
      }
      order += "  c = s32[] parameter(2)\n  d = s32[] parameter(3)\n  ROOT k = pred[] compare(" +
               std::string(turned ? "b2, a2" : "a2, b2") + "), direction=LT, type=TOTALORDER\n}\n";
      table.push_back({std::string("sort.canonical.") + (turned ? "falling." : "") + dtype,
                       module_text({dtype + "[140,3]", "s32[140,3]"},
                                   "  ROOT r = (" + dtype +
                                       "[140,3], s32[140,3]) sort(p0, p1), dimensions={0}, "
                                       "is_stable=true, to_apply=order",
                                   order),
                       0,
                       {},
                       {special, many}});
    }
  }
  table.push_back({"sort.three",
                   module_text({"s32[4,9]", "f32[4,9]", "pred[4,9]"},
                               "  ROOT r = (s32[4,9], f32[4,9], pred[4,9]) sort(p0, p1, p2), "
                               "dimensions={1}, is_stable=true, to_apply=order",
                               comparator("order", {"s32", "f32", "pred"}, "GT")),
                   0,
                   {},
                   {few, many, few}});
  table.push_back({"sort.by-magnitude",
                   module_text({"f32[33]"},
                               "  ROOT r = f32[33] sort(p0), dimensions={0}, is_stable=true, "
                               "to_apply=order",
                               "order {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                               "  x = f32[] abs(a)\n  y = f32[] abs(b)\n"
                               "  ROOT k = pred[] compare(x, y), direction=LT\n}\n"),
                   0,
                   {},
                   {many}});
  table.push_back(
      {"sort.empty",
       module_text({"f32[3,0]"}, "  ROOT r = f32[3,0] sort(p0), dimensions={1}, to_apply=order",
                   comparator("order", {"f32"}, "LT")),
       0,
       {},
       {}});
}

void add_random_bits(std::vector<OpCase>& table) {
  const InputRange words{0, 1e15};
  for (const std::string dtype : {"u32", "u64", "u16", "u8", "s32"}) {
    for (const std::string dims : {"[37]", "[3,5,7]", "[]"}) {
      for (const std::string state : {"u64[2]", "u64[3]"}) {
        table.push_back({"rng-bit-generator." + dtype + dims + "." + state,
                         module_text({state}, "  ROOT r = (" + state + ", " + dtype + dims +
                                                  ") rng-bit-generator(p0), algorithm=rng_philox"),
                         0,
                         {},
                         {words}});
      }
    }
  }
  table.push_back({"rng-bit-generator.uniform",
                   module_text({"u64[3]"},
                               "  g = (u64[3], u32[100]) rng-bit-generator(p0), "
                               "algorithm=rng_philox\n"
                               "  b = u32[100] get-tuple-element(g), index=1\n"
                               "  c = u32[] constant(9)\n"
                               "  d = u32[100] broadcast(c), dimensions={}\n"
                               "  s = u32[100] shift-right-logical(b, d)\n"
                               "  f = f32[100] convert(s)\n"
                               "  m = f32[] constant(1.1920929e-07)\n"
                               "  k = f32[100] broadcast(m), dimensions={}\n"
                               "  ROOT r = f32[100] multiply(f, k)"),
                   0,
                   {},
                   {words}});
  table.push_back({"map.f32",
                   module_text({"f32[4,9]", "f32[4,9]"},
                               "  ROOT r = f32[4,9] map(p0, p1), dimensions={0,1}, to_apply=mix",
                               "mix {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                               "  t = f32[] tanh(a)\n  ROOT m = f32[] multiply(t, b)\n}\n"),
                   0,
                   {},
                   {}});
  table.push_back(
      {"map.truths",
       module_text({"u8[4,9]"}, "  ROOT r = u8[4,9] map(p0), dimensions={0,1}, to_apply=truth",
                   "truth {\n  a = u8[] parameter(0)\n  t = pred[] bitcast-convert(a)\n"
                   "  ROOT b = u8[] bitcast-convert(t)\n}\n"),
       0,
       {},
       {InputRange{0, 4}}});
}

}  // namespace

void add_irregular_cases(std::vector<OpCase>& table) {
  add_indexed(table);
  add_sorts(table);
  add_random_bits(table);
}

}  // namespace plimsoll::cases
