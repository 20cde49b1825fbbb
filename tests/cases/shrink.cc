// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/ir/shapes/verifier.h"
#include "tests/cases/random_graph.h"
#include "tests/cases/random_module.h"

namespace plimsoll::cases {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Module;
using ir::Opcode;
using ir::Shape;

void clean(Module& module) {
  for (const auto& computation : module.computations()) computation->remove_dead();
  module.remove_unreachable();
}

// Root tuple without element `drop`; the aliases of the others keep their places.
std::unique_ptr<Module> without_output(const Module& module, std::size_t drop) {
  auto copy = module.clone();
  Instruction* root = copy->entry()->root();
  std::vector<Instruction*> kept = root->operands();
  kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(drop));
  Instruction* smaller = copy->entry()->add_tuple(kept, "result");
  copy->entry()->set_root(smaller);
  std::vector<ir::InputOutputAlias> aliases;
  for (ir::InputOutputAlias alias : copy->input_output_alias) {
    if (alias.output_index.empty()) continue;
    const auto place = static_cast<std::size_t>(alias.output_index[0]);
    if (place == drop) continue;
    if (place > drop) --alias.output_index[0];
    aliases.push_back(alias);
  }
  copy->input_output_alias = std::move(aliases);
  clean(*copy);
  return copy;
}

// The entry returning only the value `name`, without aliases.
std::unique_ptr<Module> with_result(const Module& module, const std::string& name) {
  auto copy = module.clone();
  Instruction* result = copy->entry()->find(name);
  if (result == nullptr) return nullptr;
  copy->entry()->set_root(copy->entry()->add_tuple({result}, "result"));
  copy->input_output_alias.clear();
  clean(*copy);
  return copy;
}

Instruction* find(Module& module, const std::string& computation, const std::string& name) {
  Computation* owner = module.find(computation);
  return owner == nullptr ? nullptr : owner->find(name);
}

bool is_simple(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::parameter:
    case Opcode::constant:
      return true;
    case Opcode::broadcast:
      return instruction.operand(0)->opcode() == Opcode::constant;
    default:
      return instruction.users().empty();
  }
}

// The operands of `instruction`, theirs and so on, nearest first.
std::vector<Instruction*> sources(const Instruction& instruction) {
  constexpr std::size_t kMost = 16;
  std::vector<Instruction*> found(instruction.operands());
  for (std::size_t i = 0; i < found.size() && found.size() < kMost; ++i) {
    for (Instruction* operand : found[i]->operands()) {
      if (std::find(found.begin(), found.end(), operand) == found.end()) found.push_back(operand);
    }
  }
  return found;
}

// `name` replaced by its source number `source` (when the shapes agree) or, for -1, by a constant;
// null when that is not possible.
std::unique_ptr<Module> with_replacement(const Module& module, const std::string& computation,
                                         const std::string& name, int source) {
  auto copy = module.clone();
  Instruction* target = find(*copy, computation, name);
  if (target == nullptr) return nullptr;
  Instruction* replacement = nullptr;
  if (source >= 0) {
    replacement = sources(*target)[static_cast<std::size_t>(source)];
    if (!(replacement->shape() == target->shape())) return nullptr;
  } else {
    if (!target->shape().is_array()) return nullptr;
    ir::Literal value(Shape(target->shape().dtype(), {}));
    value.set(0, 1);
    Graph graph(*target->parent());
    Instruction* root = target->parent()->root();
    replacement =
        graph.spread(target->parent()->add_constant(std::move(value)), target->shape().dims());
    target->parent()->set_root(root);
  }
  target->replace_all_uses_with(replacement);
  if (!target->parent()->sort_topologically().ok()) return nullptr;
  clean(*copy);
  return copy;
}

std::vector<std::pair<std::string, std::string>> candidates(const Module& module) {
  std::vector<std::pair<std::string, std::string>> names;
  // The entry first: what it loses takes whole computations along.
  for (auto computation = module.computations().rbegin();
       computation != module.computations().rend(); ++computation) {
    const auto& instructions = (*computation)->instructions();
    for (auto i = instructions.rbegin(); i != instructions.rend(); ++i) {
      if (!is_simple(**i)) names.emplace_back((*computation)->name(), (*i)->name());
    }
  }
  return names;
}

}  // namespace

std::unique_ptr<Module> shrink(const Module& module,
                               const std::function<bool(const Module&)>& fails) {
  std::unique_ptr<Module> best = module.clone();
  const auto keep_if_failing = [&](std::unique_ptr<Module> smaller) {
    if (smaller == nullptr || smaller->instruction_count() > best->instruction_count() ||
        !ir::verify(*smaller).ok() || !fails(*smaller)) {
      return false;
    }
    best = std::move(smaller);
    return true;
  };
  for (bool changed = true; changed;) {
    changed = false;
    if (best->entry()->root()->opcode() == Opcode::tuple) {
      for (std::size_t i = best->entry()->root()->operands().size(); i-- > 0;) {
        if (best->entry()->root()->operands().size() < 2) break;
        changed |= keep_if_failing(without_output(*best, i));
      }
    }
    if (best->entry()->root()->opcode() == Opcode::tuple) {
      std::vector<std::string> names;
      for (const auto& instruction : best->entry()->instructions()) {
        if (!is_simple(*instruction)) names.push_back(instruction->name());
      }
      for (const std::string& name : names) {
        const std::int64_t before = best->instruction_count();
        changed |= keep_if_failing(with_result(*best, name)) && best->instruction_count() < before;
      }
    }
    for (const auto& [computation, name] : candidates(*best)) {
      const Instruction* target = find(*best, computation, name);
      if (target == nullptr) continue;
      const std::int64_t before = best->instruction_count();
      const int source_count = static_cast<int>(sources(*target).size());
      bool replaced = keep_if_failing(with_replacement(*best, computation, name, -1));
      for (int i = 0; !replaced && i < source_count; ++i) {
        replaced = keep_if_failing(with_replacement(*best, computation, name, i));
      }
      changed |= replaced && best->instruction_count() < before;
    }
  }
  return best;
}

}  // namespace plimsoll::cases
