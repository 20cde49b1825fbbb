// SPDX-License-Identifier: Apache-2.0
#include "tests/executor/plan_rewriter.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/alignment.h"
#include "runtime/planner/check/check_codecs.h"

namespace plimsoll::testing {
namespace {

using ir::Codec;
using ir::CodecKind;
using planner::Buffer;
using planner::BufferId;
using planner::Placement;
using planner::Plan;
using planner::Step;
using planner::StepId;
using planner::StepKind;

// Gives every buffer of `placement` the lowest offset that is free for its whole life. Returns the
// end of the highest one.
std::int64_t place(IdVector<BufferId, Buffer>& buffers, Placement placement) {
  std::int64_t end = 0;
  std::vector<const Buffer*> placed;
  for (Buffer& b : buffers) {
    if (b.placement != placement) continue;
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (const Buffer* other : placed) {
      if (other->first_step <= b.last_step && b.first_step <= other->last_step) {
        taken.emplace_back(other->offset, other->offset + other->bytes);
      }
    }
    std::sort(taken.begin(), taken.end());
    b.offset = 0;
    for (const auto& [from, to] : taken) {
      if (from >= b.offset + b.bytes) break;
      b.offset = std::max(b.offset, to);
    }
    end = std::max(end, b.offset + b.bytes);
    placed.push_back(&b);
  }
  return end;
}

std::int64_t most_live(const IdVector<BufferId, Buffer>& buffers, std::size_t steps) {
  IdVector<StepId, std::int64_t> delta(steps + 1);
  for (const Buffer& b : buffers) {
    if (b.placement != Placement::arena) continue;
    delta[b.first_step] += b.bytes;
    delta[b.last_step + 1] -= b.bytes;
  }
  std::int64_t live = 0, most = 0;
  for (const std::int64_t d : delta) most = std::max(most, live += d);
  return most;
}

class Rewriter {
 public:
  Rewriter(const Plan& plan, std::uint64_t seed, const RewriteOptions& options)
      : plan_(plan), options_(options), random_(seed) {}

  Plan run() {
    before_.resize(plan_.steps.size() + 1);
    for (const BufferId b : plan_.buffers.ids()) rewrite_buffer(b);
    rewrite_callees();
    flatten();
    set_live_ranges();
    return std::move(plan_);
  }

 private:
  struct Insertion {
    Step step;
    int start = -1;  // swap_wait: the number of the insertion that it waits for
    int number = -1;
  };

  bool chance(double share) { return std::uniform_real_distribution<>(0, 1)(random_) < share; }
  int between(int low, int high) { return std::uniform_int_distribution<>(low, high)(random_); }
  StepId between(StepId low, StepId high) { return StepId(between(low.value(), high.value())); }
  Buffer& buffer(BufferId b) { return plan_.buffers[b]; }
  Step& step(StepId s) { return plan_.steps[s]; }

  BufferId add_buffer(Placement placement, std::int64_t bytes, const ir::Instruction* source,
                      int leaf) {
    Buffer b;
    b.placement = placement;
    b.bytes = aligned_bytes(bytes);
    b.source = source;
    b.leaf = leaf;
    return plan_.buffers.push_back(b);
  }

  static bool reads(const Step& s, BufferId b) {
    return std::find(s.inputs.begin(), s.inputs.end(), b) != s.inputs.end();
  }
  static int output_of(const Step& s, BufferId b) {
    const auto found = std::find(s.outputs.begin(), s.outputs.end(), b);
    return found == s.outputs.end() ? -1 : static_cast<int>(found - s.outputs.begin());
  }

