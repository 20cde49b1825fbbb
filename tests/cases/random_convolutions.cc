// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/random_convolutions.h"

#include <string>
#include <utility>
#include <vector>

#include "runtime/ir/shapes/builder.h"
#include "tests/cases/random.h"

namespace plimsoll::cases {
namespace {

using ir::Attributes;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

// Where batch, channels and the two spatial dimensions stand in an array.
struct Places {
  std::int64_t batch, channel, row, column;
};
constexpr Places kPlaces[] = {{0, 1, 2, 3}, {0, 3, 1, 2}, {0, 1, 2, 3}, {3, 2, 0, 1}, {1, 0, 2, 3}};

class Network {
 public:
  explicit Network(std::uint64_t seed)
      : random_(seed), module_(std::make_unique<ir::Module>("network")) {
    entry_ = module_->add_computation("entry");
    module_->set_entry(entry_);
    places_ = random_.pick<Places>(kPlaces);
  }

  std::unique_ptr<ir::Module> make() {
    batch_ = random_.between(1, 3);
    Instruction* x =
        parameter({batch_, random_.between(1, 5), random_.between(6, 9), random_.between(6, 9)});
    const std::int64_t layers = random_.between(1, 4);
    for (std::int64_t i = 0; i < layers; ++i) {
      Instruction* before = x;
      x = convolve(x, random_.between(1, 9));
      const std::int64_t steps = random_.between(0, 3);
      for (std::int64_t step = 0; step < steps; ++step) x = something(x);
      if (random_.chance(0.4)) results_.push_back(filter_gradient(before));
      if (random_.chance(0.3)) results_.push_back(scalar_mean(x));
    }
    results_.push_back(random_.chance(0.5) ? flattened(x) : x);
    entry_->add_tuple(results_);
    return std::move(module_);
  }

 private:
  std::int64_t size(const Instruction* x, std::int64_t place) const {
    return x->shape().dim(static_cast<int>(place));
  }
  std::int64_t channels(const Instruction* x) const { return size(x, places_.channel); }

  Instruction* op(Opcode opcode, std::vector<Instruction*> operands, Attributes attributes = {},
                  std::vector<ir::Computation*> called = {}, const Shape* given = nullptr) {
    return ir::build(*entry_, opcode, std::move(operands), std::move(attributes), std::move(called),
                     given)
        .value();
  }

  Instruction* parameter(
      const std::vector<std::int64_t>& sizes) {  // batch, channels, rows, columns
    std::vector<std::int64_t> dims(4);
    const std::int64_t at[] = {places_.batch, places_.channel, places_.row, places_.column};
    for (std::size_t i = 0; i < 4; ++i) dims[static_cast<std::size_t>(at[i])] = sizes[i];
    return raw_parameter(ir::Dims(dims));
  }
  Instruction* raw_parameter(const ir::Dims& dims) {
    return entry_->add_parameter(static_cast<std::int64_t>(entry_->parameters().size()),
                                 Shape(DType::f32, dims));
  }
  Instruction* scalar(double value) {
    ir::Literal literal(Shape(DType::f32, {}));
    literal.set(0, value);
    return entry_->add_constant(std::move(literal));
  }
  Instruction* broadcast(Instruction* value, const Instruction* like,
                         std::vector<std::int64_t> dimensions) {
    Attributes attributes;
    attributes.dimensions = std::move(dimensions);
    return op(Opcode::broadcast, {value}, attributes, {}, &like->shape());
  }

  ir::ConvolutionDimensions labels() const {
    ir::ConvolutionDimensions labels;
    labels.input_batch = labels.output_batch = places_.batch;
    labels.input_feature = labels.output_feature = places_.channel;
    labels.input_spatial = labels.output_spatial = {places_.row, places_.column};
    labels.kernel_output_feature = 0;
    labels.kernel_input_feature = 1;
    labels.kernel_spatial = {2, 3};
    return labels;
  }

  // Forward, or as an input's gradient: over a dilated base, the window reversed.
  Instruction* convolve(Instruction* x, std::int64_t outputs) {
    const bool gradient = random_.chance(0.25);
    Attributes attributes;
    attributes.convolution = std::make_shared<ir::ConvolutionDimensions>(labels());
    const std::int64_t kernel = random_.between(1, 3);
    for (const std::int64_t place : {places_.row, places_.column}) {
      ir::WindowDimension w;
      w.size = kernel;
      w.padding_low = w.padding_high = kernel / 2;
      if (gradient) {
        w.base_dilation = size(x, place) < 6 ? 2 : 1;
        w.reversal = true;
      } else {
        w.stride = size(x, place) > 6 && random_.chance(0.3) ? 2 : 1;
      }
      attributes.window.push_back(w);
    }
    Instruction* filter = raw_parameter({outputs, channels(x), kernel, kernel});
    return op(Opcode::convolution, {x, filter}, attributes);
  }

