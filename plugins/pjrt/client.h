// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plimsoll/plimsoll.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/pjrt/error.h"

// One client: a context with its limit, as one device with one memory. All of it lives as long as
// the client does.

struct plimsoll::pjrt::abi::DeviceDescription {
  std::string kind, text;
};

struct plimsoll::pjrt::abi::Memory {
  const MemoryTable* table;  // first: frameworks read it
  Client* client = nullptr;
  std::mutex mutex;  // guards user_data
  struct UserData {
    void* data = nullptr;
    void (*destroy)(void*) = nullptr;
  };
  std::map<const void*, UserData> user_data;

  ~Memory();
};

struct plimsoll::pjrt::abi::Device {
  Client* client = nullptr;
  DeviceDescription description;
};

struct plimsoll::pjrt::abi::TopologyDescription {
  Client* client = nullptr;
  DeviceDescription* descriptions[1] = {};
};

struct plimsoll::pjrt::abi::Client {
  struct DestroyContext {
    void operator()(plm_context* context) const { plm_context_destroy(context); }
  };
  std::unique_ptr<plm_context, DestroyContext> context;
  bool is_host_memory = true;
  Device device;
  Memory memory;
  TopologyDescription topology;
  Device* devices[1] = {};
  Memory* memories[1] = {};
  std::string platform_version;
};

namespace plimsoll::pjrt {

using abi::Client;

inline constexpr char kPlatformName[] = "plimsoll";
inline constexpr char kMemoryKind[] = "device";

// INVALID_ARGUMENT unless `memory` (or, without one, `device`) is NULL or the client's.
Error* check_place(const Client& client, const abi::Device* device, const abi::Memory* memory);

}  // namespace plimsoll::pjrt
