// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/fourier/fft.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <complex>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cpu/calls/call.h"
#include "kernels/cpu/fourier/line_group.h"
#include "kernels/cpu/fourier/real_spectrum.h"
#include "kernels/cpu/fourier/transform.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

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

// What a transform is of. Of a real one, the spectrum is the half that says all: its last dim is
// n / 2 + 1.
struct FourierShape {
  Kind kind = Kind::fft;
  Lengths lengths;   // of the transform
  Lengths spectrum;  // of the complex array between the dims
  std::int64_t batch = 1;

  template <typename R>
  static Result<FourierShape> read(const LibraryCall& call);
  bool is_inverse() const { return kind == Kind::ifft || kind == Kind::irfft; }
  bool reads_real() const { return kind == Kind::rfft; }
  bool writes_real() const { return kind == Kind::irfft; }
  // The last dim's lines are transformed as half as many complex numbers.
  bool is_paired() const { return (reads_real() || writes_real()) && lengths.back() % 2 == 0; }
};

template <typename R>
Result<FourierShape> FourierShape::read(const LibraryCall& call) {
  static constexpr std::array<std::string_view, 4> kNames = {"FFT", "IFFT", "RFFT", "IRFFT"};
  FourierShape made;
  PLIMSOLL_RETURN_IF_ERROR(call.expect_counts(1, 1));
  const auto kind = std::find(kNames.begin(), kNames.end(), call.text("fft_type"));
  made.lengths = read_lengths(call.text("fft_length"));
  if (kind == kNames.end() || made.lengths.empty() || made.lengths.size() > 3) {
    return call.error("fft_type must be FFT, IFFT, RFFT or IRFFT, fft_length one to three numbers");
  }
  made.kind = static_cast<Kind>(kind - kNames.begin());
  const std::size_t rank = made.lengths.size();
  made.spectrum = made.lengths;
  if (made.reads_real() || made.writes_real()) {
    made.spectrum.back() = made.lengths.back() / 2 + 1;
  }
  PLIMSOLL_ASSIGN_OR_RETURN(Lengths from, made.reads_real()
                                              ? call.operand<R>(0, rank)
                                              : call.operand<std::complex<R>>(0, rank));
  const Lengths& wanted = made.reads_real() ? made.lengths : made.spectrum;
  if (!std::equal(wanted.begin(), wanted.end(), from.end() - static_cast<std::ptrdiff_t>(rank))) {
    return call.error("the last dims of the operand are not those of fft_length");
  }
  Lengths to(from.begin(), from.end() - static_cast<std::ptrdiff_t>(rank));
  made.batch = product(made.lengths) == 0 ? 0 : product(to);
  const Lengths& results = made.writes_real() ? made.lengths : made.spectrum;
  to.insert(to.end(), results.begin(), results.end());
  PLIMSOLL_RETURN_IF_ERROR(made.writes_real() ? call.expect_result<R>(0, to)
                                              : call.expect_result<std::complex<R>>(0, to));
  return made;
}

// Goes over the dims one by one, over several lines of a dim at once. Lines are shared out among
// threads, or whole transforms where they are small; neither changes a bit.
template <typename R>
class FftKernel final : public KernelBase {
 public:
  explicit FftKernel(FourierShape shape);
  Status launch(device::Stream&, const device::KernelArguments& arguments) const override;

 private:
  using Grid = std::complex<double>;
  // All lines along a dim of one transform.
  struct Pass {
    std::size_t dim = 0;
    std::int64_t lines = 0, stride = 1;
    bool is_first = false, is_last = false;
    bool is_of_real = false;  // between real numbers and the half of their spectrum
  };
  // Those of one transform.
  struct Arrays {
    const R* real_in;
    const std::complex<R>* in;
    R* real_out;
    std::complex<R>* out;

    Arrays(const device::KernelArguments& arguments, const FourierShape& shape, std::int64_t entry)
        : real_in(static_cast<const R*>(arguments.inputs[0]) + entry * product(shape.lengths)),
          in(static_cast<const std::complex<R>*>(arguments.inputs[0]) +
             entry * product(shape.spectrum)),
          real_out(static_cast<R*>(arguments.outputs[0]) + entry * product(shape.lengths)),
          out(static_cast<std::complex<R>*>(arguments.outputs[0]) +
              entry * product(shape.spectrum)) {}
  };
  // A thread's memory.
  struct Slot {
    double* one = nullptr;
    double* other = nullptr;
    Grid* grid = nullptr;
    // The buffer that `data` is not in.
    double* rest(const ComplexLines& data) const { return data.re == one ? other : one; }
  };

  void run_group(const device::KernelArguments& arguments, std::int64_t entry, const Pass& pass,
                 std::int64_t group, const Slot& slot) const;
  ComplexLines read(const Arrays& arrays, const Pass& pass, LineGroup lines,
                    const Slot& slot) const;
  void write(ComplexLines data, const Arrays& arrays, const Pass& pass, LineGroup lines,
             const Slot& slot) const;
  const LineTransform& along(const Pass& pass) const {
    return lines_[lines_.size() - 1 - pass.dim];
  }
  std::int64_t groups(const Pass& pass) const { return (pass.lines + group_ - 1) / group_; }
  Slot slot(const device::KernelArguments& arguments, std::int64_t i) const;

