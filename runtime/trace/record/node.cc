// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/record/node.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace plimsoll::trace {

std::int64_t Node::byte_size() const {
  std::int64_t bytes = ir::dtype_bytes(dtype);
  for (const std::int64_t dim : dims()) bytes *= dim;
  return bytes;
}

int element_count(const Node& node) {
  if ((node.flags & kTupleResult) == 0) return 0;
  if (node.control != nullptr) return node.control->result_count();
  return node.opcode == ir::Opcode::rng_bit_generator ? 2 : static_cast<int>(node.operand_count);
}

// The node has the shape of its last element. Of an all-gather and a reduce-scatter the others are
// to their operands as that is to the last: the dimension along which pieces lie is the one that
// differs.
ir::Shape element_shape(const Node& tuple, int index) {
  if (tuple.control != nullptr) return tuple.control->result_shape(index);
  if (index == element_count(tuple) - 1) return tuple.shape();
  ir::Shape shape = tuple.operand(index)->shape();
  if (tuple.opcode != ir::Opcode::all_gather && tuple.opcode != ir::Opcode::reduce_scatter) {
    return shape;
  }
  const std::span<const std::int64_t> pieces = tuple.operands().back()->dims();
  const auto [in, out] = std::mismatch(pieces.begin(), pieces.end(), tuple.dims().begin());
  if (in == pieces.end()) return shape;
  ir::Dims dims = shape.dims();
  std::int64_t& dim = dims[static_cast<int>(in - pieces.begin())];
  dim = dim * *out / *in;
  return ir::Shape(shape.dtype(), dims);
}

ir::Shape result_shape(const Node& node) {
  if ((node.flags & kTupleResult) == 0) return node.shape();
  std::vector<ir::Shape> elements;
  for (int i = 0; i < element_count(node); ++i) elements.push_back(element_shape(node, i));
  return ir::Shape::tuple(std::move(elements));
}

BlockPool::~BlockPool() = default;

void* BlockPool::allocate(std::size_t bytes, std::uint8_t& size_class) {
  const std::size_t steps = (bytes + kStep - 1) / kStep;
  if (steps > kClasses) {
    size_class = 0;
    return ::operator new(bytes);
  }
  size_class = static_cast<std::uint8_t>(steps);
  if (Free* block = free_[steps]) {
    free_[steps] = block->next;
    return block;
  }
  const std::size_t size = steps * kStep;
  if (left_ < size) {
    // What is left of the old slab still serves a smaller class.
    if (left_ >= kStep) release(cursor_, static_cast<std::uint8_t>(left_ / kStep));
    slabs_.push_back(std::make_unique_for_overwrite<std::byte[]>(kSlabBytes));
    cursor_ = slabs_.back().get();
    left_ = kSlabBytes;
  }
  void* block = cursor_;
  cursor_ += size;
  left_ -= size;
  return block;
}

void BlockPool::release(void* block, std::uint8_t size_class) {
  if (size_class == 0) {
    ::operator delete(block);
    return;
  }
  free_[size_class] = new (block) Free{free_[size_class]};
}

Node* Recording::add(ir::Opcode opcode, ir::DType dtype, std::span<const std::int64_t> dims,
                     std::span<Node* const> operands, std::span<const std::int64_t> words,
                     std::uint8_t flags, std::shared_ptr<Value> value) {
  std::uint8_t size_class = 0;
  void* block =
      pool_.allocate(sizeof(Node) + 8 * (operands.size() + dims.size() + words.size()), size_class);
  Node* node = new (block) Node;
  node->sequence = ++sequence_;
  node->opcode = opcode;
  node->dtype = dtype;
  node->rank = static_cast<std::uint8_t>(dims.size());
  node->flags = flags;
  node->size_class = size_class;
  node->operand_count = static_cast<std::uint32_t>(operands.size());
  node->word_count = static_cast<std::uint32_t>(words.size());
  std::copy(dims.begin(), dims.end(), node->dims_data());
  std::copy(operands.begin(), operands.end(), node->operands().data());
  std::copy(words.begin(), words.end(), node->words().data());
  std::uint8_t of_operands = 0;
  for (Node* operand : operands) {
    ++operand->refs;
    of_operands |= operand->flags;
  }
  if ((of_operands & (kVariable | kDerived)) != 0 && (flags & kStopGradient) == 0 &&
      (ir::is_floating(dtype) || (flags & kTupleResult) != 0)) {
    node->flags |= kDerived;
  }
  if (value != nullptr) {
    node->value = std::move(value);
    return node;
  }
  node->scope = depth_;
  node->previous = newest_;
  (newest_ != nullptr ? newest_->next : oldest_) = node;
  newest_ = node;
  ++pending_;
  return node;
}

void Recording::move_before(Node* node, Node* position) {
  unlink(node);
  node->previous = position->previous;
  node->next = position;
  (node->previous != nullptr ? node->previous->next : oldest_) = node;
  position->previous = node;
  node->scope = position->scope;
  ++pending_;
}

void Recording::replace_operand(Node* user, int operand, Node* with) {
  Node* const before = std::exchange(user->operands()[at(operand)], with);
  ++with->refs;
  release(before);
}

void Recording::leave() {
  while (newest_ != nullptr && newest_->scope == depth_) {
    Node* node = newest_;
    unlink(node);
    node->scope = kEnded;
    node->control = nullptr;
    node->word_count = 0;
    drop_operands(node);
    free_doomed();
  }
  --depth_;
}

void Recording::unlink(Node* node) {
  (node->previous != nullptr ? node->previous->next : oldest_) = node->next;
  (node->next != nullptr ? node->next->previous : newest_) = node->previous;
  node->previous = node->next = nullptr;
  --pending_;
}

void Recording::drop_operands(Node* node) {
  for (Node* operand : node->operands()) {
    if (--operand->refs == 0) doomed_.push_back(operand);
  }
  node->operand_count = 0;
}

void Recording::free(Node* node) {
  // Iterative: a chain of a million operations must not become a million stack frames.
  doomed_.push_back(node);
  while (!doomed_.empty()) {
    Node* dead = doomed_.back();
    doomed_.pop_back();
    drop_operands(dead);
    if (dead->is_pending()) {
      if (dead->scope != kEnded) unlink(dead);
    } else if (!dead->value->on_host && discard_ != nullptr) {
      discard_(*dead->value);
    }
    const std::uint8_t size_class = dead->size_class;
    dead->~Node();
    pool_.release(dead, size_class);
  }
}

void Recording::materialize(Node* node, std::shared_ptr<Value> value) {
  unlink(node);
  node->value = std::move(value);
  drop_operands(node);
  node->word_count = 0;
  node->control = nullptr;
  free_doomed();
}

void Recording::free_doomed() {
  while (!doomed_.empty()) {
    Node* dead = doomed_.back();
    doomed_.pop_back();
    free(dead);
  }
}

}  // namespace plimsoll::trace
