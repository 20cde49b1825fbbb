// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/fusions/attention.h"

#include <fmt/core.h>
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "runtime/base/index.h"
#include "runtime/ir/fusions/attention_text.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/ir/text/attribute_text.h"

namespace plimsoll::ir {
namespace {

using Ints = std::vector<std::int64_t>;

bool is_permutation(const DimOrder& order, int rank) {
  if (static_cast<int>(order.size()) != rank) return false;
  std::vector<bool> seen(order.size(), false);
  for (const std::int64_t d : order) {
    if (d < 0 || d >= rank || seen[at(d)]) return false;
    seen[at(d)] = true;
  }
  return true;
}

bool is_half_or_f32(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

DimOrder inverse(const DimOrder& order) {
  DimOrder result(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    result[at(order[i])] = static_cast<std::int64_t>(i);
  }
  return result;
}

bool is_identity(const DimOrder& order) { return std::is_sorted(order.begin(), order.end()); }

Ints ordered_dims(const Shape& shape, const DimOrder& order) {
  Ints dims;
  for (const std::int64_t d : order) dims.push_back(shape.dim(static_cast<int>(d)));
  return dims;
}

Ints leading(std::size_t count) {
  Ints dims(count);
  for (std::size_t i = 0; i < count; ++i) dims[i] = static_cast<std::int64_t>(i);
  return dims;
}

// Writes a body, one operation after the other; the first failure stays.
class BodyWriter {
 public:
  BodyWriter(Computation& body, const AttentionForm& form, const AttentionSizes& sizes)
      : body_(body), form_(form), sizes_(sizes), rank_(static_cast<int>(sizes.batch.size()) + 2) {
    scores_dims_ = sizes.batch;
    scores_dims_.push_back(sizes.queries);
    scores_dims_.push_back(sizes.keys);
  }

  Status write(std::span<const Shape> operands) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      parameters_.push_back(body_.add_parameter(static_cast<std::int64_t>(i), operands[i]));
    }
    Instruction *q = read(0, form_.query), *k = read(1, form_.key), *v = read(2, form_.value);
    Instruction* scores = write_scores(q, k);
    if (form_.backward) {
      write_backward(q, k, v, scores);
    } else {
      write_forward(v, scores);
    }
    return status_;
  }

 private:
  Instruction* op(Opcode opcode, std::vector<Instruction*> operands, Attributes attributes = {},
                  const Shape* given = nullptr, std::vector<Computation*> called = {}) {
    if (!status_.ok()) return nullptr;
    auto built =
        build(body_, opcode, std::move(operands), std::move(attributes), std::move(called), given);
    if (!built.ok()) {
      status_ = built.status();
      return nullptr;
    }
    return *built;
  }
  Instruction* convert(Instruction* x, DType dtype) {
    if (!status_.ok() || x->shape().dtype() == dtype) return x;
    const Shape shape(dtype, x->shape().dims());
    return op(Opcode::convert, {x}, {}, &shape);
  }
  Instruction* transpose(Instruction* x, const DimOrder& dimensions) {
    if (is_identity(dimensions)) return x;
    Attributes attributes;
    attributes.dimensions = dimensions;
    return op(Opcode::transpose, {x}, std::move(attributes));
  }
  Instruction* broadcast(Instruction* x, const Ints& dims, Ints dimensions) {
    if (!status_.ok()) return nullptr;
    const Shape shape(x->shape().dtype(), Dims(dims));
    Attributes attributes;
    attributes.dimensions = std::move(dimensions);
    return op(Opcode::broadcast, {x}, std::move(attributes), &shape);
  }
  Instruction* splat(float value) {
    return broadcast(body_.add_constant(Literal::scalar(value)), scores_dims_, {});
  }
  Instruction* dot(Instruction* a, std::int64_t a_contracting, Instruction* b,
                   std::int64_t b_contracting) {
    auto dims = std::make_shared<DotDimensions>();
    dims->lhs_batch = dims->rhs_batch = leading(sizes_.batch.size());
    dims->lhs_contracting = {a_contracting};
    dims->rhs_contracting = {b_contracting};
    Attributes attributes;
    attributes.dot = std::move(dims);
    return op(Opcode::dot, {a, b}, std::move(attributes));
  }
  Instruction* reduce(Instruction* x, Opcode combiner, float initial) {
    Attributes attributes;
    attributes.dimensions = {rank_ - 1};
    return op(Opcode::reduce, {x, body_.add_constant(Literal::scalar(initial))},
              std::move(attributes), nullptr,
              {scalar_computation(*body_.module(), combiner, DType::f32)});
  }
  Instruction* spread(Instruction* row) {
    return broadcast(row, scores_dims_, leading(static_cast<std::size_t>(rank_) - 1));
  }

