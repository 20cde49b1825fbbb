// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/facts/codec_choice.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace plimsoll::planner {
namespace {

using ir::ComparisonDirection;
using ir::DType;
using ir::Instruction;
using ir::Opcode;

constexpr int kMostDepth = 16;

// What a conversion to `to` leaves distinguishable, in order.
bool widens(DType from, DType to) {
  if (from == to) return true;
  if (!ir::is_floating(to)) return false;
  if (ir::is_floating(from)) return ir::dtype_bytes(to) > ir::dtype_bytes(from);
  return ir::dtype_bytes(from) == 1 || (ir::dtype_bytes(from) == 2 && ir::dtype_bytes(to) >= 4) ||
         (ir::dtype_bytes(from) == 4 && ir::dtype_bytes(to) == 8);
}

// The number that every element of `value` is.
std::optional<double> constant_of(const Instruction& value, const Instruction* caller) {
  const Instruction* at = &value;
  for (int i = 0; i < kMostDepth; ++i) {
    switch (at->opcode()) {
      case Opcode::constant: {
        if (!at->shape().is_array()) return std::nullopt;
        const ir::Literal& literal = *at->attributes().literal;
        if (literal.is_elided() || !literal.is_splat()) return std::nullopt;
        const double number = literal.at(0);
        if (!std::isfinite(number) || std::abs(number) > 9007199254740992.0) return std::nullopt;
        return number;
      }
      case Opcode::broadcast:
      case Opcode::reshape:
      case Opcode::copy:
        at = at->operand(0);
        break;
      case Opcode::parameter:
        if (caller == nullptr || caller->to_apply() != at->parent()) return std::nullopt;
        at = caller->operand(static_cast<int>(at->attributes().parameter_number));
        caller = nullptr;
        break;
      default:
        return std::nullopt;
    }
  }
  return std::nullopt;
}

// Does a reader look at more than the outcome of one comparison? Example: relu's gradient selects
// by x > 0 and reads x for nothing else: one bit an element will do. The path from the operand to
// the comparison may move elements (transpose, slice, broadcast) and widen them, as widening keeps
// order and equality with any number that the narrow dtype holds. It may not round, and every use
// must come to the same comparison with the same constant, in the same direction up to its mirror
// image: 0 < x is x > 0.
class ReaderLook {
 public:
  ReaderLook(DType dtype, const Instruction* caller) : dtype_(dtype), caller_(caller) {}

  // What `user` does with its operand `value`; false when it is more than the comparison so far.
  bool look(const Instruction& user, const Instruction& value, int depth) {
    if (depth > kMostDepth) return false;
    switch (user.opcode()) {
      case Opcode::compare:
        return compare(user, value);
      case Opcode::convert:
        return widens(value.shape().dtype(), user.shape().dtype()) && follow(user, depth);
      case Opcode::bitcast:
        return value.shape().dtype() == user.shape().dtype() && follow(user, depth);
      case Opcode::reshape:
      case Opcode::broadcast:
      case Opcode::transpose:
      case Opcode::copy:
      case Opcode::slice:
      case Opcode::reverse:
        return follow(user, depth);
      default:
        return false;
    }
  }

  // All that reads `value` inside its computation.
  bool follow(const Instruction& value, int depth) {
    if (value.is_root() || value.users().empty()) return false;
    for (const Instruction* user : value.users()) {
      if (!look(*user, value, depth + 1)) return false;
    }
    return true;
  }

  bool compare(const Instruction& user, const Instruction& value) {
    const bool left = user.operand(0) == &value;
    if (left && user.operand(1) == &value) return false;
    if (user.attributes().comparison_order == ir::ComparisonOrder::total &&
        ir::is_floating(value.shape().dtype())) {
      return false;
    }
    const auto constant = constant_of(*user.operand(left ? 1 : 0), caller_);
    if (!constant || !ir::is_number(dtype_, *constant)) return false;
    Codec codec;
    codec.kind = CodecKind::compare_mask;
    codec.direction = left ? user.attributes().comparison_direction
                           : ir::mirrored(user.attributes().comparison_direction);
    codec.constant = *constant == 0 ? 0 : *constant;
    if (found.kind != CodecKind::none && !(found == codec)) return false;
    found = codec;
    return true;
  }

