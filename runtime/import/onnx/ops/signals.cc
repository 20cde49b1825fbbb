// SPDX-License-Identifier: Apache-2.0
// Fourier transforms, windows, mel filters, n-gram counts.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/node_context.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;
using ir::Opcode;

Array fourier(Emit& e, const Array& x, const char* type, std::int64_t length) {
  ir::Attributes attributes;
  attributes.extra = {{"fft_type", type}, {"fft_length", "{" + std::to_string(length) + "}"}};
  return e.make(Opcode::fft, {x}, std::move(attributes));
}

// Both parts side by side in a new last dim.
Array parts_of(Emit& e, const Array& x) {
  const Array real = e.unary(Opcode::real, x), imaginary = e.unary(Opcode::imag, x);
  const std::int64_t rank = x.rank();
  return e.concatenate({e.unsqueeze(real, rank), e.unsqueeze(imaginary, rank)}, rank);
}

// [..., 1 or 2] as complex numbers.
Array complex_of(Emit& e, const Array& x) {
  const std::int64_t last = x.rank() - 1;
  const Array real = e.squeeze(e.slice(x, last, 0, 1), last);
  const Array imaginary = x.dim(last) == 2 ? e.squeeze(e.slice(x, last, 1, 2), last)
                                           : e.splat(0, x.dtype(), real.dims());
  return e.make(Opcode::complex, {real, imaginary});
}

bool is_signal(NodeContext& n, const Array& x) {
  const bool is_wide = x.dtype() == DType::f32 || x.dtype() == DType::f64;
  if (x.rank() >= 2 && x.dim(x.rank() - 1) <= 2 && x.dim(x.rank() - 1) >= 1 && is_wide) return true;
  n.e.fail("takes f32 or f64 whose last dimension holds a number's one or two parts");
  return false;
}

// As long as asked for, by cutting or by zeros.
Array fitted(Emit& e, const Array& x, std::int64_t axis, std::int64_t length) {
  if (x.dim(axis) >= length) return e.slice(x, axis, 0, length);
  std::vector<ir::PaddingDimension> padding(at(x.rank()));
  padding[at(axis)].high = length - x.dim(axis);
  return e.pad(x, e.scalar(0, x.dtype()), padding);
}

void discrete_fourier(NodeContext& n) {
  Array x = n.in(0);
  if (!is_signal(n, x)) return;
  // The axis became an input in opset 20.
  std::int64_t axis = n.number("axis", n.opset >= 20 ? -2 : 1);
  if (n.has(2)) axis = n.integer(2, "axis");
  axis = n.e.axis(axis, x.rank());
  if (axis == x.rank() - 1) return n.e.fail("transforms along the parts of numbers");
  if (!n.e.status().ok()) return;
  const bool inverts = n.number("inverse", 0) != 0, is_onesided = n.number("onesided", 0) != 0;
  // The half of a real signal's spectrum, from which that comes back.
  const bool is_half = inverts && is_onesided;
  const std::int64_t length = n.has(1)  ? n.integer(1, "dft_length")
                              : is_half ? 2 * (x.dim(axis) - 1)
                                        : x.dim(axis);
  if (length < 1 || length > (1 << 28)) return n.e.fail("dft_length must be positive");
  x = fitted(n.e, x, axis, is_half ? length / 2 + 1 : length);
  Array made = complex_of(n.e, x);
  if (made.is_null()) return;
  Sizes order;
  for (int i = 0; i < made.rank(); ++i) order.push_back(i);
  std::swap(order[at(axis)], order.back());
  const char* const type = is_half ? "IRFFT" : inverts ? "IFFT" : "FFT";
  made = fourier(n.e, n.e.transpose(made, order), type, length);
  made = n.e.transpose(made, order);
  if (is_half) return n.set(0, n.e.unsqueeze(made, made.rank()));
  if (is_onesided) made = n.e.slice(made, axis, 0, length / 2 + 1);
  n.set(0, parts_of(n.e, made));
}

