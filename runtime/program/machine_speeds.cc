// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/base/meeting_place.h"
#include "runtime/device/device.h"
#include "runtime/device/kernel_provider.h"
#include "runtime/ir/text/text.h"
#include "runtime/program/calibration.h"

namespace plimsoll::executor {
namespace {

// What is measured, in elements, rows and turns.
struct Sizes {
  std::int64_t stream, heavy, contracted, images, side, channels, random, coded;
  std::int64_t link_bytes;
  // Through how many pieces of memory launches go round, to find what caches keep; the last one
  // through so many that they keep nothing of what streams.
  std::vector<std::size_t> streams, convolutions;
};

// As small training steps have them, where a launch costs next to nothing; else large enough that
// it does, and beyond caches, which keep nothing for the next kernel then.
Sizes sizes_for(const device::Device& device) {
  if (!device.properties().has_launch_costs) {
    return {.stream = 1 << 18,
            .heavy = 1 << 17,
            .contracted = 384,
            .images = 8,
            .side = 28,
            .channels = 32,
            .random = 1 << 17,
            .coded = 1 << 18,
            .link_bytes = std::int64_t{16} << 20,
            .streams = {1, 24},
            .convolutions = {1, 3, 5, 7, 9, 12, 16, 24}};
  }
  // What others have left of the device may be little.
  const bool has_room = device.free_bytes() > std::int64_t{8} << 30;
  return {.stream = has_room ? 1 << 25 : 1 << 22,
          .heavy = 1 << 22,
          .contracted = 2048,
          .images = 32,
          .side = 58,
          .channels = 64,
          .random = 1 << 22,
          .coded = 1 << 22,
          .link_bytes = std::int64_t{64} << 20,
          .streams = {1, 2},
          .convolutions = {1}};
}

// One kernel per thing that is measured, in the layouts of training steps.
std::string kernels_of(const Sizes& sizes) {
  return fmt::format(R"(
HloModule calibration
ENTRY e {{
  x = f32[{stream}] parameter(0)
  y = f32[{stream}] parameter(1)
  stream = f32[{stream}] add(x, y)
  u = f32[{heavy}] parameter(2)
  heavy = f32[{heavy}] tanh(u)
  v = f32[16] parameter(3)
  tiny = f32[16] negate(v)
  a = f32[{n},{n}] parameter(4)
  b = f32[{n},{n}] parameter(5)
  dot = f32[{n},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  i = f32[{images},{side},{side},{channels}] parameter(6)
  k = f32[3,3,{channels},{channels}] parameter(7)
  convolution = f32[{images},{inner},{inner},{channels}] convolution(i, k), window={{size=3x3}}, dim_labels=b01f_01io->b01f
  s = u64[2] parameter(8)
  random = (u64[2], u32[{random}]) rng-bit-generator(s), algorithm=rng_philox
  bits = u32[{random}] get-tuple-element(random), index=1
  ROOT t = (f32[{stream}], f32[{heavy}], f32[16], f32[{n},{n}], f32[{images},{inner},{inner},{channels}], u32[{random}]) tuple(stream, heavy, tiny, dot, convolution, bits)
}})",
                     fmt::arg("stream", sizes.stream), fmt::arg("heavy", sizes.heavy),
                     fmt::arg("n", sizes.contracted), fmt::arg("images", sizes.images),
                     fmt::arg("side", sizes.side), fmt::arg("inner", sizes.side - 2),
                     fmt::arg("channels", sizes.channels), fmt::arg("random", sizes.random));
}

// Measured speeds vary by some percent; what plans depend on in steps should not.
double rounded(double value) { return std::exp2(std::round(std::log2(value) * 4) / 4); }

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A kernel with memory of its own.
struct Prepared {
  std::shared_ptr<const device::Kernel> kernel;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* workspace = nullptr;
};

class Bench {
 public:
  explicit Bench(device::KernelProvider& provider)
      : provider_(provider), device_(provider.device()), sizes_(sizes_for(*device_)) {}
  ~Bench() {
    for (const auto& [pointer, bytes] : blocks_) device_->deallocate(pointer, bytes);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Result<planner::Roofline> run() {
    PLIMSOLL_ASSIGN_OR_RETURN(stream_, device_->create_stream());
    PLIMSOLL_ASSIGN_OR_RETURN(const auto module,
                              ir::parse_module(kernels_of(sizes_), "calibration"));
    const ir::Computation& entry = *module->entry();
    planner::Roofline speeds;
    PLIMSOLL_RETURN_IF_ERROR(measure_kernels(entry, speeds));
    PLIMSOLL_RETURN_IF_ERROR(measure_codecs(speeds));
    PLIMSOLL_RETURN_IF_ERROR(measure_link(*entry.find("convolution"), speeds));
    PLIMSOLL_RETURN_IF_ERROR(measure_meetings(speeds));
    return speeds;
  }

 private:
  // Device memory whose every f32 is 1; every byte of it is touched.
  Result<void*> block(std::int64_t bytes) {
    bytes = std::max<std::int64_t>((bytes + 63) / 64 * 64, 64);
    PLIMSOLL_ASSIGN_OR_RETURN(void* pointer, device_->allocate(bytes));
    blocks_.emplace_back(pointer, bytes);
    const std::vector<float> ones(static_cast<std::size_t>(bytes / 4), 1.0F);
    PLIMSOLL_RETURN_IF_ERROR(fill(pointer, ones.data(), bytes));
    return pointer;
  }
  Status fill(void* pointer, const void* from, std::int64_t bytes) {
    PLIMSOLL_RETURN_IF_ERROR(stream_->copy(pointer, from, bytes, device::CopyKind::host_to_device));
    return stream_->synchronize();
  }

  // What a kernel takes of `seconds` that it took with a launch, and a wait for it.
  double without_launch(double seconds) const {
    return std::max(seconds - launch_and_wait_, 0.1 * seconds);
  }

  template <typename Body>
  Result<double> fastest(Body&& body) {
    constexpr int kMostTimes = 20;
    constexpr double kMostSeconds = 0.004;
    double best = std::numeric_limits<double>::infinity(), total = 0;
    for (int i = 0; i < kMostTimes && (i < 3 || total < kMostSeconds); ++i) {
      const auto start = std::chrono::steady_clock::now();
      PLIMSOLL_RETURN_IF_ERROR(body());
      PLIMSOLL_RETURN_IF_ERROR(stream_->synchronize());
      const double elapsed = seconds_since(start);
      best = std::min(best, elapsed);
      total += elapsed;
    }
    return std::max(best, 1e-9);
  }

  Result<Prepared> prepare(const ir::Instruction& instruction) {
    PLIMSOLL_ASSIGN_OR_RETURN(auto kernel, provider_.kernel(instruction));
    Prepared made{std::move(kernel), {}, {}, nullptr};
    PLIMSOLL_RETURN_IF_ERROR(give_memory(instruction, made));
    return made;
  }
  Status give_memory(const ir::Instruction& instruction, Prepared& made) {
    made.inputs.clear();
    made.outputs.clear();
    for (const ir::Instruction* operand : instruction.operands()) {
      PLIMSOLL_ASSIGN_OR_RETURN(const void* pointer, block(operand->shape().byte_size()));
      made.inputs.push_back(pointer);
    }
    for (const ir::Shape* leaf : ir::leaves(instruction.shape())) {
      PLIMSOLL_ASSIGN_OR_RETURN(void* const output, block(leaf->byte_size()));
      made.outputs.push_back(output);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(made.workspace, block(made.kernel->workspace_bytes()));
    return ok_status();
  }
  // The same kernel on `count` pieces of memory.
  Result<std::vector<Prepared>> prepare_pieces(const ir::Instruction& instruction, int count) {
    PLIMSOLL_ASSIGN_OR_RETURN(const Prepared first, prepare(instruction));
    std::vector<Prepared> pieces(at(count), first);
    for (std::size_t i = 1; i < pieces.size(); ++i) {
      PLIMSOLL_RETURN_IF_ERROR(give_memory(instruction, pieces[i]));
    }
    return pieces;
  }
  Status launch(const Prepared& what) {
    return stream_->launch(*what.kernel, {what.inputs, what.outputs, what.workspace});
  }
  // Of one launch on each of `pieces` in turns, after a first turn that brings them where caches
  // can keep them.
  Result<double> seconds_per_launch(std::span<const Prepared> pieces) {
    const auto turn = [&]() -> Status {
      for (const Prepared& piece : pieces) PLIMSOLL_RETURN_IF_ERROR(launch(piece));
      return ok_status();
    };
    PLIMSOLL_RETURN_IF_ERROR(turn());
    constexpr int kTurns = 2;
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kTurns; ++i) {
      const auto start = std::chrono::steady_clock::now();
      PLIMSOLL_RETURN_IF_ERROR(turn());
      PLIMSOLL_RETURN_IF_ERROR(stream_->synchronize());
      best = std::min(best, seconds_since(start));
    }
    return std::max(best, 1e-9) / static_cast<double>(pieces.size());
  }

  // The least of what was measured in several rounds, in each of which everything has its turn: the
  // first launches of a process may find its threads on one core, and what else runs comes in
  // bursts that no single figure's turns outlast.
  Status measure_kernels(const ir::Computation& entry, planner::Roofline& speeds) {
    constexpr int kRounds = 3;
    constexpr std::size_t kRow = 32;
    struct Rate {
      const char* name;
      double* rate;
      Prepared prepared = {};
      double least = std::numeric_limits<double>::infinity();
    };
    std::array<Rate, 5> rates{{{"tiny", nullptr},
                               {"heavy", &speeds.other_flops_per_second},
                               {"dot", &speeds.contraction_flops_per_second},
                               {"convolution", &speeds.convolution_flops_per_second},
                               {"random", &speeds.random_flops_per_second}}};
    for (Rate& each : rates) {
      PLIMSOLL_ASSIGN_OR_RETURN(each.prepared, prepare(*entry.find(each.name)));
    }
    const ir::Instruction& stream = *entry.find("stream");
    const ir::Instruction& convolution = *entry.find("convolution");
    Least memory{sizes_.streams}, cache{sizes_.convolutions};
    PLIMSOLL_ASSIGN_OR_RETURN(const auto streams, prepare_pieces(stream, memory.most_pieces()));
    PLIMSOLL_ASSIGN_OR_RETURN(const auto convolutions,
                              prepare_pieces(convolution, cache.most_pieces()));
    const std::vector<Prepared> row(kRow, rates.front().prepared);
    double in_a_row = std::numeric_limits<double>::infinity();
    for (int round = 0; round < kRounds; ++round) {
      PLIMSOLL_ASSIGN_OR_RETURN(const double each_of_row, seconds_per_launch(row));
      in_a_row = std::min(in_a_row, each_of_row);
      for (Rate& each : rates) {
        PLIMSOLL_ASSIGN_OR_RETURN(const double seconds,
                                  fastest([&] { return launch(each.prepared); }));
        each.least = std::min(each.least, seconds);
      }
      PLIMSOLL_RETURN_IF_ERROR(add_turns(streams, memory));
      PLIMSOLL_RETURN_IF_ERROR(add_turns(convolutions, cache));
    }
    launch_and_wait_ = rates.front().least;
    speeds.launch_seconds = std::min(in_a_row, launch_and_wait_);
    for (const Rate& each : rates) {
      if (each.rate == nullptr) continue;
      *each.rate = planner::count_work(*entry.find(each.name)).flops / without_launch(each.least);
    }
    // Through so much memory that caches keep none of it for the next turn.
    const double bytes = planner::count_work(stream).bytes;
    speeds.bytes_per_second = bytes / std::max(memory.seconds.back() - speeds.launch_seconds,
                                               0.1 * memory.seconds.back());
    speeds.cache.streaming_seconds =
        std::max(memory.seconds.back() - memory.seconds.front(), 0.0) / bytes;
    set_cache(cache, planner::count_work(convolution).bytes, speeds);
    return ok_status();
  }

  // Seconds a launch by how many pieces of memory launches go round through.
  struct Least {
    std::vector<std::size_t> pieces;
    std::vector<double> seconds =
        std::vector<double>(pieces.size(), std::numeric_limits<double>::infinity());
    int most_pieces() const { return static_cast<int>(pieces.back()); }
  };
  Status add_turns(std::span<const Prepared> pieces, Least& least) {
    for (std::size_t i = 0; i < least.pieces.size(); ++i) {
      PLIMSOLL_ASSIGN_OR_RETURN(const double seconds,
                                seconds_per_launch(pieces.first(least.pieces[i])));
      least.seconds[i] = std::min(least.seconds[i], seconds);
    }
    return ok_status();
  }

  // The same convolution over ever more memory in turns: how much of it caches keep for the next
  // turn shows in its time, halfway up counts as full.
  static void set_cache(const Least& measured, double bytes, planner::Roofline& speeds) {
    const std::vector<double>& seconds = measured.seconds;
    const double least = seconds.front(), most = seconds.back();
    constexpr double kClear = 1.02;  // below it there is no cache to speak of
    if (most < kClear * least) return;
    const double middle = (least + most) / 2;
    std::size_t full = seconds.size() - 1;
    while (full > 1 && seconds[full - 1] > middle) --full;
    const double share = (middle - seconds[full - 1]) / (seconds[full] - seconds[full - 1]);
    const auto below = static_cast<double>(measured.pieces[full - 1]);
    const double pieces_kept =
        below + std::clamp(share, 0.0, 1.0) * (static_cast<double>(measured.pieces[full]) - below);
    speeds.cache.bytes = rounded(bytes * pieces_kept);
    speeds.cache.computing_seconds = (most - least) / bytes;
  }

  Status measure_codecs(planner::Roofline& speeds) {
    const std::int64_t elements = sizes_.coded;
    for (const ir::CodecInfo& row : ir::all_codecs()) {
      const auto& [dtype, codec] = row.sample;
      const ir::Shape shape(dtype, {elements});
      PLIMSOLL_ASSIGN_OR_RETURN(const device::CodecKernels kernels, provider_.codec(codec, shape));
      PLIMSOLL_ASSIGN_OR_RETURN(void* const plain, block(shape.byte_size()));
      if (dtype == ir::DType::pred) {
        PLIMSOLL_RETURN_IF_ERROR(fill(plain, std::vector<char>(at(elements), 1).data(), elements));
      }
      PLIMSOLL_ASSIGN_OR_RETURN(void* const encoded, block(encoded_bytes(codec, shape)));
      PLIMSOLL_ASSIGN_OR_RETURN(
          void* const workspace,
          block(std::max(kernels.encode->workspace_bytes(), kernels.decode->workspace_bytes())));
      const auto rate = [&](const device::Kernel& kernel, void* from, void* to) -> Result<double> {
        const void* const input = from;
        PLIMSOLL_ASSIGN_OR_RETURN(
            const double seconds, fastest([&] {
              return stream_->launch(kernel, {std::span(&input, 1), std::span(&to, 1), workspace});
            }));
        return static_cast<double>(elements) / without_launch(seconds);
      };
      auto& measured = speeds.codecs[at(codec.kind)];
      PLIMSOLL_ASSIGN_OR_RETURN(measured.encode, rate(*kernels.encode, plain, encoded));
      PLIMSOLL_ASSIGN_OR_RETURN(measured.decode, rate(*kernels.decode, encoded, plain));
    }
    return ok_status();
  }

  // Each way beside convolutions, as in a step: how fast the bytes go, and what the convolutions
  // lose to them.
  Status measure_link(const ir::Instruction& convolution, planner::Roofline& speeds) {
    const std::int64_t bytes = sizes_.link_bytes;
    PLIMSOLL_ASSIGN_OR_RETURN(const Prepared compute, prepare(convolution));
    PLIMSOLL_ASSIGN_OR_RETURN(const double alone, fastest([&] { return launch(compute); }));
    PLIMSOLL_ASSIGN_OR_RETURN(void* const near, block(bytes));
    const auto tier = memory::HostTier::create(device_, bytes);
    PLIMSOLL_ASSIGN_OR_RETURN(const auto far, tier->allocate(bytes, "measuring the link"));
    double lost = 0, busy = 0;
    const auto transfer = [&](bool out) -> Result<double> {
      memory::TransferEngine& engine = out ? tier->out() : tier->in();
      std::atomic<bool> over{false};
      const auto start = std::chrono::steady_clock::now();
      const auto moved = engine.enqueue(bytes, [&](device::Stream& stream) {
        const Status status =
            out ? far->store(0, near, bytes, stream) : far->load(0, near, bytes, stream);
        over.store(true, std::memory_order_release);
        return status;
      });
      int launches = 0;
      Status status;
      while (status.ok() && !over.load(std::memory_order_acquire)) {
        status = launch(compute);
        if (status.ok()) status = stream_->synchronize();
        ++launches;
      }
      const double elapsed = seconds_since(start);
      PLIMSOLL_RETURN_IF_ERROR(engine.wait(*moved));
      PLIMSOLL_RETURN_IF_ERROR(status);
      lost += std::max(elapsed - launches * alone, 0.0);
      busy += moved->seconds();
      return std::max(moved->seconds(), 1e-9);
    };
    const auto least_of_some = [&](bool out) -> Result<double> {
      PLIMSOLL_RETURN_IF_ERROR(transfer(out).status());  // pays for fresh memory
      lost = busy = 0;
      double least = std::numeric_limits<double>::infinity();
      for (int i = 0; i < 3; ++i) {
        PLIMSOLL_ASSIGN_OR_RETURN(const double seconds, transfer(out));
        least = std::min(least, seconds);
      }
      return least;
    };
    PLIMSOLL_ASSIGN_OR_RETURN(const double out, least_of_some(true));
    const double lost_out = lost, busy_out = busy;
    PLIMSOLL_ASSIGN_OR_RETURN(const double in, least_of_some(false));
    speeds.link_out_bytes_per_second = rounded(static_cast<double>(bytes) / out);
    speeds.link_in_bytes_per_second = rounded(static_cast<double>(bytes) / in);
    speeds.link_compute_share = std::clamp((lost + lost_out) / (busy + busy_out), 0.05, 1.0);
    constexpr int kTransfers = 8, kTurns = 6;  // short turns: some of them are undisturbed
    // Synchronous ones as a step makes them, between kernels that take the caches from what is
    // copied. What they take from the kernels is priced with these (cost/cache_misses.h).
    if (device_->properties().copy_compute_share > 0) {
      constexpr std::int64_t kPiece = std::int64_t{256} << 10;
      std::int64_t offset = 0;
      const auto copy = [&](bool out) {
        auto* const here = static_cast<std::byte*>(near) + offset;
        auto* const there = far->data() + offset;
        offset = (offset + kPiece) % bytes;
        return out ? stream_->copy(there, here, kPiece, device::CopyKind::device_to_host)
                   : stream_->copy(here, there, kPiece, device::CopyKind::host_to_device);
      };
      const auto synchronous = [&](bool out) -> Result<double> {
        double least = std::numeric_limits<double>::infinity();
        for (int i = 0; i < 2 * kTurns; ++i) {
          double turn = 0;
          for (int k = 0; k < kTransfers; ++k) {
            PLIMSOLL_RETURN_IF_ERROR(launch(compute));
            PLIMSOLL_RETURN_IF_ERROR(stream_->synchronize());
            const auto start = std::chrono::steady_clock::now();
            PLIMSOLL_RETURN_IF_ERROR(copy(out));
            PLIMSOLL_RETURN_IF_ERROR(stream_->synchronize());
            turn += seconds_since(start);
          }
          least = std::min(least, turn);
        }
        return rounded(static_cast<double>(kTransfers * kPiece) / std::max(least, 1e-9));
      };
      PLIMSOLL_ASSIGN_OR_RETURN(speeds.link_synchronous_out_bytes_per_second, synchronous(true));
      PLIMSOLL_ASSIGN_OR_RETURN(speeds.link_synchronous_in_bytes_per_second, synchronous(false));
    }
    // A transfer of next to nothing still wakes a thread up, at the kernels' expense.
    const auto turn = [&](bool transfers) -> Result<double> {
      std::vector<std::shared_ptr<memory::Transfer>> moved;
      Status status;
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kTransfers && status.ok(); ++i) {
        if (transfers) {
          moved.push_back(
              tier->out().enqueue(device::kBufferAlignment, [&](device::Stream& stream) {
                return far->store(0, near, device::kBufferAlignment, stream);
              }));
        }
        status = launch(compute);
      }
      for (const auto& one : moved) {
        const Status ended = tier->out().wait(*one);
        if (status.ok()) status = ended;
      }
      PLIMSOLL_RETURN_IF_ERROR(status);
      PLIMSOLL_RETURN_IF_ERROR(stream_->synchronize());
      return seconds_since(start) / kTransfers;
    };
    std::array<double, 2> least;
    least.fill(std::numeric_limits<double>::infinity());
    for (int i = 0; i < 2 * kTurns; ++i) {
      PLIMSOLL_ASSIGN_OR_RETURN(const double seconds, turn(i % 2 == 1));
      double& best = least[at(i % 2)];
      best = std::min(best, seconds);
    }
    const double lost_each = least[1] - least[0];
    // No thread takes longer to wake up than that, but for others' turns on its processor.
    constexpr double kLeastLatency = 5e-6, kMostLatency = 50e-6;
    speeds.link_latency_seconds =
        rounded(std::clamp(lost_each / speeds.link_compute_share, kLeastLatency, kMostLatency));
    return ok_status();
  }

