// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/linalg/solver.h"

// Singular values, eigenvalues and Schur forms. Every solver reads its call as jaxlib's function of
// the same name defines it: operands, results and options in that order; `info` is LAPACK's. What
// is not asked for is zero.

namespace plimsoll::kernels {

// (a) -> (a destroyed: zeros here, s, u, vt, info), by divide and conquer or by QR iterations.
template <typename T>
struct SingularValues : MatrixSolver {
  char mode = 'A';  // all columns of u, some (min(m, n)), or none
  bool divides = true;
  int rows_of_vt = 0, columns_of_u = 0, lwork = 0;
  std::int64_t a_at = 0, u_at = 0, vt_at = 0, work_at = 0, rwork_at = 0, iwork_at = 0;

  static Result<SingularValues> create(const LibraryCall& call, bool divides);
  void solve(const BatchTask& task) const;
  // Work sizes are asked for with lwork = -1 and null arrays.
  int run(T* a, lapack::Real<T>* s, T* u, T* vt, T* work, int work_elements, lapack::Real<T>* rwork,
          int* iwork) const;
};
template <typename T>
struct Gesdd : SingularValues<T> {
  static Result<Gesdd> create(const LibraryCall& call);
};
template <typename T>
struct Gesvd : SingularValues<T> {
  static Result<Gesvd> create(const LibraryCall& call);
};

// (a) -> (vectors, values, info), `a` symmetric or Hermitian; values in ascending order.
template <typename T>
struct Syevd : MatrixSolver {
  char mode = 'V', uplo = 'L';
  int lwork = 0, lrwork = 0, liwork = 0;
  std::int64_t work_at = 0, rwork_at = 0, iwork_at = 0;

  static Result<Syevd> create(const LibraryCall& call);
  void solve(const BatchTask& task) const;
};

// Real: (a) -> (real parts, imaginary parts, left, right, info); complex: (a) -> (values, left,
// right, info). Vectors are complex.
template <typename T>
struct Geev : MatrixSolver {
  using Complex = std::complex<lapack::Real<T>>;
  char left = 'V', right = 'V';
  int lwork = 0;
  std::int64_t a_at = 0, left_at = 0, right_at = 0, work_at = 0, rwork_at = 0;

  static Result<Geev> create(const LibraryCall& call);
  void solve(const BatchTask& task) const;
  void write_vectors(const T* vectors, const T* imaginary, Complex* to) const;
};

// Real: (a) -> (schur form, vectors, real parts, imaginary parts, selected, info); complex: (a) ->
// (schur form, vectors, values, selected, info). Nothing is sorted, so that none are selected.
template <typename T>
struct Gees : MatrixSolver {
  char mode = 'V';
  int lwork = 0;
  std::int64_t a_at = 0, vectors_at = 0, work_at = 0, rwork_at = 0;

  static Result<Gees> create(const LibraryCall& call);
  void solve(const BatchTask& task) const;
};

}  // namespace plimsoll::kernels
