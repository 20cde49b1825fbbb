// SPDX-License-Identifier: Apache-2.0
// What no model may do, however it is damaged or wherever it comes from: crash, or be taken for
// what it is not.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "runtime/import/onnx/onnx.h"
#include "runtime/import/onnx/ops/node_context.h"
#include "tests/import/onnx/one_node.h"
#include "tests/import/onnx/small_models.h"
#include "tests/import/onnx/standard_case.h"
#include "tests/import/stored_files.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using import::ProgramOptions;

std::vector<std::string> small_models() {
  std::vector<std::string> models = {open_sum(), asks_for_shape(), branches(), doubling(3),
                                     doubling(100)};
  // Some of the standard's, where they are installed.
  const auto cases = standard_cases();
  for (std::size_t i = 0; i < cases.size(); i += 40) {
    models.push_back(import::bytes_of(fs::path(cases[i].folder) / "model.onnx"));
  }
  return models;
}

void expect_error_or_module(const std::string& bytes) {
  ProgramOptions options;
  const auto module = onnx::read_module(bytes, "m", options);
  if (module.ok()) return;
  EXPECT_TRUE(module.status().message().starts_with("m: ")) << module.status().message();
  EXPECT_NE(module.status().code(), StatusCode::internal) << module.status().message();
}

// A node of this operator, with inputs of all ranks, sizes and dtypes and with attributes that many
// operators have: hardly any is one that the operator takes.
std::string random_node(const std::string& name, std::mt19937_64& random) {
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<std::uint64_t>(end));
  };
  const std::size_t colon = name.find(':');
  OneNode made(colon == std::string::npos ? name : name.substr(colon + 1),
               colon == std::string::npos ? "" : name.substr(0, colon), 21);
  constexpr ir::DType kDtypes[] = {ir::DType::f32, ir::DType::u8, ir::DType::s8, ir::DType::s32,
                                   ir::DType::s64};
  const int count = 1 + below(12);
  const int rank = below(6);  // of most
  for (int i = 0; i < count; ++i) {
    if (i > 0 && below(5) == 0) {
      made.no_input();
      continue;
    }
    ir::Dims dims;
    for (int d = below(3) == 0 ? below(6) : rank; d > 0; --d) dims.push_back(below(4));
    const ir::Literal value(ir::Shape(kDtypes[below(2) == 0 ? 0 : below(5)], dims));
    below(3) == 0 ? made.constant(value) : made.input(value);
  }
  for (const char* attribute_name :
       {"num_heads", "kv_num_heads", "group", "axis", "block_size", "hidden_size", "do_rotary",
        "unidirectional", "bits", "K", "N"}) {
    if (below(3) != 0) made.with(attribute(attribute_name, below(5) - 1));
  }
  return made.bytes(ir::DType::f32, static_cast<std::size_t>(below(3)));
}

TEST(OnnxFuzz, ModelsCutOffAnywhereAreErrorsOrModels) {
  for (const std::string& bytes : {open_sum(), branches(), doubling(3)}) {
    int refused = 0;
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      refused += onnx::read_module(bytes.substr(0, size), "m").ok() ? 0 : 1;
      expect_error_or_module(bytes.substr(0, size));
    }
    EXPECT_GT(refused, static_cast<int>(bytes.size() / 2));
  }
}

TEST(OnnxFuzz, DamagedModelsAreErrorsOrModels) {
  std::mt19937_64 random(22);
  for (const std::string& bytes : small_models()) {
    for (int i = 0; i < import::mutants_of_each(); ++i) {
      expect_error_or_module(import::mutant(bytes, random));
    }
  }
}

TEST(OnnxFuzz, NodesThatTheirOperatorsDoNotTakeAreErrorsOrModels) {
  std::mt19937_64 random(23);
  for (const auto& [name, op] : onnx::operators()) {
    for (int i = 0; i < import::mutants_of_each(); ++i) {
      const std::string bytes = random_node(name, random);
      expect_error_or_module(bytes);
      if (HasFailure()) FAIL() << name << ", turn " << i;
    }
  }
}

}  // namespace
}  // namespace plimsoll::testing
