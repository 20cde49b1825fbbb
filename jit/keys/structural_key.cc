// SPDX-License-Identifier: Apache-2.0
#include "jit/keys/structural_key.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jit/keys/attribute_key.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

// Larger literals are neither copied nor compared at each look-up.
constexpr std::size_t kLargestLiteral = 1024;

// Known while compiling, as ir::is_elementwise is not.
constexpr auto kIsElementwise = [] {
  using enum ir::OpClass;
  constexpr ir::OpClass classes[] = {
#define PLIMSOLL_OP(number, name, text, c_name, fewest, most, op_class, ...) op_class,
#include "runtime/ir/ops.def"
  };
  std::array<bool, std::size(classes)> found = {};
  for (std::size_t i = 0; i < found.size(); ++i) found[i] = classes[i] <= ternary;
  return found;
}();

// Which attributes an operation has. An instruction is large, and most of it says nothing.
enum class Has : std::uint8_t {
  none,
  parameter_number,
  comparison,
  dimensions,
  dimensions_and_calls,
  any
};

constexpr Has attributes_of(ir::Opcode opcode) {
  switch (opcode) {
    case ir::Opcode::parameter:
      return Has::parameter_number;
    case ir::Opcode::compare:
      return Has::comparison;
    case ir::Opcode::broadcast:
    case ir::Opcode::transpose:
    case ir::Opcode::concatenate:
    case ir::Opcode::iota:
      return Has::dimensions;
    case ir::Opcode::reduce:
      return Has::dimensions_and_calls;
    case ir::Opcode::tuple:
    case ir::Opcode::reshape:
      return Has::none;
    case ir::Opcode::reduce_precision:
      return Has::any;
    default:
      return kIsElementwise[at(opcode)] ? Has::none : Has::any;
  }
}

// Numbers of instructions by their address; cleared in constant time.
class Numbers {
 public:
  void clear() {
    used_ = 0;
    if (++round_ != 0) return;
    std::fill(slots_.get(), slots_.get() + mask_ + 1, Slot());
    round_ = 1;
  }
  // Once per instruction; the number is how many were there before it.
  void add(const ir::Instruction* instruction) {
    if (2 * used_ > mask_) [[unlikely]]
      grow();
    find(instruction) = {instruction, round_, used_++};
  }
  std::uint32_t get(const ir::Instruction* instruction) { return find(instruction).number; }

 private:
  struct Slot {
    const ir::Instruction* instruction = nullptr;
    std::uint32_t round = 0;
    std::uint32_t number = 0;
  };
  // Its own, or the one to take.
  Slot& find(const ir::Instruction* instruction) {
    for (std::size_t i = reinterpret_cast<std::uintptr_t>(instruction) * 0x9e3779b97f4a7c15u >> 40;;
         ++i) {
      Slot& slot = slots_[i & mask_];
      if (slot.instruction == instruction || slot.round != round_) return slot;
    }
  }
  void grow() {
    const std::size_t count = mask_ + 1;
    const auto old = std::exchange(slots_, std::make_unique<Slot[]>(2 * count));
    mask_ = 2 * count - 1;
    for (std::size_t i = 0; i < count; ++i) {
      if (old[i].round == round_) find(old[i].instruction) = old[i];
    }
  }

  std::size_t mask_ = 255;  // slots, less one
  std::unique_ptr<Slot[]> slots_ = std::make_unique<Slot[]>(mask_ + 1);
  std::uint32_t round_ = 0, used_ = 0;
};

// Where the next bytes go. Passed by value, so that it stays in a register: a store of bytes may
// change whatever lies in memory.
using At = char*;

At put_word(At at, unsigned value) {
  const auto word = static_cast<std::uint16_t>(value);
  std::memcpy(at, &word, sizeof word);
  return at + sizeof word;
}
constexpr std::size_t kMostNumberBytes = 10;
At put_number(At at, std::int64_t value) {
  // Most are small.
  if (static_cast<std::uint64_t>(value) < 0xffff) return put_word(at, static_cast<unsigned>(value));
  at = put_word(at, 0xffff);
  std::memcpy(at, &value, sizeof value);
  return at + sizeof value;
}

class KeyWriter {
 public:
  // False when there is no key.
  bool write(const ir::Instruction& instruction) {
    at_ = bytes_.data();
    numbers_.clear();
    for (const ir::Instruction* operand : instruction.operands()) shape(operand->shape());
    return node(instruction);
  }
  std::string_view key() const {
    return {bytes_.data(), static_cast<std::size_t>(at_ - bytes_.data())};
  }

  // What append_attributes writes to.
  void tag(char tag) { at_ = put_word(room(2), static_cast<std::uint8_t>(tag)); }
  void number(std::int64_t value) { at_ = put_number(room(kMostNumberBytes), value); }
  void length(std::size_t size) { number(static_cast<std::int64_t>(size)); }
  void bytes(const void* data, std::size_t size) {
    length(size);
    if (size == 0) return;
    At at = room(size);
    std::memcpy(at, data, size);
    at_ = at + size;
  }

