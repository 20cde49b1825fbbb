// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plimsoll/plimsoll.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "plugins/pjrt/client.h"

namespace plimsoll::pjrt {

// A compiled program with all that frameworks ask about it. Immutable, shared by its handles.
struct CompiledProgram {
  struct Destroy {
    void operator()(plm_executable* executable) const { plm_executable_destroy(executable); }
  };
  abi::Client* client = nullptr;
  std::int64_t replicas = 1, partitions = 1;
  // By participant: partition p of replica r at r * partitions + p.
  std::vector<abi::Device*> participants;
  // Of those that are of this process, in their order; where there are none, one executable, which
  // only says what the program is.
  std::vector<abi::Device*> devices;
  std::vector<abi::LogicalDeviceIds> logical_ids;
  std::vector<std::unique_ptr<plm_executable, Destroy>> executables;
  bool is_shared() const { return devices.size() < participants.size(); }  // with processes
  std::string name, fingerprint;
  std::string program, compile_options;  // what it was made from
  std::string signature;                 // signature.h
  bool calls_python = false;             // plugins/jax/jax_plugins/plimsoll/callbacks.py
  std::size_t parameter_count = 0;
  // Of the results; dims of all of them, one after the other.
  std::vector<abi::ElementType> types;
  std::vector<std::int64_t> dims;
  std::vector<std::size_t> ranks;
  std::int64_t parameter_bytes = 0, result_bytes = 0, aliased_bytes = 0;  // in device memory
  std::int64_t host_parameter_bytes = 0, host_result_bytes = 0;
  struct MemoryKinds {
    std::vector<const char*> texts;
    std::vector<std::size_t> sizes;
  };
  MemoryKinds parameter_kinds, result_kinds;
};

// Compiles `program` as it came, with the options as they came.
Error* compile(abi::Client& client, std::string_view program, std::string_view options,
               std::shared_ptr<const CompiledProgram>& out);

}  // namespace plimsoll::pjrt

struct plimsoll::pjrt::abi::Executable {
  std::shared_ptr<const CompiledProgram> program;
};

struct plimsoll::pjrt::abi::LoadedExecutable {
  std::shared_ptr<const CompiledProgram> program;
  std::atomic<bool> is_deleted{false};
};

// Bytes on their own.
struct plimsoll::pjrt::abi::Serialized {
  std::string bytes;
};
