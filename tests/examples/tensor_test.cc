// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "plimsoll/plimsoll.hpp"

namespace plimsoll {
namespace {

using Floats = std::vector<float>;

Tensor tensor(const Floats& values, const Dims& dims) { return Tensor::from_host(values, dims); }

void expect_near(const Tensor& actual, const Floats& expected, float tolerance = 1e-6f) {
  const Floats values = actual.to_vector<float>();
  ASSERT_EQ(values.size(), expected.size()) << actual.shape_text();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], tolerance) << "element " << i;
  }
}

template <typename F>
Error error_of(F function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::unknown, "");
}

TEST(Tensor, RecordsLazilyAndComputesWhenRead) {
  const Tensor a = tensor({1, 2, 3}, {3});
  const Tensor b = a * 2.0 + 1.0;
  EXPECT_TRUE(b.is_pending());
  expect_near(b, {3, 5, 7});
  EXPECT_FALSE(b.is_pending());
}

TEST(Tensor, ArithmeticBroadcastsAsInNumPy) {
  const Tensor row = tensor({1, 2, 3}, {3});
  const Tensor column = tensor({10, 20}, {2, 1});
  expect_near(column + row, {11, 12, 13, 21, 22, 23});
  expect_near(column - row, {9, 8, 7, 19, 18, 17});
  expect_near(row * column, {10, 20, 30, 20, 40, 60});
  expect_near(column / row, {10, 5, 10.0f / 3, 20, 10, 20.0f / 3});
  expect_near(1.0 - row, {0, -1, -2});
  expect_near(-row, {-1, -2, -3});
  EXPECT_EQ((tensor({1, 2}, {1, 2, 1}) + row).shape_text(), "f32[1,2,3]");
}

TEST(Tensor, RefusesDimsThatDoNotBroadcast) {
  const Error error = error_of([] { tensor({1, 2, 3}, {3}) + tensor({1, 2}, {2}); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_NE(error.message().find("[add]"), std::string::npos) << error.what();
  EXPECT_NE(error.message().find("[2]"), std::string::npos) << error.what();
  EXPECT_NE(error.message().find("[3]"), std::string::npos) << error.what();
}

TEST(Tensor, BroadcastErrorsNameTheOperationThatWasCalled) {
  const Tensor two = tensor({1, 2}, {2}), three = tensor({1, 2, 3}, {3});
  EXPECT_NE(error_of([&] { where(two > 0.0, two, three); }).message().find("[where]"),
            std::string::npos);
  const Tensor a = tensor({1, 2}, {2, 1, 1}), b = tensor({1, 2, 3}, {3, 1, 1});
  EXPECT_NE(error_of([&] { matmul(a, b); }).message().find("[matmul]"), std::string::npos);
}

TEST(Tensor, HintsAreRecordedAndChangeNoValue) {
  const Tensor x = tensor({1, 2, 3}, {3});
  const Tensor y = exp(x).hint(Hint::compress);
  const Tensor z = y + y;
  const char* text = nullptr;
  plm_tensor* const wanted[] = {z.handle()};
  internal::check(plm_trace_text(Context::current().handle(), wanted, 1, &text));
  EXPECT_NE(std::string(text).find("plimsoll.hint=\"compress\""), std::string::npos) << text;
  expect_near(z, {2 * std::exp(1.0F), 2 * std::exp(2.0F), 2 * std::exp(3.0F)}, 1e-4F);
  EXPECT_EQ(error_of([] { Tensor().hint(Hint::keep); }).code(), ErrorCode::invalid_argument);
}

TEST(Tensor, RefusesAnEmptyOperandAndAWrongType) {
  EXPECT_EQ(error_of([] { exp(Tensor()); }).code(), ErrorCode::invalid_argument);
  EXPECT_THROW(Tensor() + Tensor(), Error);
  EXPECT_THROW(tensor({1}, {1}).to_vector<std::int32_t>(), Error);
  EXPECT_THROW(tensor({1, 2}, {2}).item<float>(), Error);
  EXPECT_THROW(tensor({1, 2}, {3}), Error);
}

TEST(Tensor, ComparesAndSelects) {
  const Tensor x = tensor({-1, 0, 2}, {3});
  EXPECT_EQ((x > 0.0).to_vector<bool>(), (std::vector<bool>{false, false, true}));
  EXPECT_EQ((x <= 0.0).to_vector<bool>(), (std::vector<bool>{true, true, false}));
  EXPECT_EQ((x == x).to_vector<bool>(), (std::vector<bool>{true, true, true}));
  EXPECT_EQ((x != 0.0).to_vector<bool>(), (std::vector<bool>{true, false, true}));
  expect_near(where(x < 0.0, x * 10.0, x), {-10, 0, 2});
  expect_near(where(x < 0.0, 7.0, tensor({1, 2}, {2, 1})), {7, 1, 1, 7, 2, 2});
}

TEST(Tensor, ElementwiseFunctionsHaveTheirValues) {
  const Tensor x = tensor({-0.5f, 0.25f, 1.5f}, {3});
  const auto map = [](auto f) {
    return Floats{static_cast<float>(f(-0.5)), static_cast<float>(f(0.25)),
                  static_cast<float>(f(1.5))};
  };
  expect_near(exp(x), map([](double v) { return std::exp(v); }), 2e-6f);
  expect_near(log(x + 1.0), map([](double v) { return std::log(v + 1); }));
  expect_near(tanh(x), map([](double v) { return std::tanh(v); }));
  expect_near(sqrt(x + 1.0), map([](double v) { return std::sqrt(v + 1); }));
  expect_near(rsqrt(x + 1.0), map([](double v) { return 1 / std::sqrt(v + 1); }), 2e-6f);
  expect_near(sigmoid(x), map([](double v) { return 1 / (1 + std::exp(-v)); }));
  expect_near(relu(x), map([](double v) { return std::max(v, 0.0); }));
  expect_near(gelu(x), map([](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); }));
  expect_near(gelu_tanh(x), map([](double v) {
                return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
              }));
  expect_near(power(x + 1.0, 2.0), map([](double v) { return (v + 1) * (v + 1); }));
}

TEST(Tensor, MovesElements) {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  expect_near(transpose(x), {1, 4, 2, 5, 3, 6});
  EXPECT_EQ(reshape(x, {3, -1}).shape_text(), "f32[3,2]");
  EXPECT_EQ(flatten(reshape(x, {1, 2, 3}), 1).shape_text(), "f32[1,6]");
  expect_near(slice(x, {0, 1}, {2, 3}), {2, 3, 5, 6});
  expect_near(slice(x, {0, 0}, {2, 3}, {1, 2}), {1, 3, 4, 6});
  expect_near(slice_axis(x, -1, -1, 3), {3, 6});
  expect_near(concatenate({x, x * 10.0}, 0), {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60});
  expect_near(pad(x, {0, 1}, {0, 0}, 9), {9, 1, 2, 3, 9, 4, 5, 6});
  expect_near(split(x, 3, 1)[1], {2, 5});
  EXPECT_THROW(split(x, 2, 1), Error);
  EXPECT_EQ(iota({2, 2}, -1).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 1, 0, 1}));
}

