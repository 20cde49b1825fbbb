// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/fusions/attention.h"

#include <fstream>
#include <iterator>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/passes/attention/attention_gradient.h"
#include "runtime/passes/rewriter.h"
#include "tests/cases/compare.h"
#include "tests/cases/scanned_attention.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

// Causal attention of two heads.
const char* const kCausal = R"(HloModule m
max { x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT r = f32[] maximum(x, y) }
sum { x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT r = f32[] add(x, y) }
ENTRY e {
 q = f32[2,70,16] parameter(0)
 k = f32[2,70,16] parameter(1)
 v = f32[2,70,16] parameter(2)
 other = f32[2,70,70] parameter(3)
 products = f32[2,70,70] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
 c = f32[] constant(0.25)
 cs = f32[2,70,70] broadcast(c), dimensions={}
 scaled = f32[2,70,70] multiply(products, cs)
 i = s32[70,70] iota(), iota_dimension=0
 j = s32[70,70] iota(), iota_dimension=1
 sees = pred[70,70] compare(i, j), direction=GE
 seen = pred[2,70,70] broadcast(sees), dimensions={1,2}
 low = f32[] constant(-1e9)
 lows = f32[2,70,70] broadcast(low), dimensions={}
 scores = f32[2,70,70] select(seen, scaled, lows)
 lowest = f32[] constant(-inf)
 m = f32[2,70] reduce(scores, lowest), dimensions={2}, to_apply=max
 ms = f32[2,70,70] broadcast(m), dimensions={0,1}
 shifted = f32[2,70,70] subtract(scores, ms)
 powers = f32[2,70,70] exponential(shifted)
 zero = f32[] constant(0)
 l = f32[2,70] reduce(powers, zero), dimensions={2}, to_apply=sum
 ls = f32[2,70,70] broadcast(l), dimensions={0,1}
 p = f32[2,70,70] divide(powers, ls)
 o = f32[2,70,16] dot(p, v), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
 ROOT r = (f32[2,70,16]) tuple(o)
}
)";

// The backend_config of the first attention; empty when there is none.
std::string config_after(const std::string& text) {
  auto module = parse(text);
  if (module == nullptr || !eliminate_dead_code(*module).ok()) return "";
  const Result<bool> changed = recognize_attention(*module);
  EXPECT_TRUE(changed.ok()) << changed.status().message();
  const Status valid = ir::verify(*module);
  EXPECT_TRUE(valid.ok()) << valid.message() << "\n" << ir::to_text(*module);
  for (const auto& instruction : module->entry()->instructions()) {
    if (ir::read_attention(*instruction).has_value()) {
      return std::string(instruction->attributes().find_extra("backend_config"));
    }
  }
  EXPECT_FALSE(*changed);
  return "";
}

TEST(RecognizeAttention, ComposedCausalAttentionBecomesOneKernel) {
  EXPECT_EQ(after(recognize_attention, kCausal).substr(0, 13), "tuple(fusion{");
  EXPECT_EQ(config_after(kCausal), "\"attention scale=0.25 causal=0 fill=-1e+09\"");
}

TEST(RecognizeAttention, TheResultMayBeTheProgramsOwn) {
  std::string bare = replaced(kCausal, " o = f32", " ROOT o = f32");
  bare = replaced(bare, " ROOT r = (f32[2,70,16]) tuple(o)\n", "");
  EXPECT_EQ(after(recognize_attention, bare).substr(0, 7), "fusion{");
}

TEST(RecognizeAttention, WritesOfTheSameMeaningAreTheSame) {
  const std::string scores = replaced(kCausal, "multiply(products, cs)", "divide(products, cs)");
  EXPECT_EQ(config_after(scores), "\"attention scale=4 causal=0 fill=-1e+09\"");
  std::string later =
      replaced(kCausal, "compare(i, j), direction=GE", "compare(j, i), direction=LT");
  EXPECT_EQ(config_after(later), "\"attention scale=0.25 causal=-1 fill=-1e+09\"");
  later = replaced(kCausal, "compare(i, j), direction=GE", "compare(j, i), direction=GT");
  later = replaced(later, "select(seen, scaled, lows)", "select(seen, lows, scaled)");
  EXPECT_EQ(config_after(later), "\"attention scale=0.25 causal=0 fill=-1e+09\"");
  const std::string plain = replaced(kCausal, "reduce(scores, lowest)", "reduce(scaled, lowest)");
  EXPECT_EQ(config_after(replaced(plain, "subtract(scores, ms)", "subtract(scaled, ms)")),
            "\"attention scale=0.25\"");
  const std::string biased = replaced(kCausal, "multiply(products, cs)", "add(products, other)");
  EXPECT_EQ(config_after(biased), "\"attention bias=0.1.2 causal=0 fill=-1e+09\"");
  // A window of keys is no causal mask, but a mask.
  const std::string window =
      replaced(kCausal, "compare(i, j), direction=GE", "compare(i, j), direction=LE");
  EXPECT_EQ(config_after(window), "\"attention scale=0.25 mask=1.2 fill=-1e+09\"");
}

