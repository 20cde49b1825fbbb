// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/op_cases.h"

#include <algorithm>
#include <cctype>

#include "runtime/ir/shapes/verifier.h"
#include "runtime/ir/text/text.h"
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

std::string with_dtype(std::string text, const std::string& dtype) {
  for (std::size_t at = 0; (at = text.find("T[", at)) != std::string::npos; at += dtype.size()) {
    text.replace(at, 1, dtype);
  }
  return text;
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

namespace {

// Calls `visit(begin, end)` for the text of every extent in shapes such as `f32[3,17]`.
template <typename Visit>
void each_extent(const std::string& hlo, Visit visit) {
  for (std::size_t at = hlo.find('['); at != std::string::npos; at = hlo.find('[', at + 1)) {
    if (at == 0 || std::isalnum(static_cast<unsigned char>(hlo[at - 1])) == 0) continue;
    std::size_t begin = at + 1;
    while (begin < hlo.size() && std::isdigit(static_cast<unsigned char>(hlo[begin])) != 0) {
      std::size_t end = begin;
      while (std::isdigit(static_cast<unsigned char>(hlo[end])) != 0) ++end;
      visit(begin, end);
      if (hlo[end] != ',') break;
      begin = end + 1;
    }
  }
}

}  // namespace

std::string resized(const OpCase& op_case, std::int64_t extent) {
  const std::string& hlo = op_case.hlo;
  const auto number = [&](std::size_t begin, std::size_t end) {
    return std::stoll(hlo.substr(begin, end - begin));
  };
  std::int64_t largest = 0;
  each_extent(hlo, [&](std::size_t begin, std::size_t end) {
    largest = std::max<std::int64_t>(largest, number(begin, end));
  });
  if (largest <= 4) return "";
  std::string text;
  std::size_t copied = 0;
  each_extent(hlo, [&](std::size_t begin, std::size_t end) {
    if (number(begin, end) != largest) return;
    text += hlo.substr(copied, begin - copied) + std::to_string(extent);
    copied = end;
  });
  text += hlo.substr(copied);
  const auto module = ir::parse_module(text);
  return module.ok() && ir::verify(**module).ok() ? text : "";
}

}  // namespace plimsoll::cases
