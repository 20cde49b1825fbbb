// SPDX-License-Identifier: Apache-2.0
#include "jit/structural_key.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "jit/attribute_key.h"

namespace plimsoll::jit {
namespace {

// Larger literals are neither copied nor compared at each look-up.
constexpr std::size_t kLargestLiteral = 1024;

// Numbers of instructions by their address; cleared in constant time.
class Numbers {
 public:
  void clear() {
    ++round_;
    used_ = 0;
  }
  void set(const ir::Instruction* instruction, std::uint32_t number) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    Slot& slot = find(instruction);
    if (slot.round != round_) ++used_;
    slot = {instruction, round_, number};
  }
  std::uint32_t get(const ir::Instruction* instruction) { return find(instruction).number; }

 private:
  struct Slot {
    const ir::Instruction* instruction = nullptr;
    std::uint64_t round = 0;
    std::uint32_t number = 0;
  };
  Slot& find(const ir::Instruction* instruction) {
    const std::uint64_t hash =
        (reinterpret_cast<std::uintptr_t>(instruction) >> 4) * 0x9e3779b97f4a7c15u;
    for (std::size_t i = static_cast<std::size_t>(hash >> 32);; ++i) {
      Slot& slot = slots_[i & (slots_.size() - 1)];
      if (slot.round != round_ || slot.instruction == instruction) return slot;
    }
  }
  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    std::swap(old, slots_);
    for (const Slot& slot : old) {
      if (slot.round == round_) find(slot.instruction) = slot;
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(64);
  std::uint64_t round_ = 0;
  std::size_t used_ = 0;
};

class KeyWriter {
 public:
  // False when there is no key.
  bool write(const ir::Instruction& instruction) {
    at_ = bytes_.data();
    next_ = 0;
    numbers_.clear();
    for (const ir::Instruction* operand : instruction.operands()) shape(operand->shape());
    return node(instruction);
  }
  std::string_view key() const {
    return {bytes_.data(), static_cast<std::size_t>(at_ - bytes_.data())};
  }

  // What append_attributes writes to.
  void tag(char tag) { word(static_cast<std::uint8_t>(tag)); }
  void number(std::int64_t value) {
    // Most are small.
    if (value >= 0 && value < 0xffff) {
      word(static_cast<std::uint16_t>(value));
    } else {
      word(0xffff);
      raw(&value, sizeof value);
    }
  }
  void bytes(const void* data, std::size_t size) {
    number(static_cast<std::int64_t>(size));
    if (size > 0) raw(data, size);
  }

 private:
  void word(std::uint16_t value) { raw(&value, sizeof value); }
  void raw(const void* data, std::size_t size) {
    const auto used = static_cast<std::size_t>(at_ - bytes_.data());
    if (used + size > bytes_.size()) {
      bytes_.resize(2 * (used + size));
      at_ = bytes_.data() + used;
    }
    std::memcpy(at_, data, size);
    at_ += size;
  }

  bool node(const ir::Instruction& instruction) {
    const ir::Attributes& attributes = instruction.attributes();
    if (attributes.literal != nullptr && !attributes.literal->is_elided() &&
        attributes.literal->shape().byte_size() > static_cast<std::int64_t>(kLargestLiteral)) {
      return false;
    }
    word(static_cast<std::uint16_t>(instruction.opcode()));
    shape(instruction.shape());
    append_attributes(*this, attributes);
    word(0xfffe);  // no tag
    number(static_cast<std::int64_t>(instruction.called_computations().size()));
    for (const ir::Computation* called : instruction.called_computations()) {
      if (!computation(*called)) return false;
    }
    return true;
  }

  bool computation(const ir::Computation& computation) {
    number(computation.instruction_count());
    for (const auto& instruction : computation.instructions()) {
      if (!node(*instruction)) return false;
      number(instruction->operand_count());
      for (const ir::Instruction* operand : instruction->operands()) {
        number(numbers_.get(operand));
      }
      numbers_.set(instruction.get(), next_++);
    }
    number(numbers_.get(computation.root()));
    return true;
  }

  void shape(const ir::Shape& shape) {
    word(static_cast<std::uint16_t>(static_cast<unsigned>(shape.kind()) << 8 |
                                    (shape.is_array() ? static_cast<unsigned>(shape.dtype()) : 0) |
                                    (shape.layout() != nullptr ? 0x8000u : 0)));
    if (shape.is_array()) {
      number(shape.rank());
      for (const std::int64_t dim : shape.dims()) number(dim);
    } else {
      number(static_cast<std::int64_t>(shape.elements().size()));
      for (const ir::Shape& element : shape.elements()) this->shape(element);
    }
    if (shape.layout() != nullptr) {
      const std::string text = shape.to_string(true);
      bytes(text.data(), text.size());
    }
  }

  std::vector<char> bytes_ = std::vector<char>(4096);
  char* at_ = bytes_.data();
  std::uint32_t next_ = 0;
  Numbers numbers_;
};

}  // namespace

std::optional<std::string_view> structural_key(const ir::Instruction& instruction) {
  thread_local KeyWriter writer;
  if (!writer.write(instruction)) return std::nullopt;
  return writer.key();
}

}  // namespace plimsoll::jit
