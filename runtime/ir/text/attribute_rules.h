// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/attributes.h"
#include "runtime/ir/opcode.h"
#include "runtime/ir/text/cursor.h"

// The attributes of HLO text, each read and printed by one rule.
namespace plimsoll::ir {

// The groups of Attributes while they are being read.
using AttributeGroups = std::tuple<DotDimensions, ConvolutionDimensions, GatherDimensions,
                                   ScatterDimensions, CollectiveAttributes>;

// How one attribute of HLO text is read and printed. What the opcode has besides is verbatim text.
struct AttributeRule {
  enum class Printed : std::uint8_t {
    if_set,    // when it is not at its default
    anywhere,  // when it is not at its default, by opcodes that do not read it, too
    always,
    and_required,  // always, and text without it is refused
  };
  // Of a number or of the numbers in a list: what an error calls it, and the bounds.
  struct Range {
    std::string_view what;
    std::int64_t least = 0;
    std::int64_t most = kMaxInteger;
  };

  std::string_view name;
  bool (*applies)(Opcode);  // to what it is read for
  Printed printed;
  Range range;
  Status (*read)(const AttributeRule&, Cursor&, Attributes&, AttributeGroups&);
  // Appends `, name=value`.
  void (*print)(const AttributeRule&, const Attributes&, std::string& text);
};

// Those by which an opcode's attributes are read or printed, in the order of printing. Theirs are
// all fields of Attributes that have a name; one without a rule does not compile.
const std::vector<const AttributeRule*>& rules_of(Opcode opcode);

// True for the opcodes whose CollectiveAttributes are read and printed.
bool has_collective_attributes(Opcode opcode);

}  // namespace plimsoll::ir
