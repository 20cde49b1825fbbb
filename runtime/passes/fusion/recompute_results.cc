// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/pointer_map.h"
#include "runtime/base/pointer_set.h"
#include "runtime/ir/hint.h"
#include "runtime/passes/cleanup/common_subexpressions.h"
#include "runtime/passes/fusion/fused_body.h"
#include "runtime/passes/fusion/fusion_price.h"
#include "runtime/passes/fusion/fusion_rules.h"
#include "runtime/passes/fusion/made_bytes.h"
#include "runtime/passes/fusion/merged_kernel.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

// A kernel with several results may store more than its readers need: what follows element by
// element from another result, which a reader reads anyway, it can compute again. That saves
// writing and reading the bytes, and the memory between; no value lives longer for it.
//
// Example: a GELU by tanh in a training step. The forward kernel stores s (the sum before it), s^2,
// the polynomial q = s + 0.04 s^3, t = tanh(0.8 q) + 1, and its result; the gradient's kernel reads
// the first four. From the last to the first: t follows from q, which is read as well, and its tanh
// is one that the gradient computes already (equal members of a kernel are merged); q follows from
// s and s^2, and s^2 from s. Two arrays can do for five.
//
// A result goes only where all its readers can do without, and only if the kernels together take
// hardly longer by the table of the device. That table takes a small array to be in the cache,
// which holds where the reader comes next; a reader that comes after many others, as gradients do,
// finds it in memory, and so the result's traffic is priced then.

namespace plimsoll::passes {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

using Instructions = std::vector<Instruction*>;

// Fewer bytes are worth this much time. Where arithmetic takes longer than traffic, the table sees
// no use in less traffic.
constexpr double kAsQuick = 1.07;
constexpr std::size_t kMostReaders = 4;
constexpr std::size_t kLongestExpression = 24;

bool is_plain_fusion(const Instruction& instruction) {
  return instruction.opcode() == Opcode::fusion && instruction.control_predecessors().empty() &&
         instruction.control_successors().empty() &&
         (instruction.attributes().fusion_kind == ir::FusionKind::loop ||
          instruction.attributes().fusion_kind == ir::FusionKind::input);
}

bool may_repeat(const Instruction& member) {
  return ir::is_elementwise(member.opcode()) || member.opcode() == Opcode::constant ||
         member.opcode() == Opcode::broadcast;
}

// By the index in the tuple. None where the results are not taken apart.
std::optional<Instructions> sorted_results(Instruction& fusion) {
  auto results = kernel_outputs(fusion);
  if (!results || fusion.shape().is_array()) return std::nullopt;
  std::sort(results->begin(), results->end(), [](const Instruction* a, const Instruction* b) {
    return a->attributes().tuple_index < b->attributes().tuple_index;
  });
  return results;
}

Instruction* inner_value(const Instruction& fusion, const Instruction& result) {
  return fusion.to_apply()->root()->operand(static_cast<int>(result.attributes().tuple_index));
}

// A kernel as it would be.
struct Candidate {
  FusedBody body;
  Instructions results;  // what those of the body stand for
  FusionProfile profile;

  ir::FusionKind kind() const {
    return profile.is_reduction ? ir::FusionKind::input : ir::FusionKind::loop;
  }
};

class ResultRecomputation {
 public:
  ResultRecomputation(Computation& computation, const ComputationClasses& classes,
                      const KernelSpeeds& speeds)
      : computation_(computation), classes_(classes), speeds_(speeds), made_(computation) {}

  bool run() {
    Instructions order;
    for (const auto& instruction : computation_.instructions()) order.push_back(instruction.get());
    for (Instruction* instruction : order) {
      Instruction* kernel = newest(instruction);
      if (is_plain_fusion(*kernel)) leave_out_results(kernel);
    }
    computation_.remove_dead();
    if (instead_.size() == 0) return false;
    Live live(computation_.instructions().size());
    for (const auto& instruction : computation_.instructions()) live.insert(instruction.get());
    Instructions now;
    for (Instruction* instruction : order) place(instruction, live, now);
    computation_.set_order(now);
    return true;
  }

 private:
  using Live = PointerSet<Instruction>;

