// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/dataflow/run_again.h"
#include "runtime/ir/dataflow/scan_residuals.h"
#include "runtime/ir/dataflow/views.h"
#include "runtime/ir/hint.h"
#include "runtime/ir/host_leaves.h"
#include "runtime/passes/loops/loop_state.h"
#include "runtime/passes/loops/residual_pair.h"
#include "runtime/passes/passes.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;
using ir::ResidualAccess;

namespace {

// Stacks of thinner slices are kept: a round would rather wait for launches than for bytes.
constexpr std::int64_t kLeastSliceBytes = 16384;

bool touches_alike(const ResidualAccess& a, const ResidualAccess& b) {
  return a.slices == b.slices && a.first == b.first && a.step == b.step && a.rounds == b.rounds;
}

// What takes this element of the loop's result.
std::vector<Instruction*> elements_of(const Instruction& loop, int leaf) {
  std::vector<Instruction*> found;
  for (Instruction* user : loop.users()) {
    if (user->attributes().tuple_index == leaf) found.push_back(user);
  }
  return found;
}

// One loop whose rounds each stack a slice, and what is computed of the stacks behind it, element
// by element, from them and from what is there before the loop. All of that can be computed in the
// rounds instead, a slice at a time, so that the stacks need not be; its results are stacked in
// their place, or, where such a result takes over the place of an array of which the loop reads
// nothing but the same slices, written there. So is a stack that stays: the gradients of donated
// weights that are a program's results lie where the weights did.
//
// Example: the gradient of a network whose layers are scanned, and the step of an optimizer,
//   g = scan of backward; m' = 0.9 m + g; w' = w - 0.1 m'
// in which w and m are donated: round by round slice i of g is computed, and slice i of m and w
// become those of m' and w'. What was as large as the weights is one layer's.
class Sinking {
 public:
  explicit Sinking(Instruction& loop) : loop_(loop), parent_(*loop.parent()) {}

  bool run() {
    find_stacks();
    if (stacks_.empty()) return false;
    find_dependents();
    choose_readers();
    find_operands();
    find_results();
    find_places();
    if (results_.empty() || !saves_bytes()) return false;
    rewrite();
    return true;
  }

 private:
  struct Stack {
    Instruction* element;       // that is taken of the loop
    const Instruction* update;  // what writes a slice in the body
  };
  // What becomes a slice of it in each round.
  struct Place {
    int leaf = -1;                        // of the loop's state: -1 as long as it is not there
    const Instruction* result = nullptr;  // what takes its place
  };

  // -- what is sunk

  // Those that are touched alike; of several kinds the first.
  void find_stacks() {
    for (int leaf = 0; leaf < loop_.operand(0)->operand_count(); ++leaf) {
      const std::vector<Instruction*> elements = elements_of(loop_, leaf);
      if (elements.size() != 1 || elements[0]->is_root()) continue;
      auto access = ir::find_residual_access(loop_, leaf);
      if (!access || !access->writes || (!stacks_.empty() && !touches_alike(*access, access_))) {
        continue;
      }
      const Instruction* const update = access->by.front();
      if (update->opcode() != Opcode::dynamic_update_slice) continue;
      if (stacks_.empty()) access_ = *access;
      given_.push_back({elements[0], update});
      stacks_.insert(elements[0]);
    }
  }

  void find_dependents() {
    std::vector<const Instruction*> work{&loop_};
    dependents_.insert(&loop_);
    while (!work.empty()) {
      const Instruction* value = work.back();
      work.pop_back();
      for (const Instruction* user : value->users()) {
        if (dependents_.insert(user).second) work.push_back(user);
      }
    }
  }

  bool is_stacked(const Instruction& value) const {
    const ir::Shape& shape = value.shape();
    return shape.is_array() && shape.rank() > 0 && shape.dim(0) == access_.slices &&
           ir::is_row_major(shape);
  }

  bool may_be_sunk(const Instruction& value) const {
    return ir::is_elementwise(value.opcode()) && is_stacked(value) && may_be_repeated(value) &&
           value.control_successors().empty() && ir::hint_of(value) == ir::Hint::none;
  }

  // Whether a round can have its slice of it without being told more than what is there before.
  bool may_be_read(const Instruction& operand, const Instruction& reader) const {
    if (stacks_.contains(&operand) || readers_.contains(&operand)) return true;
    if (dependents_.contains(&operand)) return false;
    return operand.shape().is_array() &&
           (operand.shape().rank() == 0 ||
            (operand.shape().dims() == reader.shape().dims() && is_stacked(operand)));
  }

