// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// The architecture: what each room may include, besides itself. A room is a folder; where the top
// of a folder holds both what its rooms build on and what drives them, its contract is a room of
// its own, named here by files.
struct Room {
  std::string name;
  std::vector<std::string> places;  // folders, or files without their extension
  std::vector<std::string> below;   // rooms; what those may include is allowed, too
};

const std::vector<Room>& rooms() {
  static const std::vector<Room> list = [] {
    std::vector<Room> rooms;
    const auto folder = [&](const std::string& name, std::vector<std::string> below) {
      rooms.push_back({name, {name}, std::move(below)});
    };
    const auto contract = [&](const std::string& name, std::vector<std::string> files,
                              std::vector<std::string> below) {
      rooms.push_back({name, std::move(files), std::move(below)});
    };
    folder("runtime/base", {});
    folder("runtime/include", {});

    folder("runtime/ir", {"runtime/base"});
    folder("runtime/ir/codec", {"runtime/ir"});
    folder("runtime/ir/shapes", {"runtime/ir"});
    folder("runtime/ir/text", {"runtime/ir/shapes"});
    folder("runtime/ir/interpreter", {"runtime/ir/shapes"});
    folder("runtime/ir/fusions", {"runtime/ir/text"});
    folder("runtime/ir/dataflow", {"runtime/ir/fusions"});

    folder("runtime/passes", {"runtime/ir/shapes"});
    folder("runtime/passes/complex", {"runtime/passes"});
    folder("runtime/passes/narrow", {"runtime/passes"});
    folder("runtime/passes/expand", {"runtime/passes", "runtime/ir/fusions"});
    folder("runtime/passes/simplify", {"runtime/passes", "runtime/ir/interpreter"});
    folder("runtime/passes/partition", {"runtime/passes/simplify", "runtime/ir/dataflow"});
    folder("runtime/passes/cleanup", {"runtime/passes", "runtime/ir/dataflow"});
    folder("runtime/passes/layout", {"runtime/passes/simplify"});
    folder("runtime/passes/fusion", {"runtime/passes/cleanup", "runtime/passes/simplify"});
    folder("runtime/passes/products", {"runtime/passes"});
    folder("runtime/passes/loops", {"runtime/passes/cleanup", "runtime/ir/dataflow"});
    folder("runtime/passes/collectives", {"runtime/passes/cleanup", "runtime/passes/simplify"});
    folder("runtime/passes/attention",
           {"runtime/passes/layout", "runtime/passes/loops", "runtime/ir/fusions"});

    contract("planner contract",
             {"runtime/planner/plan", "runtime/planner/plan_summary", "runtime/planner/planner.h",
              "runtime/planner/options", "runtime/planner/policies", "runtime/planner/residency",
              "runtime/planner/techniques"},
             {"runtime/ir/codec"});
    folder("runtime/planner/pack", {"runtime/base"});
    folder("runtime/planner/flow", {"runtime/base"});
    folder("runtime/planner/problem", {"planner contract", "runtime/ir/dataflow"});
    folder("runtime/planner/cost", {"runtime/planner/problem"});
    folder("runtime/planner/facts", {"runtime/planner/problem"});
    folder("runtime/planner/order", {"runtime/planner/problem"});
    folder("runtime/planner/check", {"runtime/planner/facts"});
    folder("runtime/planner/remedies", {"runtime/planner/facts", "runtime/planner/flow"});
    folder("runtime/planner/bound", {"runtime/planner/remedies"});
    folder("runtime/planner/remat", {"runtime/planner/bound", "runtime/planner/order"});
    folder("runtime/planner/baselines", {"runtime/planner/remat"});
    folder("runtime/planner/ladder",
           {"runtime/planner/baselines", "runtime/planner/cost", "runtime/planner/pack"});
    folder("runtime/planner", {"runtime/planner/ladder", "runtime/planner/check"});

    folder("runtime/device", {"runtime/base"});
    folder("runtime/device/cpu", {"runtime/device"});
    contract("types of the CUDA driver", {"runtime/device/cuda/driver_types"}, {});
    folder("runtime/device/cuda/libraries", {"runtime/base", "types of the CUDA driver"});
    folder("runtime/device/cuda", {"runtime/device", "runtime/device/cuda/libraries"});
    folder("collectives", {"runtime/device/cpu", "runtime/device/cuda", "runtime/ir"});

    folder("runtime/memory/tiers", {"runtime/device"});
    folder("runtime/memory/spill", {"runtime/memory/tiers"});
    folder("runtime/memory", {"runtime/memory/spill"});
    folder("runtime/memory/budget", {"runtime/memory"});
    folder("runtime/memory/evictor", {"runtime/base"});

    contract("jit contract", {"jit/jit", "jit/options"}, {"runtime/device", "runtime/ir"});
    folder("jit/graph", {"runtime/ir/interpreter", "runtime/device"});
    folder("jit/keys", {"jit/graph"});
    folder("jit/emit", {"jit/graph"});
    folder("jit/loops", {"jit/emit", "runtime/ir/fusions"});
    folder("jit/reductions", {"jit/emit"});
    folder("jit/cache", {"jit contract", "jit/graph"});
    folder("jit/native", {"jit contract", "jit/emit", "runtime/ir/text", "runtime/device/cpu"});
    folder("jit/gpu", {"jit/loops", "jit/reductions", "jit/keys", "jit/cache", "jit/native",
                       "runtime/ir/fusions", "runtime/ir/codec"});
    folder("jit/launch",
           {"jit/native", "jit/loops", "jit/keys", "runtime/device/cpu", "runtime/ir/fusions"});
    contract("writers of kernels", {"jit/write_kernel"},
             {"jit contract", "jit/loops", "jit/reductions", "jit/keys"});
    folder("jit/sequences", {"writers of kernels", "jit/native", "runtime/device/cpu"});
    folder("jit", {"jit/launch", "jit/sequences", "jit/reductions", "jit/cache"});

    contract("kernels contract", {"kernels/kernels.h", "kernels/codec.h", "kernels/spill_codec.h"},
             {"runtime/device", "runtime/ir/codec"});
    folder("kernels/cpu", {"kernels contract", "runtime/device/cpu", "runtime/ir/interpreter"});
    folder("kernels/cpu/scalar", {"kernels/cpu", "runtime/ir/fusions"});
    folder("kernels/cpu/codecs", {"kernels/cpu"});
    folder("kernels/cpu/products", {"kernels/cpu"});
    folder("kernels/cpu/contraction", {"kernels/cpu/products", "runtime/ir/fusions"});
    folder("kernels/cuda", {"kernels/cpu/contraction", "runtime/device/cuda", "runtime/ir/text"});
    folder("kernels/cpu/collectives", {"kernels/cpu/scalar"});
    folder("kernels/cpu/attention", {"kernels/cpu", "runtime/ir/fusions"});
    folder("kernels/cpu/window", {"kernels/cpu/scalar"});
    folder("kernels/cpu/indexing", {"kernels/cpu/scalar"});
    folder("kernels/cpu/calls", {"kernels/cpu"});
    folder("kernels/cpu/linalg", {"kernels/cpu/calls"});
    folder("kernels/cpu/fourier", {"kernels/cpu/calls"});
    folder("kernels", {"kernels/cpu/window", "kernels/cpu/indexing", "kernels/cpu/codecs",
                       "kernels/cpu/linalg", "kernels/cpu/fourier", "kernels/cpu/contraction",
                       "kernels/cpu/collectives", "kernels/cpu/attention"});

    folder("runtime/backend", {"jit", "jit/gpu", "kernels", "kernels/cuda", "runtime/device/cuda"});
    folder("runtime/program", {"runtime/passes", "runtime/planner", "runtime/memory/budget"});
    folder("runtime/executor", {"runtime/program", "collectives"});
    folder("runtime/buffers", {"runtime/memory/budget", "runtime/ir"});
    folder("runtime/serve", {"runtime/executor", "runtime/buffers"});
    folder("runtime/residency", {"runtime/executor", "runtime/memory/evictor", "kernels contract"});
    folder("runtime/trace/record", {"runtime/residency", "runtime/ir/shapes"});
    folder("runtime/trace/cut", {"runtime/trace/record", "runtime/serve"});
    folder("runtime/trace/context", {"runtime/trace/cut", "runtime/backend"});
    folder("runtime/autograd", {"runtime/trace/record"});
    folder("runtime/import/vhlo", {"runtime/ir/shapes"});
    folder("runtime/import/wire", {"runtime/base"});
    folder("runtime/import/hlo_proto", {"runtime/ir/text", "runtime/import/wire"});
    folder("runtime/import/onnx/model", {"runtime/ir", "runtime/import/wire"});
    folder("runtime/import/onnx/emit", {"runtime/ir/shapes"});
    folder("runtime/import/onnx/ops", {"runtime/import/onnx/model", "runtime/import/onnx/emit"});
    folder("runtime/import/onnx/contrib",
           {"runtime/import/onnx/model", "runtime/import/onnx/emit", "runtime/import/onnx/ops"});
    folder("runtime/import/onnx", {"runtime/import/onnx/ops", "runtime/ir/interpreter"});
    folder("runtime/import",
           {"runtime/import/vhlo", "runtime/import/hlo_proto", "runtime/import/onnx"});
    folder("runtime/c_api",
           {"runtime/autograd", "runtime/trace/context", "runtime/import", "runtime/include"});

    folder("plugins/pjrt", {"runtime/include"});

    folder("benchmarks/graphs", {"runtime/ir/shapes"});
    folder("benchmarks/replayer", {"runtime/base"});
    folder("benchmarks/eviction", {"runtime/memory/evictor"});
    folder("benchmarks/recorded", {"runtime/planner"});
    folder("benchmarks/planner",
           {"benchmarks/graphs", "benchmarks/replayer", "benchmarks/recorded", "runtime/passes"});
    contract("tools contract", {"tools/command.h", "tools/program_file"},
             {"runtime/serve", "runtime/backend", "runtime/import"});
    folder("tools/plan", {"tools contract", "runtime/import", "benchmarks/recorded"});
    folder("tools", {"tools/plan", "benchmarks/planner", "benchmarks/eviction"});
    folder("python", {"tools"});
    folder("examples", {"runtime/include", "runtime/base"});
    folder("examples/serve", {"runtime/include"});
    return rooms;
  }();
  return list;
}

