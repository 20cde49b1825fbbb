// SPDX-License-Identifier: Apache-2.0
#include "jit/keys/structural_key.h"

#include <set>
#include <string>

#include "runtime/ir/text/text.h"
#include "tests/cases/attribute_variants.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit {
namespace {

using namespace testing;

std::string key(std::string_view text) {
  const auto module = parse(text);
  if (module == nullptr) return {};
  const auto found = structural_key(*module->entry()->root());
  EXPECT_TRUE(found);
  return std::string(found.value_or(""));
}

std::string fusion(const std::string& body, const std::string& operands = "x, y",
                   const std::string& shape = "f32[8]") {
  return "HloModule m\nfused { " + body + " }\nENTRY main {\n x = f32[8] parameter(0)\n" +
         " y = f32[8] parameter(1)\n ROOT f = " + shape + " fusion(" + operands +
         "), kind=kLoop, calls=fused\n}";
}

const std::string kTwo = "a = f32[8] parameter(0)\n b = f32[8] parameter(1)\n ";

TEST(StructuralKey, IsEqualWhereOnlyNamesDiffer) {
  EXPECT_EQ(key(fusion(kTwo + "ROOT c = f32[8] add(a, b)")),
            key(fusion("p = f32[8] parameter(0)\n q = f32[8] parameter(1)\n "
                       "ROOT r = f32[8] add(p, q), metadata={op_name=\"sum\"}")));
}

TEST(StructuralKey, DiffersInEverythingThatMatters) {
  const std::vector<std::string> texts = {
      fusion(kTwo + "ROOT c = f32[8] add(a, b)"),
      fusion(kTwo + "ROOT c = f32[8] add(b, a)"),
      fusion(kTwo + "ROOT c = f32[8] add(a, a)"),
      fusion(kTwo + "ROOT c = f32[8] multiply(a, b)"),
      fusion(kTwo + "ROOT c = f32[8] multiply(a, b)", "x, x"),
      fusion(kTwo + "c = f32[8] add(a, b)\n ROOT d = f32[8] add(c, b)"),
      fusion(kTwo + "c = f32[8] add(a, b)\n ROOT d = f32[8] add(c, a)"),
      fusion(kTwo + "ROOT c = pred[8] compare(a, b), direction=LT", "x, y", "pred[8]"),
      fusion(kTwo + "ROOT c = pred[8] compare(a, b), direction=LE", "x, y", "pred[8]"),
      fusion(kTwo + "ROOT c = f32[4] slice(a), slice={[0:4]}", "x, y", "f32[4]"),
      fusion(kTwo + "ROOT c = f32[4] slice(a), slice={[1:5]}", "x, y", "f32[4]"),
      fusion(kTwo + "ROOT c = f32[4] slice(a), slice={[0:8:2]}", "x, y", "f32[4]"),
      fusion(kTwo + "k = f32[] constant(1)\n ROOT c = f32[8] broadcast(k), dimensions={}"),
      fusion(kTwo + "k = f32[] constant(2)\n ROOT c = f32[8] broadcast(k), dimensions={}"),
      fusion(kTwo + "ROOT c = f32[8] reduce-precision(a), exponent_bits=5, mantissa_bits=10"),
      fusion(kTwo + "ROOT c = f32[8] reduce-precision(a), exponent_bits=5, mantissa_bits=9"),
      fusion(kTwo + "ROOT c = pred[8] compare(a, b), direction=LT, type=TOTALORDER", "x, y",
             "pred[8]"),
      fusion(kTwo + "k = f32[8,8] broadcast(a), dimensions={0}\n ROOT c = f32[8,8] negate(k)",
             "x, y", "f32[8,8]"),
      fusion(kTwo + "k = f32[8,8] broadcast(a), dimensions={1}\n ROOT c = f32[8,8] negate(k)",
             "x, y", "f32[8,8]"),
      fusion(kTwo + "k = s32[8] iota(), iota_dimension=0\n ROOT c = f32[8] convert(k)"),
      fusion(kTwo + "c = f32[8] add(a, b)\n ROOT t = (f32[8], f32[8]) tuple(c, a)", "x, y",
             "(f32[8], f32[8])"),
      fusion(kTwo + "c = f32[8] add(a, b)\n ROOT t = (f32[8], f32[8]) tuple(a, c)", "x, y",
             "(f32[8], f32[8])"),
      "x = f32[8] parameter(0)\nROOT y = f32[8] negate(x)",
      "x = f32[9] parameter(0)\nROOT y = f32[9] negate(x)",
      "x = s32[8] parameter(0)\nROOT y = s32[8] negate(x)",
      "x = f32[8] parameter(0)\nROOT y = s32[8] convert(x)",
      "x = f32[8] parameter(0)\nROOT y = u32[8] convert(x)",
  };
  std::vector<std::string> keys;
  for (const std::string& text : texts) keys.push_back(key(text));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      // Which parameter an operand is does not matter to a kernel.
      if (texts[i].find("multiply") != std::string::npos &&
          texts[j].find("multiply") != std::string::npos) {
        EXPECT_EQ(keys[i], keys[j]);
        continue;
      }
      EXPECT_NE(keys[i], keys[j]) << texts[i] << "\nand\n" << texts[j];
    }
  }
}

