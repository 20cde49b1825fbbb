// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/eviction/recorded_log.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace plimsoll::import {
namespace {

using Json = nlohmann::json;
using Act = RecordedLog::Act;

// No tensor is larger, no operation longer, so that sums stay far from overflowing.
constexpr std::int64_t kMostPerItem = std::int64_t{1} << 42;

class LogReader {
 public:
  LogReader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  Result<RecordedLog> read() {
    for (bool started = false; !started;) {
      PLIMSOLL_ASSIGN_OR_RETURN(const bool more, next());
      if (!more) return fail("the text ends before the line ANNOTATE START");
      started = instruction_ == "ANNOTATE" && line_json_.value("ANNOTATION", "") == "START";
    }
    for (;;) {
      PLIMSOLL_ASSIGN_OR_RETURN(const bool more, next());
      if (!more) break;
      PLIMSOLL_RETURN_IF_ERROR(read_instruction());
    }
    // Names in the order in which they were first given, so that runs are the same.
    for (const std::string& name : order_) {
      const std::int32_t tensor = names_.at(name);
      if (tensors_[at(tensor)].references > 0) event(Act::pin, tensor);
    }
    log_.tensor_count = static_cast<std::int32_t>(tensors_.size());
    return std::move(log_);
  }

 private:
  struct Tensor {
    std::int32_t references = 1;
    std::int32_t storage = 0;
  };
  struct Storage {
    std::int64_t bytes = 0;
    std::int32_t references = 0;
    bool constant = false;
  };

  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

  Status fail(const std::string& what) const {
    return invalid_argument(std::string(name_) + ":" + std::to_string(line_) + ": " + what);
  }

  // The next line that is not empty, as an object; false at the end.
  Result<bool> next() {
    std::string_view line;
    do {
      if (position_ >= text_.size()) return false;
      const std::size_t end = std::min(text_.find('\n', position_), text_.size());
      line = text_.substr(position_, end - position_);
      position_ = end + 1;
      ++line_;
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    } while (line.empty());
    line_json_ = Json::parse(line, nullptr, false);
    if (!line_json_.is_object()) return fail("not a JSON object");
    const auto instruction = line_json_.find("INSTRUCTION");
    if (instruction == line_json_.end() || !instruction->is_string()) {
      return fail("no INSTRUCTION");
    }
    instruction_ = instruction->get<std::string>();
    return true;
  }

  Result<std::string> text(const char* field) const {
    const auto value = line_json_.find(field);
    if (value == line_json_.end() || !value->is_string()) {
      return fail(instruction_ + ": no text " + field);
    }
    return value->get<std::string>();
  }

