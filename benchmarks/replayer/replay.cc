// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/replayer/replay.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/replayer/link.h"

namespace plimsoll::replayer {
namespace {

struct Place {
  std::int32_t storage = 0;
  std::int64_t offset = 0;
};

enum class Kind : char { run = 'c', free = 'f', copy_out = 'o', copy_in = 'i', wait = 'w' };

struct Action {
  Kind kind = Kind::run;
  std::int32_t target = 0;
  std::vector<Place> places;
  bool is_last_wait = false;  // for the copy on the host
};

bool take_number(std::string_view& text, std::int64_t most, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || value > most) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool parse_action(std::string_view line, const Model& model, Action& action) {
  constexpr std::string_view kKinds = "cfoiw";
  if (line.size() < 3 || kKinds.find(line[0]) == kKinds.npos || line[1] != ' ') return false;
  action.kind = static_cast<Kind>(line[0]);
  const bool runs = action.kind == Kind::run;
  line.remove_prefix(2);
  std::int64_t value = 0;
  const std::int64_t count = runs ? std::ssize(model.operations) : std::ssize(model.storages);
  if (!take_number(line, count - 1, value)) return false;
  action.target = static_cast<std::int32_t>(value);
  action.places.clear();
  action.is_last_wait = false;
  while (runs && !line.empty()) {
    Place place;
    if (line[0] != ' ') return false;
    line.remove_prefix(1);
    if (!take_number(line, std::ssize(model.storages) - 1, value)) return false;
    place.storage = static_cast<std::int32_t>(value);
    if (line.empty() || line[0] != '@') return false;
    line.remove_prefix(1);
    if (!take_number(line, std::int64_t{1} << 60, place.offset)) return false;
    action.places.push_back(place);
  }
  return line.empty();
}

// The storages that lie somewhere, by offset.
class AddressSpace {
 public:
  explicit AddressSpace(std::int64_t bytes) : bytes_(bytes) {}

  // False where the place is taken or out of bounds. Storages of no bytes lie nowhere.
  bool put(std::int64_t offset, std::int64_t size) {
    if (size == 0) return true;
    if (offset > bytes_ - size) return false;
    const auto next = ends_.lower_bound(offset);
    if (next != ends_.end() && next->first < offset + size) return false;
    if (next != ends_.begin() && std::prev(next)->second > offset) return false;
    ends_.emplace_hint(next, offset, offset + size);
    height_ = std::max(height_, offset + size);
    return true;
  }
  void remove(std::int64_t offset, std::int64_t size) {
    if (size > 0) ends_.erase(offset);
  }
  // The lowest hole of `size` bytes; -1 where there is none.
  std::int64_t find_hole(std::int64_t size) const {
    std::int64_t at = 0;
    for (const auto& [begin, end] : ends_) {
      if (begin - at >= size) return at;
      at = end;
    }
    return bytes_ - at >= size ? at : -1;
  }
  std::int64_t height() const { return height_; }

 private:
  std::int64_t bytes_, height_ = 0;
  std::map<std::int64_t, std::int64_t> ends_;
};

class Replayer {
 public:
  Replayer(const Model& model, const ReplayOptions& options)
      : model_(model),
        options_(options),
        space_(options.limit_bytes - model.constant_bytes()),
        live_bytes_(model.constant_bytes()),
        resident_(model.storages.size()),
        offsets_(model.storages.size(), -1),
        tensors_of_(model.storages.size()),
        defined_(model.tensors.size()),
        copied_(model.tensors.size()),
        link_(options.link_bytes_per_second, model.storages.size()),
        has_run_(model.operations.size()) {
    result_.peak_bytes = live_bytes_;
    for (std::size_t s = 0; s < model.storages.size(); ++s) {
      resident_[s] = model.storages[s].constant;
    }
    for (std::size_t t = 0; t < model.tensors.size(); ++t) {
      tensors_of_[index(model.tensors[t].storage)].push_back(static_cast<std::int32_t>(t));
      defined_[t] = model.tensors[t].producer < 0;
    }
  }

