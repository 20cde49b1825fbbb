// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/processes.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

namespace plimsoll::pjrt {
namespace {

using namespace abi;

// How long others may take to start.
constexpr double kStartSeconds = 300;

// Closes what it has.
class Socket {
 public:
  explicit Socket(int handle) : handle_(handle) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (handle_ >= 0) (void)close(handle_);
  }
  int handle() const { return handle_; }

 private:
  const int handle_;
};

// The address from which this machine reaches a host, as numbers.
std::optional<std::string> address_towards(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    // Nothing is sent: the address is what routes say.
    const Socket socket(::socket(one->ai_family, one->ai_socktype, one->ai_protocol));
    if (socket.handle() < 0 || ::connect(socket.handle(), one->ai_addr, one->ai_addrlen) != 0) {
      continue;
    }
    sockaddr_storage own = {};
    socklen_t size = sizeof own;
    char text[NI_MAXHOST];
    if (getsockname(socket.handle(), reinterpret_cast<sockaddr*>(&own), &size) != 0 ||
        getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) != 0) {
      continue;
    }
    return one->ai_family == AF_INET6 ? "[" + std::string(text) + "]" : std::string(text);
  }
  return std::nullopt;
}

// A port that nobody has; whoever asks the system for any may get it before it is used.
std::optional<int> free_port() {
  const Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  socklen_t size = sizeof any;
  if (socket.handle() < 0 ||
      bind(socket.handle(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 ||
      getsockname(socket.handle(), reinterpret_cast<sockaddr*>(&any), &size) != 0) {
    return std::nullopt;
  }
  return ntohs(any.sin_port);
}

// A framework's error from its store is made by this.
Error* make_callback_error(Code code, const char* message, std::size_t size) {
  return make_error(code, std::string_view(message, size));
}

// As many clients as a process has had, which is the same for all that make theirs together.
std::string next_prefix(std::int64_t process) {
  static std::mutex mutex;
  static std::map<std::int64_t, int> clients;
  const std::lock_guard lock(mutex);
  return "plimsoll/" + std::to_string(clients[process]++) + "/";
}

}  // namespace

Processes::Processes(std::int64_t index, std::int64_t count, const Store& store,
                     std::string coordinator)
    : index_(index),
      count_(count),
      store_(store),
      coordinator_(coordinator.empty() ? "localhost" : std::move(coordinator)),
      prefix_(next_prefix(index)) {}

Error* Processes::put(const std::string& key, std::string_view value) const {
  KeyValuePut_Args args = {};
  args.struct_size = sizeof args;
  args.key = key.data();
  args.key_size = key.size();
  args.value = value.data();
  args.value_size = value.size();
  args.make_error = make_callback_error;
  args.user = store_.put_user;
  return store_.put(&args);
}

Error* Processes::get(const std::string& key, double seconds, std::string& value) const {
  KeyValueGet_Args args = {};
  args.struct_size = sizeof args;
  args.key = key.data();
  args.key_size = key.size();
  args.timeout_milliseconds = static_cast<int>(seconds * 1e3);
  args.make_error = make_callback_error;
  args.user = store_.get_user;
  PLIMSOLL_PJRT_RETURN_IF_ERROR(store_.get(&args));
  value.assign(args.value, args.value_size);
  if (args.delete_value != nullptr) args.delete_value(args.value);
  return nullptr;
}

Error* Processes::exchange(std::string_view own, std::vector<std::string>& all) {
  PLIMSOLL_PJRT_RETURN_IF_ERROR(put(prefix_ + "devices/" + std::to_string(index_), own));
  all.resize(static_cast<std::size_t>(count_));
  for (std::int64_t i = 0; i < count_; ++i) {
    std::string& one = all[static_cast<std::size_t>(i)];
    const std::unique_ptr<Error, DestroyError> error(
        get(prefix_ + "devices/" + std::to_string(i), kStartSeconds, one));
    if (error == nullptr) continue;
    return make_error(error->code, "process " + std::to_string(i) + " of " +
                                       std::to_string(count_) +
                                       " has not said what devices it has: " + error->message);
  }
  return nullptr;
}

Error* Processes::rendezvous(const std::string& key, bool is_first, std::string& out) const {
  if (!is_first) return get(key, kStartSeconds, out);
  const auto address = address_towards(coordinator_);
  const auto port = free_port();
  if (!address || !port) {
    return make_error(kFailedPrecondition, "this machine has no address towards '" + coordinator_ +
                                               "', the coordinator's host");
  }
  out = "tcp://" + *address + ":" + std::to_string(*port);
  return put(key, out);
}

Error* Processes::connect(const std::vector<std::int64_t>& devices,
                          const std::vector<std::int64_t>& processes, const Communicators*& out) {
  std::string name;
  for (const std::int64_t device : devices) name += std::to_string(device) + ",";
  const std::lock_guard lock(mutex_);
  if (const auto found = connected_.find(name); found != connected_.end()) {
    out = &found->second;
    return nullptr;
  }
  std::string address;
  PLIMSOLL_PJRT_RETURN_IF_ERROR(
      rendezvous(prefix_ + "participants/" + name, processes[0] == index_, address));
  std::vector<std::int64_t> own;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (processes[i] == index_) own.push_back(static_cast<std::int64_t>(i));
  }
  Communicators made(own.size());
  std::vector<std::unique_ptr<Error, DestroyError>> errors(own.size());
  // Each waits for all others, those of this process among them.
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < own.size(); ++i) {
    threads.emplace_back([&, i] {
      plm_communicator_options options = {};
      options.struct_size = sizeof options;
      options.rank = own[i];
      options.world_size = static_cast<std::int64_t>(devices.size());
      options.rendezvous = address.c_str();
      plm_communicator* one = nullptr;
      errors[i].reset(from_status(plm_communicator_connect(&options, &one)));
      made[i].reset(one);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& error : errors) {
    if (error != nullptr) return error.release();
  }
  out = &connected_.emplace(std::move(name), std::move(made)).first->second;
  return nullptr;
}

}  // namespace plimsoll::pjrt
