// SPDX-License-Identifier: Apache-2.0
// gpu_ptx [--only PROGRAM] FOLDER CAPABILITY...: writes the PTX of the test suites' kernels for
// every compute capability into FOLDER, as PROGRAM__KERNEL.sm_CAPABILITY.ptx: of every op case
// alone, of codecs, of what kernel_bandwidth measures, and of the programs of tests/golden/kernels/
// after all passes. scripts/ptxas_table.sh assembles them. --only: programs whose names begin so.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "benchmarks/kernel_bandwidth/cases.h"
#include "jit/gpu/gpu_kernel.h"
#include "runtime/base/file.h"
#include "runtime/ir/fusions/attention.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"
#include "tests/cases/fused_entry.h"
#include "tests/cases/op_cases.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

class Writer {
 public:
  Writer(std::string only, fs::path folder,
         std::map<int, std::unique_ptr<jit::GpuCompiler>> compilers)
      : only_(std::move(only)), folder_(std::move(folder)), compilers_(std::move(compilers)) {}

  bool write(const ir::Codec& codec, const ir::Shape& shape) {
    if (!std::string_view("codecs").starts_with(only_)) return true;
    for (const auto& [capability, compiler] : compilers_) {
      const auto made = compiler->codec(codec, shape);
      if (!made.ok()) {
        fmt::print(stderr, "{}\n", made.status().to_string());
        return false;
      }
      for (const auto& kernel : {made->encode, made->decode}) {
        if (!write(*kernel, "codecs", capability)) return false;
      }
    }
    return true;
  }

  // False, with a message, where a kernel that there is cannot be made.
  bool write(const ir::Instruction& instruction, const std::string& program) {
    if (!program.starts_with(only_)) return true;
    for (const auto& [capability, compiler] : compilers_) {
      const auto kernel = compiler->compile(instruction);
      if (kernel.status().code() == StatusCode::unimplemented) return true;
      if (!kernel.ok()) {
        fmt::print(stderr, "{}: {}\n", program, kernel.status().to_string());
        return false;
      }
      if (!write(**kernel, program, capability)) return false;
    }
    return true;
  }

 private:
  bool write(const jit::GpuKernel& kernel, const std::string& program, int capability) {
    if (kernel.launches.empty()) return true;
    std::string name = fmt::format("{}__{}", program, kernel.name);
    std::replace(name.begin(), name.end(), '/', '_');
    const int again = ++times_[fmt::format("{} {}", name, capability)];
    if (again > 1) name += fmt::format("_{}", again);
    std::ofstream file(folder_ / fmt::format("{}.sm_{}.ptx", name, capability));
    file << kernel.ptx;
    if (file.flush()) return true;
    fmt::print(stderr, "cannot write {}\n", name);
    return false;
  }

  const std::string only_;
  const fs::path folder_;
  const std::map<int, std::unique_ptr<jit::GpuCompiler>> compilers_;
  std::map<std::string, int> times_;
};

bool write_programs(Writer& writer) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(PLIMSOLL_SOURCE_DIR "/tests/golden/kernels")) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files) {
    const auto text = read_file(path);
    auto module = ir::parse_module(text.ok() ? *text : "", path.string());
    if (!module.ok() || !passes::optimize(**module, {.launches_cost = true}).ok()) {
      fmt::print(stderr, "{}: no program\n", path.string());
      return false;
    }
    for (const auto& computation : (*module)->computations()) {
      for (const auto& instruction : computation->instructions()) {
        const ir::Opcode opcode = instruction->opcode();
        const bool is_kernel = computation.get() == (*module)->entry() ||
                               opcode == ir::Opcode::fusion || opcode == ir::Opcode::reduce;
        if (!is_kernel || opcode == ir::Opcode::constant) continue;
        if (!writer.write(*instruction, path.stem().string())) return false;
      }
    }
  }
  return true;
}

