// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <tuple>

#include "runtime/base/index.h"
#include "runtime/base/pointer_map.h"
#include "runtime/ir/hint.h"
#include "runtime/passes/cleanup/structure.h"
#include "runtime/passes/collectives/participant_groups.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::DType;
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

// What a reducer does, where it is nothing but one of these on its two parameters.
std::optional<Opcode> plain_reducer(const Instruction& instruction) {
  if (instruction.called_computations().size() != 1) return std::nullopt;
  const Computation& reducer = *instruction.called(0);
  const Instruction& root = *reducer.root();
  switch (root.opcode()) {
    case Opcode::add:
    case Opcode::multiply:
    case Opcode::maximum:
    case Opcode::minimum:
      break;
    default:
      return std::nullopt;
  }
  const auto& parameters = reducer.parameters();
  if (parameters.size() != 2 || root.operand(0) == root.operand(1)) return std::nullopt;
  for (const Instruction* operand : root.operands()) {
    if (operand->opcode() != Opcode::parameter) return std::nullopt;
  }
  return root.opcode();
}

// Floats that are reduced in f32 and rounded once, whatever their reducer is written in: they share
// one in f32.
bool is_reduced_in_f32(const Instruction& instruction) {
  const auto fits = [](DType dtype) {
    return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
  };
  if (!plain_reducer(instruction) || !fits(instruction.called(0)->root()->shape().dtype())) {
    return false;
  }
  const auto& operands = instruction.operands();
  return std::all_of(operands.begin(), operands.end(),
                     [&](const Instruction* operand) { return fits(operand->shape().dtype()); });
}

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
        operand.dtype() != results[at(i)]->dtype()) {
      return false;
    }
    if (operand.dtype() != instruction.operand(0)->shape().dtype() &&
        !instruction.called_computations().empty() && !is_reduced_in_f32(instruction)) {
      return false;
    }
  }
  return !shape.is_tuple() ||
         std::all_of(instruction.users().begin(), instruction.users().end(),
                     [](const auto* user) { return user->opcode() == Opcode::get_tuple_element; });
}

