// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/order/overlap.h"

#include <algorithm>
#include <deque>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/ir/dataflow/run_again.h"
#include "runtime/ir/participants.h"

namespace plimsoll::planner {
namespace {

// What is faster by less is not worth another order.
constexpr double kWorthwhile = 0.998;
// What needs memory begins when so many times its own seconds of work are left before it is read.
constexpr double kAhead = 1.5;
// Positions of the schedule that something may be moved by; ops looked at that wait, or for which
// there is no room; ops that are done ahead for the sake of a collective.
constexpr int kWindow = 1024, kMostWaiting = 64, kMostWithoutRoom = 4, kMostFeeders = 8;

// Runs its instruction, of a program of several participants.
bool runs_with_others(const Op& op) {
  return op.instruction != nullptr && op.kind != StepKind::copy && op.kind != StepKind::upload &&
         op.kind != StepKind::download && op.engine < 0 && op.transfer < 0 &&
         op.codec.kind == CodecKind::none && ir::topology_of(*op.instruction).participants() > 1;
}

bool may_go_on(const Op& op) { return runs_with_others(op) && ir::may_go_on(*op.instruction); }

// A schedule's executions, by their positions in it, and what each of them must come after.
class Executions {
 public:
  enum class Kind : char {
    plain,
    goes_on,  // a collective that is not waited for
    meets,    // waits for all that go on
  };
  struct Edge {
    int to = 0;
    bool of_data = false;  // else of order alone
  };
  // One making of a value.
  struct Copy {
    std::int64_t bytes = 0;  // of the arena
    int readers = 0;
    bool stays = false;
  };

  Executions(const Problem& problem, std::span<const OpId> schedule)
      : problem_(problem),
        schedule_(schedule),
        kinds_(schedule.size(), Kind::plain),
        before_(schedule.size()),
        behind_(schedule.size()) {
    find_kinds();
    find_copies();
    find_edges();
  }

  int size() const { return static_cast<int>(schedule_.size()); }
  const Problem& problem() const { return problem_; }
  OpId op(int t) const { return schedule_[at(t)]; }
  Kind kind(int t) const { return kinds_[at(t)]; }
  const std::vector<int>& meetings() const { return meetings_; }
  double seconds(int t) const {
    const Op& what = problem_.ops[op(t)];
    return what.engine >= 0 ? what.taken_seconds : what.seconds;
  }
  std::span<const Edge> before(int t) const { return before_[at(t)]; }
  std::span<const Edge> behind(int t) const { return behind_[at(t)]; }
  // Copies by Problem::reads and Problem::outputs of the op; -1: none in the arena.
  std::span<const int> reads(int t) const { return row(reads_, first_read_, t); }
  std::span<const int> makes(int t) const { return row(makes_, first_make_, t); }
  const std::vector<Copy>& copies() const { return copies_; }
  // The first execution that uses what `t` makes.
  int first_use(int t) const {
    int first = size();
    for (const Edge& edge : behind(t)) {
      if (edge.of_data) first = std::min(first, edge.to);
    }
    return first;
  }

 private:
  static std::span<const int> row(const std::vector<int>& items, const std::vector<int>& first,
                                  int t) {
    return {items.data() + first[at(t)], items.data() + first[at(t + 1)]};
  }

  void find_kinds() {
    std::unordered_map<const ir::Instruction*, bool> calls;
    for (int t = 0; t < size(); ++t) {
      const Op& what = problem_.ops[op(t)];
      if (!runs_with_others(what)) continue;
      if (ir::is_meeting(*what.instruction)) {
        kinds_[at(t)] = ir::may_go_on(*what.instruction) ? Kind::goes_on : Kind::meets;
      } else {
        // Control flow with collectives in it, which go on behind those that are under way.
        auto [it, is_new] = calls.try_emplace(what.instruction);
        if (is_new) {
          it->second = ir::op_info(what.instruction->opcode()).op_class == ir::OpClass::control &&
                       ir::communicates(*what.instruction);
        }
        if (!it->second) continue;
      }
      meetings_.push_back(t);
    }
  }

