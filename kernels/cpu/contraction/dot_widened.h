// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/cpu/contraction/dot_kernel.h"
#include "kernels/cpu/contraction/onednn.h"

namespace plimsoll::kernels {

// Products of halves and of integers of a byte as fast as those of f32: blocks of both operands are
// widened to f32, multiplied by oneDNN, and added up in f32 or in integers of 32 bits. Exact for
// integers: a block is so short that every sum in it is a whole number that f32 holds.
class WidenedDot final : public DotKernel {
 public:
  // Whether these dtypes, and a sum of so many products, can be computed so.
  static bool takes(ir::DType lhs, ir::DType rhs, ir::DType result, std::int64_t k);

  explicit WidenedDot(const ir::Instruction& instruction);

  // False: the library has no fast code for this.
  Result<bool> prepare();

 private:
  struct Variant {
    std::int64_t m, n, k;
    dnnl::memory::desc lhs, rhs, out, scratch;
    dnnl::matmul primitive;
  };
  struct Slot;

  bool add_primitive(std::int64_t m, std::int64_t n, std::int64_t k);
  Status multiply(const void* lhs, const void* rhs, void* out, void* workspace) const override;
  void run_slot(Slot& slot, const void* lhs, const void* rhs, void* out) const;
  void store(const Slot& slot, std::int64_t m, std::int64_t n, void* out, std::int64_t at) const;

  bool is_whole_;  // of integers
  std::int64_t m_tile_, n_tile_, k_tile_, m_tiles_, n_tiles_, tiles_, slots_;
  std::vector<Variant> variants_;
  // Of a slot's part of the workspace: where what begins, and all of it.
  std::int64_t rhs_at_, product_at_, sums_at_, scratch_at_, slot_bytes_ = 0;
  std::int64_t scratch_bytes_ = 0, workspace_ = 0;
};

}  // namespace plimsoll::kernels
