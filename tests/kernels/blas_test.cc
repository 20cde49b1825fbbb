// SPDX-License-Identifier: Apache-2.0
// The functions of BLAS that are ours, by the names that LAPACK calls, against their definitions:
// all options, sizes on both sides of every block, matrices that are parts of larger ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <random>
#include <string>
#include <vector>

extern "C" {
// clang-format off
#define PLIMSOLL_DECLARE(p, T)                                                                      \
  void p##gemm_(const char*, const char*, const int*, const int*, const int*, const T*, const T*,   \
                const int*, const T*, const int*, const T*, T*, const int*);                        \
  void p##trsm_(const char*, const char*, const char*, const char*, const int*, const int*,         \
                const T*, const T*, const int*, T*, const int*);                                    \
  void p##trmm_(const char*, const char*, const char*, const char*, const int*, const int*,         \
                const T*, const T*, const int*, T*, const int*);                                    \
  void p##syrk_(const char*, const char*, const int*, const int*, const T*, const T*, const int*,   \
                const T*, T*, const int*);                                                          \
  void p##syr2k_(const char*, const char*, const int*, const int*, const T*, const T*, const int*,  \
                 const T*, const int*, const T*, T*, const int*);                                   \
  void p##gemv_(const char*, const int*, const int*, const T*, const T*, const int*, const T*,      \
                const int*, const T*, T*, const int*);
PLIMSOLL_DECLARE(s, float)
PLIMSOLL_DECLARE(d, double)
PLIMSOLL_DECLARE(c, std::complex<float>)
PLIMSOLL_DECLARE(z, std::complex<double>)
#undef PLIMSOLL_DECLARE
void dger_(const int*, const int*, const double*, const double*, const int*, const double*,
           const int*, double*, const int*);
void zgerc_(const int*, const int*, const std::complex<double>*, const std::complex<double>*,
            const int*, const std::complex<double>*, const int*, std::complex<double>*, const int*);
void zgeru_(const int*, const int*, const std::complex<double>*, const std::complex<double>*,
            const int*, const std::complex<double>*, const int*, std::complex<double>*, const int*);
void dsymv_(const char*, const int*, const double*, const double*, const int*, const double*,
            const int*, const double*, double*, const int*);
void zhemv_(const char*, const int*, const std::complex<double>*, const std::complex<double>*,
            const int*, const std::complex<double>*, const int*, const std::complex<double>*,
            std::complex<double>*, const int*);
void zherk_(const char*, const char*, const int*, const int*, const double*,
            const std::complex<double>*, const int*, const double*, std::complex<double>*,
            const int*);
void zher2k_(const char*, const char*, const int*, const int*, const std::complex<double>*,
             const std::complex<double>*, const int*, const std::complex<double>*, const int*,
             const double*, std::complex<double>*, const int*);
// clang-format on
}

namespace plimsoll::kernels {
namespace {

using Complex = std::complex<double>;

template <typename T>
constexpr bool kHasParts = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, Complex>;

template <typename T>
struct Functions;
#define PLIMSOLL_FUNCTIONS(p, T)             \
  template <>                                \
  struct Functions<T> {                      \
    static constexpr auto gemm = p##gemm_;   \
    static constexpr auto trsm = p##trsm_;   \
    static constexpr auto trmm = p##trmm_;   \
    static constexpr auto syrk = p##syrk_;   \
    static constexpr auto syr2k = p##syr2k_; \
    static constexpr auto gemv = p##gemv_;   \
  };
PLIMSOLL_FUNCTIONS(s, float)
PLIMSOLL_FUNCTIONS(d, double)
PLIMSOLL_FUNCTIONS(c, std::complex<float>)
PLIMSOLL_FUNCTIONS(z, Complex)
#undef PLIMSOLL_FUNCTIONS

// By columns, in an array with some more rows, whose numbers must stay.
template <typename T>
struct Matrix {
  int rows = 0, columns = 0, leading = 1;
  std::vector<T> numbers;

