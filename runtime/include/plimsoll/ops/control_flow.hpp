// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "plimsoll/tensor.hpp"

// Loops and branches, whose parts functions record: each is called once, on tensors that stand for
// the values of a round, and captures what it likes. Nothing can be read or evaluated in one
// (failed_precondition), and its tensors are of no use once it has returned.
//
// What they take and return: a Tensor, a std::array, std::pair or std::tuple of Tensors, or, where
// the number is known from what comes in, a std::vector of them.
namespace plimsoll {

namespace internal {

// How many Tensors a type holds (kAny: a vector), and both ways between it and a list of them.
inline constexpr std::size_t kAny = static_cast<std::size_t>(-1);

template <typename T>
struct Pack {
  static constexpr bool kIsPack = false;
};
template <>
struct Pack<Tensor> {
  static constexpr bool kIsPack = true;
  static constexpr std::size_t kCount = 1;
  static std::vector<Tensor> list(const Tensor& x) { return {x}; }
  static Tensor make(std::span<const Tensor> list) { return list[0]; }
};
template <>
struct Pack<std::vector<Tensor>> {
  static constexpr bool kIsPack = true;
  static constexpr std::size_t kCount = kAny;
  static std::vector<Tensor> list(const std::vector<Tensor>& x) { return x; }
  static std::vector<Tensor> make(std::span<const Tensor> list) {
    return {list.begin(), list.end()};
  }
};
template <std::size_t N>
struct Pack<std::array<Tensor, N>> {
  static constexpr bool kIsPack = true;
  static constexpr std::size_t kCount = N;
  static std::vector<Tensor> list(const std::array<Tensor, N>& x) { return {x.begin(), x.end()}; }
  static std::array<Tensor, N> make(std::span<const Tensor> list) {
    std::array<Tensor, N> x;
    std::copy(list.begin(), list.end(), x.begin());
    return x;
  }
};
template <typename T, std::size_t N>
struct TuplePack {
  static constexpr bool kIsPack = true;
  static constexpr std::size_t kCount = N;
  static std::vector<Tensor> list(const T& x) {
    return std::apply([](const auto&... tensors) { return std::vector<Tensor>{tensors...}; }, x);
  }
  static T make(std::span<const Tensor> list) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return T(list[I]...);
    }(std::make_index_sequence<N>());
  }
};
template <>
struct Pack<std::pair<Tensor, Tensor>> : TuplePack<std::pair<Tensor, Tensor>, 2> {};
template <typename... T>
  requires(std::is_same_v<T, Tensor> && ...)
struct Pack<std::tuple<T...>> : TuplePack<std::tuple<T...>, sizeof...(T)> {};

using TensorFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

// Functions on their way through the C ABI, which no exception may pass.
struct Recorded {
  TensorFunction first, second;
  std::exception_ptr error{};

  template <TensorFunction Recorded::* Member>
  static plm_status* call(void* user, plm_tensor* const* inputs, std::size_t input_count,
                          plm_tensor** outputs, std::size_t output_count) {
    auto& self = *static_cast<Recorded*>(user);
    try {
      std::vector<Tensor> given;
      for (std::size_t i = 0; i < input_count; ++i) {
        plm_tensor_retain(inputs[i]);
        given.emplace_back(inputs[i]);
      }
      const std::vector<Tensor> made = (self.*Member)(given);
      if (made.size() != output_count) {
        throw Error(ErrorCode::invalid_argument, std::to_string(made.size()) +
                                                     " tensors returned, must be " +
                                                     std::to_string(output_count));
      }
      for (std::size_t i = 0; i < output_count; ++i) {
        outputs[i] = made[i].handle();
        if (outputs[i] != nullptr) plm_tensor_retain(outputs[i]);
      }
      return nullptr;
    } catch (const Error& error) {
      return plm_status_create(static_cast<plm_code>(error.code()), error.what());
    } catch (...) {
      self.error = std::current_exception();
      return plm_status_create(PLM_ABORTED, "the function threw");
    }
  }
  static plm_status* call_first(void* user, plm_tensor* const* inputs, std::size_t input_count,
                                plm_tensor** outputs, std::size_t output_count) {
    return call<&Recorded::first>(user, inputs, input_count, outputs, output_count);
  }
  static plm_status* call_second(void* user, plm_tensor* const* inputs, std::size_t input_count,
                                 plm_tensor** outputs, std::size_t output_count) {
    return call<&Recorded::second>(user, inputs, input_count, outputs, output_count);
  }
  // Throws what a function threw, else what the status says.
  void check(plm_status* status) const {
    if (error) {
      plm_status_free(status);
      std::rethrow_exception(error);
    }
    internal::check(status);
  }
};

inline std::vector<const plm_tensor*> handles_of(std::span<const Tensor> tensors,
                                                 const char* what) {
  std::vector<const plm_tensor*> handles;
  for (const Tensor& tensor : tensors) handles.push_back(tensor.require(what));
  return handles;
}

inline std::vector<Tensor> owned(std::span<plm_tensor* const> handles) {
  return std::vector<Tensor>(handles.begin(), handles.end());
}

template <typename T>
concept TensorPack = Pack<std::remove_cvref_t<T>>::kIsPack;

}  // namespace internal

