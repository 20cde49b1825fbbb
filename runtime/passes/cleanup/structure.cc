// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/cleanup/structure.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/ir/attribute_fields.h"
#include "runtime/ir/hint.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::Computation;
using ir::Instruction;
using ir::Literal;
using ir::Shape;

namespace {

void mix(std::size_t& hash, std::size_t value) { hash = combine_hash(hash, value); }

void mix_shape(std::size_t& hash, const Shape& shape) {
  mix(hash, static_cast<std::size_t>(shape.kind()));
  if (shape.is_array()) {
    mix(hash, static_cast<std::size_t>(shape.dtype()));
    for (std::int64_t d : shape.dims()) mix(hash, static_cast<std::size_t>(d));
  }
  for (const Shape& element : shape.elements()) mix_shape(hash, element);
}

void mix_literal(std::size_t& hash, const Literal& literal) {
  if (!literal.shape().is_array()) return;
  const auto bytes = literal.bytes().first(std::min<std::size_t>(literal.bytes().size(), 64));
  mix(hash, hash_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

bool same_layout(const Shape& a, const Shape& b) {
  if (a.is_tuple()) {
    for (std::size_t i = 0; i < a.elements().size(); ++i) {
      if (!same_layout(a.elements()[i], b.elements()[i])) return false;
    }
    return true;
  }
  if (a.layout() == nullptr || b.layout() == nullptr) return a.layout() == b.layout();
  return *a.layout() == *b.layout();
}

bool has_elided_values(const Literal& literal) {
  return literal.is_elided() ||
         std::any_of(literal.elements().begin(), literal.elements().end(), has_elided_values);
}

using LiteralPointer = std::shared_ptr<const Literal>;
bool same_literal(const LiteralPointer& a, const LiteralPointer& b) {
  if (a == nullptr || b == nullptr) return a == b;
  if (has_elided_values(*a) || has_elided_values(*b)) return false;
  return a == b || *a == *b;
}

// Rows of `extra` that say what an operation does. Metadata says where it came from, and a hint
// what to do with its value: instructions that differ in these alone are equal.
using Extra = std::vector<std::pair<std::string, std::string>>;
Extra meaning_of(const Extra& extra) {
  Extra rows;
  for (const auto& row : extra) {
    if (row.first == "metadata") continue;
    std::string text = row.second;
    if (text.find(ir::kHintAttribute) != std::string::npos) {
      Attributes only;
      only.extra = {row};
      ir::set_hint(only, ir::Hint::none);
      text = only.extra.empty() ? "" : only.extra[0].second;
    }
    if (text.empty() && row.first == "frontend_attributes") continue;
    rows.emplace_back(row.first, std::move(text));
  }
  return rows;
}

struct SameField {
  bool operator()(ir::Field<&Attributes::literal>, const LiteralPointer& a,
                  const LiteralPointer& b) const {
    return same_literal(a, b);
  }
  bool operator()(ir::Field<&Attributes::extra>, const Extra& a, const Extra& b) const {
    return a == b || meaning_of(a) == meaning_of(b);
  }
  template <auto Member, typename T>
  bool operator()(ir::Field<Member>, const T& a, const T& b) const {
    return ir::same_value(a, b);
  }
};

// Mixes the fields that are not at their defaults into `hash`.
struct HashFields {
  void operator()(ir::Field<&Attributes::literal>, const LiteralPointer& literal) {
    mix_literal(hash, *literal);
  }
  void operator()(ir::Field<&Attributes::extra>, const Extra& extra) {
    for (const auto& row : meaning_of(extra)) ir::archive_value(row, *this);
  }
  template <auto Member, typename T>
  void operator()(ir::Field<Member> field, const T& value) {
    number(field.letter);
    ir::archive_value(value, *this);
  }

  void number(std::int64_t value) { mix(hash, static_cast<std::size_t>(value)); }
  void length(std::size_t size) { mix(hash, size); }
  void bytes(const char* data, std::size_t size) {
    mix(hash, std::hash<std::string_view>()({data, size}));
  }

  std::size_t& hash;
};

}  // namespace

// Equal computations get one number, callees first, so that two calls are equal if their callees'
// numbers are: comparing is then linear in the size of one body, never in what it calls. The walk
// is a depth-first one with a stack of its own, for programs may nest deeper than a thread's stack
// allows. A hash sorts out most pairs before anything is compared.
ComputationClasses::ComputationClasses(const ir::Module& module) {
  // Callees first, whatever order the module has.
  for (const auto& start : module.computations()) {
    if (start.get() == module.entry()) continue;
    std::vector<std::pair<Computation*, bool>> work = {{start.get(), false}};
    while (!work.empty()) {
      const auto [computation, callees_done] = work.back();
      work.pop_back();
      if (classes_.contains(computation)) continue;
      if (callees_done) {
        classify(computation);
        continue;
      }
      work.emplace_back(computation, true);
      for (const auto& instruction : computation->instructions()) {
        for (Computation* callee : instruction->called_computations()) {
          if (!classes_.contains(callee)) work.emplace_back(callee, false);
        }
      }
    }
  }
}

void ComputationClasses::classify(Computation* computation) {
  std::size_t hash = computation->instructions().size();
  for (const auto& instruction : computation->instructions()) {
    mix(hash, hash_operation(*instruction));
  }
  for (int number : by_hash_[hash]) {
    if (equal(*computation, *representative(number))) {
      classes_.emplace(computation, number);
      return;
    }
  }
  const int number = static_cast<int>(representatives_.size());
  representatives_.push_back(computation);
  classes_.emplace(computation, number);
  by_hash_[hash].push_back(number);
}

bool ComputationClasses::equal(const Computation& a, const Computation& b) const {
  if (a.instruction_count() != b.instruction_count()) return false;
  PointerMap<Instruction, const Instruction*> twin(a.instructions().size());
  for (std::size_t i = 0; i < a.instructions().size(); ++i) {
    const Instruction& x = *a.instructions()[i];
    const Instruction& y = *b.instructions()[i];
    if (!same_operation(x, y) || x.operand_count() != y.operand_count() ||
        x.control_predecessors().size() != y.control_predecessors().size()) {
      return false;
    }
    for (int k = 0; k < x.operand_count(); ++k) {
      if (twin.at(x.operand(k)) != y.operand(k)) return false;
    }
    for (std::size_t k = 0; k < x.control_predecessors().size(); ++k) {
      if (twin.at(x.control_predecessors()[k]) != y.control_predecessors()[k]) return false;
    }
    twin.emplace(&x, &y);
  }
  return twin.at(a.root()) == b.root();
}

bool ComputationClasses::same_operation(const Instruction& a, const Instruction& b) const {
  if (a.opcode() != b.opcode() || !(a.shape() == b.shape()) || !same_layout(a.shape(), b.shape()) ||
      a.called_computations().size() != b.called_computations().size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.called_computations().size(); ++i) {
    if ((*this)[a.called_computations()[i]] != (*this)[b.called_computations()[i]]) return false;
  }
  return ir::all_fields(a.attributes(), b.attributes(), SameField());
}

std::size_t ComputationClasses::hash_operation(const Instruction& instruction) const {
  std::size_t hash = static_cast<std::size_t>(instruction.opcode());
  mix_shape(hash, instruction.shape());
  ir::for_each_set_field(instruction.attributes(), HashFields{hash});
  for (const Computation* callee : instruction.called_computations()) {
    mix(hash, static_cast<std::size_t>((*this)[callee]));
  }
  return hash;
}

}  // namespace plimsoll::passes
