// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "jit/loops/flat_form.h"
#include "runtime/ir/fusions/horizontal_fusion.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

// A module of one horizontal fusion, part by part.
class Parts {
 public:
  // `body`: a computation without its name; `shapes`: of its operands, which are parameters of the
  // entry from `first` on (those the parts before had, where that is less than their number);
  // `results`: one shape, or several.
  void add(const std::string& body, const std::vector<std::string>& shapes,
           const std::vector<std::string>& results, std::size_t first) {
    const std::string n = std::to_string(parts_++);
    text_ += "f" + n + " { " + body + " }\n";
    std::string operands;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if (first + i == parameters_.size()) parameters_.push_back(shapes[i]);
      operands += (i > 0 ? ", p" : "p") + std::to_string(first + i);
    }
    const std::string call = " fusion(" + operands + "), kind=kLoop, calls=f" + n + "\n";
    if (results.size() == 1) {
      lines_ += "x" + n + " = " + results[0] + call;
      results_.push_back({results[0], "x" + n});
      return;
    }
    std::string tuple;
    for (const std::string& result : results) tuple += (tuple.empty() ? "" : ", ") + result;
    lines_ += "x" + n + " = (" + tuple + ")" + call;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::string name = "y" + n + "_" + std::to_string(i);
      lines_ += name + " = " + results[i] + " get-tuple-element(x" + n +
                "), index=" + std::to_string(i) + "\n";
      results_.push_back({results[i], name});
    }
  }
  void add(const std::string& body, const std::vector<std::string>& shapes,
           const std::vector<std::string>& results) {
    add(body, shapes, results, parameters_.size());
  }

  std::string text() const {
    std::string parameters, shapes, names, operands;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const std::string n = std::to_string(i);
      parameters += "p" + n + " = " + parameters_[i] + " parameter(" + n + ")\n";
      operands += (i > 0 ? ", p" : "p") + n;
    }
    for (std::size_t i = 0; i < results_.size(); ++i) {
      shapes += (i > 0 ? ", " : "") + results_[i].first;
      names += (i > 0 ? ", " : "") + results_[i].second;
    }
    return "HloModule m\nsum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] "
           "add(x, y) }\n" +
           text_ + "h {\n" + parameters + lines_ + "ROOT r = (" + shapes + ") tuple(" + names +
           ") }\nENTRY e {\n" + parameters + "ROOT r = (" + shapes + ") fusion(" + operands +
           "), kind=kLoop, calls=h }\n";
  }

 private:
  std::size_t parts_ = 0;
  std::string text_, lines_;
  std::vector<std::string> parameters_;
  std::vector<std::pair<std::string, std::string>> results_;
};

std::string f32(const std::string& dims) { return "f32[" + dims + "]"; }

// Adam's update of a parameter: three results over their operands, the step size a scalar.
void add_adam(Parts& parts, const std::string& dims) {
  const std::string s = f32(dims);
  parts.add(
      "p = " + s + " parameter(0)\n m = " + s + " parameter(1)\n v = " + s +
          " parameter(2)\n g = " + s + " parameter(3)\n l = f32[] constant(0.01)\n " +
          "b = f32[] constant(0.9)\n c = f32[] constant(0.1)\n bl = " + s +
          " broadcast(l), dimensions={}\n bb = " + s + " broadcast(b), dimensions={}\n bc = " + s +
          " broadcast(c), dimensions={}\n m1 = " + s + " multiply(m, bb)\n m2 = " + s +
          " multiply(g, bc)\n n = " + s + " add(m1, m2)\n v1 = " + s + " multiply(v, bb)\n g2 = " +
          s + " multiply(g, g)\n v2 = " + s + " multiply(g2, bc)\n w = " + s +
          " add(v1, v2)\n a = " + s + " abs(w)\n r = " + s + " sqrt(a)\n rr = " + s +
          " add(r, bl)\n q = " + s + " divide(n, rr)\n u = " + s + " multiply(q, bl)\n o = " + s +
          " subtract(p, u)\n ROOT t = (" + s + ", " + s + ", " + s + ") tuple(o, n, w)",
      {s, s, s, s}, {s, s, s});
}

