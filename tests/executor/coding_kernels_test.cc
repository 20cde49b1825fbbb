// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/coding_kernels.h"
#include "runtime/device/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/codec.h"
#include "runtime/base/alignment.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"
#include "runtime/planner/facts/codec_choice.h"
#include "runtime/program/fused_decode.h"
#include "runtime/program/fused_encode.h"
#include "tests/cases/random_module.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::executor {
namespace {

using ir::Codec;
using ir::CodecKind;
using ir::DType;
using ir::Instruction;

// All codecs by which the operand may be stored for this reader.
std::vector<Codec> codecs_for(const Instruction& instruction, int operand) {
  const DType dtype = instruction.operand(operand)->shape().dtype();
  std::vector<Codec> codecs;
  if (dtype == DType::pred) codecs.push_back({CodecKind::bit_mask});
  if (dtype == DType::f32 || dtype == DType::f64) {
    codecs.push_back({CodecKind::bfloat16});
    codecs.push_back({CodecKind::float16});
  }
  for (const DType stored : {DType::u8, DType::s8, DType::s16, DType::f16}) {
    Codec codec{CodecKind::narrow};
    codec.stored = stored;
    const bool fits = dtype != DType::pred && ir::dtype_bytes(stored) < ir::dtype_bytes(dtype) &&
                      (ir::is_floating(dtype) || !ir::is_floating(stored));
    if (fits) codecs.push_back(codec);
  }
  const Codec outcome = planner::comparison_of(instruction, operand, dtype);
  if (outcome.kind != CodecKind::none) codecs.push_back(outcome);
  return codecs;
}

// Anything that the codec may have stored, and what it decodes to.
struct Stored {
  ir::Literal stored, value;
};

Stored stored_value(const Codec& codec, const ir::Shape& shape, const ir::Shape& as,
                    std::mt19937& rng) {
  // As long as the buffer of a plan.
  const auto bytes = static_cast<std::size_t>(aligned_bytes(ir::encoded_bytes(codec, shape)));
  std::vector<std::byte> code(std::max(bytes, static_cast<std::size_t>(as.byte_size())));
  const bool floats = as.dtype() == DType::bf16 || as.dtype() == DType::f16;
  for (std::size_t i = 0; i < code.size(); ++i) {
    code[i] = static_cast<std::byte>(rng());
    // No infinities and NaNs among 16-bit floats.
    if (floats && i % 2 == 1) code[i] &= std::byte{0xbb};
  }
  const auto kernels = kernels::make_codec(codec, shape);
  EXPECT_TRUE(kernels.ok()) << kernels.status().to_string();
  std::vector<std::byte> value(static_cast<std::size_t>(shape.byte_size()));
  const auto stream = std::move(device::cpu_device()->create_stream()).value();
  const void* const from[] = {code.data()};
  void* const to[] = {value.data()};
  EXPECT_TRUE(kernels->decode->launch(*stream, {from, to, nullptr}).ok());
  return {ir::Literal::from_bytes(as, {code.data(), static_cast<std::size_t>(as.byte_size())}),
          ir::Literal::from_bytes(shape, value)};
}

// The plan has only what the instruction takes.
void expect_no_more_workspace(const Instruction& coding, const Instruction& plain) {
  const auto one = jit::testing::compiler().compile(coding);
  const auto other = jit::testing::compiler().compile(plain);
  ASSERT_TRUE(one.ok() && other.ok()) << one.status().to_string();
  EXPECT_LE((*one)->workspace_bytes(), (*other)->workspace_bytes());
}

// The kernel that decodes operands, each by one of its codecs, gives the bits of the one that reads
// what was decoded before. Counts by codec what was compared.
void compare(const Instruction& instruction, std::mt19937& rng,
             std::map<CodecKind, int>& compared) {
  std::vector<ir::EncodedInput> inputs;
  for (int operand = 0; operand < instruction.operand_count(); ++operand) {
    std::vector<Codec> codecs = codecs_for(instruction, operand);
    std::erase_if(codecs, [&](const Codec& codec) {
      return !can_fuse_decode(instruction, {operand, codec});
    });
    if (codecs.empty()) continue;
    // What is only compared is rare.
    const bool rare = codecs.back().kind == CodecKind::compare_mask;
    inputs.push_back({operand, rare ? codecs.back() : codecs[rng() % codecs.size()]});
    ++compared[inputs.back().codec.kind];
  }
  if (inputs.empty()) return;
  const auto module = with_coding(instruction, {inputs, {}}, {});
  std::vector<ir::Literal> stored, values;
  for (const Instruction* operand : instruction.operands()) {
    values.push_back(jit::testing::numbers(operand->shape(), rng()));
    stored.push_back(values.back());
  }
  for (const ir::EncodedInput& input : inputs) {
    const auto at = static_cast<std::size_t>(input.input);
    const Stored made = stored_value(input.codec, instruction.operand(input.input)->shape(),
                                     module->entry()->parameters()[at]->shape(), rng);
    stored[at] = made.stored;
    values[at] = made.value;
  }
  expect_no_more_workspace(*module->entry()->root(), instruction);
  const auto fused = jit::testing::run(*module->entry()->root(), stored);
  const auto twice = jit::testing::run(instruction, values);
  ASSERT_TRUE(twice.ok()) << twice.status().to_string();
  ASSERT_TRUE(fused.ok()) << fused.status().to_string() << "\n" << ir::to_text(*module);
  for (std::size_t i = 0; i < twice->size(); ++i) {
    const auto a = (*fused)[i].bytes(), b = (*twice)[i].bytes();
    ASSERT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << ir::to_text(*module);
  }
}

// All codecs that some result of that dtype can be stored by inside a kernel.
std::vector<Codec> codecs_of(const Instruction& instruction, int leaf, DType dtype) {
  std::vector<Codec> codecs;
  if (dtype == DType::pred) {
    codecs.push_back({CodecKind::bit_mask});
  } else {
    Codec sign{CodecKind::compare_mask};
    sign.direction = ir::ComparisonDirection::gt;
    codecs.push_back(sign);
  }
  planner::FactFinder facts;
  const Codec exact = planner::exact_codec(facts.find(instruction, leaf), dtype);
  if (exact.kind == CodecKind::narrow) codecs.push_back(exact);
  std::erase_if(codecs,
                [&](const Codec& codec) { return !can_fuse_encode(instruction, {leaf, codec}); });
  return codecs;
}

std::vector<std::byte> encoded(const Codec& codec, const ir::Literal& value) {
  const auto kernels = kernels::make_codec(codec, value.shape());
  std::vector<std::byte> code(static_cast<std::size_t>(ir::encoded_bytes(codec, value.shape())));
  const auto stream = std::move(device::cpu_device()->create_stream()).value();
  const void* const from[] = {value.bytes().data()};
  void* const to[] = {code.data()};
  EXPECT_TRUE(kernels.ok() && kernels->encode->launch(*stream, {from, to, nullptr}).ok());
  return code;
}

// The kernel that encodes results, each by one of its codecs, gives the bytes of the encoder that
// reads them, and the other results as they were; also where it decodes what it reads, and where
// only the codes are made. Counts by codec what was compared.
void compare_codes(const Instruction& instruction, std::mt19937& rng,
                   std::map<CodecKind, int>& compared) {
  std::vector<ir::Literal> operands;
  for (const Instruction* operand : instruction.operands()) {
    operands.push_back(jit::testing::numbers(operand->shape(), rng()));
  }
  ir::Coding coding;
  const auto leaves = ir::leaves(instruction.shape());
  std::vector<bool> only_code(leaves.size());
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    const auto codecs = codecs_of(instruction, static_cast<int>(leaf), leaves[leaf]->dtype());
    if (codecs.empty()) continue;
    coding.outputs.push_back({static_cast<int>(leaf), codecs[rng() % codecs.size()]});
    only_code[leaf] = rng() % 2 == 0;
    ++compared[coding.outputs.back().codec.kind];
  }
  if (coding.outputs.empty()) return;
  const auto results = jit::testing::run(instruction, operands);
  ASSERT_TRUE(results.ok()) << results.status().to_string();
  const auto module = with_coding(instruction, coding, only_code);
  const Instruction& root = *module->entry()->root();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    operands[i] =
        ir::Literal::from_bytes(root.operand(static_cast<int>(i))->shape(), operands[i].bytes());
  }
  expect_no_more_workspace(root, instruction);
  const auto coded = jit::testing::run(root, operands);
  ASSERT_TRUE(coded.ok()) << coded.status().to_string() << "\n" << ir::to_text(*module);
  std::size_t next = 0;
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    if (only_code[leaf]) continue;
    const auto a = (*coded)[next++].bytes(), b = (*results)[leaf].bytes();
    ASSERT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << ir::to_text(*module);
  }
  for (const ir::EncodedOutput& output : coding.outputs) {
    const auto wanted = encoded(output.codec, (*results)[static_cast<std::size_t>(output.output)]);
    const auto made = (*coded)[next++].bytes();
    ASSERT_TRUE(std::equal(made.begin(), made.end(), wanted.begin(), wanted.end()))
        << ir::to_string(output.codec) << "\n"
        << ir::to_text(*module);
  }
  EXPECT_EQ(next, coded->size());
}