  Instruction* read(int operand, const DimOrder& order) {
    return convert(transpose(parameters_[at(operand)], order), DType::f32);
  }
  Instruction* result(Instruction* x, const DimOrder& order) {
    return transpose(convert(x, form_.result_dtype), inverse(order));
  }

  // True where a key is seen, per dim of the scores; null where every key is.
  Instruction* causal_mask() {
    if (!form_.causal.has_value()) return nullptr;
    const Shape shape(DType::s32, Dims(scores_dims_));
    Attributes row, column;
    row.dimensions = {rank_ - 2};
    column.dimensions = {rank_ - 1};
    Instruction* query = op(Opcode::iota, {}, std::move(row), &shape);
    if (*form_.causal != 0) {
      Instruction* offset =
          body_.add_constant(Literal::scalar(static_cast<std::int32_t>(*form_.causal)));
      query = op(Opcode::add, {query, broadcast(offset, scores_dims_, {})});
    }
    Attributes direction;
    direction.comparison_direction = ComparisonDirection::ge;
    return op(Opcode::compare, {query, op(Opcode::iota, {}, std::move(column), &shape)},
              std::move(direction));
  }

  Instruction* where_seen(Instruction* x, float otherwise) {
    for (Instruction* mask : masks_) x = op(Opcode::select, {mask, x, splat(otherwise)});
    return x;
  }

  Instruction* write_scores(Instruction* q, Instruction* k) {
    Instruction* scores = dot(q, rank_ - 1, k, rank_ - 1);
    if (form_.scale != 1) scores = op(Opcode::multiply, {scores, splat(form_.scale)});
    if (form_.bias.has_value()) {
      Instruction* bias = convert(parameters_[at(form_.bias_operand())], DType::f32);
      scores = op(Opcode::add, {scores, broadcast(bias, scores_dims_, *form_.bias)});
    }
    if (form_.mask.has_value()) {
      Instruction* mask = parameters_[at(form_.mask_operand())];
      masks_.push_back(broadcast(mask, scores_dims_, *form_.mask));
    }
    if (Instruction* causal = causal_mask()) masks_.push_back(causal);
    return where_seen(scores, form_.fill);
  }

  void write_forward(Instruction* v, Instruction* scores) {
    Instruction* greatest =
        reduce(scores, Opcode::maximum, -std::numeric_limits<float>::infinity());
    Instruction* powers =
        op(Opcode::exponential, {op(Opcode::subtract, {scores, spread(greatest)})});
    Instruction* sum = reduce(powers, Opcode::add, 0);
    Instruction* p = op(Opcode::divide, {powers, spread(sum)});
    Instruction* o = result(dot(p, rank_ - 1, v, rank_ - 2), form_.output);
    if (status_.ok() && form_.statistics) body_.add_tuple({o, greatest, sum});
  }

  void write_backward(Instruction* q, Instruction* k, Instruction* v, Instruction* scores) {
    const int first = form_.output_operand();
    const auto parameter = [&](int i) { return parameters_[at(first + i)]; };
    Instruction* o = read(first, form_.output);
    Instruction* g = read(first + 1, form_.output_gradient);
    Instruction* powers =
        op(Opcode::exponential, {op(Opcode::subtract, {scores, spread(parameter(2))})});
    Instruction* p = op(Opcode::divide, {powers, spread(parameter(3))});
    std::vector<Instruction*> results;
    if (form_.wants_query || form_.wants_key) {
      Instruction* dp = dot(g, rank_ - 1, v, rank_ - 1);
      Instruction* delta = reduce(op(Opcode::multiply, {g, o}), Opcode::add, 0);
      Instruction* ds =
          where_seen(op(Opcode::multiply, {p, op(Opcode::subtract, {dp, spread(delta)})}), 0);
      if (form_.gradient_scale != 1) ds = op(Opcode::multiply, {ds, splat(form_.gradient_scale)});
      if (form_.wants_query) {
        results.push_back(result(dot(ds, rank_ - 1, k, rank_ - 2), form_.query_gradient));
      }
      if (form_.wants_key) {
        results.push_back(result(dot(ds, rank_ - 2, q, rank_ - 2), form_.key_gradient));
      }
    }
    if (form_.wants_value) {
      results.push_back(result(dot(p, rank_ - 2, g, rank_ - 2), form_.value_gradient));
    }
    if (!status_.ok()) return;
    if (results.size() > 1) {
      body_.add_tuple(results);
    } else if (!results.empty()) {
      body_.set_root(results[0]);
    }
  }

