// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

constexpr const char* kReducers =
    "sum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\n"
    "plus {\n c = f32[] parameter(0)\n d = f32[] parameter(1)\n ROOT e = f32[] add(c, d)\n}\n"
    "most {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] maximum(a, b)\n}\n"
    "least {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] minimum(a, b)\n}\n";

std::string program(const std::string& lines, int replicas = 2, int partitions = 2) {
  return fmt::format("HloModule m, replica_count={}, num_partitions={}\n{}ENTRY e {{\n{}\n}}\n",
                     replicas, partitions, kReducers, lines);
}

std::vector<std::vector<ir::Literal>> arguments_of(const ir::Module& module) {
  std::vector<std::vector<ir::Literal>> arguments;
  for (std::int64_t i = 0; i < module.replica_count * module.num_partitions; ++i) {
    arguments.push_back(cases::random_arguments(module, 3 + static_cast<std::uint64_t>(i)));
    for (std::size_t j = 0; j < arguments.back().size(); ++j) {
      const auto& attributes = module.entry()->parameters()[j]->attributes();
      if (!attributes.find_extra("sharding").empty()) {
        arguments.back()[j] =
            arguments[static_cast<std::size_t>(i / module.num_partitions * module.num_partitions)]
                     [j];
      }
    }
  }
  return arguments;
}

// What differs between what all participants compute, before and after.
std::string difference(const ir::Module& before, const ir::Module& after) {
  const Status valid = ir::verify(after);
  if (!valid.ok()) return valid.message();
  const auto arguments = arguments_of(before);
  const auto expected = ir::interpret_together(before, arguments);
  const auto got = ir::interpret_together(after, arguments);
  if (!expected.ok()) return "before: " + expected.status().message();
  if (!got.ok()) return got.status().message();
  for (std::size_t i = 0; i < expected->size(); ++i) {
    const std::string found = cases::compare_bits((*expected)[i], (*got)[i]);
    if (!found.empty()) return found;
  }
  return "";
}

// The module after `pass`, with the same results.
template <typename Pass>
std::unique_ptr<ir::Module> changed_by(Pass pass, const std::string& text) {
  const auto before = parse(text);
  auto after = parse(text);
  const Result<bool> changed = pass(*after);
  EXPECT_TRUE(changed.ok()) << changed.status().message();
  EXPECT_EQ(difference(*before, *after), "") << ir::to_text(*after);
  return after;
}

// How many operands the collectives of the entry have, in the order in which they run.
std::vector<int> buckets(const ir::Module& module) {
  std::vector<int> found;
  for (const auto& instruction : module.entry()->instructions()) {
    if (ir::op_info(instruction->opcode()).op_class == ir::OpClass::collective) {
      found.push_back(instruction->operand_count());
    }
  }
  return found;
}

auto combining(std::int64_t bytes, std::vector<Remark>* remarks = nullptr,
               std::int64_t count = 256) {
  return [=](ir::Module& module) { return combine_collectives(module, {bytes, count}, remarks); };
}

// All-reduces of so many KiB, each of a parameter.
std::string reductions(const std::vector<int>& kibibytes, const std::string& reducer = "sum") {
  std::string lines, results, types;
  for (std::size_t i = 0; i < kibibytes.size(); ++i) {
    const std::string type = fmt::format("f32[{}]", 256 * kibibytes[i]);
    lines += fmt::format(" x{} = {} parameter({})\n r{} = {} all-reduce(x{}), to_apply={}\n", i,
                         type, i, i, type, i, reducer);
    results += fmt::format("{}r{}", i > 0 ? ", " : "", i);
    types += (i > 0 ? ", " : "") + type;
  }
  return program(fmt::format("{} ROOT t = ({}) tuple({})", lines, types, results));
}

using Counts = std::vector<int>;

TEST(Combiner, WhatFitsIntoABucketIsOne) {
  EXPECT_EQ(buckets(*changed_by(combining(1 << 20), reductions({1, 2, 10, 7, 6}))), (Counts{5}));
  EXPECT_EQ(buckets(*changed_by(combining(12 * 1024 - 1), reductions({8, 4}))), (Counts{1, 1}));
  EXPECT_EQ(buckets(*changed_by(combining(12 * 1024), reductions({8, 4}))), (Counts{2}));
  EXPECT_EQ(buckets(*changed_by(combining(0), reductions({8, 4}))), (Counts{1, 1}));
  EXPECT_EQ(buckets(*changed_by(combining(1 << 20, nullptr, 2), reductions({1, 1, 1, 1, 1}))),
            (Counts{2, 2, 1}));
}

