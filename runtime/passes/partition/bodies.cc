// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/partition/bodies.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/passes/partition/propagate.h"
#include "runtime/passes/partition/regions.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::Computation;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using ir::Sharding;

namespace {

// After so many bodies that were tried the last one is taken.
constexpr int kMostTrials = 8;

bool has_arrays_only(const Shape& shape) {
  const std::vector<Shape> all = shapes_of(shape);
  return std::all_of(all.begin(), all.end(), [](const Shape& one) { return one.is_array(); });
}

Result<Shape> tiles_shape(const Shape& whole, const std::vector<Sharding>& held) {
  std::vector<Shape> made;
  const std::vector<Shape> shapes = shapes_of(whole);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(Shape one, ir::tile_shape(shapes[i], held[i]));
    made.push_back(std::move(one));
  }
  return whole.is_tuple() ? Shape::tuple(std::move(made)) : made[0];
}

bool asks_for_tiles(const Computation& computation) {
  for (const auto& instruction : computation.instructions()) {
    if (is_sharding_mark(*instruction) || is_region_border(*instruction)) return true;
    const auto& called = instruction->called_computations();
    const bool inside = std::any_of(called.begin(), called.end(), [](const Computation* callee) {
      return asks_for_tiles(*callee);
    });
    if (inside) return true;
  }
  return false;
}

Instruction* behind_marks(Instruction* value) {
  while (is_sharding_mark(*value)) value = value->operand(0);
  return value;
}

// A copy of a computation that is given its argument's arrays by tiles, computed on those.
struct Body {
  Computation* computation;
  KnownTiles tiles;
  std::vector<Instruction*> wholes;   // of what comes in
  std::vector<Instruction*> written;  // its results as they were, of which nothing else is left
  std::vector<Instruction*> results;  // whole

  // Null: it is not made as tiles.
  const Sharding* made_by(std::size_t result) const {
    const KnownTiles::Tile* const known = tiles.find(results[result]);
    return known == nullptr ? nullptr : &known->sharding;
  }
};

Result<Body> computed_on_tiles_of(const Computation& original, const std::vector<Sharding>& held,
                                  const KnownTiles& outside) {
  Computation* const copy = original.module()->add_clone(original);
  Body body{copy, outside.of_another(), {}, {}, {}};
  Instruction* const parameter = copy->parameters()[0];
  const Shape whole = parameter->shape();
  const std::vector<Instruction*> users = parameter->users();
  PLIMSOLL_ASSIGN_OR_RETURN(Shape tiles, tiles_shape(whole, held));
  parameter->set_shape(std::move(tiles));
  Instruction* root = copy->root();
  const std::vector<Shape> shapes = shapes_of(whole);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    Instruction* const tile =
        whole.is_tuple() ? copy->add_get_tuple_element(parameter, static_cast<std::int64_t>(i))
                         : parameter;
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const one,
                              body.tiles.add_whole_of(tile, shapes[i], held[i]));
    body.wholes.push_back(one);
  }
  Instruction* const all = whole.is_tuple() ? copy->add_tuple(body.wholes) : body.wholes[0];
  for (Instruction* const user : users) {
    if (whole.is_tuple() && user->opcode() == Opcode::get_tuple_element) {
      Instruction* const one = body.wholes[at(user->attributes().tuple_index)];
      user->replace_all_uses_with(one);
      if (root == user) root = one;
      continue;
    }
    for (int i = 0; i < user->operand_count(); ++i) {
      if (user->operand(i) == parameter) user->replace_operand(i, all);
    }
  }
  copy->set_root(root == parameter ? all : root);
  PLIMSOLL_RETURN_IF_ERROR(copy->sort_topologically());
  if (copy->root()->opcode() == Opcode::tuple) body.written = arrays_of(copy->root());
  PLIMSOLL_RETURN_IF_ERROR(propagate_tiles(*copy, body.tiles, {}));
  root = copy->root();
  body.results = arrays_of(root);
  copy->set_root(root);
  return body;
}

// Its results as they are held.
Status set_results(Body& body, const std::vector<Sharding>& held) {
  std::vector<Instruction*> tiles;
  const bool is_tuple = body.computation->root()->shape().is_tuple();
  for (std::size_t i = 0; i < held.size(); ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const tile,
                              body.tiles.tile_of(body.results[i], held[i]));
    tiles.push_back(tile);
  }
  body.computation->set_root(is_tuple ? body.computation->add_tuple(std::move(tiles)) : tiles[0]);
  return ok_status();
}

