// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/module.h"
#include "runtime/planner/baselines/greedy.h"
#include "runtime/planner/baselines/remat_names.h"

namespace plimsoll::planner {

// The buffers of one computation under an order: who defines and who uses them. Sizes are those of
// the shapes, a tuple table costs `tuple_entry_bytes` per element, parameters and results nothing.
class GreedyLiveness {
 public:
  struct Buffer {
    int defined = 0;         // index in the order
    std::int64_t size = 0;   // 0 for parameters and results
    bool indirect = false;   // used through something else than bitcast and tuple elements
    std::vector<int> users;  // rising
  };

  GreedyLiveness(const std::vector<ir::Instruction*>& order, const ir::Instruction* root,
                 std::int64_t tuple_entry_bytes);

  // Bytes while instruction `i` runs: what is defined and still has users at or after it.
  std::int64_t usage(int i) const { return usage_[at(i)]; }
  const std::vector<int>& defined(int i) const { return defined_[at(i)]; }
  const std::vector<int>& used(int i) const { return used_[at(i)]; }
  const Buffer& buffer(int b) const { return buffers_[at(b)]; }
  bool alive(int b, int i) const {
    return buffer(b).defined <= i && !buffer(b).users.empty() && buffer(b).users.back() >= i;
  }
  bool used_by(int b, int i) const;

 private:
  std::vector<Buffer> buffers_;
  std::vector<std::vector<int>> defined_, used_;
  std::vector<std::int64_t> usage_;
};

// Bytes of a shape with its tuple tables.
std::int64_t bytes_with_tables(const ir::Shape& shape, std::int64_t tuple_entry_bytes);

// The greedy pass over the computations of a module, callers before callees.
class GreedyPass {
 public:
  GreedyPass(ir::Module& module, const GreedyOptions& options)
      : module_(module), options_(options), names_(module) {}

  // Clones and moves until the computation's usage (results excluded) is at most `limit`, as far as
  // that goes; callees included when `callees`.
  void rematerialize(ir::Computation& computation, std::int64_t limit, bool callees);
  // Peak usage, results excluded, callees' peaks included.
  std::int64_t peak(const ir::Computation& computation);

  // Every clone and the instruction it goes back to.
  const std::unordered_map<const ir::Instruction*, const ir::Instruction*>& origins() const {
    return origin_;
  }
  bool changed() const { return changed_; }
  std::int64_t rematerialized() const { return rematerialized_; }
  std::int64_t net_added() const { return net_added_; }

 private:
  struct Block {
    int first = -1, count = 0;
    std::int64_t cost = 0;
  };

  std::int64_t callee_usage(const ir::Instruction& instruction);
  bool is_candidate(const ir::Instruction& instruction, int now);
  std::int64_t saved_bytes(const GreedyLiveness& liveness, int first, int count, int now) const;
  Block pick(const GreedyLiveness& liveness, int now, std::int64_t limit);
  int recompute(const Block& block, int now);
  bool redirect(ir::Instruction* from, ir::Instruction* to, int now,
                std::vector<ir::Instruction*>& made);
  int index(const ir::Instruction* instruction) const;
  void reindex();

  ir::Module& module_;
  const GreedyOptions options_;
  RematNames names_;
  bool changed_ = false;
  std::int64_t rematerialized_ = 0, net_added_ = 0;
  std::unordered_map<const ir::Instruction*, const ir::Instruction*> origin_;
  std::unordered_map<const ir::Computation*, std::int64_t> peaks_;
  std::unordered_set<const ir::Computation*> visited_;
  // Of the computation being rematerialized.
  ir::Computation* computation_ = nullptr;
  std::vector<ir::Instruction*> order_;
  std::unordered_map<const ir::Instruction*, int> index_;
  std::unordered_set<const ir::Instruction*> denied_, moved_;
};

}  // namespace plimsoll::planner
