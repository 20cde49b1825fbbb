// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/hint.h"
#include "runtime/passes/fusion/fused_body.h"
#include "runtime/passes/fusion/fusion_rules.h"
#include "runtime/passes/fusion/live_bytes.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

// A kernel that moves more than this takes so long that a launch of its own costs it next to
// nothing.
constexpr std::int64_t kMostBytes = 2 << 20;
// How far behind the last part found another one is looked for.
constexpr int kLaunchWindow = 512;
// How many instructions may be put off behind a launch because they need one of its results.
constexpr std::size_t kMostBehind = 64;

// What kernels must have in common to share a launch.
using Bucket = unsigned;

bool is_member(const Instruction& inner) {
  if (inner.opcode() == Opcode::parameter) return true;
  if (inner.is_root() && inner.opcode() == Opcode::tuple) return true;
  if (inner.opcode() == Opcode::get_tuple_element) {
    return inner.operand(0)->opcode() == Opcode::reduce;
  }
  // Updates of slices stay on their own, where the planner sees what they do to a loop's residuals.
  return is_fusible(inner) && inner.opcode() != Opcode::dynamic_update_slice;
}

// What is a kernel of its own, of the kind that the JIT makes.
bool is_kernel(const Instruction& instruction) {
  if (instruction.opcode() == Opcode::fusion) {
    if (instruction.attributes().fusion_kind != ir::FusionKind::loop &&
        instruction.attributes().fusion_kind != ir::FusionKind::input) {
      return false;
    }
    const auto& members = instruction.to_apply()->instructions();
    return std::all_of(members.begin(), members.end(),
                       [](const auto& inner) { return is_member(*inner); });
  }
  switch (instruction.opcode()) {
    case Opcode::constant:
    case Opcode::reshape:
    case Opcode::bitcast:
    case Opcode::dynamic_update_slice:
      return false;
    default:
      return is_fusible(instruction);
  }
}

bool has_reduce(const Instruction& kernel) {
  if (kernel.opcode() != Opcode::fusion) return kernel.opcode() == Opcode::reduce;
  const auto& members = kernel.to_apply()->instructions();
  return std::any_of(members.begin(), members.end(),
                     [](const auto& inner) { return inner->opcode() == Opcode::reduce; });
}

// Loop counters and branch indices stay readable: trip counts are found by looking at them.
bool is_counter(const ir::Shape& shape) { return shape.is_scalar() && !is_floating(shape.dtype()); }

// What a loop begins with stays on its own: it may be made where the loop's residuals lie.
bool enters_loop(const Instruction& value) {
  return std::any_of(value.users().begin(), value.users().end(), [](const Instruction* user) {
    return user->opcode() == Opcode::while_ ||
           (user->opcode() == Opcode::tuple && enters_loop(*user));
  });
}

bool has_control_edges(const Instruction& instruction) {
  return !instruction.control_predecessors().empty() || !instruction.control_successors().empty();
}

std::optional<Bucket> bucket_of(const Instruction& instruction) {
  if (has_control_edges(instruction) || instruction.users().empty() || instruction.is_root() ||
      !is_kernel(instruction) || enters_loop(instruction)) {
    return std::nullopt;
  }
  if (!instruction.shape().is_array()) {
    for (const Instruction* user : instruction.users()) {
      if (user->opcode() != Opcode::get_tuple_element || has_control_edges(*user) ||
          enters_loop(*user)) {
        return std::nullopt;
      }
    }
  }
  std::int64_t bytes = instruction.shape().byte_size();
  for (const Instruction* operand : instruction.operands()) {
    if (!operand->shape().is_array()) return std::nullopt;
    bytes += operand->shape().byte_size();
  }
  if (bytes > kMostBytes) return std::nullopt;
  Bucket bucket = has_reduce(instruction) ? 1 : 0;
  bool counts = true;
  for (const ir::Shape* shape : ir::leaves(instruction.shape())) {
    if (!shape->is_array()) return std::nullopt;
    bucket |= 2U << static_cast<unsigned>(shape->dtype());
    counts = counts && is_counter(*shape);
  }
  if (counts) return std::nullopt;
  return bucket;
}

class HorizontalFusion {
 public:
  explicit HorizontalFusion(Computation& computation) : computation_(computation) {}

  bool run() {
    find_units();
    if (!has_two_of_a_kind()) return false;
    const std::vector<int> given = first_order_;
    LiveBytes bytes(computation_);
    most_of_one_ = bytes.kept();
    limit_ = peak(given, bytes);
    std::vector<int> early = early_order(bytes);
    if (const std::int64_t other = peak(early, bytes); other < limit_) {
      limit_ = other;
    } else {
      early = given;
    }
    group(early, bytes);
    if (std::none_of(units_.begin(), units_.end(),
                     [](const Unit& unit) { return unit.kernels.size() > 1; })) {
      return false;
    }
    emit();
    return true;
  }