TEST(Tensor, Reduces) {
  const Tensor x = tensor({1, 2, 3, 4, 5, 9}, {2, 3});
  EXPECT_EQ(sum(x).item<float>(), 24);
  expect_near(sum(x, {0}), {5, 7, 12});
  expect_near(mean(x, {-1}), {2, 6});
  expect_near(max(x, {1}), {3, 9});
  expect_near(min(x, {0, 1}), {1});
  EXPECT_EQ(sum(x, {1}, true).shape_text(), "f32[2,1]");
  expect_near(variance(x, {1}), {2.0f / 3, 14.0f / 3}, 1e-5f);
  EXPECT_EQ(argmax(tensor({1, 5, 5, 7, 0, 0}, {2, 3}), -1).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{1, 0}));
}

TEST(Tensor, SoftmaxIsStableAndSumsToOne) {
  const Tensor x = tensor({1000, 1001, -1000, 0, 0, 0}, {2, 3});
  const float e = std::exp(1.0f);
  expect_near(softmax(x), {1 / (1 + e), e / (1 + e), 0, 1.0f / 3, 1.0f / 3, 1.0f / 3});
  expect_near(log_softmax(x),
              {-std::log(1 + e), 1 - std::log(1 + e), -2000 - std::log(1 + e) + 0, -std::log(3.0f),
               -std::log(3.0f), -std::log(3.0f)},
              2e-3f);
}

