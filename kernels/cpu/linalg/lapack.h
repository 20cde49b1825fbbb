// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <cstddef>

// The functions of LAPACK that kernels here call, as gfortran compiles them, one overload for each
// of the four element types under the name without its letter. Matrices are column-major. What
// every argument means stands in the LAPACK Users' Guide (Anderson et al., SIAM, 1999); `lwork` =
// -1 asks for the best size of `work`, which comes in work[0].
//
// The library's xerbla ends the process: callers check every size and word before.

#define PLIMSOLL_LAPACK_REAL_TYPES(X) X(s, float, float) X(d, double, double)
#define PLIMSOLL_LAPACK_COMPLEX_TYPES(X) \
  X(c, std::complex<float>, float)       \
  X(z, std::complex<double>, double)
#define PLIMSOLL_LAPACK_TYPES(X) PLIMSOLL_LAPACK_REAL_TYPES(X) PLIMSOLL_LAPACK_COMPLEX_TYPES(X)

extern "C" {
// clang-format off
#define PLIMSOLL_DECLARE(p, T, R)                                                                \
  void p##getrf_(const int*, const int*, T*, const int*, int*, int*);                            \
  void p##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);              \
  void p##potrf_(const char*, const int*, T*, const int*, int*, std::size_t);                    \
  void p##gehrd_(const int*, const int*, const int*, T*, const int*, T*, T*, const int*, int*);  \
  void p##gtsv_(const int*, const int*, T*, T*, T*, T*, const int*, int*);
PLIMSOLL_LAPACK_TYPES(PLIMSOLL_DECLARE)
#undef PLIMSOLL_DECLARE

#define PLIMSOLL_DECLARE(p, T, R)                                                                \
  void p##geqp3_(const int*, const int*, T*, const int*, int*, T*, T*, const int*, int*);        \
  void p##orgqr_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*,   \
                 int*);                                                                          \
  void p##ormqr_(const char*, const char*, const int*, const int*, const int*, const T*,         \
                 const int*, const T*, T*, const int*, T*, const int*, int*, std::size_t,        \
                 std::size_t);                                                                   \
  void p##sytrd_(const char*, const int*, T*, const int*, R*, R*, T*, T*, const int*, int*,      \
                 std::size_t);                                                                   \
  void p##syevd_(const char*, const char*, const int*, T*, const int*, R*, T*, const int*, int*, \
                 const int*, int*, std::size_t, std::size_t);                                    \
  void p##gesdd_(const char*, const int*, const int*, T*, const int*, R*, T*, const int*, T*,    \
                 const int*, T*, const int*, int*, int*, std::size_t);                           \
  void p##gesvd_(const char*, const char*, const int*, const int*, T*, const int*, R*, T*,       \
                 const int*, T*, const int*, T*, const int*, int*, std::size_t, std::size_t);    \
  void p##geev_(const char*, const char*, const int*, T*, const int*, T*, T*, T*, const int*,    \
                T*, const int*, T*, const int*, int*, std::size_t, std::size_t);                 \
  void p##gees_(const char*, const char*, int (*)(const T*, const T*), const int*, T*,           \
                const int*, int*, T*, T*, T*, const int*, T*, const int*, int*, int*,            \
                std::size_t, std::size_t);                                                       \
  void p##lagtf_(const int*, T*, const T*, T*, T*, const T*, T*, int*, int*);                    \
  void p##lagts_(const int*, const int*, const T*, const T*, const T*, const T*, const int*, T*, \
                 T*, int*);
PLIMSOLL_LAPACK_REAL_TYPES(PLIMSOLL_DECLARE)
#undef PLIMSOLL_DECLARE

