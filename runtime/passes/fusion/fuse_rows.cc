// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/base/pointer_map.h"
#include "runtime/base/pointer_set.h"
#include "runtime/ir/hint.h"
#include "runtime/passes/fusion/fused_body.h"
#include "runtime/passes/fusion/fusion_rules.h"
#include "runtime/passes/fusion/merged_kernel.h"
#include "runtime/passes/fusion/row_kernels.h"
#include "runtime/passes/fusion/row_rules.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

// How far apart in the schedule two kernels may stand: what is put together is read and written at
// one time.
constexpr std::size_t kRowWindow = 64;

// Softmax, layer normalization and their gradients reduce rows and then use the result in the same
// row again. Two kernels are needed if each walks the whole array, and the array is read twice from
// memory. A row fusion walks row by row: the second sweep over a row finds it in the cache.
//
// Example: softmax over f32[8192,1024], 32 MiB. max, exp(x - max), sum and division as reductions
// with epilogues: three sweeps that read 32 MiB each and two that write: 5 * 32 MiB. As a row
// fusion: one read and one write, 2 * 32 MiB; a row is 4 KiB and stays in the first cache.
//
// The gradients of a normalisation's scale and shift add up columns of what its input's gradient
// reads, or of what it is: they join it (RowReductions::columns), when all rows have.
//
// As in fuse_multi_output.cc a merge moves things, but here backwards: an earlier kernel, done,
// moves to the next one's place, and all between that depends on it moves behind (`dependents`).
// What it read must be kept for so long. peak_of() compares what is there at the merged kernel
// with what was there at the two, and refuses what is more: a pass must never raise the floor of a
// program that has to run under a limit.
class RowFusion {
 public:
  RowFusion(Computation& computation, RowReductions reductions)
      : computation_(computation), reductions_(reductions) {}

  bool run() {
    const auto& instructions = computation_.instructions();
    for (auto it = instructions.rbegin(); it != instructions.rend(); ++it) {
      ahead_.push_back({it->get(), row_kernel_of(**it, reductions_)});
    }
    bool changed = false;
    while (!ahead_.empty()) {
      // What stands here after a merge is looked at again.
      if (ahead_.back().kernel && merge_next()) {
        changed = true;
        continue;
      }
      count_reads(*ahead_.back().instruction, 1);
      done_.push_back(std::move(ahead_.back()));
      ahead_.pop_back();
    }
    if (!changed) return false;
    computation_.remove_dead();
    Set live(computation_.instructions().size());
    for (const auto& instruction : computation_.instructions()) live.insert(instruction.get());
    std::vector<Instruction*> order;
    for (const Slot& slot : done_) {
      if (live.contains(slot.instruction)) order.push_back(slot.instruction);
    }
    computation_.set_order(order);
    return true;
  }

 private:
  struct Slot {
    Instruction* instruction;
    std::optional<RowKernel> kernel;
  };
  using Set = PointerSet<Instruction>;
  using Instructions = std::vector<Instruction*>;

  // Merges an earlier kernel, the nearest first, into the next one.
  bool merge_next() {
    const std::size_t first = done_.size() > kRowWindow ? done_.size() - kRowWindow : 0;
    for (std::size_t k = done_.size(); k-- > first;) {
      if (done_[k].kernel && may_share_rows(*done_[k].kernel, *ahead_.back().kernel, reductions_) &&
          merge(k)) {
        return true;
      }
    }
    return false;
  }

  static bool is_part_of(const Instruction& instruction, const Instruction& kernel) {
    return &instruction == &kernel ||
           (instruction.opcode() == Opcode::get_tuple_element && instruction.operand(0) == &kernel);
  }

  // What is done and depends on the kernel at `first`, other than its outputs; nothing where the
  // next kernel needs that, or, if the two must stand together, where anything else runs between
  // them.
  std::optional<Instructions> dependents(std::size_t first, bool stand_together) const {
    const Instruction& kernel = *done_[first].instruction;
    Set after;
    Instructions found;
    const auto needs_after = [&](const Instruction& instruction) {
      const auto is_after = [&](const Instruction* before) { return after.contains(before); };
      return std::any_of(instruction.operands().begin(), instruction.operands().end(), is_after) ||
             std::any_of(instruction.control_predecessors().begin(),
                         instruction.control_predecessors().end(), is_after);
    };
    for (std::size_t k = first + 1; k < done_.size(); ++k) {
      Instruction& instruction = *done_[k].instruction;
      if (is_part_of(instruction, kernel)) continue;
      const auto is_part = [&](const Instruction* before) { return is_part_of(*before, kernel); };
      if (needs_after(instruction) ||
          std::any_of(instruction.operands().begin(), instruction.operands().end(), is_part) ||
          std::any_of(instruction.control_predecessors().begin(),
                      instruction.control_predecessors().end(), is_part)) {
        after.insert(&instruction);
        found.push_back(&instruction);
      } else if (stand_together && instruction.opcode() != Opcode::get_tuple_element &&
                 instruction.opcode() != Opcode::constant && !dead_.contains(&instruction)) {
        return std::nullopt;
      }
    }
    if (needs_after(*ahead_.back().instruction)) return std::nullopt;
    return found;
  }

