// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/hint.h"
#include "runtime/ir/opcode.h"
#include "runtime/ir/shape.h"
#include "runtime/residency/value.h"
#include "runtime/trace/record/region.h"

namespace plimsoll::trace {

// Bits of Node::flags.
inline constexpr std::uint8_t kTupleResult = 1;   // dtype and dims are those of no single array
inline constexpr std::uint8_t kStopGradient = 2;  // a copy that gradients do not pass
inline constexpr std::uint8_t kStructural = 4;    // a constant whose value is part of the program
inline constexpr int kHintShift = 3;              // the three bits from here: an ir::Hint
inline constexpr std::uint8_t kVariable = 64;     // gradients with respect to it will be asked for
inline constexpr std::uint8_t kDerived = 128;     // floating, and computed from a variable

// Node::scope of what was recorded in a callback that has ended.
inline constexpr std::uint16_t kEnded = 0xffff;

// One recorded operation, or a leaf (a node with a value). Lives in a NodePool; counted by the
// edges of its users and by NodeRefs; never touched by more than one thread at a time. The arrays
// behind it are part of the same block.
struct Node {
  std::uint32_t refs = 0;
  std::uint32_t handles = 0;  // of refs, those that tensors hold
  std::uint64_t sequence = 0;
  Node* previous = nullptr;  // in the list of pending nodes, oldest first
  Node* next = nullptr;
  std::shared_ptr<Value> value;                // null while pending
  std::unique_ptr<const ControlFlow> control;  // of a loop or branch
  // Scratch of whoever walks the recording; valid when `epoch` is the walk's.
  std::uint32_t epoch = 0;
  std::uint32_t index = 0;
  std::uint32_t dropped = 0;
  std::uint32_t operand_count = 0;
  std::uint32_t word_count = 0;
  std::uint32_t name = 0;  // in the trace's names; 0: none
  ir::Opcode opcode = ir::Opcode::parameter;
  ir::DType dtype = ir::DType::f32;
  std::uint8_t rank = 0;
  std::uint8_t flags = 0;
  std::uint8_t size_class = 0;
  std::uint16_t scope = 0;  // how many callbacks (scope.h) it was recorded in; kEnded

  bool is_pending() const { return value == nullptr; }
  std::int64_t* dims_data() { return reinterpret_cast<std::int64_t*>(this + 1); }
  const std::int64_t* dims_data() const { return reinterpret_cast<const std::int64_t*>(this + 1); }
  std::span<const std::int64_t> dims() const { return {dims_data(), rank}; }
  std::span<Node*> operands() {
    return {reinterpret_cast<Node**>(dims_data() + rank), operand_count};
  }
  std::span<Node* const> operands() const {
    return {reinterpret_cast<Node* const*>(dims_data() + rank), operand_count};
  }
  Node* operand(int i) const { return operands()[at(i)]; }
  // Attributes in the form of attribute_words.h; for a constant, the bits of the scalar.
  std::span<std::int64_t> words() {
    return {reinterpret_cast<std::int64_t*>(operands().data() + operand_count), word_count};
  }
  std::span<const std::int64_t> words() const { return const_cast<Node*>(this)->words(); }
  // Arrays only.
  ir::Shape shape() const { return ir::Shape(dtype, ir::Dims(dims())); }
  std::int64_t byte_size() const;
};
static_assert(sizeof(Node) % alignof(Node*) == 0);

// Of a node: 0 where its result is an array; else how many arrays the tuple holds, and their
// shapes.
int element_count(const Node& node);
ir::Shape element_shape(const Node& tuple, int index);
// Of all of it: a tuple where the result is one.
ir::Shape result_shape(const Node& node);

inline ir::Hint hint_of(const Node& node) {
  return static_cast<ir::Hint>((node.flags >> kHintShift) & 7);
}
// A value that is there already has no use for one.
inline void set_hint(Node& node, ir::Hint hint) {
  if (!node.is_pending()) return;
  constexpr int kMask = 7 << kHintShift;
  node.flags =
      static_cast<std::uint8_t>((node.flags & ~kMask) | (static_cast<int>(hint) << kHintShift));
}

// Blocks of a few sizes carved from slabs and reused: recording takes no heap allocation once the
// slabs are there. Not thread-safe.
class BlockPool {
 public:
  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  // The class of the block is returned through `size_class` and must be given back with it.
  void* allocate(std::size_t bytes, std::uint8_t& size_class);
  void release(void* block, std::uint8_t size_class);

