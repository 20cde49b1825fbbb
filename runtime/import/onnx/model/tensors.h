// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/mapped_file.h"
#include "runtime/base/status.h"
#include "runtime/ir/literal.h"

namespace plimsoll::onnx {

// Where the bytes of tensors are: in the file of the model or in files beside it, which are mapped
// once each.
class TensorFiles {
 public:
  // `owner` keeps the bytes of the model where tensors may point to; null: tensors copy theirs.
  // `folder`: that of the model's file, which external data is read below; nothing where the model
  // has none, and external data is refused.
  TensorFiles(std::shared_ptr<const void> owner, std::optional<std::string> folder)
      : owner_(std::move(owner)), folder_(std::move(folder)) {}

  // A TensorProto as a value. Bytes that lie as their elements want them stay where they are, in
  // the mapped file; others are copied once. INVALID_ARGUMENT for what makes no sense or lies
  // outside of the model's folder, NOT_FOUND for files that are missing, UNIMPLEMENTED for strings
  // and types that programs have not.
  Result<ir::Literal> read(std::string_view message);

 private:
  // Where external values lie, as the file says it; numbers as text, "" where they are not given.
  struct Place {
    std::string_view location, offset, length;
  };
  Result<ir::Literal> external(const ir::Shape& shape, const Place& place, const std::string& what);

  std::shared_ptr<const void> owner_;
  std::optional<std::string> folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

// The dtype of an element type of the standard; UNIMPLEMENTED, with its name, where there is none.
Result<ir::DType> dtype_of(std::int64_t element);
// The other direction; 0 where the standard has none.
std::int64_t element_of(ir::DType dtype);

}  // namespace plimsoll::onnx
