// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/participants.h"
#include "runtime/ir/shapes/verifier.h"
#include "tests/cases/compare.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

// The entry's lines, with a reducer `sum` of the dtype, for 2 replicas of 2 partitions.
std::string program(const std::string& lines, const std::string& dtype = "f32",
                    const std::string& header = "replica_count=2, num_partitions=2") {
  const std::string scalar = dtype + "[]";
  return "HloModule m, " + header + "\nsum {\n a = " + scalar + " parameter(0)\n b = " + scalar +
         " parameter(1)\n ROOT s = " + scalar + " add(a, b)\n}\nmost {\n a = " + scalar +
         " parameter(0)\n b = " + scalar + " parameter(1)\n ROOT s = " + scalar +
         " maximum(a, b)\n}\nENTRY e {\n" + lines + "\n}\n";
}

// Over the two partitions of each replica, and over replicas.
constexpr const char* kInner = "channel_id=1, replica_groups={{0},{1}}, to_apply=sum";
constexpr const char* kOuter = "replica_groups={{0,1}}, to_apply=sum";

// `ar` of x, then `lines` that make `y` of it, then the sum over replicas.
std::string between(const std::string& shape, const std::string& lines, const std::string& result,
                    const std::string& more = "", const std::string& dtype = "f32") {
  return program(" x = " + dtype + shape + " parameter(0)\n" + more + " ar = " + dtype + shape +
                     " all-reduce(x), " + kInner + "\n" + lines + " ROOT r = " + result +
                     " all-reduce(y), " + kOuter,
                 dtype);
}

struct Outcome {
  std::string expression;
  std::vector<Remark> remarks;
  std::string difference;  // of results, beyond the bound
  int all_reduces = 0;
};

// A whole number of quarters: what floats add without rounding.
std::vector<std::vector<ir::Literal>> arguments_of(const ir::Module& module, bool exact) {
  std::vector<std::vector<ir::Literal>> arguments;
  const std::int64_t participants = module.replica_count * module.num_partitions;
  for (std::int64_t i = 0; i < participants; ++i) {
    arguments.push_back(cases::random_arguments(module, 11 + static_cast<std::uint64_t>(i)));
    for (std::size_t j = 0; j < arguments.back().size(); ++j) {
      ir::Literal& literal = arguments.back()[j];
      const std::int64_t count = literal.shape().element_count();
      for (std::int64_t k = 0; k < count && exact; ++k) {
        if (!is_floating(literal.shape().dtype())) break;
        literal.set(k, std::round(literal.at(k) * 4) / 4);
      }
      // The program says so.
      const auto& extra = module.entry()->parameters()[j]->attributes();
      if (extra.find_extra("sharding") == "{replicated}") {
        literal =
            arguments[static_cast<std::size_t>(i / module.num_partitions * module.num_partitions)]
                     [j];
      }
    }
  }
  return arguments;
}

Outcome promoted(const std::string& text, bool exact = true, const PromotionOptions& options = {}) {
  Outcome outcome;
  const auto before = parse(text), after = parse(text);
  if (before == nullptr) return outcome;
  const Result<bool> changed = promote_all_reduces(*after, options, &outcome.remarks);
  EXPECT_TRUE(changed.ok()) << changed.status().message();
  const Status valid = ir::verify(*after);
  EXPECT_TRUE(valid.ok()) << valid.message() << "\n" << ir::to_text(*after);
  outcome.expression = expression(*after->entry()->root());
  for (const auto& computation : after->computations()) {
    for (const auto& instruction : computation->instructions()) {
      outcome.all_reduces += instruction->opcode() == ir::Opcode::all_reduce ? 1 : 0;
    }
  }
  if (options.several_programs) return outcome;
  const auto arguments = arguments_of(*before, exact);
  const auto expected = ir::interpret_together(*before, arguments);
  const auto got = ir::interpret_together(*after, arguments);
  EXPECT_TRUE(expected.ok()) << expected.status().message();
  EXPECT_TRUE(got.ok()) << got.status().message();
  if (!expected.ok() || !got.ok()) return outcome;
  for (std::size_t i = 0; i < expected->size() && outcome.difference.empty(); ++i) {
    outcome.difference = exact ? cases::compare_bits((*expected)[i], (*got)[i])
                               : cases::compare_close((*expected)[i], (*got)[i], 1e-5, 1e-3);
  }
  return outcome;
}

