// SPDX-License-Identifier: Apache-2.0
#include "runtime/autograd/attention.h"

#include <cmath>
#include <limits>
#include <string>

#include "runtime/autograd/expression.h"
#include "runtime/base/index.h"

namespace plimsoll::autograd {

using ir::Opcode;
using trace::Node;
using trace::NodeRef;

namespace {

std::string shape_text(const Node& node) { return node.shape().to_string(); }

Status misfit(const std::string& what) { return invalid_argument("attention: " + what); }

Status check_arrays(const AttentionRequest& request) {
  const Node &q = *request.query, &k = *request.key, &v = *request.value;
  for (const Node* node : {&q, &k, &v}) {
    if (!ir::is_floating(node->dtype) || node->rank < 2) {
      return misfit("operand is " + shape_text(*node) + ", must be floating [.., time, depth]");
    }
  }
  const auto n = at(q.rank);
  bool fits = k.rank == q.rank && v.rank == q.rank && k.dtype == q.dtype && v.dtype == q.dtype;
  for (std::size_t i = 0; fits && i + 2 < n; ++i) {
    fits = k.dims()[i] == q.dims()[i] && v.dims()[i] == q.dims()[i];
  }
  fits = fits && k.dims()[n - 1] == q.dims()[n - 1] && v.dims()[n - 2] == k.dims()[n - 2];
  if (fits) return ok_status();
  return misfit("queries " + shape_text(q) + ", keys " + shape_text(k) + " and values " +
                shape_text(v) + " (must be [.., q, d], [.., k, d], [.., k, e] of one dtype)");
}

// Of a mask or bias: its dims, counted from the last, are those of the scores or one.
Status check_part(const char* name, const Node& part, bool is_pred, const Ints& scores) {
  const auto rank = at(part.rank);
  bool fits = is_pred ? part.dtype == ir::DType::pred : ir::is_floating(part.dtype);
  fits = fits && rank <= scores.size();
  for (std::size_t i = 0; fits && i < rank; ++i) {
    const std::int64_t size = part.dims()[i];
    fits = size == 1 || size == scores[scores.size() - rank + i];
  }
  if (fits) return ok_status();
  return misfit(std::string(name) + " is " + shape_text(part) + ", must be " +
                (is_pred ? "pred" : "floating") + " and broadcast to " +
                ir::Shape(ir::DType::f32, ir::Dims(scores)).to_string());
}

class Writer {
 public:
  Writer(trace::Recorder& recorder, const AttentionRequest& request, Ints dims)
      : recorder_(recorder),
        e_(recorder),
        request_(request),
        dims_(std::move(dims)),
        last_(static_cast<std::int64_t>(dims_.size()) - 1),
        dtype_(request.query->dtype == ir::DType::f64 ? ir::DType::f64 : ir::DType::f32) {}

  Result<NodeRef> write() {
    const NodeRef v = e_.ref(request_.value);
    NodeRef s = dot(e_.ref(request_.query), e_.ref(request_.key), last_, dtype_);
    double scale = request_.scale;
    if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(request_.query->dims()[at(last_)]));
    s = e_.scale(s, scale);
    if (request_.bias != nullptr) s = e_.add(s, spread(e_.convert(e_.ref(request_.bias), dtype_)));
    if (request_.mask != nullptr) s = where(spread(e_.ref(request_.mask)), s);
    if (request_.causal) s = where(causal(), s);
    PLIMSOLL_RETURN_IF_ERROR(e_.status());
    // Shifting by the maximum changes neither value nor gradient, but keeps exp in range.
    const NodeRef greatest = e_.reduce(s, Opcode::maximum, {last_});
    PLIMSOLL_RETURN_IF_ERROR(e_.status());
    const NodeRef shift = recorder_.stop_gradient(greatest.get());
    const NodeRef powers = e_.op(Opcode::exponential, {e_.subtract(s, rows(shift))});
    const NodeRef p = e_.divide(powers, rows(e_.reduce(powers, Opcode::add, {last_})));
    NodeRef o = dot(e_.convert(p, request_.value->dtype), v, last_ - 1, request_.value->dtype);
    PLIMSOLL_RETURN_IF_ERROR(e_.status());
    return o;
  }

