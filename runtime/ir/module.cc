// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/module.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/base/pointer_map.h"
#include "runtime/base/pointer_set.h"

namespace plimsoll::ir {
namespace {

void erase_value(std::vector<Instruction*>& list, const Instruction* value) {
  // The last come first where a computation is taken apart from its end.
  const auto found = std::find(list.rbegin(), list.rend(), value);
  if (found != list.rend()) list.erase(std::next(found).base());
}

void add_once(std::vector<Instruction*>& list, Instruction* value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

}  // namespace

std::string_view Attributes::find_extra(std::string_view name) const {
  for (const auto& [key, text] : extra) {
    if (key == name) return text;
  }
  return {};
}

void Instruction::drop_user(Instruction* user) {
  if (std::find(user->operands_.begin(), user->operands_.end(), this) == user->operands_.end()) {
    erase_value(users_, user);
  }
}

void Instruction::replace_operand(int i, Instruction* with) {
  Instruction* old = operands_[at(i)];
  if (old == with) return;
  with->add_user(this);
  operands_[at(i)] = with;
  old->drop_user(this);
}

void Instruction::append_operand(Instruction* operand) {
  operand->add_user(this);
  operands_.push_back(operand);
}

// Before it is an operand. A value may have as many users, and a tuple as many operands, as a
// program has instructions, but hardly ever both: the shorter list tells whether it is a user.
void Instruction::add_user(Instruction* user) {
  const std::vector<Instruction*>& operands = user->operands_;
  const bool is_user = operands.size() < users_.size()
                           ? std::find(operands.begin(), operands.end(), this) != operands.end()
                           : std::find(users_.begin(), users_.end(), user) != users_.end();
  if (!is_user) users_.push_back(user);
}

void Instruction::replace_all_uses_with(Instruction* with) {
  if (with == this) return;
  for (Instruction* user : std::exchange(users_, {})) {
    if (user == with) {
      users_.push_back(user);
      continue;
    }
    with->add_user(user);
    std::replace(user->operands_.begin(), user->operands_.end(), this, with);
  }
  if (is_root()) parent_->set_root(with);
}

void Instruction::add_control_predecessor(Instruction* predecessor) {
  add_once(control_predecessors_, predecessor);
  add_once(predecessor->control_successors_, this);
}

void Instruction::remove_control_predecessor(Instruction* predecessor) {
  erase_value(control_predecessors_, predecessor);
  erase_value(predecessor->control_successors_, this);
}

bool Instruction::is_root() const { return parent_->root() == this; }

bool Instruction::has_side_effect() const {
  const auto has_own = [](const Instruction& instruction) {
    return op_info(instruction.opcode()).has_side_effect ||
           instruction.attributes().custom_call_has_side_effect;
  };
  if (has_own(*this)) return true;
  // Each callee once: calls of calls that share callees would take exponential time.
  for (const Computation* callee : callees_of(*this)) {
    for (const auto& instruction : callee->instructions()) {
      if (has_own(*instruction)) return true;
    }
  }
  return false;
}

Instruction* Computation::find(std::string_view name) const {
  for (const auto& instruction : instructions_) {
    if (instruction->name() == name) return instruction.get();
  }
  return nullptr;
}

Instruction* Computation::create(Opcode opcode, Shape&& shape, std::vector<Instruction*>&& operands,
                                 std::string_view name, Attributes&& attributes) {
  std::string unique = module_->unique_instruction_name(name.empty() ? to_string(opcode) : name);
  auto* instruction =
      new Instruction(opcode, std::move(shape), std::move(unique), std::move(attributes));
  instruction->parent_ = this;
  instruction->operands_ = std::move(operands);
  for (Instruction* operand : instruction->operands_) {
    // Nobody else has come since it was made.
    std::vector<Instruction*>& users = operand->users_;
    if (users.empty() || users.back() != instruction) users.push_back(instruction);
  }
  if (opcode == Opcode::parameter) {
    const auto number = at(instruction->attributes_.parameter_number);
    if (parameters_.size() <= number) parameters_.resize(number + 1, nullptr);
    parameters_[number] = instruction;
  }
  return instruction;
}

Instruction* Computation::add(Opcode opcode, Shape shape, std::vector<Instruction*> operands,
                              std::string_view name, Attributes attributes) {
  Instruction* instruction =
      create(opcode, std::move(shape), std::move(operands), name, std::move(attributes));
  instructions_.emplace_back(instruction);
  root_ = instruction;
  return instruction;
}

Instruction* Computation::insert_before(Instruction* position, Opcode opcode, Shape shape,
                                        std::vector<Instruction*> operands, std::string_view name,
                                        Attributes attributes) {
  Instruction* instruction =
      create(opcode, std::move(shape), std::move(operands), name, std::move(attributes));
  const auto it = std::find_if(instructions_.begin(), instructions_.end(),
                               [&](const auto& i) { return i.get() == position; });
  instructions_.emplace(it, instruction);
  return instruction;
}

Instruction* Computation::add_parameter(std::int64_t number, Shape shape, std::string_view name) {
  Attributes attributes;
  attributes.parameter_number = number;
  return add(Opcode::parameter, std::move(shape), {}, name, std::move(attributes));
}

Instruction* Computation::add_constant(Literal literal, std::string_view name) {
  Attributes attributes;
  Shape shape = literal.shape();
  attributes.literal = std::make_shared<const Literal>(std::move(literal));
  return add(Opcode::constant, std::move(shape), {}, name, std::move(attributes));
}

Instruction* Computation::add_tuple(std::vector<Instruction*> elements, std::string_view name) {
  std::vector<Shape> shapes;
  for (const Instruction* element : elements) shapes.push_back(element->shape());
  return add(Opcode::tuple, Shape::tuple(std::move(shapes)), std::move(elements), name);
}

Instruction* Computation::add_get_tuple_element(Instruction* tuple, std::int64_t index,
                                                std::string_view name) {
  Attributes attributes;
  attributes.tuple_index = index;
  return add(Opcode::get_tuple_element, tuple->shape().elements()[at(index)], {tuple}, name,
             std::move(attributes));
}

Instruction* Computation::add_clone(const Instruction& original, std::vector<Instruction*> operands,
                                    std::string_view name) {
  Instruction* clone =
      add(original.opcode(), original.shape(), std::move(operands),
          name.empty() ? std::string_view(original.name()) : name, original.attributes());
  clone->called_ = original.called_;
  return clone;
}

void Computation::set_order(const std::vector<Instruction*>& order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    static_cast<void>(instructions_[i].release());
    instructions_[i].reset(order[i]);
  }
}

Status Computation::sort_topologically() {
  std::unordered_map<const Instruction*, char> state;  // 1: on the stack, 2: placed
  state.reserve(instructions_.size());
  std::vector<Instruction*> order;
  order.reserve(instructions_.size());
  struct Frame {
    Instruction* instruction;
    std::size_t next;
  };
  std::vector<Frame> stack;
  for (const auto& start : instructions_) {
    if (state[start.get()] != 0) continue;
    stack.push_back({start.get(), 0});
    state[start.get()] = 1;
    while (!stack.empty()) {
      Instruction* instruction = stack.back().instruction;
      const auto& operands = instruction->operands();
      const auto& controls = instruction->control_predecessors();
      const std::size_t next = stack.back().next++;
      if (next >= operands.size() + controls.size()) {
        state[instruction] = 2;
        order.push_back(instruction);
        stack.pop_back();
        continue;
      }
      Instruction* before =
          next < operands.size() ? operands[next] : controls[next - operands.size()];
      char& mark = state[before];
      if (mark == 1) {
        return invalid_argument("cycle through '" + before->name() + "' in computation '" + name_ +
                                "'");
      }
      if (mark == 0) {
        mark = 1;
        stack.push_back({before, 0});
      }
    }
  }
  set_order(order);
  return ok_status();
}

void Computation::bridge_control_edges(Instruction* instruction) {
  for (Instruction* before : instruction->control_predecessors_) {
    for (Instruction* after : instruction->control_successors_)
      after->add_control_predecessor(before);
  }
  for (Instruction* before : std::vector(instruction->control_predecessors_)) {
    instruction->remove_control_predecessor(before);
  }
  for (Instruction* after : std::vector(instruction->control_successors_)) {
    after->remove_control_predecessor(instruction);
  }
}

void Computation::detach(Instruction* instruction) {
  bridge_control_edges(instruction);
  const std::vector<Instruction*> operands = std::move(instruction->operands_);
  instruction->operands_.clear();
  for (Instruction* operand : operands) operand->drop_user(instruction);
  if (instruction->opcode() == Opcode::parameter) {
    for (Instruction*& parameter : parameters_) {
      if (parameter == instruction) parameter = nullptr;
    }
  }
}

void Computation::remove(Instruction* instruction) {
  detach(instruction);
  std::erase_if(instructions_, [&](const auto& i) { return i.get() == instruction; });
}

int Computation::remove_dead() {
  std::vector<Instruction*> work;
  int live = 0;
  const auto mark = [&](Instruction* instruction) {
    if (instruction->live_) return;
    instruction->live_ = true;
    ++live;
    work.push_back(instruction);
  };
  const auto mark_operands = [&] {
    while (!work.empty()) {
      const Instruction* instruction = work.back();
      work.pop_back();
      for (Instruction* operand : instruction->operands()) mark(operand);
    }
  };
  for (const auto& instruction : instructions_) instruction->live_ = false;
  if (root_ != nullptr) mark(root_);
  mark_operands();
  // Callees are looked into for what is left only.
  for (const auto& instruction : instructions_) {
    if (instruction->live_) continue;
    if (instruction->opcode() == Opcode::parameter || instruction->has_side_effect()) {
      mark(instruction.get());
    }
  }
  mark_operands();
  const int before = instruction_count();
  if (live == before) return 0;
  // Users of one value together: there may be as many as the program has instructions.
  std::vector<Instruction*> read;
  PointerSet<Instruction> known_as_read;
  for (auto it = instructions_.rbegin(); it != instructions_.rend(); ++it) {
    Instruction* const instruction = it->get();
    if (instruction->live_) continue;
    bridge_control_edges(instruction);
    for (Instruction* operand : instruction->operands_) {
      if (operand->live_ && known_as_read.insert(operand)) read.push_back(operand);
    }
  }
  for (Instruction* value : read) {
    std::erase_if(value->users_, [](const Instruction* user) { return !user->live_; });
  }
  std::erase_if(instructions_, [](const auto& instruction) { return !instruction->live_; });
  return before - instruction_count();
}

std::string Module::unique_instruction_name(std::string_view wanted) {
  return instruction_names_.take(wanted);
}

std::string Module::unique_computation_name(std::string_view wanted) {
  return computation_names_.take(wanted);
}

Computation* Module::find(std::string_view name) const {
  for (const auto& computation : computations_) {
    if (computation->name() == name) return computation.get();
  }
  return nullptr;
}

Computation* Module::add_computation(std::string_view name) {
  std::unique_ptr<Computation> computation(new Computation(this, unique_computation_name(name)));
  computations_.push_back(std::move(computation));
  return computations_.back().get();
}

namespace {

Computation* clone_into(Module& target, const Computation& original, std::string_view name,
                        std::unordered_map<const Computation*, Computation*>* callees) {
  PointerMap<Instruction, Instruction*> copies(original.instructions().size());
  std::vector<Computation*> called;
  // Callees first, so that computations stay in callee-before-caller order.
  if (callees != nullptr) {
    for (const auto& instruction : original.instructions()) {
      for (const Computation* callee : instruction->called_computations()) {
        if (!callees->contains(callee)) {
          Computation* copy = clone_into(target, *callee, callee->name(), callees);
          callees->emplace(callee, copy);
        }
      }
    }
  }
  Computation* result = target.add_computation(name.empty() ? original.name() : name);
  for (const auto& instruction : original.instructions()) {
    std::vector<Instruction*> operands;
    for (const Instruction* operand : instruction->operands())
      operands.push_back(copies.at(operand));
    Instruction* copy = result->add_clone(*instruction, std::move(operands));
    if (callees != nullptr) {
      called.clear();
      for (const Computation* callee : instruction->called_computations()) {
        called.push_back(callees->at(callee));
      }
      copy->set_called_computations(called);
    }
    for (const Instruction* before : instruction->control_predecessors()) {
      copy->add_control_predecessor(copies.at(before));
    }
    copies.emplace(instruction.get(), copy);
  }
  if (original.root() != nullptr) result->set_root(copies.at(original.root()));
  return result;
}

}  // namespace

Computation* Module::add_clone(const Computation& original, std::string_view name) {
  if (original.module() == this) return clone_into(*this, original, name, nullptr);
  std::unordered_map<const Computation*, Computation*> callees;
  return clone_into(*this, original, name, &callees);
}

void Module::remove(Computation* computation) {
  const auto found = std::find_if(computations_.rbegin(), computations_.rend(),
                                  [&](const auto& each) { return each.get() == computation; });
  computations_.erase(std::next(found).base());
}

int Module::remove_unreachable() {
  if (entry_ == nullptr) return 0;
  std::vector<Computation*> order;
  PointerSet<Computation> seen(computations_.size());
  struct Visit {
    std::vector<Computation*>& order;
    PointerSet<Computation>& seen;
    void operator()(Computation* computation) {
      if (!seen.insert(computation)) return;
      for (const auto& instruction : computation->instructions()) {
        for (Computation* callee : instruction->called_computations()) (*this)(callee);
      }
      order.push_back(computation);
    }
  };
  Visit{order, seen}(entry_);
  const int removed = static_cast<int>(computations_.size() - order.size());
  PointerMap<Computation, std::size_t> position(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) position.emplace(order[i], i);
  std::vector<std::unique_ptr<Computation>> kept(order.size());
  for (auto& computation : computations_) {
    const std::size_t* const place = position.find(computation.get());
    if (place != nullptr) kept[*place] = std::move(computation);
  }
  computations_ = std::move(kept);
  return removed;
}

std::unique_ptr<Module> Module::clone() const {
  auto copy = std::make_unique<Module>(name_);
  copy->is_scheduled = is_scheduled;
  copy->input_output_alias = input_output_alias;
  copy->buffer_donor = buffer_donor;
  copy->replica_count = replica_count;
  copy->num_partitions = num_partitions;
  copy->extra = extra;
  std::unordered_map<const Computation*, Computation*> copies;
  for (const auto& computation : computations_) {
    if (copies.contains(computation.get())) continue;
    copies.emplace(computation.get(),
                   clone_into(*copy, *computation, computation->name(), &copies));
  }
  if (entry_ != nullptr) copy->entry_ = copies.at(entry_);
  return copy;
}

std::int64_t Module::instruction_count() const {
  std::int64_t count = 0;
  for (const auto& computation : computations_) count += computation->instruction_count();
  return count;
}

std::vector<Computation*> callees_of(const Instruction& instruction) {
  std::vector<Computation*> found;
  std::vector<Computation*> work(instruction.called_computations());
  while (!work.empty()) {
    Computation* computation = work.back();
    work.pop_back();
    if (std::find(found.begin(), found.end(), computation) != found.end()) continue;
    found.push_back(computation);
    for (const auto& inner : computation->instructions()) {
      for (Computation* callee : inner->called_computations()) work.push_back(callee);
    }
  }
  return found;
}

}  // namespace plimsoll::ir
