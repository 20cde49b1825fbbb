// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/loops/vertex_cut.h"

#include <algorithm>

#include "runtime/base/index.h"

namespace plimsoll::passes {

int VertexCut::add(std::int64_t cost) {
  const int vertex = static_cast<int>(leaving_.size() / 2) - 1;
  leaving_.resize(leaving_.size() + 2);
  add_arc(in(vertex), out(vertex), cost);
  return vertex;
}

void VertexCut::add_arc(int from, int to, std::int64_t capacity) {
  leaving_[at(from)].push_back(static_cast<int>(arcs_.size()));
  arcs_.push_back({to, capacity});
  leaving_[at(to)].push_back(static_cast<int>(arcs_.size()));
  arcs_.push_back({from, 0});
}

bool VertexCut::find_levels() {
  level_.assign(leaving_.size(), -1);
  level_[kSource] = 0;
  std::vector<int> queue{kSource};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const int arc : leaving_[at(queue[i])]) {
      const auto [to, capacity] = arcs_[at(arc)];
      if (capacity == 0 || level_[at(to)] >= 0) continue;
      level_[at(to)] = level_[at(queue[i])] + 1;
      queue.push_back(to);
    }
  }
  return level_[kSink] >= 0;
}

// Sends up to `most` on along one path; what has arrived. No recursion: paths are as long as
// bodies.
std::int64_t VertexCut::augment(int node, std::int64_t most) {
  std::vector<int> path;
  while (node != kSink) {
    std::size_t& next = next_[at(node)];
    if (next == leaving_[at(node)].size()) {
      if (path.empty()) return 0;
      const int back = path.back();
      path.pop_back();
      node = arcs_[at(back ^ 1)].to;
      ++next_[at(node)];
      continue;
    }
    const int arc = leaving_[at(node)][next];
    const auto [to, capacity] = arcs_[at(arc)];
    if (capacity == 0 || level_[at(to)] != level_[at(node)] + 1) {
      ++next;
      continue;
    }
    path.push_back(arc);
    node = to;
  }
  for (const int arc : path) most = std::min(most, arcs_[at(arc)].capacity);
  for (const int arc : path) {
    arcs_[at(arc)].capacity -= most;
    arcs_[at(arc ^ 1)].capacity += most;
  }
  return most;
}

std::vector<bool> VertexCut::solve() {
  while (find_levels()) {
    next_.assign(leaving_.size(), 0);
    while (const std::int64_t sent = augment(kSource, kNever)) {
      if (sent == kNever) return {};
    }
  }
  // What reaches a sink still.
  std::vector<bool> reaches(leaving_.size(), false);
  reaches[kSink] = true;
  std::vector<int> queue{kSink};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const int arc : leaving_[at(queue[i])]) {
      const int from = arcs_[at(arc)].to;
      if (arcs_[at(arc ^ 1)].capacity == 0 || reaches[at(from)]) continue;
      reaches[at(from)] = true;
      queue.push_back(from);
    }
  }
  std::vector<bool> cut;
  for (int vertex = 0; in(vertex) < static_cast<int>(leaving_.size()); ++vertex) {
    cut.push_back(reaches[at(out(vertex))] && !reaches[at(in(vertex))]);
  }
  return cut;
}

}  // namespace plimsoll::passes