TEST(Promotion, TwoSumsBecomeOne) {
  const Outcome made = promoted(between("[4]", " y = f32[4] negate(ar)\n", "f32[4]"));
  EXPECT_EQ(made.expression, "all-reduce(negate(p0))");
  EXPECT_EQ(made.difference, "");
  ASSERT_EQ(made.remarks.size(), 1u);
  EXPECT_TRUE(made.remarks[0].changed);
  EXPECT_EQ(made.remarks[0].instruction, "ar");
  EXPECT_EQ(made.remarks[0].reason, "'r' sums over 4 participants instead");
}

TEST(Promotion, SumsOverAllHaveAChannelAndTheGroupsOfReplicas) {
  const auto module = parse(between("[4]", " y = f32[4] negate(ar)\n", "f32[4]"));
  ASSERT_TRUE(promote_all_reduces(*module).ok());
  const auto& collective = *module->entry()->root()->attributes().collective;
  EXPECT_EQ(collective.channel_id, 1);
  EXPECT_FALSE(collective.use_global_device_ids);
  EXPECT_EQ(collective.replica_groups, (ir::Groups{{0, 1}}));
}

struct Case {
  const char* name;
  std::string lines;   // make y of ar
  std::string result;  // y's shape
  std::string expression;
  std::string more = "";  // parameters
};

TEST(Promotion, LinearOperations) {
  const std::string w = " w = f32[2,4] parameter(1), sharding={replicated}\n";
  const std::string third = " w = f32[2,4] parameter(1), sharding={replicated}\n";
  const Case cases[] = {
      {"nothing", " y = f32[2,4] copy(ar)\n", "f32[2,4]", "all-reduce(copy(p0))"},
      {"reshape", " y = f32[8] reshape(ar)\n", "f32[8]", "all-reduce(reshape(p0))"},
      {"bitcast", " y = f32[8] bitcast(ar)\n", "f32[8]", "all-reduce(bitcast(p0))"},
      {"transpose", " y = f32[4,2] transpose(ar), dimensions={1,0}\n", "f32[4,2]",
       "all-reduce(transpose(p0))"},
      {"broadcast", " y = f32[3,2,4] broadcast(ar), dimensions={1,2}\n", "f32[3,2,4]",
       "all-reduce(broadcast(p0))"},
      {"slice", " y = f32[1,2] slice(ar), slice={[0:1], [1:3]}\n", "f32[1,2]",
       "all-reduce(slice(p0))"},
      {"reverse", " y = f32[2,4] reverse(ar), dimensions={1}\n", "f32[2,4]",
       "all-reduce(reverse(p0))"},
      {"convert", " z = f64[2,4] convert(ar)\n y = f32[2,4] convert(z)\n", "", ""},
      {"add", " y = f32[2,4] add(ar, w)\n", "f32[2,4]",
       "all-reduce(add(p0, divide(p1, broadcast(2))))", w},
      {"subtract", " y = f32[2,4] subtract(w, ar)\n", "f32[2,4]",
       "all-reduce(subtract(divide(p1, broadcast(2)), p0))", w},
      {"multiply", " y = f32[2,4] multiply(w, ar)\n", "f32[2,4]", "all-reduce(multiply(p1, p0))",
       w},
      {"divide",
       " c = f32[] constant(4)\n b = f32[2,4] broadcast(c), dimensions={}\n"
       " y = f32[2,4] divide(ar, b)\n",
       "f32[2,4]", "all-reduce(divide(p0, broadcast(4)))"},
      {"add itself", " y = f32[2,4] add(ar, ar)\n", "f32[2,4]", "all-reduce(add(p0, p0))"},
      {"concatenate", " y = f32[4,4] concatenate(ar, w), dimensions={0}\n", "f32[4,4]",
       "all-reduce(concatenate(p0, divide(p1, broadcast(2))))", w},
      {"pad with zero", " c = f32[] constant(0)\n y = f32[2,6] pad(ar, c), padding=0_0x1_1\n",
       "f32[2,6]", "all-reduce(pad(p0, 0))"},
      {"pad", " c = f32[] constant(3)\n y = f32[2,6] pad(ar, c), padding=0_0x1_1\n", "f32[2,6]",
       "all-reduce(pad(p0, divide(3, 2)))"},
      {"select",
       " z = f32[2,4] broadcast(zero), dimensions={}\n"
       " p = pred[2,4] compare(w, z), direction=GT\n y = f32[2,4] select(p, ar, w)\n",
       "f32[2,4]", "all-reduce(select(compare(p1, broadcast(0)), p0, divide(p1, broadcast(2))))",
       w + " zero = f32[] constant(0)\n"},
      {"dot", " y = f32[2,2] dot(ar, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n",
       "f32[2,2]", "all-reduce(dot(p0, p1))", w},
      {"dot by", " y = f32[2,2] dot(w, ar), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n",
       "f32[2,2]", "all-reduce(dot(p1, p0))", w},
      {"reduce",
       " c = f32[] constant(0)\n y = f32[2] reduce(ar, c), dimensions={1}, to_apply=sum\n",
       "f32[2]", "all-reduce(reduce(p0, 0))"},
      {"dynamic-slice",
       " i = u32[] replica-id()\n y = f32[1,4] dynamic-slice(ar, i, i), "
       "dynamic_slice_sizes={1,4}\n",
       "f32[1,4]", "all-reduce(dynamic-slice(p0, replica-id(), replica-id()))"},
      {"a chain",
       " a = f32[2,4] multiply(ar, w)\n b = f32[2,4] negate(a)\n"
       " y = f32[2,4] add(b, w)\n",
       "f32[2,4]", "all-reduce(add(negate(multiply(p0, p1)), divide(p1, broadcast(2))))", third},
  };
  for (const Case& c : cases) {
    if (c.result.empty()) continue;
    const Outcome made = promoted(between("[2,4]", c.lines, c.result, c.more));
    EXPECT_EQ(made.expression, c.expression) << c.name;
    EXPECT_EQ(made.difference, "") << c.name;
    EXPECT_EQ(made.all_reduces, 1) << c.name;
  }
}

