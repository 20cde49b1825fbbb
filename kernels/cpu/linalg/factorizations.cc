// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/linalg/factorizations.h"

#include <algorithm>

#include "kernels/cpu/blas/triangle.h"

namespace plimsoll::kernels {

using lapack::Real;

template <typename T>
Result<Trsm<T>> Trsm<T>::create(const LibraryCall& call) {
  Trsm made;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_counts(2, 1));
  PLIMSOLL_ASSIGN_OR_RETURN(made.side, call.letter("side", "LR"));
  PLIMSOLL_ASSIGN_OR_RETURN(made.uplo, call.letter("uplo", "LU"));
  PLIMSOLL_ASSIGN_OR_RETURN(made.trans, call.letter("trans_x", "NTC"));
  PLIMSOLL_ASSIGN_OR_RETURN(made.diag, call.letter("diag", "NU"));
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims b, call.operand<T>(1, 2));
  PLIMSOLL_RETURN_IF_ERROR(made.take_sizes(call, b));
  const int order = made.side == 'L' ? made.m : made.n;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_operand<T>(0, made.dims({order, order})));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(0, b));
  return made;
}

// x op(a) = b is op(a)^T x^T = b^T.
template <typename T>
void Trsm<T>::solve(const BatchTask& task) const {
  if (is_empty()) return;
  const std::int64_t order = side == 'L' ? m : n;
  const T* const b = task.operand<T>(1, elements());
  T* const x = task.result<T>(0, elements());
  if (x != b) std::copy_n(b, elements(), x);
  blas::MatrixView<const T> a{task.operand<T>(0, order * order), order, order, order, 1};
  blas::Half half{uplo == 'L', diag == 'U'};
  if (trans == 'C') a = a.conjugated();
  if ((side == 'R') != (trans != 'N')) {
    a = a.transposed();
    half = half.transposed();
  }
  const blas::MatrixView<T> unknowns{x, m, n, n, 1};
  blas::solve<T>(half, a, side == 'L' ? unknowns : unknowns.transposed());
}

template <typename T>
Result<Getrf<T>> Getrf<T>::create(const LibraryCall& call) {
  Getrf made;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_counts(1, 3));
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims a, call.operand<T>(0, 2));
  PLIMSOLL_RETURN_IF_ERROR(made.take_sizes(call, a));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(0, a));
  PLIMSOLL_RETURN_IF_ERROR(
      call.expect_result<std::int32_t>(1, made.dims({std::min(made.m, made.n)})));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<std::int32_t>(2, made.batch_dims));
  made.template take_columns<T>();
  return made;
}

template <typename T>
void Getrf<T>::solve(const BatchTask& task) const {
  if (is_empty()) return set_info(task, 2, 0);
  T* const a = begin_columns<T>(task);
  set_info(task, 2, lapack::getrf(m, n, a, task.result<int>(1, std::min(m, n))));
  end_columns(task, a);
}

template <typename T>
Result<Potrf<T>> Potrf<T>::create(const LibraryCall& call) {
  Potrf made;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_counts(1, 2));
  PLIMSOLL_ASSIGN_OR_RETURN(made.uplo, call.letter("uplo", "LU"));
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims a, call.operand<T>(0, 2));
  PLIMSOLL_RETURN_IF_ERROR(made.take_square(call, a));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(0, a));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<std::int32_t>(1, made.batch_dims));
  made.template take_columns<T>();
  return made;
}

template <typename T>
void Potrf<T>::solve(const BatchTask& task) const {
  if (is_empty()) return set_info(task, 1, 0);
  T* const a = begin_columns<T>(task);
  set_info(task, 1, lapack::potrf(uplo, n, a));
  end_columns(task, a);
}

template <typename T>
Result<Geqrf<T>> Geqrf<T>::create(const LibraryCall& call) {
  Geqrf made;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_counts(1, 2));
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims a, call.operand<T>(0, 2));
  PLIMSOLL_RETURN_IF_ERROR(made.take_sizes(call, a));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(0, a));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(1, made.dims({std::min(made.m, made.n)})));
  if (made.is_empty()) return made;
  T best{};
  (void)lapack::geqrf(made.m, made.n, static_cast<T*>(nullptr), nullptr, &best, -1);
  made.lwork = work_size(best);
  made.template take_columns<T>();
  made.work_at = made.scratch.template add<T>(made.lwork);
  return made;
}

