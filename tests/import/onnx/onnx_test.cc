// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/onnx/onnx.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "runtime/base/file.h"
#include "runtime/import/onnx/ops/node_context.h"
#include "runtime/import/program_bytes.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "tests/import/onnx/model_writer.h"
#include "tests/import/onnx/small_models.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using import::GivenInput;
using import::ProgramOptions;

std::string error_of(const std::string& bytes, const ProgramOptions& options = {}) {
  const auto module = import::read_program(bytes, "m.onnx", options);
  return module.ok() ? std::string() : module.status().to_string();
}

ir::Literal floats(const ir::Dims& dims, const std::vector<float>& values) {
  return ir::Literal::array<float>(dims, values);
}

TEST(Onnx, ComparesResultsWithWhatTheModelDeclares) {
  GraphParts parts;
  parts.inputs = {value_info("x", kFloat, {"2", "3"})};
  parts.nodes = {node("Neg", {"x"}, {"y"})};
  const auto error_with = [&](const MessageWriter& output) {
    parts.outputs = {output};
    return error_of(model(parts));
  };
  EXPECT_EQ(error_with(value_info("y", kFloat, {"2", "3"})), "");
  EXPECT_EQ(error_with(value_info("y", kFloat, {"rows", "3"})), "");
  EXPECT_EQ(error_with(shapeless_info("y", kFloat)), "");
  for (const auto& declared : {value_info("y", kFloat, {"2", "4"}), value_info("y", kFloat, {"6"}),
                               value_info("y", kInt64, {"2", "3"})}) {
    const std::string error = error_with(declared);
    EXPECT_NE(error.find("output 'y' is f32[2,3], the model declares "), std::string::npos)
        << error;
  }
}

TEST(Onnx, AnInputThatIsAnOutputKeepsItsName) {
  GraphParts parts;
  parts.inputs = {value_info("x", kFloat, {"2"})};
  parts.nodes = {node("Neg", {"x"}, {"y"})};
  parts.outputs = {value_info("x", kFloat, {"2"}), value_info("y", kFloat, {"2"})};
  const auto module = import::read_program(model(parts), "m.onnx");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const ir::Instruction& root = *(*module)->entry()->root();
  ASSERT_EQ(root.operands().size(), 2U);
  EXPECT_EQ(root.operand(0)->name(), "x");
  EXPECT_EQ(root.operand(0)->opcode(), ir::Opcode::parameter);
  EXPECT_EQ(root.operand(1)->name(), "y");
}

// One window over one element, as in a squeeze and excitation, is a product; one over more is not.
TEST(Onnx, ConvolutionsOfOneElementAreProducts) {
  for (const char* size : {"1", "2"}) {
    GraphParts parts;
    parts.inputs = {value_info("x", kFloat, {"2", "3", size, size}),
                    value_info("w", kFloat, {"4", "3", "1", "1"}), value_info("b", kFloat, {"4"})};
    parts.nodes = {node("Conv", {"x", "w", "b"}, {"y"})};
    parts.outputs = {value_info("y", kFloat, {"2", "4", size, size})};
    const auto module = import::read_program(model(parts), "m.onnx");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    bool has_dot = false;
    for (const auto& instruction : (*module)->entry()->instructions()) {
      has_dot = has_dot || instruction->opcode() == ir::Opcode::dot;
    }
    EXPECT_EQ(has_dot, *size == '1');
    const std::int64_t count = *size == '1' ? 1 : 4;
    std::vector<float> x(static_cast<std::size_t>(6 * count)), w(12), b = {1, 2, 3, 4};
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 5) - 2;
    const std::int64_t side = count == 1 ? 1 : 2;
    const auto y = ir::interpret(**module, std::vector{floats({2, 3, side, side}, x),
                                                       floats({4, 3, 1, 1}, w), floats({4}, b)});
    ASSERT_TRUE(y.ok()) << y.status().to_string();
    const ir::Literal& result = y->shape().is_array() ? *y : y->elements()[0];
    for (std::int64_t i = 0; i < 8 * count; ++i) {
      const std::int64_t image = i / (4 * count), out = i / count % 4, place = i % count;
      double sum = static_cast<double>(out + 1);
      for (std::int64_t c = 0; c < 3; ++c) {
        sum += x[static_cast<std::size_t>((image * 3 + c) * count + place)] *
               w[static_cast<std::size_t>(out * 3 + c)];
      }
      EXPECT_EQ(result.at(i), sum) << i;
    }
  }
}

