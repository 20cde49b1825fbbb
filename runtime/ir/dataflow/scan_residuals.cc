// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/dataflow/scan_residuals.h"

#include <algorithm>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/ir/dataflow/induction_variables.h"
#include "runtime/ir/dataflow/views.h"
#include "runtime/ir/fusions/in_place.h"

namespace plimsoll::ir {
namespace {

constexpr int kMostResidualVisits = 1'000;

bool is_stacked(const Shape& shape) {
  return shape.is_array() && shape.rank() > 0 && shape.element_count() > 0 && is_row_major(shape);
}

// One slice of `residual` along its first dimension, all of it.
bool is_slice(const Dims& slice, const Dims& residual) {
  if (slice.size() != residual.size() || slice[0] != 1) return false;
  for (int d = 1; d < residual.size(); ++d) {
    if (slice[d] != residual[d]) return false;
  }
  return true;
}

// What makes an array a stacked scan residual: the loop touches it one slice along the first
// dimension a round, by an index that is an affine function of the round, and in no other way.
// Example: the body of a forward scan holds
//   s' = dynamic-update-slice(s, h, i, 0, 0)
// with s f32[100, 64, 128], h f32[1, 64, 128], i the round: it writes slice i in round i, each
// slice once, and s' comes out as the next state. The backward scan holds dynamic-slice(s, 99 - i,
// 0, 0) and hands s on unchanged.
//
// Followed are all users of the leaf, in the condition (which must not look) and in the body:
// tuples and their elements hand it on, fusions are looked into, views that keep the first
// dimension count as the array. Whatever else reads it makes it an ordinary value.
class Finder {
 public:
  Finder(const Instruction& loop, int leaf) : loop_(loop), leaf_(leaf) {}

  std::optional<ResidualAccess> run() {
    if (loop_.opcode() != Opcode::while_) return std::nullopt;
    const Shape& shape = *leaves(loop_.shape())[at(leaf_)];
    if (!is_stacked(shape)) return std::nullopt;
    found_.slices = shape.dim(0);
    found_.slice_bytes = shape.byte_size() / found_.slices;
    found_.writes = !passes_through(loop_, leaf_);
    // The condition must not look at it.
    if (!follow(*loop_.while_condition()->parameters()[0], leaf_, /*body=*/false)) {
      return std::nullopt;
    }
    if (!follow(*loop_.while_body()->parameters()[0], leaf_, /*body=*/true)) return std::nullopt;
    if (found_.by.empty() || (found_.writes && !write_is_result())) return std::nullopt;
    return covers() ? std::optional(found_) : std::nullopt;
  }

 private:
  // The users of leaf `leaf` of `value` only hand it on, or touch it as a residual.
  bool follow(const Instruction& value, int leaf, bool body) {
    for (const Instruction* user : value.users()) {
      if (++visits_ > kMostResidualVisits) return false;
      switch (user->opcode()) {
        case Opcode::get_tuple_element: {
          const int first =
              leaf_offset(value.shape(), static_cast<int>(user->attributes().tuple_index));
          const int count = leaf_count(user->shape());
          if (leaf < first || leaf >= first + count) continue;
          if (!follow(*user, leaf - first, body)) return false;
          break;
        }
        case Opcode::tuple:
          // In a loop that leaves it alone, where it comes out was looked at.
          if (found_.writes || !user->is_root()) return false;
          break;
        default:
          if (!body || !value.shape().is_array() || !touch(*user, value)) return false;
      }
    }
    return true;
  }

  bool touch(const Instruction& user, const Instruction& residual) {
    if (user.opcode() == Opcode::reshape || user.opcode() == Opcode::bitcast) {
      // A view of all slices: the first dimension stays.
      return !found_.writes && is_view(user) && is_stacked(user.shape()) &&
             user.shape().dim(0) == found_.slices &&
             user.shape().dtype() == residual.shape().dtype() && follow(user, 0, true);
    }
    fusions_.clear();
    if (found_.writes ? !writes_slice(user, residual) : !reads_slice(user, residual)) return false;
    if (std::find(found_.by.begin(), found_.by.end(), &user) == found_.by.end()) {
      found_.by.push_back(&user);
    }
    return true;
  }

  static bool is_only_operand(const Instruction& user, const Instruction& value, int number) {
    for (int i = 0; i < user.operand_count(); ++i) {
      if ((user.operand(i) == &value) != (i == number)) return false;
    }
    return true;
  }

