// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/record/attribute_words.h"

#include <algorithm>
#include <string>

namespace plimsoll::trace {
namespace {

using ir::Attributes;

// One bit per group of attributes that differs from its default.
enum Group : std::int64_t {
  kDimensions = 1 << 0,
  kSlice = 1 << 1,
  kSliceSizes = 1 << 2,
  kPadding = 1 << 3,
  kWindow = 1 << 4,
  kDot = 1 << 5,
  kConvolution = 1 << 6,
  kGather = 1 << 7,
  kScatter = 1 << 8,
  kGroups = 1 << 9,
  kPrecision = 1 << 10,
  kComparison = 1 << 11,
  kFlags = 1 << 12,
  kTupleIndex = 1 << 13,
  kCallee = 1 << 14,
};

// Reads what encode wrote.
class Reader {
 public:
  explicit Reader(std::span<const std::int64_t> words) : words_(words) {}
  std::int64_t next() { return words_[at_++]; }
  std::vector<std::int64_t> list() {
    const auto size = static_cast<std::size_t>(next());
    std::vector<std::int64_t> result(words_.begin() + static_cast<std::ptrdiff_t>(at_),
                                     words_.begin() + static_cast<std::ptrdiff_t>(at_ + size));
    at_ += size;
    return result;
  }