TEST(RecognizeAttention, NearMissesStayAsTheyAre) {
  const std::string text = kCausal;
  // Dropout between softmax and the values.
  EXPECT_EQ(config_after(replaced(text, " o = f32[2,70,16] dot(p, v)",
                                  " d = f32[2,70,70] multiply(p, other)\n"
                                  " o = f32[2,70,16] dot(d, v)")),
            "");
  // Others read the probabilities or the scores.
  EXPECT_EQ(config_after(replaced(text, "(f32[2,70,16]) tuple(o)",
                                  "(f32[2,70,16], f32[2,70,70]) tuple(o, p)")),
            "");
  EXPECT_EQ(config_after(replaced(text, "(f32[2,70,16]) tuple(o)",
                                  "(f32[2,70,16], f32[2,70,70]) tuple(o, products)")),
            "");
  EXPECT_EQ(config_after(
                replaced(text, "(f32[2,70,16]) tuple(o)", "(f32[2,70,16], f32[2,70]) tuple(o, l)")),
            "");
  // Softmax over the queries.
  std::string queries = replaced(text, "reduce(powers, zero), dimensions={2}",
                                 "reduce(powers, zero), dimensions={1}");
  EXPECT_EQ(config_after(queries), "");
  // A sum that starts from one, a maximum that is a minimum.
  EXPECT_EQ(config_after(replaced(text, "zero = f32[] constant(0)", "zero = f32[] constant(1)")),
            "");
  EXPECT_EQ(config_after(replaced(text, "f32[] maximum(x, y)", "f32[] minimum(x, y)")), "");
  // No softmax: not divided by its sum.
  EXPECT_EQ(config_after(replaced(text, "divide(powers, ls)", "divide(powers, ms)")), "");
  EXPECT_EQ(config_after(replaced(text, "divide(powers, ls)", "multiply(powers, ls)")), "");
  // The author wants the probabilities kept.
  EXPECT_EQ(config_after(replaced(text, "divide(powers, ls)",
                                  "divide(powers, ls), "
                                  "frontend_attributes={plimsoll.hint=\"keep\"}")),
            "");
}

// A reshape says of a dim of size one no longer which dim of the scores it is. (The pass drops such
// dims before it looks.)
TEST(RecognizeAttention, AUnitDimThatAReshapeMadeIsNoBatchDim) {
  std::string text = kCausal;
  for (std::size_t at = 0; (at = text.find("[2,70", at)) != std::string::npos;) text[at + 1] = '1';
  text = replaced(text, " o = f32[1,70,16] dot(p, v)",
                  " again = f32[1,70,70] reshape(p)\n o = f32[1,70,16] dot(again, v)");
  const auto module = parse(text);
  ASSERT_NE(module, nullptr);
  for (const auto& instruction : module->entry()->instructions()) {
    if (instruction->opcode() != ir::Opcode::exponential) continue;
    const auto scores = match_attention_scores(*instruction);
    ASSERT_TRUE(scores.has_value());
    EXPECT_FALSE(match_attention_uses(*scores).has_value());
  }
  EXPECT_NE(config_after(text), "");
}