// Which rooms each may include, by name; in the order of the table, in which only what stands
// before is below.
const std::map<std::string, std::set<std::string>>& allowed() {
  static const std::map<std::string, std::set<std::string>> table = [] {
    std::map<std::string, std::set<std::string>> t;
    for (const Room& room : rooms()) {
      std::set<std::string>& all = t[room.name];
      for (const std::string& below : room.below) {
        all.insert(below);
        all.insert(t.at(below).begin(), t.at(below).end());
      }
    }
    return t;
  }();
  return table;
}

// The room of the longest place that is a part of `path`.
std::string room_of(const std::string& path) {
  std::string best;
  std::size_t longest = 0;
  for (const Room& room : rooms()) {
    for (const std::string& place : room.places) {
      const bool is_folder = place == room.name;
      const bool inside = is_folder ? path.rfind(place + "/", 0) == 0
                                    : path == place || path.rfind(place + ".", 0) == 0;
      if (!inside || place.size() <= longest) continue;
      longest = place.size();
      best = room.name;
    }
  }
  return best;
}

// Folders whose files the table is about; benchmarks/ only as far as others build on it.
constexpr const char* kTops[] = {"runtime",
                                 "jit",
                                 "kernels",
                                 "collectives",
                                 "tools",
                                 "python",
                                 "examples",
                                 "benchmarks/graphs",
                                 "benchmarks/replayer",
                                 "benchmarks/eviction",
                                 "benchmarks/recorded",
                                 "benchmarks/planner"};

