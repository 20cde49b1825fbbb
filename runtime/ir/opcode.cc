// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/opcode.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>

#include "runtime/base/index.h"

namespace plimsoll::ir {
namespace {

constexpr bool pure = false, effect = true;
constexpr bool inexact = false, exact = true;
constexpr bool unrecorded = false, recorded = true;

constexpr OpInfo kOps[] = {
#define PLIMSOLL_OP(number, name, text, c_name, fewest, most, op_class, rule, side_effect, dtypes, \
                    work, code, loop, folding, recording, gradient)                                \
  {text,        fewest,          most, OpClass::op_class, ShapeRule::rule,                         \
   side_effect, Accepts::dtypes, work, VectorCode::code,  LoopRole::loop,                          \
   folding,     recording},
#include "runtime/ir/ops.def"
};

#define PLIMSOLL_OP(number, name, ...) \
  static_assert(static_cast<int>(Opcode::name) == number, #name " is not in its place");
#include "runtime/ir/ops.def"

// By text.
constexpr auto kByText = [] {
  std::array<std::pair<std::string_view, Opcode>, std::size(kOps) + 1> table;
  for (std::size_t i = 0; i < std::size(kOps); ++i) {
    table[i] = {kOps[i].text, static_cast<Opcode>(i)};
  }
  table.back() = {"cross-replica-sum", Opcode::all_reduce};
  std::sort(table.begin(), table.end());
  return table;
}();

}  // namespace

const OpInfo& op_info(Opcode opcode) { return kOps[at(opcode)]; }

int opcode_count() { return static_cast<int>(std::size(kOps)); }

std::optional<Opcode> parse_opcode(std::string_view text) {
  const auto it = std::lower_bound(kByText.begin(), kByText.end(), text,
                                   [](const auto& row, auto name) { return row.first < name; });
  if (it == kByText.end() || it->first != text) return std::nullopt;
  return it->second;
}

bool is_elementwise(Opcode opcode) {
  const OpClass op_class = op_info(opcode).op_class;
  return op_class == OpClass::unary || op_class == OpClass::binary || op_class == OpClass::ternary;
}

}  // namespace plimsoll::ir
