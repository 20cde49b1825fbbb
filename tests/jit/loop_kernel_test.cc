// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/device/cpu/phased_kernel.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

TEST(LoopKernel, AddsVectorsOfEverySizeAroundTheVectorWidth) {
  for (const int size : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 100, 4097, 5000}) {
    const std::string shape = "f32[" + std::to_string(size) + "]";
    check("ENTRY e { a = " + shape + " parameter(0)\n b = " + shape +
          " parameter(1)\n ROOT r = " + shape + " add(a, b) }");
  }
}

TEST(LoopKernel, FusesAChainWithBroadcasts) {
  for (const char* dims : {"4,16", "5,10", "3,1", "1,33", "7,48", "300,17", "2,5000"}) {
    const std::string d = dims;
    const std::string rows = d.substr(0, d.find(',')), columns = d.substr(d.find(',') + 1);
    check("f { p = f32[" + d + "] parameter(0)\n q = f32[" + columns + "] parameter(1)\n s = f32[" +
          rows + "] parameter(2)\n one = f32[] constant(1)\n bq = f32[" + d +
          "] broadcast(q), dimensions={1}\n bs = f32[" + d +
          "] broadcast(s), dimensions={0}\n bo = f32[" + d +
          "] broadcast(one), dimensions={}\n m = f32[" + d + "] multiply(p, bq)\n a = f32[" + d +
          "] add(m, bs)\n e = f32[" + d + "] exponential(a)\n g = f32[" + d +
          "] add(e, bo)\n ROOT l = f32[" + d + "] log(g) }\nENTRY e { p = f32[" + d +
          "] parameter(0)\n q = f32[" + columns + "] parameter(1)\n s = f32[" + rows +
          "] parameter(2)\n ROOT r = f32[" + d + "] fusion(p, q, s), kind=kLoop, calls=f }");
  }
}

TEST(LoopKernel, TransposesTilesAndTheirEdges) {
  for (const char* dtype : {"f32", "f64", "bf16", "pred", "s8"}) {
    for (const auto& [from, to] : {std::pair{"33,47", "47,33"},
                                   {"64,32", "32,64"},
                                   {"5,70", "70,5"},
                                   {"16,3", "3,16"},
                                   {"100,16", "16,100"},
                                   {"300,130", "130,300"}}) {
      SCOPED_TRACE(std::string(dtype) + from);
      const std::string d = dtype;
      check("ENTRY e { p = " + d + "[" + from + "] parameter(0)\n ROOT t = " + d + "[" + to +
            "] transpose(p), dimensions={1,0} }");
      check("ENTRY e { p = " + d + "[3," + from + "] parameter(0)\n ROOT t = " + d + "[" + to +
            ",3] transpose(p), dimensions={2,1,0} }");
    }
  }
  check(
      "f { p = f32[20,40] parameter(0)\n q = f32[40,20] parameter(1)\n b = f32[40] parameter(2)\n "
      "t = f32[40,20] transpose(p), dimensions={1,0}\n u = f32[40,20] multiply(t, q)\n w = "
      "f32[40,20] broadcast(b), dimensions={0}\n ROOT s = f32[40,20] add(u, w) }\nENTRY e { p = "
      "f32[20,40] parameter(0)\n q = f32[40,20] parameter(1)\n b = f32[40] parameter(2)\n ROOT r "
      "= f32[40,20] fusion(p, q, b), kind=kLoop, calls=f }");
}

// Short rows that lie side by side in the operand: blocks of them, whole and cut.
TEST(LoopKernel, MovesShortRowsInBlocks) {
  for (const char* dtype : {"f32", "f64", "bf16", "u8"}) {
    for (const char* sizes : {"64,40,2", "33,1030,3", "300,9,4", "17,200,16", "5,5,2", "9,64,63"}) {
      SCOPED_TRACE(std::string(dtype) + sizes);
      const std::string d = dtype, from = sizes;
      const auto first = from.find(','), second = from.find(',', first + 1);
      const std::string to =
          from.substr(first + 1, second - first) + from.substr(0, first) + from.substr(second);
      check("ENTRY e { p = " + d + "[" + from + "] parameter(0)\n ROOT t = " + d + "[" + to +
            "] transpose(p), dimensions={1,0,2} }");
    }
  }
}

