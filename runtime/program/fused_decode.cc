// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/fused_decode.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/program/coding_kernels.h"

namespace plimsoll::executor {
namespace {

using ir::Codec;
using ir::CodecKind;
using ir::Computation;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

// Whether all that reads the value, or an elementwise result of it, is elementwise, a reduction, or
// the root.
bool is_read_in_place(const Instruction& value) {
  for (const Instruction* user : value.users()) {
    if (user->opcode() == Opcode::tuple && user->is_root()) continue;
    if (user->opcode() == Opcode::reduce) continue;
    if (!ir::is_elementwise(user->opcode()) || user->shape().dims() != value.shape().dims() ||
        !is_read_in_place(*user)) {
      return false;
    }
  }
  return true;
}

// Whether a dynamic-update-slice may write into its buffer.
bool is_updated(const Instruction& value) {
  return std::any_of(value.users().begin(), value.users().end(), [&](const Instruction* user) {
    return user->opcode() == Opcode::dynamic_update_slice && user->operand(0) == &value;
  });
}

// Writes the decoding of one input.
//
// Decoding within the kernel that reads: the parameter becomes the stored form and the value is
// computed from it where it is read. The whole value is never in memory, which is what makes a mask
// worth 1/32 of the bytes at the peak as well.
//
// Example: relu's gradient select(y > 0, dy, 0) reads y only for the comparison. y is stored as a
// mask; inside, y is put together again from two representatives, one for which the comparison
// holds and one for which it doesn't: select(bit, 1, 0). The comparison of that with 0 is what it
// was.
//
// A value that is read at other places than its own (a dot's operand, a slice) would be decoded
// many times; masks are therefore decoded only for what reads in place.
class Decoder {
 public:
  Decoder(Computation& computation, const Codec& codec, const Shape& shape)
      : computation_(computation), codec_(codec), shape_(shape) {}

  Shape stored() const {
    if (codec_.is_mask()) return {DType::u32, {words()}};
    return {ir::stored_dtype(codec_), shape_.dims()};
  }

  Instruction* decode(Instruction* stored) {
    if (!codec_.is_mask()) return computation_.add(Opcode::convert, shape_, {stored});
    Instruction* const bit = bits(stored);
    if (codec_.gives_values()) return bit;
    const ir::Outcomes values = ir::representatives(codec_, shape_.dtype());
    return computation_.add(Opcode::select, shape_,
                            {bit, all(shape_, values.yes), all(shape_, values.no)});
  }

 private:
  std::int64_t words() const { return (shape_.element_count() + kWordBits - 1) / kWordBits; }

  Instruction* all(const Shape& shape, double value) {
    ir::Literal number(Shape(shape.dtype(), {}));
    number.set(0, value);
    return computation_.add(Opcode::broadcast, shape,
                            {computation_.add_constant(std::move(number))});
  }

  // Element i is bit i % 32 of word i / 32.
  Instruction* bits(Instruction* stored) {
    const Shape each(DType::u32, {words(), kWordBits});
    ir::Attributes by_word;
    by_word.dimensions = {0};
    Instruction* const word =
        computation_.add(Opcode::broadcast, each, {stored}, {}, std::move(by_word));
    ir::Attributes by_bit;
    by_bit.dimensions = {1};
    Instruction* const number = computation_.add(Opcode::iota, each, {}, {}, std::move(by_bit));
    Instruction* const shifted =
        computation_.add(Opcode::shift_right_logical, each, {word, number});
    Instruction* const lowest = computation_.add(Opcode::and_, each, {shifted, all(each, 1)});
    const std::int64_t count = shape_.element_count();
    Instruction* flat =
        computation_.add(Opcode::reshape, Shape(DType::u32, {words() * kWordBits}), {lowest});
    if (count < words() * kWordBits) {
      ir::Attributes cut;
      cut.slice_starts = {0};
      cut.slice_limits = {count};
      cut.slice_strides = {1};
      flat =
          computation_.add(Opcode::slice, Shape(DType::u32, {count}), {flat}, {}, std::move(cut));
    }
    Instruction* const placed =
        computation_.add(Opcode::reshape, Shape(DType::u32, shape_.dims()), {flat});
    return computation_.add(Opcode::convert, Shape(DType::pred, shape_.dims()), {placed});
  }

  Computation& computation_;
  const Codec codec_;
  const Shape shape_;
};

}  // namespace

void fuse_decode(Computation& body, const ir::EncodedInput& input) {
  Instruction* const parameter = body.parameters()[at(input.input)];
  const std::vector<Instruction*> users = parameter->users();
  Instruction* const root = body.root();
  Decoder decoder(body, input.codec, parameter->shape());
  parameter->set_shape(decoder.stored());
  Instruction* const value = decoder.decode(parameter);
  for (Instruction* user : users) {
    for (int i = 0; i < user->operand_count(); ++i) {
      if (user->operand(i) == parameter) user->replace_operand(i, value);
    }
  }
  body.set_root(root);
}

bool can_fuse_decode(const Instruction& instruction, const ir::EncodedInput& input) {
  if (input.codec.kind == CodecKind::none ||
      ir::codec_info(input.codec.kind).layout.form == ir::CodeLayout::Form::blocks) {
    return false;
  }
  if (!can_code(instruction) || input.input >= instruction.operand_count()) return false;
  if (instruction.opcode() != Opcode::fusion) return true;
  const Instruction& parameter = *instruction.to_apply()->parameters()[at(input.input)];
  const Instruction& root = *instruction.to_apply()->root();
  const bool is_result = &parameter == &root || (root.opcode() == Opcode::tuple &&
                                                 std::count(root.operands().begin(),
                                                            root.operands().end(), &parameter) > 0);
  if (is_result || is_updated(parameter)) return false;
  return !input.codec.is_mask() || is_read_in_place(parameter);
}

}  // namespace plimsoll::executor
