// SPDX-License-Identifier: Apache-2.0
#include "collectives/gloo.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <gloo/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <ctime>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/machine_hash.h"
#include "collectives/peers.h"
#include "collectives/socket.h"
#include "runtime/base/float_environment.h"
#include "runtime/base/index.h"

namespace plimsoll::collectives {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Gloo closes all connections where one of its own waits times out, before the others can be told
// why. So its waits get this, and threads of ours end them.
constexpr milliseconds kForever = std::chrono::hours(24 * 365);
// How long one that leaves waits until the others have read what it sent.
constexpr milliseconds kLongestGoodbye(10'000), kLongestBadGoodbye(2'000);
// How long one that is asked whom it waits for has to answer.
constexpr milliseconds kLongestAnswer(1'000);

// Gloo writes to sockets that the other end may have closed, which must not end the process: keeps
// SIGPIPE from this thread, and from threads begun meanwhile.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigset_t pending;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;
  ~WithoutSigpipe() {
    const int saved = errno;
    const timespec now{};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &now) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = saved;
  }

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

// What participants say to each other beside their messages: how they end, that they have read how
// another one ends, and, asked by one whose time is up, whom they wait for themselves.
struct Word {
  enum Kind : std::uint32_t { none, ended, failed, understood, asks, answers };
  std::uint32_t kind = none, code = 0, bytes = 0;
  std::int32_t waits_for = -1;
  std::array<char, 1008> text{};
};

Word last_word(const Status& status) {
  Word word;
  word.kind = status.ok() ? Word::ended : Word::failed;
  word.code = static_cast<std::uint32_t>(status.code());
  word.bytes = static_cast<std::uint32_t>(std::min(status.message().size(), word.text.size()));
  std::memcpy(word.text.data(), status.message().data(), word.bytes);
  return word;
}

// Pairs and buffers of all participants, connected by ourselves to name who is missing.
class Mesh final : public gloo::Context {
 public:
  Mesh(int rank, int size) : gloo::Context(rank, size) {}

  // The addresses at which the others reach this participant.
  std::vector<std::vector<char>> listen(std::shared_ptr<gloo::transport::Device> device,
                                        milliseconds timeout) {
    device_ = std::move(device);
    transportContext_ = device_->createContext(rank, size);
    // Pair::connect waits five times as long as it is told.
    transportContext_->setTimeout(std::max(milliseconds(1), timeout / 5));
    std::vector<std::vector<char>> addresses(at(size));
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank)
        addresses[at(peer)] = transportContext_->createPair(peer)->address().bytes();
    }
    return addresses;
  }
};

class GlooPeers final : public Peers {
 public:
  GlooPeers(std::shared_ptr<Mesh> mesh, milliseconds timeout)
      : mesh_(std::move(mesh)), timeout_(timeout), ends_(at(mesh_->size)) {
    const WithoutSigpipe guard;
    for (int peer = 0; peer < mesh_->size; ++peer) {
      if (peer == mesh_->rank) continue;
      End& end = ends_[at(peer)];
      end.buffer = mesh_->createUnboundBuffer(&end.word, sizeof end.word);
      end.thread = std::thread([this, peer] { listen_to(peer); });
    }
    timer_ = std::thread([this] { watch_time(); });
  }

  ~GlooPeers() override { leave(ok_status()); }

  std::unique_ptr<Transfer> send(std::int64_t peer, Slot slot, const void* data,
                                 std::size_t bytes) override {
    return start(peer, slot, const_cast<void*>(data), bytes, true);
  }
  std::unique_ptr<Transfer> receive(std::int64_t peer, Slot slot, void* data,
                                    std::size_t bytes) override {
    return start(peer, slot, data, bytes, false);
  }

