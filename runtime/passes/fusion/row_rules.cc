// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/fusion/row_rules.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/fusion/fusion_rules.h"

namespace plimsoll::passes {

using ir::Dims;
using ir::Instruction;
using ir::Opcode;

namespace {

// Side by side in the sum of a column (jit/graph/reduction_shape.h).
constexpr std::int64_t kColumnLanes = 4;

bool is_plain(const Instruction& reduce) {
  return reduce.opcode() == Opcode::reduce && reduce.operand_count() == 2 &&
         ir::plain_operation(*reduce.to_apply()).has_value();
}

std::optional<Rows> cut(const Dims& dims, const std::vector<std::int64_t>& reduced) {
  Rows result{1, 1};
  for (int d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    if (std::find(reduced.begin(), reduced.end(), d) != reduced.end()) {
      result.minor *= dims[d];
    } else if (result.minor > 1) {
      return std::nullopt;
    } else {
      result.rows *= dims[d];
    }
  }
  if (result.minor < 2 || result.rows < 1) return std::nullopt;
  return result;
}

// Which bodies can run row by row, in several sweeps over each row.
//
// The depth of a value is the number of reductions on the longest way from it to an input: in x ->
// max -> exp(x - max) -> sum -> exp / sum, x has depth 0, max and exp depth 1, sum and the quotient
// depth 2. Sweep number d over a row can compute what has depth d, and the reductions of it. So
// what must hold is:
// - all reductions cut the same rows: equal numbers of rows, equal lengths (`cut`: the reduced dims
//   are the innermost ones, leaving those of size one out of account);
// - a value of depth > 0 is read at its own place of its own row only (keeps_place): element (r, i)
//   of a result may need element (r, i) of it, or its row's value r, and never an element of
//   another row, which a different worker may not have computed yet;
// - what follows from a reduction along columns has one element a column, at its own place, and no
//   row needs it: it is known when all rows are done, and so nothing of a row is then;
// - a value of depth 0 may be read anywhere, for it can be computed from the inputs again; but not
//   if that is more than a little work and happens for each reader (kLittleWork);
// - some reduction feeds another or a full result (`is_chained_`): otherwise an ordinary reduction
//   does.
//
// The sweeps pay if a row's arrays fit into the cache (row_bytes) and there are rows enough to
// share out among the workers (pays_off).
class RowExaminer {
 public:
  RowExaminer(std::span<Instruction* const> members, std::span<Instruction* const> roots)
      : members_(members), roots_(roots) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      known_.emplace(members[i], State{});
    }
  }

  std::optional<RowProfile> run() {
    if (!find_rows() || !measure_depths() || !is_chained_) return std::nullopt;
    for (Instruction* root : roots_) {
      if (!root->shape().is_array()) return std::nullopt;
      const std::int64_t count = root->shape().element_count();
      if (count != full_ && !is_of_columns(*root) && count != profile_.rows.rows) {
        return std::nullopt;
      }
      use(*root, true);
      if (count == full_) add_bytes(*root);
    }
    for (Instruction* member : members_) {
      if (!visit(*member)) return std::nullopt;
    }
    profile_.input_count = static_cast<int>(inputs_.size());
    return profile_;
  }

 private:
  struct State {
    int depth = 0;  // reduces on the longest way to an input
    bool used = false;
    bool elsewhere = false;   // read at another place than the row's own
    bool of_columns = false;  // follows from a reduction along columns, or is one
  };

  bool find_rows() {
    for (const Instruction* member : members_) {
      if (member->opcode() != Opcode::reduce) continue;
      auto rows = rows_of(*member);
      if (rows) {
        reduces_rows_ = true;
      } else {
        rows = columns_of(*member);
        if (!rows || rows->rows < 2) return false;
        known_.at(member).of_columns = true;
        profile_.column_bytes += kColumnLanes * std::max(4, dtype_bytes(member->shape().dtype()));
      }
      if (full_ > 0 && !(*rows == profile_.rows)) return false;
      profile_.rows = *rows;
      full_ = rows->rows * rows->minor;
    }
    return reduces_rows_;
  }

  bool measure_depths() {
    for (auto it = members_.rbegin(); it != members_.rend(); ++it) {
      const Instruction& member = **it;
      State& state = known_.at(&member);
      for (const Instruction* operand : member.operands()) {
        const auto found = known_.find(operand);
        if (found == known_.end()) continue;
        state.depth = std::max(state.depth, found->second.depth);
        if (!found->second.of_columns) continue;
        if (member.opcode() == Opcode::reduce) return false;
        state.of_columns = true;
      }
      if (state.of_columns && member.opcode() != Opcode::reduce) {
        if (!follows_columns_only(member)) return false;
        continue;
      }
      const bool reduces = member.opcode() == Opcode::reduce;
      if (state.depth > 0 && (reduces || is_full(member))) is_chained_ = true;
      if (reduces) {
        const auto initial = known_.find(member.operand(1));
        if (initial != known_.end() && initial->second.depth > 0) return false;
        if (!state.of_columns) ++state.depth;
      }
    }
    return true;
  }

  // One element a column, and none of a row's results with it.
  bool follows_columns_only(const Instruction& member) const {
    if (!member.shape().is_array() || member.shape().element_count() != profile_.rows.minor) {
      return false;
    }
    for (const Instruction* operand : member.operands()) {
      const auto found = known_.find(operand);
      if (found != known_.end() && !found->second.of_columns && found->second.depth > 0) {
        return false;
      }
    }
    return keeps_place(member);
  }

  bool is_of_columns(const Instruction& value) const {
    const auto found = known_.find(&value);
    return found != known_.end() && found->second.of_columns;
  }

