// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/executable.h"

#include <algorithm>
#include <string>

#include "plugins/pjrt/api.h"

namespace plimsoll::pjrt {
namespace {

using namespace abi;

void add_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 128; value >>= 7) bytes.push_back(static_cast<char>((value & 127) | 128));
  bytes.push_back(static_cast<char>(value));
}

// A DeviceAssignmentProto (compile_options.cc).
std::string device_assignment(const CompiledProgram& program) {
  std::string bytes;
  add_varint(bytes, 1 << 3);
  add_varint(bytes, static_cast<std::uint64_t>(program.replicas));
  add_varint(bytes, 2 << 3);
  add_varint(bytes, static_cast<std::uint64_t>(program.partitions));
  const auto partitions = static_cast<std::size_t>(program.partitions);
  for (std::size_t p = 0; p < partitions; ++p) {
    std::string ids;
    for (std::size_t i = p; i < program.participants.size(); i += partitions) {
      add_varint(ids, static_cast<std::uint64_t>(program.participants[i]->description.id));
    }
    std::string replicas;
    add_varint(replicas, 1 << 3 | 2);
    add_varint(replicas, ids.size());
    replicas += ids;
    add_varint(bytes, 3 << 3 | 2);
    add_varint(bytes, replicas.size());
    bytes += replicas;
  }
  return bytes;
}

Error* give_memory_kinds(Executable_MemoryKinds_Args* args,
                         const CompiledProgram::MemoryKinds& kinds) {
  args->count = kinds.texts.size();
  args->memory_kinds = kinds.texts.data();
  args->memory_kind_sizes = kinds.sizes.data();
  return nullptr;
}

template <typename Args>
void give_bytes(Args* args, std::string_view bytes) {
  auto* const made = new Serialized{std::string(bytes)};
  args->serialized_bytes = made->bytes.data();
  args->serialized_bytes_size = made->bytes.size();
  args->serialized = made;
  args->deleter = [](Serialized* serialized) { delete serialized; };
}

}  // namespace

Error* Executable_Destroy(Executable_Destroy_Args* args) {
  delete args->executable;
  return nullptr;
}

Error* Executable_Name(Executable_Name_Args* args) {
  args->name = args->executable->program->name.data();
  args->name_size = args->executable->program->name.size();
  return nullptr;
}

Error* Executable_NumReplicas(Executable_NumReplicas_Args* args) {
  args->count = static_cast<std::size_t>(args->executable->program->replicas);
  return nullptr;
}

Error* Executable_NumPartitions(Executable_NumPartitions_Args* args) {
  args->count = static_cast<std::size_t>(args->executable->program->partitions);
  return nullptr;
}

Error* Executable_NumOutputs(Executable_NumOutputs_Args* args) {
  args->count = args->executable->program->types.size();
  return nullptr;
}

// Its signature: what is inside are kernels, which no framework has words for.
Error* Executable_OptimizedProgram(Executable_OptimizedProgram_Args* args) {
  constexpr std::string_view kFormat = "mlir";
  const std::string& text = args->executable->program->signature;
  args->program->format = kFormat.data();
  args->program->format_size = kFormat.size();
  if (args->program->code != nullptr) {
    if (args->program->code_size < text.size()) {
      return invalid_argument("there is no room for the program");
    }
    std::copy(text.begin(), text.end(), args->program->code);
  }
  args->program->code_size = text.size();
  return nullptr;
}

// Kernels are shared by programs: none is one program's.
Error* Executable_SizeOfGeneratedCodeInBytes(Executable_SizeOfGeneratedCodeInBytes_Args* args) {
  args->size_in_bytes = 0;
  return nullptr;
}

Error* Executable_GetCostAnalysis(Executable_GetCostAnalysis_Args* args) {
  args->num_properties = 0;
  args->properties = nullptr;
  return nullptr;
}

Error* Executable_OutputMemoryKinds(Executable_OutputMemoryKinds_Args* args) {
  return give_memory_kinds(args, args->executable->program->result_kinds);
}

Error* Executable_ParameterMemoryKinds(Executable_ParameterMemoryKinds_Args* args) {
  return give_memory_kinds(args, args->executable->program->parameter_kinds);
}

