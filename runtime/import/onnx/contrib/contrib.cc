// SPDX-License-Identifier: Apache-2.0
// Operators of com.microsoft: what ONNX Runtime's tools for quantization write, and what it makes
// of models that it has optimized.
#include <fmt/format.h>
#include <cmath>
#include <numeric>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/node_context.h"
#include "runtime/import/onnx/ops/quantization.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;
using ir::Opcode;

// What an operator of the standard makes of these arrays, with the attributes of this node.
Array standard(NodeContext& n, std::string_view name, const std::vector<Array>& inputs,
               std::int64_t version = 17) {
  std::vector<Value> values;
  for (const Array& input : inputs) values.push_back(Value::of(input));
  NodeContext inner = n.with(std::move(values), version);
  operators().find(name)->second.translate(inner);
  if (!n.e.status().ok() || inner.outputs().empty()) return {};
  return inner.array_of(inner.outputs()[0]);
}

Array if_there(NodeContext& n, int i) { return n.has(i) ? n.in(i) : Array(); }

// Input `i`, which its scale and zero point follow, as floats.
Array real_input(NodeContext& n, int i) {
  return dequantized(n, n.in(i), n.in(i + 1), if_there(n, i + 2), 1);
}

// The result, by the scale and zero point that inputs `i` and `i + 1` are.
void set_quantized(NodeContext& n, const Array& made, int i) {
  const Array zero = if_there(n, i + 1);
  const DType dtype = zero.is_null() ? n.in(0).dtype() : zero.dtype();
  n.set(0, quantized(n, made, n.in(i), zero, dtype, 1));
}

// An operator of the standard on one array, or on two.
Handler quantized_unary(const char* name) {
  return [name](NodeContext& n) {
    set_quantized(n, standard(n, name, {real_input(n, 0)}, n.number("opset", 13)), 3);
  };
}
Handler quantized_binary(const char* name) {
  return [name](NodeContext& n) {
    set_quantized(n, standard(n, name, {real_input(n, 0), real_input(n, 3)}), 6);
  };
}

// Pooling, also of arrays whose channels come last.
Handler quantized_pool(const char* name) {
  return [name](NodeContext& n) {
    const Array x = real_input(n, 0);
    if (n.number("channels_last", 0) == 0 || x.rank() < 3) {
      return set_quantized(n, standard(n, name, {x}), 3);
    }
    Sizes first(at(x.rank())), last(at(x.rank()));
    std::iota(first.begin() + 2, first.end(), 1);
    first[1] = x.rank() - 1;
    std::iota(last.begin() + 1, last.end(), 2);
    last.back() = 1;
    set_quantized(n, n.e.transpose(standard(n, name, {n.e.transpose(x, first)}), last), 3);
  };
}

void quantized_concatenation(NodeContext& n) {
  std::vector<Array> parts;
  for (int i = 2; i + 1 < n.input_count(); i += 3) parts.push_back(real_input(n, i));
  if (parts.empty()) return n.e.fail("has nothing to concatenate");
  const Array zero = if_there(n, 1);
  const DType dtype = zero.is_null() ? n.in(2).dtype() : zero.dtype();
  n.set(0, quantized(n, standard(n, "Concat", parts), n.in(0), zero, dtype, 1));
}

void quantized_where(NodeContext& n) {
  const Array made = n.e.select(n.in(0), real_input(n, 1), real_input(n, 4));
  n.set(0, quantized(n, made, n.in(7), if_there(n, 8), n.in(1).dtype(), 1));
}

// The scale of a product: one, or one for each column.
Array scale_of(NodeContext& n, int i) {
  const Array scale = n.e.convert(n.in(i), DType::f32);
  return scale.element_count() == 1 ? n.e.reshape(scale, {}) : scale;
}

