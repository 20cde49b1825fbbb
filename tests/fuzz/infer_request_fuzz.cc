// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "examples/serve/http_error.h"
#include "examples/serve/infer_request.h"

// Bodies of infer requests. Of the input, the first two bytes say how much is JSON (0: all).
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plimsoll::examples::serve;
  if (size < 2) return 0;
  const std::size_t json_bytes = data[0] | static_cast<std::size_t>(data[1]) << 8U;
  const std::string_view body(reinterpret_cast<const char*>(data + 2), size - 2);
  try {
    const InferRequest request = parse_infer_request(
        body, json_bytes == 0 ? std::nullopt : std::optional<std::size_t>(json_bytes));
    unsigned sum = 0;
    for (const InferInput& input : request.inputs) {
      if (input.name.empty() || input.type == nullptr) std::abort();
      for (std::size_t i = 0; i < input.bytes; ++i) sum += std::to_integer<unsigned>(input.data[i]);
      std::string text;
      if (input.type->in_json) append_json(*input.type, {input.data, input.bytes}, text);
    }
    // Every byte is read, so that one beyond the body would be seen.
    [[maybe_unused]] static volatile unsigned sink;
    sink = sum;
  } catch (const HttpError& error) {
    if (error.status() != 400 || *error.what() == '\0') std::abort();
  }
  return 0;
}
