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

Status StreamTimes::end(std::span<const Span> parts) {
  PLIMSOLL_ASSIGN_OR_RETURN(auto behind, record());
  parts_.insert(parts_.end(), parts.begin(), parts.end());
  open_.push_back({std::move(begin_), std::move(behind), parts_.size()});
  return open_.size() < kMostOpen ? ok_status() : read();
}

Status StreamTimes::read() {
  if (open_.empty()) return ok_status();
  PLIMSOLL_RETURN_IF_ERROR(open_.back().end->wait());
  std::size_t part = 0;
  for (Open& one : open_) {
    PLIMSOLL_ASSIGN_OR_RETURN(const double start, one.begin->seconds_since(*origin_));
    PLIMSOLL_ASSIGN_OR_RETURN(const double end, one.end->seconds_since(*origin_));
    double shares = 0;
    for (std::size_t i = part; i < one.last_part; ++i) shares += parts_[i].share;
    double next = start;
    for (; part < one.last_part; ++part) {
      Span& span = read_.emplace_back(parts_[part]);
      span.start = next;
      next += shares > 0 ? (end - start) * span.share / shares : 0;
      span.end = next;
    }
    free_.push_back(std::move(one.begin));
    free_.push_back(std::move(one.end));
  }
  open_.clear();
  parts_.clear();
  return ok_status();
}

Result<std::vector<StreamTimes::Span>> StreamTimes::spans() {
  PLIMSOLL_RETURN_IF_ERROR(read());
  return std::exchange(read_, {});
}

}  // namespace plimsoll::executor
