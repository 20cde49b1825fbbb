// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

// Instructions written as formulas: what operators of ONNX are made of.
namespace plimsoll::onnx {

class Emit;
using Sizes = std::vector<std::int64_t>;

// A value of one computation, or nothing after an error, which its Emit keeps: whatever is done
// with nothing gives nothing, so that only the end of a formula has to ask. Sizes of nothing are 1.
class Array {
 public:
  Array() = default;
  Array(Emit* emit, ir::Instruction* instruction) : emit_(emit), instruction_(instruction) {}

  bool is_null() const { return instruction_ == nullptr; }
  ir::Instruction* instruction() const { return instruction_; }
  Emit* emit() const { return emit_; }
  ir::DType dtype() const;
  int rank() const;
  std::int64_t dim(std::int64_t i) const;
  Sizes dims() const;
  std::int64_t element_count() const;

 private:
  Emit* emit_ = nullptr;
  ir::Instruction* instruction_ = nullptr;
};

// Appends instructions to one computation. Operands of the elementwise ones are broadcast as NumPy
// does it; their dtypes must agree. Numbers become scalars of the other operand's dtype. The first
// error stays (status()), and everything after it gives nothing. Not thread-safe.
class Emit {
 public:
  explicit Emit(ir::Computation& computation) : computation_(&computation) {}
  Emit(const Emit&) = delete;
  Emit& operator=(const Emit&) = delete;

  const Status& status() const { return status_; }
  void fail(Status status);
  void fail(std::string message) { fail(invalid_argument(std::move(message))); }
  ir::Computation& computation() { return *computation_; }

  Array constant(ir::Literal literal);
  Array scalar(double value, ir::DType dtype);
  // The least and the greatest number of a dtype; of floats the infinities.
  Array lowest(ir::DType dtype);
  Array highest(ir::DType dtype);
  Array splat(double value, ir::DType dtype, const Sizes& dims);
  // s64[n]; f32[n] and so on, by the dtype.
  Array numbers(const Sizes& values, ir::DType dtype = ir::DType::s64);
  Array reals(const std::vector<double>& values, ir::DType dtype, const Sizes& dims = {});
  Array iota(ir::DType dtype, const Sizes& dims, std::int64_t dim);

  Array unary(ir::Opcode opcode, const Array& a);
  Array binary(ir::Opcode opcode, const Array& a, const Array& b);
  Array compare(ir::ComparisonDirection direction, const Array& a, const Array& b);
  Array select(const Array& which, const Array& yes, const Array& no);
  Array maximum(const Array& a, const Array& b) { return binary(ir::Opcode::maximum, a, b); }
  Array minimum(const Array& a, const Array& b) { return binary(ir::Opcode::minimum, a, b); }
  Array convert(const Array& a, ir::DType dtype);
  // Rounded half to even and put into the range of an integer or 8-bit float dtype.
  Array saturate(const Array& a, ir::DType dtype);

  Array reshape(const Array& a, const Sizes& dims);
  Array transpose(const Array& a, const Sizes& order);
  // `to[i]`: where dim i of `a` lies in `dims`.
  Array broadcast(const Array& a, const Sizes& dims, const Sizes& to);
  Array broadcast_to(const Array& a, const Sizes& dims);  // as NumPy does it
  // One vector along dim `axis` of arrays of `rank` dims.
  Array along(const Array& vector, std::int64_t rank, std::int64_t axis);
  // Leading 1s up to `rank`, and a dim of 1 at a place.
  Array raise(const Array& a, int rank);
  Array unsqueeze(const Array& a, std::int64_t axis);
  Array squeeze(const Array& a, std::int64_t axis);
  Array slice(const Array& a, std::int64_t axis, std::int64_t first, std::int64_t last,
              std::int64_t step = 1);
  Array pad(const Array& a, const Array& value, const std::vector<ir::PaddingDimension>& padding);
  Array concatenate(const std::vector<Array>& parts, std::int64_t axis);
  Array reverse(const Array& a, const Sizes& axes);
  // Elements at places of one axis: known ones, or indices of any shape, whose dims come in the
  // axis' place. Indices are in range.
  Array take(const Array& a, const Array& indices, std::int64_t axis);
  // Elements of one axis by indices of the same rank; other dims agree.
  Array take_along(const Array& a, const Array& indices, std::int64_t axis);

