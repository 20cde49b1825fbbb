// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/recorded/recorded_step.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/planner/problem/problem_builder.h"

namespace plimsoll::planner {
namespace {

constexpr std::int64_t kMostItems = std::int64_t{1} << 26;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// The text's lines as numbers, with the place of whatever is wrong.
class LineReader {
 public:
  LineReader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  // The next line's numbers.
  Result<std::vector<std::int64_t>> next(std::string_view what) {
    if (at_ >= text_.size()) return fail("the text ends where " + std::string(what) + " should be");
    ++line_;
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view line = text_.substr(at_, end - at_);
    at_ = end + 1;
    std::vector<std::int64_t> numbers;
    for (std::size_t i = 0; i < line.size();) {
      if (is_space(line[i])) {
        ++i;
        continue;
      }
      std::int64_t number = 0;
      const auto [stop, error] =
          std::from_chars(line.data() + i, line.data() + line.size(), number);
      const auto length = at(stop - (line.data() + i));
      if (error != std::errc() || (i + length < line.size() && !is_space(line[i + length]))) {
        return fail(std::string(what) + ": not a whole number at column " + std::to_string(i + 1));
      }
      numbers.push_back(number);
      i += length;
    }
    return numbers;
  }

  bool at_end() const { return at_ >= text_.size(); }

  Status fail(const std::string& what) const {
    return invalid_argument(std::string(name_) + ":" + std::to_string(line_) + ": " + what);
  }

 private:
  std::string_view text_, name_;
  std::size_t at_ = 0;
  int line_ = 0;
};

struct Tensor {
  std::int64_t storage = 0, producer = -1;
};

class Parser {
 public:
  Parser(std::string_view text, std::string_view name) : lines_(text, name) {}

  Result<RecordedStep> run() {
    PLIMSOLL_RETURN_IF_ERROR(read_header());
    PLIMSOLL_RETURN_IF_ERROR(read_storages());
    PLIMSOLL_RETURN_IF_ERROR(read_tensors());
    for (int op = 0; op < step_.op_count; ++op) PLIMSOLL_RETURN_IF_ERROR(read_op(op));
    PLIMSOLL_RETURN_IF_ERROR(read_held());
    PLIMSOLL_RETURN_IF_ERROR(check_made());
    step_.problem = builder_.finish();
    return std::move(step_);
  }

 private:
  static bool is_flag(std::int64_t number) { return number == 0 || number == 1; }
  Problem& problem() { return builder_.problem(); }
  Value& value(ValueId v) { return problem().values[v]; }

  Status read_header() {
    PLIMSOLL_ASSIGN_OR_RETURN(const auto line, lines_.next("the header"));
    if (line.size() != 5) {
      return lines_.fail("the header has " + std::to_string(line.size()) +
                         " numbers (peak, storages, tensors, ops, tensors held at the end are 5)");
    }
    for (const std::int64_t number : line) {
      if (number < 0) return lines_.fail("the header has a negative number");
    }
    for (std::size_t i = 1; i < 4; ++i) {
      if (line[i] > kMostItems) return lines_.fail("the header promises too many items");
    }
    if (line[0] == 0) return lines_.fail("the header's peak is 0");
    step_.unlimited_peak = line[0];
    step_.storage_count = static_cast<int>(line[1]);
    tensor_count_ = line[2];
    step_.op_count = static_cast<int>(line[3]);
    held_count_ = line[4];
    return {};
  }

  Status read_storages() {
    std::int64_t total = 0;
    for (int s = 0; s < step_.storage_count; ++s) {
      PLIMSOLL_ASSIGN_OR_RETURN(const auto line, lines_.next("a storage"));
      if (line.size() != 3 || line[0] < 0 || !is_flag(line[1]) || !is_flag(line[2])) {
        return lines_.fail("a storage is `bytes is_constant is_held`, the last two 0 or 1");
      }
      if (line[0] > std::numeric_limits<std::int64_t>::max() / 64 - total) {
        return lines_.fail("the storages are larger than can be counted");
      }
      total += line[0];
      Value made;
      made.bytes = line[0];
      if (line[1] == 1) {
        made.home = Home::constant;
        problem().parameter_bytes += line[0];
      }
      problem().values.push_back(made);
    }
    problem().view_of.resize(problem().values.size());
    return {};
  }

