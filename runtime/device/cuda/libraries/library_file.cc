// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/libraries/library_file.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <cstring>
#include <vector>

namespace plimsoll::device::cuda {
namespace {

std::vector<std::string> split(const std::string& folders) {
  std::vector<std::string> found;
  std::size_t begin = 0;
  while (begin < folders.size()) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    if (end > begin) found.push_back(folders.substr(begin, end - begin));
    begin = end + 1;
  }
  return found;
}

}  // namespace

Result<LibraryFile> open_library(std::span<const char* const> names, const std::string& folders) {
  std::vector<std::string> places;
  for (const std::string& folder : split(folders)) {
    for (const char* const name : names) places.push_back(folder + "/" + name);
  }
  places.insert(places.end(), names.begin(), names.end());
  std::string why;
  for (const std::string& place : places) {
    // Their functions are bound when they are called: these libraries have very many.
    if (void* const handle = dlopen(place.c_str(), RTLD_LAZY | RTLD_LOCAL); handle != nullptr) {
      return LibraryFile{handle, place};
    }
    const char* const error = dlerror();
    if (why.empty()) why = error == nullptr ? place + ": it can't be opened" : error;
  }
  return not_found(why);
}

Status read_symbols(const LibraryFile& library, std::span<const char* const> symbols, void* table) {
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    void* const found = dlsym(library.handle, symbols[i]);
    if (found == nullptr) {
      return not_found(fmt::format("{} has no {}", library.name, symbols[i]));
    }
    std::memcpy(static_cast<char*>(table) + i * sizeof(found), &found, sizeof(found));
  }
  return ok_status();
}

}  // namespace plimsoll::device::cuda
