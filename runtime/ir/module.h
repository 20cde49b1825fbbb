// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/base/status.h"
#include "runtime/ir/attributes.h"
#include "runtime/ir/opcode.h"
#include "runtime/ir/shape.h"
#include "runtime/ir/unique_names.h"

namespace plimsoll::ir {

class Computation;
class Module;

// One operation. Owned by its computation; addresses are stable until it is removed. The graph
// edges (operands/users, control predecessors/successors) are kept symmetric by the member
// functions.
class Instruction {
 public:
  Opcode opcode() const { return opcode_; }
  const Shape& shape() const { return shape_; }
  void set_shape(Shape shape) { shape_ = std::move(shape); }
  const std::string& name() const { return name_; }
  Computation* parent() const { return parent_; }

  const std::vector<Instruction*>& operands() const { return operands_; }
  Instruction* operand(int i) const { return operands_[at(i)]; }
  int operand_count() const { return static_cast<int>(operands_.size()); }
  // Each user once, in the order the uses were made.
  const std::vector<Instruction*>& users() const { return users_; }
  void replace_operand(int i, Instruction* with);
  void append_operand(Instruction* operand);
  // Every use of this value (and the root role) goes to `with`; control edges stay.
  void replace_all_uses_with(Instruction* with);

  const std::vector<Instruction*>& control_predecessors() const { return control_predecessors_; }
  const std::vector<Instruction*>& control_successors() const { return control_successors_; }
  void add_control_predecessor(Instruction* predecessor);
  void remove_control_predecessor(Instruction* predecessor);

  // to_apply, body/condition (in that order: condition, body), branches, calls, select/scatter.
  const std::vector<Computation*>& called_computations() const { return called_; }
  Computation* called(int i) const { return called_[at(i)]; }
  void set_called_computations(std::vector<Computation*> called) { called_ = std::move(called); }
  Computation* to_apply() const {
    return called_[0];
  }  // call map reduce sort scatter all-reduce fusion
  Computation* while_condition() const { return called_[0]; }  // while
  Computation* while_body() const { return called_[1]; }
  Computation* select() const { return called_[0]; }  // select-and-scatter
  Computation* scatter() const { return called_[1]; }

  Attributes& attributes() { return attributes_; }
  const Attributes& attributes() const { return attributes_; }

  bool is_root() const;
  // A side effect of its own, of a custom call that says so, or (recursively) of what it calls.
  bool has_side_effect() const;

 private:
  friend class Computation;
  Instruction(Opcode opcode, Shape&& shape, std::string&& name, Attributes&& attributes)
      : opcode_(opcode),
        shape_(std::move(shape)),
        name_(std::move(name)),
        attributes_(std::move(attributes)) {}
  void add_user(Instruction* user);
  void drop_user(Instruction* user);

  Opcode opcode_;
  bool live_ = false;  // while what is dead is removed
  Shape shape_;
  std::string name_;
  Computation* parent_ = nullptr;
  std::vector<Instruction*> operands_, users_;
  std::vector<Instruction*> control_predecessors_, control_successors_;
  std::vector<Computation*> called_;
  Attributes attributes_;
};

// A list of instructions in a valid execution order (operands and control predecessors first); that
// order is the schedule. Owned by its module.
class Computation {
 public:
  const std::string& name() const { return name_; }
  Module* module() const { return module_; }

  // In schedule order.
  const std::vector<std::unique_ptr<Instruction>>& instructions() const { return instructions_; }
  int instruction_count() const { return static_cast<int>(instructions_.size()); }
  Instruction* root() const { return root_; }
  void set_root(Instruction* root) { root_ = root; }
  // By parameter number.
  const std::vector<Instruction*>& parameters() const { return parameters_; }
  Instruction* find(std::string_view name) const;  // linear; null when absent

