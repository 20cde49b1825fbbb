// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plimsoll/plimsoll.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/pjrt/error.h"
#include "plugins/pjrt/processes.h"

// One client: devices that are contexts of their own, each with its limit, its own memory and the
// host's of two kinds beside it, which no limit counts. Those of other processes are names alone.
// All of it lives as long as the client does.

namespace plimsoll::pjrt {

// JAX's words, by plm_memory.
inline constexpr const char* kMemoryKinds[] = {"device", "pinned_host", "unpinned_host"};
inline constexpr int kMemoryKindCount = 3;

}  // namespace plimsoll::pjrt

struct plimsoll::pjrt::abi::DeviceDescription {
  int id = 0;
  int process = 0;
  std::string kind, text;
};

struct plimsoll::pjrt::abi::Memory {
  const MemoryTable* table;  // first: frameworks read it
  Device* device = nullptr;
  plm_memory kind = PLM_MEMORY_DEVICE;
  int id = 0;
  std::string text;
  std::mutex mutex;  // guards user_data
  struct UserData {
    void* data = nullptr;
    void (*destroy)(void*) = nullptr;
  };
  std::map<const void*, UserData> user_data;

  ~Memory();
};

struct plimsoll::pjrt::abi::Device {
  struct DestroyContext {
    void operator()(plm_context* context) const { plm_context_destroy(context); }
  };
  Client* client = nullptr;
  DeviceDescription description;
  int local_id = -1;                                     // below zero: of another process,
  std::unique_ptr<plm_context, DestroyContext> context;  // which has it, and its memories
  Memory all[kMemoryKindCount];                          // by plm_memory
  Memory* memories[kMemoryKindCount] = {};

  bool is_own() const { return local_id >= 0; }
  Memory& memory_of(plm_memory kind) { return all[kind]; }
};

struct plimsoll::pjrt::abi::TopologyDescription {
  Client* client = nullptr;
  std::vector<DeviceDescription*> descriptions;
};

struct plimsoll::pjrt::abi::Client {
  bool is_host_memory = true;
  std::unique_ptr<Processes> processes;  // null: this is the only one
  std::vector<std::unique_ptr<Device>> owned;
  TopologyDescription topology;
  std::vector<Device*> devices;   // of all processes, by id
  std::vector<Device*> own;       // of this one, by local_id
  std::vector<Memory*> memories;  // of those
  std::string platform_version;
};

namespace plimsoll::pjrt {

using abi::Client;

inline constexpr char kPlatformName[] = "plimsoll";

// The device of `memory`, or without one `device`; the process's first where both are NULL.
// INVALID_ARGUMENT for those of another client or process.
Error* find_device(const Client& client, abi::Device* device, const abi::Memory* memory,
                   abi::Device*& out);

}  // namespace plimsoll::pjrt
