// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "runtime/ir/interpreter/interpreter_parts.h"
#include "runtime/ir/participants.h"

// send and recv: the first halves say what goes and where it comes to, the second wait for it.
namespace plimsoll::ir::interpreter {
namespace {

// To whom this participant sends, or from whom it receives; -1: nobody.
Result<std::int64_t> other_end(const Instruction& instruction, std::int64_t self, bool sends) {
  PLIMSOLL_ASSIGN_OR_RETURN(const Pairs pairs, sent_participants(instruction));
  for (const auto& [from, to] : pairs) {
    if ((sends ? from : to) == self) return sends ? to : from;
  }
  return -1;
}

// (data, context, token).
Literal under_way(const Shape& shape, Literal data) {
  std::vector<Literal> elements;
  elements.push_back(std::move(data));
  for (std::size_t i = 1; i < shape.elements().size(); ++i) {
    elements.emplace_back(shape.elements()[i]);
  }
  return Literal::tuple(std::move(elements));
}

}  // namespace

Result<Literal> transfer(Context& context, const Instruction& instruction, Operands operands) {
  const Opcode opcode = instruction.opcode();
  const bool begins = opcode == Opcode::send || opcode == Opcode::recv;
  const bool sends = opcode == Opcode::send || opcode == Opcode::send_done;
  const Instruction* const start = begins ? &instruction : instruction.operand(0);
  const auto& collective = start->attributes().collective;
  if (collective != nullptr && collective->is_host_transfer) {
    return unsupported(instruction, "transfers to and from the host");
  }
  const std::int64_t self = context.participation.participant;
  PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t other, other_end(instruction, self, sends));
  MeetingPlace* const place = context.participation.place;
  if (other >= 0 && place == nullptr) {
    return unsupported(instruction, topology_of(instruction).participants() > 1
                                        ? "several participants (interpret_together runs them all)"
                                        : "to oneself");
  }
  const std::string what = passage_name(instruction);
  const MeetingPlace::Passage passage{sends ? self : other, sends ? other : self, what};
  if (begins) {
    const Shape& shape = instruction.shape();
    Literal& data = context.under_way[&instruction];
    data = sends ? *operands[0] : Literal(shape.elements()[0]);
    if (other >= 0 && sends) PLIMSOLL_RETURN_IF_ERROR(place->begin_send(passage, &data));
    if (other >= 0 && !sends) {
      PLIMSOLL_RETURN_IF_ERROR(place->begin_receive(passage, [&data](const void* shown) {
        data = *static_cast<const Literal*>(shown);
        return ok_status();
      }));
    }
    return under_way(shape, sends ? *operands[0] : Literal(shape.elements()[0]));
  }
  if (other >= 0) {
    PLIMSOLL_RETURN_IF_ERROR(sends ? place->end_send(passage, nullptr)
                                   : place->end_receive(passage, nullptr));
  }
  const auto found = context.under_way.extract(start);
  if (sends) return Literal(Shape::token());
  std::vector<Literal> elements;
  elements.push_back(std::move(found.mapped()));
  elements.emplace_back(Shape::token());
  return Literal::tuple(std::move(elements));
}

}  // namespace plimsoll::ir::interpreter
