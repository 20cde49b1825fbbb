// SPDX-License-Identifier: Apache-2.0
// What a launch does with the pieces and primitives that convolution_onednn.cc chose.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "kernels/cpu/contraction/convolution_onednn.h"
#include "kernels/cpu/contraction/strided_copy.h"
#include "kernels/cpu/vector_loops.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {

using onednn::bytes_of;

const void* OnednnConvolution::prepare_weights(const void* user, void* workspace) const {
  if (!flip_dims_.empty()) {
    void* flipped = byte_offset(workspace, flip_at_);
    const int bytes = dtype_bytes(c_.weights.dtype);
    copy_to_dense(flip_dims_, flip_strides_, bytes, byte_offset(user, flip_start_ * bytes),
                  flipped);
    user = flipped;
  }
  if (!weights_reorder_) return user;
  void* prepared = byte_offset(workspace, weights_at_);
  onednn::Execution(*weights_reorder_, {{DNNL_ARG_FROM, user_weights_},
                                        {DNNL_ARG_TO, weights_},
                                        {DNNL_ARG_SCRATCHPAD, reorder_scratch_}})
      .run({user, prepared, byte_offset(workspace, reorder_scratch_at_)});
  return prepared;
}

void OnednnConvolution::run_slot(std::int64_t slot, const void* src, const void* weights,
                                 const void* dst, void* workspace) const {
  const std::int64_t count = static_cast<std::int64_t>(pieces_.size());
  const std::int64_t first = count * slot / slots_, last = count * (slot + 1) / slots_;
  std::byte* memory = byte_offset(workspace, slot_at_ + slot * slot_bytes_);
  void* const scratch = memory;
  void* const src_stage = memory + scratch_bytes_;
  void* const dst_stage = memory + scratch_bytes_ + src_stage_bytes_;
  void* const sum = memory + scratch_bytes_ + src_stage_bytes_ + dst_stage_bytes_;
  for (std::int64_t i = first; i < last; ++i) {
    const Piece& piece = pieces_[at(i)];
    const Variant& v = variants_[piece.variant];
    const void* user_src =
        byte_offset(src, (piece.n * c_.src.strides[0] + piece.src_row * c_.src.strides[2]) *
                             dtype_bytes(c_.src.dtype));
    const void* user_dst =
        byte_offset(dst, (piece.n * c_.dst.strides[0] + piece.dst_row * c_.dst.strides[2]) *
                             dtype_bytes(c_.dst.dtype));
    const void* piece_src = stage_src_ ? src_stage : user_src;
    const void* piece_dst = stage_dst_ ? dst_stage : user_dst;
    const auto stage = [&](const dnnl::reorder& reorder, const Desc& from_desc, const void* from,
                           const Desc& to_desc, const void* to) {
      onednn::Execution(reorder, {{DNNL_ARG_FROM, from_desc}, {DNNL_ARG_TO, to_desc}})
          .run({from, to});
    };
    if (v.stage_src && c_.mode != ConvolutionMode::input_gradient)
      stage(*v.stage_src, v.user_src, user_src, v.src, src_stage);
    if (v.stage_dst && c_.mode != ConvolutionMode::forward)
      stage(*v.stage_dst, v.user_dst, user_dst, v.dst, dst_stage);
    switch (c_.mode) {
      case ConvolutionMode::forward:
        onednn::Execution(v.primitive, {{DNNL_ARG_SRC, v.src},
                                        {DNNL_ARG_WEIGHTS, weights_},
                                        {DNNL_ARG_DST, v.dst},
                                        {DNNL_ARG_SCRATCHPAD, v.scratch}})
            .run({piece_src, weights, piece_dst, scratch});
        if (v.stage_dst) stage(*v.stage_dst, v.dst, dst_stage, v.user_dst, user_dst);
        break;
      case ConvolutionMode::input_gradient:
        onednn::Execution(v.primitive, {{DNNL_ARG_DIFF_SRC, v.src},
                                        {DNNL_ARG_WEIGHTS, weights_},
                                        {DNNL_ARG_DIFF_DST, v.dst},
                                        {DNNL_ARG_SCRATCHPAD, v.scratch}})
            .run({piece_src, weights, piece_dst, scratch});
        if (v.stage_src) stage(*v.stage_src, v.src, src_stage, v.user_src, user_src);
        break;
      case ConvolutionMode::filter_gradient: {
        void* into = i == first ? sum : static_cast<std::byte*>(sum) + partial_bytes_;
        onednn::Execution(v.primitive, {{DNNL_ARG_SRC, v.src},
                                        {DNNL_ARG_DIFF_WEIGHTS, weights_},
                                        {DNNL_ARG_DIFF_DST, v.dst},
                                        {DNNL_ARG_SCRATCHPAD, v.scratch}})
            .run({piece_src, into, piece_dst, scratch});
        if (i != first) {
          add_to(static_cast<float*>(sum), static_cast<const float*>(into), bytes_of(weights_) / 4);
        }
        break;
      }
    }
  }
}

