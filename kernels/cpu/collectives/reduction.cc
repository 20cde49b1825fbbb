// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/collectives/reduction.h"

#include <fmt/core.h>
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/cpu/scalar/combine.h"
#include "kernels/cpu/scalar/scalar_program.h"
#include "runtime/ir/dtype.h"
#include "runtime/ir/interpreter/interpreter_elementwise.h"

namespace plimsoll::kernels {
namespace {

template <typename T>
constexpr std::optional<device::KnownReduction::Element> known_element() {
  using Element = device::KnownReduction::Element;
  if constexpr (std::is_same_v<T, std::int8_t>) return Element::s8;
  if constexpr (std::is_same_v<T, std::uint8_t> || std::is_same_v<T, bool>) return Element::u8;
  if constexpr (std::is_same_v<T, std::int32_t>) return Element::s32;
  if constexpr (std::is_same_v<T, std::uint32_t>) return Element::u32;
  if constexpr (std::is_same_v<T, std::int64_t>) return Element::s64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return Element::u64;
  if constexpr (std::is_same_v<T, Float16>) return Element::f16;
  if constexpr (std::is_same_v<T, Bfloat16>) return Element::bf16;
  if constexpr (std::is_same_v<T, float>) return Element::f32;
  if constexpr (std::is_same_v<T, double>) return Element::f64;
  return std::nullopt;
}

// Of predicates "or" is the maximum and "and" the minimum; of wider integers these are of bits.
template <Combiner kKind, typename T>
constexpr std::optional<device::KnownReduction::Combine> known_combine() {
  using Combine = device::KnownReduction::Combine;
  constexpr bool kIsTruth = std::is_same_v<T, bool>;
  switch (kKind) {
    case Combiner::add:
      return kIsTruth ? Combine::maximum : Combine::sum;
    case Combiner::multiply:
      return kIsTruth ? Combine::minimum : Combine::product;
    case Combiner::maximum:
      return Combine::maximum;
    case Combiner::minimum:
      return Combine::minimum;
    case Combiner::or_:
      return kIsTruth ? std::optional(Combine::maximum) : std::nullopt;
    case Combiner::and_:
      return kIsTruth ? std::optional(Combine::minimum) : std::nullopt;
    default:
      return std::nullopt;
  }
}

template <Combiner kKind, typename T>
class PlainReduction final : public device::Reduction {
 public:
  using Running = std::conditional_t<kIsHalf<T>, float, T>;

  std::int64_t element_bytes() const override { return sizeof(T); }
  void reduce(std::span<const void* const> members, void* out, std::int64_t count) const override {
    const auto member = [&](std::size_t m) { return static_cast<const T*>(members[m]); };
    // Of their own, so that nothing has to be told from what is reduced in place.
    Running sums[kLanes];
    for (std::int64_t done = 0; done < count; done += kLanes) {
      const std::int64_t lanes = std::min(kLanes, count - done);
      const T* a = member(0) + done;
      if (members.size() == 1) {
        for (std::int64_t i = 0; i < lanes; ++i) sums[i] = static_cast<Running>(a[i]);
      } else {
        const T* b = member(1) + done;
        for (std::int64_t i = 0; i < lanes; ++i) {
          sums[i] = combine<kKind>(static_cast<Running>(a[i]), static_cast<Running>(b[i]));
        }
      }
      for (std::size_t m = 2; m < members.size(); ++m) {
        const T* b = member(m) + done;
        for (std::int64_t i = 0; i < lanes; ++i) {
          sums[i] = combine<kKind>(sums[i], static_cast<Running>(b[i]));
        }
      }
      T* const to = static_cast<T*>(out) + done;
      for (std::int64_t i = 0; i < lanes; ++i) to[i] = static_cast<T>(sums[i]);
    }
  }
  std::optional<device::KnownReduction> known() const override {
    constexpr auto kCombine = known_combine<kKind, T>();
    constexpr auto kElement = known_element<T>();
    if constexpr (!kCombine || !kElement) return std::nullopt;
    return device::KnownReduction{*kCombine, *kElement};
  }

 private:
  static constexpr std::int64_t kLanes = 512;
};

// Any other computation, on running values of the dtype that it takes.
class ProgramReduction final : public device::Reduction {
 public:
  ProgramReduction(ScalarProgram program, ir::DType dtype, ir::DType running)
      : program_(std::move(program)), dtype_(dtype), running_(running) {}

  std::int64_t element_bytes() const override { return dtype_bytes(dtype_); }
  void reduce(std::span<const void* const> members, void* out, std::int64_t count) const override {
    ScalarProgram::Evaluator evaluator(program_);
    const auto running_bytes = static_cast<std::size_t>(dtype_bytes(running_));
    std::vector<std::byte> sums(static_cast<std::size_t>(ScalarProgram::kLanes) * running_bytes);
    for (std::int64_t done = 0; done < count; done += ScalarProgram::kLanes) {
      const std::int64_t lanes = std::min(ScalarProgram::kLanes, count - done);
      const auto load = [&](std::size_t m, void* to) {
        const auto* from = static_cast<const std::byte*>(members[m]) + done * element_bytes();
        ir::interpreter::convert_elements({dtype_, from}, running_, static_cast<std::byte*>(to),
                                          lanes);
      };
      load(0, sums.data());
      for (std::size_t m = 1; m < members.size(); ++m) {
        const std::size_t bytes = static_cast<std::size_t>(lanes) * running_bytes;
        std::memcpy(evaluator.parameter(0), sums.data(), bytes);
        load(m, evaluator.parameter(1));
        evaluator.run(lanes);
        std::memcpy(sums.data(), evaluator.result(0), bytes);
      }
      ir::interpreter::convert_elements({running_, sums.data()}, dtype_,
                                        static_cast<std::byte*>(out) + done * element_bytes(),
                                        lanes);
    }
  }

 private:
  ScalarProgram program_;
  ir::DType dtype_, running_;
};

}  // namespace

Result<std::shared_ptr<const device::Reduction>> make_reduction(const ir::Computation& computation,
                                                                ir::DType dtype) {
  std::shared_ptr<const device::Reduction> made;
  const Combiner combiner = recognize_combiner(computation);
  if (combiner != Combiner::none) {
    ir::visit_dtype(dtype, [&](auto zero) {
      using T = decltype(zero);
      visit_combiner(
          combiner, [&]<Combiner kKind>() { made = std::make_shared<PlainReduction<kKind, T>>(); });
    });
    return made;
  }
  PLIMSOLL_ASSIGN_OR_RETURN(ScalarProgram program, ScalarProgram::compile(computation, true));
  const ir::DType running =
      dtype == ir::DType::f16 || dtype == ir::DType::bf16 ? ir::DType::f32 : dtype;
  if (program.parameters() != std::vector<ir::DType>(2, running) ||
      program.results() != std::vector<ir::DType>(1, running)) {
    return unimplemented(fmt::format("computation {}: not of two {} to one", computation.name(),
                                     ir::to_string(dtype)));
  }
  made = std::make_shared<ProgramReduction>(std::move(program), dtype, running);
  return made;
}

}  // namespace plimsoll::kernels
