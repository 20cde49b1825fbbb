// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/record/recorder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include <limits>
#include <optional>
#include <type_traits>

#include "runtime/base/index.h"
#include "runtime/ir/literal.h"
#include "runtime/ir/shapes/shape_inference.h"

namespace plimsoll::trace {

using ir::Opcode;

namespace {

// Operands may have rank 0 beside arrays in HLO itself.
bool takes_scalar_operand(Opcode opcode, std::size_t operand) {
  return (opcode == Opcode::select && operand == 0) || (opcode == Opcode::clamp && operand != 1);
}

bool same_dims(const Node& a, const Node& b) {
  return a.rank == b.rank && std::equal(a.dims().begin(), a.dims().end(), b.dims().begin());
}

// Several arrays meet as one: of one dtype, which one reducer reads.
Status check_collective(Opcode opcode, std::span<const ir::Shape> shapes,
                        std::int64_t participants) {
  const std::string name(ir::to_string(opcode));
  if (participants == 0) {
    return failed_precondition(name +
                               ": the context has no communicator (create it with one, "
                               "plm_context_options::communicator)");
  }
  for (const ir::Shape& shape : shapes) {
    if (shape.dtype() == shapes[0].dtype()) continue;
    return invalid_argument(name + ": " + shapes[0].to_string() + " and " + shape.to_string() +
                            " differ in dtype (one collective for each dtype)");
  }
  return ok_status();
}

std::string too_large(Opcode opcode) {
  return std::string(ir::to_string(opcode)) + ": operation is too large";
}

}  // namespace

bool is_recordable(Opcode opcode) { return ir::op_info(opcode).is_recordable; }

Recorder::Recorder(Recording& recording, std::int64_t participants)
    : recording_(recording), participants_(participants), scratch_("recorder") {}

bool Recorder::accepts(Opcode opcode, ir::DType dtype) {
  std::uint8_t& known = accepts_[at(opcode)][at(dtype)];
  if (known == 0) {
    const ir::Shape scalar(dtype, {});
    const ir::Shape* shapes[] = {&scalar, &scalar};
    const auto count = static_cast<std::size_t>(ir::op_info(opcode).fewest_operands);
    known = ir::infer_shape(opcode, std::span(shapes).first(count), {}, {}, nullptr).ok() ? 2 : 1;
  }
  return known == 2;
}

Result<NodeRef> Recorder::broadcast_scalar(Node* scalar, const Node& like) {
  const ir::Shape shape(scalar->dtype, ir::Dims(like.dims()));
  Node* const operands[] = {scalar};
  return record_checked(Opcode::broadcast, operands, nullptr, &shape);
}

// Recording is what every operation of an eager program pays, so its common case does no work that
// is not needed later: operands of equal dims and dtype make a node without building a shape, and
// whether an operation takes a dtype is asked of shape inference once and remembered in a table.
// Everything else goes through record_checked(), with the same inference as HLO text: errors come
// at the call that is at fault and not at the evaluation.
//
// A scalar beside arrays is broadcast here, as Python's users expect; HLO itself wants equal dims.
Result<NodeRef> Recorder::record(Opcode opcode, std::span<Node* const> operands,
                                 const OpAttributes* attributes, const ir::Shape* given) {
  const ir::OpInfo& info = ir::op_info(opcode);
  const bool elementwise = ir::is_elementwise(opcode);
  if (elementwise && given == nullptr && (operands.size() == 1 || operands.size() == 2) &&
      static_cast<int>(operands.size()) == info.fewest_operands) {
    const Node& a = *operands[0];
    const Node& b = *operands.back();
    // The common case: same dims, same dtype; no shapes are built.
    if (a.dtype == b.dtype && same_dims(a, b) && opcode != Opcode::convert &&
        opcode != Opcode::bitcast_convert && opcode != Opcode::reduce_precision &&
        (a.flags & kTupleResult) == 0 && (b.flags & kTupleResult) == 0 &&
        accepts(opcode, a.dtype)) {
      const ir::DType dtype =
          info.shape_rule == ir::ShapeRule::predicate ? ir::DType::pred : a.dtype;
      if (attributes == nullptr) {
        return NodeRef(recording_, recording_.add(opcode, dtype, a.dims(), operands, {}));
      }
      PLIMSOLL_ASSIGN_OR_RETURN(const AttributeWords words,
                                AttributeWords::encode(opcode, *attributes));
      return NodeRef(recording_, recording_.add(opcode, dtype, a.dims(), operands, words.words()));
    }
  }
  if (elementwise && operands.size() >= 2 && operands.size() <= 3) {
    const Node* array = nullptr;
    for (Node* operand : operands) {
      if (operand->rank > 0) array = operand;
    }
    NodeRef kept[3];
    Node* widened[3];
    bool changed = false;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      widened[i] = operands[i];
      if (array == nullptr || operands[i]->rank > 0 || takes_scalar_operand(opcode, i) ||
          (operands[i]->flags & kTupleResult) != 0) {
        continue;
      }
      PLIMSOLL_ASSIGN_OR_RETURN(kept[i], broadcast_scalar(operands[i], *array));
      widened[i] = kept[i].get();
      changed = true;
    }
    if (changed) {
      return record_checked(opcode, std::span(widened).first(operands.size()), attributes, given);
    }
  }
  return record_checked(opcode, operands, attributes, given);
}

