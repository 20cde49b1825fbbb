// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/remedies_apply.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/planner/problem/timeline.h"
#include "runtime/planner/remedies/remedies.h"
#include "runtime/planner/remedies/remedies_find.h"

namespace plimsoll::planner {
namespace {

// What is put in before one op, in this order: what frees memory first, what needs it last.
enum class Part : std::uint8_t {
  wait_left_earlier,
  encode,
  swap_out,
  wait_left,
  swap_in,
  wait_in,
  read_stored,
  decode
};

struct Item {
  OpId before;
  Part part;
  std::int32_t choice;
  std::int32_t number;  // of the return
  bool operator<(const Item& other) const {
    return std::tie(before, part, choice, number) <
           std::tie(other.before, other.part, other.choice, other.number);
  }
};

class Applier {
 public:
  Applier(const Problem& base, std::span<const Choice> choices)
      : base_(base), choices_(choices), views_(list_views(base)) {}

  Result<Problem> run(std::vector<ValueId>* origin) {
    choice_of_.assign(base_.values.size(), -1);
    std::vector<char> held(base_.values.size(), 0);
    if (base_.graph != nullptr) {
      for (const ValueId v : base_.graph->held.items) held[at(v)] = 1;
    }
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const Choice& choice = choices_[i];
      PLIMSOLL_RETURN_IF_ERROR(check(choice));
      if (held[at(choice.value)]) return refuse(choice, "is held by an asynchronous op");
      auto& taken = choice_of_[at(choice.value)];
      if (taken >= 0) return refuse(choice, "has two remedies");
      taken = static_cast<std::int32_t>(i);
    }
    begin();
    list_items();
    std::size_t next = 0;
    for (OpId op = 0; op <= base_.op_count(); ++op) {
      for (; next < items_.size() && items_[next].before == op; ++next) add_item(items_[next]);
      if (op < base_.op_count()) add_base(op);
    }
    finish();
    if (origin != nullptr) *origin = std::move(origin_);
    return std::move(out_);
  }

 private:
  Status refuse(const Choice& choice, const std::string& why) const {
    return invalid_argument("apply_choices: value " + std::to_string(choice.value) + " " + why);
  }

  Status check(const Choice& choice) const {
    if (choice.value < 0 || at(choice.value) >= base_.values.size()) {
      return refuse(choice, "does not exist");
    }
    const Value& value = base_.values[at(choice.value)];
    if (value.home != Home::arena || value.producer < 0 || value.live_out) {
      return refuse(choice, "is not made in the arena, or must survive to the end");
    }
    if (choice.returns.empty()) return refuse(choice, "never comes back");
    const bool swap = choice.kind != RemedyKind::compress;
    OpId before = swap ? choice.left : choice.leave;
    if (choice.leave <= value.producer || before < choice.leave) {
      return refuse(choice, "leaves before it is made, or comes before it leaves");
    }
    const auto uses = base_.uses[choice.value];
    for (const Return& r : choice.returns) {
      const OpId start = swap ? r.start : r.ready;
      if (start < before || r.ready < start) return refuse(choice, "comes back out of order");
      if (!std::binary_search(uses.begin(), uses.end(), r.ready)) {
        return refuse(choice, "comes back where nothing reads it");
      }
      before = r.ready;
    }
    return ok_status();
  }

  void begin() {
    out_.graph = base_.graph;
    out_.values = base_.values;
    origin_.resize(base_.values.size());
    std::iota(origin_.begin(), origin_.end(), 0);
    out_.results = base_.results;
    out_.view_of = base_.view_of;
    out_.sliced = base_.sliced;
    out_.codings = base_.codings;
    as_stored_.assign(base_.values.size(), nullptr);
    out_.parameter_bytes = base_.parameter_bytes;
    out_.output_bytes = base_.output_bytes;
    stored_.assign(choices_.size(), -1);
    transit_.assign(choices_.size(), -1);
    transfer_.assign(choices_.size(), -1);
    current_.resize(base_.values.size());
    for (std::size_t v = 0; v < current_.size(); ++v) current_[v] = static_cast<ValueId>(v);
    new_op_.reserve(base_.ops.size());
  }