TEST(Combiner, ChainsStay) {
  const std::string chain = program(
      " x = f32[4] parameter(0)\n a = f32[4] all-reduce(x), to_apply=sum\n"
      " b = f32[4] all-reduce(a), to_apply=sum\n ROOT c = f32[4] all-reduce(b), to_apply=sum");
  std::vector<Remark> remarks;
  EXPECT_EQ(buckets(*changed_by(combining(1 << 20, &remarks), chain)), (Counts{1, 1, 1}));
  ASSERT_EQ(remarks.size(), 2u);
  EXPECT_EQ(remarks[0].reason, "'c' waits for it");
}

TEST(Combiner, GoesOnPastWhatWaits) {
  const auto module = changed_by(
      combining(1 << 20),
      program(" x = f32[4] parameter(0)\n y = f32[8] parameter(1)\n"
              " a = f32[4] all-reduce(x), to_apply=sum\n b = f32[4] negate(a)\n"
              " c = f32[4] all-reduce(b), to_apply=sum\n d = f32[8] all-reduce(y), to_apply=plus\n"
              " ROOT t = (f32[4], f32[8]) tuple(c, d)"));
  EXPECT_EQ(buckets(*module), (Counts{2, 1}));
}

// Of a reducer each; `sum` and `plus` are the same.
TEST(Combiner, OnlyOfOneKind) {
  std::string lines, results, types;
  int number = 0;
  const auto add = [&](const std::string& type, const std::string& operation) {
    lines += fmt::format(" r{} = {} {}\n", number, type, operation);
    results += fmt::format("{}r{}", number > 0 ? ", " : "", number);
    types += (number > 0 ? ", " : "") + type;
    ++number;
  };
  lines = " x = f32[4] parameter(0)\n y = f64[4] convert(x)\n";
  for (const char* reducer : {"sum", "plus", "most", "least", "sum", "most"}) {
    add("f32[4]", fmt::format("all-reduce(x), to_apply={}", reducer));
  }
  add("f32[4]", "all-reduce(x), channel_id=1, to_apply=sum");
  add("f32[4]", "all-reduce(x), channel_id=2, to_apply=sum");
  add("f32[4]", "all-reduce(x), replica_groups={{0},{1}}, to_apply=sum");
  add("f32[8]", "all-gather(x), dimensions={0}");
  add("f32[8]", "all-gather(x), dimensions={0}");
  add("f64[8]", "all-gather(y), dimensions={0}");
  add("f32[2]", "reduce-scatter(x), dimensions={0}, to_apply=sum");
  add("f32[2]", "reduce-scatter(x), dimensions={0}, to_apply=sum");
  add("f32[4]", "collective-permute(x), source_target_pairs={{0,1}}");
  add("f32[4]", "collective-permute(x), source_target_pairs={{0,1}}");
  add("f32[4]", "collective-permute(x), source_target_pairs={{1,0}}");
  const auto module =
      changed_by(combining(1 << 20),
                 program(fmt::format("{} ROOT t = ({}) tuple({})", lines, types, results)));
  // Sums, maxima, the minimum; with channels; of groups; then the other kinds.
  std::map<std::string, Counts> found;
  for (const auto& instruction : module->entry()->instructions()) {
    if (ir::op_info(instruction->opcode()).op_class != ir::OpClass::collective) continue;
    found[std::string(to_string(instruction->opcode()))].push_back(instruction->operand_count());
  }
  for (auto& [kind, counts] : found) std::sort(counts.begin(), counts.end());
  EXPECT_EQ(found["all-reduce"], (Counts{1, 1, 2, 2, 3}));
  EXPECT_EQ(found["all-gather"], (Counts{3}));
  EXPECT_EQ(found["reduce-scatter"], (Counts{2}));
  EXPECT_EQ(found["collective-permute"], (Counts{1, 2}));
}

