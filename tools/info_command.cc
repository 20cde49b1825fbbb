// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <memory>

#include "jit/jit.h"
#include "runtime/base/byte_size.h"
#include "runtime/base/environment.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/device/devices.h"
#include "runtime/ir/opcode.h"
#include "runtime/memory/budget/budget.h"
#include "runtime/memory/tiers.h"
#include "tools/command.h"

namespace plimsoll::tools {
namespace {

const char* meaning(memory::Use use) {
  switch (use) {
    case memory::Use::parameters:
      return "tensors that stay from step to step, and a run's own copies of parameters";
    case memory::Use::activations:
      return "results of computation: outputs, and values in a plan's arena";
    case memory::Use::workspaces:
      return "what kernels need beside what they read and write";
    case memory::Use::encoded:
      return "copies that codecs have made of values";
    case memory::Use::staging:
      return "copies of what comes from the host or passes on its way to another tier";
    case memory::Use::constants:
      return "constants of programs";
  }
  return "";
}

Outcome info(Output& output) {
  PLIMSOLL_CALL_FAULT(device::check_device());
  const auto device = device::default_device();
  output.json["version"] = PLIMSOLL_VERSION;
  output.json["operations"] = ir::opcode_count();
  output.json["devices"] = Json::array({{{"name", std::string(device->name())},
                                         {"total_bytes", device->total_bytes()},
                                         {"threads", device::thread_count()}}});
  output.text =
      fmt::format("plimsoll {}\n\ndevices\n  {}  {}, {} threads\n", PLIMSOLL_VERSION,
                  device->name(), format_bytes(device->total_bytes()), device::thread_count());
  if (!device->is_host_memory()) {
    const std::string model = device->properties().model;
    output.json["devices"][0]["about"] = model;
    output.text += "    " + model + "\n";
  }
  output.json["other_devices"] = Json::array();
  for (const device::DeviceListing& other : device::list_devices()) {
    if (other.name == device->name()) continue;
    output.json["other_devices"].push_back(
        {{"name", other.name}, {"found", other.is_there}, {"about", other.about}});
    output.text +=
        fmt::format("  {}  {}{}\n", other.name, other.is_there ? "" : "none: ", other.about);
  }
  const VariableText limit = variable_text(Variable::memory_limit);
  Json limits = {{"memory_limit_bytes", nullptr}};
  std::string limit_text = "none";
  if (!limit.text.empty()) {
    const auto parsed = parse_memory_limit(limit.text, variable_info(Variable::memory_limit).name);
    PLIMSOLL_CALL_FAULT(parsed.status());
    // A share of a program's peak has no value before there is a program.
    limit_text = limit.text;
    if (parsed->kind != MemoryLimit::Kind::percent_of_peak) {
      const std::int64_t bytes = parsed->resolve(device->bytes(), 0);
      limits["memory_limit_bytes"] = bytes;
      limit_text = format_bytes(bytes);
    }
  }
  const auto tiers = memory::tier_options_from_environment();
  PLIMSOLL_CALL_FAULT(tiers.status());
  PLIMSOLL_CALL_FAULT(memory::make_tiers(*tiers, device).status());
  limits["host_limit_bytes"] = tiers->host_bytes;
  limits["spill_limit_bytes"] = tiers->spill_folder.empty() || tiers->spill_bytes == 0
                                    ? Json(nullptr)
                                    : Json(tiers->spill_bytes);
  output.json["limits"] = std::move(limits);
  const std::string spill = tiers->spill_folder.empty() ? "off"
                            : tiers->spill_bytes == 0
                                ? "what is free in " + tiers->spill_folder
                                : format_bytes(tiers->spill_bytes) + " in " + tiers->spill_folder;
  const auto jit_options = jit::options_from_environment();
  PLIMSOLL_CALL_FAULT(jit_options.status());
  const jit::DiskCacheOptions& cache = jit_options->disk_cache;
  const bool keeps = cache.mode != jit::DiskCacheMode::off && !cache.folder.empty();
  output.json["kernel_cache"] = {{"folder", keeps ? Json(cache.folder) : Json(nullptr)},
                                 {"limit_bytes", cache.limit_bytes}};
  output.text += "\nlimits\n  device memory  " + limit_text + "\n  host memory    " +
                 (tiers->host_bytes > 0 ? format_bytes(tiers->host_bytes) : "none") +
                 "\n  spill file     " + spill + "\n  kernel cache   " +
                 (keeps ? format_bytes(cache.limit_bytes) + " in " + cache.folder : "off") +
                 "\n\nmemory\n";
  // What the books of a context, a run and a plan tell apart.
  const auto use = [&](std::string name, const char* place, const char* what) {
    output.json["memory_uses"].push_back({{"name", name}, {"place", place}, {"what", what}});
    name.resize(13, ' ');
    output.text += "  " + name + place + " memory: " + what + "\n";
  };
  for (int i = 0; i < memory::kUseCount; ++i) {
    const auto which = static_cast<memory::Use>(i);
    use(std::string(memory::to_string(which)), "device", meaning(which));
  }
  if (device->is_host_memory()) {
    use("code", "host", "machine code of compiled kernels, under no limit");
  } else {
    use("code", "device", "machine code of compiled kernels, which limits leave room for");
  }
  output.text += "\nenvironment variables\n";
  Json variables = Json::array();
  for (const VariableInfo& variable : all_variables()) {
    const VariableText text = variable_text(variable.variable);
    const char* origin = text.origin == VariableOrigin::environment ? "environment" : "default";
    variables.push_back({{"name", std::string(variable.name)},
                         {"value", text.text},
                         {"origin", origin},
                         {"default", std::string(variable.default_text)},
                         {"help", std::string(variable.help)}});
    output.text += fmt::format("  {:<27} {:<12} ({})  {}\n", variable.name,
                               text.text.empty() ? "-" : text.text, origin, variable.help);
  }
  output.json["environment"] = std::move(variables);
  return {};
}

}  // namespace

void add_info(Commands& commands) {
  CLI::App* command =
      commands.add("info", "Devices, limits, every environment variable with value and origin");
  command->callback([&commands] { commands.action = info; });
}

}  // namespace plimsoll::tools
