// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/onnx/translator.h"

#include <fmt/format.h>
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/import/onnx/model/node_order.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"

namespace plimsoll::onnx {

using ir::Literal;
using ir::Shape;

namespace {

// Values of at most so many elements are computed while the model is read.
constexpr std::int64_t kMostFolded = 1 << 14;
// Graphs and functions may stand so deep in each other.
constexpr int kDeepest = 32;
// Nodes translated at most, each as often as loops and functions repeat it.
constexpr std::int64_t kMostNodes = 1'000'000;

bool is_small(const Value& value) {
  return value.kind == Value::Kind::nothing ||
         (value.known != nullptr && value.known->shape().element_count() <= kMostFolded);
}

std::string text_of(const ValueInfo& input) {
  std::string text;
  for (const Dimension& dim : input.type.dims) {
    if (!text.empty()) text += ",";
    text += dim.size >= 0           ? std::to_string(dim.size)
            : dim.parameter.empty() ? "?"
                                    : std::string(dim.parameter);
  }
  return "[" + text + "]";
}

// That a result is what the model says of it, as far as it says: the dtype, the rank, sizes that it
// has in numbers.
Status check_declared(const ValueInfo& output, const Array& result) {
  const ValueType& type = output.type;
  if (type.kind != ValueType::Kind::tensor || result.is_null() ||
      !result.instruction()->shape().is_array()) {
    return ok_status();
  }
  const Shape& shape = result.instruction()->shape();
  const auto wrong = [&](std::string declared) {
    return invalid_argument(fmt::format("output '{}' is {}, the model declares {}", output.name,
                                        shape.to_string(), declared));
  };
  const auto dtype = dtype_of(type.element);
  if (dtype.ok() && *dtype != shape.dtype()) return wrong(std::string(ir::to_string(*dtype)));
  if (!type.has_shape) return ok_status();
  bool fits = std::ssize(type.dims) == shape.rank();
  for (std::size_t i = 0; fits && i < type.dims.size(); ++i) {
    const std::int64_t size = type.dims[i].size;
    fits = size < 0 || size == shape.dim(static_cast<int>(i));
  }
  return fits ? ok_status() : wrong(text_of(output));
}

}  // namespace

Translator::Translator(const Model& model, const ReadOptions& options)
    : model_(model), options_(options), files_(options.owner, options.folder) {}

Result<std::unique_ptr<ir::Module>> Translator::translate() {
  // Every try but the last marks one more input.
  for (;;) {
    again_ = false;
    auto made = try_translate();
    if (made.ok() || !again_) return made;
  }
}

Result<std::unique_ptr<ir::Module>> Translator::try_translate() {
  auto module = std::make_unique<ir::Module>(
      model_.graph.name.empty() ? "onnx" : parameter_name(model_.graph.name));
  ir::Computation* const entry = module->add_computation("main");
  module->set_entry(entry);
  symbols_.clear();
  parameters_.clear();
  node_count_ = 0;
  depth_ = 0;
  Emit emit(*entry);
  Scope scope;
  scope.opsets = &model_.opsets;
  scope.emit = &emit;
  scope_ = &scope;
  PLIMSOLL_RETURN_IF_ERROR(add_initializers(model_.graph, scope));
  PLIMSOLL_RETURN_IF_ERROR(add_inputs(scope));
  PLIMSOLL_RETURN_IF_ERROR(translate_nodes(model_.graph.nodes, scope));
  std::vector<std::string_view> names;
  for (const ValueInfo& output : model_.graph.outputs) names.push_back(output.name);
  PLIMSOLL_ASSIGN_OR_RETURN(std::vector<Value> outputs, outputs_of(names, scope, "the graph"));
  const Node none;
  NodeContext context(none, 0, {}, {}, emit, *this);
  // The instruction of a result has the result's name.
  const std::function<Array(Value&, std::string_view)> named = [&](Value& value,
                                                                   std::string_view name) {
    if (value.kind == Value::Kind::sequence) {
      std::vector<Array> elements;
      for (Value& element : value.elements) elements.push_back(named(element, name));
      return emit.make(ir::Opcode::tuple, elements, {}, {}, nullptr, parameter_name(name));
    }
    const Array array = context.array_of(value);
    if (array.is_null()) return array;
    // An input that is handed on has the name already.
    const auto input = parameters_.find(array.instruction());
    if (input != parameters_.end() && input->second == name) return array;
    const Shape shape(array.dtype(), array.dims());
    return emit.make(ir::Opcode::reshape, {array}, {}, {}, &shape, parameter_name(name));
  };
  std::vector<Array> results;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    results.push_back(named(outputs[i], names[i]));
    if (!emit.status().ok()) {
      return emit.status().with_context(fmt::format("output '{}'", names[i]));
    }
    PLIMSOLL_RETURN_IF_ERROR(check_declared(model_.graph.outputs[i], results.back()));
  }
  const Array root = results.size() == 1 ? results[0] : emit.tuple(results);
  PLIMSOLL_RETURN_IF_ERROR(emit.status());
  entry->set_root(root.instruction());
  for (const auto& computation : module->computations()) computation->remove_dead();
  module->remove_unreachable();
  PLIMSOLL_RETURN_IF_ERROR(ir::verify(*module));
  return module;
}