  // What is done, or dead, reads nothing any more.
  void count_reads(const Instruction& instruction, int by) {
    const auto& operands = instruction.operands();
    for (auto it = operands.begin(); it != operands.end(); ++it) {
      if (std::find(operands.begin(), it, *it) == it) reads_over_[*it] += by;
    }
  }

  // Only the next kernel reads it.
  bool is_internal(const Instruction& output) const {
    return !output.is_root() &&
           std::all_of(output.users().begin(), output.users().end(), [&](const Instruction* user) {
             return user == ahead_.back().instruction || dead_.contains(user);
           });
  }

  // Something but the next kernel is still to read it.
  bool lives_on(const Instruction& value) const {
    if (value.opcode() == Opcode::parameter || value.is_root()) return true;
    const int* const over = reads_over_.find(&value);
    const int to_come = static_cast<int>(value.users().size()) - (over == nullptr ? 0 : *over);
    return to_come > (contains(ahead_.back().instruction->operands(), &value) ? 1 : 0);
  }

  // One kernel reads less than two: they share an array. A kernel of one value a row costs a launch
  // more than its bytes.
  bool saves_traffic(const RowKernel& a, const Instruction& first) const {
    const Slot& next = ahead_.back();
    const Rows& rows = a.rows ? *a.rows : *next.kernel->rows;
    const std::int64_t elements = rows.rows * rows.minor;
    const bool is_small = a.elements < elements || next.kernel->elements < elements;
    const auto& reads = next.instruction->operands();
    const auto is_large = [&](const Instruction* value) {
      return value->shape().is_array() && value->shape().element_count() == elements;
    };
    return std::any_of(a.outputs.begin(), a.outputs.end(),
                       [&](const Instruction* output) {
                         return contains(reads, output) && (is_small || is_large(output));
                       }) ||
           std::any_of(
               first.operands().begin(), first.operands().end(),
               [&](const Instruction* input) { return is_large(input) && contains(reads, input); });
  }

  // Bytes in memory while a kernel reads `inputs` and writes `outputs`; where an input is not
  // needed any more, an output of its size takes its place.
  static std::int64_t bytes_at(const Instructions& inputs, const Instructions& outputs,
                               const Set& needed) {
    std::int64_t bytes = 0;
    std::vector<std::int64_t> free;
    for (const Instruction* input : inputs) {
      bytes += input->shape().byte_size();
      if (!needed.contains(input)) free.push_back(input->shape().byte_size());
    }
    for (const Instruction* output : outputs) {
      const auto place = std::find(free.begin(), free.end(), output->shape().byte_size());
      if (place == free.end()) {
        bytes += output->shape().byte_size();
      } else {
        free.erase(place);
      }
    }
    return bytes;
  }

  // The merged kernel runs where the next one stands. It holds no more than one of the two does;
  // what waits for it until then may be more than what the first one leaves there.
  enum class Peak { higher, kept, kept_together };
  Peak peak_of(std::size_t first, const Instructions& outputs) const {
    const Slot& a = done_[first];
    const Slot& b = ahead_.back();
    const auto& made = a.kernel->outputs;
    const auto is_since = [&](const Instruction* value) {
      return std::any_of(done_.begin() + static_cast<std::ptrdiff_t>(first) + 1, done_.end(),
                         [&](const Slot& slot) { return slot.instruction == value; });
    };
    // Each once; of both kernels, those that both read stand with the first.
    Set known;
    Instructions merged, inputs_of_b;
    for (Instruction* input : a.instruction->operands()) {
      if (known.insert(input)) merged.push_back(input);
    }
    Set read_by_b;
    Instructions around_a = merged;
    for (Instruction* input : b.instruction->operands()) {
      if (!read_by_b.insert(input)) continue;
      inputs_of_b.push_back(input);
      if (contains(made, input) || !known.insert(input)) continue;
      merged.push_back(input);
      if (!is_since(input)) around_a.push_back(input);
    }
    Set needed, needed_by_b = read_by_b;
    Instructions around_b = inputs_of_b;
    const auto need = [&](Instruction* value) {
      if (!needed.insert(value)) return;
      if (needed_by_b.insert(value)) around_b.push_back(value);
    };
    std::int64_t waits = 0, leaves = 0;
    for (Instruction* value : made) {
      if (!is_internal(*value)) need(value);
      leaves += value->shape().byte_size();
    }
    for (Instruction* input : merged) {
      if (lives_on(*input)) {
        need(input);
      } else if (!read_by_b.contains(input)) {
        waits += input->shape().byte_size();
      }
    }
    if (bytes_at(merged, outputs, needed) >
        std::max(bytes_at(around_a, made, needed_by_b),
                 bytes_at(around_b, b.kernel->outputs, needed))) {
      return Peak::higher;
    }
    return waits > leaves ? Peak::kept_together : Peak::kept;
  }

