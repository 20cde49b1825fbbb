// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "examples/serve/model_config.h"
#include "tests/serve/test_server.h"

namespace plimsoll::testing {
namespace {

constexpr int kRows = 8, kWidth = 64;

std::string numbers(std::size_t count, int seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::cos(static_cast<float>(i) * 0.37F + static_cast<float>(seed));
  }
  return bytes_of(values);
}

std::string weights() { return numbers(std::size_t{kWidth} * 32, 1000); }

BinaryBody rows_request(const std::string& rows, const std::string& w = weights()) {
  const std::size_t count = rows.size() / (kWidth * sizeof(float));
  return binary_request(
      {{"x", "FP32", "[" + std::to_string(count) + ",64]", rows}, {"w", "FP32", "[64,32]", w}});
}

std::string load_error(const std::string& hlo, const std::string& config) {
  ModelFolder folder;
  folder.add("m", hlo, config);
  TestServer server(folder);
  const auto result = server.client()->Post("/v2/repository/models/m/load", "", "");
  EXPECT_TRUE(result);
  if (result->status == 200) return "";
  EXPECT_EQ(result->status, 400);
  return error_of(*result);
}

TEST(ServeBatches, ARequestHasTheSameBitsAloneAndInAnyCompany) {
  ModelFolder folder;
  folder.add("alone", rows_hlo(kRows),
             R"({"batching": {"rows": 8, "whole": ["w"], "window_microseconds": 0}})");
  folder.add("shared", rows_hlo(kRows),
             R"({"batching": {"rows": 8, "whole": ["w"], "window_microseconds": 20000}})");
  TestServer server(folder);
  const std::size_t row = kWidth * sizeof(float);
  const auto answer = [&](const std::string& model, const BinaryBody& body) {
    const auto result = infer(*server.client(), model, body);
    EXPECT_TRUE(result);
    EXPECT_EQ(result->status, 200) << result->body;
    return result->status == 200 ? binary_outputs(*result)[0].bytes : std::string();
  };
  constexpr int kThreads = 12, kRounds = 6;
  std::vector<std::vector<std::string>> inputs(kThreads), expected(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    for (int k = 0; k < kRounds; ++k) {
      inputs[static_cast<std::size_t>(t)].push_back(
          numbers(static_cast<std::size_t>((t + k) % 3 + 1) * kWidth, t * 100 + k));
      expected[static_cast<std::size_t>(t)].push_back(
          answer("alone", rows_request(inputs[static_cast<std::size_t>(t)].back())));
    }
  }
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t k = 0; k < kRounds; ++k) {
        EXPECT_EQ(answer("shared", rows_request(inputs[t][k])), expected[t][k]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto counts = server.service().repository().find("shared")->statistics().read();
  EXPECT_EQ(counts.succeeded, kThreads * kRounds);
  EXPECT_LT(counts.runs, counts.succeeded);
  // Rows of one request are those of as many requests.
  const std::string all = numbers(std::size_t{kRows} * kWidth, 5);
  std::string one_by_one;
  for (std::size_t i = 0; i < kRows; ++i) {
    one_by_one += answer("alone", rows_request(all.substr(i * row, row)));
  }
  EXPECT_EQ(answer("alone", rows_request(all)), one_by_one);
}

TEST(ServeBatches, RequestsWithOtherWholeInputsDoNotShareARun) {
  ModelFolder folder;
  folder.add("m", rows_hlo(kRows),
             R"({"batching": {"rows": 8, "whole": ["w"], "window_microseconds": 20000}})");
  TestServer server(folder);
  const std::string x = numbers(kWidth, 1);
  const std::string w[] = {weights(), numbers(std::size_t{kWidth} * 32, 7)};
  std::string expected[2];
  for (int i = 0; i < 2; ++i) {
    expected[i] = binary_outputs(*infer(*server.client(), "m", rows_request(x, w[i])))[0].bytes;
  }
  ASSERT_NE(expected[0], expected[1]);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const auto result = infer(*server.client(), "m", rows_request(x, w[t % 2]));
      ASSERT_TRUE(result);
      ASSERT_EQ(result->status, 200);
      EXPECT_EQ(binary_outputs(*result)[0].bytes, expected[t % 2]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ServeBatches, TheNumberOfRowsIsTheClientsChoiceWithinThePrograms) {
  ModelFolder folder;
  folder.add("m", rows_hlo(kRows), R"({"batching": {"rows": 8, "whole": ["w"]}})");
  TestServer server(folder);
  const auto client = server.client();
  const auto about = nlohmann::json::parse(client->Get("/v2/models/m")->body);
  EXPECT_EQ(about["inputs"][0]["shape"], nlohmann::json({-1, 64}));
  EXPECT_EQ(about["inputs"][1]["shape"], nlohmann::json({64, 32}));
  EXPECT_EQ(about["outputs"][0]["shape"], nlohmann::json({-1, 32}));
  const auto three = infer(*client, "m", rows_request(numbers(std::size_t{3} * kWidth, 1)));
  EXPECT_EQ(binary_outputs(*three)[0].shape, "[3,32]");
  for (const std::size_t rows : {std::size_t{0}, std::size_t{9}}) {
    const auto refused = infer(*client, "m", rows_request(numbers(rows * kWidth, 1)));
    EXPECT_EQ(refused->status, 400);
    EXPECT_NE(error_of(*refused).find("1 to 8"), std::string::npos) << refused->body;
  }
}

TEST(ServeBatches, AProgramWhoseRowsDependOnEachOtherIsNotBatched) {
  const std::string mean =
      "HloModule m\nsum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, "
      "b) "
      "}\nENTRY main {\n  x = f32[8,4] parameter(0)\n  z = f32[] constant(0)\n"
      "  s = f32[4] reduce(x, z), dimensions={0}, to_apply=sum\n"
      "  b = f32[8,4] broadcast(s), dimensions={1}\n  ROOT y = f32[8,4] subtract(x, b)\n}\n";
  EXPECT_NE(load_error(mean, R"({"batching": {"rows": 8}})").find("depends on"), std::string::npos);
  EXPECT_EQ(load_error(mean, R"({"batching": {"rows": 8, "check_rows": false}})"), "");
  EXPECT_EQ(load_error(mean, ""), "");
  // On its place alone.
  const std::string place =
      "HloModule m\nENTRY main {\n  x = f32[8,4] parameter(0)\n"
      "  i = f32[8,4] iota(), iota_dimension=0\n  ROOT y = f32[8,4] add(x, i)\n}\n";
  EXPECT_NE(load_error(place, R"({"batching": {"rows": 8}})").find("row 1"), std::string::npos);
}

TEST(ServeBatches, AConfigThatTheProgramContradictsIsAnError) {
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains(load_error(rows_hlo(8), R"({"batching": {"rows": 8}})"), "input w is [64,32]");
  contains(load_error(rows_hlo(8), R"({"batching": {"rows": 4, "whole": ["w"]}})"), "input x is");
  contains(load_error(rows_hlo(8), R"({"batching": {"rows": 8, "whole": ["w", "v"]}})"),
           "no input v");
  contains(load_error(rows_hlo(8), R"({"inputs": ["x"]})"), "1 names for the 2 inputs");
  contains(load_error(rows_hlo(8), R"({"inputs": ["x", "x"]})"), "two inputs");
  contains(load_error("HloModule m\nENTRY main {\n  x = c64[2] parameter(0)\n  ROOT y = c64[2] "
                      "negate(x)\n}\n",
                      ""),
           "c64");
}

TEST(ServeWeights, AreParametersThatNoRequestSends) {
  ModelFolder folder;
  folder.add("sent", rows_hlo(kRows));
  folder.add("kept", rows_hlo(kRows), R"({"batching": {"rows": 8}, "outputs": ["y"]})");
  const std::string w = weights(), x = numbers(std::size_t{kRows} * kWidth, 3);
  const std::int64_t dims[] = {64, 32}, other[] = {32, 64};
  plm_array array = {"w", PLM_F32, 2, dims, w.size(), w.data()};
  const std::string path = (folder.path() / "kept" / "1" / "weights.safetensors").string();
  ASSERT_EQ(plm_write_arrays(path.c_str(), &array, 1, nullptr, nullptr, 0), nullptr);
  TestServer server(folder);
  const auto client = server.client();
  const auto about = nlohmann::json::parse(client->Get("/v2/models/kept")->body);
  ASSERT_EQ(about["inputs"].size(), 1u) << about;
  EXPECT_GE(server.memory().used_parameters, static_cast<std::int64_t>(w.size()));
  const auto sent = infer(
      *client, "sent", binary_request({{"x", "FP32", "[8,64]", x}, {"w", "FP32", "[64,32]", w}}));
  const auto kept = infer(*client, "kept", binary_request({{"x", "FP32", "[8,64]", x}}));
  ASSERT_EQ(sent->status, 200) << sent->body;
  ASSERT_EQ(kept->status, 200) << kept->body;
  EXPECT_EQ(binary_outputs(*kept)[0].bytes, binary_outputs(*sent)[0].bytes);
  // Files that are not the program's are errors, and what was loaded goes on.
  const auto refused = [&](const std::string& part) {
    const auto result = client->Post("/v2/repository/models/kept/load", "", "");
    EXPECT_EQ(result->status, 400);
    EXPECT_NE(error_of(*result).find(part), std::string::npos) << result->body;
    EXPECT_EQ(infer(*client, "kept", binary_request({{"x", "FP32", "[8,64]", x}}))->status, 200);
  };
  array.dims = other;
  ASSERT_EQ(plm_write_arrays(path.c_str(), &array, 1, nullptr, nullptr, 0), nullptr);
  refused("w is f32[32,64], the program's parameter f32[64,32]");
  array.name = "v";
  ASSERT_EQ(plm_write_arrays(path.c_str(), &array, 1, nullptr, nullptr, 0), nullptr);
  refused("no parameter of the program is named v");
  // The memory goes with the model.
  EXPECT_EQ(client->Post("/v2/repository/models/kept/unload", "", "")->status, 200);
  EXPECT_EQ(server.memory().used_parameters, 0);
}

// A field of a protocol buffer: text or a message; a number.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string field(int number, int value) {
  return {static_cast<char>(number << 3), static_cast<char>(value)};
}

// y = -x of FLOAT[batch,4] in ONNX.
std::string negate_onnx() {
  const std::string shape = field(1, field(2, "batch")) + field(1, field(1, 4));
  const std::string type = field(2, field(1, field(1, 1) + field(2, shape)));
  const std::string node = field(1, "x") + field(2, "y") + field(4, "Neg");
  return field(1, 8) +
         field(7, field(1, node) + field(2, "g") + field(11, field(1, "x") + type) +
                      field(12, field(1, "y") + type)) +
         field(8, field(2, 17));
}

TEST(ServeOnnx, SizesThatTheModelLeavesOpenAreTheConfigs) {
  ModelFolder folder;
  std::filesystem::create_directories(folder.path() / "m" / "1");
  std::ofstream(folder.path() / "m" / "1" / "model.onnx", std::ios::binary) << negate_onnx();
  TestServer server(folder);
  const auto client = server.client();
  const auto load = [&] { return client->Post("/v2/repository/models/m/load", "", ""); };
  EXPECT_EQ(load()->status, 400);
  EXPECT_NE(error_of(*load()).find("x"), std::string::npos) << load()->body;
  std::ofstream(folder.path() / "m" / "config.json")
      << R"({"shapes": {"x": [8, 4]}, "batching": {"rows": 8}})";
  ASSERT_EQ(load()->status, 200) << load()->body;
  const auto result =
      infer(*client, "m", binary_request({{"x", "FP32", "[1,4]", bytes_of({1, -2, 3, 0.5F})}}));
  ASSERT_EQ(result->status, 200) << result->body;
  EXPECT_EQ(floats_of(binary_outputs(*result)[0].bytes), (std::vector<float>{-1, 2, -3, -0.5F}));
}

TEST(ServeConfig, KeysThatAreNotKnownAreErrors) {
  const auto error = [](const std::string& text) -> std::string {
    try {
      serve::parse_model_config(text);
    } catch (const std::runtime_error& caught) {
      return caught.what();
    }
    return "";
  };
  EXPECT_EQ(error("{}"), "");
  EXPECT_NE(error(R"({"que": 3})").find("'que' (memory_limit, queue"), std::string::npos);
  EXPECT_NE(error(R"({"batching": {}})").find("'rows'"), std::string::npos);
  EXPECT_NE(error(R"({"batching": {"rows": 8, "window": 3}})").find("'window'"), std::string::npos);
  for (const char* text :
       {"", "[]", "{", R"({"queue": 0})", R"({"queue": "3"})", R"({"queue": 1e3})",
        R"({"versions": [-1]})", R"({"inputs": [1]})", R"({"memory_limit": 3})",
        R"({"shapes": [1]})", R"({"shapes": {"x": 3}})", R"({"batching": 8})",
        R"({"batching": {"rows": 8, "check_rows": 1}})"}) {
    EXPECT_NE(error(text), "") << text;
  }
}

}  // namespace
}  // namespace plimsoll::testing
