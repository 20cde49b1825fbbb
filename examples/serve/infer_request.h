// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "examples/serve/tensor_types.h"

namespace plimsoll::examples::serve {

struct InferInput {
  std::string name;
  const TensorType* type = nullptr;
  std::vector<std::int64_t> shape;
  // The elements, dense and row-major, as many as the shape says: bytes of the body, or `decoded`.
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::vector<std::byte> decoded;  // of elements that came as JSON
};

struct RequestedOutput {
  std::string name;
  std::optional<bool> binary;  // nothing: as the request says for all
};

// The body of an infer request. Refers to the body's bytes.
struct InferRequest {
  std::string id;
  std::vector<InferInput> inputs;
  std::vector<RequestedOutput> outputs;  // none: all
  bool binary_outputs = false;
};

// Reads a body of the Open Inference Protocol (KServe, "Inference Protocol v2"), with the extension
// for binary tensor data: of `body`, the first `json_bytes` are JSON, and what follows are the
// elements of those inputs that have a `binary_data_size`, in their order; nothing: all is JSON.
//
// Throws HttpError 400, which names the place: no JSON, more than 16 levels of nesting, more than
// 256 inputs or outputs, a shape whose elements take other bytes than came, numbers that the
// datatype can't say. Takes at most four bytes of memory per byte of the body.
InferRequest parse_infer_request(std::string_view body, std::optional<std::size_t> json_bytes);

}  // namespace plimsoll::examples::serve
