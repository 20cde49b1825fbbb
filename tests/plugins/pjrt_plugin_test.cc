// SPDX-License-Identifier: Apache-2.0
// The plugin as a framework uses it: through its table alone.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/plugins/pjrt_calls.h"

namespace plimsoll::pjrt {
namespace {

using namespace abi;

constexpr char kStep[] = R"(HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main {
  w = f32[2,3] parameter(0)
  x = f32[2,3] parameter(1)
  n = f32[2,3] add(w, x)
  ROOT r = (f32[2,3], f32[2,3]) tuple(n, f32[2,3] multiply(n, x))
}
)";

class PjrtPlugin : public ::testing::Test {
 protected:
  void SetUp() override {
    auto create = make<Client_Create_Args>();
    NamedValue options[2] = {};
    options[0].name = "memory_limit";
    options[0].type = kString;
    options[0].string_value = "1MiB";
    options[1].name = "ml_framework_name";  // not ours
    options[1].type = kString;
    options[1].string_value = "JAX!";
    for (NamedValue& one : options) {
      one.struct_size = sizeof one;
      one.name_size = std::strlen(one.name);
      one.value_size = std::strlen(one.string_value);
    }
    create.create_options = options;
    create.num_options = 2;
    EXPECT_PJRT_OK(Client_Create, create);
    client_ = create.client;
    ASSERT_NE(client_, nullptr);
  }
  void TearDown() override {
    auto destroy = make<Client_Destroy_Args>();
    destroy.client = client_;
    EXPECT_PJRT_OK(Client_Destroy, destroy);
  }

  Failure compile(std::string code, const char* format, const std::string& options,
                  LoadedExecutable** out) {
    auto program = make<Program>();
    program.code = code.data();
    program.code_size = code.size();
    program.format = format;
    program.format_size = std::strlen(format);
    auto args = make<Client_Compile_Args>();
    args.client = client_;
    args.program = &program;
    args.compile_options = options.data();
    args.compile_options_size = options.size();
    const Failure failure = take(call(api().Client_Compile, args));
    if (failure.code == kOk) *out = args.executable;
    return failure;
  }
  static void destroy(LoadedExecutable* executable) {
    auto args = make<LoadedExecutable_Destroy_Args>();
    args.executable = executable;
    EXPECT_PJRT_OK(LoadedExecutable_Destroy, args);
  }

  Buffer* from_host(const std::vector<float>& values) {
    constexpr std::int64_t kDims[2] = {2, 3};
    auto args = make<Client_BufferFromHostBuffer_Args>();
    args.client = client_;
    args.data = values.data();
    args.type = kTypeF32;
    args.dims = kDims;
    args.num_dims = 2;
    EXPECT_PJRT_OK(Client_BufferFromHostBuffer, args);
    wait_and_destroy(args.done_with_host_buffer);
    return args.buffer;
  }
  template <typename T = float>
  static std::vector<T> to_host(Buffer* buffer) {
    auto args = make<Buffer_ToHostBuffer_Args>();
    args.buffer = buffer;
    EXPECT_PJRT_OK(Buffer_ToHostBuffer, args);  // how large
    std::vector<T> values(args.destination_size / sizeof(T));
    args.destination = values.data();
    EXPECT_PJRT_OK(Buffer_ToHostBuffer, args);
    wait_and_destroy(args.event);
    return values;
  }
  static bool is_deleted(Buffer* buffer) {
    auto args = make<Buffer_IsDeleted_Args>();
    args.buffer = buffer;
    EXPECT_PJRT_OK(Buffer_IsDeleted, args);
    return args.is_deleted;
  }
  static void destroy(Buffer* buffer) {
    auto args = make<Buffer_Destroy_Args>();
    args.buffer = buffer;
    EXPECT_PJRT_OK(Buffer_Destroy, args);
  }
  Failure execute(LoadedExecutable* executable, const std::vector<Buffer*>& arguments,
                  std::vector<Buffer*>& results, const std::vector<std::int64_t>& kept = {}) {
    auto options = make<ExecuteOptions>();
    options.non_donatable_input_indices = kept.data();
    options.num_non_donatable_input_indices = kept.size();
    Buffer* const* lists[1] = {arguments.data()};
    Buffer** outputs[1] = {results.data()};
    Event* events[1] = {};
    auto args = make<LoadedExecutable_Execute_Args>();
    args.executable = executable;
    args.options = &options;
    args.argument_lists = lists;
    args.num_devices = 1;
    args.num_args = arguments.size();
    args.output_lists = outputs;
    args.device_complete_events = events;
    const Failure failure = take(call(api().LoadedExecutable_Execute, args));
    if (failure.code == kOk) wait_and_destroy(events[0]);
    return failure;
  }

