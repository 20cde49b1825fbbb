// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cuda/recording_driver.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "runtime/device/cuda/small_copies.h"
#include "tests/device/cuda/recording_driver_impl.h"

namespace plimsoll::device::cuda {
namespace {

std::array<std::atomic<RecordingDriver::Impl*>, RecordingDriver::kMostDrivers> drivers{};

// What undoes something has no way to fail that would leave it undone, nor has what it needs for
// that: making a context current.
bool may_fail(std::string_view symbol) {
  for (const std::string_view undoes :
       {"Free", "Release", "Unmap", "Destroy", "Unload", "Pop", "Push", "GetError", "EndCapture"}) {
    if (symbol.find(undoes) != std::string_view::npos) return false;
  }
  return true;
}
bool makes_something(std::string_view symbol) {
  for (const std::string_view makes : {"Alloc", "Create", "Reserve", "Load", "Instantiate"}) {
    if (symbol.find(makes) != std::string_view::npos) return true;
  }
  return false;
}

// A function of the table of the driver in a slot, for a method of it.
template <int kSlot, auto kMethod>
struct Forward;
template <int kSlot, typename... Parameters,
          DriverResult (RecordingDriver::Impl::*kMethod)(Parameters...)>
struct Forward<kSlot, kMethod> {
  static inline const char* symbol = nullptr;
  static DriverResult call(Parameters... parameters) {
    RecordingDriver::Impl* const driver = drivers[kSlot].load();
    const std::lock_guard lock(driver->mutex);
    if (is_in_host_function) {
      driver->violations.push_back(std::string(symbol) + ": called by a function on the host");
    }
    const DriverResult injected = driver->count(symbol, may_fail(symbol), makes_something(symbol));
    if (injected != success) return injected;
    return (driver->*kMethod)(parameters...);
  }
};

template <int kSlot>
Driver make_table() {
  Driver table;
#define PLIMSOLL_CUDA_CALL(member, symbol_, parameters)              \
  Forward<kSlot, &RecordingDriver::Impl::member>::symbol = #symbol_; \
  table.member = Forward<kSlot, &RecordingDriver::Impl::member>::call;
#include "runtime/device/cuda/driver.def"
#undef PLIMSOLL_CUDA_CALL
  return table;
}

template <int... kSlots>
const std::array<Driver, sizeof...(kSlots)>& make_tables(
    std::integer_sequence<int, kSlots...> /*slots*/) {
  static const std::array<Driver, sizeof...(kSlots)> tables{make_table<kSlots>()...};
  return tables;
}

const std::array<Driver, RecordingDriver::kMostDrivers>& tables() {
  return make_tables(std::make_integer_sequence<int, RecordingDriver::kMostDrivers>());
}

}  // namespace

RecordingDriver::RecordingDriver(const RecordingOptions& options) {
  (void)tables();
  for (int slot = 0; slot < kMostDrivers; ++slot) {
    auto made = std::make_unique<Impl>(options, slot);
    Impl* none = nullptr;
    if (!drivers[static_cast<std::size_t>(slot)].compare_exchange_strong(none, made.get())) {
      continue;
    }
    impl_ = std::move(made);
    register_module(
        SmallCopies::text(),
        {{SmallCopies::kEntry, [](const LaunchShape& /*shape*/, std::span<void* const> parameters) {
            std::memcpy(parameters[0], parameters[1], reinterpret_cast<std::size_t>(parameters[2]));
          }}});
    return;
  }
  std::abort();  // too many at a time
}

RecordingDriver::~RecordingDriver() { drivers[static_cast<std::size_t>(impl_->slot)] = nullptr; }

const Driver& RecordingDriver::table() const {
  return tables()[static_cast<std::size_t>(impl_->slot)];
}

void RecordingDriver::register_module(const std::string& text,
                                      std::map<std::string, EntryFunction> entries) {
  const std::lock_guard lock(impl_->mutex);
  impl_->known_modules[text] = std::move(entries);
}

bool RecordingDriver::knows_module(const std::string& text) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->known_modules.contains(text);
}

void RecordingDriver::fail(std::int64_t n) {
  const std::lock_guard lock(impl_->mutex);
  impl_->fail_in = n;
}

void RecordingDriver::fail_next(const std::string& symbol) {
  const std::lock_guard lock(impl_->mutex);
  impl_->fail_symbol = symbol;
}

bool RecordingDriver::is_failure_pending() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->fail_in > 0;
}

std::int64_t RecordingDriver::calls(std::string_view symbol) const {
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->calls.find(std::string(symbol));
  return found == impl_->calls.end() ? 0 : found->second;
}

std::vector<std::string> RecordingDriver::violations() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->violations;
}

void RecordingDriver::start_log() {
  const std::lock_guard lock(impl_->mutex);
  impl_->log.clear();
  impl_->is_logging = true;
}

std::vector<std::string> RecordingDriver::log() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->log;
}

std::int64_t RecordingDriver::pending() const {
  const std::lock_guard lock(impl_->mutex);
  std::size_t pieces = 0;
  for (const auto& stream : impl_->streams) pieces += stream->queue.size();
  return static_cast<std::int64_t>(pieces);
}

std::string RecordingDriver::leaks() const {
  const std::lock_guard lock(impl_->mutex);
  std::string found;
  const auto add = [&](const std::string& what) {
    if (!what.empty()) found += (found.empty() ? "" : ", ") + what;
  };
  const auto count = [&](const auto& objects, const char* what) {
    const auto live = std::count_if(objects.begin(), objects.end(),
                                    [](const auto& object) { return object->is_live; });
    add(live == 0 ? "" : std::to_string(live) + " " + what);
  };
  count(impl_->streams, "streams");
  count(impl_->events, "events");
  count(impl_->modules, "modules");
  count(impl_->graphs, "graphs");
  count(impl_->graph_executables, "executable graphs");
  if (!impl_->pinned.empty()) add(std::to_string(impl_->pinned.size()) + " pinned blocks");
  for (const auto& memory : impl_->memories) add(memory->leaks());
  for (const auto& context : impl_->contexts) {
    if (context->holders > 0) add("a context");
  }
  return found;
}

}  // namespace plimsoll::device::cuda
