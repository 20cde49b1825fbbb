// SPDX-License-Identifier: Apache-2.0
// The functions of BLAS that take most of LAPACK's time, by the names and with the arguments of the
// reference (Dongarra et al., A set of level 3 basic linear algebra subprograms, 1990). The library
// finds them here before it looks at its own; nothing outside of this library sees them.
#include <complex>
#include <cstdint>

#include "kernels/cpu/blas/product.h"
#include "kernels/cpu/blas/triangle.h"
#include "kernels/cpu/blas/vector.h"

namespace plimsoll::kernels::blas {
namespace {

// Letters of options come in both cases.
bool is(const char* option, char letter) { return (*option | 0x20) == letter; }

template <typename T>
MatrixView<T> by_columns(T* data, std::int64_t rows, std::int64_t columns, const int* leading) {
  return {data, rows, columns, 1, *leading};
}

// op(x) of an array of which op(x) is rows x columns: x, its transpose or that's conjugate.
template <typename T>
MatrixView<const T> operand(const char* option, const T* data, std::int64_t rows,
                            std::int64_t columns, const int* leading) {
  if (is(option, 'n')) return by_columns(data, rows, columns, leading);
  const MatrixView<const T> transposed = by_columns(data, columns, rows, leading).transposed();
  return is(option, 'c') ? transposed.conjugated() : transposed;
}

// Numbers of a vector lie backwards where the step is negative.
template <typename T>
VectorView<T> vector(T* data, std::int64_t count, const int* step) {
  return {*step < 0 ? data + (1 - count) * *step : data, count, *step};
}

template <typename T>
void gemm(const char* op_a, const char* op_b, const int* m, const int* n, const int* k,
          const T* alpha, const T* a, const int* lda, const T* b, const int* ldb, const T* beta,
          T* c, const int* ldc) {
  const MatrixView<T> result = by_columns(c, *m, *n, ldc);
  scale(*beta, result);
  multiply_add(*alpha, operand(op_a, a, *m, *k, lda), operand(op_b, b, *k, *n, ldb), result);
}

// op(a) x = alpha b or x op(a) = alpha b, or b = alpha op(a) b or alpha b op(a).
template <typename T, typename Run>
void triangular(const char* side, const char* uplo, const char* op, const char* diag, const int* m,
                const int* n, const T* alpha, const T* a, const int* lda, T* b, const int* ldb,
                Run run) {
  const MatrixView<T> numbers = by_columns(b, *m, *n, ldb);
  scale(*alpha, numbers);
  const bool is_left = is(side, 'l');
  const std::int64_t size = is_left ? *m : *n;
  Half half{is(uplo, 'l'), is(diag, 'u')};
  const MatrixView<const T> matrix = operand(op, a, size, size, lda);
  if (!is(op, 'n')) half = half.transposed();
  if (is_left) return run(half, matrix, numbers);
  run(half.transposed(), matrix.transposed(), numbers.transposed());
}

template <typename T>
void trsm(const char* side, const char* uplo, const char* op, const char* diag, const int* m,
          const int* n, const T* alpha, const T* a, const int* lda, T* b, const int* ldb) {
  triangular(side, uplo, op, diag, m, n, alpha, a, lda, b, ldb,
             [](Half half, const MatrixView<const T>& matrix, const MatrixView<T>& numbers) {
               solve<T>(half, matrix, numbers);
             });
}

template <typename T>
void trmm(const char* side, const char* uplo, const char* op, const char* diag, const int* m,
          const int* n, const T* alpha, const T* a, const int* lda, T* b, const int* ldb) {
  triangular(side, uplo, op, diag, m, n, alpha, a, lda, b, ldb,
             [](Half half, const MatrixView<const T>& matrix, const MatrixView<T>& numbers) {
               multiply<T>(half, matrix, numbers);
             });
}

// c = alpha op(a) op(a)^T + beta c, with the conjugate transpose where it is Hermitian.
template <typename T>
void rank_k(bool is_hermitian, const char* uplo, const char* op, const int* n, const int* k,
            T alpha, const T* a, const int* lda, T beta, T* c, const int* ldc) {
  const Half half{is(uplo, 'l'), false};
  const MatrixView<T> result = by_columns(c, *n, *n, ldc);
  const MatrixView<const T> left = operand(op, a, *n, *k, lda);
  scale_half(half, beta, result);
  update<T>(half, alpha, left, is_hermitian ? left.transposed().conjugated() : left.transposed(),
            result);
}

// c = alpha op(a) op(b)^T + (its transpose) + beta c.
template <typename T>
void rank_2k(bool is_hermitian, const char* uplo, const char* op, const int* n, const int* k,
             T alpha, const T* a, const int* lda, const T* b, const int* ldb, T beta, T* c,
             const int* ldc) {
  const Half half{is(uplo, 'l'), false};
  const MatrixView<T> result = by_columns(c, *n, *n, ldc);
  const MatrixView<const T> left = operand(op, a, *n, *k, lda);
  const MatrixView<const T> right = operand(op, b, *n, *k, ldb);
  const auto turned = [&](const MatrixView<const T>& x) {
    return is_hermitian ? x.transposed().conjugated() : x.transposed();
  };
  scale_half(half, beta, result);
  update<T>(half, alpha, left, turned(right), result);
  update<T>(half, is_hermitian ? conjugate(alpha) : alpha, right, turned(left), result);
}

// Of a Hermitian matrix, whatever rounding left there.
template <typename T>
void make_diagonal_real(T* c, const int* n, const int* ldc) {
  for (std::int64_t i = 0; i < *n; ++i) {
    T& x = by_columns(c, *n, *n, ldc).at(i, i);
    x = T(x.real());
  }
}

template <typename T>
void gemv(const char* op, const int* m, const int* n, const T* alpha, const T* a, const int* lda,
          const T* x, const int* step_x, const T* beta, T* y, const int* step_y) {
  if (*m == 0 || *n == 0) return;
  const bool is_transposed = !is(op, 'n');
  const VectorView<T> sums = vector(y, is_transposed ? *n : *m, step_y);
  scale(*beta, sums.column());
  if (*alpha == T(0)) return;
  const MatrixView<const T> matrix = by_columns(a, *m, *n, lda);
  multiply_add(*alpha, is(op, 'c') ? matrix.conjugated() : matrix, is_transposed,
               vector(x, is_transposed ? *m : *n, step_x), sums);
}

template <typename T>
void ger(const int* m, const int* n, const T* alpha, const T* x, const int* step_x, const T* y,
         const int* step_y, T* a, const int* lda) {
  if (*alpha == T(0)) return;
  add_outer(*alpha, vector(x, *m, step_x), vector(y, *n, step_y), by_columns(a, *m, *n, lda));
}

template <typename T>
void symv(const char* uplo, const int* n, const T* alpha, const T* a, const int* lda, const T* x,
          const int* step_x, const T* beta, T* y, const int* step_y) {
  const VectorView<T> sums = vector(y, *n, step_y);
  scale(*beta, sums.column());
  if (*alpha == T(0)) return;
  multiply_symmetric(Half{is(uplo, 'l'), false}, *alpha, by_columns(a, *n, *n, lda),
                     vector(x, *n, step_x), sums);
}

}  // namespace
}  // namespace plimsoll::kernels::blas

