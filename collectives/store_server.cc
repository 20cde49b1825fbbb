// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "collectives/socket.h"
#include "collectives/store.h"
#include "collectives/store_format.h"

namespace plimsoll::collectives {
namespace {

bool is_loopback(std::string_view host) {
  return host == "localhost" || host.starts_with("127.") || host == "::1";
}

// On every address of the machine, of both families where it has both; or on loopback alone.
Socket listen_on(const std::string& host, int port) {
  const bool local = is_loopback(host);
  const int on = 1, off = 0;
  if (!local || host == "::1") {
    Socket six(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(static_cast<std::uint16_t>(port));
    address.sin6_addr = local ? in6addr_loopback : in6addr_any;
    if (six) {
      ::setsockopt(six.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      ::setsockopt(six.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
      if (::bind(six.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
          ::listen(six.fd(), SOMAXCONN) == 0) {
        return six;
      }
      if (errno == EADDRINUSE || errno == EACCES || local) return {};
    }
  }
  Socket four(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(local ? INADDR_LOOPBACK : INADDR_ANY);
  if (!four) return {};
  ::setsockopt(four.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(four.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(four.fd(), SOMAXCONN) != 0) {
    return {};
  }
  return four;
}

int port_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

class StoreServer::Loop {
 public:
  Loop(Socket listening, Socket wake_read, Socket wake_write)
      : listening_(std::move(listening)),
        wake_read_(std::move(wake_read)),
        wake_write_(std::move(wake_write)),
        thread_([this] { run(); }) {}

  ~Loop() {
    wake_write_.reset();
    thread_.join();
  }

 private:
  struct Client {
    Socket socket;
    std::string in, out;
    std::string waits_for;  // a key; empty: for nothing
  };

  void run() {
    std::vector<pollfd> polled;
    for (;;) {
      polled = {{wake_read_.fd(), POLLIN, 0}, {listening_.fd(), POLLIN, 0}};
      if (clients_.size() >= kMostConnections) polled[1].events = 0;
      for (const Client& client : clients_) {
        polled.push_back({client.socket.fd(),
                          static_cast<short>(POLLIN | (client.out.empty() ? 0 : POLLOUT)), 0});
      }
      if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
      if (polled[0].revents != 0) return;
      for (std::size_t i = 0; i < clients_.size(); ++i) {
        if (polled[i + 2].revents != 0 && !serve(clients_[i])) clients_[i].socket.reset();
      }
      std::erase_if(clients_, [](const Client& client) { return !client.socket; });
      if (polled[1].revents == 0) continue;
      Socket accepted(::accept4(listening_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (accepted) clients_.push_back({std::move(accepted), {}, {}, {}});
    }
  }

  // Whether the client is still there, and one.
  bool serve(Client& client) {
    std::array<char, 1 << 16> buffer;
    const ssize_t got = ::recv(client.socket.fd(), buffer.data(), buffer.size(), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (got > 0) client.in.append(buffer.data(), static_cast<std::size_t>(got));
    while (client.in.size() >= sizeof(StoreHead)) {
      const StoreHead head = store_head(client.in);
      const bool known = head.magic == StoreHead::kMagic &&
                         (head.kind == StoreHead::set || head.kind == StoreHead::get);
      if (!known || head.key_bytes > kMostKeyBytes || head.value_bytes > kMostValueBytes ||
          !client.waits_for.empty()) {
        return false;
      }
      const std::size_t size = sizeof head + head.key_bytes + head.value_bytes;
      if (client.in.size() < size) break;
      std::string key = client.in.substr(sizeof head, head.key_bytes);
      std::string value = client.in.substr(sizeof head + head.key_bytes, head.value_bytes);
      client.in.erase(0, size);
      if (head.kind == StoreHead::set) {
        set(client, std::move(key), std::move(value));
      } else {
        const auto found = values_.find(key);
        if (found == values_.end()) {
          client.waits_for = std::move(key);
        } else {
          client.out += store_message(StoreHead::value, "", found->second);
        }
      }
    }
    return flush(client);
  }

  void set(Client& client, std::string key, std::string value) {
    const std::size_t bytes = key.size() + value.size();
    if (bytes_ + bytes > kMostStoreBytes) {
      client.out += store_message(StoreHead::refused, "", "");
      return;
    }
    const auto [place, is_new] = values_.try_emplace(std::move(key), std::move(value));
    client.out += store_message(is_new ? StoreHead::value : StoreHead::exists, "", "");
    if (!is_new) return;
    bytes_ += bytes;
    for (Client& waiting : clients_) {
      if (waiting.waits_for != place->first) continue;
      waiting.waits_for.clear();
      waiting.out += store_message(StoreHead::value, "", place->second);
      flush(waiting);  // a failure shows at the next poll
    }
  }

  static bool flush(Client& client) {
    while (!client.out.empty()) {
      const ssize_t sent =
          ::send(client.socket.fd(), client.out.data(), client.out.size(), MSG_NOSIGNAL);
      if (sent < 0) return errno == EAGAIN || errno == EINTR;
      client.out.erase(0, static_cast<std::size_t>(sent));
    }
    return true;
  }

  Socket listening_, wake_read_, wake_write_;
  std::vector<Client> clients_;
  std::map<std::string, std::string> values_;
  std::size_t bytes_ = 0;
  std::thread thread_;  // the last: it uses the others
};

StoreServer::StoreServer(std::unique_ptr<Loop> loop, int port)
    : loop_(std::move(loop)), port_(port) {}

StoreServer::~StoreServer() = default;

Result<std::unique_ptr<StoreServer>> StoreServer::create(const std::string& host, int port) {
  Socket listening = listen_on(host, port);
  int wake[2] = {-1, -1};
  if (!listening || ::pipe2(wake, O_CLOEXEC) != 0) {
    return unavailable(fmt::format(
        "serving the rendezvous {}:{}: {} (MASTER_PORT, or PLIMSOLL_RENDEZVOUS=tcp://HOST:PORT, "
        "names a port that is free on participant 0's machine)",
        host, port, std::strerror(errno)));
  }
  const int bound = port_of(listening);
  return std::unique_ptr<StoreServer>(new StoreServer(
      std::make_unique<Loop>(std::move(listening), Socket(wake[0]), Socket(wake[1])), bound));
}

}  // namespace plimsoll::collectives
