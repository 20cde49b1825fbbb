// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/base/alignment.h"
#include "runtime/base/index.h"
#include "runtime/ir/dataflow/induction_variables.h"
#include "runtime/ir/dataflow/views.h"
#include "runtime/passes/loops/loop_state.h"
#include "runtime/passes/loops/residual_pair.h"
#include "runtime/passes/loops/segment_loops.h"
#include "runtime/passes/loops/split_loops.h"
#include "runtime/passes/loops/vertex_cut.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

// A counter of the forward loop is `at_zero + by_slice * slice` in the round of a slice.
struct Counter {
  std::int64_t at_zero = 0, by_slice = 0;
};

// Whether recomputing it is what `extent` leaves out.
bool is_dear(const Instruction& instruction, Residuals extent) {
  if (extent == Residuals::carried || extent == Residuals::segments) return false;
  switch (ir::op_info(instruction.opcode()).op_class) {
    case ir::OpClass::control:
    case ir::OpClass::kernel:
      return true;
    case ir::OpClass::contraction: {
      if (extent != Residuals::products || instruction.opcode() != Opcode::dot) return true;
      constexpr std::int64_t kShort = 128;
      std::int64_t length = 1;
      for (const std::int64_t dimension : instruction.attributes().dot->lhs_contracting) {
        length *= instruction.operand(0)->shape().dim(static_cast<int>(dimension));
      }
      return length > kShort;
    }
    case ir::OpClass::reduction:
      return instruction.opcode() != Opcode::reduce && instruction.opcode() != Opcode::map;
    case ir::OpClass::irregular:
      return instruction.opcode() != Opcode::gather &&
             instruction.opcode() != Opcode::rng_bit_generator;
    default:
      return false;
  }
}

// One pair of loops. Between them lies, for every round, what the backward loop reads of it: its
// residuals. Most could be computed from fewer bytes: all of a round follows from what it was
// carried, from what it read of arrays that the loop leaves as they are, and from its number. Which
// values to stack instead, so that the others follow from them by operations that may be repeated,
// is a cheapest cut of the forward body between what can't be recomputed and the residuals
// (VertexCut), as min-cut partitioners choose what a backward pass gets from a forward pass.
// The backward body then holds a copy of the forward body's operations behind the cut, which
// computes what it no longer reads, bit for bit.
//
// Example: a layer y = w2 . gelu(w1 . norm(x)) + x, scanned over stacked w1, w2. The residuals are
// x, norm(x), w1 . norm(x), gelu(...): the cut for Residuals::carried is x alone; for
// Residuals::elementwise, which repeats no product, x and w1 . norm(x).
class Recomputation {
 public:
  Recomputation(ResidualPair& pair, Residuals extent, const KernelSpeeds& speeds)
      : pair_(pair),
        extent_(extent),
        speeds_(speeds),
        at_carried_(extent == Residuals::segments && may_have_segments(pair)),
        forward_body_(*pair.forward->while_body()) {}

  bool run() {
    if (!choose()) return false;
    rewrite();
    return true;
  }
  bool would_change() { return choose(); }

 private:
  // -- what is stacked

  Instruction* forward_start(int leaf) const { return pair_.forward->operand(0)->operand(leaf); }

  // The leaf of the forward state that `instruction` is; -1.
  int forward_leaf(const Instruction& instruction) const {
    const bool is_leaf = instruction.opcode() == Opcode::get_tuple_element &&
                         instruction.operand(0) == forward_body_.parameters()[0];
    return is_leaf ? static_cast<int>(instruction.attributes().tuple_index) : -1;
  }

  std::optional<Counter> find_counter(const Instruction& element) const {
    const auto values = ir::scalar_by_round(*pair_.forward, element, {});
    if (!values || values->size() < 2) return std::nullopt;
    const std::int64_t by_round = (*values)[1] - (*values)[0];
    for (std::size_t n = 0; n < values->size(); ++n) {
      if ((*values)[n] != (*values)[0] + static_cast<std::int64_t>(n) * by_round) {
        return std::nullopt;
      }
    }
    // slice = first + n * step, and step is 1 or -1.
    const std::int64_t by_slice = by_round * pair_.step;
    return Counter{(*values)[0] - by_slice * pair_.first, by_slice};
  }

  // Whether it is known in any round without being stacked.
  bool is_known(const Instruction& element) {
    if (!ir::is_row_major(element.shape())) return false;
    const int leaf = forward_leaf(element);
    if (ir::passes_through(*pair_.forward, leaf)) return true;
    if (!element.shape().is_scalar()) return false;
    const auto [known, is_new] = counters_.try_emplace(&element);
    if (is_new) known->second = find_counter(element);
    return known->second.has_value();
  }