  Status act(const Action& action) {
    switch (action.kind) {
      case Kind::run:
        return run(action);
      case Kind::free:
        return free(action.target);
      case Kind::copy_out:
      case Kind::copy_in:
      case Kind::wait:
        break;
    }
    if (!link_.exists()) {
      return failed_precondition(
          "copies to and from host memory need the speed that the schedule was planned with "
          "(--link-speed BYTES_PER_S)");
    }
    if (action.kind == Kind::copy_out) return copy_out(action.target);
    if (action.kind == Kind::copy_in) return copy_in(action.target);
    PLIMSOLL_RETURN_IF_ERROR(wait(action.target));
    if (action.is_last_wait) host_bytes_ -= bytes_of(action.target);
    return ok_status();
  }

  Result<Replay> finish() {
    if (live_bytes_ > options_.limit_bytes) {
      return failed_precondition("the constants take " + std::to_string(live_bytes_) +
                                 " bytes (limit " + std::to_string(options_.limit_bytes) + ")");
    }
    for (std::size_t o = 0; o < has_run_.size(); ++o) {
      if (!has_run_[o]) {
        return failed_precondition("operation " + std::to_string(o) + " never runs");
      }
    }
    for (std::int32_t s = 0; s < std::ssize(model_.storages); ++s) {
      if (link_.under_way(s) != Link::Way::none) {
        return failed_precondition("the copy of storage " + std::to_string(s) +
                                   " is never waited for");
      }
    }
    for (const std::int32_t result : model_.results) {
      if (!defined_[index(result)]) {
        return failed_precondition("result " + std::to_string(result) + " isn't there at the end");
      }
    }
    const auto base = static_cast<double>(model_.nanoseconds());
    if (base > 0) {
      result_.overhead_percent = 100 * (static_cast<double>(result_.nanoseconds) - base) / base;
    }
    if (options_.addresses) result_.peak_with_holes = model_.constant_bytes() + space_.height();
    return result_;
  }

 private:
  static std::size_t index(std::int32_t value) { return static_cast<std::size_t>(value); }
  std::int64_t bytes_of(std::int32_t storage) const {
    return model_.storages[index(storage)].bytes;
  }

  // That a storage can move, and that nothing is being done with it already.
  Status check_still(std::int32_t storage) const {
    const std::string name = "storage " + std::to_string(storage);
    if (model_.storages[index(storage)].constant) return failed_precondition(name + " is constant");
    if (link_.under_way(storage) != Link::Way::none) {
      const bool out = link_.under_way(storage) == Link::Way::out;
      return failed_precondition(name + " is still being copied " + (out ? "out" : "in") + " (w " +
                                 std::to_string(storage) + " must come first)");
    }
    return ok_status();
  }

  Status check_resident(std::int32_t storage) const {
    PLIMSOLL_RETURN_IF_ERROR(check_still(storage));
    if (resident_[index(storage)]) return ok_status();
    return failed_precondition("storage " + std::to_string(storage) + " isn't resident");
  }

  Status start_copy(std::int32_t storage, Link::Way way) {
    if (link_.start(storage, way, bytes_of(storage), result_.nanoseconds)) return ok_status();
    return failed_precondition("copying storage " + std::to_string(storage) +
                               " ends later than can be counted");
  }

  Status copy_out(std::int32_t storage) {
    PLIMSOLL_RETURN_IF_ERROR(check_resident(storage));
    PLIMSOLL_RETURN_IF_ERROR(start_copy(storage, Link::Way::out));
    host_bytes_ += bytes_of(storage);
    if (options_.host_limit_bytes >= 0 && host_bytes_ > options_.host_limit_bytes) {
      return failed_precondition("copying storage " + std::to_string(storage) + " out needs " +
                                 std::to_string(host_bytes_) + " bytes of host memory (limit " +
                                 std::to_string(options_.host_limit_bytes) + ")");
    }
    result_.host_peak_bytes = std::max(result_.host_peak_bytes, host_bytes_);
    result_.swapped_bytes += bytes_of(storage);
    for (const std::int32_t t : tensors_of_[index(storage)]) copied_[index(t)] = defined_[index(t)];
    return ok_status();
  }

