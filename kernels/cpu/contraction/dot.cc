// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "kernels/cpu/contraction/contraction.h"
#include "kernels/cpu/contraction/dot_few_rows.h"
#include "kernels/cpu/contraction/dot_kernel.h"
#include "kernels/cpu/contraction/dot_packed.h"
#include "kernels/cpu/contraction/dot_small.h"
#include "kernels/cpu/contraction/dot_widened.h"
#include "kernels/cpu/contraction/onednn.h"
#include "kernels/cpu/numeric.h"
#include "kernels/cpu/products/vector_product.h"
#include "kernels/cpu/vector_loops.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

// Cut by shape alone: batch elements, and within one of them rows or columns, make tiles; tiles are
// dealt to slots, and each slot is a task with a scratchpad of its own.
struct DotCut {
  std::int64_t m_tile, n_tile;
  std::int64_t m_tiles, n_tiles, tiles, slots;
};

constexpr std::int64_t kMaxSlots = 16;
// Every slot packs the operand that is not cut again: small products have fewer.
constexpr std::int64_t kMaxSlotsOfSmall = 8;
constexpr double kSmallFlops = 1e9;
constexpr double kFlopsPerSlot = 2e6;

DotCut cut_dot(const DotShape& shape) {
  const double flops = 2.0 * static_cast<double>(shape.batch) * static_cast<double>(shape.m) *
                       static_cast<double>(shape.n) * static_cast<double>(shape.k);
  const std::int64_t wanted = static_cast<std::int64_t>(
      std::clamp(flops / kFlopsPerSlot, 1.0,
                 static_cast<double>(flops < kSmallFlops ? kMaxSlotsOfSmall : kMaxSlots)));
  DotCut cut{shape.m, shape.n, 1, 1, shape.batch, 1};
  if (shape.batch < wanted) {
    const std::int64_t parts = (wanted + shape.batch - 1) / shape.batch;
    const auto tile_of = [parts](std::int64_t size) {
      return std::min(size, ((size + parts - 1) / parts + 63) / 64 * 64);
    };
    if (shape.m >= shape.n || shape.m >= 64 * parts) {
      cut.m_tile = tile_of(shape.m);
    } else {
      cut.n_tile = tile_of(shape.n);
    }
    cut.m_tiles = (shape.m + cut.m_tile - 1) / cut.m_tile;
    cut.n_tiles = (shape.n + cut.n_tile - 1) / cut.n_tile;
    cut.tiles = shape.batch * cut.m_tiles * cut.n_tiles;
  }
  cut.slots = std::min(cut.tiles, wanted);
  return cut;
}

class OnednnDot final : public DotKernel {
 public:
  explicit OnednnDot(const ir::Instruction& instruction)
      : DotKernel(instruction, "onednn.dot", device::KernelOrigin::library) {}

  // False: the library has no fast code for this.
  Result<bool> prepare() {
    if (shape_.m == 0 || shape_.n == 0 || shape_.k == 0 || shape_.batch == 0) return false;
    cut_ = cut_dot(shape_);
    bool usable = true;
    const Status status = onednn::guarded_making("dot", [&] {
      for (const std::int64_t m : {cut_.m_tile, shape_.m - (cut_.m_tiles - 1) * cut_.m_tile}) {
        for (const std::int64_t n : {cut_.n_tile, shape_.n - (cut_.n_tiles - 1) * cut_.n_tile}) {
          usable = usable && add_primitive(m, n);
        }
      }
    });
    if (!status.ok() || !usable) return false;
    const std::int64_t operands = shape_.batch * (shape_.m * shape_.k * dtype_bytes(lhs_dtype_) +
                                                  shape_.k * shape_.n * dtype_bytes(rhs_dtype_) +
                                                  shape_.m * shape_.n * dtype_bytes(result_dtype_));
    const std::int64_t allowed = std::max<std::int64_t>(std::int64_t{1} << 20, operands / 4);
    if (scratch_bytes_ > 0) {
      cut_.slots =
          std::clamp(allowed / scratch_bytes_, std::min<std::int64_t>(4, cut_.slots), cut_.slots);
    }
    scratch_bytes_ = (scratch_bytes_ + 63) / 64 * 64;
    scratch_ = reserve_workspace(scratch_bytes_ * cut_.slots);
    return true;
  }

 private:
  struct Variant {
    std::int64_t m, n;
    dnnl::memory::desc lhs, rhs, out, scratch;
    dnnl::matmul primitive;
  };

