// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <string>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/cases/random.h"
#include "tests/kernels/kernel_harness.h"

namespace plimsoll::kernels {
namespace {

// One window over two dimensions of an array with lanes behind them (channels last) or planes
// before them (channels first).
struct Pooling {
  std::int64_t channels = 1, height = 1, width = 1;
  bool channels_last = true;
  ir::WindowDimension rows, columns;
};

ir::WindowDimension random_window(cases::Random& random, bool plain) {
  ir::WindowDimension w;
  w.size = random.between(1, 4);
  w.stride = random.between(1, 3);
  w.padding_low = random.between(0, 2);
  w.padding_high = random.between(0, 2);
  if (plain) return w;
  w.window_dilation = random.between(1, 2);
  w.base_dilation = random.chance(0.2) ? 2 : 1;
  w.reversal = random.chance(0.2);
  return w;
}

Pooling random_pooling(cases::Random& random) {
  // Around the edges of vectors of 4, 8 and 16.
  constexpr std::int64_t kCounts[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 48};
  Pooling p;
  p.channels_last = random.chance(0.5);
  p.channels = p.channels_last ? random.pick<std::int64_t>(kCounts) : random.between(1, 3);
  p.width = p.channels_last ? random.between(1, 9) : random.pick<std::int64_t>(kCounts);
  p.height = random.between(1, 7);
  const bool plain = random.chance(0.5);
  p.rows = random_window(random, plain);
  p.columns = random_window(random, plain);
  return p;
}

// The operand, and the result that a window makes of it; nothing where no window fits.
struct WindowProgram {
  std::unique_ptr<ir::Module> module = std::make_unique<ir::Module>("m");
  ir::Instruction* operand = nullptr;
  ir::Instruction* pooled = nullptr;
};

WindowProgram pool(const Pooling& p, ir::Opcode fold, ir::DType dtype = ir::DType::f32) {
  WindowProgram program;
  ir::Computation* entry = program.module->add_computation("e");
  program.module->set_entry(entry);
  const ir::Dims dims = p.channels_last ? ir::Dims{2, p.height, p.width, p.channels}
                                        : ir::Dims{2, p.channels, p.height, p.width};
  program.operand = entry->add_parameter(0, ir::Shape(dtype, dims), "x");
  ir::Instruction* init = entry->add_parameter(1, ir::Shape(dtype, {}), "init");
  ir::Attributes attributes;
  attributes.window.resize(4);
  attributes.window[p.channels_last ? 1 : 2] = p.rows;
  attributes.window[p.channels_last ? 2 : 3] = p.columns;
  ir::Computation* to_apply = ir::scalar_computation(*program.module, fold, dtype);
  auto built =
      ir::build(*entry, ir::Opcode::reduce_window, {program.operand, init}, attributes, {to_apply});
  program.pooled = built.ok() ? *built : nullptr;
  return program;
}

// Sums are of whole numbers, which are exact however the interpreter keeps them, and of a few
// infinities and NaNs.
ir::Literal addends(const ir::Shape& shape, std::uint64_t seed, bool specials) {
  ir::Literal literal = small_integers(shape, static_cast<unsigned>(seed));
  cases::Random random(seed);
  for (std::int64_t i = 0; specials && i < shape.element_count(); ++i) {
    if (random.chance(0.05)) literal.set(i, std::numeric_limits<double>::infinity());
    if (random.chance(0.05)) literal.set(i, std::numeric_limits<double>::quiet_NaN());
  }
  return literal;
}

void expect_same_as_interpreter(const ir::Instruction& instruction,
                                const std::vector<ir::Literal>& operands) {
  auto expected = ir::interpret(instruction, operands);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  const int before = device::thread_count();
  for (const int threads : {1, 3}) {
    device::set_thread_count(threads);
    auto actual = run_instruction(instruction, operands);
    ASSERT_TRUE(actual.ok()) << actual.status().to_string();
    EXPECT_EQ(cases::compare_bits(*expected, *actual), "");
  }
  device::set_thread_count(before);
}

TEST(WindowKernels, PoolingIsTheInterpretersAtEverySizeAroundVectorEdges) {
  int pooled = 0;
  for (std::uint64_t seed = 0; seed < 900; ++seed) {
    cases::Random random(seed);
    const Pooling p = random_pooling(random);
    const bool sum = random.chance(0.5);
    const ir::DType dtype = seed % 3 == 0   ? ir::DType::bf16
                            : seed % 3 == 1 ? ir::DType::f16
                                            : ir::DType::f32;
    const WindowProgram program = pool(p, sum ? ir::Opcode::add : ir::Opcode::maximum, dtype);
    if (program.pooled == nullptr) continue;
    ++pooled;
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + program.operand->shape().to_string());
    ir::Literal init(ir::Shape(dtype, {}));
    init.set(0, sum ? 0.5 : -std::numeric_limits<double>::infinity());
    const cases::InputRange range{.low = -2, .high = 2, .specials = random.chance(0.5)};
    const ir::Shape& shape = program.operand->shape();
    expect_same_as_interpreter(*program.pooled, {sum ? addends(shape, seed, range.specials)
                                                     : cases::random_literal(shape, seed, range),
                                                 init});
  }
  EXPECT_GT(pooled, 600);
}

// Small planes of 16-bit floats become f32 as a whole, large ones element by element.
TEST(WindowKernels, PlanesOf16BitFloatsOfEverySizeAreTheInterpreters) {
  for (const ir::DType dtype : {ir::DType::f16, ir::DType::bf16}) {
    for (const std::int64_t side : {40, 200}) {
      Pooling p;
      p.channels_last = false;
      p.channels = 2;
      p.height = p.width = side;
      p.rows.size = p.columns.size = 3;
      p.rows.stride = p.columns.stride = 2;
      p.rows.padding_low = 1;
      const WindowProgram program = pool(p, ir::Opcode::maximum, dtype);
      ASSERT_NE(program.pooled, nullptr);
      ir::Literal init(ir::Shape(dtype, {}));
      init.set(0, -HUGE_VAL);
      expect_same_as_interpreter(*program.pooled,
                                 {addends(program.operand->shape(), 5, true), init});
    }
  }
}

// Around the numbers of lines and of elements that go on together.
TEST(WindowKernels, RunningSumsAreTheInterpretersAtEverySize) {
  for (const char* dtype : {"f32", "bf16", "s32", "f64"}) {
    for (const char* fold : {"add", "maximum", "minimum"}) {
      for (const int rows : {1, 7, 8, 9, 25}) {
        for (const int length : {1, 15, 16, 17, 50}) {
          const std::string element = dtype;
          const std::string array =
              element + "[" + std::to_string(rows) + "," + std::to_string(length) + "]";
          const std::string text =
              "f {\n  a = " + element + "[] parameter(0)\n  b = " + element +
              "[] parameter(1)\n  ROOT c = " + element + "[] " + fold +
              "(a, b)\n}\nENTRY e {\n  x = " + array + " parameter(0)\n  i = " + element +
              "[] parameter(1)\n  ROOT r = " + array + " reduce-window(x, i), window={size=1x" +
              std::to_string(length) + " pad=0_0x" + std::to_string(length - 1) +
              "_0}, to_apply=f\n}\n";
          SCOPED_TRACE(text);
          const auto module = ir::parse_module(text);
          ASSERT_TRUE(module.ok()) << module.status().to_string();
          const ir::Instruction& root = *(*module)->entry()->root();
          ir::Literal init(root.operand(1)->shape());
          init.set(0, 1);
          expect_same_as_interpreter(
              root, {small_integers(root.shape(), static_cast<unsigned>(rows)), init});
        }
      }
    }
  }
}

TEST(WindowKernels, AMaximumOfZerosIsPositiveWhereOneOfThemIs) {
  for (const std::int64_t channels : {1, 3, 4, 8, 16, 19, 64}) {
    Pooling p;
    p.channels = channels;
    p.height = p.width = 4;
    p.rows.size = p.columns.size = p.rows.stride = p.columns.stride = 2;
    const WindowProgram program = pool(p, ir::Opcode::maximum);
    ASSERT_NE(program.pooled, nullptr);
    ir::Literal zeros(program.operand->shape());
    cases::Random random(static_cast<std::uint64_t>(channels));
    for (std::int64_t i = 0; i < zeros.shape().element_count(); ++i)
      zeros.set(i, random.chance(0.3) ? 0.0 : -0.0);
    ir::Literal init(ir::Shape(ir::DType::f32, {}));
    init.set(0, -std::numeric_limits<double>::infinity());
    expect_same_as_interpreter(*program.pooled, {zeros, init});
  }
}

TEST(WindowKernels, MaxPoolingsGradientIsTheInterpretersAtEverySizeAroundVectorEdges) {
  int routed = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    cases::Random random(1000 + seed);
    Pooling p = random_pooling(random);
    for (ir::WindowDimension* w : {&p.rows, &p.columns}) {
      w->base_dilation = w->window_dilation = 1;
      w->reversal = false;
      // Windows that do not overlap, and that cover everything, have loops of their own.
      if (seed % 3 == 0) w->stride = w->size;
      if (seed % 3 == 0) w->padding_low = w->padding_high = 0;
    }
    if (seed % 6 == 0) {
      p.height *= p.rows.size;
      p.width *= p.columns.size;
    }
    WindowProgram program = pool(p, ir::Opcode::maximum);
    if (program.pooled == nullptr || program.pooled->shape().element_count() == 0) continue;
    ++routed;
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + program.operand->shape().to_string());
    ir::Computation* entry = program.module->entry();
    ir::Module& module = *program.module;
    ir::Computation* select = module.add_computation("ge");
    ir::Instruction* a = select->add_parameter(0, ir::Shape(ir::DType::f32, {}), "a");
    ir::Instruction* b = select->add_parameter(1, ir::Shape(ir::DType::f32, {}), "b");
    ir::Attributes direction;
    direction.comparison_direction = ir::ComparisonDirection::ge;
    ASSERT_TRUE(ir::build(*select, ir::Opcode::compare, {a, b}, direction).ok());
    ir::Instruction* source = entry->add_parameter(2, program.pooled->shape(), "g");
    ir::Attributes window;
    window.window = program.pooled->attributes().window;
    auto gradient = ir::build(
        *entry, ir::Opcode::select_and_scatter, {program.operand, source, entry->parameters()[1]},
        window, {select, ir::scalar_computation(module, ir::Opcode::add, ir::DType::f32)});
    ASSERT_TRUE(gradient.ok()) << gradient.status().to_string();
    ir::Literal init(ir::Shape(ir::DType::f32, {}));
    init.set(0, seed % 2 == 0 ? 0.0 : -0.0);
    const cases::InputRange range{.low = -2, .high = 2, .specials = random.chance(0.5)};
    expect_same_as_interpreter(**gradient,
                               {cases::random_literal(program.operand->shape(), seed, range),
                                addends(source->shape(), seed, range.specials), init});
  }
  EXPECT_GT(routed, 300);
}

}  // namespace
}  // namespace plimsoll::kernels
