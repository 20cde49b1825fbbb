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

// Which folders each folder may include (itself always). This is the architecture.
const std::map<std::string, std::set<std::string>>& allowed() {
  static const std::map<std::string, std::set<std::string>> table = [] {
    std::map<std::string, std::set<std::string>> t;
    const auto add = [&t](const std::string& folder, std::vector<std::string> below) {
      std::set<std::string>& all = t[folder];
      for (const std::string& b : below) {
        all.insert(b);
        all.insert(t.at(b).begin(), t.at(b).end());
      }
    };
    add("runtime/base", {});
    add("runtime/ir", {"runtime/base"});
    add("runtime/passes", {"runtime/ir"});
    add("runtime/planner", {"runtime/ir"});
    add("runtime/device", {"runtime/ir"});
    add("runtime/memory", {"runtime/device"});
    add("jit", {"runtime/device"});
    add("kernels", {"runtime/device", "runtime/planner"});
    add("collectives", {"runtime/device"});
    add("runtime/executor",
        {"runtime/passes", "runtime/planner", "runtime/memory", "jit", "kernels", "collectives"});
    add("runtime/import", {"runtime/ir"});
    add("runtime/trace", {"runtime/executor"});
    add("runtime/autograd", {"runtime/trace"});
    add("runtime/include", {});
    add("runtime/c_api", {"runtime/autograd", "runtime/import", "runtime/include"});
    add("tools", {"runtime/c_api"});
    add("examples", {"runtime/include", "runtime/base"});
    return t;
  }();
  return table;
}

std::string folder_of(const std::string& path) {
  for (const auto& [folder, below] : allowed()) {
    if (path.rfind(folder + "/", 0) == 0) return folder;
  }
  return {};
}

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
    for (const char* top : {"runtime", "jit", "kernels", "collectives", "tools", "examples"}) {
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
  for (const Include& include : includes()) {
    const std::string from = folder_of(include.file);
    ASSERT_FALSE(from.empty()) << include.file << " is in a folder without a place in the table";
    const std::string to = folder_of(include.target);
    if (to.empty() || to == from) continue;
    EXPECT_TRUE(allowed().at(from).contains(to))
        << include.file << ":" << include.line << " includes " << include.target;
  }
}

TEST(IncludeDirection, CompilerAndLibraryHeadersStayInTheirFolders) {
  for (const Include& include : includes()) {
    const std::string where = include.file + ":" + std::to_string(include.line);
    const std::string& target = include.target;
    if (target.rfind("llvm/", 0) == 0 || target.rfind("llvm-c/", 0) == 0) {
      EXPECT_EQ(folder_of(include.file), "jit") << where << " includes " << target;
    }
    if (target.rfind("dnnl", 0) == 0 || target.rfind("oneapi/dnnl", 0) == 0) {
      EXPECT_EQ(folder_of(include.file), "kernels") << where << " includes " << target;
    }
  }
}

TEST(IncludeDirection, PathsStartAtTheRoot) {
  for (const Include& include : includes()) {
    EXPECT_EQ(include.target.find("../"), std::string::npos)
        << include.file << ":" << include.line << " includes " << include.target;
  }
}

}  // namespace