  Computation& body_;
  const AttentionForm& form_;
  const AttentionSizes& sizes_;
  const int rank_;
  Ints scores_dims_;
  std::vector<Instruction*> parameters_, masks_;
  Status status_;
};

bool same_called(const Instruction& a, const Instruction& b) {
  const auto& x = a.called_computations();
  const auto& y = b.called_computations();
  if (x.size() != y.size()) return false;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Instruction* root = y[i]->root();
    if (!is_binary_computation(*x[i], root->opcode()) ||
        !(x[i]->root()->shape() == root->shape())) {
      return false;
    }
  }
  return true;
}

// Equal up to names, instruction by instruction.
bool same_body(const Computation& a, const Computation& b) {
  if (a.instruction_count() != b.instruction_count()) return false;
  std::unordered_map<const Instruction*, const Instruction*> twin;
  for (int i = 0; i < a.instruction_count(); ++i) {
    const Instruction& x = *a.instructions()[at(i)];
    const Instruction& y = *b.instructions()[at(i)];
    if (x.opcode() != y.opcode() || !(x.shape() == y.shape()) ||
        x.operand_count() != y.operand_count() || attributes_text(x) != attributes_text(y) ||
        x.attributes().parameter_number != y.attributes().parameter_number || !same_called(x, y)) {
      return false;
    }
    const Literal* literal = x.attributes().literal.get();
    if (literal != nullptr && (literal->is_elided() || !(*literal == *y.attributes().literal))) {
      return false;
    }
    for (int k = 0; k < x.operand_count(); ++k) {
      const auto it = twin.find(x.operand(k));
      if (it == twin.end() || it->second != y.operand(k)) return false;
    }
    twin.emplace(&x, &y);
  }
  const auto root = twin.find(a.root());
  return root != twin.end() && root->second == b.root();
}

Status misfit(std::string_view what) { return invalid_argument("attention: " + std::string(what)); }

}  // namespace