  const FourierShape shape_;
  std::int64_t entries_ = 1;          // transforms; all lines of one dim are one
  std::vector<LineTransform> lines_;  // per dim, the last one first
  std::optional<RealSpectrum> real_;  // of paired lines
  std::vector<Pass> passes_;
  double scale_ = 1;
  std::int64_t group_ = 1, slots_ = 1;  // lines at once; threads
  bool shares_entries_ = false;         // a thread has whole transforms
  std::int64_t room_ = 0;               // doubles of each of a slot's two buffers
  std::int64_t memory_ = 0, grid_ = 0;  // offsets in the workspace
  std::int64_t grid_bytes_ = 0;
};

template <typename R>
FftKernel<R>::FftKernel(FourierShape shape)
    : KernelBase("fft", device::KernelOrigin::library), shape_(std::move(shape)) {
  if (shape_.batch == 0) return;
  const std::size_t rank = shape_.lengths.size();
  const std::int64_t whole = product(shape_.spectrum);
  const bool is_flat = rank == 1;
  entries_ = is_flat ? 1 : shape_.batch;
  if (shape_.is_inverse()) scale_ = 1 / static_cast<double>(product(shape_.lengths));
  std::int64_t longest = 0, work = 0, most_lines = 0, stride = 1;
  for (std::size_t dim = rank; dim-- > 0;) {
    const bool halves = dim + 1 == rank && shape_.is_paired();
    const std::int64_t length = halves ? shape_.lengths[dim] / 2 : shape_.lengths[dim];
    lines_.emplace_back(static_cast<std::size_t>(length));
    if (halves) real_.emplace(static_cast<std::size_t>(length));
    longest = std::max({longest, length, shape_.spectrum[dim]});
    work = std::max(work, static_cast<std::int64_t>(lines_.back().work_doubles()));
    const std::int64_t lines = whole / shape_.spectrum[dim] * (is_flat ? shape_.batch : 1);
    most_lines = std::max(most_lines, lines);
    const bool is_of_real = dim + 1 == rank && (shape_.reads_real() || shape_.writes_real());
    passes_.push_back({dim, lines, stride, false, false, is_of_real});
    stride *= shape_.spectrum[dim];
  }
  // Real numbers are made last.
  if (shape_.writes_real()) std::rotate(passes_.begin(), passes_.begin() + 1, passes_.end());
  passes_.front().is_first = passes_.back().is_last = true;

  constexpr std::int64_t kGroup = 8, kSlots = 8, kGroupBytes = 1 << 20, kSmall = 1 << 14;
  room_ = std::max(work, 2 * longest);
  const std::int64_t line_bytes = 2 * room_ * std::int64_t{sizeof(double)};
  group_ = std::clamp<std::int64_t>(kGroupBytes / line_bytes, 1, std::min(kGroup, most_lines));
  room_ *= group_;
  shares_entries_ = entries_ > 1 && whole < kSmall;
  grid_bytes_ = is_flat ? 0 : aligned_bytes(whole * std::int64_t{sizeof(Grid)});
  std::int64_t most_groups = 1;
  for (const Pass& pass : passes_) most_groups = std::max(most_groups, groups(pass));
  slots_ = std::min(kSlots, shares_entries_ ? entries_ : most_groups);
  // For more threads than two, no more than an eighth of the arrays' bytes.
  const std::int64_t slot_bytes = line_bytes * group_ + (shares_entries_ ? grid_bytes_ : 0);
  const std::int64_t array_bytes = 2 * shape_.batch * whole * std::int64_t{sizeof(std::complex<R>)};
  slots_ = std::clamp(array_bytes / 8 / slot_bytes, std::min<std::int64_t>(slots_, 2), slots_);
  memory_ = this->reserve_workspace(slots_ * line_bytes * group_);
  grid_ = this->reserve_workspace((shares_entries_ ? slots_ : 1) * grid_bytes_);
}

template <typename R>
typename FftKernel<R>::Slot FftKernel<R>::slot(const device::KernelArguments& arguments,
                                               std::int64_t i) const {
  Slot made;
  made.one = reinterpret_cast<double*>(byte_offset(arguments.workspace, memory_)) + i * 2 * room_;
  made.other = made.one + room_;
  const std::int64_t grid = grid_ + (shares_entries_ ? i * grid_bytes_ : 0);
  made.grid = reinterpret_cast<Grid*>(byte_offset(arguments.workspace, grid));
  return made;
}

