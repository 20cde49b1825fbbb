// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/npz.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "runtime/import/npy.h"

namespace plimsoll::import {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50,
                        kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr std::uint64_t kSmall = 0xffffffff;  // of a field whose value is in ZIP64's
constexpr std::string_view kEnding = ".npy";

// Little endian numbers; nothing where the bytes end before.
std::optional<std::uint64_t> zip_number(Bytes bytes, std::uint64_t at, std::size_t width) {
  if (at > bytes.size() || width > bytes.size() - at) return std::nullopt;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) {
    value |= std::to_integer<std::uint64_t>(bytes[at + i]) << (8 * i);
  }
  return value;
}

void put(std::string& out, std::uint64_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 255U);
}

struct ZipEntry {
  std::string name;
  std::uint64_t flags = 0, method = 0, crc = 0, packed = 0, size = 0, local = 0;
};

struct Directory {
  std::uint64_t entries = 0, offset = 0, bytes = 0;
};

std::optional<Directory> find_directory(Bytes bytes) {
  constexpr std::size_t kEndBytes = 22, kLongestComment = 65535, kLocatorBytes = 20;
  if (bytes.size() < kEndBytes) return std::nullopt;
  const std::size_t last = bytes.size() - kEndBytes;
  const std::size_t first = last - std::min(last, kLongestComment);
  for (std::size_t at = last + 1; at-- > first;) {
    if (zip_number(bytes, at, 4) != kEnd) continue;
    Directory found{*zip_number(bytes, at + 10, 2), *zip_number(bytes, at + 16, 4),
                    *zip_number(bytes, at + 12, 4)};
    if (at < kLocatorBytes || zip_number(bytes, at - kLocatorBytes, 4) != kEnd64Locator)
      return found;
    const std::uint64_t end64 = *zip_number(bytes, at - kLocatorBytes + 8, 8);
    if (zip_number(bytes, end64, 4) != kEnd64) return std::nullopt;
    const auto entries = zip_number(bytes, end64 + 32, 8), size = zip_number(bytes, end64 + 40, 8),
               offset = zip_number(bytes, end64 + 48, 8);
    if (!entries || !size || !offset) return std::nullopt;
    return Directory{*entries, *offset, *size};
  }
  return std::nullopt;
}

// Replaces what is in ZIP64's field: those that say so, in this order.
bool read_zip64(Bytes extra, ZipEntry& entry) {
  std::uint64_t* const fields[] = {&entry.size, &entry.packed, &entry.local};
  std::uint64_t at = 0;
  while (at + 4 <= extra.size()) {
    const std::uint64_t kind = *zip_number(extra, at, 2), length = *zip_number(extra, at + 2, 2);
    if (length > extra.size() - at - 4) return false;
    if (kind == 1) {
      std::uint64_t from = at + 4;
      for (std::uint64_t* field : fields) {
        if (*field != kSmall) continue;
        const auto value = zip_number(extra.first(at + 4 + length), from, 8);
        if (!value) return false;
        *field = *value;
        from += 8;
      }
      return true;
    }
    at += 4 + length;
  }
  return std::none_of(std::begin(fields), std::end(fields),
                      [](const std::uint64_t* field) { return *field == kSmall; });
}

std::optional<std::vector<ZipEntry>> read_directory(Bytes bytes) {
  constexpr std::size_t kFixed = 46;
  const auto directory = find_directory(bytes);
  if (!directory || directory->offset > bytes.size() ||
      directory->bytes > bytes.size() - directory->offset ||
      directory->entries > directory->bytes / kFixed) {
    return std::nullopt;
  }
  const Bytes table = bytes.subspan(directory->offset, directory->bytes);
  std::vector<ZipEntry> entries;
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < directory->entries; ++i) {
    if (zip_number(table, at, 4) != kCentral || at + kFixed > table.size()) return std::nullopt;
    const auto field = [&](std::uint64_t where, std::size_t width) {
      return *zip_number(table, at + where, width);
    };
    ZipEntry entry{{},           field(8, 2),  field(10, 2), field(16, 4),
                   field(20, 4), field(24, 4), field(42, 4)};
    const std::uint64_t name = field(28, 2), extra = field(30, 2), comment = field(32, 2);
    if (name + extra + comment > table.size() - at - kFixed) return std::nullopt;
    entry.name.assign(reinterpret_cast<const char*>(table.data() + at + kFixed), name);
    if (!read_zip64(table.subspan(at + kFixed + name, extra), entry)) return std::nullopt;
    entries.push_back(std::move(entry));
    at += kFixed + name + extra + comment;
  }
  return entries;
}

// Exactly `size` bytes, or nothing.
std::optional<std::vector<std::byte>> inflate_all(Bytes packed, std::uint64_t size) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return std::nullopt;
  const struct End {
    z_stream* stream;
    ~End() { inflateEnd(stream); }
  } end{&stream};
  std::vector<std::byte> out(size);
  std::uint64_t done = 0;
  int result = Z_OK;
  constexpr std::uint64_t kMost = std::numeric_limits<uInt>::max();
  while (result == Z_OK) {
    const auto in = static_cast<uInt>(std::min<std::uint64_t>(packed.size(), kMost));
    // A byte of room where there is none: the end of the stream may still be to come.
    std::byte beyond{};
    const bool full = done == size;
    const auto room = full ? 1U : static_cast<uInt>(std::min(size - done, kMost));
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data()));
    stream.avail_in = in;
    stream.next_out = reinterpret_cast<Bytef*>(full ? &beyond : out.data() + done);
    stream.avail_out = room;
    result = inflate(&stream, Z_NO_FLUSH);
    packed = packed.subspan(in - stream.avail_in);
    if (full && stream.avail_out == 0) return std::nullopt;
    if (!full) done += room - stream.avail_out;
  }
  if (result != Z_STREAM_END || done != size || !packed.empty()) return std::nullopt;
  return out;
}

