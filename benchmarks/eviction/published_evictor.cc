// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/eviction/published_evictor.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "runtime/base/byte_size.h"

namespace plimsoll::memory {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr std::array<std::pair<Heuristic, std::string_view>, 7> kNames = {{
    {Heuristic::dtr, "dtr"},
    {Heuristic::dtr_eq, "dtr-eq"},
    {Heuristic::dtr_local, "dtr-local"},
    {Heuristic::msps, "msps"},
    {Heuristic::lru, "lru"},
    {Heuristic::size, "size"},
    {Heuristic::random, "random"},
}};

void sort_unique(std::vector<std::int32_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

std::string_view to_string(Heuristic heuristic) {
  for (const auto& [value, name] : kNames) {
    if (value == heuristic) return name;
  }
  return "dtr";
}

std::optional<Heuristic> parse_heuristic(std::string_view name) {
  for (const auto& [value, text] : kNames) {
    if (text == name) return value;
  }
  return std::nullopt;
}

PublishedEvictor::State& PublishedEvictor::state(StorageId id) {
  if (static_cast<std::size_t>(id) >= states_.size()) {
    states_.resize(static_cast<std::size_t>(lineage_.storage_count()) * 2);
  }
  return states_[static_cast<std::size_t>(id)];
}

void PublishedEvictor::make_evictable(StorageId id) {
  State& at = state(id);
  if (at.evictable) return;
  at.evictable = true;
  at.previous = last_;
  at.next = -1;
  (last_ >= 0 ? state(last_).next : first_) = id;
  last_ = id;
}

void PublishedEvictor::make_unevictable(StorageId id) {
  State& at = state(id);
  if (!at.evictable) return;
  at.evictable = false;
  (at.previous >= 0 ? state(at.previous).next : first_) = at.next;
  (at.next >= 0 ? state(at.next).previous : last_) = at.previous;
}

void PublishedEvictor::pin_storage(StorageId id) {
  if (lineage_.storage(id).pins == 0) make_unevictable(id);
  lineage_.pin(id);
}

void PublishedEvictor::unpin_storage(StorageId id) {
  lineage_.unpin(id);
  if (lineage_.storage(id).pins == 0) make_evictable(id);
}

template <typename AtEdge>
double PublishedEvictor::walk(StorageId id, bool to_arguments, AtEdge at_edge) {
  ++mark_;
  state(id).mark = mark_;
  double seconds = 0;
  std::vector<StorageId> open{id};
  while (!open.empty()) {
    const StorageId top = open.back();
    open.pop_back();
    const auto visit = [&](StorageId other) {
      State& at = state(other);
      if (at.mark == mark_) return;
      at.mark = mark_;
      if (lineage_.storage(other).resident) {
        at_edge(other);
        return;
      }
      seconds += lineage_.storage(other).seconds;
      open.push_back(other);
    };
    if (to_arguments) {
      lineage_.visit_arguments(top, visit);
    } else {
      lineage_.visit_results(top, visit);
    }
  }
  return seconds;
}

void PublishedEvictor::region_changed(StorageId id) {
  const auto out_of_date = [&](StorageId edge) { state(edge).stale_region = true; };
  walk(id, true, out_of_date);
  walk(id, false, out_of_date);
}

std::vector<StorageId> PublishedEvictor::evicted_neighbours(StorageId id) {
  std::vector<StorageId> found;
  const auto visit = [&](StorageId other) {
    if (other != id && !lineage_.storage(other).resident && state(other).node >= 0) {
      found.push_back(other);
    }
  };
  lineage_.visit_arguments(id, visit);
  lineage_.visit_results(id, visit);
  sort_unique(found);
  return found;
}

std::int32_t PublishedEvictor::find(std::int32_t node) {
  const auto parent = [&](std::int32_t i) -> std::int32_t& {
    return parents_[static_cast<std::size_t>(i)];
  };
  while (parent(node) != node) {
    parent(node) = parent(parent(node));
    node = parent(node);
  }
  return node;
}

std::int32_t PublishedEvictor::add_node(double seconds) {
  parents_.push_back(static_cast<std::int32_t>(parents_.size()));
  class_seconds_.push_back(seconds);
  return parents_.back();
}

double PublishedEvictor::staleness(StorageId id) {
  return state(id).unused ? kInfinity : lineage_.clock() - lineage_.storage(id).last_use;
}

double PublishedEvictor::score(StorageId id) {
  const Lineage::Storage& storage = lineage_.storage(id);
  const auto bytes = static_cast<double>(storage.bytes);
  const auto over = [](double seconds, double denominator) {
    return denominator > 0 ? seconds / denominator : kInfinity;
  };
  switch (heuristic_) {
    case Heuristic::lru:
      return state(id).unused ? -kInfinity : storage.last_use;
    case Heuristic::size:
      return over(1, bytes);
    case Heuristic::dtr_local:
      return over(storage.seconds, bytes * staleness(id));
    case Heuristic::dtr_eq: {
      std::vector<std::int32_t> classes;
      for (const StorageId other : evicted_neighbours(id)) {
        classes.push_back(find(state(other).node));
      }
      sort_unique(classes);
      double seconds = storage.seconds;
      for (const std::int32_t one : classes) {
        seconds += class_seconds_[static_cast<std::size_t>(one)];
      }
      return over(seconds, bytes * staleness(id));
    }
    case Heuristic::dtr:
    case Heuristic::msps:
      break;
    case Heuristic::random:
      return 0;
  }
  if (state(id).stale_region) {
    const auto ignore = [](StorageId) {};
    double seconds = walk(id, true, ignore);
    if (heuristic_ == Heuristic::dtr) seconds += walk(id, false, ignore);
    state(id).region_seconds = seconds;
    state(id).stale_region = false;
  }
  const double seconds = storage.seconds + state(id).region_seconds;
  return over(seconds, heuristic_ == Heuristic::msps ? bytes : bytes * staleness(id));
}

StorageId PublishedEvictor::choose() {
  if (heuristic_ == Heuristic::random) {
    std::vector<StorageId> all;
    for (StorageId id = first_; id >= 0; id = state(id).next) all.push_back(id);
    return all.empty() ? -1 : all[random_() % all.size()];
  }
  StorageId best = -1;
  double least = kInfinity;
  for (StorageId id = first_; id >= 0; id = state(id).next) {
    const double candidate = score(id);
    if (candidate <= least) {
      least = candidate;
      best = id;
    }
    if (candidate == 0) break;
  }
  return best;
}

void PublishedEvictor::evict(StorageId id) {
  make_unevictable(id);
  lineage_.drop(id);
  ++statistics_.evictions;
  if (has_regions()) region_changed(id);
  if (heuristic_ != Heuristic::dtr_eq) return;
  const std::int32_t node = add_node(lineage_.storage(id).seconds);
  state(id).node = node;
  for (const StorageId other : evicted_neighbours(id)) {
    const std::int32_t from = find(state(other).node), to = find(node);
    if (from == to) continue;
    parents_[static_cast<std::size_t>(from)] = to;
    class_seconds_[static_cast<std::size_t>(to)] += class_seconds_[static_cast<std::size_t>(from)];
  }
}

Status PublishedEvictor::make_room(std::int64_t bytes) {
  while (lineage_.used_bytes() + bytes > limit_bytes_) {
    const StorageId victim = choose();
    if (victim < 0) {
      return Status(StatusCode::resource_exhausted,
                    "no room for " + format_bytes(bytes) + " beside " +
                        format_bytes(lineage_.used_bytes()) + " that are pinned (limit " +
                        format_bytes(limit_bytes_) + ")");
    }
    evict(victim);
  }
  return ok_status();
}

void PublishedEvictor::ran(OperationId id) {
  const Lineage::Operation& operation = lineage_.operation(id);
  std::vector<StorageId> made;
  for (std::int32_t i = 0; i < operation.output_count; ++i) {
    const StorageId storage = lineage_.tensor(operation.first_output + i).storage;
    if (!lineage_.storage(storage).resident) made.push_back(storage);
  }
  sort_unique(made);
  lineage_.ran(id);
  for (const StorageId storage : made) {
    make_evictable(storage);
    std::int32_t& node = state(storage).node;
    if (node >= 0) {
      class_seconds_[static_cast<std::size_t>(find(node))] -= lineage_.storage(storage).seconds;
      node = -1;
    }
    if (has_regions()) {
      state(storage).stale_region = true;
      region_changed(storage);
    }
  }
}

Status PublishedEvictor::materialize(OperationId id, bool again) {
  const std::vector<TensorId> arguments = lineage_.operation(id).arguments;
  lineage_.touch(id);
  std::vector<TensorId> gone;
  std::vector<StorageId> pinned;
  const auto lock_argument = [&](TensorId argument) {
    pinned.push_back(lineage_.tensor(argument).storage);
    pin_storage(pinned.back());
  };
  for (const TensorId argument : arguments) {
    state(lineage_.tensor(argument).storage).unused = false;
    if (lineage_.tensor(argument).defined) {
      lock_argument(argument);
    } else {
      gone.push_back(argument);
    }
  }
  Status status;
  for (const TensorId argument : gone) {
    if (!lineage_.tensor(argument).defined) {
      status = materialize(lineage_.tensor(argument).producer, true);
      if (!status.ok()) break;
    }
    lock_argument(argument);
  }
  if (status.ok()) status = make_room(lineage_.operation(id).bytes);
  if (status.ok()) {
    ran(id);
    if (again) {
      ++statistics_.recomputes;
      statistics_.recompute_seconds += lineage_.operation(id).seconds;
    }
  }
  for (const StorageId storage : pinned) unpin_storage(storage);
  if (status.ok() && statistics_.recompute_seconds > most_recompute_seconds_) {
    status = Status(StatusCode::resource_exhausted, "too much is computed again");
  }
  return status;
}

Status PublishedEvictor::run(OperationId id) {
  const Lineage::Operation& operation = lineage_.operation(id);
  const TensorId first = operation.first_output;
  const std::int32_t count = operation.output_count;
  PLIMSOLL_RETURN_IF_ERROR(materialize(id, false));
  for (std::int32_t i = 0; i < count; ++i) {
    const StorageId storage = lineage_.tensor(first + i).storage;
    lineage_.touch_storage(storage);
    state(storage).unused = false;
  }
  return ok_status();
}

Status PublishedEvictor::restore(TensorId id) {
  return lineage_.tensor(id).defined ? ok_status()
                                     : materialize(lineage_.tensor(id).producer, true);
}

void PublishedEvictor::release(TensorId id) {
  lineage_.release(id);
  const StorageId storage = lineage_.tensor(id).storage;
  const Lineage::Storage& what = lineage_.storage(storage);
  if (what.handles == 0 && what.resident && what.pins == 0) {
    evict(storage);
    --statistics_.evictions;
  }
}

void PublishedEvictor::pin(TensorId id) { pin_storage(lineage_.tensor(id).storage); }

}  // namespace plimsoll::memory
