// SPDX-License-Identifier: Apache-2.0
// What a sweep of a row fusion keeps for later sweeps, by price.
#include <algorithm>
#include <map>
#include <set>

#include "jit/graph/row_plan.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using ir::Instruction;

// In units of one load of a vector out of the cache.
constexpr double kLoad = 1, kStridedLoad = 8, kCheap = 0.3, kCostly = 6;
// A store, a load, and the cache that both take away from others.
constexpr double kKeep = 4;
// On the stack of the thread.
constexpr std::int64_t kScratchBytes = std::int64_t{64} << 10;

double operation_cost(const Instruction& instruction) {
  switch (ir::op_info(instruction.opcode()).code) {
    case ir::VectorCode::moves:
    case ir::VectorCode::strided:
      return 0;
    case ir::VectorCode::one:
      return kCheap;
    default:
      return kCostly;
  }
}

// What to keep between sweeps, by price.
//
// Every sweep after the first may need what an earlier one has computed. It can be computed again
// from the inputs, which are in the cache, or be kept, which costs a store, a load, and cache.
// Example: softmax. exp(x - max) is made in sweep 1 for the sum and in sweep 2 for the result.
// Again it costs a load, a subtraction and an exponential, 1 + 0.3 + 6, more than kKeep = 4: it is
// kept. x - max alone would cost 1.3 and is computed again.
//
// Where to keep it: in the row of an output that is not yet written or that it belongs in anyway,
// else in scratch memory of the stack. In the example the result's own row takes it: sweep 2 reads,
// divides, and writes to the same place. An output may be the buffer of an input (in place), which
// no later sweep may read after that (may_write).
//
// Choices depend on one another: a value that is kept makes what it was made of unneeded, and one
// that finds no place must be recomputed. So the sweeps are walked anew until everything has a
// place; each round forbids at least one thing more (late_, never_), so that it ends.
class SweepPlanner {
 public:
  explicit SweepPlanner(RowPlan& plan)
      : plan_(plan), graph_(plan.graph), last_(plan.sweeps() - 1), roots_(plan.stores.back()) {
    for (const Instruction* instruction : graph_.instructions()) {
      numbers_.emplace(instruction, static_cast<int>(numbers_.size()));
    }
  }

  // Each round keeps what is worth it; what then has no place is left out of the next one.
  void run() {
    do {
      walk_sweeps();
    } while (!place());
  }

 private:
  // Numbers instead of addresses, so that the order of keys is the same in every run.
  using Key = std::pair<int, Index>;

  Key key_of(const KernelNode& node, const Index& index) const {
    return {node.is_input() ? -1 - node.input : numbers_.at(node.instruction), index};
  }

  const KernelNode& root(int i) const { return graph_.roots()[at(i)]; }
  Key key_of_root(int i) { return key_of(root(i), plan_.own_index(root(i).dims())); }

  // The sweep before the last one that makes the root anyway, and may store it; else the last.
  int store_sweep(int i) {
    if (late_.contains(i)) return last_;
    const auto it = made_.find(key_of_root(i));
    return it == made_.end() ? last_ : it->second;
  }

  bool changes_in_row(const Index& index) const { return plan_.space.level(index) == 2; }

  void walk_sweeps() {
    made_.clear();
    kept_.clear();
    reads_.assign(at(last_) + 1, {});
    for (int s = 0; s <= last_; ++s) {
      walked_.clear();
      early_.clear();
      for (const int i : roots_) {
        if (store_sweep(i) < s) early_.insert(key_of_root(i));
      }
      if (s < last_) {
        for (const int reduce : plan_.reduces[at(s)]) walk_operand(reduce, s);
        continue;
      }
      for (const int i : roots_) {
        if (store_sweep(i) == last_) walk(root(i), plan_.own_index(root(i).dims()), s);
      }
      for (const int reduce : plan_.columns) walk_operand(reduce, s);
    }
  }

  void walk_operand(int reduce, int s) {
    const KernelNode operand = graph_.operand(*graph_.reduces()[at(reduce)], 0);
    walk(operand, plan_.own_index(operand.dims()), s);
  }

  void walk(const KernelNode& node, const Index& index, int s) {
    if (!changes_in_row(index) || !walked_.insert(key_of(node, index)).second) return;
    if (node.is_input()) {
      reads_[at(s)].insert(node.input);
      return;
    }
    const Key key = key_of(node, index);
    if (kept_.contains(key)) return;
    const auto [it, is_new] = made_.emplace(key, s);
    if (!is_new && it->second < s && is_worth_keeping(node, index)) {
      kept_.emplace(key, KeptValue{node, it->second, -1});
      return;
    }
    for_operands(node, index,
                 [&](const KernelNode& operand, const Index& at) { walk(operand, at, s); });
  }

