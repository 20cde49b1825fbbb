// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/fusion/sums.h"

#include <algorithm>

#include "runtime/passes/fusion/fusion_rules.h"
#include "runtime/passes/fusion/made_bytes.h"

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

namespace {

// Whether an addend that others read, too, is kept for the sum in the end: it is read for the last
// time, but for the sum, long before the sum is complete.
//
// Example: the skip connections of a WaveNet. Each layer's result goes into the next layer, and all
// of them into a sum.
bool stays_for_sum(const Instruction& addend, const Sum& sum, const MadeBytes& made) {
  if (addend.shape().byte_size() < kLargeBytes || addend.users().size() < 2 || addend.is_root() ||
      addend.opcode() == Opcode::parameter || addend.opcode() == Opcode::constant) {
    return false;
  }
  double last = 0;
  for (const Instruction* user : addend.users()) {
    const bool adds =
        user == sum.root || std::find(sum.inner.begin(), sum.inner.end(), user) != sum.inner.end();
    if (!adds) last = std::max(last, made.until(*user));
  }
  return made.before(*sum.root) - last > 2 * static_cast<double>(addend.shape().byte_size());
}

}  // namespace

// Why a long sum is not fused. Fused, a sum of n arrays is read once and written once, n + 1 passes
// over memory instead of 3 (n - 1); but all n addends must be there together. Where they are
// results of kernels that cannot be part of the fusion (dots), each of them waits for the last. The
// backward pass of a model with shared weights has such sums over all layers. Beyond kMostWaiting
// addends memory is worth more than traffic: the additions are kept apart, and schedule_sums.cc
// places each right behind its addend, so that one running sum and one addend are there at a time.
std::unordered_set<const Instruction*> accumulations(const ir::Computation& computation) {
  std::unordered_set<const Instruction*> apart;
  const std::vector<Sum> sums = find_sums(computation);
  if (sums.empty()) return apart;
  const MadeBytes made(computation);
  for (const Sum& sum : sums) {
    const auto waiting = std::count_if(
        sum.addends.begin(), sum.addends.end(),
        [&](const Instruction* a) { return waits_for_sum(*a) || stays_for_sum(*a, sum, made); });
    if (waiting > kMostWaiting) apart.insert(sum.inner.begin(), sum.inner.end());
  }
  return apart;
}

}  // namespace plimsoll::passes