Status OnednnConvolution::finish_weights(void* out, void* workspace) const {
  const auto sum_of = [&](std::int64_t slot) {
    return reinterpret_cast<float*>(byte_offset(
        workspace,
        slot_at_ + slot * slot_bytes_ + scratch_bytes_ + src_stage_bytes_ + dst_stage_bytes_));
  };
  float* total = sum_of(0);
  device::parallel_for(bytes_of(weights_) / 4, 16384, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slot = 1; slot < slots_; ++slot)
      add_to(total + begin, sum_of(slot) + begin, end - begin);
  });
  if (!weights_reorder_) {
    std::copy_n(reinterpret_cast<const std::byte*>(total), bytes_of(weights_),
                static_cast<std::byte*>(out));
    return ok_status();
  }
  return onednn::guarded(name().c_str(), [&] {
    onednn::Execution(*weights_reorder_, {{DNNL_ARG_FROM, weights_},
                                          {DNNL_ARG_TO, user_weights_},
                                          {DNNL_ARG_SCRATCHPAD, reorder_scratch_}})
        .run({total, out, byte_offset(workspace, reorder_scratch_at_)});
  });
}

Status OnednnConvolution::launch(device::Stream&, const device::KernelArguments& arguments) const {
  const void* lhs = arguments.inputs[0];
  const void* rhs = arguments.inputs[1];
  void* out = arguments.outputs[0];
  const void *src = lhs, *dst = out, *weights = rhs;
  if (c_.mode == ConvolutionMode::input_gradient) {
    src = out;
    dst = lhs;
  } else if (writes_weights()) {
    dst = rhs;
    weights = nullptr;
  }
  if (!writes_weights() && !takes_prepared_) {
    PLIMSOLL_RETURN_IF_ERROR(onednn::guarded(
        name().c_str(), [&] { weights = prepare_weights(rhs, arguments.workspace); }));
  }
  onednn::FirstFailure failure;
  device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slot = begin; slot < end; ++slot) {
      failure.add(onednn::guarded(name().c_str(),
                                  [&] { run_slot(slot, src, weights, dst, arguments.workspace); }));
    }
  });
  PLIMSOLL_RETURN_IF_ERROR(failure.status());
  return writes_weights() ? finish_weights(out, arguments.workspace) : ok_status();
}

Status OnednnConvolution::run_alone(const void* src, const void* weights, const void* dst,
                                    void* workspace) const {
  return onednn::guarded(name().c_str(), [&] {
    const void* const prepared = takes_prepared_ ? weights : prepare_weights(weights, workspace);
    for (std::int64_t slot = 0; slot < slots_; ++slot) {
      run_slot(slot, src, prepared, dst, workspace);
    }
  });
}

const void* OnednnConvolution::weights_of(const void* user, void* workspace) const {
  if (takes_prepared_) return user;
  if (weights_reorder_) return byte_offset(workspace, weights_at_);
  return flip_dims_.empty() ? user : byte_offset(workspace, flip_at_);
}

Status OnednnConvolution::begin(const device::KernelArguments& arguments) const {
  if (takes_prepared_) return ok_status();
  return onednn::guarded(name().c_str(),
                         [&] { prepare_weights(arguments.inputs[1], arguments.workspace); });
}

Status OnednnConvolution::run_piece(const device::KernelArguments& arguments,
                                    std::int64_t slot) const {
  return onednn::guarded(name().c_str(), [&] {
    run_slot(slot, arguments.inputs[0], weights_of(arguments.inputs[1], arguments.workspace),
             arguments.outputs[0], arguments.workspace);
  });
}

std::int64_t OnednnConvolution::prepared_bytes() const {
  if (writes_weights() || takes_prepared_) return 0;
  if (!weights_reorder_ && flip_dims_.empty()) return 0;
  return bytes_of(weights_);
}

Status OnednnConvolution::prepare(const void* plain, void* prepared) const {
  const std::int64_t bytes = prepared_bytes();
  const std::unique_ptr<void, void (*)(void*)> workspace(
      std::aligned_alloc(kBufferAlignment, at(std::max(workspace_bytes(), kBufferAlignment))),
      std::free);
  if (workspace == nullptr) {
    return Status(StatusCode::resource_exhausted, name() + ": no host memory to prepare weights");
  }
  return onednn::guarded(name().c_str(), [&] {
    std::memcpy(prepared, prepare_weights(plain, workspace.get()), at(bytes));
  });
}

std::shared_ptr<const device::Kernel> OnednnConvolution::taking_prepared() const {
  auto kernel = std::make_shared<OnednnConvolution>(c_, true);
  if (!kernel->OnednnConvolution::prepare()) return nullptr;
  return kernel;
}

}  // namespace plimsoll::kernels