// What stays, and the reason.
TEST(Promotion, WhatIsNotLinearStays) {
  const std::string w = " w = f32[2,4] parameter(1)\n";
  struct Refusal {
    std::string lines, result, reason, more = "";
  };
  const Refusal refusals[] = {
      {" y = f32[2,4] multiply(ar, ar)\n", "f32[2,4]", "multiply 'y' is a product of two sums"},
      {" y = f32[2,4] tanh(ar)\n", "f32[2,4]", "tanh 'y' is not linear"},
      {" y = f32[2,4] multiply(ar, w)\n", "f32[2,4]",
       "'w', operand 1 of multiply 'y', is not known to be the same in all that are summed", w},
      {" y = f32[2,4] add(ar, w)\n", "f32[2,4]",
       "'w', operand 1 of add 'y', is not known to be the same in all that are summed", w},
      {" i = u32[] partition-id()\n y = f32[1,4] dynamic-slice(ar, i, i), "
       "dynamic_slice_sizes={1,4}\n",
       "f32[1,4]",
       "'i', operand 1 of dynamic-slice 'y', is not known to be the same in all that are summed"},
      {" c = f32[] constant(1)\n y = f32[2] reduce(ar, c), dimensions={1}, to_apply=sum\n",
       "f32[2]", "reduce 'y' is no sum that starts from zero"},
      {" c = f32[] constant(0)\n y = f32[2] reduce(ar, c), dimensions={1}, to_apply=most\n",
       "f32[2]", "reduce 'y' is no sum that starts from zero"},
      {" w = f32[2,4] constant({{1,2,3,4},{5,6,7,8}})\n y = f32[2,4] divide(w, ar)\n", "f32[2,4]",
       "divide 'y' divides or shifts by a sum"},
      {" y = f32[2,4] maximum(ar, ar)\n", "f32[2,4]", "maximum 'y' is not linear"},
  };
  for (const Refusal& r : refusals) {
    const Outcome made = promoted(between("[2,4]", r.lines, r.result, r.more));
    ASSERT_EQ(made.remarks.size(), 1u);
    EXPECT_FALSE(made.remarks[0].changed) << r.lines;
    EXPECT_EQ(made.remarks[0].reason, r.reason);
    EXPECT_EQ(made.all_reduces, 2);
  }
}