// Of 3 x 3 elements, four apart, over 4 x 6 only the middle row meets data; the first of three
// columns does at the last place alone, so it stays.
TEST(Onnx, FiltersLoseTheElementsThatMeetPaddingAlone) {
  GraphParts parts;
  parts.inputs = {value_info("x", kFloat, {"1", "1", "4", "6"}),
                  value_info("w", kFloat, {"1", "1", "3", "3"})};
  parts.nodes = {node("Conv", {"x", "w"}, {"y"},
                      {attribute("dilations", std::vector<std::int64_t>{4, 5}),
                       attribute("pads", std::vector<std::int64_t>{4, 5, 4, 5})})};
  parts.outputs = {value_info("y", kFloat, {"1", "1", "4", "6"})};
  const auto module = import::read_program(model(parts), "m.onnx");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  for (const auto& instruction : (*module)->entry()->instructions()) {
    if (instruction->opcode() != ir::Opcode::convolution) continue;
    EXPECT_EQ(instruction->operand(1)->shape().dims(), (ir::Dims{1, 1, 1, 3}));
  }
  std::vector<float> x, w;
  for (int i = 0; i < 24; ++i) x.push_back(static_cast<float>(i % 7) - 3);
  for (int i = 0; i < 9; ++i) w.push_back(static_cast<float>(i + 1));
  const auto y =
      ir::interpret(**module, std::vector{floats({1, 1, 4, 6}, x), floats({1, 1, 3, 3}, w)});
  ASSERT_TRUE(y.ok()) << y.status().to_string();
  for (std::int64_t row = 0; row < 4; ++row) {
    for (std::int64_t column = 0; column < 6; ++column) {
      double sum = 0;
      for (std::int64_t i = 0; i < 3; ++i) {
        for (std::int64_t j = 0; j < 3; ++j) {
          const std::int64_t r = row + 4 * i - 4, c = column + 5 * j - 5;
          if (r < 0 || r >= 4 || c < 0 || c >= 6) continue;
          sum += double{x[static_cast<std::size_t>(6 * r + c)]} *
                 w[static_cast<std::size_t>(3 * i + j)];
        }
      }
      EXPECT_EQ(y->at(6 * row + column), sum) << row << " " << column;
    }
  }
}

// A recurrent layer of 3 steps, 2 sequences and 4 hidden numbers, whose parameters are inputs.
std::unique_ptr<ir::Module> recurrent(const char* op, std::int64_t gates, const char* direction) {
  const bool both = std::string_view(direction) == "bidirectional";
  const std::string d = both ? "2" : "1", width = std::to_string(4 * gates);
  GraphParts parts;
  parts.inputs = {value_info("x", kFloat, {"3", "2", "5"}),
                  value_info("w", kFloat, {d, width, "5"}),
                  value_info("r", kFloat, {d, width, "4"}),
                  value_info("b", kFloat, {d, std::to_string(8 * gates)}),
                  value_info("h", kFloat, {d, "2", "4"})};
  parts.initializers = {raw_tensor("lengths", 6, {2}, std::string("\3\0\0\0\2\0\0\0", 8))};
  MessageWriter way = MessageWriter().text(1, "direction").text(4, direction).number(20, 3);
  parts.nodes = {node(op, {"x", "w", "r", "b", "lengths", "h"}, {"y", "y_h"},
                      {way, attribute("hidden_size", std::int64_t{4})})};
  parts.outputs = {value_info("y", kFloat, {"3", d, "2", "4"}),
                   value_info("y_h", kFloat, {d, "2", "4"})};
  auto module = import::read_program(model(parts), "m.onnx");
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  return module.ok() ? std::move(*module) : nullptr;
}

std::int64_t loops_of(const ir::Module& module) {
  std::int64_t loops = 0;
  for (const auto& instruction : module.entry()->instructions()) {
    loops += instruction->opcode() == ir::Opcode::while_ ? 1 : 0;
  }
  return loops;
}

