// SPDX-License-Identifier: Apache-2.0
// Bytes per second to a spill file and back by the size of transfers, over those of one blocking
// thread through the system's cache, in turns in one run; docs/benchmarks.md has the results.
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/memory/spill/spill_file.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/command_line/command_line.h"

namespace {

using namespace plimsoll;
using memory::SpillFile;
using memory::SpillOptions;

struct Way {
  std::string name;
  SpillOptions options;
  std::shared_ptr<SpillFile> file;
  std::unique_ptr<memory::TierBlock> block;
  std::vector<double> store, load;  // seconds, one a turn
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Moves `total` bytes in transfers of `bytes`, which are enqueued at once as a run's are.
Result<double> seconds(Way& way, bool out, std::byte* memory, std::int64_t bytes,
                       std::int64_t total) {
  memory::TransferEngine& engine = out ? way.file->out() : way.file->in();
  std::vector<std::shared_ptr<memory::Transfer>> transfers;
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t at = 0; at < total; at += bytes) {
    transfers.push_back(engine.enqueue(bytes, [&, at](device::Stream& stream) {
      return out ? way.block->store(at, memory + at, bytes, stream)
                 : way.block->load(at, memory + at, bytes, stream);
    }));
  }
  Status status;
  for (const auto& transfer : transfers) {
    const Status ended = engine.wait(*transfer);
    if (status.ok()) status = ended;
  }
  PLIMSOLL_RETURN_IF_ERROR(status);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Status measure(const std::string& folder, int turns, nlohmann::json& rows) {
  constexpr std::int64_t kTotal = std::int64_t{32} << 20, kAlignment = 4096, kShift = 64;
  const auto device = device::cpu_device();
  PLIMSOLL_ASSIGN_OR_RETURN(void* const raw, device->allocate(kTotal + 2 * kAlignment));
  const std::shared_ptr<void> owner(
      raw, [&](void* p) { device->deallocate(p, kTotal + 2 * kAlignment); });
  std::memset(raw, 1, static_cast<std::size_t>(kTotal + 2 * kAlignment));
  void* start = raw;
  std::size_t space = static_cast<std::size_t>(kTotal + 2 * kAlignment);
  auto* const memory =
      static_cast<std::byte*>(std::align(kAlignment, kTotal + kAlignment, start, space));

  std::vector<Way> ways;
  const auto add = [&](std::string name, SpillOptions options) {
    ways.push_back({std::move(name), options, nullptr, nullptr, {}, {}});
  };
  add("cached_thread", {.direct = false, .ring = false});
  add("thread_to_disk", {.direct = false, .ring = false, .await_disk = true});
  add("direct_thread", {.direct = true, .ring = false});
  add("direct_ring", {.direct = true, .ring = true});
  add("direct_ring_staged", {.direct = true, .ring = true});
  for (Way& way : ways) {
    PLIMSOLL_ASSIGN_OR_RETURN(way.file, SpillFile::create(folder, kTotal, device, way.options));
    PLIMSOLL_ASSIGN_OR_RETURN(way.block, way.file->allocate(kTotal, "measuring"));
  }
  for (const std::int64_t bytes : {std::int64_t{16} << 10, std::int64_t{128} << 10,
                                   std::int64_t{1} << 20, std::int64_t{8} << 20, kTotal}) {
    const std::int64_t total = std::min(kTotal, 64 * bytes);
    for (Way& way : ways) way.store.clear(), way.load.clear();
    for (int turn = 0; turn < turns; ++turn) {
      for (std::size_t i = 0; i < ways.size(); ++i) {
        // Each goes first at times: a lent disk may slow down who comes later.
        Way& way = ways[(i + static_cast<std::size_t>(turn)) % ways.size()];
        std::byte* const at = memory + (way.name == "direct_ring_staged" ? kShift : 0);
        PLIMSOLL_ASSIGN_OR_RETURN(const double out, seconds(way, true, at, bytes, total));
        PLIMSOLL_ASSIGN_OR_RETURN(const double in, seconds(way, false, at, bytes, total));
        if (turn == 0) continue;  // pays for the disk's first writing
        way.store.push_back(out);
        way.load.push_back(in);
      }
    }
    for (const Way& way : ways) {
      const auto rate = [&](const std::vector<double>& s) {
        return static_cast<double>(total) / median(s) / 1e6;
      };
      const double disk_store = rate(ways[1].store), disk_load = rate(ways[1].load);
      rows.push_back({{"bytes", bytes},
                      {"way", way.name},
                      {"io", way.file->io_name()},
                      {"direct", way.file->is_direct()},
                      {"store_mb_per_second", rate(way.store)},
                      {"load_mb_per_second", rate(way.load)},
                      {"store_over_thread_to_disk", rate(way.store) / disk_store},
                      {"load_over_thread_to_disk", rate(way.load) / disk_load}});
    }
  }
  return ok_status();
}

}  // namespace

int main(int argc, char** argv) {
  plimsoll::benchmarks::CommandLine line(
      "Transfers to a spill file and back (docs/benchmarks.md says what it measures).", "spill");
  std::string folder = ".";
  int turns = 6;
  line.add("--folder", folder, "where the file is made");
  line.add("--turns", turns, "of each way, the first not counted", {.least = 2, .most = 1000});
  if (const auto status = line.read(argc, argv)) return *status;
  nlohmann::json rows = nlohmann::json::array();
  const plimsoll::Status status = measure(folder, turns, rows);
  if (!status.ok()) {
    std::cerr << "spill: " << status.to_string() << "\n";
    return 1;
  }
  std::cout << nlohmann::json{{"transfers", rows}}.dump(1) << "\n";
}
