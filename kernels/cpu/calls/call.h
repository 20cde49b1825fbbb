// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// Adds the arrays of a shape, tuples taken apart depth first, as kernels get them.
void add_arrays(const ir::Shape& shape, std::vector<ir::Shape>& arrays);

// The options of a custom call by the typed foreign-function interface, as HLO text has them:
// `{uplo = 76 : ui8, left = true}`. Numbers, booleans (1 and 0) and nothing else.
std::vector<std::pair<std::string, std::int64_t>> parse_call_options(std::string_view text);

// A custom call of a library function, as its kernel reads it: the arrays' dims by operand and
// result, without the last dim of a complex one, whose parts are that dim (passes/complex), and its
// options. Checks that arrays are what the function takes; errors name the call and the array.
class LibraryCall {
 public:
  using Dims = std::vector<std::int64_t>;

  explicit LibraryCall(const ir::Instruction& instruction);

  // INVALID_ARGUMENT unless there are that many arrays.
  Status expect_counts(std::size_t operands, std::size_t results) const;
  // The dims of operand `i`, whose elements are T; at least `rank` of them.
  template <typename T>
  Result<Dims> operand(std::size_t i, std::size_t rank) const {
    return dims("operand", operands_, i, part<T>(), kIsComplex<T>, rank);
  }
  template <typename T>
  Status expect_operand(std::size_t i, const Dims& wanted) const {
    return expect("operand", operands_, i, part<T>(), kIsComplex<T>, wanted);
  }
  template <typename T>
  Status expect_result(std::size_t i, const Dims& wanted) const {
    return expect("result", results_, i, part<T>(), kIsComplex<T>, wanted);
  }
  template <typename T>
  Result<Dims> result(std::size_t i, std::size_t rank) const {
    return dims("result", results_, i, part<T>(), kIsComplex<T>, rank);
  }

  // A letter out of `allowed`; where it is not given, the first of these.
  Result<char> letter(std::string_view name, std::string_view allowed) const;
  std::int64_t number(std::string_view name, std::int64_t otherwise) const;
  // A text attribute of the instruction itself; empty: not given.
  std::string_view text(std::string_view name) const;

  Status error(std::string_view what) const;

 private:
  template <typename T>
  static constexpr bool kIsComplex =
      std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
  template <typename T>
  static constexpr ir::DType part() {
    if constexpr (std::is_same_v<T, std::int32_t>) return ir::DType::s32;
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, std::complex<float>>) {
      return ir::DType::f32;
    }
    return ir::DType::f64;
  }
  using Arrays = std::vector<ir::Shape>;
  Result<Dims> dims(std::string_view kind, const Arrays& arrays, std::size_t i, ir::DType dtype,
                    bool is_complex, std::size_t rank) const;
  Status expect(std::string_view kind, const Arrays& arrays, std::size_t i, ir::DType dtype,
                bool is_complex, const Dims& wanted) const;

  const ir::Instruction& instruction_;
  Arrays operands_, results_;
  std::vector<std::pair<std::string, std::int64_t>> options_;
};

}  // namespace plimsoll::kernels
