// SPDX-License-Identifier: Apache-2.0
#include "tests/jit/gpu/async_copies.h"

#include <cstring>
#include <utility>

namespace plimsoll::jit::testing {

void AsyncCopies::add(std::uint32_t thread, void* to, const void* from, std::uint32_t bytes) {
  const auto is_aligned = [](const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % kBytes == 0;
  };
  if (!is_aligned(to) || !is_aligned(from) || bytes > kBytes) {
    problem_ = "a copy into shared memory is not of 16 bytes at a multiple of 16";
    return;
  }
  threads_[thread].open.push_back({to, from, bytes});
}

void AsyncCopies::commit(std::uint32_t thread) {
  Thread& own = threads_[thread];
  own.groups.push_back(std::exchange(own.open, {}));
}

void AsyncCopies::wait(std::uint32_t thread, std::uint32_t left) {
  Thread& own = threads_[thread];
  for (; own.groups.size() > left; own.groups.pop_front()) {
    for (const Copy& copy : own.groups.front()) {
      std::memset(copy.to, 0, kBytes);
      std::memcpy(copy.to, copy.from, copy.bytes);
    }
  }
}

std::string AsyncCopies::end() {
  for (const auto& [thread, own] : threads_) {
    bool is_under_way = !own.open.empty();
    for (const auto& group : own.groups) is_under_way = is_under_way || !group.empty();
    if (is_under_way) problem_ = "a copy into shared memory was never waited for";
  }
  threads_.clear();
  return std::exchange(problem_, {});
}

}  // namespace plimsoll::jit::testing