std::unique_ptr<ir::Module> parse(const std::string& text) {
  auto module = ir::parse_module(text, "test");
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  return module.ok() ? std::move(*module) : nullptr;
}

TEST(CodingKernels, AreDecodedToTheSameBitsInRandomFusions) {
  std::mt19937 rng(5);
  std::map<CodecKind, int> compared;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    cases::RandomModuleOptions options;
    options.control_flow = false;
    options.gates = seed % 2 == 0;
    const auto module = cases::random_module(seed, options);
    ASSERT_TRUE(passes::optimize(*module).ok());
    for (const auto& instruction : module->entry()->instructions()) {
      if (instruction->opcode() != ir::Opcode::fusion) continue;
      ASSERT_NO_FATAL_FAILURE(compare(*instruction, rng, compared)) << "seed " << seed;
    }
  }
  for (const CodecKind kind :
       {CodecKind::bit_mask, CodecKind::narrow, CodecKind::bfloat16, CodecKind::float16}) {
    EXPECT_GT(compared[kind], 1) << ir::to_string(kind);
  }
}

// Sizes about those of vectors, words and blocks; a reduction beside; rows.
TEST(CodingKernels, AreDecodedAtEverySizeAndInReductions) {
  std::mt19937 rng(6);
  std::map<CodecKind, int> compared;
  for (const std::string dims : {"1", "7", "31", "32", "33", "64", "100", "1000", "3,5", "8,32",
                                 "17,31", "40,129", "2,3,7"}) {
    const std::string body = R"(HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
f { m = pred[D] parameter(0)
  x = f32[D] parameter(1)
  g = f32[D] parameter(2)
  z = f32[] constant(0.5)
  zero = f32[D] broadcast(z), dimensions={}
  above = pred[D] compare(x, zero), direction=GT
  both = pred[D] and(above, m)
  kept = f32[D] select(both, g, zero)
  n = f32[] constant(0)
  total = f32[] reduce(kept, n), dimensions={A}, to_apply=sum
  ROOT t = ROOTS }
ENTRY e { m = pred[D] parameter(0)
  x = f32[D] parameter(1)
  g = f32[D] parameter(2)
  ROOT r = SHAPE fusion(m, x, g), kind=kLoop, calls=f })";
    std::string all;
    for (std::size_t i = 0;
         i <= static_cast<std::size_t>(std::count(dims.begin(), dims.end(), ',')); ++i) {
      all += (i == 0 ? "" : ",") + std::to_string(i);
    }
    for (const bool reduced : {false, true}) {
      std::string text = body;
      const auto replace = [&](const std::string& what, const std::string& by) {
        for (auto at = text.find(what); at != std::string::npos; at = text.find(what)) {
          text.replace(at, what.size(), by);
        }
      };
      replace("ROOTS", reduced ? "(f32[], f32[D]) tuple(total, kept)"
                               : "(f32[D], pred[D]) tuple(kept, both)");
      replace("SHAPE", reduced ? "(f32[], f32[D])" : "(f32[D], pred[D])");
      replace("{A}", "{" + all + "}");
      replace("[D]", "[" + dims + "]");
      const auto module = parse(text);
      ASSERT_NE(module, nullptr);
      ASSERT_NO_FATAL_FAILURE(compare(*module->entry()->root(), rng, compared)) << dims;
    }
  }
  EXPECT_EQ(compared[CodecKind::bit_mask], 26);
  EXPECT_EQ(compared[CodecKind::compare_mask], 26);
}