#define PLIMSOLL_DECLARE(p, T, R)                                                                \
  void p##geqp3_(const int*, const int*, T*, const int*, int*, T*, T*, const int*, R*, int*);    \
  void p##ungqr_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*,   \
                 int*);                                                                          \
  void p##unmqr_(const char*, const char*, const int*, const int*, const int*, const T*,         \
                 const int*, const T*, T*, const int*, T*, const int*, int*, std::size_t,        \
                 std::size_t);                                                                   \
  void p##hetrd_(const char*, const int*, T*, const int*, R*, R*, T*, T*, const int*, int*,      \
                 std::size_t);                                                                   \
  void p##heevd_(const char*, const char*, const int*, T*, const int*, R*, T*, const int*, R*,   \
                 const int*, int*, const int*, int*, std::size_t, std::size_t);                  \
  void p##gesdd_(const char*, const int*, const int*, T*, const int*, R*, T*, const int*, T*,    \
                 const int*, T*, const int*, R*, int*, int*, std::size_t);                       \
  void p##gesvd_(const char*, const char*, const int*, const int*, T*, const int*, R*, T*,       \
                 const int*, T*, const int*, T*, const int*, R*, int*, std::size_t,              \
                 std::size_t);                                                                   \
  void p##geev_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, T*,    \
                const int*, T*, const int*, R*, int*, std::size_t, std::size_t);                 \
  void p##gees_(const char*, const char*, int (*)(const T*), const int*, T*, const int*, int*,   \
                T*, T*, const int*, T*, const int*, R*, int*, int*, std::size_t, std::size_t);
PLIMSOLL_LAPACK_COMPLEX_TYPES(PLIMSOLL_DECLARE)
#undef PLIMSOLL_DECLARE
// clang-format on
}

