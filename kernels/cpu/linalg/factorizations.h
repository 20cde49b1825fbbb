// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/linalg/solver.h"

// Triangular and tridiagonal systems, and factorizations without iterations. Every solver reads its
// call as jaxlib's function of the same name defines it: operands, results and options in that
// order; `info` is LAPACK's.

namespace plimsoll::kernels {

// (a, b) -> x: op(a) x = b, or x op(a) = b, `a` triangular.
template <typename T>
struct Trsm : MatrixSolver {
  char side = 'L', uplo = 'L', trans = 'N', diag = 'N';

  static Result<Trsm> create(const LibraryCall& call);
  void solve(const BatchTask& task) const;
};

// (a) -> (lu, pivots from 1, info).
template <typename T>
struct Getrf : MatrixSolver {
  static Result<Getrf> create(const LibraryCall& call);
  void solve(const BatchTask& task) const;
};

// (a) -> (factor, info); what is not of the triangle stays as it is in `a`.
template <typename T>
struct Potrf : MatrixSolver {
  char uplo = 'L';

  static Result<Potrf> create(const LibraryCall& call);
  void solve(const BatchTask& task) const;
};

// (a) -> (r and reflectors, tau).
template <typename T>
struct Geqrf : MatrixSolver {
  int lwork = 0;
  std::int64_t work_at = 0;

  static Result<Geqrf> create(const LibraryCall& call);
  void solve(const BatchTask& task) const;
};

// (a, jpvt) -> (r and reflectors, jpvt, tau).
template <typename T>
struct Geqp3 : MatrixSolver {
  int lwork = 0;
  std::int64_t work_at = 0, rwork_at = 0;

  static Result<Geqp3> create(const LibraryCall& call);
  void solve(const BatchTask& task) const;
};

// (reflectors, tau) -> q.
template <typename T>
struct Orgqr : MatrixSolver {
  int k = 0, lwork = 0;
  std::int64_t work_at = 0;

  static Result<Orgqr> create(const LibraryCall& call);
  void solve(const BatchTask& task) const;
};

// (reflectors, tau, c) -> op(q) c, or c op(q).
template <typename T>
struct Ormqr : MatrixSolver {
  char side = 'L', trans = 'N';
  int k = 0, rows = 0, columns = 0, lwork = 0;
  std::int64_t a_at = 0, c_at = 0, work_at = 0;

  static Result<Ormqr> create(const LibraryCall& call);
  void solve(const BatchTask& task) const;
};

// (a) -> (hessenberg form and reflectors, tau, info).
template <typename T>
struct Gehrd : MatrixSolver {
  int low = 1, high = 0, lwork = 0;
  std::int64_t work_at = 0;

  static Result<Gehrd> create(const LibraryCall& call);
  void solve(const BatchTask& task) const;
};

// (a) -> (reflectors, diagonal, off-diagonal, tau, info), `a` symmetric or Hermitian.
template <typename T>
struct Sytrd : MatrixSolver {
  char uplo = 'L';
  int lwork = 0;
  std::int64_t work_at = 0;

  static Result<Sytrd> create(const LibraryCall& call);
  void solve(const BatchTask& task) const;
};

// (lower, diagonal, upper, b) -> (the same, eliminated and x, info): tridiagonal systems.
template <typename T>
struct Gtsv : MatrixSolver {
  std::int64_t b_at = 0;

  static Result<Gtsv> create(const LibraryCall& call);
  void solve(const BatchTask& task) const;
};

// (lower, diagonal, upper, b) -> x: tridiagonal systems, real ones, whose pivots near zero are
// moved away from it, so that singular ones have finite solutions, too (LAPACK's lagtf and lagts).
template <typename T>
struct PerturbedTridiagonal : MatrixSolver {
  std::int64_t diagonals_at = 0, in_at = 0, y_at = 0;

  static Result<PerturbedTridiagonal> create(const LibraryCall& call);
  void solve(const BatchTask& task) const;
};

}  // namespace plimsoll::kernels
