// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/calibration.h"

#include <fmt/core.h>
#include <charconv>
#include <span>
#include <string>

#include "runtime/base/sha256.h"

namespace plimsoll::planner {
namespace {

constexpr std::string_view kVersion = "plimsoll calibration 4";

// Every number of a roofline with its name, in the order of the file.
template <typename Visit>
void for_each_number(Roofline& roofline, Visit&& visit) {
  visit("contraction_flops_per_second", roofline.contraction_flops_per_second);
  visit("convolution_flops_per_second", roofline.convolution_flops_per_second);
  visit("other_flops_per_second", roofline.other_flops_per_second);
  visit("random_flops_per_second", roofline.random_flops_per_second);
  visit("bytes_per_second", roofline.bytes_per_second);
  visit("launch_seconds", roofline.launch_seconds);
  for (std::size_t i = 0; i < roofline.codecs.size(); ++i) {
    visit(fmt::format("encode.{}", i), roofline.codecs[i].encode);
    visit(fmt::format("decode.{}", i), roofline.codecs[i].decode);
  }
  visit("link_out_bytes_per_second", roofline.link_out_bytes_per_second);
  visit("link_in_bytes_per_second", roofline.link_in_bytes_per_second);
  visit("link_latency_seconds", roofline.link_latency_seconds);
  constexpr bool kMayBeZero = true;
  visit("link_compute_share", roofline.link_compute_share, kMayBeZero);
  visit("cache.bytes", roofline.cache.bytes, kMayBeZero);
  visit("cache.streaming_seconds", roofline.cache.streaming_seconds, kMayBeZero);
  visit("cache.computing_seconds", roofline.cache.computing_seconds, kMayBeZero);
  visit("collectives.message_seconds", roofline.collectives.message_seconds);
  visit("collectives.bytes_per_second", roofline.collectives.bytes_per_second);
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

}  // namespace

std::string calibration_text(const Roofline& roofline, std::string_view machine) {
  std::string text = header(machine);
  Roofline copy = roofline;
  for_each_number(copy, [&](const std::string& name, double value, bool = false) {
    char number[32];
    const auto end = std::to_chars(number, number + sizeof number, value);
    text += name + " " + std::string(number, end.ptr) + "\n";
  });
  return text + "sha256 " + checksum(text) + "\n";
}

std::optional<Roofline> parse_calibration(std::string_view text, std::string_view machine) {
  const auto last = text.rfind("sha256 ");
  if (last == std::string_view::npos) return std::nullopt;
  if (text.substr(last) != "sha256 " + checksum(text.substr(0, last)) + "\n") return std::nullopt;
  const std::string expected = header(machine);
  if (!text.starts_with(expected)) return std::nullopt;
  std::string_view rest = text.substr(expected.size(), last - expected.size());
  Roofline roofline;
  bool good = true;
  for_each_number(roofline, [&](const std::string& name, double& value, bool may_be_zero = false) {
    const auto end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    if (!good || end == std::string_view::npos || !line.starts_with(name + " ")) {
      good = false;
      return;
    }
    const std::string_view number = line.substr(name.size() + 1);
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    good = error == std::errc() && stop == number.data() + number.size() && value < 1e30 &&
           (may_be_zero ? value >= 0 : value > 0);
    rest.remove_prefix(end + 1);
  });
  if (!good || !rest.empty()) return std::nullopt;
  return roofline;
}

}  // namespace plimsoll::planner