 private:
  Ints leading(std::int64_t count) const {
    Ints dims;
    for (std::int64_t i = 0; i < count; ++i) dims.push_back(i);
    return dims;
  }

  // Over the last dim of `a` and dim `contracting` of `b`.
  NodeRef dot(const NodeRef& a, const NodeRef& b, std::int64_t contracting, ir::DType dtype) {
    if (!a || !b) return {};
    auto d = std::make_shared<ir::DotDimensions>();
    d->lhs_batch = d->rhs_batch = leading(last_ - 1);
    d->lhs_contracting = {last_};
    d->rhs_contracting = {contracting};
    trace::OpAttributes attributes;
    attributes.attributes.dot = std::move(d);
    Ints dims(dims_.begin(), dims_.end() - 1);
    dims.push_back(b->dims()[at(contracting == last_ ? last_ - 1 : last_)]);
    const ir::Shape shape(dtype, ir::Dims(dims));
    return e_.op(Opcode::dot, {a, b}, attributes, &shape);
  }

  NodeRef rows(const NodeRef& x) { return e_.broadcast(x, dims_, leading(last_)); }

  // To the scores' dims, as NumPy broadcasts.
  NodeRef spread(const NodeRef& x) {
    if (!x) return {};
    Ints kept, dimensions;
    for (std::size_t i = 0; i < static_cast<std::size_t>(x->rank); ++i) {
      const std::size_t dim = dims_.size() - at(x->rank) + i;
      if (x->dims()[i] == 1 && dims_[dim] != 1) continue;
      kept.push_back(x->dims()[i]);
      dimensions.push_back(static_cast<std::int64_t>(dim));
    }
    return e_.broadcast(e_.reshape(x, kept), dims_, dimensions);
  }

  // Scores of unseen keys are finite, so that a query that sees none gets a mean and no NaN.
  NodeRef where(const NodeRef& seen, const NodeRef& s) {
    if (!s) return {};
    return e_.select(seen, s, e_.fill(*s.get(), std::numeric_limits<float>::lowest() / 2));
  }

  NodeRef causal() {
    const std::int64_t queries = dims_[at(last_ - 1)], keys = dims_[at(last_)];
    const Ints matrix = {queries, keys};
    NodeRef row = e_.iota(ir::DType::s32, matrix, 0);
    if (keys != queries) {
      row = e_.add(row, e_.fill(*row.get(), static_cast<double>(keys - queries)));
    }
    const NodeRef sees =
        e_.compare(ir::ComparisonDirection::ge, row, e_.iota(ir::DType::s32, matrix, 1));
    return e_.broadcast(sees, dims_, {last_ - 1, last_});
  }

  trace::Recorder& recorder_;
  Expression e_;
  const AttentionRequest& request_;
  const Ints dims_;  // of the scores
  const std::int64_t last_;
  const ir::DType dtype_;  // of the scores
};

}  // namespace

Result<NodeRef> record_attention(trace::Recorder& recorder, const AttentionRequest& request) {
  PLIMSOLL_RETURN_IF_ERROR(check_arrays(request));
  const auto q = request.query->dims();
  Ints dims(q.begin(), q.end() - 1);
  dims.push_back(request.key->dims()[q.size() - 2]);
  if (request.mask != nullptr) {
    PLIMSOLL_RETURN_IF_ERROR(check_part("the mask", *request.mask, true, dims));
  }
  if (request.bias != nullptr) {
    PLIMSOLL_RETURN_IF_ERROR(check_part("the bias", *request.bias, false, dims));
  }
  if (!std::isfinite(request.scale)) return misfit("the scale is not finite");
  if (request.scale == 0 && q.back() == 0) {
    return misfit("queries " + shape_text(*request.query) +
                  " have depth 0, for which the scale 1 / sqrt(depth) is infinite; give a scale");
  }
  return Writer(recorder, request, std::move(dims)).write();
}

}  // namespace plimsoll::autograd