// What the arrays are computed of.
std::unordered_set<const Instruction*> needed_by(std::vector<const Instruction*> arrays) {
  std::unordered_set<const Instruction*> found;
  while (!arrays.empty()) {
    const Instruction* const one = arrays.back();
    arrays.pop_back();
    if (!found.insert(one).second) continue;
    arrays.insert(arrays.end(), one->operands().begin(), one->operands().end());
    arrays.insert(arrays.end(), one->control_predecessors().begin(),
                  one->control_predecessors().end());
  }
  return found;
}

class LoopTiles {
 public:
  LoopTiles(Instruction& loop, KnownTiles& tiles,
            const std::vector<std::optional<Sharding>>& wanted)
      : loop_(loop),
        tiles_(tiles),
        partitions_(loop.parent()->module()->num_partitions),
        wanted_(wanted) {}

  Result<Instruction*> run() {
    if (!has_arrays_only(loop_.shape())) return static_cast<Instruction*>(nullptr);
    starts_ = arrays_of(loop_.operand(0));
    held_.resize(starts_.size());
    bool is_any = false;
    for (std::size_t i = 0; i < starts_.size(); ++i) {
      const KnownTiles::Tile* const known = tiles_.find(starts_[i]);
      if (known == nullptr) continue;
      held_[i] = known->sharding;
      is_any = true;
    }
    for (const auto& one : wanted_) is_any = is_any || one.has_value();
    if (!is_any && !asks_for_tiles(*loop_.while_body())) return static_cast<Instruction*>(nullptr);
    stays_whole_.resize(starts_.size());
    sums_in_rounds_.resize(starts_.size());
    is_wish_.resize(starts_.size());
    has_changed_.resize(starts_.size());
    for (int trial = 1;; ++trial) {
      PLIMSOLL_ASSIGN_OR_RETURN(Body body,
                                computed_on_tiles_of(*loop_.while_body(), held_, tiles_));
      const bool is_last = trial >= kMostTrials;
      if (is_last && !sum_in_rounds(body)) return finish(std::move(body));
      if (!is_last && !sum_in_rounds(body) && !follow_results(body) && !gather_before(body) &&
          !follow_wishes() && !sum_behind(body)) {
        return finish(std::move(body));
      }
      loop_.parent()->module()->remove(body.computation);
    }
  }

 private:
  bool is_held_as(std::size_t i, const Sharding* made) const {
    return made == nullptr ? held_[i].is_replicated()
                           : are_same_tiles(held_[i], *made, partitions_);
  }

