// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace plimsoll::replayer {

struct Storage {
  std::int64_t bytes = 0;
  bool constant = false;  // always resident
  bool pinned = false;    // holds a tensor that is asked for at the end
};

// A storage read in one way: what made the storage, or a view of it.
struct Tensor {
  std::int32_t storage = 0;
  std::int32_t producer = -1;  // the operation, -1 for constants
};

struct Output {
  std::int32_t tensor = 0;
  bool fresh = false;  // allocates the tensor's storage; otherwise a view, which costs no bytes
};

struct Operation {
  std::int64_t nanoseconds = 0;
  std::vector<std::int32_t> arguments;
  std::vector<Output> outputs;
};

// A recorded training step. Every storage that isn't constant has one fresh output that makes it;
// arguments and viewed storages come from earlier operations or are constant.
struct Model {
  std::int64_t peak_bytes = 0;  // of the recording, without a limit
  std::vector<Storage> storages;
  std::vector<Tensor> tensors;
  std::vector<Operation> operations;
  std::vector<std::int32_t> results;  // tensors that must be there together at the end

  std::int64_t constant_bytes() const;
  // Of running everything once.
  std::int64_t nanoseconds() const;
};

// The flattened form, integers separated by white space:
//   peak storages tensors operations results
//   bytes constant pinned                                        per storage
//   storage producer                                             per tensor
//   nanoseconds n argument*n m (tensor fresh)*m                  per operation
//   tensor                                                       per result
// INVALID_ARGUMENT says what is wrong with the text called `name`.
Result<Model> parse_model(std::string_view text, std::string_view name);
std::string to_text(const Model& model);

}  // namespace plimsoll::replayer
