// SPDX-License-Identifier: Apache-2.0
// Attention as newer opsets have it, and what stands around it in models that generate: positions
// as rotations, and caches of keys and values that are written in place.
#include <fmt/format.h>
#include <cmath>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/attention.h"
#include "runtime/import/onnx/ops/node_context.h"
#include "runtime/import/onnx/ops/softmax.h"

namespace plimsoll::onnx {
using ir::ComparisonDirection;
using ir::DType;
using ir::Opcode;

Array heads_apart(NodeContext& n, const Array& x, std::int64_t heads, std::string_view attribute) {
  if (x.rank() != 3) return x;
  if (heads < 1 || x.dim(2) % heads != 0) {
    n.wrong(attribute, fmt::format("is {}, the input has {} columns", heads, x.dim(2)));
    return x;
  }
  return n.e.transpose(n.e.reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), {0, 2, 1, 3});
}

Array heads_together(Emit& e, const Array& x) {
  const Array rows = e.transpose(x, {0, 2, 1, 3});
  return e.reshape(rows, {rows.dim(0), rows.dim(1), rows.dim(2) * rows.dim(3)});
}

Array heads_repeated(Emit& e, const Array& x, std::int64_t times) {
  if (times == 1 || x.rank() != 4) return x;
  const Sizes dims{x.dim(0), x.dim(1), times, x.dim(2), x.dim(3)};
  return e.reshape(e.broadcast(x, dims, {0, 1, 3, 4}),
                   {x.dim(0), x.dim(1) * times, x.dim(2), x.dim(3)});
}

Array columns_turned(Emit& e, const Array& x, const Array& cosine, const Array& sine,
                     std::int64_t turned, bool is_interleaved) {
  const std::int64_t half = turned / 2, depth = x.dim(3);
  const Array first = is_interleaved ? e.slice(x, 3, 0, turned, 2) : e.slice(x, 3, 0, half);
  const Array second = is_interleaved ? e.slice(x, 3, 1, turned, 2) : e.slice(x, 3, half, turned);
  const Array left = first * cosine - second * sine;
  const Array right = first * sine + second * cosine;
  Array made;
  if (is_interleaved) {
    Sizes dims = x.dims();
    if (dims.size() != 4) return made;  // after an error
    dims[3] = turned;
    made = e.reshape(e.concatenate({e.unsqueeze(left, 4), e.unsqueeze(right, 4)}, 4), dims);
  } else {
    made = e.concatenate({left, right}, 3);
  }
  return turned < depth ? e.concatenate({made, e.slice(x, 3, turned, depth)}, 3) : made;
}