TEST(CodingKernels, EncodeToTheSameBytesInRandomFusions) {
  std::mt19937 rng(7);
  std::map<CodecKind, int> compared;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    cases::RandomModuleOptions options;
    options.control_flow = false;
    options.gates = seed % 2 == 0;
    options.whole_words = seed % 4 > 0;
    const auto module = cases::random_module(seed, options);
    ASSERT_TRUE(passes::optimize(*module).ok());
    for (const auto& instruction : module->entry()->instructions()) {
      if (instruction->opcode() != ir::Opcode::fusion) continue;
      ASSERT_NO_FATAL_FAILURE(compare_codes(*instruction, rng, compared)) << "seed " << seed;
    }
  }
  for (const CodecKind kind : {CodecKind::bit_mask, CodecKind::compare_mask, CodecKind::narrow}) {
    EXPECT_GT(compared[kind], 2) << ir::to_string(kind);
  }
}

// Rows that words fill and rows that they don't, broadcasts along each of the dimensions, masks
// that are read and written.
TEST(CodingKernels, EncodeMasksOfRowsAndBroadcasts) {
  std::mt19937 rng(8);
  struct Case {
    std::string dims, along, small;
    bool fits;
  };
  const std::vector<Case> cases{{"64", "0", "64", false},        {"8,32", "1", "32", true},
                                {"8,32", "0", "8", true},        {"3,5,64", "2", "64", true},
                                {"3,5,64", "1,2", "5,64", true}, {"16,6", "", "", true},
                                {"16,6", "1", "6", false},       {"7,9", "", "", false},
                                {"2,3,160", "0,1", "2,3", true}};
  for (const Case& of : cases) {
    std::string text = R"(HloModule m
f { m = pred[D] parameter(0)
  x = f32[D] parameter(1)
  b = f32[S] parameter(2)
  w = f32[D] broadcast(b), dimensions={A}
  y = f32[D] add(x, w)
  above = pred[D] compare(y, x), direction=GT
  both = pred[D] and(above, m)
  n = s32[D] convert(both)
  ROOT t = (f32[D], pred[D], s32[D]) tuple(y, both, n) }
ENTRY e { m = pred[D] parameter(0)
  x = f32[D] parameter(1)
  b = f32[S] parameter(2)
  ROOT r = (f32[D], pred[D], s32[D]) fusion(m, x, b), kind=kLoop, calls=f })";
    const auto replace = [&](const std::string& what, const std::string& by) {
      for (auto at = text.find(what); at != std::string::npos; at = text.find(what)) {
        text.replace(at, what.size(), by);
      }
    };
    replace("[D]", "[" + of.dims + "]");
    replace("[S]", "[" + of.small + "]");
    replace("{A}", "{" + of.along + "}");
    const auto module = parse(text);
    ASSERT_NE(module, nullptr);
    const Instruction& fusion = *module->entry()->root();
    EXPECT_EQ(can_fuse_encode(fusion, {1, {CodecKind::bit_mask}}), of.fits) << of.dims;
    std::map<CodecKind, int> compared;
    for (int i = 0; i < 6; ++i) {
      ASSERT_NO_FATAL_FAILURE(compare_codes(fusion, rng, compared)) << of.dims << " " << of.along;
    }
    EXPECT_EQ(compared[CodecKind::bit_mask] > 0, of.fits);
    EXPECT_GT(compared[CodecKind::narrow], 0);
  }
}

