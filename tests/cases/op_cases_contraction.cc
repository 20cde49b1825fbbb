// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/op_case_groups.h"

namespace plimsoll::cases {
namespace {

struct Contraction {
  const char* name;
  const char* lhs;
  const char* rhs;
  const char* result;
  const char* attributes;
};

const Contraction kDots[] = {
    {"matrix", "[5,7]", "[7,3]", "[5,3]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"matrix.17x33x9", "[17,33]", "[33,9]", "[17,9]",
     "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"lhs-transposed", "[7,5]", "[7,3]", "[5,3]",
     "lhs_contracting_dims={0}, rhs_contracting_dims={0}"},
    {"rhs-transposed", "[5,7]", "[3,7]", "[5,3]",
     "lhs_contracting_dims={1}, rhs_contracting_dims={1}"},
    {"both-transposed", "[7,5]", "[3,7]", "[5,3]",
     "lhs_contracting_dims={0}, rhs_contracting_dims={1}"},
    {"vectors", "[17]", "[17]", "[]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}"},
    {"matrix-vector", "[5,7]", "[7]", "[5]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"vector-matrix", "[7]", "[7,4]", "[4]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}"},
    {"outer", "[5]", "[4]", "[5,4]", ""},
    {"one", "[1,1]", "[1,1]", "[1,1]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"no-inner", "[3,0]", "[0,4]", "[3,4]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"no-rows", "[0,3]", "[3,4]", "[0,4]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"batch", "[3,5,7]", "[3,7,4]", "[3,5,4]",
     "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}"},
    {"batch.attention", "[2,3,5,4]", "[2,3,6,4]", "[2,3,5,6]",
     "lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, "
     "rhs_contracting_dims={3}"},
    {"batch.inner-position", "[5,3,7]", "[7,4,3]", "[3,5,4]",
     "lhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_batch_dims={2}, rhs_contracting_dims={0}"},
    {"two-inner", "[4,3,5]", "[5,6,3]", "[4,6]",
     "lhs_contracting_dims={1,2}, rhs_contracting_dims={2,0}"},
    {"many-free", "[2,3,4]", "[4,5,2]", "[2,3,5,2]",
     "lhs_contracting_dims={2}, rhs_contracting_dims={0}"},
};

const Contraction kConvolutions[] = {
    {"1x1", "[2,5,6,3]", "[1,1,3,4]", "[2,5,6,4]", "window={size=1x1}, dim_labels=b01f_01io->b01f"},
    {"3x3.same", "[2,5,6,3]", "[3,3,3,4]", "[2,5,6,4]",
     "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"},
    {"3x3.valid", "[1,7,6,2]", "[3,3,2,5]", "[1,5,4,5]",
     "window={size=3x3}, dim_labels=b01f_01io->b01f"},
    {"stride", "[2,8,9,3]", "[3,3,3,4]", "[2,4,5,4]",
     "window={size=3x3 stride=2x2 pad=0_1x1_1}, dim_labels=b01f_01io->b01f"},
    {"asymmetric", "[1,6,5,2]", "[2,4,2,3]", "[1,7,3,3]",
     "window={size=2x4 pad=2_0x0_1}, dim_labels=b01f_01io->b01f"},
    {"nchw", "[2,3,5,6]", "[4,3,3,3]", "[2,4,5,6]",
     "window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01"},
    {"labels.mixed", "[5,2,6,3]", "[3,4,3,3]", "[2,4,5,6]",
     "window={size=3x3 pad=1_1x1_1}, dim_labels=0b1f_io01->bf01"},
    {"depthwise", "[2,6,6,4]", "[3,3,1,4]", "[2,6,6,4]",
     "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=4"},
    {"grouped", "[2,5,5,4]", "[3,3,2,6]", "[2,3,3,6]",
     "window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=2"},
    {"batch-grouped", "[4,5,5,3]", "[3,3,3,4]", "[2,3,3,4]",
     "window={size=3x3}, dim_labels=b01f_01io->b01f, batch_group_count=2"},
    {"rhs-dilated", "[1,9,9,2]", "[3,3,2,3]", "[1,5,5,3]",
     "window={size=3x3 rhs_dilate=2x2}, dim_labels=b01f_01io->b01f"},
    {"lhs-dilated", "[1,4,4,2]", "[3,3,2,3]", "[1,7,7,3]",
     "window={size=3x3 pad=1_1x1_1 lhs_dilate=2x2}, dim_labels=b01f_01io->b01f"},
    {"reversed", "[1,5,5,2]", "[3,2,2,3]", "[1,3,4,3]",
     "window={size=3x2 rhs_reversal=1x1}, dim_labels=b01f_01io->b01f"},
    {"input-gradient", "[2,4,4,3]", "[3,3,2,3]", "[2,8,8,2]",
     "window={size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f"},
    {"filter-gradient", "[4,6,6,3]", "[4,6,6,5]", "[3,3,3,5]",
     "window={size=6x6 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf"},
    {"transposed-filter-gradient", "[2,4,3,3]", "[2,8,6,5]", "[3,2,3,5]",
     "window={size=8x6 pad=1_2x1_1 lhs_dilate=2x2}, dim_labels=f01b_i01o->01bf"},
    {"1d", "[2,9,3]", "[4,3,5]", "[2,6,5]", "window={size=4}, dim_labels=b0f_0io->b0f"},
    {"3d", "[1,4,5,3,2]", "[2,2,2,2,3]", "[1,3,4,2,3]",
     "window={size=2x2x2}, dim_labels=b012f_012io->b012f"},
    {"no-spatial", "[5,3]", "[3,4]", "[5,4]", "dim_labels=bf_io->bf"},
    {"negative-padding", "[1,7,7,2]", "[3,3,2,3]", "[1,3,3,3]",
     "window={size=3x3 pad=-1_-1x-1_-1}, dim_labels=b01f_01io->b01f"},
};

double tolerance_of(const std::string& dtype) {
  if (dtype == "f32") return 1e-5;
  if (dtype == "f64") return 1e-13;
  if (dtype == "f16") return 2e-3;
  if (dtype == "bf16") return 1.6e-2;
  return 0;
}

void add_contraction(std::vector<OpCase>& table, const std::string& opcode, const Contraction& c,
                     const std::string& dtype) {
  OpCase row;
  row.name = opcode + "." + c.name + "." + dtype;
  std::string attributes = c.attributes;
  if (!attributes.empty()) attributes = ", " + attributes;
  row.hlo = module_text({dtype + c.lhs, dtype + c.rhs},
                        "  ROOT r = " + dtype + c.result + " " + opcode + "(p0, p1)" + attributes);
  row.tolerance = tolerance_of(dtype);
  if (dtype == "f32" || dtype == "f64") row.differentiable = {0, 1};
  table.push_back(std::move(row));
}

}  // namespace

void add_contraction_cases(std::vector<OpCase>& table) {
  for (const std::string dtype : {"f32", "bf16", "f16", "f64", "s32"}) {
    for (const Contraction& c : kDots) add_contraction(table, "dot", c, dtype);
  }
  for (const std::string dtype : {"f32", "bf16", "f64"}) {
    for (const Contraction& c : kConvolutions) add_contraction(table, "convolution", c, dtype);
  }
  table.push_back({"dot.s8.to.s32",
                   module_text({"s8[5,9]", "s8[9,4]"},
                               "  ROOT r = s32[5,4] dot(p0, p1), lhs_contracting_dims={1}, "
                               "rhs_contracting_dims={0}"),
                   0,
                   {},
                   {InputRange{-120, 120}, InputRange{-120, 120}}});
  table.push_back({"dot.bf16.to.f32",
                   module_text({"bf16[5,9]", "bf16[9,4]"},
                               "  ROOT r = f32[5,4] dot(p0, p1), lhs_contracting_dims={1}, "
                               "rhs_contracting_dims={0}"),
                   1e-5,
                   {},
                   {}});
}

}  // namespace plimsoll::cases