  // What the body makes as tiles is held so.
  bool follow_results(const Body& body) {
    bool changed = false;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      const Sharding* const made = body.made_by(i);
      if (held_[i].is_summed()) continue;
      if (made == nullptr || is_held_as(i, made) || stays_whole_[i] || has_changed_[i]) continue;
      held_[i] = *made;
      has_changed_[i] = changed = true;
    }
    return changed;
  }

  // What nobody wants whole behind the loop.
  bool follow_wishes() {
    bool changed = false;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      if (!wanted_[i] || !held_[i].is_replicated() || stays_whole_[i] || has_changed_[i] ||
          !ir::tile_shape(starts_[i]->shape(), *wanted_[i]).ok()) {
        continue;
      }
      held_[i] = *wanted_[i];
      has_changed_[i] = is_wish_[i] = changed = true;
    }
    return changed;
  }

  // What is gathered in every round need not be: of what never changes, as much as the body
  // gathers of it; of what it does not make as tiles, all.
  bool gather_before(const Body& body) {
    const std::unordered_set<const Instruction*> needed = needed_of(body);
    bool changed = false;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      if (held_[i].is_replicated() || held_[i].is_summed()) continue;
      const bool stays = behind_marks(body.results[i]) == body.wholes[i];
      const bool is_whole = needed.contains(body.wholes[i]);
      if (is_whole && (stays || is_wish_[i] || !is_held_as(i, body.made_by(i)))) {
        held_[i] = Sharding();
        stays_whole_[i] = changed = true;
        continue;
      }
      if (!stays || has_changed_[i]) continue;
      std::optional<Sharding> one;
      int count = 0;
      for (const KnownTiles::Tile& other : body.tiles.others(body.wholes[i])) {
        if (!needed.contains(other.at) ||
            body.tiles.received_bytes(body.wholes[i], other.sharding) == 0)
          continue;
        one = other.sharding;
        ++count;
      }
      if (count != 1) continue;
      held_[i] = *one;
      has_changed_[i] = changed = true;
    }
    return changed;
  }

  // What a result is as it is held.
  static const Instruction* result_of(const Body& body, std::size_t i, const Sharding& held) {
    const KnownTiles::Tile* const known = held.is_summed()
                                              ? body.tiles.find_summands(body.results[i])
                                              : body.tiles.find(body.results[i]);
    return known == nullptr ? body.results[i] : known->at;
  }

  std::unordered_set<const Instruction*> needed_of(const Body& body) const {
    std::vector<const Instruction*> results;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      results.push_back(result_of(body, i, held_[i]));
    }
    return needed_by(std::move(results));
  }

  // Sums over rounds, to which each round adds a sum over partitions that it reads nowhere else,
  // add up their summands, and are summed once, behind the loop.
  bool sum_behind(const Body& body) {
    if (body.written.empty()) return false;
    const std::unordered_set<const Instruction*> needed = needed_of(body);
    bool changed = false;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      const Instruction& add = *body.written[i];
      if (add.opcode() != Opcode::add || sums_in_rounds_[i] || held_[i].is_summed() ||
          is_read_by_condition(i) || !is_held_as(i, body.made_by(i))) {
        continue;
      }
      const bool is_first = behind_marks(add.operand(0)) == body.wholes[i];
      if (!is_first && behind_marks(add.operand(1)) != body.wholes[i]) continue;
      const auto* const offered = body.tiles.find_offered(add.operand(is_first ? 1 : 0));
      const Instruction* const result = result_of(body, i, held_[i]);
      if (offered == nullptr ||
          !are_same_tiles(offered->sharding.summed(), held_[i], partitions_)) {
        continue;
      }
      const auto is_read_otherwise = [&](const Instruction* value) {
        return std::any_of(
            value->users().begin(), value->users().end(),
            [&](const Instruction* user) { return user != result && needed.contains(user); });
      };
      const Instruction* const tile = tile_in(body, i);
      const bool is_own = tile == body.wholes[i] || !needed.contains(body.wholes[i]);
      if (!is_own || is_read_otherwise(tile)) continue;
      held_[i] = offered->sharding;
      changed = true;
    }
    return changed;
  }

  // What comes in of an element.
  static const Instruction* tile_in(const Body& body, std::size_t i) {
    const KnownTiles::Tile* const known = body.tiles.find(body.wholes[i]);
    return known == nullptr ? body.wholes[i] : known->at;
  }

  // Where that did not come to be so.
  bool sum_in_rounds(const Body& body) {
    bool changed = false;
    const std::unordered_set<const Instruction*> needed = needed_of(body);
    for (std::size_t i = 0; i < held_.size(); ++i) {
      if (!held_[i].is_summed()) continue;
      const KnownTiles::Tile* const made = body.tiles.find_summands(body.results[i]);
      const bool is_so = made != nullptr && are_same_tiles(made->sharding, held_[i], partitions_) &&
                         !needed.contains(body.wholes[i]);
      if (is_so) continue;
      held_[i] = held_[i].summed();
      sums_in_rounds_[i] = changed = true;
    }
    return changed;
  }

  bool is_read_by_condition(std::size_t i) const {
    const Instruction& parameter = *loop_.while_condition()->parameters()[0];
    return std::any_of(parameter.users().begin(), parameter.users().end(),
                       [&](const Instruction* user) {
                         return user->opcode() != Opcode::get_tuple_element ||
                                at(user->attributes().tuple_index) == i;
                       });
  }

  // Summands are of our own asking: who reads the array behind the loop has their sum.
  Result<Instruction*> whole_behind(Instruction* array, const Shape& shape, const Sharding& held) {
    if (!held.is_summed()) return tiles_.add_whole_of(array, shape, held);
    std::int64_t channel = tiles_.take_channel();
    PLIMSOLL_ASSIGN_OR_RETURN(
        Instruction* const whole,
        tiles_.add_whole_of(add_sum(array, held, channel), shape, held.summed()));
    tiles_.offer_summand(whole, held, array);
    return whole;
  }

  Result<Instruction*> finish(Body body) {
    Computation& computation = *loop_.parent();
    PLIMSOLL_RETURN_IF_ERROR(set_results(body, held_));
    PLIMSOLL_ASSIGN_OR_RETURN(const Body condition,
                              computed_on_tiles_of(*loop_.while_condition(), held_, tiles_));
    std::vector<Instruction*> tiles;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const tile, tiles_.tile_of(starts_[i], held_[i]));
      tiles.push_back(tile);
    }
    const bool is_tuple = loop_.shape().is_tuple();
    Instruction* const start = is_tuple ? computation.add_tuple(std::move(tiles)) : tiles[0];
    Attributes attributes = loop_.attributes();
    std::erase_if(attributes.extra, [](const auto& one) { return one.first == "sharding"; });
    Instruction* const made =
        computation.add(Opcode::while_, start->shape(), {start}, {}, std::move(attributes));
    made->set_called_computations({condition.computation, body.computation});
    const std::vector<Instruction*> arrays = arrays_of(made);
    const std::vector<Shape> shapes = shapes_of(loop_.shape());
    std::vector<Instruction*> wholes;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const whole,
                                whole_behind(arrays[i], shapes[i], held_[i]));
      wholes.push_back(whole);
    }
    return is_tuple ? computation.add_tuple(std::move(wholes)) : wholes[0];
  }

  Instruction& loop_;
  KnownTiles& tiles_;
  const std::int64_t partitions_;
  std::vector<Instruction*> starts_;
  std::vector<Sharding> held_;
  const std::vector<std::optional<Sharding>>& wanted_;
  std::vector<bool> stays_whole_, has_changed_, sums_in_rounds_, is_wish_;
};

}  // namespace

