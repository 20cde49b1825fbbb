// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "collectives/socket.h"
#include "collectives/store.h"
#include "collectives/store_format.h"

namespace plimsoll::collectives {
namespace {

using std::chrono::steady_clock;

int milliseconds_until(Deadline deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

// Whether the socket became ready.
bool wait_for(const Socket& socket, short events, Deadline deadline) {
  for (;;) {
    pollfd polled{socket.fd(), events, 0};
    const int ready = ::poll(&polled, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

// One try at each address of the host; what failed is in errno.
Socket try_connect(const addrinfo* addresses, Deadline deadline) {
  for (const addrinfo* one = addresses; one != nullptr; one = one->ai_next) {
    Socket socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) continue;
    if (::connect(socket.fd(), one->ai_addr, one->ai_addrlen) == 0) return socket;
    if (errno != EINPROGRESS) continue;
    if (!wait_for(socket, POLLOUT, deadline)) {
      errno = ETIMEDOUT;
      continue;
    }
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return socket;
    errno = error;
  }
  return {};
}

class TcpStore final : public Store {
 public:
  TcpStore(Socket socket, std::string where)
      : socket_(std::move(socket)), where_(std::move(where)) {}

  Status set(std::string_view key, std::string_view value, Deadline deadline) override {
    if (key.size() > kMostKeyBytes || value.size() > kMostValueBytes) {
      return invalid_argument(fmt::format("{}: a message of {} bytes (at most {})", where_,
                                          value.size(), kMostValueBytes));
    }
    PLIMSOLL_RETURN_IF_ERROR(send(store_message(StoreHead::set, key, value), deadline));
    StoreHead head;
    std::string answer;
    PLIMSOLL_RETURN_IF_ERROR(receive(head, answer, deadline));
    if (head.kind == StoreHead::exists) {
      return Status(StatusCode::already_exists,
                    fmt::format("{}: there is a '{}' already", where_, key));
    }
    if (head.kind == StoreHead::value) return ok_status();
    return unavailable(fmt::format("{}: it is full", where_));
  }

  Result<std::string> get(std::string_view key, Deadline deadline) override {
    PLIMSOLL_RETURN_IF_ERROR(send(store_message(StoreHead::get, key, ""), deadline));
    StoreHead head;
    std::string value;
    PLIMSOLL_RETURN_IF_ERROR(receive(head, value, deadline));
    return value;
  }

  void clear() override {}  // it all goes away with the server

  std::string local_address() const override {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    std::array<char, NI_MAXHOST> text{};
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (::getsockname(socket_.fd(), any, &size) != 0 ||
        ::getnameinfo(any, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
      return {};
    }
    std::string found = text.data();
    // An address of the older family, seen through a socket of the newer one.
    if (found.starts_with("::ffff:")) found.erase(0, 7);
    return found;
  }

 private:
  Status failed(std::string_view what) const {
    return unavailable(fmt::format("{}: {} (participant 0 serves it)", where_, what));
  }
  Status late() const {
    return Status(StatusCode::deadline_exceeded, fmt::format("{}: no answer in time", where_));
  }

  Status send(std::string_view text, Deadline deadline) {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_.fd(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        text.remove_prefix(static_cast<std::size_t>(sent));
      } else if (errno == EAGAIN) {
        if (!wait_for(socket_, POLLOUT, deadline)) return late();
      } else if (errno != EINTR) {
        return failed(std::strerror(errno));
      }
    }
    return ok_status();
  }

  Status read(char* to, std::size_t bytes, Deadline deadline) {
    while (bytes > 0) {
      const ssize_t got = ::recv(socket_.fd(), to, bytes, 0);
      if (got > 0) {
        to += got;
        bytes -= static_cast<std::size_t>(got);
      } else if (got == 0) {
        return failed("the connection is closed");
      } else if (errno == EAGAIN) {
        if (!wait_for(socket_, POLLIN, deadline)) return late();
      } else if (errno != EINTR) {
        return failed(std::strerror(errno));
      }
    }
    return ok_status();
  }

  Status receive(StoreHead& head, std::string& value, Deadline deadline) {
    std::array<char, sizeof(StoreHead)> text;
    PLIMSOLL_RETURN_IF_ERROR(read(text.data(), text.size(), deadline));
    head = store_head({text.data(), text.size()});
    if (head.magic != StoreHead::kMagic || head.value_bytes > kMostValueBytes) {
      return failed("something else than a rendezvous answers there");
    }
    value.resize(head.value_bytes);
    return read(value.data(), value.size(), deadline);
  }

  Socket socket_;
  const std::string where_;
};

}  // namespace

Result<std::unique_ptr<Store>> connect_store(const std::string& host, int port, Deadline deadline) {
  const std::string where = fmt::format("rendezvous {}:{}", host, port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  for (auto pause = std::chrono::milliseconds(5);;
       pause = std::min(2 * pause, std::chrono::milliseconds(200))) {
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    std::string reason;
    if (error == 0) {
      // A host that does not answer is tried again, too: it may be starting.
      Socket socket =
          try_connect(found, std::min(deadline, steady_clock::now() + std::chrono::seconds(5)));
      reason = std::strerror(errno);
      ::freeaddrinfo(found);
      if (socket) {
        return std::unique_ptr<Store>(std::make_unique<TcpStore>(std::move(socket), where));
      }
    } else {
      reason = ::gai_strerror(error);
    }
    if (steady_clock::now() + pause >= deadline) {
      return Status(StatusCode::deadline_exceeded,
                    fmt::format("{}: {} (participant 0 serves it; MASTER_ADDR and MASTER_PORT, or "
                                "PLIMSOLL_RENDEZVOUS, say where)",
                                where, reason));
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace plimsoll::collectives