struct Include {
  std::string file;
  int line;
  std::string target;
};

// Every include line of the C and C++ files under the folders of the table.
const std::vector<Include>& includes() {
  static const std::vector<Include> found = [] {
    std::vector<Include> list;
    const fs::path root = PLIMSOLL_SOURCE_DIR;
    const std::set<std::string> extensions = {".h", ".hpp", ".cc", ".c", ".cpp"};
    for (const char* top : kTops) {
      if (!fs::exists(root / top)) continue;
      for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
        if (!extensions.contains(entry.path().extension().string())) continue;
        std::ifstream stream(entry.path());
        std::string line;
        for (int number = 1; std::getline(stream, line); ++number) {
          if (line.rfind("#include", 0) != 0) continue;
          const std::size_t open = line.find_first_of("<\"");
          const std::size_t close = line.find_first_of(">\"", open + 1);
          if (open == std::string::npos || close == std::string::npos) continue;
          list.push_back({fs::relative(entry.path(), root).generic_string(), number,
                          line.substr(open + 1, close - open - 1)});
        }
      }
    }
    return list;
  }();
  return found;
}

TEST(IncludeDirection, PointsDownwardsOnly) {
  ASSERT_GT(includes().size(), 50u);
  const fs::path root = PLIMSOLL_SOURCE_DIR;
  for (const Include& include : includes()) {
    const std::string from = room_of(include.file);
    ASSERT_FALSE(from.empty()) << include.file << " is in a folder without a place in the table";
    if (!fs::exists(root / include.target)) continue;  // a library's, or found beside the file
    const std::string to = room_of(include.target);
    EXPECT_FALSE(to.empty()) << include.file << ":" << include.line << " includes "
                             << include.target << ", which has no place in the table";
    if (to.empty() || to == from) continue;
    EXPECT_TRUE(allowed().at(from).contains(to))
        << include.file << ":" << include.line << " includes " << include.target;
  }
}

