// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

namespace plimsoll::jit::testing {

// The copies into shared memory that the threads of a block have under way (cp.async), in groups. A
// copy is done when its thread waits for its group, as late as it may be on a GPU.
class AsyncCopies {
 public:
  static constexpr std::uint32_t kBytes = 16;

  // Sixteen bytes, of which `bytes` are copied and the others become zeros.
  void add(std::uint32_t thread, void* to, const void* from, std::uint32_t bytes);
  void commit(std::uint32_t thread);
  // Until at most `left` groups are under way.
  void wait(std::uint32_t thread, std::uint32_t left);
  // The block has ended. Returns what was wrong with its copies, or an empty string; forgets them.
  std::string end();

 private:
  struct Copy {
    void* to;
    const void* from;
    std::uint32_t bytes;
  };
  struct Thread {
    std::vector<Copy> open;
    std::deque<std::vector<Copy>> groups;
  };
  std::unordered_map<std::uint32_t, Thread> threads_;
  std::string problem_;
};

}  // namespace plimsoll::jit::testing