template <typename T>
void Geqrf<T>::solve(const BatchTask& task) const {
  if (is_empty()) return;
  T* const a = begin_columns<T>(task);
  (void)lapack::geqrf(m, n, a, task.result<T>(1, std::min(m, n)), task.memory<T>(work_at), lwork);
  end_columns(task, a);
}

template <typename T>
Result<Geqp3<T>> Geqp3<T>::create(const LibraryCall& call) {
  Geqp3 made;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_counts(2, 3));
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims a, call.operand<T>(0, 2));
  PLIMSOLL_RETURN_IF_ERROR(made.take_sizes(call, a));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_operand<std::int32_t>(1, made.dims({made.n})));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(0, a));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<std::int32_t>(1, made.dims({made.n})));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(2, made.dims({std::min(made.m, made.n)})));
  if (made.is_empty()) return made;
  T best{};
  (void)lapack::geqp3(made.m, made.n, static_cast<T*>(nullptr), nullptr, nullptr, &best, -1,
                      nullptr);
  made.lwork = work_size(best);
  made.template take_columns<T>();
  made.work_at = made.scratch.template add<T>(made.lwork);
  made.rwork_at = made.scratch.template add<Real<T>>(2 * static_cast<std::int64_t>(made.n));
  return made;
}

template <typename T>
void Geqp3<T>::solve(const BatchTask& task) const {
  const int* const given = task.operand<int>(1, n);
  int* const pivots = task.result<int>(1, n);
  std::copy_n(given, n, pivots);
  if (is_empty()) return;
  T* const a = begin_columns<T>(task);
  (void)lapack::geqp3(m, n, a, pivots, task.result<T>(2, std::min(m, n)), task.memory<T>(work_at),
                      lwork, task.memory<Real<T>>(rwork_at));
  end_columns(task, a);
}

template <typename T>
Result<Orgqr<T>> Orgqr<T>::create(const LibraryCall& call) {
  Orgqr made;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_counts(2, 1));
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims a, call.operand<T>(0, 2));
  PLIMSOLL_RETURN_IF_ERROR(made.take_sizes(call, a));
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims tau, call.operand<T>(1, 1));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_operand<T>(1, made.dims({tau.back()})));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(0, a));
  if (tau.back() > made.n || made.n > made.m) {
    return call.error("more reflectors than columns, or more columns than rows");
  }
  made.k = static_cast<int>(tau.back());
  if (made.is_empty()) return made;
  T best{};
  (void)lapack::orgqr(made.m, made.n, made.k, static_cast<T*>(nullptr), nullptr, &best, -1);
  made.lwork = work_size(best);
  made.template take_columns<T>();
  made.work_at = made.scratch.template add<T>(made.lwork);
  return made;
}

template <typename T>
void Orgqr<T>::solve(const BatchTask& task) const {
  if (is_empty()) return;
  T* const a = begin_columns<T>(task);
  (void)lapack::orgqr(m, n, k, a, task.operand<T>(1, k), task.memory<T>(work_at), lwork);
  end_columns(task, a);
}

template <typename T>
Result<Ormqr<T>> Ormqr<T>::create(const LibraryCall& call) {
  Ormqr made;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_counts(3, 1));
  made.side = call.number("left", 1) != 0 ? 'L' : 'R';
  const bool transposes = call.number("transpose", 0) != 0;
  made.trans = !transposes ? 'N' : lapack::kIsComplex<T> ? 'C' : 'T';
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims a, call.operand<T>(0, 2));
  PLIMSOLL_RETURN_IF_ERROR(made.take_sizes(call, a));
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims tau, call.operand<T>(1, 1));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_operand<T>(1, made.dims({tau.back()})));
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims c, call.operand<T>(2, 2));
  made.rows = static_cast<int>(c[c.size() - 2]);
  made.columns = static_cast<int>(c.back());
  PLIMSOLL_RETURN_IF_ERROR(call.expect_operand<T>(2, made.dims({made.rows, made.columns})));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(0, c));
  made.k = static_cast<int>(tau.back());
  if (made.m != (made.side == 'L' ? made.rows : made.columns) || made.k > made.n ||
      made.k > made.m) {
    return call.error("the reflectors do not fit the matrix that they multiply");
  }
  if (made.rows == 0 || made.columns == 0 || made.k == 0) return made;
  T best{};
  (void)lapack::ormqr(made.side, made.trans, made.rows, made.columns, made.k,
                      static_cast<const T*>(nullptr), made.m, nullptr, nullptr, &best, -1);
  made.lwork = work_size(best);
  made.a_at = made.scratch.template add<T>(made.elements());
  made.c_at = made.scratch.template add<T>(static_cast<std::int64_t>(made.rows) * made.columns);
  made.work_at = made.scratch.template add<T>(made.lwork);
  return made;
}