  bool add_primitive(std::int64_t m, std::int64_t n) {
    for (const Variant& known : variants_) {
      if (known.m == m && known.n == n) return true;
    }
    Variant v;
    v.m = m;
    v.n = n;
    v.lhs = {{m, shape_.k},
             *onednn::data_type(lhs_dtype_),
             {shape_.lhs.row_stride, shape_.lhs.column_stride}};
    v.rhs = {{shape_.k, n},
             *onednn::data_type(rhs_dtype_),
             {shape_.rhs.row_stride, shape_.rhs.column_stride}};
    v.out = {{m, n}, *onednn::data_type(result_dtype_), {shape_.n, 1}};
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(v.lhs, v.rhs, v.out),
                                                   onednn::user_scratchpad(), onednn::cpu_engine());
    if (onednn::is_reference(description.impl_info_str())) return false;
    v.scratch = description.scratchpad_desc();
    scratch_bytes_ = std::max(scratch_bytes_, static_cast<std::int64_t>(v.scratch.get_size()));
    v.primitive = dnnl::matmul(description);
    variants_.push_back(std::move(v));
    return true;
  }

  Status multiply(const void* lhs, const void* rhs, void* out, void* workspace) const override {
    onednn::FirstFailure failure;
    device::parallel_for(cut_.slots, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slot = begin; slot < end; ++slot) {
        failure.add(onednn::guarded("dot", [&] { run_slot(slot, lhs, rhs, out, workspace); }));
      }
    });
    return failure.status();
  }

  void run_slot(std::int64_t slot, const void* lhs, const void* rhs, void* out,
                void* workspace) const {
    const std::int64_t first = cut_.tiles * slot / cut_.slots;
    const std::int64_t last = cut_.tiles * (slot + 1) / cut_.slots;
    const void* scratch = byte_offset(workspace, scratch_ + slot * scratch_bytes_);
    std::vector<std::optional<onednn::Execution>> executions(variants_.size());
    for (std::int64_t tile = first; tile < last; ++tile) {
      const std::int64_t n0 = tile % cut_.n_tiles * cut_.n_tile;
      const std::int64_t m0 = tile / cut_.n_tiles % cut_.m_tiles * cut_.m_tile;
      const std::int64_t b = tile / (cut_.n_tiles * cut_.m_tiles);
      const std::int64_t m = std::min(cut_.m_tile, shape_.m - m0);
      const std::int64_t n = std::min(cut_.n_tile, shape_.n - n0);
      std::size_t which = 0;
      while (variants_[which].m != m || variants_[which].n != n) ++which;
      const Variant& v = variants_[which];
      if (!executions[which].has_value()) {
        executions[which].emplace(v.primitive,
                                  std::vector<onednn::Argument>{{DNNL_ARG_SRC, v.lhs},
                                                                {DNNL_ARG_WEIGHTS, v.rhs},
                                                                {DNNL_ARG_DST, v.out},
                                                                {DNNL_ARG_SCRATCHPAD, v.scratch}});
      }
      const std::int64_t at_lhs = shape_.batch_offset(shape_.lhs, b) + m0 * shape_.lhs.row_stride;
      const std::int64_t at_rhs =
          shape_.batch_offset(shape_.rhs, b) + n0 * shape_.rhs.column_stride;
      const std::int64_t at_out = (b * shape_.m + m0) * shape_.n + n0;
      executions[which]->run({byte_offset(lhs, at_lhs * dtype_bytes(lhs_dtype_)),
                              byte_offset(rhs, at_rhs * dtype_bytes(rhs_dtype_)),
                              byte_offset(out, at_out * dtype_bytes(result_dtype_)), scratch});
    }
  }

  DotCut cut_{};
  std::vector<Variant> variants_;
  std::int64_t scratch_bytes_ = 0, scratch_ = 0;
};

// f32 matrix times vector: bound by memory, and a matrix kernel would waste most of its lanes.
class VectorDot final : public DotKernel {
 public:
  explicit VectorDot(const ir::Instruction& instruction)
      : DotKernel(instruction, "dot.vector", device::KernelOrigin::own) {}

  bool usable() const {
    if (shape_.m != 1 && shape_.n != 1) return false;
    return shape_.n == 1 ? shape_.rhs.row_stride == 1 : shape_.lhs.column_stride == 1;
  }