std::uint32_t checksum(Bytes bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// The entry's packed bytes; nothing where they are out of range.
std::optional<Bytes> packed_bytes(Bytes bytes, const ZipEntry& entry) {
  constexpr std::uint64_t kFixed = 30;
  if (zip_number(bytes, entry.local, 4) != kLocal) return std::nullopt;
  const auto name = zip_number(bytes, entry.local + 26, 2),
             extra = zip_number(bytes, entry.local + 28, 2);
  if (!name || !extra) return std::nullopt;
  const std::uint64_t start = entry.local + kFixed + *name + *extra;
  if (start > bytes.size() || entry.packed > bytes.size() - start) return std::nullopt;
  return bytes.subspan(start, entry.packed);
}

}  // namespace

bool is_npz(std::span<const std::byte> bytes) {
  const auto first = zip_number(bytes, 0, 4);
  return first == kLocal || first == kEnd;  // an archive of nothing begins with its end
}

Status parse_npz(std::span<const std::byte> bytes, std::string_view source, NamedArrays& out) {
  const auto bad = [&](const std::string& what) {
    return invalid_argument(std::string(source) + ": " + what);
  };
  const auto entries = read_directory(bytes);
  if (!entries) return bad("no .npz file, or cut off: its directory cannot be read");
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  std::set<std::string> names;
  for (const ZipEntry& entry : *entries) {
    const std::string of = "'" + entry.name + "' ";
    if (!entry.name.ends_with(kEnding)) return bad(of + "is no .npy");
    std::string name = entry.name.substr(0, entry.name.size() - kEnding.size());
    if (!names.insert(name).second) return bad(of + "is there twice");
    if ((entry.flags & 1U) != 0) return bad(of + "is encrypted");
    const auto packed = packed_bytes(bytes, entry);
    if (!packed) return bad(of + "is out of range");
    ranges.emplace_back(entry.local,
                        static_cast<std::uint64_t>(packed->data() - bytes.data()) + packed->size());
    std::optional<std::vector<std::byte>> unpacked;
    Bytes array = *packed;
    constexpr std::uint64_t kStored = 0, kDeflated = 8, kMostRatio = 1032;
    if (entry.method == kDeflated) {
      if (entry.size / kMostRatio > entry.packed)
        return bad(of + "claims more bytes than it can have");
      unpacked = inflate_all(*packed, entry.size);
      if (!unpacked) return bad(of + "cannot be unpacked");
      array = *unpacked;
    } else if (entry.method != kStored) {
      return bad(fmt::format("{}is packed by method {} (stored and deflated are known)", of,
                             entry.method));
    }
    if (array.size() != entry.size || checksum(array) != entry.crc) {
      return bad(of + "is damaged: its size or checksum is another");
    }
    PLIMSOLL_ASSIGN_OR_RETURN(ir::Literal literal,
                              parse_npy(array, std::string(source) + ": " + entry.name));
    out.unpacked.push_back(std::move(literal));
    out.arrays.push_back({std::move(name), out.unpacked.back().shape(), {}});
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) return bad("two arrays overlap");
  }
  for (std::size_t i = 0; i < out.arrays.size(); ++i) {
    out.arrays[i].bytes = std::as_const(out.unpacked[i]).bytes();
  }
  return ok_status();
}

Status lay_out_npz(std::span<const NamedArray> arrays, std::string_view path,
                   std::deque<std::string>& made, std::vector<std::span<const std::byte>>& pieces) {
  std::string directory;
  std::uint64_t at = 0;
  const auto add = [&](std::string piece) {
    at += piece.size();
    made.push_back(std::move(piece));
    pieces.push_back(std::as_bytes(std::span(made.back())));
  };
  constexpr std::uint64_t kVersion = 20, kUtf8 = 0x800, kFirstDay = 0x21, kLongestName = 60000,
                          kMostArrays = 65534;
  for (const NamedArray& array : arrays) {
    const std::string name = array.name + std::string(kEnding);
    if (array.name.empty() || name.size() > kLongestName || arrays.size() > kMostArrays) {
      return invalid_argument(std::string(path) +
                              ": too many arrays, or a name that .npz can't have");
    }
    std::string bytes = npy_bytes(ir::Literal::from_bytes(array.shape, array.bytes));
    if (bytes.size() + at + directory.size() + 2 * name.size() >= kSmall - 1000) {
      return invalid_argument(std::string(path) + ": .npz above 4 GiB (write safetensors)");
    }
    // What the local header and the directory have in common.
    std::string common;
    put(common, kVersion, 2);
    put(common, kUtf8, 2);
    put(common, 0, 2);  // stored
    put(common, 0, 2);  // the time of day
    put(common, kFirstDay, 2);
    put(common, checksum(std::as_bytes(std::span(bytes))), 4);
    put(common, bytes.size(), 4);
    put(common, bytes.size(), 4);
    put(common, name.size(), 2);
    put(common, 0, 2);  // no extra fields
    put(directory, kCentral, 4);
    put(directory, kVersion, 2);
    directory += common;
    put(directory, 0, 6);  // no comment, the first disk, no attributes
    put(directory, 0, 4);
    put(directory, at, 4);
    directory += name;
    std::string local;
    put(local, kLocal, 4);
    add(local + common + name);
    add(std::move(bytes));
  }
  std::string end;
  put(end, kEnd, 4);
  put(end, 0, 4);  // disks
  put(end, arrays.size(), 2);
  put(end, arrays.size(), 2);
  put(end, directory.size(), 4);
  put(end, at, 4);
  put(end, 0, 2);
  add(directory + end);
  return ok_status();
}

}  // namespace plimsoll::import
