// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/linalg/spectra.h"

#include <algorithm>

namespace plimsoll::kernels {

using lapack::kIsComplex;
using lapack::Real;

namespace {

// The real work that LAPACK's documentation of gesdd and gesvd asks for where elements are complex.
std::int64_t real_work(std::int64_t m, std::int64_t n) {
  const std::int64_t less = std::min(m, n), more = std::max(m, n);
  return std::max(5 * less * less + 7 * less, 2 * more * less + 2 * less * less + less);
}

}  // namespace

template <typename T>
int SingularValues<T>::run(T* a, Real<T>* s, T* u, T* vt, T* work, int work_elements,
                           Real<T>* rwork, int* iwork) const {
  const int ld = std::max(rows_of_vt, 1);
  return divides ? lapack::gesdd(mode, m, n, a, s, u, vt, ld, work, work_elements, rwork, iwork)
                 : lapack::gesvd(mode, m, n, a, s, u, vt, ld, work, work_elements, rwork, iwork);
}

template <typename T>
Result<SingularValues<T>> SingularValues<T>::create(const LibraryCall& call, bool divides) {
  SingularValues made;
  made.divides = divides;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_counts(1, 5));
  PLIMSOLL_ASSIGN_OR_RETURN(made.mode, call.letter("mode", "ASN"));
  PLIMSOLL_ASSIGN_OR_RETURN(const typename MatrixSolver::Dims a, call.operand<T>(0, 2));
  PLIMSOLL_RETURN_IF_ERROR(made.take_sizes(call, a));
  if (made.is_empty()) return call.error("a matrix without elements");
  const int rank = std::min(made.m, made.n);
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(0, a));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<Real<T>>(1, made.dims({rank})));
  // Where no vectors are asked for, their arrays have either form.
  PLIMSOLL_ASSIGN_OR_RETURN(const typename MatrixSolver::Dims u, call.result<T>(2, 2));
  PLIMSOLL_ASSIGN_OR_RETURN(const typename MatrixSolver::Dims vt, call.result<T>(3, 2));
  made.columns_of_u =
      made.mode == 'N' ? static_cast<int>(u.back()) : (made.mode == 'A' ? made.m : rank);
  made.rows_of_vt =
      made.mode == 'N' ? static_cast<int>(vt[vt.size() - 2]) : (made.mode == 'A' ? made.n : rank);
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(2, made.dims({made.m, made.columns_of_u})));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(3, made.dims({made.rows_of_vt, made.n})));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<std::int32_t>(4, made.batch_dims));
  T best{}, none{};
  Real<T> real{};
  int number = 0;
  (void)made.run(&none, &real, &none, &none, &best, -1, &real, &number);
  made.lwork = work_size(best);
  made.a_at = made.scratch.template add<T>(made.elements());
  if (made.mode != 'N') {
    made.u_at = made.scratch.template add<T>(static_cast<std::int64_t>(made.m) * made.columns_of_u);
    made.vt_at = made.scratch.template add<T>(static_cast<std::int64_t>(made.rows_of_vt) * made.n);
  }
  made.work_at = made.scratch.template add<T>(made.lwork);
  if (kIsComplex<T>) made.rwork_at = made.scratch.template add<Real<T>>(real_work(made.m, made.n));
  made.iwork_at = made.scratch.template add<int>(8 * static_cast<std::int64_t>(rank));
  return made;
}

template <typename T>
void SingularValues<T>::solve(const BatchTask& task) const {
  const std::int64_t of_a = elements(), of_u = static_cast<std::int64_t>(m) * columns_of_u,
                     of_vt = static_cast<std::int64_t>(rows_of_vt) * n;
  T* const a = task.memory<T>(a_at);
  to_columns(task.operand<T>(0, of_a), m, n, a);
  std::fill_n(task.result<T>(0, of_a), of_a, T(0));
  T* const u = task.memory<T>(u_at);
  T* const vt = task.memory<T>(vt_at);
  set_info(task, 4,
           run(a, task.result<Real<T>>(1, std::min(m, n)), u, vt, task.memory<T>(work_at), lwork,
               task.memory<Real<T>>(rwork_at), task.memory<int>(iwork_at)));
  if (mode == 'N') {
    std::fill_n(task.result<T>(2, of_u), of_u, T(0));
    std::fill_n(task.result<T>(3, of_vt), of_vt, T(0));
    return;
  }
  to_rows(u, m, columns_of_u, task.result<T>(2, of_u));
  to_rows(vt, rows_of_vt, n, task.result<T>(3, of_vt));
}