// Halves are summed in f32 in any case: their sums go with those of f32, with the same bits. Other
// dtypes, and reducers that are more than one operation, stay apart.
TEST(Combiner, SumsOfSeveralFloatsAreOne) {
  const auto module = [](const std::string& types) {
    std::string text = "HloModule m, replica_count=4\n", lines, results, list;
    const auto add = [&](const std::string& name, const std::string& dtype,
                         const std::string& what) {
      text += fmt::format("{0} {{\n a = {1}[] parameter(0)\n b = {1}[] parameter(1)\n {2}\n}}\n",
                          name, dtype, what);
    };
    for (const std::string dtype : {"f32", "f16", "bf16", "f64", "s32"}) {
      add("add_" + dtype, dtype, "ROOT s = " + dtype + "[] add(a, b)");
    }
    add("mean_bf16", "bf16",
        "s = bf16[] add(a, b)\n h = bf16[] constant(0.5)\n"
        " ROOT m = bf16[] multiply(s, h)");
    std::istringstream words(types);
    int i = 0;
    for (std::string reducer; words >> reducer; ++i) {
      const std::string dtype = reducer.substr(reducer.find('_') + 1);
      lines += fmt::format(
          " p{0} = f32[{2}] parameter({0})\n x{0} = {1}[{2}] convert(p{0})\n"
          " r{0} = {1}[{2}] all-reduce(x{0}), to_apply={3}\n",
          i, dtype, 300 + i, reducer);
      results += fmt::format("{}r{}", i > 0 ? ", " : "", i);
      list += fmt::format("{}{}[{}]", i > 0 ? ", " : "", dtype, 300 + i);
    }
    return fmt::format("{}ENTRY e {{\n{} ROOT t = ({}) tuple({})\n}}\n", text, lines, list,
                       results);
  };
  const auto sorted = [&](const std::string& types) {
    Counts counts = buckets(*changed_by(combining(1 << 20), module(types)));
    std::sort(counts.begin(), counts.end());
    return counts;
  };
  EXPECT_EQ(sorted("add_f32 add_bf16 add_f16 add_bf16"), (Counts{4}));
  EXPECT_EQ(sorted("add_bf16 add_f32"), (Counts{2}));
  EXPECT_EQ(sorted("add_bf16 add_f16"), (Counts{2}));  // a reducer of its own
  EXPECT_EQ(sorted("add_f32 add_f64 add_s32"), (Counts{1, 1, 1}));
  EXPECT_EQ(sorted("add_bf16 mean_bf16 add_f32 mean_bf16"), (Counts{2, 2}));
}

TEST(Combiner, KeepsMetadataAndPartsOfTuples) {
  const auto module = changed_by(
      combining(1 << 20),
      program(" x = f32[4] parameter(0)\n y = f32[8] parameter(1)\n z = f32[2] parameter(2)\n"
              " a = (f32[4], f32[8]) all-reduce(x, y), to_apply=sum, "
              "metadata={op_name=\"first\"}\n a0 = f32[4] get-tuple-element(a), index=0\n"
              " a1 = f32[8] get-tuple-element(a), index=1\n"
              " b = f32[2] all-reduce(z), to_apply=sum, metadata={op_name=\"second\"}\n"
              " ROOT t = (f32[4], f32[8], f32[2]) tuple(a0, a1, b)"));
  EXPECT_EQ(buckets(*module), (Counts{3}));
  const std::string text = ir::to_text(*module);
  EXPECT_NE(text.find("first"), std::string::npos);
  EXPECT_NE(text.find("second"), std::string::npos);
}

TEST(Combiner, TheRootMayBeAMember) {
  const auto module =
      changed_by(combining(1 << 20),
                 program(" x = f32[4] parameter(0)\n a = f32[4] all-reduce(x), to_apply=most\n"
                         " b = f32[4] all-reduce(x), to_apply=sum\n c = f32[4] add(a, b)\n"
                         " y = f32[4] negate(x)\n ROOT d = f32[4] all-reduce(y), to_apply=sum"));
  EXPECT_EQ(buckets(*module).size(), 1u);
}

// Backward of layers of `width`: each makes the gradient of the one before, and of its weights.
std::string backward(int layers, int width) {
  const std::string type = fmt::format("f32[{},{}]", width, width);
  std::string lines = fmt::format(" g0 = {} parameter(0)\n x = {} parameter(1)\n", type, type);
  std::string results, types;
  for (int i = 0; i < layers; ++i) {
    lines += fmt::format(
        " w{0} = {1} parameter({2})\n d{0} = {1} dot(x, g{0}), lhs_contracting_dims={{0}}, "
        "rhs_contracting_dims={{0}}\n r{0} = {1} all-reduce(d{0}), to_apply=sum\n"
        "{3}",
        i, type, i + 2,
        i + 1 == layers ? ""
                        : fmt::format(" g{0} = {1} dot(g{2}, w{2}), lhs_contracting_dims={{1}}, "
                                      "rhs_contracting_dims={{1}}\n",
                                      i + 1, type, i));
    results += fmt::format("{}r{}", i > 0 ? ", " : "", i);
    types += (i > 0 ? ", " : "") + type;
  }
  return program(fmt::format("{} ROOT t = ({}) tuple({})", lines, types, results));
}

