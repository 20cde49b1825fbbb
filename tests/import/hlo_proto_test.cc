// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/import/hlo_proto/hlo_proto.h"
#include "runtime/import/program_bytes.h"
#include "runtime/ir/text/text.h"
#include "tests/import/message_writer.h"
#include "tests/import/stored_files.h"

namespace plimsoll::import {
namespace {

using Wire = plimsoll::testing::MessageWriter;

constexpr std::uint64_t kF32 = 11;

Wire shape(std::uint64_t type, std::initializer_list<std::uint64_t> sizes) {
  Wire made;
  made.number(2, type);
  for (const std::uint64_t size : sizes) made.number(3, size);
  return made;
}

Wire instruction(std::string_view name, std::string_view opcode, std::uint64_t id,
                 const Wire& of_shape = shape(kF32, {2})) {
  Wire made;
  made.text(1, name).text(2, opcode).message(3, of_shape).number(35, id);
  return made;
}

// A module of one computation, its root the instruction of the last id.
std::string module_of(std::initializer_list<Wire> instructions, std::uint64_t root) {
  Wire computation;
  computation.text(1, "main");
  for (const Wire& one : instructions) computation.message(2, one);
  computation.number(5, 1).number(6, root);
  return Wire().text(1, "m").message(3, computation).number(6, 1).bytes();
}

std::string text_of(std::string_view proto) {
  const auto module = hlo_proto::read_module(proto, "x");
  return module.ok() ? ir::to_text(**module) : module.status().to_string();
}

std::string plain(const ir::Module& module) {
  ir::PrintOptions options;
  options.extras = false;
  return ir::to_text(module, options);
}

// The text without the annotations that text and proto spell in their own ways.
void expect_same(const std::filesystem::path& text, const std::filesystem::path& proto) {
  const auto wanted = ir::parse_module(bytes_of(text), text.filename().string());
  ASSERT_TRUE(wanted.ok()) << wanted.status().message();
  const auto got = read_program(bytes_of(proto), proto.filename().string());
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(plain(**got), plain(**wanted));
}

TEST(HloProto, ReadsWhatTheTextOfEachAttributeLiteralAndCollectiveSays) {
  const auto texts = stored_files("tests/import/hlo_protos", ".hlo");
  ASSERT_EQ(texts.size(), 3U);
  for (std::filesystem::path path : texts) {
    const std::filesystem::path text = path;
    expect_same(text, path.replace_extension(".pb"));
  }
}

TEST(HloProto, ReadsWhatTheTextOfEachJaxProgramSays) {
  const auto texts = stored_files("tests/c_api/jax_programs", ".hlo");
  ASSERT_GE(texts.size(), 50U);
  for (std::filesystem::path path : texts) {
    const std::filesystem::path text = path;
    expect_same(text, path.replace_extension(".pb"));
  }
}

TEST(HloProto, KeepsAnnotations) {
  const auto folder = std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests/import/hlo_protos";
  const std::string text = text_of(bytes_of(folder / "attributes.pb"));
  for (const char* annotation : {
           "operand_precision={high,highest}",
           "frontend_attributes={plimsoll.memory=\"keep\"}",
           R"(metadata={op_type="t" op_name="a/b[\"c\"]" source_file="f.py" source_line=3})",
           R"(backend_config="by \"2\"")",
           "known_trip_count",
           "k=2, largest=true",
       }) {
    EXPECT_NE(text.find(annotation), std::string::npos) << annotation;
  }
}

TEST(HloProto, IsReadWithinWhatXlaDumpsAroundIt) {
  const std::string module = module_of({instruction("x", "parameter", 1)}, 1);
  const std::string alone = text_of(module);
  EXPECT_EQ(alone,
            "HloModule m\n\nENTRY %main (x: f32[2]) -> f32[2] {\n  ROOT %x = f32[2] "
            "parameter(0)\n}\n");
  const std::string dump = Wire().text(1, module).text(3, "\x08\x01").bytes();  // HloProto
  EXPECT_EQ(text_of(dump), alone);
  EXPECT_EQ(text_of(Wire().text(1, dump).text(4, "Host").bytes()), alone);  // HloSnapshot
}

TEST(HloProto, PassesOverWhatItDoesNotKnow) {
  Wire x = instruction("x", "parameter", 1);
  x.number(1000, 7).text(1001, "later").four_bytes(1002, "abcd");
  // A known field of another kind is another one's.
  x.text(9, "no number");
  EXPECT_NE(text_of(module_of({x}, 1)).find("ROOT %x = f32[2] parameter(0)"), std::string::npos);
}