const GivenInput* Translator::given(std::string_view name) const {
  for (const GivenInput& one : options_.inputs) {
    if (one.name == name || one.name == parameter_name(name)) return &one;
  }
  return nullptr;
}

Status Translator::add_inputs(Scope& scope) {
  std::vector<const ValueInfo*> inputs;
  for (const ValueInfo& input : model_.graph.inputs) {
    for (const ValueInfo* const earlier : inputs) {
      if (earlier->name == input.name) {
        return invalid_argument(fmt::format("two inputs have the name '{}'", input.name));
      }
    }
    if (!scope.values.contains(input.name)) inputs.push_back(&input);
  }
  for (const GivenInput& one : options_.inputs) {
    const bool is_there = std::any_of(inputs.begin(), inputs.end(), [&](const ValueInfo* input) {
      return one.name == input->name || one.name == parameter_name(input->name);
    });
    if (is_there) continue;
    std::string names;
    for (const ValueInfo* const input : inputs) {
      names += (names.empty() ? "" : ", ") + std::string(input->name);
    }
    return invalid_argument(fmt::format("the model has no input '{}' (it has: {})", one.name,
                                        names.empty() ? "none" : names));
  }
  // Sizes that one input says by their name hold for all.
  for (const ValueInfo* const input : inputs) {
    const GivenInput* const said = given(input->name);
    if (said == nullptr) continue;
    if (said->dims.has_value()) PLIMSOLL_RETURN_IF_ERROR(bind_dims(*input, *said->dims));
    if (!said->value.has_value() || !said->value->shape().is_array()) continue;
    PLIMSOLL_RETURN_IF_ERROR(bind_dims(*input, said->value->shape().dims().to_vector()));
  }
  std::int64_t number = 0;
  const auto add_parameter = [&](const Shape& shape, std::string_view name) {
    return scope.emit->computation().add_parameter(number++, shape, parameter_name(name));
  };
  for (const ValueInfo* const input : inputs) {
    const GivenInput* const said = given(input->name);
    if (known_inputs_.contains(input->name)) {
      scope.values[input->name] = Value::of(*said->value);
      continue;
    }
    const ValueType::Kind kind = input->type.kind;
    if (said != nullptr && said->value.has_value() && said->value->shape().is_tuple()) {
      // A sequence is as long as its value; its elements are the parameter's.
      ir::Instruction* const tuple = add_parameter(said->value->shape(), input->name);
      Value value = Value::sequence({});
      const Array packed(scope.emit, tuple);
      for (std::int64_t i = 0; i < std::ssize(said->value->elements()); ++i) {
        value.elements.push_back(Value::of(scope.emit->element_of(packed, i)));
      }
      scope.values[input->name] = std::move(value);
      continue;
    }
    if (kind == ValueType::Kind::sequence || kind == ValueType::Kind::other ||
        kind == ValueType::Kind::unknown) {
      return unimplemented(fmt::format(
          "input '{}' is no tensor (sequences need a value that says how long they are)",
          input->name));
    }
    PLIMSOLL_ASSIGN_OR_RETURN(const Shape shape, input_shape(*input));
    ir::Instruction* const parameter = add_parameter(shape, input->name);
    parameters_[parameter] = input->name;
    scope.values[input->name] = Value::of(Array(scope.emit, parameter));
  }
  return ok_status();
}

