// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "jit/jit.h"
#include "runtime/base/file.h"
#include "runtime/base/sha256.h"
#include "runtime/ir/fusions/horizontal_fusion.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"
#include "tests/cases/op_cases.h"

// The text of every kernel of a fixed set of programs, as hashes in one file: a change that should
// change no kernel shows that it doesn't, and one that should shows which.
namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr int kVectorBytes = 64;  // whatever machine this is
const char* const kFile = PLIMSOLL_SOURCE_DIR "/tests/golden/kernels.txt";
const char* const kRenew =
    "PLIMSOLL_RENEW=1 build/release/tests/executor_tests --gtest_filter='KernelReplay.*'";

void add_kernels(const ir::Module& module, const std::string& program,
                 std::map<std::string, std::string>& lines) {
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      const ir::Opcode opcode = instruction->opcode();
      if (opcode == ir::Opcode::constant) continue;
      const bool is_kernel = computation.get() == module.entry() || opcode == ir::Opcode::fusion ||
                             opcode == ir::Opcode::reduce;
      if (!is_kernel || !ir::horizontal_parts(*instruction).empty()) continue;
      const auto kernel = jit::kernel_text(*instruction, kVectorBytes);
      if (kernel.status().code() == StatusCode::unimplemented) continue;  // another library's
      ASSERT_TRUE(kernel.ok()) << program << ": " << kernel.status().to_string();
      lines[program + " " + kernel->name] =
          sha256(std::as_bytes(std::span(kernel->text))).substr(0, 16);
    }
  }
}

// "program kernel" to the hash of the kernel's text.
std::map<std::string, std::string> kernels_as_they_are() {
  std::map<std::string, std::string> lines;
  for (const auto& entry : fs::directory_iterator(PLIMSOLL_SOURCE_DIR "/tests/golden/kernels")) {
    const auto text = read_file(entry.path());
    EXPECT_TRUE(text.ok()) << text.status().to_string();
    auto module = ir::parse_module(*text, entry.path().string());
    EXPECT_TRUE(module.ok()) << module.status().to_string();
    if (!module.ok()) continue;
    EXPECT_TRUE(passes::optimize(**module).ok());
    add_kernels(**module, entry.path().stem().string(), lines);
  }
  // One operation each, as written.
  std::set<std::string> seen;
  for (const cases::OpCase& op : cases::op_cases()) {
    const std::string opcode = op.name.substr(0, op.name.find('.'));
    if (!seen.insert(opcode).second) continue;
    const auto module = ir::parse_module(op.hlo);
    EXPECT_TRUE(module.ok()) << op.name;
    if (module.ok()) add_kernels(**module, "op/" + op.name, lines);
  }
  return lines;
}

std::map<std::string, std::string> kernels_as_recorded() {
  std::map<std::string, std::string> lines;
  std::ifstream file(kFile);
  for (std::string line; std::getline(file, line);) {
    const auto space = line.rfind(' ');
    if (line.empty() || line[0] == '#' || space == std::string::npos) continue;
    lines[line.substr(0, space)] = line.substr(space + 1);
  }
  return lines;
}

TEST(KernelReplay, ChangesNoKernelUnasked) {
#ifdef __clang__
  GTEST_SKIP() << "recorded with GCC: compilers evaluate arguments in different orders, and so "
                  "number values differently";
#endif
  const auto now = kernels_as_they_are();
  EXPECT_GT(now.size(), 100U);
  if (const char* renew = std::getenv("PLIMSOLL_RENEW"); renew != nullptr && *renew == '1') {
    std::ofstream file(kFile);
    file << "# Program, kernel, and the hash of its LLVM IR before optimization. Made by\n# "
         << kRenew << "\n";
    for (const auto& [kernel, hash] : now) file << kernel << " " << hash << "\n";
    ASSERT_TRUE(file.flush()) << kFile;
    return;
  }
  const auto recorded = kernels_as_recorded();
  std::string differences;
  for (const auto& [kernel, hash] : now) {
    const auto it = recorded.find(kernel);
    if (it == recorded.end()) {
      differences += "  new      " + kernel + "\n";
    } else if (it->second != hash) {
      differences += "  changed  " + kernel + "\n";
    }
  }
  for (const auto& [kernel, hash] : recorded) {
    if (!now.contains(kernel)) differences += "  gone     " + kernel + "\n";
  }
  EXPECT_TRUE(differences.empty())
      << "kernels differ from tests/golden/kernels.txt:\n"
      << differences << "If they should, from the root:\n  " << kRenew << "\n";
}

}  // namespace
}  // namespace plimsoll