  // All that may be sunk, less what keeps a stack from going: one that something else reads stays,
  // and what reads it may as well stay where it is.
  void choose_readers() {
    std::vector<Instruction*> in_order;
    for (const auto& instruction : parent_.instructions()) {
      Instruction* const value = instruction.get();
      if (!dependents_.contains(value) || !may_be_sunk(*value)) continue;
      const bool all =
          std::all_of(value->operands().begin(), value->operands().end(),
                      [&](const Instruction* operand) { return may_be_read(*operand, *value); });
      if (!all) continue;
      readers_.insert(value);
      in_order.push_back(value);
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (auto it = stacks_.begin(); it != stacks_.end();) {
        const auto& users = (*it)->users();
        const bool goes =
            !users.empty() && std::all_of(users.begin(), users.end(), [&](const Instruction* user) {
              return readers_.contains(user);
            });
        it = goes ? std::next(it) : stacks_.erase(it);
      }
      for (Instruction* value : in_order) {
        if (!readers_.contains(value)) continue;
        const bool all =
            std::all_of(value->operands().begin(), value->operands().end(),
                        [&](const Instruction* operand) { return may_be_read(*operand, *value); });
        if (all) continue;
        readers_.erase(value);
        changed = true;
      }
    }
    for (Instruction* value : in_order) {
      if (readers_.contains(value)) order_.push_back(value);
    }
  }

  // -- what the rounds read besides

  // Numbers that every round is given, arrays of which it takes a slice, and the elementwise
  // operations before the loop that only readers read, which are repeated slice by slice, as is
  // what is the same for all slices.
  void find_operands() {
    std::vector<Instruction*> work;
    for (Instruction* reader : order_) {
      work.insert(work.end(), reader->operands().begin(), reader->operands().end());
    }
    while (!work.empty()) {
      Instruction* const value = work.back();
      work.pop_back();
      if (stacks_.contains(value) || readers_.contains(value) || !seen_.insert(value).second) {
        continue;
      }
      if (value->shape().rank() == 0) continue;
      if (is_spread(*value)) {
        repeated_.insert(value);
      } else if (may_be_sunk(*value) && is_read_by_readers_only(*value) &&
                 std::all_of(value->operands().begin(), value->operands().end(),
                             [&](const Instruction* operand) {
                               return operand->shape().rank() == 0 ||
                                      (operand->shape().dims() == value->shape().dims() &&
                                       is_stacked(*operand));
                             })) {
        repeated_.insert(value);
        work.insert(work.end(), value->operands().begin(), value->operands().end());
      } else {
        places_.emplace(value, Place{});
        in_places_.push_back(value);
      }
    }
  }

  // Of something that is the same for all slices.
  static bool is_spread(const Instruction& value) {
    if (value.opcode() != Opcode::broadcast || ir::must_materialize(value)) return false;
    const auto& dimensions = value.attributes().dimensions;
    return std::find(dimensions.begin(), dimensions.end(), 0) == dimensions.end();
  }

  bool is_read_by_readers_only(const Instruction& value) const {
    return std::all_of(value.users().begin(), value.users().end(), [&](const Instruction* user) {
      return readers_.contains(user) || repeated_.contains(user);
    });
  }

  // -- where results are written

  void find_results() {
    for (Instruction* reader : order_) {
      const bool is_result =
          std::any_of(reader->users().begin(), reader->users().end(),
                      [&](const Instruction* user) { return !readers_.contains(user); });
      if (is_result || reader->is_root()) results_.push_back(reader);
    }
  }

  void find_places() {
    const std::unordered_set<const Instruction*> before = scheduled_before();
    for (Instruction* array : in_places_) {
      Place& place = places_.at(array);
      const auto leaf = leaf_of(*array);
      if (!leaf) continue;  // of the state, but touched otherwise
      place.leaf = *leaf;
      if (!is_last_read(*array, before)) continue;
      for (Instruction* result : results_) {
        if (!takes_over_.contains(result) && may_take_over(*array, *result)) {
          place.result = result;
          takes_over_.emplace(result, array);
          break;
        }
      }
    }
    // A stack that stays may do so in the place of an argument that the loop has read.
    for (Instruction* array : loop_.operand(0)->operands()) {
      if (!is_argument(*array) || places_.contains(array)) continue;
      for (const auto& [element, update] : given_) {
        if (stacks_.contains(element) || !may_take_over(*array, *element)) continue;
        const auto leaf = leaf_of(*array);
        if (!leaf || !is_last_read(*array, before)) break;
        places_.emplace(array, Place{*leaf, element});
        results_.push_back(element);
        takes_over_.emplace(element, array);
        break;
      }
    }
  }