std::string read_file(const std::string& name) {
  std::ifstream file(std::string(PLIMSOLL_SOURCE_DIR "/tests/passes/") + name);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The step in a file has two attentions, no dot, no array of the scores' size and the same values.
void check_step(const std::string& name, double tolerance) {
  const std::string text = read_file(name);
  const auto before = parse(text), after = parse(text);
  ASSERT_TRUE(before != nullptr);
  ASSERT_TRUE(optimize(*after).ok());
  int attentions = 0;
  for (const auto& instruction : after->entry()->instructions()) {
    EXPECT_NE(instruction->opcode(), ir::Opcode::dot);
    if (ir::read_attention(*instruction).has_value()) ++attentions;
    for (const ir::Shape* leaf : ir::leaves(instruction->shape())) {
      EXPECT_LT(leaf->element_count(), 2 * 3 * 128 * 128) << instruction->name();
    }
  }
  EXPECT_EQ(attentions, 2) << ir::to_text(*after);
  const auto arguments = cases::random_arguments(*before, 5);
  const auto expected = ir::interpret(*before, arguments), got = ir::interpret(*after, arguments);
  ASSERT_TRUE(expected.ok() && got.ok());
  EXPECT_EQ(cases::compare_close(*expected, *got, tolerance), "");
}

TEST(RecognizeAttention, StepOfJaxKeepsItsValuesWithoutAnyDot) {
  check_step("attention_step.hlo", 1e-5);
}

TEST(RecognizeAttention, DimsOfSizeOneHideNothing) {
  check_step("attention_grouped_step.hlo", 1e-5);
  // As written, bfloat16 is rounded to between the operations.
  check_step("attention_grouped_step_bf16.hlo", 3e-2);
}

TEST(RecognizeAttention, FoundAgainInItsOwnText) {
  const auto module = parse(read_file("attention_step.hlo"));
  ASSERT_TRUE(optimize(*module).ok());
  const std::string text = ir::to_text(*module);
  const auto again = parse(text);
  ASSERT_TRUE(optimize(*again).ok());
  int attentions = 0;
  for (const auto& instruction : again->entry()->instructions()) {
    if (ir::read_attention(*instruction).has_value()) ++attentions;
  }
  EXPECT_EQ(attentions, 2) << text;
}

// A scan over layers and its gradient: what attention's gradient needs is in another loop.
TEST(RecognizeAttention, AcrossALoopAndItsGradient) {
  constexpr int kPrograms = 60;
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    const std::string text = cases::scanned_attention(seed);
    const auto before = parse(text), after = parse(text);
    ASSERT_NE(before, nullptr);
    ASSERT_TRUE(optimize(*after).ok());
    ASSERT_TRUE(ir::verify(*after).ok()) << ir::to_text(*after);
    int forward = 0, backward = 0;
    for (const ir::Computation* program : programs_of(*after)) {
      for (const auto& instruction : program->instructions()) {
        if (const auto form = ir::read_attention(*instruction)) {
          ++(form->backward ? backward : forward);
        }
        // Neither a softmax nor an array of scores, stacked or not, is left.
        for (const ir::Shape* leaf : ir::leaves(instruction->shape())) {
          const int rank = leaf->rank();
          EXPECT_FALSE(rank > 3 && leaf->dim(rank - 1) == leaf->dim(rank - 2) &&
                       leaf->dim(rank - 1) >= 16)
              << "seed " << seed << ": " << instruction->name();
        }
      }
    }
    EXPECT_TRUE(forward == 1 && backward == 1)
        << "seed " << seed << ": " << forward << " and " << backward;
    const auto arguments = cases::random_arguments(*before, seed, {{-1, 1}});
    const auto expected = ir::interpret(*before, arguments), got = ir::interpret(*after, arguments);
    ASSERT_TRUE(expected.ok() && got.ok()) << got.status().to_string();
    EXPECT_EQ(cases::compare_close(*expected, *got, 1e-4), "") << "seed " << seed;
  }
}

// What the loops pass to each other of a softmax that others read, too, stays as it is.
TEST(RecognizeAttention, NotWhereTheProbabilitiesAreAResult) {
  std::string text = cases::scanned_attention(0);
  const std::string name = text.find("powerss = ") != std::string::npos ? "powerss" : "ps";
  const std::string shape = text.substr(text.find(name + " = ") + name.size() + 3);
  const std::string stacked = shape.substr(0, shape.find(' '));
  const std::size_t root = text.rfind("  ROOT r = (");
  const std::size_t tuple = text.find(" tuple(", root);
  text = text.substr(0, root + 12) + stacked + ", " + text.substr(root + 12, tuple - root - 12) +
         " tuple(" + name + ", " + text.substr(tuple + 7);
  const auto module = parse(text);
  ASSERT_NE(module, nullptr);
  const auto changed = recognize_attention(*module);
  ASSERT_TRUE(changed.ok());
  EXPECT_FALSE(*changed);
}

TEST(RecognizeAttention, FewScoresStayComposed) {
  std::string text = kCausal;
  for (std::size_t at = 0; (at = text.find("70", at)) != std::string::npos;)
    text.replace(at, 2, "1");
  for (std::size_t at = 0; (at = text.find("16]", at)) != std::string::npos;) {
    text.replace(at, 3, "4096]");
  }
  EXPECT_EQ(config_after(text), "");
}

}  // namespace
}  // namespace plimsoll::passes