 private:
  Status multiply(const void* lhs, const void* rhs, void* out, void*) const override {
    const bool matrix_left = shape_.n == 1;
    const MatrixView& matrix = matrix_left ? shape_.lhs : shape_.rhs;
    const MatrixView& vector = matrix_left ? shape_.rhs : shape_.lhs;
    const float* a = static_cast<const float*>(matrix_left ? lhs : rhs);
    const float* x = static_cast<const float*>(matrix_left ? rhs : lhs);
    const std::int64_t rows = matrix_left ? shape_.m : shape_.n;
    const std::int64_t row_stride = matrix_left ? matrix.row_stride : matrix.column_stride;
    const std::int64_t k_stride = matrix_left ? matrix.column_stride : matrix.row_stride;
    constexpr std::int64_t kRows = 256;
    const std::int64_t tiles = (rows + kRows - 1) / kRows;
    constexpr std::int64_t kWorthAThread = 1 << 17;  // elements of the matrix, about 20 us
    const std::int64_t grain = std::max<std::int64_t>(1, kWorthAThread / (kRows * shape_.k + 1));
    device::parallel_for(shape_.batch * tiles, grain, [&](std::int64_t begin, std::int64_t end) {
      // What lies side by side of an element of the batch is read together, in runs as long as may
      // be; no sum depends on that.
      for (std::int64_t tile = begin; tile < end;) {
        const std::int64_t b = tile / tiles, some = std::min(end - tile, tiles - tile % tiles);
        const std::int64_t first = tile % tiles * kRows;
        const std::int64_t count = std::min(rows - first, some * kRows);
        const float* from = a + shape_.batch_offset(matrix, b);
        const float* by = x + shape_.batch_offset(vector, b);
        float* to = static_cast<float*>(out) + b * rows;
        if (k_stride == 1) {
          multiply_rows_by_vector(from + first * row_stride, row_stride, count, by, shape_.k,
                                  to + first);
        } else {
          multiply_vector_by_columns(from + first, k_stride, count, by, shape_.k, to + first);
        }
        tile += some;
      }
    });
    return ok_status();
  }
};

// Every dtype, by tiles widened to the accumulator's type. Up to 160 KiB of a thread's stack.
class BlockedDot final : public DotKernel {
 public:
  explicit BlockedDot(const ir::Instruction& instruction)
      : DotKernel(instruction, "dot.blocked", device::KernelOrigin::own) {}

 private:
  static constexpr std::int64_t kHighTileRows = 128, kManyTiles = 16;

  Status multiply(const void* lhs, const void* rhs, void* out, void*) const override {
    visit_accumulator(accumulator_of(lhs_dtype_, rhs_dtype_, result_dtype_), [&](auto zero) {
      using Acc = decltype(zero);
      const std::int64_t n_tiles = (shape_.n + kTileColumns - 1) / kTileColumns;
      // High tiles pack the right operand less often, where there are enough of them for all
      // threads.
      const bool is_large = shape_.batch * n_tiles * (shape_.m / kHighTileRows) >= kManyTiles;
      const std::int64_t tile_rows = is_large ? kHighTileRows : kTileRows;
      const std::int64_t m_tiles = (shape_.m + tile_rows - 1) / tile_rows;
      const std::int64_t tiles = shape_.batch * m_tiles * n_tiles;
      const std::int64_t grain = std::max<std::int64_t>(1, 64 / shape_.k);
      device::parallel_for(tiles, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t tile = begin; tile < end; ++tile) {
          const std::int64_t row = tile / n_tiles % m_tiles * tile_rows;
          const std::int64_t rows = std::min(tile_rows, shape_.m - row);
          run_tile<Acc>(tile / (m_tiles * n_tiles), row, static_cast<int>(rows),
                        tile % n_tiles * kTileColumns, lhs, rhs, out);
        }
      });
    });
    return ok_status();
  }

  template <typename Acc>
  void run_tile(std::int64_t b, std::int64_t m0, int rows, std::int64_t n0, const void* lhs,
                const void* rhs, void* out) const {
    const int columns = static_cast<int>(std::min<std::int64_t>(kTileColumns, shape_.n - n0));
    alignas(64) Acc acc[kHighTileRows * kTileColumns];
    alignas(64) Acc left[kHighTileRows * kTileDepth];
    std::fill_n(acc, rows * kTileColumns, Acc{});
    alignas(64) Acc right[kTileDepth * kTileColumns] = {};
    for (std::int64_t k0 = 0; k0 < shape_.k; k0 += kTileDepth) {
      const int depth = static_cast<int>(std::min<std::int64_t>(kTileDepth, shape_.k - k0));
      pack(shape_.lhs, lhs_dtype_, lhs, b, m0, k0, rows, depth, left, kTileDepth);
      pack(shape_.rhs, rhs_dtype_, rhs, b, k0, n0, depth, columns, right, kTileColumns);
      multiply_tile(acc, left, right, rows, depth);
    }
    ir::visit_dtype(result_dtype_, [&](auto zero) {
      using T = decltype(zero);
      for (int i = 0; i < rows; ++i) {
        T* to = static_cast<T*>(out) + (b * shape_.m + m0 + i) * shape_.n + n0;
        for (int j = 0; j < columns; ++j) to[j] = narrow<T>(acc[i * kTileColumns + j]);
      }
    });
  }

  template <typename Acc>
  void pack(const MatrixView& view, ir::DType dtype, const void* data, std::int64_t b,
            std::int64_t row, std::int64_t column, int rows, int columns, Acc* to,
            int width) const {
    const std::int64_t at =
        shape_.batch_offset(view, b) + row * view.row_stride + column * view.column_stride;
    ir::visit_dtype(dtype, [&](auto zero) {
      const auto* from = static_cast<const decltype(zero)*>(data) + at;
      // Neighbours one after the other; along rows in a loop for vectors.
      if (view.column_stride != 1 && view.row_stride == 1) {
        constexpr int kBlock = 8;
        for (int j = 0; j < columns; j += kBlock) {
          const int j_end = std::min(columns, j + kBlock);
          for (int i = 0; i < rows; ++i) {
            Acc* const row_to = to + i * width;
            const auto* const row = from + i;
            for (int y = j; y < j_end; ++y) row_to[y] = widen<Acc>(row[y * view.column_stride]);
          }
        }
        return;
      }
      for (int i = 0; i < rows; ++i) {
        const auto* const row = from + i * view.row_stride;
        Acc* const row_to = to + i * width;
        if (view.column_stride == 1) {
          for (int j = 0; j < columns; ++j) row_to[j] = widen<Acc>(row[j]);
        } else {
          for (int j = 0; j < columns; ++j) row_to[j] = widen<Acc>(row[j * view.column_stride]);
        }
      }
    });
  }
};

}  // namespace

