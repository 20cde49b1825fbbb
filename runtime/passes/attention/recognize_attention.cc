// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/base/pointer_map.h"
#include "runtime/base/pointer_set.h"
#include "runtime/ir/fusions/attention.h"
#include "runtime/ir/hint.h"
#include "runtime/passes/attention/attention_gradient.h"
#include "runtime/passes/attention/attention_scores.h"
#include "runtime/passes/layout/drop_unit_dims.h"
#include "runtime/passes/loops/joined_bodies.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

// Composed, the scores are written and read by some kernels, at the speed of memory or a cache, and
// each of these kernels costs a launch. Fused, rows and keys are filled up to whole vectors and
// blocks, which is lost time where there are few. Both from shapes, in seconds of a small CPU.
bool pays(const AttentionScores& scores, const AttentionUses& uses) {
  constexpr double kBytesPerSecond = 12e9, kFlopsPerSecond = 60e9, kLaunchSeconds = 2e-6;
  double heads = 1;
  for (int i = 0; i < scores.batch; ++i) {
    heads *= static_cast<double>(scores.sizes[at(i)]);
  }
  const auto size = [&](int label) { return scores.sizes[at(label)]; };
  const auto filled = [](std::int64_t n, std::int64_t unit) {
    return static_cast<double>((n + unit - 1) / unit * unit);
  };
  const std::int64_t queries = size(scores.query_label()), keys = size(scores.key_label());
  const std::int64_t depth =
      scores.query.value->shape().dim(static_cast<int>(scores.query.order.back()));
  const auto products = [&](double rows) {
    const double matrices = uses.has_gradients() ? 7 : 2;
    return 2 * matrices * heads * rows * static_cast<double>(keys) * static_cast<double>(depth) /
           kFlopsPerSecond;
  };
  const double passes = uses.has_gradients() ? 12 : 5;
  const double score_bytes = 4 * heads * static_cast<double>(queries) * static_cast<double>(keys);
  const double saved = passes * (score_bytes / kBytesPerSecond + kLaunchSeconds);
  const double lost = products(filled(queries, 16)) - products(static_cast<double>(queries));
  return saved > lost;
}

class Recognition {
 public:
  explicit Recognition(Computation& computation) : computation_(computation) {}

  Result<bool> run() {
    std::vector<Instruction*> exponentials;
    for (const auto& instruction : computation_.instructions()) {
      if (instruction->opcode() == Opcode::exponential) exponentials.push_back(instruction.get());
    }
    if (exponentials.empty()) return false;
    std::int64_t place = 0;
    for (const auto& instruction : computation_.instructions()) {
      places_.emplace(instruction.get(), place++);
    }
    bool changed = false;
    for (Instruction* exponential : exponentials) {
      const auto scores = match_attention_scores(*exponential);
      if (!scores.has_value()) continue;
      const auto uses = match_attention_uses(*scores);
      if (!uses.has_value() || !pays(*scores, *uses)) continue;
      PLIMSOLL_ASSIGN_OR_RETURN(const bool replaced, replace(*scores, *uses));
      changed = changed || replaced;
    }
    if (!changed) return false;
    std::vector<Instruction*> before, order;
    for (const auto& instruction : computation_.instructions()) before.push_back(instruction.get());
    for (Instruction* instruction : before) {
      if (!made_.contains(instruction)) emit(instruction, order);
    }
    computation_.set_order(order);
    computation_.remove_dead();
    return true;
  }

 private:
  // What both fusions of one attention read.
  struct Parts {
    ir::AttentionForm form;
    std::vector<Instruction*> operands;
  };

  std::int64_t place_of(const Instruction* value) const { return places_.at(value); }

