// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/http_server.h"

#include <malloc.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "examples/serve/answer.h"
#include "examples/serve/connection.h"
#include "examples/serve/descriptor.h"
#include "examples/serve/worker_pool.h"

namespace plimsoll::examples::serve {
namespace {

using std::chrono::milliseconds;
using State = Connection::State;
using Step = Connection::Step;

constexpr int kBacklog = 4096;
// Of the system's buffers for one socket, each way; it takes twice as much. Without a limit it lets
// them grow to megabytes for those who don't read.
constexpr int kSocketBytes = 128 << 10;
constexpr std::size_t kReadAtOnce = 64 << 10;
constexpr milliseconds kRound(50);    // between two looks at the deadlines
constexpr milliseconds kQuiet(1000);  // without work, before freed memory is given back
constexpr std::size_t kQuickThreads = 2;

// Whether the answer may wait for memory, for other requests or for a compiler.
bool may_take_long(const HttpHead& head) {
  const std::string_view path = head.path;
  return head.method == "POST" &&
         (path.ends_with("/infer") || path.ends_with("/load") || path.ends_with("/unload"));
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(Service& service, const HttpOptions& options)
      : service_(service),
        options_(options),
        quick_(kQuickThreads, static_cast<std::size_t>(options.connections)),
        workers_(static_cast<std::size_t>(options.workers),
                 static_cast<std::size_t>(options.workers)) {}

  int bind() {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    addrinfo* found = nullptr;
    const std::string port = std::to_string(options_.port);
    if (const int code = ::getaddrinfo(options_.host.c_str(), port.c_str(), &hints, &found);
        code != 0) {
      throw std::runtime_error("cannot listen on " + options_.host + ": " + ::gai_strerror(code) +
                               " (--host: an address of this machine)");
    }
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
    for (const addrinfo* one = found; one != nullptr && listener_.get() < 0; one = one->ai_next) {
      listen_on(*one);
    }
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    wake_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (listener_.get() < 0 || epoll_.get() < 0 || wake_.get() < 0) {
      throw std::runtime_error("cannot listen on " + options_.host + ":" + port + ": " +
                               std::strerror(errno));
    }
    watch(listener_.get(), kListener, EPOLLIN, EPOLL_CTL_ADD);
    watch(wake_.get(), kWake, EPOLLIN, EPOLL_CTL_ADD);
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.ss_family == AF_INET6
                     ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                     : reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }

  void serve() {
    std::array<epoll_event, 256> events;
    auto last_round = Clock::now();
    while (!(ends_ && clients_.empty())) {
      const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                     static_cast<int>(kRound.count()));
      for (int i = 0; i < count; ++i) {
        handle(events[static_cast<std::size_t>(i)].data.u64,
               events[static_cast<std::size_t>(i)].events);
      }
      take_answers();
      if (stopping_ && !ends_) end();
      if (Clock::now() - last_round < kRound) continue;
      last_round = Clock::now();
      look_at_deadlines();
      give_back_memory();
    }
  }

  void stop() {
    stopping_ = true;
    wake();
  }

 private:
  // What epoll says of an event; connections have numbers from kFirst on.
  enum : std::uint64_t { kListener, kWake, kFirst };

  void listen_on(const addrinfo& address) {
    listener_.reset(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (listener_.get() < 0) return;
    const int yes = 1;
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_RCVBUF, &kSocketBytes, sizeof kSocketBytes);
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_SNDBUF, &kSocketBytes, sizeof kSocketBytes);
    if (::bind(listener_.get(), address.ai_addr, address.ai_addrlen) == 0 &&
        ::listen(listener_.get(), kBacklog) == 0) {
      return;
    }
    const int error = errno;
    listener_.reset();
    errno = error;
  }

