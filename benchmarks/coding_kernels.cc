// SPDX-License-Identifier: Apache-2.0
// coding_kernels [MiB]: what it takes to encode or decode an f32 value of that size inside the
// kernel that makes or reads it, and by a step of its own before or after that kernel, in turns.
// Prints one JSON object: seconds of the kernel alone, with the step, and with the coding inside
// (medians), and the second over the third. Other bytes make the exit code 1.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "jit/jit.h"
#include "kernels/codec.h"
#include "runtime/base/alignment.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/ir/text/text.h"
#include "runtime/program/coding_kernels.h"

namespace {

using namespace plimsoll;
using Json = nlohmann::ordered_json;
using ir::Codec;
using ir::CodecKind;

constexpr int kTurns = 15;

struct Case {
  const char* name;
  std::string body;  // of the fusion; [N] stands for the dims
  Codec codec;
  bool encodes;  // its result, else it decodes operand 0
};

// Zeroed; freed at the end.
struct Memory {
  explicit Memory(std::int64_t bytes)
      : data(static_cast<std::size_t>(aligned_bytes(bytes)) + device::kBufferAlignment) {}
  std::byte* at() {
    const auto address = reinterpret_cast<std::uintptr_t>(data.data());
    return data.data() + (device::kBufferAlignment - address % device::kBufferAlignment) %
                             device::kBufferAlignment;
  }
  std::vector<std::byte> data;
};

std::string module_text(const Case& of, std::int64_t elements) {
  std::string text = "HloModule m\nf {\n" + of.body +
                     "}\nENTRY e { x = T[N] parameter(0)\n  y = f32[N] parameter(1)\n"
                     "  ROOT k = f32[N] fusion(x, y), kind=kLoop, calls=f }\n";
  const auto replace = [&](const std::string& what, const std::string& by) {
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what)) {
      text.replace(at, what.size(), by);
    }
  };
  replace("T[N]", of.codec.kind == CodecKind::bit_mask ? "pred[N]" : "f32[N]");
  replace("[N]", "[" + std::to_string(elements) + "]");
  return text;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Result<Json> measure(const Case& of, std::int64_t elements, jit::Compiler& compiler,
                     device::Stream& stream) {
  PLIMSOLL_ASSIGN_OR_RETURN(const auto module, ir::parse_module(module_text(of, elements)));
  const ir::Instruction& instruction = *module->entry()->root();
  const ir::Shape& coded = of.encodes ? instruction.shape() : instruction.operand(0)->shape();
  ir::Coding coding;
  if (of.encodes) {
    coding.outputs = {{0, of.codec}};
  } else {
    coding.inputs = {{0, of.codec}};
  }
  const auto inside_module = executor::with_coding(instruction, coding, {false});
  PLIMSOLL_ASSIGN_OR_RETURN(const auto kernel, compiler.compile(instruction));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto inside, compiler.compile(*inside_module->entry()->root()));
  PLIMSOLL_ASSIGN_OR_RETURN(const kernels::CodecKernels codec,
                            kernels::make_codec(of.codec, coded));

  const std::int64_t code_bytes = ir::encoded_bytes(of.codec, coded);
  Memory x(elements * 4), y(elements * 4), code(code_bytes), code_inside(code_bytes);
  Memory result(elements * 4), result_inside(elements * 4);
  for (std::int64_t i = 0; i < elements; ++i) {
    const float number = static_cast<float>((i * 7 / 3) % 101 - 50) / 8;  // a bf16
    reinterpret_cast<float*>(y.at())[i] = number;
    if (coded.dtype() == ir::DType::pred) {
      x.at()[i] = std::byte{number > 0};
    } else {
      reinterpret_cast<float*>(x.at())[i] = number;
    }
  }
  Status status;
  const auto launch = [&](const device::Kernel& what, std::vector<const void*> from,
                          std::vector<void*> to) {
    const Status launched = what.launch(stream, {from, to, nullptr});
    if (!launched.ok()) status = launched;
  };
  if (!of.encodes) launch(*codec.encode, {x.at()}, {code.at()});
  std::vector<double> alone, apart, fused;
  const auto time = [&](std::vector<double>& seconds, const auto& body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    seconds.push_back(elapsed.count());
  };
  for (int turn = 0; turn < kTurns; ++turn) {
    time(alone, [&] { launch(*kernel, {x.at(), y.at()}, {result.at()}); });
    time(apart, [&] {
      if (!of.encodes) launch(*codec.decode, {code.at()}, {x.at()});
      launch(*kernel, {x.at(), y.at()}, {result.at()});
      if (of.encodes) launch(*codec.encode, {result.at()}, {code.at()});
    });
    time(fused, [&] {
      if (of.encodes) {
        launch(*inside, {x.at(), y.at()}, {result_inside.at(), code_inside.at()});
      } else {
        launch(*inside, {code.at(), y.at()}, {result_inside.at()});
      }
    });
  }
  PLIMSOLL_RETURN_IF_ERROR(status);
  const bool same =
      std::equal(result.at(), result.at() + elements * 4, result_inside.at()) &&
      (!of.encodes || std::equal(code.at(), code.at() + code_bytes, code_inside.at()));
  if (!same) return data_loss(std::string(of.name) + ": other bytes inside the kernel");
  return Json{{"kernel", of.name},
              {"codec", ir::to_string(of.codec)},
              {"codes", of.encodes ? "its result" : "an operand"},
              {"alone_seconds", median(alone)},
              {"apart_seconds", median(apart)},
              {"inside_seconds", median(fused)},
              {"speedup", median(apart) / median(fused)}};
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t megabytes = 16;
  plimsoll::benchmarks::CommandLine line("Coding inside kernels and apart from them.",
                                         "coding_kernels");
  line.add("MEGABYTES", megabytes, "Of an f32 value", {.least = 1, .most = 4096});
  if (const auto status = line.read(argc, argv)) return *status;
  const std::string zero = "  n = f32[] constant(0)\n  z = f32[N] broadcast(n), dimensions={}\n";
  const std::string operands = "  x = T[N] parameter(0)\n  y = f32[N] parameter(1)\n";
  const Codec positive{CodecKind::compare_mask, ir::DType::pred, ir::ComparisonDirection::gt, 0};
  const Codec bf16{CodecKind::narrow, ir::DType::bf16};
  const std::vector<Case> cases{
      {"relu of a sum",
       operands + zero + "  s = f32[N] add(x, y)\n  ROOT r = f32[N] maximum(s, z)\n", positive,
       true},
      {"a larger one of two", operands + "  ROOT r = f32[N] maximum(x, y)\n", bf16, true},
      {"gradient of relu",
       operands + zero +
           "  p = pred[N] compare(x, z), direction=GT\n  ROOT r = f32[N] select(p, y, z)\n",
       positive, false},
      {"selection by a mask",
       operands + zero + "  ROOT r = f32[N] select(x, y, z)\n",
       {CodecKind::bit_mask},
       false},
      {"product", operands + "  ROOT r = f32[N] multiply(x, y)\n", bf16, false},
      {"product", operands + "  ROOT r = f32[N] multiply(x, y)\n", {CodecKind::float16}, false}};
  const auto compiler = jit::Compiler::create();
  const auto stream = device::cpu_device()->create_stream();
  if (!compiler.ok() || !stream.ok()) {
    std::cerr << (compiler.ok() ? stream.status() : compiler.status()).to_string() << "\n";
    return 1;
  }
  Json rows = Json::array();
  for (const Case& of : cases) {
    auto row = measure(of, megabytes * (1 << 18), **compiler, **stream);
    if (!row.ok()) {
      std::cerr << of.name << ": " << row.status().to_string() << "\n";
      return 1;
    }
    rows.push_back(std::move(*row));
  }
  std::cout << Json{{"bytes", megabytes << 20}, {"kernels", rows}}.dump(2) << "\n";
  return 0;
}
