// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "runtime/base/environment.h"

namespace plimsoll {
namespace {

TEST(EnvironmentPage, HasARowForEveryVariable) {
  std::ifstream file(PLIMSOLL_SOURCE_DIR "/docs/environment.md");
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const VariableInfo& variable : all_variables()) {
    const auto row = page.find("| `" + std::string(variable.name) + "` |");
    ASSERT_NE(row, std::string::npos) << variable.name;
    const std::string line = page.substr(row, page.find('\n', row) - row);
    // Choices stand in brackets in the table's help, and in a column of their own on the page.
    const std::string_view help = variable.help.substr(0, variable.help.find(" ["));
    EXPECT_NE(line.find(help), std::string::npos) << line;
    if (!variable.default_text.empty()) {
      EXPECT_NE(line.find("| `" + std::string(variable.default_text) + "` |"), std::string::npos)
          << line;
    }
  }
}

}  // namespace
}  // namespace plimsoll
