// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/problem/extract.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "runtime/base/alignment.h"
#include "runtime/ir/dataflow/run_again.h"
#include "runtime/ir/dataflow/views.h"
#include "runtime/ir/fusions/horizontal_fusion.h"
#include "runtime/ir/fusions/in_place.h"
#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

namespace {

using ir::Instruction;
using ir::Opcode;

// From instructions to ops and values. A value is what may lie in memory by itself: one array leaf
// of one instruction's result. Tuples and get-tuple-elements only name leaves; reshapes of the same
// bytes, barriers and the like are views and name their operand's; neither becomes an op.
//
// Example: p = parameter; t = (a, b) made by a loop; x = get-tuple-element(t, 1); y = reshape(x); z
// = y + p. Values: p (home: the caller), the loop's leaves 0 and 1, z. Ops: the loop and the
// addition, which reads leaf 1 and p. Evicting leaf 1 evicts x and y with it, as it should.
//
// Order that is not visible in values becomes `after` edges: control predecessors, tokens, and all
// side effects one after the other. Edges to a view go on to what it is a view of.
class Extractor {
 public:
  Extractor(const ir::Computation& computation, Role role,
            std::span<const ParameterResidency> residency, const CostModel& cost_model)
      : computation_(computation), cost_model_(cost_model) {
    graph_.computation = &computation;
    graph_.role = role;
    graph_.residency.assign(residency.begin(), residency.end());
  }

  Graph run() {
    number_instructions();
    mark_live();
    add_parameters();
    for (std::size_t i = 0; i < leaf_values_.size(); ++i) {
      if (live_[i]) visit(*computation_.instructions()[i], i);
    }
    graph_.results = leaf_values_[index(*computation_.root())];
    graph_.alias.assign(graph_.results.size(), -1);
    return std::move(graph_);
  }

 private:
  std::size_t index(const Instruction& instruction) const { return index_.at(&instruction); }

  void number_instructions() {
    const auto& instructions = computation_.instructions();
    index_.reserve(instructions.size());
    for (std::size_t i = 0; i < instructions.size(); ++i) index_.emplace(instructions[i].get(), i);
    leaf_values_.resize(instructions.size());
    comes_after_.resize(instructions.size());
    op_of_.resize(instructions.size());
  }

  // Backwards from the root and the side effects; what nobody needs gets no op.
  void mark_live() {
    const auto& instructions = computation_.instructions();
    live_.assign(instructions.size(), false);
    live_[index(*computation_.root())] = true;
    for (std::size_t i = instructions.size(); i-- > 0;) {
      const Instruction& instruction = *instructions[i];
      if (!live_[i] && !instruction.has_side_effect()) continue;
      live_[i] = true;
      for (const Instruction* operand : instruction.operands()) live_[index(*operand)] = true;
      for (const Instruction* before : instruction.control_predecessors()) {
        live_[index(*before)] = true;
      }
    }
  }

  ValueId add_value(const ir::Shape& shape, OpId producer, const Instruction& source, int leaf) {
    Value value;
    value.bytes = aligned_bytes(shape.byte_size());
    value.producer = producer;
    value.source = &source;
    value.leaf = leaf;
    value.hint = ir::hint_of(source);
    return graph_.values.push_back(value);
  }

  void add_parameters() {
    int number = 0;
    for (const Instruction* parameter : computation_.parameters()) {
      if (parameter == nullptr) continue;
      auto& values = leaf_values_[index(*parameter)];
      int leaf = 0;
      for (const ir::Shape* shape : ir::leaves(parameter->shape())) {
        ValueId id;
        if (shape->is_array()) {
          id = add_value(*shape, OpId(), *parameter, leaf);
          Value& value = graph_.values.back();
          value.home = Home::parameter;
          value.index = number;
        }
        values.push_back(id);
        graph_.parameters.push_back(id);
        ++leaf;
        ++number;
      }
    }
    graph_.residency.resize(graph_.parameters.size(), ParameterResidency::resident);
  }

