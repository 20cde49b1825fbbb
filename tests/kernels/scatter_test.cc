// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <concepts>
#include <random>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/kernels/kernel_harness.h"

namespace plimsoll::kernels {
namespace {

using Numbers = std::vector<std::int64_t>;

// What a scatter's combiner does with `a` and `b`. `mixed` has no loop of its own, and depends on
// the order of updates.
std::string combiner_text(const std::string& name, const std::string& dtype) {
  const std::string type = dtype + "[] ";
  std::string text = "f { a = " + type + "parameter(0) ";
  if (name == "second") return text + "ROOT b = " + type + "parameter(1) }\n";
  text += "b = " + type + "parameter(1) ";
  if (name != "mixed") return text + "ROOT r = " + type + name + "(a, b) }\n";
  return text + "t = " + type + "add(a, b) ROOT r = " + type + "multiply(t, b) }\n";
}

std::string in_braces(const Numbers& values) {
  std::string text;
  for (const std::int64_t v : values) text += (text.empty() ? "" : ",") + std::to_string(v);
  return "{" + text + "}";
}

std::string array_text(const std::string& dtype, const Numbers& dims) {
  std::string text = in_braces(dims);
  return dtype + "[" + text.substr(1, text.size() - 2) + "]";
}

struct ScatterCase {
  std::string operand, indices, updates, dimensions;
  std::string combiner, dtype;
  double low, high;  // of the indices
  bool specials = false;
  double largest = 2;  // of the values
};

std::string scatter_text(const ScatterCase& c) {
  return "HloModule m\n" + combiner_text(c.combiner, c.dtype) + "ENTRY e {\n  x = " + c.operand +
         " parameter(0)\n  i = " + c.indices + " parameter(1)\n  u = " + c.updates +
         " parameter(2)\n  ROOT r = " + c.operand + " scatter(x, i, u), " + c.dimensions +
         ", to_apply=f\n}\n";
}

// The kernel's bits are the interpreter's, for every number of workers.
void check_scatter(const ScatterCase& c) {
  const std::string text = scatter_text(c);
  SCOPED_TRACE(text);
  auto module = ir::parse_module(text);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const cases::InputRange values{-c.largest, c.largest, c.specials};
  const auto arguments = cases::random_arguments(**module, 7, {values, {c.low, c.high}, values});
  const ir::Instruction& root = *(*module)->entry()->root();
  auto expected = ir::interpret(root, arguments);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  const int before = device::thread_count();
  for (const int threads : {1, 2, 5}) {
    device::set_thread_count(threads);
    auto got = run_instruction(root, arguments);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    EXPECT_EQ(cases::compare_bits(*expected, *got), "") << threads << " threads";
  }
  device::set_thread_count(before);
}

// Whatever dimension numbers pass: any rank, order and place of the index vector, batching dims,
// windows that overlap, and indices outside on either side.
class RandomScatter {
 public:
  explicit RandomScatter(unsigned seed) : random_(seed) {}

  ScatterCase make() {
    Numbers operand, inserted, batching, indices_batching, indexed, windows;
    Numbers batch;
    for (std::int64_t d = 0, rank = draw(1, 4); d < rank; ++d) {
      operand.push_back(draw(1, 7));
      const std::int64_t kind = draw(0, 5);
      if (kind == 0 && batching.empty()) {
        batching.push_back(d);
      } else {
        if (kind < 4) indexed.push_back(d);
        if (kind < 3) {
          inserted.push_back(d);
        } else {
          windows.push_back(draw(1, operand.back()));
        }
      }
    }
    std::shuffle(indexed.begin(), indexed.end(), random_);
    for (std::int64_t d = 0, rank = draw(0, 3); d < rank; ++d) batch.push_back(draw(1, 4));
    if (!batch.empty() && draw(0, 2) == 0) batch[at(draw(0, batch.size() - 1))] = draw(250, 600);
    std::int64_t batch_dim = -1;
    if (!batching.empty()) {
      batch_dim = draw(0, batch.size());
      batch.insert(batch.begin() + batch_dim, operand[at(batching[0])]);
    }
    Numbers indices = batch;
    std::int64_t vector_dim = draw(0, batch.size());
    if (indexed.size() == 1 && draw(0, 1) == 0) {
      vector_dim = static_cast<std::int64_t>(batch.size());
    } else {
      indices.insert(indices.begin() + vector_dim, static_cast<std::int64_t>(indexed.size()));
    }
    if (batch_dim >= 0) indices_batching.push_back(batch_dim + (vector_dim <= batch_dim ? 1 : 0));
    // A window dim goes anywhere among the updates'.
    std::vector<bool> is_window(batch.size() + windows.size());
    std::fill_n(is_window.begin(), windows.size(), true);
    std::shuffle(is_window.begin(), is_window.end(), random_);
    if (draw(0, 2) == 0) std::sort(is_window.begin(), is_window.end());
    Numbers updates, window_dims;
    std::size_t next_batch = 0, next_window = 0;
    for (std::size_t d = 0; d < is_window.size(); ++d) {
      if (is_window[d]) window_dims.push_back(static_cast<std::int64_t>(d));
      updates.push_back(is_window[d] ? windows[next_window++] : batch[next_batch++]);
    }

    ScatterCase c;
    c.dtype = pick({"f32", "bf16", "f16", "f64", "s32", "u8", "s64", "pred"});
    const bool floats = c.dtype[0] == 'f' || c.dtype[0] == 'b';
    const std::vector<std::string> of_pred = {"maximum", "minimum", "and", "or", "second"};
    const std::vector<std::string> of_floats = {"add",     "multiply", "maximum",
                                                "minimum", "second",   "mixed"};
    const std::vector<std::string> of_integers = {"add", "multiply", "maximum", "minimum",
                                                  "and", "second",   "or",      "mixed"};
    c.combiner = pick(c.dtype == "pred" ? of_pred : floats ? of_floats : of_integers);
    c.specials = floats && draw(0, 1) == 0;
    c.operand = array_text(c.dtype, operand);
    c.indices = array_text(pick({"s32", "s32", "s64", "u8", "s8", "u32", "u64", "s16"}), indices);
    c.updates = array_text(c.dtype, updates);
    c.low = -1;
    c.high = static_cast<double>(draw(2, 8));
    c.dimensions =
        "update_window_dims=" + in_braces(window_dims) +
        ", inserted_window_dims=" + in_braces(inserted) +
        ", scatter_dims_to_operand_dims=" + in_braces(indexed) +
        (batching.empty() ? ""
                          : ", input_batching_dims=" + in_braces(batching) +
                                ", scatter_indices_batching_dims=" + in_braces(indices_batching)) +
        ", index_vector_dim=" + std::to_string(vector_dim);
    return c;
  }