  // Dims of size one stay where `keeps`. Floats below f32 are summed in f32.
  Array reduce(ir::Opcode opcode, const Array& a, const Sizes& axes, bool keeps);
  Array sum(const Array& a, const Sizes& axes, bool keeps) {
    return reduce(ir::Opcode::add, a, axes, keeps);
  }
  Array mean(const Array& a, const Sizes& axes, bool keeps);
  Array reduce_window(ir::Opcode opcode, const Array& a,
                      const std::vector<ir::WindowDimension>& window);
  Array dot(const Array& a, const Array& b, const ir::DotDimensions& dims);
  // NumPy's product of matrices, of any rank.
  Array matmul(const Array& a, const Array& b);
  // The `k` largest, or smallest, along the last dim, in order, and their places (s32).
  std::vector<Array> top_k(const Array& x, std::int64_t k, bool largest);

  // `count` times: `body` gets its Emit, the number of the turn (s64) and the state, and gives the
  // next state, of the same shapes. Only the state comes from outside.
  using Body = std::function<std::vector<Array>(Emit&, const Array&, const std::vector<Array>&)>;
  std::vector<Array> repeat(std::int64_t count, const std::vector<Array>& state, const Body& body);
  // While the first of the state, a pred[], holds.
  std::vector<Array> repeat_while(const std::vector<Array>& state, const Body& body);
  // Element `index` (a scalar) of dim `axis`, which goes away; and putting one there.
  Array element(const Array& a, const Array& index, std::int64_t axis);
  Array with_element(const Array& a, const Array& value, const Array& index, std::int64_t axis);

  // Any instruction. `given`: of opcodes that need the shape.
  Array make(ir::Opcode opcode, const std::vector<Array>& operands, ir::Attributes attributes = {},
             std::vector<ir::Computation*> called = {}, const ir::Shape* given = nullptr,
             std::string_view name = {});
  Array tuple(const std::vector<Array>& elements);
  Array element_of(const Array& tuple, std::int64_t index);

  // Counted from the back where negative; an error that names `what` where there is no such dim.
  std::int64_t axis(std::int64_t axis, std::int64_t rank, std::string_view what = "axis");

 private:
  bool is_usable(std::span<const Array> arrays);
  void match(Array& a, Array& b);
  std::vector<Array> loop(const std::vector<Array>& state, const Body& body,
                          const std::function<Array(const Array&, const Array&)>& goes_on);

  ir::Computation* computation_;
  Status status_;
};

Array operator+(const Array& a, const Array& b);
Array operator-(const Array& a, const Array& b);
Array operator*(const Array& a, const Array& b);
Array operator/(const Array& a, const Array& b);
Array operator-(const Array& a);
Array operator+(const Array& a, double b);
Array operator-(const Array& a, double b);
Array operator*(const Array& a, double b);
Array operator/(const Array& a, double b);
Array operator+(double a, const Array& b);
Array operator-(double a, const Array& b);
Array operator*(double a, const Array& b);
Array operator/(double a, const Array& b);
Array operator<(const Array& a, const Array& b);
Array operator<(const Array& a, double b);
Array operator>(const Array& a, double b);
Array operator==(const Array& a, const Array& b);
Array operator==(const Array& a, double b);
Array operator&(const Array& a, const Array& b);
Array operator|(const Array& a, const Array& b);
Array exp(const Array& a);
Array log(const Array& a);
Array sqrt(const Array& a);
Array tanh(const Array& a);
Array abs(const Array& a);
Array floor(const Array& a);
Array logical_not(const Array& a);

// The product; -1 where it does not fit, or a size is negative.
std::int64_t product(std::span<const std::int64_t> sizes);

}  // namespace plimsoll::onnx
