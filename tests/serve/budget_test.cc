// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "tests/serve/test_server.h"

namespace plimsoll::testing {
namespace {

constexpr int kSide = 64;
constexpr const char* kSquare = "[64,64]";

std::string square_bytes(int seed) {
  std::vector<float> values(std::size_t{kSide} * kSide);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i + 1) * static_cast<float>(seed + 1));
  }
  return bytes_of(values);
}

BinaryBody layers_request(int seed) {
  return binary_request(
      {{"x0", "FP32", kSquare, square_bytes(seed)}, {"w", "FP32", kSquare, square_bytes(99)}});
}

std::int64_t peak_of(TestServer& server, const std::string& model) {
  return server.service().repository().find(model)->program().peak_bytes();
}

TEST(ServeBudget, ARequestOverTheBudgetIsRefusedAndTheNextSmallOneServed) {
  ModelFolder folder;
  folder.add("layers", layers_hlo(kSide, 6));
  folder.add("add", kAddHlo, kAddConfig);
  TestServer server(folder);
  const auto client = server.client();
  const std::int64_t peak = peak_of(server, "layers");
  ASSERT_EQ(infer(*client, "layers", layers_request(1))->status, 200);
  plm_status_free(plm_context_set_limit(server.context(), peak_of(server, "add") + 1024));
  plm_context_reset_peak(server.context());
  const auto refused = infer(*client, "layers", layers_request(1));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(refused->get_header_value("Retry-After"), "1");
  EXPECT_NE(error_of(*refused).find("RESOURCE_EXHAUSTED"), std::string::npos) << refused->body;
  EXPECT_EQ(infer(*client, "add", add_request())->status, 200);
  EXPECT_LE(server.memory().peak_bytes, peak_of(server, "add") + 1024);
  plm_status_free(plm_context_set_limit(server.context(), peak));
  EXPECT_EQ(infer(*client, "layers", layers_request(1))->status, 200);
}

TEST(ServeBudget, WhatWaitsTooLongIsRefused) {
  ModelFolder folder;
  // Goes on until its time is over.
  folder.add("endless",
             "HloModule endless\n"
             "body {\n  s = (s64[], f32[64,64]) parameter(0)\n  i = s64[] get-tuple-element(s), "
             "index=0\n  x = f32[64,64] get-tuple-element(s), index=1\n  one = s64[] constant(1)\n"
             "  j = s64[] add(i, one)\n  y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, "
             "rhs_contracting_dims={0}\n  t = f32[64,64] tanh(y)\n"
             "  ROOT r = (s64[], f32[64,64]) tuple(j, t)\n}\n"
             "condition {\n  s = (s64[], f32[64,64]) parameter(0)\n  i = s64[] "
             "get-tuple-element(s), index=0\n  n = s64[] constant(1000000000000000)\n"
             "  ROOT p = pred[] compare(i, n), direction=LT\n}\n"
             "ENTRY main {\n  x = f32[64,64] parameter(0)\n  zero = s64[] constant(0)\n"
             "  s = (s64[], f32[64,64]) tuple(zero, x)\n  l = (s64[], f32[64,64]) while(s), "
             "condition=condition, body=body\n  ROOT y = f32[64,64] get-tuple-element(l), "
             "index=1\n}\n",
             R"({"timeout_milliseconds": 300, "queue": 1})");
  folder.add("add", kAddHlo, kAddConfig);
  TestServer server(folder);
  const BinaryBody body = binary_request({{"x", "FP32", kSquare, square_bytes(1)}});
  std::atomic<int> over{0}, full{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto result = infer(*server.client(), "endless", body);
      ASSERT_TRUE(result);
      EXPECT_EQ(result->status, 503);
      ++(error_of(*result).find("DEADLINE_EXCEEDED") == std::string::npos ? full : over);
    });
  }
  for (std::thread& thread : threads) thread.join();
  // At least one ran; the others came while it did, or after it.
  EXPECT_GE(over, 1);
  EXPECT_EQ(over + full, 4);
  EXPECT_EQ(infer(*server.client(), "add", add_request())->status, 200);
}

