// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>

#include "runtime/base/index.h"
#include "runtime/base/pointer_map.h"
#include "runtime/base/pointer_set.h"
#include "runtime/ir/hint.h"
#include "runtime/passes/cleanup/structure.h"
#include "runtime/passes/collectives/participant_groups.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

namespace {

// A collective that moves what another computation does in so many bytes of traffic: each byte is
// sent and received, mostly over something slower than memory.
constexpr double kTrafficPerByte = 8;
// What a meeting of all members takes, whatever is moved: about a tenth of a millisecond.
constexpr double kTrafficPerMeeting = 1 << 20;
// Multiplications and additions that take as long as a byte of traffic.
constexpr double kOperationsPerByte = 8;
// Of one computation; what they wait for is kept as a bit each for every instruction.
constexpr std::size_t kMostCandidates = 4096;

bool combines(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::all_reduce:
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::collective_permute:
      break;
    default:
      return false;
  }
  if (!instruction.control_predecessors().empty() || !instruction.control_successors().empty() ||
      ir::hint_of(instruction) != ir::Hint::none ||
      (instruction.is_root() && instruction.shape().is_tuple())) {
    return false;
  }
  const Shape& shape = instruction.shape();
  const auto results = ir::leaves(shape);
  // The form of collective-permute that writes into an operand has more of them than results.
  if (results.size() != at(instruction.operand_count())) return false;
  for (int i = 0; i < instruction.operand_count(); ++i) {
    const Shape& operand = instruction.operand(i)->shape();
    if (!operand.is_array() || !results[at(i)]->is_array() ||
        operand.dtype() != results[at(i)]->dtype() ||
        operand.dtype() != instruction.operand(0)->shape().dtype()) {
      return false;
    }
  }
  return !shape.is_tuple() ||
         std::all_of(instruction.users().begin(), instruction.users().end(),
                     [](const auto* user) { return user->opcode() == Opcode::get_tuple_element; });
}

// What two must have in common to be one.
std::string key_of(const Instruction& instruction, const ComputationClasses& classes) {
  std::string key = fmt::format("{} {}", to_string(instruction.opcode()),
                                to_string(instruction.operand(0)->shape().dtype()));
  for (const Computation* callee : instruction.called_computations()) {
    key += fmt::format(" by {}", classes[callee]);
  }
  for (const std::int64_t dimension : instruction.attributes().dimensions) {
    key += fmt::format(" along {}", dimension);
  }
  if (const auto& collective = instruction.attributes().collective) {
    key += fmt::format(" {}{}{}", collective->channel_id != 0 ? "channel" : "",
                       collective->use_global_device_ids ? " global" : "",
                       collective->constrain_layout ? " layout" : "");
    for (const auto& group : collective->replica_groups) {
      key += fmt::format(" {{{}}}", fmt::join(group, ","));
    }
    for (const auto& [source, target] : collective->source_target_pairs) {
      key += fmt::format(" {}-{}", source, target);
    }
  }
  for (const auto& [name, text] : instruction.attributes().extra) {
    if (name != "metadata") key += fmt::format(" {}={}", name, text);
  }
  return key;
}

std::int64_t operand_bytes(const Instruction& instruction) {
  std::int64_t bytes = 0;
  for (const Instruction* operand : instruction.operands()) bytes += operand->shape().byte_size();
  return bytes;
}

// How long an instruction takes, by shapes, as bytes of traffic.
double traffic_of(const Instruction& instruction) {
  const ir::OpClass kind = ir::op_info(instruction.opcode()).op_class;
  if (kind == ir::OpClass::structure || kind == ir::OpClass::collective ||
      kind == ir::OpClass::async || instruction.opcode() == Opcode::constant) {
    return 0;
  }
  auto traffic = static_cast<double>(instruction.shape().byte_size());
  for (const Instruction* operand : instruction.operands()) {
    traffic += static_cast<double>(operand->shape().byte_size());
  }
  if (kind == ir::OpClass::contraction && instruction.shape().element_count() > 0) {
    // Results of a product of m x k and k x n: the root of (mk * kn * mn) is mkn.
    const auto count = [&](const Shape& shape) {
      return static_cast<double>(shape.element_count());
    };
    traffic += 2 / kOperationsPerByte *
               std::sqrt(count(instruction.operand(0)->shape()) *
                         count(instruction.operand(1)->shape()) * count(instruction.shape()));
  }
  return traffic;
}

struct Candidate {
  Instruction* at = nullptr;
  std::string key;
  std::int64_t bytes = 0;
  int operands = 0;
  std::size_t ready = 0;  // when its last operand is: a place in the schedule
};

