// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/ir/shapes/implied_conversion.h"
#include "runtime/passes/expand/expansions.h"
#include "runtime/passes/expand/numbers.h"

namespace plimsoll::passes {
namespace {

using ir::Attributes;
using ir::Computation;
using ir::DotDimensions;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using Instructions = std::vector<Instruction*>;
using Numbers = std::vector<std::int64_t>;

// Of `{0,1}`.
Numbers numbers_of(std::string_view text) {
  Numbers all;
  for (const char* at = text.data(); at < text.data() + text.size();) {
    std::int64_t value = 0;
    const auto [end, failed] = std::from_chars(at, text.data() + text.size(), value);
    if (failed == std::errc()) all.push_back(value);
    at = failed == std::errc() ? end : at + 1;
  }
  return all;
}

bool has_number(const Numbers& all, std::int64_t one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

bool are_within(const Numbers& dims, const Shape& shape) {
  return std::all_of(dims.begin(), dims.end(),
                     [&](std::int64_t dim) { return dim >= 0 && dim < shape.rank(); });
}

std::int64_t place_of(const Numbers& all, std::int64_t one) {
  return std::find(all.begin(), all.end(), one) - all.begin();
}

// Groups follow one another along the ragged dim; what is in none is zero. The sizes are of all
// groups, or of all groups for each of the leading dims: those of the left side that the ragged dim
// comes after, batch dims first.
class RaggedDot {
 public:
  explicit RaggedDot(Instruction& dot)
      : dot_(dot), lhs_(dot.operand(0)->shape()), rhs_(dot.operand(1)->shape()) {}

  Status read();
  Expansion expand();

 private:
  Status wrong(std::string_view what) const {
    return invalid_argument("'" + dot_.name() + "': ragged-dot " + std::string(what));
  }
  Result<Instruction*> plain_dot(Computation& to, Instruction* lhs, Instruction* rhs,
                                 const DotDimensions& dims) const;
  Instruction* is_inside(Computation& to, Instruction* start, Instruction* end, const Shape& shape,
                         std::int64_t along, const Numbers& leading) const;
  Result<std::pair<Instruction*, Instruction*>> bounds() const;
  Result<Computation*> round_of_rows(const Shape& bound, const Shape& matrix) const;
  Result<Computation*> round_of_sums(const Shape& bound) const;
  Expansion looped(Instructions operands, std::int64_t carries, Computation* round,
                   const Shape& shape) const;
  // Of a dim of the left side, in the result of a dot.
  std::int64_t result_dim(std::int64_t lhs_dim) const;

  Instruction& dot_;
  const Shape lhs_, rhs_;
  DotDimensions dims_;  // of a group's product
  Numbers leading_;     // dims of the left side
  std::int64_t ragged_ = 0, group_dim_ = -1, groups_ = 0;
  bool is_batch_ = false, is_sum_ = false;
};

Status RaggedDot::read() {
  if (!lhs_.is_array() || !rhs_.is_array() || !dot_.operand(2)->shape().is_array() ||
      !dot_.shape().is_array() || dot_.attributes().dot == nullptr) {
    return wrong("takes and gives arrays, and has dimension numbers");
  }
  dims_ = *dot_.attributes().dot;
  if (!are_within(dims_.lhs_batch, lhs_) || !are_within(dims_.lhs_contracting, lhs_) ||
      !are_within(dims_.rhs_batch, rhs_) || !are_within(dims_.rhs_contracting, rhs_) ||
      dims_.lhs_batch.size() != dims_.rhs_batch.size() ||
      dims_.lhs_contracting.size() != dims_.rhs_contracting.size()) {
    return wrong("has dimension numbers that its operands don't have");
  }
  const Numbers ragged = numbers_of(dot_.attributes().find_extra("lhs_ragged_dims"));
  const Numbers group = numbers_of(dot_.attributes().find_extra("rhs_group_dims"));
  if (ragged.size() != 1 || ragged[0] >= lhs_.rank()) return wrong("must have one ragged dim");
  ragged_ = ragged[0];
  is_batch_ = has_number(dims_.lhs_batch, ragged_);
  is_sum_ = has_number(dims_.lhs_contracting, ragged_);
  if (group.size() != (is_batch_ || is_sum_ ? 0U : 1U)) {
    return wrong("must have a group dim where rows are ragged, and else none");
  }
  leading_ = dims_.lhs_batch;
  if (is_batch_) std::erase_if(leading_, [&](std::int64_t dim) { return dim >= ragged_; });
  for (std::int64_t dim = 0; dim < ragged_ && !is_batch_; ++dim) {
    const bool is_contracting = has_number(dims_.lhs_contracting, dim);
    if (!has_number(dims_.lhs_batch, dim) && is_contracting == is_sum_) leading_.push_back(dim);
  }
  const Shape& sizes = dot_.operand(2)->shape();
  if (sizes.rank() == 1) leading_.clear();
  bool fits =
      ir::is_integer(sizes.dtype()) && sizes.rank() == static_cast<int>(leading_.size()) + 1;
  for (std::size_t i = 0; fits && i < leading_.size(); ++i) {
    fits = sizes.dim(static_cast<int>(i)) == lhs_.dim(static_cast<int>(leading_[i]));
  }
  if (!fits) return wrong("can't have group sizes " + sizes.to_string());
  groups_ = sizes.dim(sizes.rank() - 1);
  if (group.empty()) return ok_status();
  group_dim_ = group[0];
  if (group_dim_ >= rhs_.rank() || rhs_.dim(static_cast<int>(group_dim_)) != groups_ ||
      has_number(dims_.rhs_batch, group_dim_) || has_number(dims_.rhs_contracting, group_dim_)) {
    return wrong("must have a matrix for each group");
  }
  for (Numbers* all : {&dims_.rhs_batch, &dims_.rhs_contracting}) {
    for (std::int64_t& dim : *all) dim -= dim > group_dim_ ? 1 : 0;
  }
  return ok_status();
}

Result<Instruction*> RaggedDot::plain_dot(Computation& to, Instruction* lhs, Instruction* rhs,
                                          const DotDimensions& dims) const {
  Attributes attributes;
  attributes.dot = std::make_shared<const DotDimensions>(dims);
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const made,
                            ir::build(to, Opcode::dot, {lhs, rhs}, attributes));
  if (made->shape().dtype() == dot_.shape().dtype()) return made;
  const Shape wanted(dot_.shape().dtype(), made->shape().dims());
  to.remove(made);
  Instructions sides = {lhs, rhs};
  ir::add_implied_conversions(to, Opcode::dot, wanted, sides);
  return ir::build(to, Opcode::dot, std::move(sides), std::move(attributes), {}, &wanted);
}

// Which elements of `shape` are of the group from `start` to before `end`; `leading`: where the
// bounds' dims are in it.
Instruction* RaggedDot::is_inside(Computation& to, Instruction* start, Instruction* end,
                                  const Shape& shape, std::int64_t along,
                                  const Numbers& leading) const {
  const Shape places(DType::s32, shape.dims()), truths(DType::pred, shape.dims());
  Attributes dim;
  dim.dimensions = {along};
  Instruction* const place = to.add(Opcode::iota, places, {}, {}, std::move(dim));
  const auto compared = [&](Instruction* bound, ir::ComparisonDirection direction) {
    Attributes where, how;
    where.dimensions = leading;
    how.comparison_direction = direction;
    Instruction* const all = to.add(Opcode::broadcast, places, {bound}, {}, std::move(where));
    return to.add(Opcode::compare, truths, {place, all}, {}, std::move(how));
  };
  return to.add(
      Opcode::and_, truths,
      {compared(start, ir::ComparisonDirection::ge), compared(end, ir::ComparisonDirection::lt)});
}

// Where each group starts and ends, groups first.
Result<std::pair<Instruction*, Instruction*>> RaggedDot::bounds() const {
  Computation& to = *dot_.parent();
  const ir::Dims& dims = dot_.operand(2)->shape().dims();
  const int last = static_cast<int>(dims.size()) - 1;
  Instruction* const sizes = to.add(Opcode::convert, Shape(DType::s32, dims), {dot_.operand(2)});
  // The sizes up to each group, summed.
  Numbers wide = dims.to_vector(), where(dims.size());
  wide.push_back(groups_);
  for (std::size_t i = 0; i < where.size(); ++i) where[i] = static_cast<std::int64_t>(i);
  where.back() = last + 1;
  const Shape square(DType::s32, ir::Dims(wide));
  const auto iota = [&](std::int64_t dim) {
    Attributes attributes;
    attributes.dimensions = {dim};
    return to.add(Opcode::iota, square, {}, {}, std::move(attributes));
  };
  Attributes less, into, over;
  less.comparison_direction = ir::ComparisonDirection::le;
  into.dimensions = where;
  over.dimensions = {last + 1};
  Instruction* const counts = to.add(Opcode::compare, Shape(DType::pred, square.dims()),
                                     {iota(last + 1), iota(last)}, {}, std::move(less));
  Instruction* const all = to.add(Opcode::broadcast, square, {sizes}, {}, std::move(into));
  Instruction* const counted =
      to.add(Opcode::select, square, {counts, all, add_number(to, square, 0)});
  PLIMSOLL_ASSIGN_OR_RETURN(
      Instruction* const ends,
      ir::build(to, Opcode::reduce, {counted, add_number(to, Shape(DType::s32, {}), 0)},
                std::move(over), {ir::scalar_computation(*to.module(), Opcode::add, DType::s32)}));
  Instruction* const starts = to.add(Opcode::subtract, ends->shape(), {ends, sizes});
  const auto groups_first = [&](Instruction* one) -> Result<Instruction*> {
    Attributes order;
    order.dimensions = {last};
    for (int i = 0; i < last; ++i) order.dimensions.push_back(i);
    return ir::build(to, Opcode::transpose, {one}, std::move(order));
  };
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const from, groups_first(starts));
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const until, groups_first(ends));
  return std::pair(from, until);
}