  Status read_tensors() {
    for (std::int64_t t = 0; t < tensor_count_; ++t) {
      PLIMSOLL_ASSIGN_OR_RETURN(const auto line, lines_.next("a tensor"));
      if (line.size() != 2) return lines_.fail("a tensor is `storage producing_op`");
      if (line[0] < 0 || line[0] >= step_.storage_count) {
        return lines_.fail("there is no storage " + std::to_string(line[0]));
      }
      if (line[1] < -1 || line[1] >= step_.op_count) {
        return lines_.fail("there is no op " + std::to_string(line[1]));
      }
      if (line[1] < 0 && value(ValueId(line[0])).home != Home::constant) {
        return lines_.fail("nothing makes the tensor, and its storage is not constant");
      }
      tensors_.push_back({line[0], line[1]});
    }
    value_of_.resize(tensors_.size());
    return {};
  }

  // What reading tensor `t` reads: its view, where it is one, and the storage, where that can go.
  Status read_tensor(std::int64_t t, std::vector<ValueId>& reads) {
    if (t < 0 || t >= tensor_count_) {
      return lines_.fail("there is no tensor " + std::to_string(t));
    }
    const Tensor& tensor = tensors_[at(t)];
    if (tensor.producer >= 0 && value_of_[at(t)] < 0) {
      return lines_.fail("tensor " + std::to_string(t) + " is read before op " +
                         std::to_string(tensor.producer) + " makes it");
    }
    const auto storage = ValueId(tensor.storage);
    const auto add = [&](ValueId v) {
      if (std::find(reads.begin(), reads.end(), v) == reads.end()) reads.push_back(v);
    };
    if (value_of_[at(t)] >= 0) add(value_of_[at(t)]);
    if (value(storage).home == Home::arena) add(storage);
    return {};
  }

  Status read_op(int op) {
    PLIMSOLL_ASSIGN_OR_RETURN(const auto line, lines_.next("an op"));
    const auto size = static_cast<std::int64_t>(line.size());
    constexpr const char* kForm = "an op is `nanoseconds n arguments... m (tensor is_fresh)...`";
    if (size < 3 || line[0] < 0 || line[1] < 0 || line[1] > size - 3) return lines_.fail(kForm);
    const std::int64_t outputs_at = 2 + line[1];
    const std::int64_t outputs = line[at(outputs_at)];
    if (outputs < 0 || outputs > size || size != outputs_at + 1 + 2 * outputs) {
      return lines_.fail(kForm);
    }
    if (line[0] > std::numeric_limits<std::int64_t>::max() / 1024 - step_.total_nanoseconds) {
      return lines_.fail("the ops take longer than can be counted");
    }
    std::vector<ValueId> reads;
    for (std::int64_t i = 2; i < outputs_at; ++i) {
      PLIMSOLL_RETURN_IF_ERROR(read_tensor(line[at(i)], reads));
    }
    for (std::int64_t i = 0; i < outputs; ++i) {
      PLIMSOLL_RETURN_IF_ERROR(add_output(op, line[at(outputs_at + 1 + 2 * i)],
                                          line[at(outputs_at + 2 + 2 * i)], reads));
    }
    add_op(reads, line[0], true);
    return {};
  }

