// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/kernel_base.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {

// Memory of one task, laid out once and then taken by the same numbers.
class ScratchLayout {
 public:
  // Room for `count` elements; the result is their offset.
  template <typename T>
  std::int64_t add(std::int64_t count) {
    const std::int64_t offset = bytes_;
    bytes_ += aligned_bytes(count * static_cast<std::int64_t>(sizeof(T)));
    return offset;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

// One problem of a batch: where its arrays lie, and its task's memory.
struct BatchTask {
  std::int64_t index = 0;
  std::byte* scratch = nullptr;
  const device::KernelArguments& arguments;

  template <typename T>
  T* memory(std::int64_t offset) const {
    return reinterpret_cast<T*>(scratch + offset);
  }
  // The array of this problem, of `count` elements.
  template <typename T>
  const T* operand(std::size_t i, std::int64_t count) const {
    return static_cast<const T*>(arguments.inputs[i]) + index * count;
  }
  template <typename T>
  T* result(std::size_t i, std::int64_t count) const {
    return static_cast<T*>(arguments.outputs[i]) + index * count;
  }
};

// From rows to columns, as the library has its matrices, and back; in blocks that stay in cache,
// whichever side they are read or written from.
template <typename T>
void to_columns(const T* rows, std::int64_t m, std::int64_t n, T* columns) {
  constexpr std::int64_t kBlock = 64 / sizeof(T) > 8 ? 64 / sizeof(T) : 8;
  for (std::int64_t i = 0; i < m; i += kBlock) {
    const std::int64_t i_end = std::min(m, i + kBlock);
    for (std::int64_t j = 0; j < n; j += kBlock) {
      const std::int64_t j_end = std::min(n, j + kBlock);
      for (std::int64_t y = j; y < j_end; ++y) {
        for (std::int64_t x = i; x < i_end; ++x) columns[y * m + x] = rows[x * n + y];
      }
    }
  }
}
template <typename T>
void to_rows(const T* columns, std::int64_t m, std::int64_t n, T* rows) {
  to_columns(columns, n, m, rows);
}

// A square matrix where it lies, in blocks as above.
template <typename T>
void turn(T* square, std::int64_t n) {
  constexpr std::int64_t kBlock = 64 / sizeof(T) > 8 ? 64 / sizeof(T) : 8;
  for (std::int64_t i = 0; i < n; i += kBlock) {
    const std::int64_t i_end = std::min(n, i + kBlock);
    for (std::int64_t j = 0; j <= i; j += kBlock) {
      for (std::int64_t y = i; y < i_end; ++y) {
        const std::int64_t x_end = std::min(j + kBlock, y);
        for (std::int64_t x = j; x < x_end; ++x) std::swap(square[y * n + x], square[x * n + y]);
      }
    }
  }
}

// Solves a batch of problems, each on one thread by the same steps, so that the number of threads
// changes no bit. A Solver has `void solve(const BatchTask&) const` and `scratch` (a
// ScratchLayout).
template <typename Solver>
class BatchKernel final : public KernelBase {
 public:
  BatchKernel(std::string name, std::int64_t batch, Solver solver)
      : KernelBase(std::move(name), device::KernelOrigin::library),
        solver_(std::move(solver)),
        batch_(batch),
        slots_(std::clamp<std::int64_t>(batch, 1, kMaxSlots)) {
    memory_ = reserve_workspace(slots_ * solver_.scratch.bytes());
  }

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slot = begin; slot < end; ++slot) {
        std::byte* const scratch =
            byte_offset(arguments.workspace, memory_ + slot * solver_.scratch.bytes());
        const std::int64_t last = batch_ * (slot + 1) / slots_;
        for (std::int64_t i = batch_ * slot / slots_; i < last; ++i) {
          solver_.solve(BatchTask{i, scratch, arguments});
        }
      }
    });
    return ok_status();
  }

 private:
  static constexpr std::int64_t kMaxSlots = 8;
  const Solver solver_;
  const std::int64_t batch_, slots_;
  std::int64_t memory_ = 0;
};

}  // namespace plimsoll::kernels