  void list_items() {
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const Choice& c = choices_[i];
      const auto id = static_cast<std::int32_t>(i);
      const bool swap = c.kind != RemedyKind::compress;
      if (swap || !c.by_producer) {
        items_.push_back({c.leave, swap ? Part::swap_out : Part::encode, id, 0});
      }
      if (swap) {
        items_.push_back(
            {c.left, c.left > c.leave ? Part::wait_left_earlier : Part::wait_left, id, 0});
      }
      for (std::size_t k = 0; k < c.returns.size(); ++k) {
        const auto number = static_cast<std::int32_t>(k);
        if (swap) {
          items_.push_back({c.returns[k].start, Part::swap_in, id, number});
          items_.push_back({c.returns[k].ready, Part::wait_in, id, number});
        } else {
          const OpId decode = decoded_before(c, number);
          if (decode > c.returns[k].ready) {
            items_.push_back({c.returns[k].ready, Part::read_stored, id, number});
          }
          if (decode < kNever) items_.push_back({decode, Part::decode, id, number});
        }
      }
    }
    std::sort(items_.begin(), items_.end());
  }

  void add_base(OpId op) {
    const auto renamed = [&](ValueId v) { return v < 0 ? v : current_[at(v)]; };
    const OpId id = out_.op_count();
    new_op_.push_back(id);
    const std::int32_t before = base_.ops[at(op)].coding;
    Coding coding = before < 0 ? Coding() : base_.codings[at(before)];
    for (const ValueId v : base_.inputs[op]) {
      if (v >= 0 && as_stored_[at(v)] != nullptr) {
        const std::size_t input = out_.inputs.items.size() - at(out_.inputs.begin.back());
        coding.inputs.push_back({static_cast<int>(input), *as_stored_[at(v)]});
      }
      out_.inputs.push(renamed(v));
    }
    for (const ValueId v : base_.reads[op]) out_.reads.push(renamed(v));
    for (const ValueId v : base_.outputs[op]) {
      out_.outputs.push(v >= 0 && is_dropped(v) ? -1 : v);
      if (v < 0) continue;
      out_.values[at(v)].producer = id;
      if (!out_.view_of.empty()) out_.view_of[at(v)] = renamed(out_.view_of[at(v)]);
    }
    add_codes(op, coding);
    out_.reuse.push_back(base_.reuse[at(op)]);
    std::erase_if(out_.reuse.back(), [&](const Reuse& r) {
      return as_stored_[at(r.input)] != nullptr || is_dropped(r.output);
    });
    for (Reuse& r : out_.reuse.back()) r.input = renamed(r.input);
    out_.ops.push_back(base_.ops[at(op)]);
    out_.variant.push_back(base_.variant[at(op)]);
    if (!coding.empty()) {
      out_.ops.back().coding = static_cast<std::int32_t>(out_.codings.size());
      out_.codings.push_back(std::move(coding));
    }
    close();
  }

  // What the op itself encodes of its results, as outputs behind them.
  void add_codes(OpId op, Coding& coding) {
    for (const ValueId v : base_.outputs[op]) {
      const std::int32_t number = v < 0 ? -1 : choice_of_[at(v)];
      if (number < 0 || !choices_[at(number)].by_producer) continue;
      const Choice& choice = choices_[at(number)];
      stored_[at(number)] = add_value(v, choice.bytes, Home::arena, false);
      out_.outputs.push(stored_[at(number)]);
      coding.outputs.push_back({base_.values[at(v)].leaf, choice.codec});
      if (is_dropped(v)) out_.values[at(v)].bytes = 0;
    }
  }

  // Whether a value is never there, but for its code.
  bool is_dropped(ValueId v) const {
    const std::int32_t number = choice_of_[at(v)];
    if (number < 0 || !choices_[at(number)].by_producer) return false;
    const Choice& choice = choices_[at(number)];
    if (base_.uses[v].front() < choice.returns.front().ready) return false;
    for (std::size_t k = 0; k < choice.returns.size(); ++k) {
      if (decoded_before(choice, static_cast<std::int32_t>(k)) < kNever) return false;
    }
    return true;
  }