  void find_copies() {
    IdVector<ValueId, int> latest(problem_.values.size(), -1);
    for (int t = 0; t < size(); ++t) {
      first_read_.push_back(static_cast<int>(reads_.size()));
      for (const ValueId v : problem_.reads[op(t)]) {
        const int copy = latest[v];
        if (copy >= 0) ++copies_[at(copy)].readers;
        reads_.push_back(copy);
      }
      first_make_.push_back(static_cast<int>(makes_.size()));
      for (const ValueId v : problem_.outputs[op(t)]) {
        int copy = -1;
        if (v >= 0 && problem_.in_arena(v)) {
          copy = static_cast<int>(copies_.size());
          copies_.push_back({problem_.values[v].bytes});
          latest[v] = copy;
        }
        makes_.push_back(copy);
      }
    }
    first_read_.push_back(static_cast<int>(reads_.size()));
    first_make_.push_back(static_cast<int>(makes_.size()));
    // Who lives out does so in its last making.
    for (const ValueId v : problem_.values.ids()) {
      if (problem_.values[v].live_out && latest[v] >= 0) copies_[at(latest[v])].stays = true;
    }
  }

  void add(int from, int to, bool of_data) {
    if (from < 0 || from == to) return;
    behind_[at(from)].push_back({to, of_data});
    before_[at(to)].push_back({from, of_data});
  }

  void find_edges() {
    IdVector<ValueId, int> made(problem_.values.size(), -1);
    std::vector<std::vector<int>> readers(problem_.values.size());
    std::vector<std::vector<ValueId>> overwrites(problem_.ops.size());
    for (const ValueId v : problem_.values.ids()) {
      const OpId by = problem_.values[v].overwritten;
      if (by != kNever && by >= 0) overwrites[by.index()].push_back(v);
    }
    std::unordered_map<const ir::Instruction*, std::vector<const ir::Instruction*>> after;
    if (problem_.graph != nullptr) {
      const Graph& graph = *problem_.graph;
      for (const OpId to : graph.ops.ids()) {
        if (to.value() >= graph.after.size()) break;
        for (const OpId from : graph.after[to]) {
          after[graph.ops[to].instruction].push_back(graph.ops[from].instruction);
        }
      }
    }
    std::unordered_map<const ir::Instruction*, int> ran;
    int last_meeting = -1, barrier = -1;
    for (int t = 0, meeting = 0; t < size(); ++t) {
      const Op& what = problem_.ops[op(t)];
      const auto write = [&](ValueId v) {
        add(made[v], t, true);
        for (const int reader : readers[v.index()]) add(reader, t, true);
        readers[v.index()].clear();
        made[v] = t;
      };
      for (const ValueId v : problem_.reads[op(t)]) {
        add(made[v], t, true);
        readers[v.index()].push_back(t);
      }
      for (const ValueId v : overwrites[op(t).index()]) write(v);
      for (const ValueId v : problem_.outputs[op(t)]) {
        if (v >= 0) write(v);
      }
      // Values that are views are undefined once what they are views of is made again.
      if (!problem_.view_of.empty()) {
        for (const ValueId v : problem_.outputs[op(t)]) {
          const ValueId of = v < 0 ? ValueId() : problem_.view_of[v];
          if (of >= 0) readers[of.index()].push_back(t);
        }
      }
      if (meeting < std::ssize(meetings_) && meetings_[at(meeting)] == t) {
        add(last_meeting, t, false);
        last_meeting = t;
        ++meeting;
      }
      if (const auto found = after.find(what.instruction); found != after.end()) {
        for (const ir::Instruction* before : found->second) {
          if (const auto run = ran.find(before); run != ran.end()) add(run->second, t, false);
        }
      }
      const bool moves = what.engine >= 0 || what.transfer >= 0;
      if (moves) {
        for (int s = std::max(barrier, 0); s < t; ++s) add(s, t, false);
        barrier = t;
      } else {
        add(barrier, t, false);
      }
      // What a copy out of a result is made by runs, too, and bears its instruction.
      if (what.instruction != nullptr && what.kind != StepKind::copy) ran[what.instruction] = t;
    }
  }

