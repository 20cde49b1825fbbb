// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/cut/segments.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/ir/dataflow/run_again.h"

namespace plimsoll::trace {
namespace {

using ir::Instruction;
using ir::Opcode;

// An array: a value between segments, or a constant that each of its users gets a copy of.
struct Source {
  int value = -1;
  const Instruction* constant = nullptr;
};

// A program cut into single operations, each a program of its own with arrays as inputs and
// outputs. It is the last resort of an evaluation whose plan does not fit even at its floor, since
// leaves stay for the whole of a plan: run one by one, an operation needs its own operands and
// results only, and the evictor may evict everything else in between. It costs fusion and a
// launch for each.
//
// Constants are copied into every segment that reads them. A result of the program that is a
// parameter, or the same value twice, becomes a copy: results are arrays of their own.
class Builder {
 public:
  Builder(const executor::Program& program, const ProgramCache& cache)
      : program_(program), cache_(cache) {}

  Result<std::shared_ptr<Segments>> build() {
    const ir::Computation& entry = *program_.module().entry();
    for (const Instruction* parameter : entry.parameters()) add_values(*parameter);
    for (const auto& instruction : entry.instructions()) {
      PLIMSOLL_RETURN_IF_ERROR(visit(*instruction));
    }
    std::unordered_set<int> given;
    const int parameters = parameter_values_;
    for (const Source& source : sources_.at(entry.root())) {
      int value = source.value;
      // Each result is an array of its own.
      if (value < parameters || !given.insert(value).second) {
        PLIMSOLL_ASSIGN_OR_RETURN(value, add_copy(source));
        given.insert(value);
      }
      made_->results.push_back(value);
    }
    made_->last_use.assign(at(made_->value_count), -1);
    for (std::size_t i = 0; i < made_->list.size(); ++i) {
      for (const int input : made_->list[i].inputs) {
        made_->last_use[at(input)] = static_cast<int>(i);
      }
    }
    for (const ir::Shape& shape : shapes_) {
      made_->bytes.push_back(shape.byte_size());
      made_->element_bytes.push_back(ir::dtype_bytes(shape.dtype()));
    }
    return std::move(made_);
  }

 private:
  void add_values(const Instruction& instruction) {
    std::vector<Source>& sources = sources_[&instruction];
    for (const ir::Shape* leaf : ir::leaves(instruction.shape())) {
      sources.push_back({made_->value_count++, nullptr});
      shapes_.push_back(*leaf);
    }
    if (instruction.opcode() == Opcode::parameter) parameter_values_ = made_->value_count;
  }

  Status visit(const Instruction& instruction) {
    if (instruction.has_side_effect()) return unimplemented("segments: a side effect");
    switch (instruction.opcode()) {
      case Opcode::parameter:
        return ok_status();
      case Opcode::constant:
        sources_[&instruction] = {{-1, &instruction}};
        return ok_status();
      case Opcode::opt_barrier:
      case Opcode::domain:
        sources_[&instruction] = std::vector<Source>(sources_.at(instruction.operand(0)));
        return ok_status();
      case Opcode::after_all:
      case Opcode::add_dependency:
        return unimplemented("segments: a token");
      case Opcode::tuple: {
        std::vector<Source> all;
        for (const Instruction* operand : instruction.operands()) {
          const std::vector<Source>& sources = sources_.at(operand);
          all.insert(all.end(), sources.begin(), sources.end());
        }
        sources_[&instruction] = std::move(all);
        return ok_status();
      }
      case Opcode::get_tuple_element: {
        const Instruction& tuple = *instruction.operand(0);
        const auto index = at(instruction.attributes().tuple_index);
        int first = 0;
        for (std::size_t i = 0; i < index; ++i) first += leaf_count(tuple.shape().elements()[i]);
        const std::vector<Source>& sources = sources_.at(&tuple);
        const auto begin = sources.begin() + first;
        sources_[&instruction] =
            std::vector<Source>(begin, begin + leaf_count(instruction.shape()));
        return ok_status();
      }
      default:
        return add_segment(instruction);
    }
  }

