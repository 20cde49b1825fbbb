// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/attention_blocks.h"
#include "kernels/cpu/tile_registers.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

// Softmax over blocks of keys with running maxima and sums (Milakov and Gimelshein, 2018; Dao et
// al., 2022). A task is one block of queries of one head; tasks are dealt to slots, each with
// scratch memory of its own. The cut depends on shapes alone.
//
// Derivation. Wanted per query: o = (sum over keys j of exp(s_j - m) v_j) / l with m the maximum of
// all scores s_j and l = sum of exp(s_j - m). Keys come in blocks. After some of them let m, l and
// o' = sum of exp(s_j - m) v_j be those of the keys so far. A new block with maximum m_b makes
//   m* = max(m, m_b),  c = exp(m - m*)
//   l* = c l + sum over the block of exp(s_j - m*)
//   o* = c o' + sum over the block of exp(s_j - m*) v_j
// as exp(s - m*) = c exp(s - m). At the end o' / l is the output. Only one block of scores exists
// at a time.
//
// Example: scores 1, 3 | 2, 5 in two blocks. After the first m = 3, l = e^-2 + 1 = 1.135. The
// second has m_b = 5: c = e^-2 = 0.135, l = 0.135 * 1.135 + e^-3 + 1 = 1.203, which is e^-4 + e^-2
// + e^-3 + 1.
//
// A block of scores is [keys][queries], a column per query, so that maxima, sums and corrections
// are vectors along the queries and nothing is folded within a vector.
class AttentionForward final : public KernelBase {
 public:
  AttentionForward(const ir::Instruction& instruction, const ir::AttentionForm& form,
                   const ir::AttentionSizes& sizes, const BlockProducts& products)
      : KernelBase("attention.forward", device::KernelOrigin::own),
        form_(form),
        sizes_(sizes),
        rules_(form, sizes, instruction),
        products_(products),
        query_(instruction.operand(0)->shape(), form.query),
        key_(instruction.operand(1)->shape(), form.key),
        value_(instruction.operand(2)->shape(), form.value),
        output_(*ir::leaves(instruction.shape())[0], form.output) {
    for (const std::int64_t size : sizes.batch) heads_ *= size;
    query_blocks_ = block_count(sizes.queries, kQueryBlock);
    tasks_ = heads_ * query_blocks_;
    slots_ = std::min(tasks_, slots_for(sizes, heads_, 2));
    const auto reserve = [&](std::int64_t floats) {
      const std::int64_t at = slot_floats_;
      slot_floats_ += in_lanes(floats);
      return at;
    };
    at_query_ = reserve(products.right_floats(query_, kQueryBlock, Along::columns));
    at_scores_ = reserve(kKeyBlock * kQueryBlock);
    at_powers_ = reserve(products.score_floats());
    at_output_ = reserve(sizes.value_depth * kQueryBlock);
    at_rows_ = reserve(3 * kQueryBlock);
    at_key_ = reserve(products.left_floats(key_, kKeyBlock, Along::columns));
    at_value_ = reserve(products.left_floats(value_, kKeyBlock, Along::rows));
    scratch_ = reserve_workspace(slots_ * slot_floats_ * static_cast<std::int64_t>(sizeof(float)));
  }

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
      const TileScope tile_registers(products_.uses_tiles());
      for (std::int64_t slot = begin; slot < end; ++slot) {
        auto* scratch = reinterpret_cast<float*>(byte_offset(arguments.workspace, scratch_)) +
                        slot * slot_floats_;
        // Every slot gets early and late blocks: under a causal mask the late ones take longer.
        for (std::int64_t task = slot; task < tasks_; task += slots_) {
          run(task, arguments, scratch);
        }
      }
    });
    return ok_status();
  }

 private:
  void run(std::int64_t task, const device::KernelArguments& arguments, float* scratch) const {
    const AttentionLoops& loops = attention_loops();
    const std::int64_t head = task / query_blocks_;
    const std::int64_t query = task % query_blocks_ * kQueryBlock;
    const std::int64_t queries = std::min(kQueryBlock, sizes_.queries - query);
    const std::int64_t columns = in_lanes(queries);
    float* const output = scratch + at_output_;
    float* const greatest = scratch + at_rows_;
    float* const sum = greatest + kQueryBlock;
    float* const correction = sum + kQueryBlock;
    const RightBlock q = products_.right({query_, arguments.inputs[0], head, query, queries},
                                         Along::columns, scratch + at_query_);
    std::fill(greatest, greatest + columns, -std::numeric_limits<float>::infinity());
    std::fill(sum, sum + columns, 0.0f);
    std::fill(output, output + sizes_.value_depth * columns, 0.0f);

    const std::int64_t blocks = block_count(sizes_.keys, kKeyBlock);
    const std::int64_t seen = rules_.seen_blocks(query, queries);
    for (std::int64_t i = 0; i < blocks; ++i) {
      if (i == seen && rules_.skips_unseen(greatest, queries)) break;
      const std::int64_t key = i * kKeyBlock;
      const ScoreBlock block{scratch + at_scores_,
                             columns,
                             head,
                             query,
                             queries,
                             key,
                             std::min(kKeyBlock, sizes_.keys - key)};
      const LeftBlock keys = products_.left({key_, arguments.inputs[1], head, key, block.keys},
                                            Along::columns, scratch + at_key_);
      products_.multiply(block.scores, columns, keys, q, block.keys, columns, sizes_.depth, false);
      rules_.apply(block, arguments.inputs.data());
      loops.soften(block.scores, block.keys, columns, greatest, sum, correction);
      loops.scale_columns(output, sizes_.value_depth, columns, correction);
      const LeftBlock values = products_.left({value_, arguments.inputs[2], head, key, block.keys},
                                              Along::rows, scratch + at_value_);
      const RightBlock powers = products_.right_scores(block, scratch + at_powers_);
      products_.multiply(output, columns, values, powers, sizes_.value_depth, columns, block.keys,
                         true);
    }
    finish(head, query, queries, columns, scratch, arguments);
  }

  void finish(std::int64_t head, std::int64_t query, std::int64_t queries, std::int64_t columns,
              float* scratch, const device::KernelArguments& arguments) const {
    float* const output = scratch + at_output_;
    const float* const greatest = scratch + at_rows_;
    float* const sum = scratch + at_rows_ + kQueryBlock;
    float* const inverse = sum + kQueryBlock;
    for (std::int64_t i = 0; i < queries; ++i) {
      // Without any score above -inf there is no softmax: -inf - -inf.
      if (std::isinf(greatest[i])) sum[i] = std::numeric_limits<float>::quiet_NaN();
    }
    for (std::int64_t i = 0; i < columns; ++i) inverse[i] = 1 / sum[i];
    attention_loops().scale_columns(output, sizes_.value_depth, columns, inverse);
    output_.write_transposed(output, columns, arguments.outputs[0], head, query, queries);
    if (!form_.statistics) return;
    const std::int64_t row = head * sizes_.queries + query;
    std::copy(greatest, greatest + queries, static_cast<float*>(arguments.outputs[1]) + row);
    std::copy(sum, sum + queries, static_cast<float*>(arguments.outputs[2]) + row);
  }

  const ir::AttentionForm form_;
  const ir::AttentionSizes sizes_;
  const ScoreRules rules_;
  const BlockProducts& products_;
  const HeadMatrices query_, key_, value_, output_;
  std::int64_t heads_ = 1, query_blocks_ = 0, tasks_ = 0, slots_ = 0, slot_floats_ = 0;
  std::int64_t at_query_ = 0, at_scores_ = 0, at_output_ = 0, at_rows_ = 0, at_powers_ = 0,
               at_key_ = 0, at_value_ = 0, scratch_ = 0;
};

}  // namespace

KernelResult make_attention_forward(const ir::Instruction& instruction,
                                    const ir::AttentionForm& form, const ir::AttentionSizes& sizes,
                                    const BlockProducts& products) {
  return KernelResult(std::make_shared<AttentionForward>(instruction, form, sizes, products));
}

}  // namespace plimsoll::kernels