  const Problem& problem_;
  const std::span<const OpId> schedule_;
  std::vector<Kind> kinds_;
  std::vector<int> meetings_;
  std::vector<std::vector<Edge>> before_, behind_;
  std::vector<int> reads_, first_read_, makes_, first_make_;
  std::vector<Copy> copies_;
};

// The processor's time, and that of what goes on beside it, one after the other.
class Clock {
 public:
  explicit Clock(const Executions& executions)
      : executions_(executions), done_(at(executions.size()), 0) {}

  double now() const { return now_; }
  double end() const { return std::max(now_, free_); }
  // Seconds that are left of all that goes on.
  double backlog() const { return std::max(0.0, free_ - now_); }
  bool is_under_way(int t) const { return done_[at(t)] > now_; }
  double done(int t) const { return done_[at(t)]; }
  // When all that `t` uses is done.
  double ready(int t) const {
    double latest = 0;
    // What goes on is done in order: one needs not wait for another.
    if (executions_.kind(t) == Executions::Kind::goes_on) return 0;
    if (executions_.kind(t) == Executions::Kind::meets) return free_;
    for (const Executions::Edge& edge : executions_.before(t)) {
      if (edge.of_data) latest = std::max(latest, done_[at(edge.to)]);
    }
    return latest;
  }
  bool waits(int t) const { return ready(t) > now_; }

  void run(int t) {
    if (executions_.kind(t) == Executions::Kind::goes_on) {
      free_ = std::max(now_, free_) + executions_.seconds(t);
      done_[at(t)] = free_;
      return;
    }
    now_ = std::max(now_, ready(t)) + executions_.seconds(t);
  }

 private:
  const Executions& executions_;
  std::vector<double> done_;  // of what goes on
  double now_ = 0, free_ = 0;
};

class Overlapper {
 public:
  Overlapper(const Executions& executions, std::int64_t arena_bytes)
      : executions_(executions),
        limit_(arena_bytes),
        clock_(executions),
        issued_(at(executions.size()), 0),
        missing_(at(executions.size()), 0) {
    for (const Executions::Copy& copy : executions.copies()) left_.push_back(copy.readers);
    for (int t = 0; t < executions.size(); ++t) {
      missing_[at(t)] = static_cast<int>(executions.before(t).size());
      if (missing_[at(t)] == 0) ready_.insert(t);
    }
  }

  // The schedule's positions in their new order.
  std::vector<int> run() {
    for (; next_ < executions_.size(); advance()) {
      release();
      if (begin_next_meeting()) continue;
      issue(pick());
    }
    return std::move(order_);
  }

  double seconds() const { return clock_.end(); }

 private:
  struct UnderWay {
    int position = 0;
    std::int64_t held = 0;
  };

  void advance() {
    while (next_ < executions_.size() && issued_[at(next_)]) ++next_;
    const auto& meetings = executions_.meetings();
    while (meeting_ < std::ssize(meetings) && issued_[at(meetings[at(meeting_)])]) ++meeting_;
  }

  void release() {
    while (!under_way_.empty() && !clock_.is_under_way(under_way_.front().position)) {
      held_ -= under_way_.front().held;
      under_way_.pop_front();
    }
  }