// What is left when the last gradient is there is little, whatever a bucket holds.
TEST(Combiner, GradientsLeaveAsTheyAreMade) {
  const auto counts = [](int layers, std::int64_t bytes) {
    const auto module = parse(backward(layers, 512));
    EXPECT_TRUE(combine_collectives(*module, {.bucket_bytes = bytes}).ok());
    return buckets(*module);
  };
  EXPECT_EQ(counts(13, 4 << 20), (Counts{4, 4, 4, 1}));
  EXPECT_EQ(counts(12, 4 << 20), (Counts{4, 4, 3, 1}));
  EXPECT_EQ(counts(12, kCollectiveBucketBytes), (Counts{10, 1, 1}));
  // Small ones are all there before a meeting would be over.
  const auto small = parse(backward(12, 8));
  ASSERT_TRUE(combine_collectives(*small).ok());
  EXPECT_EQ(buckets(*small), (Counts{12}));
}

// The collectives of all computations, with names and operands: what participants compare.
std::string meetings(const ir::Module& module, int* count = nullptr,
                     std::int64_t* largest = nullptr) {
  std::string found;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (ir::op_info(instruction->opcode()).op_class != ir::OpClass::collective) continue;
      found += fmt::format("{} of {} by {}\n", to_string(instruction->opcode()),
                           instruction->shape().to_string(), instruction->name());
      if (count != nullptr) ++*count;
      if (largest != nullptr && instruction->operand_count() > 1) {
        *largest = std::max(*largest, instruction->shape().byte_size());
      }
    }
  }
  return found;
}

// Participants that plan alone may run any form. The 200 gradients of benchmarks/collectives.
TEST(Combiner, TheSameInAllFormsForThoseThatPlanAlone) {
  std::string lines, results, types;
  for (int i = 0; i < 200; ++i) {
    const int size = i % 10 == 0 ? 147'456 : i % 3 == 0 ? 4'608 : 64 + 8 * (i % 50);
    const std::string type = fmt::format("f32[{}]", size);
    lines += fmt::format(
        " x{0} = {1} parameter({0})\n t{0} = {1} tanh(x{0})\n r{0} = {1} all-reduce(t{0}), "
        "to_apply=sum\n y{0} = {1} multiply(r{0}, t{0})\n",
        i, type);
    results += fmt::format("{}y{}", i > 0 ? ", " : "", i);
    types += (i > 0 ? ", " : "") + type;
  }
  const std::string text =
      program(fmt::format("{} ROOT t = ({}) tuple({})", lines, types, results));
  const auto written = parse(text);
  std::int64_t held = written->entry()->root()->shape().byte_size();
  for (const auto* parameter : written->entry()->parameters()) {
    held += parameter->shape().byte_size();
  }
  const auto in_form = [&](OptimizeOptions options) {
    auto module = parse(text);
    EXPECT_TRUE(prepare(*module, options).ok());
    EXPECT_TRUE(choose_kernels(*module, options).ok());
    return module;
  };
  int apart = 0;
  (void)meetings(*in_form({.collective_bucket_bytes = 0}), &apart);
  EXPECT_EQ(apart, 200);
  const auto full = in_form({.same_collectives_in_all_forms = true});
  int together = 0;
  std::int64_t largest = 0;
  const std::string expected = meetings(*full, &together, &largest);
  EXPECT_LE(together, 20);
  EXPECT_LE(largest, held / 16);
  for (const Fusion fusion :
       {Fusion::full, Fusion::vertical, Fusion::narrow, Fusion::none, Fusion::as_written}) {
    for (const Residuals residuals : {Residuals::cheaper, Residuals::carried}) {
      for (const bool launches_cost : {false, true}) {
        const auto other = in_form({.fusion = fusion,
                                    .residuals = residuals,
                                    .launches_cost = launches_cost,
                                    .same_collectives_in_all_forms = true});
        EXPECT_EQ(meetings(*other), expected) << to_string(fusion);
      }
    }
  }
}

