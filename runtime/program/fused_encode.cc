// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/fused_encode.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/program/coding_kernels.h"

namespace plimsoll::executor {
namespace {

using ir::Codec;
using ir::CodecKind;
using ir::Computation;
using ir::Dims;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

std::vector<Instruction*> results_of(const Computation& body) {
  if (body.root()->opcode() == Opcode::tuple) return body.root()->operands();
  return {body.root()};
}

bool is_scalar(const Instruction& value) { return value.shape().element_count() == 1; }

// Another view of all values of the dims of a computation's results, whose last dimension is a
// word's bits.
//
// A mask has one bit per element, 32 to a word. To write it in the kernel that makes the value, the
// word must be a reduction in that kernel: or over the last dim of [.., 32], of bit << place. So
// the body is seen with its last dim cut in two.
//
// Example: y = maximum(x, 0) over f32[6,64], stored as the mask y > 0. The body becomes maximum
// over [6,2,32], and a second result u32[6,2]: or-reduce(convert(y > 0) << iota). One kernel writes
// y and the mask, or the mask alone where y is needed no more; there is no pass over y for the
// encoding.
//
// If the last dim is not a multiple of 32 the array is seen flat, [n/32,32]; then broadcasts along
// single dims have no counterpart, and the body is refused (`spreads`).
class Words {
 public:
  // None where something of that size is not computed element by element, or words don't fit.
  static std::optional<Words> fit(const Computation& body) {
    const std::vector<Instruction*> results = results_of(body);
    Words words;
    words.from_ = results.front()->shape().dims();
    for (const Instruction* result : results) {
      if (!result->shape().is_array() || result->shape().dims() != words.from_) return std::nullopt;
    }
    const std::int64_t count = results.front()->shape().element_count();
    if (count == 0 || count % kWordBits != 0 || words.from_.size() == ir::kMaxRank) {
      return std::nullopt;
    }
    bool spreads = false;  // not only scalars
    for (const auto& instruction : body.instructions()) {
      if (instruction.get() == body.root() && instruction->opcode() == Opcode::tuple) continue;
      if (!words.suits(*instruction)) return std::nullopt;
      spreads = spreads || (instruction->opcode() == Opcode::broadcast &&
                            words.is_whole(*instruction) && !is_scalar(*instruction->operand(0)));
    }
    words.splits_ = words.from_.end()[-1] % kWordBits == 0;
    if (!words.splits_ && spreads) return std::nullopt;
    words.to_ = words.splits_ ? split(words.from_) : Dims{count / kWordBits, kWordBits};
    return words;
  }

  const Dims& dims() const { return to_; }

  void apply(Computation& body) const {
    std::vector<Instruction*> whole;
    for (const auto& instruction : body.instructions()) {
      if (is_whole(*instruction)) whole.push_back(instruction.get());
    }
    for (Instruction* instruction : whole) {
      if (instruction->opcode() == Opcode::broadcast) spread(body, *instruction);
      instruction->set_shape(Shape(instruction->shape().dtype(), to_));
    }
  }

 private:
  bool is_whole(const Instruction& value) const {
    return value.shape().is_array() && value.shape().dims() == from_;
  }

  bool suits(const Instruction& instruction) const {
    if (!instruction.shape().is_array()) return false;
    const bool whole = is_whole(instruction);
    for (const Instruction* operand : instruction.operands()) {
      if (is_whole(*operand) && (!whole || !ir::is_elementwise(instruction.opcode()))) return false;
      const bool may_be_smaller =
          !whole || instruction.opcode() == Opcode::broadcast || is_scalar(*operand);
      if (!is_whole(*operand) && !may_be_smaller) return false;
    }
    if (!whole) return true;
    return ir::is_elementwise(instruction.opcode()) || instruction.opcode() == Opcode::broadcast ||
           instruction.opcode() == Opcode::parameter;
  }

  static Dims split(const Dims& dims) {
    std::vector<std::int64_t> sizes(dims.begin(), dims.end());
    sizes.back() /= kWordBits;
    sizes.push_back(kWordBits);
    return {sizes.begin(), sizes.end()};
  }

  // A broadcast along other dimensions than the last takes a value's last as two.
  void spread(Computation& body, Instruction& broadcast) const {
    const auto last = static_cast<std::int64_t>(from_.size()) - 1;
    auto& dimensions = broadcast.attributes().dimensions;
    if (!splits_ || dimensions.empty() || dimensions.back() != last) return;
    const Shape shape(broadcast.shape().dtype(), split(broadcast.operand(0)->shape().dims()));
    broadcast.replace_operand(0, body.add(Opcode::reshape, shape, {broadcast.operand(0)}));
    dimensions.push_back(last + 1);
  }

