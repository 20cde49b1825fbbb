// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/op_case_groups.h"

namespace plimsoll::cases {
namespace {

struct Movement {
  const char* name;
  std::vector<std::string> parameters;  // "T" stands for the dtype
  const char* root;
  std::vector<int> differentiable;
  std::vector<InputRange> ranges;
};

const std::vector<Movement>& movements() {
  static const InputRange any{-2, 2}, near{-4, 9};
  static const std::vector<Movement> all = {
      {"broadcast.scalar", {"T[]"}, "T[3,5] broadcast(p0), dimensions={}", {0}, {}},
      {"broadcast.rows", {"T[3]"}, "T[3,17] broadcast(p0), dimensions={0}", {0}, {}},
      {"broadcast.columns", {"T[17]"}, "T[3,17] broadcast(p0), dimensions={1}", {0}, {}},
      {"broadcast.outer", {"T[2,5]"}, "T[2,3,5,4] broadcast(p0), dimensions={0,2}", {0}, {}},
      {"broadcast.empty", {"T[3]"}, "T[0,3] broadcast(p0), dimensions={1}", {}, {}},
      {"reshape.flat", {"T[3,5,7]"}, "T[105] reshape(p0)", {0}, {}},
      {"reshape.split", {"T[12]"}, "T[2,1,3,2] reshape(p0)", {0}, {}},
      {"reshape.scalar", {"T[1,1]"}, "T[] reshape(p0)", {0}, {}},
      {"bitcast.flat", {"T[4,6]"}, "T[24] bitcast(p0)", {}, {}},
      {"bitcast.layout", {"T[4,6]{1,0}"}, "T[6,4]{0,1} bitcast(p0)", {}, {}},
      {"transpose.2d", {"T[5,17]"}, "T[17,5] transpose(p0), dimensions={1,0}", {0}, {}},
      {"transpose.large", {"T[33,65]"}, "T[65,33] transpose(p0), dimensions={1,0}", {}, {}},
      {"transpose.4d", {"T[2,3,5,4]"}, "T[5,2,4,3] transpose(p0), dimensions={2,0,3,1}", {0}, {}},
      {"transpose.identity", {"T[2,3]"}, "T[2,3] transpose(p0), dimensions={0,1}", {0}, {}},
      {"slice.plain", {"T[7,11]"}, "T[3,4] slice(p0), slice={[2:5], [1:5]}", {0}, {}},
      {"slice.stride", {"T[7,11]"}, "T[3,4] slice(p0), slice={[1:7:2], [0:11:3]}", {0}, {}},
      {"slice.empty", {"T[7]"}, "T[0] slice(p0), slice={[3:3]}", {}, {}},
      {"concatenate.one", {"T[3,4]"}, "T[3,4] concatenate(p0), dimensions={0}", {0}, {}},
      {"concatenate.rows",
       {"T[3,4]", "T[1,4]", "T[2,4]"},
       "T[6,4] concatenate(p0, p1, p2), dimensions={0}",
       {0, 1, 2},
       {}},
      {"concatenate.columns",
       {"T[3,4]", "T[3,0]", "T[3,9]"},
       "T[3,13] concatenate(p0, p1, p2), dimensions={1}",
       {0, 2},
       {}},
      {"concatenate.twice", {"T[5]"}, "T[10] concatenate(p0, p0), dimensions={0}", {0}, {}},
      {"pad.both", {"T[3,5]", "T[]"}, "T[6,9] pad(p0, p1), padding=1_2x3_1", {0, 1}, {}},
      {"pad.interior", {"T[3,5]", "T[]"}, "T[8,15] pad(p0, p1), padding=1_0_2x0_2_2", {0, 1}, {}},
      {"pad.negative", {"T[7,5]", "T[]"}, "T[4,6] pad(p0, p1), padding=-2_-1x-1_2", {0, 1}, {}},
      {"pad.negative-interior", {"T[5]", "T[]"}, "T[7] pad(p0, p1), padding=-1_-1_1", {0, 1}, {}},
      {"reverse.one", {"T[3,5]"}, "T[3,5] reverse(p0), dimensions={1}", {0}, {}},
      {"reverse.all", {"T[3,5,2]"}, "T[3,5,2] reverse(p0), dimensions={0,1,2}", {0}, {}},
      {"dynamic-slice.s32",
       {"T[7,11]", "s32[]", "s32[]"},
       "T[3,4] dynamic-slice(p0, p1, p2), dynamic_slice_sizes={3,4}",
       {0},
       {any, near, near}},
      {"dynamic-slice.u8",
       {"T[9]", "u8[]"},
       "T[2] dynamic-slice(p0, p1), dynamic_slice_sizes={2}",
       {0},
       {any, {3, 20}}},
      {"dynamic-update-slice.s32",
       {"T[7,11]", "T[2,3]", "s32[]", "s32[]"},
       "T[7,11] dynamic-update-slice(p0, p1, p2, p3)",
       {0, 1},
       {any, any, near, near}},
      {"dynamic-update-slice.s64",
       {"T[9]", "T[9]", "s64[]"},
       "T[9] dynamic-update-slice(p0, p1, p2)",
       {1},
       {any, any, near}},
      {"copy.2d", {"T[5,9]"}, "T[5,9] copy(p0)", {0}, {}},
  };
  return all;
}

}  // namespace

void add_movement_cases(std::vector<OpCase>& table) {
  for (const std::string dtype : {"f32", "f64", "bf16", "f16", "s32", "u8", "pred", "s64"}) {
    const bool gradients = dtype == "f32" || dtype == "f64";
    for (const Movement& movement : movements()) {
      OpCase c;
      c.name = std::string(movement.name) + "." + dtype;
      std::vector<std::string> parameters;
      for (const std::string& p : movement.parameters) parameters.push_back(with_dtype(p, dtype));
      c.hlo = module_text(parameters, "  ROOT r = " + with_dtype(movement.root, dtype));
      if (gradients) c.differentiable = movement.differentiable;
      c.ranges = movement.ranges;
      table.push_back(std::move(c));
    }
  }
  for (const std::string dtype : {"s8", "u16", "s32", "u64", "f16", "bf16", "f32", "f64"}) {
    table.push_back({"iota.1d." + dtype,
                     module_text({}, "  ROOT r = " + dtype + "[100] iota(), iota_dimension=0"),
                     0,
                     {},
                     {}});
    table.push_back({"iota.3d." + dtype,
                     module_text({}, "  ROOT r = " + dtype + "[3,5,2] iota(), iota_dimension=1"),
                     0,
                     {},
                     {}});
  }
  table.push_back(
      {"iota.wrapping", module_text({}, "  ROOT r = u8[300] iota(), iota_dimension=0"), 0, {}, {}});
  table.push_back(
      {"constant.array",
       module_text({}, "  ROOT r = f32[2,3] constant({ {1, -2, 0.5}, {inf, -inf, 3e-40} })"),
       0,
       {},
       {}});
  table.push_back({"constant.tuple",
                   module_text({"s32[3]"},
                               "  c = s32[] constant(7)\n"
                               "  b = s32[3] broadcast(c), dimensions={}\n"
                               "  s = s32[3] add(p0, b)\n"
                               "  ROOT r = (s32[3], s32[]) tuple(s, c)"),
                   0,
                   {},
                   {}});
}

}  // namespace plimsoll::cases
