// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/ir/attributes.h"
#include "runtime/ir/shape.h"

namespace plimsoll::kernels {

// Where windows start in the operand and in the updates, in elements.
struct WindowStarts {
  const std::int64_t *to, *from;
  std::int64_t count;
};

// The windows of a scatter, one per batch position of the indices, numbered row-major over the dims
// of the indices without the vector dim. Immutable.
class StartIndices {
 public:
  // `last_start` is the last start in each dim of the operand that leaves a window inside;
  // `update_strides` are those of the updates' batch dims.
  StartIndices(const ir::Shape& operand, const ir::Shape& indices,
               const ir::ScatterDimensions& dimensions, std::span<const std::int64_t> last_start,
               std::span<const std::int64_t> update_strides);

  class Reader;

 private:
  // One component of an index vector. It is compared as unsigned, which leaves negative ones out;
  // `last_start` is one that the dtype holds.
  struct Component {
    std::uint64_t last_start, operand_stride;
  };
  // What a step along a batch dim moves in the indices and in the windows' starts.
  struct BatchAxis {
    std::int64_t size, index_stride, operand_stride, update_stride;
  };

  ir::DType dtype_;
  std::int64_t operand_count_, batch_count_ = 1, vector_stride_ = 0;
  std::vector<Component> components_;
  std::vector<BatchAxis> outer_;
  BatchAxis row_{1, 0, 0, 0};  // the minor axis
};

// Reads the windows in order, a block at a time. The StartIndices must outlive it.
class StartIndices::Reader {
 public:
  static constexpr std::int64_t kBlock = 256;

  // Of windows that start outside of [low, high) in the operand nothing is heard.
  Reader(const StartIndices& starts, const void* indices, std::int64_t low, std::int64_t high)
      : starts_(starts),
        indices_(indices),
        low_(static_cast<std::uint64_t>(low)),
        extent_(static_cast<std::uint64_t>(high - low)),
        whole_(low == 0 && high == starts.operand_count_) {
    seek(0);
  }

  void seek(std::int64_t batch);
  bool at_end() const { return batch_ >= starts_.batch_count_; }
  // Goes on by `most` positions or fewer, and returns those of their windows that lie wholly inside
  // the operand. Valid until the next call. Precondition: 0 < most <= kBlock.
  WindowStarts next(std::int64_t most = kBlock);

 private:
  template <typename T>
  std::int64_t read_rows(std::int64_t most);
  template <typename T, int kComponents>
  bool read_row(std::int64_t first, std::int64_t count);
  void advance(std::int64_t count);
  std::int64_t keep(std::int64_t count);

  const StartIndices& starts_;
  const void* indices_;
  std::uint64_t low_, extent_;
  bool whole_;
  std::int64_t batch_ = 0;
  std::array<std::int64_t, ir::kMaxRank> position_{};  // along the outer axes
  std::int64_t column_ = 0;                            // along the minor one
  // Of the row's first position.
  std::int64_t row_index_ = 0, row_to_ = 0, row_from_ = 0;
  std::array<std::int64_t, kBlock> to_, from_;
};

// One dimension of a window as it is walked: its size and what a step moves in both arrays.
struct WindowAxis {
  std::int64_t size, operand_stride, other_stride;
};

// Drops axes of size 1 and joins neighbours that are walked as one, major to minor.
std::vector<WindowAxis> merge_axes(std::vector<WindowAxis> axes);

}  // namespace plimsoll::kernels
