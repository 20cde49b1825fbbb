// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/dot_widened.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/contraction/widened.h"
#include "kernels/cpu/numeric.h"
#include "kernels/cpu/vector_loops.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

constexpr std::int64_t kRows = 128, kColumns = 256;
// 256 products of bytes add up to less than 2^24.
constexpr std::int64_t kDepth = 256;
constexpr std::int64_t kMaxSlots = 8;

// Rows stay rows unless columns are what lies together.
bool keeps_rows(const MatrixView& view) { return view.column_stride == 1 || view.row_stride != 1; }

// A block, dense: by rows, or by columns where those lie together.
void widen_block(ir::DType dtype, const MatrixView& view, const void* data, std::int64_t at,
                 std::int64_t rows, std::int64_t columns, float* to) {
  const bool by_rows = keeps_rows(view);
  const std::int64_t outer = by_rows ? rows : columns, inner = by_rows ? columns : rows;
  const std::int64_t outer_stride = by_rows ? view.row_stride : view.column_stride;
  const std::int64_t inner_stride = by_rows ? view.column_stride : view.row_stride;
  const int bytes = dtype_bytes(dtype);
  for (std::int64_t i = 0; i < outer; ++i) {
    const std::int64_t first = at + i * outer_stride;
    if (inner_stride == 1) {
      widen_run(dtype, byte_offset(data, first * bytes), to + i * inner, inner);
      continue;
    }
    for (std::int64_t j = 0; j < inner; ++j) {
      to[i * inner + j] = load_element<float>(dtype, data, first + j * inner_stride);
    }
  }
}

dnnl::memory::desc block_desc(const MatrixView& view, std::int64_t rows, std::int64_t columns) {
  using Dims = dnnl::memory::dims;
  return {{rows, columns},
          dnnl::memory::data_type::f32,
          keeps_rows(view) ? Dims{columns, 1} : Dims{1, rows}};
}

}  // namespace

struct WidenedDot::Slot {
  std::int64_t first, last;  // of tiles
  float *lhs, *rhs, *product;
  void *sums, *scratch;
};

bool WidenedDot::takes(ir::DType lhs, ir::DType rhs, ir::DType result, std::int64_t k) {
  if (is_f32_or_half(lhs) && is_f32_or_half(rhs) && is_f32_or_half(result)) return true;
  constexpr std::int64_t kMostIn32Bits = 1 << 15;
  return is_byte(lhs) && is_byte(rhs) && !ir::is_floating(result) &&
         (dtype_bytes(result) <= 4 || k <= kMostIn32Bits);
}

WidenedDot::WidenedDot(const ir::Instruction& instruction)
    : DotKernel(instruction, "dot.widened", device::KernelOrigin::library),
      is_whole_(!ir::is_floating(result_dtype_)),
      m_tile_(std::min(shape_.m, kRows)),
      n_tile_(std::min(shape_.n, kColumns)),
      k_tile_(std::min(shape_.k, kDepth)) {}

Result<bool> WidenedDot::prepare() {
  if (shape_.m == 0 || shape_.n == 0 || shape_.k == 0 || shape_.batch == 0) return false;
  m_tiles_ = (shape_.m + m_tile_ - 1) / m_tile_;
  n_tiles_ = (shape_.n + n_tile_ - 1) / n_tile_;
  tiles_ = shape_.batch * m_tiles_ * n_tiles_;
  slots_ = std::min(tiles_, kMaxSlots);
  bool usable = true;
  const Status status = onednn::guarded_making("dot", [&] {
    const auto last_of = [](std::int64_t size, std::int64_t tile) {
      return size - (size + tile - 1) / tile * tile + tile;
    };
    for (const std::int64_t m : {m_tile_, last_of(shape_.m, m_tile_)}) {
      for (const std::int64_t n : {n_tile_, last_of(shape_.n, n_tile_)}) {
        for (const std::int64_t k : {k_tile_, last_of(shape_.k, k_tile_)}) {
          usable = usable && add_primitive(m, n, k);
        }
      }
    }
  });
  if (!status.ok() || !usable) return false;
  constexpr std::int64_t kBytes = sizeof(float);
  rhs_at_ = aligned_bytes(m_tile_ * k_tile_ * kBytes);
  product_at_ = rhs_at_ + aligned_bytes(k_tile_ * n_tile_ * kBytes);
  sums_at_ = product_at_ + aligned_bytes(m_tile_ * n_tile_ * kBytes);
  scratch_at_ = sums_at_ + aligned_bytes(m_tile_ * n_tile_ * kBytes);
  slot_bytes_ = scratch_at_ + aligned_bytes(scratch_bytes_);
  workspace_ = reserve_workspace(slot_bytes_ * slots_);
  return true;
}

