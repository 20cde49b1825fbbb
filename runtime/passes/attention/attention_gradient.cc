// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/attention/attention_gradient.h"

#include <algorithm>
#include <unordered_map>

#include "runtime/base/index.h"
#include "runtime/ir/hint.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/attention/softmax_polynomial.h"
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

// What an instruction inside is, per element of the scores or per row of them.
struct Inside {
  Polynomial value;
  DimLabels labels;
  std::vector<const Instruction*> masks;  // where these say unseen, the element is zero instead
};

// Recognition by polynomials. Whatever follows the exponential is, element by element, a polynomial
// in e (the power), s (the slope, do v^T) and, per row, l = sum of e and r = sum of e s, with
// integer exponents. Sums along the keys turn e into l and e s into r; products add exponents,
// divisions by single terms subtract them.
//
// Example: the gradient of softmax as automatic differentiation writes it:
//   p  = e / l                            e l^-1
//   t  = s * p                            e s l^-1
//   u  = reduce-add(t) over keys          r l^-1
//   ds = (s - broadcast(u)) * p           e s l^-1 - e r l^-2
// Another text may write p * s - p * broadcast(reduce-add(p * s)), or use the product of l's
// square: the polynomial is the same, and it is what a backward kernel computes. A term that does
// not fit, a reader from outside, more than kMostTerms terms: no attention.
class UsesMatcher {
 public:
  explicit UsesMatcher(const AttentionScores& scores) : scores_(scores) {}

  std::optional<AttentionUses> run() {
    inside_[scores_.power] = {{{kPower, 1.0}}, scores_.labels, {}};
    std::vector<Instruction*> work = {scores_.power};
    // Users wait until all their operands that will be inside are.
    constexpr std::size_t kMostInside = 128;
    std::vector<Instruction*> pending;
    while (!work.empty()) {
      std::vector<Instruction*> next;
      for (Instruction* value : work) {
        for (Instruction* user : value->users()) {
          if (!scores_.interior.contains(user)) next.push_back(user);
        }
      }
      next.insert(next.end(), pending.begin(), pending.end());
      work.clear();
      pending.clear();
      for (Instruction* user : next) {
        if (inside_.contains(user) || is_product(user) ||
            std::find(pending.begin(), pending.end(), user) != pending.end()) {
          continue;
        }
        const Step step = take(user);
        if (step == Step::refused || inside_.size() > kMostInside) return std::nullopt;
        if (step == Step::waits) pending.push_back(user);
        if (step == Step::taken && !is_product(user)) work.push_back(user);
      }
    }
    if (!pending.empty() || !is_closed() || !read_products()) return std::nullopt;
    return uses_;
  }

 private:
  enum class Step { taken, waits, refused };

  const Inside* find(const Instruction* value) const {
    const auto it = inside_.find(value);
    return it == inside_.end() ? nullptr : &it->second;
  }

  bool is_product(const Instruction* value) const { return products_.contains(value); }

  Step keep(const Instruction* instruction, Inside inside) {
    std::erase_if(inside.value, [](const auto& term) { return term.second == 0; });
    if (inside.value.empty() || inside.value.size() > kMostTerms) return Step::refused;
    inside_.emplace(instruction, std::move(inside));
    return Step::taken;
  }

  Step take(Instruction* at) {
    if (!at->control_predecessors().empty() || !at->control_successors().empty() ||
        ir::must_materialize(*at) || (at->is_root() && at->opcode() != Opcode::dot)) {
      return Step::refused;
    }
    switch (at->opcode()) {
      case Opcode::convert:
        return is_float_conversion(*at) ? keep(at, *find(at->operand(0))) : Step::refused;
      case Opcode::transpose: {
        Inside inside = *find(at->operand(0));
        inside.labels = transposed(inside.labels, *at);
        return keep(at, std::move(inside));
      }
      case Opcode::reshape:
        return take_reshape(at);
      case Opcode::broadcast:
        return take_broadcast(at);
      case Opcode::negate: {
        Inside inside = *find(at->operand(0));
        inside.value = times(inside.value, -1);
        return keep(at, std::move(inside));
      }
      case Opcode::reduce:
        return take_sum(at);
      case Opcode::select:
        return take_select(at);
      case Opcode::add:
      case Opcode::subtract:
      case Opcode::multiply:
      case Opcode::divide:
        return take_binary(at);
      case Opcode::dot: {
        const bool both = find(at->operand(0)) != nullptr && find(at->operand(1)) != nullptr;
        if (both) return Step::refused;
        products_.emplace(at, true);
        ordered_products_.push_back(at);
        return Step::taken;
      }
      default:
        return Step::refused;
    }
  }

