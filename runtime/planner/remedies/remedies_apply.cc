// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/remedies_apply.h"

#include <fmt/core.h>
#include <algorithm>
#include <tuple>
#include <utility>

#include "runtime/planner/problem/problem_builder.h"
#include "runtime/planner/problem/timeline.h"
#include "runtime/planner/remedies/remedies.h"
#include "runtime/planner/remedies/remedies_find.h"

namespace plimsoll::planner {
namespace {

// What is put in before one op, in this order: what frees memory first, what needs it last.
//
// Several choices may put something before the same op. Example: before op 7 the value a has left
// (its copy out is waited for), b is encoded, and c is decoded for op 7: first a's bytes become
// free, then b's code is made and b may die, and c's bytes are taken last. Any other order would
// raise the peak between ops.
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

// Rewriting a problem, by an example. v is made by op 2 and read by ops 3 and 9; it is swapped to
// the host between them, its copy in started before op 7:
//   op 2                      v
//   op 3                      reads v
//   swap_out v -> stored      v is kept until the wait: the transfer reads its bytes
//   swap_wait                 reads v and stored
//   ops 4 .. 6
//   swap_in stored -> transit takes v's bytes from here on
//   ops 7, 8
//   swap_wait transit -> v'   in place: v' is the value that reads from here on get
//   op 9                      reads v' instead of v
// `current_` holds, per value of the problem before, the copy that reads now get; every copy that
// comes back is a value of its own, so that each value keeps having one producer. Its views come
// back with it (bring_views). A swap_in may run again, as any op that makes a value: what was
// copied out can be copied in more than once.
//
// Compressing is the same with an encode and a decode. Where an op can read the code itself, no
// decode is put in for it, and its row of `codings` says which input is encoded; where the producer
// can write the code, the code is one more result of it, and the value's own result is left out if
// nobody reads it before it comes back (is_dropped).
class Applier {
 public:
  Applier(const Problem& base, std::span<const Choice> choices)
      : base_(base), choices_(choices), views_(list_views(base)), builder_(base) {}

  Result<Problem> run(IdVector<ValueId, ValueId>* origin) {
    choice_of_.assign(base_.values.size(), -1);
    IdVector<ValueId, char> held(base_.values.size(), 0);
    if (base_.graph != nullptr) {
      for (const ValueId v : base_.graph->held.items) held[v] = 1;
    }
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const Choice& choice = choices_[i];
      PLIMSOLL_RETURN_IF_ERROR(check(choice));
      if (held[choice.value]) return refuse(choice, "is held by an asynchronous op");
      auto& taken = choice_of_[choice.value];
      if (taken >= 0) return refuse(choice, "has two remedies");
      taken = static_cast<std::int32_t>(i);
    }
    begin();
    list_items();
    std::size_t next = 0;
    for (OpId op(0); op <= base_.ops.end_id(); ++op) {
      for (; next < items_.size() && items_[next].before == op; ++next) add_item(items_[next]);
      if (op < base_.ops.end_id()) add_base(op);
    }
    if (origin != nullptr) *origin = std::move(origin_);
    return builder_.finish();
  }

 private:
  Status refuse(const Choice& choice, const std::string& why) const {
    return invalid_argument(fmt::format("apply_choices: value {} {}", choice.value.value(), why));
  }

  Status check(const Choice& choice) const {
    if (choice.value < 0 || choice.value >= base_.values.end_id()) {
      return refuse(choice, "does not exist");
    }
    const Value& value = base_.values[choice.value];
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
    origin_.resize(base_.values.size());
    for (const ValueId v : origin_.ids()) origin_[v] = v;
    current_ = origin_;
    as_stored_.assign(base_.values.size(), nullptr);
    stored_.resize(choices_.size());
    transit_.resize(choices_.size());
    transfer_.resize(choices_.size());
  }

