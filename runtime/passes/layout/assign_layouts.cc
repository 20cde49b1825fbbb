// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/passes/layout/lay_out_filters.h"
#include "runtime/passes/layout/relaid.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

// One array of a convolution that its kernel walks fastest in `order`.
struct Wish {
  Instruction* value;
  DimensionOrder order;
};

DimensionOrder channels_last(std::int64_t batch, const std::vector<std::int64_t>& spatial,
                             std::int64_t feature) {
  DimensionOrder order = {batch};
  order.insert(order.end(), spatial.begin(), spatial.end());
  order.push_back(feature);
  return order;
}

// Convolutions that differentiation writes for a filter have a window as large as the image and a
// result as large as the filter: what is a batch to the kernel is a feature in their text.
bool is_filter_gradient(const Instruction& convolution) {
  const ir::ConvolutionDimensions& labels = *convolution.attributes().convolution;
  if (convolution.attributes().feature_group_count != 1) return false;
  for (const ir::WindowDimension& w : convolution.attributes().window) {
    if (w.base_dilation != 1 || w.reversal) return false;
  }
  std::int64_t window = 1, positions = 1;
  for (const std::int64_t d : labels.kernel_spatial)
    window *= convolution.operand(1)->shape().dim(static_cast<int>(d));
  for (const std::int64_t d : labels.output_spatial)
    positions *= convolution.shape().dim(static_cast<int>(d));
  return window > positions;
}

std::vector<Wish> wishes_of(Instruction& convolution) {
  const ir::DType dtype = convolution.operand(0)->shape().dtype();
  if (convolution.attributes().convolution == nullptr ||
      (dtype != ir::DType::f32 && dtype != ir::DType::bf16)) {
    return {};
  }
  const ir::ConvolutionDimensions& labels = *convolution.attributes().convolution;
  if (is_filter_gradient(convolution)) {
    return {
        {convolution.operand(0),
         channels_last(labels.input_feature, labels.input_spatial, labels.input_batch)},
        {convolution.operand(1), channels_last(labels.kernel_input_feature, labels.kernel_spatial,
                                               labels.kernel_output_feature)}};
  }
  return {{convolution.operand(0),
           channels_last(labels.input_batch, labels.input_spatial, labels.input_feature)},
          {&convolution,
           channels_last(labels.output_batch, labels.output_spatial, labels.output_feature)}};
}

// Regions are values that must change their order together: an operation on one of them that has
// corresponding dimensions makes another. A region changes to the order that most bytes of its
// convolutions wish for, where that saves more bytes than have to be transposed at its edges.
//
// Example: NCHW in the text, NHWC in the kernels. x[8,64,56,56] -> convolution -> + bias -> maximum
// -> convolution. Convolutions with the channel innermost read whole vectors of channels at each
// position of the window. The first convolution's result, the sum, the maximum and the second one's
// operand correspond dim by dim, so they are one region; both convolutions wish for the order (0,
// 2, 3, 1) for it, with 6.4 MB each. Nothing enters but the bias, a broadcast, which is free in any
// order; a convolution reads any order, so nothing is transposed where the region ends. 12.8 MB are
// saved for nothing, and the region changes. x itself is a parameter, in no region: it stays as the
// caller gave it.
//
// It is a local choice: each region is decided on its own, with its neighbours as written.
class LayoutAssignment {
 public:
  explicit LayoutAssignment(Computation& computation) : computation_(computation) {}

  bool run() {
    const auto& instructions = computation_.instructions();
    if (std::none_of(instructions.begin(), instructions.end(), [](const auto& instruction) {
          return instruction->opcode() == Opcode::convolution;
        })) {
      return false;
    }
    find_regions();
    choose_orders();
    if (orders_.empty()) return false;
    rewrite();
    return true;
  }

 private:
  // Broadcasts and iotas are made again in whatever order is asked for.
  static bool is_free(const Instruction& instruction) {
    return instruction.opcode() == Opcode::broadcast || instruction.opcode() == Opcode::iota;
  }
  static bool is_member(const Instruction& instruction) {
    return takes_any_order(instruction) && !is_free(instruction) && instruction.shape().rank() > 2;
  }