void quantized_gemm(NodeContext& n) {
  Array a = whole_numbers(n, n.in(0), if_there(n, 2), -2);
  const bool is_turned = n.number("transB", 0) != 0;
  const Array b = whole_numbers(n, n.in(3), if_there(n, 5), is_turned ? 0 : 1);
  if (a.rank() != 2 || b.rank() != 2) return n.e.fail("takes matrices");
  const std::int64_t left = n.number("transA", 0) != 0 ? 0 : 1;
  Array sums = n.e.dot(a, b, {{left}, {is_turned ? 1 : 0}, {}, {}});
  if (n.has(6)) sums = sums + n.in(6);
  const Array made =
      n.e.convert(sums, DType::f32) * (scale_of(n, 1) * scale_of(n, 4) * n.real("alpha", 1));
  if (!n.has(7)) return n.set(0, made);
  n.set(0, quantized(n, made, n.in(7), if_there(n, 8), n.has(8) ? n.in(8).dtype() : n.in(0).dtype(),
                     1));
}

// Floats of a product of integers by input 1, whose scale, zero points and bias are inputs.
Array real_product(NodeContext& n, const Array& a, const Array& a_scale, const Array& a_zero,
                   int b_scale, int b_zero, int bias) {
  const Array sums = whole_product(n, a, a_zero, 1, b_zero);
  Array made = n.e.convert(sums, DType::f32) * (a_scale * scale_of(n, b_scale));
  return n.has(bias) ? made + n.in(bias) : made;
}

void integer_product_as_float(NodeContext& n) {
  n.set(0, real_product(n, n.in(0), scale_of(n, 2), if_there(n, 4), 3, 5, 6));
}

void dynamically_quantized_product(NodeContext& n) {
  NodeContext inner = n.with({n.value(0)}, 11);
  operators().find("DynamicQuantizeLinear")->second.translate(inner);
  std::vector<Value>& made = inner.outputs();
  if (!n.e.status().ok() || made.size() < 3) return;
  n.set(0, real_product(n, inner.array_of(made[0]), inner.array_of(made[1]),
                        inner.array_of(made[2]), 2, 3, 4));
}