// Loops that do little beside reading and writing, without guards: a thread's instructions are the
// kernel's, to be compared with the copy's byte by byte.
bool write_bandwidth_kernels(Writer& writer) {
  const std::string fused =
      "copy { p = f32[16777216] parameter(0)\n ROOT r = f32[16777216] copy(p) }\n"
      "add { p = f32[16777216] parameter(0)\n q = f32[16777216] parameter(1)\n ROOT r = "
      "f32[16777216] add(p, q) }\n"
      "halves { p = bf16[16777216] parameter(0)\n q = bf16[16777216] parameter(1)\n ROOT r = "
      "bf16[16777216] multiply(p, q) }\n"
      "bias { p = f32[4096,4096] parameter(0)\n b = f32[4096] parameter(1)\n z = f32[] "
      "constant(0)\n s = f32[4096,4096] broadcast(b), dimensions={1}\n a = f32[4096,4096] add(p, "
      "s)\n o = f32[4096,4096] broadcast(z), dimensions={}\n ROOT r = f32[4096,4096] maximum(a, o) "
      "}\n"
      "momentum { p = f32[16777216] parameter(0)\n g = f32[16777216] parameter(1)\n m = "
      "f32[16777216] parameter(2)\n f = f32[] constant(0.9)\n l = f32[] constant(0.01)\n fs = "
      "f32[16777216] broadcast(f), dimensions={}\n ls = f32[16777216] broadcast(l), "
      "dimensions={}\n d = f32[16777216] multiply(m, fs)\n n = f32[16777216] add(d, g)\n s = "
      "f32[16777216] multiply(n, ls)\n q = f32[16777216] subtract(p, s)\n ROOT t = "
      "(f32[16777216], f32[16777216]) tuple(q, n) }\n"
      "ENTRY e { ROOT z = f32[] constant(0) }";
  const auto module = ir::parse_module(fused);
  if (!module.ok()) {
    fmt::print(stderr, "bandwidth kernels: {}\n", module.status().to_string());
    return false;
  }
  std::vector<ir::Computation*> bodies;
  for (const auto& body : (*module)->computations()) {
    if (body.get() != (*module)->entry()) bodies.push_back(body.get());
  }
  for (ir::Computation* body : bodies) {
    ir::Computation* entry = (*module)->add_computation("of_" + body->name());
    std::vector<ir::Instruction*> operands;
    for (const ir::Instruction* parameter : body->parameters()) {
      operands.push_back(
          entry->add_parameter(static_cast<std::int64_t>(operands.size()), parameter->shape()));
    }
    ir::Instruction* fusion =
        entry->add(ir::Opcode::fusion, body->root()->shape(), std::move(operands));
    fusion->set_called_computations({body});
    if (!writer.write(*fusion, "bandwidth_" + body->name())) return false;
  }
  return true;
}

// What kernel_bandwidth measures, of arrays of 64 MiB.
bool write_bandwidth_cases(Writer& writer) {
  for (const benchmarks::BandwidthCase& c : benchmarks::bandwidth_cases()) {
    for (const char* const dtype : {"f32", "bf16"}) {
      if (std::string_view(c.dtypes).find(dtype) == std::string_view::npos) continue;
      const auto prepared = benchmarks::prepare(c, dtype, std::int64_t{64} << 20);
      if (!prepared.ok()) {
        fmt::print(stderr, "{}: {}\n", c.name, prepared.status().to_string());
        return false;
      }
      if (!writer.write(*prepared->fusion, fmt::format("moves_{}_{}", c.name, dtype))) return false;
    }
  }
  return true;
}

// The encoders and decoders of the samples of all codecs.
bool write_codecs(Writer& writer) {
  for (const ir::CodecInfo& row : ir::all_codecs()) {
    const ir::Shape shape(row.sample.dtype, {1 << 20});
    if (!writer.write(row.sample.codec, shape)) return false;
  }
  return true;
}

// Causal attention, forward and backward, of heads of 64 columns and of as many as there may be.
bool write_attention(Writer& writer) {
  for (const ir::DType dtype : {ir::DType::f32, ir::DType::bf16}) {
    for (const auto& [backward, depth] :
         {std::pair{false, 64}, {false, 256}, {true, 64}, {true, 128}}) {
      ir::AttentionForm form;
      form.backward = backward;
      form.query = form.key = form.value = form.output = {0, 1, 2};
      if (backward) {
        form.output_gradient = form.query_gradient = form.key_gradient = form.value_gradient =
            form.query;
      }
      form.scale = form.gradient_scale = 0.125f;
      if (!backward) form.gradient_scale = 1;
      form.causal = 0;
      form.fill = -1e9f;
      form.statistics = !backward;
      form.result_dtype = dtype;
      std::vector<ir::Shape> shapes(backward ? 5 : 3, ir::Shape(dtype, {8, 512, depth}));
      for (int i = 0; backward && i < 2; ++i) shapes.emplace_back(ir::DType::f32, ir::Dims{8, 512});
      ir::Module module("attention");
      const auto body = ir::add_attention_body(module, form, shapes);
      if (!body.ok()) {
        fmt::print(stderr, "attention: {}\n", body.status().to_string());
        return false;
      }
      ir::Computation* entry = module.add_computation("entry");
      std::vector<ir::Instruction*> operands;
      for (const ir::Shape& shape : shapes) {
        operands.push_back(entry->add_parameter(static_cast<std::int64_t>(operands.size()), shape));
      }
      ir::Instruction* fusion =
          entry->add(ir::Opcode::fusion, (*body)->root()->shape(), std::move(operands), "a",
                     ir::attention_attributes(form));
      fusion->set_called_computations({*body});
      if (!writer.write(*fusion, "attention")) return false;
    }
  }
  return true;
}