namespace plimsoll::kernels::lapack {

template <typename T>
struct RealOf {
  using type = T;
};
template <typename T>
struct RealOf<std::complex<T>> {
  using type = T;
};
// The type of singular values, moduli and eigenvalues of Hermitian matrices.
template <typename T>
using Real = typename RealOf<T>::type;
template <typename T>
inline constexpr bool kIsComplex = !std::is_same_v<T, Real<T>>;

// What a real function takes and its complex form does not, or the other way round, is null there.
#define PLIMSOLL_COMMON(p, T, R)                                                 \
  inline int getrf(int m, int n, T* a, int* ipiv) {                              \
    int info = 0;                                                                \
    p##getrf_(&m, &n, a, &m, ipiv, &info);                                       \
    return info;                                                                 \
  }                                                                              \
  inline int geqrf(int m, int n, T* a, T* tau, T* work, int lwork) {             \
    int info = 0;                                                                \
    p##geqrf_(&m, &n, a, &m, tau, work, &lwork, &info);                          \
    return info;                                                                 \
  }                                                                              \
  inline int potrf(char uplo, int n, T* a) {                                     \
    int info = 0;                                                                \
    p##potrf_(&uplo, &n, a, &n, &info, 1);                                       \
    return info;                                                                 \
  }                                                                              \
  inline int gehrd(int n, int low, int high, T* a, T* tau, T* work, int lwork) { \
    int info = 0;                                                                \
    p##gehrd_(&n, &low, &high, a, &n, tau, work, &lwork, &info);                 \
    return info;                                                                 \
  }                                                                              \
  inline int gtsv(int n, int columns, T* lower, T* diagonal, T* upper, T* b) {   \
    int info = 0;                                                                \
    p##gtsv_(&n, &columns, lower, diagonal, upper, b, &n, &info);                \
    return info;                                                                 \
  }
PLIMSOLL_LAPACK_TYPES(PLIMSOLL_COMMON)
#undef PLIMSOLL_COMMON

#define PLIMSOLL_BY_NAME(p, T, R, orgqr_name, ormqr_name, sytrd_name)                             \
  inline int orgqr(int m, int n, int k, T* a, const T* tau, T* work, int lwork) {                 \
    int info = 0;                                                                                 \
    orgqr_name(&m, &n, &k, a, &m, tau, work, &lwork, &info);                                      \
    return info;                                                                                  \
  }                                                                                               \
  inline int ormqr(char side, char trans, int m, int n, int k, const T* a, int lda, const T* tau, \
                   T* c, T* work, int lwork) {                                                    \
    int info = 0;                                                                                 \
    ormqr_name(&side, &trans, &m, &n, &k, a, &lda, tau, c, &m, work, &lwork, &info, 1, 1);        \
    return info;                                                                                  \
  }                                                                                               \
  inline int sytrd(char uplo, int n, T* a, R* diagonal, R* off, T* tau, T* work, int lwork) {     \
    int info = 0;                                                                                 \
    sytrd_name(&uplo, &n, a, &n, diagonal, off, tau, work, &lwork, &info, 1);                     \
    return info;                                                                                  \
  }
#define PLIMSOLL_REAL_NAMES(p, T, R) PLIMSOLL_BY_NAME(p, T, R, p##orgqr_, p##ormqr_, p##sytrd_)
PLIMSOLL_LAPACK_REAL_TYPES(PLIMSOLL_REAL_NAMES)
#undef PLIMSOLL_REAL_NAMES
#define PLIMSOLL_COMPLEX_NAMES(p, T, R) PLIMSOLL_BY_NAME(p, T, R, p##ungqr_, p##unmqr_, p##hetrd_)
PLIMSOLL_LAPACK_COMPLEX_TYPES(PLIMSOLL_COMPLEX_NAMES)
#undef PLIMSOLL_COMPLEX_NAMES
#undef PLIMSOLL_BY_NAME

#define PLIMSOLL_REAL(p, T, R)                                                                     \
  inline int geqp3(int m, int n, T* a, int* jpvt, T* tau, T* work, int lwork, R*) {                \
    int info = 0;                                                                                  \
    p##geqp3_(&m, &n, a, &m, jpvt, tau, work, &lwork, &info);                                      \
    return info;                                                                                   \
  }                                                                                                \
  inline int syevd(char mode, char uplo, int n, T* a, R* values, T* work, int lwork, R*, int,      \
                   int* iwork, int liwork) {                                                       \
    int info = 0;                                                                                  \
    p##syevd_(&mode, &uplo, &n, a, &n, values, work, &lwork, iwork, &liwork, &info, 1, 1);         \
    return info;                                                                                   \
  }                                                                                                \
  inline int gesdd(char mode, int m, int n, T* a, R* s, T* u, T* vt, int ldvt, T* work, int lwork, \
                   R*, int* iwork) {                                                               \
    int info = 0;                                                                                  \
    p##gesdd_(&mode, &m, &n, a, &m, s, u, &m, vt, &ldvt, work, &lwork, iwork, &info, 1);           \
    return info;                                                                                   \
  }                                                                                                \
  inline int gesvd(char mode, int m, int n, T* a, R* s, T* u, T* vt, int ldvt, T* work, int lwork, \
                   R*, int*) {                                                                     \
    int info = 0;                                                                                  \
    p##gesvd_(&mode, &mode, &m, &n, a, &m, s, u, &m, vt, &ldvt, work, &lwork, &info, 1, 1);        \
    return info;                                                                                   \
  }                                                                                                \
  inline int geev(char left, char right, int n, T* a, T* wr, T* wi, T* vl, T* vr, T* work,         \
                  int lwork, R*) {                                                                 \
    int info = 0;                                                                                  \
    p##geev_(&left, &right, &n, a, &n, wr, wi, vl, &n, vr, &n, work, &lwork, &info, 1, 1);         \
    return info;                                                                                   \
  }                                                                                                \
  inline int gees(char mode, int n, T* a, int* selected, T* wr, T* wi, T* vs, T* work, int lwork,  \
                  R*) {                                                                            \
    const char unsorted = 'N';                                                                     \
    int info = 0;                                                                                  \
    p##gees_(&mode, &unsorted, nullptr, &n, a, &n, selected, wr, wi, vs, &n, work, &lwork,         \
             nullptr, &info, 1, 1);                                                                \
    return info;                                                                                   \
  }
PLIMSOLL_LAPACK_REAL_TYPES(PLIMSOLL_REAL)
#undef PLIMSOLL_REAL

