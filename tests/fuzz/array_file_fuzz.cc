// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "runtime/import/npz.h"
#include "runtime/import/safetensors.h"

// Whatever the bytes: arrays that lie within what was read, or an error that names the source.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plimsoll;
  const auto bytes = std::as_bytes(std::span(data, size));
  import::NamedArrays out;
  const Status status = import::is_npz(bytes) ? import::parse_npz(bytes, "fuzz", out)
                                              : import::parse_safetensors(bytes, "fuzz", out);
  if (!status.ok()) {
    if (status.code() == StatusCode::invalid_argument && status.message().starts_with("fuzz: ")) {
      return 0;
    }
    std::fprintf(stderr, "an error without a place: %s\n", status.to_string().c_str());
    std::abort();
  }
  unsigned sum = 0;
  for (const import::NamedArray& array : out.arrays) {
    if (array.bytes.size() != static_cast<std::size_t>(array.shape.byte_size())) std::abort();
    for (const std::byte byte : array.bytes) sum += std::to_integer<unsigned>(byte);
  }
  // Every byte is read, so that one beyond the file would be seen.
  [[maybe_unused]] static volatile unsigned sink;
  sink = sum;
  return 0;
}