  bool merge(std::size_t first) {
    const Slot& a = done_[first];
    const Slot& b = ahead_.back();
    std::vector<Instruction*> outputs;
    for (Instruction* output : a.kernel->outputs) {
      if (contains(b.instruction->operands(), output) && ir::must_materialize(*output)) {
        return false;
      }
      if (!is_internal(*output)) outputs.push_back(output);
    }
    outputs.insert(outputs.end(), b.kernel->outputs.begin(), b.kernel->outputs.end());
    if (outputs.empty() || outputs.size() > static_cast<std::size_t>(kMaxFusionOutputs)) {
      return false;
    }
    if (!saves_traffic(*a.kernel, *a.instruction)) return false;
    const Peak peak = peak_of(first, outputs);
    if (peak == Peak::higher) return false;
    const std::optional<Instructions> after = dependents(first, peak == Peak::kept_together);
    if (!after) return false;

    FusedBody body(*computation_.module());
    body.add(*a.instruction);
    body.add(*b.instruction);
    std::vector<Instruction*> results;
    for (Instruction* output : outputs) results.push_back(body.value(output));
    body.finish(results);
    if (!is_good(*body.computation(), results)) return false;
    replace(first, *after, outputs, body, a.kernel->rows ? *a.kernel->rows : *b.kernel->rows);
    return true;
  }

  // A row fusion; or a reduction with an epilogue, on the way to one.
  bool is_good(const Computation& body, const std::vector<Instruction*>& results) const {
    const std::vector<Instruction*> members = kernel_members(body);
    if (members.empty() || fused_size(members) > kMaxFusedInstructions) {
      return false;
    }
    if (const auto rows = examine_row_fusion(members, results)) {
      return rows->input_count <= kMaxFusionInputs && pays_off(*rows);
    }
    if (reductions_ == RowReductions::columns) return false;
    const auto plain = examine_fusion(members, results, KernelSpeeds());
    return plain && plain->is_reduction && plain->input_count <= kMaxFusionInputs;
  }

  // The merged kernel is the next one: behind what does not depend on the first of the two, and
  // before what does.
  void replace(std::size_t first, const Instructions& after, const Instructions& outputs,
               FusedBody& body, const Rows& rows) {
    Instruction& a = *done_[first].instruction;
    Instruction& b = *ahead_.back().instruction;
    Set is_after;
    for (const Instruction* instruction : after) {
      count_reads(*instruction, -1);
      is_after.insert(instruction);
    }
    auto [fusion, results] = add_merged_kernel(computation_, body, ir::FusionKind::input, outputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      reads_over_[results[i]] = std::exchange(reads_over_[outputs[i]], 0);
    }
    const RowKernel &kernel_a = *done_[first].kernel, &kernel_b = *ahead_.back().kernel;
    RowKernel kernel{std::move(results), rows, rows.rows * rows.minor,
                     kernel_a.reduces_rows || kernel_b.reduces_rows,
                     kernel_a.reduces_columns || kernel_b.reduces_columns};
    dead_.insert(&a);
    dead_.insert(&b);
    count_reads(b, 1);

    // What is dead stays in the lists until the end.
    ahead_.pop_back();
    std::vector<Slot> behind;
    std::size_t kept = first;
    for (std::size_t k = first; k < done_.size(); ++k) {
      if (is_after.contains(done_[k].instruction)) {
        behind.push_back(std::move(done_[k]));
      } else if (done_[k].instruction != &a) {
        done_[kept++] = std::move(done_[k]);
      }
    }
    done_.resize(kept);
    for (auto it = behind.rbegin(); it != behind.rend(); ++it) ahead_.push_back(std::move(*it));
    for (auto it = kernel.outputs.rbegin(); it != kernel.outputs.rend(); ++it) {
      if (*it != fusion) ahead_.push_back({*it, std::nullopt});
    }
    ahead_.push_back({fusion, std::move(kernel)});
  }

  Computation& computation_;
  const RowReductions reductions_;
  std::vector<Slot> done_;   // in the new order
  std::vector<Slot> ahead_;  // in the old order, the next one last
  Set dead_;
  // Of those that read a value, how many are done or dead.
  PointerMap<Instruction, int> reads_over_;
};

Result<bool> fuse_along(ir::Module& module, RowReductions reductions) {
  bool changed = false;
  for (Computation* computation : programs_of(module)) {
    if (RowFusion(*computation, reductions).run()) changed = true;
  }
  module.remove_unreachable();
  return changed;
}

}  // namespace

Result<bool> fuse_rows(ir::Module& module) { return fuse_along(module, RowReductions::rows); }
Result<bool> fuse_columns(ir::Module& module) { return fuse_along(module, RowReductions::columns); }

}  // namespace plimsoll::passes
