// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/fourier/fft.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "kernels/cpu/calls/batch_kernel.h"
#include "kernels/cpu/calls/call.h"
#include "kernels/cpu/fourier/transform.h"
#include "runtime/base/index.h"

namespace plimsoll::kernels {
namespace {

using Complex = LineTransform::Complex;
using Lengths = std::vector<std::int64_t>;

enum class Kind : std::uint8_t { fft, ifft, rfft, irfft };

// `{4,8}`.
Lengths read_lengths(std::string_view text) {
  Lengths lengths;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    std::int64_t length = 0;
    const auto [next, error] = std::from_chars(at, end, length);
    if (error == std::errc()) {
      lengths.push_back(length);
      at = next;
    } else {
      ++at;
    }
  }
  return lengths;
}

std::int64_t product(const Lengths& lengths) {
  std::int64_t made = 1;
  for (const std::int64_t length : lengths) made *= length;
  return made;
}

// One transform over all of its dims. Of a real one, the spectrum is the half that says all: its
// last dim is n / 2 + 1.
template <typename R>
struct FftSolver {
  Kind kind = Kind::fft;
  Lengths lengths;   // of the transform
  Lengths spectrum;  // of the complex array between the dims
  std::int64_t batch = 1;
  std::vector<std::shared_ptr<const LineTransform>> lines;  // one per dim
  ScratchLayout scratch;
  std::int64_t grid_at = 0, in_at = 0, out_at = 0, work_at = 0;

  static Result<FftSolver> create(const LibraryCall& call);
  void solve(const BatchTask& task) const;

 private:
  // In place, over all lines along `dim` of the grid.
  void transform(const BatchTask& task, std::size_t dim) const;
  void load_real(const BatchTask& task) const;
  void store_real(const BatchTask& task) const;
  bool is_inverse() const { return kind == Kind::ifft || kind == Kind::irfft; }
};

template <typename R>
Result<FftSolver<R>> FftSolver<R>::create(const LibraryCall& call) {
  static constexpr std::array<std::string_view, 4> kNames = {"FFT", "IFFT", "RFFT", "IRFFT"};
  FftSolver made;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_counts(1, 1));
  const auto kind = std::find(kNames.begin(), kNames.end(), call.text("fft_type"));
  made.lengths = read_lengths(call.text("fft_length"));
  if (kind == kNames.end() || made.lengths.empty() || made.lengths.size() > 3) {
    return call.error("fft_type must be FFT, IFFT, RFFT or IRFFT, fft_length one to three numbers");
  }
  made.kind = static_cast<Kind>(kind - kNames.begin());
  const std::size_t rank = made.lengths.size();
  made.spectrum = made.lengths;
  if (made.kind == Kind::rfft || made.kind == Kind::irfft) {
    made.spectrum.back() = made.lengths.back() / 2 + 1;
  }
  const bool reads_real = made.kind == Kind::rfft, writes_real = made.kind == Kind::irfft;
  PLIMSOLL_ASSIGN_OR_RETURN(
      Lengths from, reads_real ? call.operand<R>(0, rank) : call.operand<std::complex<R>>(0, rank));
  const Lengths& wanted = reads_real ? made.lengths : made.spectrum;
  if (!std::equal(wanted.begin(), wanted.end(), from.end() - static_cast<std::ptrdiff_t>(rank))) {
    return call.error("the last dims of the operand are not those of fft_length");
  }
  Lengths to(from.begin(), from.end() - static_cast<std::ptrdiff_t>(rank));
  made.batch = product(to);
  const Lengths& results = writes_real ? made.lengths : made.spectrum;
  to.insert(to.end(), results.begin(), results.end());
  PLIMSOLL_RETURN_IF_ERROR(writes_real ? call.expect_result<R>(0, to)
                                       : call.expect_result<std::complex<R>>(0, to));
  if (product(made.lengths) == 0) {
    made.batch = 0;
    return made;
  }
  std::int64_t longest = 0, work = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    made.lines.push_back(std::make_shared<const LineTransform>(
        static_cast<std::size_t>(made.lengths[i]), made.is_inverse()));
    longest = std::max(longest, made.lengths[i]);
    work = std::max(work, static_cast<std::int64_t>(made.lines.back()->work_elements()));
  }
  made.grid_at = made.scratch.template add<Complex>(product(made.spectrum));
  made.in_at = made.scratch.template add<Complex>(longest);
  made.out_at = made.scratch.template add<Complex>(longest);
  made.work_at = made.scratch.template add<Complex>(work);
  return made;
}