  void close() {
    out_.inputs.close();
    out_.reads.close();
    out_.outputs.close();
  }

  ValueId add_value(ValueId of, std::int64_t bytes, Home home, bool keep) {
    Value value = base_.values[at(of)];
    value.bytes = bytes;
    value.home = home;
    value.index = -1;
    value.keep = keep;
    value.overwritten = kNever;
    value.producer = out_.op_count();
    out_.values.push_back(value);
    origin_.push_back(of);
    if (!out_.view_of.empty()) out_.view_of.push_back(-1);
    return static_cast<ValueId>(out_.values.size()) - 1;
  }

  void add_op(const Choice& choice, StepKind kind, double seconds, bool recomputable,
              std::initializer_list<ValueId> reads, ValueId output) {
    const Value& value = base_.values[at(choice.value)];
    Op op;
    op.kind = kind;
    op.instruction = value.source;
    op.leaf = value.leaf;
    op.codec = choice.codec;
    op.seconds = seconds;
    op.recomputable = recomputable;
    out_.ops.push_back(op);
    out_.variant.push_back(-1);
    out_.reuse.emplace_back();
    for (const ValueId v : reads) {
      out_.inputs.push(v);
      out_.reads.push(v);
    }
    if (output >= 0) out_.outputs.push(output);
    close();
  }

  // The first read of return `number` that needs more than what is stored; kNever where none does.
  OpId decoded_before(const Choice& choice, std::int32_t number) const {
    const OpId ready = choice.returns[at(number)].ready;
    if (choice.direct.empty() || (views_.size() > 0 && !views_[choice.value].empty())) return ready;
    const auto next = at(number) + 1;
    const OpId end = next < choice.returns.size() ? choice.returns[next].ready : kNever;
    for (const OpId use : base_.uses[choice.value]) {
      if (use < ready || use >= end) continue;
      if (!reads_directly(base_.ops[at(use)], choice.direct)) return use;
    }
    return kNever;
  }

  // The views of a value that were made before it came back as `copy` come back with it.
  void bring_views(const Choice& choice, OpId ready, ValueId copy) {
    if (views_.size() == 0) return;
    // The rows of the last op are closed; its results are added to.
    const OpId op = out_.op_count() - 1;
    for (const ValueId view : views_[choice.value]) {
      if (base_.values[at(view)].producer >= ready || base_.uses[view].empty() ||
          base_.uses[view].back() < ready) {
        continue;
      }
      const ValueId again = add_value(view, 0, Home::arena, false);
      out_.values[at(again)].producer = op;
      out_.view_of[at(again)] = copy;
      current_[at(view)] = again;
      out_.outputs.push(again);
    }
    out_.outputs.begin.back() = static_cast<std::int32_t>(out_.outputs.items.size());
  }