 private:
  std::int64_t draw(std::int64_t low, std::integral auto high) {
    return std::uniform_int_distribution<std::int64_t>(low,
                                                       static_cast<std::int64_t>(high))(random_);
  }
  std::string pick(const std::vector<std::string>& from) {
    return from[at(draw(0, from.size() - 1))];
  }

  std::mt19937 random_;
};

TEST(Scatter, RandomDimensionNumbersMatchTheInterpreter) {
  for (unsigned seed = 0; seed < 400 && !HasFailure(); ++seed)
    check_scatter(RandomScatter(seed).make());
}

const char* const kElementUpdates =
    "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1";
const char* const kRowUpdates =
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1";
const char* const kColumnUpdates =
    "update_window_dims={0}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
    "index_vector_dim=1";

TEST(Scatter, EveryCombinerAddsManyElementsInTheirOrder) {
  for (const std::string dtype : {"f32", "f64", "bf16", "s32", "u8", "pred"}) {
    for (const std::string combiner :
         {"add", "multiply", "maximum", "minimum", "and", "or", "second", "mixed"}) {
      const bool floats = dtype[0] == 'f' || dtype[0] == 'b';
      const bool bitwise = combiner == "and" || combiner == "or";
      if (bitwise ? floats
                  : dtype == "pred" && combiner != "maximum" && combiner != "minimum" &&
                        combiner != "second")
        continue;
      check_scatter({dtype + "[97]", "s32[40000]", dtype + "[40000]", kElementUpdates, combiner,
                     dtype, -3, 104, floats && combiner != "multiply" && combiner != "mixed"});
    }
  }
}

// Maxima and minima that nothing but the signs of zeros decides.
TEST(Scatter, ZerosAreOrdered) {
  for (const std::string dtype : {"f32", "f64", "bf16"}) {
    for (const std::string combiner : {"maximum", "minimum"}) {
      check_scatter({dtype + "[9000]", "s32[9000]", dtype + "[9000]", kElementUpdates, combiner,
                     dtype, 0, 8999, true, 0});
    }
  }
}

TEST(Scatter, NarrowIndicesReachPartOfALargerOperand) {
  for (const std::string indices : {"s8", "u8", "s16"}) {
    check_scatter(
        {"f32[70000]", indices + "[900]", "f32[900]", kElementUpdates, "add", "f32", -100, 200});
  }
}

// As the interpreter has it, the batch position comes before an index of the same dim.
TEST(Scatter, ABatchingDimIsNotIndexed) {
  check_scatter({"f32[5,9]", "s32[5,6,2]", "f32[5,6]",
                 "update_window_dims={}, inserted_window_dims={1}, "
                 "scatter_dims_to_operand_dims={0,1}, input_batching_dims={0}, "
                 "scatter_indices_batching_dims={0}, index_vector_dim=2",
                 "add", "f32", -2, 9});
}

// Updates enough for several tasks: many to one element, and across the bounds of their shares.
TEST(Scatter, TasksOwnSharesOfTheOperand) {
  check_scatter(
      {"f32[1100000]", "s32[50000]", "f32[50000]", kElementUpdates, "add", "f32", 549000, 551000});
  check_scatter({"f32[1100000]", "s64[50000,1]", "f32[50000]", kElementUpdates, "second", "f32",
                 -9e4, 1.2e6});
  check_scatter({"bf16[1600,1400]", "s32[40000,2]", "bf16[40000]",
                 "update_window_dims={}, inserted_window_dims={0,1}, "
                 "scatter_dims_to_operand_dims={1,0}, index_vector_dim=1",
                 "add", "bf16", 790, 810});
  check_scatter(
      {"f32[30,40000]", "s32[30,1200]", "f32[30,1200]",
       "update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
       "input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2",
       "add", "f32", -10, 100});
  check_scatter({"f32[50,64]", "s32[1500]", "f32[1500,64]", kRowUpdates, "add", "f32", -3, 53});
  check_scatter({"f32[50,33]", "u8[1500]", "f32[1500,33]", kRowUpdates, "mixed", "f32", 0, 53});
  // Windows that overlap.
  check_scatter({"f32[900]", "s32[2000]", "f32[2000,64]",
                 "update_window_dims={1}, inserted_window_dims={}, "
                 "scatter_dims_to_operand_dims={0}, index_vector_dim=1",
                 "add", "f32", -3, 840});
  check_scatter({"f32[64,90]", "s32[1200]", "f32[64,1200]", kColumnUpdates, "add", "f32", -3, 93});
  check_scatter({"s32[70,90]", "s32[600]", "s32[70,600]", kColumnUpdates, "second", "s32", -3, 93});
}

}  // namespace
}  // namespace plimsoll::kernels