  void list_items() {
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const Choice& c = choices_[i];
      const auto id = static_cast<std::int32_t>(i);
      const bool swap = c.kind != RemedyKind::compress;
      if (swap || !c.fused_encode) {
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
    builder_.copy_op(op, [&](ProblemBuilder::Row& row) { change_base(op, row); });
    if (out_.view_of.empty()) return;
    // A view of what came back before is one of that copy.
    for (const ValueId v : base_.outputs[op]) {
      if (v >= 0) out_.view_of[v] = renamed(out_.view_of[v]);
    }
  }

  ValueId renamed(ValueId v) const { return v < 0 ? v : current_[v]; }

  void change_base(OpId op, ProblemBuilder::Row& row) {
    Coding coding = row.what.coding < 0 ? Coding() : base_.codings[at(row.what.coding)];
    for (std::size_t k = 0; k < row.inputs.size(); ++k) {
      const ValueId v = row.inputs[k];
      if (v >= 0 && as_stored_[v] != nullptr) {
        coding.inputs.push_back({static_cast<int>(k), *as_stored_[v]});
      }
      row.inputs[k] = renamed(v);
    }
    for (ValueId& v : row.reads) v = renamed(v);
    for (ValueId& v : row.outputs) {
      if (v >= 0 && is_dropped(v)) v = ValueId();
    }
    add_codes(op, row, coding);
    std::erase_if(row.reuse, [&](const Reuse& r) {
      return as_stored_[r.input] != nullptr || is_dropped(r.output);
    });
    for (Reuse& r : row.reuse) r.input = renamed(r.input);
    if (coding.empty()) return;
    row.what.coding = static_cast<std::int32_t>(out_.codings.size());
    out_.codings.push_back(std::move(coding));
  }

  // What the op itself encodes of its results, as outputs behind them.
  void add_codes(OpId op, ProblemBuilder::Row& row, Coding& coding) {
    for (const ValueId v : base_.outputs[op]) {
      const std::int32_t number = v < 0 ? -1 : choice_of_[v];
      if (number < 0 || !choices_[at(number)].fused_encode) continue;
      const Choice& choice = choices_[at(number)];
      stored_[at(number)] = add_value(v, choice.bytes, Home::arena, false);
      row.outputs.push_back(stored_[at(number)]);
      coding.outputs.push_back({base_.values[v].leaf, choice.codec});
      if (is_dropped(v)) out_.values[v].bytes = 0;
    }
  }

  // Whether a value is never there, but for its code.
  bool is_dropped(ValueId v) const {
    const std::int32_t number = choice_of_[v];
    if (number < 0 || !choices_[at(number)].fused_encode) return false;
    const Choice& choice = choices_[at(number)];
    if (base_.uses[v].front() < choice.returns.front().ready) return false;
    for (std::size_t k = 0; k < choice.returns.size(); ++k) {
      if (decoded_before(choice, static_cast<std::int32_t>(k)) < kNever) return false;
    }
    return true;
  }

  ValueId add_value(ValueId of, std::int64_t bytes, Home home, bool keep) {
    Value value = base_.values[of];
    value.bytes = bytes;
    value.home = home;
    value.index = -1;
    value.keep = keep;
    value.overwritten = kNever;
    value.producer = builder_.next_op();
    origin_.push_back(of);
    return builder_.add_value(value);
  }

  // Returns the op, for what else there is to say of it.
  Op& add_op(const Choice& choice, StepKind kind, double seconds, bool recomputable,
             std::initializer_list<ValueId> reads, std::initializer_list<ValueId> outputs,
             std::vector<Reuse> reuse = {}) {
    const Value& value = base_.values[choice.value];
    Op op;
    op.kind = kind;
    op.instruction = value.source;
    op.leaf = value.leaf;
    op.codec = choice.codec;
    op.seconds = seconds;
    op.recomputable = recomputable;
    return out_.ops[builder_.add_op(op, reads, outputs, std::move(reuse))];
  }

  OpId add_transfer(const Choice& choice, StepKind kind, ValueId from, ValueId to) {
    const bool out = kind == StepKind::swap_out;
    const TransferTime& time = out ? choice.out : choice.in;
    Op& op = add_op(choice, kind, time.engine_seconds, !out, {from}, {to});
    op.engine = engine_of(space_of(choice.kind), out);
    op.taken_seconds = time.taken_seconds;
    op.synchronous = time.synchronous;
    return builder_.next_op() - 1;
  }

  // The first read of return `number` that needs more than what is stored; kNever where none does.
  OpId decoded_before(const Choice& choice, std::int32_t number) const {
    const OpId ready = choice.returns[at(number)].ready;
    if (choice.fused_readers.empty() || (views_.size() > 0 && !views_[choice.value].empty()))
      return ready;
    const auto next = at(number) + 1;
    const OpId end = next < choice.returns.size() ? choice.returns[next].ready : kNever;
    for (const OpId use : base_.uses[choice.value]) {
      if (use < ready || use >= end) continue;
      if (!reads_fused(base_.ops[use], choice.fused_readers)) return use;
    }
    return kNever;
  }

  // The views of a value that were made before it came back as `copy` come back with it.
  void bring_views(const Choice& choice, OpId ready, ValueId copy) {
    if (views_.size() == 0) return;
    const OpId op = builder_.next_op() - 1;
    for (const ValueId view : views_[choice.value]) {
      if (base_.values[view].producer >= ready || base_.uses[view].empty() ||
          base_.uses[view].back() < ready) {
        continue;
      }
      const ValueId again = add_value(view, 0, Home::arena, false);
      out_.values[again].producer = op;
      out_.view_of[again] = copy;
      current_[view] = again;
      builder_.add_output(again);
    }
  }

  void add_item(const Item& item) {
    const Choice& c = choices_[at(item.choice)];
    const Value& value = base_.values[c.value];
    auto& stored = stored_[at(item.choice)];
    auto& transit = transit_[at(item.choice)];
    auto& transfer = transfer_[at(item.choice)];
    const MemorySpace space = space_of(c.kind);
    switch (item.part) {
      case Part::encode:
        stored = add_value(c.value, c.bytes, Home::arena, false);
        add_op(c, StepKind::encode, c.encode_seconds, base_.ops[value.producer].recomputable,
               {c.value}, {stored});
        break;
      case Part::read_stored:
        current_[c.value] = stored;
        as_stored_[c.value] = &c.codec;
        break;
      case Part::decode: {
        as_stored_[c.value] = nullptr;
        const ValueId copy = add_value(c.value, value.bytes, Home::arena, value.keep);
        add_op(c, StepKind::decode, c.decode_seconds, true, {stored}, {copy});
        current_[c.value] = copy;
        bring_views(c, item.before, copy);
        break;
      }
      case Part::swap_out:
        stored = add_value(c.value, c.bytes, placement_on(space), false);
        transfer = add_transfer(c, StepKind::swap_out, c.value, stored);
        out_.values[c.value].keep = true;
        break;
      case Part::wait_left_earlier:
      case Part::wait_left:
        add_op(c, StepKind::swap_wait, 0, false, {c.value, stored}, {}).transfer = transfer;
        break;
      case Part::swap_in:
        transit = add_value(c.value, value.bytes, Home::arena, true);
        transfer = add_transfer(c, StepKind::swap_in, stored, transit);
        break;
      case Part::wait_in: {
        const ValueId copy = add_value(c.value, value.bytes, Home::arena, value.keep);
        add_op(c, StepKind::swap_wait, 0, true, {transit, stored}, {copy}, {{transit, copy}})
            .transfer = transfer;
        current_[c.value] = copy;
        bring_views(c, item.before, copy);
        break;
      }
    }
  }

  const Problem& base_;
  const std::span<const Choice> choices_;
  const Rows<ValueId, ValueId> views_;  // no rows: there are no views
  ProblemBuilder builder_;
  Problem& out_ = builder_.problem();
  IdVector<ValueId, ValueId> origin_;
  IdVector<ValueId, std::int32_t> choice_of_;
  std::vector<Item> items_;
  IdVector<ValueId, ValueId> current_;  // per base value, the copy that reads now get
  IdVector<ValueId, const Codec*>
      as_stored_;                          // per base value: not null where that copy is encoded
  std::vector<ValueId> stored_, transit_;  // per choice
  std::vector<OpId> transfer_;
};

}  // namespace

Result<Problem> apply_choices(const Problem& problem, std::span<const Choice> choices,
                              IdVector<ValueId, ValueId>* origin) {
  return Applier(problem, choices).run(origin);
}

bool keeps_transfers(const Problem& problem, std::span<const OpId> schedule) {
  // Per op that started a transfer and was not waited for yet.
  IdVector<OpId, char> under_way(problem.ops.size(), 0);
  IdVector<ValueId, char> leaving(problem.values.size(), 0);
  for (const OpId op : schedule) {
    const Op& what = problem.ops[op];
    for (const ValueId v : problem.outputs[op]) {
      if (v >= 0 && leaving[v]) return false;
    }
    if (what.kind == StepKind::swap_out || what.kind == StepKind::swap_in) {
      if (under_way[op]) return false;
      under_way[op] = 1;
      if (what.kind == StepKind::swap_out) leaving[problem.reads[op].front()] = 1;
    } else if (what.kind == StepKind::swap_wait) {
      if (!under_way[what.transfer]) return false;
      under_way[what.transfer] = 0;
      leaving[problem.reads[op].front()] = 0;
    }
  }
  return std::find(under_way.begin(), under_way.end(), 1) == under_way.end();
}

std::string to_string(const Problem& problem, const Choice& choice) {
  const Value& value = problem.values[choice.value];
  const std::string name =
      value.source == nullptr ? std::to_string(choice.value.value()) : value.source->name();
  if (choice.kind == RemedyKind::compress) {
    return fmt::format("compress {} by {}", name, ir::to_string(choice.codec));
  }
  return fmt::format("swap {} to {}", name, tier_info(space_of(choice.kind)).target);
}

}  // namespace plimsoll::planner
