// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/kernel_bandwidth/cases.h"

#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "runtime/ir/dtype.h"
#include "runtime/ir/text/text.h"

namespace plimsoll::benchmarks {

using ir::Opcode;

const std::vector<BandwidthCase>& bandwidth_cases() {
  static const std::vector<BandwidthCase> cases = {
#include "benchmarks/kernel_bandwidth/cases.def"
  };
  return cases;
}

namespace {

constexpr std::string_view kReducers =
    "sum { a = $T[] parameter(0)\n b = $T[] parameter(1)\n ROOT r = $T[] add(a, b) }\n"
    "most { a = $T[] parameter(0)\n b = $T[] parameter(1)\n ROOT r = $T[] maximum(a, b) }\n"
    "sum_f32 { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n"
    "most_f32 { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] maximum(a, b) }\n";

void replace_all(std::string& text, std::string_view what, const std::string& by) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
}

std::string filled(std::string text, const std::string& dtype, std::int64_t elements) {
  const auto root = static_cast<std::int64_t>(std::sqrt(static_cast<double>(elements))) / 64 * 64;
  const std::array<std::pair<std::string_view, std::string>, 10> places = {{
      {"$T", dtype},
      {"$N", std::to_string(elements)},
      {"$R", std::to_string(elements / 1024)},
      {"$H", std::to_string(elements / 2048)},
      {"$E", std::to_string(elements / 8)},
      {"$Q", std::to_string(elements / 64)},
      {"$K", std::to_string(elements / 256)},
      {"$L", std::to_string(elements / 16384)},
      {"$I", std::to_string(elements / 65536)},
      {"$S", std::to_string(root)},
  }};
  for (const auto& [place, by] : places) replace_all(text, place, by);
  return text;
}

std::int64_t operand_bytes(const ir::Instruction& parameter) {
  std::int64_t sliced = 0;
  for (const ir::Instruction* user : parameter.users()) {
    const bool first = user->operand(0) == &parameter;
    if (first && user->opcode() == Opcode::dynamic_update_slice) continue;
    if (!first || (user->opcode() != Opcode::slice && user->opcode() != Opcode::dynamic_slice)) {
      return parameter.shape().byte_size();
    }
    sliced += user->shape().byte_size();
  }
  return sliced;
}

}  // namespace

Result<PreparedCase> prepare(const BandwidthCase& c, const std::string& dtype,
                             std::int64_t array_bytes) {
  const auto type = ir::parse_dtype(dtype);
  if (!type) return invalid_argument("dtype '" + dtype + "' (known are HLO's)");
  const std::string text = filled(std::string(kReducers) + "ENTRY body {\n" + c.text + "\n}\n",
                                  dtype, array_bytes / ir::dtype_bytes(*type));
  PreparedCase prepared;
  PLIMSOLL_ASSIGN_OR_RETURN(prepared.module, ir::parse_module("HloModule bandwidth\n" + text));
  ir::Computation* body = prepared.module->entry();
  ir::Computation* around = prepared.module->add_computation("around");
  std::vector<ir::Instruction*> operands;
  const ir::Instruction& root = *body->root();
  prepared.in_place.assign(ir::leaves(root.shape()).size(), -1);
  for (const ir::Instruction* parameter : body->parameters()) {
    const auto number = static_cast<int>(operands.size());
    operands.push_back(around->add_parameter(number, parameter->shape()));
    prepared.bytes += operand_bytes(*parameter);
    const std::string& name = parameter->name();
    if (name.starts_with("inplace")) {
      prepared.in_place.at(static_cast<std::size_t>(std::stoi(name.substr(7)))) = number;
    }
  }
  ir::Instruction* fusion = around->add(Opcode::fusion, root.shape(), operands);
  fusion->set_called_computations({body});
  prepared.fusion = fusion;
  prepared.bytes += root.opcode() == Opcode::dynamic_update_slice
                        ? root.operand(1)->shape().byte_size()
                        : root.shape().byte_size();
  return prepared;
}

}  // namespace plimsoll::benchmarks