TEST(Promotion, SumsStayInTheDtypeTheyWereWrittenIn) {
  const std::string text =
      "HloModule m, replica_count=2, num_partitions=2\nsum {\n a = f32[] parameter(0)\n"
      " b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\nless {\n a = bf16[] parameter(0)\n"
      " b = bf16[] parameter(1)\n ROOT s = bf16[] add(a, b)\n}\nENTRY e {\n";
  const std::string narrows =
      text +
      " x = f32[4] parameter(0)\n ar = f32[4] all-reduce(x), channel_id=1, "
      "replica_groups={{0},{1}}, to_apply=sum\n y = bf16[4] convert(ar)\n"
      " ROOT r = bf16[4] all-reduce(y), replica_groups={{0,1}}, to_apply=less\n}\n";
  const Outcome refused = promoted(narrows);
  EXPECT_EQ(refused.all_reduces, 2);
  EXPECT_EQ(refused.remarks.at(0).reason, "convert 'y' would have a sum of f32 added in bf16");
  EXPECT_EQ(promoted(narrows, true, {.narrower_sums = true}).expression, "all-reduce(convert(p0))");
  const Outcome widens =
      promoted(text +
               " x = bf16[4] parameter(0)\n ar = bf16[4] all-reduce(x), channel_id=1, "
               "replica_groups={{0},{1}}, to_apply=less\n y = f32[4] convert(ar)\n"
               " ROOT r = f32[4] all-reduce(y), replica_groups={{0,1}}, to_apply=sum\n}\n");
  EXPECT_EQ(widens.expression, "all-reduce(convert(p0))");
}

