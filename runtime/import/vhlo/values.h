// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/import/vhlo/container.h"
#include "runtime/ir/shape.h"

namespace plimsoll::vhlo {

// A type: of a value, or of what holds several.
struct Type {
  enum class Kind : std::uint8_t {
    none,
    element,   // of arrays: dtype
    array,     // shape
    tuple,     // elements
    token,     //
    function,  // elements (parameters), results
    unknown,   // of a dialect that is passed over
  };
  Kind kind = Kind::none;
  ir::DType dtype = ir::DType::f32;
  ir::Shape shape;  // of arrays, tuples and tokens
  std::vector<const Type*> elements, results;
  std::int64_t parts = 1;  // of tuples: theirs together, and one
};

// A constant value beside an operation.
struct Attribute {
  enum class Kind : std::uint8_t {
    none,
    boolean,     // number
    number,      // integers and words of an enumeration
    floating,    // real
    text,        // text
    list,        // elements
    dictionary,  // entries
    tensor,      // type (an array), bytes
    type,        // type
    alias,       // numbers: what results share with operands
    location,    //
    shardy,      // how arrays lie on a mesh: text, number, numbers, elements (read_shardy)
    unknown,     // of a dialect that is passed over
  };
  Kind kind = Kind::none;
  std::int64_t number = 0;
  double real = 0;
  std::string_view text;  // or a tensor's bytes
  const Type* type = nullptr;
  std::vector<std::int64_t> numbers;
  std::vector<const Attribute*> elements;
  std::vector<std::pair<const Attribute*, const Attribute*>> entries;
};

// The attributes and types of a file, read when they are first asked for. Attributes of dialects
// other than VHLO, Shardy and MLIR's own are passed over.
class Values {
 public:
  // `container` outlives it.
  explicit Values(const Container& container);

  // INVALID_ARGUMENT for a number that there is none of, or for what can't be read; UNIMPLEMENTED
  // for types that this library has none of, by name.
  Result<const Attribute*> attribute(std::size_t index);
  Result<const Type*> type(std::size_t index);
  const Container& container() const { return container_; }

 private:
  Result<const Attribute*> attribute_of(Cursor& cursor);
  Result<const Type*> type_of(Cursor& cursor);
  Status read(const Container::Entry& entry, Attribute& out);
  Status read(const Container::Entry& entry, Type& out);
  Status read_vhlo(Cursor& cursor, Attribute& out);
  Status read_builtin(Cursor& cursor, Attribute& out);
  Status read_shardy(Cursor& cursor, Attribute& out);
  Status read_elements(Cursor& cursor, std::vector<const Attribute*>& out);
  Status read_text(Cursor& cursor, Attribute& out);
  Status read_dictionary(Cursor& cursor, Attribute& out);
  Status read_vhlo(Cursor& cursor, Type& out);
  Status read_array(Cursor& cursor, bool has_encoding, Type& out);
  Status read_tuple(Cursor& cursor, Type& out);
  Status read_complex(Cursor& cursor, Type& out);
  Status read_list(Cursor& cursor, std::vector<const Type*>& out);
  Status read_typed(int code, Cursor& cursor, Attribute& out);

  const Container& container_;
  std::vector<std::unique_ptr<Attribute>> attributes_;  // null: not read yet
  std::vector<std::unique_ptr<Type>> types_;
  int depth_ = 0;
};

}  // namespace plimsoll::vhlo