// Of an all-gather or a reduce-scatter: pieces of all participants one after the other along a
// dimension, respectively one of as many pieces.
Result<ir::Shape> Recorder::shape_of_pieces(Opcode opcode, std::span<const ir::Shape> shapes,
                                            const ir::Attributes& attributes) const {
  const std::string name(ir::to_string(opcode));
  const auto* const groups =
      attributes.collective == nullptr ? nullptr : &attributes.collective->replica_groups;
  const bool has_groups = groups != nullptr && !groups->empty();
  const std::int64_t members = has_groups ? std::ssize(groups->front()) : participants_;
  if (has_groups) {
    for (const auto& group : *groups) {
      if (std::ssize(group) == members) continue;
      return invalid_argument(name + ": groups of " + std::to_string(members) + " and of " +
                              std::to_string(group.size()) + " participants, must be of one size");
    }
  }
  std::vector<ir::Shape> results;
  for (const ir::Shape& shape : shapes) {
    if (attributes.dimensions.size() != 1 || attributes.dimensions[0] < 0 ||
        attributes.dimensions[0] >= shape.rank()) {
      return invalid_argument(name + ": dimensions must name one dim of " + shape.to_string());
    }
    const auto dimension = static_cast<int>(attributes.dimensions[0]);
    ir::Dims dims = shape.dims();
    if (dims[dimension] == 0) {
      return invalid_argument(name + ": dim " + std::to_string(dimension) + " of " +
                              shape.to_string() + " is empty");
    }
    if (opcode == Opcode::all_gather) {
      dims[dimension] *= members;
    } else if (dims[dimension] % members == 0) {
      dims[dimension] /= members;
    } else {
      return invalid_argument(name + ": dim " + std::to_string(dimension) + " of " +
                              shape.to_string() + " is no multiple of the " +
                              std::to_string(members) + " participants (pad it)");
    }
    results.emplace_back(shape.dtype(), dims);
  }
  return results.size() == 1 ? results[0] : ir::Shape::tuple(std::move(results));
}

