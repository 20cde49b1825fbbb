// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/attention/attention_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/attention/causal_mask.h"
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

Instruction* through_conversions(Instruction* value) {
  while (is_float_conversion(*value)) value = value->operand(0);
  return value;
}

// The operand's labels from those of the transpose, whose dim i is the operand's dim dimensions[i].
// Labels (b,q,k) of a transpose by {0,2,1} are (b,k,q) of its operand.
DimLabels before_transpose(const DimLabels& labels, const Instruction& transpose) {
  DimLabels result(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    result[at(transpose.attributes().dimensions[i])] = labels[i];
  }
  return result;
}

// From the exponential backwards: exp(x - max x) names the keys' dim (the one that the maximum runs
// along); x leads through selects (masks), one addition (a bias) and scalings to a dot, in that
// order; the dot's batch dims, and which of its sides the keys are on, name the others. Transposes
// on the way only permute the names. What does not read so stays as it is.
class ScoresMatcher {
 public:
  explicit ScoresMatcher(Instruction& exponential) { scores_.power = &exponential; }

  std::optional<AttentionScores> run() {
    if (!find_maximum() || !walk_to_dot() || !label_dot()) return std::nullopt;
    // Labels are known now; masks and biases were kept with the labels of the dims they stand on.
    for (const auto& [predicate, seen_when, perm] : selects_) {
      if (!add_mask(*predicate, seen_when, relabel(perm))) return std::nullopt;
    }
    if (bias_ != nullptr && !add_bias()) return std::nullopt;
    return std::move(scores_);
  }

 private:
  // Dims of the exponential stand for themselves until the dot says what they are.
  using Places = std::vector<int>;

  struct Select {
    Instruction* predicate;
    bool seen_when;
    Places places;
  };

  void take(const Instruction* value) { scores_.interior.insert(value); }

  // power = exp(x - broadcast(max of x over one dim)).
  bool find_maximum() {
    Instruction* shifted = scores_.power->operand(0);
    while (is_float_conversion(*shifted)) {
      take(shifted);
      shifted = shifted->operand(0);
    }
    const Instruction& exponential = *scores_.power;
    if (shifted->opcode() != Opcode::subtract || !exponential.shape().is_array() ||
        exponential.shape().rank() < 2) {
      return false;
    }
    take(scores_.power);
    take(shifted);
    Instruction* spread = shifted->operand(1);
    while (is_float_conversion(*spread)) {
      take(spread);
      spread = spread->operand(0);
    }
    if (spread->opcode() != Opcode::broadcast) return false;
    take(spread);
    Instruction* greatest = spread->operand(0);
    if (!unguard(greatest)) return false;
    if (greatest->opcode() != Opcode::reduce || greatest->operand_count() != 2 ||
        greatest->attributes().dimensions.size() != 1 ||
        !ir::is_binary_computation(*greatest->to_apply(), Opcode::maximum) ||
        !is_splat_of(*greatest->operand(1), -std::numeric_limits<double>::infinity())) {
      return false;
    }
    take(greatest);
    key_place_ = static_cast<int>(greatest->attributes().dimensions[0]);
    // Every dim but the keys' comes back where it was.
    const auto& kept = spread->attributes().dimensions;
    const int rank = exponential.shape().rank();
    if (static_cast<int>(kept.size()) != rank - 1) return false;
    for (int i = 0, d = 0; d < rank; ++d) {
      if (d != key_place_ && kept[at(i++)] != d) return false;
    }
    top_ = shifted->operand(0);
    Instruction* other = greatest->operand(0);
    while (other != top_ && is_float_conversion(*other)) {
      take(other);
      other = other->operand(0);
    }
    while (top_ != other && is_float_conversion(*top_)) {
      take(top_);
      top_ = top_->operand(0);
    }
    return top_ == other;
  }

