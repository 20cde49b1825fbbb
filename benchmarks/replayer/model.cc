// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/replayer/model.h"

#include <charconv>
#include <limits>
#include <utility>

namespace plimsoll::replayer {
namespace {

constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxTotal = std::int64_t{1} << 60;

// Integers from a text, the first bad one kept as an error.
class Reader {
 public:
  Reader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  std::int64_t integer(std::int64_t least, std::int64_t most, const char* what) {
    skip_space();
    std::int64_t value = 0;
    const char* first = text_.data() + at_;
    const char* last = text_.data() + text_.size();
    const auto [end, error] = std::from_chars(first, last, value);
    if (error != std::errc() || value < least || value > most) {
      if (status_.ok()) {
        status_ = invalid_argument(std::string(name_) + ": number " + std::to_string(count_ + 1) +
                                   " isn't a valid " + what);
      }
      at_ = text_.size();
      return least;
    }
    at_ += static_cast<std::size_t>(end - first);
    ++count_;
    return value;
  }
  std::int32_t index(std::int64_t size, const char* what) {
    return static_cast<std::int32_t>(integer(0, size - 1, what));
  }
  // A number of things that take at least one digit and a space each.
  std::size_t count(const char* what) {
    return static_cast<std::size_t>(
        integer(0, std::min<std::int64_t>(kMaxCount, std::ssize(text_)), what));
  }
  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }
  const Status& status() const { return status_; }

 private:
  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }

  std::string_view text_, name_;
  std::size_t at_ = 0;
  std::int64_t count_ = 0;
  Status status_;
};

// That everything is made before it is read, and every storage by one operation.
Status check_origins(const Model& model, std::string_view name) {
  const auto bad = [&](std::size_t operation, const std::string& what) {
    return invalid_argument(std::string(name) + ": operation " + std::to_string(operation) + " " +
                            what);
  };
  std::vector<bool> made(model.storages.size()), known(model.tensors.size());
  for (std::size_t s = 0; s < model.storages.size(); ++s) made[s] = model.storages[s].constant;
  for (std::size_t t = 0; t < model.tensors.size(); ++t) {
    known[t] = model.tensors[t].producer < 0;
    if (known[t] && !made[static_cast<std::size_t>(model.tensors[t].storage)]) {
      return invalid_argument(std::string(name) + ": tensor " + std::to_string(t) +
                              " has no producer, and its storage isn't constant");
    }
  }
  for (std::size_t o = 0; o < model.operations.size(); ++o) {
    const Operation& operation = model.operations[o];
    for (const std::int32_t argument : operation.arguments) {
      if (!known[static_cast<std::size_t>(argument)]) {
        return bad(o, "reads tensor " + std::to_string(argument) + " before it is made");
      }
    }
    for (const Output& output : operation.outputs) {
      const auto t = static_cast<std::size_t>(output.tensor);
      const auto s = static_cast<std::size_t>(model.tensors[t].storage);
      if (model.tensors[t].producer != static_cast<std::int32_t>(o) || known[t]) {
        return bad(o, "isn't the only producer of tensor " + std::to_string(t));
      }
      if (output.fresh == made[s]) {
        return bad(o, output.fresh ? "makes storage " + std::to_string(s) + " a second time"
                                   : "views storage " + std::to_string(s) + " before it is made");
      }
      if (output.fresh) made[s] = true;
      known[t] = true;
    }
  }
  for (const std::int32_t result : model.results) {
    if (!known[static_cast<std::size_t>(result)]) {
      return invalid_argument(std::string(name) + ": result " + std::to_string(result) +
                              " is never made");
    }
  }
  return ok_status();
}

}  // namespace

std::int64_t Model::constant_bytes() const {
  std::int64_t sum = 0;
  for (const Storage& storage : storages) sum += storage.constant ? storage.bytes : 0;
  return sum;
}

std::int64_t Model::nanoseconds() const {
  std::int64_t sum = 0;
  for (const Operation& operation : operations) sum += operation.nanoseconds;
  return sum;
}

Result<Model> parse_model(std::string_view text, std::string_view name) {
  Reader reader(text, name);
  Model model;
  model.peak_bytes = reader.integer(1, kMaxTotal, "peak");
  model.storages.resize(reader.count("number of storages"));
  model.tensors.resize(reader.count("number of tensors"));
  model.operations.resize(reader.count("number of operations"));
  model.results.resize(reader.count("number of results"));
  const std::int64_t most_bytes = kMaxTotal / (std::ssize(model.storages) + 1);
  for (Storage& storage : model.storages) {
    storage.bytes = reader.integer(0, most_bytes, "size");
    storage.constant = reader.integer(0, 1, "flag") != 0;
    storage.pinned = reader.integer(0, 1, "flag") != 0;
  }
  for (Tensor& tensor : model.tensors) {
    tensor.storage = reader.index(std::ssize(model.storages), "storage");
    tensor.producer =
        static_cast<std::int32_t>(reader.integer(-1, std::ssize(model.operations) - 1, "producer"));
  }
  const std::int64_t most_time = kMaxTotal / (std::ssize(model.operations) + 1);
  for (Operation& operation : model.operations) {
    operation.nanoseconds = reader.integer(0, most_time, "time");
    operation.arguments.resize(reader.count("number of arguments"));
    for (std::int32_t& argument : operation.arguments) {
      argument = reader.index(std::ssize(model.tensors), "argument");
    }
    operation.outputs.resize(reader.count("number of outputs"));
    for (Output& output : operation.outputs) {
      output.tensor = reader.index(std::ssize(model.tensors), "output");
      output.fresh = reader.integer(0, 1, "flag") != 0;
    }
    PLIMSOLL_RETURN_IF_ERROR(reader.status());
  }
  for (std::int32_t& result : model.results) {
    result = reader.index(std::ssize(model.tensors), "result");
  }
  PLIMSOLL_RETURN_IF_ERROR(reader.status());
  if (!reader.at_end()) {
    return invalid_argument(std::string(name) + ": there is text after the last result");
  }
  PLIMSOLL_RETURN_IF_ERROR(check_origins(model, name));
  return model;
}

std::string to_text(const Model& model) {
  std::string text;
  const auto put = [&](std::int64_t value, char end) {
    text += std::to_string(value);
    text += end;
  };
  put(model.peak_bytes, ' ');
  put(std::ssize(model.storages), ' ');
  put(std::ssize(model.tensors), ' ');
  put(std::ssize(model.operations), ' ');
  put(std::ssize(model.results), '\n');
  for (const Storage& storage : model.storages) {
    put(storage.bytes, ' ');
    put(storage.constant ? 1 : 0, ' ');
    put(storage.pinned ? 1 : 0, '\n');
  }
  for (const Tensor& tensor : model.tensors) {
    put(tensor.storage, ' ');
    put(tensor.producer, '\n');
  }
  for (const Operation& operation : model.operations) {
    put(operation.nanoseconds, ' ');
    put(std::ssize(operation.arguments), ' ');
    for (const std::int32_t argument : operation.arguments) put(argument, ' ');
    put(std::ssize(operation.outputs), operation.outputs.empty() ? '\n' : ' ');
    for (std::size_t i = 0; i < operation.outputs.size(); ++i) {
      put(operation.outputs[i].tensor, ' ');
      put(operation.outputs[i].fresh ? 1 : 0, i + 1 == operation.outputs.size() ? '\n' : ' ');
    }
  }
  for (const std::int32_t result : model.results) put(result, '\n');
  return text;
}

}  // namespace plimsoll::replayer
