// SPDX-License-Identifier: Apache-2.0
// From a framework's program to a compiled one.
#include <cstdio>
#include <string_view>

#include "plugins/pjrt/api.h"
#include "plugins/pjrt/compile_options.h"
#include "plugins/pjrt/element_type.h"
#include "plugins/pjrt/executable.h"
#include "plugins/pjrt/fingerprint.h"
#include "plugins/pjrt/signature.h"

namespace plimsoll::pjrt {
namespace {

// The custom calls' target (plugins/jax/jax_plugins/plimsoll/callbacks.py), which stands in the
// text and among the strings of a serialized program as it is.
constexpr std::string_view kPythonCallback = "plimsoll_python_callback";

using namespace abi;

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

Error* create_one(Device& device, std::string_view program, const plm_executable_options& given,
                  CompiledProgram& out) {
  plm_executable* made = nullptr;
  PLIMSOLL_PJRT_RETURN_IF_ERROR(from_status(plm_executable_create(
      device.context.get(), program.data(), program.size(), "program", &given, &made)));
  out.executables.emplace_back(made);
  return nullptr;
}

// This process's participants of a program that others run with it. Where it has none it runs
// nothing, but says what the program is.
Error* create_shared(std::string_view program, plm_executable_options given, CompiledProgram& out) {
  out.executables.clear();
  if (out.devices.empty()) {
    // Participant 0 of some that never meet.
    std::vector<plm_communicator*> made(out.participants.size());
    PLIMSOLL_PJRT_RETURN_IF_ERROR(
        from_status(plm_communicator_create_local(made.size(), made.data())));
    const Processes::Communicators communicators(made.begin(), made.end());
    given.communicator = made.size() == 1 ? nullptr : made[0];
    return create_one(*out.client->own.front(), program, given, out);
  }
  std::vector<std::int64_t> devices, processes;
  for (const Device* const one : out.participants) {
    devices.push_back(one->description.id);
    processes.push_back(one->description.process);
  }
  const Processes::Communicators* communicators = nullptr;
  PLIMSOLL_PJRT_RETURN_IF_ERROR(out.client->processes->connect(devices, processes, communicators));
  for (std::size_t i = 0; i < out.devices.size(); ++i) {
    given.communicator = (*communicators)[i].get();
    PLIMSOLL_PJRT_RETURN_IF_ERROR(create_one(*out.devices[i], program, given, out));
  }
  return nullptr;
}

Error* create(std::string_view program, const CompileOptions& options, std::int64_t limit_bytes,
              CompiledProgram& out) {
  plm_executable_options given = {};
  given.struct_size = sizeof given;
  given.memory_limit_bytes = limit_bytes;
  given.planner = options.planner.empty() ? nullptr : options.planner.c_str();
  given.default_placement = PLM_PLACEMENT_PROGRAM;
  given.replicas = options.replicas;
  given.partitions = options.partitions;
  if (out.is_shared()) return create_shared(program, given, out);
  std::vector<plm_context*> contexts;
  for (const Device* const device : out.devices) contexts.push_back(device->context.get());
  std::vector<plm_executable*> made(contexts.size());
  PLIMSOLL_PJRT_RETURN_IF_ERROR(
      from_status(plm_executable_create_together(contexts.data(), contexts.size(), program.data(),
                                                 program.size(), "program", &given, made.data())));
  out.executables.clear();
  for (plm_executable* const one : made) out.executables.emplace_back(one);
  return nullptr;
}

// A share of the unlimited peak needs that first.
Error* create_within(std::string_view program, const CompileOptions& options,
                     CompiledProgram& out) {
  constexpr char kOption[] = "plimsoll_memory_limit";
  std::int64_t limit = 0, peak = 0;
  const std::string& text = options.memory_limit;
  if (text.find("peak") != std::string::npos) {
    PLIMSOLL_PJRT_RETURN_IF_ERROR(create(program, options, 0, out));
    peak = plm_executable_peak(out.executables.front().get());
  }
  if (!text.empty()) {
    PLIMSOLL_PJRT_RETURN_IF_ERROR(
        from_status(plm_parse_memory_limit(text.c_str(), kOption, peak, &limit)));
  }
  return create(program, options, limit, out);
}

// Each participant on a device of its own.
Error* assign_devices(const Client& client, const CompileOptions& options, CompiledProgram& out) {
  const auto count = static_cast<std::size_t>(client.devices.size());
  const auto most = static_cast<std::int64_t>(count);
  if (options.replicas < 1 || options.partitions < 1 || options.replicas > most ||
      options.partitions > most || options.replicas * options.partitions > most) {
    return invalid_argument("a program for " + std::to_string(options.replicas) + " replicas and " +
                            std::to_string(options.partitions) + " partitions, there are " +
                            std::to_string(count) +
                            " devices (the client's option num_devices makes more)");
  }
  out.replicas = options.replicas;
  out.partitions = options.partitions;
  std::vector<bool> is_taken(count, false);
  for (std::int64_t i = 0; i < options.replicas * options.partitions; ++i) {
    const std::int64_t id =
        options.devices.empty() ? i : options.devices[static_cast<std::size_t>(i)];
    if (id < 0 || id >= most || is_taken[static_cast<std::size_t>(id)]) {
      return invalid_argument("device " + std::to_string(id) +
                              " is assigned twice or is not there (there are " +
                              std::to_string(count) + ")");
    }
    is_taken[static_cast<std::size_t>(id)] = true;
    Device* const device = client.devices[static_cast<std::size_t>(id)];
    out.participants.push_back(device);
    if (!device->is_own()) continue;
    out.devices.push_back(device);
    out.logical_ids.push_back(
        {static_cast<int>(i / options.partitions), static_cast<int>(i % options.partitions)});
  }
  return nullptr;
}

// Adds where an array is, and its bytes to those of that memory.
void add_memory(const plm_value_info& info, CompiledProgram::MemoryKinds& kinds,
                std::int64_t& on_device, std::int64_t& on_host) {
  const std::string_view kind = kMemoryKinds[info.memory];
  kinds.texts.push_back(kind.data());
  kinds.sizes.push_back(kind.size());
  (info.memory == PLM_MEMORY_DEVICE ? on_device : on_host) +=
      static_cast<std::int64_t>(info.byte_size);
}

Error* describe(CompiledProgram& program) {
  plm_executable* const executable = program.executables.front().get();
  program.name = plm_executable_name(executable);
  plm_value_info info = {};
  info.struct_size = sizeof info;
  program.parameter_count = plm_executable_parameter_count(executable);
  for (std::size_t i = 0; i < program.parameter_count; ++i) {
    PLIMSOLL_PJRT_RETURN_IF_ERROR(from_status(plm_executable_parameter(executable, i, &info)));
    add_memory(info, program.parameter_kinds, program.parameter_bytes,
               program.host_parameter_bytes);
  }
  const std::size_t results = plm_executable_result_count(executable);
  for (std::size_t i = 0; i < results; ++i) {
    PLIMSOLL_PJRT_RETURN_IF_ERROR(from_status(plm_executable_result(executable, i, &info)));
    add_memory(info, program.result_kinds, program.result_bytes, program.host_result_bytes);
    if (info.aliased_parameter >= 0) {
      program.aliased_bytes += static_cast<std::int64_t>(info.byte_size);
    }
    program.types.push_back(element_type(info.dtype));
    program.dims.insert(program.dims.end(), info.dims, info.dims + info.rank);
    program.ranks.push_back(info.rank);
  }
  return nullptr;
}

// A serialized executable: the program as it came, and the options; compiled kernels are found
// again in the library's own cache.
constexpr std::string_view kMagic = "plimsoll executable 1\n";

std::string serialize(const CompiledProgram& program) {
  std::string bytes(kMagic);
  for (const std::string* part : {&program.compile_options, &program.program}) {
    const std::uint64_t size = part->size();
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(size >> (8 * i) & 255));
    bytes += *part;
  }
  return bytes;
}

bool take_part(std::string_view& bytes, std::string_view& part) {
  if (bytes.size() < 8) return false;
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    size |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  bytes.remove_prefix(8);
  if (size > bytes.size()) return false;
  part = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return true;
}

}  // namespace

