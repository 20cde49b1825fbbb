// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/calls/custom_call.h"

#include <map>
#include <mutex>
#include <optional>

#include "kernels/cpu/calls/call.h"
#include "kernels/kernels.h"
#include "runtime/base/fork.h"
#include "runtime/base/index.h"
#include "runtime/ir/truths.h"

namespace plimsoll::kernels {
namespace {

struct Registry {
  ProcessMutex mutex;
  std::map<std::string, device::CustomCall, std::less<>> functions;
};

Registry& registry() {
  static Registry* const instance = new Registry;  // calls may outlive static destructors
  return *instance;
}

std::optional<device::CustomCall> find(const std::string& target) {
  const std::lock_guard lock(registry().mutex);
  const auto it = registry().functions.find(target);
  if (it == registry().functions.end()) return std::nullopt;
  return it->second;
}

// A quoted text without its quotes and escapes; other text as it is.
std::string unquoted(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::string(text);
  std::string result;
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\\' && i + 2 < text.size()) {
      ++i;
      result += text[i] == 'n' ? '\n' : text[i] == 't' ? '\t' : text[i];
    } else {
      result += text[i];
    }
  }
  return result;
}

// What functions write into results of pred is theirs to choose, what kernels read of it is not.
void make_truths(const std::vector<ir::Shape>& outputs, const device::KernelArguments& arguments) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].is_array() || outputs[i].dtype() != ir::DType::pred) continue;
    ir::make_truths({static_cast<std::byte*>(arguments.outputs[i]), at(outputs[i].byte_size())});
  }
}

}  // namespace

Status register_custom_call(std::string target, device::CustomCall function) {
  if (function == nullptr) return invalid_argument("custom call " + target + ": no function");
  const std::lock_guard lock(registry().mutex);
  const auto [it, added] = registry().functions.emplace(std::move(target), std::move(function));
  if (added) return ok_status();
  return Status(StatusCode::already_exists,
                "custom call " + it->first + ": the name is registered already");
}

bool is_custom_call_registered(const ir::Instruction& instruction) {
  return find(instruction.attributes().custom_call_target).has_value();
}

KernelResult make_custom_call(const ir::Instruction& instruction) {
  const std::string& target = instruction.attributes().custom_call_target;
  std::optional<device::CustomCall> function = find(target);
  if (!function.has_value()) {
    return not_found("custom-call " + instruction.name() + ": no function is registered for " +
                     target);
  }
  std::vector<ir::Shape> inputs, outputs;
  for (const ir::Instruction* const operand : instruction.operands()) {
    add_arrays(operand->shape(), inputs);
  }
  add_arrays(instruction.shape(), outputs);
  return KernelResult(make_function_kernel(
      "custom-call." + target,
      [function = std::move(*function), inputs = std::move(inputs), outputs = std::move(outputs),
       config = unquoted(instruction.attributes().find_extra("backend_config")),
       target](device::Stream&, const device::KernelArguments& arguments) -> Status {
        // Callers' functions may throw; nothing may pass through here.
        try {
          PLIMSOLL_RETURN_IF_ERROR(function({arguments, inputs, outputs, config}));
          make_truths(outputs, arguments);
          return ok_status();
        } catch (const std::exception& error) {
          return internal_error("custom call " + target + ": " + error.what());
        } catch (...) {
          return internal_error("custom call " + target + ": unknown exception");
        }
      }));
}

}  // namespace plimsoll::kernels