Result<AttentionSizes> attention_sizes(const AttentionForm& form, std::span<const Shape> operands) {
  if (static_cast<int>(operands.size()) != form.operand_count()) {
    return misfit(
        fmt::format("has {} operands, must have {}", operands.size(), form.operand_count()));
  }
  for (const Shape& shape : operands) {
    if (!shape.is_array()) return misfit("an operand is no array");
  }
  const int rank = operands[0].rank();
  if (rank < 2) return misfit("the queries are " + operands[0].to_string() + ", must be a matrix");
  const auto check = [&](std::size_t operand, const DimOrder& order) -> Status {
    const Shape& shape = operands[operand];
    if (shape.rank() == rank && is_permutation(order, rank) && is_half_or_f32(shape.dtype())) {
      return ok_status();
    }
    return misfit(fmt::format("operand {} is {}, must be of the queries' rank and f32, bf16 or f16",
                              operand, shape.to_string()));
  };
  PLIMSOLL_RETURN_IF_ERROR(check(0, form.query));
  PLIMSOLL_RETURN_IF_ERROR(check(1, form.key));
  PLIMSOLL_RETURN_IF_ERROR(check(2, form.value));
  const Ints q = ordered_dims(operands[0], form.query), k = ordered_dims(operands[1], form.key),
             v = ordered_dims(operands[2], form.value);
  AttentionSizes sizes;
  sizes.batch.assign(q.begin(), q.end() - 2);
  const auto n = at(rank);
  sizes.queries = q[n - 2];
  sizes.depth = q[n - 1];
  sizes.keys = k[n - 2];
  sizes.value_depth = v[n - 1];
  for (const Shape& shape : operands) {
    if (shape.element_count() == 0) return misfit("an operand is empty");
  }
  Ints wanted_k = sizes.batch, wanted_v = sizes.batch;
  wanted_k.insert(wanted_k.end(), {sizes.keys, sizes.depth});
  wanted_v.insert(wanted_v.end(), {sizes.keys, sizes.value_depth});
  if (k != wanted_k || v != wanted_v) return misfit("queries, keys and values do not fit");
  if (!is_half_or_f32(form.result_dtype)) return misfit("a result must be f32, bf16 or f16");

  Ints scores = sizes.batch;
  scores.insert(scores.end(), {sizes.queries, sizes.keys});
  const auto fits = [&](const Shape& shape, const std::optional<Ints>& dims) {
    if (static_cast<int>(dims->size()) != shape.rank()) return false;
    std::int64_t before = -1;
    for (int i = 0; i < shape.rank(); ++i) {
      const std::int64_t d = (*dims)[at(i)];
      if (d <= before || d >= rank || shape.dim(i) != scores[at(d)]) {
        return false;
      }
      before = d;
    }
    return true;
  };
  if (form.bias.has_value()) {
    const Shape& bias = operands[at(form.bias_operand())];
    if (!fits(bias, form.bias) || !is_half_or_f32(bias.dtype())) return misfit("the bias misfits");
  }
  if (form.mask.has_value()) {
    const Shape& mask = operands[at(form.mask_operand())];
    if (!fits(mask, form.mask) || mask.dtype() != DType::pred) return misfit("the mask misfits");
  }
  if (!form.backward) {
    if (!is_permutation(form.output, rank)) return misfit("the result has no order of dims");
    return sizes;
  }
  const auto first = at(form.output_operand());
  PLIMSOLL_RETURN_IF_ERROR(check(first, form.output));
  PLIMSOLL_RETURN_IF_ERROR(check(first + 1, form.output_gradient));
  Ints output = sizes.batch;
  output.insert(output.end(), {sizes.queries, sizes.value_depth});
  if (ordered_dims(operands[first], form.output) != output ||
      ordered_dims(operands[first + 1], form.output_gradient) != output) {
    return misfit("the output or its gradient do not fit");
  }
  scores.pop_back();
  const Shape row(DType::f32, Dims(scores));
  if (!(operands[first + 2] == row) || !(operands[first + 3] == row)) {
    return misfit("the maxima or sums do not fit");
  }
  if (!is_permutation(form.query_gradient, rank) || !is_permutation(form.key_gradient, rank) ||
      !is_permutation(form.value_gradient, rank) ||
      !(form.wants_query || form.wants_key || form.wants_value)) {
    return misfit("a gradient has no order of dims, or none is wanted");
  }
  return sizes;
}

Result<Computation*> add_attention_body(Module& module, const AttentionForm& form,
                                        std::span<const Shape> operands) {
  PLIMSOLL_ASSIGN_OR_RETURN(const AttentionSizes sizes, attention_sizes(form, operands));
  Computation* body = module.add_computation(form.backward ? "attention_backward" : "attention");
  PLIMSOLL_RETURN_IF_ERROR(BodyWriter(*body, form, sizes).write(operands));
  return body;
}

Attributes attention_attributes(const AttentionForm& form) {
  Attributes attributes;
  attributes.fusion_kind = FusionKind::custom;
  attributes.extra.emplace_back("backend_config", attention_text(form));
  return attributes;
}

bool claims_attention(const Instruction& instruction) {
  return instruction.opcode() == Opcode::fusion &&
         instruction.attributes().fusion_kind == FusionKind::custom &&
         is_attention_text(instruction.attributes().find_extra("backend_config"));
}

std::optional<AttentionForm> read_attention(const Instruction& instruction) {
  if (!claims_attention(instruction) || instruction.called_computations().size() != 1) {
    return std::nullopt;
  }
  std::vector<Shape> operands;
  for (const Instruction* operand : instruction.operands()) operands.push_back(operand->shape());
  const int rank = operands.empty() || !operands[0].is_array() ? 0 : operands[0].rank();
  const auto form =
      parse_attention_text(instruction.attributes().find_extra("backend_config"), rank);
  if (!form.has_value()) return std::nullopt;
  Module scratch("attention");
  const auto body = add_attention_body(scratch, *form, operands);
  if (!body.ok() || !same_body(*instruction.to_apply(), **body)) return std::nullopt;
  return form;
}

}  // namespace plimsoll::ir