  Status copy_in(std::int32_t storage) {
    PLIMSOLL_RETURN_IF_ERROR(check_still(storage));
    const std::string name = "storage " + std::to_string(storage);
    if (resident_[index(storage)]) return failed_precondition(name + " is resident already");
    if (!link_.has_copy(storage)) return failed_precondition(name + " has no copy on the host");
    live_bytes_ += bytes_of(storage);
    if (live_bytes_ > options_.limit_bytes) {
      return failed_precondition("copying " + name + " in needs " + std::to_string(live_bytes_) +
                                 " bytes (limit " + std::to_string(options_.limit_bytes) + ")");
    }
    result_.peak_bytes = std::max(result_.peak_bytes, live_bytes_);
    // Nothing can be read before the wait, but an operation that makes it again finds it booked.
    resident_[index(storage)] = true;
    return start_copy(storage, Link::Way::in);
  }

  Status wait(std::int32_t storage) {
    const Link::Way way = link_.under_way(storage);
    if (way == Link::Way::none) {
      return failed_precondition("storage " + std::to_string(storage) + " isn't being copied");
    }
    const std::int64_t stall =
        std::max<std::int64_t>(0, link_.finish(storage) - result_.nanoseconds);
    result_.nanoseconds += stall;
    result_.stalled_nanoseconds += stall;
    if (way == Link::Way::in) {
      for (const std::int32_t t : tensors_of_[index(storage)]) {
        defined_[index(t)] = copied_[index(t)];
      }
    }
    return ok_status();
  }

  Status free(std::int32_t storage) {
    PLIMSOLL_RETURN_IF_ERROR(check_resident(storage));
    resident_[index(storage)] = false;
    live_bytes_ -= bytes_of(storage);
    for (const std::int32_t tensor : tensors_of_[index(storage)]) {
      // A view needs no bytes of its own, so the copy brings those that were made after it, too.
      if (link_.has_copy(storage) && defined_[index(tensor)]) copied_[index(tensor)] = true;
      defined_[index(tensor)] = false;
    }
    if (options_.addresses) space_.remove(offsets_[index(storage)], bytes_of(storage));
    return ok_status();
  }

  Status run(const Action& action) {
    const Operation& operation = model_.operations[index(action.target)];
    for (const std::int32_t argument : operation.arguments) {
      if (!defined_[index(argument)]) {
        return failed_precondition("operation " + std::to_string(action.target) + " reads tensor " +
                                   std::to_string(argument) + ", which isn't there");
      }
    }
    std::int64_t allocated = 0;
    for (const Output& output : operation.outputs) {
      if (output.fresh) allocated += bytes_of(model_.tensors[index(output.tensor)].storage);
    }
    if (live_bytes_ + allocated > options_.limit_bytes) {
      return failed_precondition("operation " + std::to_string(action.target) + " needs " +
                                 std::to_string(live_bytes_ + allocated) + " bytes (limit " +
                                 std::to_string(options_.limit_bytes) + ")");
    }
    result_.peak_bytes = std::max(result_.peak_bytes, live_bytes_ + allocated);
    if (options_.addresses) PLIMSOLL_RETURN_IF_ERROR(place(operation, action));
    for (const Output& output : operation.outputs) {
      const std::int32_t storage = model_.tensors[index(output.tensor)].storage;
      if (output.fresh && !resident_[index(storage)]) {
        resident_[index(storage)] = true;
        live_bytes_ += bytes_of(storage);
      }
      // A view can't be older than its storage: its argument was there.
      defined_[index(output.tensor)] = link_.under_way(storage) != Link::Way::in;
    }
    has_run_[index(action.target)] = true;
    result_.nanoseconds += operation.nanoseconds;
    ++result_.runs;
    return ok_status();
  }