 private:
  // What is run at one time: an instruction (a kernel with its get-tuple-elements), later a launch
  // of several kernels.
  struct Unit {
    std::vector<int> kernels;  // the instruction, or those of a launch
    std::vector<int> results;  // get-tuple-elements
    std::optional<Bucket> bucket;
  };

  Instruction& nth(int i) const { return *computation_.instructions()[at(i)]; }
  Unit& unit(int u) { return units_[at(u)]; }

  void find_units() {
    const int count = computation_.instruction_count();
    std::unordered_map<const Instruction*, int> numbers;
    numbers.reserve(at(count));
    unit_of_.assign(at(count), -1);
    before_.resize(at(count));
    for (int i = 0; i < count; ++i) {
      Instruction& instruction = nth(i);
      numbers.emplace(&instruction, i);
      for (const Instruction* operand : instruction.operands()) {
        before_[at(i)].push_back(numbers.at(operand));
      }
      for (const Instruction* predecessor : instruction.control_predecessors()) {
        before_[at(i)].push_back(numbers.at(predecessor));
      }
      if (instruction.opcode() == Opcode::get_tuple_element) {
        const int tuple = unit_of_[at(numbers.at(instruction.operand(0)))];
        if (unit(tuple).bucket) {
          unit(tuple).results.push_back(i);
          unit_of_[at(i)] = tuple;
          continue;
        }
      }
      unit_of_[at(i)] = static_cast<int>(units_.size());
      first_order_.push_back(static_cast<int>(units_.size()));
      units_.push_back({{i}, {}, bucket_of(instruction)});
    }
  }

  bool has_two_of_a_kind() const {
    std::vector<Bucket> buckets;
    for (const Unit& unit : units_) {
      if (unit.bucket) buckets.push_back(*unit.bucket);
    }
    std::sort(buckets.begin(), buckets.end());
    return std::adjacent_find(buckets.begin(), buckets.end()) != buckets.end();
  }

  std::int64_t peak(const std::vector<int>& order, LiveBytes& bytes) {
    const LiveBytes::Mark start = bytes.mark();
    std::int64_t most = 0;
    for (const int u : order) {
      std::int64_t own = 0;
      for (const int i : unit(u).kernels) {
        const LiveBytes::Needs needs = bytes.needs(i);
        // What control flow carries may lie elsewhere.
        if (ir::op_info(nth(i).opcode()).op_class == ir::OpClass::control) continue;
        own += needs.results + needs.operands;
      }
      most_of_one_ = std::max(most_of_one_, own);
      most = std::max(most, bytes.run(unit(u).kernels));
    }
    bytes.undo(start);
    return most;
  }

  // Calls `visit` with the units that unit `u` waits for (some of them more than once).
  template <typename Visit>
  void visit_before(int u, const Visit& visit) {
    for (const int i : unit(u).kernels) {
      for (const int before : before_[at(i)]) {
        visit(unit_of_[at(before)]);
      }
    }
  }

  // The given order with each small kernel that frees memory as soon as it can run, as a planner
  // would have it where memory is short.
  std::vector<int> early_order(LiveBytes& bytes) {
    const LiveBytes::Mark start = bytes.mark();
    std::vector<int> waits(units_.size(), 0);
    std::vector<std::vector<int>> waiting(units_.size());
    for (const int u : first_order_) {
      if (!unit(u).bucket) continue;
      visit_before(u, [&](int before) {
        auto& list = waiting[at(before)];
        if (!list.empty() && list.back() == u) return;
        list.push_back(u);
        ++waits[at(u)];
      });
    }
    std::vector<int> order;
    std::vector<char> done(units_.size(), 0);
    std::vector<int> next;
    for (const int first : first_order_) {
      next = {first};
      while (!next.empty()) {
        const int u = next.back();
        next.pop_back();
        if (done[at(u)] != 0) continue;
        done[at(u)] = 1;
        order.push_back(u);
        bytes.run(unit(u).kernels);
        for (const int w : waiting[at(u)]) {
          if (--waits[at(w)] > 0) continue;
          const LiveBytes::Needs needs = bytes.needs(unit(w).kernels[0]);
          if (needs.results <= needs.freed) next.push_back(w);
        }
      }
    }
    bytes.undo(start);
    return order;
  }