// Two kinds whose members wait for each other's: either may be combined, not both.
TEST(Combiner, NoCircles) {
  const auto module = changed_by(
      combining(1 << 20),
      program(" x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n"
              " a = f32[4] all-reduce(x), to_apply=sum\n m = f32[4] all-reduce(y), to_apply=most\n"
              " n = f32[4] all-reduce(a), to_apply=most\n b = f32[4] all-reduce(m), to_apply=sum\n"
              " ROOT t = (f32[4], f32[4]) tuple(n, b)"));
  Counts counts = buckets(*module);
  std::sort(counts.begin(), counts.end());
  EXPECT_EQ(counts, (Counts{1, 1, 2}));
}

TEST(Combiner, OneParticipant) {
  const auto module = changed_by(
      combining(1 << 20), program(" x = f32[4] parameter(0)\n y = f32[2] parameter(1)\n"
                                  " a = f32[4] collective-permute(x), source_target_pairs={{0,0}}\n"
                                  " b = f32[2] collective-permute(y), source_target_pairs={{0,0}}\n"
                                  " ROOT t = (f32[4], f32[2]) tuple(a, b)",
                                  1, 1));
  EXPECT_EQ(buckets(*module), (Counts{2}));
}

TEST(Combiner, RandomPrograms) {
  constexpr std::int64_t kCounts[] = {1, 2, 4};
  int combined = 0;
  for (std::uint64_t seed = 0; seed < 90; ++seed) {
    cases::RandomModuleOptions options;
    options.smallest_bytes = 64;
    options.largest_bytes = 2 << 10;
    options.replicas = kCounts[seed % 3];
    options.partitions = kCounts[seed / 3 % 3];
    const auto before = cases::random_module(seed, options);
    const auto after = before->clone();
    const Result<bool> changed = combine_collectives(*after);
    ASSERT_TRUE(changed.ok());
    combined += *changed ? 1 : 0;
    ASSERT_EQ(difference(*before, *after), "") << seed << "\n" << ir::to_text(*after);
    for (const auto& pass : {simplify_collectives, create_reduce_scatters}) {
      const auto simpler = before->clone();
      ASSERT_TRUE(pass(*simpler).ok());
      ASSERT_EQ(difference(*before, *simpler), "") << seed << "\n" << ir::to_text(*simpler);
    }
  }
  EXPECT_GT(combined, 10);
}

std::string simplified(const std::string& lines, int replicas = 2, int partitions = 2) {
  return expression(
      *changed_by(simplify_collectives, program(lines, replicas, partitions))->entry()->root());
}

TEST(SimplifyCollectives, GroupsOfOne) {
  const std::string x = " x = f32[4] parameter(0)\n";
  const std::string alone = "replica_groups={{0},{1}}";
  EXPECT_EQ(simplified(x + " ROOT r = f32[4] all-reduce(x), " + alone + ", to_apply=sum"), "p0");
  EXPECT_EQ(simplified(x + " ROOT r = f32[4] all-gather(x), dimensions={0}, " + alone), "p0");
  EXPECT_EQ(
      simplified(x + " ROOT r = f32[4] reduce-scatter(x), dimensions={0}, to_apply=sum, " + alone),
      "p0");
  EXPECT_EQ(simplified(x + " ROOT r = f32[4] all-to-all(x), dimensions={0}, " + alone), "p0");
  EXPECT_EQ(simplified(x + " ROOT r = f32[4] collective-broadcast(x), " + alone), "p0");
  EXPECT_EQ(simplified(x + " r = (f32[4], f32[4]) all-reduce(x, x), to_apply=sum, " + alone +
                       "\n ROOT t = f32[4] get-tuple-element(r), index=1"),
            "tuple(p0, p0)#1");
  // With a channel they are of partitions.
  EXPECT_EQ(simplified(x + " ROOT r = f32[4] all-reduce(x), channel_id=1, to_apply=sum, " + alone),
            "all-reduce(p0)");
  EXPECT_EQ(simplified(x + " ROOT r = f32[4] collective-permute(x), "
                           "source_target_pairs={{0,0},{1,1}}"),
            "p0");
  EXPECT_EQ(simplified(x + " ROOT r = f32[4] collective-permute(x), source_target_pairs={}"),
            "broadcast(0)");
  EXPECT_EQ(simplified(x + " ROOT r = f32[4] collective-permute(x), source_target_pairs={{0,0}}"),
            "collective-permute(p0)");
}