Status Translator::bind_dims(const ValueInfo& input, const std::vector<std::int64_t>& dims) {
  if (!input.type.has_shape) return ok_status();
  const auto wrong = [&] {
    return invalid_argument(fmt::format("input '{}' is given as [{}], the model has it as {}",
                                        input.name, fmt::join(dims, ","), text_of(input)));
  };
  if (dims.size() != input.type.dims.size()) return wrong();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const Dimension& dim = input.type.dims[i];
    if (dims[i] < 0 || (dim.size >= 0 && dim.size != dims[i])) return wrong();
    if (dim.size >= 0 || dim.parameter.empty()) continue;
    const auto [place, is_new] = symbols_.emplace(dim.parameter, dims[i]);
    if (!is_new && place->second != dims[i]) {
      return invalid_argument(fmt::format("input '{}': size '{}' is {} here and {} elsewhere",
                                          input.name, dim.parameter, dims[i], place->second));
    }
  }
  return ok_status();
}

Result<Shape> Translator::input_shape(const ValueInfo& input) {
  auto dtype = dtype_of(input.type.element);
  if (!dtype.ok()) return dtype.status().with_context(fmt::format("input '{}'", input.name));
  const GivenInput* const said = given(input.name);
  std::vector<std::int64_t> dims;
  if (said != nullptr && said->value.has_value()) {
    dims = said->value->shape().dims().to_vector();
    if (said->value->shape().dtype() != *dtype) {
      return invalid_argument(fmt::format("input '{}' is given as {}, the model has elements of {}",
                                          input.name, said->value->shape().to_string(),
                                          ir::to_string(*dtype)));
    }
  } else if (said != nullptr && said->dims.has_value()) {
    dims = *said->dims;
  } else {
    const auto open = [&](std::string_view what) {
      return invalid_argument(fmt::format(
          "input '{}' is {}: {} (say its sizes: --input-shape {}=SIZES or --input {}=FILE.npy, in "
          "the C API plm_executable_options.inputs)",
          input.name, input.type.has_shape ? text_of(input) : "of unknown rank", what, input.name,
          input.name));
    };
    if (!input.type.has_shape) return open("the model leaves its dimensions open");
    for (const Dimension& dim : input.type.dims) {
      const auto bound = symbols_.find(dim.parameter);
      if (dim.size < 0 && (dim.parameter.empty() || bound == symbols_.end())) {
        return open(dim.parameter.empty()
                        ? std::string("the model leaves a size open")
                        : fmt::format("the model leaves '{}' open", dim.parameter));
      }
      dims.push_back(dim.size >= 0 ? dim.size : bound->second);
    }
  }
  if (dims.size() > at(ir::kMaxRank)) {
    return unimplemented(fmt::format("input '{}' has {} dimensions (at most {})", input.name,
                                     dims.size(), ir::kMaxRank));
  }
  if (!ir::fits_address_space(*dtype, ir::Dims(dims))) {
    return invalid_argument(
        fmt::format("input '{}' is {}, which no memory could hold", input.name, text_of(input)));
  }
  return Shape(*dtype, dims);
}

