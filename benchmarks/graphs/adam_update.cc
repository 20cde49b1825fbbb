// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/graphs/adam_update.h"

namespace plimsoll::graphs {

std::string adam_update(const std::vector<std::string>& dims) {
  std::string header, lines, shapes, names;
  const std::string step = std::to_string(4 * dims.size());
  lines = "l = f32[] parameter(" + step +
          ")\nb1 = f32[] constant(0.9)\nc1 = f32[] constant(0.1)\n" +
          "b2 = f32[] constant(0.999)\nc2 = f32[] constant(0.001)\ne = f32[] constant(1e-8)\n";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::string n = std::to_string(i), s = "f32[" + dims[i] + "]";
    const auto line = [&](const std::string& name, const std::string& rest) {
      lines += name + n + " = " + s + " " + rest + "\n";
    };
    const auto spread = [&](const std::string& name, const std::string& scalar) {
      line(name, "broadcast(" + scalar + "), dimensions={}");
    };
    const auto two = [&](const std::string& name, const char* op, const std::string& x,
                         const std::string& y) {
      line(name, std::string(op) + "(" + x + n + ", " + y + n + ")");
    };
    const char* const inputs[] = {"p", "m", "v", "g"};
    for (std::size_t k = 0; k < 4; ++k) {
      line(inputs[k], "parameter(" + std::to_string(4 * i + k) + ")");
    }
    spread("bb1_", "b1");
    spread("cc1_", "c1");
    spread("bb2_", "b2");
    spread("cc2_", "c2");
    spread("ee_", "e");
    spread("ll_", "l");
    two("m1_", "multiply", "m", "bb1_");
    two("m2_", "multiply", "g", "cc1_");
    two("mm_", "add", "m1_", "m2_");
    two("gg_", "multiply", "g", "g");
    two("v1_", "multiply", "v", "bb2_");
    two("v2_", "multiply", "gg_", "cc2_");
    two("vv_", "add", "v1_", "v2_");
    line("r_", "sqrt(vv_" + n + ")");
    two("d_", "add", "r_", "ee_");
    two("q_", "divide", "mm_", "d_");
    two("u_", "multiply", "q_", "ll_");
    two("pp_", "subtract", "p", "u_");
    shapes += (i > 0 ? ", " : "") + s + ", " + s + ", " + s;
    names += (i > 0 ? ", pp_" : "pp_") + n + ", mm_" + n + ", vv_" + n;
    for (std::size_t k = 0; k < 3; ++k) {
      header += (header.empty() ? "{" : ", {") + std::to_string(3 * i + k) + "}: (" +
                std::to_string(4 * i + k) + ", {})";
    }
  }
  return "HloModule step, input_output_alias={" + header + "}\nENTRY e {\n" + lines + "ROOT r = (" +
         shapes + ") tuple(" + names + ")\n}\n";
}

}  // namespace plimsoll::graphs
