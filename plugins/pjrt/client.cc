// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/client.h"

#include <charconv>
#include <iterator>
#include <utility>

#include "plugins/pjrt/api.h"
#include "plugins/pjrt/client_options.h"
#include "plugins/pjrt/fingerprint.h"

namespace plimsoll::pjrt {
namespace {

using namespace abi;

void* get_user_data(Memory* memory, const void* key) {
  const std::lock_guard lock(memory->mutex);
  const auto found = memory->user_data.find(key);
  return found == memory->user_data.end() ? nullptr : found->second.data;
}

void set_user_data(Memory* memory, const void* key, void* data, void (*destroy)(void*)) {
  Memory::UserData old;
  {
    const std::lock_guard lock(memory->mutex);
    old = std::exchange(memory->user_data[key], {data, destroy});
  }
  if (old.destroy != nullptr) old.destroy(old.data);
}

constexpr MemoryTable kMemoryTable = {sizeof(MemoryTable), nullptr, sizeof(Memory), get_user_data,
                                      set_user_data};

std::string version_text() {
  const std::uint32_t version = plm_version();
  return "plimsoll " + std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 255) +
         "." + std::to_string(version & 255);
}

Error* give_text(const char*& text, std::size_t& size, std::string_view value) {
  text = value.data();
  size = value.size();
  return nullptr;
}

}  // namespace
}  // namespace plimsoll::pjrt

plimsoll::pjrt::abi::Memory::~Memory() {
  for (const auto& [key, one] : user_data) {
    if (one.destroy != nullptr) one.destroy(one.data);
  }
}