  bool is_entry() const { return parent_.module()->entry() == &parent_; }

  std::unordered_set<const Instruction*> scheduled_before() const {
    std::unordered_set<const Instruction*> before;
    for (const auto& instruction : parent_.instructions()) {
      if (instruction.get() == &loop_) break;
      before.insert(instruction.get());
    }
    return before;
  }

  // The leaf of the state that starts as the array: -1 where there is none, nothing where the loop
  // does more with it than to read slices of it as the stacks are written.
  std::optional<int> leaf_of(const Instruction& array) const {
    int found = -1;
    for (int leaf = 0; leaf < loop_.operand(0)->operand_count(); ++leaf) {
      if (loop_.operand(0)->operand(leaf) != &array) continue;
      if (found >= 0) return std::nullopt;
      found = leaf;
      if (!elements_of(loop_, leaf).empty()) return std::nullopt;
      const auto access = ir::find_residual_access(loop_, leaf);
      if (!access || access->writes || !touches_alike(*access, access_)) return std::nullopt;
    }
    return found;
  }

  // Whether nothing reads the array once the loop runs, but the loop and what is sunk.
  bool is_last_read(const Instruction& array,
                    const std::unordered_set<const Instruction*>& before) const {
    if (array.is_root() || loop_.operand(0)->users().size() != 1) return false;
    return std::all_of(array.users().begin(), array.users().end(), [&](const Instruction* user) {
      return user == loop_.operand(0) || readers_.contains(user) || repeated_.contains(user) ||
             before.contains(user);
    });
  }

  // Whether the result may lie where the array does: of a parameter of the program, where the
  // caller gave it away for that result; of what an outer loop carries, where it is carried on as
  // that.
  bool may_take_over(const Instruction& array, const Instruction& result) const {
    if (!(result.shape() == array.shape())) return false;
    const Instruction* source = &array;
    std::vector<std::int64_t> path;
    for (; source->opcode() == Opcode::get_tuple_element; source = source->operand(0)) {
      path.insert(path.begin(), source->attributes().tuple_index);
    }
    if (source->opcode() != Opcode::parameter) return array.opcode() != Opcode::constant;
    if (!is_entry()) return result_at(path) == &result;
    const ir::Module& module = *parent_.module();
    const std::int64_t number = source->attributes().parameter_number;
    return std::any_of(module.input_output_alias.begin(), module.input_output_alias.end(),
                       [&](const ir::InputOutputAlias& alias) {
                         return alias.parameter_number == number && alias.parameter_index == path &&
                                result_at(alias.output_index) == &result;
                       });
  }

  const Instruction* result_at(const std::vector<std::int64_t>& path) const {
    const Instruction* value = parent_.root();
    for (const std::int64_t element : path) {
      if (value->opcode() != Opcode::tuple) return nullptr;
      value = value->operand(static_cast<int>(element));
    }
    return value;
  }

  // While the loop runs. What is computed of nothing but arguments might else come behind it.
  bool saves_bytes() const {
    std::int64_t gone = 0, more = 0;
    for (const auto& [element, update] : given_) {
      const bool stays = !stacks_.contains(element) && !takes_over_.contains(element);
      if (!stays) gone += element->shape().byte_size();
    }
    for (const Instruction* result : results_) {
      if (!takes_over_.contains(result)) more += result->shape().byte_size();
    }
    for (const auto& [array, place] : places_) {
      if (place.leaf < 0 && !is_argument(*array)) more += array->shape().byte_size();
    }
    return gone / access_.slices >= kLeastSliceBytes && more < gone;
  }

  static bool is_argument(const Instruction& array) {
    const Instruction* source = &array;
    while (source->opcode() == Opcode::get_tuple_element) source = source->operand(0);
    return source->opcode() == Opcode::parameter;
  }

  // -- the new loop

