// SPDX-License-Identifier: Apache-2.0
#include "collectives/store.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "collectives/membership.h"
#include "collectives/socket.h"

namespace plimsoll::collectives {
namespace {

Deadline in_milliseconds(int count) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(count);
}

std::unique_ptr<Store> client_of(const StoreServer& server) {
  auto store = connect_store("127.0.0.1", server.port(), in_milliseconds(10'000));
  EXPECT_TRUE(store.ok()) << store.status().to_string();
  return store.ok() ? std::move(*store) : nullptr;
}

// A connection that knows nothing of the store's messages.
Socket stranger_of(const StoreServer& server) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(server.port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return socket;
}

void expect_messages_of_any_size(Store& one, Store& other) {
  const std::string large(kMostValueBytes, 'x');
  EXPECT_TRUE(one.set("large", large, in_milliseconds(10'000)).ok());
  EXPECT_TRUE(one.set("empty", "", in_milliseconds(10'000)).ok());
  auto read = other.get("large", in_milliseconds(10'000));
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(*read, large);
  read = other.get("empty", in_milliseconds(10'000));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, "");
  EXPECT_EQ(other.set("empty", "again", in_milliseconds(10'000)).code(),
            StatusCode::already_exists);
}

void expect_waits(Store& one, Store& other) {
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(one.set("late", "here", in_milliseconds(10'000)).ok());
  });
  const auto read = other.get("late", in_milliseconds(10'000));
  later.join();
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(*read, "here");
  EXPECT_EQ(one.get("never", in_milliseconds(50)).status().code(), StatusCode::deadline_exceeded);
}

TEST(TcpStore, HandsMessagesOnAndWaitsForThem) {
  const auto server = StoreServer::create("127.0.0.1", 0);
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  const auto one = client_of(**server), other = client_of(**server);
  expect_messages_of_any_size(*one, *other);
  expect_waits(*one, *other);
  EXPECT_EQ(one->local_address(), "127.0.0.1");
}

TEST(TcpStore, StrangersAreCutOffAndDisturbNobody) {
  const auto server = StoreServer::create("127.0.0.1", 0);
  ASSERT_TRUE(server.ok());
  const Socket silent = stranger_of(**server), loud = stranger_of(**server),
               half = stranger_of(**server);
  const std::string garbage = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
  ASSERT_GT(::send(loud.fd(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  ASSERT_GT(::send(half.fd(), "1S", 2, MSG_NOSIGNAL), 0);
  char answer = 0;
  EXPECT_LE(::recv(loud.fd(), &answer, 1, 0), 0);  // closed
  const auto store = client_of(**server);
  EXPECT_TRUE(store->set("a", "b", in_milliseconds(10'000)).ok());
  // A request for more memory than there is.
  const Socket greedy = stranger_of(**server);
  const std::uint32_t head[4] = {0x504c5331, 0, 8, 0xffffffff};
  ASSERT_GT(::send(greedy.fd(), head, sizeof head, MSG_NOSIGNAL), 0);
  EXPECT_LE(::recv(greedy.fd(), &answer, 1, 0), 0);
  const auto read = store->get("a", in_milliseconds(10'000));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, "b");
}

TEST(TcpStore, NobodyThereIsAnErrorInTimeWithTheRemedy) {
  int port = 0;
  {
    const auto server = StoreServer::create("127.0.0.1", 0);
    ASSERT_TRUE(server.ok());
    port = (*server)->port();
  }
  const auto store = connect_store("127.0.0.1", port, in_milliseconds(100));
  EXPECT_EQ(store.status().code(), StatusCode::deadline_exceeded);
  EXPECT_NE(store.status().message().find("MASTER_PORT"), std::string::npos);
}

TEST(TcpStore, AServerThatEndsEndsWaits) {
  auto server = StoreServer::create("127.0.0.1", 0);
  ASSERT_TRUE(server.ok());
  const auto store = client_of(**server);
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    server->reset();
  });
  const auto read = store->get("never", in_milliseconds(10'000));
  ends.join();
  EXPECT_EQ(read.status().code(), StatusCode::unavailable);
}

TEST(TcpStore, APortInUseIsAnErrorWithTheRemedy) {
  const auto server = StoreServer::create("127.0.0.1", 0);
  ASSERT_TRUE(server.ok());
  const auto second = StoreServer::create("127.0.0.1", (*server)->port());
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find("PLIMSOLL_RENDEZVOUS"), std::string::npos);
}

TEST(FileStore, HandsMessagesOnWaitsAndTakesThemBack) {
  std::string name = (std::filesystem::temp_directory_path() / "plimsoll-store-XXXXXX").string();
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  {
    const auto one = open_file_store(name + "/new"), other = open_file_store(name + "/new");
    ASSERT_TRUE(one.ok() && other.ok());
    expect_messages_of_any_size(**one, **other);
    expect_waits(**one, **other);
  }
  EXPECT_TRUE(std::filesystem::is_empty(name + "/new"));
  std::filesystem::remove_all(name);
}

using Settings = std::vector<std::pair<std::string, std::string>>;

// Sets variables of the environment for the object's life.
class Variables {
 public:
  explicit Variables(Settings set) : set_(std::move(set)) {
    for (const auto& [variable, text] : set_) ::setenv(variable.c_str(), text.c_str(), 1);
  }
  ~Variables() {
    for (const auto& [variable, text] : set_) ::unsetenv(variable.c_str());
  }

 private:
  Settings set_;
};

TEST(Membership, ReadsWhatLaunchersSet) {
  const Variables set(Settings{{"RANK", "2"},
                               {"WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "node1"},
                               {"MASTER_PORT", "29500"},
                               {"PLIMSOLL_COLLECTIVE_TIMEOUT", "1.5"}});
  auto membership = read_membership();
  ASSERT_TRUE(membership.ok()) << membership.status().to_string();
  EXPECT_EQ(membership->rank, 2);
  EXPECT_EQ(membership->world_size, 4);
  EXPECT_EQ(membership->where(), "tcp://node1:29500");
  EXPECT_EQ(membership->timeout.count(), 1.5);
  const Variables there(Settings{{"PLIMSOLL_RENDEZVOUS", "tcp://[::1]:77"}});
  membership = read_membership();
  ASSERT_TRUE(membership.ok());
  EXPECT_EQ(membership->host, "::1");
  EXPECT_EQ(membership->port, 77);
  const Variables folder(Settings{{"PLIMSOLL_RENDEZVOUS", "file:///shared/run"}});
  membership = read_membership();
  ASSERT_TRUE(membership.ok());
  EXPECT_EQ(membership->folder, "/shared/run");
}

TEST(Membership, NamesTheVariableThatIsWrong) {
  const Settings good{
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
  const Settings bad{{"RANK", "2"},
                     {"RANK", "one"},
                     {"RANK", ""},
                     {"WORLD_SIZE", "0"},
                     {"WORLD_SIZE", "2x"},
                     {"MASTER_ADDR", ""},
                     {"MASTER_PORT", "70000"},
                     {"PLIMSOLL_RENDEZVOUS", "node1:29500"},
                     {"PLIMSOLL_RENDEZVOUS", "tcp://node1"},
                     {"PLIMSOLL_RENDEZVOUS", "file://here"},
                     {"PLIMSOLL_COLLECTIVE_TIMEOUT", "0"}};
  for (const auto& [variable, text] : bad) {
    const Variables set(good);
    const Variables wrong(Settings{{variable, text}});
    const auto membership = read_membership();
    EXPECT_EQ(membership.status().code(), StatusCode::invalid_argument) << variable;
    EXPECT_NE(membership.status().message().find(variable), std::string::npos)
        << membership.status().to_string();
  }
}

}  // namespace
}  // namespace plimsoll::collectives