 private:
  std::span<const std::int64_t> words_;
  std::size_t at_ = 0;
};

template <typename T>
std::size_t longest(std::initializer_list<const std::vector<T>*> lists) {
  std::size_t size = 0;
  for (const auto* list : lists) size = std::max(size, list->size());
  return size;
}

// Padding, window and dimension-number groups of one operation never come together beyond this.
bool fits(const Attributes& a) {
  std::size_t size = longest<std::int64_t>(
      {&a.dimensions, &a.slice_starts, &a.slice_limits, &a.slice_strides, &a.slice_sizes});
  size = std::max({size, a.padding.size(), a.window.size()});
  if (a.dot != nullptr) {
    size = std::max(size, longest<std::int64_t>({&a.dot->lhs_contracting, &a.dot->rhs_contracting,
                                                 &a.dot->lhs_batch, &a.dot->rhs_batch}));
  }
  if (a.convolution != nullptr) {
    size = std::max(
        size, longest<std::int64_t>({&a.convolution->input_spatial, &a.convolution->kernel_spatial,
                                     &a.convolution->output_spatial}));
  }
  if (a.gather != nullptr) {
    size = std::max(
        size, longest<std::int64_t>({&a.gather->offset_dims, &a.gather->collapsed_slice_dims,
                                     &a.gather->start_index_map, &a.gather->operand_batching_dims,
                                     &a.gather->start_indices_batching_dims}));
  }
  if (a.scatter != nullptr) {
    size = std::max(size,
                    longest<std::int64_t>(
                        {&a.scatter->update_window_dims, &a.scatter->inserted_window_dims,
                         &a.scatter->scatter_dims_to_operand_dims, &a.scatter->input_batching_dims,
                         &a.scatter->scatter_indices_batching_dims}));
  }
  return size <= static_cast<std::size_t>(ir::kMaxRank);
}

}  // namespace

void AttributeWords::push_list(std::span<const std::int64_t> list) {
  push(static_cast<std::int64_t>(list.size()));
  for (const std::int64_t value : list) push(value);
}

Result<AttributeWords> AttributeWords::encode(ir::Opcode opcode, const OpAttributes& op) {
  const Attributes& a = op.attributes;
  if (!fits(a)) {
    return invalid_argument(std::string(ir::to_string(opcode)) + ": an attribute lists more than " +
                            std::to_string(ir::kMaxRank) + " dims");
  }
  AttributeWords out;
  const std::int64_t comparison = static_cast<std::int64_t>(a.comparison_direction) |
                                  static_cast<std::int64_t>(a.comparison_order) << 8;
  const std::int64_t flags = std::int64_t{a.indices_are_sorted} |
                             std::int64_t{a.unique_indices} << 1 | std::int64_t{a.is_stable} << 2 |
                             static_cast<std::int64_t>(a.rng_algorithm) << 8;
  std::int64_t groups = 0;
  if (!a.dimensions.empty()) groups |= kDimensions;
  if (!a.slice_starts.empty()) groups |= kSlice;
  if (!a.slice_sizes.empty()) groups |= kSliceSizes;
  if (!a.padding.empty()) groups |= kPadding;
  if (!a.window.empty()) groups |= kWindow;
  if (a.dot != nullptr) groups |= kDot;
  if (a.convolution != nullptr) groups |= kConvolution;
  if (a.gather != nullptr) groups |= kGather;
  if (a.scatter != nullptr) groups |= kScatter;
  if (a.feature_group_count != 1 || a.batch_group_count != 1) groups |= kGroups;
  if (a.exponent_bits != 8 || a.mantissa_bits != 23) groups |= kPrecision;
  if (comparison != 0) groups |= kComparison;
  if (flags != 0) groups |= kFlags;
  if (a.tuple_index != 0) groups |= kTupleIndex;
  if (op.callee.kind != Callee::Kind::none) groups |= kCallee;
  if (groups == 0) return out;

  out.push(groups);
  if (groups & kDimensions) out.push_list(a.dimensions);
  if (groups & kSlice) {
    out.push_list(a.slice_starts);
    out.push_list(a.slice_limits);
    out.push_list(a.slice_strides);
  }
  if (groups & kSliceSizes) out.push_list(a.slice_sizes);
  if (groups & kPadding) {
    out.push(static_cast<std::int64_t>(a.padding.size()));
    for (const ir::PaddingDimension& p : a.padding) {
      for (const std::int64_t word : {p.low, p.high, p.interior}) out.push(word);
    }
  }
  if (groups & kWindow) {
    out.push(static_cast<std::int64_t>(a.window.size()));
    for (const ir::WindowDimension& w : a.window) {
      for (const std::int64_t word :
           {w.size, w.stride, w.padding_low, w.padding_high, w.base_dilation, w.window_dilation,
            std::int64_t{w.reversal}}) {
        out.push(word);
      }
    }
  }
  if (groups & kDot) {
    for (const auto* list :
         {&a.dot->lhs_contracting, &a.dot->rhs_contracting, &a.dot->lhs_batch, &a.dot->rhs_batch}) {
      out.push_list(*list);
    }
  }
  if (groups & kConvolution) {
    const ir::ConvolutionDimensions& c = *a.convolution;
    for (const std::int64_t word : {c.input_batch, c.input_feature, c.kernel_input_feature,
                                    c.kernel_output_feature, c.output_batch, c.output_feature}) {
      out.push(word);
    }
    for (const auto* list : {&c.input_spatial, &c.kernel_spatial, &c.output_spatial}) {
      out.push_list(*list);
    }
  }
  if (groups & kGather) {
    const ir::GatherDimensions& g = *a.gather;
    for (const auto* list : {&g.offset_dims, &g.collapsed_slice_dims, &g.start_index_map,
                             &g.operand_batching_dims, &g.start_indices_batching_dims}) {
      out.push_list(*list);
    }
    out.push(g.index_vector_dim);
  }
  if (groups & kScatter) {
    const ir::ScatterDimensions& s = *a.scatter;
    for (const auto* list :
         {&s.update_window_dims, &s.inserted_window_dims, &s.scatter_dims_to_operand_dims,
          &s.input_batching_dims, &s.scatter_indices_batching_dims}) {
      out.push_list(*list);
    }
    out.push(s.index_vector_dim);
  }
  if (groups & kGroups) {
    out.push(a.feature_group_count);
    out.push(a.batch_group_count);
  }
  if (groups & kPrecision) {
    out.push(a.exponent_bits);
    out.push(a.mantissa_bits);
  }
  if (groups & kComparison) out.push(comparison);
  if (groups & kFlags) out.push(flags);
  if (groups & kTupleIndex) out.push(a.tuple_index);
  if (groups & kCallee) {
    out.push(static_cast<std::int64_t>(op.callee.kind) |
             static_cast<std::int64_t>(op.callee.combiner) << 8 |
             static_cast<std::int64_t>(op.callee.direction) << 16);
  }
  return out;
}

OpAttributes decode_words(std::span<const std::int64_t> words) {
  OpAttributes op;
  if (words.empty()) return op;
  Attributes& a = op.attributes;
  Reader in(words);
  const std::int64_t groups = in.next();
  if (groups & kDimensions) a.dimensions = in.list();
  if (groups & kSlice) {
    a.slice_starts = in.list();
    a.slice_limits = in.list();
    a.slice_strides = in.list();
  }
  if (groups & kSliceSizes) a.slice_sizes = in.list();
  if (groups & kPadding) {
    a.padding.resize(static_cast<std::size_t>(in.next()));
    for (ir::PaddingDimension& p : a.padding) {
      p.low = in.next();
      p.high = in.next();
      p.interior = in.next();
    }
  }
  if (groups & kWindow) {
    a.window.resize(static_cast<std::size_t>(in.next()));
    for (ir::WindowDimension& w : a.window) {
      w.size = in.next();
      w.stride = in.next();
      w.padding_low = in.next();
      w.padding_high = in.next();
      w.base_dilation = in.next();
      w.window_dilation = in.next();
      w.reversal = in.next() != 0;
    }
  }
  if (groups & kDot) {
    auto dot = std::make_shared<ir::DotDimensions>();
    dot->lhs_contracting = in.list();
    dot->rhs_contracting = in.list();
    dot->lhs_batch = in.list();
    dot->rhs_batch = in.list();
    a.dot = std::move(dot);
  }
  if (groups & kConvolution) {
    auto c = std::make_shared<ir::ConvolutionDimensions>();
    c->input_batch = in.next();
    c->input_feature = in.next();
    c->kernel_input_feature = in.next();
    c->kernel_output_feature = in.next();
    c->output_batch = in.next();
    c->output_feature = in.next();
    c->input_spatial = in.list();
    c->kernel_spatial = in.list();
    c->output_spatial = in.list();
    a.convolution = std::move(c);
  }
  if (groups & kGather) {
    auto g = std::make_shared<ir::GatherDimensions>();
    g->offset_dims = in.list();
    g->collapsed_slice_dims = in.list();
    g->start_index_map = in.list();
    g->operand_batching_dims = in.list();
    g->start_indices_batching_dims = in.list();
    g->index_vector_dim = in.next();
    a.gather = std::move(g);
  }
  if (groups & kScatter) {
    auto s = std::make_shared<ir::ScatterDimensions>();
    s->update_window_dims = in.list();
    s->inserted_window_dims = in.list();
    s->scatter_dims_to_operand_dims = in.list();
    s->input_batching_dims = in.list();
    s->scatter_indices_batching_dims = in.list();
    s->index_vector_dim = in.next();
    a.scatter = std::move(s);
  }
  if (groups & kGroups) {
    a.feature_group_count = in.next();
    a.batch_group_count = in.next();
  }
  if (groups & kPrecision) {
    a.exponent_bits = static_cast<int>(in.next());
    a.mantissa_bits = static_cast<int>(in.next());
  }
  if (groups & kComparison) {
    const std::int64_t comparison = in.next();
    a.comparison_direction = static_cast<ir::ComparisonDirection>(comparison & 0xff);
    a.comparison_order = static_cast<ir::ComparisonOrder>(comparison >> 8);
  }
  if (groups & kFlags) {
    const std::int64_t flags = in.next();
    a.indices_are_sorted = (flags & 1) != 0;
    a.unique_indices = (flags & 2) != 0;
    a.is_stable = (flags & 4) != 0;
    a.rng_algorithm = static_cast<ir::RngAlgorithm>(flags >> 8);
  }
  if (groups & kTupleIndex) a.tuple_index = in.next();
  if (groups & kCallee) {
    const std::int64_t callee = in.next();
    op.callee.kind = static_cast<Callee::Kind>(callee & 0xff);
    op.callee.combiner = static_cast<ir::Opcode>((callee >> 8) & 0xff);
    op.callee.direction = static_cast<ir::ComparisonDirection>((callee >> 16) & 0xff);
  }
  return op;
}

namespace {

// The computation called `name`, made by `fill(computation)` the first time.
template <typename Fill>
ir::Computation* named_computation(ir::Module& module, const std::string& name, Fill&& fill) {
  if (ir::Computation* found = module.find(name)) return found;
  ir::Computation* made = module.add_computation(name);
  fill(*made);
  return made;
}

ir::Computation* combine(ir::Module& module, ir::Opcode combiner, ir::DType dtype) {
  const std::string name =
      std::string(ir::to_string(combiner)) + "." + std::string(ir::to_string(dtype));
  return named_computation(module, name, [&](ir::Computation& c) {
    const ir::Shape scalar(dtype, {});
    ir::Instruction* a = c.add_parameter(0, scalar, "a");
    ir::Instruction* b = c.add_parameter(1, scalar, "b");
    c.add(combiner, scalar, {a, b});
  });
}

ir::Computation* compare(ir::Module& module, ir::ComparisonDirection direction,
                         std::span<const ir::DType> dtypes, bool total) {
  std::string name = (total ? "order" : "select") + std::to_string(static_cast<int>(direction));
  for (const ir::DType dtype : dtypes) name += "." + std::string(ir::to_string(dtype));
  return named_computation(module, name, [&](ir::Computation& c) {
    std::int64_t number = 0;
    for (const ir::DType dtype : dtypes) {
      c.add_parameter(number++, ir::Shape(dtype, {}), "a");
      c.add_parameter(number++, ir::Shape(dtype, {}), "b");
    }
    ir::Attributes attributes;
    attributes.comparison_direction = direction;
    if (total && ir::is_floating(dtypes[0])) {
      attributes.comparison_order = ir::ComparisonOrder::total;
    }
    c.add(ir::Opcode::compare, ir::Shape(ir::DType::pred, {}),
          {c.parameters()[0], c.parameters()[1]}, {}, std::move(attributes));
  });
}

}  // namespace

std::vector<ir::Computation*> called_computations(ir::Module& module, const Callee& callee,
                                                  std::span<const ir::DType> dtypes) {
  switch (callee.kind) {
    case Callee::Kind::none:
      return {};
    case Callee::Kind::combine:
      return {combine(module, callee.combiner, dtypes[0])};
    case Callee::Kind::replace:
      return {named_computation(module, "replace." + std::string(ir::to_string(dtypes[0])),
                                [&](ir::Computation& c) {
                                  const ir::Shape scalar(dtypes[0], {});
                                  c.add_parameter(0, scalar, "a");
                                  c.set_root(c.add_parameter(1, scalar, "b"));
                                })};
    case Callee::Kind::select_combine:
      return {compare(module, callee.direction, dtypes.first(1), false),
              combine(module, callee.combiner, dtypes[0])};
    case Callee::Kind::order:
      return {compare(module, callee.direction, dtypes, true)};
  }
  return {};
}

}  // namespace plimsoll::trace
