// SPDX-License-Identifier: Apache-2.0
// Attention as com.microsoft has it, which ONNX Runtime's tools make of models that write it out.
#include <fmt/format.h>
#include <cmath>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/attention.h"
#include "runtime/import/onnx/ops/node_context.h"
#include "runtime/import/onnx/ops/quantization.h"
#include "runtime/import/onnx/ops/softmax.h"

namespace plimsoll::onnx {
namespace {

using ir::ComparisonDirection;
using ir::DType;
using ir::Opcode;

// All [batch, heads, length, depth].
struct Heads {
  Array q, k, v;
};

// What is done with scores, [batch, heads, queries, keys], before their softmax.
struct ScoreChanges {
  double scale = 1, cap = 0;
  std::vector<Array> added;
  Array seen;  // which scores count; null: all
  Array sink;  // what every row of softmax has beside its scores; may be null
};

Array attended(Emit& e, const Heads& heads, const ScoreChanges& changes) {
  Array scores = e.dot(heads.q, heads.k, {{3}, {3}, {0, 1}, {0, 1}}) * changes.scale;
  if (changes.cap != 0) scores = tanh(scores / changes.cap) * changes.cap;
  for (const Array& one : changes.added) scores = scores + e.convert(one, scores.dtype());
  if (!changes.seen.is_null()) {
    scores = e.select(changes.seen, scores, e.lowest(scores.dtype()));
  }
  if (changes.sink.is_null()) return e.matmul(softmax(e, scores, 3), heads.v);
  const Array sink = e.convert(changes.sink, scores.dtype());
  const Array top = e.maximum(e.reduce(Opcode::maximum, scores, {3}, true), sink);
  const Array powers = exp(scores - top);
  return e.matmul(powers / (e.sum(powers, {3}, true) + exp(sink - top)), heads.v);
}

double scale_of(NodeContext& n, const Heads& heads) {
  const double given = n.real("scale", 0);
  return given != 0 ? given : 1 / std::sqrt(static_cast<double>(heads.q.dim(3)));
}

// Keys behind those up to a query, `before` of which come before the first query.
Array up_to_query(Emit& e, std::int64_t queries, std::int64_t keys, std::int64_t before) {
  const Sizes dims{1, 1, queries, keys};
  return e.compare(ComparisonDirection::le, e.iota(DType::s64, dims, 3),
                   e.iota(DType::s64, dims, 2) + static_cast<double>(before));
}

// A mask of keys, as what is added to the scores: lengths of a batch's keys, where they end and
// where they begin, or a number for each key, which 0 hides.
Array added_mask(NodeContext& n, const Array& mask, const Heads& heads, std::int64_t before) {
  Emit& e = n.e;
  const std::int64_t batch = heads.q.dim(0), queries = heads.q.dim(2), keys = heads.k.dim(2);
  Array seen;
  if (mask.rank() == 1 && batch > 0 && (mask.dim(0) == batch || mask.dim(0) == 2 * batch)) {
    const Array bounds = e.reshape(e.convert(mask, DType::s64), {mask.dim(0) / batch, batch, 1});
    const Array key = e.iota(DType::s64, {batch, keys}, 1);
    seen = key < e.element(bounds, e.scalar(0, DType::s64), 0);
    if (mask.dim(0) != batch) {
      seen = seen &
             e.compare(ComparisonDirection::ge, key, e.element(bounds, e.scalar(1, DType::s64), 0));
    }
    seen = e.reshape(seen, {batch, 1, 1, keys});
  } else if (mask.rank() == 2 && mask.dims() == Sizes{batch, keys}) {
    seen = e.reshape(mask > 0, {batch, 1, 1, keys});
  } else if (mask.rank() == 3 && mask.dims() == Sizes{batch, queries, keys}) {
    seen = e.unsqueeze(mask > 0, 1);
  } else if (mask.rank() == 4 && mask.dim(0) == batch && mask.dim(1) == 1 &&
             mask.dim(2) >= before + queries && mask.dim(3) >= keys) {
    seen = e.slice(e.slice(mask, 2, before, before + queries), 3, 0, keys) > 0;
  } else {
    e.fail(unimplemented("a mask of these dimensions"));
    return {};
  }
  return e.select(seen, e.scalar(0, DType::f32),
                  e.scalar(n.real("mask_filter_value", -10000), DType::f32));
}

// Columns of queries, keys and values side by side, as Attention's product makes them: the output
// and the keys and values so far, by inputs `mask`, `past` and `bias`.
void attend_to_columns(NodeContext& n, const Array& columns, int mask, int past, int bias) {
  Emit& e = n.e;
  if (columns.rank() != 3) return e.fail("takes arrays of rank 3");
  const std::int64_t width = columns.dim(2), count = n.number("num_heads", 0);
  const Sizes sizes =
      n.numbers("qkv_hidden_sizes", {width / 3, width / 3, width - 2 * (width / 3)});
  if (sizes.size() != 3 || sizes[0] < 1 || sizes[1] != sizes[0] || sizes[2] < 1 ||
      sizes[0] > width || sizes[2] > width || sizes[0] + sizes[1] + sizes[2] != width) {
    return n.wrong("qkv_hidden_sizes", fmt::format("do not fit {} columns", width));
  }
  if (n.number("do_rotary", 0) != 0) return e.fail(unimplemented("do_rotary"));
  if (n.number("past_present_share_buffer", 0) != 0) {
    return e.fail(unimplemented("past_present_share_buffer"));
  }
  const auto part = [&](std::int64_t first, std::int64_t size) {
    return heads_apart(n, e.slice(columns, 2, first, first + size), count, "num_heads");
  };
  Heads heads{part(0, sizes[0]), part(sizes[0], sizes[1]), part(sizes[0] + sizes[1], sizes[2])};
  if (!e.status().ok()) return;
  std::int64_t before = 0;
  if (n.has(past)) {
    const Array both = n.in(past);
    if (both.rank() != 5 || both.dim(0) != 2) return e.fail("past has not rank 5");
    before = both.dim(3);
    const auto longer = [&](std::int64_t which, const Array& more) {
      const Array earlier = e.squeeze(e.slice(both, 0, which, which + 1), 0);
      return before == 0 ? more : e.concatenate({earlier, more}, 2);
    };
    heads.k = longer(0, heads.k);
    heads.v = longer(1, heads.v);
  }
  if (n.wants(1)) n.set(1, e.concatenate({e.unsqueeze(heads.k, 0), e.unsqueeze(heads.v, 0)}, 0));
  ScoreChanges changes{scale_of(n, heads), 0, {}, {}, {}};
  if (n.has(mask)) changes.added.push_back(added_mask(n, n.in(mask), heads, before));
  if (bias >= 0 && n.has(bias)) changes.added.push_back(n.in(bias));
  if (n.number("unidirectional", 0) != 0) {
    changes.seen = up_to_query(e, heads.q.dim(2), heads.k.dim(2), before);
  }
  n.set(0, heads_together(e, attended(e, heads, changes)));
}

void projected_attention(NodeContext& n) {
  const Array x = n.in(0), weights = n.in(1);
  if (x.rank() != 3 || weights.rank() != 2 || x.dim(2) != weights.dim(0)) {
    return n.e.fail("the weights do not fit the input");
  }
  Array columns = n.e.dot(x, weights, {{2}, {0}, {}, {}});
  if (n.has(2)) columns = columns + n.in(2);
  attend_to_columns(n, columns, 3, 4, 5);
}

void quantized_attention(NodeContext& n) {
  Emit& e = n.e;
  const auto scale = [&](int i) {
    const Array given = e.convert(n.in(i), DType::f32);
    return given.element_count() == 1 ? e.reshape(given, {}) : given;
  };
  const Array sums = whole_product(n, n.in(0), n.has(6) ? n.in(6) : Array(), 1, 7);
  attend_to_columns(n, e.convert(sums, DType::f32) * (scale(3) * scale(4)) + n.in(2), 5, 8, -1);
}

// Queries, keys and values as MultiHeadAttention takes them: columns (rank 3), heads (rank 4), or
// two or three of them packed side by side in each head (rank 5).
Heads given_heads(NodeContext& n) {
  Emit& e = n.e;
  const std::int64_t count = n.number("num_heads", 0);
  Array bias[3];
  if (n.has(3)) {
    const Array all = n.in(3);
    const Array q = n.in(0);
    const std::int64_t width = q.rank() == 5 ? q.dim(2) * q.dim(4) : q.dim(q.rank() - 1);
    if (all.rank() != 1 || all.dim(0) <= 2 * width) {
      e.fail("the bias does not fit the queries");
      return {};
    }
    bias[0] = e.slice(all, 0, 0, width);
    bias[1] = e.slice(all, 0, width, 2 * width);
    bias[2] = e.slice(all, 0, 2 * width, all.dim(0));
  }
  const auto columns = [&](const Array& x, int which) {
    if (x.rank() != 3) return x;
    return heads_apart(n, bias[which].is_null() ? x : x + bias[which], count, "num_heads");
  };
  const auto packed = [&](const Array& x, std::int64_t part, int which) {
    Array one = e.squeeze(e.slice(x, 3, part, part + 1), 3);  // [batch, length, heads, depth]
    if (!bias[which].is_null()) one = one + e.reshape(bias[which], {one.dim(2), one.dim(3)});
    return e.transpose(one, {0, 2, 1, 3});
  };
  const Array q = n.in(0);
  if (q.rank() == 5) return {packed(q, 0, 0), packed(q, 1, 1), packed(q, 2, 2)};
  const Array k = n.in(1);
  if (k.rank() == 5) return {columns(q, 0), packed(k, 0, 1), packed(k, 1, 2)};
  return {columns(q, 0), columns(k, 1), columns(n.in(2), 2)};
}

void multi_head_attention(NodeContext& n) {
  Emit& e = n.e;
  Heads heads = given_heads(n);
  if (!e.status().ok()) return;
  if (heads.q.rank() != 4 || heads.k.rank() != 4 || heads.v.rank() != 4) {
    return e.fail("takes arrays of rank 3 to 5");
  }
  if (n.has(8) || n.has(9))
    return e.fail(unimplemented("caches that are longer than what is past"));
  if (n.wants(3)) return e.fail(unimplemented("the output of products"));
  std::int64_t before = 0;
  if (n.has(6) && n.has(7)) {
    before = n.in(6).dim(2);
    heads.k = e.concatenate({n.in(6), heads.k}, 2);
    heads.v = e.concatenate({n.in(7), heads.v}, 2);
  }
  n.set(1, heads.k);
  n.set(2, heads.v);
  ScoreChanges changes{scale_of(n, heads), 0, {}, {}, {}};
  if (n.has(4)) changes.added.push_back(added_mask(n, n.in(4), heads, before));
  if (n.has(5)) changes.added.push_back(n.in(5));
  if (n.number("unidirectional", 0) != 0) {
    changes.seen = up_to_query(e, heads.q.dim(2), heads.k.dim(2), before);
  }
  n.set(0, heads_together(e, attended(e, heads, changes)));
}

// A cache, with `rows` rows, of keys or values that hold `before` of each of the batch (s64[batch])
// and then the new ones.
Array cached(NodeContext& n, int past, const Array& added, const Array& before, std::int64_t rows) {
  Emit& e = n.e;
  const std::int64_t batch = added.dim(0), length = added.dim(2);
  const auto padded = [&](const Array& x) {
    std::vector<ir::PaddingDimension> padding(4);
    padding[2].high = rows - x.dim(2);
    return rows == x.dim(2) ? x : e.pad(x, e.scalar(0, x.dtype()), padding);
  };
  if (!n.has(past) || n.in(past).dim(2) == 0) return padded(added);
  const Array earlier = n.in(past);
  if (earlier.rank() != 4 || earlier.dim(2) > rows || earlier.dim(0) != batch) {
    e.fail("a cache does not fit total_sequence_length");
    return {};
  }
  const Sizes dims{batch, added.dim(1), rows, added.dim(3)};
  const Array row =
      e.iota(DType::s64, {batch, 1, rows, 1}, 2) - e.reshape(before, {batch, 1, 1, 1});
  const Array last = e.scalar(static_cast<double>(length - 1), DType::s64);
  const Array zero = e.scalar(0, DType::s64);
  const Array is_new =
      e.compare(ComparisonDirection::ge, row, zero) & e.compare(ComparisonDirection::le, row, last);
  const Array within = e.broadcast_to(e.minimum(e.maximum(row, zero), last), dims);
  const Array moved = length == 1 ? e.broadcast_to(added, dims) : e.take_along(added, within, 2);
  return e.select(e.broadcast_to(is_new, dims), moved, padded(earlier));
}

void group_query_attention(NodeContext& n) {
  Emit& e = n.e;
  const std::int64_t count = n.number("num_heads", 0), groups = n.number("kv_num_heads", 0);
  if (count < 1 || groups < 1 || count > (1 << 20) || count % groups != 0) {
    return n.wrong("kv_num_heads", fmt::format("is {}, num_heads is {}", groups, count));
  }
  if (n.number("kv_cache_bit_width", 0) != 0) return e.fail(unimplemented("quantized caches"));
  if (n.wants(3)) return e.fail(unimplemented("the output of products"));
  Array q = n.in(0), k, v;
  if (n.has(1)) {
    k = n.in(1);
    v = n.in(2);
  } else {
    if (q.rank() != 3 || q.dim(2) % (count + 2 * groups) != 0) {
      return e.fail("the columns are no number of heads");
    }
    const std::int64_t depth = q.dim(2) / (count + 2 * groups);
    k = e.slice(q, 2, count * depth, (count + groups) * depth);
    v = e.slice(q, 2, (count + groups) * depth, q.dim(2));
    q = e.slice(q, 2, 0, count * depth);
  }
  if (q.rank() != 3 || k.rank() != 3 || v.rank() != 3) return e.fail("takes arrays of rank 3");
  Heads heads{heads_apart(n, q, count, "num_heads"), heads_apart(n, k, groups, "kv_num_heads"),
              heads_apart(n, v, groups, "kv_num_heads")};
  const std::int64_t total = n.integer(6, "total_sequence_length");
  if (!e.status().ok()) return;
  const std::int64_t batch = q.dim(0), length = q.dim(1), depth = heads.q.dim(3);
  if (length < 1 || total < length || n.in(5).element_count() != batch) {
    return e.fail("total_sequence_length or seqlens_k does not fit the queries");
  }
  // How many keys come before the first query, of each of the batch.
  const Array before = total == length ? e.splat(0, DType::s64, {batch})
                                       : e.reshape(e.convert(n.in(5), DType::s64), {batch}) +
                                             static_cast<double>(1 - length);
  if (n.number("do_rotary", 0) != 0) {
    if (!n.has(7) || !n.has(8) || n.in(7).rank() != 2) return e.fail("do_rotary takes two caches");
    const Array rows = n.has(9) ? e.broadcast_to(e.convert(n.in(9), DType::s64), {batch, length})
                                : e.iota(DType::s64, {batch, length}, 1) + e.unsqueeze(before, 1);
    const std::int64_t turned = 2 * n.in(7).dim(1);
    if (turned > depth) return e.fail("the caches of angles have too many columns");
    const auto angles = [&](int i) { return e.unsqueeze(e.take(n.in(i), rows, 0), 1); };
    const Array cosine = angles(7), sine = angles(8);
    const bool is_interleaved = n.number("rotary_interleaved", 0) != 0;
    heads.q = columns_turned(e, heads.q, cosine, sine, turned, is_interleaved);
    heads.k = columns_turned(e, heads.k, cosine, sine, turned, is_interleaved);
  }
  std::int64_t rows = total;
  if (n.has(3)) rows = std::max(rows, n.in(3).dim(2));
  heads.k = cached(n, 3, heads.k, before, rows);
  heads.v = cached(n, 4, heads.v, before, rows);
  if (!e.status().ok()) return;
  n.set(1, heads.k);
  n.set(2, heads.v);
  heads.k = heads_repeated(e, heads.k, count / groups);
  heads.v = heads_repeated(e, heads.v, count / groups);
  ScoreChanges changes{scale_of(n, heads), n.real("softcap", 0), {}, {}, {}};
  const std::int64_t window = n.number("local_window_size", -1);
  if (total == length) {
    changes.seen = up_to_query(e, length, rows, 0);
    if (window > 0) {
      changes.seen = changes.seen & logical_not(up_to_query(e, length, rows, -window));
    }
  } else {
    const Array key = e.iota(DType::s64, {batch, 1, length, rows}, 3);
    const Array query =
        e.iota(DType::s64, {batch, 1, length, rows}, 2) + e.reshape(before, {batch, 1, 1, 1});
    changes.seen = e.compare(ComparisonDirection::le, key, query);
    if (window > 0) changes.seen = changes.seen & (query < key + static_cast<double>(window));
  }
  if (n.has(10)) {
    Array bias = n.in(10);
    if (bias.rank() != 4) return e.fail("attention_bias has not rank 4");
    std::vector<ir::PaddingDimension> padding(4);
    padding[3].high = std::max<std::int64_t>(rows - bias.dim(3), 0);  // which no query sees
    if (padding[3].high > 0) bias = e.pad(bias, e.scalar(0, bias.dtype()), padding);
    changes.added.push_back(bias);
  }
  if (n.has(11)) {
    changes.sink = e.reshape(n.in(11), {1, count, 1, 1});
  } else if (n.number("smooth_softmax", 0) == 1) {
    changes.sink = e.splat(0, heads.q.dtype(), {1, 1, 1, 1});
  }
  n.set(0, heads_together(e, attended(e, heads, changes)));
}

}  // namespace

void add_contrib_attention(OpTable& t) {
  t["com.microsoft:Attention"] = {projected_attention};
  t["com.microsoft:QAttention"] = {quantized_attention};
  t["com.microsoft:MultiHeadAttention"] = {multi_head_attention};
  t["com.microsoft:GroupQueryAttention"] = {group_query_attention};
}

}  // namespace plimsoll::onnx