TEST(Tensor, MultipliesMatricesAsNumPyDoes) {
  const Tensor a = tensor({1, 2, 3, 4}, {2, 2});
  const Tensor b = tensor({5, 6, 7, 8}, {2, 2});
  const Tensor v = tensor({1, -1}, {2});
  expect_near(matmul(a, b), {19, 22, 43, 50});
  expect_near(matmul(a, v), {-1, -1});
  expect_near(matmul(v, a), {-2, -2});
  EXPECT_EQ(matmul(v, v).item<float>(), 2);
  const Tensor stack = concatenate({expand_dim(a, 0), expand_dim(b, 0)}, 0);
  expect_near(matmul(stack, b), {19, 22, 43, 50, 67, 78, 91, 106});
  expect_near(matmul(a, stack), {7, 10, 15, 22, 19, 22, 43, 50});
  expect_near(matmul(v, stack), {-2, -2, -2, -2});
  expect_near(matmul(stack, stack), {7, 10, 15, 22, 67, 78, 91, 106});
  EXPECT_THROW(matmul(a, tensor({1, 2, 3}, {3})), Error);
}

TEST(Tensor, ConvolvesAndPoolsInNhwc) {
  const Tensor image = reshape(iota({9}, 0, DType::f32), {1, 3, 3, 1});
  const Tensor box = ones({2, 2, 1, 1});
  expect_near(conv2d(image, box), {8, 12, 20, 24});
  EXPECT_EQ(conv2d(image, box, {.padding = 1}).shape_text(), "f32[1,4,4,1]");
  expect_near(conv2d(image, ones({1, 1, 1, 1}), {.stride = 2}), {0, 2, 6, 8});
  const Tensor two_channels = reshape(iota({8}, 0, DType::f32), {1, 2, 2, 2});
  expect_near(conv2d(two_channels, ones({2, 2, 1, 2}), {.groups = 2}), {12, 16});
  expect_near(max_pool2d(image, {.size = 2, .stride = 1}), {4, 5, 7, 8});
  expect_near(avg_pool2d(image, {.size = 2, .stride = 1}), {2, 3, 5, 6});
  expect_near(max_pool2d(-1.0 - image, {.size = 2, .padding = 1}), {-1, -2, -4, -5});
}

