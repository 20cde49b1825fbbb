// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace plimsoll::collectives {

using Deadline = std::chrono::steady_clock::time_point;

// Where processes that are about to meet leave each other short messages under names. For one
// thread.
class Store {
 public:
  virtual ~Store() = default;
  // ALREADY_EXISTS where there is another value of this name.
  virtual Status set(std::string_view key, std::string_view value, Deadline deadline) = 0;
  // Waits for the value. DEADLINE_EXCEEDED where none has come.
  virtual Result<std::string> get(std::string_view key, Deadline deadline) = 0;
  // After everybody has read everything: takes back what this store has set.
  virtual void clear() = 0;
  // The address, as numbers, by which this machine reaches the store; empty where it has none.
  virtual std::string local_address() const { return {}; }
};

// What a store takes: more is refused, so that a stranger can't make it grow.
inline constexpr std::size_t kMostKeyBytes = 256;
inline constexpr std::size_t kMostValueBytes = 1 << 20;
inline constexpr std::size_t kMostStoreBytes = 256 << 20;
inline constexpr std::size_t kMostConnections = 8192;

// A server of such messages on a thread of its own. Who sends anything but requests is cut off.
class StoreServer {
 public:
  // Port 0: a free one. On this machine alone where `host` is a loopback address, else for all.
  static Result<std::unique_ptr<StoreServer>> create(const std::string& host, int port);
  ~StoreServer();
  int port() const { return port_; }

 private:
  class Loop;
  explicit StoreServer(std::unique_ptr<Loop> loop, int port);
  std::unique_ptr<Loop> loop_;
  int port_;
};

// A client of one, which is waited for until `deadline`.
Result<std::unique_ptr<Store>> connect_store(const std::string& host, int port, Deadline deadline);

// Messages as files of a folder that all processes share, which is made if there is none. One set
// of processes at a time.
Result<std::unique_ptr<Store>> open_file_store(const std::string& folder);

}  // namespace plimsoll::collectives
