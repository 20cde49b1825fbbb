// SPDX-License-Identifier: Apache-2.0
#include "runtime/autograd/gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "runtime/autograd/rules.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/op_cases.h"
#include "tests/cases/replace_all.h"
#include "tests/trace/replay.h"

namespace plimsoll::trace {
namespace {

using cases::OpCase;
using cases::replace_all;

// The case with every float widened, so that differences of values are worth comparing.
std::string in_f64(const std::string& hlo) {
  std::string text = replace_all(hlo, "bf16", "f64");
  text = replace_all(text, "f16", "f64");
  return replace_all(text, "f32", "f64");
}

std::unique_ptr<Context> make_context() {
  auto context = Context::create({});
  EXPECT_TRUE(context.ok()) << context.status().to_string();
  return std::move(context).value();
}

double dot(const ir::Literal& a, const ir::Literal& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.shape().element_count(); ++i) sum += a.at(i) * b.at(i);
  return sum;
}

ir::Literal moved(const ir::Literal& x, const ir::Literal& direction, double step) {
  ir::Literal out = x;
  for (std::int64_t i = 0; i < x.shape().element_count(); ++i) {
    out.set(i, x.at(i) + step * direction.at(i));
  }
  return out;
}

// d/dh <weights, f(x + h * direction)> at 0, by central differences (five points).
double slope(const ir::Module& module, std::vector<ir::Literal> arguments, std::size_t parameter,
             const ir::Literal& direction, const ir::Literal& weights) {
  const ir::Literal x = arguments[parameter];
  const double h = 1e-4;
  const auto value = [&](double step) {
    arguments[parameter] = moved(x, direction, step);
    auto result = ir::interpret(module, arguments);
    EXPECT_TRUE(result.ok()) << result.status().to_string();
    return dot(*result, weights);
  };
  return (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h);
}

void check_case(Context& context, const OpCase& test, std::set<ir::Opcode>& seen) {
  SCOPED_TRACE(test.name);
  auto module = ir::parse_module(in_f64(test.hlo), test.name);
  if (!module.ok()) return;  // a conversion that f64 makes meaningless
  const auto arguments = cases::random_arguments(**module, 11, test.ranges);
  Replay replay(context);
  const auto outputs = replay.run(**module, arguments);
  if (!outputs || outputs->size() != 1) return;
  const NodeRef& output = outputs->front();
  if (output->dtype != ir::DType::f64) return;
  const ir::Literal weights = cases::random_literal(output->shape(), 12);
  const NodeRef weight_node = context.from_host(weights.shape(), weights.bytes());
  std::vector<Node*> wrt;
  for (const int parameter : test.differentiable) {
    wrt.push_back(replay.parameters[static_cast<std::size_t>(parameter)].get());
  }
  Node* const of[] = {output.get()};
  Node* const by[] = {weight_node.get()};
  const auto gradients =
      autograd::gradients(context.recorder(), of, by, wrt, autograd::Unused::zeros);
  ASSERT_TRUE(gradients.ok()) << gradients.status().to_string();
  for (std::size_t k = 0; k < wrt.size(); ++k) {
    const auto parameter = static_cast<std::size_t>(test.differentiable[k]);
    const auto gradient = read_literal(context, (*gradients)[k].get());
    ASSERT_TRUE(gradient.ok()) << gradient.status().to_string();
    ASSERT_EQ(gradient->shape(), arguments[parameter].shape());
    for (std::uint64_t seed = 21; seed < 23; ++seed) {
      const ir::Literal direction =
          cases::random_literal(arguments[parameter].shape(), seed, {-1, 1});
      const double expected = slope(**module, arguments, parameter, direction, weights);
      const double actual = dot(*gradient, direction);
      const double scale = std::max({1.0, std::abs(expected), std::abs(actual)});
      EXPECT_NEAR(actual, expected, 2e-6 * scale) << "parameter " << parameter;
    }
  }
  for (const auto& instruction : (*module)->entry()->instructions()) {
    seen.insert(instruction->opcode());
  }
}

TEST(Gradient, AgreesWithFiniteDifferencesForEveryRule) {
  std::set<ir::Opcode> seen;
  auto context = make_context();
  for (const OpCase& test : cases::op_cases()) {
    if (!test.differentiable.empty()) check_case(*context, test, seen);
  }
  const OpCase remainder{"remainder",
                         "HloModule m\nENTRY main {\n a = f64[7] parameter(0)\n b = f64[7] "
                         "parameter(1)\n ROOT r = f64[7] remainder(a, b)\n}\n",
                         0,
                         {0, 1},
                         {{-5, 5}, {1.5, 2}}};
  check_case(*context, remainder, seen);
  // Piecewise constant results and those that f64 text cannot tell from identities need no case;
  // those of several participants are in tests/examples.
  const std::set<ir::Opcode> exempt = {ir::Opcode::sign,
                                       ir::Opcode::ceil,
                                       ir::Opcode::floor,
                                       ir::Opcode::round_nearest_afz,
                                       ir::Opcode::round_nearest_even,
                                       ir::Opcode::reduce_precision,
                                       ir::Opcode::opt_barrier,
                                       ir::Opcode::all_reduce,
                                       ir::Opcode::all_gather,
                                       ir::Opcode::reduce_scatter};
  for (int i = 0; i < ir::opcode_count(); ++i) {
    const auto opcode = static_cast<ir::Opcode>(i);
    if (autograd::find_rule(opcode) == nullptr || exempt.contains(opcode)) continue;
    EXPECT_TRUE(seen.contains(opcode)) << ir::to_string(opcode) << " has a rule and no case";
  }
}

// f as the text of an entry computation's body, differentiated by parameter 0 at `x`.
std::vector<double> gradient_of(const std::string& body, const ir::Literal& x) {
  auto context = make_context();
  auto module = ir::parse_module(
      "HloModule m\nmaximum_f64 { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT r = f64[] "
      "maximum(a, b) }\nmultiply_f64 { c = f64[] parameter(0)\n d = f64[] parameter(1)\n ROOT s = "
      "f64[] multiply(c, d) }\nadd_f64 { e = f64[] parameter(0)\n f = f64[] parameter(1)\n ROOT t "
      "= f64[] add(e, f) }\nENTRY main {\n" +
      body + "}\n");
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  Replay replay(*context);
  const auto outputs = replay.run(**module, {x});
  EXPECT_TRUE(outputs.has_value()) << replay.why_not;
  Node* const of[] = {outputs->front().get()};
  Node* const wrt[] = {replay.parameters[0].get()};
  const auto gradients =
      autograd::gradients(context->recorder(), of, {}, wrt, autograd::Unused::error);
  EXPECT_TRUE(gradients.ok()) << gradients.status().to_string();
  const auto gradient = read_literal(*context, (*gradients)[0].get());
  EXPECT_TRUE(gradient.ok()) << gradient.status().to_string();
  std::vector<double> values;
  for (std::int64_t i = 0; i < gradient->shape().element_count(); ++i) {
    values.push_back(gradient->at(i));
  }
  return values;
}

ir::Literal vector_of(std::vector<double> values) {
  return ir::Literal::array<double>(ir::Dims{static_cast<std::int64_t>(values.size())}, values);
}

TEST(Gradient, OfMaximumIsSharedByTies) {
  EXPECT_EQ(gradient_of("x = f64[4] parameter(0)\n z = f64[] constant(-1e30)\n ROOT m = f64[] "
                        "reduce(x, z), dimensions={0}, to_apply=maximum_f64\n",
                        vector_of({3, 1, 3, 2})),
            (std::vector<double>{0.5, 0, 0.5, 0}));
}

TEST(Gradient, OfProductIsRightAtZeros) {
  const std::string product =
      "x = f64[3] parameter(0)\n z = f64[] constant(1)\n ROOT m = f64[] reduce(x, z), "
      "dimensions={0}, to_apply=multiply_f64\n";
  EXPECT_EQ(gradient_of(product, vector_of({2, 0, 5})), (std::vector<double>{0, 10, 0}));
  EXPECT_EQ(gradient_of(product, vector_of({0, 0, 5})), (std::vector<double>{0, 0, 0}));
}

TEST(Gradient, OfClampedGatherGoesWhereTheValueCameFrom) {
  EXPECT_EQ(gradient_of("x = f64[3] parameter(0)\n i = s32[2,1] constant({{7},{-4}})\n ROOT g = "
                        "f64[2] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, "
                        "start_index_map={0}, index_vector_dim=1, slice_sizes={1}\n",
                        vector_of({1, 2, 3})),
            (std::vector<double>{1, 0, 1}));
}

TEST(Gradient, AccumulatesOverEveryUse) {
  EXPECT_EQ(gradient_of("x = f64[2] parameter(0)\n a = f64[2] multiply(x, x)\n ROOT b = f64[2] "
                        "multiply(a, x)\n",
                        vector_of({2, 3})),
            (std::vector<double>{12, 27}));
}

TEST(Gradient, OfAGradientIsTheSecondDerivative) {
  auto context = make_context();
  Recorder& recorder = context->recorder();
  const double value = 1.5;
  const NodeRef x =
      context->from_host(ir::Shape(ir::DType::f64, {}), std::as_bytes(std::span(&value, 1)));
  Node* const twice[] = {x.get(), x.get()};
  const auto square = recorder.record(ir::Opcode::multiply, twice);
  Node* const and_once[] = {square->get(), x.get()};
  const auto cube = recorder.record(ir::Opcode::multiply, and_once);
  Node* const of[] = {cube->get()};
  Node* const wrt[] = {x.get()};
  const auto first = autograd::gradients(recorder, of, {}, wrt, autograd::Unused::error);
  ASSERT_TRUE(first.ok());
  Node* const of_first[] = {(*first)[0].get()};
  const auto second = autograd::gradients(recorder, of_first, {}, wrt, autograd::Unused::error);
  ASSERT_TRUE(second.ok());
  const auto result = read_literal(*context, (*second)[0].get());
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_DOUBLE_EQ(result->at(0), 9.0);
}

TEST(Gradient, StopsWhereToldTo) {
  auto context = make_context();
  const ir::Literal three = vector_of({3});
  const NodeRef x = context->from_host(three.shape(), three.bytes());
  const NodeRef stopped = context->recorder().stop_gradient(x.get());
  Node* const operands[] = {x.get(), stopped.get()};
  const auto product = context->recorder().record(ir::Opcode::multiply, operands);
  Node* const of[] = {product->get()};
  Node* const wrt[] = {x.get()};
  const auto gradient =
      autograd::gradients(context->recorder(), of, {}, wrt, autograd::Unused::error);
  ASSERT_TRUE(gradient.ok());
  EXPECT_EQ(read_literal(*context, (*gradient)[0].get())->at(0), 3.0);
}

TEST(Gradient, SaysWhatItCannotDo) {
  auto context = make_context();
  Recorder& recorder = context->recorder();
  const ir::Literal data = vector_of({3, 4});
  const NodeRef x = context->from_host(data.shape(), data.bytes());
  const NodeRef y = context->from_host(data.shape(), data.bytes());
  Node* const operands[] = {x.get()};
  const auto sine = recorder.record(ir::Opcode::sine, operands);
  Node* const of[] = {sine->get()};
  Node* const wrt[] = {y.get()};
  const auto unused = autograd::gradients(recorder, of, {}, wrt, autograd::Unused::error);
  EXPECT_EQ(unused.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(unused.status().message().find("does not depend on tensor 0"), std::string::npos)
      << unused.status().message();
  const auto zeros = autograd::gradients(recorder, of, {}, wrt, autograd::Unused::zeros);
  ASSERT_TRUE(zeros.ok());
  EXPECT_EQ(read_literal(*context, (*zeros)[0].get())->at(1), 0.0);
  const auto null = autograd::gradients(recorder, of, {}, wrt, autograd::Unused::null);
  ASSERT_TRUE(null.ok());
  EXPECT_FALSE((*null)[0]);

  const std::uint64_t bits = 1;
  const NodeRef integer =
      context->from_host(ir::Shape(ir::DType::u64, {}), std::as_bytes(std::span(&bits, 1)));
  Node* const by_integer[] = {integer.get()};
  EXPECT_EQ(
      autograd::gradients(recorder, of, {}, by_integer, autograd::Unused::zeros).status().code(),
      StatusCode::invalid_argument);
  Node* const from[] = {x.get()};
  const auto bits_of = recorder.record(ir::Opcode::bitcast_convert, from, nullptr,
                                       std::array{ir::Shape(ir::DType::f32, {2, 2})}.data());
  ASSERT_TRUE(bits_of.ok()) << bits_of.status().to_string();
  Node* const of_bits[] = {bits_of->get()};
  Node* const by_x[] = {x.get()};
  const auto refused = autograd::gradients(recorder, of_bits, {}, by_x, autograd::Unused::error);
  EXPECT_EQ(refused.status().code(), StatusCode::unimplemented);
  EXPECT_NE(refused.status().message().find("bitcast-convert"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::trace
