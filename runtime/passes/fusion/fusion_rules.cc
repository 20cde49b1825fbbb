// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/fusion/fusion_rules.h"

#include <algorithm>

#include "runtime/base/index.h"
#include "runtime/base/pointer_map.h"
#include "runtime/ir/fusions/in_place.h"
#include "runtime/passes/fusion/fusion_price.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::LoopRole;
using ir::Opcode;
using ir::Shape;

namespace {

std::int64_t element_count(const Instruction& instruction) {
  return ir::first_leaf(instruction.shape()).element_count();
}

bool is_simple_reducer(const Computation& reducer) {
  return std::all_of(reducer.instructions().begin(), reducer.instructions().end(),
                     [&](const auto& i) {
                       return i->opcode() == Opcode::parameter || i->opcode() == Opcode::constant ||
                              is_elementwise(i->opcode()) ||
                              (i->opcode() == Opcode::tuple && i.get() == reducer.root());
                     });
}

bool is_fusible_opcode(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::constant: {
      const auto& literal = instruction.attributes().literal;
      return literal != nullptr && !literal->is_elided() &&
             (instruction.shape().is_scalar() || literal->is_splat());
    }
    case Opcode::gather:
      return instruction.attributes().gather != nullptr;
    case Opcode::bitcast:
      return instruction.shape().layout() == nullptr &&
             instruction.operand(0)->shape().layout() == nullptr &&
             instruction.shape().dtype() == instruction.operand(0)->shape().dtype();
    case Opcode::bitcast_convert:
      return dtype_bytes(instruction.shape().dtype()) ==
             dtype_bytes(instruction.operand(0)->shape().dtype());
    case Opcode::reduce:
      return is_simple_reducer(*instruction.to_apply());
    default:
      return op_info(instruction.opcode()).loop_role != LoopRole::never;
  }
}

// One result element from the operands' elements at the same row-major position.
bool keeps_position(const Instruction& instruction) {
  switch (op_info(instruction.opcode()).loop_role) {
    case LoopRole::element:
    case LoopRole::viewed:
      return true;
    case LoopRole::repeated: {
      const auto& dimensions = instruction.attributes().dimensions;
      return std::is_sorted(dimensions.begin(), dimensions.end()) &&
             element_count(instruction) == element_count(*instruction.operand(0));
    }
    default:
      return false;
  }
}

bool is_epilogue_operation(const Instruction& instruction) {
  switch (op_info(instruction.opcode()).loop_role) {
    case LoopRole::element:
    case LoopRole::created:
    case LoopRole::viewed:
    case LoopRole::repeated:
      return true;
    default:
      return false;
  }
}

// Reading a transposed array jumps through memory; more than one such array at a time is dearer
// than writing the value once and reading that.
bool reads_many_arrays(const Instruction& instruction) {
  return large_operands(instruction).size() > 1;
}

// The last dimension along which there is more than one element; -1 where there is one element.
int innermost(const ir::Dims& dims) {
  int last = dims.size() - 1;
  while (last >= 0 && dims[last] == 1) --last;
  return last;
}

// The result is the same all along its innermost dimension.
bool repeats_along_rows(const Instruction& broadcast) {
  const int last = innermost(broadcast.shape().dims());
  const auto& dimensions = broadcast.attributes().dimensions;
  const ir::Dims& dims = broadcast.operand(0)->shape().dims();
  for (int i = 0; i < dims.size(); ++i) {
    if (dimensions[at(i)] == last && dims[i] != 1) return false;
  }
  return last >= 0;
}

// What a kernel stores for one of its results, of an update as it is made: a slice that is written
// to a stack has a dimension of one more.
const Shape& stored_shape(const Instruction& root) {
  if (root.opcode() != Opcode::dynamic_update_slice) return ir::first_leaf(root.shape());
  const Instruction* made = root.operand(1);
  while (made->opcode() == Opcode::reshape &&
         ir::differ_in_ones_only(made->shape().dims(), made->operand(0)->shape().dims())) {
    made = made->operand(0);
  }
  return made->shape();
}

