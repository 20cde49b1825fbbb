// SPDX-License-Identifier: Apache-2.0
#include "jit/cache/cache_entry.h"

#include <bit>
#include <cstdint>
#include <span>

#include "jit/cache/archive.h"
#include "runtime/base/checksum.h"

namespace plimsoll::jit {
namespace {

constexpr std::string_view kMagic = "plimsoll kernel 00000004";  // the number is the version
constexpr std::size_t kChecksumAt = kMagic.size();
constexpr std::size_t kBodyAt = kChecksumAt + sizeof(std::uint64_t);

std::uint64_t checksum(std::string_view body) {
  Checksum sum;
  sum.add(std::as_bytes(std::span(body.data(), body.size())));
  return sum.value();
}

}  // namespace

std::string write_entry(std::string_view key, std::string_view kernel) {
  ArchiveWriter body;
  body.string(key);
  body.string(kernel);
  const std::string text = body.take();
  ArchiveWriter sum;
  sum.number(std::bit_cast<std::int64_t>(checksum(text)));
  return std::string(kMagic) + sum.take() + text;
}

std::optional<std::string> read_entry(std::string_view bytes, std::string_view key) {
  if (bytes.size() < kBodyAt || !bytes.starts_with(kMagic)) return std::nullopt;
  const std::string_view body = bytes.substr(kBodyAt);
  const std::int64_t sum = ArchiveReader(bytes.substr(kChecksumAt)).number();
  if (std::bit_cast<std::uint64_t>(sum) != checksum(body)) return std::nullopt;
  ArchiveReader reader(body);
  if (reader.string() != key) return std::nullopt;
  std::string kernel(reader.string());
  if (!reader.at_end()) return std::nullopt;
  return kernel;
}

std::string write_object(const KernelObject& kernel) {
  // The bindings fail to compile when a member is added, and so nothing is left out.
  const auto& [phases, workspace_bytes, object] = kernel;
  ArchiveWriter text;
  text.number(workspace_bytes);
  text.number(static_cast<std::int64_t>(phases.size()));
  for (const auto& [function, units, unit_seconds, unless_input, unless_output, run_elements,
                    own_inputs] : phases) {
    text.string(function);
    text.number(units);
    text.number(unit_seconds);
    text.number(static_cast<std::int64_t>(unless_input));
    text.number(static_cast<std::int64_t>(unless_output));
    text.number(run_elements);
    text.number(std::bit_cast<std::int64_t>(own_inputs));
  }
  text.string(object);
  return text.take();
}

std::optional<KernelObject> read_object(std::string_view text) {
  ArchiveReader reader(text);
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
    phase.run_elements = reader.number();
    phase.own_inputs = std::bit_cast<std::uint64_t>(reader.number());
    kernel.phases.push_back(std::move(phase));
  }
  kernel.object = std::string(reader.string());
  if (!reader.at_end()) return std::nullopt;
  return kernel;
}

}  // namespace plimsoll::jit