  Waited wait(Transfer& transfer) override {
    auto& message = static_cast<Message&>(transfer);
    {
      const std::lock_guard lock(mutex_);
      if (has_failed()) return Waited::ended;
      if (is_interrupted_) return Waited::stopped;
      waits_for_ = message.peer;
      if (!message.failed) {
        waiting_ = &message;
        deadline_ = std::min(steady_clock::now() + timeout_, stop_at_);
        was_late_ = false;
        if (deadline_ == stop_at_) changed_.notify_all();
      }
    }
    bool is_done = false, is_gone = message.failed;
    if (!is_gone) {
      try {
        is_done = message.is_send ? message.buffer->waitSend(nullptr, kForever)
                                  : message.buffer->waitRecv(nullptr, kForever);
      } catch (const std::exception&) {
        is_gone = true;
      }
    }
    std::unique_lock lock(mutex_);
    waiting_ = nullptr;
    if (is_done) {
      waits_for_ = -1;
      return Waited::done;
    }
    if (!is_gone) {
      if (!has_failed() && (is_interrupted_ || steady_clock::now() >= stop_at_)) {
        return Waited::stopped;
      }
      if (!has_failed()) find_cause(message.peer, lock);
      return has_failed() ? Waited::ended : Waited::late;
    }
    // What it said before comes to its thread in any case.
    changed_.wait_for(lock, kLongestBadGoodbye,
                      [&] { return ends_[at(message.peer)].is_heard || has_failed(); });
    return has_failed() ? Waited::ended : Waited::gone;
  }

  void set_deadline(steady_clock::time_point deadline) override {
    const std::lock_guard lock(mutex_);
    stop_at_ = deadline;
    is_interrupted_ = false;
  }

  void interrupt() override {
    const std::lock_guard lock(mutex_);
    is_interrupted_ = true;
    stop_waiting();
  }

  Failure failure() override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  std::int64_t late() override { return late_; }

  bool has_ended_well(std::int64_t peer) override {
    const std::lock_guard lock(mutex_);
    return ends_[at(peer)].said == Word::ended;
  }

  void leave(const Status& status) override {
    if (mesh_ == nullptr) return;
    const WithoutSigpipe guard;
    const auto longest = status.ok() ? std::min(timeout_, kLongestGoodbye) : kLongestBadGoodbye;
    const Word word = last_word(status);
    for (std::size_t peer = 0; peer < ends_.size(); ++peer) {
      if (static_cast<int>(peer) != mesh_->rank) say(static_cast<int>(peer), word);
    }
    {
      // Whoever has answered has read everything before. Closing earlier could lose it.
      std::unique_lock lock(mutex_);
      is_leaving_ = true;
      changed_.wait_for(lock, longest, [&] {
        return std::all_of(ends_.begin(), ends_.end(),
                           [](const End& end) { return end.buffer == nullptr || end.is_heard; });
      });
      changed_.notify_all();
    }
    timer_.join();
    for (End& end : ends_) {
      if (end.buffer == nullptr) continue;
      end.buffer->abortWaitRecv();
      end.thread.join();
    }
    for (End& end : ends_) {
      end.buffer.reset();
      end.said_to.clear();
    }
    mesh_.reset();
  }

 private:
  struct Message final : Transfer {
    std::int64_t peer = 0;
    bool is_send = false, failed = false;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
  };

  struct Said {
    Word word;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
  };
  // What another participant says, and what is said to it.
  struct End {
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
    Word word;
    std::thread thread;
    std::vector<std::unique_ptr<Said>> said_to;  // under mutex_, as what follows
    bool has_last_word = false;                  // ours
    bool is_heard = false;                       // it has said its last word, or can't any more
    std::uint32_t said = Word::none;
    bool has_answered = false;
    std::int64_t waits_for = -1;  // its answer
  };

  static std::uint64_t slot_of(Slot slot) { return static_cast<std::uint64_t>(slot); }
  bool has_failed() const { return !failure_.told.ok() || failure_.lost >= 0; }

  std::unique_ptr<Transfer> start(std::int64_t peer, Slot slot, void* data, std::size_t bytes,
                                  bool is_send) {
    auto message = std::make_unique<Message>();
    message->peer = peer;
    message->is_send = is_send;
    try {
      const WithoutSigpipe guard;
      message->buffer = mesh_->createUnboundBuffer(data, bytes);
      if (is_send) {
        message->buffer->send(static_cast<int>(peer), slot_of(slot), 0, bytes);
      } else {
        message->buffer->recv(static_cast<int>(peer), slot_of(slot), 0, bytes);
      }
    } catch (const std::exception&) {
      message->failed = true;
    }
    return message;
  }