  // What is made right before an instruction counts as standing with it; at the end it does.
  Instruction* add_before(const Instruction* before, Opcode opcode, const ir::Shape& shape,
                          std::vector<Instruction*> operands, std::string_view name = {},
                          ir::Attributes attributes = {}) {
    Instruction* const root = computation_.root();
    Instruction* const made =
        computation_.add(opcode, shape, std::move(operands), name, std::move(attributes));
    computation_.set_root(root);
    places_.emplace(made, place_of(before));
    made_.insert(made);
    made_before_[before].push_back(made);
    return made;
  }

  void emit(Instruction* instruction, std::vector<Instruction*>& order) const {
    if (const std::vector<Instruction*>* const made_here = made_before_.find(instruction)) {
      for (Instruction* made : *made_here) emit(made, order);
    }
    order.push_back(instruction);
  }

  Result<bool> replace(const AttentionScores& scores, const AttentionUses& uses) {
    const std::vector<const AttentionExit*> gradients = wanted(uses);
    Instruction* const first = uses.output.product;
    Instruction* second = nullptr;  // the first of the gradients
    for (const AttentionExit* exit : gradients) {
      if (second == nullptr || place_of(exit->product) < place_of(second)) second = exit->product;
      if (exit->result.value->shape().dtype() != gradients[0]->result.value->shape().dtype()) {
        return false;
      }
    }
    if (second != nullptr && place_of(second) < place_of(first)) return false;

    Parts parts{scores.form, {scores.query.value, scores.key.value, uses.value.value}};
    parts.form.query = scores.query.order;
    parts.form.key = scores.key.order;
    parts.form.value = uses.value.order;
    parts.form.output = uses.output.result.order;
    parts.form.result_dtype = uses.output.result.value->shape().dtype();
    parts.form.statistics = second != nullptr;
    if (scores.bias != nullptr) parts.operands.push_back(scores.bias);
    if (scores.mask != nullptr) parts.operands.push_back(scores.mask);
    if (second != nullptr && !may_follow(second, uses)) return false;

    ir::AttentionForm backward = parts.form;
    if (second != nullptr) backward = backward_form(parts.form, uses);
    if (!fits(scores, uses, parts, backward)) return false;
    if (scores.mask != nullptr && scores.mask_is_negated) {
      parts.operands.back() = add_before(first, Opcode::not_, scores.mask->shape(), {scores.mask});
    }
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const forward,
                              insert(first, parts.form, parts.operands));
    if (second == nullptr) {
      take_place(uses.output, forward);
      return true;
    }
    const auto element = [&](Instruction* at, Instruction* tuple, int index) {
      ir::Attributes attributes;
      attributes.tuple_index = index;
      return add_before(at, Opcode::get_tuple_element,
                        tuple->shape().elements()[static_cast<std::size_t>(index)], {tuple}, {},
                        std::move(attributes));
    };
    Instruction* const output = element(first, forward, 0);
    // The gradient of half the square of the output is the output.
    Instruction* slope = uses.output_gradient.value;
    if (slope == uses.output.result.value) slope = output;
    std::vector<Instruction*> operands = parts.operands;
    operands.insert(operands.end(),
                    {output, slope, element(first, forward, 1), element(first, forward, 2)});
    take_place(uses.output, output);
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const slopes, insert(second, backward, operands));
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      take_place(*gradients[i],
                 gradients.size() == 1 ? slopes : element(second, slopes, static_cast<int>(i)));
    }
    return true;
  }

  // In the order of the backward pass's results.
  static std::vector<const AttentionExit*> wanted(const AttentionUses& uses) {
    std::vector<const AttentionExit*> exits;
    for (const auto* exit : {&uses.query_gradient, &uses.key_gradient, &uses.value_gradient}) {
      if (exit->has_value()) exits.push_back(&**exit);
    }
    return exits;
  }

  static ir::AttentionForm backward_form(const ir::AttentionForm& forward,
                                         const AttentionUses& uses) {
    ir::AttentionForm form = forward;
    form.backward = true;
    form.statistics = false;
    form.output_gradient = uses.output_gradient.order;
    form.gradient_scale = uses.gradient_scale;
    const auto take = [&](const std::optional<AttentionExit>& exit, ir::DimOrder& order) {
      if (!exit.has_value()) {
        order.clear();
        for (std::size_t i = 0; i < form.query.size(); ++i) {
          order.push_back(static_cast<std::int64_t>(i));
        }
        return false;
      }
      order = exit->result.order;
      form.result_dtype = exit->result.value->shape().dtype();
      return true;
    };
    form.wants_query = take(uses.query_gradient, form.query_gradient);
    form.wants_key = take(uses.key_gradient, form.key_gradient);
    form.wants_value = take(uses.value_gradient, form.value_gradient);
    return form;
  }

  // The output's gradient is there before the first of the others, and so needs none of them.
  bool may_follow(const Instruction* second, const AttentionUses& uses) const {
    return place_of(uses.output_gradient.value) < place_of(second);
  }

  // An exit of [batch.., rows, columns] in its order.
  static bool has_dims(const AttentionExit& exit, const AttentionScores& scores, std::int64_t rows,
                       std::int64_t columns) {
    std::vector<std::int64_t> dims(scores.sizes.begin(), scores.sizes.begin() + scores.batch);
    dims.insert(dims.end(), {rows, columns});
    const ir::Shape& shape = exit.result.value->shape();
    if (shape.rank() != static_cast<int>(dims.size())) return false;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (shape.dim(static_cast<int>(exit.result.order[i])) != dims[i]) return false;
    }
    return true;
  }

  // Both forms on their operands, and the exits they replace.
  bool fits(const AttentionScores& scores, const AttentionUses& uses, const Parts& forward,
            const ir::AttentionForm& backward) const {
    std::vector<ir::Shape> shapes;
    for (const Instruction* operand : forward.operands) shapes.push_back(operand->shape());
    const auto sizes = ir::attention_sizes(forward.form, shapes);
    if (!sizes.ok() || !has_dims(uses.output, scores, sizes->queries, sizes->value_depth)) {
      return false;
    }
    if (!backward.backward) return true;
    ir::Dims rows(std::span(scores.sizes).first(scores.sizes.size() - 1));
    shapes.insert(shapes.end(),
                  {uses.output.result.value->shape(), uses.output_gradient.value->shape(),
                   ir::Shape(ir::DType::f32, rows), ir::Shape(ir::DType::f32, rows)});
    return ir::attention_sizes(backward, shapes).ok() &&
           (!uses.query_gradient ||
            has_dims(*uses.query_gradient, scores, sizes->queries, sizes->depth)) &&
           (!uses.key_gradient ||
            has_dims(*uses.key_gradient, scores, sizes->keys, sizes->depth)) &&
           (!uses.value_gradient ||
            has_dims(*uses.value_gradient, scores, sizes->keys, sizes->value_depth));
  }

  Result<Instruction*> insert(Instruction* before, const ir::AttentionForm& form,
                              const std::vector<Instruction*>& operands) {
    std::vector<ir::Shape> shapes;
    for (const Instruction* operand : operands) shapes.push_back(operand->shape());
    PLIMSOLL_ASSIGN_OR_RETURN(Computation* const body,
                              ir::add_attention_body(*computation_.module(), form, shapes));
    ir::Attributes attributes = ir::attention_attributes(form);
    for (const auto& [name, text] : before->attributes().extra) {
      if (name == "metadata") attributes.extra.emplace_back(name, text);
    }
    Instruction* fusion =
        add_before(before, Opcode::fusion, body->root()->shape(), operands,
                   form.backward ? "attention_gradient" : "attention", std::move(attributes));
    fusion->set_called_computations({body});
    return fusion;
  }

  static void take_place(const AttentionExit& exit, Instruction* with) {
    ir::set_hint(with->attributes(), ir::hint_of(*exit.result.value));
    exit.result.value->replace_all_uses_with(with);
  }

  Computation& computation_;
  PointerMap<Instruction, std::int64_t> places_;
  PointerSet<Instruction> made_;
  PointerMap<Instruction, std::vector<Instruction*>> made_before_;
};