  Client* client_ = nullptr;
};

// A message of CompileOptionsProto with one entry of env_option_overrides, a text.
std::string option(const std::string& name, const std::string& value) {
  const auto field = [](int number, const std::string& bytes) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
  };
  return field(7, field(1, name) + field(2, field(1, value)));
}

TEST(PjrtApi, SaysItsSizeAndVersion) {
  EXPECT_EQ(api().struct_size, sizeof(Api));
  EXPECT_EQ(api().version.major_version, 0);
  EXPECT_EQ(api().version.minor_version, 112);
  EXPECT_EQ(sizeof(Api), 16 + 24 + 138 * sizeof(void*));
  auto missing = make<Plugin_Initialize_Args>();
  const Failure failure = take(call(api().Client_DmaMap, missing));
  EXPECT_EQ(failure.code, kUnimplemented);
  EXPECT_NE(failure.message.find("PJRT_Client_DmaMap"), std::string::npos) << failure.message;
}

TEST_F(PjrtPlugin, RefusesClientOptionsThatNobodyKnows) {
  auto create = make<Client_Create_Args>();
  NamedValue option = {};
  option.struct_size = sizeof option;
  option.name = "memory_limti";
  option.name_size = std::strlen(option.name);
  option.type = kString;
  option.string_value = "1MiB";
  option.value_size = 4;
  create.create_options = &option;
  create.num_options = 1;
  const Failure refused = take(call(api().Client_Create, create));
  EXPECT_EQ(refused.code, kInvalidArgument);
  EXPECT_NE(refused.message.find("'memory_limti'"), std::string::npos) << refused.message;
  EXPECT_NE(refused.message.find("memory_limit, host_limit"), std::string::npos) << refused.message;
}

// Without a store in which they find each other there is no other process.
TEST_F(PjrtPlugin, SaysWhatSeveralProcessesNeed) {
  NamedValue options[2] = {};
  options[0].name = "num_nodes";
  options[0].int64_value = 2;
  options[1].name = "node_id";
  options[1].int64_value = 1;
  for (NamedValue& one : options) {
    one.struct_size = sizeof one;
    one.name_size = std::strlen(one.name);
    one.type = kInt64;
    one.value_size = 1;
  }
  auto create = make<Client_Create_Args>();
  create.create_options = options;
  create.num_options = 2;
  Failure refused = take(call(api().Client_Create, create));
  EXPECT_EQ(refused.code, kInvalidArgument);
  EXPECT_NE(refused.message.find("2 processes"), std::string::npos) << refused.message;
  options[1].int64_value = 2;
  refused = take(call(api().Client_Create, create));
  EXPECT_EQ(refused.code, kInvalidArgument);
  EXPECT_NE(refused.message.find("node_id 2 of 2"), std::string::npos) << refused.message;
}

