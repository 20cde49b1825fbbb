// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/attention_products.h"

namespace plimsoll::kernels {
namespace {

class F32Products final : public BlockProducts {
 public:
  std::int64_t left_floats(const HeadMatrices& matrices, std::int64_t rows, Along) const override {
    return matrices.dtype() == ir::DType::f32 ? 0 : rows * in_lanes(matrices.columns());
  }

  LeftBlock left(const MatrixBlock& block, Along along, float* copy) const override {
    const HeadMatrices& from = block.matrices;
    const StridedMatrix elements = from.elements(block.data, block.head, block.row, block.rows,
                                                 copy, in_lanes(from.columns()));
    if (along == Along::columns) return {elements.data, elements.row, elements.column};
    return {elements.data, elements.column, elements.row};
  }

  std::int64_t right_floats(const HeadMatrices& matrices, std::int64_t rows,
                            Along along) const override {
    if (along == Along::columns) return matrices.columns() * in_lanes(rows);
    return matrices.has_plain_rows() ? 0 : rows * in_lanes(matrices.columns());
  }

  RightBlock right(const MatrixBlock& block, Along along, float* copy) const override {
    const HeadMatrices& from = block.matrices;
    if (along == Along::columns) {
      const std::int64_t stride = in_lanes(block.rows);
      from.read_transposed(block.data, block.head, block.row, block.rows, copy, stride);
      return {copy, stride};
    }
    if (from.has_plain_rows()) {
      return {from.address(block.data, block.head, block.row), from.row_stride()};
    }
    const std::int64_t stride = in_lanes(from.columns());
    from.read_rows(block.data, block.head, block.row, block.rows, copy, stride);
    return {copy, stride};
  }

  std::int64_t score_floats() const override { return 0; }
  LeftBlock left_scores(const ScoreBlock& block, Over over, float*) const override {
    if (over == Over::queries) return {block.scores, block.columns, 1};
    return {block.scores, 1, block.columns};
  }
  RightBlock right_scores(const ScoreBlock& block, float*) const override {
    return {block.scores, block.columns};
  }

  void multiply(float* c, std::int64_t c_stride, const LeftBlock& a, const RightBlock& b,
                std::int64_t rows, std::int64_t columns, std::int64_t depth,
                bool add) const override {
    attention_loops().multiply(c, c_stride, {static_cast<const float*>(a.data), a.row, a.column},
                               static_cast<const float*>(b.data), b.stride, rows, columns, depth,
                               add);
  }
};

}  // namespace

const BlockProducts& f32_products() {
  static const F32Products products;
  return products;
}

}  // namespace plimsoll::kernels
