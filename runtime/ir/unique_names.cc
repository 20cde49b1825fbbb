// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/unique_names.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace plimsoll::ir {
namespace {

// "x" of "x.3" and of "x.03".
std::string_view base_of(std::string_view name) {
  const std::size_t dot = name.find_last_of('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == name.size()) return name;
  const bool is_number = std::all_of(name.begin() + static_cast<std::ptrdiff_t>(dot) + 1,
                                     name.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? name.substr(0, dot) : name;
}

// The number that `take` would write behind the base; 0 where it is none of those.
std::int64_t number_of(std::string_view name, std::string_view base) {
  constexpr std::size_t kMostDigits = 18;
  if (name.size() == base.size()) return 0;
  const std::string_view digits = name.substr(base.size() + 1);
  if (digits[0] == '0' || digits.size() > kMostDigits) return 0;
  std::int64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

}  // namespace

UniqueNames::Numbers& UniqueNames::numbers_of(std::string_view base) {
  const auto known = names_.find(base);
  return known != names_.end() ? known->second : names_[std::string(base)];
}

bool UniqueNames::mark(std::string_view name) {
  const std::string_view base = base_of(name);
  const std::int64_t number = number_of(name, base);
  if (number == 0) return !std::exchange(numbers_of(name).base, true);
  Numbers& numbers = numbers_of(base);
  if (number <= numbers.last) return false;
  if (number > numbers.last + 1) return numbers.beyond.insert(number).second;
  if (numbers.beyond.erase(number) > 0) {
    ++numbers.last;
    return false;
  }
  ++numbers.last;
  return true;
}

std::string UniqueNames::take(std::string_view wanted) {
  if (mark(wanted)) return std::string(wanted);
  const std::string_view base = base_of(wanted);
  if (base != wanted) mark(base);
  Numbers& numbers = numbers_of(base);
  while (numbers.beyond.erase(++numbers.last) > 0) {
  }
  return std::string(base) + '.' + std::to_string(numbers.last);
}

}  // namespace plimsoll::ir