// Both directions take their steps in one loop, and give what each gives alone.
TEST(Onnx, BothDirectionsOfARecurrentLayerAreOneLoop) {
  struct Kind {
    const char* op;
    std::int64_t gates;
  };
  for (const auto& [op, gates] : {Kind{"RNN", 1}, Kind{"GRU", 3}, Kind{"LSTM", 4}}) {
    const auto both = recurrent(op, gates, "bidirectional");
    ASSERT_NE(both, nullptr);
    EXPECT_EQ(loops_of(*both), 1) << op;
    auto draw = [seed = 0](const ir::Dims& dims) mutable {
      ir::Literal made(ir::Shape(ir::DType::f32, dims));
      for (std::int64_t i = 0; i < made.shape().element_count(); ++i) {
        made.set(i, static_cast<double>((i * 13 + ++seed * 7) % 29 - 14) / 16);
      }
      return made;
    };
    const std::vector<ir::Literal> inputs = {draw({3, 2, 5}), draw({2, 4 * gates, 5}),
                                             draw({2, 4 * gates, 4}), draw({2, 8 * gates}),
                                             draw({2, 2, 4})};
    const auto together = ir::interpret(*both, inputs);
    ASSERT_TRUE(together.ok()) << together.status().to_string();
    for (std::int64_t d = 0; d < 2; ++d) {
      const auto alone = recurrent(op, gates, d == 0 ? "forward" : "reverse");
      ASSERT_NE(alone, nullptr);
      std::vector<ir::Literal> its = {inputs[0]};
      for (std::size_t i = 1; i < inputs.size(); ++i) {
        ir::Dims dims = inputs[i].shape().dims();
        dims[0] = 1;
        ir::Literal part(ir::Shape(ir::DType::f32, dims));
        const std::int64_t count = part.shape().element_count();
        for (std::int64_t j = 0; j < count; ++j) part.set(j, inputs[i].at(d * count + j));
        its.push_back(std::move(part));
      }
      const auto one = ir::interpret(*alone, its);
      ASSERT_TRUE(one.ok()) << one.status().to_string();
      for (std::int64_t step = 0; step < 3; ++step) {
        for (std::int64_t j = 0; j < 8; ++j) {
          EXPECT_EQ(together->elements()[0].at((step * 2 + d) * 8 + j),
                    one->elements()[0].at(step * 8 + j))
              << op << " " << d << " " << step << " " << j;
        }
      }
      for (std::int64_t j = 0; j < 8; ++j) {
        EXPECT_EQ(together->elements()[1].at(d * 8 + j), one->elements()[1].at(j))
            << op << " " << d;
      }
    }
  }
}

TEST(Onnx, RefusesKnownIndicesOutsideOfTheirAxis) {
  for (const char* op : {"Gather", "GatherElements"}) {
    for (const std::int64_t index : {-3, 2}) {
      GraphParts parts;
      parts.inputs = {value_info("x", kFloat, {"3"})};
      parts.initializers = {raw_tensor("i", kInt64, {1}, raw_of(std::vector<std::int64_t>{index}))};
      parts.nodes = {node(op, {"x", "i"}, {"y"})};
      parts.outputs = {value_info("y", kFloat, {"1"})};
      EXPECT_EQ(error_of(model(parts)), "") << index;
    }
    for (const std::int64_t index : {-4, 3}) {
      GraphParts parts;
      parts.inputs = {value_info("x", kFloat, {"3"})};
      parts.initializers = {raw_tensor("i", kInt64, {1}, raw_of(std::vector<std::int64_t>{index}))};
      parts.nodes = {node(op, {"x", "i"}, {"y"})};
      parts.outputs = {value_info("y", kFloat, {"1"})};
      const std::string error = error_of(model(parts));
      EXPECT_NE(error.find("is outside of an axis of 3"), std::string::npos) << error;
      EXPECT_NE(error.find("node 'n_y' (" + std::string(op) + ")"), std::string::npos) << error;
    }
  }
}

TEST(Onnx, ReadsATransposedMatrixAsItLies) {
  GraphParts parts;
  parts.inputs = {value_info("x", kFloat, {"2", "3"}), value_info("w", kFloat, {"4", "3"})};
  parts.nodes = {node("Transpose", {"w"}, {"t"}), node("MatMul", {"x", "t"}, {"y"})};
  parts.outputs = {value_info("y", kFloat, {"2", "4"})};
  const auto module = import::read_program(model(parts), "m.onnx");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  for (const auto& instruction : (*module)->entry()->instructions()) {
    EXPECT_NE(instruction->opcode(), ir::Opcode::transpose);
  }
  const ir::Literal arguments[] = {floats({2, 3}, {1, 2, 3, 4, 5, 6}),
                                   floats({4, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1})};
  const auto result = ir::interpret(**module, arguments);
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ(*result, floats({2, 4}, {1, 2, 3, 6, 4, 5, 6, 15}));
}