namespace {

// A mask may end before the keys do: the rest is not seen.
Array whole_mask(NodeContext& n, Array mask, std::int64_t keys) {
  const std::int64_t last = mask.rank() - 1;
  if (mask.rank() < 2) {
    n.e.fail("attn_mask has a rank below 2");
    return {};
  }
  const std::int64_t missing = keys - mask.dim(last);
  if (missing <= 0 || (mask.dim(last) == 1 && n.opset < 24)) return mask;
  std::vector<ir::PaddingDimension> padding(at(mask.rank()));
  padding[at(last)].high = missing;
  return n.e.pad(
      mask, mask.dtype() == DType::pred ? n.e.scalar(0, DType::pred) : n.e.lowest(mask.dtype()),
      padding);
}

// Which scores count. `seen` is what may leave a query no key at all.
struct Masked {
  Array scores, seen;
};

void hide(Emit& e, Masked& masked, const Array& seen) {
  masked.scores = e.select(seen, masked.scores, e.lowest(masked.scores.dtype()));
  masked.seen = masked.seen.is_null() ? seen : masked.seen & seen;
}

// What the mask, the order of the keys, a window around each query and the lengths of caches hide.
Masked hide_keys(NodeContext& n, const Array& given) {
  Emit& e = n.e;
  Masked masked{given, {}};
  if (given.is_null()) return masked;  // after an error
  const Sizes dims = given.dims();
  const Array key = e.iota(DType::s64, dims, 3);
  Array lengths, query = e.iota(DType::s64, dims, 2);
  if (n.has(6)) lengths = e.reshape(e.convert(n.in(6), DType::s64), {dims[0], 1, 1, 1});
  if (n.has(4)) {
    query = query + static_cast<double>(n.in(4).dim(2));
  } else if (n.has(6)) {  // the queries are the last of what their cache holds
    query = query + (lengths - static_cast<double>(dims[2]));
  }
  if (n.number("is_causal", 0) != 0) {
    const Array is_later = query < key;
    masked.scores = e.select(is_later, e.lowest(given.dtype()), masked.scores);
    if (n.has(3) || n.has(6)) masked.seen = logical_not(is_later);
  }
  if (n.has(3)) {
    const Array mask = whole_mask(n, n.in(3), dims[3]);
    if (mask.dtype() == DType::pred) {
      hide(e, masked, mask);
    } else {
      masked.scores = masked.scores + e.convert(mask, given.dtype());
      const Array seen = mask > -HUGE_VAL;
      masked.seen = masked.seen.is_null() ? seen : masked.seen & seen;
    }
  }
  const std::int64_t before = n.number("left_window_size", -1);
  const std::int64_t after = n.number("right_window_size", -1);
  if (before >= 0) {
    hide(e, masked, e.compare(ComparisonDirection::ge, key, query - static_cast<double>(before)));
  }
  if (after >= 0) {
    hide(e, masked, e.compare(ComparisonDirection::le, key, query + static_cast<double>(after)));
  }
  if (n.has(6)) hide(e, masked, key < lengths);
  return masked;
}

// Zeros in the rows of queries that see no key.
Array without_blind(Emit& e, const Masked& masked, const Array& x) {
  if (masked.seen.is_null()) return x;
  const Array sees = e.reduce(Opcode::or_, masked.seen, {masked.seen.rank() - 1}, true);
  return e.select(sees, x, e.scalar(0, x.dtype()));
}

// Softmax(Q K' * scale + mask) V, heads side by side or in a dim of their own (opset 23).
void attention(NodeContext& n) {
  Array q = n.in(0), k = n.in(1), v = n.in(2);
  const bool is_flat = q.rank() == 3;
  q = heads_apart(n, q, n.number("q_num_heads", 0), "q_num_heads");
  k = heads_apart(n, k, n.number("kv_num_heads", 0), "kv_num_heads");
  v = heads_apart(n, v, n.number("kv_num_heads", 0), "kv_num_heads");
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) {
    return n.e.fail("takes arrays of rank 3 or 4");
  }
  if (n.has(6) && (n.in(6).rank() != 1 || n.in(6).dim(0) != q.dim(0))) {
    return n.e.fail("nonpad_kv_seqlen has not a number for each of the batch");
  }
  if (n.has(4)) k = n.e.concatenate({n.in(4), k}, 2);
  if (n.has(5)) v = n.e.concatenate({n.in(5), v}, 2);
  n.set(1, k);
  n.set(2, v);
  if (k.dim(1) > 0 && q.dim(1) != k.dim(1)) {  // heads of queries share those of keys
    const std::int64_t times = q.dim(1) / k.dim(1);
    k = heads_repeated(n.e, k, times);
    v = heads_repeated(n.e, v, times);
  }
  const double scale = n.real("scale", 1 / std::sqrt(static_cast<double>(q.dim(3))));
  const Array products = n.e.dot(q, k, {{3}, {3}, {0, 1}, {0, 1}}) * scale;
  // Before the mask, whose infinities would become numbers.
  const double cap = n.real("softcap", 0);
  const Array capped = cap != 0 ? tanh(products / cap) * cap : products;
  const Masked masked = hide_keys(n, capped);
  const Array shares = softmax(n.e, masked.scores, 3);
  const Array made = without_blind(n.e, masked, n.e.matmul(shares, v));
  n.set(0, is_flat ? heads_together(n.e, made) : made);
  if (!n.wants(3)) return;
  switch (const std::int64_t mode = n.number("qk_matmul_output_mode", 0); mode) {
    case 0:
      return n.set(3, products);
    case 1:
      return n.set(3, capped);
    case 2:
      return n.set(3, masked.scores);
    case 3:
      return n.set(3, without_blind(n.e, masked, shares));
    default:
      n.wrong("qk_matmul_output_mode", fmt::format("is {} (must be from 0 to 3)", mode));
  }
}