std::int64_t RaggedDot::result_dim(std::int64_t lhs_dim) const {
  if (has_number(dims_.lhs_batch, lhs_dim)) return place_of(dims_.lhs_batch, lhs_dim);
  auto place = static_cast<std::int64_t>(dims_.lhs_batch.size());
  for (std::int64_t dim = 0; dim < lhs_dim; ++dim) {
    if (!has_number(dims_.lhs_batch, dim) && !has_number(dims_.lhs_contracting, dim)) ++place;
  }
  return place;
}

// (start, end, matrix, lhs, result) -> (lhs, result), of which the rows of the group are new.
Result<Computation*> RaggedDot::round_of_rows(const Shape& bound, const Shape& matrix) const {
  Computation* const made = dot_.parent()->module()->add_computation("ragged_dot.rows");
  Instruction* const start = made->add_parameter(0, bound);
  Instruction* const end = made->add_parameter(1, bound);
  Instruction* const one = made->add_parameter(2, matrix);
  Instruction* const lhs = made->add_parameter(3, lhs_);
  Instruction* const before = made->add_parameter(4, dot_.shape());
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const product, plain_dot(*made, lhs, one, dims_));
  if (!(product->shape() == dot_.shape())) {
    return wrong("gives " + product->shape().to_string() + ", not " + dot_.shape().to_string());
  }
  Numbers leading;
  for (const std::int64_t dim : leading_) leading.push_back(result_dim(dim));
  // Where an order of dims is not that of the bounds, a broadcast can't have it.
  if (!std::is_sorted(leading.begin(), leading.end())) return wrong("has dims in this order");
  Instruction* const rows =
      is_inside(*made, start, end, dot_.shape(), result_dim(ragged_), leading);
  made->set_root(
      made->add_tuple({lhs, made->add(Opcode::select, dot_.shape(), {rows, product, before})}));
  return made;
}