TEST_F(PjrtPlugin, RunsAProgramAndTakesDonatedBuffers) {
  LoadedExecutable* step = nullptr;
  const Failure compiled = compile(kStep, "hlo", "", &step);
  ASSERT_EQ(compiled.code, kOk) << compiled.message;
  Buffer* const w = from_host({1, 2, 3, 4, 5, 6});
  Buffer* const x = from_host({1, 1, 1, 2, 2, 2});
  std::vector<Buffer*> results(2);
  ASSERT_EQ(execute(step, {w, x}, results, {0}).code, kOk);
  EXPECT_FALSE(is_deleted(w));
  EXPECT_EQ(to_host(results[0]), (std::vector<float>{2, 3, 4, 6, 7, 8}));
  for (Buffer* one : results) destroy(one);
  ASSERT_EQ(execute(step, {w, x}, results).code, kOk);
  EXPECT_TRUE(is_deleted(w));
  EXPECT_EQ(to_host(results[1]), (std::vector<float>{2, 3, 4, 12, 14, 16}));
  std::vector<Buffer*> none(2);
  const Failure gone = execute(step, {w, x}, none);
  EXPECT_EQ(gone.code, kFailedPrecondition);
  EXPECT_NE(gone.message.find("deleted or donated"), std::string::npos) << gone.message;
  EXPECT_EQ(execute(step, {x}, none).code, kInvalidArgument);
  for (Buffer* one : {w, x, results[0], results[1]}) destroy(one);
  destroy(step);
}

// Three memories a device: its own, and the host's of two kinds, which no limit counts. Programs
// take and give arrays of all.
TEST_F(PjrtPlugin, HasTheHostsMemoryBesideTheDevices) {
  auto all = make<Client_AddressableMemories_Args>();
  all.client = client_;
  EXPECT_PJRT_OK(Client_AddressableMemories, all);
  ASSERT_EQ(all.num_memories, 3U);
  Memory* const host = all.memories[1];
  Memory* const unpinned = all.memories[2];
  for (const auto& [memory, name] :
       {std::pair(host, "pinned_host"), std::pair(unpinned, "unpinned_host")}) {
    auto kind = make<Memory_Kind_Args>();
    kind.memory = memory;
    EXPECT_PJRT_OK(Memory_Kind, kind);
    EXPECT_EQ(std::string(kind.text, kind.text_size), name);
  }
  const auto memory_of = [](Buffer* buffer) {
    auto args = make<Buffer_Memory_Args>();
    args.buffer = buffer;
    EXPECT_PJRT_OK(Buffer_Memory, args);
    return args.memory;
  };
  const auto move = [](Buffer* buffer, Memory* to) {
    auto args = make<Buffer_CopyToMemory_Args>();
    args.buffer = buffer;
    args.memory = to;
    EXPECT_PJRT_OK(Buffer_CopyToMemory, args);
    destroy(buffer);
    return args.copy;
  };
  std::string text = kStep;
  text.insert(text.find('\n'), ", host_parameters={0}, host_results={0,1}, unpinned_results={1}");
  LoadedExecutable* step = nullptr;
  const Failure compiled = compile(text, "hlo", "", &step);
  ASSERT_EQ(compiled.code, kOk) << compiled.message;
  Buffer* const w = move(from_host({1, 2, 3, 4, 5, 6}), host);
  Buffer* const x = from_host({1, 1, 1, 2, 2, 2});
  EXPECT_EQ(memory_of(w), host);
  EXPECT_EQ(memory_of(x), all.memories[0]);
  std::vector<Buffer*> results(2);
  ASSERT_EQ(execute(step, {w, x}, results).code, kOk);
  EXPECT_TRUE(is_deleted(w));
  EXPECT_EQ(memory_of(results[0]), host);
  EXPECT_EQ(memory_of(results[1]), unpinned);
  EXPECT_EQ(to_host(results[0]), (std::vector<float>{2, 3, 4, 6, 7, 8}));
  results[0] = move(results[0], all.memories[0]);
  EXPECT_EQ(memory_of(results[0]), all.memories[0]);
  EXPECT_EQ(to_host(results[0]), (std::vector<float>{2, 3, 4, 6, 7, 8}));
  auto get = make<LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = step;
  EXPECT_PJRT_OK(LoadedExecutable_GetExecutable, get);
  auto kinds = make<Executable_OutputMemoryKinds_Args>();
  kinds.executable = get.executable;
  EXPECT_PJRT_OK(Executable_OutputMemoryKinds, kinds);
  ASSERT_EQ(kinds.count, 2U);
  EXPECT_EQ(std::string(kinds.memory_kinds[0], kinds.memory_kind_sizes[0]), "pinned_host");
  EXPECT_EQ(std::string(kinds.memory_kinds[1], kinds.memory_kind_sizes[1]), "unpinned_host");
  auto bytes = make<Executable_GetCompiledMemoryStats_Args>();
  bytes.executable = get.executable;
  EXPECT_PJRT_OK(Executable_GetCompiledMemoryStats, bytes);
  EXPECT_EQ(bytes.argument_size_in_bytes, 24);
  EXPECT_EQ(bytes.host_argument_size_in_bytes, 24);
  EXPECT_EQ(bytes.host_output_size_in_bytes, 48);
  auto end = make<Executable_Destroy_Args>();
  end.executable = get.executable;
  EXPECT_PJRT_OK(Executable_Destroy, end);
  for (Buffer* one : {w, x, results[0], results[1]}) destroy(one);
  destroy(step);
}