namespace plimsoll::pjrt {

Error* find_device(const Client& client, Device* device, const Memory* memory, Device*& out) {
  if (memory != nullptr) device = memory->device;
  if (device == nullptr) device = client.own.front();
  if (device->client != &client) {
    return invalid_argument("the device or memory is not one of this client");
  }
  if (!device->is_own()) {
    return invalid_argument("device " + std::to_string(device->description.id) +
                            " is one of process " + std::to_string(device->description.process));
  }
  out = device;
  return nullptr;
}

namespace {

using OwnContext = decltype(Device::context);

// A device of this process's own, with its context, or (null) one of another's.
void add_device(Client& client, int process, int local_id, OwnContext own, std::string kind) {
  auto device = std::make_unique<Device>();
  device->client = &client;
  if (own != nullptr) {
    client.is_host_memory = plm_context_is_host_memory(own.get()) != 0;
    device->context = std::move(own);
    device->local_id = local_id;
    client.own.push_back(device.get());
  }
  const int id = static_cast<int>(client.devices.size());
  device->description.id = id;
  device->description.process = process;
  device->description.kind = std::move(kind);
  device->description.text =
      "PlimsollDevice(id=" + std::to_string(id) +
      (client.processes == nullptr ? "" : ", process=" + std::to_string(process)) + ", " +
      device->description.kind + ")";
  client.topology.descriptions.push_back(&device->description);
  client.devices.push_back(device.get());
  client.owned.push_back(std::move(device));
}

// Numbered after all devices are, kind by kind.
void add_memories(Client& client) {
  for (Device* const device : client.own) {
    for (int k = 0; k < kMemoryKindCount; ++k) {
      const auto kind = static_cast<plm_memory>(k);
      Memory& memory = device->memory_of(kind);
      memory.table = &kMemoryTable;
      memory.device = device;
      memory.kind = kind;
      memory.id = device->description.id + k * static_cast<int>(client.devices.size());
      memory.text =
          "PlimsollMemory(id=" + std::to_string(memory.id) + ", " + kMemoryKinds[kind] + ")";
      device->memories[k] = &memory;
      client.memories.push_back(&memory);
    }
  }
}

// What a process says of its devices: how many, and their kind.
Error* read_devices(std::string_view said, std::int64_t process, std::int64_t& count,
                    std::string& kind) {
  const auto [end, error] = std::from_chars(said.data(), said.data() + said.size(), count);
  if (error != std::errc() || count < 1 || end == said.data() + said.size()) {
    return make_error(kInternal, "process " + std::to_string(process) +
                                     " says of its devices what is no number of them: '" +
                                     std::string(said) + "'");
  }
  kind.assign(end + 1, said.data() + said.size());
  return nullptr;
}

Error* add_devices(Client& client, const ClientOptions& options) {
  const plm_context_options given = options.context_options();
  std::vector<OwnContext> contexts(static_cast<std::size_t>(options.num_devices));
  for (OwnContext& one : contexts) {
    plm_context* context = nullptr;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(from_status(plm_context_create(&given, &context)));
    one.reset(context);
  }
  const std::string own_kind = plm_context_device(contexts.front().get());
  std::vector<std::string> said(1);
  if (client.processes != nullptr) {
    const std::string own = std::to_string(options.num_devices) + " " + own_kind;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(client.processes->exchange(own, said));
  }
  for (std::int64_t process = 0; process < options.num_nodes; ++process) {
    const bool is_own = process == options.node_id;
    std::int64_t count = options.num_devices;
    std::string kind = own_kind;
    if (!is_own) {
      PLIMSOLL_PJRT_RETURN_IF_ERROR(
          read_devices(said[static_cast<std::size_t>(process)], process, count, kind));
    }
    for (std::int64_t i = 0; i < count; ++i) {
      add_device(client, static_cast<int>(process), static_cast<int>(i),
                 is_own ? std::move(contexts[static_cast<std::size_t>(i)]) : nullptr, kind);
    }
  }
  add_memories(client);
  return nullptr;
}

}  // namespace

Error* Client_Create(Client_Create_Args* args) {
  return guarded([&]() -> Error* {
    ClientOptions options;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(
        read_client_options(args->create_options, args->num_options, options));
    auto client = std::make_unique<Client>();
    client->topology.client = client.get();
    client->platform_version = version_text();
    if (options.num_nodes > 1) {
      if (args->kv_get_callback == nullptr || args->kv_put_callback == nullptr) {
        return invalid_argument(
            std::to_string(options.num_nodes) +
            " processes need a store in which they find each other (of JAX: call "
            "jax.distributed.initialize before anything else)");
      }
      client->processes =
          std::make_unique<Processes>(options.node_id, options.num_nodes,
                                      Processes::Store{args->kv_get_callback, args->kv_get_user,
                                                       args->kv_put_callback, args->kv_put_user},
                                      options.coordinator);
    }
    PLIMSOLL_PJRT_RETURN_IF_ERROR(add_devices(*client, options));
    args->client = client.release();
    return nullptr;
  });
}

Error* Client_Destroy(Client_Destroy_Args* args) {
  delete args->client;
  return nullptr;
}

Error* Client_PlatformName(Client_PlatformName_Args* args) {
  return give_text(args->platform_name, args->platform_name_size, kPlatformName);
}

// Participants see for themselves when another is gone: its connections end.
Error* Client_UpdateGlobalProcessInfo(Client_UpdateGlobalProcessInfo_Args*) { return nullptr; }

Error* Client_ProcessIndex(Client_ProcessIndex_Args* args) {
  const Processes* const processes = args->client->processes.get();
  args->process_index = processes == nullptr ? 0 : static_cast<int>(processes->index());
  return nullptr;
}

Error* Client_PlatformVersion(Client_PlatformVersion_Args* args) {
  return give_text(args->platform_version, args->platform_version_size,
                   args->client->platform_version);
}

Error* Client_TopologyDescription(Client_TopologyDescription_Args* args) {
  args->topology = &args->client->topology;
  return nullptr;
}

Error* Client_Devices(Client_Devices_Args* args) {
  args->devices = args->client->devices.data();
  args->num_devices = args->client->devices.size();
  return nullptr;
}

Error* Client_AddressableDevices(Client_AddressableDevices_Args* args) {
  args->devices = args->client->own.data();
  args->num_devices = args->client->own.size();
  return nullptr;
}

namespace {

Error* look_up(const std::vector<Device*>& devices, Client_LookupDevice_Args* args) {
  return guarded([&]() -> Error* {
    if (args->id < 0 || static_cast<std::size_t>(args->id) >= devices.size()) {
      return invalid_argument("there is no device " + std::to_string(args->id) + " (there are " +
                              std::to_string(devices.size()) + ")");
    }
    args->device = devices[static_cast<std::size_t>(args->id)];
    return nullptr;
  });
}

}  // namespace

Error* Client_LookupDevice(Client_LookupDevice_Args* args) {
  return look_up(args->client->devices, args);
}

Error* Client_LookupAddressableDevice(Client_LookupAddressableDevice_Args* args) {
  return look_up(args->client->own, args);
}

Error* Client_AddressableMemories(Client_AddressableMemories_Args* args) {
  args->memories = args->client->memories.data();
  args->num_memories = args->client->memories.size();
  return nullptr;
}

Error* Client_DefaultDeviceAssignment(Client_DefaultDeviceAssignment_Args* args) {
  return guarded([&]() -> Error* {
    const auto count = static_cast<std::size_t>(args->num_replicas) *
                       static_cast<std::size_t>(args->num_partitions);
    if (args->num_replicas < 1 || args->num_partitions < 1 ||
        count > args->client->devices.size()) {
      return invalid_argument(std::to_string(args->num_replicas) + " replicas and " +
                              std::to_string(args->num_partitions) + " partitions, there are " +
                              std::to_string(args->client->devices.size()) + " devices");
    }
    if (args->default_assignment_size < count) {
      return invalid_argument("there is no room for the device assignment");
    }
    for (std::size_t i = 0; i < count; ++i) args->default_assignment[i] = static_cast<int>(i);
    return nullptr;
  });
}

// Devices.

Error* DeviceDescription_Id(DeviceDescription_Id_Args* args) {
  args->id = args->description->id;
  return nullptr;
}

Error* DeviceDescription_ProcessIndex(DeviceDescription_ProcessIndex_Args* args) {
  args->process_index = args->description->process;
  return nullptr;
}

Error* DeviceDescription_Attributes(DeviceDescription_Attributes_Args* args) {
  args->attributes = nullptr;
  args->num_attributes = 0;
  return nullptr;
}

Error* DeviceDescription_Kind(DeviceDescription_Kind_Args* args) {
  return give_text(args->text, args->text_size, args->description->kind);
}

Error* DeviceDescription_DebugString(DeviceDescription_DebugString_Args* args) {
  return give_text(args->text, args->text_size, args->description->text);
}

Error* DeviceDescription_ToString(DeviceDescription_ToString_Args* args) {
  return give_text(args->text, args->text_size, args->description->text);
}

Error* Device_GetDescription(Device_GetDescription_Args* args) {
  args->description = &args->device->description;
  return nullptr;
}

Error* Device_IsAddressable(Device_IsAddressable_Args* args) {
  args->is_addressable = args->device->is_own();
  return nullptr;
}

Error* Device_LocalHardwareId(Device_LocalHardwareId_Args* args) {
  args->local_hardware_id = args->device->local_id;
  return nullptr;
}

Error* Device_AddressableMemories(Device_AddressableMemories_Args* args) {
  args->memories = args->device->memories;
  args->num_memories = args->device->is_own() ? std::size(args->device->memories) : 0;
  return nullptr;
}

Error* Device_DefaultMemory(Device_DefaultMemory_Args* args) {
  return guarded([&]() -> Error* {
    Device* device = nullptr;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(
        find_device(*args->device->client, args->device, nullptr, device));
    args->memory = &device->memory_of(PLM_MEMORY_DEVICE);
    return nullptr;
  });
}

Error* Device_MemoryStats(Device_MemoryStats_Args* args) {
  return guarded([&]() -> Error* {
    plm_memory_statistics now = {};
    now.struct_size = sizeof now;
    Device* device = nullptr;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(
        find_device(*args->device->client, args->device, nullptr, device));
    PLIMSOLL_PJRT_RETURN_IF_ERROR(from_status(plm_context_memory(device->context.get(), &now)));
    args->bytes_in_use = now.used_bytes;
    args->peak_bytes_in_use = {now.peak_bytes, true};
    args->num_allocs = {now.allocations, true};
    args->largest_alloc_size = {0, false};
    args->bytes_limit = {now.limit_bytes, now.limit_bytes != PLM_NO_LIMIT};
    args->bytes_reserved = {now.reserved_bytes, true};
    args->peak_bytes_reserved = {0, false};
    args->bytes_reservable_limit = {0, false};
    args->largest_free_block_bytes = {0, false};
    args->pool_bytes = {0, false};
    args->peak_pool_bytes = {0, false};
    return nullptr;
  });
}

Error* Device_ClearMemoryStats(Device_ClearMemoryStats_Args* args) {
  if (args->device->is_own()) plm_context_reset_peak(args->device->context.get());
  return nullptr;
}

// The deleter must be there, though there is nothing to delete.
Error* Device_GetAttributes(Device_GetAttributes_Args* args) {
  args->attributes = nullptr;
  args->num_attributes = 0;
  args->device_attributes = nullptr;
  args->attributes_deleter = [](DeviceAttributes*) {};
  return nullptr;
}

// Memories.

Error* Memory_Id(Memory_Id_Args* args) {
  args->id = args->memory->id;
  return nullptr;
}

Error* Memory_Kind(Memory_Kind_Args* args) {
  return give_text(args->text, args->text_size, kMemoryKinds[args->memory->kind]);
}

Error* Memory_Kind_Id(Memory_Kind_Id_Args* args) {
  args->kind_id = args->memory->kind;
  return nullptr;
}

Error* Memory_DebugString(Memory_DebugString_Args* args) {
  return give_text(args->text, args->text_size, args->memory->text);
}

Error* Memory_ToString(Memory_ToString_Args* args) {
  return give_text(args->text, args->text_size, args->memory->text);
}

Error* Memory_AddressableByDevices(Memory_AddressableByDevices_Args* args) {
  args->devices = &args->memory->device;
  args->num_devices = 1;
  return nullptr;
}

// The topology, which is the client's.

Error* TopologyDescription_Destroy(TopologyDescription_Destroy_Args*) { return nullptr; }

Error* TopologyDescription_PlatformName(TopologyDescription_PlatformName_Args* args) {
  return give_text(args->platform_name, args->platform_name_size, kPlatformName);
}

Error* TopologyDescription_PlatformVersion(TopologyDescription_PlatformVersion_Args* args) {
  return give_text(args->platform_version, args->platform_version_size,
                   args->topology->client->platform_version);
}

Error* TopologyDescription_GetDeviceDescriptions(
    TopologyDescription_GetDeviceDescriptions_Args* args) {
  args->descriptions = args->topology->descriptions.data();
  args->num_descriptions = args->topology->descriptions.size();
  return nullptr;
}

Error* TopologyDescription_Attributes(TopologyDescription_Attributes_Args* args) {
  args->attributes = nullptr;
  args->num_attributes = 0;
  return nullptr;
}

// What compiled programs depend on: the version and the kind of device.
Error* TopologyDescription_Fingerprint(TopologyDescription_Fingerprint_Args* args) {
  return guarded([&]() -> Error* {
    const Client& client = *args->topology->client;
    args->fingerprint = fingerprint(client.platform_version + client.own.front()->description.kind);
    return nullptr;
  });
}

}  // namespace plimsoll::pjrt