template <typename T>
Result<Gesdd<T>> Gesdd<T>::create(const LibraryCall& call) {
  PLIMSOLL_ASSIGN_OR_RETURN(SingularValues<T> made, SingularValues<T>::create(call, true));
  return Gesdd{std::move(made)};
}
template <typename T>
Result<Gesvd<T>> Gesvd<T>::create(const LibraryCall& call) {
  PLIMSOLL_ASSIGN_OR_RETURN(SingularValues<T> made, SingularValues<T>::create(call, false));
  return Gesvd{std::move(made)};
}

template <typename T>
Result<Syevd<T>> Syevd<T>::create(const LibraryCall& call) {
  Syevd made;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_counts(1, 3));
  PLIMSOLL_ASSIGN_OR_RETURN(made.mode, call.letter("mode", "VN"));
  PLIMSOLL_ASSIGN_OR_RETURN(made.uplo, call.letter("uplo", "LU"));
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims a, call.operand<T>(0, 2));
  PLIMSOLL_RETURN_IF_ERROR(made.take_square(call, a));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(0, a));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<Real<T>>(1, made.dims({made.n})));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<std::int32_t>(2, made.batch_dims));
  if (made.is_empty()) return made;
  T best{};
  Real<T> best_real{};
  int best_int = 0;
  (void)lapack::syevd(made.mode, made.uplo, made.n, static_cast<T*>(nullptr), nullptr, &best, -1,
                      &best_real, -1, &best_int, -1);
  made.lwork = work_size(best);
  made.lrwork = kIsComplex<T> ? work_size(best_real) : 0;
  made.liwork = best_int;
  made.template take_columns<T>();
  made.work_at = made.scratch.template add<T>(made.lwork);
  made.rwork_at = made.scratch.template add<Real<T>>(made.lrwork);
  made.iwork_at = made.scratch.template add<int>(made.liwork);
  return made;
}

template <typename T>
void Syevd<T>::solve(const BatchTask& task) const {
  if (is_empty()) return set_info(task, 2, 0);
  T* const a = begin_columns<T>(task);
  set_info(
      task, 2,
      lapack::syevd(mode, uplo, n, a, task.result<Real<T>>(1, n), task.memory<T>(work_at), lwork,
                    task.memory<Real<T>>(rwork_at), lrwork, task.memory<int>(iwork_at), liwork));
  end_columns(task, a);
}

template <typename T>
Result<Geev<T>> Geev<T>::create(const LibraryCall& call) {
  Geev made;
  const std::size_t values = kIsComplex<T> ? 1 : 2;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_counts(1, values + 3));
  PLIMSOLL_ASSIGN_OR_RETURN(made.left, call.letter("compute_left", "VN"));
  PLIMSOLL_ASSIGN_OR_RETURN(made.right, call.letter("compute_right", "VN"));
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims a, call.operand<T>(0, 2));
  PLIMSOLL_RETURN_IF_ERROR(made.take_square(call, a));
  for (std::size_t i = 0; i < values; ++i) {
    PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(i, made.dims({made.n})));
  }
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<Complex>(values, a));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<Complex>(values + 1, a));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<std::int32_t>(values + 2, made.batch_dims));
  if (made.is_empty()) return made;
  T best{}, none{};
  Real<T> real{};  // the query of complex vectors writes it
  (void)lapack::geev(made.left, made.right, made.n, &none, &none, &none, &none, &none, &best, -1,
                     &real);
  made.lwork = work_size(best);
  made.a_at = made.scratch.template add<T>(made.elements());
  made.left_at = made.scratch.template add<T>(made.elements());
  made.right_at = made.scratch.template add<T>(made.elements());
  made.work_at = made.scratch.template add<T>(made.lwork);
  made.rwork_at = made.scratch.template add<Real<T>>(2 * static_cast<std::int64_t>(made.n));
  return made;
}

// A pair of conjugate eigenvalues of a real matrix shares two columns: the real and the imaginary
// parts of the vector of the first, whose imaginary part is positive.
template <typename T>
void Geev<T>::write_vectors(const T* vectors, const T* imaginary, Complex* to) const {
  const auto at = [&](int row, int column) {
    return vectors[static_cast<std::int64_t>(column) * n + row];
  };
  for (int j = 0; j < n; ++j) {
    if constexpr (kIsComplex<T>) {
      for (int i = 0; i < n; ++i) to[static_cast<std::int64_t>(i) * n + j] = at(i, j);
    } else {
      const bool is_pair = imaginary[j] != T(0) && j + 1 < n;
      for (int i = 0; i < n; ++i) {
        Complex* const row = to + static_cast<std::int64_t>(i) * n;
        row[j] = is_pair ? Complex(at(i, j), at(i, j + 1)) : Complex(at(i, j), T(0));
        if (is_pair) row[j + 1] = std::conj(row[j]);
      }
      if (is_pair) ++j;
    }
  }
}