TEST(Onnx, SelectsBoxesThatAreKnown) {
  GraphParts parts;
  parts.initializers = {
      raw_tensor("boxes", kFloat, {1, 4, 4},
                 raw_of(std::vector<float>{0, 0, 1, 1, 1, 1.1F, 0, 0.1F, 0, 2, 1, 3, 5, 5, 6, 6})),
      raw_tensor("scores", kFloat, {1, 1, 4}, raw_of(std::vector<float>{0.9F, 0.95F, 0.5F, 0.1F})),
      raw_tensor("most", kInt64, {}, raw_of(std::vector<std::int64_t>{3})),
      raw_tensor("iou", kFloat, {}, raw_of(std::vector<float>{0.5F})),
      raw_tensor("least", kFloat, {}, raw_of(std::vector<float>{0.2F}))};
  parts.nodes = {node("NonMaxSuppression", {"boxes", "scores", "most", "iou", "least"}, {"y"})};
  parts.outputs = {value_info("y", kInt64, {"selected", "3"})};
  const auto module = import::read_program(model(parts), "m.onnx");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto result = ir::interpret(**module, {});
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  // Box 0 lies under box 1, box 3 has too low a score.
  const std::int64_t selected[] = {0, 0, 1, 0, 0, 2};
  EXPECT_EQ(*result, ir::Literal::array<std::int64_t>({2, 3}, selected));
  parts.initializers.erase(parts.initializers.begin());
  parts.inputs = {value_info("boxes", kFloat, {"1", "4", "4"})};
  EXPECT_NE(error_of(model(parts)).find("input 'boxes' of the model"), std::string::npos);
}

TEST(Onnx, AsksForOpenSizesByName) {
  const std::string error = error_of(open_sum());
  EXPECT_NE(error.find("input 'x' is [batch,3]: the model leaves 'batch' open"), std::string::npos)
      << error;
  EXPECT_NE(error.find("--input-shape x="), std::string::npos) << error;
  EXPECT_NE(error.find("m.onnx: "), std::string::npos) << error;
}

TEST(Onnx, TakesASizeFromEveryInputThatHasItsName) {
  ProgramOptions options;
  options.inputs = {{"x", std::vector<std::int64_t>{2, 3}, {}}};
  const auto module = import::read_program(open_sum(), "m.onnx", options);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto& parameters = (*module)->entry()->parameters();
  ASSERT_EQ(parameters.size(), 2U);
  EXPECT_EQ(parameters[0]->name(), "x");
  EXPECT_EQ(parameters[1]->shape().to_string(), "f32[2,1]");
  EXPECT_EQ((*module)->entry()->root()->name(), "y");
  const ir::Literal arguments[] = {floats({2, 3}, {1, 1, 1, 2, 2, 2}), floats({2, 1}, {1, 10})};
  const auto result = ir::interpret(**module, arguments);
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ(*result, floats({2, 3}, {2, 3, 4, 30, 40, 50}));
}

TEST(Onnx, RefusesSizesThatDoNotFitTheModel) {
  ProgramOptions options;
  options.inputs = {{"x", std::vector<std::int64_t>{2, 4}, {}}};
  EXPECT_NE(error_of(open_sum(), options).find("given as [2,4], the model has it as [batch,3]"),
            std::string::npos);
  options.inputs = {{"x", std::vector<std::int64_t>{2, 3}, {}},
                    {"mask", std::vector<std::int64_t>{4, 1}, {}}};
  EXPECT_NE(error_of(open_sum(), options).find("'batch' is 4 here and 2 elsewhere"),
            std::string::npos);
  options.inputs = {{"z", std::vector<std::int64_t>{2, 3}, {}}};
  EXPECT_NE(error_of(open_sum(), options).find("no input 'z' (it has: x, mask)"),
            std::string::npos);
}

TEST(Onnx, MakesAConstantOfAnInputThatDecidesAShape) {
  const std::string error = error_of(asks_for_shape());
  EXPECT_NE(error.find("node 'n_y' (Reshape): input 1 (shape) must be known"), std::string::npos)
      << error;
  EXPECT_NE(error.find("input 'shape' of the model"), std::string::npos) << error;
  std::vector<std::string> constants;
  ProgramOptions options;
  options.constant_inputs = &constants;
  const std::int64_t wanted[] = {2, -1};
  options.inputs = {{"shape", {}, ir::Literal::array<std::int64_t>({2}, wanted)}};
  const auto module = import::read_program(asks_for_shape(), "m.onnx", options);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  EXPECT_EQ(constants, std::vector<std::string>{"shape"});
  ASSERT_EQ((*module)->entry()->parameters().size(), 1U);
  EXPECT_EQ((*module)->entry()->root()->shape().to_string(), "f32[2,3]");
}

