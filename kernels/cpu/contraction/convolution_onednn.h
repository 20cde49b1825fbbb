// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/contraction/convolution_shape.h"
#include "kernels/cpu/contraction/onednn.h"
#include "kernels/cpu/kernel_base.h"
#include "runtime/device/cpu/result_pieces.h"
#include "runtime/device/input_preparation.h"

namespace plimsoll::kernels {

// One direction of a convolution in oneDNN. The batch (for a small batch also the rows of a forward
// convolution) is cut into pieces by shape alone; pieces are dealt to slots, and each slot is a
// task with memory of its own. Weights change their layout once per launch, or come with it
// changed (`takes_prepared`). Activations that are
// not channels-last are staged piece by piece. Filter gradients are added over the pieces in order.
class OnednnConvolution final : public KernelBase,
                                public device::InputPreparation,
                                public device::ResultPieces {
 public:
  explicit OnednnConvolution(LibraryConvolution convolution, bool takes_prepared = false);

  // False: the library has no fast code for this convolution.
  bool prepare();
  // What the filters take as the library lays them out, padding included.
  std::int64_t library_filter_bytes() const { return onednn::bytes_of(weights_); }

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override;
  // All of it on the calling thread, but for gradients of filters.
  Status run_alone(const void* src, const void* weights, const void* dst, void* workspace) const;

  const device::InputPreparation* input_preparation() const override { return this; }
  int prepared_input() const override { return 1; }
  std::int64_t prepared_bytes() const override;
  Status prepare(const void* plain, void* prepared) const override;
  std::shared_ptr<const device::Kernel> taking_prepared() const override;

  // Of a forward convolution into channels-last order: what each slot makes.
  std::span<const std::int64_t> piece_ends() const override { return slot_ends_; }
  Status begin(const device::KernelArguments& arguments) const override;
  Status run_piece(const device::KernelArguments& arguments, std::int64_t slot) const override;

 private:
  using Desc = dnnl::memory::desc;

  // Part of the batch, and of the outermost spatial dimension of src and dst.
  struct Piece {
    std::int64_t n = 0, n_count = 0;
    std::int64_t src_row = 0, src_rows = 0;
    std::int64_t dst_row = 0, dst_rows = 0;
    std::int64_t padding_low = 0, padding_high = 0;  // of the outermost spatial dimension
    std::size_t variant = 0;
  };
  // What pieces of the same shape share.
  struct Variant {
    Piece shape;
    Desc src, dst, scratch;   // channels-last
    Desc user_src, user_dst;  // as they lie in the arguments
    dnnl::primitive primitive;
    std::optional<dnnl::reorder> stage_src, stage_dst;
  };

  bool supported_dtypes() const;
  double flops() const;
  void cut(bool finely);
  bool cut_rows(std::int64_t parts);
  bool lies_as_blocked() const;
  bool add_variant(Piece& piece);
  bool add_variants(bool finely);
  void lay_out_workspace();
  Desc activation_desc(const ActivationView& view, std::int64_t n, std::int64_t rows,
                       bool dense) const;
  bool writes_weights() const { return c_.mode == ConvolutionMode::filter_gradient; }

  void find_slot_ends();
  // Where changed weights lie; `user` where they are taken as they are.
  const void* weights_of(const void* user, void* workspace) const;
  const void* prepare_weights(const void* user, void* workspace) const;
  void run_slot(std::int64_t slot, const void* src, const void* weights, const void* dst,
                void* workspace) const;
  Status finish_weights(void* out, void* workspace) const;

  LibraryConvolution c_;
  bool takes_prepared_;
  bool stage_src_, stage_dst_;
  bool blocked_ = false;  // activations are described in the library's blocked layout
  std::vector<Piece> pieces_;
  std::vector<Variant> variants_;
  std::int64_t slots_ = 1;
  std::vector<std::int64_t> slot_ends_;  // elements of the result; empty where slots make no runs

  Desc user_weights_, weights_;  // after a flip; as the primitives want them
  std::optional<dnnl::reorder> weights_reorder_;
  Desc reorder_scratch_;
  std::vector<std::int64_t> flip_dims_, flip_strides_;  // empty: no flip
  std::int64_t flip_start_ = 0;

  std::int64_t weights_at_ = 0, flip_at_ = 0, reorder_scratch_at_ = 0;
  std::int64_t slot_at_ = 0, slot_bytes_ = 0;
  std::int64_t scratch_bytes_ = 0, src_stage_bytes_ = 0, dst_stage_bytes_ = 0;
  std::int64_t partial_bytes_ = 0;
};

}  // namespace plimsoll::kernels
