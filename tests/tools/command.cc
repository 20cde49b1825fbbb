// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/command.h"

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace plimsoll::tools {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

nlohmann::json Call::json() const { return nlohmann::json::parse(out, nullptr, false); }

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "plimsoll-tools-XXXXXX").string();
  path_ = mkdtemp(name.data()) != nullptr ? name : std::string(".");
}

Folder::~Folder() {
  std::error_code ignored;
  if (path_ != ".") std::filesystem::remove_all(path_, ignored);
}

std::string Folder::write(std::string_view name, std::string_view text) const {
  std::ofstream(path(name), std::ios::binary) << text;
  return path(name);
}

Call plimsoll(const std::string& arguments, const std::string& environment) {
  const Folder folder;
  const std::string out = folder.path("out"), error = folder.path("error");
  const std::string command =
      environment + " </dev/null '" PLIMSOLL_COMMAND "' " + arguments + " >" + out + " 2>" + error;
  Call call;
  const int status = std::system(command.c_str());
  call.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  call.out = read(out);
  call.error = read(error);
  return call;
}

std::string chain_program() {
  constexpr int kLayers = 8;
  std::string text = "HloModule chain\nENTRY main {\n  x0 = f32[64,64] parameter(0)\n";
  const auto add = [&](const std::string& name, const std::string& right) {
    text += "  " + name + " = f32[64,64] " + right + "\n";
  };
  for (int i = 0; i < kLayers; ++i) {
    add("w" + std::to_string(i), "parameter(" + std::to_string(i + 1) + ")");
  }
  for (int i = 0; i < kLayers; ++i) {
    const std::string n = std::to_string(i);
    add("d" + n, "dot(x" + n + ", w" + n + "), lhs_contracting_dims={1}, rhs_contracting_dims={0}");
    add("x" + std::to_string(i + 1), "tanh(d" + n + ")");
  }
  std::string gradient = "x" + std::to_string(kLayers);
  for (int i = kLayers - 1; i >= 0; --i) {
    const std::string n = std::to_string(i);
    add("e" + n, "multiply(" + gradient + ", x" + std::to_string(i + 1) + ")");
    add("g" + n, "dot(e" + n + ", w" + n + "), lhs_contracting_dims={1}, rhs_contracting_dims={1}");
    gradient = "g" + n;
  }
  return text + "  ROOT out = (f32[64,64]) tuple(" + gradient + ")\n}\n";
}

}  // namespace plimsoll::tools
