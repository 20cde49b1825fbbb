// SPDX-License-Identifier: Apache-2.0
#include "collectives/membership.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "runtime/base/environment.h"

namespace plimsoll::collectives {
namespace {

constexpr std::int64_t kMostProcesses = 4096;

Status not_understood(std::string_view name, std::string_view text, std::string_view remedy) {
  return invalid_argument(fmt::format(
      "{}: {} ({})", name, text.empty() ? "not set" : fmt::format("'{}'", text), remedy));
}

Result<std::int64_t> launchers_number(const char* name, std::int64_t least, std::int64_t most) {
  const char* const set = std::getenv(name);
  const std::string_view text = set == nullptr ? "" : set;
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || stop != text.data() + text.size() || value < least ||
      value > most) {
    return not_understood(name, text,
                          fmt::format("a number from {} to {}; launchers set it, `plimsoll launch` "
                                      "among them",
                                      least, most));
  }
  return value;
}

// Given, or of a launcher.
Result<std::int64_t> number_of(const char* name, std::optional<std::int64_t> given,
                               std::int64_t least, std::int64_t most) {
  if (!given) return launchers_number(name, least, most);
  if (*given >= least && *given <= most) return *given;
  return not_understood(name, std::to_string(*given),
                        fmt::format("a number from {} to {}", least, most));
}

Status read_rendezvous(std::string_view text, Membership& membership) {
  constexpr std::string_view kFile = "file://", kTcp = "tcp://";
  const auto wrong = [&] {
    return not_understood("PLIMSOLL_RENDEZVOUS", text, "tcp://HOST:PORT or file:///FOLDER");
  };
  if (text.starts_with(kFile)) {
    membership.folder = text.substr(kFile.size());
    return membership.folder.starts_with('/') ? ok_status() : wrong();
  }
  if (!text.starts_with(kTcp)) return wrong();
  std::string_view rest = text.substr(kTcp.size());
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return wrong();
  const std::string_view port = rest.substr(colon + 1);
  const auto [stop, error] =
      std::from_chars(port.data(), port.data() + port.size(), membership.port);
  if (error != std::errc() || stop != port.data() + port.size() || membership.port < 1 ||
      membership.port > 65535) {
    return wrong();
  }
  rest = rest.substr(0, colon);
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  membership.host = rest;
  return ok_status();
}

}  // namespace

std::string Membership::where() const {
  return folder.empty() ? fmt::format("tcp://{}:{}", host, port) : "file://" + folder;
}

Result<std::chrono::duration<double>> collective_timeout(double given_seconds) {
  double seconds = given_seconds;
  if (seconds == 0) {
    PLIMSOLL_ASSIGN_OR_RETURN(seconds, number_variable(Variable::collective_timeout));
  }
  if (!(seconds > 0)) {
    return not_understood(given_seconds == 0 ? "PLIMSOLL_COLLECTIVE_TIMEOUT" : "timeout_seconds",
                          fmt::format("{}", seconds), "seconds above zero");
  }
  return std::chrono::duration<double>(std::fmin(seconds, 1e6));
}

Result<Membership> read_membership(const GivenMembership& given) {
  Membership membership;
  PLIMSOLL_ASSIGN_OR_RETURN(membership.world_size,
                            number_of("WORLD_SIZE", given.world_size, 1, kMostProcesses));
  PLIMSOLL_ASSIGN_OR_RETURN(membership.rank,
                            number_of("RANK", given.rank, 0, membership.world_size - 1));
  PLIMSOLL_ASSIGN_OR_RETURN(membership.timeout, collective_timeout(given.timeout_seconds));
  membership.interface_name = variable_text(Variable::collective_interface).text;
  const std::string where =
      given.rendezvous.empty() ? variable_text(Variable::rendezvous).text : given.rendezvous;
  if (!where.empty()) {
    PLIMSOLL_RETURN_IF_ERROR(read_rendezvous(where, membership));
    return membership;
  }
  const char* const host = std::getenv("MASTER_ADDR");
  if (host == nullptr || *host == '\0') {
    return not_understood("MASTER_ADDR", "",
                          "the host of participant 0; launchers set it, `plimsoll launch` among "
                          "them, or set PLIMSOLL_RENDEZVOUS");
  }
  membership.host = host;
  PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t port, launchers_number("MASTER_PORT", 1, 65535));
  membership.port = static_cast<int>(port);
  return membership;
}

Result<MeetingStore> open_meeting_store(const Membership& membership, Deadline deadline) {
  MeetingStore meeting;
  if (!membership.folder.empty()) {
    PLIMSOLL_ASSIGN_OR_RETURN(meeting.store, open_file_store(membership.folder));
    return meeting;
  }
  int port = membership.port;
  if (membership.rank == 0) {
    PLIMSOLL_ASSIGN_OR_RETURN(meeting.server, StoreServer::create(membership.host, port));
    port = meeting.server->port();
  }
  PLIMSOLL_ASSIGN_OR_RETURN(meeting.store, connect_store(membership.host, port, deadline));
  return meeting;
}

}  // namespace plimsoll::collectives
