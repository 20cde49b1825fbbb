// SPDX-License-Identifier: Apache-2.0
// Random chains of operations between two sums, for 1, 2 or 4 replicas times 1, 2 or 4 partitions:
// the same numbers before and after.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"
#include "tests/cases/compare.h"
#include "tests/cases/random.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

class Chain {
 public:
  Chain(std::uint64_t seed, std::string dtype) : random_(seed), dtype_(std::move(dtype)) {
    constexpr std::int64_t kCounts[] = {1, 2, 4};
    replicas_ = kCounts[seed % 3];
    partitions_ = kCounts[seed / 3 % 3];
  }

  std::string text() {
    const std::string scalar = dtype_ + "[]";
    std::string made = fmt::format(
        "HloModule m, replica_count={}, num_partitions={}\nsum {{\n a = {} parameter(0)\n"
        " b = {} parameter(1)\n ROOT s = {} add(a, b)\n}}\nENTRY e {{\n",
        replicas_, partitions_, scalar, scalar, scalar);
    lines_ = fmt::format(
        " x0 = {0} parameter(0)\n x1 = {0} parameter(1)\n c0 = {0} parameter(2), "
        "sharding={{replicated}}\n c1 = {0} parameter(3), sharding={{replicated}}\n"
        " zero = {1} constant(0)\n small = {0} broadcast(c2), dimensions={{}}\n",
        shape(), scalar);
    lines_.insert(lines_.find(" small"), fmt::format(" c2 = {} constant(3)\n", scalar));
    for (int i = 0; i < 2; ++i) {
      lines_ +=
          fmt::format(" v{} = {} all-reduce(x{}), channel_id={}, replica_groups={}, to_apply=sum\n",
                      i, shape(), i, i + 1, groups_of_one());
      values_.push_back(fmt::format("v{}", i));
    }
    commons_ = {"c0", "c1", "small"};
    const auto steps = random_.between(1, 8);
    for (std::int64_t i = 0; i < steps; ++i) step();
    lines_ += fmt::format(" ROOT r = {} all-reduce({}), to_apply=sum\n", shape(), values_.back());
    return made + lines_ + "}\n";
  }

 private:
  std::string shape() const { return dtype_ + "[4,4]"; }
  std::string groups_of_one() const {
    std::string groups;
    for (std::int64_t r = 0; r < replicas_; ++r) {
      groups += fmt::format("{}{{{}}}", r > 0 ? "," : "", r);
    }
    return "{" + groups + "}";
  }
  std::string common() { return commons_[random_.below(commons_.size())]; }
  std::string value() {
    // Mostly what was made last, so that little is left over.
    return random_.chance(0.8) ? values_.back() : values_[random_.below(values_.size())];
  }
  std::string fresh() { return fmt::format("t{}", next_++); }
  std::string add(const std::string& type, const std::string& operation) {
    const std::string name = fresh();
    lines_ += fmt::format(" {} = {} {}\n", name, type, operation);
    return name;
  }
  void push(const std::string& operation) { values_.push_back(add(shape(), operation)); }

  void step() {
    const std::string v = value();
    switch (random_.below(14)) {
      case 0:
        return push(fmt::format("negate({})", v));
      case 1:
        return push(fmt::format("add({}, {})", v, common()));
      case 2:
        return push(fmt::format("subtract({}, {})", common(), v));
      case 3:
        return push(fmt::format("multiply({}, {})", v, common()));
      case 4:
        return push(fmt::format("add({}, {})", v, value()));
      case 5:
        return push(fmt::format("transpose({}), dimensions={{1,0}}", v));
      case 6: {
        const std::string a =
            add(dtype_ + "[2,4]", fmt::format("slice({}), slice={{[0:2], [0:4]}}", v));
        const std::string b =
            add(dtype_ + "[2,4]", fmt::format("slice({}), slice={{[1:3], [0:4]}}", common()));
        return push(fmt::format("concatenate({}, {}), dimensions={{0}}", a, b));
      }
      case 7: {
        const std::string a =
            add(dtype_ + "[4,2]", fmt::format("slice({}), slice={{[0:4], [1:3]}}", v));
        return push(fmt::format("pad({}, zero), padding=0_0x1_1", a));
      }
      case 8: {
        const std::string p =
            add("pred[4,4]", fmt::format("compare({}, {}), direction=LT", common(), common()));
        return push(
            fmt::format("select({}, {}, {})", p, v, random_.chance(0.5) ? common() : value()));
      }
      case 9:
        return push(fmt::format(
            "dot({}, {}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}", v, common()));
      case 10: {
        const std::string sum =
            add(dtype_ + "[4]", fmt::format("reduce({}, zero), dimensions={{0}}, to_apply=sum", v));
        return push(fmt::format("broadcast({}), dimensions={{1}}", sum));
      }
      case 11: {
        const std::string flat = add(dtype_ + "[16]", fmt::format("reshape({})", v));
        const std::string back =
            add(dtype_ + "[16]", fmt::format("reverse({}), dimensions={{0}}", flat));
        return push(fmt::format("reshape({})", back));
      }
      case 12:
        // Not linear: stays, and so does what it needs.
        if (random_.chance(0.7)) return;
        return push(fmt::format("multiply({}, {})", v, value()));
      default: {
        if (random_.chance(0.7)) return;
        const std::string name = add(shape(), fmt::format("abs({})", v));
        if (random_.chance(0.5))
          commons_.push_back(name);
        else
          values_.push_back(name);
      }
    }
  }