  // Ops that must precede `instruction` beside the producers of the values it reads.
  void collect_order(const Instruction& instruction, std::size_t i) {
    auto& after = comes_after_[i];
    const auto add_instruction = [&](const Instruction& before) {
      const std::size_t b = index(before);
      if (op_of_[b] >= 0) {
        after.push_back(op_of_[b]);
      } else {
        after.insert(after.end(), comes_after_[b].begin(), comes_after_[b].end());
      }
    };
    for (const Instruction* operand : instruction.operands()) {
      const std::size_t o = index(*operand);
      if (op_of_[o] < 0) {
        after.insert(after.end(), comes_after_[o].begin(), comes_after_[o].end());
      } else if (has_token_leaf(*operand)) {
        after.push_back(op_of_[o]);
      }
    }
    for (const Instruction* before : instruction.control_predecessors()) {
      add_instruction(*before);
      if (op_of_[index(*before)] < 0) {
        for (const ValueId v : leaf_values_[index(*before)]) {
          if (v >= 0 && value(v).producer >= 0) after.push_back(value(v).producer);
        }
      }
    }
    if (instruction.has_side_effect()) {
      if (last_effect_ >= 0) after.push_back(last_effect_);
    }
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
  }

  static bool has_token_leaf(const Instruction& instruction) {
    if (instruction.shape().is_array()) return false;
    for (const ir::Shape* shape : ir::leaves(instruction.shape())) {
      if (!shape->is_array()) return true;
    }
    return false;
  }

  Value& value(ValueId v) { return graph_.values[v]; }

  void visit(const Instruction& instruction, std::size_t i) {
    if (instruction.opcode() == Opcode::parameter) return;
    collect_order(instruction, i);
    auto& leaves = leaf_values_[i];
    if (is_view(instruction)) {
      view_leaves(instruction, leaves);
      const Hint hint = ir::hint_of(instruction);
      for (const ValueId v : leaves) {
        if (v >= 0 && hint != Hint::none) value(v).hint = hint;
      }
      return;
    }
    if (instruction.opcode() == Opcode::constant) {
      int leaf = 0;
      for (const ir::Shape* shape : ir::leaves(instruction.shape())) {
        leaves.push_back(add_value(*shape, OpId(), instruction, leaf++));
        graph_.values.back().home = Home::constant;
      }
      return;
    }
    add_op(instruction, i);
  }

  void view_leaves(const Instruction& instruction, std::vector<ValueId>& leaves) {
    if (instruction.opcode() == Opcode::after_all) {
      leaves.push_back(ValueId());
      return;
    }
    if (instruction.opcode() == Opcode::tuple) {
      for (const Instruction* operand : instruction.operands()) {
        const auto& part = leaf_values_[index(*operand)];
        leaves.insert(leaves.end(), part.begin(), part.end());
      }
      return;
    }
    const Instruction& operand = *instruction.operand(0);
    const auto& source = leaf_values_[index(operand)];
    if (instruction.opcode() == Opcode::get_tuple_element) {
      const int first =
          ir::leaf_offset(operand.shape(), static_cast<int>(instruction.attributes().tuple_index));
      leaves.assign(source.begin() + first,
                    source.begin() + first + ir::leaf_count(instruction.shape()));
      return;
    }
    leaves = source;
  }

  void add_op(const Instruction& instruction, std::size_t i) {
    const OpId id = graph_.ops.end_id();
    op_of_[i] = id;
    Op op;
    op.kind = step_kind(instruction.opcode());
    op.instruction = &instruction;
    op.seconds = cost_model_.seconds(instruction);
    op.workspace = aligned_bytes(cost_model_.workspace_bytes(instruction));
    op.recomputable = ir::may_run_again(instruction);
    graph_.ops.push_back(op);
    for (const Instruction* operand : instruction.operands()) {
      for (const ValueId v : leaf_values_[index(*operand)]) graph_.inputs.push(v);
    }
    graph_.inputs.close();
    int leaf = 0;
    for (const ir::Shape* shape : ir::leaves(instruction.shape())) {
      if (passes_through(instruction, leaf)) {
        leaf_values_[i].push_back(graph_.inputs[id][at(leaf)]);
        graph_.outputs.push(ValueId());
      } else {
        const ValueId v = shape->is_array() ? add_value(*shape, id, instruction, leaf) : ValueId();
        leaf_values_[i].push_back(v);
        graph_.outputs.push(v);
      }
      ++leaf;
    }
    graph_.outputs.close();
    graph_.after.push_row(comes_after_[i]);
    hold_operands(instruction);
    if (instruction.has_side_effect()) last_effect_ = id;
    find_reuse(instruction, id);
  }

