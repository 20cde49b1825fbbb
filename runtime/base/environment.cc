// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/environment.h"

#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>

#include "runtime/base/index.h"

namespace plimsoll {
namespace {

constexpr VariableInfo kVariables[] = {
#define PLIMSOLL_ENVIRONMENT(enumerator, name, kind, default_text, help) \
  {Variable::enumerator, name, VariableKind::kind, default_text, help},
#include "runtime/base/environment.def"
#undef PLIMSOLL_ENVIRONMENT
};

// The words between the brackets of the help text, e.g. "default|greedy".
std::string_view choices(const VariableInfo& info) {
  const auto open = info.help.find('[');
  return info.help.substr(open + 1, info.help.find(']') - open - 1);
}

bool is_choice(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const auto bar = words.find('|');
    if (words.substr(0, bar) == word) return true;
    if (bar == std::string_view::npos) break;
    words.remove_prefix(bar + 1);
  }
  return false;
}

Result<std::int64_t> parse_count(const VariableInfo& info, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0) {
    return invalid_argument(std::string(info.name) + ": '" + std::string(text) +
                            "' is not a whole number above zero");
  }
  if (info.variable == Variable::num_threads && value > kMostThreads) {
    return invalid_argument(fmt::format("{}: '{}' is more than the {} threads that a pool may have",
                                        info.name, text, kMostThreads));
  }
  return value;
}

// Words that stand for a whole list.
bool stands_alone(std::string_view word) { return word == "all" || word == "none"; }

Status check_words(const VariableInfo& info, std::string_view text) {
  const std::string_view whole = text;
  while (true) {
    const auto comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    if (!is_choice(choices(info), word)) {
      return invalid_argument(std::string(info.name) + ": '" + std::string(word) +
                              "' is not one of " + std::string(choices(info)));
    }
    if (stands_alone(word) && word != whole) {
      return invalid_argument(std::string(info.name) + ": '" + std::string(word) + "' in '" +
                              std::string(whole) +
                              "' contradicts the rest; write it alone, or name some of the others");
    }
    if (comma == std::string_view::npos) return ok_status();
    text.remove_prefix(comma + 1);
  }
}

Status check_words_to_path(const VariableInfo& info, std::string_view text) {
  const auto at = text.find('@');
  PLIMSOLL_RETURN_IF_ERROR(check_words(info, text.substr(0, at)));
  if (at != std::string_view::npos && at + 1 < text.size()) return ok_status();
  return invalid_argument(std::string(info.name) + ": '" + std::string(text) +
                          "' names no folder (" + std::string(text.substr(0, at)) + "@FOLDER)");
}

Status check_text(const VariableInfo& info, std::string_view text) {
  if (text.empty()) return ok_status();
  switch (info.kind) {
    case VariableKind::memory_limit:
      // Commands take shares of a peak from it, too; contexts, which can't, say so themselves.
      if (parse_memory_limit(text, info.name).ok()) return ok_status();
      return parse_memory_limit(text, info.name, Shares::of_device).status();
    case VariableKind::count:
      return parse_count(info, text).status();
    case VariableKind::choice:
      if (is_choice(choices(info), text)) return ok_status();
      return invalid_argument(std::string(info.name) + ": '" + std::string(text) +
                              "' is not one of " + std::string(choices(info)));
    case VariableKind::list:
      return check_words(info, text);
    case VariableKind::list_to_path:
      return check_words_to_path(info, text);
    case VariableKind::size:
      return parse_size(text, info.name).status();
    case VariableKind::number:
      return parse_number(text, info.name).status();
    case VariableKind::path:
      return ok_status();
  }
  return ok_status();
}

}  // namespace

std::span<const VariableInfo> all_variables() { return kVariables; }

const VariableInfo& variable_info(Variable variable) { return kVariables[at(variable)]; }

VariableText variable_text(Variable variable) {
  const VariableInfo& info = variable_info(variable);
  const char* text = std::getenv(std::string(info.name).c_str());
  if (text == nullptr || *text == '\0') {
    return {std::string(info.default_text), VariableOrigin::default_};
  }
  return {text, VariableOrigin::environment};
}

Status check_variable(Variable variable) {
  return check_text(variable_info(variable), variable_text(variable).text);
}

Status check_environment() {
  for (const VariableInfo& info : kVariables) {
    PLIMSOLL_RETURN_IF_ERROR(check_variable(info.variable));
  }
  return ok_status();
}

Result<std::int64_t> count_variable(Variable variable, std::int64_t otherwise) {
  const std::string text = variable_text(variable).text;
  if (text.empty()) return otherwise;
  return parse_count(variable_info(variable), text);
}

bool ListValue::has(std::string_view word) const {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Result<ListValue> list_variable(Variable variable) {
  PLIMSOLL_RETURN_IF_ERROR(check_variable(variable));
  std::string text = variable_text(variable).text;
  ListValue value;
  if (variable_info(variable).kind == VariableKind::list_to_path && !text.empty()) {
    const auto at = text.find('@');
    value.path = text.substr(at + 1);
    text.resize(at);
  }
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    value.words.emplace_back(word);
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  }
  return value;
}

Result<std::int64_t> size_variable(Variable variable, std::int64_t otherwise) {
  const std::string text = variable_text(variable).text;
  if (text.empty()) return otherwise;
  return parse_size(text, variable_info(variable).name);
}

Result<double> number_variable(Variable variable) {
  return parse_number(variable_text(variable).text, variable_info(variable).name);
}

Result<std::int64_t> parse_size(std::string_view text, std::string_view what) {
  if (text == "0") return std::int64_t{0};
  return parse_byte_size(text, what);
}

Result<double> parse_number(std::string_view text, std::string_view what) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value < 1e300)) {
    return invalid_argument(std::string(what) + ": '" + std::string(text) +
                            "' is not a number, zero or above");
  }
  return value;
}

Result<std::string> choice_variable(Variable variable) {
  PLIMSOLL_RETURN_IF_ERROR(check_variable(variable));
  return variable_text(variable).text;
}

}  // namespace plimsoll
