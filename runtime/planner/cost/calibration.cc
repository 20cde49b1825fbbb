// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/calibration.h"

#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/sha256.h"

namespace plimsoll::planner {
namespace {

constexpr std::string_view kVersion = "plimsoll calibration 6";

enum class Better : std::uint8_t { more, less };

struct Number {
  std::string name;
  double* value;
  Better better;
  bool may_be_zero = false;
};

// Every number of a roofline with its name, in the order of the file.
std::vector<Number> numbers_of(Roofline& roofline) {
  std::vector<Number> numbers{
      {"contraction_flops_per_second", &roofline.contraction_flops_per_second, Better::more},
      {"convolution_flops_per_second", &roofline.convolution_flops_per_second, Better::more},
      {"other_flops_per_second", &roofline.other_flops_per_second, Better::more},
      {"random_flops_per_second", &roofline.random_flops_per_second, Better::more},
      {"bytes_per_second", &roofline.bytes_per_second, Better::more},
      {"launch_seconds", &roofline.launch_seconds, Better::less}};
  for (std::size_t i = 0; i < roofline.codecs.size(); ++i) {
    numbers.push_back({fmt::format("encode.{}", i), &roofline.codecs[i].encode, Better::more});
    numbers.push_back({fmt::format("decode.{}", i), &roofline.codecs[i].decode, Better::more});
  }
  constexpr bool kMayBeZero = true;
  CacheSpeeds& cache = roofline.cache;
  CollectiveSpeeds& collectives = roofline.collectives;
  numbers.insert(numbers.end(),
                 {{"link_out_bytes_per_second", &roofline.link_out_bytes_per_second, Better::more},
                  {"link_in_bytes_per_second", &roofline.link_in_bytes_per_second, Better::more},
                  {"link_latency_seconds", &roofline.link_latency_seconds, Better::less},
                  {"link_compute_share", &roofline.link_compute_share, Better::less, kMayBeZero},
                  {"link_synchronous_out_bytes_per_second",
                   &roofline.link_synchronous_out_bytes_per_second, Better::more, kMayBeZero},
                  {"link_synchronous_in_bytes_per_second",
                   &roofline.link_synchronous_in_bytes_per_second, Better::more, kMayBeZero},
                  {"cache.bytes", &cache.bytes, Better::more, kMayBeZero},
                  {"cache.streaming_seconds", &cache.streaming_seconds, Better::less, kMayBeZero},
                  {"cache.computing_seconds", &cache.computing_seconds, Better::less, kMayBeZero},
                  {"collectives.message_seconds", &collectives.message_seconds, Better::less},
                  {"collectives.bytes_per_second", &collectives.bytes_per_second, Better::more}});
  return numbers;
}

std::string checksum(std::string_view text) {
  return sha256(std::as_bytes(std::span(text.data(), text.size())));
}

std::string header(std::string_view machine) {
  std::string line(machine);
  for (char& c : line) {
    if (c == '\n') c = ' ';
  }
  return std::string(kVersion) + "\nmachine " + line + "\n";
}

// A cache that could not be told from memory says nothing.
CacheSpeeds less_disturbed(const CacheSpeeds& a, const CacheSpeeds& b) {
  if (a.bytes == 0 || b.bytes == 0) return a.bytes == 0 ? b : a;
  return a.computing_seconds <= b.computing_seconds ? a : b;
}

}  // namespace

Roofline faster_of(const Roofline& a, const Roofline& b) {
  Roofline best = a, other = b;
  const std::vector<Number> to = numbers_of(best), from = numbers_of(other);
  for (std::size_t i = 0; i < to.size(); ++i) {
    const double mine = *to[i].value, theirs = *from[i].value;
    *to[i].value = to[i].better == Better::more ? std::max(mine, theirs) : std::min(mine, theirs);
  }
  const double streaming = std::min(a.cache.streaming_seconds, b.cache.streaming_seconds);
  best.cache = less_disturbed(a.cache, b.cache);
  best.cache.streaming_seconds = streaming;
  return best;
}

bool agree(const Roofline& a, const Roofline& b) {
  constexpr double kMost = 1.25;
  const auto near = [](double x, double y) { return x <= kMost * y && y <= kMost * x; };
  return near(a.contraction_flops_per_second, b.contraction_flops_per_second) &&
         near(a.convolution_flops_per_second, b.convolution_flops_per_second) &&
         near(a.other_flops_per_second, b.other_flops_per_second) &&
         near(a.bytes_per_second, b.bytes_per_second);
}

std::string calibration_text(const Calibration& calibration, std::string_view machine) {
  std::string text = header(machine);
  text += fmt::format("measurements {}\nsettled {:d}\n", calibration.measurements,
                      calibration.is_settled);
  Roofline copy = calibration.speeds;
  for (const Number& number : numbers_of(copy)) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, *number.value);
    text += number.name + " " + std::string(digits, end.ptr) + "\n";
  }
  return text + "sha256 " + checksum(text) + "\n";
}

std::optional<Calibration> parse_calibration(std::string_view text, std::string_view machine) {
  const auto last = text.rfind("sha256 ");
  if (last == std::string_view::npos) return std::nullopt;
  if (text.substr(last) != "sha256 " + checksum(text.substr(0, last)) + "\n") return std::nullopt;
  const std::string expected = header(machine);
  if (!text.starts_with(expected)) return std::nullopt;
  std::string_view rest = text.substr(expected.size(), last - expected.size());
  // The next line's value, where it has this name.
  const auto read = [&rest](const std::string& name, auto& value) {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos) return false;
    const std::string_view line = rest.substr(0, end);
    if (!line.starts_with(name + " ")) return false;
    const char* const to = line.data() + line.size();
    const auto [stop, error] = std::from_chars(line.data() + name.size() + 1, to, value);
    rest.remove_prefix(end + 1);
    return error == std::errc() && stop == to;
  };
  Calibration found;
  int settled = 0;
  if (!read("measurements", found.measurements) || found.measurements < 1) return std::nullopt;
  if (!read("settled", settled) || (settled != 0 && settled != 1)) return std::nullopt;
  found.is_settled = settled == 1;
  for (const Number& number : numbers_of(found.speeds)) {
    if (!read(number.name, *number.value) || !(*number.value < 1e30)) return std::nullopt;
    if (!(number.may_be_zero ? *number.value >= 0 : *number.value > 0)) return std::nullopt;
  }
  if (!rest.empty()) return std::nullopt;
  return found;
}

}  // namespace plimsoll::planner
