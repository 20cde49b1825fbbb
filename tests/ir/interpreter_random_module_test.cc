// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"

namespace plimsoll::ir {
namespace {

constexpr std::uint64_t kSeeds = 60;

// Small values: the claims here are about structure.
cases::RandomModuleOptions small() {
  cases::RandomModuleOptions options;
  options.smallest_bytes = 256;
  options.largest_bytes = 4096;
  return options;
}

double largest_magnitude(const Literal& literal) {
  double largest = 0;
  if (literal.shape().is_tuple()) {
    for (const Literal& element : literal.elements()) {
      largest = std::max(largest, largest_magnitude(element));
    }
    return largest;
  }
  for (std::int64_t i = 0; i < literal.shape().element_count(); ++i) {
    const double magnitude = std::fabs(literal.at(i));
    if (!(magnitude <= largest)) largest = magnitude;  // keeps a NaN
  }
  return largest;
}

TEST(RandomModule, VerifiesPrintsAndParsesBack) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto module = cases::random_module(seed, small());
    const Status status = verify(*module);
    ASSERT_TRUE(status.ok()) << seed << ": " << status.to_string() << "\n" << to_text(*module);
    const std::string text = to_text(*module);
    const auto back = parse_module(text);
    ASSERT_TRUE(back.ok()) << seed << ": " << back.status().to_string() << "\n" << text;
    EXPECT_EQ(to_text(**back), text) << seed;
  }
}

TEST(RandomModule, GivesFiniteValuesAroundOne) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto module = cases::random_module(seed, small());
    const auto result = interpret(*module, cases::random_arguments(*module, seed));
    ASSERT_TRUE(result.ok()) << seed << ": " << result.status().to_string();
    EXPECT_LT(largest_magnitude(*result), 1e4) << seed << "\n" << to_text(*module);
  }
}

TEST(RandomModule, IsTheSameForTheSameSeed) {
  EXPECT_EQ(to_text(*cases::random_module(7)), to_text(*cases::random_module(7)));
  EXPECT_NE(to_text(*cases::random_module(7)), to_text(*cases::random_module(8)));
}

TEST(RandomModule, UsesManyOpcodesAndObeysItsOptions) {
  std::set<Opcode> seen;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto module = cases::random_module(seed, small());
    for (const auto& computation : module->computations()) {
      for (const auto& instruction : computation->instructions()) {
        seen.insert(instruction->opcode());
      }
    }
    cases::RandomModuleOptions plain = small();
    plain.control_flow = plain.mixed_dtypes = plain.donations = false;
    plain.instructions = 30;
    const auto limited = cases::random_module(seed, plain);
    EXPECT_TRUE(limited->input_output_alias.empty());
    for (const auto& instruction : limited->entry()->instructions()) {
      EXPECT_NE(instruction->opcode(), Opcode::while_);
      EXPECT_NE(instruction->opcode(), Opcode::conditional);
      EXPECT_NE(instruction->opcode(), Opcode::call);
      for (const Shape* leaf : leaves(instruction->shape())) {
        EXPECT_LE(leaf->byte_size(), 4 * plain.largest_bytes);
        EXPECT_NE(leaf->dtype(), DType::bf16);
      }
    }
  }
  for (Opcode opcode : {Opcode::while_,
                        Opcode::conditional,
                        Opcode::call,
                        Opcode::dot,
                        Opcode::convolution,
                        Opcode::reduce,
                        Opcode::reduce_window,
                        Opcode::gather,
                        Opcode::scatter,
                        Opcode::sort,
                        Opcode::rng_bit_generator,
                        Opcode::dynamic_slice,
                        Opcode::dynamic_update_slice,
                        Opcode::concatenate,
                        Opcode::pad,
                        Opcode::transpose,
                        Opcode::select,
                        Opcode::convert,
                        Opcode::opt_barrier,
                        Opcode::get_tuple_element}) {
    EXPECT_TRUE(seen.contains(opcode)) << to_string(opcode);
  }
}

TEST(RandomModule, DonatesParametersToOutputsOfTheirShape) {
  int aliases = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    aliases += static_cast<int>(cases::random_module(seed, small())->input_output_alias.size());
  }
  EXPECT_GT(aliases, 20);
}

// What no program of this library's users runs here, or what no reference has the numbers of.
constexpr Opcode kNeverMade[] = {Opcode::rng, Opcode::rng_get_and_update_state, Opcode::infeed,
                                 Opcode::outfeed};

// So many modules hold each opcode at least once.
TEST(RandomModule, MakesEveryOpcodeWhereRareOnesAreAskedFor) {
  std::set<Opcode> seen;
  std::set<DType> dtypes;
  for (std::uint64_t seed = 0; seed < 250; ++seed) {
    cases::RandomModuleOptions options = small();
    options.rare = true;
    options.instructions = 200;
    options.training_step = false;
    if (seed % 8 == 0) options.replicas = options.partitions = 2;
    const auto module = cases::random_module(seed, options);
    for (const auto& computation : module->computations()) {
      for (const auto& instruction : computation->instructions()) {
        seen.insert(instruction->opcode());
        for (const Shape* leaf : leaves(instruction->shape())) {
          if (leaf->is_array()) dtypes.insert(leaf->dtype());
        }
      }
    }
  }
  for (int i = 0; i < opcode_count(); ++i) {
    const auto opcode = static_cast<Opcode>(i);
    const bool never =
        std::find(std::begin(kNeverMade), std::end(kNeverMade), opcode) != std::end(kNeverMade);
    EXPECT_EQ(seen.contains(opcode), !never) << to_string(opcode);
  }
  for (const DType dtype : {DType::s2, DType::s4, DType::f4e2m1fn, DType::f8e4m3fn, DType::c64,
                            DType::s16, DType::u8, DType::f16}) {
    EXPECT_TRUE(dtypes.contains(dtype)) << to_string(dtype);
  }
}

TEST(RandomModule, VerifiesPrintsAndParsesBackWithRareThingsInIt) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    cases::RandomModuleOptions options = small();
    options.rare = true;
    const auto module = cases::random_module(seed, options);
    const Status status = verify(*module);
    ASSERT_TRUE(status.ok()) << seed << ": " << status.to_string() << "\n" << to_text(*module);
    const std::string text = to_text(*module);
    const auto back = parse_module(text);
    ASSERT_TRUE(back.ok()) << seed << ": " << back.status().to_string() << "\n" << text;
    EXPECT_EQ(to_text(**back), text) << seed;
  }
}

bool holds_a(const Module& module, Opcode opcode) {
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (instruction->opcode() == opcode && !instruction->users().empty()) return true;
    }
  }
  return false;
}

TEST(Shrink, LeavesLittleBesidesWhatFails) {
  int shrunk = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const auto module = cases::random_module(seed, small());
    const auto fails = [](const Module& m) { return holds_a(m, Opcode::dot); };
    if (!fails(*module)) continue;
    const auto least = cases::shrink(*module, fails);
    ++shrunk;
    EXPECT_TRUE(verify(*least).ok());
    EXPECT_TRUE(fails(*least));
    const auto parameters = static_cast<std::int64_t>(least->entry()->parameters().size());
    EXPECT_LE(least->instruction_count() - parameters, 12) << to_text(*least);
  }
  EXPECT_GT(shrunk, 6);
}

}  // namespace
}  // namespace plimsoll::ir
