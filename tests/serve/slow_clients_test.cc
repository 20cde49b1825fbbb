// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/serve/test_server.h"

namespace plimsoll::testing {
namespace {

// A client that sends and reads when it is told to, and no sooner.
class SlowClient {
 public:
  explicit SlowClient(int port, int receive_bytes = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_bytes != 0) {
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ =
        ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~SlowClient() { ::close(socket_); }
  SlowClient(const SlowClient&) = delete;
  SlowClient& operator=(const SlowClient&) = delete;

  bool is_connected() const { return is_connected_; }
  void send(const std::string& bytes) const {
    ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Whether the server has closed the connection, or sent something; waits for it where asked.
  bool has_news(bool wait) const {
    pollfd one{socket_, POLLIN, 0};
    return ::poll(&one, 1, wait ? -1 : 0) > 0;
  }
  // All that comes until the server closes.
  std::string read_all() const {
    std::string all;
    char buffer[65536];
    for (ssize_t n = 0; (n = ::recv(socket_, buffer, sizeof buffer, 0)) > 0;) {
      all.append(buffer, static_cast<std::size_t>(n));
    }
    return all;
  }

 private:
  const int socket_;
  bool is_connected_ = false;
};

using Clients = std::vector<std::unique_ptr<SlowClient>>;

Clients connect(const TestServer& server, int count, const std::string& bytes) {
  Clients clients;
  for (int i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<SlowClient>(server.port()));
    EXPECT_TRUE(clients.back()->is_connected());
    clients.back()->send(bytes);
  }
  return clients;
}

int count_open(const Clients& clients) {
  int open = 0;
  for (const auto& client : clients) open += !client->has_news(false);
  return open;
}

const std::string kHalfHead = "GET /v2/health/live HTTP/1.1\r\nX: ";
const std::string kHalfBody =
    "POST /v2/models/add/infer HTTP/1.1\r\nContent-Length: 100000\r\n\r\n{\"inputs\":[";
constexpr std::int64_t kNever = 3'600'000;  // milliseconds

// Nothing that others do, or don't, keeps a request from being answered: where it waited for them,
// it would for an hour.
void expect_service(const TestServer& server) {
  const auto client = server.client();
  for (int i = 0; i < 3; ++i) {
    const auto live = client->Get("/v2/health/live");
    ASSERT_TRUE(live);
    EXPECT_EQ(live->status, 200);
    const auto result = infer(*client, "add", add_request());
    ASSERT_TRUE(result);
    EXPECT_EQ(result->status, 200) << result->body;
  }
}

class ServeSlowClients : public ::testing::Test {
 protected:
  ServeSlowClients() {
    folder_.add("add", kAddHlo, kAddConfig);
    folder_.add("wide",
                "HloModule wide\nENTRY main {\n  x = f32[1048576] parameter(0)\n"
                "  ROOT y = f32[1048576] negate(x)\n}\n");
    options_.http.workers = 1;
    options_.http.connections = 64;
    options_.http.header_milliseconds = options_.http.body_milliseconds = kNever;
    options_.http.keep_alive_milliseconds = kNever;
  }
  ModelFolder folder_;
  TestServerOptions options_;
};

TEST_F(ServeSlowClients, HalfARequestHoldsNoThread) {
  TestServer server(folder_, options_);
  const Clients silent = connect(server, 20, "");
  const Clients heads = connect(server, 20, kHalfHead);
  const Clients bodies = connect(server, 20, kHalfBody);
  expect_service(server);
  // They were in nobody's way, and are still there.
  EXPECT_EQ(count_open(silent) + count_open(heads) + count_open(bodies), 60);
  // What they began is answered once they end it.
  for (const auto& head : heads) head->send("x\r\nConnection: close\r\n\r\n");
  for (const auto& head : heads) {
    EXPECT_EQ(head->read_all().rfind("HTTP/1.1 200 ", 0), 0u);
  }
}

TEST_F(ServeSlowClients, TheOldestWithoutARequestMakesRoomForOthers) {
  TestServer server(folder_, options_);
  const auto regular = server.client();
  ASSERT_TRUE(regular->Get("/v2/health/live"));
  const Clients clients = connect(server, 300, kHalfHead);
  expect_service(server);
  // 64 at once: the regular client's, one that made the last requests, and the youngest of these.
  while (count_open(clients) > 64) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GE(count_open(clients), 60);
  for (std::size_t i = 0; i < 200; ++i) EXPECT_TRUE(clients[i]->has_news(false)) << i;
  EXPECT_FALSE(clients.back()->has_news(false));
  EXPECT_GE(server.service().connections().idle, 236);
  // Clients that have had answers are spared.
  const auto live = regular->Get("/v2/health/live");
  ASSERT_TRUE(live);
  EXPECT_EQ(live->status, 200);
}

TEST_F(ServeSlowClients, WhereAllAreAtWorkANewOneIsRefused) {
  options_.http.connections = 8;
  TestServer server(folder_, options_);
  // Bodies that have just begun lag behind nothing yet.
  const Clients bodies = connect(server, 8, kHalfBody);
  while (server.service().connections().reading != 8) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const SlowClient late(server.port());
  // After a moment of silence one of them goes instead.
  const serve::ConnectionCounts& counts = server.service().connections();
  while (counts.refused + counts.slow == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (counts.refused != 0) {
    const std::string answer = late.read_all();
    EXPECT_EQ(answer.rfind("HTTP/1.1 503 ", 0), 0u) << answer;
    EXPECT_NE(answer.find("Retry-After: 1\r\n"), std::string::npos) << answer;
  }
}

TEST_F(ServeSlowClients, HeadersAndBodiesThatDoNotComeAreGivenUp) {
  options_.http.header_milliseconds = options_.http.body_milliseconds = 100;
  TestServer server(folder_, options_);
  const Clients silent = connect(server, 1, "");
  const Clients heads = connect(server, 1, kHalfHead);
  const Clients bodies = connect(server, 1, kHalfBody);
  EXPECT_EQ(silent[0]->read_all(), "");
  EXPECT_EQ(heads[0]->read_all().rfind("HTTP/1.1 408 ", 0), 0u);
  EXPECT_EQ(bodies[0]->read_all().rfind("HTTP/1.1 408 ", 0), 0u);
  server.expect_no_buffers();
}

TEST_F(ServeSlowClients, ABodyThatMovesOnMayTakeLongAndOneThatTricklesMayNot) {
  options_.http.body_milliseconds = 300;
  options_.http.least_bytes_per_second = 1000;
  TestServer server(folder_, options_);
  const std::string body(4000, ' ');
  const std::string head =
      "POST /v2/models/add/infer HTTP/1.1\r\nContent-Length: 4000\r\nConnection: close\r\n\r\n";
  const SlowClient steady(server.port()), trickling(server.port());
  steady.send(head);
  trickling.send(head);
  // Twice the least rate, in 2 s in all; and a byte at a time.
  for (std::size_t at = 0; at < body.size(); at += 200) {
    steady.send(body.substr(at, 200));
    trickling.send(" ");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(trickling.read_all().rfind("HTTP/1.1 408 ", 0), 0u);
  // Read whole: it is no JSON.
  EXPECT_EQ(steady.read_all().rfind("HTTP/1.1 400 ", 0), 0u);
}

TEST_F(ServeSlowClients, ClientsThatDoNotReadHoldNoThread) {
  options_.http.workers = 4;  // as many requests wait for them
  TestServer server(folder_, options_);
  const BinaryBody wide =
      binary_request({{"x", "FP32", "[1048576]", std::string(std::size_t{4} << 20, '\0')}});
  const std::string request =
      "POST /v2/models/wide/infer HTTP/1.1\r\nConnection: close\r\nContent-Length: " +
      std::to_string(wide.body.size()) +
      "\r\nInference-Header-Content-Length: " + std::to_string(wide.json_bytes) + "\r\n\r\n" +
      wide.body;
  constexpr int kSmall = 4096;
  Clients readers;
  for (int i = 0; i < 8; ++i) {
    readers.push_back(std::make_unique<SlowClient>(server.port(), kSmall));
    readers.back()->send(request);
  }
  for (const auto& reader : readers) EXPECT_TRUE(reader->has_news(true));
  expect_service(server);
  // What they have not read is counted.
  EXPECT_GE(server.service().host().used(), std::size_t{8} << 20);
  for (const auto& reader : readers) {
    const std::string answer = reader->read_all();
    EXPECT_EQ(answer.rfind("HTTP/1.1 200 ", 0), 0u) << answer.substr(0, 400);
    EXPECT_GT(answer.size(), std::size_t{4} << 20);
  }
  server.expect_no_buffers();
}

TEST_F(ServeSlowClients, AServerThatEndsWaitsForNobodyWhoSaysNothing) {
  Clients clients;
  {
    TestServer server(folder_, options_);
    for (const std::string& begun : {std::string(), kHalfHead}) {
      clients.push_back(std::make_unique<SlowClient>(server.port()));
      clients.back()->send(begun);
    }
    expect_service(server);
  }
  for (const auto& client : clients) EXPECT_EQ(client->read_all(), "");
}

TEST_F(ServeSlowClients, WhatIsLeasedFollowsWhatHasCome) {
  options_.host_bytes = std::size_t{1} << 20;
  TestServer server(folder_, options_);
  // Ten times what there is, if it were believed.
  const Clients liars =
      connect(server, 10,
              "POST /v2/models/add/infer HTTP/1.1\r\nContent-Length: 1048576\r\n\r\n"
              "{\"inputs\":[");
  while (server.service().connections().reading != 10) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_LE(server.service().host().used(), std::size_t{32} << 10);
  expect_service(server);
}

}  // namespace
}  // namespace plimsoll::testing