  void rewrite() {
    LoopState state(loop_);
    state_ = &state;
    state.insert_at_end();
    index_ = state.copy_of(*given_[0].update->operand(2));
    for (const auto& [element, update] : given_) {
      values_[element] = state.add(Opcode::reshape, slice_shape(element->shape()),
                                   {state.copy_of(*update->operand(1))});
    }
    for (Instruction* reader : order_) make(reader);
    std::vector<std::pair<Instruction*, int>> leaves;
    for (Instruction* result : results_) leaves.emplace_back(result, put(*result));
    Instruction* const loop = state.finish();
    for (const auto& [result, leaf] : leaves) {
      Instruction* const root = parent_.root();
      Instruction* const element = parent_.add_get_tuple_element(loop, leaf);
      parent_.set_root(root);
      result->replace_all_uses_with(element);
    }
    parent_.remove(&loop_);
    static_cast<void>(parent_.sort_topologically());  // fails on cycles only
  }

  ir::Shape slice_shape(const ir::Shape& shape) const {
    std::vector<std::int64_t> dims = shape.dims().to_vector();
    dims.erase(dims.begin());
    return {shape.dtype(), ir::Dims(dims)};
  }

  // Fills values_ with what the body has for `wanted`: a number, or its slice of this round.
  void make(Instruction* wanted) {
    std::vector<Instruction*> work{wanted};
    while (!work.empty()) {
      Instruction* const value = work.back();
      if (values_.contains(value)) {
        work.pop_back();
        continue;
      }
      const std::size_t before = work.size();
      const bool is_made = readers_.contains(value) || repeated_.contains(value);
      if (is_made && !is_spread(*value)) {
        for (Instruction* operand : value->operands()) {
          if (!values_.contains(operand)) work.push_back(operand);
        }
      }
      if (work.size() > before) continue;
      values_[value] = is_made ? repeat(*value) : take(*value);
      work.pop_back();
    }
  }

  Instruction* repeat(const Instruction& value) {
    std::vector<Instruction*> operands;
    for (Instruction* operand : value.operands()) {
      operands.push_back(is_spread(value) ? given(*operand) : values_.at(operand));
    }
    Instruction* const made = state_->add_clone(value, std::move(operands));
    made->set_shape(slice_shape(value.shape()));
    if (is_spread(value)) {
      for (std::int64_t& dimension : made->attributes().dimensions) --dimension;
    }
    return made;
  }

  Instruction* take(Instruction& value) {
    const auto place = places_.find(&value);
    if (place == places_.end()) return given(value);
    int& leaf = place->second.leaf;
    if (leaf < 0)
      leaf = place->second.result != nullptr ? state_->add_leaf(&value)
                                             : state_->add_invariant(&value);
    return state_->slice_of(leaf, index_, slice_shape(value.shape()));
  }

  // As it is before the loop.
  Instruction* given(Instruction& value) {
    if (value.opcode() == Opcode::constant && value.shape().rank() == 0) {
      return state_->add_clone(value, {});
    }
    return state_->element(state_->add_invariant(&value));
  }

  // The leaf that the result is written to.
  int put(const Instruction& result) {
    Instruction* const value = values_.at(&result);
    const auto array = takes_over_.find(&result);
    if (array == takes_over_.end()) return state_->stack(value, index_, access_.slices);
    const int leaf = places_.at(array->second).leaf;
    state_->write_slice(leaf, value, index_);
    return leaf;
  }

  Instruction& loop_;
  Computation& parent_;
  std::vector<Stack> given_;  // all that are touched alike
  // The elements of those that nothing behind the loop needs when its readers are sunk.
  std::unordered_set<const Instruction*> stacks_;
  ResidualAccess access_;                              // of each of them
  std::unordered_set<const Instruction*> dependents_;  // of the loop
  std::unordered_set<const Instruction*> readers_;     // what is sunk
  std::vector<Instruction*> order_;                    // the same
  std::unordered_set<const Instruction*> seen_, repeated_;
  std::unordered_map<const Instruction*, Place> places_;
  std::vector<Instruction*> in_places_;
  std::vector<Instruction*> results_;
  std::unordered_map<const Instruction*, const Instruction*> takes_over_;  // result: array
  // While the body is rewritten:
  LoopState* state_ = nullptr;
  Instruction* index_ = nullptr;
  std::unordered_map<const Instruction*, Instruction*> values_;
};

}  // namespace

Result<bool> sink_readers(ir::Module& module) {
  // What comes from the host had better come when the loops are over.
  for (const ir::ArrayMemory memory : ir::parameter_memories(module)) {
    if (memory != ir::ArrayMemory::device) return false;
  }
  return change_loops(module, [](Instruction& loop) { return Sinking(loop).run(); });
}

}  // namespace plimsoll::passes