  // Walks over the steps that touch buffer `b`, and moves what it holds through another place in
  // some of the intervals between two of them. Later steps then use a new buffer.
  void rewrite_buffer(BufferId b) {
    if (buffer(b).placement != Placement::arena) return;
    std::vector<StepId> touches;
    for (const StepId s : plan_.steps.ids()) {
      if (step(s).workspace == b) return;
      // What an asynchronous operation holds has to stay.
      const auto* instruction = step(s).instruction;
      const bool async = instruction != nullptr &&
                         ir::op_info(instruction->opcode()).op_class == ir::OpClass::async;
      if (!reads(step(s), b) && output_of(step(s), b) < 0) continue;
      if (async) return;
      touches.push_back(s);
    }
    const ir::Instruction* source = nullptr;
    int leaf = 0;
    for (std::size_t t = 0; t + 1 < touches.size(); ++t) {
      const Step& now = step(touches[t]);
      const int output = output_of(now, b);
      if (output >= 0) {
        const bool computed = now.kind == StepKind::compute || now.kind == StepKind::recompute;
        // A copy, or a state that its loop may not change: leave it.
        const bool kept = !computed || (now.instruction->opcode() == ir::Opcode::while_ &&
                                        now.inputs[at(output)] == b);
        source = kept ? nullptr : now.instruction;
        leaf = output;
      }
      const StepId from = touches[t], to = touches[t + 1];
      if (source == nullptr || to < from + 2 || !chance(options_.share)) continue;
      if (!reads(step(to), b)) continue;
      const std::vector<StepId> later(touches.begin() + static_cast<std::ptrdiff_t>(t) + 1,
                                      touches.end());
      const BufferId back = move(b, from + 1, to, later, source, leaf);
      if (back < 0) continue;
      for (const StepId s : later) {
        std::replace(step(s).inputs.begin(), step(s).inputs.end(), b, back);
        std::replace(step(s).outputs.begin(), step(s).outputs.end(), b, back);
      }
      std::replace(plan_.results.begin(), plan_.results.end(), b, back);
      b = back;
    }
  }

  // Between step `first` and step `last`; returns the buffer that the value comes back in, or -1.
  BufferId move(BufferId b, StepId first, StepId last, const std::vector<StepId>& later,
                const ir::Instruction* source, int leaf) {
    const ir::Shape& shape = *ir::leaves(source->shape())[at(leaf)];
    BufferId now = b;
    Codec codec;
    if (options_.compress) codec = pick_codec(b, shape, later, source);
    if (codec.kind != CodecKind::none) {
      const BufferId small =
          add_buffer(Placement::arena, ir::encoded_bytes(codec, shape), source, leaf);
      insert(first, {StepKind::encode, now, small, source, leaf, codec});
      now = small;
    }
    std::vector<Placement> tiers;
    if (options_.host) tiers.push_back(Placement::host);
    if (options_.disk) tiers.push_back(Placement::disk);
    if (!tiers.empty() && (codec.kind == CodecKind::none || chance(0.5))) {
      const Placement tier = tiers[at(between(0, static_cast<int>(tiers.size()) - 1))];
      const std::int64_t bytes = buffer(now).bytes;
      const BufferId far = add_buffer(tier, bytes, source, leaf);
      const BufferId back = add_buffer(Placement::arena, bytes, source, leaf);
      const StepId left = between(first, last), start = between(left, last);
      const bool synchronous = options_.synchronous && tier == Placement::host;
      const int out = insert(first, {StepKind::swap_out, now, far, source, leaf, {}, synchronous});
      insert_wait(left, out);
      const int in = insert(start, {StepKind::swap_in, far, back, source, leaf, {}, synchronous});
      insert_wait(last, in);
      buffer(now).pinned = buffer(back).pinned = true;
      now = back;
    }
    if (codec.kind != CodecKind::none) {
      const BufferId plain = add_buffer(Placement::arena, shape.byte_size(), source, leaf);
      insert(last, {StepKind::decode, now, plain, source, leaf, codec});
      now = plain;
    }
    return now == b ? BufferId() : now;
  }

  Codec pick_codec(BufferId b, const ir::Shape& shape, const std::vector<StepId>& later,
                   const ir::Instruction* source) {
    if (shape.dtype() == ir::DType::pred) return {CodecKind::bit_mask};
    if (source->opcode() == ir::Opcode::convert) {
      const Codec narrow{CodecKind::narrow, source->operand(0)->shape().dtype()};
      const bool widens = ir::is_floating(narrow.stored) == ir::is_floating(shape.dtype());
      if (widens && ir::suits(narrow, shape)) return narrow;
    }
    const bool is_result =
        std::find(plan_.results.begin(), plan_.results.end(), b) != plan_.results.end();
    if (is_result) return {};
    const Codec mask{CodecKind::compare_mask, ir::DType::pred, ir::ComparisonDirection::gt, 0};
    for (const StepId s : later) {
      for (std::size_t k = 0; k < step(s).inputs.size(); ++k) {
        if (step(s).inputs[k] != b) continue;
        if (step(s).instruction == nullptr ||
            !planner::reads_only_outcome(*step(s).instruction, static_cast<int>(k), mask)) {
          return {};
        }
      }
      if (output_of(step(s), b) >= 0) break;
    }
    return mask;
  }

