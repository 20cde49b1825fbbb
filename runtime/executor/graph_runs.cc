// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/graph_runs.h"

#include <algorithm>
#include <utility>

namespace plimsoll::executor {

std::vector<GraphRuns::Entry>::iterator GraphRuns::find(const Addresses& addresses) {
  return std::find_if(entries_.begin(), entries_.end(),
                      [&](const Entry& entry) { return entry.addresses == addresses; });
}

GraphRuns::Lease::Lease(GraphRuns& runs, Addresses addresses)
    : runs_(runs), addresses_(std::move(addresses)) {
  const std::lock_guard lock(runs_.mutex_);
  const auto found = runs_.find(addresses_);
  if (found != runs_.entries_.end()) {
    if (found->is_leased || found->is_refused) return;
    found->is_leased = true;
    graph_ = std::move(found->graph);
    captures_ = graph_ == nullptr;
    return;
  }
  if (runs_.entries_.size() == kMostEntries) runs_.entries_.erase(runs_.entries_.begin());
  runs_.entries_.push_back({addresses_, nullptr, false, false});
}

GraphRuns::Lease::~Lease() {
  if (graph_ == nullptr && !captures_) return;
  const std::lock_guard lock(runs_.mutex_);
  const auto found = runs_.find(addresses_);
  if (found == runs_.entries_.end()) return;  // forgotten meanwhile; the graph goes, too
  found->is_leased = false;
  found->is_refused = is_refused_;
  found->graph = std::move(graph_);
}

Status GraphRuns::Lease::run(device::Stream& stream, const std::function<Status()>& enqueue) {
  if (graph_ != nullptr) return launch(stream);
  if (!captures_) return enqueue();
  is_refused_ = true;  // unless all goes well
  if (!stream.begin_capture().ok()) return enqueue();
  const Status enqueued = enqueue();
  auto graph = stream.end_capture();
  if (!enqueued.ok() && enqueued.code() != StatusCode::unimplemented) {
    is_refused_ = false;
    return enqueued;
  }
  if (!enqueued.ok() || !graph.ok()) return enqueue();
  is_refused_ = false;
  graph_ = std::move(*graph);
  return launch(stream);
}

Status GraphRuns::Lease::launch(device::Stream& stream) {
  ++runs_.launches_;
  return stream.launch(*graph_);
}

}  // namespace plimsoll::executor