  // Nobody listens after a last word.
  void say(int peer, const Word& word) {
    auto said = std::make_unique<Said>();
    said->word = word;
    const std::lock_guard lock(mutex_);
    End& end = ends_[at(peer)];
    if (end.has_last_word) return;
    end.has_last_word = word.kind < Word::asks;
    try {
      said->buffer = mesh_->createUnboundBuffer(&said->word, sizeof said->word);
      said->buffer->send(peer, slot_of(Slot::words), 0, sizeof said->word);
      end.said_to.push_back(std::move(said));
    } catch (const std::exception&) {
      // It has gone.
    }
  }

  // The thread of another participant: hears what it says, until its last word or the end of its
  // connection.
  void listen_to(int peer) {
    const FloatEnvironment floats;
    End& end = ends_[at(peer)];
    for (;;) {
      bool has_come = false;
      try {
        end.buffer->recv(peer, slot_of(Slot::words), 0, sizeof end.word);
        has_come = end.buffer->waitRecv(nullptr, kForever);
        if (!has_come) return;  // this participant leaves
      } catch (const std::exception&) {
      }
      const Word word = has_come ? end.word : Word();
      if (word.kind == Word::asks || word.kind == Word::ended || word.kind == Word::failed) {
        Word answer;
        answer.kind = word.kind == Word::asks ? Word::answers : Word::understood;
        {
          const std::lock_guard lock(mutex_);
          answer.waits_for = static_cast<std::int32_t>(waits_for_);
        }
        say(peer, answer);
      }
      const std::lock_guard lock(mutex_);
      changed_.notify_all();
      if (word.kind == Word::asks) continue;
      if (word.kind == Word::answers) {
        end.has_answered = true;
        end.waits_for = word.waits_for;
        continue;
      }
      end.is_heard = true;
      end.said = word.kind;
      if (has_failed() || is_leaving_) return;
      if (!has_come) {
        failure_.lost = peer;
      } else if (word.kind == Word::failed) {
        const std::size_t bytes = std::min<std::size_t>(word.bytes, word.text.size());
        failure_.told =
            Status(static_cast<StatusCode>(word.code), std::string(word.text.data(), bytes));
      }
      if (has_failed()) stop_waiting();
      return;
    }
  }

  // Whom those that are waited for wait for: the first that does not answer, or that waits for
  // nobody, is late. `peer` itself where they wait in a circle.
  void find_cause(std::int64_t peer, std::unique_lock<std::mutex>& lock) {
    late_ = peer;
    std::vector<bool> asked(ends_.size());
    for (std::int64_t one = peer; one != mesh_->rank && !asked[at(one)];) {
      asked[at(one)] = true;
      End& end = ends_[at(one)];
      end.has_answered = false;
      lock.unlock();
      Word question;
      question.kind = Word::asks;
      {
        const WithoutSigpipe guard;
        say(static_cast<int>(one), question);
      }
      lock.lock();
      changed_.wait_for(lock, kLongestAnswer,
                        [&] { return end.has_answered || end.is_heard || has_failed(); });
      if (has_failed()) return;
      if (!end.has_answered || end.waits_for < 0) {
        late_ = one;
        return;
      }
      one = std::min<std::int64_t>(end.waits_for, mesh_->size - 1);
    }
  }

  // Under mutex_, so that what is waited for is still there.
  void stop_waiting() {
    if (waiting_ == nullptr) return;
    if (waiting_->is_send) {
      waiting_->buffer->abortWaitSend();
    } else {
      waiting_->buffer->abortWaitRecv();
    }
  }

  // Waits begin at any time, and last for the time-out at least: nobody has to wake this up for
  // them, but for those with a deadline of the caller's.
  void watch_time() {
    std::unique_lock lock(mutex_);
    while (!is_leaving_) {
      const auto now = steady_clock::now();
      if (waiting_ != nullptr && !was_late_ && now >= deadline_) {
        was_late_ = true;
        stop_waiting();
      }
      const bool is_ahead = waiting_ != nullptr && !was_late_;
      changed_.wait_until(lock, is_ahead ? deadline_ : now + timeout_);
    }
  }

  std::shared_ptr<Mesh> mesh_;
  const milliseconds timeout_;
  std::mutex mutex_;  // guards what follows, where it says so
  std::condition_variable changed_;
  std::vector<End> ends_;
  std::thread timer_;
  Message* waiting_ = nullptr;
  steady_clock::time_point deadline_;
  steady_clock::time_point stop_at_ = steady_clock::time_point::max();  // the caller's
  bool is_interrupted_ = false;
  std::int64_t waits_for_ = -1;  // whom this participant waits for, or has given up
  std::int64_t late_ = -1;
  bool was_late_ = false, is_leaving_ = false;
  Failure failure_;
};