template <typename T>
void Ormqr<T>::solve(const BatchTask& task) const {
  const std::int64_t count = static_cast<std::int64_t>(rows) * columns;
  if (count == 0 || k == 0) {
    std::copy_n(task.operand<T>(2, count), count, task.result<T>(0, count));
    return;
  }
  T* const a = task.memory<T>(a_at);
  T* const c = task.memory<T>(c_at);
  to_columns(task.operand<T>(0, elements()), m, n, a);
  to_columns(task.operand<T>(2, count), rows, columns, c);
  (void)lapack::ormqr(side, trans, rows, columns, k, a, m, task.operand<T>(1, k), c,
                      task.memory<T>(work_at), lwork);
  to_rows(c, rows, columns, task.result<T>(0, count));
}

template <typename T>
Result<Gehrd<T>> Gehrd<T>::create(const LibraryCall& call) {
  Gehrd made;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_counts(1, 3));
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims a, call.operand<T>(0, 2));
  PLIMSOLL_RETURN_IF_ERROR(made.take_square(call, a));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(0, a));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(1, made.dims({std::max(made.n - 1, 0)})));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<std::int32_t>(2, made.batch_dims));
  const std::int64_t low = call.number("low", 1), high = call.number("high", made.n);
  if (made.n > 0 && (low < 1 || low > high || high > made.n)) {
    return call.error("low and high, must be 1 <= low <= high <= n");
  }
  made.low = static_cast<int>(low);
  made.high = static_cast<int>(high);
  if (made.n < 2) return made;
  T best{};
  (void)lapack::gehrd(made.n, made.low, made.high, static_cast<T*>(nullptr), nullptr, &best, -1);
  made.lwork = work_size(best);
  made.template take_columns<T>();
  made.work_at = made.scratch.template add<T>(made.lwork);
  return made;
}

template <typename T>
void Gehrd<T>::solve(const BatchTask& task) const {
  if (n < 2) {
    std::copy_n(task.operand<T>(0, elements()), elements(), task.result<T>(0, elements()));
    return set_info(task, 2, 0);
  }
  T* const a = begin_columns<T>(task);
  set_info(
      task, 2,
      lapack::gehrd(n, low, high, a, task.result<T>(1, n - 1), task.memory<T>(work_at), lwork));
  end_columns(task, a);
}

template <typename T>
Result<Sytrd<T>> Sytrd<T>::create(const LibraryCall& call) {
  Sytrd made;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_counts(1, 5));
  PLIMSOLL_ASSIGN_OR_RETURN(made.uplo, call.letter("uplo", "LU"));
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims a, call.operand<T>(0, 2));
  PLIMSOLL_RETURN_IF_ERROR(made.take_square(call, a));
  const std::int64_t off = std::max(made.n - 1, 0);
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(0, a));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<Real<T>>(1, made.dims({made.n})));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<Real<T>>(2, made.dims({off})));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(3, made.dims({off})));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<std::int32_t>(4, made.batch_dims));
  if (made.is_empty()) return made;
  T best{};
  (void)lapack::sytrd(made.uplo, made.n, static_cast<T*>(nullptr), nullptr, nullptr, nullptr, &best,
                      -1);
  made.lwork = work_size(best);
  made.template take_columns<T>();
  made.work_at = made.scratch.template add<T>(made.lwork);
  return made;
}

template <typename T>
void Sytrd<T>::solve(const BatchTask& task) const {
  if (is_empty()) return set_info(task, 4, 0);
  T* const a = begin_columns<T>(task);
  set_info(task, 4,
           lapack::sytrd(uplo, n, a, task.result<Real<T>>(1, n), task.result<Real<T>>(2, n - 1),
                         task.result<T>(3, n - 1), task.memory<T>(work_at), lwork));
  end_columns(task, a);
}