  void add_item(const Item& item) {
    const Choice& c = choices_[at(item.choice)];
    const Value& value = base_.values[at(c.value)];
    auto& stored = stored_[at(item.choice)];
    auto& transit = transit_[at(item.choice)];
    auto& transfer = transfer_[at(item.choice)];
    const MemorySpace space = space_of(c.kind);
    switch (item.part) {
      case Part::encode:
        stored = add_value(c.value, c.bytes, Home::arena, false);
        add_op(c, StepKind::encode, c.out_seconds, base_.ops[at(value.producer)].recomputable,
               {c.value}, stored);
        break;
      case Part::read_stored:
        current_[at(c.value)] = stored;
        as_stored_[at(c.value)] = &c.codec;
        break;
      case Part::decode: {
        as_stored_[at(c.value)] = nullptr;
        const ValueId copy = add_value(c.value, value.bytes, Home::arena, value.keep);
        add_op(c, StepKind::decode, c.in_seconds, true, {stored}, copy);
        current_[at(c.value)] = copy;
        bring_views(c, item.before, copy);
        break;
      }
      case Part::swap_out:
        stored = add_value(c.value, c.bytes, placement_on(space), false);
        transfer = out_.op_count();
        add_op(c, StepKind::swap_out, c.out_seconds, false, {c.value}, stored);
        out_.ops.back().engine = engine_of(space, true);
        out_.ops.back().taken_seconds = c.compute_share * c.out_seconds;
        out_.values[at(c.value)].keep = true;
        break;
      case Part::wait_left_earlier:
      case Part::wait_left:
        add_op(c, StepKind::swap_wait, 0, false, {c.value, stored}, -1);
        out_.ops.back().transfer = transfer;
        break;
      case Part::swap_in:
        transit = add_value(c.value, value.bytes, Home::arena, true);
        transfer = out_.op_count();
        add_op(c, StepKind::swap_in, c.in_seconds, true, {stored}, transit);
        out_.ops.back().engine = engine_of(space, false);
        out_.ops.back().taken_seconds = c.compute_share * c.in_seconds;
        break;
      case Part::wait_in: {
        const ValueId copy = add_value(c.value, value.bytes, Home::arena, value.keep);
        add_op(c, StepKind::swap_wait, 0, true, {transit, stored}, copy);
        out_.ops.back().transfer = transfer;
        out_.reuse.back().push_back({transit, copy});
        current_[at(c.value)] = copy;
        bring_views(c, item.before, copy);
        break;
      }
    }
  }

  void finish() {
    for (Value& value : out_.values) {
      if (value.overwritten != kNever) value.overwritten = new_op_[at(value.overwritten)];
    }
    out_.uses = find_uses(out_.reads, out_.values.size());
    out_.deadline = find_deadlines(out_);
  }

  const Problem& base_;
  const std::span<const Choice> choices_;
  const Rows views_;  // per base value; no rows: there are no views
  Problem out_;
  std::vector<ValueId> origin_;
  std::vector<std::int32_t> choice_of_;
  std::vector<Item> items_;
  std::vector<OpId> new_op_;               // per base op
  std::vector<ValueId> current_;           // per base value, the copy that reads now get
  std::vector<const Codec*> as_stored_;    // per base value: not null where that copy is encoded
  std::vector<ValueId> stored_, transit_;  // per choice
  std::vector<OpId> transfer_;
};

}  // namespace

Result<Problem> apply_choices(const Problem& problem, std::span<const Choice> choices,
                              std::vector<ValueId>* origin) {
  return Applier(problem, choices).run(origin);
}

bool keeps_transfers(const Problem& problem, std::span<const OpId> schedule) {
  // Per op that started a transfer and was not waited for yet.
  std::vector<char> under_way(problem.ops.size(), 0), leaving(problem.values.size(), 0);
  for (const OpId op : schedule) {
    const Op& what = problem.ops[at(op)];
    for (const ValueId v : problem.outputs[op]) {
      if (v >= 0 && leaving[at(v)]) return false;
    }
    if (what.kind == StepKind::swap_out || what.kind == StepKind::swap_in) {
      if (under_way[at(op)]) return false;
      under_way[at(op)] = 1;
      if (what.kind == StepKind::swap_out) leaving[at(problem.reads[op].front())] = 1;
    } else if (what.kind == StepKind::swap_wait) {
      if (!under_way[at(what.transfer)]) return false;
      under_way[at(what.transfer)] = 0;
      leaving[at(problem.reads[op].front())] = 0;
    }
  }
  return std::find(under_way.begin(), under_way.end(), 1) == under_way.end();
}

std::string to_string(const Problem& problem, const Choice& choice) {
  const Value& value = problem.values[at(choice.value)];
  const std::string name =
      value.source == nullptr ? std::to_string(choice.value) : value.source->name();
  if (choice.kind == RemedyKind::compress) {
    return "compress " + name + " by " + ir::to_string(choice.codec);
  }
  return "swap " + name + " to " + std::string(tier_info(space_of(choice.kind)).target);
}

}  // namespace plimsoll::planner
