// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/onnx/model/node_order.h"

#include <fmt/format.h>
#include <cstdint>
#include <unordered_map>

#include "runtime/base/index.h"

namespace plimsoll::onnx {
namespace {

std::set<std::string_view> read_by(const Node& node) {
  std::set<std::string_view> names(node.inputs.begin(), node.inputs.end());
  for (const Attribute& attribute : node.attributes) {
    if (attribute.graph != nullptr) collect_free(*attribute.graph, {}, names);
  }
  names.erase("");
  return names;
}

}  // namespace

void collect_free(const Graph& graph, std::set<std::string_view> made,
                  std::set<std::string_view>& free) {
  for (const ValueInfo& input : graph.inputs) made.insert(input.name);
  for (const Initializer& one : graph.initializers) made.insert(one.name);
  // Wherever a node stands that makes it, it is the graph's own.
  for (const Node& node : graph.nodes) made.insert(node.outputs.begin(), node.outputs.end());
  const auto use = [&](std::string_view name) {
    if (!name.empty() && !made.contains(name)) free.insert(name);
  };
  for (const Node& node : graph.nodes) {
    for (const std::string_view input : node.inputs) use(input);
    for (const Attribute& attribute : node.attributes) {
      if (attribute.graph != nullptr) collect_free(*attribute.graph, made, free);
    }
  }
  for (const ValueInfo& output : graph.outputs) use(output.name);
}

Result<std::vector<const Node*>> in_order(std::span<const Node> nodes,
                                          const std::function<bool(std::string_view)>& is_there) {
  std::unordered_map<std::string_view, std::size_t> makers;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string_view name : nodes[i].outputs) {
      if (!name.empty() && !is_there(name)) makers.try_emplace(name, i);
    }
  }
  std::vector<std::vector<std::size_t>> behind(nodes.size());  // which nodes each one waits for
  bool stands_so = true;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string_view name : read_by(nodes[i])) {
      const auto maker = makers.find(name);
      if (maker == makers.end()) continue;
      behind[i].push_back(maker->second);
      stands_so = stands_so && maker->second < i;
    }
  }
  std::vector<const Node*> order;
  order.reserve(nodes.size());
  if (stands_so) {
    for (const Node& node : nodes) order.push_back(&node);
    return order;
  }
  // Each node in its turn, after what it waits for, on a stack of our own: files may be deep.
  enum class Visit : std::uint8_t { none, open, done };
  std::vector<Visit> visits(nodes.size(), Visit::none);
  std::vector<std::size_t> next(nodes.size(), 0), stack;
  for (std::size_t first = 0; first < nodes.size(); ++first) {
    if (visits[first] != Visit::none) continue;
    stack.push_back(first);
    while (!stack.empty()) {
      const std::size_t one = stack.back();
      visits[one] = Visit::open;
      if (next[one] == behind[one].size()) {
        visits[one] = Visit::done;
        order.push_back(&nodes[one]);
        stack.pop_back();
        continue;
      }
      const std::size_t maker = behind[one][next[one]++];
      if (visits[maker] == Visit::open) {
        return invalid_argument(fmt::format("{} reads what {} makes, which depends on its result",
                                            nodes[one].describe(), nodes[maker].describe()));
      }
      if (visits[maker] == Visit::none) stack.push_back(maker);
    }
  }
  return order;
}

}  // namespace plimsoll::onnx