Error* compile(Client& client, std::string_view program, std::string_view options,
               std::shared_ptr<const CompiledProgram>& out) {
  CompileOptions read;
  PLIMSOLL_PJRT_RETURN_IF_ERROR(read_compile_options(options, read));
  auto made = std::make_shared<CompiledProgram>();
  made->client = &client;
  PLIMSOLL_PJRT_RETURN_IF_ERROR(assign_devices(client, read, *made));
  PLIMSOLL_PJRT_RETURN_IF_ERROR(create_within(program, read, *made));
  PLIMSOLL_PJRT_RETURN_IF_ERROR(describe(*made));
  made->program = program;
  made->calls_python = program.find(kPythonCallback) != std::string_view::npos;
  made->compile_options = options;
  PLIMSOLL_PJRT_RETURN_IF_ERROR(write_signature(*made, made->signature));
  made->fingerprint =
      hex(pjrt::fingerprint(program, pjrt::fingerprint(read.memory_limit + "/" + read.planner)));
  out = std::move(made);
  return nullptr;
}

Error* Client_Compile(Client_Compile_Args* args) {
  return guarded([&]() -> Error* {
    const std::string_view format(args->program->format, args->program->format_size);
    if (format != "mlir" && format != "hlo") {
      return unimplemented("programs of the format '" + std::string(format) +
                           "' (pass a portable StableHLO artifact as 'mlir', or a "
                           "serialized HloModuleProto or HLO text as 'hlo')");
    }
    auto made = std::make_unique<LoadedExecutable>();
    PLIMSOLL_PJRT_RETURN_IF_ERROR(
        compile(*args->client, {args->program->code, args->program->code_size},
                {args->compile_options, args->compile_options_size}, made->program));
    args->executable = made.release();
    return nullptr;
  });
}

Error* Executable_Serialize(Executable_Serialize_Args* args) {
  return guarded([&]() -> Error* {
    auto made = std::make_unique<Serialized>(Serialized{serialize(*args->executable->program)});
    args->serialized_bytes = made->bytes.data();
    args->serialized_bytes_size = made->bytes.size();
    args->deleter = [](Serialized* serialized) { delete serialized; };
    args->serialized = made.release();
    return nullptr;
  });
}

Error* Executable_DeserializeAndLoad(Executable_DeserializeAndLoad_Args* args) {
  return guarded([&]() -> Error* {
    std::string_view bytes(args->serialized_executable, args->serialized_executable_size);
    std::string_view options, program;
    const bool is_ours = bytes.starts_with(kMagic);
    if (is_ours) bytes.remove_prefix(kMagic.size());
    if (!is_ours || !take_part(bytes, options) || !take_part(bytes, program) || !bytes.empty()) {
      return invalid_argument("these bytes are no executable that this plugin has serialized");
    }
    auto made = std::make_unique<LoadedExecutable>();
    PLIMSOLL_PJRT_RETURN_IF_ERROR(compile(*args->client, program, options, made->program));
    args->loaded_executable = made.release();
    return nullptr;
  });
}

}  // namespace plimsoll::pjrt
