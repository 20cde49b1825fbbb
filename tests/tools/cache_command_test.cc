// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/tools/command.h"

namespace plimsoll::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Large enough for code of its own: smaller ones share the function of all extents.
constexpr std::string_view kProgram =
    "x = f32[20000] parameter(0)\ny = f32[20000] exponential(x)\nROOT z = f32[20000] add(x, y)\n";

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<fs::path> files_in(const fs::path& folder, const std::string& extension) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == extension) found.push_back(entry.path());
  }
  return found;
}

std::string in(const std::string& folder) {
  return "PLIMSOLL_JIT_CACHE=rw PLIMSOLL_JIT_CACHE_DIR=" + folder;
}

TEST(CacheCommand, CountsWhatRunsKeepAndFind) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kProgram);
  const std::string environment = in(folder.path("kernels"));
  json stats = plimsoll("cache stats --json", environment).json();
  EXPECT_EQ(stats["entries"], 0);
  EXPECT_EQ(stats["mode"], "rw");
  EXPECT_EQ(stats["folder"], folder.path("kernels"));
  EXPECT_EQ(stats["limit_bytes"], std::int64_t{256} << 20);
  EXPECT_FALSE(fs::exists(folder.path("kernels"))) << "looking makes nothing";
  const json cold = plimsoll("run " + file + " --json", environment).json();
  stats = plimsoll("cache stats --json", environment).json();
  EXPECT_EQ(stats["entries"], 1);
  EXPECT_EQ(stats["hits"], 0);
  EXPECT_EQ(stats["stored"], 1);
  EXPECT_GT(stats["bytes"], 0);
  const json warm = plimsoll("run " + file + " --json", environment).json();
  EXPECT_EQ(cold["outputs"], warm["outputs"]);
  stats = plimsoll("cache stats --json", environment).json();
  EXPECT_EQ(stats["hits"], 1);
  EXPECT_EQ(stats["stored"], 1);
  const Call text = plimsoll("cache stats", environment);
  EXPECT_NE(text.out.find("entries    1"), std::string::npos) << text.out;
}

TEST(CacheCommand, ClearsTheFolder) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kProgram);
  const std::string environment = in(folder.path("kernels"));
  EXPECT_EQ(plimsoll("run " + file, environment).exit_code, 0);
  const json cleared = plimsoll("cache clear --json", environment).json();
  EXPECT_EQ(cleared["removed_entries"], 1);
  EXPECT_TRUE(fs::is_empty(folder.path("kernels")));
  EXPECT_EQ(plimsoll("cache clear", environment).exit_code, 0);
}

TEST(CacheCommand, RefusesAFolderThatOthersMayWrite) {
  const Folder folder;
  fs::create_directory(folder.path("kernels"));
  fs::permissions(folder.path("kernels"), fs::perms::all);
  for (const char* call : {"cache stats", "cache clear"}) {
    const Call refused = plimsoll(call, in(folder.path("kernels")));
    EXPECT_EQ(refused.exit_code, 2) << call;
    EXPECT_NE(refused.error.find("chmod 700"), std::string::npos) << refused.error;
  }
  EXPECT_EQ(plimsoll("cache").exit_code, 2);
  EXPECT_EQ(plimsoll("cache melt").exit_code, 2);
}

TEST(CacheCommand, ProcessesThatRaceForOneFolderAllSucceed) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kProgram);
  const std::string environment = in(folder.path("kernels"));
  const json alone = plimsoll("run " + file + " --json").json();
  // One call of the shell: two in the background beside the one that is read.
  const std::string other = environment + " " + PLIMSOLL_COMMAND + " run " + file;
  const Call raced = plimsoll("run " + file + " --json",
                              other + " >/dev/null & " + other + " >/dev/null & " + environment);
  EXPECT_EQ(raced.error, "");
  EXPECT_EQ(raced.json()["outputs"], alone["outputs"]);
  EXPECT_EQ(plimsoll("run " + file + " --json", environment).json()["outputs"], alone["outputs"]);
}

TEST(CacheCommand, IsShownByInfo) {
  const Folder folder;
  const json on =
      plimsoll("info --json", in(folder.path("k")) + " PLIMSOLL_JIT_CACHE_LIMIT=1MiB").json();
  EXPECT_EQ(on["kernel_cache"]["folder"], folder.path("k"));
  EXPECT_EQ(on["kernel_cache"]["limit_bytes"], 1 << 20);
  const json off = plimsoll("info --json", "PLIMSOLL_JIT_CACHE=off").json();
  EXPECT_TRUE(off["kernel_cache"]["folder"].is_null());
}

TEST(Dump, WritesEachFormUnderTheKernelsName) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kProgram);
  const Call call =
      plimsoll("run " + file + " --json", "PLIMSOLL_DUMP=llvm,asm,hlo@" + folder.path("d"));
  EXPECT_EQ(call.exit_code, 0) << call.error;
  const auto ir = files_in(folder.path("d"), ".ll");
  ASSERT_EQ(ir.size(), 1U);
  const std::string name = ir[0].stem().string();
  EXPECT_TRUE(name.starts_with("fusion.exponential.add.")) << name;
  EXPECT_NE(read(ir[0]).find("define void @" + name), std::string::npos);
  fs::path other = ir[0];
  EXPECT_NE(read(other.replace_extension(".s")).find(name + ".phase0:"), std::string::npos);
  // The fusion alone is a program.
  const Call alone = plimsoll("run " + other.replace_extension(".hlo").string() + " --json");
  EXPECT_EQ(alone.exit_code, 0) << alone.error;
  EXPECT_EQ(alone.json()["outputs"][0]["sha256"], call.json()["outputs"][0]["sha256"]);
}

