// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/cleanup/structure.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/ir/hint.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::Computation;
using ir::Instruction;
using ir::Literal;
using ir::Shape;

namespace {

void mix(std::size_t& hash, std::size_t value) { hash = combine_hash(hash, value); }

template <typename Range>
void mix_all(std::size_t& hash, const Range& values) {
  mix(hash, values.size());
  for (const auto& value : values) mix(hash, static_cast<std::size_t>(value));
}

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

template <typename T>
bool same_pointee(const std::shared_ptr<const T>& a, const std::shared_ptr<const T>& b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

bool has_elided_values(const Literal& literal) {
  return literal.is_elided() ||
         std::any_of(literal.elements().begin(), literal.elements().end(), has_elided_values);
}

bool same_literal(const std::shared_ptr<const Literal>& a,
                  const std::shared_ptr<const Literal>& b) {
  if (a == nullptr || b == nullptr) return a == b;
  if (has_elided_values(*a) || has_elided_values(*b)) return false;
  return a == b || *a == *b;
}

// A hint says what to do with a value, not what it is: instructions that differ in it alone are
// equal.
std::string without_hint(const std::pair<std::string, std::string>& row) {
  if (row.second.find(ir::kHintAttribute) == std::string::npos) return row.second;
  Attributes only;
  only.extra = {row};
  ir::set_hint(only, ir::Hint::none);
  return only.extra.empty() ? "" : only.extra[0].second;
}

// Metadata says where an operation came from, not what it does.
bool same_extra(const Attributes& a, const Attributes& b) {
  const auto means_nothing = [](const std::pair<std::string, std::string>& row) {
    return row.first == "metadata" ||
           (row.first == "frontend_attributes" && without_hint(row).empty());
  };
  const auto next = [&](const Attributes& x, std::size_t& i) {
    while (i < x.extra.size() && means_nothing(x.extra[i])) ++i;
    return i < x.extra.size();
  };
  std::size_t i = 0, j = 0;
  for (;; ++i, ++j) {
    const bool more_a = next(a, i), more_b = next(b, j);
    if (!more_a || !more_b) return more_a == more_b;
    if (a.extra[i] == b.extra[j]) continue;
    if (a.extra[i].first != b.extra[j].first) return false;
    if (without_hint(a.extra[i]) != without_hint(b.extra[j])) return false;
  }
}

bool same_attributes(const Attributes& a, const Attributes& b) {
  return a.dimensions == b.dimensions && a.slice_starts == b.slice_starts &&
         a.slice_limits == b.slice_limits && a.slice_strides == b.slice_strides &&
         a.slice_sizes == b.slice_sizes && a.padding == b.padding && a.window == b.window &&
         same_literal(a.literal, b.literal) && same_pointee(a.dot, b.dot) &&
         same_pointee(a.convolution, b.convolution) && same_pointee(a.gather, b.gather) &&
         same_pointee(a.scatter, b.scatter) && same_pointee(a.collective, b.collective) &&
         a.parameter_number == b.parameter_number && a.tuple_index == b.tuple_index &&
         a.feature_group_count == b.feature_group_count &&
         a.batch_group_count == b.batch_group_count && a.exponent_bits == b.exponent_bits &&
         a.mantissa_bits == b.mantissa_bits && a.comparison_direction == b.comparison_direction &&
         a.comparison_order == b.comparison_order && a.fusion_kind == b.fusion_kind &&
         a.rng_distribution == b.rng_distribution && a.rng_algorithm == b.rng_algorithm &&
         a.indices_are_sorted == b.indices_are_sorted && a.unique_indices == b.unique_indices &&
         a.is_stable == b.is_stable &&
         a.custom_call_has_side_effect == b.custom_call_has_side_effect &&
         a.custom_call_target == b.custom_call_target && same_extra(a, b);
}

}  // namespace

ComputationClasses::ComputationClasses(const ir::Module& module) {
  // Callees first, whatever order the module has.
  for (const auto& start : module.computations()) {
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
  std::unordered_map<const Instruction*, const Instruction*> twin;
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
  return same_attributes(a.attributes(), b.attributes());
}

std::size_t ComputationClasses::hash_operation(const Instruction& instruction) const {
  std::size_t hash = static_cast<std::size_t>(instruction.opcode());
  const Attributes& a = instruction.attributes();
  mix_shape(hash, instruction.shape());
  mix_all(hash, a.dimensions);
  mix_all(hash, a.slice_starts);
  mix_all(hash, a.slice_limits);
  mix(hash, static_cast<std::size_t>(a.tuple_index));
  mix(hash, static_cast<std::size_t>(a.parameter_number));
  mix(hash, static_cast<std::size_t>(a.comparison_direction));
  if (a.literal != nullptr) mix_literal(hash, *a.literal);
  for (const Computation* callee : instruction.called_computations()) {
    mix(hash, static_cast<std::size_t>((*this)[callee]));
  }
  return hash;
}

}  // namespace plimsoll::passes