TEST_F(PjrtPlugin, RunsArtifacts) {
  std::ifstream file(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/c_api/jax_programs/adam.mlirbc",
                     std::ios::binary);
  const std::string artifact{std::istreambuf_iterator<char>(file), {}};
  LoadedExecutable* adam = nullptr;
  const Failure compiled = compile(artifact, "mlir", "", &adam);
  ASSERT_EQ(compiled.code, kOk) << compiled.message;
  auto get = make<LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = adam;
  EXPECT_PJRT_OK(LoadedExecutable_GetExecutable, get);
  auto outputs = make<Executable_NumOutputs_Args>();
  outputs.executable = get.executable;
  EXPECT_PJRT_OK(Executable_NumOutputs, outputs);
  EXPECT_EQ(outputs.count, 2U);
  auto memory = make<Executable_GetCompiledMemoryStats_Args>();
  memory.executable = get.executable;
  EXPECT_PJRT_OK(Executable_GetCompiledMemoryStats, memory);
  EXPECT_EQ(memory.argument_size_in_bytes, 96);
  EXPECT_EQ(memory.output_size_in_bytes, 64);
  // What was serialized is the same program again.
  auto serialize = make<Executable_Serialize_Args>();
  serialize.executable = get.executable;
  EXPECT_PJRT_OK(Executable_Serialize, serialize);
  auto load = make<Executable_DeserializeAndLoad_Args>();
  load.client = client_;
  load.serialized_executable = serialize.serialized_bytes;
  load.serialized_executable_size = serialize.serialized_bytes_size;
  EXPECT_PJRT_OK(Executable_DeserializeAndLoad, load);
  destroy(load.loaded_executable);
  load.serialized_executable_size -= 1;
  EXPECT_EQ(take(call(api().Executable_DeserializeAndLoad, load)).code, kInvalidArgument);
  serialize.deleter(serialize.serialized);
  auto end = make<Executable_Destroy_Args>();
  end.executable = get.executable;
  EXPECT_PJRT_OK(Executable_Destroy, end);
  destroy(adam);
}

TEST_F(PjrtPlugin, KeepsTheLimitOfAFunction) {
  LoadedExecutable* step = nullptr;
  const Failure tight = compile(kStep, "hlo", option("plimsoll_memory_limit", "100"), &step);
  EXPECT_EQ(tight.code, kResourceExhausted);
  EXPECT_NE(tight.message.find("the smallest that would do"), std::string::npos) << tight.message;
  EXPECT_EQ(compile(kStep, "hlo", option("plimsoll_memory_limit", "much"), &step).code,
            kInvalidArgument);
  EXPECT_EQ(compile(kStep, "hlo", option("misspelt", "1"), &step).code, kInvalidArgument);
  EXPECT_EQ(compile(kStep, "onnx", "", &step).code, kUnimplemented);
  ASSERT_EQ(compile(kStep, "hlo", option("plimsoll_memory_limit", "100%peak"), &step).code, kOk);
  destroy(step);
}