  // Goes through the order; each kernel takes others behind it into its launch.
  void group(const std::vector<int>& order, LiveBytes& bytes) {
    ahead_.assign(order.rbegin(), order.rend());
    stamps_.assign(units_.size(), -1);
    while (!ahead_.empty()) {
      if (unit(ahead_.back()).bucket && grow(bytes)) continue;  // what stands here now
      const int u = ahead_.back();
      ahead_.pop_back();
      bytes.run(unit(u).kernels);
      order_.push_back(u);
    }
  }

  // Looks for kernels that can run together with the first one ahead. What stands between and does
  // not depend on the launch goes before it, what depends on it goes behind: nothing that goes
  // before can depend on what goes behind, so that there is no cycle. False when it stays alone.
  bool grow(LiveBytes& bytes) {
    const int first = ahead_.back();
    const int stamp = ++stamp_;
    const auto is_after = [&](int u) { return stamps_[at(u)] == stamp; };
    const auto set_after = [&](int u) { stamps_[at(u)] = stamp; };
    const LiveBytes::Mark start = bytes.mark();

    std::vector<int> launch = {first}, before, behind;
    std::vector<int> kernels = unit(first).kernels;
    LiveBytes::Needs needs = bytes.needs(kernels[0]);
    struct Found {
      std::size_t launch = 1, before = 0, behind = 0, ahead = 0;
    } found;
    std::int64_t most_before = 0;
    set_after(first);
    int gap = 0;
    for (std::size_t k = ahead_.size() - 1; k-- > 0 && gap < kLaunchWindow; ++gap) {
      const int u = ahead_[k];
      bool depends = false;
      visit_before(u, [&](int other) { depends = depends || is_after(other); });
      if (depends) {
        set_after(u);
        behind.push_back(u);
        if (behind.size() > kMostBehind) break;
        continue;
      }
      if (unit(u).bucket == unit(first).bucket) {
        const int kernel = unit(u).kernels[0];
        const LiveBytes::Needs own = bytes.needs(kernel);
        const std::int64_t results = needs.results + own.results;
        const std::int64_t operands = needs.operands + own.operands;
        kernels.push_back(kernel);
        if (results + operands <= most_of_one_ && most_before <= limit_ &&
            bytes.live() + results <= limit_ && fits_behind(kernels, behind, bytes)) {
          needs.results = results;
          needs.operands = operands;
          launch.push_back(u);
          set_after(u);
          found = {launch.size(), before.size(), behind.size(), k};
          gap = 0;
          continue;
        }
        kernels.pop_back();
      }
      before.push_back(u);
      most_before = std::max(most_before, bytes.run(unit(u).kernels));
      if (most_before > limit_) break;
    }
    bytes.undo(start);
    if (found.launch == 1) return false;
    launch.resize(found.launch);
    ahead_.resize(found.ahead);
    for (std::size_t i = found.behind; i-- > 0;) ahead_.push_back(behind[i]);
    ahead_.push_back(join(launch));
    for (std::size_t i = found.before; i-- > 0;) ahead_.push_back(before[i]);
    return true;
  }

  // That what is put off behind a launch finds room there.
  bool fits_behind(const std::vector<int>& kernels, const std::vector<int>& behind,
                   LiveBytes& bytes) {
    if (behind.empty()) return true;
    const LiveBytes::Mark start = bytes.mark();
    std::int64_t most = bytes.run(kernels);
    for (const int u : behind) most = std::max(most, bytes.run(unit(u).kernels));
    bytes.undo(start);
    return most <= limit_;
  }

  int join(const std::vector<int>& launch) {
    Unit joined;
    for (const int u : launch) {
      const Unit& part = unit(u);
      joined.kernels.insert(joined.kernels.end(), part.kernels.begin(), part.kernels.end());
      joined.results.insert(joined.results.end(), part.results.begin(), part.results.end());
    }
    const int number = static_cast<int>(units_.size());
    for (const auto* list : {&joined.kernels, &joined.results}) {
      for (const int i : *list) unit_of_[at(i)] = number;
    }
    units_.push_back(std::move(joined));
    stamps_.push_back(-1);
    return number;
  }

  void emit() {
    Instruction* root = computation_.root();
    std::vector<Instruction*> order;
    std::vector<Instruction*> given;
    for (const auto& instruction : computation_.instructions()) given.push_back(instruction.get());
    const auto instruction = [&](int i) { return given[at(i)]; };
    for (const int u : order_) {
      for (const int i : unit(u).kernels) order.push_back(instruction(i));
      for (const int i : unit(u).results) order.push_back(instruction(i));
      if (unit(u).kernels.size() < 2) continue;
      std::vector<Instruction*> kernels;
      for (const int i : unit(u).kernels) kernels.push_back(instruction(i));
      add_launch(kernels, order);
    }
    computation_.set_root(root);
    computation_.set_order(order);
    computation_.remove_dead();
  }