// What two must have in common to be one.
std::string key_of(const Instruction& instruction, const ComputationClasses& classes) {
  std::string key(to_string(instruction.opcode()));
  // What is only moved may be of any dtype.
  if (is_reduced_in_f32(instruction)) {
    key += fmt::format(" f32 by {}", to_string(*plain_reducer(instruction)));
  } else {
    for (const Computation* callee : instruction.called_computations()) {
      key += fmt::format(" {} by {}", to_string(instruction.operand(0)->shape().dtype()),
                         classes[callee]);
    }
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
  std::size_t ready = 0;  // when its last operand is: a place in the schedule as it was
  bool taken = false;     // into a bucket
};

class Combiner {
 public:
  Combiner(Computation& computation, const ComputationClasses& classes,
           const CombinerOptions& options, std::vector<Remark>* remarks)
      : computation_(computation), classes_(classes), options_(options), remarks_(remarks) {}

  bool run() {
    find_candidates();
    if (candidates_.size() < 2) return false;
    find_waits();
    bool changed = false;
    for (std::size_t first = 0; first < candidates_.size(); ++first) {
      const std::vector<Candidate*> bucket = bucket_from(first);
      if (bucket.size() < 2) continue;
      combine(bucket);
      changed = true;
    }
    if (!changed) return false;
    reorder();
    computation_.remove_dead();
    return true;
  }

 private:
  using Bits = std::vector<std::uint64_t>;

  void find_candidates() {
    double traffic = 0;
    place_ = PointerMap<Instruction, std::size_t>(computation_.instructions().size());
    for (const auto& instruction : computation_.instructions()) {
      place_.emplace(instruction.get(), place_.size());
      traffic += traffic_of(*instruction);
      traffic_before_.push_back(traffic);
      if (candidates_.size() == kMostCandidates || !combines(*instruction)) continue;
      Candidate candidate{instruction.get(), key_of(*instruction, classes_),
                          operand_bytes(*instruction), instruction->operand_count()};
      for (const Instruction* operand : instruction->operands()) {
        candidate.ready = std::max(candidate.ready, place_.at(operand));
      }
      candidates_.push_back(std::move(candidate));
    }
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.ready < b.ready; });
  }

  static void add(Bits& bits, const Bits& others) {
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] |= others[i];
  }
  static void add(Bits& bits, std::size_t one) { bits[one / 64] |= std::uint64_t{1} << (one % 64); }
  static bool meet(const Bits& a, const Bits& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if ((a[i] & b[i]) != 0) return true;
    }
    return false;
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
        add(bits, waits_.at(before));
        if (const std::size_t* const own = number.find(before)) add(bits, *own);
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

  // What goes with a candidate, itself first, in the order in which they are ready.
  std::vector<Candidate*> bucket_from(std::size_t number) {
    Candidate& first = candidates_[number];
    if (first.taken) return {};
    std::vector<Candidate*> bucket = {&first};
    Bits members(candidates_.size() / 64 + 1), waits = waits_.at(first.at);
    add(members, number);
    std::int64_t bytes = first.bytes, count = first.operands;
    std::string why;
    for (std::size_t i = number + 1; i < candidates_.size(); ++i) {
      Candidate& next = candidates_[i];
      if (next.taken || next.key != first.key) continue;
      // What was combined before may have made an earlier one wait for it.
      const Bits& of_next = waits_.at(next.at);
      if (meet(of_next, members) || (waits[i / 64] >> (i % 64) & 1) != 0) {
        why = fmt::format("'{}' waits for it", next.at->name());
        continue;
      }
      if (bytes + next.bytes > options_.bucket_bytes ||
          count + next.operands > options_.bucket_count) {
        why = fmt::format("with '{}' it would have {} operands of {} bytes", next.at->name(),
                          count + next.operands, bytes + next.bytes);
        break;
      }
      if (!may_wait(first, next, bytes + next.bytes)) {
        why = fmt::format("'{}' is ready much later", next.at->name());
        break;
      }
      bucket.push_back(&next);
      add(members, i);
      add(waits, of_next);
      bytes += next.bytes;
      count += next.operands;
    }
    if (bucket.size() > 1) {
      put_together(bucket, members, waits);
    } else if (remarks_ != nullptr && !why.empty()) {
      remarks_->push_back({first.at->name(), false, why});
    }
    return bucket;
  }

  // Whoever waits for a member waits for all, and for what they wait for.
  void put_together(const std::vector<Candidate*>& bucket, const Bits& members, Bits waits) {
    add(waits, members);
    std::size_t ready = 0;
    for (Candidate* member : bucket) {
      member->taken = true;
      ready = std::max(ready, member->ready);
    }
    for (const auto& instruction : computation_.instructions()) {
      Bits& own = waits_.at(instruction.get());
      if (meet(own, members)) add(own, waits);
    }
    for (Candidate& candidate : candidates_) {
      if (!candidate.taken && meet(waits_.at(candidate.at), members)) {
        candidate.ready = std::max(candidate.ready, ready);
      }
    }
  }

  // That of the first member; of several dtypes one in f32.
  std::vector<Computation*> reducers_of(const std::vector<Candidate*>& bucket,
                                        const std::set<DType>& dtypes) {
    const Instruction& first = *bucket[0]->at;
    if (first.called_computations().empty() || dtypes.size() == 1) {
      return first.called_computations();
    }
    for (const Candidate* member : bucket) {
      if (member->at->called(0)->root()->shape().dtype() == DType::f32) {
        return member->at->called_computations();
      }
    }
    const Shape scalar(DType::f32, {});
    Computation* const made = computation_.module()->add_computation("reducer");
    Instruction* const a = made->add_parameter(0, scalar);
    Instruction* const b = made->add_parameter(1, scalar);
    made->set_root(made->add(*plain_reducer(first), scalar, {a, b}, "reduced"));
    return {made};
  }

  // Appends the combined collective and its parts, which take the place of the members; the order
  // is made in the end.
  void combine(const std::vector<Candidate*>& bucket) {
    const Instruction& first = *bucket[0]->at;
    std::vector<Instruction*> operands;
    std::vector<Shape> shapes;
    std::set<DType> operands_dtypes;
    std::size_t ready = 0;
    for (const Candidate* member : bucket) {
      const auto& own = member->at->operands();
      operands.insert(operands.end(), own.begin(), own.end());
      for (const Instruction* operand : own) operands_dtypes.insert(operand->shape().dtype());
      for (const Shape* shape : ir::leaves(member->at->shape())) shapes.push_back(*shape);
      ready = std::max(ready, member->ready);
    }
    const auto append = [&](auto&& make) {
      Instruction* const root = computation_.root();
      Instruction* const made = make();
      computation_.set_root(root);
      place_[made] = ready;
      // Nobody asks what it waits for: what reads it counts as waiting for its members.
      waits_[made] = Bits(candidates_.size() / 64 + 1);
      return made;
    };
    Instruction* const together = append([&] {
      return computation_.add(first.opcode(), Shape::tuple(std::move(shapes)), std::move(operands),
                              first.name(), first.attributes());
    });
    together->set_called_computations(reducers_of(bucket, operands_dtypes));
    std::int64_t index = 0;
    for (const Candidate* member : bucket) {
      const auto part = [&] {
        Instruction* const made =
            append([&] { return computation_.add_get_tuple_element(together, index++); });
        for (const auto& [name, text] : member->at->attributes().extra) {
          if (name == "metadata") made->attributes().extra.emplace_back(name, text);
        }
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
  }

  // As it was, with each combined collective behind its last operand, and what waits for it behind
  // it: nothing else is computed earlier or later than it was.
  void reorder() {
    using Entry = std::tuple<std::size_t, std::size_t, Instruction*>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    PointerMap<Instruction, std::size_t> missing(place_.size()), number(place_.size());
    const auto make_ready = [&](Instruction* instruction) {
      ready.emplace(place_.at(instruction), number.at(instruction), instruction);
    };
    for (const auto& instruction : computation_.instructions()) {
      number.emplace(instruction.get(), number.size());
      missing.emplace(instruction.get(),
                      instruction->operands().size() + instruction->control_predecessors().size());
    }
    for (const auto& instruction : computation_.instructions()) {
      if (missing.at(instruction.get()) == 0) make_ready(instruction.get());
    }
    std::vector<Instruction*> order;
    order.reserve(number.size());
    const auto provide = [&](Instruction* to, std::size_t count) {
      std::size_t& left = missing.at(to);
      left -= count;
      if (left == 0) make_ready(to);
    };
    while (!ready.empty()) {
      Instruction* const next = std::get<2>(ready.top());
      ready.pop();
      order.push_back(next);
      for (Instruction* user : next->users()) {
        const auto& operands = user->operands();
        provide(user, static_cast<std::size_t>(std::count(operands.begin(), operands.end(), next)));
      }
      for (Instruction* after : next->control_successors()) provide(after, 1);
    }
    computation_.set_order(order);
  }

  Computation& computation_;
  const ComputationClasses& classes_;
  const CombinerOptions& options_;
  std::vector<Remark>* remarks_;
  std::vector<Candidate> candidates_;
  std::vector<double> traffic_before_;          // up to and with each instruction
  PointerMap<Instruction, std::size_t> place_;  // in the schedule as it was
  PointerMap<Instruction, Bits> waits_;
};

}  // namespace

Result<bool> combine_collectives(ir::Module& module, const CombinerOptions& options,
                                 std::vector<Remark>* remarks) {
  const ComputationClasses classes(module);
  bool changed = false;
  for (Computation* computation : programs_of(module)) {
    changed = Combiner(*computation, classes, options, remarks).run() || changed;
  }
  return changed;
}

}  // namespace plimsoll::passes
