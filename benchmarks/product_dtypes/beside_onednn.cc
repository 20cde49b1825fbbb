// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/product_dtypes/beside_onednn.h"

#include <time.h>

#include <algorithm>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "kernels/cpu/contraction/openmp.h"
#include "kernels/kernels.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/literal.h"
#include "runtime/ir/text/text.h"

namespace plimsoll::benchmarks {
namespace {

struct Product {
  const char* name;
  std::int64_t m, n, k;
  bool lhs_turned = false, rhs_turned = false;  // lies by columns
};
constexpr Product kProducts[] = {
    {"square_1024", 1024, 1024, 1024},
    {"square_256", 256, 256, 256},
    {"gpt.up", 2048, 1024, 256},
    {"gpt.down", 2048, 256, 1024},
    {"gpt.up_by_inputs", 2048, 256, 1024, false, true},
    {"gpt.down_by_inputs", 2048, 1024, 256, false, true},
    {"gpt.up_by_weights", 256, 1024, 2048, true, false},
    {"gpt.down_by_weights", 1024, 256, 2048, true, false},
    {"gpt.logits", 2048, 4096, 256, false, true},
    {"skinny.up", 128, 3072, 768},
    {"skinny.down", 128, 768, 3072},
    {"rows_32", 32, 1024, 1024},
};

double now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Seconds {
  std::vector<double> passed, processor;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

template <typename F>
void measure(Seconds& seconds, F&& run) {
  const double passed = now(CLOCK_MONOTONIC), processor = now(CLOCK_PROCESS_CPUTIME_ID);
  run();
  seconds.processor.push_back(now(CLOCK_PROCESS_CPUTIME_ID) - processor);
  seconds.passed.push_back(now(CLOCK_MONOTONIC) - passed);
}

std::string shape(std::int64_t rows, std::int64_t columns, bool turned) {
  return "f32[" + std::to_string(turned ? columns : rows) + "," +
         std::to_string(turned ? rows : columns) + "]";
}

Result<nlohmann::ordered_json> compare(const Product& p, int threads, std::int64_t rounds) {
  const std::string text = "ENTRY e {\n a = " + shape(p.m, p.k, p.lhs_turned) +
                           " parameter(0)\n b = " + shape(p.k, p.n, p.rhs_turned) +
                           " parameter(1)\n ROOT c = " + shape(p.m, p.n, false) +
                           " dot(a, b), lhs_contracting_dims={" + (p.lhs_turned ? "0" : "1") +
                           "}, rhs_contracting_dims={" + (p.rhs_turned ? "1" : "0") + "}\n}\n";
  PLIMSOLL_ASSIGN_OR_RETURN(auto module, ir::parse_module(text));
  const ir::Instruction& dot = *module->entry()->root();
  PLIMSOLL_ASSIGN_OR_RETURN(auto kernel, kernels::make_kernel(dot));
  ir::Literal lhs(dot.operand(0)->shape()), rhs(dot.operand(1)->shape()), out(dot.shape());
  for (ir::Literal* operand : {&lhs, &rhs}) {
    float* const numbers = operand->mutable_data<float>();
    for (std::int64_t i = 0; i < operand->shape().element_count(); ++i) {
      numbers[i] = static_cast<float>(i * 37 % 101 - 50);
    }
  }
  std::vector<std::byte> memory(static_cast<std::size_t>(kernel->workspace_bytes()) + 64);
  std::byte* workspace = memory.data();
  workspace += 63 - (reinterpret_cast<std::uintptr_t>(workspace) + 63) % 64;
  PLIMSOLL_ASSIGN_OR_RETURN(auto stream, device::cpu_device()->create_stream());

  using Desc = dnnl::memory::desc;
  using Dims = dnnl::memory::dims;
  constexpr auto kF32 = dnnl::memory::data_type::f32;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream peer_stream(engine);
  const Desc a({p.m, p.k}, kF32, p.lhs_turned ? Dims{1, p.m} : Dims{p.k, 1});
  const Desc b({p.k, p.n}, kF32, p.rhs_turned ? Dims{1, p.k} : Dims{p.n, 1});
  const Desc c({p.m, p.n}, kF32, Dims{p.n, 1});
  omp_set_num_threads(threads);
  const dnnl::matmul peer({dnnl::matmul::desc(a, b, c), engine});
  std::vector<float> peer_out(static_cast<std::size_t>(p.m * p.n));
  const dnnl::memory peer_a(a, engine, lhs.mutable_data<float>());
  const dnnl::memory peer_b(b, engine, rhs.mutable_data<float>());
  const dnnl::memory peer_c(c, engine, peer_out.data());

  const double flops =
      2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  const void* inputs[] = {lhs.bytes().data(), rhs.bytes().data()};
  void* outputs[] = {out.mutable_bytes().data()};
  Seconds ours, theirs;
  Status status = ok_status();
  for (std::int64_t round = 0; round <= rounds && status.ok(); ++round) {
    if (round == 1) ours = theirs = {};  // the first one warms up
    measure(ours, [&] { status = kernel->launch(*stream, {inputs, outputs, workspace}); });
    measure(theirs, [&] {
      peer.execute(peer_stream,
                   {{DNNL_ARG_SRC, peer_a}, {DNNL_ARG_WEIGHTS, peer_b}, {DNNL_ARG_DST, peer_c}});
      peer_stream.wait();
    });
  }
  PLIMSOLL_RETURN_IF_ERROR(status);
  const double passed = median(ours.passed), processor = median(ours.processor);
  return nlohmann::ordered_json{{"product", p.name},
                                {"kernel", kernel->name()},
                                {"gigaflops_a_second", 1e-9 * flops / passed},
                                {"gigaflops_a_processor_second", 1e-9 * flops / processor},
                                {"workspace_kib", kernel->workspace_bytes() / 1024},
                                {"over_onednn", median(theirs.passed) / passed},
                                {"processor_over_onednn", median(theirs.processor) / processor}};
}

}  // namespace

Result<nlohmann::ordered_json> products_beside_onednn(std::int64_t rounds) {
  auto rows = nlohmann::ordered_json::array();
  for (const Product& product : kProducts) {
    PLIMSOLL_ASSIGN_OR_RETURN(auto row, compare(product, device::thread_count(), rounds));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace plimsoll::benchmarks