// The last two dims in the other order.
Array turned(Emit& e, const Array& x) {
  if (x.rank() < 2) return x;
  Sizes order(at(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return e.transpose(x, order);
}

// The first dim behind the ones that follow, but the last.
Array batch_first(Emit& e, const Array& x) {
  if (x.rank() < 3) return x;
  Sizes order(at(x.rank()));
  std::iota(order.begin(), order.end(), 1);
  order[order.size() - 2] = 0;
  order.back() = x.rank() - 1;
  return e.transpose(x, order);
}

void fused_matmul(NodeContext& n) {
  const auto operand = [&](int i, const char* batch, const char* turns) {
    const Array x = n.number(batch, 0) != 0 ? batch_first(n.e, n.in(i)) : n.in(i);
    return n.number(turns, 0) != 0 ? turned(n.e, x) : x;
  };
  const Array made =
      n.e.matmul(operand(0, "transBatchA", "transA"), operand(1, "transBatchB", "transB"));
  const double alpha = n.real("alpha", 1);
  n.set(0, alpha == 1 ? made : made * alpha);
}

// What is fused behind a product, by its name; numbers are `first` and `second`, if any.
Array activated(NodeContext& n, const Array& x, const std::vector<double>& numbers) {
  const std::string name = n.text("activation", "");
  const auto number = [&](std::size_t i, double fallback) {
    return i < numbers.size() ? numbers[i] : fallback;
  };
  const auto scalar = [&](double value) { return n.e.scalar(value, x.dtype()); };
  const auto between = [&](const Array& y, double low, double high) {
    return n.e.minimum(n.e.maximum(y, scalar(low)), scalar(high));
  };
  if (name.empty()) return x;
  if (name == "Relu") return n.e.maximum(x, scalar(0));
  if (name == "Tanh") return tanh(x);
  if (name == "Sigmoid") return n.e.unary(Opcode::logistic, x);
  if (name == "LeakyRelu") return n.e.select(x < 0, x * number(0, 0.01F), x);
  if (name == "Clip") return between(x, number(0, -HUGE_VAL), number(1, HUGE_VAL));
  if (name == "HardSigmoid") return between(x * number(0, 0.2F) + number(1, 0.5), 0, 1);
  n.e.fail(unimplemented("activation '" + name + "'"));
  return {};
}

void fused_convolution(NodeContext& n) {
  std::vector<Array> inputs{n.in(0), n.in(1)};
  if (n.has(2)) inputs.push_back(n.in(2));
  Array made = standard(n, "Conv", inputs);
  if (n.has(3)) made = made + n.in(3);
  n.set(0, activated(n, made, n.reals("activation_params")));
}

void fused_gemm(NodeContext& n) {
  std::vector<Array> inputs{n.in(0), n.in(1)};
  if (n.has(2)) inputs.push_back(n.in(2));
  std::vector<double> numbers;
  for (const char* name : {"activation_alpha", "activation_beta"}) {
    if (n.attribute(name) != nullptr) numbers.push_back(n.real(name, 0));
  }
  n.set(0, activated(n, standard(n, "Gemm", inputs), numbers));
}

Array half_by_tanh(const Array& x) {
  return x * 0.5 * (1.0 + tanh((x + x * x * x * 0.044715) * std::sqrt(2 / M_PI)));
}

// Normalized along the last dim, by mean and deviation (`centers`) or by the root of the mean
// square; input `scale` of the node, and `shift` where it has one, are applied.
Array normalized(NodeContext& n, const Array& given, bool centers, int scale, int shift) {
  if (given.rank() < 1) {
    n.e.fail("takes no scalars");
    return {};
  }
  const Array wide = given.dtype() == DType::f64 ? given : n.e.convert(given, DType::f32);
  const Sizes last{given.rank() - 1};
  const Array x = centers ? wide - n.e.mean(wide, last, true) : wide;
  const Array square = n.e.mean(x * x, last, true) + n.real("epsilon", 1e-12F);
  const Array made = n.e.convert(x / sqrt(square), given.dtype()) * n.in(scale);
  return centers && n.has(shift) ? made + n.in(shift) : made;
}

// Sums of an array, what skips it and a bias, normalized.
Handler skip_normalization(bool centers) {
  return [centers](NodeContext& n) {
    const int bias = centers ? 4 : 3;
    Array sum = n.in(0) + n.in(1);
    if (n.has(bias)) sum = sum + n.in(bias);
    n.set(0, normalized(n, sum, centers, 2, 3));
    if (n.wants(3)) n.set(3, sum);
  };
}

// Rows of words, of positions and of segments, normalized.
void embedding(NodeContext& n) {
  Emit& e = n.e;
  const Array words = n.in(0);
  if (words.rank() != 2) return e.fail("takes words of rank 2");
  const Array positions =
      n.has(8) ? e.broadcast_to(n.in(8), words.dims()) : e.iota(DType::s64, words.dims(), 1);
  Array sum = e.take(n.in(2), words, 0) + e.take(n.in(3), positions, 0);
  if (n.has(1) && n.has(4)) sum = sum + e.take(n.in(4), n.in(1), 0);
  n.set(0, normalized(n, sum, true, 5, 6));
  if (n.wants(1)) {  // how many words a mask leaves
    n.set(1, n.has(7) ? e.sum(e.convert(n.in(7), DType::s32), {1}, false)
                      : e.splat(0, DType::s32, {words.dim(0)}));
  }
  if (n.wants(2)) n.set(2, sum);
}

// By floats, which the weights stand for: the input and the state are not rounded to bytes.
void dynamically_quantized_lstm(NodeContext& n) {
  const auto weights = [&](int i, int scale) {
    const Array whole = n.in(i);  // [directions, in, 4 * hidden]
    const auto each = [&](const Array& x) {
      return x.is_null() || x.rank() == 0
                 ? x
                 : n.e.reshape(x, {whole.dim(0), 1, x.element_count() / whole.dim(0)});
    };
    Array made = n.e.convert(whole, DType::s32);
    if (n.has(scale + 1)) made = made - each(n.e.convert(n.in(scale + 1), DType::s32));
    return turned(n.e, n.e.convert(made, DType::f32) * each(n.in(scale)));
  };
  for (const int i : {1, 2}) {
    if (n.in(i).rank() != 3 || n.in(i).dim(0) < 1) {
      return n.e.fail("takes weights of rank 3, of one direction or two");
    }
  }
  std::vector<Value> values{n.value(0), Value::of(weights(1, 8)), Value::of(weights(2, 10))};
  for (int i = 3; i < 8; ++i) values.push_back(n.has(i) ? n.value(i) : Value::nothing());
  if (!n.e.status().ok()) return;
  NodeContext inner = n.with(std::move(values), 17);
  operators().find("LSTM")->second.translate(inner);
  for (std::size_t i = 0; i < inner.outputs().size(); ++i) {
    n.set(static_cast<int>(i), inner.outputs()[i]);
  }
}

// Positions come before the caches, and may be the first row's alone.
void rotation(NodeContext& n) {
  const Array x = n.in(0), cosine = n.in(2);
  Array positions = n.e.convert(n.in(1), DType::s64);
  if (x.rank() != 3 && x.rank() != 4) return n.e.fail("takes arrays of rank 3 or 4");
  if (n.number("is_packed_batching", 0) != 0) {
    return n.e.fail(unimplemented("packed batches"));
  }
  const Sizes rows{x.dim(0), x.dim(x.rank() - 2)};
  if (positions.element_count() == 1 && rows != positions.dims()) {
    positions = n.e.iota(DType::s64, rows, 1) + n.e.reshape(positions, {});
  }
  if (x.rank() == 3 && n.number("num_heads", 0) == 0) {  // as wide as the caches say
    const std::int64_t depth = 2 * cosine.dim(cosine.rank() - 1);
    if (depth < 1 || x.dim(2) % depth != 0) {
      return n.e.fail("the columns are no number of heads");
    }
    const std::int64_t heads = x.dim(2) / depth;
    const Array apart =
        n.e.transpose(n.e.reshape(x, {rows[0], rows[1], heads, depth}), {0, 2, 1, 3});
    const Array made = standard(n, "RotaryEmbedding", {apart, cosine, n.in(3), positions}, 23);
    return n.set(0, n.e.reshape(n.e.transpose(made, {0, 2, 1, 3}), x.dims()));
  }
  n.set(0, standard(n, "RotaryEmbedding", {x, cosine, n.in(3), positions}, 23));
}

}  // namespace

void add_contrib(OpTable& t) {
  const auto add = [&](const char* name, Handler handler) {
    t[std::string("com.microsoft:") + name] = {std::move(handler)};
  };
  add("QLinearAdd", quantized_binary("Add"));
  add("QLinearMul", quantized_binary("Mul"));
  add("QLinearSigmoid", quantized_unary("Sigmoid"));
  add("QLinearLeakyRelu", quantized_unary("LeakyRelu"));
  add("QLinearSoftmax", quantized_unary("Softmax"));
  add("QLinearReduceMean", quantized_unary("ReduceMean"));
  add("QLinearAveragePool", quantized_pool("AveragePool"));
  add("QLinearGlobalAveragePool", quantized_pool("GlobalAveragePool"));
  add("QLinearConcat", quantized_concatenation);
  add("QLinearWhere", quantized_where);
  add("QGemm", quantized_gemm);
  add("DynamicQuantizeMatMul", dynamically_quantized_product);
  add("MatMulIntegerToFloat", integer_product_as_float);
  add("FusedMatMul", fused_matmul);
  add("FusedConv", fused_convolution);
  add("FusedGemm", fused_gemm);
  add("BiasGelu", [](NodeContext& n) { n.set(0, standard(n, "Gelu", {n.in(0) + n.in(1)}, 20)); });
  add("FastGelu",
      [](NodeContext& n) { n.set(0, half_by_tanh(n.has(1) ? n.in(0) + n.in(1) : n.in(0))); });
  add("QuickGelu", [](NodeContext& n) {
    const Array x = n.in(0);
    n.set(0, x * n.e.unary(Opcode::logistic, x * n.real("alpha", 1.702F)));
  });
  add("SkipLayerNormalization", skip_normalization(true));
  add("SkipSimplifiedLayerNormalization", skip_normalization(false));
  add("EmbedLayerNormalization", embedding);
  add("DynamicQuantizeLSTM", dynamically_quantized_lstm);
  add("RotaryEmbedding", rotation);
  // Of the standard's domain in its files, but not of the standard.
  t["SimplifiedLayerNormalization"] = {
      [](NodeContext& n) { n.set(0, standard(n, "RMSNormalization", {n.in(0), n.in(1)}, 23)); }};
}

}  // namespace plimsoll::onnx
