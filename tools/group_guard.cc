// SPDX-License-Identifier: Apache-2.0
#include "tools/group_guard.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <vector>

namespace plimsoll::tools {
namespace {

using collectives::Socket;

[[noreturn]] void watch(int in, std::vector<pid_t>& groups) {
  ::setsid();  // out of reach of the terminal
  // Nothing is kept open that somebody waits for the end of.
  ::dup2(in, 0);
  ::close_range(1, ~0U, 0);
  for (pid_t told; ::read(0, &told, sizeof told) == static_cast<ssize_t>(sizeof told);) {
    if (told > 0) {
      groups.push_back(told);
    } else {
      std::erase(groups, -told);
    }
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
  ::_exit(0);
}

}  // namespace

GroupGuard::GroupGuard(std::size_t most) {
  std::vector<pid_t> groups;
  groups.reserve(most);
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return;
  const Socket in(pipe[0]);
  told_ = Socket(pipe[1]);
  pid_ = ::fork();
  if (pid_ == 0) watch(in.fd(), groups);
}

GroupGuard::~GroupGuard() {
  told_.reset();
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

void GroupGuard::tell(pid_t what) {
  // As little as a pipe takes whole.
  while (told_ && ::write(told_.fd(), &what, sizeof what) < 0 && errno == EINTR) {
  }
}

}  // namespace plimsoll::tools