// (start, end, lhs, rhs) -> (the product of a group, lhs, rhs).
Result<Computation*> RaggedDot::round_of_sums(const Shape& bound) const {
  Computation* const made = dot_.parent()->module()->add_computation("ragged_dot.sums");
  Instruction* const start = made->add_parameter(0, bound);
  Instruction* const end = made->add_parameter(1, bound);
  Instruction* const sides[2] = {made->add_parameter(2, lhs_), made->add_parameter(3, rhs_)};
  Instruction* masked[2] = {};
  for (int i = 0; i < 2; ++i) {
    const auto dim_of = [&](std::int64_t dim) {
      if (i == 0) return dim;
      const std::int64_t place = place_of(dims_.lhs_contracting, dim);
      return at(place) < dims_.lhs_contracting.size()
                 ? dims_.rhs_contracting[at(place)]
                 : dims_.rhs_batch[at(place_of(dims_.lhs_batch, dim))];
    };
    Numbers leading;
    for (const std::int64_t dim : leading_) leading.push_back(dim_of(dim));
    if (!std::is_sorted(leading.begin(), leading.end())) return wrong("has dims in this order");
    const Shape& shape = sides[i]->shape();
    masked[i] = made->add(Opcode::select, shape,
                          {is_inside(*made, start, end, shape, dim_of(ragged_), leading), sides[i],
                           add_number(*made, shape, 0)});
  }
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const product,
                            plain_dot(*made, masked[0], masked[1], dims_));
  made->set_root(made->add_tuple({product, sides[0], sides[1]}));
  return made;
}

