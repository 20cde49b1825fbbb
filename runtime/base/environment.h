// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/byte_size.h"
#include "runtime/base/status.h"

namespace plimsoll {

enum class Variable : std::uint8_t {
#define PLIMSOLL_ENVIRONMENT(enumerator, name, kind, default_text, help) enumerator,
#include "runtime/base/environment.def"
#undef PLIMSOLL_ENVIRONMENT
};

enum class VariableKind : std::uint8_t {
  memory_limit,
  count,
  choice,
  list,
  list_to_path,
  size,
  number,
  path
};
enum class VariableOrigin : std::uint8_t { default_, environment };

// One row of environment.def.
struct VariableInfo {
  Variable variable;
  std::string_view name;
  VariableKind kind;
  std::string_view default_text;
  std::string_view help;
};
std::span<const VariableInfo> all_variables();
const VariableInfo& variable_info(Variable variable);

// The text in force and where it comes from. A variable that is set but empty counts as not set.
// Reads the process environment at each call; the caller must not change it at the same time.
struct VariableText {
  std::string text;
  VariableOrigin origin = VariableOrigin::default_;
};
VariableText variable_text(Variable variable);

// Is the text of `variable` one its kind allows? The INVALID_ARGUMENT names the variable and the
// grammar. An empty text (none set, empty default) is fine.
Status check_variable(Variable variable);
// Every variable of the table; the first bad one.
Status check_environment();

// What PLIMSOLL_NUM_THREADS may ask for.
inline constexpr std::int64_t kMostThreads = 1024;

// The value of a `count` variable, or `otherwise` when it is empty.
Result<std::int64_t> count_variable(Variable variable, std::int64_t otherwise);
// The value of a `choice` variable: one of its words.
Result<std::string> choice_variable(Variable variable);
// The words of a `list` or `list_to_path` variable, and the path of the latter; all empty when the
// variable is.
struct ListValue {
  std::vector<std::string> words;
  std::string path;
  bool has(std::string_view word) const;
};
Result<ListValue> list_variable(Variable variable);
// The bytes of a `size` variable, or `otherwise` when it is empty.
Result<std::int64_t> size_variable(Variable variable, std::int64_t otherwise);
// The value of a `number` variable with a default.
Result<double> number_variable(Variable variable);

// For flags that take what a variable takes; `what` names the flag.
Result<std::int64_t> parse_size(std::string_view text, std::string_view what);
Result<double> parse_number(std::string_view text, std::string_view what);

}  // namespace plimsoll
