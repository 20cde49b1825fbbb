// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "examples/serve/content_encoding.h"
#include "tests/serve/test_server.h"

namespace plimsoll::testing {
namespace {

class ServeHttp : public ::testing::Test {
 protected:
  static constexpr std::size_t kMostBody = 1 << 20;

  static void SetUpTestSuite() {
    folder_ = new ModelFolder;
    folder_->add("add", kAddHlo, kAddConfig);
    folder_->add("wide",
                 "HloModule wide\nENTRY main {\n  x = f32[65536] parameter(0)\n"
                 "  ROOT y = f32[65536] negate(x)\n}\n");
    TestServerOptions options;
    options.http.most_body_bytes = kMostBody;
    options.http.body_milliseconds = 5000;
    options.host_bytes = std::size_t{8} << 20;
    server_ = new TestServer(*folder_, options);
  }
  static void TearDownTestSuite() {
    server_->expect_no_buffers();
    delete server_;
    delete folder_;
  }
  // Whatever happened before, the next client is served.
  void TearDown() override {
    const auto live = server_->client()->Get("/v2/health/live");
    ASSERT_TRUE(live);
    EXPECT_EQ(live->status, 200);
  }

  static std::string post(const std::string& headers, const std::string& body) {
    return "POST /v2/models/add/infer HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + body;
  }
  // The status of the first response, 0 where there was none.
  static int status_of(const std::string& answer) {
    return answer.rfind("HTTP/1.1 ", 0) == 0 ? std::stoi(answer.substr(9, 3)) : 0;
  }
  static int count_responses(const std::string& answer) {
    int count = 0;
    for (std::size_t at = answer.find("HTTP/1.1 "); at != std::string::npos;
         at = answer.find("HTTP/1.1 ", at + 1)) {
      ++count;
    }
    return count;
  }

  static inline ModelFolder* folder_ = nullptr;
  static inline TestServer* server_ = nullptr;
};

std::string zeros_request() {
  const std::string zeros = "[0,0,0,0,0,0]";
  return R"({"inputs":[{"name":"a","shape":[2,3],"datatype":"FP32","data":)" + zeros +
         R"(},{"name":"b","shape":[2,3],"datatype":"FP32","data":)" + zeros + "}]}";
}

TEST_F(ServeHttp, BodiesMayBeCompressed) {
  const auto client = server_->client();
  const auto plain = infer(*client, "add", zeros_request());
  const auto packed = infer(*client, "add", serve::gzip(zeros_request()),
                            httplib::Headers{{"Content-Encoding", "gzip"}});
  ASSERT_TRUE(plain && packed);
  ASSERT_EQ(packed->status, 200) << packed->body;
  EXPECT_EQ(packed->body, plain->body);
  const auto cut = infer(*client, "add", serve::gzip(zeros_request()).substr(0, 40),
                         httplib::Headers{{"Content-Encoding", "gzip"}});
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->status, 400);
  const auto no_gzip =
      infer(*client, "add", zeros_request(), httplib::Headers{{"Content-Encoding", "gzip"}});
  ASSERT_TRUE(no_gzip);
  EXPECT_EQ(no_gzip->status, 400);
  const auto unknown =
      infer(*client, "add", zeros_request(), httplib::Headers{{"Content-Encoding", "zstd"}});
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->status, 415);
}

TEST_F(ServeHttp, ResponsesAreCompressedForThoseWhoAskForIt) {
  const std::string x(std::size_t{65536} * 4, '\0');
  const BinaryBody body = binary_request({{"x", "FP32", "[65536]", x}});
  const auto client = server_->client();
  client->set_decompress(false);
  const auto plain = infer(*client, "wide", body);
  const auto packed =
      infer(*client, "wide", body, httplib::Headers{{"Accept-Encoding", "br, gzip"}});
  const auto refused =
      infer(*client, "wide", body, httplib::Headers{{"Accept-Encoding", "gzip;q=0"}});
  ASSERT_TRUE(plain && packed && refused);
  EXPECT_EQ(packed->get_header_value("Content-Encoding"), "gzip");
  EXPECT_EQ(refused->get_header_value("Content-Encoding"), "");
  EXPECT_EQ(refused->body, plain->body);
  EXPECT_EQ(packed->body, serve::gzip(plain->body));
  EXPECT_LT(packed->body.size(), plain->body.size() / 10);
  client->set_decompress(true);
  const auto unpacked = infer(*client, "wide", body, httplib::Headers{{"Accept-Encoding", "gzip"}});
  ASSERT_TRUE(unpacked);
  EXPECT_EQ(unpacked->body, plain->body);
}

TEST_F(ServeHttp, ABombIsFoundOutBeforeItIsUnpacked) {
  const std::string bomb = serve::gzip(std::string(std::size_t{64} << 20, ' '));
  ASSERT_LT(bomb.size(), kMostBody);
  const auto result =
      infer(*server_->client(), "add", bomb, httplib::Headers{{"Content-Encoding", "gzip"}});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 413);
  server_->expect_no_buffers();
}

