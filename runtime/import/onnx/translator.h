// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/import/onnx/model/model.h"
#include "runtime/import/onnx/model/tensors.h"
#include "runtime/import/onnx/onnx.h"
#include "runtime/import/onnx/ops/node_context.h"

namespace plimsoll::onnx {

// Makes a module of a model. Nodes whose inputs are known and small are computed at once, by the
// reference interpreter: the arithmetic of shapes.
class Translator : public GraphTranslator {
 public:
  Translator(const Model& model, const ReadOptions& options);

  Result<std::unique_ptr<ir::Module>> translate();

  Result<std::vector<Value>> translate(const Graph& graph, std::vector<Value> inputs, Emit& emit,
                                       const Outer* outer) override;
  Outer captured(const Graph& graph) override;
  Status ask_for(const Value& value, const std::string& what) override;
  Result<ir::Literal> read_tensor(std::string_view message) override;

 private:
  // The values that names stand for, within a graph or a function.
  struct Scope {
    std::unordered_map<std::string_view, Value> values;
    Scope* around = nullptr;  // whose values are seen as well
    const Opsets* opsets = nullptr;
    std::span<const Attribute> call_attributes;  // of the call that the function stands for
    Emit* emit = nullptr;
  };

  // One try; where a value has to be known that may be, it is marked, and `again_` is set.
  Result<std::unique_ptr<ir::Module>> try_translate();
  Status add_inputs(Scope& scope);
  Result<ir::Shape> input_shape(const ValueInfo& input);
  Status bind_dims(const ValueInfo& input, const std::vector<std::int64_t>& dims);
  const GivenInput* given(std::string_view name) const;

  Status add_initializers(const Graph& graph, Scope& scope);
  Status translate_nodes(const std::vector<Node>& nodes, Scope& scope);
  Status translate_node(const Node& node, Scope& scope);
  Status call(const Function& function, const Node& node, std::vector<Value> inputs, Scope& scope);
  // False where the node has to be computed when the module runs.
  Result<bool> fold(const Op& op, const Node& node, std::int64_t opset,
                    const std::vector<Value>& inputs, Scope& scope);
  static Value* find(std::string_view name, Scope& scope);
  static Status keep(const Node& node, std::vector<Value> outputs, Scope& scope);
  Result<std::vector<Value>> outputs_of(const std::vector<std::string_view>& names, Scope& scope,
                                        std::string_view where);

  const Model& model_;
  const ReadOptions& options_;
  TensorFiles files_;
  std::unordered_map<std::string_view, ir::Literal> initializers_;  // of the model's graph
  std::unordered_map<std::string_view, std::int64_t> symbols_;      // sizes by their names
  std::set<std::string_view> known_inputs_;                         // that became constants
  std::unordered_map<const ir::Instruction*, std::string_view> parameters_;
  Scope* scope_ = nullptr;  // around the node that is translated
  bool again_ = false;
  int depth_ = 0;
  std::int64_t node_count_ = 0;
};

}  // namespace plimsoll::onnx
