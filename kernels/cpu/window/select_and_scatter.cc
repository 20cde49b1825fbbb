// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/cpu/scalar/combine.h"
#include "kernels/cpu/scalar/scalar_program.h"
#include "kernels/cpu/window/window.h"
#include "kernels/cpu/window/window_loops.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

using Direction = ir::ComparisonDirection;

constexpr std::int64_t kLanes = ScalarProgram::kLanes;

template <Direction kDirection, typename N>
bool keeps(N a, N b) {
  if constexpr (kDirection == Direction::ge) return a >= b;
  if constexpr (kDirection == Direction::gt) return a > b;
  if constexpr (kDirection == Direction::le) return a <= b;
  return a < b;
}

// Planes (positions of the dimensions without a window) are independent; a task takes some planes
// and in each some lanes, and walks the windows in order.
class SelectAndScatter final : public KernelBase {
 public:
  SelectAndScatter(const ir::Instruction& instruction, ScalarProgram select, ScalarProgram scatter)
      : KernelBase("select-and-scatter", device::KernelOrigin::own),
        geometry_(instruction.operand(0)->shape().dims(), instruction.operand(1)->shape().dims(),
                  instruction.attributes().window),
        select_(std::move(select)),
        scatter_(std::move(scatter)),
        dtype_(instruction.operand(0)->shape().dtype()),
        comparison_(recognize_comparison(*instruction.select())),
        combiner_(recognize_combiner(*instruction.scatter())) {
    for (const WindowAxisGeometry& axis : geometry_.axes) {
      if (axis.is_trivial()) {
        plane_axes_.push_back(axis);
        planes_ *= axis.in_size;
      } else {
        window_axes_.push_back(axis);
        sources_ *= axis.out_size;
        elements_ *= axis.in_size;
        taps_ *= std::max<std::int64_t>(1, std::min(axis.window.size, axis.in_size));
      }
    }
    chunks_ = (geometry_.lanes + kLanes - 1) / kLanes;
    find_routes();
  }

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    const std::int64_t width = std::min(geometry_.lanes, kLanes);
    const std::int64_t grain =
        std::max<std::int64_t>(1, 16384 / ((sources_ + elements_) * width + 1));
    device::parallel_for(planes_ * chunks_, grain, [&](std::int64_t begin, std::int64_t end) {
      if (!window_begins_.empty()) return run_routes(begin, end, arguments);
      const bool plain = comparison_.has_value() && combiner_ == Combiner::add &&
                         comparison_->order == ir::ComparisonOrder::natural;
      if (plain) {
        ir::visit_dtype(dtype_, [&](auto zero) {
          using T = decltype(zero);
          switch (comparison_->direction) {
            case Direction::ge:
              return run_typed<T, Direction::ge>(begin, end, arguments);
            case Direction::gt:
              return run_typed<T, Direction::gt>(begin, end, arguments);
            case Direction::le:
              return run_typed<T, Direction::le>(begin, end, arguments);
            case Direction::lt:
              return run_typed<T, Direction::lt>(begin, end, arguments);
            default:
              return run_programs(begin, end, arguments);
          }
        });
      } else {
        run_programs(begin, end, arguments);
      }
    });
    return ok_status();
  }

 private:
  struct Place {
    std::int64_t in, out, lanes;
  };

  Place place_of(std::int64_t item) const {
    const std::int64_t lane = item % chunks_ * kLanes;
    Place place{lane, lane, std::min(kLanes, geometry_.lanes - lane)};
    std::int64_t rest = item / chunks_;
    for (std::size_t d = plane_axes_.size(); d-- > 0;) {
      const std::int64_t at = rest % plane_axes_[d].in_size;
      rest /= plane_axes_[d].in_size;
      place.in += at * plane_axes_[d].in_stride;
      place.out += at * plane_axes_[d].out_stride;
    }
    return place;
  }

  // Every element offset of a plane of the operand.
  template <typename Visit>
  void for_each_element(Visit&& visit) const {
    Taps all[ir::kMaxRank];
    for (std::size_t d = 0; d < window_axes_.size(); ++d) all[d] = {window_axes_[d].in_size, 0, 1};
    for_each_tap(window_axes_, all, visit);
  }

  // `visit(source offset, taps)` for every window of a plane, row-major.
  template <typename Visit>
  void for_each_source(Visit&& visit) const {
    for (std::int64_t source = 0; source < sources_; ++source) {
      Taps taps[ir::kMaxRank];
      std::int64_t rest = source, out = 0;
      for (std::size_t d = window_axes_.size(); d-- > 0;) {
        const WindowAxisGeometry& axis = window_axes_[d];
        const std::int64_t at = rest % axis.out_size;
        rest /= axis.out_size;
        out += at * axis.out_stride;
        taps[d] = axis.taps[static_cast<std::size_t>(at)];
      }
      visit(out, taps);
    }
  }

  // Max pooling's gradient of f32: tables of the windows of a plane.
  //
  // The geometry of windows is the same for all planes and channels, so it is worked out once: for
  // each source element, the offsets of its window's taps that lie in the operand. A launch then is
  // two loops over the table, with channels in the vector's lanes. If no two windows share an
  // element (stride at least the window), the result is stored and never read back; if they cover
  // everything as well, it need not be filled before.
  void find_routes() {
    constexpr std::int64_t kMaxOffsets = std::int64_t{1} << 20;
    const bool is_maximum = comparison_.has_value() && combiner_ == Combiner::add &&
                            comparison_->order == ir::ComparisonOrder::natural &&
                            comparison_->direction == Direction::ge && dtype_ == ir::DType::f32;
    if (!is_maximum || sources_ > kMaxOffsets || taps_ > kMaxOffsets ||
        sources_ * taps_ > kMaxOffsets) {
      return;
    }
    for_each_source([&](std::int64_t at, const Taps* taps) {
      window_sources_.push_back(at);
      window_begins_.push_back(static_cast<std::int64_t>(window_offsets_.size()));
      for_each_tap(window_axes_, taps,
                   [&](std::int64_t offset) { window_offsets_.push_back(offset); });
    });
    window_begins_.push_back(static_cast<std::int64_t>(window_offsets_.size()));
    std::vector<std::int64_t> sorted = window_offsets_;
    std::sort(sorted.begin(), sorted.end());
    disjoint_ = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
    covered_ = disjoint_ && static_cast<std::int64_t>(sorted.size()) == elements_;
  }

  void run_routes(std::int64_t begin, std::int64_t end,
                  const device::KernelArguments& arguments) const {
    const float init = *static_cast<const float*>(arguments.inputs[2]);
    const RoutePlan plan{static_cast<std::int64_t>(window_sources_.size()), window_sources_.data(),
                         window_begins_.data(), window_offsets_.data(), disjoint_};
    for (std::int64_t item = begin; item < end; ++item) {
      const Place place = place_of(item);
      float* result = static_cast<float*>(arguments.outputs[0]) + place.in;
      if (!covered_) {
        for_each_element([&](std::int64_t offset) {
          std::fill(result + offset, result + offset + place.lanes, init);
        });
      }
      route_windows(plan, {static_cast<const float*>(arguments.inputs[0]) + place.in,
                           static_cast<const float*>(arguments.inputs[1]) + place.out, result, init,
                           place.lanes});
    }
  }

  template <typename T, Direction kDirection>
  void run_typed(std::int64_t begin, std::int64_t end,
                 const device::KernelArguments& arguments) const {
    using Number = std::conditional_t<kIsHalf<T>, float, T>;
    const T init = *static_cast<const T*>(arguments.inputs[2]);
    Number best[kLanes];
    std::int32_t chosen[kLanes];  // which of the window's taps
    std::vector<std::int64_t> offsets(at(taps_));
    for (std::int64_t item = begin; item < end; ++item) {
      const Place place = place_of(item);
      const T* in = static_cast<const T*>(arguments.inputs[0]) + place.in;
      const T* source = static_cast<const T*>(arguments.inputs[1]) + place.out;
      T* result = static_cast<T*>(arguments.outputs[0]) + place.in;
      for_each_element([&](std::int64_t offset) {
        std::fill(result + offset, result + offset + place.lanes, init);
      });
      for_each_source([&](std::int64_t at, const Taps* taps) {
        std::int32_t tap = 0;
        for_each_tap(window_axes_, taps, [&](std::int64_t offset) {
          offsets[static_cast<std::size_t>(tap)] = offset;
          const T* candidates = in + offset;
          if (tap == 0) {
            for (std::int64_t i = 0; i < place.lanes; ++i) {
              best[i] = static_cast<Number>(candidates[i]);
              chosen[i] = 0;
            }
          } else {
            for (std::int64_t i = 0; i < place.lanes; ++i) {
              const Number candidate = static_cast<Number>(candidates[i]);
              const bool keep = keeps<kDirection>(best[i], candidate);
              best[i] = keep ? best[i] : candidate;
              chosen[i] = keep ? chosen[i] : tap;
            }
          }
          ++tap;
        });
        if (tap == 0) return;
        for (std::int64_t i = 0; i < place.lanes; ++i) {
          T& sum = result[offsets[static_cast<std::size_t>(chosen[i])] + i];
          sum = combine<Combiner::add>(sum, source[at + i]);
        }
      });
    }
  }

  void run_programs(std::int64_t begin, std::int64_t end,
                    const device::KernelArguments& arguments) const {
    ScalarProgram::Evaluator select(select_), scatter(scatter_);
    const std::int64_t bytes = dtype_bytes(dtype_);
    std::vector<std::byte> best(static_cast<std::size_t>(kLanes * bytes));
    std::int64_t chosen[kLanes];
    for (std::int64_t item = begin; item < end; ++item) {
      const Place place = place_of(item);
      const std::byte* in = byte_offset(arguments.inputs[0], place.in * bytes);
      const std::byte* source = byte_offset(arguments.inputs[1], place.out * bytes);
      std::byte* result = byte_offset(arguments.outputs[0], place.in * bytes);
      const auto size = static_cast<std::size_t>(bytes);
      const auto span = static_cast<std::size_t>(place.lanes * bytes);
      for_each_element([&](std::int64_t offset) {
        for (std::int64_t i = 0; i < place.lanes; ++i)
          std::memcpy(result + (offset + i) * bytes, arguments.inputs[2], size);
      });
      for_each_source([&](std::int64_t at, const Taps* taps) {
        bool any = false;
        for_each_tap(window_axes_, taps, [&](std::int64_t offset) {
          const std::byte* candidates = in + offset * bytes;
          if (!any) {
            any = true;
            std::memcpy(best.data(), candidates, span);
            std::fill(chosen, chosen + place.lanes, offset);
            return;
          }
          std::memcpy(select.parameter(0), best.data(), span);
          std::memcpy(select.parameter(1), candidates, span);
          select.run(place.lanes);
          for (std::int64_t i = 0; i < place.lanes; ++i) {
            if (select.result(0)[i] != std::byte{0}) continue;
            std::memcpy(best.data() + i * bytes, candidates + i * bytes, size);
            chosen[i] = offset;
          }
        });
        if (!any) return;
        for (std::int64_t i = 0; i < place.lanes; ++i)
          std::memcpy(scatter.parameter(0) + i * bytes, result + (chosen[i] + i) * bytes, size);
        std::memcpy(scatter.parameter(1), source + at * bytes, span);
        scatter.run(place.lanes);
        for (std::int64_t i = 0; i < place.lanes; ++i)
          std::memcpy(result + (chosen[i] + i) * bytes, scatter.result(0) + i * bytes, size);
      });
    }
  }

  WindowGeometry geometry_;
  ScalarProgram select_, scatter_;
  ir::DType dtype_;
  std::optional<PlainComparison> comparison_;
  Combiner combiner_;
  std::vector<WindowAxisGeometry> plane_axes_, window_axes_;
  std::int64_t planes_ = 1, sources_ = 1, elements_ = 1, chunks_ = 1;
  std::int64_t taps_ = 1;  // most in one window
  // RoutePlan's, of one plane; empty: not max pooling's gradient.
  std::vector<std::int64_t> window_sources_, window_begins_, window_offsets_;
  bool disjoint_ = false, covered_ = false;  // windows; elements, by one window each
};

}  // namespace

KernelResult make_select_and_scatter(const ir::Instruction& instruction) {
  for (const ir::Instruction* operand : instruction.operands()) {
    if (operand->shape().dtype() != instruction.shape().dtype()) {
      return unimplemented("select-and-scatter " + instruction.name() + ": operand of " +
                           operand->shape().to_string() + " for a result of " +
                           instruction.shape().to_string() + " (one dtype is supported)");
    }
  }
  PLIMSOLL_ASSIGN_OR_RETURN(ScalarProgram select,
                            ScalarProgram::compile(*instruction.select(), false));
  PLIMSOLL_ASSIGN_OR_RETURN(ScalarProgram scatter,
                            ScalarProgram::compile(*instruction.scatter(), false));
  return KernelResult(
      std::make_shared<SelectAndScatter>(instruction, std::move(select), std::move(scatter)));
}

}  // namespace plimsoll::kernels