// Pieces of one element that take turns, of operands that are read apart, as complex numbers are.
TEST(LoopKernel, StoresPiecesByTurns) {
  for (const char* dtype : {"f32", "f64", "bf16", "s8"}) {
    for (const int count : {1, 7, 16, 33, 100, 5000}) {
      for (int pieces = 2; pieces <= 5; ++pieces) {
        SCOPED_TRACE(std::string(dtype) + " " + std::to_string(count) + " " +
                     std::to_string(pieces));
        const auto type = [&](int minor) {
          return std::string(dtype) + "[" + std::to_string(count) + "," + std::to_string(minor) +
                 "]";
        };
        std::string text =
            "f { p = " + type(pieces) + " parameter(0)\n q = " + type(pieces) + " parameter(1)\n";
        std::string operands;
        for (int i = 0; i < pieces; ++i) {
          const std::string n = std::to_string(i);
          const auto slice = [&](int at) {
            return "), slice={[0:" + std::to_string(count) + "],[" + std::to_string(at) + ":" +
                   std::to_string(at + 1) + "]}\n";
          };
          text += " a" + n + " = " + type(1) + " slice(p" + slice(i);
          text += " b" + n + " = " + type(1) + " slice(q" + slice(pieces - 1 - i);
          text += " s" + n + " = " + type(1) + " add(a" + n + ", b" + n + ")\n";
          operands += (i > 0 ? ", s" : "s") + n;
        }
        check(text + " ROOT c = " + type(pieces) + " concatenate(" + operands +
              "), dimensions={1} }\nENTRY e { p = " + type(pieces) +
              " parameter(0)\n q = " + type(pieces) + " parameter(1)\n ROOT r = " + type(pieces) +
              " fusion(p, q), kind=kLoop, calls=f }");
      }
    }
  }
}

// Matrices of pairs, turned: read in tiles, element by element of each pair.
TEST(LoopKernel, TransposesTilesOfWhatIsReadApart) {
  for (const char* sizes : {"33,47", "64,32", "5,70", "130,20"}) {
    SCOPED_TRACE(sizes);
    const std::string from = sizes;
    const auto comma = from.find(',');
    const std::string rows = from.substr(0, comma), columns = from.substr(comma + 1);
    const std::string to = columns + "," + rows;
    const auto part = [&](const std::string& name, const char* at) {
      return " " + name + "s = f32[" + from + ",1] slice(p), slice={[0:" + rows +
             "],[0:" + columns + "],[" + at + "]}\n " + name + "r = f32[" + from + "] reshape(" +
             name + "s)\n " + name + " = f32[" + to + "] transpose(" + name +
             "r), dimensions={1,0}\n";
    };
    check("f { p = f32[" + from + ",2] parameter(0)\n" + part("x", "0:1") + part("y", "1:2") +
          " d = f32[" + to + "] subtract(x, y)\n m = f32[" + to + "] multiply(x, y)\n dr = f32[" +
          to + ",1] reshape(d)\n mr = f32[" + to + ",1] reshape(m)\n ROOT c = f32[" + to +
          ",2] concatenate(dr, mr), dimensions={2} }\nENTRY e { p = f32[" + from +
          ",2] parameter(0)\n ROOT r = f32[" + to + ",2] fusion(p), kind=kLoop, calls=f }");
  }
}

// Pieces of which each reads both halves of its rows, in few and in many units.
TEST(LoopKernel, PutsPiecesOfEqualShapeSideBySide) {
  for (const char* dtype : {"f32", "bf16"}) {
    for (const char* rows : {"1", "7", "900"}) {
      for (const int half : {5, 32, 70}) {
        SCOPED_TRACE(std::string(dtype) + rows + " " + std::to_string(half));
        const auto array = [&](int columns) {
          return std::string(dtype) + "[3," + rows + "," + std::to_string(columns) + "]";
        };
        const std::string piece = array(half), whole = array(2 * half);
        const std::string width = std::to_string(half), end = std::to_string(2 * half);
        const std::string before = "slice={[0:3], [0:" + std::string(rows) + "], [";
        check("f { x = " + whole + " parameter(0)\n y = " + piece + " parameter(1)\n a = " + piece +
              " slice(x), " + before + "0:" + width + "]}\n b = " + piece + " slice(x), " + before +
              width + ":" + end + "]}\n c = " + piece + " multiply(a, y)\n d = " + piece +
              " subtract(c, b)\n e = " + piece + " multiply(b, y)\n g = " + piece +
              " add(e, a)\n ROOT r = " + whole +
              " concatenate(d, g), dimensions={2} }\nENTRY e { x = " + whole +
              " parameter(0)\n y = " + piece + " parameter(1)\n ROOT r = " + whole +
              " fusion(x, y), kind=kLoop, calls=f }");
      }
    }
  }
}