// The factors of a tridiagonal matrix, in its place: `diagonal` of n elements, `upper` and `lower`
// of n - 1, `second` of n - 2, `in` of n.
#define PLIMSOLL_TRIDIAGONAL(p, T, R)                                                          \
  inline void lagtf(int n, T* diagonal, T* upper, T* lower, T* second, int* in) {              \
    const T zero(0);                                                                           \
    int info = 0;                                                                              \
    p##lagtf_(&n, diagonal, &zero, upper, lower, &zero, second, in, &info);                    \
  }                                                                                            \
  inline void lagts(int n, const T* diagonal, const T* upper, const T* lower, const T* second, \
                    const int* in, T* y) {                                                     \
    const int perturbing = -1;                                                                 \
    T tolerance(0);                                                                            \
    int info = 0;                                                                              \
    p##lagts_(&perturbing, &n, diagonal, upper, lower, second, in, y, &tolerance, &info);      \
  }
PLIMSOLL_LAPACK_REAL_TYPES(PLIMSOLL_TRIDIAGONAL)
#undef PLIMSOLL_TRIDIAGONAL

#define PLIMSOLL_COMPLEX(p, T, R)                                                                  \
  inline int geqp3(int m, int n, T* a, int* jpvt, T* tau, T* work, int lwork, R* rwork) {          \
    int info = 0;                                                                                  \
    p##geqp3_(&m, &n, a, &m, jpvt, tau, work, &lwork, rwork, &info);                               \
    return info;                                                                                   \
  }                                                                                                \
  inline int syevd(char mode, char uplo, int n, T* a, R* values, T* work, int lwork, R* rwork,     \
                   int lrwork, int* iwork, int liwork) {                                           \
    int info = 0;                                                                                  \
    p##heevd_(&mode, &uplo, &n, a, &n, values, work, &lwork, rwork, &lrwork, iwork, &liwork,       \
              &info, 1, 1);                                                                        \
    return info;                                                                                   \
  }                                                                                                \
  inline int gesdd(char mode, int m, int n, T* a, R* s, T* u, T* vt, int ldvt, T* work, int lwork, \
                   R* rwork, int* iwork) {                                                         \
    int info = 0;                                                                                  \
    p##gesdd_(&mode, &m, &n, a, &m, s, u, &m, vt, &ldvt, work, &lwork, rwork, iwork, &info, 1);    \
    return info;                                                                                   \
  }                                                                                                \
  inline int gesvd(char mode, int m, int n, T* a, R* s, T* u, T* vt, int ldvt, T* work, int lwork, \
                   R* rwork, int*) {                                                               \
    int info = 0;                                                                                  \
    p##gesvd_(&mode, &mode, &m, &n, a, &m, s, u, &m, vt, &ldvt, work, &lwork, rwork, &info, 1, 1); \
    return info;                                                                                   \
  }                                                                                                \
  inline int geev(char left, char right, int n, T* a, T* w, T*, T* vl, T* vr, T* work, int lwork,  \
                  R* rwork) {                                                                      \
    int info = 0;                                                                                  \
    p##geev_(&left, &right, &n, a, &n, w, vl, &n, vr, &n, work, &lwork, rwork, &info, 1, 1);       \
    return info;                                                                                   \
  }                                                                                                \
  inline int gees(char mode, int n, T* a, int* selected, T* w, T*, T* vs, T* work, int lwork,      \
                  R* rwork) {                                                                      \
    const char unsorted = 'N';                                                                     \
    int info = 0;                                                                                  \
    p##gees_(&mode, &unsorted, nullptr, &n, a, &n, selected, w, vs, &n, work, &lwork, rwork,       \
             nullptr, &info, 1, 1);                                                                \
    return info;                                                                                   \
  }
PLIMSOLL_LAPACK_COMPLEX_TYPES(PLIMSOLL_COMPLEX)
#undef PLIMSOLL_COMPLEX

}  // namespace plimsoll::kernels::lapack