// Products and convolutions of sizes that fill a GPU: with rows that are read in pieces of 16
// bytes, with rows that are not, and with vectors.
bool write_products(Writer& writer) {
  const auto dot = [](const std::string& dtype, std::int64_t m, std::int64_t k, std::int64_t n,
                      bool turned) {
    return fmt::format(
        "ENTRY e {{ a = {0}[{1},{2}] parameter(0)\n b = {0}[{3}] parameter(1)\n ROOT r = "
        "{0}[{1},{4}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{5}}} }}",
        dtype, m, k, turned ? fmt::format("{},{}", n, k) : fmt::format("{},{}", k, n), n,
        turned ? 1 : 0);
  };
  const auto convolution = [](const std::string& dtype) {
    return fmt::format(
        "ENTRY e {{ a = {0}[32,56,56,256] parameter(0)\n b = {0}[3,3,256,256] parameter(1)\n ROOT "
        "r = {0}[32,56,56,256] convolution(a, b), window={{size=3x3 pad=1_1x1_1}}, "
        "dim_labels=b01f_01io->b01f }}",
        dtype);
  };
  std::vector<std::pair<std::string, std::string>> all = {
      {"f64", dot("f64", 2048, 2048, 2048, false)}};
  for (const std::string dtype : {"f32", "bf16"}) {
    all.insert(all.end(), {{dtype, dot(dtype, 4096, 4096, 4096, false)},
                           {dtype + "_turned", dot(dtype, 4096, 4096, 4096, true)},
                           {dtype + "_odd", dot(dtype, 4095, 4097, 4099, false)},
                           {dtype + "_small", dot(dtype, 32, 512, 512, false)},
                           {dtype + "_convolution", convolution(dtype)},
                           {dtype + "_by_vector", dot(dtype, 8192, 8192, 1, false)},
                           {dtype + "_of_vector", dot(dtype, 1, 8192, 8192, false)}});
  }
  for (const auto& [name, text] : all) {
    const auto module = ir::parse_module(text);
    if (!module.ok()) {
      fmt::print(stderr, "products: {}\n", module.status().to_string());
      return false;
    }
    if (!writer.write(*(*module)->entry()->root(), "product_" + name)) return false;
  }
  return true;
}

bool write_op_cases(Writer& writer) {
  for (const cases::OpCase& op : cases::op_cases()) {
    const auto module = ir::parse_module(op.hlo);
    if (!module.ok()) return false;
    const auto fusion = cases::fused_entry(**module);
    if (fusion != nullptr && !writer.write(*fusion->entry()->root(), "op_" + op.name)) return false;
    // What no fusion takes.
    for (const auto& instruction : (*module)->entry()->instructions()) {
      const auto op_class = ir::op_info(instruction->opcode()).op_class;
      const bool fuses = op_class <= ir::OpClass::ternary || op_class == ir::OpClass::movement ||
                         instruction->opcode() == ir::Opcode::constant;
      if (!fuses && !writer.write(*instruction, "op_" + op.name)) return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  std::string only;
  if (argc > 2 && std::string_view(argv[1]) == "--only") {
    only = argv[2];
    argc -= 2;
    argv += 2;
  }
  if (argc < 3) {
    std::fprintf(stderr, "usage: gpu_ptx [--only PROGRAM] FOLDER CAPABILITY...\n");
    return 2;
  }
  std::map<int, std::unique_ptr<plimsoll::jit::GpuCompiler>> compilers;
  for (int i = 2; i < argc; ++i) {
    const int capability = std::atoi(argv[i]);
    auto compiler = plimsoll::jit::GpuCompiler::create({capability});
    if (!compiler.ok()) {
      fmt::print(stderr, "{}\n", compiler.status().to_string());
      return 1;
    }
    compilers.emplace(capability, *std::move(compiler));
  }
  plimsoll::Writer writer(std::move(only), argv[1], std::move(compilers));
  const bool ok = plimsoll::write_bandwidth_kernels(writer) &&
                  plimsoll::write_bandwidth_cases(writer) && plimsoll::write_programs(writer) &&
                  plimsoll::write_codecs(writer) && plimsoll::write_attention(writer) &&
                  plimsoll::write_products(writer) && plimsoll::write_op_cases(writer);
  return ok ? 0 : 1;
}