  // Of two threads: how long they take to meet, and to copy what the other one shows. Both are
  // timed by one of them, the least of several each.
  static Status measure_meetings(planner::Roofline& speeds) {
    constexpr int kMeetings = 64, kCopies = 8;
    constexpr std::size_t kBytes = 1 << 20;
    constexpr std::int64_t kBoth[] = {0, 1};
    MeetingPlace place(2);
    double meeting = 0, copying = 0;
    const auto take_part = [&](std::size_t self) -> Status {
      const std::vector<std::byte> own(kBytes);
      std::vector<std::byte> copied(kBytes);
      const auto least_of = [&](int rounds, bool copies, double& least) -> Status {
        for (int i = 0; i < rounds; ++i) {
          const auto start = std::chrono::steady_clock::now();
          PLIMSOLL_RETURN_IF_ERROR(place.meet(
              {kBoth, self, "calibration"}, own.data(), [&](std::span<const void* const> shown) {
                if (copies) std::memcpy(copied.data(), shown[1 - self], kBytes);
                return ok_status();
              }));
          if (self == 0)
            least = i == 0 ? seconds_since(start) : std::min(least, seconds_since(start));
        }
        return ok_status();
      };
      PLIMSOLL_RETURN_IF_ERROR(least_of(kMeetings, false, meeting));
      return least_of(kCopies, true, copying);
    };
    Status other;
    std::thread second([&] { other = take_part(1); });
    const Status status = take_part(0);
    second.join();
    PLIMSOLL_RETURN_IF_ERROR(status);
    PLIMSOLL_RETURN_IF_ERROR(other);
    constexpr double kFastestByte = 1e-12;
    speeds.collectives.message_seconds = rounded(std::max(meeting, 1e-9));
    speeds.collectives.bytes_per_second =
        rounded(1 / std::max((copying - meeting) / static_cast<double>(kBytes), kFastestByte));
    return ok_status();
  }

  device::KernelProvider& provider_;
  const std::shared_ptr<device::Device> device_;
  const Sizes sizes_;
  double launch_and_wait_ = 0;
  std::unique_ptr<device::Stream> stream_;
  std::vector<std::pair<void*, std::int64_t>> blocks_;
};

}  // namespace

Result<planner::Roofline> measure_machine(device::KernelProvider& provider) {
  auto measured = Bench(provider).run();
  // It has taken more than programs may be allowed to.
  provider.device()->release_kept();
  return measured;
}

}  // namespace plimsoll::executor