  // Appends an instruction. `name` is made unique in the module (".1" and so on is added); when
  // empty it is made from the opcode. The caller fills attributes and called computations. The last
  // appended instruction is the root unless set_root is called.
  Instruction* add(Opcode opcode, Shape shape, std::vector<Instruction*> operands,
                   std::string_view name = {}, Attributes attributes = {});
  // As `add`, placed before `position` in the schedule. Linear in the computation's size; use
  // `set_order` after many `add`s instead. Does not change the root.
  Instruction* insert_before(Instruction* position, Opcode opcode, Shape shape,
                             std::vector<Instruction*> operands, std::string_view name = {},
                             Attributes attributes = {});
  Instruction* add_parameter(std::int64_t number, Shape shape, std::string_view name = {});
  Instruction* add_constant(Literal literal, std::string_view name = {});
  Instruction* add_tuple(std::vector<Instruction*> elements, std::string_view name = {});
  Instruction* add_get_tuple_element(Instruction* tuple, std::int64_t index,
                                     std::string_view name = {});
  // A copy of `original` (same computation or another of the same module) with new operands,
  // appended. Attributes and called computations are shared; control edges are not copied.
  Instruction* add_clone(const Instruction& original, std::vector<Instruction*> operands,
                         std::string_view name = {});

  // Replaces the schedule. Precondition: a permutation of the instructions in a valid order.
  void set_order(const std::vector<Instruction*>& order);
  // Sorts into a valid order with as few moves as possible (stable); fails on a cycle.
  Status sort_topologically();
  // Removes an instruction without users. Its control edges are bridged: its predecessors come
  // before its successors. Linear in the computation's size.
  void remove(Instruction* instruction);
  // Removes what is neither used (directly or through others) by the root nor has a side effect;
  // parameters stay. Returns how many instructions went.
  int remove_dead();

 private:
  friend class Module;
  Computation(Module* module, std::string name) : module_(module), name_(std::move(name)) {}
  Instruction* create(Opcode opcode, Shape&& shape, std::vector<Instruction*>&& operands,
                      std::string_view name, Attributes&& attributes);
  static void bridge_control_edges(Instruction* instruction);
  void detach(Instruction* instruction);

  Module* module_;
  std::string name_;
  std::vector<std::unique_ptr<Instruction>> instructions_;
  std::vector<Instruction*> parameters_;
  Instruction* root_ = nullptr;
};

// One pair of input_output_alias: the output at `output_index` lives in the buffer of parameter
// `parameter_number` at `parameter_index` (tuple paths).
struct InputOutputAlias {
  std::vector<std::int64_t> output_index;
  std::int64_t parameter_number = 0;
  std::vector<std::int64_t> parameter_index;
  bool must_alias = false;
  friend bool operator==(const InputOutputAlias&, const InputOutputAlias&) = default;
};

struct BufferDonor {
  std::int64_t parameter_number = 0;
  std::vector<std::int64_t> parameter_index;
  friend bool operator==(const BufferDonor&, const BufferDonor&) = default;
};

// A program: computations in callee-before-caller order, one of them the entry. A value in spirit:
// passes take one and leave it valid; `clone` gives an independent copy. Not thread-safe to mutate.
class Module {
 public:
  explicit Module(std::string name) : name_(std::move(name)) {}
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  const std::vector<std::unique_ptr<Computation>>& computations() const { return computations_; }
  Computation* entry() const { return entry_; }
  void set_entry(Computation* computation) { entry_ = computation; }
  Computation* find(std::string_view name) const;  // null when absent
  // `name` is made unique.
  Computation* add_computation(std::string_view name);
  // A deep copy of `original` (of this or another module) and of nothing it calls when it is of
  // this module; called computations of another module are copied along.
  Computation* add_clone(const Computation& original, std::string_view name = {});
  // Removes a computation that nothing calls. Linear in those added since.
  void remove(Computation* computation);
  // Removes computations that the entry does not reach, and sorts callees before callers.
  int remove_unreachable();
  std::unique_ptr<Module> clone() const;

  std::int64_t instruction_count() const;

  // Module attributes of the header line.
  bool is_scheduled = false;
  std::vector<InputOutputAlias> input_output_alias;
  std::vector<BufferDonor> buffer_donor;
  std::int64_t replica_count = 1;
  std::int64_t num_partitions = 1;
  // entry_computation_layout, frontend_attributes, ...: kept verbatim, as in Attributes::extra.
  std::vector<std::pair<std::string, std::string>> extra;

  // A name not yet used by an instruction (or computation) of this module, close to `wanted`.
  std::string unique_instruction_name(std::string_view wanted);
  std::string unique_computation_name(std::string_view wanted);

 private:
  std::string name_;
  std::vector<std::unique_ptr<Computation>> computations_;
  Computation* entry_ = nullptr;
  UniqueNames instruction_names_, computation_names_;
};

// Computations reachable from `instruction` by calls, `instruction`'s own excluded.
std::vector<Computation*> callees_of(const Instruction& instruction);

}  // namespace plimsoll::ir
