// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"
#include "runtime/trace/record/attribute_words.h"
#include "runtime/trace/record/node.h"

namespace plimsoll::trace {

// Appends checked operations to a recording. Every failure is an INVALID_ARGUMENT that names the
// operation and the shapes, and leaves it as it was. Not thread-safe.
class Recorder {
 public:
  // Collectives are among `participants`; 0: there are no others to meet, and none can be recorded.
  explicit Recorder(Recording& recording, std::int64_t participants = 0);

  // One operation. `given` is the result shape of the operations whose shape rule is `given`
  // (broadcast, reshape, convert, iota, ...) and the accumulation type of dot and convolution; null
  // otherwise. Rank-0 operands of elementwise operations are broadcast to the others' dims. Sort
  // and collectives of several operands and rng-bit-generator (`given` is the shape of the bits)
  // give a tuple node: `element` takes it apart. Collectives are of all participants;
  // FAILED_PRECONDITION where there are none.
  Result<NodeRef> record(ir::Opcode opcode, std::span<Node* const> operands,
                         const OpAttributes* attributes = nullptr,
                         const ir::Shape* given = nullptr);
  Result<NodeRef> element(Node* tuple, int index);

  // A rank-0 constant. The value of a structural one is part of the program; the others may become
  // inputs of it when they turn out to change.
  NodeRef scalar(ir::DType dtype, double value, bool structural);
  // The same value; gradients end here.
  NodeRef stop_gradient(Node* node);
  // A leaf.
  NodeRef leaf(const ir::Shape& shape, std::shared_ptr<Value> value);

  Recording& recording() { return recording_; }
  std::int64_t participants() const { return participants_; }

 private:
  Result<NodeRef> record_checked(ir::Opcode opcode, std::span<Node* const> operands,
                                 const OpAttributes* attributes, const ir::Shape* given);
  Result<ir::Shape> shape_of_pieces(ir::Opcode opcode, std::span<const ir::Shape> shapes,
                                    const ir::Attributes& attributes) const;
  Result<NodeRef> broadcast_scalar(Node* scalar, const Node& like);
  bool accepts(ir::Opcode opcode, ir::DType dtype);

  Recording& recording_;
  const std::int64_t participants_;
  ir::Module scratch_;  // holds the called computations that shapes are checked against
  // Per opcode and dtype, whether an elementwise operation takes it: unknown, no, yes.
  std::array<std::array<std::uint8_t, 16>, 256> accepts_{};
};

// True for the operations `record` takes.
bool is_recordable(ir::Opcode opcode);

}  // namespace plimsoll::trace