TEST(Onnx, KeepsAsParametersWhatDecidesNoShape) {
  std::vector<std::string> constants;
  ProgramOptions options;
  options.constant_inputs = &constants;
  options.inputs = {{"x", {}, floats({2, 3}, {1, 1, 1, 1, 1, 1})}};
  const auto module = import::read_program(open_sum(), "m.onnx", options);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  EXPECT_TRUE(constants.empty());
  EXPECT_EQ((*module)->entry()->parameters().size(), 2U);
}

TEST(Onnx, NamesTheNodeAndTheAttributeThatAreWrong) {
  GraphParts parts;
  parts.inputs = {value_info("x", kFloat, {"1", "2", "4", "4"})};
  parts.nodes = {node("MaxPool", {"x"}, {"y"}, {attribute("storage_order", 0)})};
  parts.outputs = {shapeless_info("y", kFloat)};
  EXPECT_EQ(error_of(model(parts)), "");
  parts.nodes = {node("ArgMax", {"x"}, {"y"}, {attribute("axis", 7)})};
  EXPECT_NE(error_of(model(parts)).find("node 'n_y' (ArgMax): axis is 7 (must be in [-4, 4))"),
            std::string::npos);
  parts.nodes = {node("DepthToSpace", {"x"}, {"y"}, {attribute("blocksize", 3)})};
  EXPECT_NE(error_of(model(parts)).find("attribute 'blocksize' is 3"), std::string::npos);
  // What is said twice is said alike.
  parts.inputs.push_back(value_info("w", kFloat, {"2", "2", "3", "3"}));
  parts.nodes = {node("Conv", {"x", "w"}, {"y"},
                      {attribute("kernel_shape", std::vector<std::int64_t>{3, 3})})};
  EXPECT_EQ(error_of(model(parts)), "");
  parts.nodes = {node("Conv", {"x", "w"}, {"y"},
                      {attribute("kernel_shape", std::vector<std::int64_t>{2, 2})})};
  EXPECT_NE(error_of(model(parts)).find("'kernel_shape' is [2,2], the kernel's is [3,3]"),
            std::string::npos);
  parts.nodes = {
      node("Conv", {"x", "w"}, {"y"}, {attribute("pads", std::vector<std::int64_t>{1, 1})})};
  EXPECT_NE(error_of(model(parts)).find("'pads' is [1,1] (must be 4 numbers from "),
            std::string::npos);
  parts.inputs = {value_info("x", kFloat, {"4", "1", "3"}),
                  value_info("w", kFloat, {"1", "8", "3"}),
                  value_info("r", kFloat, {"1", "8", "2"})};
  parts.nodes = {node("LSTM", {"x", "w", "r"}, {"y"}, {attribute("hidden_size", 2)})};
  EXPECT_EQ(error_of(model(parts)), "");
  parts.nodes = {node("LSTM", {"x", "w", "r"}, {"y"}, {attribute("hidden_size", 3)})};
  EXPECT_NE(error_of(model(parts)).find("'hidden_size' is 3, the weights have 2"),
            std::string::npos);
  parts.inputs = {value_info("x", kFloat, {"1", "2", "4", "4"})};
  parts.nodes = {node("Sorcery", {"x"}, {"y"})};
  EXPECT_NE(error_of(model(parts))
                .find("UNIMPLEMENTED: m.onnx: node 'n_y' (Sorcery): this "
                      "operator is not read (docs/onnx.md"),
            std::string::npos);
  parts.nodes = {node("ImageDecoder", {"x"}, {"y"})};
  EXPECT_NE(error_of(model(parts)).find("depends on data"), std::string::npos);
  parts.nodes = {node("Add", {"x", "nobody"}, {"y"})};
  EXPECT_NE(error_of(model(parts)).find("input 'nobody' is no value of the graph"),
            std::string::npos);
  parts.nodes = {node("Add", {"x", "z"}, {"y"}), node("Neg", {"y"}, {"z"})};
  EXPECT_NE(error_of(model(parts))
                .find("(Neg) reads what node 'n_y' (Add) makes, which depends on its result"),
            std::string::npos);
  parts.nodes = {node("Add", {"x"}, {"y"})};
  EXPECT_NE(error_of(model(parts)).find("input 1 is missing"), std::string::npos);
  parts.nodes = {node("Abs", {"x"}, {"y"}), node("Neg", {"x"}, {"y"})};
  EXPECT_NE(error_of(model(parts)).find("(Neg): its output 'y' is a value that the graph has"),
            std::string::npos);
  parts.nodes = {node("Abs", {"x"}, {"y"})};
  parts.inputs.push_back(parts.inputs[0]);
  EXPECT_NE(error_of(model(parts)).find("two inputs have the name 'x'"), std::string::npos);
}