TEST(HorizontalKernel, ComputesPartsOfAllExtentsAroundAVector) {
  for (const int threads : {1, 2, 5}) {
    SCOPED_TRACE(threads);
    const int before = device::thread_count();
    device::set_thread_count(threads);
    Parts parts;
    for (const char* dims : {"1", "", "7", "8", "15", "16", "17", "3,5", "31", "4,8", "33", "1023",
                             "1024", "1025", "5,7,100", "1,1", "256,256", "20000"}) {
      add_adam(parts, dims);
    }
    check(parts.text());
    device::set_thread_count(before);
  }
}

TEST(HorizontalKernel, MixesLoopsReductionsMovementsAndDtypes) {
  for (const int threads : {1, 2, 5}) {
    SCOPED_TRACE(threads);
    const int before = device::thread_count();
    device::set_thread_count(threads);
    Parts parts;
    add_adam(parts, "40");
    parts.add("a = f32[9,30] parameter(0)\n ROOT t = f32[30,9] transpose(a), dimensions={1,0}",
              {"f32[9,30]"}, {"f32[30,9]"});
    parts.add("a = bf16[300] parameter(0)\n ROOT t = bf16[300] tanh(a)", {"bf16[300]"},
              {"bf16[300]"});
    parts.add(
        "a = f64[77] parameter(0)\n b = pred[77] parameter(1)\n z = f64[] constant(0)\n"
        "zz = f64[77] broadcast(z), dimensions={}\n ROOT t = f64[77] select(b, a, zz)",
        {"f64[77]", "pred[77]"}, {"f64[77]"});
    parts.add("i = s32[5,5] iota(), iota_dimension=1\n ROOT r = s32[5,5] negate(i)", {},
              {"s32[5,5]"});
    parts.add(
        "a = f32[6,50] parameter(0)\n z = f32[] constant(0)\n "
        "ROOT r = f32[50] reduce(a, z), dimensions={0}, to_apply=sum",
        {"f32[6,50]"}, {"f32[50]"});
    parts.add(
        "t = f32[4] constant({1, 2, 3, 4})\n b = f32[2,4] broadcast(t), dimensions={1}\n"
        "a = f32[2,4] parameter(0)\n ROOT r = f32[2,4] add(a, b)",
        {"f32[2,4]"}, {"f32[2,4]"});
    check(parts.text(), 1e-5);
    device::set_thread_count(before);
  }
}

// Sums of many lengths, some cut into blocks that a second phase adds up.
TEST(HorizontalKernel, GivesReductionsTheBitsTheyHaveAlone) {
  Parts parts;
  const std::vector<std::string> lengths = {"1", "5", "64", "1000", "70001", "16384", "300000"};
  std::vector<ir::Literal> arguments;
  std::vector<ir::Literal> alone;
  for (const std::string& length : lengths) {
    const std::string body = "a = " + f32(length) + " parameter(0)\n z = f32[] constant(0)\n " +
                             "q = " + f32(length) + " multiply(a, a)\n " +
                             "ROOT r = f32[] reduce(q, z), dimensions={0}, to_apply=sum";
    parts.add(body, {f32(length)}, {"f32[]"});
    const auto module = parse(
        "HloModule m\nsum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] "
        "add(x, y) }\nf { " +
        body + " }\nENTRY e { a = " + f32(length) +
        " parameter(0)\n ROOT r = f32[] fusion(a), kind=kInput, calls=f }");
    ASSERT_NE(module, nullptr);
    arguments.push_back(arguments_for(*module->entry(), arguments.size() + 1)[0]);
    const auto result = run(*module->entry()->root(), {arguments.back()});
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    alone.push_back((*result)[0]);
  }
  const auto module = parse(parts.text());
  ASSERT_NE(module, nullptr);
  const int before = device::thread_count();
  for (const int threads : {1, 2, 5}) {
    device::set_thread_count(threads);
    const auto together = run(*module->entry()->root(), arguments);
    ASSERT_TRUE(together.ok()) << together.status().to_string();
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_TRUE(same_bits(alone[i], (*together)[i])) << lengths[i] << ", " << threads;
    }
  }
  device::set_thread_count(before);
}