// Goes over the members from the roots to the inputs and works out, for every value, by how many
// different index expressions it is read and how often it is computed for each. Members come users
// before operands, so that all uses of a value are known when its turn comes: `visit` turns them
// into uses of its operands, `use` counts what is read from memory where the operand is no member.
//
// Example: `s = broadcast(exp(x)), x: f32[8], s: f32[100,8]; r = s * y`. The root r is used by the
// loop's own index, 800 times; it keeps positions, so s and y are used likewise. A broadcast
// changes the index: exp(x) gets an indexing of its own with 800 evaluations, that is, 100 for each
// of its elements. Were it broadcast along rows instead (s: f32[8,100]), it would be the same all
// along the innermost dimension: 8 evaluations, once a row.
//
// The work is linear in the members' operands and uses; kMaxUses bounds the latter, as each use of
// a member may become a use of each operand. Passes ask for every kernel that they think of, so
// that values are kept by number, and their uses in one list.
class Examiner {
 public:
  Examiner(std::span<Instruction* const> members, std::span<Instruction* const> roots,
           const KernelSpeeds& speeds)
      : members_(members),
        roots_(roots),
        numbers_(2 * members.size()),
        price_(speeds),
        uses_of_(members.size()) {
    for (std::size_t i = 0; i < members.size(); ++i) numbers_.emplace(members[i], i);
    uses_of_.reserve(2 * members.size());
    uses_.reserve(2 * members.size());
    indexings_.reserve(members.size());
    profile_.evaluations.reserve(members.size());
  }