  // Null for what is in none.
  const Instruction* region_of(const Instruction* value) {
    auto it = parents_.find(value);
    if (it == parents_.end()) return nullptr;
    while (it->second != it->first) {
      const auto above = parents_.find(it->second);
      it->second = above->second;
      it = above;
    }
    return it->first;
  }

  void find_regions() {
    for (const auto& instruction : computation_.instructions()) {
      if (!is_member(*instruction)) continue;
      parents_.emplace(instruction.get(), instruction.get());
      for (const int i : corresponding_operands(*instruction)) {
        const Instruction* region = region_of(instruction->operand(i));
        if (region != nullptr) parents_[region_of(instruction.get())] = region;
      }
    }
    for (const auto& instruction : computation_.instructions()) {
      const Instruction* region = region_of(instruction.get());
      if (region != nullptr) members_[region].push_back(instruction.get());
    }
  }

  void choose_orders() {
    // In the order of the schedule, so that nothing depends on addresses.
    std::unordered_map<const Instruction*, std::map<DimensionOrder, std::int64_t>> wanted;
    std::vector<const Instruction*> regions;
    for (const auto& instruction : computation_.instructions()) {
      if (instruction->opcode() != Opcode::convolution) continue;
      for (const Wish& wish : wishes_of(*instruction)) {
        const Instruction* region = region_of(wish.value);
        if (region == nullptr) continue;
        if (!wanted.contains(region)) regions.push_back(region);
        wanted[region][wish.order] += wish.value->shape().byte_size();
      }
    }
    for (const Instruction* region : regions) {
      const auto& orders = wanted[region];
      const auto best =
          std::max_element(orders.begin(), orders.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      if (is_identity(best->first)) continue;
      std::int64_t saved = 0;
      for (const auto& [order, bytes] : orders) saved += order == best->first ? bytes : -bytes;
      if (saved > transposed_bytes(region, best->first)) orders_.emplace(region, best->first);
    }
  }

  // What would have to be transposed at the edges of a region; more than anything where it can't
  // have that order.
  std::int64_t transposed_bytes(const Instruction* region, const DimensionOrder& order) {
    constexpr std::int64_t kNever = std::int64_t{1} << 62;
    std::unordered_map<const Instruction*, bool> counted;
    std::int64_t bytes = 0;
    for (const Instruction* member : members_[region]) {
      const Instruction& value = *member;
      if (!allows_order(value, order)) return kNever;
      for (const int i : corresponding_operands(value)) {
        const Instruction* operand = value.operand(i);
        if (region_of(operand) != nullptr || is_free(*operand)) continue;
        if (counted.emplace(operand, true).second) bytes += cost_of_entering(*operand, order);
      }
      bool leaves = value.is_root();
      for (const Instruction* user : value.users()) {
        for (int i = 0; i < user->operand_count(); ++i) {
          if (user->operand(i) == &value && !stays_inside(*user, i, order)) leaves = true;
        }
      }
      if (leaves && !keeps_bytes(order, value.shape().dims())) bytes += value.shape().byte_size();
    }
    return bytes;
  }

  static std::int64_t cost_of_entering(const Instruction& operand, const DimensionOrder& order) {
    if (keeps_bytes(order, operand.shape().dims())) return 0;
    if (operand.opcode() != Opcode::transpose) return operand.shape().byte_size();
    // Two transposes make one, or none.
    DimensionOrder both;
    for (const std::int64_t d : order) both.push_back(operand.attributes().dimensions[at(d)]);
    return keeps_bytes(both, operand.operand(0)->shape().dims()) ? -operand.shape().byte_size() : 0;
  }

  static bool stays_inside(const Instruction& user, int operand, const DimensionOrder& order) {
    if (reads_any_order(user, operand, order)) return true;
    if (!is_member(user)) return false;
    const std::vector<int> corresponding = corresponding_operands(user);
    return std::find(corresponding.begin(), corresponding.end(), operand) != corresponding.end();
  }

  // Null: the value stays as it is.
  const DimensionOrder* order_of(const Instruction* value) {
    const Instruction* region = region_of(value);
    const auto it = region == nullptr ? orders_.end() : orders_.find(region);
    return it == orders_.end() ? nullptr : &it->second;
  }

  Instruction* place(Instruction* added) {
    order_.push_back(added);
    return added;
  }

  Instruction* transpose(Instruction* value, const DimensionOrder& order) {
    ir::Attributes attributes;
    attributes.dimensions = order;
    return place(computation_.add(Opcode::transpose, reordered(value->shape(), order), {value}, {},
                                  std::move(attributes)));
  }

  Instruction* in_order(Instruction* value, const DimensionOrder& order) {
    const auto moved = moved_.find(value);
    if (moved != moved_.end()) return moved->second;
    Instruction*& entered = entered_[{value, order}];
    if (entered != nullptr) return entered;
    if (!is_free(*value)) return entered = transpose(value, order);
    entered = place(computation_.add_clone(*value, value->operands()));
    reorder_result(*entered, order);
    return entered;
  }

  Instruction* as_written(Instruction* value) {
    const auto moved = moved_.find(value);
    if (moved == moved_.end()) return value;
    Instruction*& back = back_[value];
    if (back == nullptr) back = transpose(moved->second, inverse(*order_of(value)));
    return back;
  }

  void move(Instruction& value, const DimensionOrder& order) {
    std::vector<Instruction*> operands = value.operands();
    const std::vector<int> corresponding = corresponding_operands(value);
    const bool convolution = value.opcode() == Opcode::convolution;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const bool follows = std::find(corresponding.begin(), corresponding.end(),
                                     static_cast<int>(i)) != corresponding.end();
      if (follows) {
        operands[i] = in_order(operands[i], order);
      } else if (convolution && moved_.contains(operands[i])) {
        operands[i] = moved_.at(operands[i]);
      } else {
        operands[i] = as_written(operands[i]);
      }
    }
    Instruction* copy = place(computation_.add_clone(value, std::move(operands)));
    for (int i = 0; convolution && i < 2; ++i) {
      if (moved_.contains(value.operand(i))) reorder_operand(*copy, i, *order_of(value.operand(i)));
    }
    reorder_result(*copy, order);
    moved_.emplace(&value, copy);
  }

