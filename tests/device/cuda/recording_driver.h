// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/cuda/driver.h"

namespace plimsoll::device::cuda {

// When work happens that streams were given.
enum class Schedule : std::uint8_t {
  late,    // not before somebody waits for it, and then no more than that somebody needs
  random,  // at any moment that the events allow, differently with each seed
  eager,   // at once, as far as the events allow
};

struct RecordingOptions {
  int devices = 1;
  std::int64_t device_bytes = std::int64_t{4} << 30;
  bool maps_memory = true;  // has the virtual-memory calls
  int compute_capability = 90;
  // What a context, and each module, takes of the device's memory.
  std::int64_t context_bytes = std::int64_t{300} << 20, module_bytes = std::int64_t{2} << 20;
  Schedule schedule = Schedule::late;
  unsigned seed = 1;
  // What loading a module that was not registered comes to.
  DriverResult unknown_module = DriverResult::invalid_ptx;
  // There are libraries, too (recording_cublaslt.h, recording_cudnn.h), of recorded GPUs.
  bool has_products = false, has_convolutions = false;
};

struct LaunchShape {
  unsigned grid = 1, block = 1, shared_bytes = 0;
};
// What an entry of a module does, once for all blocks; `pointers` are those that the launch was
// given, as the host can use them.
using EntryFunction = std::function<void(const LaunchShape&, std::span<void* const> pointers)>;

// A CUDA driver for tests, without a GPU: the whole table of driver.def, by functions that hold
// whoever calls them to the driver's contract. It takes note of, and refuses, what a driver may
// punish by anything at all:
//
// - handles that were never made, or are destroyed; a context that is not current on the thread;
// - copies and launches with memory that was not given out, is not mapped, or has been given back
//   by the time that the work happens; memory given back while work is pending that uses it;
// - device memory that the host touches by itself: nothing can be read or written at its addresses
//   (SIGSEGV), as what lies there is mapped elsewhere;
// - calls of the driver by functions that streams call on the host.
//
// Streams do their work as late, or in as mixed an order, as the events between them allow: a wait
// that is missing shows as a wrong value. New memory begins with kFill.
//
// Kernels are what `register_module` says of the text of a module. Thread-safe; several may be
// there at a time (kMostDrivers).
class RecordingDriver {
 public:
  static constexpr int kMostDrivers = 8;
  static constexpr std::byte kFill{0xA5};

  explicit RecordingDriver(const RecordingOptions& options = {});
  ~RecordingDriver();
  RecordingDriver(const RecordingDriver&) = delete;
  RecordingDriver& operator=(const RecordingDriver&) = delete;

  const Driver& table() const;
  // Makes known what the entries of a module with this text do.
  void register_module(const std::string& text, std::map<std::string, EntryFunction> entries);
  bool knows_module(const std::string& text) const;

  // Fault injection: the n-th call from now (1 = next) of those that may fail does so, with
  // CUDA_ERROR_OUT_OF_MEMORY where it makes something, else CUDA_ERROR_UNKNOWN; 0 turns it off.
  void fail(std::int64_t n);
  // The next call of the symbol that begins so fails likewise.
  void fail_next(const std::string& symbol);
  // Whether it is still to come.
  bool is_failure_pending() const;

  // Calls of a symbol, all there were.
  std::int64_t calls(std::string_view symbol) const;
  // What was against the contract, in words.
  std::vector<std::string> violations() const;
  // What was made and is not destroyed yet, in words: "2 streams, 1 module"; empty: nothing.
  std::string leaks() const;
  // What happened, in order, since `start_log`: "stream 2: copy to device, 4096 bytes".
  void start_log();
  std::vector<std::string> log() const;
  // Pieces of work that streams were given and have not done.
  std::int64_t pending() const;

  struct Impl;
  // For recording libraries, whose work is its streams'.
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::device::cuda