// The very part that writes it reads the buffer.
TEST(HorizontalKernel, UpdatesInPlace) {
  for (const char* dims : {"7", "16", "1000", "50,60"}) {
    SCOPED_TRACE(dims);
    Parts parts;
    add_adam(parts, dims);
    add_adam(parts, "33");
    const auto module = parse(parts.text());
    ASSERT_NE(module, nullptr);
    const auto arguments = arguments_for(*module->entry());
    const auto apart = run(*module->entry()->root(), arguments);
    const auto in_place = run(*module->entry()->root(), arguments, 0);
    ASSERT_TRUE(apart.ok() && in_place.ok());
    for (std::size_t i = 0; i < apart->size(); ++i) {
      EXPECT_TRUE(same_bits((*apart)[i], (*in_place)[i])) << i;
    }
  }
}

TEST(HorizontalKernel, SharesInputsAndScalarsAmongParts) {
  Parts parts;
  parts.add(
      "a = f32[70] parameter(0)\n s = f32[] parameter(1)\n b = f32[70] broadcast(s), "
      "dimensions={}\n ROOT r = f32[70] multiply(a, b)",
      {"f32[70]", "f32[]"}, {"f32[70]"}, 0);
  parts.add(
      "s = f32[] parameter(0)\n c = f32[3,4] parameter(1)\n b = f32[3,4] broadcast(s), "
      "dimensions={}\n ROOT r = f32[3,4] divide(c, b)",
      {"f32[]", "f32[3,4]"}, {"f32[3,4]"}, 1);
  parts.add("a = f32[70] parameter(0)\n ROOT r = f32[70] negate(a)", {"f32[70]"}, {"f32[70]"}, 0);
  check(parts.text());
}

TEST(HorizontalKernel, RunsPartsWithoutElementsAndResultsThatNobodyTakes) {
  check(
      "HloModule m\nf { a = f32[0,3] parameter(0)\n ROOT r = f32[0,3] negate(a) }\n"
      "g { a = f32[20] parameter(0)\n x = f32[20] negate(a)\n y = f32[20] abs(a)\n"
      "ROOT r = (f32[20], f32[20]) tuple(x, y) }\n"
      "h { p = f32[0,3] parameter(0)\n q = f32[20] parameter(1)\n"
      "x = f32[0,3] fusion(p), kind=kLoop, calls=f\n"
      "y = (f32[20], f32[20]) fusion(q), kind=kLoop, calls=g\n"
      "y1 = f32[20] get-tuple-element(y), index=1\n"
      "ROOT r = (f32[0,3], f32[20], f32[20]) tuple(x, y1, y1) }\n"
      "ENTRY e { p = f32[0,3] parameter(0)\n q = f32[20] parameter(1)\n"
      "ROOT r = (f32[0,3], f32[20], f32[20]) fusion(p, q), kind=kLoop, calls=h }");
}

TEST(HorizontalKernel, CompilesPartsThatDifferInExtentsOnlyOnce) {
  auto fresh = Compiler::create();
  ASSERT_TRUE(fresh.ok());
  Parts parts;
  for (int i = 2; i < 1002; ++i) add_adam(parts, std::to_string(i % 91 + 2));
  const auto module = parse(parts.text());
  ASSERT_NE(module, nullptr);
  ASSERT_EQ(ir::horizontal_parts(*module->entry()->root()).size(), 1000u);
  const auto kernel = (*fresh)->compile(*module->entry()->root());
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  EXPECT_EQ((*fresh)->statistics().kernels_compiled, 1);
}