Status Translator::add_initializers(const Graph& graph, Scope& scope) {
  for (const Initializer& one : graph.initializers) {
    const bool is_outer = &graph == &model_.graph;
    if (is_outer) {
      const auto kept = initializers_.find(one.name);
      if (kept != initializers_.end()) {
        scope.values[one.name] = Value::of(kept->second);
        continue;
      }
    }
    PLIMSOLL_ASSIGN_OR_RETURN(Literal literal, files_.read(one.tensor));
    if (is_outer) initializers_[one.name] = literal;
    scope.values[one.name] = Value::of(std::move(literal));
  }
  return ok_status();
}

Status Translator::translate_nodes(const std::vector<Node>& nodes, Scope& scope) {
  const auto is_there = [&](std::string_view name) { return find(name, scope) != nullptr; };
  PLIMSOLL_ASSIGN_OR_RETURN(const std::vector<const Node*> order, in_order(nodes, is_there));
  for (const Node* const node : order) {
    const Status status = translate_node(*node, scope);
    if (!status.ok()) return status.with_context(node->describe());
  }
  return ok_status();
}

Value* Translator::find(std::string_view name, Scope& scope) {
  for (Scope* one = &scope; one != nullptr; one = one->around) {
    const auto found = one->values.find(name);
    if (found != one->values.end()) return &found->second;
  }
  return nullptr;
}

Status Translator::keep(const Node& node, std::vector<Value> outputs, Scope& scope) {
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    if (i >= outputs.size()) {
      return unimplemented(
          fmt::format("its output {} ('{}') is not computed here", i, node.outputs[i]));
    }
    if (!scope.values.try_emplace(node.outputs[i], std::move(outputs[i])).second) {
      return invalid_argument(
          fmt::format("its output '{}' is a value that the graph has already", node.outputs[i]));
    }
  }
  return ok_status();
}

Status Translator::translate_node(const Node& node, Scope& scope) {
  if (++node_count_ > kMostNodes) {
    return unimplemented(fmt::format("more than {} nodes with those of loops", kMostNodes));
  }
  std::vector<Value> inputs;
  for (const std::string_view name : node.inputs) {
    if (name.empty()) {
      inputs.push_back(Value::nothing());
      continue;
    }
    Value* const found = find(name, scope);
    if (found == nullptr) {
      return invalid_argument(fmt::format("input '{}' is no value of the graph", name));
    }
    // Constants are made once for all nodes of a computation that use them.
    if (found->known != nullptr && !is_small(*found) &&
        (found->array.is_null() || found->array.emit() != scope.emit)) {
      found->array = scope.emit->constant(*found->known);
    }
    inputs.push_back(*found);
  }
  for (const Function& function : model_.functions) {
    if (function.name == node.op_type && function.domain == node.domain &&
        function.overload == node.overload) {
      return call(function, node, std::move(inputs), scope);
    }
  }
  std::string name(node.op_type);
  if (!node.domain.empty()) name = std::string(node.domain) + ":" + name;
  const auto found = operators().find(name);
  if (found == operators().end()) {
    const auto refused = refused_operators().find(name);
    return unimplemented(refused == refused_operators().end()
                             ? "this operator is not read (docs/onnx.md lists those that are)"
                             : "this operator is not read: " + refused->second);
  }
  const auto opset = scope.opsets->find(node.domain);
  const std::int64_t version = opset == scope.opsets->end() ? 1 : opset->second;
  if (found->second.folds) {
    PLIMSOLL_ASSIGN_OR_RETURN(const bool is_done,
                              fold(found->second, node, version, inputs, scope));
    if (is_done) return ok_status();
  }
  NodeContext context(node, version, scope.call_attributes, std::move(inputs), *scope.emit, *this);
  Scope* const before = std::exchange(scope_, &scope);
  found->second.translate(context);
  scope_ = before;
  PLIMSOLL_RETURN_IF_ERROR(context.e.status());
  return keep(node, std::move(context.outputs()), scope);
}

