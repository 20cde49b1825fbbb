// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/socket.h"
#include "runtime/base/index.h"
#include "tools/command.h"
#include "tools/group_guard.h"

namespace plimsoll::tools {
namespace {

using collectives::Socket;
using std::chrono::steady_clock;

// After a failure the others may say by themselves what it meant to them; then they are asked to
// end, and then ended. Those that a signal has come to from outside have longer: they may have
// something to write.
constexpr std::chrono::milliseconds kLastWords(500);
constexpr std::chrono::seconds kGrace(5), kGraceOfSignals(30);
// Output of descendants that have outlived all of a rank's processes is not waited for longer.
constexpr std::chrono::milliseconds kLastOutput(500);
// What is longer goes on in pieces, each as a line.
constexpr std::size_t kLongestLine = 64 << 10;

struct LaunchFlags {
  int processes = 0;
  std::string communicator = "gloo";
  std::vector<std::string> command;
};

// One of the two outputs of a rank: whole lines go on, with its number before each.
struct Pipe {
  Socket end;
  int to = 1;
  std::string line;
  bool after_return = false;  // a carriage return was the last that came
  int error = 0;  // why something could not be passed on; a reader that has gone is no error
};

struct Rank {
  int number = 0;
  pid_t pid = -1;
  bool runs = false;
  int status = 0;
  std::array<Pipe, 2> pipes;
};

// 0, or the error; the ranks go on in any case.
int write_all(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(to, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno == EPIPE ? 0 : errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

void put(Pipe& pipe, std::string_view text) {
  const int error = write_all(pipe.to, text);
  if (pipe.error == 0) pipe.error = error;
}

// With what ends it: a line feed, a carriage return, as progress bars have it, or both.
void put_line(int rank, Pipe& pipe, std::string_view line) {
  const bool is_ended = line.ends_with('\n') || line.ends_with('\r');
  put(pipe, fmt::format("[{}] {}{}", rank, line, is_ended ? "" : "\n"));
}

void put_rest(int rank, Pipe& pipe) {
  if (!pipe.line.empty()) put_line(rank, pipe, pipe.line);
  pipe.line.clear();
}

// Reads what there is; at the end what is left is a line, too.
void pass_on(int rank, Pipe& pipe) {
  std::array<char, 1 << 16> buffer;
  const ssize_t got = ::read(pipe.end.fd(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    put_rest(rank, pipe);
    pipe.end.reset();
    return;
  }
  std::string_view text(buffer.data(), static_cast<std::size_t>(got));
  if (std::exchange(pipe.after_return, text.back() == '\r') && text.front() == '\n') {
    put(pipe, "\n");
    text.remove_prefix(1);
  }
  for (;;) {
    const std::size_t end = text.find_first_of("\r\n");
    if (end == std::string_view::npos) break;
    const std::size_t size = text.substr(end).starts_with("\r\n") ? end + 2 : end + 1;
    pipe.line.append(text.substr(0, size));
    put_rest(rank, pipe);
    text.remove_prefix(size);
  }
  pipe.line.append(text);
  if (pipe.line.size() >= kLongestLine) put_rest(rank, pipe);
}

// A port that stays this process's until it ends, and that a server that allows reuse may listen
// on.
struct ReservedPort {
  Socket socket;
  int port = 0;
};

ReservedPort reserve_port() {
  ReservedPort reserved{Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), 0};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int on = 1;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  ::setsockopt(reserved.socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (reserved.socket && ::bind(reserved.socket.fd(), any, size) == 0 &&
      ::getsockname(reserved.socket.fd(), any, &size) == 0) {
    reserved.port = ntohs(address.sin_port);
  }
  return reserved;
}

// What the child becomes. Only calls that are safe between fork and exec.
[[noreturn]] void become(char* const* arguments, char* const* environment, int in, int out,
                         int error, const sigset_t& signals, pid_t parent) {
  ::setpgid(0, 0);  // so that its own children can be ended with it
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  ::signal(SIGPIPE, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  if (in >= 0) ::dup2(in, 0);
  ::dup2(out, 1);
  ::dup2(error, 2);
  ::execvpe(arguments[0], arguments, environment);
  const char* const reason = ::strerror(errno);
  for (const char* part : std::initializer_list<const char*>{arguments[0], ": ", reason, "\n"}) {
    if (::write(2, part, std::strlen(part)) < 0) break;
  }
  ::_exit(127);
}

std::vector<std::string> environment_of(int rank, const LaunchFlags& flags, int port) {
  const int ranks = flags.processes;
  std::vector<std::pair<std::string, std::string>> set{
      {"RANK", std::to_string(rank)},
      {"LOCAL_RANK", std::to_string(rank)},
      {"WORLD_SIZE", std::to_string(ranks)},
      {"LOCAL_WORLD_SIZE", std::to_string(ranks)},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(port)},
      {"PLIMSOLL_COMMUNICATOR", flags.communicator}};
  // Each takes the GPU of its number.
  const char* const device = std::getenv("PLIMSOLL_DEVICE");
  if (flags.communicator == "nccl" && (device == nullptr || *device == '\0')) {
    set.emplace_back("PLIMSOLL_DEVICE", "cuda");
  }
  std::vector<std::string> all;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view text(*one);
    const auto is_set = [&](const auto& variable) {
      return text.starts_with(variable.first + "=");
    };
    // The rendezvous is this command's.
    if (std::any_of(set.begin(), set.end(), is_set) || text.starts_with("PLIMSOLL_RENDEZVOUS="))
      continue;
    all.emplace_back(text);
  }
  for (const auto& [name, value] : set) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers_of(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

Status start(Rank& rank, const LaunchFlags& flags, int port, const sigset_t& signals) {
  std::array<Socket, 2> ends;
  // Standard input is the first one's.
  const Socket nothing(rank.number == 0 ? -1 : ::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (std::size_t i = 0; i < 2; ++i) {
    int pipe[2];
    if (::pipe2(pipe, O_CLOEXEC) != 0) return unavailable(std::strerror(errno));
    rank.pipes[i].end = Socket(pipe[0]);
    rank.pipes[i].to = static_cast<int>(i) + 1;
    ::fcntl(pipe[0], F_SETFL, O_NONBLOCK);
    ends[i] = Socket(pipe[1]);
  }
  std::vector<std::string> environment = environment_of(rank.number, flags, port);
  std::vector<std::string> command = flags.command;
  const std::vector<char*> arguments = pointers_of(command), variables = pointers_of(environment);
  const pid_t parent = ::getpid();
  rank.pid = ::fork();
  if (rank.pid < 0) return unavailable(std::strerror(errno));
  if (rank.pid == 0) {
    become(arguments.data(), variables.data(), nothing.fd(), ends[0].fd(), ends[1].fd(), signals,
           parent);
  }
  ::setpgid(rank.pid, rank.pid);  // whoever of the two comes first
  rank.runs = true;
  return ok_status();
}

std::string how_it_ended(int status) {
  if (WIFEXITED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  return fmt::format("was ended by signal {} ({})", WTERMSIG(status),
                     ::strsignal(WTERMSIG(status)));
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// Runs until all ranks have ended; signals that come to this process go to all of them.
class Launch {
 public:
  Launch(const LaunchFlags& flags, Socket signals)
      : flags_(flags), signals_(std::move(signals)), guard_(at(flags.processes)) {
    ranks_.resize(at(flags.processes));
  }
  ~Launch() { signal_all(SIGKILL); }

  Outcome run(int port, const sigset_t& signals_before) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      ranks_[i].number = static_cast<int>(i);
      const Status status = start(ranks_[i], flags_, port, signals_before);
      if (!status.ok()) {
        return Outcome::call_fault(status.with_context(fmt::format("starting rank {}", i)));
      }
      guard_.has_started(ranks_[i].pid);
    }
    while (!is_over()) step();
    for (Rank& rank : ranks_) {
      for (Pipe& pipe : rank.pipes) put_rest(rank.number, pipe);
    }
    if (!failed_) return check_output();
    const Rank& rank = ranks_[*failed_];
    return Outcome::with_code(Status(StatusCode::aborted, fmt::format("rank {} {}", rank.number,
                                                                      how_it_ended(rank.status))),
                              code_of(rank.status));
  }

 private:
  bool any_runs() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.runs; });
  }

  // Whether all was printed that the ranks have printed.
  Outcome check_output() const {
    for (const Rank& rank : ranks_) {
      for (const Pipe& pipe : rank.pipes) {
        if (pipe.error == 0) continue;
        return Outcome::call_fault(unavailable(fmt::format(
            "what rank {} printed cannot be written: {}", rank.number, std::strerror(pipe.error))));
      }
    }
    return {};
  }

  bool is_over() const {
    if (any_runs()) return false;
    const bool is_read = std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
      return !rank.pipes[0].end && !rank.pipes[1].end;
    });
    return is_read || steady_clock::now() >= all_ended_ + kLastOutput;
  }

  void step() {
    std::vector<pollfd> polled{{signals_.fd(), POLLIN, 0}};
    std::vector<std::pair<Rank*, Pipe*>> pipes;
    for (Rank& rank : ranks_) {
      for (Pipe& pipe : rank.pipes) {
        if (!pipe.end) continue;
        polled.push_back({pipe.end.fd(), POLLIN, 0});
        pipes.emplace_back(&rank, &pipe);
      }
    }
    const bool waits = ask_at_ || kill_at_ || !any_runs();
    ::poll(polled.data(), polled.size(), waits ? 50 : -1);
    for (std::size_t i = 0; i < pipes.size(); ++i) {
      if (polled[i + 1].revents != 0) pass_on(pipes[i].first->number, *pipes[i].second);
    }
    if (polled[0].revents != 0) read_signals();
    if (ask_at_ && steady_clock::now() >= *ask_at_) {
      signal_all(SIGTERM);
      ask_at_.reset();
      kill_at_ = steady_clock::now() + kGrace;
    }
    if (kill_at_ && steady_clock::now() >= *kill_at_) {
      signal_all(SIGKILL);
      kill_at_.reset();
    }
  }

  void read_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.fd(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo != SIGCHLD) {
        signal_all(static_cast<int>(info.ssi_signo));
        if (!kill_at_) kill_at_ = steady_clock::now() + kGraceOfSignals;
      }
    }
    std::optional<std::size_t> failed;
    for (Rank& rank : ranks_) {
      if (!rank.runs || ::waitpid(rank.pid, &rank.status, WNOHANG) != rank.pid) continue;
      rank.runs = false;
      // What it has started itself goes with it.
      ::kill(-rank.pid, SIGKILL);
      guard_.has_ended(rank.pid);
      all_ended_ = steady_clock::now();
      if (code_of(rank.status) == 0) continue;
      // Of several at once, one that was killed is the likelier cause.
      if (!failed || (WIFSIGNALED(rank.status) && WIFEXITED(ranks_[*failed].status))) {
        failed = at(rank.number);
      }
    }
    if (!failed || failed_) return;
    failed_ = failed;
    if (!ask_at_ && !kill_at_) ask_at_ = steady_clock::now() + kLastWords;
  }

