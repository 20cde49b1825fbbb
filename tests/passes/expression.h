// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>

#include "runtime/ir/shapes/verifier.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"

namespace plimsoll::passes {

inline std::unique_ptr<ir::Module> parse(const std::string& text) {
  auto module = ir::parse_module(text, "test");
  EXPECT_TRUE(module.ok()) << module.status().message();
  return module.ok() ? std::move(*module) : nullptr;
}

// A value as a nested expression: `add(p0, 2)`; parameters by number, one-element constants by
// value, tuple elements as `x#1`, fusions as `fusion{body on p0.. of its own}(operands)`.
inline std::string expression(const ir::Instruction& value) {
  std::ostringstream text;
  switch (value.opcode()) {
    case ir::Opcode::parameter:
      text << "p" << value.attributes().parameter_number;
      return text.str();
    case ir::Opcode::constant:
      if (value.shape().is_array() && value.shape().element_count() == 1) {
        text << value.attributes().literal->at(0);
      } else {
        text << "constant" << value.shape().to_string();
      }
      return text.str();
    case ir::Opcode::get_tuple_element:
      text << expression(*value.operand(0)) << "#" << value.attributes().tuple_index;
      return text.str();
    default:
      break;
  }
  text << to_string(value.opcode());
  if (value.opcode() == ir::Opcode::fusion) {
    text << "{" << expression(*value.to_apply()->root()) << "}";
  }
  text << "(";
  for (int i = 0; i < value.operand_count(); ++i) {
    text << (i > 0 ? ", " : "") << expression(*value.operand(i));
  }
  text << ")";
  return text.str();
}

// The entry's root after `pass`, which must leave a valid module.
template <typename Pass>
std::string after(Pass pass, const std::string& text) {
  auto module = parse(text);
  if (module == nullptr) return "";
  const Result<bool> changed = pass(*module);
  EXPECT_TRUE(changed.ok()) << changed.status().message();
  const Status valid = ir::verify(*module);
  EXPECT_TRUE(valid.ok()) << valid.message() << "\n" << ir::to_text(*module);
  return expression(*module->entry()->root());
}

// `after` for an entry computation given by its lines.
template <typename Pass>
std::string entry_after(Pass pass, const std::string& lines) {
  return after(pass, "HloModule m\nENTRY e {\n" + lines + "\n}\n");
}

}  // namespace plimsoll::passes