class Combiner {
 public:
  Combiner(Computation& computation, const ComputationClasses& classes,
           const CombinerOptions& options, std::vector<Remark>* remarks)
      : computation_(computation), classes_(classes), options_(options), remarks_(remarks) {}

  bool run() {
    // A bucket changes what waits for what, so that all is found anew.
    bool changed = false;
    find_candidates();
    if (candidates_.size() < 2) return false;
    find_waits();
    while (true) {
      const std::vector<Candidate*> bucket = next_bucket();
      if (bucket.empty()) return changed;
      combine(bucket);
      changed = true;
      find_candidates();
      find_waits();
    }
  }

 private:
  using Bits = std::vector<std::uint64_t>;

  void find_candidates() {
    candidates_.clear();
    traffic_before_.clear();
    std::unordered_map<const Instruction*, std::size_t> place;
    double traffic = 0;
    for (const auto& instruction : computation_.instructions()) {
      place.emplace(instruction.get(), place.size());
      traffic += traffic_of(*instruction);
      traffic_before_.push_back(traffic);
      if (candidates_.size() == kMostCandidates || made_.contains(instruction.get()) ||
          !combines(*instruction)) {
        continue;
      }
      Candidate candidate{instruction.get(), key_of(*instruction, classes_),
                          operand_bytes(*instruction), instruction->operand_count(), 0};
      for (const Instruction* operand : instruction->operands()) {
        candidate.ready = std::max(candidate.ready, place.at(operand));
      }
      candidates_.push_back(std::move(candidate));
    }
    // As they become ready; of what waits for another, the other comes first.
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.ready < b.ready; });
  }

  // Which candidates each instruction waits for.
  void find_waits() {
    const std::size_t words = candidates_.size() / 64 + 1;
    PointerMap<Instruction, std::size_t> number(candidates_.size());
    for (std::size_t i = 0; i < candidates_.size(); ++i) number.emplace(candidates_[i].at, i);
    waits_ = PointerMap<Instruction, Bits>(computation_.instructions().size());
    for (const auto& instruction : computation_.instructions()) {
      Bits bits(words);
      const auto take = [&](const Instruction* before) {
        const Bits& of_before = waits_.at(before);
        for (std::size_t i = 0; i < words; ++i) bits[i] |= of_before[i];
        if (const std::size_t* const own = number.find(before)) {
          bits[*own / 64] |= std::uint64_t{1} << (*own % 64);
        }
      };
      for (const Instruction* operand : instruction->operands()) take(operand);
      for (const Instruction* before : instruction->control_predecessors()) take(before);
      waits_.emplace(instruction.get(), std::move(bits));
    }
  }

  // Whether a bucket may wait until `next` is ready: not longer than a meeting takes, or so that
  // what it moves then is moved while there is still something to compute. So the last of a program
  // are small.
  bool may_wait(const Candidate& first, const Candidate& next, std::int64_t bytes) const {
    const double wait = traffic_before_[next.ready] - traffic_before_[first.ready];
    const double left = traffic_before_.back() - traffic_before_[next.ready];
    return wait <= kTrafficPerMeeting || kTrafficPerByte * static_cast<double>(bytes) <= left;
  }

  // The next two or more, in the order in which they are ready; empty: there are none.
  std::vector<Candidate*> next_bucket() {
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      Candidate& first = candidates_[i];
      std::vector<Candidate*> bucket = {&first};
      Bits members(candidates_.size() / 64 + 1);
      members[i / 64] |= std::uint64_t{1} << (i % 64);
      std::int64_t bytes = first.bytes;
      std::int64_t count = first.operands;
      std::string why;
      for (std::size_t j = i + 1; j < candidates_.size(); ++j) {
        Candidate& next = candidates_[j];
        if (next.key != first.key) continue;
        const Bits& waits = waits_.at(next.at);
        bool depends = false;
        for (std::size_t k = 0; k < members.size(); ++k) depends |= (waits[k] & members[k]) != 0;
        if (depends) {
          why = fmt::format("'{}' waits for it", next.at->name());
          continue;
        }
        if (bytes + next.bytes > options_.bucket_bytes ||
            count + next.operands > options_.bucket_count) {
          why =
              fmt::format("with '{}' it would have {} bytes", next.at->name(), bytes + next.bytes);
          break;
        }
        if (!may_wait(first, next, bytes + next.bytes)) {
          why = fmt::format("'{}' is ready much later", next.at->name());
          break;
        }
        bucket.push_back(&next);
        members[j / 64] |= std::uint64_t{1} << (j % 64);
        bytes += next.bytes;
        count += next.operands;
      }
      if (bucket.size() > 1) return bucket;
      if (remarks_ != nullptr && !why.empty() && refused_.insert(first.at)) {
        remarks_->push_back({first.at->name(), false, why});
      }
    }
    return {};
  }

  void combine(const std::vector<Candidate*>& bucket) {
    const Instruction& first = *bucket[0]->at;
    std::vector<Instruction*> operands;
    std::vector<Shape> shapes;
    std::size_t ready = 0;
    for (const Candidate* member : bucket) {
      const auto& own = member->at->operands();
      operands.insert(operands.end(), own.begin(), own.end());
      for (const Shape* shape : ir::leaves(member->at->shape())) shapes.push_back(*shape);
      ready = std::max(ready, member->ready);
    }
    Instruction* const last = computation_.instructions()[ready].get();
    std::vector<Instruction*> order;
    for (const auto& instruction : computation_.instructions()) order.push_back(instruction.get());
    Instruction* const root = computation_.root();
    Instruction* const together =
        computation_.add(first.opcode(), Shape::tuple(std::move(shapes)), std::move(operands),
                         first.name(), first.attributes());
    computation_.set_root(root);
    together->set_called_computations(first.called_computations());
    std::vector<Instruction*> placed = {together};
    std::int64_t index = 0;
    for (const Candidate* member : bucket) {
      const auto part = [&] {
        Instruction* const root_before = computation_.root();
        Instruction* const made = computation_.add_get_tuple_element(together, index++);
        computation_.set_root(root_before);
        for (const auto& [name, text] : member->at->attributes().extra) {
          if (name == "metadata") made->attributes().extra.emplace_back(name, text);
        }
        placed.push_back(made);
        return made;
      };
      if (remarks_ != nullptr) {
        remarks_->push_back(
            {member->at->name(), true, fmt::format("part {} of '{}'", index, together->name())});
      }
      if (!member->at->shape().is_tuple()) {
        member->at->replace_all_uses_with(part());
        continue;
      }
      std::vector<Instruction*> parts;
      for (int i = 0; i < member->operands; ++i) parts.push_back(part());
      const std::vector<Instruction*> users = member->at->users();
      for (Instruction* user : users) {
        user->replace_all_uses_with(parts[at(user->attributes().tuple_index)]);
      }
    }
    place_after(*last, order, placed);
    made_.insert(together);
    computation_.remove_dead();
  }

  // Puts `placed` behind `last`, and what stood before and now waits for them, behind them: nothing
  // else is computed earlier or later than it was.
  void place_after(const Instruction& last, const std::vector<Instruction*>& before,
                   const std::vector<Instruction*>& placed) {
    PointerSet<Instruction> done;
    std::vector<Instruction*> order, waiting;
    const auto is_ready = [&](const Instruction& instruction) {
      const auto all = [&](const std::vector<Instruction*>& needed) {
        return std::all_of(needed.begin(), needed.end(),
                           [&](const Instruction* one) { return done.contains(one); });
      };
      return all(instruction.operands()) && all(instruction.control_predecessors());
    };
    const auto emit = [&](Instruction* instruction) {
      done.insert(instruction);
      order.push_back(instruction);
    };
    for (Instruction* instruction : before) {
      if (is_ready(*instruction)) {
        emit(instruction);
      } else {
        waiting.push_back(instruction);
      }
      if (instruction != &last) continue;
      for (Instruction* one : placed) emit(one);
      std::vector<Instruction*> still;
      for (Instruction* one : waiting) {
        if (is_ready(*one)) {
          emit(one);
        } else {
          still.push_back(one);
        }
      }
      waiting = std::move(still);
    }
    order.insert(order.end(), waiting.begin(), waiting.end());
    computation_.set_order(order);
  }

  Computation& computation_;
  const ComputationClasses& classes_;
  const CombinerOptions& options_;
  std::vector<Remark>* remarks_;
  std::vector<Candidate> candidates_;
  std::vector<double> traffic_before_;  // up to and with each instruction
  PointerMap<Instruction, Bits> waits_;
  PointerSet<Instruction> made_, refused_;
};

}  // namespace

Result<bool> combine_collectives(ir::Module& module, const CombinerOptions& options,
                                 std::vector<Remark>* remarks) {
  const ComputationClasses classes(module);
  const auto fixed = kernel_bodies(module);
  bool changed = false;
  for (Computation* computation : programs_of(module)) {
    if (fixed.contains(computation)) continue;
    changed = Combiner(*computation, classes, options, remarks).run() || changed;
  }
  return changed;
}

}  // namespace plimsoll::passes