// The diagonals have n elements each: the first of the lower one and the last of the upper one
// count for nothing, where LAPACK's are shorter by them.
template <typename T>
Result<Gtsv<T>> Gtsv<T>::create(const LibraryCall& call) {
  Gtsv made;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_counts(4, 5));
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims b, call.operand<T>(3, 2));
  PLIMSOLL_RETURN_IF_ERROR(made.take_sizes(call, b));
  for (std::size_t i = 0; i < 3; ++i) {
    PLIMSOLL_RETURN_IF_ERROR(call.expect_operand<T>(i, made.dims({made.m})));
    PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(i, made.dims({made.m})));
  }
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(3, b));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<std::int32_t>(4, made.batch_dims));
  made.b_at = made.scratch.template add<T>(made.elements());
  return made;
}

template <typename T>
void Gtsv<T>::solve(const BatchTask& task) const {
  for (std::size_t i = 0; i < 3; ++i) {
    std::copy_n(task.operand<T>(i, m), m, task.result<T>(i, m));
  }
  if (is_empty()) return set_info(task, 4, 0);
  T* const b = task.memory<T>(b_at);
  to_columns(task.operand<T>(3, elements()), m, n, b);
  const int info =
      lapack::gtsv(m, n, task.result<T>(0, m) + 1, task.result<T>(1, m), task.result<T>(2, m), b);
  set_info(task, 4, info);
  to_rows(b, m, n, task.result<T>(3, elements()));
}

template <typename T>
Result<PerturbedTridiagonal<T>> PerturbedTridiagonal<T>::create(const LibraryCall& call) {
  PerturbedTridiagonal made;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_counts(4, 1));
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims b, call.operand<T>(3, 2));
  PLIMSOLL_RETURN_IF_ERROR(made.take_sizes(call, b));
  for (std::size_t i = 0; i < 3; ++i) {
    PLIMSOLL_RETURN_IF_ERROR(call.expect_operand<T>(i, made.dims({made.m})));
  }
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(0, b));
  made.diagonals_at = made.scratch.template add<T>(4 * static_cast<std::int64_t>(made.m));
  made.in_at = made.scratch.template add<int>(made.m);
  made.y_at = made.scratch.template add<T>(made.m);
  return made;
}

template <typename T>
void PerturbedTridiagonal<T>::solve(const BatchTask& task) const {
  if (is_empty()) return;
  T* const diagonal = task.memory<T>(diagonals_at);
  T *const upper = diagonal + m, *const lower = upper + m, *const second = lower + m;
  int* const in = task.memory<int>(in_at);
  T* const y = task.memory<T>(y_at);
  std::copy_n(task.operand<T>(0, m) + 1, m - 1, lower);
  std::copy_n(task.operand<T>(1, m), m, diagonal);
  std::copy_n(task.operand<T>(2, m), m - 1, upper);
  lapack::lagtf(m, diagonal, upper, lower, second, in);
  const T* const b = task.operand<T>(3, elements());
  T* const x = task.result<T>(0, elements());
  for (int column = 0; column < n; ++column) {
    for (int i = 0; i < m; ++i) y[i] = b[static_cast<std::int64_t>(i) * n + column];
    lapack::lagts(m, diagonal, upper, lower, second, in, y);
    for (int i = 0; i < m; ++i) x[static_cast<std::int64_t>(i) * n + column] = y[i];
  }
}

template struct PerturbedTridiagonal<float>;
template struct PerturbedTridiagonal<double>;

#define PLIMSOLL_INSTANTIATE(p, T, R) \
  template struct Trsm<T>;            \
  template struct Getrf<T>;           \
  template struct Potrf<T>;           \
  template struct Geqrf<T>;           \
  template struct Geqp3<T>;           \
  template struct Orgqr<T>;           \
  template struct Ormqr<T>;           \
  template struct Gehrd<T>;           \
  template struct Sytrd<T>;           \
  template struct Gtsv<T>;
PLIMSOLL_LAPACK_TYPES(PLIMSOLL_INSTANTIATE)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll::kernels