  Result<std::int64_t> number(const char* field, std::int64_t least) const {
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string digits, text(field));
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < least ||
        value > kMostPerItem) {
      return fail(instruction_ + ": " + field + " '" + digits + "' is no number from " +
                  std::to_string(least) + " to " + std::to_string(kMostPerItem));
    }
    return value;
  }

  Result<std::vector<std::string>> texts(const char* field) const {
    const auto value = line_json_.find(field);
    if (value == line_json_.end() || !value->is_array()) {
      return fail(instruction_ + ": no list " + field);
    }
    std::vector<std::string> found;
    for (const Json& item : *value) {
      if (!item.is_string()) return fail(instruction_ + ": " + field + " holds what is no text");
      found.push_back(item.get<std::string>());
    }
    return found;
  }

  Result<std::int32_t> tensor(const std::string& name) const {
    const auto found = names_.find(name);
    if (found == names_.end()) return fail(instruction_ + ": '" + name + "' was not made before");
    return found->second;
  }

  Result<std::vector<std::int32_t>> arguments() const {
    PLIMSOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, texts("ARGS"));
    std::vector<std::int32_t> found;
    for (const std::string& name : names) {
      PLIMSOLL_ASSIGN_OR_RETURN(const std::int32_t one, tensor(name));
      found.push_back(one);
    }
    return found;
  }

  Status give_name(const std::string& name, std::int32_t tensor) {
    if (!names_.emplace(name, tensor).second) {
      return fail(instruction_ + ": '" + name + "' was made before");
    }
    order_.push_back(name);
    return ok_status();
  }

  void event(Act act, std::int32_t index) { log_.events.push_back({act, index}); }

  std::int32_t add_tensor(std::optional<std::int32_t> view_of, std::int64_t bytes) {
    Tensor tensor;
    if (view_of) {
      tensor.storage = tensors_[at(*view_of)].storage;
    } else {
      tensor.storage = static_cast<std::int32_t>(storages_.size());
      storages_.push_back({bytes, 0, false});
    }
    ++storages_[at(tensor.storage)].references;
    tensors_.push_back(tensor);
    return static_cast<std::int32_t>(tensors_.size()) - 1;
  }

  void add_call(std::int64_t nanoseconds, std::vector<std::int32_t> arguments,
                std::vector<RecordedLog::Output> outputs) {
    RecordedLog::Call call;
    call.nanoseconds = nanoseconds;
    call.first_output = static_cast<std::int32_t>(tensors_.size());
    for (const RecordedLog::Output& output : outputs) {
      std::optional<std::int32_t> base;
      if (output.view_of >= 0) base = arguments[at(output.view_of)];
      add_tensor(base, output.bytes);
      used_bytes_ += output.bytes;
    }
    log_.peak_bytes = std::max(log_.peak_bytes, used_bytes_);
    log_.nanoseconds += nanoseconds;
    call.arguments = std::move(arguments);
    call.outputs = std::move(outputs);
    event(Act::call, static_cast<std::int32_t>(log_.calls.size()));
    log_.calls.push_back(std::move(call));
  }

  void retain(std::int32_t tensor) {
    ++tensors_[at(tensor)].references;
    ++storages_[at(tensors_[at(tensor)].storage)].references;
    event(Act::retain, tensor);
  }

  Status release(std::int32_t tensor) {
    if (tensors_[at(tensor)].references == 0) {
      return fail(instruction_ + ": more releases than references");
    }
    --tensors_[at(tensor)].references;
    Storage& storage = storages_[at(tensors_[at(tensor)].storage)];
    if (--storage.references == 0 && !storage.constant) used_bytes_ -= storage.bytes;
    event(Act::release, tensor);
    return ok_status();
  }

  Status read_constant() {
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string name, text("NAME"));
    PLIMSOLL_ASSIGN_OR_RETURN(const bool more, next());
    if (!more || instruction_ != "MEMORY") return fail("CONSTANT: no line MEMORY follows");
    PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t bytes, number("MEMORY", 0));
    add_call(0, {}, {{bytes, -1}});
    const auto made = static_cast<std::int32_t>(tensors_.size()) - 1;
    storages_.back().constant = true;
    log_.constant_bytes += bytes;
    event(Act::pin, made);
    return give_name(name, made);
  }

  Status read_call() {
    PLIMSOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, texts("RESULT"));
    PLIMSOLL_ASSIGN_OR_RETURN(std::vector<std::int32_t> read, arguments());
    PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t nanoseconds, number("TIME", 0));
    if (names.empty()) return fail("CALL: no RESULT");
    std::vector<RecordedLog::Output> outputs;
    for (std::size_t i = 0; i < names.size(); ++i) {
      PLIMSOLL_ASSIGN_OR_RETURN(bool more, next());
      if (!more || instruction_ != "MEMORY") return fail("CALL: no line MEMORY for each result");
      PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t bytes, number("MEMORY", 0));
      PLIMSOLL_ASSIGN_OR_RETURN(more, next());
      if (!more || instruction_ != "ALIAS") return fail("CALL: no line ALIAS for each result");
      PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t view_of, number("ALIAS", -1));
      if (view_of >= static_cast<std::int64_t>(read.size())) {
        return fail("ALIAS: there is no argument " + std::to_string(view_of));
      }
      outputs.push_back({view_of >= 0 ? 0 : bytes, static_cast<std::int32_t>(view_of)});
    }
    add_call(nanoseconds, std::move(read), std::move(outputs));
    for (std::size_t i = 0; i < names.size(); ++i) {
      PLIMSOLL_RETURN_IF_ERROR(
          give_name(names[i], log_.calls.back().first_output + static_cast<std::int32_t>(i)));
    }
    return ok_status();
  }

  Status read_mutate() {
    PLIMSOLL_ASSIGN_OR_RETURN(const std::vector<std::string> names, texts("ARGS"));
    PLIMSOLL_ASSIGN_OR_RETURN(std::vector<std::int32_t> read, arguments());
    PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t nanoseconds, number("TIME", 0));
    const auto list = line_json_.find("MUTATE");
    if (list == line_json_.end() || !list->is_array() || list->empty()) {
      return fail("MUTATE: no list MUTATE");
    }
    std::vector<std::size_t> mutated;
    std::vector<RecordedLog::Output> outputs;
    for (const Json& item : *list) {
      const std::int64_t which = item.is_number_integer() ? item.get<std::int64_t>() : -1;
      if (which < 0 || which >= static_cast<std::int64_t>(read.size())) {
        return fail("MUTATE: there is no such argument");
      }
      mutated.push_back(static_cast<std::size_t>(which));
      outputs.push_back({storages_[at(tensors_[at(read[mutated.back()])].storage)].bytes, -1});
    }
    add_call(nanoseconds, read, std::move(outputs));
    std::int32_t made = log_.calls.back().first_output;
    for (const std::size_t which : mutated) {
      names_[names[which]] = made++;
      PLIMSOLL_RETURN_IF_ERROR(release(read[which]));
    }
    return ok_status();
  }

  Status read_instruction() {
    if (instruction_ == "CONSTANT") return read_constant();
    if (instruction_ == "CALL") return read_call();
    if (instruction_ == "MUTATE") return read_mutate();
    if (instruction_ == "ANNOTATE") return ok_status();
    if (instruction_ == "COPY") {
      PLIMSOLL_ASSIGN_OR_RETURN(const std::string name, text("DST"));
      PLIMSOLL_ASSIGN_OR_RETURN(const std::string source_name, text("SRC"));
      PLIMSOLL_ASSIGN_OR_RETURN(const std::int32_t source, tensor(source_name));
      retain(source);
      return give_name(name, source);
    }
    if (instruction_ == "COPY_FROM") {
      PLIMSOLL_ASSIGN_OR_RETURN(const std::string name, text("DST"));
      PLIMSOLL_ASSIGN_OR_RETURN(const std::string source_name, text("SRC"));
      PLIMSOLL_ASSIGN_OR_RETURN(const std::int32_t old, tensor(name));
      PLIMSOLL_ASSIGN_OR_RETURN(const std::int32_t source, tensor(source_name));
      names_[name] = source;
      PLIMSOLL_RETURN_IF_ERROR(release(old));
      retain(source);
      return ok_status();
    }
    if (instruction_ == "RELEASE") {
      PLIMSOLL_ASSIGN_OR_RETURN(const std::string name, text("NAME"));
      // Names of before ANNOTATE START may be released, too.
      const auto found = names_.find(name);
      return found == names_.end() ? ok_status() : release(found->second);
    }
    return fail("'" + instruction_ + "' is no instruction of a recorded log");
  }

  std::string_view text_, name_;
  std::size_t position_ = 0;
  int line_ = 0;
  Json line_json_;
  std::string instruction_;
  RecordedLog log_;
  std::unordered_map<std::string, std::int32_t> names_;
  std::vector<std::string> order_;
  std::vector<Tensor> tensors_;
  std::vector<Storage> storages_;
  std::int64_t used_bytes_ = 0;
};

}  // namespace

Result<RecordedLog> parse_recorded_log(std::string_view text, std::string_view name) {
  return LogReader(text, name).read();
}

}  // namespace plimsoll::import
