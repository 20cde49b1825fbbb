// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "examples/serve/model.h"

namespace plimsoll::examples::serve {

// The models of a folder: NAME/VERSION/model.{hlo,mlirbc,pb,onnx}, with NAME/config.json if there
// is one. Names are of letters, digits, '.', '_' and '-', versions natural numbers. Any thread.
class Repository {
 public:
  Repository(const Runtime& runtime, std::string folder);

  // Loads what is there; what fails is told by index().
  void load_all();
  // Loads the model as it lies in the folder now; what was loaded before serves until then, and
  // goes on where this fails. Throws HttpError.
  void load(const std::string& name);
  // Requests under way go on.
  void unload(const std::string& name);

  // The version, or the highest that is loaded. Throws HttpError 404.
  std::shared_ptr<Model> find(const std::string& name,
                              std::optional<std::int64_t> version = std::nullopt) const;
  // All versions, rising. None where the model is not loaded.
  std::vector<std::shared_ptr<Model>> versions(const std::string& name) const;
  // All models by name, then version.
  std::vector<std::shared_ptr<Model>> models() const;

  struct Entry {
    std::string name, version;  // version: "" where none is loaded
    bool ready = false;
    std::string reason;  // why not
  };
  std::vector<Entry> index() const;
  // Whether everything that load_all found was loaded, or has been since.
  bool is_complete() const;

 private:
  using Versions = std::map<std::int64_t, std::shared_ptr<Model>>;
  Versions load_versions(const std::string& name) const;
  std::vector<std::string> names_in_folder() const;

  const Runtime runtime_;
  const std::string folder_;
  std::mutex loading_;        // one model at a time: compiling takes all processors anyway
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, Versions> loaded_;
  std::map<std::string, std::string> failed_;  // why the last load failed
};

}  // namespace plimsoll::examples::serve