TEST_F(ServeHttp, BodiesHaveALimit) {
  const auto result = infer(*server_->client(), "add", std::string(kMostBody + 1, ' '));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 413);
  EXPECT_NE(error_of(*result).find("1048576"), std::string::npos) << result->body;
  // In chunks, whose sum nobody has said.
  std::string chunks;
  const std::string chunk = "10000\r\n" + std::string(0x10000, ' ') + "\r\n";
  for (int i = 0; i < 17; ++i) chunks += chunk;
  EXPECT_EQ(
      status_of(server_->exchange(post("Transfer-Encoding: chunked\r\n", chunks + "0\r\n\r\n"))),
      413);
  // No more is leased than there is, whoever asks.
  server_->expect_no_buffers();
  serve::HostBudget::Lease others(server_->service().host());
  ASSERT_TRUE(others.grow(server_->service().host().limit() - 1000));
  const auto busy = infer(*server_->client(), "add", std::string(2000, ' '));
  ASSERT_TRUE(busy);
  EXPECT_EQ(busy->status, 503);
  EXPECT_NE(busy->get_header_value("Retry-After"), "");
}

TEST_F(ServeHttp, HeadersHaveALimit) {
  std::string many;
  for (int i = 0; i < 4000; ++i) many += "X-" + std::to_string(i) + ": 1234567890\r\n";
  EXPECT_EQ(status_of(server_->exchange(post(many, ""))), 431);
  EXPECT_EQ(status_of(server_->exchange(post("X: " + std::string(100000, 'x') + "\r\n", ""))), 431);
  // Lines that do not end.
  EXPECT_EQ(status_of(server_->exchange("GET /" + std::string(200000, 'x'))), 431);
  EXPECT_EQ(status_of(server_->exchange("GET /" + std::string(2000, 'x') + " HTTP/1.1\r\n\r\n")),
            414);
  EXPECT_EQ(status_of(server_->exchange("GET /" + std::string(9000, 'x') + " HTTP/1.1\r\n\r\n")),
            414);
}

TEST_F(ServeHttp, WhereABodyEndsIsNeverInDoubt) {
  const std::string body = zeros_request();
  const std::string length = std::to_string(body.size());
  EXPECT_EQ(status_of(server_->exchange(post("Content-Length: " + length + "\r\n", body))), 200);
  for (const std::string& headers :
       {"Content-Length: " + length + "\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: " + length + "\r\nContent-Length: 5\r\n",
        std::string("Content-Length: -1\r\n"), std::string("Content-Length: 5x\r\n"),
        std::string("Content-Length: 99999999999999999999999\r\n")}) {
    const std::string answer = server_->exchange(post(headers, body + post("", "")));
    EXPECT_EQ(status_of(answer), 400) << headers << answer;
    // What follows is not taken for another request.
    EXPECT_EQ(count_responses(answer), 1) << headers << answer;
    EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  }
  EXPECT_EQ(status_of(server_->exchange(post("Transfer-Encoding: gzip\r\n", body))), 501);
  // It ends too early.
  EXPECT_EQ(status_of(server_->exchange(
                post("Content-Length: " + std::to_string(body.size() + 1) + "\r\n", body))),
            400);
}

TEST_F(ServeHttp, ChunksArePutTogether) {
  const std::string body = zeros_request();
  std::string chunks;
  for (const char c : body) chunks += std::string("1\r\n") + c + "\r\n";
  EXPECT_EQ(
      status_of(server_->exchange(post("Transfer-Encoding: chunked\r\n", chunks + "0\r\n\r\n"))),
      200);
  EXPECT_EQ(status_of(server_->exchange(post("Transfer-Encoding: chunked\r\n", chunks))), 400);
  EXPECT_EQ(status_of(server_->exchange(post("Transfer-Encoding: chunked\r\n", "zz\r\n"))), 400);
  // The length of a chunk, without an end.
  EXPECT_EQ(status_of(server_->exchange(
                post("Transfer-Encoding: chunked\r\n", std::string(200000, '0')))),
            400);
}

TEST_F(ServeHttp, WhatIsNoHttpIsAnError) {
  for (const std::string& text :
       {std::string("nonsense\r\n\r\n"), std::string("GET / HTTP/9.9\r\n\r\n"),
        std::string("\r\n\r\n"), std::string("\x16\x03\x01\x02\x00\x01\xfc\x03\x03\r\n", 11)}) {
    const std::string answer = server_->exchange(text);
    EXPECT_EQ(status_of(answer), 400) << text;
    EXPECT_NE(answer.find("{\"error\":"), std::string::npos) << answer;
  }
  EXPECT_EQ(server_->exchange(""), "");
  EXPECT_EQ(
      status_of(server_->exchange("PUT /v2/models/add HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")),
      405);
  EXPECT_EQ(status_of(server_->exchange(post(
                "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 3\r\n", "abc"))),
            415);
  // No body at all.
  EXPECT_EQ(status_of(server_->exchange(post("", ""))), 400);
}

TEST_F(ServeHttp, OneConnectionTakesOneRequestAfterTheOther) {
  const std::string body = zeros_request();
  const std::string one = post("Content-Length: " + std::to_string(body.size()) + "\r\n", body);
  const std::string last = "GET /v2/health/live HTTP/1.1\r\nConnection: close\r\n\r\n";
  const std::string answer = server_->exchange(one + one + last);
  EXPECT_EQ(count_responses(answer), 3) << answer;
}

}  // namespace
}  // namespace plimsoll::testing