  Codec found;

 private:
  const DType dtype_;
  const Instruction* const caller_;
};

// The instruction and leaf within it that operand leaf `leaf` is.
std::pair<int, int> operand_of(const Instruction& instruction, int leaf) {
  for (int i = 0; i < instruction.operand_count(); ++i) {
    const int count = ir::leaf_count(instruction.operand(i)->shape());
    if (leaf < count) return {i, leaf};
    leaf -= count;
  }
  return {-1, 0};
}

}  // namespace

// The smallest first: a bit for pred, then integers in 8 bits, in 16, floats in 16, integers in 32.
// Signed and unsigned forms of a size cost the same; the first that holds the range is taken.
Codec exact_codec(const ValueFacts& facts, DType dtype) {
  const ir::Shape some(dtype, {1024});
  Codec best;
  for (const ir::CodecInfo& row : ir::all_codecs()) {
    if (row.proof.by != ir::CodecProof::By::facts) continue;
    const std::optional<Codec> codec = row.proof.propose(facts, dtype);
    // Of as many bytes the first.
    if (codec && encoded_bytes(*codec, some) < encoded_bytes(best, some)) best = *codec;
  }
  return best;
}

Codec comparison_of(const Instruction& reader, int operand_leaf, DType dtype) {
  const auto [operand, leaf] = operand_of(reader, operand_leaf);
  if (operand < 0 || !reader.operand(operand)->shape().is_array()) return {};
  if (reader.opcode() == Opcode::fusion) {
    const Instruction* parameter = reader.to_apply()->parameters()[at(operand)];
    ReaderLook look(dtype, &reader);
    if (parameter == nullptr || !look.follow(*parameter, 0)) return {};
    return look.found;
  }
  ReaderLook look(dtype, nullptr);
  if (reader.opcode() != Opcode::compare || !look.compare(reader, *reader.operand(operand)))
    return {};
  return look.found;
}

namespace {

// Per value, the instructions that do no more with it than one comparison, and which that is.
struct Reading {
  Codec codec;
  const Instruction* reader;
};

IdVector<ValueId, std::vector<Reading>> find_readings(const Graph& graph) {
  IdVector<ValueId, std::vector<Reading>> readings(graph.values.size());
  std::vector<ValueId> seen;
  for (const OpId op : graph.ops.ids()) {
    const Instruction& reader = *graph.ops[op].instruction;
    if (reader.opcode() != Opcode::fusion && reader.opcode() != Opcode::compare) continue;
    const auto inputs = graph.inputs[op];
    seen.clear();
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const ValueId v = inputs[k];
      if (v < 0 || std::find(seen.begin(), seen.end(), v) != seen.end()) continue;
      seen.push_back(v);
      const Value& value = graph.values[v];
      if (value.producer < 0) continue;
      const DType dtype = ir::leaves(value.source->shape())[at(value.leaf)]->dtype();
      const Codec codec = comparison_of(reader, static_cast<int>(k), dtype);
      bool same = codec.kind != CodecKind::none;
      for (std::size_t other = k + 1; same && other < inputs.size(); ++other) {
        same = inputs[other] != v || comparison_of(reader, static_cast<int>(other), dtype) == codec;
      }
      if (same) readings[v].push_back({codec, &reader});
    }
  }
  return readings;
}

// Per value, what reads it as it is, or as another shape of the same elements, and by which number.
struct Read {
  const Instruction* reader;
  int input;
};

IdVector<ValueId, std::vector<Read>> find_reads(const Graph& graph) {
  IdVector<ValueId, std::vector<Read>> reads(graph.values.size());
  for (const OpId op : graph.ops.ids()) {
    const auto inputs = graph.inputs[op];
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k] < 0) continue;
      reads[inputs[k]].push_back({graph.ops[op].instruction, static_cast<int>(k)});
    }
  }
  return reads;
}