TEST_F(PjrtPlugin, HoldsNarrowArraysPackedAndHandsThemOverByteByByte) {
  constexpr std::int64_t kDims[2] = {2, 3}, kByColumns[2] = {1, 2};
  const std::vector<std::uint8_t> rows = {1, 2, 15, 8, 5, 6}, columns = {1, 8, 2, 5, 15, 6};
  LoadedExecutable* twice = nullptr;
  const Failure compiled = compile(
      "ENTRY main { x = s4[2,3] parameter(0)\n ROOT r = s4[2,3] add(x, x) }", "hlo", "", &twice);
  ASSERT_EQ(compiled.code, kOk) << compiled.message;
  for (const bool is_transposed : {false, true}) {
    auto args = make<Client_BufferFromHostBuffer_Args>();
    args.client = client_;
    args.data = is_transposed ? columns.data() : rows.data();
    args.type = kTypeS4;
    args.dims = kDims;
    args.num_dims = 2;
    args.byte_strides = is_transposed ? kByColumns : nullptr;
    args.num_byte_strides = is_transposed ? 2 : 0;
    EXPECT_PJRT_OK(Client_BufferFromHostBuffer, args);
    wait_and_destroy(args.done_with_host_buffer);
    auto type = make<Buffer_ElementType_Args>();
    type.buffer = args.buffer;
    EXPECT_PJRT_OK(Buffer_ElementType, type);
    EXPECT_EQ(type.type, kTypeS4);
    auto size = make<Buffer_OnDeviceSizeInBytes_Args>();
    size.buffer = args.buffer;
    EXPECT_PJRT_OK(Buffer_OnDeviceSizeInBytes, size);
    EXPECT_EQ(size.size_in_bytes, 3U);
    std::vector<Buffer*> results(1);
    ASSERT_EQ(execute(twice, {args.buffer}, results).code, kOk);
    EXPECT_EQ(to_host<std::uint8_t>(args.buffer), rows);
    EXPECT_EQ(to_host<std::uint8_t>(results[0]), (std::vector<std::uint8_t>{2, 4, 14, 0, 10, 12}));
    destroy(results[0]);
    destroy(args.buffer);
  }
  destroy(twice);
}

TEST_F(PjrtPlugin, CountsWhatIsHeldAndKeepsWhatOthersLookAt) {
  Buffer* const buffer = from_host({1, 2, 3, 4, 5, 6});
  auto devices = make<Client_Devices_Args>();
  devices.client = client_;
  EXPECT_PJRT_OK(Client_Devices, devices);
  ASSERT_EQ(devices.num_devices, 1U);
  auto stats = make<Device_MemoryStats_Args>();
  stats.device = devices.devices[0];
  EXPECT_PJRT_OK(Device_MemoryStats, stats);
  EXPECT_EQ(stats.bytes_in_use, 64);
  EXPECT_TRUE(stats.bytes_limit.is_set);
  EXPECT_EQ(stats.bytes_limit.value, 1 << 20);
  auto pointer = make<Buffer_UnsafePointer_Args>();
  pointer.buffer = buffer;
  EXPECT_PJRT_OK(Buffer_UnsafePointer, pointer);
  auto more = make<Buffer_IncreaseExternalReferenceCount_Args>();
  more.buffer = buffer;
  EXPECT_PJRT_OK(Buffer_IncreaseExternalReferenceCount, more);
  auto remove = make<Buffer_Delete_Args>();
  remove.buffer = buffer;
  EXPECT_PJRT_OK(Buffer_Delete, remove);
  auto place = make<Buffer_IsOnCpu_Args>();
  place.buffer = buffer;
  EXPECT_PJRT_OK(Buffer_IsOnCpu, place);
  if (place.is_on_cpu) {
    EXPECT_EQ(reinterpret_cast<const float*>(pointer.pointer)[3], 4.0F);
  }
  auto less = make<Buffer_DecreaseExternalReferenceCount_Args>();
  less.buffer = buffer;
  EXPECT_PJRT_OK(Buffer_DecreaseExternalReferenceCount, less);
  EXPECT_PJRT_OK(Device_MemoryStats, stats);
  EXPECT_EQ(stats.bytes_in_use, 0);
  destroy(buffer);
}

}  // namespace
}  // namespace plimsoll::pjrt