// The bytes of floats as truths would be neither true nor false.
TEST(Onnx, RefusesNumbersThatNoArrayIsMadeBy) {
  const auto error_with = [](GraphParts parts) {
    parts.outputs = {shapeless_info("y", kFloat)};
    return error_of(model(parts));
  };
  const auto numbers = [](const char* name, const std::vector<float>& values) {
    return raw_tensor(name, kFloat, {values.size()}, raw_of(values));
  };
  const auto counts = [](const char* name, const std::vector<std::int64_t>& values) {
    return raw_tensor(name, kInt64, {values.size()}, raw_of(values));
  };
  const std::int64_t far = std::int64_t{1} << 30;
  GraphParts parts;
  // Kernels as long as memory, dilated.
  for (const char* const op : {"Conv", "ConvTranspose"}) {
    parts.inputs = {value_info("x", kFloat, {"1", "1", "4"}),
                    value_info("w", kFloat, {"1", "1", "1125899906842624"})};
    parts.nodes = {
        node(op, {"x", "w"}, {"y"}, {attribute("dilations", std::vector<std::int64_t>{far})})};
    EXPECT_NE(error_with(parts).find("more than 2^30 elements"), std::string::npos) << op;
  }
  // No elements, but sizes whose products do not count.
  parts.inputs = {value_info("x", kFloat, {"1", "0", "4611686018427387904", "4"})};
  parts.nodes = {node("DepthToSpace", {"x"}, {"y"}, {attribute("blocksize", 4)})};
  EXPECT_NE(error_with(parts), "");
  // Sums of thousands of elements for each of a million places.
  parts.inputs = {value_info("x", kFloat, {"1", "1", "1073741824"})};
  parts.initializers = {numbers("scales", {1, 1, 0.001F})};
  parts.nodes = {node("Resize", {"x", "", "scales"}, {"y"},
                      {attribute("antialias", 1),
                       MessageWriter().text(1, "mode").text(4, "linear").number(20, 3)})};
  EXPECT_NE(error_with(parts).find("of size 1073741824 resized to"), std::string::npos)
      << error_with(parts);
  // Edges of mel filters beyond all numbers.
  parts.inputs = {};
  parts.nodes = {node("MelWeightMatrix", {"bins", "length", "rate", "low", "high"}, {"y"})};
  for (const float rate : {1e-40F, 0.0F, -1.0F}) {
    parts.initializers = {counts("bins", {8}), counts("length", {16}), numbers("rate", {rate}),
                          numbers("low", {0}), numbers("high", {8192})};
    EXPECT_EQ(error_with(parts) == "", rate > 0) << rate << ": " << error_with(parts);
  }
  // Thousands of n-grams, each with thousands of gaps.
  parts.inputs = {value_info("x", kInt64, {"100000"})};
  parts.initializers = {};
  const std::vector<std::int64_t> pool(4096, 1);
  std::vector<std::int64_t> columns(2048);
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i] = static_cast<std::int64_t>(i);
  parts.nodes = {node("TfIdfVectorizer", {"x"}, {"y"},
                      {attribute("pool_int64s", pool), attribute("ngram_indexes", columns),
                       attribute("ngram_counts", std::vector<std::int64_t>{0, 0}),
                       attribute("max_skip_count", 4096), attribute("min_gram_length", 2),
                       attribute("max_gram_length", 2)})};
  EXPECT_NE(error_with(parts).find("a pool this large"), std::string::npos) << error_with(parts);
}

