// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/random.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "kernels/cpu/numeric.h"
#include "kernels/cpu/vector_loops.h"
#include "runtime/base/math/float64.h"
#include "runtime/base/philox.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/interpreter/interpreter_elementwise.h"
#include "runtime/ir/shapes/shape_inference.h"

namespace plimsoll::kernels {
namespace {

// As philox::fill, many blocks at a time where whole words are wanted.
void fill_bits(const philox::State& state, ir::DType dtype, std::int64_t count, void* out) {
  const int bytes = dtype_bytes(dtype);
  const std::int64_t per_block = philox::elements_per_block(bytes);
  const std::int64_t blocks = philox::block_count(count, bytes);
  const std::uint32_t mask = dtype == ir::DType::pred ? 1u : 0xffffffffu;
  device::parallel_for(blocks, 2048, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t whole = std::max(begin, std::min(end, count / per_block));
    if (bytes >= 4) {
      philox_words(philox::advance(state, static_cast<std::uint64_t>(begin)), whole - begin,
                   byte_offset(out, begin * per_block * bytes));
    } else {
      constexpr std::int64_t kBlocks = 64;
      std::uint32_t words[4 * kBlocks];
      for (std::int64_t at = begin; at < whole; at += kBlocks) {
        const std::int64_t some = std::min(kBlocks, whole - at);
        philox_words(philox::advance(state, static_cast<std::uint64_t>(at)), some, words);
        for (std::int64_t i = 0; i < 4 * some; ++i) {
          if (bytes == 2) {
            static_cast<std::uint16_t*>(out)[4 * at + i] = static_cast<std::uint16_t>(words[i]);
          } else {
            static_cast<std::uint8_t*>(out)[4 * at + i] =
                static_cast<std::uint8_t>(words[i] & mask);
          }
        }
      }
    }
    const std::int64_t first = whole * per_block, last = std::min(count, end * per_block);
    if (first < last)
      philox::fill(state, bytes, first, last, byte_offset(out, first * bytes), mask);
  });
}

philox::State next_draw() {
  static std::atomic<std::uint64_t> draws{0};
  return {0, 0, draws.fetch_add(1, std::memory_order_relaxed)};
}

double unit_interval(const philox::State& state, std::int64_t i) {
  std::uint64_t bits = 0;
  philox::fill(state, 8, i, i + 1, &bits);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// Box and Muller; 1 - u is never zero.
double normal(const philox::State& state, std::int64_t i) {
  const double radius = std::sqrt(-2.0 * math::f64::log(1.0 - unit_interval(state, 2 * i)));
  return radius * math::f64::cos(6.283185307179586 * unit_interval(state, 2 * i + 1));
}

// `uniform` in [a, b), `normal` with mean a and deviation b; by the interpreter's formulas.
struct Rng {
  ir::Shape shape;
  ir::DType bounds;
  bool is_normal;

  Status operator()(device::Stream&, const device::KernelArguments& arguments) const {
    const philox::State state = next_draw();
    const std::int64_t bytes = dtype_bytes(shape.dtype());
    const void *low = arguments.inputs[0], *high = arguments.inputs[1];
    std::byte* out = static_cast<std::byte*>(arguments.outputs[0]);
    const bool floating = is_floating(shape.dtype()) || is_normal;
    device::parallel_for(shape.element_count(), 1024, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (floating) {
          draw_float(state, i, low, high, out + i * bytes);
        } else {
          draw_integer(state, i, low, high, out + i * bytes);
        }
      }
    });
    return ok_status();
  }

  void draw_float(const philox::State& state, std::int64_t i, const void* low, const void* high,
                  std::byte* out) const {
    const double a = load_element<double>(bounds, low, 0),
                 b = load_element<double>(bounds, high, 0);
    const double value =
        is_normal ? a + b * normal(state, i) : a + (b - a) * unit_interval(state, i);
    write(ir::DType::f64, &value, out);
    // Rounded up to the limit.
    if (!is_normal && a < b && load_element<double>(shape.dtype(), out, 0) >= b)
      write(ir::DType::f64, &a, out);
  }

  void draw_integer(const philox::State& state, std::int64_t i, const void* low, const void* high,
                    std::byte* out) const {
    const auto a = load_element<std::uint64_t>(bounds, low, 0);
    const std::uint64_t width = load_element<std::uint64_t>(bounds, high, 0) - a;
    std::uint64_t bits = 0;
    philox::fill(state, 8, i, i + 1, &bits);
    const auto value = static_cast<std::int64_t>(a + (width == 0 ? 0 : bits % width));
    write(ir::DType::s64, &value, out);
  }

  void write(ir::DType from, const void* value, std::byte* out) const {
    ir::interpreter::convert_elements({from, static_cast<const std::byte*>(value)}, shape.dtype(),
                                      out, 1);
  }
};

}  // namespace

KernelResult make_rng_bit_generator(const ir::Instruction& instruction) {
  const ir::Shape& state_shape = instruction.operand(0)->shape();
  const std::int64_t words = state_shape.element_count();
  if (!ir::is_random_state(state_shape)) {
    return unimplemented("rng-bit-generator " + instruction.name() + ": state " +
                         state_shape.to_string() + " (u64[2] and u64[3] are supported)");
  }
  const ir::DType dtype = instruction.shape().elements()[1].dtype();
  const std::int64_t count = instruction.shape().elements()[1].element_count();
  return KernelResult(make_function_kernel(
      "rng-bit-generator", [=](device::Stream&, const device::KernelArguments& arguments) {
        const philox::State state =
            philox::load_state(static_cast<const std::uint64_t*>(arguments.inputs[0]), words);
        fill_bits(state, dtype, count, arguments.outputs[1]);
        const std::int64_t blocks = philox::block_count(count, dtype_bytes(dtype));
        philox::store_state(philox::advance(state, static_cast<std::uint64_t>(blocks)),
                            static_cast<std::uint64_t*>(arguments.outputs[0]), words);
        return ok_status();
      }));
}

KernelResult make_rng(const ir::Instruction& instruction) {
  return KernelResult(make_function_kernel(
      "rng", Rng{instruction.shape(), instruction.operand(0)->shape().dtype(),
                 instruction.attributes().rng_distribution == ir::RngDistribution::normal}));
}

KernelResult make_rng_get_and_update_state(const ir::Instruction& instruction) {
  const std::int64_t words = instruction.shape().byte_size() / 8;
  return KernelResult(make_function_kernel(
      "rng-get-and-update-state", [=](device::Stream&, const device::KernelArguments& arguments) {
        philox::fill(next_draw(), 8, 0, words, arguments.outputs[0]);
        return ok_status();
      }));
}

}  // namespace plimsoll::kernels
