// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/convolution_blocked.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "kernels/cpu/numeric.h"
#include "kernels/cpu/vector_loops.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

std::int64_t parts_of(std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; }

// One spatial dimension, with strides in elements. Of output position o and window position k, the
// input position is (o * stride + k * window_dilation - padding) / base_dilation, if that is whole.
struct SpatialAxis {
  std::int64_t out = 1, in = 1, window = 1;
  std::int64_t out_stride = 0, in_stride = 0, window_stride = 0;
  std::int64_t stride = 1, window_dilation = 1, base_dilation = 1, padding = 0;
  bool is_reversed = false;

  // The input position that output o reads at window position k; -1 where there is none.
  std::int64_t input_at(std::int64_t o, std::int64_t k) const {
    const std::int64_t dilated = o * stride + k * window_dilation - padding;
    const std::int64_t j = dilated / base_dilation;
    return dilated >= 0 && j * base_dilation == dilated && j < in ? j : -1;
  }
};

// Outputs that lie in one row of the innermost spatial dimension, which is `count` of a tile's.
struct OutputRun {
  int first = 0;  // in the tile
  int count = 0;
  std::int64_t batch = 0;
  std::int64_t out_at = 0;             // of the run's first output, without its feature
  std::vector<std::int64_t> position;  // in each spatial dimension
};

// From an output or a feature to the next, and along the depth, in elements.
struct Steps {
  int item = 1, depth = 1;
};