// The lengths of the letters, which Fortran passes last, are not looked at.
extern "C" {
namespace blas = plimsoll::kernels::blas;

#define PLIMSOLL_BLAS(p, T)                                                                    \
  void p##gemm_(const char* op_a, const char* op_b, const int* m, const int* n, const int* k,  \
                const T* alpha, const T* a, const int* lda, const T* b, const int* ldb,        \
                const T* beta, T* c, const int* ldc) {                                         \
    blas::gemm(op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                      \
  }                                                                                            \
  void p##trsm_(const char* side, const char* uplo, const char* op, const char* diag,          \
                const int* m, const int* n, const T* alpha, const T* a, const int* lda, T* b,  \
                const int* ldb) {                                                              \
    blas::trsm(side, uplo, op, diag, m, n, alpha, a, lda, b, ldb);                             \
  }                                                                                            \
  void p##trmm_(const char* side, const char* uplo, const char* op, const char* diag,          \
                const int* m, const int* n, const T* alpha, const T* a, const int* lda, T* b,  \
                const int* ldb) {                                                              \
    blas::trmm(side, uplo, op, diag, m, n, alpha, a, lda, b, ldb);                             \
  }                                                                                            \
  void p##syrk_(const char* uplo, const char* op, const int* n, const int* k, const T* alpha,  \
                const T* a, const int* lda, const T* beta, T* c, const int* ldc) {             \
    blas::rank_k(false, uplo, op, n, k, *alpha, a, lda, *beta, c, ldc);                        \
  }                                                                                            \
  void p##syr2k_(const char* uplo, const char* op, const int* n, const int* k, const T* alpha, \
                 const T* a, const int* lda, const T* b, const int* ldb, const T* beta, T* c,  \
                 const int* ldc) {                                                             \
    blas::rank_2k(false, uplo, op, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc);               \
  }                                                                                            \
  void p##gemv_(const char* op, const int* m, const int* n, const T* alpha, const T* a,        \
                const int* lda, const T* x, const int* step_x, const T* beta, T* y,            \
                const int* step_y) {                                                           \
    blas::gemv(op, m, n, alpha, a, lda, x, step_x, beta, y, step_y);                           \
  }