  using Known = PointerMap<Instruction, Instruction*>;  // inner value -> outer value

  Instruction* newest(Instruction* instruction) const {
    while (const Instructions* const instead = instead_.find(instruction)) {
      instruction = instead->front();
    }
    return instruction;
  }

  void place(Instruction* instruction, const Live& live, Instructions& order) const {
    const Instructions* const instead = instead_.find(instruction);
    if (instead == nullptr) {
      if (live.contains(instruction)) order.push_back(instruction);
      return;
    }
    for (Instruction* each : *instead) place(each, live, order);
  }

  // Without what this pass has left behind, which goes at the end.
  Instructions users_of(const Instruction& result) const {
    Instructions users = result.users();
    std::erase_if(users, [&](const Instruction* user) {
      return instead_.contains(user) || copies_.contains(user);
    });
    return users;
  }

  void leave_out_results(Instruction* kernel) {
    auto results = sorted_results(*kernel);
    if (!results) return;
    for (std::size_t k = results->size(); k-- > 0 && results->size() > 1;) {
      if (!leave_out(kernel, *results, k)) continue;
      kernel = newest(kernel);
      if (kernel->shape().is_array()) return;
      *results = *sorted_results(*kernel);
    }
  }

  bool leave_out(Instruction* kernel, const Instructions& results, std::size_t k) {
    Instruction& result = *results[k];
    const Instructions users = users_of(result);
    if (result.is_root() || users.empty() || users.size() > kMostReaders ||
        ir::hint_of(result) != ir::Hint::none || ir::must_materialize(result)) {
      return false;
    }
    double seconds = 0, seconds_then = 0;
    bool any_is_far = false;
    // `is_far`: what it reads or writes of the result goes to memory.
    const auto count = [&](const Instruction& each, bool is_far) {
      const std::optional<Times>& times = times_of(each);
      if (!times) return false;
      const double more = is_far ? far_traffic_seconds(result.shape(), speeds_) : 0;
      seconds += times->seconds + std::max(0.0, times->traffic + more - times->longer);
      return true;
    };
    std::vector<std::pair<Instruction*, Candidate>> readers;
    for (Instruction* reader : users) {
      auto candidate = without(*kernel, results, k, *reader);
      const bool is_far = bytes_between(*kernel, *reader) > speeds_.cached_bytes;
      any_is_far = any_is_far || is_far;
      if (!candidate || !count(*reader, is_far)) return false;
      seconds_then += candidate->profile.seconds;
      readers.emplace_back(reader, std::move(*candidate));
    }
    Instructions kept = results;
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(k));
    FusedBody body(*computation_.module());
    body.add(*kernel);
    auto rest = finish(std::move(body), kept);
    if (!rest || !count(*kernel, any_is_far) ||
        seconds_then + rest->profile.seconds > kAsQuick * seconds) {
      return false;
    }
    for (auto& [reader, candidate] : readers) replace(reader, candidate);
    replace(kernel, *rest);
    return true;
  }

  struct Times {
    double seconds, traffic;
    double longer;  // of traffic and work
  };
  const std::optional<Times>& times_of(const Instruction& kernel) {
    if (const std::optional<Times>* const known = times_.find(&kernel)) return *known;
    std::optional<Times> times;
    if (const auto profile = profile_of_kernel(*kernel.to_apply(), speeds_)) {
      times = {profile->seconds, profile->traffic_seconds,
               std::max(profile->traffic_seconds, profile->work_seconds)};
    }
    return *times_.emplace(&kernel, times).first;
  }

  // Of what is made from `kernel` on, itself included, until `reader`.
  double bytes_between(const Instruction& kernel, const Instruction& reader) const {
    return made_.before(reader) - made_.before(kernel);
  }