  std::optional<FusionProfile> run() {
    if (!place_roots()) return std::nullopt;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (uses_of_[i].count == 0 || !visit(*members_[i], uses_of_[i])) return std::nullopt;
    }
    profile_.input_count = static_cast<int>(uses_of_.size() - members_.size());
    profile_.seconds = price_.seconds();
    profile_.work_seconds = price_.work_seconds();
    profile_.traffic_seconds = price_.traffic_seconds();
    return std::move(profile_);
  }

 private:
  // One way of indexing values. Values that are read in the same way are computed once.
  struct Indexing {
    bool epilogue = false;    // per reduced element
    bool transposed = false;  // strided
    bool lanes = true;        // the value's last dimension is the innermost loop
  };
  struct Use {
    int indexing;
    double evaluations;
    int next;  // of the same value; kNone behind the last
  };
  // Of one value, in `uses_`.
  struct Uses {
    std::size_t count = 0;
    int first = kNone, last = kNone;
  };
  static constexpr int kNone = -1;
  static constexpr int kResults = 0;  // the position where the kernel stands, or reduces to
  static constexpr int kReduced = 1;  // the position in the reduced array
  static constexpr std::size_t kMaxUses = 6;

  // The loop's extent is what all roots have in common: their dims, or, where there is a reduce,
  // the dims of the array that it reduces. In the latter case a root stands either at the reduced
  // array's positions or behind the reduce, at the positions of its result.
  bool place_roots() {
    for (const Instruction* member : members_) {
      if (member->opcode() == Opcode::reduce) {
        first_reduce_ = member;
        break;
      }
    }
    profile_.is_reduction = first_reduce_ != nullptr;
    indexings_.push_back(
        {.epilogue = profile_.is_reduction, .transposed = false, .lanes = !profile_.is_reduction});
    indexings_.push_back({});
    profile_.result_count =
        (profile_.is_reduction ? ir::first_leaf(first_reduce_->shape()) : stored_shape(*roots_[0]))
            .element_count();
    profile_.loop_dims = profile_.is_reduction ? first_reduce_->operand(0)->shape().dims()
                                               : stored_shape(*roots_[0]).dims();
    for (const Instruction* root : roots_) {
      const Shape& shape = stored_shape(*root);
      const std::int64_t count = shape.element_count();
      if (root->shape().is_tuple()) {
        for (const Shape* leaf : ir::leaves(root->shape())) price_.write(*leaf);
      } else {
        price_.write(shape);
      }
      if (profile_.is_reduction && shape.dims() == profile_.loop_dims) {
        use(*root, kReduced, static_cast<double>(count));
      } else if (profile_.is_reduction ? count == profile_.result_count
                                       : shape.dims() == profile_.loop_dims) {
        use(*root, kResults, static_cast<double>(count));
      } else {
        return false;
      }
    }
    return true;
  }

  bool visit(const Instruction& member, const Uses uses) {
    if (uses.count > kMaxUses) return false;
    double evaluations = 0;
    bool epilogue = false, transposed = false;
    for (int at_use = uses.first; at_use != kNone; at_use = uses_[at(at_use)].next) {
      const Use& u = uses_[at(at_use)];
      evaluations += u.evaluations;
      epilogue = epilogue || indexings_[at(u.indexing)].epilogue;
      transposed = transposed || indexings_[at(u.indexing)].transposed;
    }
    price_.compute(member, member.opcode() == Opcode::reduce
                               ? static_cast<double>(element_count(*member.operand(0)))
                               : evaluations);
    evaluations /= static_cast<double>(element_count(member));
    profile_.evaluations.push_back(evaluations);
    if (evaluations > kMaxEvaluations && !is_free(member)) return false;

    if (member.opcode() == Opcode::reduce) return visit_reduce(member, uses);
    if (epilogue && !is_epilogue_operation(member)) return false;
    if (transposed && is_elementwise(member.opcode()) && reads_many_arrays(member)) return false;
    if (member.opcode() == Opcode::dynamic_update_slice) return visit_update(member);
    // `use` may add indexings and uses of operands, never of this member.
    for (int at_use = uses.first; at_use != kNone; at_use = uses_[at(at_use)].next) {
      pass_on(member, uses_[at(at_use)]);
    }
    return true;
  }

  // A reduce has to be read at the results' positions only, as its sum is there when its row is
  // done; all reduces of the kernel go over one loop in the same way. The values to start from are
  // scalars that are computed once.
  bool visit_reduce(const Instruction& reduce, const Uses& uses) {
    const auto sorted = [](std::vector<std::int64_t> values) {
      std::sort(values.begin(), values.end());
      return values;
    };
    if (uses.count != 1 || uses_[at(uses.first)].indexing != kResults ||
        !(reduce.operand(0)->shape().dims() == profile_.loop_dims) ||
        sorted(reduce.attributes().dimensions) != sorted(first_reduce_->attributes().dimensions)) {
      return false;
    }
    const int arrays = reduce.operand_count() / 2;
    for (int i = 0; i < reduce.operand_count(); ++i) {
      if (i < arrays) {
        use(*reduce.operand(i), kReduced, static_cast<double>(element_count(*reduce.operand(i))));
      } else {
        use(*reduce.operand(i), add_indexing({.lanes = false}), 1);
      }
    }
    return true;
  }

  // An update in place is what its kernel makes, by itself or with others, and the array that it
  // updates must come from memory: a member's value would have to be written in full first. Of that
  // array it reads nothing.
  bool visit_update(const Instruction& update) {
    if (profile_.is_reduction || is_member(*update.operand(0)) ||
        std::find(roots_.begin(), roots_.end(), &update) == roots_.end()) {
      return false;
    }
    use(*update.operand(0), add_indexing({}), 0);
    use(*update.operand(1), kResults, static_cast<double>(element_count(*update.operand(1))));
    for (int i = 2; i < update.operand_count(); ++i) {
      use(*update.operand(i), add_indexing({.lanes = false}), 1);
    }
    return true;
  }

  void pass_on(const Instruction& member, const Use u) {
    const double count = static_cast<double>(element_count(member));
    const Indexing mine = indexings_[at(u.indexing)];
    for (int i = 0; i < member.operand_count(); ++i) {
      const Instruction& operand = *member.operand(i);
      const double operand_count = static_cast<double>(element_count(operand));
      if (keeps_position(member) && operand_count == count) {
        use(operand, u.indexing, u.evaluations);
        continue;
      }
      Indexing other = mine;
      double evaluations = u.evaluations;
      switch (member.opcode()) {
        case Opcode::transpose:
          other.transposed =
              mine.transposed || member.attributes().dimensions.back() != member.shape().rank() - 1;
          other.lanes = mine.lanes && !other.transposed;
          break;
        case Opcode::broadcast:
          if (operand_count == 1) {
            other.lanes = false;
            evaluations = 1;  // before all loops
          } else if (mine.lanes && repeats_along_rows(member)) {
            const ir::Dims& dims = member.shape().dims();
            other.lanes = false;
            evaluations /= static_cast<double>(dims[innermost(dims)]);
          }
          break;
        case Opcode::gather:
          if (i == 1) {
            // An index is read once a row where the rows are slices.
            const auto& offsets = member.attributes().gather->offset_dims;
            const int last = innermost(member.shape().dims());
            const bool rows =
                mine.lanes && std::find(offsets.begin(), offsets.end(), last) != offsets.end();
            const double vectors = rows ? static_cast<double>(member.shape().dim(last)) : 1;
            const auto& map = member.attributes().gather->start_index_map;
            evaluations *= static_cast<double>(map.size()) / vectors;
            other.lanes = other.lanes && !rows;
          }
          break;
        case Opcode::dynamic_slice:
          if (i > 0) {
            other.lanes = false;
            evaluations = 1;
          }
          break;
        case Opcode::concatenate:
          evaluations *= operand_count / count;
          break;
        case Opcode::pad:
          if (i == 0) evaluations *= std::min(1.0, operand_count / count);
          break;
        default:
          break;
      }
      use(operand, add_indexing(other), evaluations);
    }
  }

  int add_indexing(Indexing indexing) {
    indexings_.push_back(indexing);
    return static_cast<int>(indexings_.size()) - 1;
  }

  bool is_member(const Instruction& value) const {
    const std::size_t* const number = numbers_.find(&value);
    return number != nullptr && *number < members_.size();
  }

  void use(const Instruction& value, int indexing, double evaluations) {
    std::size_t number = uses_of_.size();
    if (const std::size_t* const known = numbers_.find(&value)) {
      number = *known;
    } else {
      // Constants come along.
      if (value.opcode() == Opcode::constant) return;
      numbers_.emplace(&value, number);
      uses_of_.emplace_back();
    }
    Uses& uses = uses_of_[number];
    for (int known = uses.first; known != kNone; known = uses_[at(known)].next) {
      if (uses_[at(known)].indexing == indexing) return;
    }
    const int added = static_cast<int>(uses_.size());
    (uses.count++ == 0 ? uses.first : uses_[at(uses.last)].next) = added;
    uses.last = added;
    uses_.push_back({indexing, evaluations, kNone});
    if (number < members_.size()) return;
    price_.read(value.shape(), evaluations, indexings_[at(indexing)].transposed);
  }

  std::span<Instruction* const> members_;
  std::span<Instruction* const> roots_;
  PointerMap<Instruction, std::size_t> numbers_;  // of the members in order, then of the inputs
  KernelPrice price_;
  std::vector<Uses> uses_of_;  // by number
  std::vector<Use> uses_;
  std::vector<Indexing> indexings_;
  const Instruction* first_reduce_ = nullptr;
  FusionProfile profile_;
};

}  // namespace