template <typename R>
void FftKernel<R>::run_group(const device::KernelArguments& arguments, std::int64_t entry,
                             const Pass& pass, std::int64_t group, const Slot& slot) const {
  LineGroup lines;
  lines.first = group * group_;
  lines.lines = std::min(group_, pass.lines - lines.first);
  lines.length = lines.pitch = shape_.spectrum[pass.dim];
  lines.stride = pass.stride;
  const Arrays arrays(arguments, shape_, entry);
  ComplexLines data = read(arrays, pass, lines, slot);
  const LineTransform& transform = along(pass);
  data = shape_.is_inverse()
             ? transform.run(data.exchanged(), lines.lines, slot.rest(data)).exchanged()
             : transform.run(data, lines.lines, slot.rest(data));
  write(data, arrays, pass, lines, slot);
}

// What is to be transformed; of a real line, its whole spectrum or that of its pairs.
template <typename R>
ComplexLines FftKernel<R>::read(const Arrays& arrays, const Pass& pass, LineGroup lines,
                                const Slot& slot) const {
  const std::int64_t full = shape_.lengths[pass.dim], half = shape_.spectrum[pass.dim];
  const auto at = [&](double* memory, std::int64_t n) {
    return ComplexLines::at(memory, static_cast<std::size_t>(n), lines.lines);
  };
  if (pass.is_of_real && shape_.reads_real()) {
    lines.length = lines.pitch = real_ ? full / 2 : full;
    const ComplexLines data = at(slot.one, lines.length);
    if (real_) {
      lines.load(reinterpret_cast<const std::complex<R>*>(arrays.real_in), data);
    } else {
      lines.load(arrays.real_in, data);
    }
    return data;
  }
  const ComplexLines data = at(slot.one, pass.is_of_real && !real_ ? full : half);
  if (pass.is_first) {
    lines.load(arrays.in, data);
  } else {
    lines.load(slot.grid, data);
  }
  if (!pass.is_of_real) return data;
  if (real_) {
    const ComplexLines pairs = at(slot.other, full / 2);
    real_->of_pairs(data, lines.lines, pairs);
    return pairs;
  }
  // Its own conjugate, read backwards; the first number is real.
  std::fill_n(data.im, lines.lines, 0.0);
  for (std::int64_t k = half; k < full; ++k) {
    const std::int64_t to = k * lines.lines, from = (full - k) * lines.lines;
    for (std::int64_t line = 0; line < lines.lines; ++line) {
      data.re[to + line] = data.re[from + line];
      data.im[to + line] = -data.im[from + line];
    }
  }
  return data;
}

template <typename R>
void FftKernel<R>::write(ComplexLines data, const Arrays& arrays, const Pass& pass, LineGroup lines,
                         const Slot& slot) const {
  const std::int64_t full = shape_.lengths[pass.dim], half = shape_.spectrum[pass.dim];
  if (pass.is_of_real && shape_.writes_real()) {
    lines.length = lines.pitch = real_ ? full / 2 : full;
    if (!real_) return lines.store(data, scale_, arrays.real_out);
    return lines.store(data, scale_, reinterpret_cast<std::complex<R>*>(arrays.real_out));
  }
  if (pass.is_of_real && real_) {
    const ComplexLines line =
        ComplexLines::at(slot.rest(data), static_cast<std::size_t>(half), lines.lines);
    real_->of_line(data, lines.lines, line);
    data = line;
  }
  if (!pass.is_last) return lines.store(data, 1, slot.grid);
  lines.store(data, scale_, arrays.out);
}

template <typename R>
Status FftKernel<R>::launch(device::Stream&, const device::KernelArguments& arguments) const {
  if (shape_.batch == 0) return ok_status();
  // Of `count` pieces, those of each thread.
  const auto share = [&](std::int64_t count, const auto& run) {
    device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Slot mine = slot(arguments, i);
        for (std::int64_t k = count * i / slots_; k < count * (i + 1) / slots_; ++k) run(k, mine);
      }
    });
  };
  if (shares_entries_) {
    share(entries_, [&](std::int64_t entry, const Slot& mine) {
      for (const Pass& pass : passes_) {
        for (std::int64_t group = 0; group < groups(pass); ++group) {
          run_group(arguments, entry, pass, group, mine);
        }
      }
    });
    return ok_status();
  }
  for (std::int64_t entry = 0; entry < entries_; ++entry) {
    for (const Pass& pass : passes_) {
      share(groups(pass), [&](std::int64_t group, const Slot& mine) {
        run_group(arguments, entry, pass, group, mine);
      });
    }
  }
  return ok_status();
}

template <typename R>
KernelResult make(const LibraryCall& call) {
  PLIMSOLL_ASSIGN_OR_RETURN(FourierShape shape, FourierShape::read<R>(call));
  return KernelResult(std::make_shared<FftKernel<R>>(std::move(shape)));
}

}  // namespace

KernelResult make_fft(const ir::Instruction& instruction) {
  const LibraryCall call(instruction);
  const bool is_wide =
      instruction.shape().is_array() && instruction.shape().dtype() == ir::DType::f64;
  return is_wide ? make<double>(call) : make<float>(call);
}

}  // namespace plimsoll::kernels