  // What is held is not evicted in between: it would come back elsewhere.
  //
  // Between start and done an operation works in the background on the bytes of its operands and
  // results. A plan must neither move nor overwrite them; and a producer of such a value is never
  // run again, because the new copy would lie elsewhere.
  void hold_operands(const Instruction& instruction) {
    if (const Instruction* start = async_start_of(instruction)) {
      for (const Instruction* operand : start->operands()) hold(*operand);
      hold(*start);
    }
    graph_.held.close();
  }

  void hold(const Instruction& used) {
    for (const ValueId v : leaf_values_[index(used)]) {
      if (v < 0) continue;
      graph_.held.push(v);
      const OpId producer = value(v).producer;
      if (producer >= 0) graph_.ops[producer].recomputable = false;
    }
  }

  static StepKind step_kind(Opcode opcode) {
    switch (opcode) {
      case Opcode::all_reduce_start:
      case Opcode::all_gather_start:
      case Opcode::collective_permute_start:
        return StepKind::collective_start;
      case Opcode::all_reduce_done:
      case Opcode::all_gather_done:
      case Opcode::collective_permute_done:
        return StepKind::collective_done;
      default:
        return StepKind::compute;
    }
  }

  void find_reuse(const Instruction& instruction, OpId id) {
    graph_.reuse.emplace_back();
    auto& reuse = graph_.reuse.back();
    const auto inputs = graph_.inputs[id];
    const auto outputs = graph_.outputs[id];
    // A bound for ops with very many leaves; what lies beyond it only misses a chance.
    int queries = 4096;
    std::vector<std::size_t> candidates(inputs.size());
    std::iota(candidates.begin(), candidates.end(), std::size_t{0});
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      if (outputs[o] < 0) continue;
      const ir::PartResult result = ir::horizontal_result(instruction, static_cast<int>(o));
      if (result.part != nullptr) {
        // Only what its own part reads; a part has few operands, however many its launch has.
        candidates.clear();
        for (const Instruction* operand : result.part->operands()) {
          candidates.push_back(at(operand->attributes().parameter_number));
        }
        queries = 64;
      }
      int found = 0;
      for (const std::size_t k : candidates) {
        if (k >= inputs.size() || found >= 4 || queries <= 0) break;
        if (inputs[k] < 0 || value(inputs[k]).bytes != value(outputs[o]).bytes) continue;
        --queries;
        if (!may_share(instruction, inputs, inputs[k], static_cast<int>(o))) continue;
        if (std::any_of(reuse.begin(), reuse.end(), [&](const Reuse& r) {
              return r.input == inputs[k] && r.output == outputs[o];
            })) {
          continue;
        }
        reuse.push_back({inputs[k], outputs[o]});
        ++found;
      }
    }
  }

  // Every operand leaf that reads the value must allow it.
  static bool may_share(const Instruction& instruction, std::span<const ValueId> inputs, ValueId v,
                        int output) {
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k] == v && !reuses_operand(instruction, static_cast<int>(k), output)) return false;
    }
    return true;
  }

  const ir::Computation& computation_;
  const CostModel& cost_model_;
  Graph graph_;
  std::unordered_map<const Instruction*, std::size_t> index_;
  std::vector<std::vector<ValueId>> leaf_values_;
  std::vector<std::vector<OpId>> comes_after_;
  std::vector<OpId> op_of_;
  std::vector<char> live_;
  OpId last_effect_;
};

}  // namespace

Graph extract(const ir::Computation& computation, Role role,
              std::span<const ParameterResidency> residency, const CostModel& cost_model) {
  return Extractor(computation, role, residency, cost_model).run();
}

}  // namespace plimsoll::planner