 private:
  static constexpr std::size_t kStep = 64;
  static constexpr std::size_t kClasses = 16;  // up to 1 KiB; larger blocks come from the heap
  static constexpr std::size_t kSlabBytes = std::size_t{64} << 10;
  struct Free {
    Free* next;
  };
  Free* free_[kClasses + 1] = {};
  std::vector<std::unique_ptr<std::byte[]>> slabs_;
  std::byte* cursor_ = nullptr;
  std::size_t left_ = 0;
};

// Owns all nodes and the list of the pending ones in the order of recording, which is a valid
// execution order. While callbacks are recorded (scope.h), what belongs to them stands at its end,
// the innermost last. Not thread-safe.
class Recording {
 public:
  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // A node without references, its operands counted; appended to the pending list unless `value`.
  Node* add(ir::Opcode opcode, ir::DType dtype, std::span<const std::int64_t> dims,
            std::span<Node* const> operands, std::span<const std::int64_t> words,
            std::uint8_t flags = 0, std::shared_ptr<Value> value = nullptr);
  void retain(Node* node) { ++node->refs; }
  // Frees the node, and what only it needed, at the last reference.
  void release(Node* node) {
    if (--node->refs == 0) free(node);
  }
  // A pending node becomes a leaf: it leaves the list and lets its operands go.
  void materialize(Node* node, std::shared_ptr<Value> value);

  // Puts a pending node right before another one, which it then shares its scope with.
  void move_before(Node* node, Node* position);
  void replace_operand(Node* user, int operand, Node* with);
  // What is added from here on belongs to a callback more, until `leave`, which must come before
  // the callback around it is left: what is still referred to of it then is no pending node any
  // more and has no operands (kEnded).
  void enter() { ++depth_; }
  void leave();
  std::uint16_t depth() const { return depth_; }

  Node* oldest() const { return oldest_; }
  Node* newest() const { return newest_; }
  std::int64_t pending_count() const { return pending_; }
  // Called with the device value of every leaf that is freed.
  void on_discard(std::function<void(Value&)> discard) { discard_ = std::move(discard); }
  // A number no node carries as its epoch yet.
  std::uint32_t new_epoch() { return ++epoch_; }
  BlockPool& pool() { return pool_; }

 private:
  void free(Node* node);
  void unlink(Node* node);
  void drop_operands(Node* node);
  void free_doomed();

  BlockPool pool_;
  Node* oldest_ = nullptr;
  Node* newest_ = nullptr;
  std::int64_t pending_ = 0;
  std::function<void(Value&)> discard_;
  std::uint64_t sequence_ = 0;
  std::uint32_t epoch_ = 0;
  std::uint16_t depth_ = 0;
  std::vector<Node*> doomed_;
};

// A counted reference to a node of a recording.
class NodeRef {
 public:
  NodeRef() = default;
  NodeRef(Recording& recording, Node* node) : recording_(&recording), node_(node) {
    if (node_ != nullptr) recording.retain(node_);
  }
  NodeRef(const NodeRef& other) : recording_(other.recording_), node_(other.node_) {
    if (node_ != nullptr) recording_->retain(node_);
  }
  NodeRef(NodeRef&& other) noexcept
      : recording_(other.recording_), node_(std::exchange(other.node_, nullptr)) {}
  NodeRef& operator=(NodeRef other) noexcept {
    std::swap(recording_, other.recording_);
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodeRef() {
    if (node_ != nullptr) recording_->release(node_);
  }
  Node* get() const { return node_; }
  Node* operator->() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }

 private:
  Recording* recording_ = nullptr;
  Node* node_ = nullptr;
};

}  // namespace plimsoll::trace