template <typename R>
void FftSolver<R>::transform(const BatchTask& task, std::size_t dim) const {
  const std::int64_t length = spectrum[dim];
  std::int64_t stride = 1;
  for (std::size_t i = dim + 1; i < spectrum.size(); ++i) stride *= spectrum[i];
  Complex* const grid = task.memory<Complex>(grid_at);
  Complex* const in = task.memory<Complex>(in_at);
  Complex* const out = task.memory<Complex>(out_at);
  const std::int64_t outer = product(spectrum) / (length * stride);
  for (std::int64_t i = 0; i < outer * stride; ++i) {
    Complex* const line = grid + i / stride * length * stride + i % stride;
    for (std::int64_t j = 0; j < length; ++j) in[j] = line[j * stride];
    lines[dim]->run(in, out, task.memory<Complex>(work_at));
    for (std::int64_t j = 0; j < length; ++j) line[j * stride] = out[j];
  }
}

// The last dim's transforms on the way.
template <typename R>
void FftSolver<R>::load_real(const BatchTask& task) const {
  const std::int64_t length = lengths.back(), half = spectrum.back();
  const std::int64_t count = product(lengths);
  const R* from = task.operand<R>(0, count);
  Complex* to = task.memory<Complex>(grid_at);
  Complex* const in = task.memory<Complex>(in_at);
  Complex* const out = task.memory<Complex>(out_at);
  for (std::int64_t line = 0; line < count / length; ++line, from += length, to += half) {
    std::copy_n(from, length, in);
    lines.back()->run(in, out, task.memory<Complex>(work_at));
    std::copy_n(out, half, to);
  }
}

// A real line's spectrum is its own conjugate, read backwards; the imaginary parts that would
// contradict it (of the first number, and of the last one of even lengths) count for nothing.
template <typename R>
void FftSolver<R>::store_real(const BatchTask& task) const {
  const std::int64_t length = lengths.back(), half = spectrum.back();
  const std::int64_t count = product(lengths);
  const double scale = 1 / static_cast<double>(count);
  const Complex* from = task.memory<Complex>(grid_at);
  R* to = task.result<R>(0, count);
  Complex* const in = task.memory<Complex>(in_at);
  Complex* const out = task.memory<Complex>(out_at);
  for (std::int64_t line = 0; line < count / length; ++line, from += half, to += length) {
    std::copy_n(from, half, in);
    in[0].imag(0);
    if (length % 2 == 0) in[half - 1].imag(0);
    for (std::int64_t k = half; k < length; ++k) in[k] = std::conj(in[length - k]);
    lines.back()->run(in, out, task.memory<Complex>(work_at));
    for (std::int64_t j = 0; j < length; ++j) to[j] = static_cast<R>(out[j].real() * scale);
  }
}

template <typename R>
void FftSolver<R>::solve(const BatchTask& task) const {
  const std::int64_t count = product(spectrum);
  Complex* const grid = task.memory<Complex>(grid_at);
  std::size_t dims = lengths.size();
  if (kind == Kind::rfft) {
    load_real(task);
    --dims;
  } else {
    const std::complex<R>* const from = task.operand<std::complex<R>>(0, count);
    std::copy_n(from, count, grid);
    if (kind == Kind::irfft) --dims;
  }
  for (std::size_t dim = 0; dim < dims; ++dim) transform(task, dim);
  if (kind == Kind::irfft) return store_real(task);
  const double scale = kind == Kind::ifft ? 1 / static_cast<double>(count) : 1;
  std::complex<R>* const to = task.result<std::complex<R>>(0, count);
  for (std::int64_t i = 0; i < count; ++i) to[i] = std::complex<R>(grid[i] * scale);
}

template <typename R>
KernelResult make(const LibraryCall& call) {
  PLIMSOLL_ASSIGN_OR_RETURN(FftSolver<R> solver, FftSolver<R>::create(call));
  const std::int64_t batch = solver.batch;
  return KernelResult(std::make_shared<BatchKernel<FftSolver<R>>>("fft", batch, std::move(solver)));
}

}  // namespace

KernelResult make_fft(const ir::Instruction& instruction) {
  const LibraryCall call(instruction);
  const bool is_wide =
      instruction.shape().is_array() && instruction.shape().dtype() == ir::DType::f64;
  return is_wide ? make<double>(call) : make<float>(call);
}

}  // namespace plimsoll::kernels
