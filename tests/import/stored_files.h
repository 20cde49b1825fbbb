// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::import {

inline std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The files of a folder of the source tree with this ending, by name.
inline std::vector<std::filesystem::path> stored_files(std::string_view folder,
                                                       std::string_view ending) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(PLIMSOLL_SOURCE_DIR) / folder)) {
    if (entry.path().extension() == ending) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// The file damaged in a few places: cut off, a piece twice or less, bytes changed.
inline std::string mutant(const std::string& original, std::mt19937_64& random) {
  std::string bytes = original;
  const auto at = [&] { return static_cast<std::size_t>(random() % bytes.size()); };
  switch (random() % 6) {
    case 0:
      bytes.resize(at());
      break;
    case 1:
      bytes.insert(at(), bytes.substr(at(), 1 + random() % 16));
      break;
    case 2:
      bytes.erase(at(), 1 + random() % 16);
      break;
    default:
      break;
  }
  const std::size_t changes = 1 + random() % 4;
  for (std::size_t i = 0; i < changes && !bytes.empty(); ++i) {
    bytes[at()] = static_cast<char>(random() % 3 == 0 ? random() : random() % 8);
  }
  return bytes;
}

// How many mutants of each file: PLIMSOLL_FUZZ_MUTANTS, or the everyday number.
inline int mutants_of_each() {
  const char* const given = std::getenv("PLIMSOLL_FUZZ_MUTANTS");
  return given == nullptr ? 60 : std::atoi(given);
}

}  // namespace plimsoll::import
