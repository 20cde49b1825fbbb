// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/byte_size.h"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

namespace plimsoll {
namespace {

struct Unit {
  std::string_view text;
  double bytes;
};
constexpr Unit kUnits[] = {{"", 1},         {"b", 1},        {"kib", 0x1p10}, {"mib", 0x1p20},
                           {"gib", 0x1p30}, {"tib", 0x1p40}, {"kb", 1e3},     {"mb", 1e6},
                           {"gb", 1e9},     {"tb", 1e12}};
constexpr double kMostBytes = 0x1p60;

// Splits "1.5GB" into the number and the lower-case rest; nothing when there is no number.
struct Quantity {
  double number;
  std::string rest;
};
std::optional<Quantity> split(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  std::string rest;
  for (const char* c = end; c != text.data() + text.size(); ++c) {
    if (rest.empty() && *c == ' ') continue;
    rest += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  }
  return Quantity{number, rest};
}

Status bad(std::string_view text, std::string_view what, std::string_view grammar) {
  return invalid_argument(std::string(what) + ": '" + std::string(text) + "' is not " +
                          std::string(grammar));
}

Result<std::int64_t> size_of(const std::optional<Quantity>& quantity, std::string_view text,
                             std::string_view what, std::string_view grammar) {
  if (!quantity) return bad(text, what, grammar);
  for (const Unit& unit : kUnits) {
    if (quantity->rest != unit.text) continue;
    const double bytes = quantity->number * unit.bytes;
    if (unit.bytes == 1 && bytes != std::floor(bytes)) {
      return bad(text, what, "a whole number of bytes (or has no unit, such as MiB)");
    }
    if (bytes < 1 || bytes > kMostBytes) {
      return bad(text, what, "between 1 byte and 1048576 TiB");
    }
    return static_cast<std::int64_t>(bytes);
  }
  return bad(text, what, grammar);
}

}  // namespace

std::int64_t MemoryLimit::resolve(const DeviceBytes& device,
                                  std::int64_t unlimited_peak_bytes) const {
  switch (kind) {
    case Kind::bytes:
      return bytes;
    case Kind::percent_of_device:
      return static_cast<std::int64_t>(percent / 100 * static_cast<double>(device.total));
    case Kind::free_of_device:
      return std::max<std::int64_t>(1, device.free - std::min(device.total / 16, kMostReserve));
    case Kind::percent_of_peak:
      return static_cast<std::int64_t>(percent / 100 * static_cast<double>(unlimited_peak_bytes));
  }
  return bytes;
}

Result<MemoryLimit> parse_memory_limit(std::string_view text, std::string_view what,
                                       Shares shares) {
  const auto quantity = split(text);
  MemoryLimit limit;
  if (text == "auto") {
    limit.kind = MemoryLimit::Kind::free_of_device;
    return limit;
  }
  if (quantity && (quantity->rest == "%" || quantity->rest == "%peak")) {
    const bool of_peak = quantity->rest == "%peak";
    if (of_peak && shares == Shares::of_device) {
      return invalid_argument(std::string(what) + ": '" + std::string(text) +
                              "' is a share of a program's peak, which is not known here (give a "
                              "size or a share of the device's memory)");
    }
    limit.kind =
        of_peak ? MemoryLimit::Kind::percent_of_peak : MemoryLimit::Kind::percent_of_device;
    limit.percent = quantity->number;
    const int most = of_peak ? 1000 : 100;
    if (limit.percent > 0 && limit.percent <= most) return limit;
    return bad(text, what, fmt::format("above 0 % and at most {} %", most));
  }
  const std::string_view grammar = shares == Shares::of_device
                                       ? "a size such as 512MiB, 2GiB, 1.5GB or 1048576, a "
                                         "share of the device's memory such as 80%, or auto "
                                         "(what is free of it)"
                                       : kMemoryLimitGrammar;
  PLIMSOLL_ASSIGN_OR_RETURN(limit.bytes, size_of(quantity, text, what, grammar));
  return limit;
}

Result<std::int64_t> parse_byte_size(std::string_view text, std::string_view what) {
  return size_of(split(text), text, what, "a size such as 512MiB, 2GiB, 1.5GB or 1048576");
}

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array kNames = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes > -1024 && bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (std::fabs(value) >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, std::fabs(value) < 10 ? 2 : 1, kNames[unit]);
}

}  // namespace plimsoll