  bool is_full(const Instruction& value) const {
    return value.shape().is_array() && value.shape().element_count() == full_;
  }
  bool is_row_sized(const Instruction& value) const {
    return value.shape().is_array() && value.shape().element_count() == profile_.rows.rows;
  }

  // A row's value for all its elements.
  bool spreads_rows(const Instruction& broadcast) const {
    const auto& mapped = broadcast.attributes().dimensions;
    if (!std::is_sorted(mapped.begin(), mapped.end()) || !is_full(broadcast)) return false;
    std::vector<std::int64_t> others;
    for (int d = 0; d < broadcast.shape().rank(); ++d) {
      if (std::find(mapped.begin(), mapped.end(), d) == mapped.end()) others.push_back(d);
    }
    const auto rows = cut(broadcast.shape().dims(), others);
    return rows && *rows == profile_.rows;
  }

  // Elements come from the operands' at the same place of a row, or from the row's own value.
  bool keeps_place(const Instruction& member) const {
    switch (ir::op_info(member.opcode()).loop_role) {
      case ir::LoopRole::element:
      case ir::LoopRole::viewed:
        return true;
      case ir::LoopRole::repeated: {
        const auto& mapped = member.attributes().dimensions;
        return (member.shape().element_count() == member.operand(0)->shape().element_count() &&
                std::is_sorted(mapped.begin(), mapped.end())) ||
               (is_row_sized(*member.operand(0)) && spreads_rows(member));
      }
      default:
        return false;
    }
  }

  // Movements whose rows run along the operand's.
  static bool reads_along_rows(const Instruction& member) {
    switch (member.opcode()) {
      case Opcode::constant:
      case Opcode::iota:
      case Opcode::broadcast:
      case Opcode::slice:
      case Opcode::dynamic_slice:
        return true;
      case Opcode::transpose:
        return member.attributes().dimensions.empty() ||
               member.attributes().dimensions.back() == member.shape().rank() - 1;
      default:
        return false;
    }
  }

  bool visit(Instruction& member) {
    const State state = known_.at(&member);
    if (!state.used) return false;
    if (member.opcode() == Opcode::reduce) {
      if (state.elsewhere) return false;
      use(*member.operand(0), true);
      use(*member.operand(1), false);
      return true;
    }
    if (state.of_columns) {
      for (Instruction* operand : member.operands()) use(*operand, is_of_columns(*operand));
      return true;
    }
    const bool stays = keeps_place(member);
    if (!stays && !reads_along_rows(member)) return false;
    const bool sized = is_full(member) || is_row_sized(member);
    if (state.depth > 0 && (!stays || !sized || state.elsewhere)) return false;
    // At another place, or with fewer elements than there are rows, it is computed again and again.
    constexpr double kLittleWork = 1;
    const bool once = sized && !state.elsewhere;
    if (!once && !is_free(member) && ir::op_info(member.opcode()).work > kLittleWork) return false;
    for (Instruction* operand : member.operands()) use(*operand, once && stays);
    return true;
  }

  void use(Instruction& value, bool in_place) {
    const auto it = known_.find(&value);
    if (it != known_.end()) {
      it->second.used = true;
      it->second.elsewhere = it->second.elsewhere || !in_place;
      return;
    }
    if (value.opcode() == Opcode::constant || !inputs_.insert(&value).second) return;
    if (is_full(value)) add_bytes(value);
  }

  void add_bytes(const Instruction& value) {
    profile_.row_bytes += profile_.rows.minor * dtype_bytes(value.shape().dtype());
  }

  std::span<Instruction* const> members_;
  std::span<Instruction* const> roots_;
  std::unordered_map<const Instruction*, State> known_;
  std::unordered_set<const Instruction*> inputs_;
  std::int64_t full_ = 0;
  bool reduces_rows_ = false, is_chained_ = false;
  RowProfile profile_;
};

}  // namespace

std::optional<Rows> rows_of(const Instruction& reduce) {
  if (!is_plain(reduce)) return std::nullopt;
  return cut(reduce.operand(0)->shape().dims(), reduce.attributes().dimensions);
}

std::optional<Rows> columns_of(const Instruction& reduce) {
  if (!is_plain(reduce)) return std::nullopt;
  const auto& reduced = reduce.attributes().dimensions;
  std::vector<std::int64_t> kept;
  for (int d = 0; d < reduce.operand(0)->shape().rank(); ++d) {
    if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) kept.push_back(d);
  }
  return cut(reduce.operand(0)->shape().dims(), kept);
}

std::optional<RowProfile> examine_row_fusion(std::span<Instruction* const> members,
                                             std::span<Instruction* const> roots) {
  return RowExaminer(members, roots).run();
}

bool pays_off(const RowProfile& profile) {
  constexpr std::int64_t kCacheBytes = std::int64_t{512} << 10;
  constexpr std::int64_t kFewRows = 16, kFewElements = 32768;
  // Columns are cut into blocks of at least 256 rows, each by one thread, whose stack holds what is
  // kept of columns; rows of a few elements, side by side in a vector, keep nothing of them.
  constexpr std::int64_t kFewBlockRows = 1024, kStackBytes = std::int64_t{128} << 10;
  constexpr std::int64_t kShortRow = 8;
  if (profile.row_bytes > kCacheBytes) return false;
  const bool is_small = profile.rows.rows * profile.rows.minor <= kFewElements;
  if (profile.column_bytes > 0) {
    return (is_small || profile.rows.rows >= kFewBlockRows) && profile.rows.minor > kShortRow &&
           profile.column_bytes * profile.rows.minor <= kStackBytes;
  }
  return profile.rows.rows >= kFewRows || is_small;
}

}  // namespace plimsoll::passes