TEST(Tensor, TakesAndScattersRows) {
  const Tensor table = tensor({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor indices = Tensor::from_host<std::int32_t>({2, 0, 2}, {3});
  expect_near(take(table, indices), {5, 6, 1, 2, 5, 6});
  expect_near(scatter_add(zeros({3, 2}), indices, ones({3, 2})), {1, 1, 0, 0, 2, 2});
  expect_near(one_hot(indices, 3), {0, 0, 1, 1, 0, 0, 0, 0, 1});
  expect_near(sort(tensor({3, 1, 2}, {3}), 0, true), {3, 2, 1});
}

TEST(Tensor, ConvertsBetweenTypes) {
  const Tensor x = tensor({-1.7f, 0, 2.5f}, {3});
  EXPECT_EQ(convert(x, DType::s32).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{-1, 0, 2}));
  EXPECT_EQ(convert(x, DType::pred).to_vector<bool>(), (std::vector<bool>{true, false, true}));
  expect_near(convert(convert(x, DType::bf16), DType::f32), {-1.703125f, 0, 2.5f});
}

TEST(Tensor, CopiesSeeAssignmentsAndSnapshotsDoNot) {
  Tensor x = tensor({1, 2}, {2});
  const Tensor copy = x;
  const Tensor before = x.snapshot();
  const Tensor recorded = x * 10.0;
  x.assign(x + 1.0);
  expect_near(copy, {2, 3});
  expect_near(before, {1, 2});
  expect_near(recorded, {10, 20});
}

TEST(Tensor, BackwardFillsAndAddsUpGradients) {
  Tensor w = Tensor::parameter(tensor({1, 2, 3}, {3}));
  Tensor unused = Tensor::parameter(tensor({5}, {1}));
  sum(w * w).backward();
  expect_near(w.grad(), {2, 4, 6});
  EXPECT_FALSE(unused.grad().defined());
  sum(w * 10.0).backward();
  expect_near(w.grad(), {12, 14, 16});
  w.clear_grad();
  EXPECT_FALSE(w.grad().defined());
}

TEST(Tensor, BackwardLeavesOutWhatIsNotTrainable) {
  Tensor w = Tensor::parameter(tensor({3}, {1}));
  Tensor frozen = Tensor::parameter(tensor({4}, {1}));
  frozen.set_trainable(false);
  sum(w * frozen).backward();
  expect_near(w.grad(), {4});
  EXPECT_FALSE(frozen.grad().defined());
}

TEST(Tensor, BackwardExplainsWhatItCannotDo) {
  Tensor w = Tensor::parameter(tensor({1, 2}, {2}));
  EXPECT_NE(error_of([&] { (w * 2.0).backward(); }).message().find("reduce it to one number"),
            std::string::npos);
  const Tensor loss = sum(w);
  const ContextScope other{Context()};
  EXPECT_EQ(error_of([&] { loss.backward(); }).code(), ErrorCode::failed_precondition);
}

TEST(Tensor, BackwardRefusesALossThatWasRead) {
  Tensor w = Tensor::parameter(tensor({1, 2, 3}, {3}));
  const Tensor loss = sum(w * w);
  EXPECT_EQ(loss.item<float>(), 14);
  const Error error = error_of([&] { loss.backward(); });
  EXPECT_EQ(error.code(), ErrorCode::failed_precondition);
  EXPECT_NE(error.message().find("evaluated already"), std::string::npos) << error.what();
  EXPECT_FALSE(w.grad().defined());
  sum(w * w).backward();
  expect_near(w.grad(), {2, 4, 6});
}

TEST(Tensor, BackwardRefusesToStopAtAValueThatWasEvaluated) {
  Tensor w = Tensor::parameter(tensor({1, 2}, {2}));
  Tensor v = Tensor::parameter(tensor({3, 4}, {2}));
  const Tensor hidden = w * 2.0;
  eval({hidden});
  const Error error = error_of([&] { sum(hidden * v).backward(); });
  EXPECT_EQ(error.code(), ErrorCode::failed_precondition);
  EXPECT_NE(error.message().find("multiply f32[2]"), std::string::npos) << error.what();
  sum(stop_gradient(hidden) * v).backward();
  expect_near(v.grad(), {2, 4});
  EXPECT_FALSE(w.grad().defined());
}

TEST(Tensor, BackwardGoesOnFromWhatWasAssigned) {
  Tensor w = Tensor::parameter(tensor({1, 2}, {2}));
  Tensor target = tensor({0, 0}, {2});
  for (int step = 0; step < 3; ++step) {
    sum(w * w + target).backward();
    w.assign(w - w.grad() * 0.25);
    target.assign(target * 0.5 + w * 0.5);
    w.clear_grad();
    Context::current().step();
  }
  expect_near(w, {0.125f, 0.25f});
  // A parameter's values are variables after every assignment, too.
  const Tensor hidden = w * 2.0;
  eval({hidden});
  EXPECT_EQ(error_of([&] { sum(hidden).backward(); }).code(), ErrorCode::failed_precondition);
}

TEST(Tensor, BackwardStopsAtEvaluatedValuesOfFrozenParameters) {
  Tensor frozen = Tensor::parameter(tensor({3, 4}, {2}));
  Tensor w = Tensor::parameter(tensor({1, 2}, {2}));
  frozen.set_trainable(false);
  const Tensor features = frozen * 2.0;
  eval({features});
  sum(features * w).backward();
  expect_near(w.grad(), {6, 8});
}

TEST(Tensor, FlattensFromAnyAxis) {
  const Tensor x = ones({2, 3, 4});
  EXPECT_EQ(flatten(x).shape_text(), "f32[24]");
  EXPECT_EQ(flatten(x, 1).shape_text(), "f32[2,12]");
  EXPECT_EQ(flatten(x, -1).shape_text(), "f32[2,3,4]");
  EXPECT_EQ(flatten(x, -2).shape_text(), "f32[2,12]");
  EXPECT_EQ(flatten(x, 3).shape_text(), "f32[2,3,4,1]");
  EXPECT_EQ(flatten(Tensor::scalar(1)).shape_text(), "f32[1]");
  EXPECT_EQ(error_of([&] { flatten(x, 4); }).code(), ErrorCode::out_of_range);
  EXPECT_EQ(error_of([&] { flatten(x, -4); }).code(), ErrorCode::out_of_range);
}

TEST(Tensor, FindsTheFirstGreatestOrNaN) {
  const Tensor x = tensor({1, 5, 5, 2, NAN, 7, NAN, 9}, {2, 4});
  EXPECT_EQ(argmax(x, 1).to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, 0}));
  EXPECT_EQ(argmax(Tensor::from_host<std::int32_t>({3, 9, 9}, {3}), 0).item<std::int32_t>(), 1);
  EXPECT_EQ(error_of([] { argmax(ones({2, 0}), 1); }).code(), ErrorCode::invalid_argument);
}

