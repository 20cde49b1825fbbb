// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/vhlo/container.h"

#include <array>
#include <string>

namespace plimsoll::vhlo {
namespace {

enum SectionId : int {
  kStrings = 0,
  kDialects = 1,
  kEntries = 2,
  kEntryOffsets = 3,
  kResources = 5,
  kResourceOffsets = 6,
  kDialectVersions = 7,
  kProperties = 8,
  kSections = 9,
};

constexpr std::uint64_t kVersion = 6;

// Lengths, of the last string first; then the strings, each with a zero at its end.
bool read_strings(std::string_view bytes, Container& out) {
  Cursor cursor(bytes);
  std::vector<std::size_t> lengths(cursor.count());
  for (std::size_t& length : lengths) length = cursor.count();
  out.strings.resize(lengths.size());
  std::size_t end = bytes.size();
  const std::size_t start = bytes.size() - cursor.left();
  for (std::size_t i = 0; i < lengths.size() && !cursor.is_bad(); ++i) {
    if (lengths[i] == 0 || lengths[i] > end - start) return false;
    end -= lengths[i];
    out.strings[lengths.size() - 1 - i] = bytes.substr(end, lengths[i] - 1);
  }
  return !cursor.is_bad();
}

bool read_dialects(std::string_view bytes, Container& out) {
  Cursor cursor(bytes);
  out.dialects.resize(cursor.count());
  for (std::string_view& dialect : out.dialects) {
    const std::uint64_t value = cursor.varint();
    if ((value >> 1U) >= out.strings.size()) return false;
    dialect = out.strings[static_cast<std::size_t>(value >> 1U)];
    if ((value & 1U) != 0) (void)read_section(cursor);  // its version
  }
  (void)cursor.varint();  // how many operations follow
  while (!cursor.is_bad() && !cursor.at_end()) {
    const std::size_t dialect = cursor.index(out.dialects.size());
    const std::size_t count = cursor.count();
    for (std::size_t i = 0; i < count && !cursor.is_bad(); ++i) {
      const std::uint64_t name = cursor.varint() >> 1U;
      if (name >= out.strings.size()) return false;
      out.operations.push_back(std::string(out.dialects[dialect]) + "." +
                               std::string(out.strings[static_cast<std::size_t>(name)]));
    }
  }
  return !cursor.is_bad();
}

// Per dialect runs of sizes, first of attributes, then of types; the entries' bytes follow each
// other in a section of their own.
bool read_entries(std::string_view offsets, std::string_view bytes, Container& out) {
  Cursor cursor(offsets), data(bytes);
  const std::size_t attributes = cursor.count(), types = cursor.count();
  const auto read = [&](std::size_t wanted, std::vector<Container::Entry>& list) {
    while (list.size() < wanted && !cursor.is_bad()) {
      const std::size_t dialect = cursor.index(out.dialects.size());
      const std::size_t count = cursor.count();
      if (count == 0 || count > wanted - list.size()) return false;
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t value = cursor.varint();
        if ((value >> 1U) > data.left()) return false;
        list.push_back(
            {dialect, (value & 1U) != 0, data.take(static_cast<std::size_t>(value >> 1U))});
      }
    }
    return !cursor.is_bad() && !data.is_bad();
  };
  return read(attributes, out.attributes) && read(types, out.types);
}

bool read_properties(std::string_view bytes, Container& out) {
  Cursor cursor(bytes);
  out.properties.resize(cursor.count());
  for (std::string_view& one : out.properties) one = cursor.take(cursor.count());
  return !cursor.is_bad();
}

}  // namespace

Status broken(std::string_view part) {
  return invalid_argument("MLIR bytecode: " + std::string(part) +
                          " makes no sense (the file is cut short or damaged)");
}

// A section's id has a flag for an alignment of what is in it. Alignments count from the start of
// the file; as all of the file's own sections are aligned to it, counting from the start of the
// section around it is the same.
Section read_section(Cursor& cursor) {
  constexpr unsigned kAligned = 0x80;
  const std::uint8_t id = cursor.byte();
  const std::size_t length = cursor.count();
  if ((id & kAligned) != 0) cursor.align(static_cast<std::size_t>(cursor.varint()));
  return {static_cast<int>(id & ~kAligned), cursor.take(length)};
}

Result<Container> read_container(std::string_view bytes) {
  if (!bytes.starts_with(kBytecodeMagic)) {
    return invalid_argument("these bytes are no MLIR bytecode");
  }
  Cursor cursor(bytes);
  (void)cursor.take(kBytecodeMagic.size());
  const std::uint64_t version = cursor.varint();
  if (cursor.is_bad()) return broken("its header");
  if (version != kVersion) {
    return invalid_argument("MLIR bytecode of version " + std::to_string(version) +
                            " (this reads version 6, which StableHLO 1.0 and later write)");
  }
  Container made;
  made.producer = cursor.text();
  std::array<std::string_view, kSections> sections;
  while (!cursor.is_bad() && !cursor.at_end()) {
    const Section section = read_section(cursor);
    if (section.id >= kSections) return broken("section " + std::to_string(section.id));
    sections[static_cast<std::size_t>(section.id)] = section.bytes;
  }
  if (cursor.is_bad()) return broken("a section");
  if (!read_strings(sections[kStrings], made)) return broken("the strings section");
  if (!read_dialects(sections[kDialects], made)) return broken("the dialects section");
  if (!read_entries(sections[kEntryOffsets], sections[kEntries], made)) {
    return broken("the attributes and types section");
  }
  if (!sections[kProperties].empty() && !read_properties(sections[kProperties], made)) {
    return broken("the properties section");
  }
  made.operations_section = sections[kOperationsSection];
  return made;
}

}  // namespace plimsoll::vhlo
