// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/host_leaves.h"

#include <charconv>
#include <string>
#include <string_view>

#include "runtime/base/index.h"

namespace plimsoll::ir {
namespace {

constexpr std::string_view kParameters = "host_parameters", kResults = "host_results";

std::vector<bool> read(const Module& module, std::string_view name, std::size_t leaves) {
  std::vector<bool> made(leaves, false);
  for (const auto& [key, value] : module.extra) {
    if (key != name) continue;
    for (std::string_view rest = value; !rest.empty();) {
      std::size_t number = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
      if (error != std::errc()) {
        rest.remove_prefix(1);
        continue;
      }
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
      if (number < leaves) made[number] = true;
    }
  }
  return made;
}

void write(Module& module, std::string_view name, const std::vector<bool>& leaves) {
  std::string text;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i]) text += (text.empty() ? "" : ",") + std::to_string(i);
  }
  if (!text.empty()) module.extra.emplace_back(name, "{" + text + "}");
}

}  // namespace

std::vector<bool> host_parameters(const Module& module) {
  std::size_t leaves = 0;
  for (const Instruction* const parameter : module.entry()->parameters()) {
    leaves += at(leaf_count(parameter->shape()));
  }
  return read(module, kParameters, leaves);
}

std::vector<bool> host_results(const Module& module) {
  return read(module, kResults, at(leaf_count(module.entry()->root()->shape())));
}

void set_host_leaves(Module& module, const std::vector<bool>& parameters,
                     const std::vector<bool>& results) {
  write(module, kParameters, parameters);
  write(module, kResults, results);
}

}  // namespace plimsoll::ir
