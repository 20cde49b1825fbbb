// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/loop_windows.h"

#include <fmt/core.h>
#include <cstdint>

namespace plimsoll::executor {

using planner::SlicedState;

std::byte* LoopWindows::slot(std::size_t k, std::int64_t round) const {
  const SlicedState& state = states_[k].state;
  return places_[k].window + round % SlicedState::kSlots * state.slot_bytes() +
         state.slot_offset(state.first + round * state.step);
}

Status LoopWindows::start(std::size_t k, std::int64_t round) {
  const SlicedState& state = states_[k].state;
  const std::int64_t index = state.first + round * state.step;
  bool& open = under_way_[k][at(round) % kSlots];
  const auto move = [&] {
    return transfers_.start(&open, state.writes, places_[k].tier,
                            places_[k].offset + index * state.stride(), slot(k, round),
                            state.slice_bytes, state.synchronous);
  };
  if (!state.synchronous) {
    PLIMSOLL_RETURN_IF_ERROR(move());
    open = true;
    return ok_status();
  }
  if (measured_.empty()) return move();
  StreamTimes::Span moved;
  moved.measurement = states_[k].measurement;
  PLIMSOLL_RETURN_IF_ERROR(times_.begin());
  PLIMSOLL_RETURN_IF_ERROR(move());
  ++measured_[at(moved.measurement)].launches;
  return times_.end(moved);
}

Status LoopWindows::wait(std::size_t k, std::int64_t round) {
  bool& open = under_way_[k][at(round) % kSlots];
  if (!open) return ok_status();
  open = false;
  if (measured_.empty()) return transfers_.wait(&open, nullptr);
  double seconds = 0;
  PLIMSOLL_RETURN_IF_ERROR(times_.begin());
  PLIMSOLL_RETURN_IF_ERROR(transfers_.wait(&open, &seconds));
  StreamTimes::Span waited;
  waited.measurement = states_[k].measurement;
  PLIMSOLL_RETURN_IF_ERROR(times_.end(waited));
  MeasuredTime& time = measured_[at(states_[k].measurement)];
  time.transfer_seconds += seconds;
  ++time.launches;
  return ok_status();
}

Status LoopWindows::begin_round(std::span<void*> state) {
  for (std::size_t k = 0; k < states_.size(); ++k) {
    const SlicedState& of = states_[k].state;
    if (round_ >= of.rounds) {
      return internal_error(fmt::format("a loop with {} rounds planned goes on", of.rounds));
    }
    if (!of.writes && round_ == 0) PLIMSOLL_RETURN_IF_ERROR(start(k, round_));
    PLIMSOLL_RETURN_IF_ERROR(wait(k, round_));
    if (!of.writes && round_ + 1 < of.rounds) PLIMSOLL_RETURN_IF_ERROR(start(k, round_ + 1));
    // Where the residual would begin: arithmetic on addresses, as no array lies there.
    const auto address =
        reinterpret_cast<std::uintptr_t>(slot(k, round_)) -
        static_cast<std::uintptr_t>((of.first + round_ * of.step) * of.slice_bytes);
    state[at(of.leaf)] = reinterpret_cast<void*>(address);
  }
  return ok_status();
}

Status LoopWindows::end_round() {
  for (std::size_t k = 0; k < states_.size(); ++k) {
    if (states_[k].state.writes) PLIMSOLL_RETURN_IF_ERROR(start(k, round_));
  }
  ++round_;
  return ok_status();
}

Status LoopWindows::finish() {
  for (std::size_t k = 0; k < states_.size(); ++k) {
    for (std::int64_t slot = 0; slot < SlicedState::kSlots; ++slot) {
      PLIMSOLL_RETURN_IF_ERROR(wait(k, slot));
    }
    if (round_ != states_[k].state.rounds) {
      return internal_error(fmt::format("a loop with {} rounds planned ended after {}",
                                        states_[k].state.rounds, round_));
    }
  }
  return ok_status();
}

}  // namespace plimsoll::executor