TEST(LoopKernel, FillsThePaddingOfEveryDimension) {
  for (const char* dtype : {"f32", "bf16", "s8"}) {
    const std::string d = dtype;
    const auto pad = [&](const std::string& from, const std::string& to, const char* padding) {
      SCOPED_TRACE(d + padding);
      check("ENTRY e { p = " + d + "[" + from + "] parameter(0)\n z = " + d +
            "[] parameter(1)\n ROOT r = " + d + "[" + to + "] pad(p, z), padding=" + padding +
            " }");
    };
    pad("7,30,20", "10,37,45", "1_2x3_4x5_20");
    pad("7,30,20", "7,30,21", "0_0x0_0x1_0");
    pad("7,30,20", "12,30,20", "0_5x0_0x0_0");
    pad("7,30,20", "15,60,64", "1_1_1x1_0_1x2_4_2");
    pad("0,5", "3,7", "1_2x1_1");
  }
}

TEST(LoopKernel, MovesShortRowsInTheOperandsOrder) {
  for (const char* dtype : {"f32", "bf16"}) {
    const std::string d = dtype;
    check("ENTRY e { p = " + d + "[3,70,5,24] parameter(0)\n ROOT t = " + d +
          "[3,5,70,24] transpose(p), dimensions={0,2,1,3} }");
    check("ENTRY e { p = " + d + "[50,7,33] parameter(0)\n ROOT t = " + d +
          "[7,50,33] transpose(p), dimensions={1,0,2} }");
  }
}

std::size_t phase_count(const std::string& text) {
  const auto module = parse(text);
  const auto kernel = compiler().compile(*module->entry()->root());
  EXPECT_TRUE(kernel.ok()) << kernel.status().to_string();
  return static_cast<const device::PhasedKernel&>(**kernel).phases().size();
}

// Of `dtype`[150,60], by lines of the fusion's computation and its root's name.
std::string of_choices(const std::string& dtype, const std::string& lines) {
  const std::string d = dtype;
  return "f { x = " + d + "[150,60] parameter(0)\n y = " + d + "[150,40] parameter(1)\n z = " + d +
         "[] constant(1)\n" + lines + " }\nENTRY e { x = " + d +
         "[150,60] parameter(0)\n y = " + d + "[150,40] parameter(1)\n ROOT r = " + d +
         "[150,100] fusion(x, y), kind=kLoop, calls=f }";
}

TEST(LoopKernel, CutsLoopsWhereAnotherPieceBegins) {
  for (const std::string d : {"f32", "bf16", "s8"}) {
    SCOPED_TRACE(d);
    const std::string row = d + "[150,100] ", of = " = " + row;
    const std::string joined = " c" + of + "concatenate(x, y), dimensions={1}\n";
    const std::string padded = " p" + of + "pad(y, z), padding=0_0x33_27\n";
    const auto expect_phases = [&](const std::string& lines, std::size_t count) {
      const std::string text = of_choices(d, lines);
      check(text);
      EXPECT_EQ(phase_count(text), count) << text;
    };
    expect_phases(joined + " ROOT r" + of + "add(c, c)", 2);
    // Cut at 33, 60 and 73.
    expect_phases(joined + padded + " ROOT r" + of + "subtract(c, p)", 4);
    // The borders above and below are not cut again.
    expect_phases(" s = " + d + "[100,60] slice(x), slice={[20:120], [0:60]}\n q" + of +
                      "pad(s, z), padding=30_20x25_15\n ROOT r" + of + "negate(q)",
                  5);
    // A row of five is short, but there is little of it: that much of `x` comes twice.
    expect_phases(" a = " + d + "[150,5] slice(x), slice={[0:150], [0:5]}\n b = " + d +
                      "[150,55] slice(x), slice={[0:150], [5:60]}\n t" + of +
                      "concatenate(b, a, y), dimensions={1}\n ROOT r" + of + "multiply(t, t)",
                  3);
    // Rows of four are short, and all that there is.
    std::string pieces, names;
    for (int i = 0; i < 10; ++i) {
      const std::string n = std::to_string(i);
      pieces += " s" + n + " = " + d + "[150,4] slice(x), slice={[0:150], [" + n + ":" +
                std::to_string(i + 4) + "]}\n";
      names += ", s" + n;
    }
    expect_phases(pieces + " t" + of + "concatenate(x" + names + "), dimensions={1}\n ROOT r" + of +
                      "negate(t)",
                  1);
  }
}

