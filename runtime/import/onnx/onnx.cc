// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/onnx/onnx.h"

#include <utility>

#include "runtime/import/onnx/model/model.h"
#include "runtime/import/onnx/translator.h"

namespace plimsoll::onnx {

bool is_model(std::string_view bytes) { return looks_like_model(bytes); }

Result<std::unique_ptr<ir::Module>> read_module(std::string_view bytes,
                                                std::string_view source_name,
                                                const ReadOptions& options) {
  auto model = read_model(bytes);
  if (!model.ok()) return model.status().with_context(source_name);
  auto module = Translator(*model, options).translate();
  if (!module.ok()) return module.status().with_context(source_name);
  return module;
}

std::string parameter_name(std::string_view input) {
  std::string name(input);
  for (char& c : name) {
    const bool is_fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
    if (!is_fine) c = '_';
  }
  // Names do not begin with a digit; an empty one is none.
  const bool is_fine =
      !name.empty() && (name[0] < '0' || name[0] > '9') && name[0] != '.' && name[0] != '-';
  if (!is_fine) name.insert(name.begin(), '_');
  return name;
}

}  // namespace plimsoll::onnx