  // Where only dims of size one come or go.
  Step take_reshape(Instruction* at) {
    Inside inside = *find(at->operand(0));
    const ir::Dims& from = at->operand(0)->shape().dims();
    DimLabels kept, labels;
    for (int i = 0; i < from.size(); ++i) {
      if (from[i] != 1) kept.push_back(inside.labels[static_cast<std::size_t>(i)]);
    }
    std::size_t next = 0;
    for (const std::int64_t size : at->shape().dims()) {
      if (size == 1) {
        labels.push_back(-1);
        continue;
      }
      if (next == kept.size() || kept[next] < 0 ||
          scores_.sizes[static_cast<std::size_t>(kept[next])] != size) {
        return Step::refused;
      }
      labels.push_back(kept[next++]);
    }
    if (next != kept.size()) return Step::refused;
    inside.labels = std::move(labels);
    return keep(at, std::move(inside));
  }

  // Back to the dims of the scores; new dims are the labels that lack, in order.
  Step take_broadcast(Instruction* at) {
    Inside inside = *find(at->operand(0));
    if (at->shape().rank() != static_cast<int>(scores_.sizes.size())) return Step::refused;
    DimLabels labels(static_cast<std::size_t>(at->shape().rank()), -1);
    std::vector<bool> seen(labels.size(), false);
    for (std::size_t i = 0; i < inside.labels.size(); ++i) {
      const int label = inside.labels[i];
      if (label < 0) continue;
      labels[static_cast<std::size_t>(at->attributes().dimensions[i])] = label;
      seen[static_cast<std::size_t>(label)] = true;
    }
    if (seen[static_cast<std::size_t>(scores_.key_label())]) return Step::refused;
    std::size_t missing = 0;
    for (std::size_t d = 0; d < labels.size(); ++d) {
      if (labels[d] < 0) {
        while (missing < seen.size() && seen[missing]) ++missing;
        labels[d] = static_cast<int>(missing++);
      }
      if (at->shape().dim(static_cast<int>(d)) !=
          scores_.sizes[static_cast<std::size_t>(labels[d])]) {
        return Step::refused;
      }
    }
    inside.labels = std::move(labels);
    return keep(at, std::move(inside));
  }

  // A sum over the keys, with what is constant along them taken out; or over dims of size one.
  Step take_sum(Instruction* at) {
    if (at->operand_count() != 2 || !ir::is_binary_computation(*at->to_apply(), Opcode::add) ||
        !(is_splat_of(*at->operand(1), 0) || is_splat_of(*at->operand(1), -0.0))) {
      return Step::refused;
    }
    const Inside* from = find(at->operand(0));
    if (from == nullptr || !from->masks.empty()) return Step::refused;
    const ir::Shape& summed = at->operand(0)->shape();
    if (summed.element_count() == at->shape().element_count()) return take_reshape(at);
    if (at->attributes().dimensions.size() != 1) return Step::refused;
    const auto dim = static_cast<std::size_t>(at->attributes().dimensions[0]);
    if (from->labels[dim] != scores_.key_label()) return Step::refused;
    Inside inside;
    for (std::size_t i = 0; i < from->labels.size(); ++i) {
      if (i != dim) inside.labels.push_back(from->labels[i]);
    }
    for (const auto& [monomial, coefficient] : from->value) {
      if (monomial[0] != 1 || monomial[1] < 0 || monomial[1] > 1) return Step::refused;
      const Monomial rest = {0, 0, monomial[2], monomial[3]};
      inside.value[product(rest, monomial[1] == 1 ? kRowProduct : kRowSum)] += coefficient;
    }
    return keep(at, std::move(inside));
  }

