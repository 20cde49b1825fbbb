// SPDX-License-Identifier: Apache-2.0
#include "runtime/residency/tier_copy.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "runtime/base/alignment.h"
#include "runtime/base/index.h"

namespace plimsoll::trace {
namespace {

using kernels::SpillCodecKind;

// Values of less gain nothing that counts.
constexpr std::int64_t kLeastBytes = 4096;
// Of a value, so much is encoded at a time.
constexpr std::int64_t kPiece = std::int64_t{1} << 20;
// What is not small begins and ends where a disk's units do.
constexpr std::int64_t kUnit = 4096, kSmallBytes = 16 * kUnit;
// A code is chosen that promises to take at most this share of the bytes, and given up for the rest
// of a value after so many pieces that missed it by far.
constexpr double kMostShare = 0.75;
constexpr int kMostMisses = 2;
// Where a value is looked at: so many places, this many bytes each; for LZ4, which has to find
// repetitions, fewer and larger ones.
constexpr std::int64_t kPlaces = 64, kPlaceBytes = 64;
constexpr std::int64_t kLargePlaces = 4, kLargePlaceBytes = 4096;
// Plain bytes that a code takes or gives per second on two processors (benchmarks/codecs).
struct Rates {
  double encode, decode;
  double seconds() const { return 1 / encode + 1 / decode; }  // per byte, both ways
};
constexpr Rates kSparse{3e9, 3.5e9}, kBytePlanes{0.9e9, 4e9};

constexpr const char* kWhat = "an evicted tensor";

// Memory that a transfer's bytes pass through.
class Staging {
 public:
  Staging(memory::Tier& tier, std::int64_t bytes)
      : tier_(tier),
        bytes_(bytes),
        data_(static_cast<std::byte*>(
            ::operator new(static_cast<std::size_t>(bytes), kAlignment, std::nothrow))) {
    tier_.staging_bytes() += bytes_;
  }
  ~Staging() {
    ::operator delete(data_, kAlignment, std::nothrow);
    tier_.staging_bytes() -= bytes_;
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  explicit operator bool() const { return data_ != nullptr; }
  std::byte* data() const { return data_; }
  std::span<std::byte> all() const { return {data_, static_cast<std::size_t>(bytes_)}; }

 private:
  static constexpr std::align_val_t kAlignment{kUnit};
  memory::Tier& tier_;
  const std::int64_t bytes_;
  std::byte* const data_;
};

// Some bytes of a value, from the same places each time.
std::vector<std::byte> sample(const std::byte* from, std::int64_t bytes, std::int64_t places,
                              std::int64_t place_bytes) {
  places = std::min(places, bytes / place_bytes);
  std::vector<std::byte> taken;
  for (std::int64_t i = 0; i < places; ++i) {
    const std::int64_t at = (bytes - place_bytes) / std::max<std::int64_t>(1, places - 1) * i;
    const std::byte* const begin = from + at / kBufferAlignment * kBufferAlignment;
    taken.insert(taken.end(), begin, begin + place_bytes);
  }
  return taken;
}

// The share that the code of these bytes takes of them.
Result<double> share_of_code(const kernels::SpillCodec& codec,
                             const std::vector<std::byte>& bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  std::vector<std::byte> code(at(codec.bound(size)));
  PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t used, codec.encode(bytes, code));
  return static_cast<double>(used) / static_cast<double>(size);
}

// What a code takes of the tier.
std::int64_t place_of(std::int64_t code_bytes, std::int64_t plain_bytes) {
  const std::int64_t unit = plain_bytes < kSmallBytes ? kBufferAlignment : kUnit;
  return (code_bytes + unit - 1) / unit * unit;
}

// Others will want room there.
bool is_filling(const memory::Tier& tier) {
  const memory::TierStatistics now = tier.statistics();
  return now.used_bytes + now.reserved_bytes > now.limit_bytes / 2;
}

}  // namespace

Result<std::unique_ptr<TierCopy>> TierCopy::create(memory::Tier& tier, std::int64_t bytes,
                                                   int element_bytes,
                                                   std::atomic<std::int64_t>& fail_in) {
  PLIMSOLL_ASSIGN_OR_RETURN(memory::TierReservation reservation, tier.reserve(bytes, kWhat));
  return std::unique_ptr<TierCopy>(
      new TierCopy(tier, std::move(reservation), bytes, element_bytes, fail_in));
}

// A look may be wrong: that costs the time of the pieces that are tried.
//
// A code pays if encoding and decoding take less than the transfer that it saves: (1 - share) *
// transfer > encode + decode, per byte. On a fast link it never does; on a slow disk it does from
// small shares on. Where the tier fills up, the sparse code is used even at a loss of time, since
// bytes are what is short there.
Status TierCopy::choose_codec(const std::byte* from) {
  codec_ = nullptr;
  const bool sized =
      element_bytes_ == 1 || element_bytes_ == 2 || element_bytes_ == 4 || element_bytes_ == 8;
  if (!sized || bytes_ < kLeastBytes || !tier_.device()->is_host_memory()) return ok_status();
  PLIMSOLL_ASSIGN_OR_RETURN(const memory::LinkSpeed link, tier_.speed());
  const double transfer = 1 / link.out_bytes_per_second + 1 / link.in_bytes_per_second;
  const bool filling = is_filling(tier_);
  if (filling || transfer > kSparse.seconds()) {
    PLIMSOLL_ASSIGN_OR_RETURN(auto sparse,
                              kernels::make_spill_codec(SpillCodecKind::sparse, element_bytes_));
    PLIMSOLL_ASSIGN_OR_RETURN(const double share,
                              share_of_code(*sparse, sample(from, bytes_, kPlaces, kPlaceBytes)));
    if (share <= kMostShare && (filling || (1 - share) * transfer > kSparse.seconds())) {
      codec_ = std::move(sparse);
      return ok_status();
    }
  }
  if (transfer <= kBytePlanes.seconds()) return ok_status();
  PLIMSOLL_ASSIGN_OR_RETURN(auto planes,
                            kernels::make_spill_codec(SpillCodecKind::byte_planes, element_bytes_));
  PLIMSOLL_ASSIGN_OR_RETURN(
      const double share,
      share_of_code(*planes, sample(from, bytes_, kLargePlaces, kLargePlaceBytes)));
  if (share <= kMostShare && (1 - share) * transfer > kBytePlanes.seconds()) {
    codec_ = std::move(planes);
  }
  return ok_status();
}

Status TierCopy::store(const void* from, device::Stream& stream) {
  const auto* const bytes = static_cast<const std::byte*>(from);
  if (!choose_codec(bytes).ok()) codec_ = nullptr;
  const Status status = codec_ == nullptr ? store_piece(bytes, bytes_, nullptr, 0, stream)
                                          : store_pieces(bytes, stream);
  reservation_.close();
  return status;
}

Status TierCopy::store_pieces(const std::byte* from, device::Stream& stream) {
  const Staging staging(tier_, codec_->bound(std::min(kPiece, bytes_)));
  int misses = staging && !fails() ? 0 : kMostMisses;
  for (std::int64_t at = 0; at < bytes_; at += kPiece) {
    const std::int64_t bytes = std::min(kPiece, bytes_ - at);
    std::int64_t code_bytes = 0;
    if (misses < kMostMisses) {
      const auto used = codec_->encode({from + at, static_cast<std::size_t>(bytes)}, staging.all());
      if (used.ok() && place_of(*used, bytes) < bytes) code_bytes = *used;
      misses += code_bytes == 0 ||
                static_cast<double>(code_bytes) > (1 + kMostShare) / 2 * static_cast<double>(bytes);
    }
    if (code_bytes > 0) {
      std::memset(staging.data() + code_bytes, 0,
                  static_cast<std::size_t>(place_of(code_bytes, bytes) - code_bytes));
    }
    PLIMSOLL_RETURN_IF_ERROR(store_piece(from + at, bytes, staging.data(), code_bytes, stream));
  }
  return ok_status();
}

Status TierCopy::store_piece(const std::byte* from, std::int64_t bytes, const std::byte* code,
                             std::int64_t code_bytes, device::Stream& stream) {
  const std::int64_t place = code_bytes > 0 ? place_of(code_bytes, bytes) : bytes;
  PLIMSOLL_ASSIGN_OR_RETURN(auto block, tier_.allocate(place, kWhat, reservation_));
  PLIMSOLL_RETURN_IF_ERROR(block->store(0, code_bytes > 0 ? code : from, place, stream));
  pieces_.push_back({std::move(block), bytes, code_bytes});
  held_bytes_ += aligned_bytes(place);
  return ok_status();
}

Status TierCopy::load(void* to, device::Stream& stream) const {
  auto* at = static_cast<std::byte*>(to);
  std::int64_t most = 0;
  for (const Piece& piece : pieces_) {
    if (piece.code_bytes > 0) {
      most = std::max(most, place_of(piece.code_bytes, piece.plain_bytes));
    }
  }
  const Staging staging(tier_, most);
  if (!staging) return {StatusCode::resource_exhausted, "decoding a tensor: no host memory"};
  if (most > 0 && fails()) {
    return data_loss("decode." + std::string(codec_->name()) + ": fault injected");
  }
  for (const Piece& piece : pieces_) {
    if (piece.code_bytes == 0) {
      PLIMSOLL_RETURN_IF_ERROR(piece.block->load(0, at, piece.plain_bytes, stream));
    } else {
      PLIMSOLL_RETURN_IF_ERROR(piece.block->load(
          0, staging.data(), place_of(piece.code_bytes, piece.plain_bytes), stream));
      PLIMSOLL_RETURN_IF_ERROR(
          codec_->decode(staging.all().first(static_cast<std::size_t>(piece.code_bytes)),
                         {at, static_cast<std::size_t>(piece.plain_bytes)}));
    }
    at += piece.plain_bytes;
  }
  return ok_status();
}

}  // namespace plimsoll::trace