  bool writes_slice(const Instruction& user, const Instruction& residual) {
    if (!found_.by.empty()) return false;
    if (user.opcode() == Opcode::fusion) {
      const auto place = std::find(user.operands().begin(), user.operands().end(), &residual);
      const auto number = static_cast<int>(place - user.operands().begin());
      const Instruction& inner = *user.to_apply()->parameters()[at(number)];
      const Instruction& root = *user.to_apply()->root();
      if (!is_only_operand(user, residual, number) || !may_reuse_operand(user, number, 0) ||
          root.opcode() != Opcode::dynamic_update_slice || root.operand(0) != &inner ||
          inner.users().size() != 1) {  // more: what it replaces is read
        return false;
      }
      fusions_.push_back(&user);
      return is_update(root, inner);
    }
    return user.opcode() == Opcode::dynamic_update_slice && may_reuse_operand(user, 0, 0) &&
           is_update(user, residual);
  }

  bool is_update(const Instruction& update, const Instruction& residual) {
    return is_only_operand(update, residual, 0) && is_row_major(update.shape()) &&
           is_slice(update.operand(1)->shape().dims(), residual.shape().dims()) &&
           add_index(update, 2);
  }

  bool reads_slice(const Instruction& user, const Instruction& residual) {
    if (user.opcode() == Opcode::dynamic_slice) {
      return is_only_operand(user, residual, 0) &&
             is_slice(user.shape().dims(), residual.shape().dims()) && add_index(user, 1);
    }
    if (user.opcode() != Opcode::fusion) return false;
    fusions_.push_back(&user);
    for (int i = 0; i < user.operand_count(); ++i) {
      if (user.operand(i) != &residual) continue;
      const Instruction& inner = *user.to_apply()->parameters()[at(i)];
      if (inner.users().empty() || inner.is_root()) return false;
      for (const Instruction* reader : inner.users()) {
        if (++visits_ > kMostResidualVisits || !reads_slice(*reader, inner)) return false;
      }
    }
    fusions_.pop_back();
    return true;
  }

  // The slice that is touched, round by round: as all others touch it.
  bool add_index(const Instruction& access, int first_index) {
    if (access.operand_count() <= first_index) return false;
    // Both take their indices one by one or as one vector.
    const Instruction& index = *access.operand(first_index);
    if (!index.shape().is_scalar()) return false;
    auto values = scalar_by_round(loop_, index, fusions_);
    if (!values) return false;
    if (indices_ && *indices_ != *values) return false;
    indices_ = std::move(values);
    return true;
  }

  bool write_is_result() const {
    const Instruction* value = loop_.while_body()->root();
    int leaf = leaf_;
    const Instruction* holder = nullptr;
    while (value->opcode() == Opcode::tuple) {
      int k = 0;
      while (leaf >= leaf_count(value->operand(k)->shape())) {
        leaf -= leaf_count(value->operand(k)->shape());
        ++k;
      }
      holder = value;
      value = value->operand(k);
    }
    if (value != found_.by.front() || holder == nullptr) return false;
    // Nobody else sees it with some slices not yet written.
    return value->users().size() == 1 &&
           std::count(holder->operands().begin(), holder->operands().end(), value) == 1;
  }

  // Every index lies in the residual and is an affine function of the round.
  //
  // HLO clamps indices, so that an index outside would touch another slice than it says. A loop
  // that writes must write every slice: what it left out would be what the array held before, which
  // lies nowhere once the residual is sliced.
  bool covers() {
    const std::vector<std::int64_t>& index = *indices_;
    found_.rounds = static_cast<std::int64_t>(index.size());
    if (index.size() < 2) return false;
    found_.first = index[0];
    found_.step = index[1] - index[0];
    for (std::size_t n = 0; n < index.size(); ++n) {
      if (index[n] < 0 || index[n] >= found_.slices ||
          index[n] != found_.first + static_cast<std::int64_t>(n) * found_.step) {
        return false;
      }
    }
    if (found_.step == 0) return false;
    return !found_.writes || found_.rounds == found_.slices;
  }

  const Instruction& loop_;
  const int leaf_;
  ResidualAccess found_;
  std::vector<const Instruction*> fusions_;
  std::optional<std::vector<std::int64_t>> indices_;
  int visits_ = 0;
};

}  // namespace

std::optional<ResidualAccess> find_residual_access(const Instruction& loop, int leaf) {
  return Finder(loop, leaf).run();
}

}  // namespace plimsoll::ir