// Frames one behind the other, each windowed and transformed.
void short_time_fourier(NodeContext& n) {
  Array x = n.in(0);
  if (x.rank() == 2) x = n.e.unsqueeze(x, 2);
  if (!is_signal(n, x) || x.rank() != 3) return n.e.fail("takes [batch, samples, 1 or 2]");
  const std::int64_t step = n.integer(1, "frame_step");
  std::int64_t length = 0;
  if (n.has(3)) {
    length = n.integer(3, "frame_length");
  } else if (n.has(2)) {
    length = n.in(2).element_count();
  }
  if (step < 1 || length < 1 || length > x.dim(1)) {
    return n.e.fail(fmt::format("frames of {} every {} of {} samples", length, step, x.dim(1)));
  }
  const std::int64_t frames = (x.dim(1) - length) / step + 1;
  // [frames, length]: which sample each is.
  const Sizes grid{frames, length};
  const Array places =
      n.e.iota(DType::s64, grid, 0) * static_cast<double>(step) + n.e.iota(DType::s64, grid, 1);
  Array framed = n.e.take(x, places, 1);  // [batch, frames, length, parts]
  if (n.has(2)) framed = framed * n.e.along(n.in(2), 4, 2);
  Array made = fourier(n.e, complex_of(n.e, framed), "FFT", length);
  if (n.number("onesided", 1) != 0) made = n.e.slice(made, 2, 0, length / 2 + 1);
  n.set(0, parts_of(n.e, made));
}

// Sums of cosines of one turn and of two, over a window.
Handler window(double constant, double once, double twice) {
  return [=](NodeContext& n) {
    const std::int64_t size = n.integer(0, "size");
    constexpr std::int64_t kMost = 1 << 24;
    if (size < 0 || size > kMost) return n.e.fail(fmt::format("a window of {} elements", size));
    const DType dtype = n.dtype("output_datatype", 1);
    const auto periods = static_cast<double>(
        n.number("periodic", 1) != 0 ? size : std::max<std::int64_t>(size - 1, 1));
    std::vector<double> values;
    for (std::int64_t i = 0; i < size; ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i) / periods;
      values.push_back(constant - once * std::cos(angle) + twice * std::cos(2 * angle));
    }
    n.set(0, n.e.reals(values, dtype));
  };
}

void mel_weights(NodeContext& n) {
  const std::int64_t bins = n.integer(0, "num_mel_bins"), length = n.integer(1, "dft_length");
  const auto rate = n.reals(2, "sample_rate"), low = n.reals(3, "lower_edge_hertz"),
             high = n.reals(4, "upper_edge_hertz");
  constexpr std::int64_t kMost = 1 << 20;
  if (bins < 1 || bins > kMost || length < 1 || length > kMost || rate.size() != 1 ||
      low.size() != 1 || high.size() != 1 || !n.e.status().ok()) {
    return n.e.fail("its inputs must be one number each, positive ones");
  }
  const std::int64_t rows = length / 2 + 1;
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const auto is_frequency = [](double hertz) { return hertz >= 0 && std::isfinite(hertz); };
  if (!(rate[0] > 0) || !is_frequency(rate[0]) || !is_frequency(low[0]) || !is_frequency(high[0])) {
    return n.e.fail("its frequencies must be numbers, not below 0, and the rate not 0");
  }
  const double from = mel(low[0]), step = (mel(high[0]) - from) / static_cast<double>(bins + 2);
  std::vector<std::int64_t> edges;
  for (std::int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + from) / 2595) - 1);
    // Beyond the last row it does not matter where.
    const double place = std::floor(static_cast<double>(length + 1) * hertz / rate[0]);
    edges.push_back(static_cast<std::int64_t>(std::clamp(place, -0x1p31, 0x1p31)));
  }
  if (rows * bins > (1 << 22)) return n.e.fail(unimplemented("very many mel filters"));
  std::vector<double> weights(at(rows * bins), 0.0);
  for (std::int64_t i = 0; i < bins; ++i) {
    const std::int64_t lower = edges[at(i)], center = edges[at(i + 1)], upper = edges[at(i + 2)];
    const auto put = [&](std::int64_t row, double value) {
      if (row >= 0 && row < rows) weights[at(row * bins + i)] = value;
    };
    if (lower == center) {
      put(center, 1);
    } else {
      for (std::int64_t j = std::max<std::int64_t>(lower, 0); j <= std::min(center, rows); ++j) {
        put(j, static_cast<double>(j - lower) / static_cast<double>(center - lower));
      }
    }
    for (std::int64_t j = std::max<std::int64_t>(center, 0); j < std::min(upper, rows); ++j) {
      put(j, static_cast<double>(upper - j) / static_cast<double>(upper - center));
    }
  }
  n.set(0, n.e.reals(weights, n.dtype("output_datatype", 1), {rows, bins}));
}