TEST(Promotion, EveryDtype) {
  for (const std::string dtype :
       {"f64", "f32", "f16", "bf16", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"}) {
    const bool floats = dtype[0] == 'f' || dtype[0] == 'b';
    const std::string w = " w = " + dtype + "[5] parameter(1), sharding={replicated}\n";
    const Outcome made = promoted(
        between("[5]", " z = " + dtype + "[5] multiply(ar, w)\n y = " + dtype + "[5] add(z, w)\n",
                dtype + "[5]", w, dtype));
    EXPECT_EQ(made.expression,
              floats ? "all-reduce(add(multiply(p0, p1), divide(p1, broadcast(2))))"
                     : "all-reduce(add(multiply(p0, p1), select(broadcast(compare(partition-id(), "
                       "0)), p1, broadcast(0))))")
        << dtype;
    EXPECT_EQ(made.difference, "") << dtype;
  }
}

// Partitions are three, which are no power of two: the bound of compare_close.
TEST(Promotion, AnyNumberOfPartitions) {
  for (const std::string dtype : {"f32", "s32"}) {
    std::string text =
        between("[5]", " y = " + dtype + "[5] add(ar, w)\n", dtype + "[5]",
                " w = " + dtype + "[5] parameter(1), sharding={replicated}\n", dtype);
    text.replace(text.find("num_partitions=2"), 16, "num_partitions=3");
    const Outcome made = promoted(text, dtype == "s32");
    EXPECT_EQ(made.all_reduces, 1);
    EXPECT_EQ(made.difference, "") << dtype;
  }
}

TEST(Promotion, SeveralMeetInOne) {
  const std::string more =
      " v = f32[4] parameter(1)\n w = f32[4] parameter(2), sharding={replicated}\n"
      " br = f32[4] all-reduce(v), channel_id=2, replica_groups={{0},{1}}, to_apply=sum\n";
  const Outcome made =
      promoted(between("[4]", " z = f32[4] add(br, w)\n y = f32[4] add(ar, z)\n", "f32[4]", more));
  EXPECT_EQ(made.expression, "all-reduce(add(p0, add(p1, divide(p2, broadcast(2)))))");
  EXPECT_EQ(made.difference, "");
  // One that has to be there anyway is an addend like others.
  const Outcome with_reader = promoted(
      between("[4]", " t = f32[4] tanh(br)\n s = f32[4] add(br, t)\n y = f32[4] add(ar, s)\n",
              "f32[4]", more),
      false);
  EXPECT_EQ(with_reader.all_reduces, 2);
  EXPECT_EQ(with_reader.difference, "");
  EXPECT_EQ(with_reader.remarks.size(), 2u);
}

TEST(Promotion, OneMayBeReadBySeveralSums) {
  const Outcome made = promoted(program(
      " x = f32[4] parameter(0)\n ar = f32[4] all-reduce(x), " + std::string(kInner) +
      "\n y = f32[4] negate(ar)\n a = f32[4] all-reduce(ar), " + kOuter +
      "\n b = f32[4] all-reduce(y), " + kOuter + "\n ROOT t = (f32[4], f32[4]) tuple(a, b)"));
  EXPECT_EQ(made.expression, "tuple(all-reduce(p0), all-reduce(negate(p0)))");
  EXPECT_EQ(made.difference, "");
  const Outcome read = promoted(program(" x = f32[4] parameter(0)\n ar = f32[4] all-reduce(x), " +
                                        std::string(kInner) + "\n a = f32[4] all-reduce(ar), " +
                                        kOuter + "\n ROOT t = (f32[4], f32[4]) tuple(a, ar)"));
  EXPECT_EQ(read.all_reduces, 2);
  EXPECT_EQ(read.remarks.at(0).reason, "tuple 't' is not linear");
}

TEST(Promotion, AllOfAChannelOrNone) {
  const auto text = [](const std::string& second) {
    return program(" x = f32[4] parameter(0)\n ar = f32[4] all-reduce(x), " + std::string(kInner) +
                   "\n br = f32[4] all-reduce(x), " + kInner +
                   "\n y = f32[4] negate(ar)\n"
                   " z = f32[4] " +
                   second + "(br)\n a = f32[4] all-reduce(y), " + kOuter +
                   "\n b = f32[4] all-reduce(z), " + kOuter +
                   "\n ROOT t = (f32[4], f32[4]) tuple(a, b)");
  };
  EXPECT_EQ(promoted(text("negate")).all_reduces, 2);
  const Outcome none = promoted(text("tanh"));
  EXPECT_EQ(none.all_reduces, 4);
  EXPECT_EQ(none.remarks.at(0).reason, "'br', of the same channel, stays: tanh 'z' is not linear");
}

TEST(Promotion, SumsOfSeveralOperands) {
  const Outcome made = promoted(program(
      " x = f32[4] parameter(0)\n v = f32[2] parameter(1)\n"
      " ar = (f32[4], f32[2]) all-reduce(x, v), " +
      std::string(kInner) +
      "\n a = f32[4] get-tuple-element(ar), index=0\n b = f32[2] get-tuple-element(ar), index=1\n"
      " c = f32[2] negate(b)\n ROOT r = (f32[4], f32[2]) all-reduce(a, c), " +
      kOuter));
  EXPECT_EQ(made.expression, "all-reduce(p0, negate(p1))");
  EXPECT_EQ(made.difference, "");
}

TEST(Promotion, OnlyWhereThereIsSomethingToGain) {
  const auto reason = [](const std::string& from, const std::string& to) {
    std::string text = between("[4]", " y = f32[4] negate(ar)\n", "f32[4]");
    for (std::size_t at = text.find(from); at != std::string::npos;
         at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
    const Outcome made = promoted(text);
    EXPECT_EQ(made.all_reduces, 2) << text;
    return made.remarks.empty() ? "" : made.remarks[0].reason;
  };
  EXPECT_EQ(reason("{{0},{1}}", "{{0,1}}"), "it sums over replicas already");
  EXPECT_EQ(reason("{{0},{1}}", "{}"), "it sums over replicas already");
  EXPECT_EQ(reason("num_partitions=2", "num_partitions=1"), "its groups have one participant each");
  EXPECT_EQ(reason("replica_groups={{0,1}}", "replica_groups={{0},{1}}"),
            "'r', which reads it: its groups have one participant each");
  EXPECT_EQ(
      reason("replica_groups={{0},{1}}, to_apply=sum", "replica_groups={{0},{1}}, to_apply=most"),
      "it is no sum");
  EXPECT_EQ(reason("replica_groups={{0,1}}, to_apply=sum", "replica_groups={{0,1}}, to_apply=most"),
            "'r', which reads it: it is no sum");
}

// Nobody runs so many, and nobody counts them.
TEST(Promotion, MoreParticipantsThanRun) {
  std::string text = between("[4]", " y = f32[4] negate(ar)\n", "f32[4]");
  text.replace(text.find("num_partitions=2"), 16, "num_partitions=1073741824");
  const auto module = parse(text);
  for (const auto& pass :
       {simplify_collectives, create_reduce_scatters, hoist_all_reduces, reassociate_all_reduces}) {
    EXPECT_FALSE(pass(*module).value());
  }
  EXPECT_FALSE(promote_all_reduces(*module).value());
  EXPECT_FALSE(combine_collectives(*module).value());
}

TEST(Promotion, AsynchronousPairsAreLeftAlone) {
  const Outcome made = promoted(
      program(" x = f32[4] parameter(0)\n s = f32[4] all-reduce-start(x), " + std::string(kInner) +
              "\n ar = f32[4] all-reduce-done(s)\n ROOT r = f32[4] all-reduce(ar), " + kOuter));
  EXPECT_EQ(made.expression, "all-reduce(all-reduce-done(all-reduce-start(p0)))");
  EXPECT_EQ(made.remarks.at(0).reason, "it is asynchronous");
}

TEST(Promotion, GroupsOfParticipants) {
  // Rows of a 2 x 2 mesh of partitions, then columns.
  const Outcome made = promoted(
      program(" x = f32[4] parameter(0)\n ar = f32[4] all-reduce(x), channel_id=1, "
              "replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=sum\n"
              " ROOT r = f32[4] all-reduce(ar), channel_id=2, replica_groups={{0,2},{1,3}}, "
              "use_global_device_ids=true, to_apply=sum",
              "f32", "replica_count=1, num_partitions=4"));
  EXPECT_EQ(made.expression, "all-reduce(p0)");
  EXPECT_EQ(made.difference, "");
}

// `w` is what `lines` make of the loop.
std::string with_loop(const std::string& body, const std::string& rounds) {
  return "HloModule m, replica_count=2, num_partitions=2\nsum {\n a = f32[] parameter(0)\n"
         " b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\nmore {\n"
         " s = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n" +
         rounds +
         " ROOT more = pred[] compare(i, n), direction=LT\n}\nbody {\n"
         " s = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
         " v = f32[4] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
         " next = s32[] add(i, one)\n" +
         body +
         " ROOT t = (s32[], f32[4]) tuple(next, u)\n}\nENTRY e {\n x = f32[4] parameter(0)\n"
         " c = f32[4] parameter(1), sharding={replicated}\n zero = s32[] constant(0)\n"
         " start = (s32[], f32[4]) tuple(zero, c)\n"
         " loop = (s32[], f32[4]) while(start), condition=more, body=body\n"
         " w = f32[4] get-tuple-element(loop), index=1\n ar = f32[4] all-reduce(x), channel_id=1, "
         "replica_groups={{0},{1}}, to_apply=sum\n y = f32[4] multiply(ar, w)\n"
         " ROOT r = f32[4] all-reduce(y), replica_groups={{0,1}}, to_apply=sum\n}\n";
}

TEST(Promotion, FactorsOfLoops) {
  const std::string three = " n = s32[] constant(3)\n";
  EXPECT_EQ(promoted(with_loop(" u = f32[4] add(v, v)\n", three)).all_reduces, 1);
  EXPECT_EQ(promoted(with_loop(" u = f32[4] add(v, v)\n", three)).difference, "");
  const std::string number =
      " p = u32[] partition-id()\n f = f32[] convert(p)\n b = f32[4] broadcast(f), dimensions={}\n";
  EXPECT_EQ(promoted(with_loop(number + " u = f32[4] add(v, b)\n", three)).all_reduces, 2);
  // A sum over partitions is the same in all of them.
  const std::string summed =
      number + " u = f32[4] all-reduce(b), channel_id=3, replica_groups={{0},{1}}, to_apply=sum\n";
  EXPECT_EQ(promoted(with_loop(summed, three)).all_reduces, 2);
  EXPECT_EQ(promoted(with_loop(summed, three)).difference, "");
  // As many rounds as the partition has a number.
  EXPECT_EQ(promoted(with_loop(" u = f32[4] add(v, v)\n",
                               " p = u32[] partition-id()\n n = s32[] convert(p)\n"))
                .all_reduces,
            2);
}

TEST(Promotion, FactorsOfBranchesCallsAndTuples) {
  const auto text = [](const std::string& choice) {
    return "HloModule m, replica_count=2, num_partitions=2\nsum {\n a = f32[] parameter(0)\n"
           " b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\ntwice {\n"
           " a = f32[4] parameter(0)\n ROOT b = f32[4] add(a, a)\n}\nsame {\n"
           " ROOT a = f32[4] parameter(0)\n}\nENTRY e {\n x = f32[4] parameter(0)\n"
           " c = f32[4] parameter(1), sharding={replicated}\n d = f32[4] call(c), "
           "to_apply=twice\n" +
           choice +
           " w = f32[4] conditional(p, d, c), true_computation=twice, false_computation=same\n"
           " both = (f32[4], f32[4]) tuple(x, w)\n v = f32[4] get-tuple-element(both), index=1\n"
           " ar = f32[4] all-reduce(x), channel_id=1, replica_groups={{0},{1}}, to_apply=sum\n"
           " y = f32[4] multiply(ar, v)\n"
           " ROOT r = f32[4] all-reduce(y), replica_groups={{0,1}}, to_apply=sum\n}\n";
  };
  const Outcome made = promoted(text(" p = pred[] constant(true)\n"));
  EXPECT_EQ(made.all_reduces, 1);
  EXPECT_EQ(made.difference, "");
  EXPECT_EQ(promoted(text(" i = u32[] partition-id()\n z = u32[] constant(0)\n"
                          " p = pred[] compare(i, z), direction=EQ\n"))
                .all_reduces,
            2);
}

TEST(Promotion, ShardingsInTheHeader) {
  const std::string lines =
      " x = f32[4] parameter(0)\n w = f32[4] parameter(1)\n ar = f32[4] all-reduce(x), " +
      std::string(kInner) + "\n y = f32[4] multiply(ar, w)\n ROOT r = f32[4] all-reduce(y), " +
      kOuter;
  const std::string header = "replica_count=2, num_partitions=2";
  const auto count = [&](const std::string& shardings) {
    const auto module =
        parse(program(lines, "f32", header + ", spmd_parameters_shardings=" + shardings));
    EXPECT_TRUE(promote_all_reduces(*module).ok());
    return expression(*module->entry()->root());
  };
  EXPECT_EQ(count("{{devices=[2]0,1},{replicated}}"), "all-reduce(multiply(p0, p1))");
  EXPECT_EQ(count("{{replicated},{devices=[2]0,1}}"), "all-reduce(multiply(all-reduce(p0), p1))");
}

// Programs of two partitions in one module: all of a channel, or none.
std::string two_programs(const std::string& of_first, const std::string& of_second) {
  const auto one = [](const std::string& n, const std::string& device, const std::string& lines) {
    std::string at = ", sharding={maximal device=" + device + "}\n";
    std::string made = " x" + n + " = f32[4] parameter(" + device + ")" + at + " ar" + n +
                       " = f32[4] all-reduce(x" + n +
                       "), channel_id=1, replica_groups={{0},{1}}, to_apply=sum" + at;
    made += lines;
    return made + " r" + n + " = f32[4] all-reduce(y" + n +
           "), replica_groups={{0,1}}, to_apply=sum" + at;
  };
  return program(one("0", "0", of_first) + one("1", "1", of_second) +
                     " ROOT t = (f32[4], f32[4]) tuple(r0, r1)",
                 "f32", "replica_count=2");
}

TEST(Promotion, ProgramsOfSeveralPartitions) {
  const auto lines = [](const std::string& n, const std::string& op, const std::string& value) {
    return " c" + n + " = f32[4] constant(" + value + ")\n y" + n + " = f32[4] " + op + "(ar" + n +
           ", c" + n + ")\n";
  };
  const PromotionOptions programs{.several_programs = true};
  const Outcome made = promoted(
      two_programs(lines("0", "add", "{1,2,3,4}"), lines("1", "add", "{1,2,3,4}")), true, programs);
  EXPECT_EQ(made.expression,
            "tuple(all-reduce(add(p0, divide(constantf32[4], broadcast(2)))), "
            "all-reduce(add(p1, divide(constantf32[4], broadcast(2)))))");
  for (const std::string& text :
       {two_programs(lines("0", "add", "{1,2,3,4}"), lines("1", "add", "{1,2,3,5}")),
        two_programs(lines("0", "add", "{1,2,3,4}"), lines("1", "subtract", "{1,2,3,4}")),
        two_programs(lines("0", "add", "{1,2,3,4}"), " y1 = f32[4] tanh(ar1)\n")}) {
    const Outcome refused = promoted(text, true, programs);
    EXPECT_EQ(refused.all_reduces, 4);
    EXPECT_EQ(refused.remarks.size(), 2u);
  }
  // As all participants run it, it has one partition.
  EXPECT_EQ(promoted(two_programs(lines("0", "add", "{1,2,3,4}"), lines("1", "add", "{1,2,3,4}")))
                .all_reduces,
            4);
}

}  // namespace
}  // namespace plimsoll::passes