  // Through what protects a row without finite scores; it has no softmax either way.
  bool unguard(Instruction*& value) {
    for (int i = 0; i < 4; ++i) {
      take(value);
      if (is_float_conversion(*value)) {
        value = value->operand(0);
      } else if (value->opcode() == Opcode::maximum) {
        const double lowest = -std::numeric_limits<double>::infinity();
        const int constant = is_splat_of(*value->operand(0), lowest) ? 0 : 1;
        if (!is_splat_of(*value->operand(constant), lowest)) return false;
        value = value->operand(1 - constant);
      } else if (value->opcode() == Opcode::select) {
        const Instruction* test = value->operand(0);
        Instruction* kept = value->operand(1);
        if (test->opcode() != Opcode::is_finite || test->operand(0) != kept ||
            !is_splat_of(*value->operand(2), 0)) {
          return false;
        }
        take(test);
        value = kept;
      } else {
        return true;
      }
    }
    return true;
  }

  // From the scores down to the dot: selects, then a bias, then scales. The order is that of the
  // kernel, which multiplies by the scale, adds the bias and then masks: a scale above the bias
  // would scale that as well. `places_` says which dim of the exponential each dim of `at` stands
  // for; only transposes change it.
  bool walk_to_dot() {
    enum Stage { selects, bias, scale } stage = selects;
    Instruction* at = top_;
    places_.resize(static_cast<std::size_t>(at->shape().rank()));
    for (std::size_t i = 0; i < places_.size(); ++i) places_[i] = static_cast<int>(i);
    constexpr int kMostSteps = 16;
    for (int step = 0; step < kMostSteps; ++step) {
      take(at);
      switch (at->opcode()) {
        case Opcode::dot:
          dot_ = at;
          return true;
        case Opcode::convert:
          if (!is_float_conversion(*at)) return false;
          at = at->operand(0);
          break;
        case Opcode::transpose:
          places_ = before_transpose(places_, *at);
          at = at->operand(0);
          break;
        case Opcode::select:
          if (stage != selects || !read_select(at)) return false;
          break;
        case Opcode::add: {
          if (stage > selects || bias_ != nullptr) return false;
          const int side = leads_to_dot(at->operand(0)) ? 0 : 1;
          bias_ = at->operand(1 - side);
          bias_places_ = places_;
          stage = bias;
          at = at->operand(side);
          break;
        }
        case Opcode::multiply:
        case Opcode::divide: {
          stage = scale;
          const int side = splat_value(*at->operand(0)) != nullptr ? 1 : 0;
          const ir::Literal* factor = splat_value(*at->operand(1 - side));
          if (factor == nullptr || (at->opcode() == Opcode::divide && side != 0)) return false;
          const double number = factor->at(0);
          scale_ *= at->opcode() == Opcode::divide ? 1 / number : number;
          at = at->operand(side);
          break;
        }
        default:
          return false;
      }
    }
    return false;
  }

  // Does a chain of scores start here?
  static bool leads_to_dot(const Instruction* value) {
    for (int i = 0; i < 8; ++i) {
      switch (value->opcode()) {
        case Opcode::dot:
          return true;
        case Opcode::convert:
        case Opcode::transpose:
          value = value->operand(0);
          break;
        case Opcode::multiply:
        case Opcode::divide:
          value = value->operand(splat_value(*value->operand(0)) != nullptr ? 1 : 0);
          break;
        default:
          return false;
      }
    }
    return false;
  }

  // One side holds the same number everywhere, what masked scores are replaced by; the scores are
  // the other side, seen where the predicate chooses that. Several masks must use one number, which
  // may be no NaN and no +infinity: those would spread to the whole row.
  bool read_select(Instruction*& at) {
    const int side = splat_value(*at->operand(1)) != nullptr ? 2 : 1;
    const ir::Literal* fill = splat_value(*at->operand(3 - side));
    if (fill == nullptr || !at->operand(0)->shape().is_array() ||
        at->operand(0)->shape().rank() != at->shape().rank()) {
      return false;
    }
    const auto number = static_cast<float>(fill->at(0));
    if (!selects_.empty() && number != scores_.form.fill) return false;
    if (std::isnan(number) || number == std::numeric_limits<float>::infinity()) return false;
    scores_.form.fill = number;
    selects_.push_back({at->operand(0), side == 1, places_});
    scores_.predicates.emplace_back(at->operand(0), side == 1);
    at = at->operand(side);
    return true;
  }

