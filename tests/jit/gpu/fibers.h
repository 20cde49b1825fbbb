// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace plimsoll::jit::testing {

// What a thread waits for the others of its warp with.
struct Exchange {
  enum class Kind : std::uint8_t { above, lane, barrier, together };
  Kind kind = Kind::barrier;
  std::uint32_t value = 0, operand = 0, limits = 0, result = 0;
  // Of `together`: what is done once all have come, on what each has brought.
  void (*work)(void* const* own) = nullptr;
  void* own = nullptr;
};

// The threads of one block, as fibers: each runs until it waits for others or ends, and those that
// all others have come to go on. The errors it reports are those of a kernel.
class BlockOfFibers {
 public:
  explicit BlockOfFibers(std::uint32_t threads);
  ~BlockOfFibers();
  BlockOfFibers(const BlockOfFibers&) = delete;
  BlockOfFibers& operator=(const BlockOfFibers&) = delete;

  // Runs `body(thread)` for every thread, in the order of `order` between waits. Returns what went
  // wrong, or an empty string; then some fibers may not have ended, and the block is of no use.
  std::string run(const std::vector<std::uint32_t>& order,
                  const std::function<void(std::uint32_t)>& body);

  // Of the fiber that is running:
  void wait_for_block();
  std::uint32_t exchange(Exchange what);

 private:
  struct Fiber;
  static void enter(unsigned high, unsigned low);
  void yield();
  bool release_warp(std::uint32_t warp, std::string& problem);

  std::vector<std::unique_ptr<Fiber>> fibers_;
  struct Scheduler;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace plimsoll::jit::testing