 private:
  // Where at least so many bytes may go.
  At room(std::size_t size) {
    if (size > static_cast<std::size_t>(end_ - at_)) [[unlikely]] {
      const auto used = static_cast<std::size_t>(at_ - bytes_.data());
      bytes_.resize(2 * (used + size));
      at_ = bytes_.data() + used;
      end_ = bytes_.data() + bytes_.size();
    }
    return at_;
  }

  bool node(const ir::Instruction& instruction) {
    at_ = put_word(room(2), static_cast<unsigned>(instruction.opcode()));
    shape(instruction.shape());
    return attributes(instruction);
  }

  // What no operand and no name tells. The opcode says what there is, so that nothing is taken for
  // something else.
  bool attributes(const ir::Instruction& instruction) {
    const ir::Attributes& attributes = instruction.attributes();
    switch (attributes_of(instruction.opcode())) {
      case Has::none:
        return true;
      case Has::parameter_number:
        number(attributes.parameter_number);
        return true;
      case Has::comparison:
        number(static_cast<int>(attributes.comparison_direction));
        number(static_cast<int>(attributes.comparison_order));
        return true;
      case Has::dimensions:
        list(attributes.dimensions);
        return true;
      case Has::dimensions_and_calls:
        list(attributes.dimensions);
        return calls(instruction);
      case Has::any:
        break;
    }
    if (attributes.literal != nullptr && !attributes.literal->is_elided() &&
        attributes.literal->shape().byte_size() > static_cast<std::int64_t>(kLargestLiteral)) {
      return false;
    }
    append_attributes(*this, attributes);
    at_ = put_word(room(2), 0xfffe);  // no tag
    return calls(instruction);
  }

  bool calls(const ir::Instruction& instruction) {
    number(static_cast<std::int64_t>(instruction.called_computations().size()));
    for (const ir::Computation* called : instruction.called_computations()) {
      if (!computation(*called)) return false;
    }
    return true;
  }

  // Instructions are large and lie anywhere; what is read of most is asked for ahead.
  static void fetch(const ir::Instruction& instruction) {
    __builtin_prefetch(&instruction);
    __builtin_prefetch(instruction.shape().dims().begin() + ir::kMaxRank - 1);
    __builtin_prefetch(&instruction.operands());
  }

  bool computation(const ir::Computation& computation) {
    constexpr std::size_t kAhead = 4;
    const auto& all = computation.instructions();
    number(computation.instruction_count());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i + kAhead < all.size()) fetch(*all[i + kAhead]);
      const ir::Instruction& instruction = *all[i];
      const std::vector<ir::Instruction*>& operands = instruction.operands();
      At at = room(2 + kMostShapeBytes + (operands.size() + 1) * kMostNumberBytes);
      at = put_word(at, static_cast<unsigned>(instruction.opcode()));
      at = put_number(at, static_cast<std::int64_t>(operands.size()));
      for (const ir::Instruction* operand : operands) at = put_number(at, numbers_.get(operand));
      numbers_.add(&instruction);
      if (const ir::Shape& of = instruction.shape(); is_plain(of)) {
        at_ = put_plain(at, of);
      } else {
        at_ = at;
        shape(of);
      }
      if (!attributes(instruction)) return false;
    }
    number(numbers_.get(computation.root()));
    return true;
  }

  void list(const std::vector<std::int64_t>& values) {
    At at = room((values.size() + 1) * kMostNumberBytes);
    at = put_number(at, static_cast<std::int64_t>(values.size()));
    for (const std::int64_t value : values) at = put_number(at, value);
    at_ = at;
  }

  static bool is_plain(const ir::Shape& shape) {
    return shape.is_array() && shape.layout() == nullptr;
  }
  static constexpr std::size_t kMostShapeBytes = 2 + kMostNumberBytes * (ir::kMaxRank + 1);
  static At put_plain(At at, const ir::Shape& shape) {
    at = put_word(at,
                  static_cast<unsigned>(shape.dtype()) << 8 | static_cast<unsigned>(shape.rank()));
    for (const std::int64_t dim : shape.dims()) at = put_number(at, dim);
    return at;
  }
  void shape(const ir::Shape& shape) {
    if (is_plain(shape)) {
      at_ = put_plain(room(kMostShapeBytes), shape);
      return;
    }
    // Marks that are no dtype's.
    if (shape.is_tuple()) {
      at_ = put_word(room(2), 0xfffe);
      number(static_cast<std::int64_t>(shape.elements().size()));
      for (const ir::Shape& element : shape.elements()) this->shape(element);
      return;
    }
    const std::string text = shape.to_string(true);
    at_ = put_word(room(2), 0xffff);
    bytes(text.data(), text.size());
  }

  std::vector<char> bytes_ = std::vector<char>(4096);
  At at_ = bytes_.data(), end_ = at_ + bytes_.size();
  Numbers numbers_;
};

}  // namespace

std::optional<std::string_view> structural_key(const ir::Instruction& instruction) {
  // By way of a pointer: the address of what is the thread's own takes longer to find.
  thread_local const auto writer = std::make_unique<KeyWriter>();
  KeyWriter& own = *writer;
  if (!own.write(instruction)) return std::nullopt;
  return own.key();
}

}  // namespace plimsoll::jit