  // Names the exponential's dims: batch dims 0, 1, ..., then the queries', then the keys'. A dot's
  // result has its batch dims first, then the free dim of the left side, then that of the right.
  //
  // Example: the dot makes [heads, keys, queries], because the keys are on its left, and a
  // transpose by {0,2,1} makes it the scores. Going back through it, `places_` is (0,2,1): the
  // dot's dim 1 stands for dim 2 of the exponential. If the maximum runs along dim 2, that is the
  // keys' dim, its label is batch + 1 = 2, and as it is not the dot's last dim, the keys are the
  // left side.
  bool label_dot() {
    const ir::DotDimensions& d = *dot_->attributes().dot;
    const auto batch = static_cast<int>(d.lhs_batch.size());
    const int rank = dot_->shape().rank();
    if (rank != batch + 2 || d.lhs_contracting.size() != 1 ||
        dot_->operand(0)->shape().rank() != rank || dot_->operand(1)->shape().rank() != rank) {
      return false;
    }
    // Which of the free dims is the keys', in the exponential's places.
    int key_dim = -1;
    for (int i = 0; i < rank; ++i) {
      if (places_[at(i)] == key_place_) key_dim = i;
    }
    if (key_dim < batch) return false;
    scores_.batch = batch;
    scores_.labels.assign(at(rank), 0);
    scores_.sizes.assign(at(rank), 0);
    for (int i = 0; i < rank; ++i) {
      const int label = i < batch ? i : i == key_dim ? batch + 1 : batch;
      scores_.labels[at(places_[at(i)])] = label;
      scores_.sizes[at(label)] = dot_->shape().dim(i);
    }
    const bool keys_right = key_dim == rank - 1;
    scores_.query = side_of_dot(keys_right ? 0 : 1);
    scores_.key = side_of_dot(keys_right ? 1 : 0);
    scores_.form.scale = static_cast<float>(scale_);
    return std::isfinite(scores_.form.scale);
  }

  // The side's dims in the order that the kernel takes: batch dims, the free one, the summed one.
  AttentionArray side_of_dot(int side) const {
    const ir::DotDimensions& d = *dot_->attributes().dot;
    ir::DimOrder order = side == 0 ? d.lhs_batch : d.rhs_batch;
    const std::int64_t contracting = (side == 0 ? d.lhs_contracting : d.rhs_contracting)[0];
    for (std::int64_t i = 0; i < dot_->operand(side)->shape().rank(); ++i) {
      if (i != contracting && std::find(order.begin(), order.end(), i) == order.end()) {
        order.push_back(i);
        break;
      }
    }
    order.push_back(contracting);
    return stored_array(dot_->operand(side), std::move(order));
  }

  DimLabels relabel(const Places& places) const {
    DimLabels labels;
    for (const int place : places) labels.push_back(scores_.labels[at(place)]);
    return labels;
  }

  // The array behind a broadcast and the labels of its dims; false unless they ascend.
  static bool unspread(Instruction*& value, const DimLabels& labels,
                       std::vector<std::int64_t>& dims) {
    dims.assign(labels.begin(), labels.end());
    while (value->opcode() == Opcode::broadcast) {
      std::vector<std::int64_t> inner;
      for (const std::int64_t d : value->attributes().dimensions) {
        inner.push_back(dims[at(d)]);
      }
      dims = std::move(inner);
      value = value->operand(0);
    }
    return std::is_sorted(dims.begin(), dims.end());
  }