  void watch(int descriptor, std::uint64_t number, std::uint32_t events, int operation) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = number;
    ::epoll_ctl(epoll_.get(), operation, descriptor, &event);
  }

  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  }

  void handle(std::uint64_t number, std::uint32_t events) {
    if (number == kListener) {
      accept_some();
    } else if (number == kWake) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
    } else if (const auto found = clients_.find(number); found != clients_.end()) {
      Connection& connection = found->second.connection;
      if ((events & EPOLLOUT) != 0 || (connection.wants_output() && events != 0)) {
        proceed(number, found->second, connection.write());
      } else {
        proceed(number, found->second, connection.read(scratch_));
      }
    }
  }

  struct Client {
    Client(int socket, const HttpOptions& options, Service& service)
        : connection(socket, options, service) {}
    Connection connection;
    std::uint32_t watched = 0;  // events; 0: none, and not in the set
  };

  // Does what follows from a step of the connection, which may end with it.
  void proceed(std::uint64_t number, Client& client, Step step) {
    while (step == Step::request) step = begin_request(number, client);
    if (step == Step::closed) {
      clients_.erase(number);
      return;
    }
    // Where nothing is wanted a connection is not in the set, which would tell of its end anew and
    // anew.
    constexpr std::uint32_t kIn = EPOLLIN, kOut = EPOLLOUT;
    const std::uint32_t wanted = client.connection.wants_output()  ? kOut
                                 : client.connection.wants_input() ? kIn
                                                                   : 0;
    if (wanted == client.watched) return;
    watch(client.connection.socket(), number, wanted,
          client.watched == 0 ? EPOLL_CTL_ADD
          : wanted == 0       ? EPOLL_CTL_DEL
                              : EPOLL_CTL_MOD);
    client.watched = wanted;
  }

  Step begin_request(std::uint64_t number, Client& client) {
    Connection::Request request = client.connection.take_request();
    const auto arrived = Clock::now();
    if (request.head.path == "/v2/health/live") {
      return give(client, answer_request(service_, number, std::move(request), arrived,
                                         options_.most_body_bytes));
    }
    WorkerPool& pool = may_take_long(request.head) ? workers_ : quick_;
    // std::function wants what can be copied.
    auto shared = std::make_shared<Connection::Request>(std::move(request));
    ++under_way_;
    const bool accepted = pool.run([this, number, shared, arrived] {
      Answer answer =
          answer_request(service_, number, std::move(*shared), arrived, options_.most_body_bytes);
      const std::lock_guard lock(mutex_);
      answers_.push_back(std::move(answer));
      wake();
    });
    if (accepted) return Step::waits;
    --under_way_;
    Answer busy;
    busy.reply = error_reply(503, "too many requests are under way (--workers)", 1);
    return give(client, std::move(busy));
  }

  Step give(Client& client, Answer answer) {
    return client.connection.reply(std::move(answer.reply), std::move(answer.lease),
                                   answer.encoding, !stopping_);
  }

  void take_answers() {
    std::vector<Answer> answers;
    {
      const std::lock_guard lock(mutex_);
      answers.swap(answers_);
    }
    for (Answer& answer : answers) {
      --under_way_;
      has_worked_ = true;
      last_work_ = Clock::now();
      const auto found = clients_.find(answer.client);
      if (found == clients_.end()) continue;
      const Step step = give(found->second, std::move(answer));
      proceed(found->first, found->second, step);
    }
  }

  void accept_some() {
    constexpr int kAtOnce = 64;
    for (int i = 0; i < kAtOnce; ++i) {
      const int socket = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (socket < 0) {
        // Without descriptors for more: one that can be spared is closed, or none accepted until
        // the next round.
        const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        if (full && !make_room()) pause_accepting();
        return;
      }
      const int yes = 1;
      ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      if (clients_.size() >= static_cast<std::size_t>(options_.connections) && !make_room()) {
        refuse(socket);
        continue;
      }
      const std::uint64_t number = next_++;
      const auto made = clients_.try_emplace(number, socket, options_, service_).first;
      proceed(number, made->second, Step::waits);
    }
  }

  void pause_accepting() {
    watch(listener_.get(), kListener, 0, EPOLL_CTL_MOD);
    is_paused_ = true;
  }

  void refuse(int socket) {
    ++service_.connections().refused;
    Connection connection(socket, options_, service_);
    connection.reply(error_reply(503, "too many connections (--connections)", 1), {}, nullptr,
                     false);
  }

  // Closes the connection that can best be spared: the oldest of those that never had an answer and
  // have no whole head of a request, else the body or response that lags farthest behind, else the
  // one that has waited longest for another request. False where there is none, as all moved on a
  // moment ago.
  bool make_room() {
    constexpr auto kMoment = milliseconds(250);
    const auto now = Clock::now();
    const auto lag_of = [&](const Connection& one) {
      return now + milliseconds(options_.body_milliseconds) - one.deadline();
    };
    auto fresh = clients_.end(), slow = clients_.end(), idle = clients_.end();
    const auto older = [&](auto one, auto than) {
      return than == clients_.end() ||
             one->second.connection.since() < than->second.connection.since();
    };
    for (auto at = clients_.begin(); at != clients_.end(); ++at) {
      const Connection& one = at->second.connection;
      switch (one.state()) {
        case State::idle:
        case State::head:
        case State::lingering:
          if (!one.has_served()) {
            if (older(at, fresh)) fresh = at;
          } else if (now - one.since() >= kMoment && older(at, idle)) {
            idle = at;
          }
          break;
        case State::body:
        case State::writing:
          if (lag_of(one) >= kMoment &&
              (slow == clients_.end() || lag_of(one) > lag_of(slow->second.connection))) {
            slow = at;
          }
          break;
        case State::working:
          break;
      }
    }
    const auto spared = fresh != clients_.end() ? fresh : slow != clients_.end() ? slow : idle;
    if (spared == clients_.end()) return false;
    ++(spared == slow ? service_.connections().slow : service_.connections().idle);
    clients_.erase(spared);
    return true;
  }

  void look_at_deadlines() {
    if (is_paused_ && !ends_) {
      watch(listener_.get(), kListener, EPOLLIN, EPOLL_CTL_MOD);
      is_paused_ = false;
    }
    const auto now = Clock::now();
    std::vector<std::uint64_t> over;
    std::int64_t reading = 0, writing = 0;
    for (const auto& [number, client] : clients_) {
      const Connection& one = client.connection;
      if (one.state() != State::working && one.deadline() < now) over.push_back(number);
      reading += one.state() == State::head || one.state() == State::body;
      writing += one.state() == State::writing;
    }
    service_.connections().open = static_cast<std::int64_t>(clients_.size());
    service_.connections().reading = reading;
    service_.connections().writing = writing;
    for (const std::uint64_t number : over) {
      const auto found = clients_.find(number);
      if (found->second.connection.state() != State::idle &&
          found->second.connection.state() != State::lingering) {
        ++service_.connections().slow;
      }
      proceed(number, found->second, found->second.connection.time_out());
    }
  }

  // What threads freed and their heaps have kept, once nothing is under way.
  void give_back_memory() {
    if (!has_worked_ || under_way_ != 0 || Clock::now() - last_work_ < kQuiet) return;
    has_worked_ = !quick_.run([] { ::malloc_trim(0); });
  }

  void end() {
    ends_ = true;
    listener_.reset();
    const auto latest = Clock::now() + milliseconds(options_.body_milliseconds);
    for (auto at = clients_.begin(); at != clients_.end();) {
      const State state = at->second.connection.state();
      if (state == State::idle || state == State::head || state == State::lingering) {
        at = clients_.erase(at);
      } else {
        at->second.connection.end_by(latest);
        ++at;
      }
    }
  }

  Service& service_;
  const HttpOptions options_;
  Descriptor listener_, epoll_, wake_;
  std::atomic<bool> stopping_{false};
  // Of the thread that serves:
  std::unordered_map<std::uint64_t, Client> clients_;
  std::uint64_t next_ = kFirst;
  std::int64_t under_way_ = 0;  // requests at the pools
  bool ends_ = false, is_paused_ = false, has_worked_ = false;
  Clock::time_point last_work_{};
  std::array<char, kReadAtOnce> scratch_;
  std::mutex mutex_;  // guards answers_
  std::vector<Answer> answers_;
  WorkerPool quick_, workers_;  // end first
};

HttpServer::HttpServer(Service& service, const HttpOptions& options)
    : impl_(std::make_unique<Impl>(service, options)) {}
HttpServer::~HttpServer() = default;
int HttpServer::bind() { return impl_->bind(); }
void HttpServer::serve() { impl_->serve(); }
void HttpServer::stop() { impl_->stop(); }

}  // namespace plimsoll::examples::serve