  Step take_select(Instruction* at) {
    for (const int side : {1, 2}) {
      const Inside* from = find(at->operand(side));
      if (from == nullptr || !is_splat_of(*at->operand(3 - side), 0)) continue;
      const auto& known = scores_.predicates;
      const std::pair<Instruction*, bool> one(at->operand(0), side == 1);
      if (std::find(known.begin(), known.end(), one) == known.end()) return Step::refused;
      Inside inside = *from;
      inside.masks.push_back(at->operand(0));
      return keep(at, std::move(inside));
    }
    return Step::refused;
  }

  Step take_binary(Instruction* at) {
    const Inside* a = find(at->operand(0));
    const Inside* b = find(at->operand(1));
    const bool scales = at->opcode() == Opcode::multiply || at->opcode() == Opcode::divide;
    for (const int side : {0, 1}) {
      const ir::Literal* factor = splat_value(*at->operand(side));
      if (factor == nullptr) continue;
      if (!scales) return Step::refused;
      Inside inside = side == 0 ? *b : *a;
      const double number = factor->at(0);
      if (at->opcode() == Opcode::divide && side == 0) {
        if (inside.value.size() != 1) return Step::refused;
        const auto [monomial, coefficient] = *inside.value.begin();
        inside.value = {{product({}, monomial, -1), number / coefficient}};
        return keep(at, std::move(inside));
      }
      inside.value = times(inside.value, at->opcode() == Opcode::divide ? 1 / number : number);
      return keep(at, std::move(inside));
    }
    if (a == nullptr || b == nullptr) {
      // The other side may be the slopes, or wait for its own operands.
      const int side = a == nullptr ? 0 : 1;
      const Inside* slopes = take_slopes(at->operand(side), (side == 0 ? b : a)->labels);
      if (slopes == nullptr) return Step::waits;
      a = find(at->operand(0));
      b = find(at->operand(1));
    }
    if (a->labels != b->labels || a->masks != b->masks) return Step::refused;
    Inside inside{{}, a->labels, a->masks};
    if (!scales) {
      inside.value = a->value;
      const double sign = at->opcode() == Opcode::add ? 1 : -1;
      for (const auto& [monomial, coefficient] : b->value) {
        inside.value[monomial] += sign * coefficient;
      }
      return keep(at, std::move(inside));
    }
    if (!a->masks.empty()) return Step::refused;
    if (at->opcode() == Opcode::divide && b->value.size() != 1) return Step::refused;
    for (const auto& [left, x] : a->value) {
      for (const auto& [right, y] : b->value) {
        const bool divides = at->opcode() == Opcode::divide;
        inside.value[product(left, right, divides ? -1 : 1)] += divides ? x / y : x * y;
      }
    }
    return keep(at, std::move(inside));
  }

