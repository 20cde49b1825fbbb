// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/fusion/sums.h"

#include <algorithm>

#include "runtime/passes/fusion/fusion_rules.h"

namespace plimsoll::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

// Below this a kernel more costs more than what it saves.
constexpr std::int64_t kLargeBytes = 16 << 10;
// A sum of so many waiting addends is one kernel; longer ones accumulate.
constexpr int kMostWaiting = 3;
constexpr int kMostMovements = 8;

bool is_addition(const Instruction& instruction) {
  return instruction.opcode() == Opcode::add && instruction.shape().is_array() &&
         instruction.control_predecessors().empty() && instruction.control_successors().empty();
}

// The addition that is the only user of `instruction` and reads it once.
const Instruction* only_addition(const Instruction& instruction) {
  if (instruction.is_root() || instruction.users().size() != 1) return nullptr;
  const Instruction* user = instruction.users()[0];
  if (!is_addition(*user) || user->operand(0) == user->operand(1)) return nullptr;
  return user;
}

}  // namespace

std::vector<Sum> find_sums(const ir::Computation& computation) {
  std::vector<Sum> sums;
  for (const auto& instruction : computation.instructions()) {
    if (!is_addition(*instruction) || only_addition(*instruction) != nullptr) continue;
    Sum sum;
    sum.root = instruction.get();
    std::vector<Instruction*> stack{instruction->operand(1), instruction->operand(0)};
    while (!stack.empty()) {
      Instruction* next = stack.back();
      stack.pop_back();
      if (is_addition(*next) && only_addition(*next) != nullptr) {
        sum.inner.push_back(next);
        stack.push_back(next->operand(1));
        stack.push_back(next->operand(0));
      } else {
        sum.addends.push_back(next);
      }
    }
    if (sum.addends.size() > 2) sums.push_back(std::move(sum));
  }
  return sums;
}

// Looks through what would be computed in the sum's own kernel (an element-wise chain with one
// large operand) to what feeds it: if that is a kernel of its own, its result is stored and waits.
// Parameters wait anyway.
bool waits_for_sum(const Instruction& addend) {
  if (addend.shape().byte_size() < kLargeBytes) return false;
  const Instruction* at = &addend;
  for (int i = 0; i < kMostMovements; ++i) {
    if (at->is_root() || at->users().size() != 1 || !at->shape().is_array()) return false;
    if (!is_fusible(*at)) {
      return at->opcode() != Opcode::parameter && at->opcode() != Opcode::get_tuple_element;
    }
    const std::vector<Instruction*> large = large_operands(*at);
    if (large.size() != 1) return false;
    at = large[0];
  }
  return false;
}

// Why a long sum is not fused. Fused, a sum of n arrays is read once and written once, n + 1 passes
// over memory instead of 3 (n - 1); but all n addends must be there together. Where they are
// results of kernels that cannot be part of the fusion (dots), each of them waits for the last. The
// backward pass of a model with shared weights has such sums over all layers. Beyond kMostWaiting
// addends memory is worth more than traffic: the additions are kept apart, and schedule_sums.cc
// places each right behind its addend, so that one running sum and one addend are there at a time.
std::unordered_set<const Instruction*> accumulations(const ir::Computation& computation) {
  std::unordered_set<const Instruction*> apart;
  for (const Sum& sum : find_sums(computation)) {
    const auto waiting = std::count_if(sum.addends.begin(), sum.addends.end(),
                                       [](const Instruction* a) { return waits_for_sum(*a); });
    if (waiting > kMostWaiting) apart.insert(sum.inner.begin(), sum.inner.end());
  }
  return apart;
}

}  // namespace plimsoll::passes
