// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

namespace {

namespace fs = std::filesystem;

// What documents and READMEs say of the tree by a path from its root is there.
TEST(Documents, NameFilesThatAreThere) {
  const fs::path root = PLIMSOLL_SOURCE_DIR;
  const std::regex path(
      R"re((^|[^\w/.])((runtime|jit|kernels|tools|tests|benchmarks|examples|scripts|docs)/[\w/]+\.(h|hpp|cc|c|def|md|sh|hlo|html|txt|cmake))\b)re");
  int documents = 0, named = 0;
  for (const char* top : {"docs", "runtime", "jit", "kernels", "tools", "tests", "benchmarks",
                          "examples", "README.md"}) {
    const auto check = [&](const fs::path& file) {
      if (file.extension() != ".md") return;
      ++documents;
      std::ifstream stream(file);
      std::string line;
      for (int number = 1; std::getline(stream, line); ++number) {
        for (std::sregex_iterator it(line.begin(), line.end(), path), end; it != end; ++it) {
          ++named;
          const std::string target = (*it)[2];
          // Links inside a folder are written from there; names in capitals stand for any.
          EXPECT_TRUE(fs::exists(root / target) || fs::exists(file.parent_path() / target) ||
                      std::regex_search(target, std::regex("[A-Z]{3}|(^|/)(name|remote)")))
              << fs::relative(file, root).string() << ":" << number << " names " << target;
        }
      }
    };
    if (fs::is_regular_file(root / top)) {
      check(root / top);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) check(entry.path());
  }
  EXPECT_GT(documents, 50);
  EXPECT_GT(named, 100);
}

}  // namespace