  struct Move {
    StepKind kind;
    BufferId from, to;
    const ir::Instruction* source;
    int leaf;
    Codec codec;
    bool synchronous = false;
  };
  int insert(StepId at, const Move& what) {
    Insertion made;
    made.step.kind = what.kind;
    made.step.instruction = what.source;
    made.step.leaf = what.leaf;
    made.step.codec = what.codec;
    made.step.synchronous = what.synchronous;
    made.step.inputs = {what.from};
    made.step.outputs = {what.to};
    made.number = insertions_++;
    before_[at].push_back(made);
    return made.number;
  }
  void insert_wait(StepId at, int start) {
    Insertion made;
    made.step.kind = StepKind::swap_wait;
    made.start = start;
    before_[at].push_back(made);
  }

  void rewrite_callees() {
    for (Step& s : plan_.steps) {
      std::int64_t host = 0, disk = 0;
      for (auto& callee : s.callees) {
        auto made = std::make_shared<Plan>(rewrite_plan(*callee, random_(), options_));
        if (s.workspace >= 0) {
          buffer(s.workspace).bytes = std::max(buffer(s.workspace).bytes, made->arena_bytes);
        } else if (made->arena_bytes > 0) {
          s.workspace = add_buffer(Placement::arena, made->arena_bytes, s.instruction, 0);
        }
        host = std::max(host, made->tier_bytes.host);
        disk = std::max(disk, made->tier_bytes.disk);
        callee = std::move(made);
      }
      if (host > 0) s.tier_workspaces.host = add_buffer(Placement::host, host, s.instruction, 0);
      if (disk > 0) s.tier_workspaces.disk = add_buffer(Placement::disk, disk, s.instruction, 0);
    }
  }

  // Puts the insertions in their places.
  void flatten() {
    IdVector<StepId, Step> steps;
    std::vector<StepId> place_of(at(insertions_));
    for (const StepId s : before_.ids()) {
      for (Insertion& insertion : before_[s]) {
        if (insertion.start >= 0) {
          insertion.step.transfer = place_of[at(insertion.start)];
        } else {
          place_of[at(insertion.number)] = steps.end_id();
        }
        steps.push_back(std::move(insertion.step));
      }
      if (s < plan_.steps.end_id()) steps.push_back(std::move(plan_.steps[s]));
    }
    plan_.steps = std::move(steps);
  }

  void set_live_ranges() {
    const StepId end = std::max(plan_.steps.end_id() - 1, StepId(0));
    for (Buffer& b : plan_.buffers) {
      b.first_step = end;
      b.last_step = StepId(0);
    }
    const auto touch = [&](BufferId b, StepId at) {
      if (b < 0) return;
      buffer(b).first_step = std::min(buffer(b).first_step, at);
      buffer(b).last_step = std::max(buffer(b).last_step, at);
    };
    for (const StepId s : plan_.steps.ids()) {
      const Step& now = step(s);
      for (const BufferId b : now.inputs) touch(b, s);
      for (const BufferId b : now.outputs) touch(b, s);
      touch(now.workspace, s);
      touch(now.tier_workspaces.host, s);
      touch(now.tier_workspaces.disk, s);
      if (now.kind == StepKind::swap_wait) {
        touch(step(now.transfer).inputs[0], s);
        touch(step(now.transfer).outputs[0], s);
      }
    }
    // An asynchronous start's operands live until its done: wherever they are not rewritten, that
    // is what they did before.
    for (const BufferId b : plan_.results) {
      if (b >= 0 && buffer(b).placement == Placement::arena) buffer(b).last_step = end;
    }
    for (Buffer& b : plan_.buffers) {
      if (b.first_step > b.last_step) b.first_step = b.last_step = StepId(0);
    }
    const std::int64_t fixed = plan_.peak_bytes - plan_.arena_bytes;
    plan_.arena_bytes = place(plan_.buffers, Placement::arena);
    plan_.tier_bytes.host = place(plan_.buffers, Placement::host);
    plan_.tier_bytes.disk = place(plan_.buffers, Placement::disk);
    plan_.live_bytes = fixed + most_live(plan_.buffers, plan_.steps.size());
    plan_.peak_bytes = fixed + plan_.arena_bytes;
    plan_.limit_bytes = planner::kUnlimited;
  }

  Plan plan_;
  const RewriteOptions options_;
  std::mt19937_64 random_;
  IdVector<StepId, std::vector<Insertion>> before_;  // of the original plan; and behind the last
  int insertions_ = 0;
};

}  // namespace

Plan rewrite_plan(const Plan& plan, std::uint64_t seed, const RewriteOptions& options) {
  return Rewriter(plan, seed, options).run();
}

}  // namespace plimsoll::testing
