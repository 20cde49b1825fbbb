// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "collectives/store.h"

namespace plimsoll::collectives {
namespace {

// A message is a file that appears whole: written under another name, and then linked, which fails
// where there is one. Looked for from time to time, as file systems of networks tell nobody.
class FileStore final : public Store {
 public:
  explicit FileStore(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~FileStore() override { clear(); }

  Status set(std::string_view key, std::string_view value, Deadline) override {
    const auto path = folder_ / key;
    const auto draft = folder_ / fmt::format(".{}.{}", key, ::getpid());
    {
      std::ofstream file(draft, std::ios::binary | std::ios::trunc);
      file.write(value.data(), static_cast<std::streamsize>(value.size()));
      if (!file.flush()) {
        return unavailable(
            fmt::format("{}: can't be written (PLIMSOLL_RENDEZVOUS names a folder that all "
                        "processes share)",
                        draft.string()));
      }
    }
    std::error_code error, ignored;
    std::filesystem::create_hard_link(draft, path, error);
    std::filesystem::remove(draft, ignored);
    if (error == std::errc::file_exists) {
      return Status(
          StatusCode::already_exists,
          fmt::format("{}: it is there already (PLIMSOLL_RENDEZVOUS names an empty folder "
                      "for every run)",
                      path.string()));
    }
    if (error) return unavailable(fmt::format("{}: {}", path.string(), error.message()));
    written_.push_back(path);
    return ok_status();
  }

  Result<std::string> get(std::string_view key, Deadline deadline) override {
    const auto path = folder_ / key;
    for (;;) {
      std::ifstream file(path, std::ios::binary);
      if (file) {
        return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
      }
      if (std::chrono::steady_clock::now() >= deadline) {
        return Status(StatusCode::deadline_exceeded,
                      fmt::format("{}: has not come in time", path.string()));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  void clear() override {
    std::error_code ignored;
    for (const auto& path : written_) std::filesystem::remove(path, ignored);
    written_.clear();
  }

 private:
  const std::filesystem::path folder_;
  std::vector<std::filesystem::path> written_;
};

}  // namespace

Result<std::unique_ptr<Store>> open_file_store(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!std::filesystem::is_directory(folder)) {
    return unavailable(
        fmt::format("{}: {} (PLIMSOLL_RENDEZVOUS=file:// names a folder that all processes share)",
                    folder, error ? error.message() : "no folder"));
  }
  return std::unique_ptr<Store>(std::make_unique<FileStore>(folder));
}

}  // namespace plimsoll::collectives
