// SPDX-License-Identifier: Apache-2.0
#include "jit/cache/cache_entry.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "runtime/base/checksum.h"

namespace plimsoll::jit {
namespace {

constexpr std::string_view kMagic = "plimsoll kernel 00000002";  // the number is the version
constexpr std::size_t kChecksumAt = kMagic.size();
constexpr std::size_t kBodyAt = kChecksumAt + sizeof(std::uint64_t);

std::uint64_t checksum(std::string_view body) {
  Checksum sum;
  sum.add(std::as_bytes(std::span(body.data(), body.size())));
  return sum.value();
}

class Writer {
 public:
  void number(std::int64_t value) { text_.append(reinterpret_cast<const char*>(&value), 8); }
  void number(double value) { number(std::bit_cast<std::int64_t>(value)); }
  void string(std::string_view value) {
    number(static_cast<std::int64_t>(value.size()));
    text_ += value;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// After the first thing that is not there, `ok` is false and everything is zero or empty.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  std::int64_t number() {
    std::int64_t value = 0;
    const std::string_view bytes = take(8);
    if (ok) std::memcpy(&value, bytes.data(), 8);
    return value;
  }
  std::string_view string() { return take(number()); }
  bool at_end() const { return ok && text_.empty(); }
  bool ok = true;

 private:
  std::string_view take(std::int64_t count) {
    ok = ok && count >= 0 && static_cast<std::uint64_t>(count) <= text_.size();
    if (!ok) return {};
    const std::string_view taken = text_.substr(0, static_cast<std::size_t>(count));
    text_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view text_;
};

}  // namespace

std::string write_entry(std::string_view key, const KernelObject& kernel) {
  // The bindings fail to compile when a member is added, and so nothing is left out.
  const auto& [phases, workspace_bytes, object] = kernel;
  Writer body;
  body.string(key);
  body.number(workspace_bytes);
  body.number(static_cast<std::int64_t>(phases.size()));
  for (const auto& [function, units, unit_seconds, unless_input, unless_output] : phases) {
    body.string(function);
    body.number(units);
    body.number(unit_seconds);
    body.number(static_cast<std::int64_t>(unless_input));
    body.number(static_cast<std::int64_t>(unless_output));
  }
  body.string(object);
  const std::string text = body.take();
  Writer sum;
  sum.number(std::bit_cast<std::int64_t>(checksum(text)));
  return std::string(kMagic) + sum.take() + text;
}

std::optional<KernelObject> read_entry(std::string_view bytes, std::string_view key) {
  if (bytes.size() < kBodyAt || !bytes.starts_with(kMagic)) return std::nullopt;
  const std::string_view body = bytes.substr(kBodyAt);
  const std::int64_t sum = Reader(bytes.substr(kChecksumAt)).number();
  if (std::bit_cast<std::uint64_t>(sum) != checksum(body)) return std::nullopt;
  Reader reader(body);
  if (reader.string() != key) return std::nullopt;
  KernelObject kernel;
  kernel.workspace_bytes = reader.number();
  const std::int64_t count = reader.number();
  for (std::int64_t i = 0; i < count && reader.ok; ++i) {
    Phase phase;
    phase.function = std::string(reader.string());
    phase.units = reader.number();
    phase.unit_seconds = std::bit_cast<double>(reader.number());
    phase.unless_input = static_cast<int>(reader.number());
    phase.unless_output = static_cast<int>(reader.number());
    kernel.phases.push_back(std::move(phase));
  }
  kernel.object = std::string(reader.string());
  if (!reader.at_end()) return std::nullopt;
  return kernel;
}

}  // namespace plimsoll::jit