Result<NodeRef> Recorder::record_checked(Opcode opcode, std::span<Node* const> operands,
                                         const OpAttributes* attributes, const ir::Shape* given) {
  if (!is_recordable(opcode)) {
    return unimplemented(std::string(ir::to_string(opcode)) +
                         ": cannot be recorded (it may be used in a program given as HLO text)");
  }
  static const OpAttributes kNone;
  const OpAttributes& op = attributes != nullptr ? *attributes : kNone;
  PLIMSOLL_ASSIGN_OR_RETURN(const AttributeWords words, AttributeWords::encode(opcode, op));
  if (operands.size() > (std::size_t{1} << 20)) return invalid_argument(too_large(opcode));

  std::vector<ir::Shape> shapes;
  std::vector<const ir::Shape*> pointers;
  std::vector<ir::DType> dtypes;
  shapes.reserve(operands.size());
  for (const Node* operand : operands) {
    if ((operand->flags & kTupleResult) != 0) {
      return invalid_argument(std::string(ir::to_string(opcode)) + ": an operand is a tuple");
    }
    shapes.push_back(operand->shape());
    pointers.push_back(&shapes.back());
    dtypes.push_back(operand->dtype);
  }
  const bool combines =
      op.callee.kind == Callee::Kind::combine || op.callee.kind == Callee::Kind::select_combine;
  if (combines && !dtypes.empty() && !accepts(op.callee.combiner, dtypes[0])) {
    return invalid_argument(std::string(ir::to_string(opcode)) + ": " +
                            std::string(ir::to_string(op.callee.combiner)) + " can't combine " +
                            shapes[0].to_string());
  }
  std::vector<ir::Computation*> called;
  if (op.callee.kind != Callee::Kind::none && !dtypes.empty()) {
    called = called_computations(scratch_, op.callee, dtypes);
  }
  std::optional<ir::Shape> wanted;
  if (given != nullptr) wanted = *given;
  if (ir::op_info(opcode).op_class == ir::OpClass::collective) {
    if (recording_.depth() > 0) {
      return unimplemented(
          std::string(ir::to_string(opcode)) +
          ": between participants, and inside a recorded loop or branch (a program "
          "given as HLO text may have it there)");
    }
    PLIMSOLL_RETURN_IF_ERROR(check_collective(opcode, shapes, participants_));
    if (opcode == Opcode::all_gather || opcode == Opcode::reduce_scatter) {
      PLIMSOLL_ASSIGN_OR_RETURN(wanted, shape_of_pieces(opcode, shapes, op.attributes));
    }
  }
  if (opcode == Opcode::rng_bit_generator && given != nullptr && !shapes.empty()) {
    if (!ir::is_random_state(shapes[0])) {
      return invalid_argument("rng-bit-generator: state " + shapes[0].to_string() +
                              " must be u64[2] or u64[3]");
    }
    wanted = ir::Shape::tuple({shapes[0], *given});
  }
  PLIMSOLL_ASSIGN_OR_RETURN(
      const ir::Shape result,
      ir::infer_shape(opcode, pointers, op.attributes, called, wanted ? &*wanted : nullptr));
  if (result.is_array()) {
    return NodeRef(recording_,
                   recording_.add(opcode, result.dtype(), result.dims(), operands, words.words()));
  }
  // A tuple's node carries the shape of its last element: with the operands' shapes that is enough
  // to know the others.
  const ir::Shape& last = result.elements().back();
  return NodeRef(recording_, recording_.add(opcode, last.dtype(), last.dims(), operands,
                                            words.words(), kTupleResult));
}

Result<NodeRef> Recorder::element(Node* tuple, int index) {
  if (index < 0 || index >= element_count(*tuple)) {
    return internal_error("get-tuple-element: no element " + std::to_string(index));
  }
  const ir::Shape shape = element_shape(*tuple, index);
  OpAttributes op;
  op.attributes.tuple_index = index;
  PLIMSOLL_ASSIGN_OR_RETURN(const AttributeWords words,
                            AttributeWords::encode(Opcode::get_tuple_element, op));
  return NodeRef(recording_, recording_.add(Opcode::get_tuple_element, shape.dtype(), shape.dims(),
                                            std::span(&tuple, 1), words.words()));
}

NodeRef Recorder::scalar(ir::DType dtype, double value, bool structural) {
  std::int64_t bits = 0;
  ir::visit_dtype(dtype, [&](auto type) {
    using T = decltype(type);
    T converted;
    if constexpr (std::is_same_v<T, bool>) {
      converted = value != 0;
    } else if constexpr (std::is_same_v<T, Bfloat16> || std::is_same_v<T, Float16>) {
      converted = T(static_cast<float>(value));
    } else if constexpr (std::is_integral_v<T>) {
      // Out of range saturates; the cast alone would be undefined.
      constexpr auto kLow = static_cast<double>(std::numeric_limits<T>::min());
      constexpr auto kHigh = static_cast<double>(std::numeric_limits<T>::max());
      if (!(value > kLow)) {
        converted = value != value ? T{0} : std::numeric_limits<T>::min();
      } else {
        converted =
            value >= kHigh ? std::numeric_limits<T>::max() : static_cast<T>(std::nearbyint(value));
      }
    } else {
      converted = static_cast<T>(value);
    }
    std::memcpy(&bits, &converted, sizeof(T));
  });
  return NodeRef(recording_, recording_.add(Opcode::constant, dtype, {}, {}, std::span(&bits, 1),
                                            structural ? kStructural : std::uint8_t{0}));
}

NodeRef Recorder::stop_gradient(Node* node) {
  return NodeRef(recording_, recording_.add(Opcode::copy, node->dtype, node->dims(),
                                            std::span(&node, 1), {}, kStopGradient));
}

NodeRef Recorder::leaf(const ir::Shape& shape, std::shared_ptr<Value> value) {
  return NodeRef(recording_, recording_.add(Opcode::parameter, shape.dtype(), shape.dims(), {}, {},
                                            0, std::move(value)));
}

}  // namespace plimsoll::trace