// The short form of scripts/serve_tests.sh --soak.
TEST(ServeBudget, ManyClientsGetResultsOrAreAskedToComeBackAndNothingElse) {
  constexpr int kClients = 60, kRequests = 25;
  ModelFolder folder;
  folder.add("layers", layers_hlo(kSide, 6), R"({"queue": 40})");
  folder.add("add", kAddHlo, kAddConfig, 1);
  TestServer server(folder);
  std::vector<std::string> expected;
  for (int seed = 0; seed < 4; ++seed) {
    const auto result = infer(*server.client(), "layers", layers_request(seed));
    ASSERT_TRUE(result);
    ASSERT_EQ(result->status, 200) << result->body;
    expected.push_back(binary_outputs(*result)[0].bytes);
  }
  // Three at a time fit.
  const std::int64_t limit = 3 * peak_of(server, "layers");
  plm_status_free(plm_context_set_limit(server.context(), limit));
  plm_context_reset_peak(server.context());
  std::atomic<int> right{0}, busy{0}, other{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      const auto client = server.client();
      for (int k = 0; k < kRequests; ++k) {
        const int seed = (i + k) % 4;
        const auto result = infer(*client, "layers", layers_request(seed));
        if (result && result->status == 200 &&
            binary_outputs(*result)[0].bytes == expected[static_cast<std::size_t>(seed)]) {
          ++right;
        } else if (result && result->status == 503 && result->has_header("Retry-After")) {
          ++busy;
        } else {
          ++other;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(other, 0);
  EXPECT_EQ(right + busy, kClients * kRequests);
  EXPECT_GT(right, 0);
  const plm_memory_statistics memory = server.memory();
  EXPECT_LE(memory.peak_bytes, limit);
  EXPECT_EQ(memory.used_bytes, 0);
  EXPECT_EQ(memory.waiting_runs, 0);
}

TEST(ServeBudget, AResponseIsCountedAsWhatItBecomes) {
  ModelFolder folder;
  folder.add("wide",
             "HloModule wide\nENTRY main {\n  x = f32[65536] parameter(0)\n"
             "  ROOT y = f32[65536] negate(x)\n}\n");
  TestServerOptions options;
  // For the request, the result and the response as bytes; as text it may be four times as long.
  options.host_bytes = std::size_t{1} << 20;
  TestServer server(folder, options);
  const auto client = server.client();
  const BinaryBody binary = binary_request({{"x", "FP32", "[65536]", std::string(262144, '\1')}});
  const auto bytes = infer(*client, "wide", binary);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->status, 200) << bytes->body;
  BinaryBody text = binary;
  const std::string wish = "\"binary_data_output\":true";
  text.body.replace(text.body.find(wish), wish.size(), "\"binary_data_output\":false");
  ++text.json_bytes;
  const auto refused = infer(*client, "wide", text);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 503) << refused->body.substr(0, 100);
  EXPECT_NE(error_of(*refused).find("host memory for the response"), std::string::npos);
  server.expect_no_buffers();
}

TEST(ServeBudget, ALimitThatNoPlanFitsIsSaidWhenTheModelIsLoaded) {
  ModelFolder folder;
  folder.add("layers", layers_hlo(kSide, 6), R"({"memory_limit": "1KiB"})");
  TestServer server(folder);
  const auto result = server.client()->Post("/v2/repository/models/layers/load", "", "");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 400);
  EXPECT_NE(error_of(*result).find("limit"), std::string::npos) << result->body;
  folder.add("layers", layers_hlo(kSide, 6), R"({"memory_limit": "a little"})");
  EXPECT_EQ(server.client()->Post("/v2/repository/models/layers/load", "", "")->status, 400);
}

}  // namespace
}  // namespace plimsoll::testing