  Status place(const Operation& operation, const Action& action) {
    const std::string name = "operation " + std::to_string(action.target);
    std::vector<std::int32_t> made, copied;
    for (const Output& output : operation.outputs) {
      if (!output.fresh) continue;
      const std::int32_t storage = model_.tensors[index(output.tensor)].storage;
      (resident_[index(storage)] ? copied : made).push_back(storage);
    }
    for (const Place& given : action.places) {
      const auto found = std::find(made.begin(), made.end(), given.storage);
      if (found == made.end()) {
        return failed_precondition(name + " makes no storage " + std::to_string(given.storage) +
                                   " to be placed");
      }
      made.erase(found);
      if (!space_.put(given.offset, bytes_of(given.storage))) {
        return failed_precondition(name + " puts storage " + std::to_string(given.storage) +
                                   " at " + std::to_string(given.offset) +
                                   ", which is taken or above the limit");
      }
      offsets_[index(given.storage)] = given.offset;
    }
    for (const std::int32_t storage : made) {
      if (bytes_of(storage) > 0) {
        return failed_precondition(name + " doesn't say where storage " + std::to_string(storage) +
                                   " lies");
      }
    }
    return place_copies(name, copied);
  }

  Status place_copies(const std::string& name, std::vector<std::int32_t>& copied) {
    std::sort(copied.begin(), copied.end(), [&](std::int32_t a, std::int32_t b) {
      return bytes_of(a) != bytes_of(b) ? bytes_of(a) > bytes_of(b) : a < b;
    });
    std::vector<std::pair<std::int64_t, std::int64_t>> placed;
    for (const std::int32_t storage : copied) {
      const std::int64_t bytes = bytes_of(storage);
      const std::int64_t hole = space_.find_hole(bytes);
      if (hole < 0) {
        return failed_precondition(name + " finds no hole for its copy of storage " +
                                   std::to_string(storage));
      }
      space_.put(hole, bytes);
      placed.emplace_back(hole, bytes);
    }
    for (const auto& [offset, bytes] : placed) space_.remove(offset, bytes);
    return ok_status();
  }

  const Model& model_;
  const ReplayOptions& options_;
  AddressSpace space_;
  std::int64_t live_bytes_;
  std::vector<bool> resident_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::vector<std::int32_t>> tensors_of_;
  std::vector<bool> defined_;
  std::vector<bool> copied_;  // per tensor: comes back with the copy of its storage
  Link link_;
  std::int64_t host_bytes_ = 0;
  std::vector<bool> has_run_;
  Replay result_;
};

struct Line {
  std::int64_t number = 0;
  Action action;
  std::string name() const { return "line " + std::to_string(number); }
};

Status read_lines(std::string_view schedule, const Model& model, std::vector<Line>& lines) {
  std::int64_t number = 0;
  while (!schedule.empty()) {
    const std::size_t end = std::min(schedule.find('\n'), schedule.size());
    std::string_view text = schedule.substr(0, end);
    schedule.remove_prefix(std::min(end + 1, schedule.size()));
    ++number;
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty()) continue;
    Line line;
    line.number = number;
    if (!parse_action(text, model, line.action)) {
      return failed_precondition(line.name() + ": '" + std::string(text) +
                                 "' is no action on this model");
    }
    lines.push_back(std::move(line));
  }
  return ok_status();
}

// Nobody needs the copy on the host after the last wait before the storage is copied out again.
void mark_last_waits(const Model& model, std::vector<Line>& lines) {
  std::vector<Action*> last(model.storages.size(), nullptr);
  const auto mark = [](Action*& wait) {
    if (wait != nullptr) wait->is_last_wait = true;
    wait = nullptr;
  };
  for (Line& line : lines) {
    if (line.action.kind != Kind::copy_out && line.action.kind != Kind::wait) continue;
    Action*& wait = last[static_cast<std::size_t>(line.action.target)];
    if (line.action.kind == Kind::copy_out) mark(wait);
    if (line.action.kind == Kind::wait) wait = &line.action;
  }
  for (Action*& wait : last) mark(wait);
}

}  // namespace

Result<Replay> replay(const Model& model, std::string_view schedule, const ReplayOptions& options) {
  if (options.addresses && options.link_bytes_per_second > 0) {
    return invalid_argument("what is copied in has no address: a link or addresses, not both");
  }
  Replayer replayer(model, options);
  std::vector<Line> lines;
  PLIMSOLL_RETURN_IF_ERROR(read_lines(schedule, model, lines));
  mark_last_waits(model, lines);
  for (const Line& line : lines) {
    PLIMSOLL_RETURN_IF_ERROR(replayer.act(line.action).with_context(line.name()));
  }
  return replayer.finish();
}

}  // namespace plimsoll::replayer