  void signal_all(int signal) {
    for (const Rank& rank : ranks_) {
      if (!rank.runs) continue;
      ::kill(-rank.pid, signal);
      if (signal != SIGKILL) ::kill(-rank.pid, SIGCONT);  // one that is stopped hears it, too
    }
  }

  const LaunchFlags& flags_;
  Socket signals_;
  GroupGuard guard_;
  std::vector<Rank> ranks_;
  std::optional<std::size_t> failed_;  // the first
  std::optional<steady_clock::time_point> ask_at_, kill_at_;
  steady_clock::time_point all_ended_;
};

Outcome launch(const LaunchFlags& flags) {
  const ReservedPort reserved = reserve_port();
  if (reserved.port == 0) {
    return Outcome::call_fault(
        unavailable(fmt::format("no free port at 127.0.0.1: {}", std::strerror(errno))));
  }
  sigset_t handled, before;
  sigemptyset(&handled);
  sigaddset(&handled, SIGCHLD);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    // What this process ignores (`nohup`, scripts in the background) is ignored by the ranks, too.
    struct sigaction now{};
    ::sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&handled, signal);
  }
  ::sigprocmask(SIG_BLOCK, &handled, &before);
  ::signal(SIGPIPE, SIG_IGN);
  Socket signals(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return Outcome::call_fault(unavailable(std::strerror(errno)));
  return Launch(flags, std::move(signals)).run(reserved.port, before);
}

}  // namespace

void add_launch(Commands& commands) {
  const auto flags = std::make_shared<LaunchFlags>();
  CLI::App* command = commands.app.add_subcommand(
      "launch", "Run a command in several processes of this machine, as participants of a program");
  command->add_option("-n,--processes", flags->processes, "How many")
      ->required()
      ->check(CLI::Range(1, 4096));
  command
      ->add_option("--communicator", flags->communicator,
                   "How they meet: gloo, or nccl, each on the GPU of its number")
      ->check(CLI::IsMember({"gloo", "nccl"}));
  command->prefix_command();
  command->footer(
      "The command and its arguments stand behind `--`: plimsoll launch -n 4 -- COMMAND ...");
  command->callback([&commands, command, flags] {
    flags->command = command->remaining();
    if (!flags->command.empty() && flags->command.front().starts_with('-')) {
      throw CLI::ExtrasError("launch", {flags->command.front()});
    }
    if (flags->command.empty()) {
      throw CLI::RequiredError("A command behind `plimsoll launch -n N --`");
    }
    commands.action = [flags](Output&) { return launch(*flags); };
  });
}

}  // namespace plimsoll::tools
