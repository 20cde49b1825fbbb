// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "runtime/ir/module.h"
#include "runtime/ir/text/text.h"

namespace plimsoll::planner {

// The module of a text; a failure, and null, where it is none.
inline std::unique_ptr<ir::Module> parse(const std::string& text) {
  auto module = ir::parse_module(text);
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  return module.ok() ? std::move(*module) : nullptr;
}

}  // namespace plimsoll::planner