// An attention of which a backward loop has the gradient, from residuals that a forward loop stacks
// for it (a scan over layers). True when a pair of loops was changed.
Result<bool> recognize_in_one_pair(ir::Module& module) {
  for (Computation* computation : programs_of(module)) {
    for (const ResidualPair& pair : find_residual_pairs(*computation)) {
      const auto& body = pair.forward->while_body()->instructions();
      if (std::none_of(body.begin(), body.end(), [](const auto& instruction) {
            return instruction->opcode() == Opcode::exponential;
          })) {
        continue;
      }
      JoinedBodies bodies(pair);
      Computation* const joined = bodies.join();
      if (joined == nullptr) continue;
      PLIMSOLL_ASSIGN_OR_RETURN(const bool found, Recognition(*joined).run());
      if (found && bodies.split()) return true;
    }
  }
  return false;
}

Result<bool> recognize_in_pairs(ir::Module& module) {
  bool changed = false;
  constexpr int kMostPairs = 256;
  for (int i = 0; i < kMostPairs; ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(const bool found, recognize_in_one_pair(module));
    module.remove_unreachable();
    if (!found) break;
    changed = true;
    // Residuals that nobody reads any more are stacked no more.
    PLIMSOLL_RETURN_IF_ERROR(eliminate_dead_code(module).status());
    PLIMSOLL_RETURN_IF_ERROR(simplify(module).status());
    PLIMSOLL_RETURN_IF_ERROR(eliminate_dead_code(module).status());
  }
  return changed;
}

