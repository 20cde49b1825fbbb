// SPDX-License-Identifier: Apache-2.0
#include "tests/jit/gpu/fibers.h"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <memory>

namespace plimsoll::jit::testing {
namespace {

constexpr std::uint32_t kWarpSize = 32;
constexpr std::size_t kStackBytes = 128 << 10;

enum class State : std::uint8_t { ready, at_barrier, in_exchange, ended };

}  // namespace

struct BlockOfFibers::Fiber {
  ucontext_t context = {};
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  State state = State::ready;
  Exchange exchange;
};

struct BlockOfFibers::Scheduler {
  ucontext_t context = {};
  std::uint32_t running = 0;
  const std::function<void(std::uint32_t)>* body = nullptr;
};

BlockOfFibers::BlockOfFibers(std::uint32_t threads) : scheduler_(std::make_unique<Scheduler>()) {
  for (std::uint32_t i = 0; i < threads; ++i) fibers_.push_back(std::make_unique<Fiber>());
}

BlockOfFibers::~BlockOfFibers() = default;

// makecontext passes ints alone.
void BlockOfFibers::enter(unsigned high, unsigned low) {
  auto* block = reinterpret_cast<BlockOfFibers*>(std::uintptr_t{high} << 32 | low);
  const std::uint32_t own = block->scheduler_->running;
  (*block->scheduler_->body)(own);
  block->fibers_[own]->state = State::ended;
  block->yield();
}

void BlockOfFibers::yield() {
  swapcontext(&fibers_[scheduler_->running]->context, &scheduler_->context);
}

void BlockOfFibers::wait_for_block() {
  fibers_[scheduler_->running]->state = State::at_barrier;
  yield();
}

std::uint32_t BlockOfFibers::exchange(Exchange what) {
  Fiber& own = *fibers_[scheduler_->running];
  own.exchange = what;
  own.state = State::in_exchange;
  yield();
  return own.exchange.result;
}

// Where all threads of the warp have come to one exchange, it is done; true if there was one.
bool BlockOfFibers::release_warp(std::uint32_t warp, std::string& problem) {
  const std::uint32_t first = warp * kWarpSize;
  const Exchange& what = fibers_[first]->exchange;
  for (std::uint32_t i = 0; i < kWarpSize; ++i) {
    const Fiber& fiber = *fibers_[first + i];
    if (fiber.state != State::in_exchange) return false;
    if (fiber.exchange.kind != what.kind || fiber.exchange.limits != what.limits ||
        fiber.exchange.work != what.work) {
      problem = "the threads of a warp are at different exchanges";
      return false;
    }
  }
  if (what.kind == Exchange::Kind::together) {
    std::array<void*, kWarpSize> all{};
    for (std::uint32_t i = 0; i < kWarpSize; ++i) all[i] = fibers_[first + i]->exchange.own;
    what.work(all.data());
  }
  for (std::uint32_t i = 0; i < kWarpSize; ++i) {
    Exchange& own = fibers_[first + i]->exchange;
    // As in the PTX manual: the upper bits of `limits` say which bits of the lane's number stay.
    const std::uint32_t kept = own.limits >> 8 & 31, last = own.limits & 31;
    const std::uint32_t most = (i & kept) | (last & ~kept & 31);
    std::uint32_t from = own.kind == Exchange::Kind::above
                             ? i + own.operand
                             : (i & kept) | (own.operand & ~kept & 31);
    if (from > most) from = i;
    own.result = fibers_[first + from]->exchange.value;
  }
  for (std::uint32_t i = 0; i < kWarpSize; ++i) fibers_[first + i]->state = State::ready;
  return true;
}

std::string BlockOfFibers::run(const std::vector<std::uint32_t>& order,
                               const std::function<void(std::uint32_t)>& body) {
  scheduler_->body = &body;
  const auto address = reinterpret_cast<std::uintptr_t>(this);
  for (const auto& fiber : fibers_) {
    fiber->state = State::ready;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack.get();
    fiber->context.uc_stack.ss_size = kStackBytes;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, reinterpret_cast<void (*)()>(&BlockOfFibers::enter), 2,
                static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
  }
  const auto count = [&](State state) {
    return std::count_if(fibers_.begin(), fibers_.end(),
                         [&](const auto& fiber) { return fiber->state == state; });
  };
  const auto all = static_cast<std::ptrdiff_t>(fibers_.size());
  while (count(State::ended) != all) {
    for (const std::uint32_t thread : order) {
      if (fibers_[thread]->state != State::ready) continue;
      scheduler_->running = thread;
      swapcontext(&scheduler_->context, &fibers_[thread]->context);
    }
    bool goes_on = false;
    std::string problem;
    for (std::uint32_t warp = 0; (warp + 1) * kWarpSize <= fibers_.size(); ++warp) {
      goes_on = release_warp(warp, problem) || goes_on;
    }
    if (!problem.empty()) return problem;
    if (goes_on || count(State::ended) == all) continue;
    if (count(State::in_exchange) > 0) return "not all threads of a warp came to an exchange";
    if (count(State::at_barrier) != all) return "not all threads of the block came to a barrier";
    for (const auto& fiber : fibers_) fiber->state = State::ready;
  }
  return "";
}

}  // namespace plimsoll::jit::testing