// A folder that is not found in the table's rooms, or holds more sources than one keeps in mind.
TEST(IncludeDirection, RoomsStaySmall) {
  constexpr int kMostSources = 25;
  const fs::path root = PLIMSOLL_SOURCE_DIR;
  std::map<std::string, int> sources;
  for (const char* top :
       {"runtime", "jit", "kernels", "collectives", "tools", "examples", "benchmarks"}) {
    if (!fs::exists(root / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".cc" || extension == ".c") {
        ++sources[fs::relative(entry.path().parent_path(), root).generic_string()];
      }
    }
  }
  for (const auto& [folder, count] : sources) EXPECT_LE(count, kMostSources) << folder;
}

TEST(IncludeDirection, CompilerAndLibraryHeadersStayInTheirFolders) {
  for (const Include& include : includes()) {
    const std::string where = include.file + ":" + std::to_string(include.line);
    const std::string& target = include.target;
    if (target.rfind("llvm/", 0) == 0 || target.rfind("llvm-c/", 0) == 0) {
      EXPECT_EQ(include.file.rfind("jit/", 0), 0u) << where << " includes " << target;
    }
    if (target.rfind("dnnl", 0) == 0 || target.rfind("oneapi/dnnl", 0) == 0) {
      EXPECT_EQ(include.file.rfind("kernels/", 0), 0u) << where << " includes " << target;
    }
    if (target == "xxhash.h") {
      EXPECT_EQ(include.file.rfind("runtime/base/", 0), 0u) << where << " includes " << target;
    }
    // It takes a second to compile: headers of the library include its json_fwd.hpp.
    if (target == "nlohmann/json.hpp" && include.file.rfind("runtime/", 0) == 0) {
      EXPECT_FALSE(include.file.ends_with(".h")) << where << " includes " << target;
    }
  }
}

// Rooms that reach others only through those between. The recorder works with programs, whatever
// makes their kernels.
TEST(IncludeDirection, SomeRoomsKeepTheirDistance) {
  struct Distance {
    std::string from;
    std::vector<std::string> to;
  };
  const Distance distances[] = {{"runtime/trace/", {"jit/", "kernels/"}},
                                {"runtime/autograd/", {"jit/", "kernels/", "runtime/executor/"}},
                                {"runtime/serve/", {"jit/", "kernels/"}},
                                {"runtime/c_api/", {"jit/", "kernels/"}}};
  for (const Distance& distance : distances) {
    int seen = 0;
    for (const Include& include : includes()) {
      if (include.file.rfind(distance.from, 0) != 0) continue;
      ++seen;
      for (const std::string& to : distance.to) {
        EXPECT_NE(include.target.rfind(to, 0), 0u)
            << include.file << ":" << include.line << " includes " << include.target;
      }
    }
    EXPECT_GT(seen, 0) << distance.from;
  }
}

TEST(IncludeDirection, PathsStartAtTheRoot) {
  for (const Include& include : includes()) {
    EXPECT_EQ(include.target.find("../"), std::string::npos)
        << include.file << ":" << include.line << " includes " << include.target;
  }
}

}  // namespace