  // Stacks and what is read of them are in row-major order, and so must be what takes their place.
  std::int64_t stacked_bytes(const Instruction& value) const {
    const ir::Shape& shape = value.shape();
    if (!shape.is_array() || shape.element_count() == 0 || !ir::is_row_major(shape)) {
      return VertexCut::kNever;
    }
    return aligned_bytes(shape.byte_size() * pair_.slices);
  }

  // Fills stacked_. False where that would save little.
  bool choose() {
    std::int64_t before = 0;
    for (const Residual& residual : pair_.residuals) {
      before += stacked_bytes(*residual.update);
      const Instruction* const shown = ir::shown_by(residual.update);
      for (const Instruction* at = residual.update;; at = at->operand(0)) {
        residual_of_.try_emplace(at, &residual);
        if (at == shown) break;
      }
    }
    VertexCut cut;
    std::unordered_map<const Instruction*, int> vertices;
    std::vector<Instruction*> in_order, work;
    const auto vertex_of = [&](Instruction* value) {
      const auto [known, is_new] = vertices.try_emplace(value, 0);
      if (is_new) {
        const bool may_be_cut = !at_carried_ || forward_leaf(*value) >= 0;
        known->second = cut.add(may_be_cut ? stacked_bytes(*value) : VertexCut::kNever);
        in_order.push_back(value);
        work.push_back(value);
      }
      return known->second;
    };
    for (const Residual& residual : pair_.residuals) cut.mark_sink(vertex_of(residual.update));
    while (!work.empty()) {
      Instruction* value = work.back();
      work.pop_back();
      const int vertex = vertices.at(value);
      if (forward_leaf(*value) >= 0) {
        if (!is_known(*value)) cut.mark_source(vertex);
        continue;
      }
      if (value->opcode() == Opcode::parameter || !may_be_repeated(*value) ||
          is_dear(*value, extent_)) {
        cut.mark_source(vertex);
        continue;
      }
      for (Instruction* operand : value->operands()) cut.connect(vertex_of(operand), vertex);
    }
    const std::vector<bool> is_cut = cut.solve();
    if (is_cut.empty()) return false;
    std::int64_t after = 0;
    for (std::size_t i = 0; i < in_order.size(); ++i) {
      if (!is_cut[i]) continue;
      stacked_.push_back(in_order[i]);
      after += stacked_bytes(*in_order[i]);
    }
    // Segments save more than any other cut; what they are made of may be as large as what was
    // there.
    if (at_carried_) {
      return std::any_of(pair_.residuals.begin(), pair_.residuals.end(),
                         [&](const Residual& residual) { return !is_stacked(residual); });
    }
    constexpr double kWorthIt = 0.9;
    if (static_cast<double>(after) > kWorthIt * static_cast<double>(before)) return false;
    return extent_ != Residuals::cheaper || seconds_to_recompute() < seconds_to_move(before, after);
  }

  // Of all rounds, at the speed of a loop over elements.
  double seconds_to_recompute() const {
    double work = 0;
    std::unordered_set<const Instruction*> seen(stacked_.begin(), stacked_.end());
    std::vector<const Instruction*> queue;
    const auto visit = [&](const Instruction* value) {
      if (forward_leaf(*value) < 0 && seen.insert(value).second) queue.push_back(value);
    };
    for (const Residual& residual : pair_.residuals) visit(residual.update);
    for (std::size_t i = 0; i < queue.size(); ++i) {
      const Instruction& value = *queue[i];
      if (value.opcode() == Opcode::reduce) {
        work += static_cast<double>(value.operand(0)->shape().element_count()) *
                value.to_apply()->instruction_count();
      } else if (value.shape().is_array()) {
        work +=
            static_cast<double>(value.shape().element_count()) * ir::op_info(value.opcode()).work;
      }
      for (const Instruction* operand : value.operands()) visit(operand);
    }
    return work * static_cast<double>(pair_.slices) / speeds_.additions_per_second;
  }

  // To write and to read the bytes that are not stacked.
  double seconds_to_move(std::int64_t before, std::int64_t after) const {
    const auto bytes = static_cast<double>(before);
    const double speed =
        speeds_.bytes_per_second * (bytes <= speeds_.cached_bytes ? speeds_.cache_speedup : 1);
    return 2 * static_cast<double>(before - after) / speed;
  }

  // -- the two new loops