  Matrix(int of_rows, int of_columns, unsigned seed)
      : rows(of_rows), columns(of_columns), leading(of_rows + 3) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> distribution(-1, 1);
    for (int i = 0; i < leading * columns; ++i) {
      if constexpr (kHasParts<T>) {
        const double re = distribution(random);
        numbers.push_back(T(Complex(re, distribution(random))));
      } else {
        numbers.push_back(static_cast<T>(distribution(random)));
      }
    }
  }
  T* data() { return numbers.data(); }
  const T* data() const { return numbers.data(); }
  T& at(int i, int j) { return numbers[static_cast<std::size_t>(j * leading + i)]; }
  T at(int i, int j) const { return numbers[static_cast<std::size_t>(j * leading + i)]; }
};

template <typename T>
Complex wide(T x) {
  return Complex(x);
}

// Element (i, j) of op(m).
template <typename T>
Complex read(const Matrix<T>& m, char op, int i, int j) {
  if (op == 'N') return wide(m.at(i, j));
  return op == 'C' ? std::conj(wide(m.at(j, i))) : wide(m.at(j, i));
}

// The same of a triangle, whose other half is zero.
template <typename T>
Complex read_half(const Matrix<T>& m, char uplo, char op, char diag, int i, int j) {
  const int row = op == 'N' ? i : j, column = op == 'N' ? j : i;
  if (row == column && diag == 'U') return 1;
  if (uplo == 'L' ? row < column : row > column) return 0;
  return read(m, op, i, j);
}

template <typename T>
double tolerance(int k) {
  const bool is_double = std::is_same_v<T, double> || std::is_same_v<T, Complex>;
  return (is_double ? 1e-14 : 1e-5) * (k + 4);
}

template <typename T>
T some(double x) {
  if constexpr (kHasParts<T>) return T(Complex(x, 0.5 * x));
  return static_cast<T>(x);
}

// `expected(i, j)` of what counts, and all else as it was.
template <typename T, typename Expected, typename Counts>
void expect_matrix(const Matrix<T>& made, const Matrix<T>& before, int k, const std::string& what,
                   Counts counts, Expected expected) {
  for (int j = 0; j < made.columns; ++j) {
    for (int i = 0; i < made.leading; ++i) {
      if (i >= made.rows || !counts(i, j)) {
        ASSERT_EQ(made.at(i, j), before.at(i, j)) << what << " at " << i << ", " << j;
      } else {
        ASSERT_LT(std::abs(wide(made.at(i, j)) - expected(i, j)), tolerance<T>(k))
            << what << " at " << i << ", " << j;
      }
    }
  }
}

constexpr auto kAll = [](int, int) { return true; };

template <typename T>
class Blas : public testing::Test {};
using Types = testing::Types<float, double, std::complex<float>, Complex>;
TYPED_TEST_SUITE(Blas, Types);

TYPED_TEST(Blas, MultipliesMatrices) {
  using T = TypeParam;
  struct Sizes {
    int m, n, k;
  };
  const Sizes sizes[] = {{1, 1, 1},     {3, 2, 5},   {16, 6, 8},  {17, 7, 9},
                         {33, 1, 40},   {1, 33, 40}, {40, 33, 1}, {70, 50, 130},
                         {140, 100, 3}, {0, 3, 2},   {3, 2, 0}};
  for (const Sizes& size : sizes) {
    for (const char op_a : {'N', 'T', 'C'}) {
      for (const char op_b : {'N', 'T', 'C'}) {
        for (const double factor : {0.0, 1.0, -0.7}) {
          const Matrix<T> a(op_a == 'N' ? size.m : size.k, op_a == 'N' ? size.k : size.m, 1);
          const Matrix<T> b(op_b == 'N' ? size.k : size.n, op_b == 'N' ? size.n : size.k, 2);
          Matrix<T> c(size.m, size.n, 3);
          const T alpha = some<T>(factor), beta = some<T>(factor == 0 ? 0.3 : 1 - factor);
          // Beta is zero there.
          if (factor == 1 && size.m > 0) c.at(0, 0) = std::numeric_limits<float>::quiet_NaN();
          const Matrix<T> before = c;
          Functions<T>::gemm(&op_a, &op_b, &size.m, &size.n, &size.k, &alpha, a.data(), &a.leading,
                             b.data(), &b.leading, &beta, c.data(), &c.leading);
          expect_matrix(c, before, size.k,
                        std::string{op_a, op_b} + " of " + std::to_string(size.m) + " x " +
                            std::to_string(size.n) + " x " + std::to_string(size.k),
                        kAll, [&](int i, int j) {
                          Complex sum = 0;
                          for (int p = 0; p < size.k; ++p) {
                            sum += read(a, op_a, i, p) * read(b, op_b, p, j);
                          }
                          const Complex was = beta == T(0) ? 0 : wide(beta) * wide(before.at(i, j));
                          return wide(alpha) * sum + was;
                        });
        }
      }
    }
  }
}

// op(a) times x, or x times op(a), is what was there before.
TYPED_TEST(Blas, SolvesWithAndMultipliesByTriangles) {
  using T = TypeParam;
  for (const int order : {1, 3, 5, 32, 33, 100}) {
    for (const int other : {1, 2, 17, 40}) {
      for (const char side : {'L', 'R'}) {
        for (const char uplo : {'L', 'U'}) {
          for (const char op : {'N', 'T', 'C'}) {
            for (const char diag : {'N', 'U'}) {
              const int m = side == 'L' ? order : other, n = side == 'L' ? other : order;
              Matrix<T> a(order, order, 4);
              for (int i = 0; i < order; ++i) {
                for (int j = 0; j < order; ++j) a.at(i, j) *= some<T>(i == j ? 4 : 1.0 / order);
              }
              const Matrix<T> b(m, n, 5);
              const T alpha = some<T>(0.5);
              const std::string what = std::string{side, uplo, op, diag} + " of " +
                                       std::to_string(m) + " x " + std::to_string(n);
              const auto product = [&](const Matrix<T>& x, int i, int j) {
                Complex sum = 0;
                for (int k = 0; k < order; ++k) {
                  sum += side == 'L' ? read_half(a, uplo, op, diag, i, k) * wide(x.at(k, j))
                                     : wide(x.at(i, k)) * read_half(a, uplo, op, diag, k, j);
                }
                return sum;
              };
              Matrix<T> x = b;
              Functions<T>::trsm(&side, &uplo, &op, &diag, &m, &n, &alpha, a.data(), &a.leading,
                                 x.data(), &x.leading);
              for (int j = 0; j < n; ++j) {
                for (int i = 0; i < m; ++i) {
                  ASSERT_LT(std::abs(product(x, i, j) - wide(alpha) * wide(b.at(i, j))),
                            8 * tolerance<T>(order))
                      << what << " at " << i << ", " << j;
                }
              }
              Matrix<T> y = b;
              Functions<T>::trmm(&side, &uplo, &op, &diag, &m, &n, &alpha, a.data(), &a.leading,
                                 y.data(), &y.leading);
              expect_matrix(y, b, 4 * order, what, kAll,
                            [&](int i, int j) { return wide(alpha) * product(b, i, j); });
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(Blas, UpdatesHalves) {
  using T = TypeParam;
  for (const int n : {1, 4, 5, 32, 70}) {
    for (const int k : {1, 6, 40}) {
      for (const char uplo : {'L', 'U'}) {
        for (const char op : {'N', 'T'}) {
          const Matrix<T> a(op == 'N' ? n : k, op == 'N' ? k : n, 6);
          const Matrix<T> b(op == 'N' ? n : k, op == 'N' ? k : n, 7);
          const T alpha = some<T>(-1.5), beta = some<T>(0.5);
          const auto counts = [&](int i, int j) { return uplo == 'L' ? i >= j : i <= j; };
          const std::string what = std::string{uplo, op} + " of " + std::to_string(n);
          const auto sum_of = [&](const Matrix<T>& left, const Matrix<T>& right, int i, int j) {
            Complex sum = 0;
            for (int p = 0; p < k; ++p) {
              sum += op == 'N' ? wide(left.at(i, p)) * wide(right.at(j, p))
                               : wide(left.at(p, i)) * wide(right.at(p, j));
            }
            return wide(alpha) * sum;
          };
          Matrix<T> c(n, n, 8);
          const Matrix<T> before = c;
          Functions<T>::syrk(&uplo, &op, &n, &k, &alpha, a.data(), &a.leading, &beta, c.data(),
                             &c.leading);
          expect_matrix(c, before, 3 * k, what, counts, [&](int i, int j) {
            return sum_of(a, a, i, j) + wide(beta) * wide(before.at(i, j));
          });
          c = before;
          Functions<T>::syr2k(&uplo, &op, &n, &k, &alpha, a.data(), &a.leading, b.data(),
                              &b.leading, &beta, c.data(), &c.leading);
          expect_matrix(c, before, 6 * k, what, counts, [&](int i, int j) {
            return sum_of(a, b, i, j) + sum_of(b, a, i, j) + wide(beta) * wide(before.at(i, j));
          });
        }
      }
    }
  }
}

TYPED_TEST(Blas, MultipliesVectors) {
  using T = TypeParam;
  for (const auto& [m, n] : {std::pair{1, 1}, {5, 3}, {40, 7}, {600, 20}}) {
    for (const char op : {'N', 'T', 'C'}) {
      for (const int step_x : {1, 3, -2}) {
        for (const int step_y : {1, -3}) {
          const int reads = op == 'N' ? n : m, writes = op == 'N' ? m : n;
          const Matrix<T> a(m, n, 9), x(1 + (reads - 1) * std::abs(step_x), 1, 10);
          Matrix<T> y(1 + (writes - 1) * std::abs(step_y), 1, 11);
          const Matrix<T> before = y;
          const T alpha = some<T>(0.7), beta = some<T>(-0.2);
          Functions<T>::gemv(&op, &m, &n, &alpha, a.data(), &a.leading, x.data(), &step_x, &beta,
                             y.data(), &step_y);
          const auto place = [](int i, int count, int step) {
            return step < 0 ? (count - 1 - i) * -step : i * step;
          };
          for (int i = 0; i < writes; ++i) {
            Complex sum = 0;
            for (int j = 0; j < reads; ++j) {
              sum += read(a, op, i, j) * wide(x.at(place(j, reads, step_x), 0));
            }
            const int at = place(i, writes, step_y);
            ASSERT_LT(std::abs(wide(y.at(at, 0)) - wide(alpha) * sum -
                               wide(beta) * wide(before.at(at, 0))),
                      tolerance<T>(reads))
                << op << " of " << m << " x " << n << " at " << i;
          }
        }
      }
    }
  }
}

TEST(BlasFunctions, AddOuterProducts) {
  const int m = 530, n = 6, step_x = 2, step_y = 1;
  const double alpha = 0.25;
  const Matrix<double> x(2 * m, 1, 1), y(n, 1, 2);
  Matrix<double> a(m, n, 3);
  const Matrix<double> before = a;
  dger_(&m, &n, &alpha, x.data(), &step_x, y.data(), &step_y, a.data(), &a.leading);
  expect_matrix(a, before, 1, "ger", kAll, [&](int i, int j) {
    return before.at(i, j) + alpha * x.at(2 * i, 0) * y.at(j, 0);
  });
  const Complex factor(0.5, -1);
  const Matrix<Complex> u(2 * m, 1, 4), v(n, 1, 5);
  for (const bool conjugates : {false, true}) {
    Matrix<Complex> c(m, n, 6);
    const Matrix<Complex> was = c;
    (conjugates ? zgerc_ : zgeru_)(&m, &n, &factor, u.data(), &step_x, v.data(), &step_y, c.data(),
                                   &c.leading);
    expect_matrix(c, was, 1, conjugates ? "gerc" : "geru", kAll, [&](int i, int j) {
      const Complex right = conjugates ? std::conj(v.at(j, 0)) : v.at(j, 0);
      return was.at(i, j) + factor * u.at(2 * i, 0) * right;
    });
  }
}

TEST(BlasFunctions, MultiplyBySymmetricAndHermitianMatrices) {
  const double alpha = 0.5, beta = 0.25;
  const Complex factor(0.5, 1), kept(0.25, -1);
  for (const int n : {1, 7, 50}) {
    for (const char uplo : {'L', 'U'}) {
      for (const int step : {1, -2}) {
        const auto place = [&](int i) { return step < 0 ? (n - 1 - i) * -step : i * step; };
        const auto half = [&](const auto& a, int i, int j) {
          const bool is_there = uplo == 'L' ? i >= j : i <= j;
          if (i == j) return Complex(std::real(a.at(i, i)));
          return is_there ? wide(a.at(i, j)) : std::conj(wide(a.at(j, i)));
        };
        const Matrix<double> a(n, n, 1), x(2 * n, 1, 2);
        Matrix<double> y(2 * n, 1, 3);
        const Matrix<double> before = y;
        dsymv_(&uplo, &n, &alpha, a.data(), &a.leading, x.data(), &step, &beta, y.data(), &step);
        const Matrix<Complex> h(n, n, 4), u(2 * n, 1, 5);
        Matrix<Complex> v(2 * n, 1, 6);
        const Matrix<Complex> was = v;
        zhemv_(&uplo, &n, &factor, h.data(), &h.leading, u.data(), &step, &kept, v.data(), &step);
        for (int i = 0; i < n; ++i) {
          Complex sum = 0, complex_sum = 0;
          for (int j = 0; j < n; ++j) {
            sum += half(a, i, j) * x.at(place(j), 0);
            complex_sum += half(h, i, j) * u.at(place(j), 0);
          }
          EXPECT_NEAR(y.at(place(i), 0), (alpha * sum).real() + beta * before.at(place(i), 0),
                      1e-13);
          EXPECT_LT(std::abs(v.at(place(i), 0) - factor * complex_sum - kept * was.at(place(i), 0)),
                    1e-13);
        }
      }
    }
  }
}

TEST(BlasFunctions, UpdateHermitianHalves) {
  const double real_alpha = -0.5, beta = 0.75;
  const Complex alpha(0.5, 1);
  const int k = 9;
  for (const int n : {3, 45}) {
    for (const char uplo : {'L', 'U'}) {
      for (const char op : {'N', 'C'}) {
        const Matrix<Complex> a(op == 'N' ? n : k, op == 'N' ? k : n, 1);
        const Matrix<Complex> b(op == 'N' ? n : k, op == 'N' ? k : n, 2);
        Matrix<Complex> c(n, n, 3);
        for (int i = 0; i < n; ++i) c.at(i, i) = c.at(i, i).real();
        const Matrix<Complex> before = c;
        const auto counts = [&](int i, int j) { return uplo == 'L' ? i >= j : i <= j; };
        const auto sum_of = [&](const Matrix<Complex>& left, const Matrix<Complex>& right, int i,
                                int j) {
          Complex sum = 0;
          for (int p = 0; p < k; ++p)
            sum += read(left, op, i, p) * std::conj(read(right, op, j, p));
          return sum;
        };
        zherk_(&uplo, &op, &n, &k, &real_alpha, a.data(), &a.leading, &beta, c.data(), &c.leading);
        expect_matrix(c, before, k, "herk", counts, [&](int i, int j) {
          return real_alpha * sum_of(a, a, i, j) + beta * before.at(i, j);
        });
        for (int i = 0; i < n; ++i) EXPECT_EQ(c.at(i, i).imag(), 0);
        c = before;
        zher2k_(&uplo, &op, &n, &k, &alpha, a.data(), &a.leading, b.data(), &b.leading, &beta,
                c.data(), &c.leading);
        expect_matrix(c, before, 3 * k, "her2k", counts, [&](int i, int j) {
          return alpha * sum_of(a, b, i, j) + std::conj(alpha) * sum_of(b, a, i, j) +
                 beta * before.at(i, j);
        });
      }
    }
  }
}

// The reference leaves out what is multiplied by zero.
TEST(BlasFunctions, AreTheOnesThatKeepWhatIsNoNumber) {
  const double kNone = std::numeric_limits<double>::quiet_NaN(), alpha = 1;
  const double a[4] = {1, kNone, 0, 1};
  double x[2] = {0, 1};
  const int two = 2, one = 1;
  dtrsm_("L", "L", "N", "N", &two, &one, &alpha, a, &two, x, &two);
  EXPECT_EQ(x[0], 0);
  EXPECT_TRUE(std::isnan(x[1]));
}

}  // namespace
}  // namespace plimsoll::kernels