// How often each n-gram of a pool of numbers comes, with so many elements left out between two.
void count_grams(NodeContext& n) {
  Array x = n.in(0);
  if (!n.texts("pool_strings").empty()) return n.e.fail(unimplemented("programs hold no strings"));
  const bool is_flat = x.rank() == 1;
  if (is_flat) x = n.e.unsqueeze(x, 0);
  const Sizes pool = n.numbers("pool_int64s"), starts = n.numbers("ngram_counts");
  const Sizes columns = n.numbers("ngram_indexes");
  const auto weights = n.reals("weights");
  const std::int64_t least = n.number("min_gram_length", 1), most = n.number("max_gram_length", 1);
  const std::int64_t skips = n.number("max_skip_count", 0);
  std::int64_t width = 0;
  for (const std::int64_t column : columns) width = std::max(width, column + 1);
  constexpr std::int64_t kMost = 4096, kMostCounts = 1 << 16;
  if (x.rank() != 2 || skips < 0 || skips > kMost || std::ssize(columns) > kMost ||
      std::ssize(columns) * (skips + 1) > kMostCounts || width > (1 << 20) ||
      most > std::ssize(starts)) {
    return n.e.fail(unimplemented("a pool this large, or an input of rank 3"));
  }
  std::vector<Array> all(at(width));
  std::size_t gram = 0;
  for (std::int64_t length = 1; length <= std::ssize(starts); ++length) {
    const std::int64_t from = starts[at(length - 1)];
    const std::int64_t to = length < std::ssize(starts) ? starts[at(length)] : std::ssize(pool);
    if (from < 0 || to > std::ssize(pool)) return n.wrong("ngram_counts", "does not fit the pool");
    for (std::int64_t i = from; i + length <= to; i += length, ++gram) {
      if (gram >= columns.size() || columns[gram] < 0) {
        return n.wrong("ngram_indexes", "has not one number an n-gram");
      }
      if (length < least || length > most) continue;
      // One element is the same with any number left out.
      for (std::int64_t skip = 0; skip <= (length == 1 ? 0 : skips); ++skip) {
        const std::int64_t span = (length - 1) * (skip + 1) + 1;
        if (span > x.dim(1)) break;
        Array here;
        for (std::int64_t k = 0; k < length; ++k) {
          const std::int64_t first = k * (skip + 1);
          const Array is_same = n.e.slice(x, 1, first, first + x.dim(1) - span + 1) ==
                                static_cast<double>(pool[at(i + k)]);
          here = here.is_null() ? is_same : here & is_same;
        }
        const Array count = n.e.sum(n.e.convert(here, DType::f32), {1}, true);
        Array& column = all[at(columns[gram])];
        column = column.is_null() ? count : column + count;
      }
    }
  }
  // The weights stand in the order of the n-grams.
  std::vector<double> weight_of(all.size(), 1);
  for (std::size_t g = 0; g < columns.size() && g < weights.size(); ++g) {
    if (columns[g] >= 0) weight_of[at(columns[g])] = weights[g];
  }
  const std::string mode = n.text("mode", "TF");
  for (std::size_t c = 0; c < all.size(); ++c) {
    if (all[c].is_null()) all[c] = n.e.splat(0, DType::f32, {x.dim(0), 1});
    const Array there = n.e.convert(all[c] > 0.5, DType::f32);
    if (mode == "IDF") all[c] = there * weight_of[c];
    if (mode == "TFIDF") all[c] = all[c] * weight_of[c];
  }
  Array made = all.empty() ? n.e.splat(0, DType::f32, {x.dim(0), 0}) : n.e.concatenate(all, 1);
  n.set(0, is_flat ? n.e.squeeze(made, 0) : made);
}

}  // namespace

void add_signals(OpTable& t) {
  t["DFT"] = {discrete_fourier};
  t["STFT"] = {short_time_fourier};
  t["HannWindow"] = {window(0.5, 0.5, 0)};
  t["HammingWindow"] = {window(25.0 / 46, 21.0 / 46, 0)};
  t["BlackmanWindow"] = {window(0.42, 0.5, 0.08)};
  t["MelWeightMatrix"] = {mel_weights};
  t["TfIdfVectorizer"] = {count_grams};
}

}  // namespace plimsoll::onnx