// As in networks whose layers read all layers before them.
TEST(LoopKernel, CutsLoopsOverManyPiecesWhileThereIsEnoughOfEach) {
  const auto text = [](int rows, int pieces) {
    const std::string count = std::to_string(rows), wide = std::to_string(16 * pieces);
    const std::string result = "f32[" + count + "," + wide + "]";
    const std::string input = "f32[" + count + ",64] parameter(0)\n";
    std::string made = "f { x = " + input, names;
    for (int i = 0; i < pieces; ++i) {
      const std::string n = std::to_string(i), first = std::to_string(i % 40);
      made += " s" + n + " = f32[" + count + ",16] slice(x), slice={[0:" + count + "], [" + first +
              ":" + std::to_string(i % 40 + 16) + "]}\n";
      names += (i == 0 ? "s" : ", s") + n;
    }
    return made + " c = " + result + " concatenate(" + names +
           "), dimensions={1}\n ROOT r = " + result + " negate(c) }\nENTRY e { x = " + input +
           " ROOT r = " + result + " fusion(x), kind=kLoop, calls=f }";
  };
  for (const auto& [rows, pieces, count] :
       {std::tuple{20, 25, 25}, {16, 64, 64}, {15, 64, 1}, {100, 65, 1}}) {
    check(text(rows, pieces));
    EXPECT_EQ(phase_count(text(rows, pieces)), static_cast<std::size_t>(count)) << pieces;
  }
}

// A kernel's first phase, and how many elements of the result are written after each cut of it.
struct Units {
  device::KernelPhase phase;
  std::vector<std::int64_t> ends;
};

Units units_of(const char* text) {
  const auto module = parse(text);
  const auto kernel = compiler().compile(*module->entry()->root());
  EXPECT_TRUE(kernel.ok()) << kernel.status().to_string();
  const auto& phased = static_cast<const device::PhasedKernel&>(**kernel);
  Units made{phased.phases()[0], {}};
  std::vector<std::vector<float>> inputs;
  std::vector<const void*> from;
  for (const ir::Instruction* parameter : module->entry()->parameters()) {
    inputs.emplace_back(at(parameter->shape().element_count()), 0.5F);
    from.push_back(inputs.back().data());
  }
  std::vector<float> result(at(module->entry()->root()->shape().element_count()), -1e30F);
  void* to = result.data();
  for (std::int64_t unit = 0; unit < made.phase.units; unit += made.phase.cut) {
    made.phase.run(from.data(), &to, nullptr, unit,
                   std::min(made.phase.units, unit + made.phase.cut));
    const auto first = std::find(result.begin(), result.end(), -1e30F);
    EXPECT_TRUE(std::all_of(first, result.end(), [](float x) { return x == -1e30F; })) << unit;
    made.ends.push_back(first - result.begin());
  }
  return made;
}

// What a unit writes, and which operands it reads there and nowhere else: by running units one by
// one.
TEST(LoopKernel, SaysWhichRunOfElementsAUnitIs) {
  for (const char* text :
       {"f { p = f32[300,48] parameter(0)\n q = f32[48] parameter(1)\n b = f32[300,48] "
        "broadcast(q), "
        "dimensions={1}\n ROOT r = f32[300,48] add(p, b) }\nENTRY e { p = f32[300,48] "
        "parameter(0)\n q = f32[48] parameter(1)\n ROOT r = f32[300,48] fusion(p, q), kind=kLoop, "
        "calls=f }",
        "ENTRY e { p = f32[20001] parameter(0)\n ROOT r = f32[20001] negate(p) }",
        "ENTRY e { p = f32[3,8192] parameter(0)\n ROOT r = f32[3,8192] negate(p) }"}) {
    const Units units = units_of(text);
    ASSERT_GT(units.phase.run_elements, 0) << text;
    EXPECT_EQ(units.phase.own_inputs, 1U) << text;
    for (std::size_t i = 0; i + 1 < units.ends.size(); ++i) {
      EXPECT_EQ(units.ends[i],
                static_cast<std::int64_t>(i + 1) * units.phase.cut * units.phase.run_elements);
    }
  }
}

TEST(LoopKernel, OwnsNoInputThatItReadsElsewhere) {
  // Read in another order, twice, and as a whole row for each element.
  for (
      const char* text :
      {"ENTRY e { p = f32[64,80] parameter(0)\n ROOT r = f32[80,64] transpose(p), dimensions={1,0} "
       "}",
       "f { p = f32[200,200] parameter(0)\n t = f32[200,200] transpose(p), dimensions={1,0}\n ROOT "
       "r = f32[200,200] add(p, t) }\nENTRY e { p = f32[200,200] parameter(0)\n ROOT r = "
       "f32[200,200] fusion(p), kind=kLoop, calls=f }",
       "ENTRY e { p = f32[30000] parameter(0)\n ROOT r = f32[30000] reverse(p), dimensions={0} "
       "}"}) {
    const auto module = parse(text);
    const auto kernel = compiler().compile(*module->entry()->root());
    ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
    const auto& phased = static_cast<const device::PhasedKernel&>(**kernel);
    for (const device::KernelPhase& phase : phased.phases())
      EXPECT_EQ(phase.own_inputs, 0U) << text;
  }
}

}  // namespace
}  // namespace plimsoll::jit::testing
