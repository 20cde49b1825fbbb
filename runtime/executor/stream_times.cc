// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/stream_times.h"

#include <utility>

namespace plimsoll::executor {
namespace {

// So many pieces keep their events before they are read.
constexpr std::size_t kMostOpen = 1024;

}  // namespace

Result<std::unique_ptr<device::Event>> StreamTimes::record() {
  std::unique_ptr<device::Event> event;
  if (free_.empty()) {
    PLIMSOLL_ASSIGN_OR_RETURN(event, device_.create_event());
  } else {
    event = std::move(free_.back());
    free_.pop_back();
  }
  PLIMSOLL_RETURN_IF_ERROR(stream_.record(*event));
  return event;
}

Status StreamTimes::open() {
  PLIMSOLL_ASSIGN_OR_RETURN(origin_, record());
  PLIMSOLL_RETURN_IF_ERROR(origin_->wait());
  host_origin_ = std::chrono::steady_clock::now();
  return ok_status();
}

Status StreamTimes::begin() {
  PLIMSOLL_ASSIGN_OR_RETURN(begin_, record());
  return ok_status();
}

Status StreamTimes::end(const Span& what) {
  PLIMSOLL_ASSIGN_OR_RETURN(auto behind, record());
  open_.push_back({std::move(begin_), std::move(behind), what});
  return open_.size() < kMostOpen ? ok_status() : read();
}

Status StreamTimes::read() {
  if (open_.empty()) return ok_status();
  PLIMSOLL_RETURN_IF_ERROR(open_.back().end->wait());
  for (Open& one : open_) {
    PLIMSOLL_ASSIGN_OR_RETURN(one.span.start, one.begin->seconds_since(*origin_));
    PLIMSOLL_ASSIGN_OR_RETURN(one.span.end, one.end->seconds_since(*origin_));
    read_.push_back(one.span);
    free_.push_back(std::move(one.begin));
    free_.push_back(std::move(one.end));
  }
  open_.clear();
  return ok_status();
}

Result<std::vector<StreamTimes::Span>> StreamTimes::spans() {
  PLIMSOLL_RETURN_IF_ERROR(read());
  return std::exchange(read_, {});
}

}  // namespace plimsoll::executor