// While `condition(state)`, a pred[], holds: state = body(state). Looked at before each round. The
// last state. Has a gradient where the number of rounds follows from constants
// (`state[0] < 10` with `Tensor::scalar(0, DType::s32)` to start from and `+ 1`), else backward()
// throws unimplemented: scan() always has one.
template <internal::TensorPack State, typename Condition, typename Body>
State while_loop(Condition&& condition, Body&& body, const State& init) {
  using Pack = internal::Pack<State>;
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(body(init))>, State>,
                "the body returns what it takes");
  internal::Recorded parts{
      [&](std::span<const Tensor> state) {
        return std::vector<Tensor>{condition(Pack::make(state))};
      },
      [&](std::span<const Tensor> state) { return Pack::list(body(Pack::make(state))); }};
  const std::vector<Tensor> start = Pack::list(init);
  const auto handles = internal::handles_of(start, "while_loop");
  if (start.empty()) throw Error(ErrorCode::invalid_argument, "[while_loop] there is no state");
  std::vector<plm_tensor*> out(start.size(), nullptr);
  parts.check(plm_while(plm_tensor_context(handles[0]), &internal::Recorded::call_first,
                        &internal::Recorded::call_second, &parts, handles.data(), handles.size(),
                        out.data()));
  return Pack::make(internal::owned(out));
}

// What `then_branch()` returns where `predicate` (pred[]) is true, else what `else_branch()` does.
// Both return tensors of the same dtypes and dims, in the same type; one of them runs.
template <typename Then, typename Else>
auto cond(const Tensor& predicate, Then&& then_branch, Else&& else_branch) {
  using Result = std::remove_cvref_t<decltype(then_branch())>;
  static_assert(std::is_same_v<Result, std::remove_cvref_t<decltype(else_branch())>>,
                "both branches return the same type");
  static_assert(internal::TensorPack<Result>, "a branch returns tensors");
  using Pack = internal::Pack<Result>;
  static_assert(Pack::kCount != internal::kAny && Pack::kCount > 0,
                "a branch returns a number of tensors that its type tells (std::array)");
  internal::Recorded parts{[&](std::span<const Tensor>) { return Pack::list(then_branch()); },
                           [&](std::span<const Tensor>) { return Pack::list(else_branch()); }};
  const plm_tensor* const handle = predicate.require("cond");
  std::array<plm_tensor*, Pack::kCount> out{};
  parts.check(plm_conditional(plm_tensor_context(handle), handle, &internal::Recorded::call_first,
                              &internal::Recorded::call_second, &parts, out.data(), out.size()));
  return Pack::make(internal::owned(out));
}

struct ScanOptions {
  std::int64_t length = 0;  // rounds, where there are no arrays to go through
  bool reverse = false;     // from the last slice to the first
};

// For each slice of `xs` along their first dim: {state, results} = body(state, slices), a
// std::pair, from `init` on. Returns {last state, the results of all rounds stacked along a new
// first dim}, in the order of the slices. Without results, or arrays to go through, these are
// std::tuple<>().
template <internal::TensorPack State, internal::TensorPack Slices, typename Body>
auto scan(Body&& body, const State& init, const Slices& xs, const ScanOptions& options = {}) {
  using Step = std::remove_cvref_t<decltype(body(init, xs))>;
  using Results = typename Step::second_type;
  static_assert(std::is_same_v<typename Step::first_type, State>,
                "the body returns {the next state, results}");
  static_assert(internal::TensorPack<Results>, "the body returns {the next state, results}");
  using Pack = internal::Pack<State>;
  using ResultPack = internal::Pack<Results>;
  static_assert(ResultPack::kCount != internal::kAny,
                "the body returns a number of results that its type tells (std::array)");
  const std::vector<Tensor> start = Pack::list(init);
  const std::vector<Tensor> arrays = internal::Pack<Slices>::list(xs);
  internal::Recorded parts{[&](std::span<const Tensor> inputs) {
                             const Step step =
                                 body(Pack::make(inputs.first(start.size())),
                                      internal::Pack<Slices>::make(inputs.subspan(start.size())));
                             std::vector<Tensor> all = Pack::list(step.first);
                             for (Tensor& tensor : ResultPack::list(step.second))
                               all.push_back(std::move(tensor));
                             return all;
                           },
                           {}};
  const auto init_handles = internal::handles_of(start, "scan");
  const auto array_handles = internal::handles_of(arrays, "scan");
  plm_scan_options plain = {};
  plain.struct_size = sizeof plain;
  plain.length = options.length;
  plain.reverse = options.reverse ? 1 : 0;
  std::vector<plm_tensor*> last(start.size(), nullptr);
  std::array<plm_tensor*, ResultPack::kCount> stacked{};
  plm_context* const context = !init_handles.empty()    ? plm_tensor_context(init_handles[0])
                               : !array_handles.empty() ? plm_tensor_context(array_handles[0])
                                                        : Context::current().handle();
  parts.check(plm_scan(context, &internal::Recorded::call_first, &parts, init_handles.data(),
                       init_handles.size(), array_handles.data(), array_handles.size(), &plain,
                       last.data(), stacked.data(), stacked.size()));
  return std::pair<State, Results>(Pack::make(internal::owned(last)),
                                   ResultPack::make(internal::owned(stacked)));
}

}  // namespace plimsoll