TEST(SimplifyCollectives, WhatAllHave) {
  const std::string x = " x = f32[4] parameter(0), sharding={replicated}\n";
  const std::string partitions = "channel_id=1, replica_groups={{0},{1}}";
  EXPECT_EQ(simplified(x + " ROOT r = f32[4] all-reduce(x), to_apply=sum, " + partitions),
            "multiply(p0, broadcast(2))");
  EXPECT_EQ(simplified(x + " ROOT r = f32[4] all-reduce(x), to_apply=most, " + partitions), "p0");
  EXPECT_EQ(simplified(x + " ROOT r = f32[8] all-gather(x), dimensions={0}, " + partitions),
            "reshape(broadcast(p0))");
  // Over replicas, too, it is not.
  EXPECT_EQ(simplified(x + " ROOT r = f32[4] all-reduce(x), to_apply=sum, channel_id=1"),
            "all-reduce(p0)");
  EXPECT_EQ(simplified(x + " ROOT r = f32[4] all-reduce(x), to_apply=sum"), "all-reduce(p0)");
  const std::string spread = " c = f32[] constant(0.1)\n x = f32[4] broadcast(c), dimensions={}\n";
  EXPECT_EQ(simplified(spread + " ROOT r = f32[4] all-reduce(x), to_apply=sum, channel_id=1"),
            "multiply(broadcast(0.1), broadcast(4))");
  // Added eight times in f32, it is rounded on the way.
  EXPECT_EQ(simplified(spread + " ROOT r = f32[4] all-reduce(x), to_apply=sum, channel_id=1", 4, 2),
            "all-reduce(broadcast(0.1))");
}

// Every significand of 24 bits would take long; sums of 2, 3 and 4 of some, in every binade's ends.
TEST(SimplifyCollectives, SumsOfEqualFloatsAreProducts) {
  std::uint32_t bits = 1;
  for (int i = 0; i < 2000000; ++i) {
    bits = bits * 1664525u + 1013904223u;
    const std::uint32_t of_x = i % 2 == 0 ? bits : (bits & 0xff80000fu);
    float x = 0;
    std::memcpy(&x, &of_x, sizeof(x));
    if (x != x) continue;
    const float two = x + x, three = two + x, four = three + x;
    ASSERT_EQ(two, x * 2) << i;
    ASSERT_EQ(three, x * 3) << i;
    ASSERT_EQ(four, x * 4) << i;
  }
}

// Whole numbers, which sums of floats hold in any order.
template <typename Pass>
std::string exact_after(Pass pass, const std::string& text) {
  const auto before = parse(text), after = parse(text);
  const Result<bool> changed = pass(*after);
  EXPECT_TRUE(changed.ok()) << changed.status().message();
  EXPECT_TRUE(ir::verify(*after).ok()) << ir::verify(*after).message() << ir::to_text(*after);
  auto arguments = arguments_of(*before);
  for (auto& of_one : arguments) {
    for (ir::Literal& literal : of_one) {
      for (std::int64_t i = 0; i < literal.shape().element_count(); ++i) {
        literal.set(i, std::round(8 * literal.at(i)));
      }
    }
  }
  const auto expected = ir::interpret_together(*before, arguments);
  const auto got = ir::interpret_together(*after, arguments);
  EXPECT_TRUE(expected.ok() && got.ok());
  if (!expected.ok() || !got.ok()) return "";
  for (std::size_t i = 0; i < expected->size(); ++i) {
    EXPECT_EQ(cases::compare_close((*expected)[i], (*got)[i], 0), "");
  }
  return expression(*after->entry()->root());
}

TEST(ReassociateAllReduces, SumsOfSums) {
  const auto of = [](const std::string& second, const std::string& last) {
    return exact_after(reassociate_all_reduces,
                       program(" x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n"
                               " a = f32[4] all-reduce(x), to_apply=sum\n b = f32[4] " +
                               second + "\n" + last));
  };
  const std::string sum = "all-reduce(y), to_apply=plus";
  EXPECT_EQ(of(sum, " ROOT c = f32[4] add(a, b)"), "all-reduce(add(p0, p1))");
  EXPECT_EQ(of(sum,
               " c = f32[4] subtract(a, b)\n d = f32[4] all-reduce(c), to_apply=sum\n"
               " ROOT e = f32[4] negate(d)"),
            "negate(all-reduce(all-reduce(subtract(p0, p1))))");
  EXPECT_EQ(of(sum,
               " d = f32[4] all-reduce(y), to_apply=sum\n c = f32[4] add(a, b)\n"
               " ROOT e = f32[4] add(d, c)"),
            "all-reduce(add(p1, add(p0, p1)))");
  const std::string apart = "add(all-reduce(p0), all-reduce(p1))";
  EXPECT_EQ(of("all-reduce(y), to_apply=most", " ROOT c = f32[4] add(a, b)"), apart);
  EXPECT_EQ(of("all-reduce(y), channel_id=1, to_apply=sum", " ROOT c = f32[4] add(a, b)"), apart);
  EXPECT_EQ(of(sum, " c = f32[4] add(a, b)\n ROOT e = f32[4] add(c, b)"),
            "add(" + apart + ", all-reduce(p1))");
}

