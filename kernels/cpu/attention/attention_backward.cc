// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/attention_blocks.h"
#include "kernels/cpu/tile_registers.h"
#include "kernels/cpu/vector_loops.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

// Recomputes the probabilities block by block from maxima and sums. A task is one head, or, where
// heads are few, a share of the query blocks of one head: shares have sums of their own for the
// keys' and values' gradients, added up in order afterwards. The cut depends on shapes alone.
//
// Derivation. With p = softmax(s), o = p v, and do the output's gradient:
//   dv   = p^T do
//   dp_j = do . v_j                          (the slope)
//   ds_j = p_j (dp_j - sum over i of p_i dp_i)
// and the sum is do . o, as o = sum of p_i v_i: one number per query (`delta`), known before any
// block. So each block of p can be recomputed from the scores, the saved maximum and the saved sum,
// p_j = exp(s_j - m) / l, used for dv, turned into ds, used for dq and dk, and forgotten (Dao et
// al., 2022). Five products of blocks instead of the forward pass' two; no array of the scores'
// size.
class AttentionBackward final : public KernelBase {
 public:
  AttentionBackward(const ir::Instruction& instruction, const ir::AttentionForm& form,
                    const ir::AttentionSizes& sizes, const BlockProducts& products)
      : KernelBase("attention.backward", device::KernelOrigin::own),
        form_(form),
        sizes_(sizes),
        rules_(form, sizes, instruction),
        products_(products),
        depth_lanes_(in_lanes(sizes.depth)),
        value_lanes_(in_lanes(sizes.value_depth)) {
    const auto operand = [&](int i, const ir::DimOrder& order) {
      return HeadMatrices(instruction.operand(i)->shape(), order);
    };
    query_ = operand(0, form.query);
    key_ = operand(1, form.key);
    value_ = operand(2, form.value);
    first_ = form.output_operand();
    output_ = operand(first_, form.output);
    slope_ = operand(first_ + 1, form.output_gradient);
    const auto leaves = ir::leaves(instruction.shape());
    int leaf = 0;
    const auto result = [&](bool wanted, const ir::DimOrder& order, HeadMatrices& matrices) {
      if (!wanted) return -1;
      matrices = HeadMatrices(*leaves[at(leaf)], order);
      return leaf++;
    };
    query_leaf_ = result(form.wants_query, form.query_gradient, query_gradient_);
    key_leaf_ = result(form.wants_key, form.key_gradient, key_gradient_);
    value_leaf_ = result(form.wants_value, form.value_gradient, value_gradient_);

    for (const std::int64_t size : sizes.batch) heads_ *= size;
    const std::int64_t blocks = block_count(sizes.queries, kQueryBlock);
    const std::int64_t wanted = slots_for(sizes, heads_, 5);
    shares_ = std::min(blocks, block_count(wanted, heads_));
    slots_ = shares_ > 1 ? heads_ * shares_ : std::min(heads_, wanted);
    reserve_slots();
  }

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
      const TileScope tile_registers(products_.uses_tiles());
      for (std::int64_t slot = begin; slot < end; ++slot) {
        for (std::int64_t task = slot; task < heads_ * shares_; task += slots_) {
          run(task, slot, arguments);
        }
      }
    });
    if (shares_ == 1) return ok_status();
    const std::int64_t blocks = block_count(sizes_.keys, kKeyBlock);
    device::parallel_for(heads_ * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) add_shares(i / blocks, i % blocks, arguments);
    });
    return ok_status();
  }

 private:
  // Rows of whole vectors.
  struct Rows {
    const float* data;
    std::int64_t stride;
  };

  static Rows read_rows(const HeadMatrices& matrices, const void* data, std::int64_t head,
                        std::int64_t row, std::int64_t rows, float* copy, std::int64_t lanes) {
    if (matrices.has_plain_rows()) {
      return {static_cast<const float*>(matrices.address(data, head, row)), matrices.row_stride()};
    }
    matrices.read_rows(data, head, row, rows, copy, lanes);
    return {copy, lanes};
  }

  // A sum [keys][stride] of one task.
  struct Sum {
    float* data = nullptr;
    std::int64_t stride = 0;
    float* row(std::int64_t key) const { return data + key * stride; }
  };

  // What belongs to one block of queries.
  struct Queries {
    RightBlock columns, slope_columns;  // contracted along depths
    RightBlock rows, slopes;            // contracted along queries
    Sum gradient;
  };

  void reserve_slots() {
    const auto reserve = [&](std::int64_t floats) {
      const std::int64_t at = slot_floats_;
      slot_floats_ += in_lanes(floats);
      return at;
    };
    const auto reserve_right = [&](const HeadMatrices& rows, Along along) {
      return reserve(products_.right_floats(rows, kQueryBlock, along));
    };
    at_query_columns_ = reserve_right(query_, Along::columns);
    at_slope_columns_ = reserve_right(slope_, Along::columns);
    at_query_rows_ = reserve_right(query_, Along::rows);
    at_slope_rows_ = reserve_right(slope_, Along::rows);
    at_keys_ = reserve(products_.left_floats(key_, kKeyBlock, Along::columns));
    at_key_rows_ = reserve(products_.right_floats(key_, kKeyBlock, Along::rows));
    at_values_ = reserve(products_.left_floats(value_, kKeyBlock, Along::columns));
    at_factors_ = reserve(products_.score_floats());
    // The output's rows and their gradients are read before there are scores.
    at_scores_ = reserve(2 * std::max(kKeyBlock * kQueryBlock, kQueryBlock * value_lanes_));
    at_slopes_ = at_scores_ + kKeyBlock * kQueryBlock;
    at_rows_ = reserve(3 * kQueryBlock);
    if (form_.wants_query && !query_gradient_.has_plain_rows()) {
      at_query_gradient_ = reserve(kQueryBlock * depth_lanes_);
    }
    if (form_.wants_key && !key_gradient_in_place()) {
      at_key_sum_ = reserve(sizes_.keys * depth_lanes_);
    }
    if (form_.wants_value && !value_gradient_in_place()) {
      at_value_sum_ = reserve(sizes_.keys * value_lanes_);
    }
    scratch_ = reserve_workspace(slots_ * slot_floats_ * static_cast<std::int64_t>(sizeof(float)));
  }

  bool key_gradient_in_place() const { return shares_ == 1 && key_gradient_.has_plain_rows(); }
  bool value_gradient_in_place() const { return shares_ == 1 && value_gradient_.has_plain_rows(); }

  float* slot_memory(std::int64_t slot, const device::KernelArguments& arguments) const {
    return reinterpret_cast<float*>(byte_offset(arguments.workspace, scratch_)) +
           slot * slot_floats_;
  }

  // Zeroed, where the result lies or in the slot.
  Sum start_sum(const HeadMatrices& result, bool in_place, void* data, std::int64_t head,
                float* scratch, std::int64_t lanes) const {
    Sum sum{scratch, lanes};
    if (in_place) {
      sum = {static_cast<float*>(const_cast<void*>(result.address(data, head, 0))),
             result.row_stride()};
    }
    for (std::int64_t key = 0; key < sizes_.keys; ++key) {
      std::fill(sum.row(key), sum.row(key) + lanes, 0.0f);
    }
    return sum;
  }

  void run(std::int64_t task, std::int64_t slot, const device::KernelArguments& arguments) const {
    const std::int64_t head = task / shares_;
    float* const scratch = slot_memory(slot, arguments);
    Sum key_sum, value_sum;
    const auto output = [&](int leaf) { return arguments.outputs[at(leaf)]; };
    if (form_.wants_key) {
      key_sum = start_sum(key_gradient_, key_gradient_in_place(), output(key_leaf_), head,
                          scratch + at_key_sum_, depth_lanes_);
    }
    if (form_.wants_value) {
      value_sum = start_sum(value_gradient_, value_gradient_in_place(), output(value_leaf_), head,
                            scratch + at_value_sum_, value_lanes_);
    }
    const std::int64_t blocks = block_count(sizes_.queries, kQueryBlock);
    for (std::int64_t i = task % shares_; i < blocks; i += shares_) {
      run_queries(head, i * kQueryBlock, arguments, scratch, key_sum, value_sum);
    }
    if (shares_ > 1) return;
    if (form_.wants_key && !key_gradient_in_place()) {
      key_gradient_.write_rows(key_sum.data, key_sum.stride, output(key_leaf_), head, 0,
                               sizes_.keys);
    }
    if (form_.wants_value && !value_gradient_in_place()) {
      value_gradient_.write_rows(value_sum.data, value_sum.stride, output(value_leaf_), head, 0,
                                 sizes_.keys);
    }
  }

  void run_queries(std::int64_t head, std::int64_t query, const device::KernelArguments& arguments,
                   float* scratch, const Sum& key_sum, const Sum& value_sum) const {
    const auto inputs = arguments.inputs;
    const auto first = at(first_);
    const std::int64_t queries = std::min(kQueryBlock, sizes_.queries - query);
    const std::int64_t columns = in_lanes(queries);
    float* const greatest = scratch + at_rows_;
    float* const inverse = greatest + kQueryBlock;
    float* const delta = inverse + kQueryBlock;
    const MatrixBlock rows{query_, inputs[0], head, query, queries};
    const MatrixBlock slope_rows{slope_, inputs[first + 1], head, query, queries};
    Queries block;
    block.columns = products_.right(rows, Along::columns, scratch + at_query_columns_);
    block.slope_columns = products_.right(slope_rows, Along::columns, scratch + at_slope_columns_);
    block.rows = products_.right(rows, Along::rows, scratch + at_query_rows_);
    block.slopes = products_.right(slope_rows, Along::rows, scratch + at_slope_rows_);
    const Rows output =
        read_rows(output_, inputs[first], head, query, queries, scratch + at_scores_, value_lanes_);
    const Rows slopes = read_rows(slope_, inputs[first + 1], head, query, queries,
                                  scratch + at_scores_ + kQueryBlock * value_lanes_, value_lanes_);
    const std::int64_t row = head * sizes_.queries + query;
    const float* const maxima = static_cast<const float*>(inputs[first + 2]) + row;
    const float* const sums = static_cast<const float*>(inputs[first + 3]) + row;
    for (std::int64_t i = 0; i < columns; ++i) {
      const bool is_query = i < queries;
      greatest[i] = is_query ? maxima[i] : 0;
      inverse[i] = is_query ? 1 / sums[i] : 0;
      delta[i] = is_query ? dot_product(slopes.data + i * slopes.stride,
                                        output.data + i * output.stride, sizes_.value_depth)
                          : 0;
    }
    void* const result = form_.wants_query ? arguments.outputs[at(query_leaf_)] : nullptr;
    if (form_.wants_query)
      block.gradient = start_query_gradient(result, head, query, queries, scratch);
    const std::int64_t blocks = block_count(sizes_.keys, kKeyBlock);
    const std::int64_t seen = rules_.seen_blocks(query, queries);
    for (std::int64_t i = 0; i < blocks; ++i) {
      if (i == seen && rules_.skips_unseen(greatest, queries)) break;
      const std::int64_t key = i * kKeyBlock;
      run_block({scratch + at_scores_, columns, head, query, queries, key,
                 std::min(kKeyBlock, sizes_.keys - key)},
                block, arguments, scratch, key_sum, value_sum);
    }
    if (!form_.wants_query || query_gradient_.has_plain_rows()) return;
    query_gradient_.write_rows(block.gradient.data, depth_lanes_, result, head, query, queries);
  }

  Sum start_query_gradient(void* result, std::int64_t head, std::int64_t query,
                           std::int64_t queries, float* scratch) const {
    Sum sum{scratch + at_query_gradient_, depth_lanes_};
    if (query_gradient_.has_plain_rows()) {
      sum = {static_cast<float*>(const_cast<void*>(query_gradient_.address(result, head, query))),
             query_gradient_.row_stride()};
    }
    for (std::int64_t i = 0; i < queries; ++i)
      std::fill(sum.row(i), sum.row(i) + depth_lanes_, 0.0f);
    return sum;
  }

  void run_block(const ScoreBlock& block, const Queries& queries,
                 const device::KernelArguments& arguments, float* scratch, const Sum& key_sum,
                 const Sum& value_sum) const {
    const AttentionLoops& loops = attention_loops();
    const void* const* inputs = arguments.inputs.data();
    const std::int64_t columns = block.columns;
    const MatrixBlock keys{key_, inputs[1], block.head, block.key, block.keys};
    products_.multiply(block.scores, columns,
                       products_.left(keys, Along::columns, scratch + at_keys_), queries.columns,
                       block.keys, columns, sizes_.depth, false);
    rules_.apply(block, inputs);
    float* const slopes = scratch + at_slopes_;
    if (form_.wants_query || form_.wants_key) {
      const MatrixBlock values{value_, inputs[2], block.head, block.key, block.keys};
      products_.multiply(slopes, columns,
                         products_.left(values, Along::columns, scratch + at_values_),
                         queries.slope_columns, block.keys, columns, sizes_.value_depth, false);
    } else {
      std::fill(slopes, slopes + block.keys * columns, 0.0f);
    }
    const float* const greatest = scratch + at_rows_;
    loops.differentiate(block.scores, slopes, block.keys, columns, greatest, greatest + kQueryBlock,
                        greatest + 2 * kQueryBlock, form_.gradient_scale);
    float* const factors = scratch + at_factors_;
    if (form_.wants_value) {
      products_.multiply(value_sum.row(block.key), value_sum.stride,
                         products_.left_scores(block, Over::queries, factors), queries.slopes,
                         block.keys, value_lanes_, block.queries, true);
    }
    ScoreBlock gradients = block;
    gradients.scores = slopes;
    rules_.fill_unseen(gradients, inputs, 0);
    if (form_.wants_key) {
      products_.multiply(key_sum.row(block.key), key_sum.stride,
                         products_.left_scores(gradients, Over::queries, factors), queries.rows,
                         block.keys, depth_lanes_, block.queries, true);
    }
    if (form_.wants_query) {
      products_.multiply(queries.gradient.data, queries.gradient.stride,
                         products_.left_scores(gradients, Over::keys, factors),
                         products_.right(keys, Along::rows, scratch + at_key_rows_), block.queries,
                         depth_lanes_, block.keys, true);
    }
  }

  // Shares of one head each have a sum of their own for the keys' and values' gradients; they are
  // added in the order of their numbers, so that the bits depend on how many shares the shapes ask
  // for, never on the threads.
  void add_shares(std::int64_t head, std::int64_t key_block,
                  const device::KernelArguments& arguments) const {
    const std::int64_t key = key_block * kKeyBlock;
    const std::int64_t keys = std::min(kKeyBlock, sizes_.keys - key);
    const auto total = [&](std::int64_t at, std::int64_t lanes) {
      float* const sum = slot_memory(head * shares_, arguments) + at + key * lanes;
      for (std::int64_t share = 1; share < shares_; ++share) {
        add_to(sum, slot_memory(head * shares_ + share, arguments) + at + key * lanes,
               keys * lanes);
      }
      return sum;
    };
    if (form_.wants_key) {
      key_gradient_.write_rows(total(at_key_sum_, depth_lanes_), depth_lanes_,
                               arguments.outputs[at(key_leaf_)], head, key, keys);
    }
    if (form_.wants_value) {
      value_gradient_.write_rows(total(at_value_sum_, value_lanes_), value_lanes_,
                                 arguments.outputs[at(value_leaf_)], head, key, keys);
    }
  }

  const ir::AttentionForm form_;
  const ir::AttentionSizes sizes_;
  const ScoreRules rules_;
  const BlockProducts& products_;
  const std::int64_t depth_lanes_, value_lanes_;
  HeadMatrices query_, key_, value_, output_, slope_;
  HeadMatrices query_gradient_, key_gradient_, value_gradient_;
  int first_ = 0, query_leaf_ = -1, key_leaf_ = -1, value_leaf_ = -1;
  std::int64_t heads_ = 1, shares_ = 1, slots_ = 0, slot_floats_ = 0, scratch_ = 0;
  std::int64_t at_query_columns_ = 0, at_slope_columns_ = 0, at_query_rows_ = 0, at_slope_rows_ = 0,
               at_keys_ = 0, at_key_rows_ = 0, at_values_ = 0, at_factors_ = 0, at_scores_ = 0,
               at_slopes_ = 0, at_query_gradient_ = 0, at_rows_ = 0, at_key_sum_ = 0,
               at_value_sum_ = 0;
};

}  // namespace

KernelResult make_attention_backward(const ir::Instruction& instruction,
                                     const ir::AttentionForm& form, const ir::AttentionSizes& sizes,
                                     const BlockProducts& products) {
  return KernelResult(std::make_shared<AttentionBackward>(instruction, form, sizes, products));
}

}  // namespace plimsoll::kernels
