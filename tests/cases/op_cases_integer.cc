// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/op_case_groups.h"

namespace plimsoll::cases {
namespace {

// Every opcode of a list on one dtype, as one program with a tuple of results.
std::string all_of(const std::vector<std::string>& opcodes, const std::string& shape,
                   const std::string& arguments) {
  std::string body, types, names;
  for (const std::string& opcode : opcodes) {
    const std::string name = "v" + std::to_string(names.size());
    body += "  " + name + " = " + shape + " " + opcode + arguments + "\n";
    types += (types.empty() ? "" : ", ") + shape;
    names += (names.empty() ? "" : ", ") + name;
  }
  return body + "  ROOT r = (" + types + ") tuple(" + names + ")";
}

}  // namespace

void add_integer_cases(std::vector<OpCase>& table) {
  const std::vector<std::string> arithmetic = {"add",       "subtract", "multiply", "divide",
                                               "remainder", "maximum",  "minimum",  "power"};
  const std::vector<std::string> bitwise = {"and", "or", "xor"};
  const std::vector<std::string> shifts = {"shift-left", "shift-right-logical",
                                           "shift-right-arithmetic"};
  const std::vector<std::string> unary = {
      "abs", "negate", "sign", "not", "popcnt", "count-leading-zeros", "copy"};
  for (const std::string dtype : {"s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"}) {
    const std::string shape = dtype + "[259]";
    const InputRange small{-9, 9}, special{-100, 100, true}, amounts{-3, 70};
    table.push_back({"integer.arithmetic." + dtype,
                     module_text({shape, shape}, all_of(arithmetic, shape, "(p0, p1)")),
                     0,
                     {},
                     {small, small}});
    table.push_back({"integer.arithmetic.special." + dtype,
                     module_text({shape, shape}, all_of(arithmetic, shape, "(p0, p1)")),
                     0,
                     {},
                     {special, special}});
    table.push_back({"integer.bitwise." + dtype,
                     module_text({shape, shape}, all_of(bitwise, shape, "(p0, p1)")),
                     0,
                     {},
                     {special, special}});
    table.push_back({"integer.shifts." + dtype,
                     module_text({shape, shape}, all_of(shifts, shape, "(p0, p1)")),
                     0,
                     {},
                     {special, amounts}});
    table.push_back({"integer.unary." + dtype,
                     module_text({shape}, all_of(unary, shape, "(p0)")),
                     0,
                     {},
                     {special}});
  }
  table.push_back({"pred.binary",
                   module_text({"pred[67]", "pred[67]"},
                               all_of({"and", "or", "xor", "add", "multiply", "maximum", "minimum"},
                                      "pred[67]", "(p0, p1)")),
                   0,
                   {},
                   {}});
  table.push_back({"pred.unary",
                   module_text({"pred[67]"}, all_of({"not", "copy"}, "pred[67]", "(p0)")),
                   0,
                   {},
                   {}});
}

}  // namespace plimsoll::cases
