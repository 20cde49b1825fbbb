// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace plimsoll::tools {

// What one call of the plimsoll command left behind.
struct Call {
  int exit_code = -1;
  std::string out, error;
  nlohmann::json json() const;  // of `out`; discarded when it is none
};

// A folder of its own that goes away with the object.
class Folder {
 public:
  Folder();
  ~Folder();
  std::string path(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Writes a file there and returns its path.
  std::string write(std::string_view name, std::string_view text) const;

 private:
  std::string path_;
};

// Runs `plimsoll ARGUMENTS` through the shell, with `environment` (NAME=value ...) before it.
Call plimsoll(const std::string& arguments, const std::string& environment = "");

// x + y of f32[4].
inline constexpr std::string_view kAdd =
    "HloModule add\nENTRY main {\n  x = f32[4] parameter(0)\n  y = f32[4] parameter(1)\n"
    "  ROOT z = f32[4] add(x, y)\n}\n";

// Layers of dot and tanh and their gradients: a peak well above the floor.
std::string chain_program();

}  // namespace plimsoll::tools
