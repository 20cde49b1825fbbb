// SPDX-License-Identifier: Apache-2.0
// Several processes whose devices make one client each, as a framework makes them: here threads,
// with a store of short texts between them.
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/plugins/pjrt_calls.h"

namespace plimsoll::pjrt {
namespace {

using namespace abi;

// Of all processes.
class Texts {
 public:
  static Error* put(KeyValuePut_Args* args) {
    auto& texts = *static_cast<Texts*>(args->user);
    const std::lock_guard lock(texts.mutex_);
    texts.all_[std::string(args->key, args->key_size)].assign(args->value, args->value_size);
    texts.changed_.notify_all();
    return nullptr;
  }
  static Error* get(KeyValueGet_Args* args) {
    auto& texts = *static_cast<Texts*>(args->user);
    const std::string key(args->key, args->key_size);
    std::unique_lock lock(texts.mutex_);
    const bool is_there = texts.changed_.wait_for(
        lock, std::min(std::chrono::milliseconds(args->timeout_milliseconds), texts.patience),
        [&] { return texts.all_.contains(key); });
    if (!is_there) return args->make_error(kDeadlineExceeded, "nothing came", 12);
    const std::string& value = texts.all_[key];
    args->value = static_cast<char*>(std::malloc(value.size()));
    std::memcpy(args->value, value.data(), value.size());
    args->value_size = value.size();
    args->delete_value = [](char* text) { std::free(text); };
    return nullptr;
  }
  std::chrono::milliseconds patience{60'000};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> all_;
};

Failure create(Texts& texts, std::int64_t process, std::int64_t count, std::int64_t devices,
               Client*& client) {
  const std::pair<const char*, std::int64_t> given[] = {
      {"node_id", process}, {"num_nodes", count}, {"num_devices", devices}};
  std::vector<NamedValue> options;
  for (const auto& [name, value] : given) {
    NamedValue& one = options.emplace_back();
    one = {};
    one.struct_size = sizeof one;
    one.name = name;
    one.name_size = std::strlen(name);
    one.type = kInt64;
    one.int64_value = value;
    one.value_size = 1;
  }
  auto args = make<Client_Create_Args>();
  args.create_options = options.data();
  args.num_options = options.size();
  args.kv_get_callback = Texts::get;
  args.kv_get_user = &texts;
  args.kv_put_callback = Texts::put;
  args.kv_put_user = &texts;
  const Failure failure = take(call(api().Client_Create, args));
  client = args.client;
  return failure;
}

std::vector<Device*> devices_of(Client* client, bool own) {
  auto all = make<Client_Devices_Args>();
  all.client = client;
  if (!own) {
    EXPECT_PJRT_OK(Client_Devices, all);
    return {all.devices, all.devices + all.num_devices};
  }
  auto addressable = make<Client_AddressableDevices_Args>();
  addressable.client = client;
  EXPECT_PJRT_OK(Client_AddressableDevices, addressable);
  return {addressable.devices, addressable.devices + addressable.num_devices};
}

// A CompileOptionsProto's build options: partitions, and which device has each.
std::string compile_options(const std::vector<int>& devices) {
  const auto field = [](int number, const std::string& bytes) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
  };
  std::string assignment{1 << 3, 1, 2 << 3, static_cast<char>(devices.size())};
  for (const int one : devices) {
    assignment += field(3, field(1, std::string{static_cast<char>(one)}));
  }
  const std::string partitions{4 << 3, 1, 5 << 3, static_cast<char>(devices.size())};
  return field(3, partitions + field(9, assignment));
}

Buffer* from_host(Client* client, Device* device, const std::vector<float>& values) {
  const std::int64_t dims[] = {static_cast<std::int64_t>(values.size())};
  auto args = make<Client_BufferFromHostBuffer_Args>();
  args.client = client;
  args.data = values.data();
  args.type = kTypeF32;
  args.dims = dims;
  args.num_dims = 1;
  args.device = device;
  EXPECT_PJRT_OK(Client_BufferFromHostBuffer, args);
  wait_and_destroy(args.done_with_host_buffer);
  return args.buffer;
}

std::vector<float> to_host(Buffer* buffer) {
  auto args = make<Buffer_ToHostBuffer_Args>();
  args.buffer = buffer;
  EXPECT_PJRT_OK(Buffer_ToHostBuffer, args);  // how large
  std::vector<float> values(args.destination_size / sizeof(float));
  args.destination = values.data();
  EXPECT_PJRT_OK(Buffer_ToHostBuffer, args);
  wait_and_destroy(args.event);
  return values;
}

// The sum over all participants, plus the participant's number.
constexpr char kProgram[] = R"(HloModule m, num_partitions=COUNT
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[2] parameter(0)
  all = f32[2] all-reduce(x), channel_id=1, replica_groups={}, use_global_device_ids=true, to_apply=sum
  p = u32[] partition-id()
  f = f32[] convert(p)
  g = f32[2] broadcast(f), dimensions={}
  ROOT r = f32[2] add(all, g)
}
)";