  template <typename F>
  void for_operands(const KernelNode& node, const Index& index, F f) {
    const Instruction& instruction = *node.instruction;
    for (int i = 0; i < instruction.operand_count(); ++i) {
      f(graph_.operand(instruction, i), operand_index(plan_.space, graph_, instruction, i, index));
    }
  }

  bool is_worth_keeping(const KernelNode& node, const Index& index) {
    const Key key = key_of(node, index);
    if (!plan_.is_full(node) || never_.contains(key) || index != plan_.own_index(node.dims())) {
      return false;
    }
    std::set<Key> seen;
    double cost = operation_cost(*node.instruction);
    for_operands(node, index, [&](const KernelNode& operand, const Index& at) {
      cost += price(operand, at, seen);
    });
    return cost > (early_.contains(key) ? kLoad : kKeep);
  }

  // Of making a value again; what was counted is `seen`.
  double price(const KernelNode& node, const Index& index, std::set<Key>& seen) {
    const Key key = key_of(node, index);
    if (!changes_in_row(index) || !seen.insert(key).second) return 0;
    if (node.is_input()) {
      const Affine position = plan_.space.linearize(index, node.dims());
      const int lane = plan_.lane.terms[0].first;
      const bool plain = position.coefficient(lane) == 1 &&
                         std::all_of(position.terms.begin(), position.terms.end(), [&](auto& t) {
                           return t.first == lane || plan_.space.symbol(t.first).level < 2;
                         });
      return plain ? kLoad : kStridedLoad;
    }
    if (kept_.contains(key) || early_.contains(key)) return kLoad;
    double sum = operation_cost(*node.instruction);
    for_operands(node, index, [&](const KernelNode& operand, const Index& at) {
      sum += price(operand, at, seen);
    });
    return sum;
  }

  // An output that is written in sweep `s` may be the buffer of an input (ir/fusions/in_place.h),
  // which no later sweep may read then.
  bool may_write(int output, int s) const {
    for (int later = s + 1; later <= last_; ++later) {
      for (const int input : reads_[at(later)]) {
        if (static_cast<std::size_t>(input) < graph_.inputs().size() &&
            graph_.inputs()[at(input)]->byte_size() == root(output).shape->byte_size()) {
          return false;
        }
      }
    }
    return true;
  }

  // False when something has no place and may not be planned so again.
  bool place() {
    std::vector<std::vector<int>> stores(at(last_) + 1);
    for (const int i : roots_) {
      const int s = store_sweep(i);
      if (s < last_ && !may_write(i, s)) {
        late_.insert(i);
        return false;
      }
      stores[at(s)].push_back(i);
    }
    std::set<int> lent;
    std::int64_t scratch = 0;
    std::vector<KeptValue> kept;
    for (auto& [key, value] : kept_) {
      const std::int64_t bytes = plan_.shape.minor * ir::dtype_bytes(value.node.dtype());
      const bool borrows = !plan_.streams || scratch + bytes > kScratchBytes;
      const auto fits = [&](int i) {
        const int s = store_sweep(i);
        if (key_of_root(i) == key) return s == value.sweep;
        return borrows && s == last_ && !lent.contains(i) &&
               root(i).dtype() == value.node.dtype() && may_write(i, value.sweep);
      };
      // Its own output before any other.
      auto place = std::find_if(roots_.begin(), roots_.end(),
                                [&](int i) { return key_of_root(i) == key && fits(i); });
      if (place == roots_.end()) place = std::find_if(roots_.begin(), roots_.end(), fits);
      KeptValue result = value;
      if (place != roots_.end()) {
        result.output = *place;
        lent.insert(*place);
      } else {
        scratch += bytes;
        if (scratch > kScratchBytes) {
          never_.insert(key);
          return false;
        }
      }
      kept.push_back(result);
    }
    plan_.stores = std::move(stores);
    plan_.kept = std::move(kept);
    return true;
  }

  RowPlan& plan_;
  const KernelGraph& graph_;
  const int last_;
  const std::vector<int> roots_;
  std::unordered_map<const Instruction*, int> numbers_;
  // Of one round:
  std::map<Key, int> made_;        // by which sweep first
  std::map<Key, KeptValue> kept_;  // and then not recomputed
  std::vector<std::set<int>> reads_;
  std::set<Key> walked_, early_;
  // Over all rounds:
  std::set<int> late_;   // roots stored in the last sweep although an earlier one makes them
  std::set<Key> never_;  // kept
};

}  // namespace

void plan_row_sweeps(RowPlan& plan) { SweepPlanner(plan).run(); }

}  // namespace plimsoll::jit