  // The reader with the k-th result computed in its body.
  std::optional<Candidate> without(const Instruction& kernel, const Instructions& results,
                                   std::size_t k, Instruction& reader) {
    if (!is_plain_fusion(reader)) return {};
    auto own_results = kernel_outputs(reader);
    if (!own_results) return {};
    Known known;
    const auto offer = [&](const Instruction* inner, Instruction* outer) {
      if (contains(reader.operands(), outer)) known.emplace(inner, outer);
    };
    for (std::size_t j = 0; j < results.size(); ++j) {
      if (j != k) offer(inner_value(kernel, *results[j]), results[j]);
    }
    const auto& parameters = kernel.to_apply()->parameters();
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      offer(parameters[p], kernel.operand(static_cast<int>(p)));
    }
    std::size_t length = 0;
    Instruction* again = repeat(inner_value(kernel, *results[k]), known, length);
    if (again == nullptr) return {};
    FusedBody body(*computation_.module());
    for (Instruction* each : repeated_) body.add(*each);
    repeated_.clear();
    const Instructions operands = reader.operands();
    for (int i = 0; i < reader.operand_count(); ++i) {
      if (operands[at(i)] == results[k]) reader.replace_operand(i, again);
    }
    body.add(reader);
    for (int i = 0; i < reader.operand_count(); ++i) {
      if (operands[at(i)] == results[k]) reader.replace_operand(i, results[k]);
    }
    return finish(std::move(body), *own_results);
  }

  // A copy of the expression in the computation itself, where nothing reads it in the end; null
  // where it needs what the reader does not read, or is long.
  Instruction* repeat(Instruction* inner, Known& known, std::size_t& length) {
    if (Instruction* const* const outer = known.find(inner)) return *outer;
    if (!may_repeat(*inner) || ++length > kLongestExpression) {
      repeated_.clear();
      return nullptr;
    }
    Instructions operands;
    for (Instruction* operand : inner->operands()) {
      Instruction* outer = repeat(operand, known, length);
      if (outer == nullptr) return nullptr;
      operands.push_back(outer);
    }
    Instruction* const root = computation_.root();
    Instruction* const copy = computation_.add_clone(*inner, std::move(operands));
    computation_.set_root(root);
    repeated_.push_back(copy);
    copies_.insert(copy);
    known.emplace(inner, copy);
    return copy;
  }

  std::optional<Candidate> finish(FusedBody body, const Instructions& results) {
    Instructions inner;
    for (Instruction* result : results) inner.push_back(body.value(result));
    body.finish(inner);
    if (!merge_equal_instructions(*body.computation(), classes_).ok()) return {};
    auto profile = profile_of_kernel(*body.computation(), speeds_);
    if (!profile || profile->input_count > kMaxFusionInputs ||
        fused_size(kernel_members(*body.computation())) > kMaxFusedInstructions) {
      return {};
    }
    return Candidate{std::move(body), results, std::move(*profile)};
  }

  // A candidate may read what another kernel gave before that was replaced.
  void replace(Instruction* kernel, Candidate& candidate) {
    auto [fusion, results] =
        add_merged_kernel(computation_, candidate.body, candidate.kind(), candidate.results);
    for (int i = 0; i < fusion->operand_count(); ++i) {
      Instruction* const* const now = results_now_.find(fusion->operand(i));
      if (now != nullptr) fusion->replace_operand(i, *now);
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      results_now_[candidate.results[i]] = results[i];
    }
    made_.stands_at(*fusion, *kernel);
    Instructions& instead = instead_[kernel];
    instead.push_back(fusion);
    for (Instruction* result : results) {
      if (result != fusion) instead.push_back(result);
    }
  }

  Computation& computation_;
  const ComputationClasses& classes_;
  const KernelSpeeds& speeds_;
  MadeBytes made_;
  Instructions repeated_;  // copies, operands first
  PointerSet<Instruction> copies_;
  PointerMap<Instruction, Instructions> instead_;        // a kernel's, with its results
  PointerMap<Instruction, Instruction*> results_now_;    // of replaced kernels
  PointerMap<Instruction, std::optional<Times>> times_;  // of kernels; none: no kernel of ours
};

}  // namespace

Result<bool> recompute_results(ir::Module& module, const KernelSpeeds& speeds) {
  const ComputationClasses classes(module);
  bool changed = false;
  for (Computation* computation : programs_of(module)) {
    if (ResultRecomputation(*computation, classes, speeds).run()) changed = true;
  }
  module.remove_unreachable();
  return changed;
}

}  // namespace plimsoll::passes
