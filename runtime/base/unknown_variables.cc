// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/unknown_variables.h"

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "runtime/base/environment.h"
#include "runtime/base/fork.h"
#include "runtime/base/log.h"

namespace plimsoll {
namespace {

constexpr std::string_view kPrefix = "PLIMSOLL_";
// Read outside of the library: by the Python packages, and by tests.
constexpr std::string_view kOfOthers[] = {"PLIMSOLL_PJRT_LIBRARY", "PLIMSOLL_RENEW",
                                          "PLIMSOLL_FUZZ_MUTANTS", "PLIMSOLL_JIT_TEST_DUMP"};

std::string to_capitals(std::string_view text) {
  std::string capitals(text);
  for (char& letter : capitals) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return capitals;
}

// Levenshtein's, row by row.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t other = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({other, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names) {
  std::string_view nearest;
  std::size_t least = name.size() / 3 + 1;
  for (const std::string_view one : names) {
    const std::size_t far = distance(name, one);
    if (far < least) {
      least = far;
      nearest = one;
    }
  }
  return nearest;
}

std::vector<std::string> unknown_variables(std::span<const char* const> entries) {
  // What all of them begin with says nothing.
  std::vector<std::string_view> ends;
  for (const VariableInfo& info : all_variables()) ends.push_back(info.name.substr(kPrefix.size()));
  for (const std::string_view one : kOfOthers) ends.push_back(one.substr(kPrefix.size()));
  std::vector<std::string> lines;
  for (const std::string_view entry : entries) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals + 1 == entry.size()) continue;
    const std::string_view name = entry.substr(0, equals);
    const std::string in_capitals = to_capitals(name);
    if (!in_capitals.starts_with(kPrefix)) continue;
    const std::string_view end = std::string_view(in_capitals).substr(kPrefix.size());
    const bool is_in_case = name == in_capitals;
    if (is_in_case && std::find(ends.begin(), ends.end(), end) != ends.end()) continue;
    const std::string_view nearest = nearest_name(end, ends);
    // Others have names of their own in small letters, such as CMake's plimsoll_ROOT.
    if (!is_in_case && nearest.empty()) continue;
    lines.push_back("environment: nothing reads " + std::string(name) +
                    (nearest.empty()
                         ? " (`plimsoll info` lists what there is)"
                         : " (" + std::string(kPrefix) + std::string(nearest) + " may be meant)"));
  }
  return lines;
}

Status check_unknown_variables() {
  static auto* const mutex = new ProcessMutex;
  static auto* const warned = new std::unordered_set<std::string>;
  std::vector<const char*> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    entries.push_back(*entry);
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string strict, choice_variable(Variable::strict));
  const std::vector<std::string> lines = unknown_variables(entries);
  if (strict == "1" && !lines.empty()) {
    return invalid_argument(lines.front() + "; PLIMSOLL_STRICT=0 lets it pass");
  }
  const std::lock_guard lock(*mutex);
  for (const std::string& line : lines) {
    if (warned->insert(line).second) log_line(LogLevel::warning, line);
  }
  return ok_status();
}

}  // namespace plimsoll
