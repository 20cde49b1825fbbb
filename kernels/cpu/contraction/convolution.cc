// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "kernels/cpu/contraction/contraction.h"
#include "kernels/cpu/contraction/convolution_onednn.h"
#include "kernels/cpu/contraction/convolution_packed.h"
#include "kernels/cpu/contraction/convolution_shape.h"
#include "kernels/cpu/contraction/convolution_widened.h"
#include "kernels/cpu/numeric.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/shapes/large_filters.h"

namespace plimsoll::kernels {
namespace {

// The definition in convolution_shape.h, one output after the other: any dtype, any attribute. The
// order of summation is window positions, major to minor, then input features.
class DirectConvolution final : public KernelBase {
 public:
  explicit DirectConvolution(const ir::Instruction& instruction)
      : KernelBase("convolution.direct", device::KernelOrigin::own),
        labels_(*instruction.attributes().convolution),
        window_(instruction.attributes().window),
        groups_(instruction.attributes().feature_group_count),
        batch_groups_(instruction.attributes().batch_group_count),
        lhs_(instruction.operand(0)->shape()),
        rhs_(instruction.operand(1)->shape()),
        out_(instruction.shape()) {}

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    const std::int64_t count = out_.element_count();
    if (count == 0) return ok_status();
    const void* lhs = arguments.inputs[0];
    const void* rhs = arguments.inputs[1];
    void* out = arguments.outputs[0];
    visit_accumulator(accumulator_of(lhs_.dtype(), rhs_.dtype(), out_.dtype()), [&](auto zero) {
      using Acc = decltype(zero);
      const auto run = [&](auto&& load_lhs, auto&& load_rhs) {
        const std::int64_t terms = std::max<std::int64_t>(1, rhs_.element_count() / count);
        const std::int64_t grain = std::max<std::int64_t>(1, 4096 / terms);
        device::parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i)
            store_element<Acc>(out_.dtype(), out, i, sum<Acc>(i, load_lhs, load_rhs));
        });
      };
      if (lhs_.dtype() == rhs_.dtype()) {
        ir::visit_dtype(lhs_.dtype(), [&](auto element) {
          using T = decltype(element);
          run([&](std::int64_t i) { return widen<Acc>(static_cast<const T*>(lhs)[i]); },
              [&](std::int64_t i) { return widen<Acc>(static_cast<const T*>(rhs)[i]); });
        });
      } else {
        run([&](std::int64_t i) { return load_element<Acc>(lhs_.dtype(), lhs, i); },
            [&](std::int64_t i) { return load_element<Acc>(rhs_.dtype(), rhs, i); });
      }
    });
    return ok_status();
  }

 private:
  template <typename Acc, typename L, typename R>
  Acc sum(std::int64_t linear, const L& load_lhs, const R& load_rhs) const {
    const ir::Dims ls = ir::row_major_strides(lhs_.dims());
    const ir::Dims rs = ir::row_major_strides(rhs_.dims());
    ir::Dims at = out_.dims();
    for (int d = out_.rank(); d-- > 0;) {
      at[d] = linear % out_.dim(d);
      linear /= out_.dim(d);
    }
    const auto dim = [](std::int64_t d) { return static_cast<int>(d); };
    const std::int64_t batch = at[dim(labels_.output_batch)];
    const std::int64_t feature = at[dim(labels_.output_feature)];
    const std::int64_t features = out_.dim(dim(labels_.output_feature));
    const std::int64_t inputs = rhs_.dim(dim(labels_.kernel_input_feature));
    const std::int64_t first_input = feature / (features / groups_) * inputs;
    const std::int64_t batch_group = feature / (features / batch_groups_);
    const std::int64_t lhs_batch = batch + batch_group * out_.dim(dim(labels_.output_batch));

    const std::int64_t lhs_base =
        lhs_batch * ls[dim(labels_.input_batch)] + first_input * ls[dim(labels_.input_feature)];
    const std::int64_t rhs_base = feature * rs[dim(labels_.kernel_output_feature)];
    const std::int64_t lhs_step = ls[dim(labels_.input_feature)];
    const std::int64_t rhs_step = rs[dim(labels_.kernel_input_feature)];
    std::int64_t positions = 1;
    for (const std::int64_t d : labels_.kernel_spatial) positions *= rhs_.dim(dim(d));

    Acc acc{};
    for (std::int64_t position = 0; position < positions; ++position) {
      std::int64_t l = lhs_base, r = rhs_base, rest = position;
      bool inside = true;
      for (std::size_t s = labels_.kernel_spatial.size(); s-- > 0 && inside;) {
        const ir::WindowDimension& w = window_[s];
        const std::int64_t size = rhs_.dim(dim(labels_.kernel_spatial[s]));
        const std::int64_t k = rest % size;
        rest /= size;
        const std::int64_t dilated =
            at[dim(labels_.output_spatial[s])] * w.stride + k * w.window_dilation - w.padding_low;
        const std::int64_t j = dilated / w.base_dilation;
        inside = dilated >= 0 && j * w.base_dilation == dilated &&
                 j < lhs_.dim(dim(labels_.input_spatial[s]));
        l += j * ls[dim(labels_.input_spatial[s])];
        r += (w.reversal ? size - 1 - k : k) * rs[dim(labels_.kernel_spatial[s])];
      }
      if (!inside) continue;
      for (std::int64_t i = 0; i < inputs; ++i)
        acc += load_lhs(l + i * lhs_step) * load_rhs(r + i * rhs_step);
    }
    return acc;
  }

  ir::ConvolutionDimensions labels_;
  std::vector<ir::WindowDimension> window_;
  std::int64_t groups_, batch_groups_;
  ir::Shape lhs_, rhs_, out_;
};

}  // namespace

KernelResult make_convolution(const ir::Instruction& instruction) {
  if (instruction.attributes().convolution == nullptr)
    return invalid_argument("convolution " + instruction.name() + ": no dim_labels");
  for (LibraryConvolution& c : library_convolutions(instruction)) {
    if (ir::has_large_filters(instruction) && PackedConvolution::takes(c)) {
      return KernelResult(std::make_shared<PackedConvolution>(std::move(c)));
    }
    auto kernel = std::make_shared<OnednnConvolution>(std::move(c));
    if (kernel->prepare()) return KernelResult(std::move(kernel));
  }
  if (auto kernel = make_widened_convolution(instruction)) return KernelResult(std::move(kernel));
  return KernelResult(std::make_shared<DirectConvolution>(instruction));
}

}  // namespace plimsoll::kernels