  void rewrite() {
    Computation& parent = *pair_.forward->parent();
    LoopState forward(*pair_.forward);
    LoopState backward(*pair_.backward);
    std::vector<std::pair<const Instruction*, int>> added;  // leaves of the forward state
    for (Instruction* value : stacked_) {
      if (const auto known = residual_of_.find(value); known != residual_of_.end()) {
        residual_leaf_[value] = known->second->backward_leaf;
      } else {
        added.emplace_back(value, forward.stack(forward.copy_of(*value),
                                                forward.copy_of(*pair_.index), pair_.slices));
      }
    }
    Instruction* new_forward = forward.finish();
    backward_ = &backward;
    std::vector<std::pair<const Instruction*, const Residual*>> reads;  // in schedule order
    for (const auto& instruction : pair_.backward->while_body()->instructions()) {
      for (const Residual& residual : pair_.residuals) {
        const bool is_read = std::find(residual.reads.begin(), residual.reads.end(),
                                       instruction.get()) != residual.reads.end();
        if (is_read && !is_stacked(residual)) reads.emplace_back(instruction.get(), &residual);
      }
    }
    slice_ = backward.copy_of(*reads.front().first)->operand(1);
    for (const auto& [value, leaf] : added) {
      ir::Attributes element;
      element.tuple_index = leaf;
      residual_leaf_[value] = backward.add_invariant(backward.add_to_parent(
          Opcode::get_tuple_element, new_forward->shape().elements()[at(leaf)], {new_forward},
          std::move(element)));
    }
    for (const auto& [read, residual] : reads) {
      Instruction* copy = backward.copy_of(*read);
      backward.insert_before(*copy);
      copy->replace_all_uses_with(value_of(*residual->update));
    }
    backward.finish();
    parent.remove(pair_.backward);
    parent.remove(pair_.forward);
  }

  // Two that show the same value are stacked once.
  bool is_stacked(const Residual& residual) const {
    return std::any_of(stacked_.begin(), stacked_.end(), [&](const Instruction* value) {
      const auto known = residual_of_.find(value);
      return known != residual_of_.end() && known->second == &residual;
    });
  }

  // -- what the backward body computes: `value` of the forward body, in the round of slice_

  Instruction* value_of(const Instruction& wanted) {
    // Bodies are long: no recursion.
    std::vector<const Instruction*> work{&wanted};
    while (!work.empty()) {
      const Instruction& value = *work.back();
      if (values_.contains(&value)) {
        work.pop_back();
        continue;
      }
      Instruction* made = known_value(value);
      if (made == nullptr) {
        const std::size_t before = work.size();
        for (const Instruction* operand : value.operands()) {
          if (!values_.contains(operand)) work.push_back(operand);
        }
        if (work.size() > before) continue;
        std::vector<Instruction*> operands;
        for (const Instruction* operand : value.operands()) {
          operands.push_back(values_.at(operand));
        }
        made = backward_->add_clone(value, std::move(operands));
      }
      values_[&value] = made;
      work.pop_back();
    }
    return values_.at(&wanted);
  }

  // Without any of the forward body's operations; null where it takes them.
  Instruction* known_value(const Instruction& value) {
    if (const auto leaf = residual_leaf_.find(&value); leaf != residual_leaf_.end()) {
      return backward_->slice_of(leaf->second, slice_, value.shape());
    }
    const int leaf = forward_leaf(value);
    if (leaf < 0) return nullptr;
    if (ir::passes_through(*pair_.forward, leaf)) {
      return backward_->element(backward_->add_invariant(forward_start(leaf)));
    }
    const Counter& counter = *counters_.at(&value);
    const ir::DType dtype = value.shape().dtype();
    Instruction* result = slice_;
    if (slice_->shape().dtype() != dtype) {
      result = backward_->add(Opcode::convert, value.shape(), {result});
    }
    if (counter.by_slice != 1) {
      result = backward_->add(Opcode::multiply, value.shape(),
                              {result, backward_->add_integer(dtype, counter.by_slice)});
    }
    if (counter.at_zero != 0) {
      result = backward_->add(Opcode::add, value.shape(),
                              {result, backward_->add_integer(dtype, counter.at_zero)});
    }
    return result;
  }

  ResidualPair& pair_;
  const Residuals extent_;
  const KernelSpeeds& speeds_;
  const bool at_carried_;  // nothing but what is carried from round to round is stacked
  Computation& forward_body_;
  std::unordered_map<const Instruction*, std::optional<Counter>> counters_;
  std::unordered_map<const Instruction*, const Residual*> residual_of_;  // a view of its update
  std::vector<Instruction*> stacked_;
  // While the backward body is rewritten:
  LoopState* backward_ = nullptr;
  Instruction* slice_ = nullptr;  // the slice that is read in this round
  std::unordered_map<const Instruction*, int> residual_leaf_;  // of the backward state: stacked_
  std::unordered_map<const Instruction*, Instruction*> values_;
};