  // A kernel as a part: a fusion already, or one of this instruction alone.
  Computation* body_of(Instruction& kernel) {
    if (kernel.opcode() == Opcode::fusion) return kernel.to_apply();
    FusedBody body(*computation_.module());
    body.add(kernel);
    body.finish({body.value(&kernel)});
    return body.release();
  }

  void add_launch(const std::vector<Instruction*>& kernels, std::vector<Instruction*>& order) {
    ir::Module& module = *computation_.module();
    std::vector<Computation*> bodies;
    for (Instruction* kernel : kernels) bodies.push_back(body_of(*kernel));
    Computation* launch = module.add_computation("horizontal_computation");
    std::vector<Instruction*> operands;
    std::unordered_map<Instruction*, Instruction*> parameters;
    std::vector<std::vector<Instruction*>> inputs;
    bool reduces = false;
    for (Instruction* kernel : kernels) {
      reduces = reduces || has_reduce(*kernel);
      inputs.emplace_back();
      for (Instruction* operand : distinct_operands(*kernel)) {
        auto [it, is_new] = parameters.emplace(operand, nullptr);
        if (is_new) {
          it->second = launch->add_parameter(static_cast<std::int64_t>(operands.size()),
                                             operand->shape(), "p");
          operands.push_back(operand);
        }
        inputs.back().push_back(it->second);
      }
    }
    std::vector<Instruction*> results, outer;
    for (std::size_t p = 0; p < kernels.size(); ++p) {
      Instruction& kernel = *kernels[p];
      ir::Attributes attributes;
      attributes.fusion_kind = has_reduce(kernel) ? ir::FusionKind::input : ir::FusionKind::loop;
      Instruction* part = launch->add(Opcode::fusion, kernel.shape(), inputs[p],
                                      fusion_name(*bodies[p]), std::move(attributes));
      part->set_called_computations({bodies[p]});
      if (kernel.shape().is_array()) {
        results.push_back(part);
        outer.push_back(&kernel);
        continue;
      }
      std::vector<Instruction*> taken(kernel.shape().elements().size(), nullptr);
      for (Instruction* user : kernel.users()) {
        Instruction*& result = taken[at(user->attributes().tuple_index)];
        if (result == nullptr) {
          result = launch->add_get_tuple_element(part, user->attributes().tuple_index);
        }
        results.push_back(result);
        outer.push_back(user);
      }
    }
    launch->add_tuple(results);

    ir::Attributes attributes;
    attributes.fusion_kind = reduces ? ir::FusionKind::input : ir::FusionKind::loop;
    Instruction* fusion = computation_.add(Opcode::fusion, launch->root()->shape(), operands,
                                           "horizontal_fusion", std::move(attributes));
    fusion->set_called_computations({launch});
    order.push_back(fusion);
    for (std::size_t i = 0; i < outer.size(); ++i) {
      Instruction* result =
          computation_.add_get_tuple_element(fusion, static_cast<std::int64_t>(i));
      ir::set_hint(result->attributes(), ir::hint_of(*outer[i]));
      order.push_back(result);
      outer[i]->replace_all_uses_with(result);
    }
  }

  // As the kernel's body has them as parameters.
  static std::vector<Instruction*> distinct_operands(const Instruction& kernel) {
    if (kernel.opcode() == Opcode::fusion) return kernel.operands();
    std::vector<Instruction*> distinct;
    for (Instruction* operand : kernel.operands()) {
      if (std::find(distinct.begin(), distinct.end(), operand) == distinct.end()) {
        distinct.push_back(operand);
      }
    }
    return distinct;
  }

  Computation& computation_;
  std::vector<Unit> units_;
  std::vector<int> unit_of_;              // per instruction
  std::vector<std::vector<int>> before_;  // per instruction: what it waits for
  std::vector<int> first_order_;          // units as they came
  std::vector<int> ahead_;                // units to come, the next one last
  std::vector<int> order_;                // units behind us
  std::vector<int> stamps_;  // per unit: the last search that had it in or after its launch
  int stamp_ = 0;
  std::int64_t limit_ = 0;  // bytes that no order may pass
  // Operands and results of the hungriest instruction, or what stays to the end: the least bytes
  // that some moment of every order takes.
  std::int64_t most_of_one_ = 0;
};

}  // namespace

Result<bool> fuse_horizontal(ir::Module& module) {
  bool changed = false;
  for (Computation* computation : programs_of(module)) {
    if (HorizontalFusion(*computation).run()) changed = true;
  }
  if (changed) module.remove_unreachable();
  return changed;
}

}  // namespace plimsoll::passes