  // s = do v^T, through transposes, conversions and scales; null when it is something else. Only
  // one product can be it.
  const Inside* take_slopes(Instruction* value, const DimLabels& labels) {
    if (labels.size() != scores_.sizes.size()) return nullptr;
    std::vector<Instruction*> chain;
    Instruction* at = value;
    while (at->opcode() != Opcode::dot) {
      chain.push_back(at);
      if (chain.size() > 4 || inside_.contains(at)) return nullptr;
      if (at->opcode() != Opcode::transpose && !is_float_conversion(*at)) return nullptr;
      at = at->operand(0);
    }
    if (slopes_ != nullptr && at != slopes_) return nullptr;
    DimLabels inner = labels;
    for (const Instruction* step : chain) {
      if (step->opcode() != Opcode::transpose) continue;
      DimLabels before(inner.size());
      for (std::size_t i = 0; i < inner.size(); ++i) {
        before[static_cast<std::size_t>(step->attributes().dimensions[i])] = inner[i];
      }
      inner = std::move(before);
    }
    if (slopes_ == nullptr) {
      slopes_ = at;
      slope_labels_ = inner;
      inside_.emplace(at, Inside{{{kSlope, 1.0}}, inner, {}});
    } else if (inner != slope_labels_) {
      return nullptr;
    }
    for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
      Inside inside = *find((*it)->operand(0));
      if ((*it)->opcode() == Opcode::transpose) inside.labels = transposed(inside.labels, **it);
      inside_.emplace(*it, std::move(inside));
    }
    return find(value);
  }

  // Nobody else reads what is inside.
  bool is_closed() const {
    const auto known = [&](const Instruction* user) {
      return inside_.contains(user) || is_product(user) || scores_.interior.contains(user);
    };
    const auto closed = [&](const Instruction* value) {
      return !value->is_root() && value->control_successors().empty() &&
             value->control_predecessors().empty() && !ir::must_materialize(*value) &&
             std::all_of(value->users().begin(), value->users().end(), known);
    };
    return std::all_of(scores_.interior.begin(), scores_.interior.end(), closed) &&
           std::all_of(inside_.begin(), inside_.end(),
                       [&](const auto& row) { return closed(row.first); });
  }

  // The scale of a gradient of the scores; zero when it is none.
  double gradient_scale(const Inside& inside) const {
    if (inside.masks.size() != scores_.predicates.size()) return 0;
    for (const auto& [predicate, seen_when] : scores_.predicates) {
      if (std::find(inside.masks.begin(), inside.masks.end(), predicate) == inside.masks.end()) {
        return 0;
      }
    }
    return score_gradient_scale(inside.value);
  }

  bool read_products() {
    std::optional<AttentionExit> output;
    std::optional<AttentionProduct> query, key, value;
    double query_scale = 0, key_scale = 0;
    for (Instruction* at : ordered_products_) {
      const int side = find(at->operand(0)) != nullptr ? 0 : 1;
      const Inside& inside = *find(at->operand(side));
      const auto product = read_attention_product(scores_, *at, side, inside.labels);
      if (!product.has_value()) return false;
      const bool over_keys = product->summed == scores_.key_label();
      if (!over_keys && product->summed != scores_.query_label()) return false;
      if (inside.masks.empty() && is_probability(inside.value)) {
        if (over_keys ? output.has_value() : value.has_value()) return false;
        if (over_keys) {
          output = product->exit;
          uses_.value = product->other;
        } else {
          value = *product;
        }
        continue;
      }
      const double scale = gradient_scale(inside);
      if (scale == 0 || (over_keys ? query.has_value() : key.has_value())) return false;
      (over_keys ? query : key) = *product;
      (over_keys ? query_scale : key_scale) = scale;
    }
    if (!output.has_value()) return false;
    uses_.output = *output;
    if (query && !(query->other == scores_.key)) return false;
    if (key && !(key->other == scores_.query)) return false;
    if (query && key && query_scale != key_scale) return false;
    if ((query || key) && !take_output_gradient()) return false;
    if (value) {
      if (slopes_ == nullptr) uses_.output_gradient = value->other;
      if (!(value->other == uses_.output_gradient)) return false;
    }
    if (slopes_ != nullptr && !query && !key) return false;
    uses_.gradient_scale = static_cast<float>(query ? query_scale : key ? key_scale : 1);
    if (query) uses_.query_gradient = query->exit;
    if (key) uses_.key_gradient = key->exit;
    if (value) uses_.value_gradient = value->exit;
    return true;
  }

  // The slopes must be of this attention's values; the other operand is the output's gradient.
  bool take_output_gradient() {
    if (slopes_ == nullptr) return false;
    const auto slopes = read_attention_slopes(scores_, *slopes_, slope_labels_);
    if (!slopes.has_value()) return false;
    uses_.output_gradient = slopes->output_gradient;
    return slopes->value == uses_.value;
  }

  const AttentionScores& scores_;
  std::unordered_map<const Instruction*, Inside> inside_;
  std::unordered_map<const Instruction*, bool> products_;
  std::vector<Instruction*> ordered_products_;
  Instruction* slopes_ = nullptr;
  DimLabels slope_labels_;
  AttentionUses uses_;
};

}  // namespace

std::optional<AttentionUses> match_attention_uses(const AttentionScores& scores) {
  return UsesMatcher(scores).run();
}

}  // namespace plimsoll::passes