TEST(CodingKernels, DecodeAndEncodeInOneKernel) {
  std::mt19937 rng(9);
  const auto module = parse(R"(HloModule m
ENTRY e { m = pred[96] parameter(0)
  n = pred[96] parameter(1)
  ROOT r = pred[96] and(m, n) })");
  ASSERT_NE(module, nullptr);
  const Instruction& both = *module->entry()->root();
  const ir::Coding coding{{{0, {CodecKind::bit_mask}}, {1, {CodecKind::bit_mask}}},
                          {{0, {CodecKind::bit_mask}}}};
  const auto coded = with_coding(both, coding, {true});
  const ir::Shape words(DType::u32, {3});
  std::vector<ir::Literal> operands;
  for (int i = 0; i < 2; ++i) {
    ir::Literal literal(words);
    for (int w = 0; w < 3; ++w) literal.set(w, static_cast<double>(rng()));
    operands.push_back(std::move(literal));
  }
  const auto made = jit::testing::run(*coded->entry()->root(), operands);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  for (int w = 0; w < 3; ++w) {
    const auto word = [&](const ir::Literal& of) { return static_cast<std::uint32_t>(of.at(w)); };
    EXPECT_EQ(word((*made)[0]), word(operands[0]) & word(operands[1]));
  }
}