// In this order: small matrices, by loops of our own; a matrix of f32 times a vector, which is
// bound by memory, by a loop of our own that reads every element of the matrix once; few rows by a
// large matrix, which is read as it lies (but f32 constants, which are packed once); large
// matrices, those of f64 and wide integers, of bf16 where there are tiles of it, and of bytes, and
// products of f32 by constant ones, packed for all threads; what else the library has code for;
// what it has code for in f32, blocks of which are widened (f16, mixed floats, integers of a byte);
// tiles of our own for all the rest (mixed dtypes, 16-bit integers, vectors), widened to the
// accumulator's type as they are packed.
KernelResult make_dot(const ir::Instruction& instruction) {
  const ir::DType lhs = instruction.operand(0)->shape().dtype();
  const ir::DType rhs = instruction.operand(1)->shape().dtype();
  const ir::DType result = instruction.shape().dtype();
  const DotShape shape = read_dot(instruction);
  if (SmallDot::takes(lhs, rhs, result, shape)) {
    return KernelResult(std::make_shared<SmallDot>(instruction));
  }
  if (lhs == ir::DType::f32 && rhs == ir::DType::f32 && result == ir::DType::f32) {
    auto vector = std::make_shared<VectorDot>(instruction);
    if (vector->usable()) return KernelResult(std::move(vector));
  }
  const bool is_f32_by_constant =
      rhs == ir::DType::f32 && instruction.operand(1)->opcode() == ir::Opcode::constant;
  if (!is_f32_by_constant) {
    if (auto few = make_few_rows_dot(instruction, shape)) return KernelResult(std::move(few));
  }
  if (auto packed = make_packed_dot(instruction, shape)) return KernelResult(std::move(packed));
  const bool library = lhs == rhs && onednn::data_type(lhs).has_value() &&
                       (result == lhs || result == ir::DType::f32);
  if (library) {
    auto kernel = std::make_shared<OnednnDot>(instruction);
    PLIMSOLL_ASSIGN_OR_RETURN(const bool prepared, kernel->prepare());
    if (prepared) return KernelResult(std::move(kernel));
  }
  if (WidenedDot::takes(lhs, rhs, result, shape.k)) {
    auto kernel = std::make_shared<WidenedDot>(instruction);
    PLIMSOLL_ASSIGN_OR_RETURN(const bool prepared, kernel->prepare());
    if (prepared) return KernelResult(std::move(kernel));
  }
  return KernelResult(std::make_shared<BlockedDot>(instruction));
}

}  // namespace plimsoll::kernels
