// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/host_leaves.h"

#include <charconv>
#include <string>
#include <string_view>

#include "runtime/base/index.h"

namespace plimsoll::ir {
namespace {

// The attributes of parameters, and of results.
struct Names {
  std::string_view on_host, unpinned;
};
constexpr Names kParameters = {"host_parameters", "unpinned_parameters"};
constexpr Names kResults = {"host_results", "unpinned_results"};

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

std::vector<ArrayMemory> memories(const Module& module, const Names& names, std::size_t leaves) {
  std::vector<ArrayMemory> made(leaves, ArrayMemory::device);
  const std::vector<bool> on_host = read(module, names.on_host, leaves);
  const std::vector<bool> unpinned = read(module, names.unpinned, leaves);
  for (std::size_t i = 0; i < leaves; ++i) {
    if (on_host[i]) made[i] = unpinned[i] ? ArrayMemory::unpinned_host : ArrayMemory::pinned_host;
  }
  return made;
}

Status check(const Module& module, const Names& names, std::size_t leaves) {
  PLIMSOLL_RETURN_IF_ERROR(check(module, names.on_host, leaves));
  PLIMSOLL_RETURN_IF_ERROR(check(module, names.unpinned, leaves));
  const std::vector<bool> on_host = read(module, names.on_host, leaves);
  const std::vector<bool> unpinned = read(module, names.unpinned, leaves);
  for (std::size_t i = 0; i < leaves; ++i) {
    if (!unpinned[i] || on_host[i]) continue;
    return invalid_argument(std::string(names.unpinned) + ": leaf " + std::to_string(i) +
                            " is not in host memory (" + std::string(names.on_host) +
                            " names what is)");
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

void write(Module& module, std::string_view name, const std::vector<std::size_t>& leaves) {
  std::string text;
  for (const std::size_t leaf : leaves) text += (text.empty() ? "" : ",") + std::to_string(leaf);
  if (!text.empty()) module.extra.emplace_back(name, "{" + text + "}");
}

void write(Module& module, const Names& names, const std::vector<ArrayMemory>& memories) {
  std::vector<std::size_t> on_host, unpinned;
  for (std::size_t i = 0; i < memories.size(); ++i) {
    if (memories[i] != ArrayMemory::device) on_host.push_back(i);
    if (memories[i] == ArrayMemory::unpinned_host) unpinned.push_back(i);
  }
  write(module, names.on_host, on_host);
  write(module, names.unpinned, unpinned);
}

}  // namespace

Status check_host_leaves(const Module& module) {
  PLIMSOLL_RETURN_IF_ERROR(check(module, kParameters, parameter_leaves(module)));
  return check(module, kResults, result_leaves(module));
}

std::vector<ArrayMemory> parameter_memories(const Module& module) {
  return memories(module, kParameters, parameter_leaves(module));
}

std::vector<ArrayMemory> result_memories(const Module& module) {
  return memories(module, kResults, result_leaves(module));
}

void set_host_leaves(Module& module, const std::vector<ArrayMemory>& parameters,
                     const std::vector<ArrayMemory>& results) {
  write(module, kParameters, parameters);
  write(module, kResults, results);
}

}  // namespace plimsoll::ir