  // A filter's gradient: the features of `x` as the batch, its batch as the features. At times that
  // of a transposed convolution, where `x` is dilated.
  Instruction* filter_gradient(Instruction* x) {
    const std::int64_t outputs = random_.between(1, 6);
    const std::int64_t dilation = outputs % 3 == 0 ? 2 : 1;
    Instruction* gradient = parameter(
        {batch_, outputs, dilation * size(x, places_.row), dilation * size(x, places_.column)});
    ir::ConvolutionDimensions l;
    l.input_batch = places_.channel;
    l.input_feature = places_.batch;
    l.input_spatial = {places_.row, places_.column};
    l.kernel_input_feature = places_.batch;
    l.kernel_output_feature = places_.channel;
    l.kernel_spatial = {places_.row, places_.column};
    l.output_batch = 1;
    l.output_feature = 0;
    l.output_spatial = {2, 3};
    Attributes attributes;
    attributes.convolution = std::make_shared<ir::ConvolutionDimensions>(l);
    for (const std::int64_t place : {places_.row, places_.column}) {
      ir::WindowDimension w;
      w.size = size(gradient, place);
      w.padding_low = 1;
      w.padding_high = w.base_dilation = dilation;
      attributes.window.push_back(w);
    }
    return op(Opcode::convolution, {x, gradient}, attributes);
  }

  Instruction* something(Instruction* x) {
    switch (random_.below(9)) {
      case 0:
        return op(Opcode::add, {x, broadcast(raw_parameter({channels(x)}), x, {places_.channel})});
      case 1:
        return op(Opcode::maximum, {x, broadcast(scalar(0), x, {})});
      case 2:
        return pooled(x);
      case 3: {
        Attributes attributes;
        attributes.padding.resize(4);
        attributes.padding[static_cast<std::size_t>(places_.row)] = {1, 0, 0};
        attributes.padding[static_cast<std::size_t>(places_.column)] = {0, 2, 0};
        return op(Opcode::pad, {x, scalar(0.5)}, attributes);
      }
      case 4: {
        Attributes attributes;
        attributes.slice_starts = {0, 0, 0, 0};
        attributes.slice_limits = x->shape().dims().to_vector();
        attributes.slice_strides = {1, 1, 1, 1};
        const auto row = static_cast<std::size_t>(places_.row);
        if (attributes.slice_limits[row] > 4) attributes.slice_starts[row] = 1;
        return op(Opcode::slice, {x}, attributes);
      }
      case 5: {
        Attributes attributes;
        attributes.dimensions = {places_.channel};
        return op(Opcode::concatenate, {x, op(Opcode::negate, {x})}, attributes);
      }
      case 6:
        return normalized(x);
      case 7: {
        Attributes attributes;
        attributes.dimensions = {places_.row};
        return op(Opcode::reverse, {x}, attributes);
      }
      default:
        return op(Opcode::multiply, {x, x});
    }
  }

  // Less its mean over all but the channels.
  Instruction* normalized(Instruction* x) {
    Attributes attributes;
    for (std::int64_t d = 0; d < 4; ++d) {
      if (d != places_.channel) attributes.dimensions.push_back(d);
    }
    Instruction* sum = op(Opcode::reduce, {x, scalar(0)}, attributes,
                          {ir::scalar_computation(*module_, Opcode::add, DType::f32)});
    Instruction* mean = op(Opcode::multiply, {sum, broadcast(scalar(0.125), sum, {})});
    return op(Opcode::subtract, {x, broadcast(mean, x, {places_.channel})});
  }

  Instruction* pooled(Instruction* x) {
    Attributes attributes;
    attributes.window.resize(4);
    for (const std::int64_t place : {places_.row, places_.column}) {
      ir::WindowDimension& w = attributes.window[static_cast<std::size_t>(place)];
      w.size = random_.between(1, 3);
      w.padding_low = w.size / 2;
      w.padding_high = w.size - 1 - w.padding_low;
    }
    Instruction* low = scalar(-1e30);
    Instruction* result = op(Opcode::reduce_window, {x, low}, attributes,
                             {ir::scalar_computation(*module_, Opcode::maximum, DType::f32)});
    if (random_.chance(0.5)) return result;
    ir::Computation* select = module_->find("ge");
    if (select == nullptr) {
      select = module_->add_computation("ge");
      Instruction* a = select->add_parameter(0, Shape(DType::f32, {}));
      Instruction* b = select->add_parameter(1, Shape(DType::f32, {}));
      Attributes direction;
      direction.comparison_direction = ir::ComparisonDirection::ge;
      (void)ir::build(*select, Opcode::compare, {a, b}, direction).value();
    }
    return op(Opcode::select_and_scatter, {x, result, scalar(0)}, attributes,
              {select, ir::scalar_computation(*module_, Opcode::add, DType::f32)});
  }

  // Over everything: in the order in which the dimensions are written.
  Instruction* scalar_mean(Instruction* x) {
    Attributes attributes;
    attributes.dimensions = {0, 1, 2, 3};
    return op(Opcode::reduce, {x, scalar(0)}, attributes,
              {ir::scalar_computation(*module_, Opcode::add, DType::f32)});
  }

  Instruction* flattened(Instruction* x) {
    const Shape flat(DType::f32, {x->shape().element_count()});
    return op(Opcode::reshape, {x}, {}, {}, &flat);
  }

  Random random_;
  std::unique_ptr<ir::Module> module_;
  ir::Computation* entry_;
  Places places_{};
  std::int64_t batch_ = 1;
  std::vector<Instruction*> results_;
};

}  // namespace

std::unique_ptr<ir::Module> random_convolutions(std::uint64_t seed) { return Network(seed).make(); }

}  // namespace plimsoll::cases