// A loop of three rounds that starts from `start` and, in each, makes `u` of `v` and its sum.
std::string accumulating(const std::string& start, const std::string& update,
                         const std::string& reader = "") {
  return fmt::format(
      "HloModule m, replica_count=2, num_partitions=2\n{}more {{\n"
      " s = (s32[], f32[4], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " n = s32[] constant(3)\n ROOT more = pred[] compare(i, n), direction=LT\n}}\nbody {{\n"
      " s = (s32[], f32[4], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " v = f32[4] get-tuple-element(s), index=1\n x = f32[4] get-tuple-element(s), index=2\n"
      " one = s32[] constant(1)\n next = s32[] add(i, one)\n f = f32[] convert(next)\n"
      " b = f32[4] broadcast(f), dimensions={{}}\n g = f32[4] multiply(x, b)\n"
      " r = f32[4] all-reduce(g), to_apply=sum\n u = f32[4] {}\n{}"
      " ROOT t = (s32[], f32[4], f32[4]) tuple(next, u, x)\n}}\nENTRY e {{\n"
      " x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n zero = s32[] constant(0)\n"
      " none = f32[] constant(0)\n zeros = f32[4] broadcast(none), dimensions={{}}\n"
      " start = (s32[], f32[4], f32[4]) tuple(zero, {}, x)\n"
      " loop = (s32[], f32[4], f32[4]) while(start), condition=more, body=body\n"
      " ROOT w = f32[4] get-tuple-element(loop), index=1\n}}\n",
      kReducers, update, reader, start);
}

TEST(HoistAllReduces, WhatALoopAccumulates) {
  EXPECT_EQ(exact_after(hoist_all_reduces, accumulating("zeros", "add(v, r)")),
            "all-reduce(while(tuple(0, broadcast(0), p0))#1)");
  EXPECT_EQ(exact_after(hoist_all_reduces, accumulating("y", "add(r, v)")),
            "add(p1, all-reduce(while(tuple(0, broadcast(0), p0))#1))");
  EXPECT_EQ(exact_after(hoist_all_reduces, accumulating("y", "subtract(v, r)")),
            "add(p1, all-reduce(while(tuple(0, broadcast(0), p0))#1))");
  const std::string stays = "while(tuple(0, p1, p0))#1";
  EXPECT_EQ(exact_after(hoist_all_reduces, accumulating("y", "subtract(r, v)")), stays);
  EXPECT_EQ(exact_after(hoist_all_reduces, accumulating("y", "multiply(v, r)")), stays);
  EXPECT_EQ(
      exact_after(hoist_all_reduces, accumulating("y", "add(v, r)", " k = f32[4] negate(v)\n"))
          .substr(0, 5),
      "while");
}

std::string scattered(
    const std::string& offset, const std::string& groups,
    const std::string& slice = "dynamic-slice(r, o, z), dynamic_slice_sizes={2,3}",
    const std::string& type = "f32[2,3]", int replicas = 2, int partitions = 2) {
  return expression(*changed_by(create_reduce_scatters,
                                program(" x = f32[4,3] parameter(0)\n z = u32[] constant(0)\n" +
                                            offset + " r = f32[4,3] all-reduce(x), to_apply=sum" +
                                            groups + "\n ROOT s = " + type + " " + slice,
                                        replicas, partitions))
                         ->entry()
                         ->root());
}