Error* Executable_OutputElementTypes(Executable_OutputElementTypes_Args* args) {
  args->output_types = const_cast<ElementType*>(args->executable->program->types.data());
  args->num_output_types = args->executable->program->types.size();
  return nullptr;
}

Error* Executable_OutputDimensions(Executable_OutputDimensions_Args* args) {
  args->num_outputs = args->executable->program->ranks.size();
  args->dims = args->executable->program->dims.data();
  args->dim_sizes = args->executable->program->ranks.data();
  return nullptr;
}

Error* Executable_Fingerprint(Executable_Fingerprint_Args* args) {
  args->fingerprint = args->executable->program->fingerprint.data();
  args->fingerprint_size = args->executable->program->fingerprint.size();
  return nullptr;
}

// The peak is exact: nothing of a run is outside of it. What is neither argument nor output is
// temporary.
Error* Executable_GetCompiledMemoryStats(Executable_GetCompiledMemoryStats_Args* args) {
  const CompiledProgram& program = *args->executable->program;
  const std::int64_t peak = plm_executable_peak(program.executables.front().get());
  const std::int64_t outputs = program.result_bytes;
  args->generated_code_size_in_bytes = 0;
  args->argument_size_in_bytes = program.parameter_bytes;
  args->output_size_in_bytes = outputs;
  args->alias_size_in_bytes = program.aliased_bytes;
  args->temp_size_in_bytes =
      std::max<std::int64_t>(0, peak - program.parameter_bytes - (outputs - program.aliased_bytes));
  args->host_generated_code_size_in_bytes = 0;
  args->host_argument_size_in_bytes = program.host_parameter_bytes;
  args->host_output_size_in_bytes = program.host_result_bytes;
  args->host_alias_size_in_bytes = 0;
  args->host_temp_size_in_bytes = 0;
  if (PLIMSOLL_PJRT_KNOWS(args, peak_memory_in_bytes)) args->peak_memory_in_bytes = peak;
  return nullptr;
}

Error* Executable_GetCompileOptions(Executable_GetCompileOptions_Args* args) {
  return guarded([&]() -> Error* {
    give_bytes(args, args->executable->program->compile_options);
    return nullptr;
  });
}

Error* LoadedExecutable_Destroy(LoadedExecutable_Destroy_Args* args) {
  delete args->executable;
  return nullptr;
}

Error* LoadedExecutable_GetExecutable(LoadedExecutable_GetExecutable_Args* args) {
  return guarded([&]() -> Error* {
    args->executable = new Executable{args->loaded_executable->program};
    return nullptr;
  });
}

Error* LoadedExecutable_AddressableDevices(LoadedExecutable_AddressableDevices_Args* args) {
  args->devices = args->executable->program->devices.data();
  args->num_devices = args->executable->program->devices.size();
  return nullptr;
}

Error* LoadedExecutable_AddressableDeviceLogicalIds(
    LoadedExecutable_AddressableDeviceLogicalIds_Args* args) {
  args->ids = const_cast<LogicalDeviceIds*>(args->executable->program->logical_ids.data());
  args->num_ids = args->executable->program->logical_ids.size();
  return nullptr;
}

Error* LoadedExecutable_GetDeviceAssignment(LoadedExecutable_GetDeviceAssignment_Args* args) {
  return guarded([&]() -> Error* {
    give_bytes(args, device_assignment(*args->executable->program));
    return nullptr;
  });
}

Error* LoadedExecutable_Delete(LoadedExecutable_Delete_Args* args) {
  args->executable->is_deleted = true;
  return nullptr;
}

Error* LoadedExecutable_IsDeleted(LoadedExecutable_IsDeleted_Args* args) {
  args->is_deleted = args->executable->is_deleted;
  return nullptr;
}

Error* LoadedExecutable_Fingerprint(LoadedExecutable_Fingerprint_Args* args) {
  args->fingerprint = args->executable->program->fingerprint.data();
  args->fingerprint_size = args->executable->program->fingerprint.size();
  return nullptr;
}

}  // namespace plimsoll::pjrt