TEST(HorizontalKernel, RunsAThousandParts) {
  Parts parts;
  for (int i = 0; i < 1000; ++i) {
    const std::string shape = f32(std::to_string(i % 40 + 1));
    parts.add("a = " + shape + " parameter(0)\n ROOT r = " + shape + " exponential(a)", {shape},
              {shape});
  }
  check(parts.text());
}

TEST(FlatForm, SmallFusionsOfAllExtentsShareAFunction) {
  auto fresh = Compiler::create();
  ASSERT_TRUE(fresh.ok());
  for (const char* dims : {"2", "15", "16", "17", "4,8", "3,5,7", "1023", "1025", "100,100"}) {
    SCOPED_TRACE(dims);
    const std::string s = f32(dims);
    const std::string text = "HloModule m\nf { a = " + s + " parameter(0)\n b = " + s +
                             " parameter(1)\n c = f32[] " + "parameter(2)\n cc = " + s +
                             " broadcast(c), dimensions={}\n m = " + s +
                             " multiply(a, cc)\n t = " + s + " tanh(m)\n ROOT r = " + s +
                             " subtract(t, b) }\nENTRY e { a = " + s + " parameter(0)\n b = " + s +
                             " parameter(1)\n c = f32[] parameter(2)\n ROOT r = " + s +
                             " fusion(a, b, c), kind=kLoop, calls=f }";
    const auto module = parse(text);
    ASSERT_NE(module, nullptr);
    const auto kernel = (*fresh)->compile(*module->entry()->root());
    ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
    for (const int threads : {1, 2, 5}) {
      const int before = device::thread_count();
      device::set_thread_count(threads);
      const auto arguments = arguments_for(*module->entry());
      const auto apart = check(*module, arguments, 1e-6);
      const auto in_place = run(*module->entry()->root(), arguments, 1);
      device::set_thread_count(before);
      ASSERT_TRUE(in_place.ok());
      EXPECT_TRUE(same_bits(apart.at(0), in_place->at(0)));
    }
  }
  EXPECT_EQ((*fresh)->statistics().kernels_compiled, 1);
}

TEST(FlatForm, ForgetsExtentsAndRanksAndNothingElse) {
  const auto form = [](const std::string& body, const std::string& shapes) {
    const auto module =
        parse("HloModule m\nf { " + body + " }\nENTRY e { " + shapes + " kind=kLoop, calls=f }");
    return module == nullptr ? FlatForm() : flat_form(*module->entry()->root());
  };
  const FlatForm flat =
      form("a = f32[4,6] parameter(0)\n b = f32[24] reshape(a)\n ROOT r = f32[24] negate(b)",
           "a = f32[4,6] parameter(0)\n ROOT r = f32[24] fusion(a),");
  ASSERT_NE(flat.module, nullptr);
  EXPECT_EQ(flat.elements, 24);
  for (const char* body :
       {"a = f32[4,6] parameter(0)\n ROOT r = f32[6,4] transpose(a), dimensions={1,0}",
        "a = f32[4,6] parameter(0)\n i = f32[4,6] iota(), iota_dimension=0\n"
        "s = f32[4,6] add(a, i)\n ROOT r = f32[6,4] reshape(s)",
        "a = f32[4,6] parameter(0)\n t = f32[1,6] slice(a), slice={[0:1], [0:6]}\n"
        "s = f32[6] reshape(t)\n b = f32[6,4] broadcast(s), dimensions={0}\n c = f32[6,4] "
        "reshape(a)\n"
        "ROOT r = f32[6,4] add(b, c)"}) {
    EXPECT_EQ(form(body, "a = f32[4,6] parameter(0)\n ROOT r = f32[6,4] fusion(a),").module,
              nullptr)
        << body;
  }
  // Two elements of one scalar's bits.
  EXPECT_EQ(form("a = f64[] parameter(0)\n ROOT r = f32[2] bitcast-convert(a)",
                 "a = f64[] parameter(0)\n ROOT r = f32[2] fusion(a),")
                .module,
            nullptr);
}

}  // namespace
}  // namespace plimsoll::jit::testing