template <typename T>
void Geev<T>::solve(const BatchTask& task) const {
  const std::size_t values = kIsComplex<T> ? 1 : 2;
  if (is_empty()) return set_info(task, values + 2, 0);
  T* const a = task.memory<T>(a_at);
  T* const vl = task.memory<T>(left_at);
  T* const vr = task.memory<T>(right_at);
  to_columns(task.operand<T>(0, elements()), n, n, a);
  T* const imaginary = kIsComplex<T> ? nullptr : task.result<T>(1, n);
  const int info = lapack::geev(left, right, n, a, task.result<T>(0, n), imaginary, vl, vr,
                                task.memory<T>(work_at), lwork, task.memory<Real<T>>(rwork_at));
  set_info(task, values + 2, info);
  const auto write = [&](char wanted, const T* vectors, std::size_t result) {
    Complex* const to = task.result<Complex>(result, elements());
    if (wanted == 'V' && info == 0) {
      write_vectors(vectors, imaginary, to);
    } else {
      std::fill_n(to, elements(), Complex(0));
    }
  };
  write(left, vl, values);
  write(right, vr, values + 1);
}

template <typename T>
Result<Gees<T>> Gees<T>::create(const LibraryCall& call) {
  Gees made;
  const std::size_t values = kIsComplex<T> ? 1 : 2;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_counts(1, values + 4));
  PLIMSOLL_ASSIGN_OR_RETURN(made.mode, call.letter("mode", "VN"));
  if (call.number("sort", 'N') != 'N') return call.error("sorted Schur forms are not supported");
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims a, call.operand<T>(0, 2));
  PLIMSOLL_RETURN_IF_ERROR(made.take_square(call, a));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(0, a));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(1, a));
  for (std::size_t i = 0; i < values; ++i) {
    PLIMSOLL_RETURN_IF_ERROR(call.expect_result<T>(2 + i, made.dims({made.n})));
  }
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<std::int32_t>(2 + values, made.batch_dims));
  PLIMSOLL_RETURN_IF_ERROR(call.expect_result<std::int32_t>(3 + values, made.batch_dims));
  if (made.is_empty()) return made;
  T best{}, none{};
  Real<T> real{};
  int selected = 0;
  (void)lapack::gees(made.mode, made.n, &none, &selected, &none, &none, &none, &best, -1, &real);
  made.lwork = work_size(best);
  made.a_at = made.scratch.template add<T>(made.elements());
  made.vectors_at = made.scratch.template add<T>(made.elements());
  made.work_at = made.scratch.template add<T>(made.lwork);
  made.rwork_at = made.scratch.template add<Real<T>>(made.n);
  return made;
}

template <typename T>
void Gees<T>::solve(const BatchTask& task) const {
  const std::size_t values = kIsComplex<T> ? 1 : 2;
  int* const selected = task.result<int>(2 + values, 1);
  *selected = 0;
  if (is_empty()) return set_info(task, 3 + values, 0);
  T* const a = task.memory<T>(a_at);
  T* const vectors = task.memory<T>(vectors_at);
  to_columns(task.operand<T>(0, elements()), n, n, a);
  const int info = lapack::gees(mode, n, a, selected, task.result<T>(2, n),
                                kIsComplex<T> ? nullptr : task.result<T>(3, n), vectors,
                                task.memory<T>(work_at), lwork, task.memory<Real<T>>(rwork_at));
  set_info(task, 3 + values, info);
  to_rows(a, n, n, task.result<T>(0, elements()));
  T* const to = task.result<T>(1, elements());
  if (mode == 'V') {
    to_rows(vectors, n, n, to);
  } else {
    std::fill_n(to, elements(), T(0));
  }
}

#define PLIMSOLL_INSTANTIATE(p, T, R) \
  template struct SingularValues<T>;  \
  template struct Gesdd<T>;           \
  template struct Gesvd<T>;           \
  template struct Syevd<T>;           \
  template struct Geev<T>;            \
  template struct Gees<T>;
PLIMSOLL_LAPACK_TYPES(PLIMSOLL_INSTANTIATE)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll::kernels
