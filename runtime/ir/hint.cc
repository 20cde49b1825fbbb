// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/hint.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::ir {
namespace {

constexpr std::string_view kFrontendAttributes = "frontend_attributes";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

std::string_view unquoted(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  return text;
}

// The parts of `{a="b",c={d,e}}` between its outermost braces and commas.
std::vector<std::string_view> entries_of(std::string_view text) {
  std::vector<std::string_view> entries;
  text = trimmed(text);
  if (text.size() < 2 || text.front() != '{' || text.back() != '}') return entries;
  text = text.substr(1, text.size() - 2);
  int depth = 0;
  bool quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : '\0';
    if (i < text.size()) {
      if (quoted) {
        if (c == '\\') ++i;
        if (c == '"') quoted = false;
        continue;
      }
      if (c == '"') quoted = true;
      if (c == '{' || c == '<' || c == '[' || c == '(') ++depth;
      if (c == '}' || c == '>' || c == ']' || c == ')') --depth;
      if (c != ',' || depth > 0) continue;
    }
    const std::string_view entry = trimmed(text.substr(begin, i - begin));
    if (!entry.empty()) entries.push_back(entry);
    begin = i + 1;
  }
  return entries;
}

std::pair<std::string_view, std::string_view> split(std::string_view entry) {
  const auto equals = entry.find('=');
  if (equals == std::string_view::npos) return {entry, {}};
  return {trimmed(entry.substr(0, equals)), trimmed(entry.substr(equals + 1))};
}

}  // namespace

std::optional<std::string_view> find_frontend_attribute(const Attributes& attributes,
                                                        std::string_view key) {
  const std::string_view text = attributes.find_extra(kFrontendAttributes);
  // Most instructions have none, and this is asked for all of them.
  if (text.find(key) == std::string_view::npos) return std::nullopt;
  for (const std::string_view entry : entries_of(text)) {
    const auto [name, value] = split(entry);
    if (unquoted(name) == key) return unquoted(value);
  }
  return std::nullopt;
}

std::string_view to_string(Hint hint) {
  switch (hint) {
    case Hint::keep:
      return "keep";
    case Hint::recompute:
      return "recompute";
    case Hint::compress:
      return "compress";
    case Hint::swap:
      return "swap";
    default:
      return "none";
  }
}

std::optional<Hint> parse_hint(std::string_view text) {
  for (const Hint hint : {Hint::none, Hint::keep, Hint::recompute, Hint::compress, Hint::swap}) {
    if (text == to_string(hint)) return hint;
  }
  return std::nullopt;
}

Hint hint_of(const Instruction& instruction) {
  if (instruction.attributes().extra.empty()) return Hint::none;
  const auto text = find_frontend_attribute(instruction.attributes(), kHintAttribute);
  return text ? parse_hint(*text).value_or(Hint::none) : Hint::none;
}

Status check_hint(const Instruction& instruction) {
  if (instruction.attributes().extra.empty()) return ok_status();
  const auto text = find_frontend_attribute(instruction.attributes(), kHintAttribute);
  if (!text || parse_hint(*text)) return ok_status();
  return invalid_argument(std::string(kHintAttribute) + ": '" + std::string(*text) +
                          "' is not one of none, keep, recompute, compress, swap");
}

void set_hint(Attributes& attributes, Hint hint) {
  auto it = std::find_if(attributes.extra.begin(), attributes.extra.end(),
                         [](const auto& row) { return row.first == kFrontendAttributes; });
  std::string text;
  const auto add = [&](std::string_view entry) {
    text += text.empty() ? "{" : ",";
    text += entry;
  };
  if (it != attributes.extra.end()) {
    for (const std::string_view entry : entries_of(it->second)) {
      if (unquoted(split(entry).first) != kHintAttribute) add(entry);
    }
  }
  if (hint != Hint::none) {
    add(std::string(kHintAttribute) + "=\"" + std::string(to_string(hint)) + "\"");
  }
  if (text.empty()) {
    if (it != attributes.extra.end()) attributes.extra.erase(it);
    return;
  }
  text += "}";
  if (it == attributes.extra.end()) {
    attributes.extra.emplace_back(kFrontendAttributes, std::move(text));
  } else {
    it->second = std::move(text);
  }
}

bool must_materialize(const Instruction& instruction) {
  const Hint hint = hint_of(instruction);
  return hint == Hint::keep || hint == Hint::compress || hint == Hint::swap;
}

}  // namespace plimsoll::ir