TEST(ReduceScatterCreation, OfOwnPieces) {
  const std::string by_replica =
      " i = u32[] replica-id()\n c = u32[] constant(2)\n o = u32[] multiply(i, c)\n";
  const std::string by_partition =
      " i = u32[] partition-id()\n c = u32[] constant(2)\n o = u32[] multiply(i, c)\n";
  const std::string partitions = ", channel_id=1, replica_groups={{0},{1}}";
  EXPECT_EQ(scattered(by_replica, ""), "reduce-scatter(p0)");
  EXPECT_EQ(scattered(by_partition, partitions), "reduce-scatter(p0)");
  EXPECT_EQ(scattered(by_partition, "").substr(0, 14), "dynamic-slice(");
  EXPECT_EQ(scattered(by_replica, partitions).substr(0, 14), "dynamic-slice(");
  // The group names the second replica first.
  EXPECT_EQ(scattered(by_replica, ", replica_groups={{1,0}}").substr(0, 14), "dynamic-slice(");
  EXPECT_EQ(scattered(" t = u32[2] constant({2,0})\n i = u32[] replica-id()\n"
                      " p = u32[1] dynamic-slice(t, i), dynamic_slice_sizes={1}\n"
                      " o = u32[] reshape(p)\n",
                      ", replica_groups={{1,0}}"),
            "reduce-scatter(p0)");
  EXPECT_EQ(scattered(" o = u32[] parameter(1)\n", "").substr(0, 14), "dynamic-slice(");
}

std::vector<std::string> entry_collectives(const ir::Module& module) {
  std::vector<std::string> names;
  for (const auto& instruction : module.entry()->instructions()) {
    if (ir::op_info(instruction->opcode()).op_class == ir::OpClass::collective) {
      names.push_back(instruction->name());
    }
  }
  return names;
}

// Participants with plans of their own may run different forms of the program.
TEST(Forms, HaveTheSameCollectivesInTheSameOrder) {
  int longest = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    for (const bool one_program : {true, false}) {
      SCOPED_TRACE(fmt::format("seed {}, {}", seed, one_program));
      const auto module = cases::random_module(
          seed, {.instructions = 150, .control_flow = false, .donations = false, .replicas = 3});
      const std::vector<std::string> written = entry_collectives(*module);
      OptimizeOptions options;
      options.collective_bucket_bytes = 0;
      options.one_program = one_program;
      options.same_collectives_in_all_forms = true;
      const auto is_other = prepare(*module, options);
      ASSERT_TRUE(is_other.ok()) << is_other.status().to_string();
      const std::vector<std::string> prepared = entry_collectives(*module);
      // Else the program as it is written can be one of the forms.
      if (!*is_other) {
        EXPECT_EQ(prepared, written);
      }
      longest = std::max(longest, static_cast<int>(prepared.size()));
      for (const Fusion fusion : {Fusion::full, Fusion::vertical, Fusion::narrow, Fusion::none}) {
        options.fusion = fusion;
        const auto form = module->clone();
        ASSERT_TRUE(choose_kernels(*form, options).ok());
        EXPECT_EQ(entry_collectives(*form), prepared) << to_string(fusion);
      }
    }
  }
  EXPECT_GT(longest, 8);
}

TEST(PlaceGathers, StandBeforeTheirReadersAndSumsBehindWhatTheyAddUp) {
  const auto text_with = [](const std::string& hint) {
    return program(
        "s0 = f32[4] parameter(0)\n s1 = f32[4] parameter(1)\n x = f32[8] parameter(2)\n"
        "m = f32[8,8] parameter(3)\n"
        "g0 = f32[8] all-gather(s0), dimensions={0}, replica_groups={{0,1}}" +
            hint +
            "\n"
            "g1 = f32[8] all-gather(s1), dimensions={0}, replica_groups={{0,1}}" +
            hint +
            "\n"
            "v1 = f32[8] reshape(g1)\n y = f32[8] add(x, g0)\n"
            "t = f32[8] dot(y, m), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
            "z = f32[8] multiply(t, v1)\n"
            "u = f32[8] dot(z, m), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
            "p = f32[8] negate(t)\n"
            "r = f32[4] reduce-scatter(p), dimensions={0}, replica_groups={{0,1}}, to_apply=sum\n"
            "ROOT out = (f32[8], f32[4]) tuple(u, r)",
        2, 1);
  };
  const auto order_of = [](const ir::Module& module) {
    std::string names;
    for (const auto& instruction : module.entry()->instructions()) {
      if (instruction->opcode() != ir::Opcode::parameter) names += " " + instruction->name();
    }
    return names;
  };
  EXPECT_EQ(order_of(*changed_by(place_gathers,
                                 text_with(", frontend_attributes={plimsoll.hint=\"recompute\"}"))),
            " g0 y t p r g1 v1 z u out");
  EXPECT_EQ(order_of(*changed_by(place_gathers, text_with(""))), " g0 g1 v1 y t z u p r out");
}

}  // namespace
}  // namespace plimsoll::passes