  cases::Random random_;
  std::string dtype_, lines_;
  std::int64_t replicas_ = 1, partitions_ = 1;
  std::vector<std::string> values_, commons_;
  int next_ = 0;
};

// Parameters 2 and 3 are the same in all partitions of a replica.
std::vector<std::vector<ir::Literal>> arguments_of(const ir::Module& module, std::uint64_t seed,
                                                   bool whole) {
  std::vector<std::vector<ir::Literal>> arguments;
  for (std::int64_t i = 0; i < module.replica_count * module.num_partitions; ++i) {
    arguments.push_back(
        cases::random_arguments(module, seed + (static_cast<std::uint64_t>(i) << 20)));
    for (std::size_t j = 0; j < 4; ++j) {
      ir::Literal& literal = arguments.back()[j];
      for (std::int64_t k = 0; k < literal.shape().element_count() && whole; ++k) {
        literal.set(k, std::round(literal.at(k)));
      }
      if (j >= 2) {
        literal =
            arguments[static_cast<std::size_t>(i / module.num_partitions * module.num_partitions)]
                     [j];
      }
    }
  }
  return arguments;
}

// `promoted` counts chains of which a sum was left out.
std::string difference(std::uint64_t seed, const std::string& dtype, bool whole, int& promoted) {
  const std::string text = Chain(seed, dtype).text();
  const auto before = parse(text), after = parse(text);
  if (before == nullptr) return text;
  const Result<bool> changed = promote_all_reduces(*after);
  if (!changed.ok()) return changed.status().message();
  promoted += *changed ? 1 : 0;
  const Status valid = ir::verify(*after);
  if (!valid.ok()) return valid.message();
  const auto arguments = arguments_of(*before, seed, whole);
  const auto expected = ir::interpret_together(*before, arguments);
  const auto got = ir::interpret_together(*after, arguments);
  if (!expected.ok()) return expected.status().message();
  if (!got.ok()) return got.status().message();
  for (std::size_t i = 0; i < expected->size(); ++i) {
    const std::string found =
        cases::compare_close((*expected)[i], (*got)[i], whole ? 0 : 1e-12, 1e3);
    if (!found.empty()) return found + "\n" + text + "\n" + ir::to_text(*after);
  }
  return "";
}

constexpr std::uint64_t kSeeds = 120;

TEST(PromotionOfRandomChains, IntegersHaveTheSameBits) {
  int promoted = 0;
  for (const std::string dtype : {"s32", "u8", "s64"}) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      ASSERT_EQ(difference(seed, dtype, true, promoted), "") << dtype << " " << seed;
    }
  }
  EXPECT_GT(promoted, 80);
}

// Of whole numbers that f64 holds, divided by 1, 2 or 4, floats are the same, up to a zero's sign.
TEST(PromotionOfRandomChains, FloatsOfWholeNumbersAreTheSame) {
  int promoted = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    ASSERT_EQ(difference(seed, "f64", true, promoted), "") << seed;
  }
  EXPECT_GT(promoted, 25);
}

// Within 1e-12 of the larger of the result and 1000, for sums of up to 8 operations.
TEST(PromotionOfRandomChains, FloatsAreClose) {
  int promoted = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    ASSERT_EQ(difference(seed, "f64", false, promoted), "") << seed;
  }
  EXPECT_GT(promoted, 25);
}

}  // namespace
}  // namespace plimsoll::passes