// An operation of one operand with these attributes.
class Single {
 public:
  Single(ir::Opcode opcode, const ir::Attributes& attributes) : module_("m") {
    ir::Computation* computation = module_.add_computation("main");
    const ir::Shape shape(ir::DType::f32, {8});
    instruction_ =
        computation->add(opcode, shape, {computation->add_parameter(0, shape)}, "y", attributes);
  }
  const ir::Instruction& operator*() const { return *instruction_; }
  std::string key() const { return std::string(structural_key(*instruction_).value()); }

 private:
  ir::Module module_;
  ir::Instruction* instruction_;
};

TEST(StructuralKey, HoldsEveryAttribute) {
  const std::string usual = Single(ir::Opcode::custom_call, {}).key();
  std::set<std::string> keys = {usual};
  for (const cases::AttributeVariant& variant : cases::attribute_variants()) {
    SCOPED_TRACE(variant.letter);
    const std::string own = Single(ir::Opcode::custom_call, variant.attributes).key();
    if (variant.is_extra || variant.is_collective) {
      EXPECT_EQ(own, usual);
    } else {
      EXPECT_TRUE(keys.insert(own).second);
    }
  }
}

// Of most operations only some attributes are written down.
TEST(StructuralKey, ShowsWhatTheTextOfAnOperationShows) {
  int shown = 0;
  for (int i = 0; i < ir::opcode_count(); ++i) {
    const auto opcode = static_cast<ir::Opcode>(i);
    const Single usual(opcode, {});
    for (const cases::AttributeVariant& variant : cases::attribute_variants()) {
      // What any operation's text shows, though few have it, and what no kernel has.
      if (std::string_view("dIU").find(variant.letter) != std::string_view::npos) continue;
      if (variant.is_extra || variant.is_collective) continue;
      if (opcode == ir::Opcode::slice) continue;  // a start alone has no text
      const Single other(opcode, variant.attributes);
      if (to_text(*other) == to_text(*usual)) continue;
      ++shown;
      EXPECT_NE(other.key(), usual.key()) << to_text(*other);
    }
  }
  EXPECT_GT(shown, 50);
}

TEST(StructuralKey, KnowsTheReducer) {
  const auto sum = [](const std::string& opcode) {
    return "HloModule m\nf { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] " +
           opcode + "(a, b) }\nENTRY main { x = f32[4,4] parameter(0)\n z = f32[] parameter(1)\n" +
           " ROOT r = f32[4] reduce(x, z), dimensions={1}, to_apply=f }";
  };
  EXPECT_EQ(key(sum("add")), key(sum("add")));
  EXPECT_NE(key(sum("add")), key(sum("maximum")));
}

TEST(StructuralKey, LeavesLargeTablesToTheCanonicalText) {
  std::string values;
  for (int i = 0; i < 300; ++i) values += (i == 0 ? "" : ", ") + std::to_string(i);
  const auto module = parse("ROOT t = s32[300] constant({" + values + "})");
  ASSERT_NE(module, nullptr);
  EXPECT_FALSE(structural_key(*module->entry()->root()));
}

TEST(StructuralKey, NumbersOperandsInLargeFusions) {
  std::string body = "v0 = f32[8] parameter(0)\n w = f32[8] parameter(1)\n ";
  for (int i = 1; i <= 400; ++i) {
    body += (i == 400 ? "ROOT v" : "v") + std::to_string(i) + " = f32[8] add(v" +
            std::to_string(i - 1) + ", v" + std::to_string(i / 2) + ")\n ";
  }
  std::string other = body;
  const std::string edge = "add(v399, v200)";
  other.replace(other.find(edge), edge.size(), "add(v399, v201)");
  EXPECT_EQ(key(fusion(body)), key(fusion(body)));
  EXPECT_NE(key(fusion(body)), key(fusion(other)));
}

}  // namespace
}  // namespace plimsoll::jit
