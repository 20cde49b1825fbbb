// SPDX-License-Identifier: Apache-2.0
#include "examples/training/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace plimsoll::examples {

ProgressBar::ProgressBar(std::string title, std::int64_t total, bool shown)
    : title_(std::move(title)),
      total_(std::max<std::int64_t>(total, 1)),
      shown_(shown),
      terminal_(isatty(STDERR_FILENO) == 1),
      last_drawn_(Clock::now()) {}

ProgressBar::~ProgressBar() { finish(); }

void ProgressBar::update(std::int64_t done, const std::string& details) {
  if (!shown_) return;
  done_ = done;
  details_ = details;
  const auto interval = terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
  if (Clock::now() - last_drawn_ < interval) return;
  draw();
}

void ProgressBar::finish() {
  if (!shown_) return;
  draw();
  if (terminal_) std::fputc('\n', stderr);
  shown_ = false;
}

void ProgressBar::draw() {
  last_drawn_ = Clock::now();
  constexpr std::int64_t kCells = 24;
  const std::int64_t filled = std::min(kCells, kCells * done_ / total_);
  std::string bar(static_cast<std::size_t>(filled), '#');
  bar.resize(kCells, '.');
  std::fprintf(stderr, "%s%s [%s] %lld/%lld  %s%s", terminal_ ? "\r" : "", title_.c_str(),
               bar.c_str(), static_cast<long long>(done_), static_cast<long long>(total_),
               details_.c_str(), terminal_ ? "\033[K" : "\n");
  std::fflush(stderr);
}

}  // namespace plimsoll::examples
