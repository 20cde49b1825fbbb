// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions of every kind of dtype: their time over that of the same in f32,
// in turns in one run; and f32 products of networks' shapes beside oneDNN's. Prints one JSON
// object, per shape and dtype: the kernel, milliseconds (the least of some runs) and the ratio; and
// what product_dtypes/beside_onednn.h says.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "benchmarks/product_dtypes/beside_onednn.h"
#include "kernels/kernels.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/ir/literal.h"
#include "runtime/ir/text/text.h"

namespace {

using namespace plimsoll;
using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 15;

struct Case {
  const char* name;
  const char* text;  // $ stands for the operands' dtype, # for the result's
};
constexpr Case kCases[] = {
    {"square_1024",
     "a = $[1024,1024] parameter(0)\n b = $[1024,1024] parameter(1)\n ROOT r = #[1024,1024] dot(a, "
     "b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"square_256",
     "a = $[256,256] parameter(0)\n b = $[256,256] parameter(1)\n ROOT r = #[256,256] dot(a, b), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"transposed_768",
     "a = $[512,768] parameter(0)\n b = $[768,768] parameter(1)\n ROOT r = #[512,768] dot(a, b), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={1}"},
    {"rows_16",
     "a = $[16,1024] parameter(0)\n b = $[1024,1024] parameter(1)\n ROOT r = #[16,1024] dot(a, b), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"convolution_3x3",
     "a = $[16,28,28,64] parameter(0)\n b = $[3,3,64,64] parameter(1)\n ROOT r = #[16,28,28,64] "
     "convolution(a, b), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"},
};

struct Dtypes {
  const char *operands, *result;
};
constexpr Dtypes kDtypes[] = {{"f16", "f16"}, {"bf16", "bf16"}, {"f64", "f64"}, {"s8", "s32"},
                              {"u8", "s32"},  {"s16", "s32"},   {"s32", "s32"}, {"s64", "s64"}};

struct Product {
  std::shared_ptr<const device::Kernel> kernel;
  std::vector<ir::Literal> operands;
  ir::Literal result;
  std::vector<std::byte> workspace;
  double best = 1e9;

  Status run(device::Stream& stream) {
    const void* inputs[] = {operands[0].bytes().data(), operands[1].bytes().data()};
    void* outputs[] = {result.mutable_bytes().data()};
    auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
    auto* const aligned = workspace.data() + ((64 - address % 64) % 64);
    const auto start = Clock::now();
    PLIMSOLL_RETURN_IF_ERROR(kernel->launch(stream, {inputs, outputs, aligned}));
    PLIMSOLL_RETURN_IF_ERROR(stream.synchronize());
    const std::chrono::duration<double, std::milli> time = Clock::now() - start;
    best = std::min(best, time.count());
    return ok_status();
  }
};

std::string replaced(std::string text, char what, const std::string& with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
    text.replace(at, 1, with);
  }
  return text;
}

Result<Product> make(const Case& c, const Dtypes& dtypes) {
  const std::string body = replaced(replaced(c.text, '$', dtypes.operands), '#', dtypes.result);
  PLIMSOLL_ASSIGN_OR_RETURN(auto module, ir::parse_module("ENTRY e {\n " + body + " }", c.name));
  const ir::Computation& entry = *module->entry();
  Product made;
  PLIMSOLL_ASSIGN_OR_RETURN(made.kernel, kernels::make_kernel(*entry.root()));
  for (const ir::Instruction* parameter : entry.parameters()) {
    ir::Literal& operand = made.operands.emplace_back(parameter->shape());
    for (std::int64_t i = 0; i < operand.shape().element_count(); ++i) {
      operand.set(i, static_cast<double>(i * 37 % 101 % 64));
    }
  }
  made.result = ir::Literal(entry.root()->shape());
  made.workspace.resize(static_cast<std::size_t>(made.kernel->workspace_bytes()) + 64);
  return made;
}

Status measure(const Case& c, nlohmann::ordered_json& report) {
  PLIMSOLL_ASSIGN_OR_RETURN(auto stream, device::cpu_device()->create_stream());
  PLIMSOLL_ASSIGN_OR_RETURN(Product wide, make(c, {"f32", "f32"}));
  for (const Dtypes& dtypes : kDtypes) {
    // Convolutions of the others take seconds.
    const std::string_view operands = dtypes.operands;
    const bool is_short = operands == "f16" || operands == "bf16" || operands == "s8";
    if (std::string_view(c.name).starts_with("convolution") && !is_short) continue;
    PLIMSOLL_ASSIGN_OR_RETURN(Product narrow, make(c, dtypes));
    wide.best = narrow.best;
    for (int i = 0; i < kRepeats; ++i) {
      PLIMSOLL_RETURN_IF_ERROR(wide.run(*stream));
      PLIMSOLL_RETURN_IF_ERROR(narrow.run(*stream));
    }
    report[c.name][dtypes.operands] = {{"kernel", narrow.kernel->name()},
                                       {"milliseconds", narrow.best},
                                       {"f32_milliseconds", wide.best},
                                       {"ratio", narrow.best / wide.best}};
  }
  return ok_status();
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t rounds = 30;
  bool f32_only = false;
  benchmarks::CommandLine line("products of every kind of dtype", "product_dtypes");
  line.add("--rounds", rounds, "runs of each product beside oneDNN's", {.least = 1});
  line.add_flag("--f32", f32_only, "only f32 products, beside oneDNN's");
  if (const auto status = line.read(argc, argv)) return *status;
  nlohmann::ordered_json report;
  auto products = benchmarks::products_beside_onednn(rounds);
  if (!products.ok()) {
    std::cerr << products.status().to_string() << '\n';
    return 1;
  }
  report["beside_onednn"] = *std::move(products);
  for (const Case& c : kCases) {
    if (f32_only) break;
    if (const Status status = measure(c, report); !status.ok()) {
      std::cerr << status.to_string() << '\n';
      return 1;
    }
  }
  std::cout << report.dump(2) << '\n';
  return 0;
}