TEST(CodingKernels, AreReadAsTheyAreOnlyWhereTheirPlacesAreTheReaders) {
  const auto module = parse(R"(HloModule m
f { m = pred[8,4] parameter(0)
  h = f32[4,8] parameter(1)
  t = pred[4,8] transpose(m), dimensions={1,0}
  z = f32[] constant(0)
  zero = f32[4,8] broadcast(z), dimensions={}
  ROOT r = f32[4,8] select(t, h, zero) }
ENTRY e { m = pred[8,4] parameter(0)
  h = f32[4,8] parameter(1)
  s = f32[4,8] fusion(m, h), kind=kLoop, calls=f
  w = f32[8,8] parameter(2)
  ROOT d = f32[4,8] dot(s, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} })");
  ASSERT_NE(module, nullptr);
  const Instruction& fusion = *module->entry()->find("s");
  const Instruction& dot = *module->entry()->find("d");
  Codec bytes{CodecKind::narrow};
  bytes.stored = DType::u8;
  EXPECT_FALSE(can_fuse_decode(fusion, {0, {CodecKind::bit_mask}}));
  EXPECT_TRUE(can_fuse_decode(fusion, {1, {CodecKind::bfloat16}}));
  EXPECT_TRUE(can_fuse_decode(fusion, {1, bytes}));
  EXPECT_FALSE(can_fuse_decode(fusion, {1, {CodecKind::int8}}));
  EXPECT_FALSE(can_fuse_decode(fusion, {1, {CodecKind::none}}));
  EXPECT_FALSE(can_fuse_decode(fusion, {2, bytes}));
  EXPECT_FALSE(can_fuse_decode(dot, {0, bytes}));
  EXPECT_FALSE(can_fuse_encode(fusion, {0, {CodecKind::bfloat16}}));
  EXPECT_FALSE(can_fuse_encode(dot, {0, bytes}));
}

}  // namespace
}  // namespace plimsoll::executor
