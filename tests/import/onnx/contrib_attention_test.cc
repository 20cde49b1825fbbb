// SPDX-License-Identifier: Apache-2.0
// Attention as com.microsoft has it, beside formulas written out.
#include <cmath>
#include <functional>

#include "tests/import/onnx/one_node.h"

namespace plimsoll::testing {
namespace {

using ir::DType;
using Numbers = std::vector<float>;
using Ints = std::vector<std::int32_t>;

constexpr int kExamples = 2, kHeadCount = 2, kHeadDepth = 2, kRowCount = 3;

OneNode microsoft(const char* op) { return OneNode(op, "com.microsoft", 17); }

Numbers waves(int count, double first) {
  Numbers made;
  for (int i = 0; i < count; ++i) made.push_back(static_cast<float>(std::sin(first + 1.7 * i)));
  return made;
}

// A number of an array by batch, head, row and column.
using At = std::function<double(int, int, int, int)>;

// Of [batch, length, heads * depth].
At in_columns(const Numbers& x, int length, int heads) {
  return [=](int b, int h, int row, int d) {
    return double{
        x[static_cast<std::size_t>((b * length + row) * heads * kHeadDepth + h * kHeadDepth + d)]};
  };
}

struct Scores {
  int queries, keys;
  std::function<bool(int, int, int)> sees = [](int, int, int) { return true; };
  std::function<double(double)> change = [](double score) { return score; };
  double sink = 0;  // what is added to a row's sum
};

// [batch, queries, heads * depth].
std::vector<double> attended_heads(const At& q, const At& k, const At& v, const Scores& scores) {
  std::vector<double> made;
  for (int b = 0; b < kExamples; ++b) {
    for (int i = 0; i < scores.queries; ++i) {
      for (int h = 0; h < kHeadCount; ++h) {
        double sum = scores.sink, values[kHeadDepth] = {};
        for (int j = 0; j < scores.keys; ++j) {
          if (!scores.sees(b, i, j)) continue;
          double score = 0;
          for (int d = 0; d < kHeadDepth; ++d) score += q(b, h, i, d) * k(b, h, j, d);
          const double share = std::exp(scores.change(score / std::sqrt(double{kHeadDepth})));
          sum += share;
          for (int d = 0; d < kHeadDepth; ++d) values[d] += share * v(b, h, j, d);
        }
        for (const double value : values) made.push_back(value / sum);
      }
    }
  }
  return made;
}

const Numbers kQueryColumns = waves(kExamples * kRowCount * kHeadCount * kHeadDepth, 1);
const Numbers kKeyColumns = waves(kExamples * kRowCount * kHeadCount * kHeadDepth, 2);
const Numbers kValueColumns = waves(kExamples * kRowCount * kHeadCount * kHeadDepth, 3);
const ir::Dims kColumns{kExamples, kRowCount, kHeadCount* kHeadDepth};

const At kQueryHeads = in_columns(kQueryColumns, kRowCount, kHeadCount),
         kKeyHeads = in_columns(kKeyColumns, kRowCount, kHeadCount),
         kValueHeads = in_columns(kValueColumns, kRowCount, kHeadCount);

// Columns by the identity, so that the product makes them of three inputs side by side.
TEST(OnnxContribAttention, TakesOneProductApart) {
  constexpr int kWide = 3 * kHeadCount * kHeadDepth;
  Numbers x, identity(kWide * kWide, 0), bias = waves(kWide, 4);
  for (std::size_t row = 0; row < kExamples * kRowCount; ++row) {
    for (const Numbers* one : {&kQueryColumns, &kKeyColumns, &kValueColumns}) {
      for (std::size_t c = 0; c < 4; ++c) x.push_back((*one)[row * 4 + c]);
    }
  }
  for (std::size_t i = 0; i < kWide; ++i) identity[i * kWide + i] = 1;
  const auto made_by = [&](int first) -> At {
    return [&, first](int b, int h, int row, int d) {
      const int column = first * kHeadCount * kHeadDepth + h * kHeadDepth + d;
      return double{x[static_cast<std::size_t>((b * kRowCount + row) * kWide + column)]} +
             bias[static_cast<std::size_t>(column)];
    };
  };
  const auto node = [&] {
    OneNode made = microsoft("Attention");
    made.input(array<float>({kExamples, kRowCount, kWide}, x));
    made.input(array<float>({kWide, kWide}, identity)).input(array<float>({kWide}, bias));
    return made.with(attribute("num_heads", kHeadCount));
  };
  Scores all{kRowCount, kRowCount};
  expect_near(node().result(DType::f32), kColumns,
              attended_heads(made_by(0), made_by(1), made_by(2), all), 1e-6);
  // Masks by key, by the lengths of keys, and by where they end and begin.
  Scores masked = all;
  masked.sees = [](int b, int, int key) { return b == 0 ? key < 2 : key > 0; };
  const auto wanted = attended_heads(made_by(0), made_by(1), made_by(2), masked);
  expect_near(node().input(array<std::int32_t>({2, 3}, {1, 1, 0, 0, 1, 1})).result(DType::f32),
              kColumns, wanted, 1e-6);
  expect_near(node().input(array<std::int32_t>({4}, {2, 3, 0, 1})).result(DType::f32), kColumns,
              wanted, 1e-6);
  masked.sees = [](int b, int, int key) { return key < (b == 0 ? 2 : 3); };
  expect_near(node().input(array<std::int32_t>({2}, {2, 3})).result(DType::f32), kColumns,
              attended_heads(made_by(0), made_by(1), made_by(2), masked), 1e-6);
  // What is past comes first, and a query sees what comes before it.
  const Numbers past = waves(2 * kExamples * kHeadCount * kHeadDepth, 5);  // one row
  OneNode later =
      node().no_input().input(array<float>({2, kExamples, kHeadCount, 1, kHeadDepth}, past));
  later.with(attribute("unidirectional", 1));
  const auto with_past = [&](int which, const At& added) -> At {
    return [&past, which, added](int b, int h, int row, int d) {
      return row > 0 ? added(b, h, row - 1, d)
                     : double{past[static_cast<std::size_t>(
                           ((which * kExamples + b) * kHeadCount + h) * kHeadDepth + d)]};
    };
  };
  Scores causal{kRowCount, kRowCount + 1};
  causal.sees = [](int, int query, int key) { return key <= query + 1; };
  expect_near(
      later.result(DType::f32), kColumns,
      attended_heads(made_by(0), with_past(0, made_by(1)), with_past(1, made_by(2)), causal), 1e-6);
  const auto present = later.result(DType::f32, 1);
  ASSERT_TRUE(present.ok()) << present.status().to_string();
  EXPECT_EQ(present->shape().dims(),
            (ir::Dims{2, kExamples, kHeadCount, kRowCount + 1, kHeadDepth}));
  EXPECT_NE(node().with(attribute("do_rotary", 1)).error(DType::f32).find("do_rotary"),
            std::string::npos);
}

TEST(OnnxContribAttention, QuantizedAttentionIsThatOfItsProduct) {
  // 0.5 (x - 1) times 0.25 w, of one head of one column for each of queries, keys and values.
  OneNode made = microsoft("QAttention");
  made.input(array<std::uint8_t>({1, 2, 1}, {3, 9}));
  made.input(array<std::int8_t>({1, 3}, {2, -4, 8})).input(array<float>({3}, {0, 0.5F, 0}));
  made.input(array<float>({}, {0.5F})).input(array<float>({}, {0.25F})).no_input();
  made.input(array<std::uint8_t>({}, {1})).with(attribute("num_heads", 1));
  std::vector<double> wanted;
  for (const double query : {1.0, 4.0}) {
    double sum = 0, value = 0;
    for (const double x : {1.0, 4.0}) {
      const double share = std::exp(query * 0.5 * (0.5 - x));
      sum += share;
      value += share * 2 * x;
    }
    wanted.push_back(value / sum);
  }
  expect_near(made.result(DType::f32), {1, 2, 1}, wanted, 1e-5);
}

TEST(OnnxContribAttention, TakesHeadsHoweverTheyArePacked) {
  const Numbers bias = waves(3 * kHeadCount * kHeadDepth, 4),
                added = waves(kRowCount * kRowCount, 6);
  const auto shifted = [&](const At& x, int first) -> At {
    return [&bias, x, first](int b, int h, int row, int d) {
      return x(b, h, row, d) +
             bias[static_cast<std::size_t>((first * kHeadCount + h) * kHeadDepth + d)];
    };
  };
  OneNode apart = microsoft("MultiHeadAttention");
  apart.input(array<float>(kColumns, kQueryColumns)).input(array<float>(kColumns, kKeyColumns));
  apart.input(array<float>(kColumns, kValueColumns)).input(array<float>({12}, bias)).no_input();
  apart.input(array<float>({1, 1, kRowCount, kRowCount}, added))
      .with(attribute("num_heads", kHeadCount));
  std::vector<double> wanted;
  {
    // The addend of a score depends on its place, so the softmax is written out here.
    const At q = shifted(kQueryHeads, 0), k = shifted(kKeyHeads, 1), v = shifted(kValueHeads, 2);
    for (int b = 0; b < kExamples; ++b) {
      for (int i = 0; i < kRowCount; ++i) {
        for (int h = 0; h < kHeadCount; ++h) {
          double sum = 0, values[kHeadDepth] = {};
          for (int j = 0; j < kRowCount; ++j) {
            const double score =
                (q(b, h, i, 0) * k(b, h, j, 0) + q(b, h, i, 1) * k(b, h, j, 1)) / std::sqrt(2.0);
            const double share =
                std::exp(score + added[static_cast<std::size_t>(i * kRowCount + j)]);
            sum += share;
            for (int d = 0; d < kHeadDepth; ++d) values[d] += share * v(b, h, j, d);
          }
          for (const double value : values) wanted.push_back(value / sum);
        }
      }
    }
  }
  expect_near(apart.result(DType::f32), kColumns, wanted, 1e-6);
  Numbers keys_and_values, all;
  for (std::size_t i = 0; i < kQueryColumns.size(); i += kHeadDepth) {
    for (const Numbers* one : {&kQueryColumns, &kKeyColumns, &kValueColumns}) {
      for (std::size_t d = 0; d < kHeadDepth; ++d) {
        all.push_back((*one)[i + d]);
        if (one != &kQueryColumns) keys_and_values.push_back((*one)[i + d]);
      }
    }
  }
  const auto plain = attended_heads(kQueryHeads, kKeyHeads, kValueHeads, {kRowCount, kRowCount});
  OneNode pairs = microsoft("MultiHeadAttention");
  pairs.input(array<float>(kColumns, kQueryColumns));
  pairs.input(array<float>({kExamples, kRowCount, kHeadCount, 2, kHeadDepth}, keys_and_values));
  pairs.with(attribute("num_heads", kHeadCount));
  expect_near(pairs.result(DType::f32), kColumns, plain, 1e-6);
  OneNode packed = microsoft("MultiHeadAttention");
  packed.input(array<float>({kExamples, kRowCount, kHeadCount, 3, kHeadDepth}, all));
  packed.with(attribute("num_heads", kHeadCount));
  expect_near(packed.result(DType::f32), kColumns, plain, 1e-6);
}

// Two heads of queries share one of keys. Each of the batch has as many keys in its cache as
// seqlens_k says, the new one among them; the cache has room for more.
TEST(OnnxContribAttention, PutsNewKeysBehindThoseOfEachCache) {
  constexpr int kRoom = 4;
  const Numbers q = waves(kExamples * kHeadCount * kHeadDepth, 1),
                k = waves(kExamples * kHeadDepth, 2), v = waves(kExamples * kHeadDepth, 3),
                past_k = waves(kExamples * kRoom * kHeadDepth, 4),
                past_v = waves(kExamples * kRoom * kHeadDepth, 5);
  const Ints before{1, 2};
  const auto with_past = [&](const Numbers& past, const Numbers& added) -> At {
    return [&](int b, int, int row, int d) {
      return row == before[static_cast<std::size_t>(b)]
                 ? double{added[static_cast<std::size_t>(b * kHeadDepth + d)]}
                 : double{past[static_cast<std::size_t>((b * kRoom + row) * kHeadDepth + d)]};
    };
  };
  const auto node = [&] {
    OneNode made = microsoft("GroupQueryAttention");
    made.input(array<float>({kExamples, 1, kHeadCount * kHeadDepth}, q));
    made.input(array<float>({kExamples, 1, kHeadDepth}, k))
        .input(array<float>({kExamples, 1, kHeadDepth}, v));
    made.input(array<float>({kExamples, 1, kRoom, kHeadDepth}, past_k));
    made.input(array<float>({kExamples, 1, kRoom, kHeadDepth}, past_v));
    made.input(array<std::int32_t>({kExamples}, before)).constant(array<std::int32_t>({}, {3}));
    made.with(attribute("num_heads", kHeadCount));
    return made.with(attribute("kv_num_heads", 1));
  };
  Scores scores{1, kRoom};
  scores.sees = [&](int b, int, int key) { return key <= before[static_cast<std::size_t>(b)]; };
  const At queries = in_columns(q, 1, kHeadCount);
  const At keys = with_past(past_k, k), values = with_past(past_v, v);
  const ir::Dims dims{kExamples, 1, kHeadCount * kHeadDepth};
  expect_near(node().result(DType::f32), dims, attended_heads(queries, keys, values, scores), 1e-6);
  const auto cache = node().result(DType::f32, 1);
  ASSERT_TRUE(cache.ok()) << cache.status().to_string();
  ASSERT_EQ(cache->shape().dims(), (ir::Dims{kExamples, 1, kRoom, kHeadDepth}));
  EXPECT_EQ(cache->at(1 * kHeadDepth), k[0]);
  EXPECT_EQ(cache->at((kRoom + 2) * kHeadDepth), k[kHeadDepth]);
  EXPECT_EQ(cache->at((kRoom + 1) * kHeadDepth), past_k[(kRoom + 1) * kHeadDepth]);
  Scores capped = scores;
  capped.change = [](double score) { return 0.5 * std::tanh(score / 0.5); };
  capped.sink = 1;  // exp(0)
  expect_near(node()
                  .with(real_attribute("softcap", 0.5F))
                  .with(attribute("smooth_softmax", 1))
                  .result(DType::f32),
              dims, attended_heads(queries, keys, values, capped), 1e-6);
  Scores near = scores;
  near.sees = [&](int b, int, int key) {
    const int last = before[static_cast<std::size_t>(b)];
    return key <= last && key > last - 2;
  };
  expect_near(node().with(attribute("local_window_size", 2)).result(DType::f32), dims,
              attended_heads(queries, keys, values, near), 1e-6);
}

TEST(OnnxContribAttention, TurnsQueriesAndKeysByTheirPositions) {
  const Numbers cosines{1, 0.8F, 0.6F}, sines{0, 0.6F, 0.8F};  // of one pair of columns
  OneNode made = microsoft("GroupQueryAttention");
  for (const Numbers* one : {&kQueryColumns, &kKeyColumns, &kValueColumns})
    made.input(array<float>(kColumns, *one));
  made.no_input().no_input().input(array<std::int32_t>({kExamples}, {2, 2}));
  made.constant(array<std::int32_t>({1}, {kRowCount})).input(array<float>({3, 1}, cosines));
  made.input(array<float>({3, 1}, sines)).with(attribute("do_rotary", 1));
  made.with(attribute("num_heads", kHeadCount)).with(attribute("kv_num_heads", kHeadCount));
  const auto turned = [&](const At& x) -> At {
    return [&cosines, &sines, x](int b, int h, int row, int d) {
      const double c = cosines[static_cast<std::size_t>(row)],
                   s = sines[static_cast<std::size_t>(row)];
      return d == 0 ? x(b, h, row, 0) * c - x(b, h, row, 1) * s
                    : x(b, h, row, 0) * s + x(b, h, row, 1) * c;
    };
  };
  Scores causal{kRowCount, kRowCount};
  causal.sees = [](int, int query, int key) { return key <= query; };
  expect_near(made.result(DType::f32), kColumns,
              attended_heads(turned(kQueryHeads), turned(kKeyHeads), kValueHeads, causal), 1e-6);
}

}  // namespace
}  // namespace plimsoll::testing