TEST(Tensor, AveragesMoreThanSixteenBitsCanHold) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    expect_near(convert(mean(ones({100'000}, dtype)), DType::f32), {1});
    expect_near(convert(mean(full({2, 3000}, 100, dtype), {1}), DType::f32), {100, 100});
  }
}

TEST(Tensor, IntegersTakeNoNumberThatTheyDoNotHold) {
  const Tensor x = Tensor::from_host<std::int32_t>({1, 2}, {2});
  EXPECT_EQ((x * 3.0).to_vector<std::int32_t>(), (std::vector<std::int32_t>{3, 6}));
  const Error error = error_of([&] { x * 0.5; });
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_NE(error.message().find("0.5 is no s32"), std::string::npos) << error.what();
  EXPECT_EQ(error_of([] { Tensor::scalar(256, DType::u8); }).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([] { Tensor::scalar(-1, DType::u64); }).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([] { Tensor::scalar(NAN, DType::s64); }).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([] { Tensor::scalar(0x1p63, DType::s64); }).code(),
            ErrorCode::invalid_argument);
  EXPECT_EQ(Tensor::scalar(-0x1p63, DType::s64).item<std::int64_t>(), INT64_MIN);
  EXPECT_EQ(Tensor::scalar(255, DType::u8).item<std::uint8_t>(), 255);
}

TEST(Tensor, NumbersClassesBeyondWhatTheIndexHolds) {
  const Tensor hot = one_hot(Tensor::from_host<std::uint8_t>({0, 255}, {2}), 300, DType::s32);
  EXPECT_EQ(sum(hot).item<std::int32_t>(), 2);
  EXPECT_EQ(argmax(hot, 1).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 255}));
}

TEST(Tensor, GradientsGoToAnyTensorButNotThroughAStop) {
  const Tensor x = tensor({1, 2}, {2});
  const Tensor y = tensor({3, 4}, {2});
  const std::vector<Tensor> g = gradients(sum(x * x * stop_gradient(y)), std::vector{x, y});
  expect_near(g[0], {6, 16});
  expect_near(g[1], {0, 0});
}

TEST(Context, TakesOverOneThatTheCApiMade) {
  plm_context_options options = {};
  options.struct_size = sizeof options;
  options.memory_limit_bytes = 1 << 20;
  plm_context* handle = nullptr;
  internal::check(plm_context_create(&options, &handle));
  const Context context = Context::adopt(handle);
  EXPECT_EQ(context.handle(), handle);
  const ContextScope scope(context);
  expect_near(tensor({1, 2}, {2}) + 1.0, {2, 3});
  EXPECT_EQ(context.memory().limit_bytes, 1 << 20);
}

TEST(Context, RefusesAStepThatDoesNotFitAndGoesOn) {
  Context context;
  const ContextScope scope(context);
  Tensor x = tensor(Floats(4096, 1.0f), {64, 64});
  x.eval();
  context.wait();
  x.assign(matmul(x, x) * (1.0 / 64));
  context.set_limit(1000);
  const Error error = error_of([&] { context.step(); });
  EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
  EXPECT_EQ(error.limit_bytes(), 1000);
  EXPECT_GE(error.floor_bytes(), 64 * 64 * 4);
  context.set_limit(error.floor_bytes());
  context.step();
  context.wait();
  EXPECT_LE(context.memory().peak_bytes, error.floor_bytes());
  expect_near(max(x), {1});
}

TEST(Context, MeasuresAStepWithoutRunningIt) {
  Context context;
  const ContextScope scope(context);
  EXPECT_EQ(context.measure_step().floor_bytes, 0);
  Tensor x = tensor(Floats(4096, 1.0f), {64, 64});
  x.eval();
  x.assign(matmul(x, x) * (1.0 / 64));
  const std::int64_t used = context.memory().used_bytes;
  const MemoryNeeds needs = context.measure_step();
  EXPECT_TRUE(x.is_pending());
  EXPECT_EQ(context.memory().peak_bytes, used);
  EXPECT_LE(needs.floor_bytes, needs.unlimited_peak_bytes);
  context.set_limit(needs.floor_bytes - 1);
  EXPECT_EQ(error_of([&] { context.step(); }).floor_bytes(), needs.floor_bytes);
  context.remove_limit();
  context.step();
  context.wait();
  EXPECT_EQ(context.memory().peak_bytes, needs.unlimited_peak_bytes);
}

TEST(Context, ScopesNest) {
  const Context outer = Context::current();
  {
    const Context inner;
    const ContextScope scope(inner);
    EXPECT_EQ(Context::current(), inner);
    EXPECT_THROW(
        tensor({1}, {1}) +
            [&] {
              const ContextScope back(outer);
              return tensor({1}, {1});
            }(),
        Error);
  }
  EXPECT_EQ(Context::current(), outer);
}

}  // namespace
}  // namespace plimsoll
