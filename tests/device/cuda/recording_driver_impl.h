// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/device/cuda/recorded_memory.h"
#include "tests/device/cuda/recorded_work.h"
#include "tests/device/cuda/recording_driver.h"

namespace plimsoll::device::cuda {

using enum DriverResult;

// Contexts that are current on this thread, of all drivers.
inline thread_local std::vector<ContextHandle> current_contexts;
// Whether this thread runs a function that a stream called; it may call nothing of the driver's.
inline thread_local bool is_in_host_function = false;

// The state of a recording driver, and the table's functions as methods of it: of devices, contexts
// and memory in recorded_calls.cc, of streams in recorded_streams.cc, of modules and graphs in
// recorded_modules.cc. Its mutex is held in each.
struct RecordingDriver::Impl {
  Impl(const RecordingOptions& asked, int at_slot) : options(asked), slot(at_slot) {
    random.seed(options.seed);
    for (int i = 0; i < options.devices; ++i) {
      memories.push_back(std::make_unique<RecordedMemory>(options.device_bytes, kFill));
      contexts.push_back(std::make_unique<ContextObject>());
      contexts.back()->device = i;
    }
  }

  // Checks.

  DriverResult violate(DriverResult result, const std::string& what) {
    violations.push_back(what);
    return result;
  }
  // The context of this driver that is current on the thread; null, with a note, where none is.
  ContextObject* context(const char* call) {
    ContextObject* const top = current_contexts.empty() ? nullptr : current_contexts.back();
    for (const auto& mine : contexts) {
      if (mine.get() == top && mine->holders > 0) return top;
    }
    violations.push_back(std::string(call) + ": no context is current on the thread");
    return nullptr;
  }
  template <typename Object>
  bool is_live(const std::vector<std::unique_ptr<Object>>& all, const Object* handle) const {
    return handle != nullptr && handles.contains(handle) && handle->is_live && !all.empty();
  }
  RecordedMemory& memory() { return *memories[static_cast<std::size_t>(device)]; }
  bool is_address(const void* pointer) const { return memory_of(pointer) != nullptr; }
  bool is_pinned(const void* pointer, std::int64_t bytes) const {
    const auto block = pinned.upper_bound(const_cast<void*>(pointer));
    if (block == pinned.begin()) return false;
    const auto& [begin, size] = *std::prev(block);
    return static_cast<const std::byte*>(pointer) + bytes <=
           static_cast<const std::byte*>(begin) + size;
  }
  // That the address is of; null where it is none.
  const RecordedMemory* memory_of(const void* pointer) const {
    const auto found = std::find_if(memories.begin(), memories.end(),
                                    [&](const auto& one) { return one->is_address(pointer); });
    return found == memories.end() ? nullptr : found->get();
  }
  bool is_usable(const Touched& what) const {
    const RecordedMemory* const of = memory_of(what.begin);
    if (!what.is_device) return of == nullptr;
    if (what.bytes < 0) {
      return of != nullptr && !of->is_gone(reinterpret_cast<Address>(what.begin));
    }
    return of != nullptr && of->is_usable(reinterpret_cast<Address>(what.begin), what.bytes);
  }
  // As the host can use it.
  void* translated(const void* pointer) const {
    const RecordedMemory* const of = memory_of(pointer);
    return of == nullptr ? const_cast<void*>(pointer)
                         : of->mapped(reinterpret_cast<Address>(pointer));
  }

  // Work.

  DriverResult enqueue(StreamObject& stream, Piece piece) {
    for (const Touched& touched : piece.touches) {
      if (!is_usable(touched)) {
        return violate(invalid_value, "stream " + std::to_string(stream.number) + ": " +
                                          piece.what + ": memory that is not there to be used");
      }
    }
    if (stream.graph != nullptr) {
      append_to_graph(stream, std::move(piece));
      return success;
    }
    piece.serial = ++pieces;
    stream.queue.push_back(std::move(piece));
    progress();
    return success;
  }
  void append_to_graph(StreamObject& stream, Piece piece) {
    piece.after = stream.behind;
    stream.graph->pieces.push_back(std::move(piece));
    stream.behind = {stream.graph->pieces.size() - 1};
  }

