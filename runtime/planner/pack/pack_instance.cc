// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/pack/pack_instance.h"

#include <algorithm>
#include <ctime>

#include "runtime/base/index.h"

namespace plimsoll::planner {
namespace {

struct Event {
  std::int64_t time;
  std::int32_t item;
  bool birth;
};

constexpr std::int64_t kWorkBetweenLooks = 100'000;

// Of this thread's own time: what else runs on the machine takes nothing from the packing.
double thread_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

PackInstance::PackInstance(std::span<const Lifetime> lifetimes, std::int64_t alignment)
    : alignment(alignment) {
  std::vector<Event> events;
  events.reserve(lifetimes.size() * 2);
  items.reserve(lifetimes.size());
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    const Lifetime& l = lifetimes[i];
    if (l.size <= 0 || l.lower >= l.upper) continue;
    const auto at = static_cast<std::int32_t>(items.size());
    const std::int64_t size = (l.size + alignment - 1) / alignment * alignment;
    items.push_back({0, 0, size, l.upper - l.lower, static_cast<std::int32_t>(i)});
    events.push_back({l.lower, at, true});
    events.push_back({l.upper, at, false});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    if (a.time != b.time) return a.time < b.time;
    return a.birth != b.birth ? b.birth : a.item < b.item;
  });
  // Sections. Only births that follow a death (or nothing) begin a new one: between a birth and the
  // next death the set of living buffers only grows, so that the last time step of the run of
  // births has them all. Example: births at times 1, 2, 3, a death at 5, a birth at 6, deaths at 7
  // and later make two sections, [1, 5) and [5, 7): a thousand steps of a training run are often a
  // few hundred sections.
  std::int64_t live = 0;
  bool open = false;  // the last event was a birth
  for (const Event& e : events) {
    Item& item = items[at(e.item)];
    if (e.birth) {
      if (!open) load.push_back(0);
      item.begin = sections() - 1;
      live += item.size;
      load.back() = live;
    } else {
      item.end = sections();
      live -= item.size;
    }
    open = e.birth;
  }
  for (const std::int64_t bytes : load) max_load = std::max(max_load, bytes);
}

PackBudget::PackBudget(std::int64_t work, double seconds, std::int64_t enough)
    : timed_(seconds > 0), work_(work), enough_(enough) {
  if (timed_) end_ = thread_seconds() + seconds;
}

bool PackBudget::over() {
  if (over_) return true;
  if (!timed_) return over_ = spent_ >= work_;
  if (spent_ < look_) return false;
  look_ = spent_ + kWorkBetweenLooks;
  return over_ = thread_seconds() >= end_;
}

}  // namespace plimsoll::planner