PLIMSOLL_BLAS(s, float)
PLIMSOLL_BLAS(d, double)
PLIMSOLL_BLAS(c, std::complex<float>)
PLIMSOLL_BLAS(z, std::complex<double>)
#undef PLIMSOLL_BLAS

#define PLIMSOLL_BLAS(p, T)                                                                 \
  void p##ger_(const int* m, const int* n, const T* alpha, const T* x, const int* step_x,   \
               const T* y, const int* step_y, T* a, const int* lda) {                       \
    blas::ger(m, n, alpha, x, step_x, y, step_y, a, lda);                                   \
  }                                                                                         \
  void p##symv_(const char* uplo, const int* n, const T* alpha, const T* a, const int* lda, \
                const T* x, const int* step_x, const T* beta, T* y, const int* step_y) {    \
    blas::symv(uplo, n, alpha, a, lda, x, step_x, beta, y, step_y);                         \
  }
PLIMSOLL_BLAS(s, float)
PLIMSOLL_BLAS(d, double)
#undef PLIMSOLL_BLAS

#define PLIMSOLL_BLAS(p, T, R)                                                                 \
  void p##herk_(const char* uplo, const char* op, const int* n, const int* k, const R* alpha,  \
                const T* a, const int* lda, const R* beta, T* c, const int* ldc) {             \
    blas::rank_k<T>(true, uplo, op, n, k, *alpha, a, lda, *beta, c, ldc);                      \
    blas::make_diagonal_real(c, n, ldc);                                                       \
  }                                                                                            \
  void p##her2k_(const char* uplo, const char* op, const int* n, const int* k, const T* alpha, \
                 const T* a, const int* lda, const T* b, const int* ldb, const R* beta, T* c,  \
                 const int* ldc) {                                                             \
    blas::rank_2k<T>(true, uplo, op, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc);             \
    blas::make_diagonal_real(c, n, ldc);                                                       \
  }                                                                                            \
  void p##geru_(const int* m, const int* n, const T* alpha, const T* x, const int* step_x,     \
                const T* y, const int* step_y, T* a, const int* lda) {                         \
    blas::ger(m, n, alpha, x, step_x, y, step_y, a, lda);                                      \
  }                                                                                            \
  void p##hemv_(const char* uplo, const int* n, const T* alpha, const T* a, const int* lda,    \
                const T* x, const int* step_x, const T* beta, T* y, const int* step_y) {       \
    blas::symv(uplo, n, alpha, a, lda, x, step_x, beta, y, step_y);                            \
  }
PLIMSOLL_BLAS(c, std::complex<float>, float)
PLIMSOLL_BLAS(z, std::complex<double>, double)
#undef PLIMSOLL_BLAS
}