bool WidenedDot::add_primitive(std::int64_t m, std::int64_t n, std::int64_t k) {
  for (const Variant& known : variants_) {
    if (known.m == m && known.n == n && known.k == k) return true;
  }
  Variant v;
  v.m = m;
  v.n = n;
  v.k = k;
  v.lhs = block_desc(shape_.lhs, m, k);
  v.rhs = block_desc(shape_.rhs, k, n);
  v.out = {{m, n}, dnnl::memory::data_type::f32, {n, 1}};
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(v.lhs, v.rhs, v.out),
                                                 onednn::user_scratchpad(), onednn::cpu_engine());
  if (onednn::is_reference(description.impl_info_str())) return false;
  v.scratch = description.scratchpad_desc();
  scratch_bytes_ = std::max(scratch_bytes_, static_cast<std::int64_t>(v.scratch.get_size()));
  v.primitive = dnnl::matmul(description);
  variants_.push_back(std::move(v));
  return true;
}

Status WidenedDot::multiply(const void* lhs, const void* rhs, void* out, void* workspace) const {
  onednn::FirstFailure failure;
  device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t base = workspace_ + i * slot_bytes_;
      const auto part = [&](std::int64_t at) {
        return reinterpret_cast<float*>(byte_offset(workspace, base + at));
      };
      Slot slot{tiles_ * i / slots_, tiles_ * (i + 1) / slots_, part(0),
                part(rhs_at_),       part(product_at_),         part(sums_at_),
                part(scratch_at_)};
      failure.add(onednn::guarded("dot", [&] { run_slot(slot, lhs, rhs, out); }));
    }
  });
  return failure.status();
}

void WidenedDot::run_slot(Slot& slot, const void* lhs, const void* rhs, void* out) const {
  std::vector<std::optional<onednn::Execution>> executions(variants_.size());
  for (std::int64_t tile = slot.first; tile < slot.last; ++tile) {
    const std::int64_t n0 = tile % n_tiles_ * n_tile_;
    const std::int64_t m0 = tile / n_tiles_ % m_tiles_ * m_tile_;
    const std::int64_t b = tile / (n_tiles_ * m_tiles_);
    const std::int64_t m = std::min(m_tile_, shape_.m - m0);
    const std::int64_t n = std::min(n_tile_, shape_.n - n0);
    for (std::int64_t k0 = 0; k0 < shape_.k; k0 += k_tile_) {
      const std::int64_t k = std::min(k_tile_, shape_.k - k0);
      std::size_t which = 0;
      while (variants_[which].m != m || variants_[which].n != n || variants_[which].k != k) ++which;
      const Variant& v = variants_[which];
      if (!executions[which].has_value()) {
        executions[which].emplace(v.primitive,
                                  std::vector<onednn::Argument>{{DNNL_ARG_SRC, v.lhs},
                                                                {DNNL_ARG_WEIGHTS, v.rhs},
                                                                {DNNL_ARG_DST, v.out},
                                                                {DNNL_ARG_SCRATCHPAD, v.scratch}});
      }
      widen_block(lhs_dtype_, shape_.lhs, lhs,
                  shape_.batch_offset(shape_.lhs, b) + m0 * shape_.lhs.row_stride +
                      k0 * shape_.lhs.column_stride,
                  m, k, slot.lhs);
      widen_block(rhs_dtype_, shape_.rhs, rhs,
                  shape_.batch_offset(shape_.rhs, b) + k0 * shape_.rhs.row_stride +
                      n0 * shape_.rhs.column_stride,
                  k, n, slot.rhs);
      executions[which]->run({slot.lhs, slot.rhs, slot.product, slot.scratch});
      const std::int64_t count = m * n;
      if (is_whole_) {
        auto* const sums = static_cast<std::uint32_t*>(slot.sums);
        if (k0 == 0) std::fill_n(sums, count, 0U);
        add_whole(sums, slot.product, count);
      } else if (k0 == 0) {
        std::memcpy(slot.sums, slot.product, static_cast<std::size_t>(count) * sizeof(float));
      } else {
        add_to(static_cast<float*>(slot.sums), slot.product, count);
      }
    }
    store(slot, m, n, out, (b * shape_.m + m0) * shape_.n + n0);
  }
}

void WidenedDot::store(const Slot& slot, std::int64_t m, std::int64_t n, void* out,
                       std::int64_t at) const {
  const int bytes = dtype_bytes(result_dtype_);
  if (!is_whole_) {
    for (std::int64_t i = 0; i < m; ++i) {
      narrow_run(result_dtype_, static_cast<const float*>(slot.sums) + i * n,
                 byte_offset(out, (at + i * shape_.n) * bytes), n);
    }
    return;
  }
  ir::visit_dtype(result_dtype_, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!kIsFloating<T>) {
      for (std::int64_t i = 0; i < m; ++i) {
        T* const to = static_cast<T*>(out) + at + i * shape_.n;
        const auto* const from = static_cast<const std::int32_t*>(slot.sums) + i * n;
        for (std::int64_t j = 0; j < n; ++j) to[j] = narrow<T>(from[j]);
      }
    }
  });
}

}  // namespace plimsoll::kernels
