// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/ir/module.h"
#include "runtime/planner/planner.h"
#include "runtime/trace/record/node.h"

namespace plimsoll::trace {

// The canonical form of a cut: per node a header word, dims, operands (leaves as -1 - index) and
// attributes, then the outputs and the leaves. Values of non-structural constants are no part.
struct CutKey {
  std::vector<std::int64_t> words;
  std::uint64_t hash = 0;  // of words
  bool operator==(const CutKey& other) const { return hash == other.hash && words == other.words; }
};
struct CutKeyHash {
  std::size_t operator()(const CutKey& key) const { return key.hash; }
};

// The part of a recording that one execution will run, in the order of recording, and the
// canonical form by which equal parts are recognised. Refers to its nodes; valid until
// the recording changes.
struct Cut {
  std::vector<Node*> nodes;                            // pending, operands first
  std::vector<Node*> outputs;                          // of nodes; become leaves
  std::vector<Node*> leaves;                           // parameters of the program, by first use
  std::vector<planner::ParameterResidency> residency;  // per leaf
  std::vector<Node*> constants;                        // of nodes; those that are not structural
  CutKey key;
  std::vector<std::uint32_t> key_starts;  // of each node, in key.words
  bool meets = false;                     // there is a collective among the nodes

  void clear();
};

// The pending nodes that `wanted` (pending, no duplicates) need. A leaf is donated when nothing
// will refer to it after the cut; `extra_references` lists leaves that the caller holds one
// reference each to and lets go.
void make_cut(Recording& recording, std::span<Node* const> wanted,
              std::span<Node* const> extra_references, Cut& cut);

// The live pending nodes (held by tensors) that depend on one of `leaves`, oldest first: but for
// `outputs`, which are leaves soon, and what depends on those leaves by them alone.
std::vector<Node*> live_dependants(Recording& recording, std::span<Node* const> leaves,
                                   std::span<Node* const> outputs);

// The module of a cut: parameters are the leaves, then those constants that `lifted` (per
// Cut::constants) marks; the root is the tuple of the outputs. `names` are Node::name's.
// Collectives are among `participants`, and have names that tell nothing but their order.
std::unique_ptr<ir::Module> build_module(const Cut& cut, const std::vector<bool>& lifted,
                                         std::span<const std::string> names,
                                         std::int64_t participants = 1);

// `add f32[2,3]`, from the canonical form.
std::string describe_key(std::span<const std::int64_t> key, std::size_t start);

}  // namespace plimsoll::trace
