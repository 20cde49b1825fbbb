// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/work_signature.h"

#include <cstddef>
#include <memory>
#include <string_view>

#include "runtime/base/hash.h"
#include "runtime/ir/attribute_fields.h"

namespace plimsoll::planner {
namespace {

// Instructions looked at: callees may call others many times over, and nest deeper than a stack.
constexpr int kMost = 1'000;

// What writes attributes down (ir::archive_value).
struct Hash {
  std::uint64_t value = 0;
  int left = kMost;
  void number(std::int64_t word) { value = combine_hash(value, static_cast<std::uint64_t>(word)); }
  void length(std::size_t size) { number(static_cast<std::int64_t>(size)); }
  void bytes(const void* data, std::size_t size) {
    number(static_cast<std::int64_t>(hash_text({static_cast<const char*>(data), size})));
  }
};

struct AddAttribute {
  // Names and annotations, and values.
  void operator()(ir::Field<&ir::Attributes::extra>, const auto&) {}
  void operator()(ir::Field<&ir::Attributes::literal>, const auto&) {}
  template <auto Member, typename T>
  void operator()(ir::Field<Member> field, const T& attribute) {
    hash.number(field.letter);
    ir::archive_value(attribute, hash);
  }
  Hash& hash;
};

void add(Hash& hash, const ir::Shape& shape) {
  hash.number(static_cast<std::int64_t>(shape.kind()));
  if (shape.is_array()) {
    hash.number(static_cast<std::int64_t>(shape.dtype()));
    hash.length(static_cast<std::size_t>(shape.rank()));
    for (const std::int64_t dim : shape.dims()) hash.number(dim);
    if (!ir::is_row_major(shape)) {
      for (const std::int64_t dim : shape.layout()->minor_to_major) hash.number(dim);
    }
  }
  hash.length(shape.elements().size());
  for (const ir::Shape& element : shape.elements()) add(hash, element);
}

void add(Hash& hash, const ir::Instruction& instruction) {
  --hash.left;
  hash.number(static_cast<std::int64_t>(instruction.opcode()));
  add(hash, instruction.shape());
  hash.length(instruction.operands().size());
  for (const ir::Instruction* operand : instruction.operands()) add(hash, operand->shape());
  ir::for_each_set_field(instruction.attributes(), AddAttribute{hash});
  for (const ir::Computation* callee : instruction.called_computations()) {
    hash.length(callee->instructions().size());
    for (const auto& inner : callee->instructions()) {
      if (hash.left == 0) return;
      add(hash, *inner);
    }
  }
}

}  // namespace

std::uint64_t work_signature(const ir::Instruction& instruction) {
  Hash hash;
  add(hash, instruction);
  return hash.value;
}

}  // namespace plimsoll::planner
