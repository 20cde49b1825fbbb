// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/literal.h"
#include "runtime/ir/module.h"

namespace plimsoll::onnx {

// What is said of one input of a model, by its name there or as a parameter (parameter_name).
struct GivenInput {
  std::string name;
  std::optional<std::vector<std::int64_t>> dims;
  // Read only where the model has to know it: where it decides a shape. Such an input becomes a
  // constant and is no parameter.
  std::optional<ir::Literal> value;
};

struct ReadOptions {
  std::vector<GivenInput> inputs;
  // Keeps the bytes of the model where constants may point into them; null: constants copy theirs.
  std::shared_ptr<const void> owner;
  // The folder of the model's file, below which its external data lies; nothing: it may have none.
  std::optional<std::string> folder;
  // Receives the names of inputs that became constants, as the model has them; may be null.
  std::vector<std::string>* constant_inputs = nullptr;
};

// Whether these may be the bytes of a model.
bool is_model(std::string_view bytes);

// Reads a model (ModelProto). Its inputs, but for those with an initializer, become parameters in
// their order; initializers become constants; a sequence is a tuple. The result is verified. Sizes
// of inputs that the model leaves open come from `options`. Errors start with `SOURCE: ` and name
// node and attribute: INVALID_ARGUMENT for what makes no sense and for sizes and values that are
// missing, with the input to give; UNIMPLEMENTED for operators and types that are not read;
// NOT_FOUND for external data. Never crashes or hangs, whatever the bytes.
Result<std::unique_ptr<ir::Module>> read_module(std::string_view bytes,
                                                std::string_view source_name,
                                                const ReadOptions& options = {});

// An input's name as a parameter has it: what HLO text can't have in names is '_'.
std::string parameter_name(std::string_view input);

}  // namespace plimsoll::onnx
