// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/partition/wanted_tiles.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/passes/partition/tile_rules.h"
#include "runtime/passes/partition/tiles.h"

namespace plimsoll::passes {

using ir::Dims;
using ir::Instruction;
using ir::Opcode;
using ir::Sharding;

namespace {

using Wanted = std::unordered_map<const Instruction*, Sharding>;

// By dimension of an operand, the dimension of the result that it goes along with.
std::optional<Along> along_result(const Instruction& at, int operand, const Sharding& wanted) {
  const Dims& dims = at.operand(operand)->shape().dims();
  const Dims& made = at.shape().dims();
  Along along(plimsoll::at(dims.size()), -1);
  const auto& dimensions = at.attributes().dimensions;
  switch (at.opcode()) {
    case Opcode::broadcast:
      for (std::size_t i = 0; i < dimensions.size(); ++i)
        along[i] = static_cast<int>(dimensions[i]);
      return along;
    case Opcode::transpose:
      for (std::size_t i = 0; i < dimensions.size(); ++i) {
        along[plimsoll::at(dimensions[i])] = static_cast<int>(i);
      }
      return along;
    case Opcode::reduce: {
      if (at.operand_count() != 2 || operand != 0) return std::nullopt;
      int next = 0;
      for (int d = 0; d < dims.size(); ++d) {
        if (!holds(dimensions, d)) along[plimsoll::at(d)] = next++;
      }
      return along;
    }
    case Opcode::dot: {
      const ir::DotDimensions& d = *at.attributes().dot;
      const auto& batch = operand == 0 ? d.lhs_batch : d.rhs_batch;
      const auto& contracting = operand == 0 ? d.lhs_contracting : d.rhs_contracting;
      for (std::size_t i = 0; i < batch.size(); ++i) {
        along[plimsoll::at(batch[i])] = static_cast<int>(i);
      }
      const auto left = static_cast<int>(at.operand(0)->shape().rank() - std::ssize(d.lhs_batch) -
                                         std::ssize(d.lhs_contracting));
      int next = static_cast<int>(batch.size()) + (operand == 0 ? 0 : left);
      for (int i = 0; i < dims.size(); ++i) {
        if (!holds(batch, i) && !holds(contracting, i)) along[plimsoll::at(i)] = next++;
      }
      return along;
    }
    case Opcode::reshape: {
      // Dimensions of one element come and go.
      int j = 0;
      for (int i = 0; i < dims.size(); ++i) {
        if (dims[i] == 1) continue;
        while (j < made.size() && made[j] == 1) ++j;
        if (j == made.size() || made[j] != dims[i]) return std::nullopt;
        along[plimsoll::at(i)] = j++;
      }
      return along;
    }
    case Opcode::slice:
    case Opcode::pad:
    case Opcode::reverse:
    case Opcode::concatenate:
      if (dims.size() != made.size()) return std::nullopt;  // a value to pad with
      for (int d = 0; d < dims.size(); ++d) {
        const bool moves = dims[d] != made[d] || holds(dimensions, d);
        if (moves && wanted.tiles[plimsoll::at(d)] > 1) return std::nullopt;
        along[plimsoll::at(d)] = d;
      }
      return along;
    default:
      if (!ir::is_elementwise(at.opcode()) || dims.size() != made.size()) return std::nullopt;
      for (int d = 0; d < dims.size(); ++d) along[plimsoll::at(d)] = d;
      return along;
  }
}

class Wants {
 public:
  Wants(const ir::Computation& computation, const Expected& expected)
      : computation_(computation),
        results_(expected.results),
        made_(expected.made),
        partitions_(computation.module()->num_partitions) {}

  Wanted run() {
    const auto& all = computation_.instructions();
    for (auto at = all.rbegin(); at != all.rend(); ++at) {
      if (!(*at)->shape().is_array()) continue;
      Want want = want_of(**at);
      if (want.is_whole) continue;
      if (!want.tiles) {
        indifferent_.insert(at->get());
      } else if (!want.tiles->is_replicated()) {
        wanted_.emplace(at->get(), std::move(*want.tiles));
      }
    }
    return std::move(wanted_);
  }

 private:
  // Whole, or by tiles, or as it comes.
  struct Want {
    bool is_whole = false;
    std::optional<Sharding> tiles;
  };
  static Want whole() { return {true, std::nullopt}; }
  static Want as_it_comes() { return {}; }

  Want want_of(const Instruction& at) {
    Want made;
    if (computation_.root() == &at) {
      if (results_.size() != 1 || results_[0].is_summed()) return whole();
      made.tiles = results_[0];
    }
    for (const Instruction* const user : at.users()) {
      for (int i = 0; i < user->operand_count(); ++i) {
        if (user->operand(i) != &at) continue;
        Want one = wanted_by(*user, i);
        if (one.is_whole) return whole();
        if (!one.tiles) continue;
        if (made.tiles && !are_same_tiles(*made.tiles, *one.tiles, partitions_)) return whole();
        made.tiles = std::move(one.tiles);
      }
    }
    return made;
  }

  Want wanted_by(const Instruction& user, int operand) {
    if (user.opcode() == Opcode::tuple) {
      if (computation_.root() != &user || plimsoll::at(operand) >= results_.size() ||
          results_[plimsoll::at(operand)].is_summed()) {
        return whole();
      }
      return {false, results_[plimsoll::at(operand)]};
    }
    if (is_sharding_mark(user) && user.shape().is_array()) {
      const auto said = ir::parse_sharding(user.attributes().find_extra("sharding"),
                                           user.shape().rank(), partitions_);
      if (said.ok() && said->is_summed()) return whole();
      if (said.ok() && !said->is_replicated()) return {false, *said};
      const auto found = wanted_.find(&user);
      return found == wanted_.end() ? whole() : Want{false, found->second};
    }
    const Sharding* const of_user = made_or_wanted(user);
    if (of_user == nullptr) return takes_any(user, operand) ? as_it_comes() : whole();
    const auto along = along_result(user, operand, *of_user);
    if (!along) return whole();
    return {false, carried(*of_user, *along, partitions_)};
  }

  // A sum over much is made of tiles as well, and so is what only such sums read: a norm.
  bool takes_any(const Instruction& user, int operand) const {
    if (!user.shape().is_array()) return false;
    const std::int64_t elements = user.operand(operand)->shape().element_count();
    if (user.opcode() == Opcode::reduce) {
      return operand == 0 && user.operand_count() == 2 &&
             kMuch * user.shape().element_count() <= elements;
    }
    return ir::is_elementwise(user.opcode()) && user.shape().element_count() == elements &&
           indifferent_.contains(&user);
  }

  const Sharding* made_or_wanted(const Instruction& user) const {
    if (made_ != nullptr) {
      if (const auto made = made_->find(user.name()); made != made_->end()) return &made->second;
    }
    const auto wanted = wanted_.find(&user);
    return wanted == wanted_.end() ? nullptr : &wanted->second;
  }

  static constexpr std::int64_t kMuch = 64;

  const ir::Computation& computation_;
  const std::span<const Sharding> results_;
  const std::unordered_map<std::string, Sharding>* const made_;
  const std::int64_t partitions_;
  Wanted wanted_;
  std::unordered_set<const Instruction*> indifferent_;
};

}  // namespace

Wanted wanted_tiles(const ir::Computation& computation, const Expected& expected) {
  return Wants(computation, expected).run();
}

}  // namespace plimsoll::passes
