// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/remedies_find.h"

#include <algorithm>

#include "runtime/base/index.h"
#include "runtime/planner/problem/timeline.h"
#include "runtime/planner/remedies/remedies.h"

namespace plimsoll::planner {
namespace {

// Values that may be evicted at all, by other means than recomputation.
IdVector<ValueId, char> movable_values(const Problem& problem, const PlanOptions& options) {
  IdVector<ValueId, char> movable(problem.values.size(), 0);
  for (const ValueId v : movable.ids()) {
    const Value& value = problem.values[v];
    movable[v] = value.home == Home::arena && value.producer >= 0 && !value.live_out &&
                 !value.keep && value.hint != Hint::keep && value.bytes > 0 &&
                 value.bytes >= options.min_bytes &&
                 problem.ops[value.producer].kind != StepKind::upload && problem.uses[v].size() > 0;
  }
  if (problem.graph != nullptr) {
    for (const ValueId v : problem.graph->held.items) movable[v] = 0;
  }
  return movable;
}

Form swap_form(const Problem& problem, ValueId v, RemedyKind kind, const Tier& tier) {
  const Value& value = problem.values[v];
  Form form;
  form.value = v;
  form.kind = kind;
  form.bytes = value.bytes;
  form.out = time_transfer(tier, value.bytes, true);
  form.in = time_transfer(tier, value.bytes, false);
  return form;
}

// The first read from which on only `readers` read the value; kNever when the last one is another.
//
// Some codecs keep only enough for certain readers (a mask of x > 0 does for relu's gradient, which
// asks nothing else of x). Such a form can stand for the value once all the others have read it: of
// the reads relu, dot, gradient, gradient, of which the gradients are `readers`, the answer is the
// third. Backwards, because only a tail without other readers counts.
OpId first_of_tail(const Problem& problem, ValueId v,
                   const std::vector<const ir::Instruction*>& readers) {
  OpId first = kNever;
  const auto uses = problem.uses[v];
  for (std::size_t i = uses.size(); i-- > 0;) {
    const Op& op = problem.ops[uses[i]];
    if (op.kind != StepKind::compute ||
        !std::binary_search(readers.begin(), readers.end(), op.instruction)) {
      break;
    }
    first = uses[i];
  }
  return first;
}

}  // namespace

// By rising value, which `least_bytes_at` relies on; the codecs of the graph come in that order,
// too, so that one walk over both does.
std::vector<Form> find_forms(const Problem& problem, const PlanOptions& options) {
  const IdVector<ValueId, char> movable = movable_values(problem, options);
  std::vector<Form> forms;
  std::span<const CodecForm> codecs;
  if (problem.graph != nullptr) codecs = problem.graph->codecs;
  auto codec = codecs.begin();
  for (const ValueId v : movable.ids()) {
    while (codec != codecs.end() && codec->value < v) ++codec;
    if (!movable[v]) continue;
    for (; options.remedies.compress && codec != codecs.end() && codec->value == v; ++codec) {
      if (!codec->codec.lossless() && !options.remedies.lossy) continue;
      Form form;
      form.value = v;
      form.codec = codec->codec;
      form.bytes = codec->bytes;
      form.encode_seconds = codec->encode_seconds;
      form.decode_seconds = codec->decode_seconds;
      form.fused_readers = codec->fused_readers;
      form.fused_encode = codec->fused_encode;
      form.first_return =
          codec->readers.empty() ? OpId(0) : first_of_tail(problem, v, codec->readers);
      if (form.first_return != kNever) forms.push_back(form);
    }
    if (!options.remedies.swap) continue;
    for (const MemorySpace tier : kTiers) {
      if (options[tier].bytes <= 0) continue;
      forms.push_back(swap_form(problem, v, swap_to(tier), options[tier]));
    }
  }
  return forms;
}

bool reads_fused(const Op& op, std::span<const ir::Instruction* const> fused_readers) {
  return op.kind == StepKind::compute &&
         std::binary_search(fused_readers.begin(), fused_readers.end(), op.instruction);
}

// The fewest bytes that the value can have while `op` runs, for lower bounds: its own, unless a
// kernel can write or read the encoded form itself. Where decoding takes a kernel of its own, the
// whole value is there beside its form.
std::int64_t least_bytes_at(const Problem& problem, std::span<const Form> forms, OpId op,
                            ValueId value) {
  std::int64_t least = problem.values[value].bytes;
  const auto before = [](const Form& form, ValueId v) { return form.value < v; };
  for (auto form = std::lower_bound(forms.begin(), forms.end(), value, before);
       form != forms.end() && form->value == value; ++form) {
    const bool made = op == problem.values[value].producer && form->fused_encode;
    const bool read = op >= form->first_return && reads_fused(problem.ops[op], form->fused_readers);
    if (made || read) least = std::min(least, form->bytes);
  }
  return least;
}

Choice choose_form(const Problem& problem, const Form& form, OpId ready) {
  Choice choice;
  choice.value = form.value;
  choice.kind = form.kind;
  choice.codec = form.codec;
  choice.bytes = form.bytes;
  choice.encode_seconds = form.encode_seconds;
  choice.decode_seconds = form.decode_seconds;
  choice.out = form.out;
  choice.in = form.in;
  choice.fused_readers = form.fused_readers;
  choice.fused_encode = form.fused_encode;
  // The value leaves behind the last op that touches it before `ready`: its producer, or its last
  // read of those.
  OpId before = problem.values[form.value].producer;
  for (const OpId use : problem.uses[form.value]) {
    if (use >= ready) break;
    before = use;
  }
  choice.leave = choice.left = before + 1;
  choice.returns.push_back({ready, ready});
  return choice;
}

}  // namespace plimsoll::planner
