// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/model_config.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace plimsoll::examples::serve {
namespace {

using json = nlohmann::json;

// One object of the file: every key must have been asked for.
class Keys {
 public:
  Keys(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) throw std::runtime_error(where_ + " is no JSON object");
  }

  // Nothing where the key is missing.
  const json* find(const char* key) {
    asked_.emplace_back(key);
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }
  void read(const char* key, std::int64_t& value, std::int64_t least) {
    const json* const found = find(key);
    if (found == nullptr) return;
    constexpr std::int64_t kMost = 1'000'000'000;
    if (!found->is_number_integer() || found->get<std::int64_t>() < least ||
        found->get<std::int64_t>() > kMost) {
      throw std::runtime_error(name(key) + " is no whole number from " + std::to_string(least) +
                               " to " + std::to_string(kMost));
    }
    value = found->get<std::int64_t>();
  }
  void read(const char* key, std::string& value) {
    const json* const found = find(key);
    if (found == nullptr) return;
    if (!found->is_string()) throw std::runtime_error(name(key) + " is no string");
    value = found->get<std::string>();
  }
  void read(const char* key, bool& value) {
    const json* const found = find(key);
    if (found == nullptr) return;
    if (!found->is_boolean()) throw std::runtime_error(name(key) + " is neither true nor false");
    value = found->get<bool>();
  }
  template <typename T>
  void read(const char* key, std::vector<T>& value) {
    const json* const found = find(key);
    if (found == nullptr) return;
    constexpr bool kText = std::is_same_v<T, std::string>;
    bool fits = found->is_array();
    for (const json& one : fits ? *found : json::array()) {
      fits = fits && (kText ? one.is_string() : one.is_number_unsigned());
    }
    if (!fits) {
      throw std::runtime_error(name(key) + " is no list of " +
                               (kText ? "strings" : "natural numbers"));
    }
    value = found->get<std::vector<T>>();
  }
  void end() const {
    for (const auto& [key, value] : object_.items()) {
      bool known = false;
      std::string all;
      for (const std::string& one : asked_) {
        known = known || one == key;
        all += (all.empty() ? "" : ", ") + one;
      }
      if (!known) throw std::runtime_error(where_ + " has no key '" + key + "' (" + all + ")");
    }
  }

 private:
  std::string name(const char* key) const { return where_ + ": '" + key + "'"; }

  const json& object_;
  std::string where_;
  std::vector<std::string> asked_;
};

}  // namespace

ModelConfig parse_model_config(const std::string& text) {
  ModelConfig config;
  const json read = json::parse(text, nullptr, false);
  if (read.is_discarded()) throw std::runtime_error("config.json is no JSON");
  Keys keys(read, "config.json");
  keys.read("memory_limit", config.memory_limit);
  keys.read("queue", config.queue, 1);
  keys.read("timeout_milliseconds", config.timeout_milliseconds, 1);
  keys.read("versions", config.versions);
  keys.read("inputs", config.inputs);
  keys.read("outputs", config.outputs);
  if (const json* const shapes = keys.find("shapes")) {
    if (!shapes->is_object()) throw std::runtime_error("config.json: 'shapes' is no JSON object");
    Keys inside(*shapes, "config.json: 'shapes'");
    for (const auto& [name, shape] : shapes->items()) {
      inside.read(name.c_str(), config.shapes[name]);
    }
  }
  if (const json* const batching = keys.find("batching")) {
    BatchConfig& batch = config.batching.emplace();
    Keys inside(*batching, "config.json: 'batching'");
    inside.read("rows", batch.rows, 1);
    inside.read("window_microseconds", batch.window_microseconds, 0);
    inside.read("whole", batch.whole);
    inside.read("check_rows", batch.check_rows);
    inside.end();
    if (batch.rows == 0) throw std::runtime_error("config.json: 'batching' has no 'rows'");
  }
  keys.end();
  return config;
}

ModelConfig read_model_config(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  return parse_model_config(
      std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
}

}  // namespace plimsoll::examples::serve
