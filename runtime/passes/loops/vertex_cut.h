// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll::passes {

// The cheapest vertices of a directed graph without which no path leads from a source to a sink
// (a vertex may be both; it is cut itself then). Of several cheapest cuts the one nearest the
// sinks.
class VertexCut {
 public:
  static constexpr std::int64_t kNever = std::int64_t{1} << 60;  // this vertex can't be cut

  // Returns the vertex' number: 0, 1, ... `cost` is at least 0.
  int add(std::int64_t cost);
  void connect(int from, int to) { add_arc(out(from), in(to), kNever); }
  void mark_source(int vertex) { add_arc(kSource, in(vertex), kNever); }
  void mark_sink(int vertex) { add_arc(out(vertex), kSink, kNever); }

  // Whether each vertex is cut; nothing where only vertices that can't be cut are in the way.
  // Maximum flow by shortest augmenting paths in phases (E. A. Dinic, 1970).
  std::vector<bool> solve();

 private:
  struct Arc {
    int to = 0;
    std::int64_t capacity = 0;
  };
  static constexpr int kSource = 0, kSink = 1;
  static int in(int vertex) { return 2 + 2 * vertex; }
  static int out(int vertex) { return 3 + 2 * vertex; }
  void add_arc(int from, int to, std::int64_t capacity);
  bool find_levels();
  std::int64_t augment(int node, std::int64_t most);

  std::vector<Arc> arcs_;  // in pairs: arc, reverse
  std::vector<std::vector<int>> leaving_{{}, {}};
  std::vector<int> level_;
  std::vector<std::size_t> next_;
};

}  // namespace plimsoll::passes
