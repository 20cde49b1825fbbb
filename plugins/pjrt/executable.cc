// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/executable.h"

#include <algorithm>

#include "plugins/pjrt/api.h"

namespace plimsoll::pjrt {
namespace {

using namespace abi;

// A DeviceAssignmentProto: one replica, one computation, on device 0.
constexpr std::string_view kDeviceAssignment("\x08\x01\x10\x01\x1a\x03\x0a\x01\x00", 9);

Error* give_memory_kinds(Executable_MemoryKinds_Args* args, std::size_t count) {
  args->count = count;
  args->memory_kinds = args->executable->program->memory_kinds.data();
  args->memory_kind_sizes = args->executable->program->memory_kind_sizes.data();
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
  args->count = 1;
  return nullptr;
}

Error* Executable_NumPartitions(Executable_NumPartitions_Args* args) {
  args->count = 1;
  return nullptr;
}

Error* Executable_NumOutputs(Executable_NumOutputs_Args* args) {
  args->count = args->executable->program->types.size();
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
  return give_memory_kinds(args, args->executable->program->types.size());
}

Error* Executable_ParameterMemoryKinds(Executable_ParameterMemoryKinds_Args* args) {
  return give_memory_kinds(args, args->executable->program->parameter_count);
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
  const std::int64_t peak = plm_executable_peak(program.executable.get());
  const std::int64_t outputs = program.result_bytes;
  args->generated_code_size_in_bytes = 0;
  args->argument_size_in_bytes = program.parameter_bytes;
  args->output_size_in_bytes = outputs;
  args->alias_size_in_bytes = program.aliased_bytes;
  args->temp_size_in_bytes =
      std::max<std::int64_t>(0, peak - program.parameter_bytes - (outputs - program.aliased_bytes));
  args->host_generated_code_size_in_bytes = 0;
  args->host_argument_size_in_bytes = 0;
  args->host_output_size_in_bytes = 0;
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
  args->devices = args->executable->program->client->devices;
  args->num_devices = 1;
  return nullptr;
}

Error* LoadedExecutable_AddressableDeviceLogicalIds(
    LoadedExecutable_AddressableDeviceLogicalIds_Args* args) {
  static LogicalDeviceIds ids[1] = {{0, 0}};
  args->ids = ids;
  args->num_ids = 1;
  return nullptr;
}

Error* LoadedExecutable_GetDeviceAssignment(LoadedExecutable_GetDeviceAssignment_Args* args) {
  return guarded([&]() -> Error* {
    give_bytes(args, kDeviceAssignment);
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
