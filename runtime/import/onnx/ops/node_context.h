// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/import/onnx/emit/emit.h"
#include "runtime/import/onnx/model/model.h"
#include "runtime/import/onnx/ops/value.h"

namespace plimsoll::onnx {

// What operators need of whoever translates the graph around them.
class GraphTranslator {
 public:
  virtual ~GraphTranslator() = default;
  // The values that a graph of the node gives for these inputs, by instructions appended to `emit`.
  // It sees the values around the node. `outer`: of names that it uses from outside, in another
  // computation than theirs, the values to take instead.
  using Outer = std::map<std::string_view, Value>;
  virtual Result<std::vector<Value>> translate(const Graph& graph, std::vector<Value> inputs,
                                               Emit& emit, const Outer* outer) = 0;
  // The values around the node that the graph uses.
  virtual Outer captured(const Graph& graph) = 0;
  // Why the value is not known now; the message says which inputs of the model to give.
  virtual Status ask_for(const Value& value, const std::string& what) = 0;
  virtual Result<ir::Literal> read_tensor(std::string_view message) = 0;
};

// One node while it is translated: what operators read and write. Errors stay in `e`.
class NodeContext {
 public:
  NodeContext(const Node& node, std::int64_t opset, std::span<const Attribute> call_attributes,
              std::vector<Value> inputs, Emit& emit, GraphTranslator& translator)
      : e(emit),
        node(node),
        opset(opset),
        translator(translator),
        call_attributes_(call_attributes),
        inputs_(std::move(inputs)) {}

  // The same node with other inputs, as an operator of the standard of that version reads it. Those
  // that are missing are optionals without a value.
  NodeContext with(std::vector<Value> inputs, std::int64_t version) const {
    return NodeContext(node, version, call_attributes_, std::move(inputs), e, translator);
  }

  Emit& e;
  const Node& node;
  const std::int64_t opset;
  GraphTranslator& translator;

  // Inputs. What is not there where it must be is an error; optional ones are asked for by has().
  int input_count() const { return static_cast<int>(inputs_.size()); }
  bool has(int i) const;
  Array in(int i);
  Value& value(int i);
  // As an array of this computation.
  Array array_of(Value& value);
  // Null where it is not known while the model is read.
  const ir::Literal* known(int i) const;
  // Null where it is not made of bytes, or of ones that this computation has not.
  const Quantized* quantized(int i) const;
  // Known, or an error that says which inputs of the model decide it. `what`: "shape".
  const ir::Literal* must_know(int i, std::string_view what);
  Sizes integers(int i, std::string_view what);
  std::int64_t integer(int i, std::string_view what);
  std::vector<double> reals(int i, std::string_view what);

  // Attributes; `fallback` where the node has none.
  const Attribute* attribute(std::string_view name) const;
  std::int64_t number(std::string_view name, std::int64_t fallback) const;
  double real(std::string_view name, double fallback) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  Sizes numbers(std::string_view name, Sizes fallback = {}) const;
  std::vector<double> reals(std::string_view name, std::vector<double> fallback = {}) const;
  std::vector<std::string> texts(std::string_view name) const;
  // Null, and an error, where there is none.
  const Graph* graph(std::string_view name);
  // The dtype of an attribute that holds the standard's number.
  ir::DType dtype(std::string_view name, std::int64_t fallback);
  void wrong(std::string_view attribute, std::string_view why);

  // Outputs.
  bool wants(int i) const;
  void set(int i, Value value);
  void set(int i, const Array& array) { set(i, Value::of(array)); }
  std::vector<Value>& outputs() { return outputs_; }

 private:
  std::span<const Attribute> call_attributes_;
  std::vector<Value> inputs_;
  std::vector<Value> outputs_;
  Value none_;  // what stands for an input that is missing
};

using Handler = std::function<void(NodeContext&)>;
struct Op {
  Handler translate;
  bool folds = true;  // whether it may be computed while the model is read
};
// By `Name` or `domain:Name`.
using OpTable = std::map<std::string, Op, std::less<>>;

// The operators that are read.
const OpTable& operators();
// Why others of the standard are not, by name.
const std::map<std::string, std::string, std::less<>>& refused_operators();

// What each source of this room adds to the table.
void add_elementwise(OpTable& table);
void add_reductions(OpTable& table);
void add_shapes(OpTable& table);
void add_movement(OpTable& table);
void add_indexing(OpTable& table);
void add_products(OpTable& table);
void add_convolutions(OpTable& table);
void add_pooling(OpTable& table);
void add_normalizations(OpTable& table);
void add_attention(OpTable& table);
void add_losses(OpTable& table);
void add_resampling(OpTable& table);
void add_quantization(OpTable& table);
void add_contrib(OpTable& table);
void add_contrib_attention(OpTable& table);
void add_few_bits(OpTable& table);
void add_recurrent(OpTable& table);
void add_control(OpTable& table);
void add_scan(OpTable& table);
void add_sequences(OpTable& table);
void add_signals(OpTable& table);
void add_training(OpTable& table);
void add_regions(OpTable& table);
void add_random(OpTable& table);

}  // namespace plimsoll::onnx
