// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/host_leaves.h"

#include <charconv>
#include <string>
#include <string_view>

#include "runtime/base/index.h"

namespace plimsoll::ir {
namespace {

constexpr std::string_view kParameters = "host_parameters", kResults = "host_results";

// The numbers in `{1,2}`, which `check` has seen to be well formed.
std::vector<bool> read(const Module& module, std::string_view name, std::size_t leaves) {
  std::vector<bool> made(leaves, false);
  for (const auto& [key, value] : module.extra) {
    if (key != name) continue;
    for (std::string_view rest = value; rest.size() > 2;) {
      rest.remove_prefix(1);  // a brace or a comma
      std::size_t number = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
      if (error != std::errc()) break;
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
      if (number < leaves) made[number] = true;
    }
  }
  return made;
}

Status check(const Module& module, std::string_view name, std::size_t leaves) {
  for (const auto& [key, value] : module.extra) {
    if (key != name) continue;
    const auto refuse = [&, &text = value](const std::string& why) {
      return invalid_argument(std::string(name) + "=" + text + ": " + why +
                              " (numbers of leaves in braces, as in " + std::string(name) +
                              "={0,2}, of 0 to " + std::to_string(leaves) +
                              " exclusive, each once)");
    };
    std::string_view rest = value;
    if (rest.size() < 2 || rest.front() != '{' || rest.back() != '}') return refuse("no list");
    std::vector<bool> seen(leaves, false);
    if (rest == "{}") continue;
    for (rest.remove_suffix(1); !rest.empty();) {
      rest.remove_prefix(1);
      std::size_t number = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
      if (error == std::errc::result_out_of_range || (error == std::errc() && number >= leaves)) {
        return refuse("there is no such leaf");
      }
      if (error != std::errc()) return refuse("no number");
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
      if (!rest.empty() && rest.front() != ',') return refuse("no comma behind a number");
      if (seen[number]) return refuse("a leaf twice");
      seen[number] = true;
    }
  }
  return ok_status();
}

std::size_t parameter_leaves(const Module& module) {
  std::size_t leaves = 0;
  for (const Instruction* const parameter : module.entry()->parameters()) {
    leaves += at(leaf_count(parameter->shape()));
  }
  return leaves;
}

std::size_t result_leaves(const Module& module) {
  return at(leaf_count(module.entry()->root()->shape()));
}

void write(Module& module, std::string_view name, const std::vector<bool>& leaves) {
  std::string text;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i]) text += (text.empty() ? "" : ",") + std::to_string(i);
  }
  if (!text.empty()) module.extra.emplace_back(name, "{" + text + "}");
}

}  // namespace

Status check_host_leaves(const Module& module) {
  PLIMSOLL_RETURN_IF_ERROR(check(module, kParameters, parameter_leaves(module)));
  return check(module, kResults, result_leaves(module));
}

std::vector<bool> host_parameters(const Module& module) {
  return read(module, kParameters, parameter_leaves(module));
}

std::vector<bool> host_results(const Module& module) {
  return read(module, kResults, result_leaves(module));
}

void set_host_leaves(Module& module, const std::vector<bool>& parameters,
                     const std::vector<bool>& results) {
  write(module, kParameters, parameters);
  write(module, kResults, results);
}

}  // namespace plimsoll::ir