bool is_fusible(const Instruction& instruction) {
  if (!instruction.control_predecessors().empty() || !instruction.control_successors().empty()) {
    return false;
  }
  const bool variadic = instruction.opcode() == Opcode::reduce && instruction.shape().is_tuple();
  if (!instruction.shape().is_array() && !variadic) return false;
  if (element_count(instruction) == 0) return false;
  for (const Instruction* operand : instruction.operands()) {
    if (!operand->shape().is_array() || operand->shape().element_count() == 0) return false;
  }
  return is_fusible_opcode(instruction);
}

bool is_free(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::constant:
    case Opcode::iota:
    case Opcode::broadcast:
    case Opcode::reshape:
    case Opcode::bitcast:
    case Opcode::slice:
      return true;
    default:
      return false;
  }
}

bool is_spread_constant(const Instruction& instruction) {
  return instruction.opcode() == Opcode::broadcast &&
         instruction.operand(0)->opcode() == Opcode::constant;
}

std::size_t fused_size(std::span<Instruction* const> members) {
  return static_cast<std::size_t>(
      std::count_if(members.begin(), members.end(),
                    [](const Instruction* member) { return !is_spread_constant(*member); }));
}

std::vector<Instruction*> large_operands(const Instruction& instruction) {
  std::vector<Instruction*> large;
  for (Instruction* operand : instruction.operands()) {
    if (operand->opcode() == Opcode::broadcast || operand->opcode() == Opcode::iota ||
        operand->opcode() == Opcode::constant || !operand->shape().is_array()) {
      continue;
    }
    if (operand->shape().element_count() >= element_count(instruction) &&
        std::find(large.begin(), large.end(), operand) == large.end()) {
      large.push_back(operand);
    }
  }
  return large;
}

std::optional<FusionProfile> examine_fusion(std::span<Instruction* const> members,
                                            std::span<Instruction* const> roots,
                                            const KernelSpeeds& speeds) {
  return Examiner(members, roots, speeds).run();
}

}  // namespace plimsoll::passes