// The outermost first: what an outer loop recomputes may be an inner loop, with residuals of its
// own.
bool recompute_one(ir::Module& module, Residuals extent, const KernelSpeeds& speeds) {
  std::vector<Computation*> programs = programs_of(module);
  for (auto it = programs.rbegin(); it != programs.rend(); ++it) {
    for (ResidualPair& pair : find_residual_pairs(**it)) {
      if (Recomputation(pair, extent, speeds).run()) return true;
    }
  }
  return false;
}

// A residual that nobody reads any more is handed on no more, and then stacked no more.
Status remove_unread_residuals(ir::Module& module) {
  PLIMSOLL_RETURN_IF_ERROR(eliminate_dead_code(module).status());
  PLIMSOLL_RETURN_IF_ERROR(simplify(module).status());
  return eliminate_dead_code(module).status();
}

// Each pair of `computation` as it is now, as far as it is still there when its turn comes: `act`
// gets it with a way to find the pair of another forward loop. Whether any of them changed
// anything.
template <typename Act>
bool for_each_pair(Computation& computation, const Act& act) {
  std::vector<std::pair<const Instruction*, const Instruction*>> loops;
  for (const ResidualPair& pair : find_residual_pairs(computation)) {
    loops.emplace_back(pair.forward, pair.backward);
  }
  const auto find = [&](const auto& is_meant, const auto& then) {
    for (ResidualPair& pair : find_residual_pairs(computation)) {
      if (is_meant(pair)) return then(pair);
    }
    return false;
  };
  bool changed = false;
  for (const auto& [forward, backward] : loops) {
    const auto is_meant = [&](const ResidualPair& pair) {
      return pair.forward == forward && pair.backward == backward;
    };
    const auto act_on = [&](ResidualPair& pair) {
      return act(pair, [&](const Instruction* first, const auto& then) {
        return find([&](const ResidualPair& part) { return part.forward == first; }, then);
      });
    };
    changed = find(is_meant, act_on) || changed;
  }
  return changed;
}

// Pairs of `computation`, each once, in the first `percent` of their forward loop's rounds: those
// become loops of their own, where that is possible.
bool recompute_in_first_rounds(Computation& computation, Residuals extent,
                               const KernelSpeeds& speeds, int percent) {
  const auto recompute = [&](ResidualPair& pair) {
    return Recomputation(pair, extent, speeds).run();
  };
  return for_each_pair(computation, [&](ResidualPair& pair, const auto& find) {
    if (!Recomputation(pair, extent, speeds).would_change()) return false;
    const std::int64_t rounds = (pair.slices * percent + 50) / 100;
    const Instruction* const first = split_loops(pair, rounds);
    return first == nullptr ? recompute(pair) : find(first, recompute);
  });
}

// Pairs of `computation` whose forward loop stacks what it carries alone do so once a segment.
bool stack_by_segments(Computation& computation) {
  return for_each_pair(computation, [&](ResidualPair& pair, const auto& find) {
    const std::int64_t length = segment_length(pair);
    if (length == 0) return false;
    const auto by_segments = [&](ResidualPair& whole) {
      segment_loops(whole, length);
      return true;
    };
    const std::int64_t left_over = pair.slices % length;
    if (left_over == 0) return by_segments(pair);
    const Instruction* const first = split_loops(pair, pair.slices - left_over);
    return first != nullptr && find(first, by_segments);
  });
}

}  // namespace

Result<bool> recompute_residuals(ir::Module& module, Residuals extent, const KernelSpeeds& speeds,
                                 int percent) {
  if (extent == Residuals::stacked) return false;
  if (percent < 100) {
    bool changed = false;
    for (Computation* computation : programs_of(module)) {
      if (recompute_in_first_rounds(*computation, extent, speeds, percent)) changed = true;
    }
    if (changed) PLIMSOLL_RETURN_IF_ERROR(remove_unread_residuals(module));
    PLIMSOLL_ASSIGN_OR_RETURN(const bool fewer,
                              recompute_residuals(module, Residuals::cheaper, speeds));
    return changed || fewer;
  }
  constexpr int kMostPairs = 256;
  bool changed = false;
  for (int i = 0; i < kMostPairs && recompute_one(module, extent, speeds); ++i) {
    changed = true;
    PLIMSOLL_RETURN_IF_ERROR(remove_unread_residuals(module));
  }
  if (extent != Residuals::segments) return changed;
  // Callees come first: a loop that is copied is so with what its own loops have become.
  for (Computation* computation : programs_of(module)) {
    if (!stack_by_segments(*computation)) continue;
    changed = true;
    PLIMSOLL_RETURN_IF_ERROR(remove_unread_residuals(module));
  }
  return changed;
}

}  // namespace plimsoll::passes