TEST(Dump, ShowsAFusionThatSharesItsFunctionAsItIs) {
  const Folder folder;
  const std::string file =
      folder.write("p.hlo", "x = f32[50] parameter(0)\nROOT y = f32[50] exponential(x)\n");
  const Call call = plimsoll("run " + file + " --json", "PLIMSOLL_DUMP=hlo@" + folder.path("d"));
  const auto written = files_in(folder.path("d"), ".hlo");
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(plimsoll("run " + written[0].string() + " --json").json()["outputs"][0]["sha256"],
            call.json()["outputs"][0]["sha256"]);
}

TEST(Dump, WritesOnlyWhatIsAskedFor) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kProgram);
  EXPECT_EQ(plimsoll("run " + file, "PLIMSOLL_DUMP=hlo@" + folder.path("d")).exit_code, 0);
  EXPECT_EQ(files_in(folder.path("d"), ".hlo").size(), 1U);
  EXPECT_TRUE(files_in(folder.path("d"), ".ll").empty());
  EXPECT_TRUE(files_in(folder.path("d"), ".s").empty());
}

TEST(Dump, SaysWhatABadSettingLacks) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kProgram);
  const auto refused = [&](const std::string& value, const std::string& says) {
    const Call call = plimsoll("run " + file, "PLIMSOLL_DUMP=" + value);
    EXPECT_EQ(call.exit_code, 2) << value;
    EXPECT_NE(call.error.find("PLIMSOLL_DUMP"), std::string::npos) << call.error;
    EXPECT_NE(call.error.find(says), std::string::npos) << call.error;
  };
  refused("ir@dumps", "'ir' is not one of llvm|asm|hlo");
  refused("llvm", "names no folder (llvm@FOLDER)");
  refused("llvm,asm@", "names no folder (llvm,asm@FOLDER)");
  refused("@dumps", "'' is not one of llvm|asm|hlo");
}

TEST(Symbols, APerfMapNamesEveryKernelAndItsPlace) {
  const Folder folder;
  const std::string file = folder.write("p.hlo", kProgram);
  const std::string pid = folder.path("pid");
  // The shell says its number, then becomes the command.
  const Call call =
      plimsoll("run " + file + "'", "sh -c 'echo $$ > " + pid + "; PLIMSOLL_JIT_SYMBOLS=perf exec");
  ASSERT_EQ(call.exit_code, 0) << call.error;
  const std::string map = "/tmp/perf-" + std::to_string(std::stol(read(pid))) + ".map";
  const std::string lines = read(map);
  fs::remove(map);
  const auto at = lines.find("fusion.exponential.add.");
  ASSERT_NE(at, std::string::npos) << lines;
  const auto begin = lines.rfind('\n', at) + 1;  // npos + 1 is 0
  char* end = nullptr;
  EXPECT_GT(std::strtoull(lines.c_str() + begin, &end, 16), 4096U);
  EXPECT_GT(std::strtoull(end, &end, 16), 16U);
  EXPECT_EQ(end + 1, lines.c_str() + at);
}

TEST(Symbols, ADebuggerNamesTheKernelInABacktrace) {
  if (std::system("gdb --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "gdb is not installed";
  const Folder folder;
  const std::string file = folder.write("p.hlo", kProgram);
  const Call dump = plimsoll("run " + file, "PLIMSOLL_DUMP=hlo@" + folder.path("d"));
  ASSERT_EQ(dump.exit_code, 0) << dump.error;
  const auto named = files_in(folder.path("d"), ".hlo");
  ASSERT_EQ(named.size(), 1U);
  const std::string function = named[0].stem().string() + ".phase0";
  const std::string script = folder.write("gdb",
                                          "set breakpoint pending on\nset confirm off\n"
                                          "break '" +
                                              function + "'\nrun\nbacktrace\n");
  const Call call = plimsoll("run " + file,
                             "PLIMSOLL_JIT_SYMBOLS=gdb PLIMSOLL_NUM_THREADS=1 "
                             "DEBUGINFOD_URLS= gdb -nx -batch -x " +
                                 script + " --args");
  if (call.out.find("ptrace") != std::string::npos ||
      call.error.find("ptrace") != std::string::npos) {
    GTEST_SKIP() << "this process may not be traced";
  }
  const auto frame = call.out.find("#0 ");
  ASSERT_NE(frame, std::string::npos) << call.out << call.error;
  const std::string backtrace = call.out.substr(frame);
  EXPECT_NE(backtrace.find(" in " + function), std::string::npos) << call.out;
  EXPECT_NE(backtrace.find("plimsoll::jit::CompiledKernel::launch"), std::string::npos) << call.out;
  EXPECT_NE(backtrace.find("main"), std::string::npos) << call.out;
}

}  // namespace
}  // namespace plimsoll::tools