TEST(HloProto, ReadsNumbersOneByOneAndTogether) {
  Wire packed = instruction("y", "broadcast", 2, shape(kF32, {3, 2}));
  packed.text(36, std::string_view("\x01", 1)).text(14, std::string_view("\x01", 1));
  Wire single = instruction("y", "broadcast", 2, shape(kF32, {3, 2}));
  single.number(36, 1).number(14, 1);
  const Wire x = instruction("x", "parameter", 1);
  EXPECT_NE(text_of(module_of({x, packed}, 2)).find("broadcast(%x), dimensions={1}"),
            std::string::npos);
  EXPECT_EQ(text_of(module_of({x, packed}, 2)), text_of(module_of({x, single}, 2)));

  const std::string one("\x00\x00\x80\x3f", 4), two("\x00\x00\x00\x40", 4);
  const auto constant = [](const Wire& values) {
    return module_of({Wire(instruction("c", "constant", 1)).message(8, values)}, 1);
  };
  const std::string together = text_of(constant(Wire().text(8, one + two)));
  EXPECT_NE(together.find("constant({1, 2})"), std::string::npos) << together;
  EXPECT_EQ(text_of(constant(Wire().four_bytes(8, one).four_bytes(8, two))), together);
  EXPECT_EQ(text_of(constant(Wire().text(8, one).text(8, two))), together);
}

TEST(HloProto, HasConstantsWhoseValuesWereLeftOut) {
  EXPECT_NE(text_of(module_of({instruction("c", "constant", 1)}, 1)).find("constant({...})"),
            std::string::npos);
}

TEST(HloProto, TakesThePlacesOfNamesThatTextHasNot) {
  const std::string text = text_of(module_of({instruction("a b\n\"", "parameter", 1)}, 1));
  EXPECT_NE(text.find("%a_b__ = "), std::string::npos) << text;
}

TEST(HloProto, NamesTheComputationAndTheInstructionThatItCannotTake) {
  const Wire x = instruction("x", "parameter", 1);
  const auto error = [&](const Wire& y) { return text_of(module_of({x, y}, 2)); };
  const std::string place = "x: computation 'main': instruction 'y': ";
  EXPECT_EQ(error(instruction("y", "dynamic-reshape", 2)),
            "UNIMPLEMENTED: " + place + "the operation 'dynamic-reshape' is not supported");
  EXPECT_EQ(error(instruction("y", "tanh", 2, shape(kF32, {2}).number(6, 1))),
            "UNIMPLEMENTED: " + place + "HLO proto: dynamic dimension sizes are not supported");
  EXPECT_EQ(error(instruction("y", "tanh", 2).number(36, 7)),
            "INVALID_ARGUMENT: " + place + "HLO proto: the id of an operand makes no sense");
  EXPECT_EQ(error(instruction("y", "tanh", 2, shape(kF32, {3})).number(36, 1)),
            "INVALID_ARGUMENT: " + place + "tanh: result is f32[2], not f32[3]");
  EXPECT_EQ(error(instruction("y", "constant", 2).message(8, Wire().text(8, "abcd"))),
            "INVALID_ARGUMENT: " + place +
                "HLO proto: a constant's values are not as many as f32[2] has");
  EXPECT_EQ(error(instruction("y", "constant", 2).message(8, Wire().message(1, shape(4, {2})))),
            "INVALID_ARGUMENT: " + place + "HLO proto: a constant of f32[2] holds s32[2]");
  EXPECT_EQ(
      error(instruction("y", "compare", 2).number(36, 1).number(36, 1).text(63, "XX")),
      "INVALID_ARGUMENT: " + place + "HLO proto: the direction of a comparison makes no sense");
  EXPECT_EQ(error(instruction("y", "tanh", 1).number(36, 1)),
            "INVALID_ARGUMENT: x: computation 'main': HLO proto: an id that is there twice makes "
            "no sense");
}

TEST(HloProto, BoundsWhatFewBytesCanAskFor) {
  // 2^40 elements in no bytes, a parameter number far away, groups of many from few.
  const auto error = [&](const Wire& one) { return text_of(module_of({one}, 1)); };
  const Wire values = Wire().text(4, "\x01");
  EXPECT_NE(
      error(instruction("c", "constant", 1, shape(4, {1U << 20U, 1U << 20U})).message(8, values))
          .find("not as many as"),
      std::string::npos);
  EXPECT_NE(error(instruction("p", "parameter", 1).number(9, 1U << 30U)).find("a parameter number"),
            std::string::npos);
  EXPECT_NE(error(instruction("p", "parameter", 1, shape(kF32, {1U << 30U, 1U << 30U})))
                .find("the size of an array"),
            std::string::npos);
}

TEST(HloProto, IsToldFromOtherForms) {
  const auto message = [](std::string_view bytes) {
    const auto module = read_program(bytes, "x");
    return module.ok() ? std::string() : module.status().message();
  };
  const std::string module = module_of({instruction("x", "parameter", 1)}, 1);
  EXPECT_EQ(message(module), "");
  EXPECT_TRUE(message(module.substr(0, module.size() - 3))
                  .starts_with("x: these bytes are neither text nor a whole serialized"));
  EXPECT_EQ(message("\nHloModule m\n\tENTRY e { ROOT a = f32[2] parameter(0) }\n"), "");
}

}  // namespace
}  // namespace plimsoll::import