  Dims from_, to_;
  bool splits_ = false;
};

Computation* or_of_words(ir::Module& module) {
  Computation* const either = module.add_computation("or");
  const Shape word(DType::u32, {});
  Instruction* const a = either->add_parameter(0, word);
  Instruction* const b = either->add_parameter(1, word);
  either->add(Opcode::or_, word, {a, b});
  return either;
}

Instruction* number(Computation& body, DType dtype, double value) {
  ir::Literal literal(Shape(dtype, {}));
  literal.set(0, value);
  return body.add_constant(std::move(literal));
}

Instruction* whether(Computation& body, const Codec& codec, Instruction* value) {
  if (codec.gives_values()) return value;
  Instruction* const constant = body.add(Opcode::broadcast, value->shape(),
                                         {number(body, value->shape().dtype(), codec.constant)});
  ir::Attributes attributes;
  attributes.comparison_direction = codec.direction;
  return body.add(Opcode::compare, Shape(DType::pred, value->shape().dims()), {value, constant}, {},
                  std::move(attributes));
}

// Bit i of a word is element i of its row.
Instruction* bits_of(Computation& body, const Codec& codec, Instruction* value,
                     Computation* either) {
  const Dims& dims = value->shape().dims();
  const Shape each(DType::u32, dims);
  Instruction* const bit = body.add(Opcode::convert, each, {whether(body, codec, value)});
  ir::Attributes along;
  along.dimensions = {static_cast<std::int64_t>(dims.size()) - 1};
  Instruction* const place = body.add(Opcode::iota, each, {}, {}, along);
  Instruction* const shifted = body.add(Opcode::shift_left, each, {bit, place});
  Instruction* const word =
      body.add(Opcode::reduce, Shape(DType::u32, {dims.begin(), dims.end() - 1}),
               {shifted, number(body, DType::u32, 0)}, {}, along);
  word->set_called_computations({either});
  return word;
}

}  // namespace

bool can_fuse_encode(const Instruction& instruction, const ir::EncodedOutput& output) {
  if (!can_code(instruction)) return false;
  if (output.codec.kind == CodecKind::none || !output.codec.lossless() ||
      ir::codec_info(output.codec.kind).layout.form == ir::CodeLayout::Form::blocks) {
    return false;
  }
  if (instruction.opcode() != Opcode::fusion) {
    // Its operands are whole, or scalars.
    const std::int64_t count = instruction.shape().element_count();
    return !output.codec.is_mask() || (count > 0 && count % kWordBits == 0);
  }
  const Computation& body = *instruction.to_apply();
  const std::vector<Instruction*> results = results_of(body);
  const auto leaf = at(output.output);
  if (leaf >= results.size() || !results[leaf]->shape().is_array()) return false;
  // A parameter is no result that is made.
  if (results[leaf]->opcode() == Opcode::parameter) return false;
  const bool reduces =
      std::any_of(body.instructions().begin(), body.instructions().end(), [](const auto& inner) {
        return inner->opcode() == Opcode::reduce || inner->opcode() == Opcode::dynamic_update_slice;
      });
  if (reduces) return false;
  return !output.codec.is_mask() || Words::fit(body).has_value();
}

std::vector<Instruction*> fuse_encode(Computation& body,
                                      std::span<const ir::EncodedOutput> outputs) {
  Instruction* const root = body.root();
  Computation* either = nullptr;
  const bool masks = std::any_of(outputs.begin(), outputs.end(),
                                 [](const auto& output) { return output.codec.is_mask(); });
  if (masks) {
    either = or_of_words(*body.module());
    Words::fit(body)->apply(body);
    body.set_root(root);
  }
  const std::vector<Instruction*> results = results_of(body);
  std::vector<Instruction*> codes;
  for (const ir::EncodedOutput& output : outputs) {
    Instruction* const value = results[at(output.output)];
    codes.push_back(output.codec.is_mask()
                        ? bits_of(body, output.codec, value, either)
                        : body.add(Opcode::convert,
                                   Shape(ir::stored_dtype(output.codec), value->shape().dims()),
                                   {value}));
  }
  body.set_root(root);
  return codes;
}

}  // namespace plimsoll::executor
