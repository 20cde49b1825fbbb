// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/op_cases.h"

#include "tests/cases/op_case_groups.h"

namespace plimsoll::cases {

std::string module_text(const std::vector<std::string>& parameters, std::string_view body,
                        std::string_view computations) {
  std::string text = "HloModule case\n\n";
  text += computations;
  text += "\nENTRY main {\n";
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    text += "  p" + std::to_string(i) + " = " + parameters[i] + " parameter(" + std::to_string(i) +
            ")\n";
  }
  text += body;
  if (text.back() != '\n') text += "\n";
  return text + "}\n";
}

std::string reducer_name(std::string_view opcode, std::string_view dtype) {
  return std::string(opcode) + "_" + std::string(dtype);
}

std::string reducer(std::string_view opcode, std::string_view dtype) {
  const std::string name = reducer_name(opcode, dtype);
  const std::string scalar = std::string(dtype) + "[]";
  return name + " {\n  " + name + "_a = " + scalar + " parameter(0)\n  " + name + "_b = " + scalar +
         " parameter(1)\n  ROOT " + name + "_r = " + scalar + " " + std::string(opcode) + "(" +
         name + "_a, " + name + "_b)\n}\n";
}

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> table = [] {
    std::vector<OpCase> cases;
    add_elementwise_cases(cases);
    add_integer_cases(cases);
    add_movement_cases(cases);
    add_contraction_cases(cases);
    add_reduction_cases(cases);
    add_irregular_cases(cases);
    add_control_cases(cases);
    return cases;
  }();
  return table;
}

}  // namespace plimsoll::cases