void destroy(LoadedExecutable* executable) {
  auto args = make<LoadedExecutable_Destroy_Args>();
  args.executable = executable;
  EXPECT_PJRT_OK(LoadedExecutable_Destroy, args);
}

// Runs the program on the devices of those numbers and returns what each of the participants has
// that are this process's own; x is ten times the device's number.
std::vector<std::vector<float>> run(Client* client, const std::vector<int>& ids) {
  std::string text = kProgram;
  text.replace(text.find("COUNT"), 5, std::to_string(ids.size()));
  const std::string options = compile_options(ids);
  auto program = make<Program>();
  program.code = text.data();
  program.code_size = text.size();
  program.format = "hlo";
  program.format_size = 3;
  auto compile = make<Client_Compile_Args>();
  compile.client = client;
  compile.program = &program;
  compile.compile_options = options.data();
  compile.compile_options_size = options.size();
  EXPECT_PJRT_OK(Client_Compile, compile);
  if (compile.executable == nullptr) return {};
  auto on = make<LoadedExecutable_AddressableDevices_Args>();
  on.executable = compile.executable;
  EXPECT_PJRT_OK(LoadedExecutable_AddressableDevices, on);
  std::vector<std::vector<float>> made;
  for (int step = 0; step < 3; ++step) {
    std::vector<Buffer*> arguments, results(on.num_devices);
    std::vector<Buffer* const*> lists;
    std::vector<Buffer**> outputs;
    for (std::size_t d = 0; d < on.num_devices; ++d) {
      auto describe = make<Device_GetDescription_Args>();
      describe.device = on.devices[d];
      EXPECT_PJRT_OK(Device_GetDescription, describe);
      auto id = make<DeviceDescription_Id_Args>();
      id.description = describe.description;
      EXPECT_PJRT_OK(DeviceDescription_Id, id);
      const auto x = static_cast<float>(10 * id.id);
      arguments.push_back(from_host(client, on.devices[d], {x, x}));
    }
    for (std::size_t d = 0; d < on.num_devices; ++d) {
      lists.push_back(&arguments[d]);
      outputs.push_back(&results[d]);
    }
    std::vector<Event*> events(on.num_devices);
    auto execute_options = make<ExecuteOptions>();
    auto args = make<LoadedExecutable_Execute_Args>();
    args.executable = compile.executable;
    args.options = &execute_options;
    args.argument_lists = lists.data();
    args.num_devices = on.num_devices;
    args.num_args = 1;
    args.output_lists = outputs.data();
    args.device_complete_events = events.data();
    EXPECT_PJRT_OK(LoadedExecutable_Execute, args);
    made.clear();
    for (std::size_t d = 0; d < on.num_devices; ++d) {
      wait_and_destroy(events[d]);
      made.push_back(to_host(results[d]));
      for (Buffer* const one : {arguments[d], results[d]}) {
        auto end = make<Buffer_Destroy_Args>();
        end.buffer = one;
        EXPECT_PJRT_OK(Buffer_Destroy, end);
      }
    }
  }
  destroy(compile.executable);
  return made;
}

