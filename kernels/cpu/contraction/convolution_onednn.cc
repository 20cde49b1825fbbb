// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/convolution_onednn.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

namespace plimsoll::kernels {

using onednn::bytes_of;

namespace {

constexpr std::int64_t kMaxSlots = 16;
constexpr double kFlopsPerSlot = 2e6;
constexpr std::int64_t kStageBytes = 512 << 10;

std::int64_t product(std::span<const std::int64_t> values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t aligned(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

const char* name_of(ConvolutionMode mode) {
  switch (mode) {
    case ConvolutionMode::forward:
      return "onednn.convolution.forward";
    case ConvolutionMode::input_gradient:
      return "onednn.convolution.input_gradient";
    case ConvolutionMode::filter_gradient:
      return "onednn.convolution.filter_gradient";
  }
  __builtin_unreachable();
}

dnnl::reorder make_reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to,
                           dnnl::memory::desc* scratch) {
  const dnnl::reorder::primitive_desc description(onednn::cpu_engine(), from, onednn::cpu_engine(),
                                                  to, onednn::user_scratchpad());
  *scratch = description.scratchpad_desc();
  return dnnl::reorder(description);
}

}  // namespace

OnednnConvolution::OnednnConvolution(LibraryConvolution convolution, bool takes_prepared)
    : KernelBase(name_of(convolution.mode), device::KernelOrigin::library),
      c_(std::move(convolution)),
      takes_prepared_(takes_prepared),
      stage_src_(!c_.src.is_channels_last()),
      stage_dst_(!c_.dst.is_channels_last()) {}

bool OnednnConvolution::supported_dtypes() const {
  for (const ir::DType dtype : {c_.src.dtype, c_.dst.dtype, c_.weights.dtype}) {
    if (!onednn::data_type(dtype).has_value()) return false;
  }
  switch (c_.mode) {
    case ConvolutionMode::forward:
      return c_.src.dtype == c_.weights.dtype &&
             (c_.dst.dtype == c_.src.dtype || c_.dst.dtype == ir::DType::f32);
    case ConvolutionMode::input_gradient:
      return c_.dst.dtype == c_.weights.dtype &&
             (c_.src.dtype == c_.dst.dtype || c_.src.dtype == ir::DType::f32);
    case ConvolutionMode::filter_gradient:
      return c_.src.dtype == c_.dst.dtype;
  }
  return false;
}

double OnednnConvolution::flops() const {
  return 2.0 * static_cast<double>(product(c_.dst.dims)) *
         static_cast<double>(product(std::span(c_.weights.dims).subspan(2)));
}

void OnednnConvolution::cut(bool finely) {
  pieces_.clear();
  variants_.clear();
  const std::int64_t n = c_.src.dims[0];
  std::int64_t wanted = static_cast<std::int64_t>(
      std::clamp(flops() / kFlopsPerSlot, 1.0, static_cast<double>(kMaxSlots)));
  const std::int64_t src_bytes = product(c_.src.dims) * dtype_bytes(c_.src.dtype);
  const std::int64_t dst_bytes = product(c_.dst.dims) * dtype_bytes(c_.dst.dtype);
  if (writes_weights()) {
    // Every slot has its own sum; together they may take half of what the activations take.
    const std::int64_t sum_bytes = std::max<std::int64_t>(1, product(c_.weights.dims) * 4);
    const std::int64_t allowed = (src_bytes + dst_bytes) / 2 / sum_bytes;
    wanted = std::min(wanted, std::clamp<std::int64_t>(allowed, 2, 8));
  }
  std::int64_t count = std::min(n, wanted);
  slots_ = count;
  if (stage_src_ || stage_dst_) {
    const std::int64_t image = std::max<std::int64_t>(
        1, ((stage_src_ ? src_bytes : 0) + (stage_dst_ ? dst_bytes : 0)) / n);
    const std::int64_t images =
        std::clamp<std::int64_t>(kStageBytes / image, 1, (n + count - 1) / count);
    count = (n + images - 1) / images;
  } else if (c_.mode == ConvolutionMode::forward && n < wanted && finely) {
    if (cut_rows((wanted + n - 1) / n)) return;
    pieces_.clear();
  }
  // Pieces of one size need one primitive, and all of them must want the weights alike.
  while (!finely && n % count != 0) --count;
  slots_ = std::min(slots_, count);
  for (std::int64_t i = 0; i < count; ++i) {
    Piece piece;
    piece.n = n * i / count;
    piece.n_count = n * (i + 1) / count - piece.n;
    piece.src_rows = c_.src.dims[2];
    piece.dst_rows = c_.dst.dims[2];
    piece.padding_low = c_.padding_low[0];
    piece.padding_high = c_.padding_high[0];
    pieces_.push_back(piece);
  }
}

// False: some piece would see nothing but padding.
bool OnednnConvolution::cut_rows(std::int64_t parts) {
  const std::int64_t rows = c_.dst.dims[2], src_rows = c_.src.dims[2];
  const std::int64_t reach = (c_.weights.dims[3] - 1) * c_.dilation[0];
  parts = std::clamp<std::int64_t>(parts, 1, std::max<std::int64_t>(1, rows / 4));
  for (std::int64_t n = 0; n < c_.src.dims[0]; ++n) {
    for (std::int64_t i = 0; i < parts; ++i) {
      Piece piece;
      piece.n = n;
      piece.n_count = 1;
      piece.dst_row = rows * i / parts;
      piece.dst_rows = rows * (i + 1) / parts - piece.dst_row;
      const std::int64_t low = piece.dst_row * c_.stride[0] - c_.padding_low[0];
      const std::int64_t high = low + (piece.dst_rows - 1) * c_.stride[0] + reach + 1;  // exclusive
      piece.src_row = std::clamp<std::int64_t>(low, 0, src_rows - 1);
      piece.src_rows = std::clamp<std::int64_t>(high, piece.src_row + 1, src_rows) - piece.src_row;
      piece.padding_low = piece.src_row - low;
      piece.padding_high = high - (piece.src_row + piece.src_rows);
      if (piece.padding_low < 0 || piece.padding_high < 0) return false;  // wholly in the padding
      pieces_.push_back(piece);
    }
  }
  slots_ = std::min(kMaxSlots, static_cast<std::int64_t>(pieces_.size()));
  return true;
}

OnednnConvolution::Desc OnednnConvolution::activation_desc(const ActivationView& view,
                                                           std::int64_t n, std::int64_t rows,
                                                           bool dense) const {
  dnnl::memory::dims dims = view.dims, strides = view.strides;
  dims[0] = n;
  dims[2] = rows;
  if (dense && blocked_) {
    constexpr dnnl::memory::format_tag kBlocked[] = {dnnl::memory::format_tag::nCw16c,
                                                     dnnl::memory::format_tag::nChw16c,
                                                     dnnl::memory::format_tag::nCdhw16c};
    if (dims[1] == 16) return Desc(dims, *onednn::data_type(view.dtype), kBlocked[dims.size() - 3]);
  }
  if (dense) {
    strides[1] = 1;
    std::int64_t stride = dims[1];
    for (std::size_t d = dims.size(); d-- > 2;) {
      strides[d] = stride;
      stride *= dims[d];
    }
    strides[0] = stride;
  }
  return Desc(dims, *onednn::data_type(view.dtype), strides);
}

// Sixteen channels lie the same in the library's blocked layout, for which its forward code is
// faster.
bool OnednnConvolution::lies_as_blocked() const {
  return c_.mode == ConvolutionMode::forward && c_.src.dtype == ir::DType::f32 &&
         c_.dst.dtype == ir::DType::f32 && c_.weights.dims[0] == 1 && c_.dst.dims[1] == 16 &&
         (c_.src.dims[1] == 16 || c_.src.dims[1] == 1);
}

bool OnednnConvolution::add_variant(Piece& piece) {
  for (std::size_t i = 0; i < variants_.size(); ++i) {
    const Piece& known = variants_[i].shape;
    if (known.n_count == piece.n_count && known.src_rows == piece.src_rows &&
        known.dst_rows == piece.dst_rows && known.padding_low == piece.padding_low &&
        known.padding_high == piece.padding_high) {
      piece.variant = i;
      return true;
    }
  }
  Variant v;
  v.shape = piece;
  v.src = activation_desc(c_.src, piece.n_count, piece.src_rows, true);
  v.dst = activation_desc(c_.dst, piece.n_count, piece.dst_rows, true);
  v.user_src = activation_desc(c_.src, piece.n_count, piece.src_rows, false);
  v.user_dst = activation_desc(c_.dst, piece.n_count, piece.dst_rows, false);

  dnnl::memory::dims stride = c_.stride, dilation = c_.dilation, low = c_.padding_low,
                     high = c_.padding_high;
  for (auto& d : dilation) d -= 1;
  low[0] = piece.padding_low;
  high[0] = piece.padding_high;
  // The first variant chooses the layout of the weights, the others must do with it.
  if (variants_.empty()) {
    dnnl::memory::dims dims = user_weights_.dims();
    const ir::DType dtype = writes_weights() ? ir::DType::f32 : c_.weights.dtype;
    weights_ = Desc(dims, *onednn::data_type(dtype), dnnl::memory::format_tag::any);
  }
  const auto adopt = [&](const auto& description, const Desc& weights) {
    const std::string_view implementation = description.impl_info_str();
    if (onednn::is_reference(description.impl_info_str())) return false;
    if (blocked_ && !implementation.starts_with("jit")) return false;
    weights_ = weights;
    v.scratch = description.scratchpad_desc();
    return true;
  };
  const dnnl::primitive_attr attributes = onednn::user_scratchpad();
  constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(
      dnnl::convolution_forward::desc(dnnl::prop_kind::forward_training, kAlgorithm, v.src,
                                      weights_, v.dst, stride, dilation, low, high),
      attributes, onednn::cpu_engine());
  switch (c_.mode) {
    case ConvolutionMode::forward:
      if (!adopt(forward, forward.weights_desc())) return false;
      v.primitive = dnnl::convolution_forward(forward);
      break;
    case ConvolutionMode::input_gradient: {
      const dnnl::convolution_backward_data::primitive_desc description(
          dnnl::convolution_backward_data::desc(kAlgorithm, v.src, weights_, v.dst, stride,
                                                dilation, low, high),
          attributes, onednn::cpu_engine(), forward);
      if (!adopt(description, description.weights_desc())) return false;
      v.primitive = dnnl::convolution_backward_data(description);
      break;
    }
    case ConvolutionMode::filter_gradient: {
      const dnnl::convolution_backward_weights::primitive_desc description(
          dnnl::convolution_backward_weights::desc(kAlgorithm, v.src, weights_, v.dst, stride,
                                                   dilation, low, high),
          attributes, onednn::cpu_engine(), forward);
      if (!adopt(description, description.diff_weights_desc())) return false;
      v.primitive = dnnl::convolution_backward_weights(description);
      break;
    }
  }
  scratch_bytes_ = std::max(scratch_bytes_, bytes_of(v.scratch));
  Desc scratch;
  if (stage_src_) {
    const bool out = c_.mode == ConvolutionMode::input_gradient;
    v.stage_src =
        out ? make_reorder(v.src, v.user_src, &scratch) : make_reorder(v.user_src, v.src, &scratch);
    src_stage_bytes_ = std::max(src_stage_bytes_, bytes_of(v.src));
    scratch_bytes_ = std::max(scratch_bytes_, bytes_of(scratch));
  }
  if (stage_dst_) {
    const bool out = c_.mode == ConvolutionMode::forward;
    v.stage_dst =
        out ? make_reorder(v.dst, v.user_dst, &scratch) : make_reorder(v.user_dst, v.dst, &scratch);
    dst_stage_bytes_ = std::max(dst_stage_bytes_, bytes_of(v.dst));
    scratch_bytes_ = std::max(scratch_bytes_, bytes_of(scratch));
  }
  piece.variant = variants_.size();
  variants_.push_back(std::move(v));
  return true;
}

bool OnednnConvolution::add_variants(bool finely) {
  cut(finely);
  try {
    for (Piece& piece : pieces_) {
      if (!add_variant(piece)) return false;
    }
  } catch (const dnnl::error&) {  // no implementation
    return false;
  }
  return true;
}

bool OnednnConvolution::prepare() {
  if (!supported_dtypes() || c_.src.dims.size() > 5 || product(c_.src.dims) == 0 ||
      product(c_.dst.dims) == 0 || product(c_.weights.dims) == 0)
    return false;
  bool usable = true;
  const Status status = onednn::guarded_making(name().c_str(), [&] {
    const bool grouped = c_.weights.dims[0] != 1;
    dnnl::memory::dims dims(c_.weights.dims.begin() + (grouped ? 0 : 1), c_.weights.dims.end());
    dnnl::memory::dims strides(c_.weights.strides.begin() + (grouped ? 0 : 1),
                               c_.weights.strides.end());
    if (std::find(c_.flip.begin(), c_.flip.end(), true) != c_.flip.end() && !writes_weights()) {
      // The reversed copy keeps the order of the dimensions in memory.
      const std::size_t spatial = dims.size() - c_.flip.size();
      std::vector<std::size_t> order(dims.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::stable_sort(order.begin(), order.end(),
                       [&](auto a, auto b) { return strides[a] > strides[b]; });
      dnnl::memory::dims dense(dims.size());
      std::int64_t stride = 1;
      for (std::size_t i = order.size(); i-- > 0;) {
        dense[order[i]] = stride;
        stride *= dims[order[i]];
      }
      for (const std::size_t d : order) {
        const bool flipped = d >= spatial && c_.flip[d - spatial];
        flip_dims_.push_back(dims[d]);
        flip_strides_.push_back(flipped ? -strides[d] : strides[d]);
        if (flipped) flip_start_ += (dims[d] - 1) * strides[d];
      }
      strides = dense;
    }
    user_weights_ = Desc(dims, *onednn::data_type(c_.weights.dtype), strides);
    blocked_ = lies_as_blocked();
    usable = blocked_ && add_variants(true);
    if (!usable) {
      blocked_ = false;
      usable = add_variants(true) || (variants_.size() > 0 && add_variants(false));
    }
    if (!usable) return;
    if (weights_ != user_weights_) {
      weights_reorder_ = writes_weights()
                             ? make_reorder(weights_, user_weights_, &reorder_scratch_)
                             : make_reorder(user_weights_, weights_, &reorder_scratch_);
    }
    lay_out_workspace();
    find_slot_ends();
  });
  return status.ok() && usable;
}

void OnednnConvolution::find_slot_ends() {
  if (c_.mode != ConvolutionMode::forward || stage_dst_) return;
  const std::int64_t count = static_cast<std::int64_t>(pieces_.size());
  for (std::int64_t slot = 0; slot < slots_; ++slot) {
    const Piece& last = pieces_[static_cast<std::size_t>(count * (slot + 1) / slots_ - 1)];
    slot_ends_.push_back((last.n + last.n_count - 1) * c_.dst.strides[0] +
                         (last.dst_row + last.dst_rows) * c_.dst.strides[2]);
  }
}

void OnednnConvolution::lay_out_workspace() {
  scratch_bytes_ = aligned(scratch_bytes_);
  src_stage_bytes_ = aligned(src_stage_bytes_);
  dst_stage_bytes_ = aligned(dst_stage_bytes_);
  slot_bytes_ = scratch_bytes_ + src_stage_bytes_ + dst_stage_bytes_;
  if (writes_weights()) {
    // A slot with several pieces also needs a place for the sum of one.
    const bool several = static_cast<std::int64_t>(pieces_.size()) > slots_;
    partial_bytes_ = aligned(bytes_of(weights_));
    slot_bytes_ += partial_bytes_ * (several ? 2 : 1);
  } else if (!takes_prepared_) {
    if (!flip_dims_.empty()) flip_at_ = reserve_workspace(bytes_of(user_weights_));
    if (weights_reorder_) weights_at_ = reserve_workspace(bytes_of(weights_));
  }
  if (weights_reorder_ && !takes_prepared_) {
    reorder_scratch_at_ = reserve_workspace(bytes_of(reorder_scratch_));
  }
  slot_at_ = reserve_workspace(slot_bytes_ * slots_);
}

}  // namespace plimsoll::kernels