  // Seen where the predicate is `seen_when`. A conjunction may hold the causal part.
  //
  // `a and b`, as what is seen, hides where a or b is false; `a or b`, as what is hidden, hides
  // where either is true: in both cases a and b are masks of their own. Causal parts become an
  // offset, of which the smallest hides most; of the others the kernel takes one array. With two
  // such parts the predicate stays one array as it is, its causal part included.
  bool add_mask(Instruction& predicate, bool seen_when, const DimLabels& labels) {
    std::vector<Instruction*> parts = {&predicate};
    std::vector<DimLabels> part_labels = {labels};
    Instruction* rest = nullptr;
    std::optional<std::int64_t> causal = scores_.form.causal;
    while (!parts.empty()) {
      Instruction* part = parts.back();
      const DimLabels at = part_labels.back();
      parts.pop_back();
      part_labels.pop_back();
      if (const auto offset =
              causal_offset(*part, seen_when, at, scores_.query_label(), scores_.key_label())) {
        causal = std::min(*offset, causal.value_or(*offset));
        continue;
      }
      const Opcode joint = seen_when ? Opcode::and_ : Opcode::or_;
      if (part->opcode() == joint && parts.size() < 4) {
        for (Instruction* operand : part->operands()) {
          parts.push_back(operand);
          part_labels.push_back(at);
        }
        continue;
      }
      if (rest != nullptr) return take_mask(predicate, seen_when, labels);
      rest = part;
    }
    if (rest != nullptr && !take_mask(*rest, seen_when, labels)) return false;
    scores_.form.causal = causal;
    return true;
  }

  bool take_mask(Instruction& predicate, bool seen_when, const DimLabels& labels) {
    if (scores_.mask != nullptr) return false;
    Instruction* mask = &predicate;
    std::vector<std::int64_t> dims;
    if (!unspread(mask, labels, dims)) return false;
    scores_.mask = mask;
    scores_.mask_is_negated = !seen_when;
    scores_.form.mask = dims;
    return true;
  }

  bool add_bias() {
    std::vector<std::int64_t> dims;
    Instruction* bias = bias_;
    if (!unspread(bias, relabel(bias_places_), dims)) return false;
    const Instruction* number = through_conversions(bias);
    const ir::DType dtype = number->shape().dtype();
    if (dtype != ir::DType::f32 && dtype != ir::DType::bf16 && dtype != ir::DType::f16) {
      return false;
    }
    if (bias->shape().dtype() == ir::DType::f32 && bias->opcode() == Opcode::convert) {
      bias = through_conversions(bias);
    }
    scores_.bias = bias;
    scores_.form.bias = dims;
    return true;
  }

  AttentionScores scores_;
  Instruction* top_ = nullptr;  // the scores
  Instruction* dot_ = nullptr;
  Instruction* bias_ = nullptr;
  Places places_, bias_places_;
  std::vector<Select> selects_;
  double scale_ = 1;
  int key_place_ = -1;
};

}  // namespace

bool is_float_conversion(const Instruction& value) {
  const auto fits = [](const Instruction& x) {
    return is_floating(x.shape().dtype()) && x.shape().dtype() != ir::DType::f64;
  };
  return value.opcode() == Opcode::convert && fits(value) && fits(*value.operand(0));
}

DimLabels transposed(const DimLabels& labels, const Instruction& transpose) {
  DimLabels result;
  for (const std::int64_t d : transpose.attributes().dimensions) {
    result.push_back(labels[at(d)]);
  }
  return result;
}

AttentionArray stored_array(Instruction* value, ir::DimOrder order) {
  for (;;) {
    if (value->opcode() == Opcode::transpose) {
      for (std::int64_t& d : order) {
        d = value->attributes().dimensions[at(d)];
      }
    } else if (!is_float_conversion(*value) || value->shape().dtype() != ir::DType::f32 ||
               ir::dtype_bytes(value->operand(0)->shape().dtype()) >= 4) {
      return {value, std::move(order)};
    }
    value = value->operand(0);
  }
}

std::optional<AttentionScores> match_attention_scores(Instruction& exponential) {
  return ScoresMatcher(exponential).run();
}

}  // namespace plimsoll::passes