class BlockedConvolution final : public KernelBase {
 public:
  explicit BlockedConvolution(const ir::Instruction& instruction)
      : KernelBase("convolution.blocked", device::KernelOrigin::own),
        lhs_dtype_(instruction.operand(0)->shape().dtype()),
        rhs_dtype_(instruction.operand(1)->shape().dtype()),
        out_dtype_(instruction.shape().dtype()) {
    const ir::ConvolutionDimensions& labels = *instruction.attributes().convolution;
    const ir::Dims& lhs = instruction.operand(0)->shape().dims();
    const ir::Dims& rhs = instruction.operand(1)->shape().dims();
    const ir::Dims& out = instruction.shape().dims();
    const ir::Dims ls = ir::row_major_strides(lhs), rs = ir::row_major_strides(rhs),
                   os = ir::row_major_strides(out);
    const auto dim = [](std::int64_t d) { return static_cast<int>(d); };
    for (std::size_t s = 0; s < labels.kernel_spatial.size(); ++s) {
      const ir::WindowDimension& w = instruction.attributes().window[s];
      const int o = dim(labels.output_spatial[s]), i = dim(labels.input_spatial[s]),
                k = dim(labels.kernel_spatial[s]);
      axes_.push_back({out[o], lhs[i], rhs[k], os[o], ls[i], rs[k], w.stride, w.window_dilation,
                       w.base_dilation, w.padding_low, w.reversal});
      window_positions_ *= rhs[k];
    }
    if (axes_.empty()) axes_.push_back({});
    batch_ = out[dim(labels.output_batch)];
    features_ = out[dim(labels.output_feature)];
    inputs_ = rhs[dim(labels.kernel_input_feature)];
    groups_ = instruction.attributes().feature_group_count;
    batch_groups_ = instruction.attributes().batch_group_count;
    lhs_batch_stride_ = ls[dim(labels.input_batch)];
    lhs_feature_stride_ = ls[dim(labels.input_feature)];
    rhs_input_stride_ = rs[dim(labels.kernel_input_feature)];
    rhs_output_stride_ = rs[dim(labels.kernel_output_feature)];
    out_batch_stride_ = os[dim(labels.output_batch)];
    out_feature_stride_ = os[dim(labels.output_feature)];
    outputs_ = batch_;
    for (const SpatialAxis& axis : axes_) outputs_ *= axis.out;
    // Features of a group share what they read of the input.
    const std::int64_t groups = std::max(groups_, batch_groups_);
    group_features_ = groups == 0 ? 0 : features_ / groups;
    // Lanes are what there is more of.
    lanes_are_outputs_ = group_features_ < kTileColumns && outputs_ > group_features_;
    const std::int64_t outputs_of_tile = lanes_are_outputs_ ? kTileColumns : kTileRows;
    const std::int64_t features_of_tile = lanes_are_outputs_ ? kTileRows : kTileColumns;
    output_tiles_ = parts_of(outputs_, outputs_of_tile);
    feature_tiles_ = parts_of(group_features_, features_of_tile);
    tiles_ = output_tiles_ * feature_tiles_ * groups;
  }

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    if (outputs_ * features_ == 0) return ok_status();
    visit_accumulator(accumulator_of(lhs_dtype_, rhs_dtype_, out_dtype_), [&](auto zero) {
      using Acc = decltype(zero);
      device::parallel_for(tiles_, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t tile = begin; tile < end; ++tile) run_tile<Acc>(tile, arguments);
      });
    });
    return ok_status();
  }

 private:
  template <typename Acc>
  void run_tile(std::int64_t tile, const device::KernelArguments& arguments) const {
    const int most_outputs = lanes_are_outputs_ ? kTileColumns : kTileRows;
    const int most_features = lanes_are_outputs_ ? kTileRows : kTileColumns;
    const std::int64_t first_output = tile % output_tiles_ * most_outputs;
    const std::int64_t part = tile / output_tiles_ % feature_tiles_ * most_features;
    const std::int64_t group = tile / (output_tiles_ * feature_tiles_);
    const int outputs =
        static_cast<int>(std::min<std::int64_t>(most_outputs, outputs_ - first_output));
    const int features =
        static_cast<int>(std::min<std::int64_t>(most_features, group_features_ - part));
    const std::int64_t first_feature = group * group_features_ + part;
    const std::vector<OutputRun> runs = runs_of(first_output, outputs);
    // Where the group's part of the input begins.
    const std::int64_t lhs_at = batch_groups_ > 1 ? group * batch_ * lhs_batch_stride_
                                                  : group * inputs_ * lhs_feature_stride_;
    const std::int64_t rhs_at = first_feature * rhs_output_stride_;

    alignas(64) Acc acc[kTileRows * kTileColumns];
    alignas(64) Acc left[kTileRows * kTileDepth];
    alignas(64) Acc right[kTileDepth * kTileColumns];
    const int rows = lanes_are_outputs_ ? features : outputs;
    std::fill_n(acc, rows * kTileColumns, Acc{});
    std::fill_n(right, std::size(right), Acc{});
    // The next element along an output or a feature, and along the depth.
    const Steps patch = lanes_are_outputs_ ? Steps{1, kTileColumns} : Steps{kTileDepth, 1};
    const Steps filter = lanes_are_outputs_ ? Steps{kTileDepth, 1} : Steps{1, kTileColumns};
    Acc* const patches = lanes_are_outputs_ ? right : left;
    Acc* const filters = lanes_are_outputs_ ? left : right;
    const std::int64_t whole = window_positions_ * inputs_;
    for (std::int64_t first = 0; first < whole; first += kTileDepth) {
      const int depth = static_cast<int>(std::min<std::int64_t>(kTileDepth, whole - first));
      bool is_finite = true, is_inside = true;
      for_each_part(
          first, depth, [&](std::int64_t position, std::int64_t input, int at, int count) {
            is_finite &= load_filters(rhs_at + window_at(position) + input * rhs_input_stride_,
                                      arguments.inputs[1], features, count,
                                      filters + at * filter.depth, filter);
            for (const OutputRun& run : runs) {
              is_inside &= load_patches(run, position, lhs_at + input * lhs_feature_stride_,
                                        arguments.inputs[0], count,
                                        patches + run.first * patch.item + at * patch.depth, patch);
            }
          });
      if (is_finite || is_inside) {
        multiply_tile(acc, left, right, rows, depth);
      } else {
        multiply_inside(acc, left, right, rows, runs, first, depth);
      }
    }
    store(runs, first_feature, features, acc, arguments.outputs[0]);
  }

  std::vector<OutputRun> runs_of(std::int64_t first, int count) const {
    std::vector<OutputRun> runs;
    for (int done = 0; done < count;) {
      OutputRun run;
      run.first = done;
      run.position.resize(axes_.size());
      std::int64_t rest = first + done;
      for (std::size_t s = axes_.size(); s-- > 0;) {
        run.position[s] = rest % axes_[s].out;
        rest /= axes_[s].out;
        run.out_at += run.position[s] * axes_[s].out_stride;
      }
      run.batch = rest;
      run.out_at += rest * out_batch_stride_;
      run.count = static_cast<int>(
          std::min<std::int64_t>(count - done, axes_.back().out - run.position.back()));
      done += run.count;
      runs.push_back(std::move(run));
    }
    return runs;
  }

  // Where window position `position` of a filter begins.
  std::int64_t window_at(std::int64_t position) const {
    std::int64_t at = 0;
    for (std::size_t s = axes_.size(); s-- > 0;) {
      const SpatialAxis& axis = axes_[s];
      const std::int64_t k = position % axis.window;
      position /= axis.window;
      at += (axis.is_reversed ? axis.window - 1 - k : k) * axis.window_stride;
    }
    return at;
  }

  // Of the depth from `first` on, `depth` steps: calls f(window position, first input feature,
  // place in the depth, count of input features).
  template <typename F>
  void for_each_part(std::int64_t first, int depth, const F& f) const {
    std::int64_t position = first / inputs_, input = first % inputs_;
    for (int done = 0; done < depth;) {
      const int count = static_cast<int>(std::min<std::int64_t>(depth - done, inputs_ - input));
      f(position, input, done, count);
      done += count;
      input = 0;
      ++position;
    }
  }

  // Whether all are finite.
  template <typename Acc>
  bool load_filters(std::int64_t from_at, const void* data, int features, int count, Acc* to,
                    const Steps& steps) const {
    int others = 0;
    ir::visit_dtype(rhs_dtype_, [&](auto zero) {
      const auto* const from = static_cast<const decltype(zero)*>(data) + from_at;
      const auto load = [&](Acc& place, const auto& element) {
        place = widen<Acc>(element);
        others |= place - place == Acc{} ? 0 : 1;
      };
      for (int i = 0; i < count; ++i) {
        const auto* const row = from + i * rhs_input_stride_;
        Acc* const row_to = to + i * steps.depth;
        if (steps.item == 1 && rhs_output_stride_ == 1) {
          for (int f = 0; f < features; ++f) load(row_to[f], row[f]);
        } else {
          for (int f = 0; f < features; ++f) {
            load(row_to[f * steps.item], row[f * rhs_output_stride_]);
          }
        }
      }
    });
    return others == 0;
  }

  // What the run's outputs read at a window position: `count` input features, zeros where there is
  // no input. Whether there is everywhere.
  template <typename Acc>
  bool load_patches(const OutputRun& run, std::int64_t position, std::int64_t from_at,
                    const void* data, int count, Acc* to, const Steps& steps) const {
    bool is_inside = true;
    from_at += run.batch * lhs_batch_stride_;
    std::int64_t last = 0;  // the window position in the innermost dimension
    for (std::size_t s = axes_.size(); s-- > 0;) {
      const SpatialAxis& axis = axes_[s];
      const std::int64_t k = position % axis.window;
      position /= axis.window;
      if (s + 1 == axes_.size()) {
        last = k;
        continue;
      }
      const std::int64_t j = axis.input_at(run.position[s], k);
      is_inside &= j >= 0;
      from_at += j * axis.in_stride;
    }
    const SpatialAxis& axis = axes_.back();
    const auto input_at = [&](int o) { return axis.input_at(run.position.back() + o, last); };
    const auto fill = [&](int begin, int end) {
      for (int o = begin; o < end; ++o) {
        for (int i = 0; i < count; ++i) to[o * steps.item + i * steps.depth] = Acc{};
      }
    };
    if (!is_inside) {
      fill(0, run.count);
      return false;
    }
    // Of an undilated input a stretch exists.
    int begin = 0, end = run.count;
    if (axis.base_dilation == 1) {
      while (begin < end && input_at(begin) < 0) ++begin;
      while (end > begin && input_at(end - 1) < 0) --end;
      fill(0, begin);
      fill(end, run.count);
      is_inside = begin == 0 && end == run.count;
    }
    ir::visit_dtype(lhs_dtype_, [&](auto zero) {
      const auto* const from = static_cast<const decltype(zero)*>(data) + from_at;
      if (axis.base_dilation == 1) {
        if (begin == end) return;
        const std::int64_t next = axis.stride * axis.in_stride;
        const auto* const row = from + input_at(begin) * axis.in_stride - begin * next;
        if (steps.depth == 1 && lhs_feature_stride_ == 1) {
          for (int o = begin; o < end; ++o) {
            for (int i = 0; i < count; ++i) to[o * steps.item + i] = widen<Acc>(row[o * next + i]);
          }
        } else if (steps.item == 1 && next == 1) {
          for (int i = 0; i < count; ++i) {
            for (int o = begin; o < end; ++o) {
              to[o + i * steps.depth] = widen<Acc>(row[o + i * lhs_feature_stride_]);
            }
          }
        } else {
          for (int i = 0; i < count; ++i) {
            for (int o = begin; o < end; ++o) {
              to[o * steps.item + i * steps.depth] =
                  widen<Acc>(row[o * next + i * lhs_feature_stride_]);
            }
          }
        }
        return;
      }
      for (int o = 0; o < run.count; ++o) {
        const std::int64_t j = input_at(o);
        if (j < 0) {
          fill(o, o + 1);
          is_inside = false;
          continue;
        }
        const auto* const element = from + j * axis.in_stride;
        for (int i = 0; i < count; ++i) {
          to[o * steps.item + i * steps.depth] = widen<Acc>(element[i * lhs_feature_stride_]);
        }
      }
    });
    return is_inside;
  }

  // As multiply_tile, without what lies outside of the input, which counts for nothing: 0 times
  // infinity would.
  template <typename Acc>
  [[gnu::noinline]] void multiply_inside(Acc* acc, const Acc* left, const Acc* right, int rows,
                                         const std::vector<OutputRun>& runs, std::int64_t first,
                                         int depth) const {
    std::vector<char> exists(kTileColumns * kTileDepth, 0);
    for_each_part(first, depth, [&](std::int64_t position, std::int64_t, int at, int count) {
      for (const OutputRun& run : runs) {
        for (int o = 0; o < run.count; ++o) {
          std::fill_n(exists.begin() + (run.first + o) * kTileDepth + at, count,
                      has_input(run, o, position) ? 1 : 0);
        }
      }
    });
    for (int r = 0; r < rows; ++r) {
      for (int d = 0; d < depth; ++d) {
        for (int c = 0; c < kTileColumns; ++c) {
          if (exists[at((lanes_are_outputs_ ? c : r) * kTileDepth + d)] == 0) continue;
          acc[r * kTileColumns + c] += left[r * kTileDepth + d] * right[d * kTileColumns + c];
        }
      }
    }
  }

  bool has_input(const OutputRun& run, int output, std::int64_t position) const {
    bool is_inside = true;
    for (std::size_t s = axes_.size(); s-- > 0;) {
      const SpatialAxis& axis = axes_[s];
      const std::int64_t o = run.position[s] + (s + 1 == axes_.size() ? output : 0);
      is_inside &= axis.input_at(o, position % axis.window) >= 0;
      position /= axis.window;
    }
    return is_inside;
  }

  template <typename Acc>
  void store(const std::vector<OutputRun>& runs, std::int64_t first_feature, int features,
             const Acc* acc, void* data) const {
    const int output_step = lanes_are_outputs_ ? 1 : kTileColumns;
    const int feature_step = lanes_are_outputs_ ? kTileColumns : 1;
    ir::visit_dtype(out_dtype_, [&](auto zero) {
      using T = decltype(zero);
      for (const OutputRun& run : runs) {
        T* const to = static_cast<T*>(data) + run.out_at + first_feature * out_feature_stride_;
        const Acc* const from = acc + run.first * output_step;
        for (int o = 0; o < run.count; ++o) {
          for (int f = 0; f < features; ++f) {
            to[o * axes_.back().out_stride + f * out_feature_stride_] =
                narrow<T>(from[o * output_step + f * feature_step]);
          }
        }
      }
    });
  }

  ir::DType lhs_dtype_, rhs_dtype_, out_dtype_;
  std::vector<SpatialAxis> axes_;
  std::int64_t window_positions_ = 1;
  std::int64_t batch_ = 0, features_ = 0, inputs_ = 0, groups_ = 1, batch_groups_ = 1;
  std::int64_t group_features_ = 0;  // output features of a group
  std::int64_t lhs_batch_stride_ = 0, lhs_feature_stride_ = 0, rhs_input_stride_ = 0,
               rhs_output_stride_ = 0, out_batch_stride_ = 0, out_feature_stride_ = 0;
  std::int64_t outputs_ = 1;  // of a feature
  bool lanes_are_outputs_ = false;
  std::int64_t output_tiles_ = 0, feature_tiles_ = 0, tiles_ = 0;
};

}  // namespace

std::shared_ptr<const device::Kernel> make_blocked_convolution(const ir::Instruction& instruction) {
  return std::make_shared<BlockedConvolution>(instruction);
}

}  // namespace plimsoll::kernels