  // Bytes while `t` runs; then live_ is what is left behind it.
  std::int64_t take(int t) {
    const Problem& problem = executions_.problem();
    const OpId op = executions_.op(t);
    const auto reads = executions_.reads(t), makes = executions_.makes(t);
    std::int64_t dead = 0, saved = 0;
    for (const int copy : makes) {
      if (copy < 0) continue;
      const Executions::Copy& made = executions_.copies()[at(copy)];
      live_ += made.bytes;
      if (made.readers == 0 && !made.stays) dead += made.bytes;
    }
    dies_.assign(reads.size(), 0);
    dying_ = 0;
    for (std::size_t i = 0; i < reads.size(); ++i) {
      if (reads[i] < 0) continue;
      const Executions::Copy& copy = executions_.copies()[at(reads[i])];
      if (--left_[at(reads[i])] > 0 || copy.stays) continue;
      dies_[i] = 1;
      dying_ += copy.bytes;
    }
    dead += dying_;
    if (dead > 0 && !problem.reuse[op].empty()) {
      match_in_place(problem, op, dies_, taken_);
      for (const Reuse& r : taken_) saved += problem.values[r.output].bytes;
    }
    const std::int64_t here = live_ + problem.ops[op].workspace - saved;
    live_ -= dead;
    dying_ -= saved;
    return here;
  }
  void take_back(int t) {
    for (const int copy : executions_.reads(t)) {
      if (copy >= 0) ++left_[at(copy)];
    }
  }

  // Whether there is room for `first`, one after the other, now, and then for all that was passed
  // over, in its order: from there on everything is as in the given schedule. In `blocked_` where
  // there is not.
  bool fits(std::span<const int> first) {
    const std::int64_t live = live_;
    std::vector<int> taken;
    bool has_room = true;
    std::int64_t held = held_;
    int end = end_;
    for (const int t : first) {
      const std::int64_t here = take(t);
      taken.push_back(t);
      end = std::max(end, t + 1);
      has_room = here + held <= limit_;
      if (executions_.kind(t) == Executions::Kind::goes_on)
        held += std::max<std::int64_t>(dying_, 0);
      blocked_ = next_;
      if (!has_room) break;
    }
    for (int t = next_; has_room && t < end; ++t) {
      if (issued_[at(t)] || std::find(first.begin(), first.end(), t) != first.end()) continue;
      has_room = take(t) <= limit_;
      taken.push_back(t);
      blocked_ = t;
    }
    for (const int t : taken) take_back(t);
    live_ = live;
    return has_room;
  }

  void issue(int t) {
    clock_.run(t);
    release();
    take(t);
    if (executions_.kind(t) == Executions::Kind::goes_on) {
      const std::int64_t held = std::max<std::int64_t>(dying_, 0);
      under_way_.push_back({t, held});
      held_ += held;
    }
    issued_[at(t)] = 1;
    ready_.erase(t);
    order_.push_back(t);
    end_ = std::max(end_, t + 1);
    for (const Executions::Edge& edge : executions_.behind(t)) {
      if (--missing_[at(edge.to)] == 0) ready_.insert(edge.to);
    }
  }

  // The first in the given order that waits for nothing under way and has room; what is next there,
  // if none does.
  int pick() {
    int looked_at = 0, without_room = 0;
    for (const int t : ready_) {
      if (t - next_ > kWindow || ++looked_at > kMostWaiting) break;
      if (clock_.waits(t)) continue;
      if (t == next_) return t;
      if (executions_.kind(t) == Executions::Kind::goes_on) continue;  // begin_next_meeting
      if (fits(std::span(&t, 1))) return t;
      if (++without_room == kMostWithoutRoom) break;
    }
    return next_;
  }

  // What must run before `t` and has not, in order; nothing where that is much.
  std::optional<std::vector<int>> feeders_of(int t) const {
    std::vector<int> open{t};
    std::set<int> found;
    while (!open.empty()) {
      const int at_now = open.back();
      open.pop_back();
      for (const Executions::Edge& edge : executions_.before(at_now)) {
        if (issued_[at(edge.to)] || found.contains(edge.to)) continue;
        if (executions_.kind(edge.to) != Executions::Kind::plain || clock_.waits(edge.to) ||
            std::ssize(found) == kMostFeeders) {
          return std::nullopt;
        }
        found.insert(edge.to);
        open.push_back(edge.to);
      }
    }
    return std::vector<int>(found.begin(), found.end());
  }

