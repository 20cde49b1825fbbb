// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plimsoll/plimsoll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/pjrt/error.h"

namespace plimsoll::pjrt {

// This process among those whose devices make one client each, of all of them: each process has
// some, and runs its own participants of every program. They meet in the framework's store of short
// texts (jax.distributed's coordinator), where each leaves how many devices it has, and, of the
// devices of a program, the first one's process the address at which the others find it.
// Thread-safe.
class Processes {
 public:
  struct Store {
    abi::KeyValueGet get = nullptr;
    void* get_user = nullptr;
    abi::KeyValuePut put = nullptr;
    void* put_user = nullptr;
  };
  // `coordinator`: a host that all reach, towards which addresses are told; empty: this one.
  Processes(std::int64_t index, std::int64_t count, const Store& store, std::string coordinator);

  std::int64_t index() const { return index_; }
  std::int64_t count() const { return count_; }

  // What each process says of its devices, by process; waits for all. DEADLINE_EXCEEDED names who
  // has said nothing.
  Error* exchange(std::string_view own, std::vector<std::string>& all);

  struct DestroyCommunicator {
    void operator()(plm_communicator* one) const { plm_communicator_destroy(one); }
  };
  using Communicators = std::vector<std::unique_ptr<plm_communicator, DestroyCommunicator>>;
  // Of a program's devices, by participant, with the process of each: this process's
  // communicators, one for each participant of its own in their order. Connected when such devices
  // are first asked for, which all their processes must do, and kept.
  Error* connect(const std::vector<std::int64_t>& devices,
                 const std::vector<std::int64_t>& processes, const Communicators*& out);

 private:
  Error* put(const std::string& key, std::string_view value) const;
  Error* get(const std::string& key, double seconds, std::string& value) const;
  Error* rendezvous(const std::string& key, bool is_first, std::string& out) const;

  const std::int64_t index_, count_;
  const Store store_;
  const std::string coordinator_;
  const std::string prefix_;  // of keys: differs by client of a process
  std::mutex mutex_;          // guards what follows, and is held while connecting
  std::map<std::string, Communicators> connected_;
};

}  // namespace plimsoll::pjrt
