// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/op_case_groups.h"

namespace plimsoll::cases {
namespace {

double sum_tolerance(const std::string& dtype) {
  if (dtype == "f32") return 2e-6;
  if (dtype == "f64") return 1e-14;
  if (dtype == "f16") return 2e-3;
  if (dtype == "bf16") return 1.6e-2;
  return 0;
}

const char* identity_of(const std::string& opcode, const std::string& dtype) {
  const bool floating = dtype[0] == 'f' || dtype[0] == 'b';
  if (opcode == "add" || opcode == "or" || opcode == "xor") return dtype == "pred" ? "false" : "0";
  if (opcode == "multiply") return dtype == "pred" ? "true" : "1";
  if (opcode == "and") return dtype == "pred" ? "true" : "-1";
  if (opcode == "maximum") return floating ? "-inf" : dtype == "pred" ? "false" : "-100";
  return floating ? "inf" : dtype == "pred" ? "true" : "100";
}

void add_reduce(std::vector<OpCase>& table, const std::string& opcode, const std::string& dtype,
                const char* name, const std::string& from, const std::string& to,
                const std::string& dimensions) {
  OpCase c;
  c.name = "reduce." + opcode + "." + name + "." + dtype;
  c.hlo = module_text({dtype + from},
                      "  i = " + dtype + "[] constant(" + identity_of(opcode, dtype) + ")\n" +
                          "  ROOT r = " + dtype + to + " reduce(p0, i), dimensions=" + dimensions +
                          ", to_apply=" + reducer_name(opcode, dtype),
                      reducer(opcode, dtype));
  const bool orders = opcode == "maximum" || opcode == "minimum";
  c.tolerance = orders ? 0 : sum_tolerance(dtype);
  if (opcode == "multiply") {
    // Near 1, and every factor may round.
    c.ranges = {{0.9, 1.1}};
    if (dtype == "f32") c.tolerance = 1e-4;
    if (dtype == "f64") c.tolerance = 1e-12;
  }
  const bool wide = dtype == "f32" || dtype == "f64";
  if (wide && from.find("[0") == std::string::npos && (opcode == "add" || orders)) {
    c.differentiable = {0};
  }
  table.push_back(std::move(c));
}

// (value, index) pairs; the larger value wins, the smaller index among equals.
std::string argmax(const std::string& dtype) {
  return "argmax {\n  xv = " + dtype +
         "[] parameter(0)\n  xi = s32[] parameter(1)\n  yv = " + dtype +
         "[] parameter(2)\n  yi = s32[] parameter(3)\n" +
         "  gt = pred[] compare(xv, yv), direction=GT\n"
         "  eq = pred[] compare(xv, yv), direction=EQ\n"
         "  lt = pred[] compare(xi, yi), direction=LT\n"
         "  tie = pred[] and(eq, lt)\n  keep = pred[] or(gt, tie)\n" +
         "  v = " + dtype + "[] select(keep, xv, yv)\n  i = s32[] select(keep, xi, yi)\n" +
         "  ROOT t = (" + dtype + "[], s32[]) tuple(v, i)\n}\n";
}

struct Window {
  const char* name;
  const char* from;
  const char* to;
  const char* window;
};

const Window kWindows[] = {
    {"2x2", "[2,6,8,3]", "[2,3,4,3]", "size=1x2x2x1 stride=1x2x2x1"},
    {"3x3.padded", "[1,5,6,2]", "[1,3,3,2]", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0"},
    {"overlapping", "[9]", "[7]", "size=3"},
    {"prefix", "[9]", "[9]", "size=9 pad=8_0"},
    {"window-dilated", "[4,11]", "[4,7]", "size=1x3 rhs_dilate=1x2"},
    {"base-dilated", "[5]", "[8]", "size=2 lhs_dilate=2"},
    {"global", "[2,4,4,3]", "[2,1,1,3]", "size=1x4x4x1"},
    {"mostly-padding", "[2]", "[6]", "size=2 pad=2_3"},
};

void add_windows(std::vector<OpCase>& table) {
  for (const std::string dtype : {"f32", "f64", "bf16", "s32"}) {
    for (const std::string opcode : {"add", "maximum", "minimum"}) {
      for (const Window& w : kWindows) {
        OpCase c;
        c.name = "reduce-window." + opcode + "." + w.name + "." + dtype;
        c.hlo =
            module_text({dtype + w.from},
                        "  i = " + dtype + "[] constant(" + identity_of(opcode, dtype) +
                            ")\n  ROOT r = " + dtype + w.to + " reduce-window(p0, i), window={" +
                            w.window + "}, to_apply=" + reducer_name(opcode, dtype),
                        reducer(opcode, dtype));
        c.tolerance = opcode == "add" ? sum_tolerance(dtype) : 0;
        const bool smooth = opcode != "minimum" && std::string(w.name) != "mostly-padding";
        if (smooth && (dtype == "f32" || dtype == "f64")) c.differentiable = {0};
        table.push_back(std::move(c));
      }
    }
  }
  table.push_back({"reduce-window.variadic",
                   module_text({"f32[12]"},
                               "  n = s32[12] iota(), iota_dimension=0\n"
                               "  m = f32[] constant(-inf)\n  z = s32[] constant(0)\n"
                               "  ROOT r = (f32[6], s32[6]) reduce-window(p0, n, m, z), "
                               "window={size=2 stride=2}, to_apply=argmax",
                               argmax("f32")),
                   0,
                   {},
                   {}});
}

void add_select_and_scatter(std::vector<OpCase>& table) {
  const Window windows[] = {
      {"2x2", "[2,6,8,3]", "[2,3,4,3]", "size=1x2x2x1 stride=1x2x2x1"},
      {"3x3.padded", "[1,5,6,2]", "[1,3,3,2]", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0"},
      {"overlapping", "[9]", "[7]", "size=3"},
      {"gaps", "[9]", "[3]", "size=2 stride=3"},
  };
  for (const std::string dtype : {"f32", "f64", "bf16", "s32"}) {
    const std::string select =
        "ge {\n  a = " + dtype + "[] parameter(0)\n  b = " + dtype +
        "[] parameter(1)\n  ROOT k = pred[] compare(a, b), direction=GE\n}\n";
    for (const Window& w : windows) {
      OpCase c;
      c.name = "select-and-scatter." + std::string(w.name) + "." + dtype;
      c.hlo = module_text({dtype + w.from, dtype + w.to},
                          "  i = " + dtype + "[] constant(0)\n  ROOT r = " + dtype + w.from +
                              " select-and-scatter(p0, p1, i), window={" + w.window +
                              "}, select=ge, scatter=" + reducer_name("add", dtype),
                          select + reducer("add", dtype));
      c.tolerance = sum_tolerance(dtype);
      if (dtype == "f32" || dtype == "f64") c.differentiable = {1};
      table.push_back(std::move(c));
    }
  }
}

}  // namespace

void add_reduction_cases(std::vector<OpCase>& table) {
  for (const std::string dtype : {"f32", "f64", "f16", "bf16", "s32", "u8", "s64"}) {
    for (const std::string opcode : {"add", "maximum", "minimum", "multiply"}) {
      if (opcode == "minimum" && dtype == "u8") continue;
      if (opcode == "maximum" && dtype == "u8") continue;
      add_reduce(table, opcode, dtype, "all", "[3,5,7]", "[]", "{0,1,2}");
      add_reduce(table, opcode, dtype, "rows", "[5,17]", "[5]", "{1}");
      add_reduce(table, opcode, dtype, "columns", "[5,17]", "[17]", "{0}");
      add_reduce(table, opcode, dtype, "middle", "[3,9,4]", "[3,4]", "{1}");
      add_reduce(table, opcode, dtype, "outer", "[3,4,5]", "[4]", "{0,2}");
      add_reduce(table, opcode, dtype, "long", "[1000]", "[]", "{0}");
      add_reduce(table, opcode, dtype, "none", "[3,4]", "[3,4]", "{}");
      add_reduce(table, opcode, dtype, "nothing", "[0,4]", "[4]", "{0}");
    }
  }
  for (const char* opcode : {"and", "or"}) {
    for (const std::string dtype : {"pred", "s32"}) {
      add_reduce(table, opcode, dtype, "rows", "[5,17]", "[5]", "{1}");
      add_reduce(table, opcode, dtype, "columns", "[5,17]", "[17]", "{0}");
    }
  }
  for (const std::string dtype : {"f32", "f64", "bf16", "s32"}) {
    const std::string lowest = identity_of("maximum", dtype);
    const auto add = [&](const char* name, const char* from, const char* to, const char* dims) {
      const std::string counted = "s32" + std::string(from);
      table.push_back(
          {std::string("reduce.argmax.") + name + "." + dtype,
           module_text({dtype + from},
                       "  n = " + counted + " iota(), iota_dimension=1\n  m = " + dtype +
                           "[] constant(" + lowest + ")\n  z = s32[] constant(0)\n" +
                           "  ROOT r = (" + dtype + to + ", s32" + to +
                           ") reduce(p0, n, m, z), dimensions=" + dims + ", to_apply=argmax",
                       argmax(dtype)),
           0,
           {},
           {InputRange{-4, 4}}});
    };
    add("rows", "[5,17]", "[5]", "{1}");
    add("columns", "[5,17]", "[17]", "{0}");
    add("all", "[5,7]", "[]", "{0,1}");
  }
  // A reducer that is no single operation: the running sum of squares.
  table.push_back({"reduce.squares.f32",
                   module_text({"f32[6,20]"},
                               "  z = f32[] constant(0)\n"
                               "  ROOT r = f32[6] reduce(p0, z), dimensions={1}, to_apply=squares",
                               "squares {\n  s = f32[] parameter(0)\n  x = f32[] parameter(1)\n"
                               "  q = f32[] multiply(x, x)\n  ROOT t = f32[] add(s, q)\n}\n"),
                   2e-6,
                   {},
                   {}});
  table.push_back({"reduce.initial.f32",
                   module_text({"f32[6,20]", "f32[]"},
                               "  ROOT r = f32[6] reduce(p0, p1), dimensions={1}, to_apply=add_f32",
                               reducer("add", "f32")),
                   2e-6,
                   {},
                   {}});
  table.push_back({"reduce.special.f32",
                   module_text({"f32[40,5]"},
                               "  i = f32[] constant(-inf)\n  ROOT r = f32[40] reduce(p0, i), "
                               "dimensions={1}, to_apply=maximum_f32",
                               reducer("maximum", "f32")),
                   0,
                   {},
                   {InputRange{-3, 3, true}}});
  table.push_back({"reduce.mixed.bf16.f32",
                   module_text({"bf16[6,20]"},
                               "  z = f32[] constant(0)\n"
                               "  ROOT r = f32[6] reduce(p0, z), dimensions={1}, to_apply=add_f32",
                               reducer("add", "f32")),
                   2e-6,
                   {},
                   {}});
  add_windows(table);
  add_select_and_scatter(table);
}

}  // namespace plimsoll::cases