// The first address of this machine's name that can be bound to, as numbers; loopback without one.
std::string address_of_host() {
  std::array<char, 256> name{};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::gethostname(name.data(), name.size() - 1) != 0 ||
      ::getaddrinfo(name.data(), nullptr, &hints, &found) != 0) {
    return "127.0.0.1";
  }
  std::string address = "127.0.0.1";
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const Socket socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    std::array<char, NI_MAXHOST> text{};
    if (!socket || ::bind(socket.fd(), one->ai_addr, one->ai_addrlen) != 0 ||
        ::getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) != 0) {
      continue;
    }
    address = text.data();
    break;
  }
  ::freeaddrinfo(found);
  return address;
}

Result<std::shared_ptr<gloo::transport::Device>> make_device(const Membership& membership,
                                                             const std::string& address) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = membership.interface_name;
  if (attributes.iface.empty()) {
    attributes.hostname = address;
  } else if (::if_nametoindex(attributes.iface.c_str()) == 0) {
    return invalid_argument(
        fmt::format("PLIMSOLL_COLLECTIVE_INTERFACE: there is no network interface '{}' (`ip "
                    "address` lists them)",
                    attributes.iface));
  }
  try {
    const WithoutSigpipe guard;
    return gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& error) {
    return unavailable(
        fmt::format("network interface '{}': {} (PLIMSOLL_COLLECTIVE_INTERFACE names one with an "
                    "address, as `ip address` lists them)",
                    attributes.iface.empty() ? address : attributes.iface, error.what()));
  }
}

// World size, then each address with its length before it.
std::string write_addresses(std::int64_t world_size,
                            const std::vector<std::vector<char>>& addresses) {
  std::string text = fmt::format("{}\n", world_size);
  for (const auto& address : addresses) {
    text += static_cast<char>(address.size());
    text.append(address.begin(), address.end());
  }
  return text;
}

Result<std::vector<char>> read_address(const std::string& text, std::int64_t peer,
                                       const Membership& membership) {
  const std::size_t line = text.find('\n');
  if (text.substr(0, line) != std::to_string(membership.world_size)) {
    return failed_precondition(fmt::format(
        "participant {} says that there are {} participants, participant {} that there are {} "
        "(WORLD_SIZE is the same for all)",
        peer, text.substr(0, std::min<std::size_t>(line, 20)), membership.rank,
        membership.world_size));
  }
  std::size_t place = line + 1;
  for (std::int64_t i = 0; place < text.size(); ++i) {
    const auto bytes = static_cast<unsigned char>(text[place++]);
    if (place + bytes > text.size()) break;
    if (i == membership.rank)
      return std::vector<char>(text.data() + place, text.data() + place + bytes);
    place += bytes;
  }
  return internal_error(fmt::format("participant {} left no address", peer));
}

// As Gloo writes addresses: a sockaddr_storage.
bool is_loopback_address(const std::vector<char>& bytes) {
  sockaddr_storage address{};
  std::memcpy(&address, bytes.data(), std::min(bytes.size(), sizeof address));
  if (address.ss_family == AF_INET) {
    sockaddr_in four;
    std::memcpy(&four, &address, sizeof four);
    return (ntohl(four.sin_addr.s_addr) >> 24) == 127;
  }
  sockaddr_in6 six;
  std::memcpy(&six, &address, sizeof six);
  return IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
}

Deadline deadline_of(const Membership& membership) {
  return steady_clock::now() +
         std::chrono::duration_cast<steady_clock::duration>(membership.timeout);
}

Status not_there(const Membership& membership, std::int64_t peer, const Status& why) {
  return Status(
      why.code(),
      fmt::format("participant {} waits at {} for {} participants, but participant {} has "
                  "not come within {} s: {} (PLIMSOLL_COLLECTIVE_TIMEOUT sets the time)",
                  membership.rank, membership.where(), membership.world_size, peer,
                  membership.timeout.count(), why.message()));
}

