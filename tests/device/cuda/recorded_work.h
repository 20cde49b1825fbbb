// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/device/cuda/recording_driver.h"

// What the handles of the recording driver stand for. Objects that were destroyed stay, so that a
// handle of one is known for what it is.
namespace plimsoll::device::cuda {

struct ContextObject {
  int device = 0;
  int holders = 0;
};

struct ModuleObject {
  bool is_live = true;
  std::string text;
  std::vector<std::unique_ptr<FunctionObject>> functions;
  int device = 0;
};

struct FunctionObject {
  ModuleObject* module = nullptr;
  std::string name;
  EntryFunction run;
  std::size_t pointers = 0;  // that it takes
  int most_shared_bytes = 48 << 10;
};

// Memory that a piece of work uses.
struct Touched {
  const void* begin = nullptr;
  // -1: from there on as many as the kernel likes, or before it: a loop's update of one slice is
  // given the place where the array would begin of which only that slice is in memory.
  std::int64_t bytes = 0;
  bool is_device = false;
};

struct Piece {
  enum class Kind { work, record, wait };
  Kind kind = Kind::work;
  std::string what;
  std::vector<Touched> touches{};
  std::function<void()> run{};  // of `work`
  // Whether it may run, of `work` that waits for others than this driver; none: it may. Asked when
  // all before it is done, any number of times.
  std::function<bool()> is_ready{};
  EventObject* event = nullptr;
  std::int64_t version = 0;          // of the event
  StreamObject* from = nullptr;      // of `wait`: the stream that records it
  std::vector<std::size_t> after{};  // in a graph: pieces
  std::int64_t serial = 0;           // of all that streams were given
};

struct GraphObject {
  bool is_live = true;
  std::vector<Piece> pieces;
  StreamObject* origin = nullptr;  // while it is captured
  bool is_broken = false;
};

struct GraphExecutableObject {
  bool is_live = true;
  std::vector<Piece> pieces;
};

struct StreamObject {
  bool is_live = true;
  int number = 0;
  std::deque<Piece> queue;
  // While it is captured: into which graph, and what of it the next piece comes after.
  GraphObject* graph = nullptr;
  std::vector<std::size_t> behind;
};

struct EventObject {
  bool is_live = true;
  std::int64_t recorded = 0, reached = 0;
  StreamObject* stream = nullptr;  // that recorded it last
  std::chrono::steady_clock::time_point time;
  GraphObject* graph = nullptr;  // that it was last recorded in
  std::vector<std::size_t> behind;
};

}  // namespace plimsoll::device::cuda
