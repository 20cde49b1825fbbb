// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/base/random_bits.h"
#include "runtime/planner/pack/pack_instance.h"

namespace plimsoll::planner {

// Local search for ever lower packings. What does not fit below a height waits in a pool; the
// heaviest of it is put where those that it meets weigh least together, and these go to the pool.
// A buffer gets heavier with every time that it found no free room, so the search leaves cycles.
// (Ejections guided by such counts: Nagata and Braysy, "A powerful route minimization heuristic
// for the vehicle routing problem with time windows", 2009.)
// A move takes time linear in the number of buffers. Same calls, same packings.
class PackEjection {
 public:
  // `start` is a packing of the instance, of any height.
  PackEjection(const PackInstance& instance, const PackSolution& start);

  // Makes the packing lower, but not lower than `floor` (which must be at least the largest
  // buffer), for as many moves or until the budget is over. The next call goes on from there.
  void run(std::int64_t floor, std::int64_t moves, PackBudget& budget);

  // The lowest so far.
  const PackSolution& best() const { return best_; }

 private:
  // A bottom or a top, and what the buffer weighs.
  struct Edge {
    std::int64_t at = 0, weight = 0;
  };
  // Those that lie somewhere, by rising bottoms or tops.
  struct Order {
    std::vector<std::int32_t> begin, end, item;
    std::vector<Edge> edge;
    std::size_t count = 0;

    void insert(const PackInstance::Item& item, std::int32_t id, Edge edge);
    void erase(std::int32_t id, std::int64_t at);
    // Writes edges, and ids if asked for, of all that live together with the item, and an edge
    // behind all.
    std::size_t find_neighbours(const PackInstance::Item& item, std::int32_t* ids,
                                Edge* edges) const;
  };

  auto lighter() const {
    return [this](std::int32_t a, std::int32_t b) {
      const auto x = worth_[at(a)], y = worth_[at(b)];
      return x != y ? x < y : a < b;
    };
  }
  void forget();
  void shake();
  bool reach(std::int64_t height, std::int64_t end, PackBudget& budget);
  void place(std::int32_t id, std::int64_t offset);
  void eject(std::int32_t id);
  void move(std::int32_t id);
  std::int64_t cheapest_offset(const PackInstance::Item& item);

  const PackInstance& instance_;
  PackSolution best_;
  double step_;  // lowers the height by this part of what is above the floor
  std::int64_t height_ = 0, work_ = 0, moves_ = 0;
  std::int64_t stuck_;  // after so many moves the weights fade
  RandomBits random_{0};
  Order by_bottom_, by_top_;
  std::vector<std::int64_t> offset_;          // per item
  std::vector<std::int64_t> worth_, weight_;  // worth times the number of times it found no room
  std::vector<std::int32_t> pool_;            // a heap by worth
  std::vector<std::int32_t> low_;             // neighbours of the item that moves, by bottom
  std::vector<Edge> bottoms_, tops_;          // of these
  std::size_t neighbours_ = 0;
  bool fits_ = false;
};

}  // namespace plimsoll::planner
