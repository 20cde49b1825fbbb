// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/import/vhlo/values.h"

namespace plimsoll::vhlo {

struct Operation;

// What an operation reads: a result of another one, or an argument of a block around it.
struct Value {
  const Type* type = nullptr;
  const Operation* maker = nullptr;  // null: an argument
  int index = 0;                     // of the maker's results, or of the arguments
};

struct Block {
  std::vector<std::unique_ptr<Value>> arguments;
  std::vector<std::unique_ptr<Operation>> operations;
};

struct Operation {
  std::string_view name;                                                  // "vhlo.add_v1"
  std::vector<std::pair<std::string_view, const Attribute*>> attributes;  // by name
  std::vector<const Value*> operands;
  std::vector<int> segments;  // operands of each group, where there are several lists
  std::vector<std::unique_ptr<Value>> results;
  std::vector<std::unique_ptr<Block>> regions;  // one block each; null: an empty region

  // Null where there is none.
  const Attribute* find(std::string_view attribute) const;
};

// The operations of a file, those of dialects other than VHLO without their attributes. INVALID_
// ARGUMENT for what makes no sense, UNIMPLEMENTED for operations newer than this reader, by name.
// What is read belongs to `values`, which must outlive it, and to the bytes.
Result<std::unique_ptr<Block>> read_operations(Values& values);

}  // namespace plimsoll::vhlo
