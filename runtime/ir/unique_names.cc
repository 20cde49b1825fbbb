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

bool UniqueNames::Numbers::mark(std::int64_t number) {
  if (number == 0) return !std::exchange(base, true);
  if (number <= last) return false;
  if (number > last + 1) return beyond.insert(number).second;
  ++last;
  return beyond.erase(number) == 0;
}

bool UniqueNames::mark(std::string_view name) {
  const std::string_view base = base_of(name);
  const std::int64_t number = number_of(name, base);
  return numbers_of(number == 0 ? name : base).mark(number);
}

std::string UniqueNames::take(std::string_view wanted) {
  const std::string_view base = base_of(wanted);
  const std::int64_t number = number_of(wanted, base);
  // "x.03" is no number of ours, but the base of it is "x".
  const bool is_own_base = number == 0 && base.size() != wanted.size();
  if (is_own_base && mark(wanted)) return std::string(wanted);
  Numbers& numbers = numbers_of(base);
  if (!is_own_base && numbers.mark(number)) return std::string(wanted);
  if (base_of(base).size() == base.size()) {
    numbers.base = true;
  } else if (base.size() != wanted.size()) {
    mark(base);
  }
  while (numbers.beyond.erase(++numbers.last) > 0) {
  }
  return std::string(base) + '.' + std::to_string(numbers.last);
}

}  // namespace plimsoll::ir
