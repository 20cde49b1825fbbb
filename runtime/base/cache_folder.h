// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace plimsoll {

// The user's folder for what can be made again: `$XDG_CACHE_HOME/plimsoll`, else
// `$HOME/.cache/plimsoll`; empty when neither variable is an absolute path. Nothing is made.
std::string user_cache_folder();

// An open folder of files that can be made again, private to this user: whoever could write there
// could have us run their code or believe their figures. Names hold no '/'. Thread-safe; any number
// of processes may use one folder at the same time. Movable; the folder is held open until the
// object goes.
class CacheFolder {
 public:
  // NOT_FOUND when there is none and `make` is false; with `make`, missing folders are made for
  // this user only (0700). FAILED_PRECONDITION for one that another user owns or may write to, or
  // that is reached by another user's link; UNAVAILABLE for other failures.
  static Result<CacheFolder> open(const std::string& path, bool make);
  CacheFolder(CacheFolder&& other) noexcept;
  CacheFolder& operator=(CacheFolder&& other) noexcept;
  ~CacheFolder();

  const std::string& path() const { return path_; }

  // The bytes of a file. NOT_FOUND without such a file; FAILED_PRECONDITION for a link, for what is
  // no plain file and for a file that another user owns or may write to.
  Result<std::string> read(const std::string& name) const;
  // Writes a file so that every process sees the old one or the new one whole. UNAVAILABLE when it
  // can't be written; the old one stays then, and nothing is left behind.
  Status write(const std::string& name, std::string_view bytes) const;
  // False when it could not be removed; a file that is not there is removed already.
  bool remove(const std::string& name) const;

  struct File {
    std::string name;
    std::int64_t bytes = 0;
    double age_seconds = 0;  // since it was written or touched
  };
  // This user's plain files, in no order; what `write` has half done is left out.
  std::vector<File> files() const;
  // Makes a file young when it is older than `seconds`.
  void touch(const std::string& name, double seconds) const;
  // Removes what writers that died have left half done more than `seconds` ago.
  void remove_leftovers(double seconds) const;

  // Held by one process and one object at a time, until it goes; waits for it.
  class Lock {
   public:
    explicit Lock(const CacheFolder& folder);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    int handle_;
  };

 private:
  CacheFolder(std::string path, int handle) : path_(std::move(path)), handle_(handle) {}
  std::vector<File> list(bool half_done) const;

  std::string path_;
  int handle_ = -1;
};

}  // namespace plimsoll