Result<bool> Translator::fold(const Op& op, const Node& node, std::int64_t opset,
                              const std::vector<Value>& inputs, Scope& scope) {
  if (!std::all_of(inputs.begin(), inputs.end(), is_small)) return false;
  ir::Module module("folded");
  ir::Computation* const entry = module.add_computation("main");
  module.set_entry(entry);
  Emit emit(*entry);
  NodeContext context(node, opset, scope.call_attributes, inputs, emit, *this);
  Scope* const before = std::exchange(scope_, &scope);
  op.translate(context);
  scope_ = before;
  PLIMSOLL_RETURN_IF_ERROR(emit.status());
  std::vector<Array> arrays;
  for (Value& output : context.outputs()) {
    if (output.kind == Value::Kind::sequence) return false;
    if (output.kind != Value::Kind::nothing && output.known == nullptr) {
      arrays.push_back(output.array);
    }
  }
  if (!arrays.empty()) {
    for (const auto& instruction : entry->instructions()) {
      const Shape& shape = instruction->shape();
      if (instruction->opcode() == ir::Opcode::while_) return false;
      if (shape.is_array() && shape.element_count() > 4 * kMostFolded) return false;
    }
    const Array root = emit.tuple(arrays);
    if (root.is_null()) return emit.status();
    entry->set_root(root.instruction());
    auto computed = ir::interpret(module, {});
    if (!computed.ok()) return false;  // what the interpreter has not, kernels may have
    std::size_t next = 0;
    for (Value& output : context.outputs()) {
      if (output.kind == Value::Kind::nothing || output.known != nullptr) continue;
      const auto quantized = output.quantized;  // of known values, which have no arrays
      output = Value::of(computed->elements()[next++]);
      output.quantized = quantized;
    }
  }
  // Arrays of the module that goes away are not to be seen.
  for (Value& output : context.outputs()) output.array = {};
  PLIMSOLL_RETURN_IF_ERROR(keep(node, std::move(context.outputs()), scope));
  return true;
}

Status Translator::call(const Function& function, const Node& node, std::vector<Value> inputs,
                        Scope& scope) {
  if (++depth_ > kDeepest) {
    return invalid_argument(fmt::format("functions call each other more than {} deep", kDeepest));
  }
  // The call's own attributes, as they stand where the call is, and the function's defaults.
  std::vector<Attribute> attributes;
  const NodeContext caller(node, 0, scope.call_attributes, {}, *scope.emit, *this);
  for (const Attribute& one : node.attributes) {
    const Attribute* const resolved = caller.attribute(one.name);
    if (resolved == nullptr) continue;
    attributes.push_back(*resolved);
    attributes.back().name = one.name;
  }
  for (const Attribute& one : function.defaults) {
    if (node.find(one.name) == nullptr) attributes.push_back(one);
  }
  Scope inner;
  inner.opsets = &function.opsets;
  inner.call_attributes = attributes;
  inner.emit = scope.emit;
  for (std::size_t i = 0; i < function.inputs.size(); ++i) {
    inner.values[function.inputs[i]] = i < inputs.size() ? inputs[i] : Value::nothing();
  }
  PLIMSOLL_RETURN_IF_ERROR(translate_nodes(function.nodes, inner));
  PLIMSOLL_ASSIGN_OR_RETURN(std::vector<Value> outputs,
                            outputs_of(function.outputs, inner, function.name));
  --depth_;
  return keep(node, std::move(outputs), scope);
}

Result<std::vector<Value>> Translator::outputs_of(const std::vector<std::string_view>& names,
                                                  Scope& scope, std::string_view where) {
  std::vector<Value> values;
  for (const std::string_view name : names) {
    const Value* const found = find(name, scope);
    if (found == nullptr) {
      return invalid_argument(fmt::format("output '{}' of {} is no value of it", name, where));
    }
    values.push_back(*found);
  }
  return values;
}

