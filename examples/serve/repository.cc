// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/repository.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "examples/serve/http_error.h"

namespace plimsoll::examples::serve {
namespace {

namespace fs = std::filesystem;

constexpr const char* kForms[] = {"hlo", "mlirbc", "pb", "onnx"};

// So that a name is one folder of the repository, whatever the client wrote.
bool is_name(const std::string& name) {
  constexpr std::size_t kLongest = 128;
  if (name.empty() || name.size() > kLongest || name.front() == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

std::optional<std::int64_t> version_of(const std::string& text) {
  std::int64_t version = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (code != std::errc() || end != text.data() + text.size() || version < 0) return std::nullopt;
  return version;
}

std::vector<std::int64_t> versions_in(const fs::path& folder) {
  std::vector<std::int64_t> versions;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto version = version_of(entry.path().filename().string());
    if (version && entry.is_directory()) versions.push_back(*version);
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

std::string program_in(const fs::path& folder) {
  std::string found;
  for (const char* form : kForms) {
    const fs::path path = folder / (std::string("model.") + form);
    if (!fs::exists(path)) continue;
    if (!found.empty()) throw std::runtime_error(folder.string() + " has two programs");
    found = path.string();
  }
  if (found.empty()) {
    throw std::runtime_error(folder.string() + " has no model.hlo, .mlirbc, .pb or .onnx");
  }
  return found;
}

}  // namespace

Repository::Repository(const Runtime& runtime, std::string folder)
    : runtime_(runtime), folder_(std::move(folder)) {}

std::vector<std::string> Repository::names_in_folder() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (is_name(name) && entry.is_directory()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Repository::Versions Repository::load_versions(const std::string& name) const {
  const fs::path folder = fs::path(folder_) / name;
  const ModelConfig config = read_model_config((folder / "config.json").string());
  std::vector<std::int64_t> wanted = config.versions;
  if (wanted.empty()) {
    const std::vector<std::int64_t> there = versions_in(folder);
    if (there.empty()) throw std::runtime_error(folder.string() + " has no folder of a version");
    wanted.push_back(there.back());
  }
  Versions versions;
  for (const std::int64_t version : wanted) {
    const std::string path = program_in(folder / std::to_string(version));
    versions[version] = std::make_shared<Model>(runtime_, name, version, path, config);
  }
  return versions;
}

void Repository::load(const std::string& name) {
  if (!is_name(name) || !fs::is_directory(fs::path(folder_) / name)) {
    throw HttpError(404, "the repository has no model " + in_quotes(name));
  }
  const std::lock_guard turn(loading_);
  try {
    Versions versions = load_versions(name);
    const std::lock_guard lock(mutex_);
    std::swap(loaded_[name], versions);  // what was there ends outside the lock, or with its runs
    failed_.erase(name);
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    failed_[name] = error.what();
    throw bad_request("model " + in_quotes(name) + " can't be loaded: " + error.what());
  }
}

void Repository::load_all() {
  for (const auto& entry : fs::directory_iterator(folder_)) {
    std::string name = entry.path().filename().string();
    if (is_name(name) || name.front() == '.' || !entry.is_directory()) continue;
    if (versions_in(entry.path()).empty()) continue;  // something else's
    std::replace_if(name.begin(), name.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    const std::lock_guard lock(mutex_);
    failed_[name] =
        "a model's name has only letters, digits, '.', '_' and '-', and at most 128 of them";
  }
  for (const std::string& name : names_in_folder()) {
    try {
      load(name);
    } catch (const HttpError&) {
      // index() has the reason.
    }
  }
}

void Repository::unload(const std::string& name) {
  const std::lock_guard turn(loading_);
  Versions gone;
  const std::lock_guard lock(mutex_);
  const auto found = loaded_.find(name);
  const bool had_failed = failed_.erase(name) > 0;
  if (found == loaded_.end()) {
    if (had_failed) return;
    throw HttpError(404, "no model " + in_quotes(name) + " is loaded");
  }
  gone = std::move(found->second);
  loaded_.erase(found);
}

std::shared_ptr<Model> Repository::find(const std::string& name,
                                        std::optional<std::int64_t> version) const {
  const std::lock_guard lock(mutex_);
  const auto found = loaded_.find(name);
  if (found == loaded_.end()) throw HttpError(404, "no model " + in_quotes(name) + " is loaded");
  if (!version) return found->second.rbegin()->second;
  const auto of_version = found->second.find(*version);
  if (of_version == found->second.end()) {
    throw HttpError(404, "no version " + std::to_string(*version) + " of model " + in_quotes(name) +
                             " is loaded");
  }
  return of_version->second;
}

std::vector<std::shared_ptr<Model>> Repository::versions(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Model>> list;
  const auto found = loaded_.find(name);
  if (found == loaded_.end()) return list;
  for (const auto& [version, model] : found->second) list.push_back(model);
  return list;
}

std::vector<std::shared_ptr<Model>> Repository::models() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Model>> list;
  for (const auto& [name, versions] : loaded_) {
    for (const auto& [version, model] : versions) list.push_back(model);
  }
  return list;
}

std::vector<Repository::Entry> Repository::index() const {
  const std::vector<std::string> names = names_in_folder();
  const std::lock_guard lock(mutex_);
  std::vector<Entry> entries;
  for (const auto& [name, versions] : loaded_) {
    for (const auto& [version, model] : versions) {
      entries.push_back({name, std::to_string(version), true, ""});
    }
  }
  for (const auto& [name, reason] : failed_) {
    if (!loaded_.contains(name)) entries.push_back({name, "", false, reason});
  }
  for (const std::string& name : names) {
    if (!loaded_.contains(name) && !failed_.contains(name)) {
      entries.push_back({name, "", false, "not loaded"});
    }
  }
  return entries;
}

bool Repository::is_complete() const {
  const std::lock_guard lock(mutex_);
  return std::all_of(failed_.begin(), failed_.end(),
                     [&](const auto& failed) { return loaded_.contains(failed.first); });
}

}  // namespace plimsoll::examples::serve