  Status add_output(int op, std::int64_t t, std::int64_t fresh, const std::vector<ValueId>& reads) {
    if (t < 0 || t >= tensor_count_) {
      return lines_.fail("there is no tensor " + std::to_string(t));
    }
    if (!is_flag(fresh)) return lines_.fail("is_fresh is 0 or 1");
    const Tensor& tensor = tensors_[at(t)];
    if (tensor.producer != op) {
      return lines_.fail("tensor " + std::to_string(t) + " is said to be made by op " +
                         std::to_string(tensor.producer));
    }
    if (value_of_[at(t)] >= 0) return lines_.fail("tensor " + std::to_string(t) + " is made twice");
    const auto storage = ValueId(tensor.storage);
    const bool constant = value(storage).home == Home::constant;
    if (fresh == 1) {
      if (constant) return lines_.fail("a constant storage is made");
      if (value(storage).producer >= 0) {
        return lines_.fail("storage " + std::to_string(tensor.storage) + " is made by two ops");
      }
      value(storage).producer = builder_.next_op();
      value_of_[at(t)] = storage;
    } else {
      if (!constant && std::find(reads.begin(), reads.end(), storage) == reads.end()) {
        return lines_.fail("tensor " + std::to_string(t) + " is a view of no argument");
      }
      Value view;
      view.producer = builder_.next_op();
      value_of_[at(t)] = builder_.add_value(view, constant ? ValueId() : storage);
    }
    outputs_.push_back(value_of_[at(t)]);
    return {};
  }

  void add_op(const std::vector<ValueId>& reads, std::int64_t nanoseconds, bool recomputable) {
    Op op;
    op.seconds = static_cast<double>(nanoseconds) * 1e-9;
    op.recomputable = recomputable;
    builder_.add_op(op, reads, reads, outputs_);
    outputs_.clear();
    if (recomputable) {
      step_.nanoseconds.push_back(nanoseconds);
      step_.total_nanoseconds += nanoseconds;
    }
  }

  Status read_held() {
    std::vector<ValueId> held;
    std::int64_t count = 0;
    while (!lines_.at_end()) {
      PLIMSOLL_ASSIGN_OR_RETURN(const auto line, lines_.next("a tensor to hold"));
      for (const std::int64_t t : line) PLIMSOLL_RETURN_IF_ERROR(read_tensor(t, held));
      count += static_cast<std::int64_t>(line.size());
    }
    if (count != held_count_) {
      return lines_.fail(std::to_string(count) + " tensors are held at the end, the header says " +
                         std::to_string(held_count_));
    }
    add_op(held, 0, false);
    return {};
  }

  Status check_made() const {
    for (int s = 0; s < step_.storage_count; ++s) {
      const Value& storage = builder_.problem().values[ValueId(s)];
      if (storage.home == Home::arena && storage.producer < 0) {
        return lines_.fail("nothing makes storage " + std::to_string(s));
      }
    }
    return {};
  }

  LineReader lines_;
  RecordedStep step_;
  ProblemBuilder builder_;
  std::int64_t tensor_count_ = 0, held_count_ = 0;
  std::vector<Tensor> tensors_;
  std::vector<ValueId> value_of_;  // per tensor that an op made
  std::vector<ValueId> outputs_;   // of the op being read
};

}  // namespace

bool is_recorded_step(std::string_view text) {
  const auto first = std::find_if_not(text.begin(), text.end(), is_space);
  return first != text.end() && (*first == '-' || (*first >= '0' && *first <= '9'));
}

Result<RecordedStep> parse_recorded_step(std::string_view text, std::string_view name) {
  return Parser(text, name).run();
}

std::string schedule_text(const RecordedStep& step, std::span<const OpId> schedule) {
  const Problem& problem = step.problem;
  const Liveness liveness = find_liveness(problem, schedule);
  std::string text;
  const auto evict = [&](ValueId v) {
    if (!step.is_storage(v) || !problem.in_arena(v)) return;
    text += "f " + std::to_string(v.value()) + "\n";
  };
  for (std::size_t t = 0; t < schedule.size(); ++t) {
    const OpId op = schedule[t];
    if (!step.is_recorded(op)) continue;
    text += "c " + std::to_string(op.value()) + "\n";
    for (const ValueId v : dead_after(problem, schedule, liveness, t)) evict(v);
  }
  return text;
}

RecordedCost recorded_cost(const RecordedStep& step, std::span<const OpId> schedule) {
  RecordedCost cost;
  cost.peak_bytes = evaluate(step.problem, schedule).arena_peak + step.problem.parameter_bytes;
  for (const OpId op : schedule) {
    if (step.is_recorded(op)) cost.nanoseconds += step.nanoseconds[op];
  }
  return cost;
}

}  // namespace plimsoll::planner