Result<std::vector<Value>> Translator::translate(const Graph& graph, std::vector<Value> inputs,
                                                 Emit& emit, const Outer* outer) {
  if (depth_ >= kDeepest) {
    return invalid_argument(fmt::format("graphs stand more than {} deep in each other", kDeepest));
  }
  ++depth_;
  Scope scope;
  scope.opsets = scope_->opsets;
  scope.call_attributes = scope_->call_attributes;
  scope.emit = &emit;
  if (outer == nullptr) {
    scope.around = scope_;
  } else {
    for (const auto& [name, value] : *outer) scope.values[name] = value;
  }
  if (graph.inputs.size() != inputs.size()) {
    return invalid_argument(fmt::format("graph '{}' has {} inputs (must have {})", graph.name,
                                        graph.inputs.size(), inputs.size()));
  }
  PLIMSOLL_RETURN_IF_ERROR(add_initializers(graph, scope));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    scope.values[graph.inputs[i].name] = std::move(inputs[i]);
  }
  Scope* const before = std::exchange(scope_, &scope);
  const Status status = translate_nodes(graph.nodes, scope);
  scope_ = before;
  PLIMSOLL_RETURN_IF_ERROR(status);
  std::vector<std::string_view> names;
  for (const ValueInfo& output : graph.outputs) names.push_back(output.name);
  --depth_;
  return outputs_of(names, scope, fmt::format("graph '{}'", graph.name));
}

GraphTranslator::Outer Translator::captured(const Graph& graph) {
  std::set<std::string_view> names;
  collect_free(graph, {}, names);
  Outer outer;
  for (const std::string_view name : names) {
    if (const Value* const found = find(name, *scope_); found != nullptr) outer[name] = *found;
  }
  return outer;
}

Status Translator::ask_for(const Value& value, const std::string& what) {
  std::vector<const ir::Instruction*> left;
  if (value.array.instruction() != nullptr) left.push_back(value.array.instruction());
  std::unordered_set<const ir::Instruction*> seen;
  std::set<std::string_view> inputs;
  bool is_inner = false;
  while (!left.empty()) {
    const ir::Instruction* const one = left.back();
    left.pop_back();
    if (!seen.insert(one).second) continue;
    if (one->opcode() == ir::Opcode::parameter) {
      const auto found = parameters_.find(one);
      if (found == parameters_.end()) is_inner = true;
      if (found != parameters_.end()) inputs.insert(found->second);
    }
    for (const ir::Instruction* const operand : one->operands()) left.push_back(operand);
  }
  if (is_inner) {
    return unimplemented(what +
                         " must be known before the program runs, and depends on what a "
                         "loop or a branch computes");
  }
  if (inputs.empty()) {
    return unimplemented(what +
                         " must be known before the program runs, and is computed of too "
                         "many elements for that");
  }
  std::string missing;
  for (const std::string_view name : inputs) {
    const GivenInput* const said = given(name);
    if (said != nullptr && said->value.has_value()) continue;
    missing += (missing.empty() ? "'" : ", '") + std::string(name) + "'";
  }
  if (missing.empty()) {
    known_inputs_.insert(inputs.begin(), inputs.end());
    if (options_.constant_inputs != nullptr) {
      for (const std::string_view name : inputs) {
        options_.constant_inputs->push_back(std::string(name));
      }
    }
    again_ = true;
    return failed_precondition(what + " must be known");
  }
  return invalid_argument(fmt::format(
      "{} must be known before the program runs, and depends on input {} of the model (give its "
      "value: --input NAME=FILE.npy, in the C API plm_executable_options.inputs)",
      what, missing));
}

Result<Literal> Translator::read_tensor(std::string_view message) { return files_.read(message); }

}  // namespace plimsoll::onnx