Status connect_all(const Membership& membership, Mesh& mesh, Store& store,
                   const std::vector<std::vector<char>>& own, Deadline deadline) {
  // All addresses first: connecting waits for the other one, who may itself wait for one that never
  // comes, and is to be named.
  std::vector<std::vector<char>> addresses(at(membership.world_size));
  for (std::int64_t peer = 0; peer < membership.world_size; ++peer) {
    if (peer == membership.rank) continue;
    const Result<std::string> text = store.get(fmt::format("participant-{}", peer), deadline);
    if (!text.ok()) return not_there(membership, peer, text.status());
    PLIMSOLL_ASSIGN_OR_RETURN(addresses[at(peer)], read_address(*text, peer, membership));
    const std::vector<char>& address = addresses[at(peer)];
    if (is_loopback_address(address) != is_loopback_address(own[at(peer)])) {
      const bool theirs = is_loopback_address(address);
      return unavailable(
          fmt::format("participant {} listens at a loopback address and participant {} elsewhere "
                      "(PLIMSOLL_COLLECTIVE_INTERFACE names the network interface of each host)",
                      theirs ? peer : membership.rank, theirs ? membership.rank : peer));
    }
  }
  for (std::int64_t peer = 0; peer < membership.world_size; ++peer) {
    if (peer == membership.rank) continue;
    try {
      const WithoutSigpipe guard;
      mesh.getPair(static_cast<int>(peer))->connect(addresses[at(peer)]);
    } catch (const std::exception& error) {
      return not_there(membership, peer, unavailable(error.what()));
    }
  }
  return ok_status();
}

}  // namespace

Result<std::unique_ptr<Peers>> connect_peers(const Membership& membership, Store& store,
                                             Deadline deadline) {
  const auto timeout = std::chrono::duration_cast<milliseconds>(membership.timeout);
  std::string address = store.local_address();
  if (address.empty()) address = address_of_host();
  PLIMSOLL_ASSIGN_OR_RETURN(auto device, make_device(membership, address));
  std::shared_ptr<Mesh> mesh;
  std::vector<std::vector<char>> own;
  try {
    const WithoutSigpipe guard;
    mesh = std::make_shared<Mesh>(static_cast<int>(membership.rank),
                                  static_cast<int>(membership.world_size));
    own = mesh->listen(std::move(device), timeout);
  } catch (const std::exception& error) {
    return unavailable(fmt::format("listening at {}: {}", address, error.what()));
  }
  const Status set = store.set(fmt::format("participant-{}", membership.rank),
                               write_addresses(membership.world_size, own), deadline);
  if (set.code() == StatusCode::already_exists) {
    return Status(set.code(),
                  fmt::format("participant {} comes to {} twice: {} (every process has a "
                              "RANK of its own)",
                              membership.rank, membership.where(), set.message()));
  }
  PLIMSOLL_RETURN_IF_ERROR(set);
  PLIMSOLL_RETURN_IF_ERROR(connect_all(membership, *mesh, store, own, deadline));
  return std::unique_ptr<Peers>(
      std::make_unique<GlooPeers>(std::move(mesh), std::max(milliseconds(1), timeout)));
}

Result<std::unique_ptr<ProcessCommunicator>> connect_gloo(const Membership& membership) {
  const Deadline deadline = deadline_of(membership);
  PLIMSOLL_ASSIGN_OR_RETURN(const MeetingStore meeting, open_meeting_store(membership, deadline));
  return connect_gloo(membership, *meeting.store);
}

Result<std::unique_ptr<ProcessCommunicator>> connect_gloo(const Membership& membership,
                                                          Store& store) {
  PLIMSOLL_ASSIGN_OR_RETURN(std::unique_ptr<Peers> peers,
                            connect_peers(membership, store, deadline_of(membership)));
  auto communicator = std::make_unique<ProcessCommunicator>(
      std::move(peers), membership.rank, membership.world_size, membership.timeout);
  // Nobody needs the rendezvous once all have come here.
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < membership.world_size; ++i) all.push_back(i);
  const std::string what = fmt::format("the start of {} participants", membership.world_size);
  const std::vector<device::Rows> nothing(all.size());
  PLIMSOLL_RETURN_IF_ERROR(
      communicator->exchange({what, all, at(membership.rank)}, nothing, nothing));
  store.clear();
  PLIMSOLL_RETURN_IF_ERROR(communicator->measure_speeds());
  PLIMSOLL_RETURN_IF_ERROR(communicator->count_here(machine_hash()));
  return communicator;
}

}  // namespace plimsoll::collectives
