// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/signature.h"

#include <cctype>
#include <string_view>

namespace plimsoll::pjrt {
namespace {

// MLIR's name of what HLO calls `name`: `s32` is `i32`, `u8` is `ui8`, `f8e4m3fn` is `f8E4M3FN`.
std::string element_name(std::string_view name) {
  if (name == "pred") return "i1";
  if (name == "c64") return "complex<f32>";
  if (name == "c128") return "complex<f64>";
  if (name.starts_with("s")) return "i" + std::string(name.substr(1));
  if (name.starts_with("u")) return "u" + ("i" + std::string(name.substr(1)));
  std::string made(name);
  const bool is_small_float = name.starts_with("f") && name.find('e') != std::string_view::npos;
  for (std::size_t i = 1; is_small_float && i < made.size(); ++i) {
    made[i] = static_cast<char>(std::toupper(static_cast<unsigned char>(made[i])));
  }
  return made;
}

std::string type_of(const plm_value_info& info) {
  std::string text = "tensor<";
  for (std::size_t i = 0; i < info.rank; ++i) text += std::to_string(info.dims[i]) + "x";
  return text + element_name(plm_dtype_name(info.dtype)) + ">";
}

std::string_view sharding_of(const plm_value_info& info) {
  return *info.sharding == 0 ? "{replicated}" : info.sharding;
}

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

}  // namespace

Error* write_signature(const CompiledProgram& program, std::string& out) {
  const plm_executable* const executable = program.executables.front().get();
  std::string parameters, names, types, parameter_shardings, results, result_shardings;
  const auto add = [](std::string& list, std::string_view one) {
    if (!list.empty()) list += ", ";
    list += one;
  };
  plm_value_info info = {};
  info.struct_size = sizeof info;
  for (std::size_t i = 0; i < program.parameter_count; ++i) {
    PLIMSOLL_PJRT_RETURN_IF_ERROR(from_status(plm_executable_parameter(executable, i, &info)));
    const std::string name = "%arg" + std::to_string(i);
    add(parameters, name + ": " + type_of(info));
    add(names, name);
    add(types, type_of(info));
    add(parameter_shardings, quoted(sharding_of(info)));
  }
  const std::size_t count = program.types.size();
  for (std::size_t i = 0; i < count; ++i) {
    PLIMSOLL_PJRT_RETURN_IF_ERROR(from_status(plm_executable_result(executable, i, &info)));
    add(results, type_of(info));
    add(result_shardings, sharding_of(info));
  }
  if (count == 0) result_shardings = "{replicated}";
  if (count > 1) result_shardings = "{" + result_shardings + "}";
  std::string attributes = "mhlo.num_replicas = " + std::to_string(program.replicas) +
                           " : i32, mhlo.num_partitions = " + std::to_string(program.partitions) +
                           " : i32";
  if (program.partitions > 1) {
    attributes += ", mhlo.spmd_output_sharding = " + quoted(result_shardings) +
                  ", mhlo.spmd_parameters_shardings = [" + parameter_shardings + "]";
  }
  std::string values;
  for (std::size_t i = 0; i < count; ++i) add(values, "%0#" + std::to_string(i));
  if (count == 1) values = "%0";
  const std::string call = "stablehlo.custom_call @plimsoll.program(" + names +
                           ") {has_side_effect = true} : (" + types + ") -> ";
  out = "module @" + quoted(program.name) + " attributes {" + attributes + "} {\n" +
        "  func.func public @main(" + parameters + ") -> (" + results + ") {\n    " +
        (count == 0   ? call + "()"
         : count == 1 ? "%0 = " + call + results
                      : "%0:" + std::to_string(count) + " = " + call + "(" + results + ")") +
        "\n    return" + (count == 0 ? "" : " " + values + " : " + results) + "\n  }\n}\n";
  return nullptr;
}

}  // namespace plimsoll::pjrt