  // The module of one segment in the making.
  struct Draft {
    std::unique_ptr<ir::Module> module = std::make_unique<ir::Module>("segment");
    ir::Computation* entry = module->add_computation("entry");
    std::vector<int> inputs;
    std::unordered_map<int, Instruction*> parameters;
    std::unordered_map<const Instruction*, Instruction*> constants;
  };

  Instruction* array(Draft& draft, const Source& source) {
    if (source.constant != nullptr) {
      Instruction*& copy = draft.constants[source.constant];
      if (copy == nullptr) {
        copy = draft.entry->add(Opcode::constant, source.constant->shape(), {}, "",
                                source.constant->attributes());
      }
      return copy;
    }
    Instruction*& parameter = draft.parameters[source.value];
    if (parameter == nullptr) {
      parameter = draft.entry->add_parameter(static_cast<std::int64_t>(draft.inputs.size()),
                                             shapes_[at(source.value)], "p");
      draft.inputs.push_back(source.value);
    }
    return parameter;
  }

  Instruction* assemble(Draft& draft, const ir::Shape& shape, const Source*& next) {
    if (!shape.is_tuple()) return array(draft, *next++);
    std::vector<Instruction*> elements;
    for (const ir::Shape& element : shape.elements()) {
      elements.push_back(assemble(draft, element, next));
    }
    return draft.entry->add_tuple(std::move(elements));
  }

  Status add_segment(const Instruction& instruction) {
    Draft draft;
    if (ir::communicates(instruction)) {
      draft.module->replica_count = program_.module().replica_count;
    }
    std::vector<Instruction*> operands;
    for (const Instruction* operand : instruction.operands()) {
      const Source* next = sources_.at(operand).data();
      operands.push_back(assemble(draft, operand->shape(), next));
    }
    Instruction* root =
        draft.entry->add(instruction.opcode(), instruction.shape(), std::move(operands),
                         instruction.name(), instruction.attributes());
    std::vector<ir::Computation*> called;
    for (const ir::Computation* callee : instruction.called_computations()) {
      called.push_back(draft.module->add_clone(*callee));
    }
    root->set_called_computations(std::move(called));
    add_values(instruction);
    std::vector<int> outputs;
    for (const Source& source : sources_.at(&instruction)) outputs.push_back(source.value);
    return finish(std::move(draft), root, std::move(outputs));
  }

  Result<int> add_copy(const Source& source) {
    Draft draft;
    Instruction* original = array(draft, source);
    Instruction* root = draft.entry->add(Opcode::copy, original->shape(), {original});
    shapes_.push_back(original->shape());
    const int value = made_->value_count++;
    PLIMSOLL_RETURN_IF_ERROR(finish(std::move(draft), root, {value}));
    return value;
  }

  Status finish(Draft draft, Instruction* root, std::vector<int> outputs) {
    draft.entry->set_root(root);
    draft.module->set_entry(draft.entry);
    draft.module->remove_unreachable();
    Segments::Segment segment;
    PLIMSOLL_ASSIGN_OR_RETURN(segment.program, cache_.compile_as_written(std::move(draft.module)));
    segment.inputs = std::move(draft.inputs);
    segment.outputs = std::move(outputs);
    made_->list.push_back(std::move(segment));
    return ok_status();
  }

  const executor::Program& program_;
  const ProgramCache& cache_;
  std::shared_ptr<Segments> made_ = std::make_shared<Segments>();
  std::unordered_map<const Instruction*, std::vector<Source>> sources_;
  std::vector<ir::Shape> shapes_;  // by value
  int parameter_values_ = 0;
};

}  // namespace

Result<std::shared_ptr<Segments>> make_segments(const executor::Program& program,
                                                const ProgramCache& cache) {
  return Builder(program, cache).build();
}

}  // namespace plimsoll::trace