TEST(Onnx, TakesValuesFromTheFieldOfTheirTypeOnly) {
  const auto error = [](std::int64_t element, const MessageWriter& tensor) {
    GraphParts parts;
    parts.initializers = {tensor};
    parts.nodes = {node("Identity", {"w"}, {"y"})};
    parts.outputs = {value_info("y", element, {"4"})};
    return error_of(model(parts));
  };
  const auto tensor = [](std::int64_t element) {
    return MessageWriter().number(1, 4).number(2, static_cast<std::uint64_t>(element)).text(8, "w");
  };
  const std::string whole = "\x01\x02\x03\x04", floating = raw_of(std::vector<float>{1, 2, 3, 4});
  EXPECT_EQ(error(kBool, tensor(kBool).text(5, whole)), "");
  EXPECT_EQ(error(kInt64, tensor(kInt64).text(7, whole)), "");
  EXPECT_EQ(error(kFloat, tensor(kFloat).text(4, floating)), "");
  EXPECT_NE(error(kBool, tensor(kBool).text(4, floating.substr(0, 4))).find("field 4"),
            std::string::npos);
  EXPECT_NE(error(kFloat, tensor(kFloat).text(5, whole)).find("in field 4 for f32"),
            std::string::npos);
  EXPECT_NE(error(kInt64, tensor(kInt64).text(10, std::string(32, '\x7f'))).find("field 10"),
            std::string::npos);
}

TEST(Onnx, BranchesSeeTheValuesAroundThem) {
  const auto module = import::read_program(branches(), "m.onnx");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  for (const bool yes : {true, false}) {
    const ir::Literal arguments[] = {ir::Literal::scalar(yes), floats({2}, {3, 4})};
    const auto result = ir::interpret(**module, arguments);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ(*result, yes ? floats({2}, {6, 8}) : floats({2}, {4, 5}));
  }
}

// Tools that change models append nodes that others read, also those of branches.
TEST(Onnx, PutsNodesBehindThoseThatMakeTheirInputs) {
  GraphParts then_parts, else_parts;
  then_parts.nodes = {node("Neg", {"late"}, {"then_y"})};
  then_parts.outputs = {value_info("then_y", kFloat, {"2"})};
  else_parts.nodes = {node("Abs", {"inner"}, {"else_y"}), node("Neg", {"x"}, {"inner"})};
  else_parts.outputs = {value_info("else_y", kFloat, {"2"})};
  GraphParts parts;
  parts.inputs = {value_info("c", kBool, {}), value_info("x", kFloat, {"2"})};
  parts.nodes = {node("If", {"c"}, {"y"},
                      {attribute("then_branch", graph(then_parts)),
                       attribute("else_branch", graph(else_parts))}),
                 node("Add", {"first", "x"}, {"late"}), node("Abs", {"x"}, {"first"})};
  parts.outputs = {value_info("y", kFloat, {"2"})};
  const auto module = import::read_program(model(parts), "m.onnx");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  for (const bool takes_then : {true, false}) {
    const ir::Literal arguments[] = {ir::Literal::scalar(takes_then), floats({2}, {3, 5})};
    const auto result = ir::interpret(**module, arguments);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ(*result, takes_then ? floats({2}, {-6, -10}) : floats({2}, {3, 5}));
  }
}

TEST(Onnx, LoopsEndWhereTheirConditionSaysSo) {
  for (const std::uint64_t turns : {3U, 100U}) {
    const auto module = import::read_program(doubling(turns), "m.onnx");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const ir::Literal arguments[] = {ir::Literal::scalar(1.0F), ir::Literal::scalar(20.0F)};
    const auto result = ir::interpret(**module, arguments);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ(*result, ir::Literal::scalar(turns == 3 ? 8.0F : 32.0F));
  }
}

// A graph in a graph, and so on.
std::string nested(int depth) {
  MessageWriter inner = graph({});
  for (int i = 0; i < depth; ++i) {
    inner = graph({{node("If", {"c"}, {"y"}, {attribute("then_branch", inner)})}, {}, {}, {}});
  }
  return MessageWriter().number(1, 8).message(7, inner).bytes();
}

TEST(Onnx, RefusesGraphsThatStandTooDeepInEachOther) {
  EXPECT_NE(error_of(nested(1000)).find("16 deep"), std::string::npos);
}

class ExternalData : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "plimsoll_onnx_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    fs::create_directories(folder_ / "inner");
    write(folder_ / "inner" / "w.bin", std::string(64, '\0') + raw_of(std::vector<float>{5, 6}));
    write(folder_ / "outside.bin", raw_of(std::vector<float>{5, 6}));
  }
  void TearDown() override { fs::remove_all(folder_); }

  static void write(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  // Its status for w at this place.
  Result<std::unique_ptr<ir::Module>> load(const std::string& location, const std::string& offset,
                                           const std::string& length = "8") {
    MessageWriter tensor;
    tensor.number(1, 2).number(2, kFloat).text(8, "w").number(14, 1);
    tensor.message(13, MessageWriter().text(1, "location").text(2, location));
    tensor.message(13, MessageWriter().text(1, "offset").text(2, offset));
    tensor.message(13, MessageWriter().text(1, "length").text(2, length));
    GraphParts parts;
    parts.inputs = {value_info("x", kFloat, {"2"})};
    parts.initializers = {tensor};
    parts.nodes = {node("Add", {"x", "w"}, {"y"})};
    parts.outputs = {value_info("y", kFloat, {"2"})};
    model_ = model(parts);
    const fs::path path = folder_ / "inner" / "model.onnx";
    write(path, model_);
    return import::load_program(path.string());
  }
  std::string refusal(const std::string& location, const std::string& offset,
                      const std::string& length = "8") {
    const auto module = load(location, offset, length);
    return module.ok() ? "" : module.status().message();
  }

  fs::path folder_;
  std::string model_;
};