TEST(PjrtProcesses, RunTheirParticipantsOfOneProgram) {
  Texts texts;
  std::vector<Client*> clients(2);
  std::vector<std::vector<std::vector<float>>> all(2), turned(2), alone(2), others(2);
  std::vector<std::thread> processes;
  for (std::size_t p = 0; p < 2; ++p) {
    processes.emplace_back([&, p] {
      // Two devices, and one.
      const Failure failure =
          create(texts, static_cast<std::int64_t>(p), 2, p == 0 ? 2 : 1, clients[p]);
      ASSERT_EQ(failure.code, kOk) << failure.message;
      EXPECT_EQ(devices_of(clients[p], false).size(), 3U);
      EXPECT_EQ(devices_of(clients[p], true).size(), p == 0 ? 2U : 1U);
      all[p] = run(clients[p], {0, 1, 2});
      turned[p] = run(clients[p], {2, 0});
      others[p] = run(clients[p], p == 0 ? std::vector<int>{2} : std::vector<int>{0, 1});
      alone[p] = run(clients[p], p == 0 ? std::vector<int>{1, 0} : std::vector<int>{2});
    });
  }
  for (std::thread& one : processes) one.join();
  using Rows = std::vector<std::vector<float>>;
  EXPECT_EQ(all[0], (Rows{{30, 30}, {31, 31}}));
  EXPECT_EQ(all[1], (Rows{{32, 32}}));
  EXPECT_EQ(turned[0], (Rows{{21, 21}}));
  EXPECT_EQ(turned[1], (Rows{{20, 20}}));
  // A process that has none of the devices runs nothing.
  for (const Rows& none : others) EXPECT_TRUE(none.empty());
  EXPECT_EQ(alone[0], (Rows{{10, 10}, {11, 11}}));
  EXPECT_EQ(alone[1], (Rows{{20, 20}}));
  for (std::size_t p = 0; p < 2; ++p) {
    if (clients[p] == nullptr) continue;
    // The other's devices are names: nothing can be put there.
    const std::vector<Device*> devices = devices_of(clients[p], false);
    Device* const other = devices[p == 0 ? 2 : 0];
    auto is_own = make<Device_IsAddressable_Args>();
    is_own.device = other;
    EXPECT_PJRT_OK(Device_IsAddressable, is_own);
    EXPECT_FALSE(is_own.is_addressable);
    auto memory = make<Device_DefaultMemory_Args>();
    memory.device = other;
    const Failure refused = take(call(api().Device_DefaultMemory, memory));
    EXPECT_EQ(refused.code, kInvalidArgument);
    EXPECT_NE(refused.message.find("process " + std::to_string(1 - p)), std::string::npos)
        << refused.message;
    auto index = make<Client_ProcessIndex_Args>();
    index.client = clients[p];
    EXPECT_PJRT_OK(Client_ProcessIndex, index);
    EXPECT_EQ(index.process_index, static_cast<int>(p));
    auto end = make<Client_Destroy_Args>();
    end.client = clients[p];
    EXPECT_PJRT_OK(Client_Destroy, end);
  }
}

TEST(PjrtProcesses, SayWhoHasNotCome) {
  Texts texts;
  texts.patience = std::chrono::milliseconds(50);
  Client* client = nullptr;
  const Failure failure = create(texts, 0, 2, 1, client);
  EXPECT_EQ(failure.code, kDeadlineExceeded);
  EXPECT_NE(failure.message.find("process 1 of 2"), std::string::npos) << failure.message;
}

}  // namespace
}  // namespace plimsoll::pjrt