Result<Instruction*> computed_in_loop(Instruction& loop, KnownTiles& tiles,
                                      const std::vector<std::optional<Sharding>>& wanted) {
  return LoopTiles(loop, tiles, wanted).run();
}

Result<Instruction*> computed_in_branches(Instruction& conditional, KnownTiles& tiles) {
  const auto& branches = conditional.called_computations();
  bool is_any = false;
  std::vector<std::vector<Instruction*>> arguments;
  std::vector<std::vector<Sharding>> given;
  if (!has_arrays_only(conditional.shape())) return static_cast<Instruction*>(nullptr);
  for (std::size_t b = 0; b < branches.size(); ++b) {
    Instruction* const argument = conditional.operand(static_cast<int>(b) + 1);
    if (!has_arrays_only(argument->shape())) return static_cast<Instruction*>(nullptr);
    arguments.push_back(arrays_of(argument));
    auto& held = given.emplace_back();
    for (const Instruction* const one : arguments.back()) {
      const KnownTiles::Tile* const known = tiles.find(one);
      held.push_back(known == nullptr ? Sharding() : known->sharding);
      is_any = is_any || known != nullptr;
    }
    is_any = is_any || asks_for_tiles(*branches[b]);
  }
  if (!is_any) return static_cast<Instruction*>(nullptr);
  std::vector<Body> bodies;
  std::vector<Sharding> held(shapes_of(conditional.shape()).size());
  for (std::size_t b = 0; b < branches.size(); ++b) {
    PLIMSOLL_ASSIGN_OR_RETURN(Body body, computed_on_tiles_of(*branches[b], given[b], tiles));
    for (std::size_t i = 0; i < held.size(); ++i) {
      const Sharding* const made = body.made_by(i);
      if (made != nullptr && held[i].is_replicated()) held[i] = *made;
    }
    bodies.push_back(std::move(body));
  }
  Computation& computation = *conditional.parent();
  std::vector<Instruction*> operands{conditional.operand(0)};
  std::vector<Computation*> called;
  for (std::size_t b = 0; b < branches.size(); ++b) {
    PLIMSOLL_RETURN_IF_ERROR(set_results(bodies[b], held));
    called.push_back(bodies[b].computation);
    for (std::size_t i = 0; i < arguments[b].size(); ++i) {
      PLIMSOLL_ASSIGN_OR_RETURN(arguments[b][i], tiles.tile_of(arguments[b][i], given[b][i]));
    }
    const bool is_tuple = conditional.operand(static_cast<int>(b) + 1)->shape().is_tuple();
    operands.push_back(is_tuple ? computation.add_tuple(arguments[b]) : arguments[b][0]);
  }
  Attributes attributes = conditional.attributes();
  std::erase_if(attributes.extra, [](const auto& one) { return one.first == "sharding"; });
  PLIMSOLL_ASSIGN_OR_RETURN(const Shape shape, tiles_shape(conditional.shape(), held));
  Instruction* const made =
      computation.add(Opcode::conditional, shape, std::move(operands), {}, std::move(attributes));
  made->set_called_computations(std::move(called));
  return tiles.add_wholes_of(made, conditional.shape(), held);
}

}  // namespace plimsoll::passes