  // Whether what is to be computed until its result is read takes so long yet.
  bool is_early(int meeting, double seconds) const {
    double work = 0;
    const int use = executions_.first_use(meeting);
    for (int t = next_; t < use && work <= seconds; ++t) {
      if (!issued_[at(t)] && executions_.kind(t) == Executions::Kind::plain) {
        work += executions_.seconds(t);
      }
    }
    return work > seconds;
  }

  // Whether what goes on lasts until what comes next is over: time enough to begin another one
  // then.
  bool stays_busy() const {
    const double wait = std::max(0.0, clock_.ready(next_) - clock_.now());
    return clock_.backlog() > wait + executions_.seconds(next_);
  }

  // Begins the next collective before its turn, where it is worth it and there is room.
  bool begin_next_meeting() {
    const auto& meetings = executions_.meetings();
    if (meeting_ == std::ssize(meetings)) return false;
    const int t = meetings[at(meeting_)];
    if (t == next_ || t - next_ > kWindow || executions_.kind(t) != Executions::Kind::goes_on ||
        next_ < look_again_) {
      return false;
    }
    std::optional<std::vector<int>> first = feeders_of(t);
    if (!first) return false;
    double seconds = 0;
    for (const int feeder : *first) seconds += executions_.seconds(feeder);
    if (seconds > executions_.seconds(t)) return false;
    first->push_back(t);
    if (added_bytes(*first) > 0 &&
        (stays_busy() ||
         is_early(t, kAhead * (clock_.backlog() + seconds + executions_.seconds(t))))) {
      return false;
    }
    if (!fits(*first)) {
      look_again_ = blocked_ + 1;
      return false;
    }
    for (const int one : *first) issue(one);
    return true;
  }

  // How much more lives once these have run.
  std::int64_t added_bytes(std::span<const int> run) {
    const std::int64_t live = live_;
    for (const int t : run) take(t);
    const std::int64_t added = live_ - live;
    for (const int t : run) take_back(t);
    live_ = live;
    return added;
  }

  const Executions& executions_;
  const std::int64_t limit_;
  Clock clock_;
  std::vector<char> issued_;
  std::vector<int> missing_, left_;
  std::set<int> ready_;
  std::vector<int> order_;
  int next_ = 0, end_ = 0;  // the first position that has not run; behind the last that has
  int meeting_ = 0, look_again_ = 0, blocked_ = 0;
  std::deque<UnderWay> under_way_;
  std::int64_t live_ = 0, held_ = 0, dying_ = 0;
  std::vector<char> dies_;
  std::vector<Reuse> taken_;
};

double seconds_in_order(const Executions& executions, std::span<const int> order) {
  Clock clock(executions);
  for (const int t : order) clock.run(t);
  return clock.end();
}

double seconds_as_given(const Executions& executions) {
  Clock clock(executions);
  for (int t = 0; t < executions.size(); ++t) clock.run(t);
  return clock.end();
}

}  // namespace

bool has_overlap(const Problem& problem) {
  return std::any_of(problem.ops.begin(), problem.ops.end(), may_go_on);
}

double overlapped_seconds(const Problem& problem, std::span<const OpId> schedule) {
  return seconds_as_given(Executions(problem, schedule));
}

std::optional<Schedule> overlap_collectives(const Problem& problem, std::span<const OpId> schedule,
                                            std::int64_t arena_bytes) {
  if (!has_overlap(problem)) return std::nullopt;
  const Executions executions(problem, schedule);
  const std::vector<int> order = Overlapper(executions, arena_bytes).run();
  if (seconds_in_order(executions, order) > kWorthwhile * seconds_as_given(executions)) {
    return std::nullopt;
  }
  Schedule changed;
  changed.reserve(order.size());
  for (const int t : order) changed.push_back(executions.op(t));
  return changed;
}

}  // namespace plimsoll::planner