  bool is_ready(const StreamObject& stream) const {
    if (stream.queue.empty()) return false;
    const Piece& next = stream.queue.front();
    if (next.is_ready != nullptr) return next.is_ready();
    return next.kind != Piece::Kind::wait || next.event->reached >= next.version;
  }
  // The next piece of a stream; what it waits for comes first.
  void step(StreamObject& stream) {
    if (stream.queue.front().kind == Piece::Kind::wait) {
      const Piece wait = stream.queue.front();
      reach(*wait.event, wait.version, wait.from);
      // On the way there this stream may have gone on.
      if (stream.queue.empty() || stream.queue.front().serial != wait.serial) return;
    }
    if (!is_ready(stream)) return std::this_thread::yield();  // until others have come so far
    const Piece piece = std::move(stream.queue.front());
    stream.queue.pop_front();
    run(piece, stream.number);
    if (piece.kind == Piece::Kind::record) {
      piece.event->reached = std::max(piece.event->reached, piece.version);
      piece.event->time = std::chrono::steady_clock::now();
    }
  }
  void run(const Piece& piece, int stream) {
    const std::string name = "stream " + std::to_string(stream) + ": " + piece.what;
    if (is_logging) log.push_back(name);
    if (piece.run == nullptr) return;
    for (const Touched& touched : piece.touches) {
      if (is_usable(touched)) continue;
      violations.push_back(name + ": its memory is gone by the time that it runs");
      return;
    }
    piece.run();
  }
  void reach(const EventObject& event, std::int64_t version, StreamObject* from) {
    while (event.reached < version) {
      mix();
      if (event.reached < version) step(*from);
    }
  }
  void finish(StreamObject& stream) {
    while (!stream.queue.empty()) {
      mix();
      if (!stream.queue.empty()) step(stream);
    }
  }
  // Steps of any stream whose time may have come.
  void step_any() {
    std::vector<StreamObject*> ready;
    for (const auto& stream : streams) {
      if (stream->is_live && is_ready(*stream)) ready.push_back(stream.get());
    }
    if (!ready.empty()) step(*ready[random() % ready.size()]);
  }
  void mix() {
    if (options.schedule != Schedule::random) return;
    while (random() % 3 == 0) step_any();
  }
  void progress() {
    mix();
    if (options.schedule != Schedule::eager) return;
    for (bool is_moving = true; is_moving;) {
      is_moving = false;
      for (const auto& stream : streams) {
        while (stream->is_live && is_ready(*stream)) {
          step(*stream);
          is_moving = true;
        }
      }
    }
  }
  // Whether work that is still to be done uses a byte of the range.
  void check_unused(const void* begin, std::int64_t bytes, const char* call) {
    const auto* const first = static_cast<const std::byte*>(begin);
    for (const auto& stream : streams) {
      for (const Piece& piece : stream->queue) {
        for (const Touched& touched : piece.touches) {
          const auto* const from = static_cast<const std::byte*>(touched.begin);
          const std::int64_t least = std::max<std::int64_t>(touched.bytes, 1);
          if (from >= first + bytes || from + least <= first) continue;
          violations.push_back(std::string(call) + ": stream " + std::to_string(stream->number) +
                               " has yet to do: " + piece.what);
          return;
        }
      }
    }
  }

  // The table's functions, as the driver has them.

#define PLIMSOLL_CUDA_CALL(member, symbol, parameters) DriverResult member parameters;
#include "runtime/device/cuda/driver.def"
#undef PLIMSOLL_CUDA_CALL

  // One more call; what it is to come to without being made.
  DriverResult count(std::string_view symbol, bool may_fail, bool makes) {
    ++calls[std::string(symbol)];
    if (!fail_symbol.empty() && symbol.starts_with(fail_symbol)) {
      fail_symbol.clear();
      return makes ? out_of_memory : unknown;
    }
    if (!may_fail || fail_in == 0 || --fail_in > 0) return success;
    return makes ? out_of_memory : unknown;
  }

  const RecordingOptions options;
  const int slot;
  int device = 0;  // of the call under way
  mutable std::recursive_mutex mutex;
  std::minstd_rand random;
  std::vector<std::unique_ptr<RecordedMemory>> memories;
  std::vector<std::unique_ptr<ContextObject>> contexts;
  std::vector<std::unique_ptr<StreamObject>> streams;
  std::vector<std::unique_ptr<EventObject>> events;
  std::vector<std::unique_ptr<ModuleObject>> modules;
  std::vector<std::unique_ptr<GraphObject>> graphs;
  std::vector<std::unique_ptr<GraphExecutableObject>> graph_executables;
  std::set<const void*> handles;
  std::map<void*, std::int64_t> pinned;
  std::unordered_map<std::string, std::map<std::string, EntryFunction>> known_modules;
  bool is_initialized = false;
  std::map<std::string, std::int64_t> calls;
  std::vector<std::string> violations, log;
  bool is_logging = false;
  std::int64_t fail_in = 0, pieces = 0;
  std::string fail_symbol;
};

// What most methods begin with.
#define PLIMSOLL_NEEDS_CONTEXT(call)                      \
  const ContextObject* const its_context = context(call); \
  if (its_context == nullptr) return invalid_context;     \
  device = its_context->device

#define PLIMSOLL_NEEDS_STREAM(call, stream) \
  PLIMSOLL_NEEDS_CONTEXT(call);             \
  if (!is_live(streams, stream))            \
  return violate(invalid_handle, std::string(call) + ": no such stream")

#define PLIMSOLL_NEEDS_EVENT(call, event)            \
  if (!is_live(events, event))                       \
  return violate(invalid_handle, std::string(call) + \
                                     ": no such "    \
                                     "event")

}  // namespace plimsoll::device::cuda