  // An instruction outside takes the operands that have moved as they are now, or transposed back.
  void follow(Instruction& user) {
    for (int i = 0; i < user.operand_count(); ++i) {
      Instruction* operand = user.operand(i);
      if (!moved_.contains(operand)) continue;
      const DimensionOrder& order = *order_of(operand);
      if (reads_any_order(user, i, order) && !reads_twice(user, operand)) {
        user.replace_operand(i, moved_.at(operand));
        reorder_operand(user, i, order);
      } else {
        user.replace_operand(i, as_written(operand));
      }
    }
  }

  static bool reads_twice(const Instruction& user, const Instruction* operand) {
    return std::count(user.operands().begin(), user.operands().end(), operand) > 1;
  }

  void rewrite() {
    Instruction* root = computation_.root();
    std::vector<Instruction*> before;
    for (const auto& instruction : computation_.instructions()) before.push_back(instruction.get());
    for (Instruction* instruction : before) {
      if (const DimensionOrder* order = order_of(instruction)) {
        move(*instruction, *order);
      } else {
        follow(*instruction);
      }
      order_.push_back(instruction);
    }
    computation_.set_root(as_written(root));
    computation_.set_order(order_);
    computation_.remove_dead();
  }

  Computation& computation_;
  std::unordered_map<const Instruction*, const Instruction*> parents_;
  std::unordered_map<const Instruction*, std::vector<const Instruction*>> members_;  // by region
  std::unordered_map<const Instruction*, DimensionOrder> orders_;                    // by region

  std::vector<Instruction*> order_;  // the new schedule
  std::unordered_map<const Instruction*, Instruction*> moved_, back_;
  std::map<std::pair<const Instruction*, DimensionOrder>, Instruction*> entered_;
};

}  // namespace

Result<bool> assign_layouts(ir::Module& module) {
  bool changed = false;
  for (Computation* computation : programs_of(module)) {
    if (LayoutAssignment(*computation).run()) changed = true;
    if (lay_out_filters(*computation)) changed = true;
  }
  return changed;
}

}  // namespace plimsoll::passes