// A scan over the groups, of which one result is wanted.
Expansion RaggedDot::looped(Instructions operands, std::int64_t carries, Computation* round,
                            const Shape& shape) const {
  Computation& to = *dot_.parent();
  Attributes attributes;
  attributes.dimensions = {0};
  attributes.extra.emplace_back("num_carries", std::to_string(carries));
  PLIMSOLL_ASSIGN_OR_RETURN(
      Instruction* const scan,
      ir::build(to, Opcode::scan, std::move(operands), std::move(attributes), {round}, &shape));
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const loop, expand_scan(*scan));
  to.remove(scan);
  return to.add_get_tuple_element(loop, is_sum_ ? 0 : 1);
}

Expansion RaggedDot::expand() {
  Computation& to = *dot_.parent();
  Instruction *const lhs = dot_.operand(0), *rhs = dot_.operand(1);
  if (is_batch_) return plain_dot(to, lhs, rhs, dims_);
  PLIMSOLL_ASSIGN_OR_RETURN(const auto bounds, this->bounds());
  const auto& [starts, ends] = bounds;
  Numbers bound = starts->shape().dims().to_vector();
  bound.erase(bound.begin());
  const Shape bound_shape(DType::s32, ir::Dims(bound));
  if (is_sum_) {
    PLIMSOLL_ASSIGN_OR_RETURN(Computation* const round, round_of_sums(bound_shape));
    Numbers stacked = round->root()->shape().elements()[0].dims().to_vector();
    stacked.insert(stacked.begin(), groups_);
    const Shape stack(dot_.shape().dtype(), ir::Dims(stacked));
    if (!(stack == dot_.shape())) {
      return wrong("gives " + stack.to_string() + ", not " + dot_.shape().to_string());
    }
    return looped({starts, ends, lhs, rhs}, 2, round, Shape::tuple({stack, lhs_, rhs_}));
  }
  if (group_dim_ != 0) {
    Attributes order;
    order.dimensions = {group_dim_};
    for (int i = 0; i < rhs_.rank(); ++i) {
      if (i != group_dim_) order.dimensions.push_back(i);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(rhs, ir::build(to, Opcode::transpose, {rhs}, std::move(order)));
  }
  Numbers matrix = rhs->shape().dims().to_vector();
  matrix.erase(matrix.begin());
  PLIMSOLL_ASSIGN_OR_RETURN(Computation* const round,
                            round_of_rows(bound_shape, Shape(rhs_.dtype(), ir::Dims(matrix))));
  return looped({starts, ends, rhs, lhs, add_number(to, dot_.shape(), 0)}, 2, round,
                Shape::tuple({lhs_, dot_.shape()}));
}

}  // namespace

Expansion expand_ragged_dot(Instruction& instruction) {
  RaggedDot dot(instruction);
  PLIMSOLL_RETURN_IF_ERROR(dot.read());
  return dot.expand();
}

}  // namespace plimsoll::passes
