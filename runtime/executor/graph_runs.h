// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/device.h"

namespace plimsoll::executor {

// The graphs of one executable's runs (device::Graph). A run that finds all of its memory at the
// addresses of an earlier one enqueues the same work: the second run at the same addresses is
// captured, later ones are one launch each. Thread-safe; must outlive its leases.
class GraphRuns {
 public:
  // Everything that the enqueued work depends on.
  using Addresses = std::vector<const void*>;

  // One run's use of the graph for its addresses, until its work has ended: no other run gets it
  // meanwhile.
  class Lease {
   public:
    Lease(GraphRuns& runs, Addresses addresses);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    // Gives `stream` the work that `enqueue` would: by a launch of the graph where there is one, by
    // capturing it where these addresses were seen before, else by `enqueue`. Where the device
    // can't capture it after all, by `enqueue`, too, then and later.
    Status run(device::Stream& stream, const std::function<Status()>& enqueue);

   private:
    Status launch(device::Stream& stream);

    GraphRuns& runs_;
    const Addresses addresses_;
    bool captures_ = false, is_refused_ = false;
    std::unique_ptr<device::Graph> graph_;
  };

  // How many runs have been one launch of a graph, that in which it was captured among them.
  std::int64_t launches() const { return launches_; }

 private:
  struct Entry {
    Addresses addresses;
    std::unique_ptr<device::Graph> graph;  // null: none yet, or with a run
    bool is_leased = false, is_refused = false;
  };
  // So many addresses are remembered; those that came first go first.
  static constexpr std::size_t kMostEntries = 8;
  std::vector<Entry>::iterator find(const Addresses& addresses);

  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::atomic<std::int64_t> launches_ = 0;
};

}  // namespace plimsoll::executor
