// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/convolution_widened.h"

#include <algorithm>

#include "kernels/cpu/contraction/convolution_library.h"
#include "kernels/cpu/contraction/convolution_shape.h"
#include "kernels/cpu/contraction/widened.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

using ir::DType;
using ir::Shape;

// Images of a block and their results, in f32, stay below this if one image does.
constexpr std::int64_t kBlockBytes = std::int64_t{8} << 20;
// Elements that a task converts.
constexpr std::int64_t kGrain = std::int64_t{1} << 15;

Shape with_images(const Shape& shape, std::int64_t images) {
  ir::Dims dims = shape.dims();
  dims[0] = images;
  return Shape(DType::f32, dims);
}

// Where images do not lie one after the other, or mix, all are one block.
std::int64_t images_of_block(const ir::Instruction& instruction) {
  const auto& labels = *instruction.attributes().convolution;
  const Shape& in = instruction.operand(0)->shape();
  const std::int64_t images = in.dim(0);
  if (labels.input_batch != 0 || labels.output_batch != 0 ||
      instruction.attributes().batch_group_count != 1) {
    return images;
  }
  const std::int64_t all = static_cast<std::int64_t>(sizeof(float)) *
                           (in.element_count() + instruction.shape().element_count());
  std::int64_t count = images;
  while (count > 1 && (images % count != 0 || all / images * count > kBlockBytes)) --count;
  return count;
}

// Whether all sums are numbers that f32 holds.
bool adds_exactly(const ir::Instruction& instruction) {
  const Shape& in = instruction.operand(0)->shape();
  const Shape& filter = instruction.operand(1)->shape();
  if (!is_byte(in.dtype()) || !is_byte(filter.dtype()) ||
      ir::is_floating(instruction.shape().dtype()))
    return false;
  const auto feature =
      static_cast<int>(instruction.attributes().convolution->kernel_output_feature);
  const std::int64_t products =
      filter.element_count() / std::max<std::int64_t>(1, filter.dim(feature));
  const bool are_signed = in.dtype() == DType::s8 && filter.dtype() == DType::s8;
  return products * (are_signed ? 128 * 128 : 255 * 255) <= std::int64_t{1} << 24;
}

class WidenedConvolution final : public KernelBase {
 public:
  WidenedConvolution(const ir::Instruction& instruction, std::int64_t images,
                     std::shared_ptr<const device::Kernel> wide)
      : KernelBase(wide->name() + ".widened", device::KernelOrigin::library),
        in_(instruction.operand(0)->shape()),
        filter_(instruction.operand(1)->shape()),
        out_(instruction.shape()),
        blocks_(in_.dim(0) / images),
        wide_(std::move(wide)) {
    constexpr std::int64_t kBytes = sizeof(float);
    in_at_ = reserve_workspace(in_.element_count() / blocks_ * kBytes);
    filter_at_ = reserve_workspace(filter_.element_count() * kBytes);
    out_at_ = reserve_workspace(out_.element_count() / blocks_ * kBytes);
    wide_at_ = reserve_workspace(wide_->workspace_bytes());
  }

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override {
    const auto part = [&](std::int64_t at) {
      return static_cast<void*>(byte_offset(arguments.workspace, at));
    };
    auto* const in = static_cast<float*>(part(in_at_));
    auto* const filter = static_cast<float*>(part(filter_at_));
    auto* const out = static_cast<float*>(part(out_at_));
    widen(filter_.dtype(), arguments.inputs[1], filter, filter_.element_count());
    const std::int64_t in_count = in_.element_count() / blocks_;
    const std::int64_t out_count = out_.element_count() / blocks_;
    for (std::int64_t block = 0; block < blocks_; ++block) {
      widen(in_.dtype(),
            byte_offset(arguments.inputs[0], block * in_count * dtype_bytes(in_.dtype())), in,
            in_count);
      const void* const inputs[] = {in, filter};
      void* const outputs[] = {out};
      PLIMSOLL_RETURN_IF_ERROR(wide_->launch(stream, {inputs, outputs, part(wide_at_)}));
      void* const to =
          byte_offset(arguments.outputs[0], block * out_count * dtype_bytes(out_.dtype()));
      device::parallel_for(out_count, kGrain, [&](std::int64_t begin, std::int64_t end) {
        narrow_run(out_.dtype(), out + begin, byte_offset(to, begin * dtype_bytes(out_.dtype())),
                   end - begin);
      });
    }
    return ok_status();
  }

 private:
  static void widen(DType dtype, const void* from, float* to, std::int64_t count) {
    device::parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      widen_run(dtype, byte_offset(from, begin * dtype_bytes(dtype)), to + begin, end - begin);
    });
  }

  Shape in_, filter_, out_;
  std::int64_t blocks_;
  std::shared_ptr<const device::Kernel> wide_;
  std::int64_t in_at_ = 0, filter_at_ = 0, out_at_ = 0, wide_at_ = 0;
};

}  // namespace

std::shared_ptr<const device::Kernel> make_widened_convolution(const ir::Instruction& instruction) {
  const Shape& in = instruction.operand(0)->shape();
  const Shape& filter = instruction.operand(1)->shape();
  const Shape& out = instruction.shape();
  const bool is_wide = in.dtype() == DType::f32 && filter.dtype() == DType::f32;
  const bool are_halves = !is_wide && is_f32_or_half(in.dtype()) &&
                          is_f32_or_half(filter.dtype()) && is_f32_or_half(out.dtype());
  if (!are_halves && !adds_exactly(instruction)) return nullptr;
  if (in.element_count() == 0 || out.element_count() == 0) return nullptr;
  const std::int64_t images = images_of_block(instruction);
  const bool is_all = images == in.dim(0);
  ir::Module module("widened");
  ir::Computation& computation = *module.add_computation("widened");
  const auto wide_shape = [](const Shape& shape) { return Shape(DType::f32, shape.dims()); };
  ir::Instruction* const wide = computation.add(
      ir::Opcode::convolution, is_all ? wide_shape(out) : with_images(out, images),
      {computation.add_parameter(0, is_all ? wide_shape(in) : with_images(in, images)),
       computation.add_parameter(1, wide_shape(filter))},
      {}, instruction.attributes());
  for (const LibraryConvolution& convolution : library_convolutions(*wide)) {
    auto kernel = make_library_convolution(convolution);
    if (kernel == nullptr) continue;
    return std::make_shared<WidenedConvolution>(instruction, images, std::move(kernel));
  }
  return nullptr;
}

}  // namespace plimsoll::kernels