TEST_F(ExternalData, IsReadBelowTheModelsFolder) {
  const auto module = load("w.bin", "64");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const ir::Literal arguments[] = {floats({2}, {1, 2})};
  EXPECT_EQ(*ir::interpret(**module, arguments), floats({2}, {6, 8}));
}

TEST_F(ExternalData, IsRefusedElsewhere) {
  for (const std::string location :
       {"../outside.bin", "/etc/hostname", "a/../../outside.bin", ""}) {
    EXPECT_NE(refusal(location, "0").find("within the model's folder"), std::string::npos)
        << refusal(location, "0");
  }
  fs::create_symlink("../outside.bin", folder_ / "inner" / "link.bin");
  EXPECT_NE(refusal("link.bin", "0").find("leaves the model's folder"), std::string::npos)
      << refusal("link.bin", "0");
  EXPECT_NE(refusal("nowhere.bin", "0").find("cannot be opened"), std::string::npos);
  ASSERT_EQ(mkfifo((folder_ / "inner" / "fifo").c_str(), 0600), 0);
  EXPECT_NE(refusal("fifo", "0").find("is no regular file"), std::string::npos);
}

TEST_F(ExternalData, HasToLieWithinItsFile) {
  EXPECT_NE(refusal("w.bin", "68").find("which has 72 bytes"), std::string::npos);
  EXPECT_NE(refusal("w.bin", "18446744073709551615").find("72 bytes"), std::string::npos);
  EXPECT_NE(refusal("w.bin", "64", "4").find("length 4"), std::string::npos);
  EXPECT_NE(refusal("w.bin", "six").find("makes no sense"), std::string::npos);
  // Bytes in memory have no folder.
  EXPECT_NE(error_of(model_).find("load the model by its path"), std::string::npos);
}

TEST_F(ExternalData, StaysInTheMappedFile) {
  const auto module = load("w.bin", "64");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const void* before = nullptr;
  for (const auto& instruction : (*module)->entry()->instructions()) {
    if (instruction->opcode() == ir::Opcode::constant) {
      before = instruction->attributes().literal->bytes().data();
    }
  }
  const auto copy = (*module)->clone();
  for (const auto& instruction : copy->entry()->instructions()) {
    if (instruction->opcode() == ir::Opcode::constant) {
      EXPECT_EQ(instruction->attributes().literal->bytes().data(), before);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(before) % 4096, 64U);
    }
  }
  EXPECT_NE(before, nullptr);
}

// The table of docs/onnx.md has a row `| Name | ...` for each operator, and no other.
TEST(Onnx, ThePageListsTheOperatorsThatAreRead) {
  const auto page = read_file(PLIMSOLL_SOURCE_DIR "/docs/onnx.md");
  ASSERT_TRUE(page.ok()) << page.status().to_string();
  std::set<std::string> listed;
  std::istringstream lines(*page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    const std::size_t end = line.find('`', 3);
    listed.insert(line.substr(3, end - 3));
  }
  std::set<std::string> wanted;
  for (const auto& [name, op] : onnx::operators()) wanted.insert(name);
  for (const auto& [name, reason] : onnx::refused_operators()) {
    wanted.insert(name);
    EXPECT_NE(page->find("| `" + name + "` | no: " + reason), std::string::npos) << name;
  }
  EXPECT_EQ(listed, wanted);
  EXPECT_GE(onnx::operators().size(), 150U);
}

TEST(Onnx, GivesInputsNamesThatTextCanHave) {
  EXPECT_EQ(onnx::parameter_name("x.1"), "x.1");
  EXPECT_EQ(onnx::parameter_name("/layer/Add:0"), "_layer_Add_0");
  EXPECT_EQ(onnx::parameter_name("0"), "_0");
}

}  // namespace
}  // namespace plimsoll::testing