// Whether the operand is of that shape, up to its dims: a view may be of another dtype.
bool is_alike(const Read& read, const ir::Shape& shape) {
  if (read.input >= read.reader->operand_count()) return false;
  const ir::Shape& operand = read.reader->operand(read.input)->shape();
  return operand.is_array() && operand.dtype() == shape.dtype() &&
         operand.element_count() == shape.element_count();
}

// Of these reads of a value of `shape`, in order of ops: the instructions all of whose reads can be
// of what the codec stores, sorted.
//
// An instruction may read a value through several operands; it counts as a reader that could decode
// only if all of them can be of the code, as there is no decoded copy then.
std::vector<const Instruction*> fused_readers(std::span<const Read> reads, const ir::Shape& shape,
                                              const CodecForm& form, const CostModel& cost_model) {
  std::vector<const Instruction*> fused;
  for (std::size_t i = 0; i < reads.size();) {
    const Instruction* const reader = reads[i].reader;
    bool all = form.codec.gives_values() ||
               std::find(form.readers.begin(), form.readers.end(), reader) != form.readers.end();
    for (; i < reads.size() && reads[i].reader == reader; ++i) {
      all = all && is_alike(reads[i], shape) &&
            cost_model.reads_encoded(*reader, {reads[i].input, form.codec});
    }
    if (all) fused.push_back(reader);
  }
  std::sort(fused.begin(), fused.end());
  return fused;
}

}  // namespace

std::vector<CodecForm> find_codecs(const Graph& graph, const CostModel& cost_model,
                                   CodecKind lossy) {
  const auto readings = find_readings(graph);
  const auto reads = find_reads(graph);
  FactFinder facts;
  std::vector<CodecForm> forms;
  for (const ValueId v : graph.values.ids()) {
    const Value& value = graph.values[v];
    if (value.producer < 0 || value.home != Home::arena) continue;
    const ir::Shape& shape = *ir::leaves(value.source->shape())[at(value.leaf)];
    const std::size_t first = forms.size();
    const auto add = [&](const Codec& codec) {
      CodecForm form;
      form.value = v;
      form.codec = codec;
      form.bytes = aligned_bytes(encoded_bytes(codec, shape));
      if (form.bytes >= value.bytes) return;
      form.encode_seconds = cost_model.codec_seconds(codec, shape, true);
      form.decode_seconds = cost_model.codec_seconds(codec, shape, false);
      forms.push_back(std::move(form));
    };
    const Codec exact = exact_codec(facts.find(*value.source, value.leaf), shape.dtype());
    if (exact.kind != CodecKind::none) add(exact);
    for (const Reading& reading : readings[v]) {
      const auto same =
          std::find_if(forms.begin() + static_cast<std::ptrdiff_t>(first), forms.end(),
                       [&](const CodecForm& f) { return f.codec == reading.codec; });
      if (same == forms.end()) add(reading.codec);
      for (std::size_t i = first; i < forms.size(); ++i) {
        if (forms[i].codec == reading.codec) forms[i].readers.push_back(reading.reader);
      }
    }
    Codec rounded{lossy};
    if (suits(rounded, shape)) {
      if (ir::codec_info(lossy).rounding == ir::CodecRounding::seeded) {
        rounded.seed = static_cast<std::uint64_t>(v.index()) + 1;
      }
      add(rounded);
    }
    for (std::size_t i = first; i < forms.size(); ++i) {
      std::sort(forms[i].readers.begin(), forms[i].readers.end());
      forms[i].fused_encode =
          cost_model.writes_encoded(*value.source, {value.leaf, forms[i].codec});
      forms[i].fused_readers = fused_readers(reads[v], shape, forms[i], cost_model);
    }
    std::stable_sort(forms.begin() + static_cast<std::ptrdiff_t>(first), forms.end(),
                     [](const CodecForm& a, const CodecForm& b) { return a.bytes < b.bytes; });
  }
  return forms;
}

}  // namespace plimsoll::planner
