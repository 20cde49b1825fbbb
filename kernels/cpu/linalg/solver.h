// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cpu/calls/batch_kernel.h"
#include "kernels/cpu/calls/call.h"
#include "kernels/cpu/linalg/lapack.h"

namespace plimsoll::kernels {

// What all solvers here have: the sizes of one problem, how many there are, and the task's memory.
// T: the elements' type; sizes fit the library's int, and are not what it may be asked for when
// one of them is zero (LAPACK refuses leading dims of zero).
struct MatrixSolver {
  using Dims = LibraryCall::Dims;

  int m = 0, n = 0;  // rows and columns of the first operand
  Dims batch_dims;
  std::int64_t batch = 1;
  ScratchLayout scratch;
  std::int64_t columns_at = -1;  // of a matrix that is not square

  // Takes the sizes from a first operand's dims.
  Status take_sizes(const LibraryCall& call, const Dims& dims) {
    for (const std::int64_t dim : dims) {
      if (dim > std::numeric_limits<int>::max()) return call.error("a dim above 2147483647");
    }
    batch_dims.assign(dims.begin(), dims.end() - 2);
    m = static_cast<int>(dims[dims.size() - 2]);
    n = static_cast<int>(dims[dims.size() - 1]);
    for (const std::int64_t dim : batch_dims) batch *= dim;
    return ok_status();
  }
  Status take_square(const LibraryCall& call, const Dims& dims) {
    PLIMSOLL_RETURN_IF_ERROR(take_sizes(call, dims));
    return m == n ? ok_status() : call.error("the matrix is not square");
  }
  // The dims of an array with these behind the batch's.
  Dims dims(std::initializer_list<std::int64_t> own) const {
    Dims made = batch_dims;
    made.insert(made.end(), own.begin(), own.end());
    return made;
  }
  bool is_empty() const { return m == 0 || n == 0; }
  std::int64_t elements() const { return static_cast<std::int64_t>(m) * n; }

  // Where the library works on the first operand, by columns, before it is the first result by
  // rows: a square one in that result, where it is turned in the end, another in the task's memory.
  template <typename T>
  void take_columns() {
    if (m != n) columns_at = scratch.add<T>(elements());
  }
  template <typename T>
  T* begin_columns(const BatchTask& task) const {
    T* const a = m == n ? task.result<T>(0, elements()) : task.memory<T>(columns_at);
    to_columns(task.operand<T>(0, elements()), m, n, a);
    return a;
  }
  template <typename T>
  void end_columns(const BatchTask& task, T* a) const {
    if (m == n) return turn(a, n);
    to_rows(a, m, n, task.result<T>(0, elements()));
  }
};

inline void set_info(const BatchTask& task, std::size_t result, int info) {
  *task.result<std::int32_t>(result, 1) = info;
}

// The best size of a work array, as a query wrote it to its first element.
template <typename T>
int work_size(T queried) {
  using R = lapack::Real<T>;
  R size{};
  if constexpr (lapack::kIsComplex<T>) {
    size = queried.real();
  } else {
    size = queried;
  }
  // Above 2^24 a float may have been rounded down.
  return static_cast<int>(std::ceil(std::nextafter(size, std::numeric_limits<R>::max())));
}

}  // namespace plimsoll::kernels