Result<bool> recognize(ir::Module& module) {
  PLIMSOLL_ASSIGN_OR_RETURN(bool changed, recognize_in_pairs(module));
  for (Computation* computation : programs_of(module)) {
    PLIMSOLL_ASSIGN_OR_RETURN(const bool found, Recognition(*computation).run());
    changed = changed || found;
  }
  if (changed) module.remove_unreachable();
  return changed;
}

// Is there a softmax over an array with a dim of size one, such as the groups of grouped queries?
bool may_hide_in_unit_dims(const ir::Module& module) {
  for (const Computation* computation : programs_of(module)) {
    for (const auto& instruction : computation->instructions()) {
      if (instruction->opcode() != Opcode::exponential || instruction->shape().rank() < 3 ||
          instruction->operand(0)->opcode() != Opcode::subtract) {
        continue;
      }
      const ir::Dims& dims = instruction->shape().dims();
      if (std::find(dims.begin(), dims.end(), 1) != dims.end()) return true;
    }
  }
  return false;
}

Result<bool> recognize_without_unit_dims(ir::Module& module) {
  PLIMSOLL_RETURN_IF_ERROR(drop_unit_dims(module).status());
  constexpr int kRounds = 2;
  for (int i = 0; i < kRounds; ++i) {
    PLIMSOLL_RETURN_IF_ERROR(simplify(module).status());
    PLIMSOLL_RETURN_IF_ERROR(eliminate_common_subexpressions(module).status());
    PLIMSOLL_RETURN_IF_ERROR(eliminate_dead_code(module).status());
  }
  return recognize(module);
}

}  // namespace

Result<bool> recognize_attention(ir::Module& module) {
  PLIMSOLL_ASSIGN_OR_RETURN(const bool changed, recognize(module));
  if (!may_hide_in_unit_dims(module)) return changed;
  // The rest of the program stays as it is where that finds nothing.
  const auto trial = module.clone();
  PLIMSOLL_ASSIGN_OR_RETURN(const bool found, recognize_without_unit_dims(*trial));
  if (!found) return changed;
  return recognize_without_unit_dims(module);
}

}  // namespace plimsoll::passes