// Pairs of columns, turned by the angle of their row's position.
void rotary_embedding(NodeContext& n) {
  Emit& e = n.e;
  const Array given = n.in(0);
  const Array x = heads_apart(n, given, n.number("num_heads", 0), "num_heads");
  if (x.rank() != 4) return e.fail("takes arrays of rank 3 or 4");
  const std::int64_t depth = x.dim(3);
  const std::int64_t asked = n.number("rotary_embedding_dim", 0);
  const std::int64_t turned = asked == 0 ? depth : asked;
  if (turned < 2 || turned % 2 != 0 || turned > depth) {
    return n.wrong("rotary_embedding_dim",
                   fmt::format("is {}, the input has {} columns", turned, depth));
  }
  const std::int64_t half = turned / 2;
  const auto angles = [&](int input) {  // [batch, 1, length, half]
    const Array rows = n.has(3) ? e.take(n.in(input), n.in(3), 0) : n.in(input);
    if (rows.rank() == 3 && rows.dim(2) == half) return e.unsqueeze(rows, 1);
    e.fail(fmt::format("the cache must have {} columns", half));
    return Array();
  };
  const Array cosine = angles(1), sine = angles(2);
  const Array made = columns_turned(e, x, cosine, sine, turned, n.number("interleaved", 0) != 0);
  n.set(0, given.rank() == 3 ? heads_together(e, made) : made);
}

// Each of the batch's pieces at a place of its own in its cache; a ring in mode "circular".
void tensor_scatter(NodeContext& n) {
  Emit& e = n.e;
  const Array cache = n.in(0), update = n.in(1);
  const std::int64_t axis = e.axis(n.number("axis", -2), cache.rank());
  const std::string mode = n.text("mode", "linear");
  if (mode != "linear" && mode != "circular") {
    return n.wrong("mode", "is '" + mode + "' (must be linear or circular)");
  }
  Sizes fitting = update.dims();
  if (axis == 0 || update.rank() != cache.rank() || update.dim(axis) > cache.dim(axis)) {
    return e.fail("the update does not fit the cache");
  }
  fitting[at(axis)] = cache.dim(axis);
  if (fitting != cache.dims()) return e.fail("the update does not fit the cache");
  const std::int64_t size = cache.dim(axis), length = update.dim(axis), batch = cache.dim(0);
  if (length == 0 || batch == 0) return n.set(0, cache);
  Array first = n.has(2) ? e.convert(n.in(2), DType::s64) : e.splat(0, DType::s64, {batch});
  if (first.rank() != 1 || first.dim(0) != batch) {
    return e.fail("write_indices has not a number for each of the batch");
  }
  // Which row of the update each row of the cache takes, if any.
  Array row = e.iota(DType::s64, {batch, size}, 1) - e.unsqueeze(first, 1);
  if (mode == "circular") {
    const Array wide = e.scalar(static_cast<double>(size), DType::s64);
    row = e.binary(Opcode::remainder, row, wide);
    row = e.select(row < 0, row + static_cast<double>(size), row);
  }
  const Array takes = e.compare(ComparisonDirection::ge, row, e.scalar(0, DType::s64)) &
                      (row < static_cast<double>(length));
  Sizes dims(at(cache.rank()), 1);
  dims[0] = batch;
  dims[at(axis)] = size;
  const auto everywhere = [&](const Array& a) {
    return e.broadcast_to(e.reshape(a, dims), cache.dims());
  };
  const Array within = e.minimum(e.maximum(row, e.scalar(0, DType::s64)),
                                 e.scalar(static_cast<double>(length - 1), DType::s64));
  n.set(0, e.select(everywhere(takes), e.take_along(update, everywhere(within), axis), cache));
}

}  // namespace

void add_attention(OpTable& t) {
  t["Attention"] = {attention};
  t["RotaryEmbedding"] = {rotary_embedding};
  t["TensorScatter"] = {tensor_scatter};
}

}  // namespace plimsoll::onnx
