// SPDX-License-Identifier: Apache-2.0
// Max and average pooling of f32[128,28,28,32] (and the same in channels-first order), and max
// pooling's gradient: our reduce-window and select-and-scatter kernels on the shared pool against
// oneDNN's pooling on as many OpenMP threads, in one run. Prints one JSON object: milliseconds and
// ours over oneDNN's.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "kernels/kernels.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/text/text.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kBatch = 128, kSize = 28, kChannels = 32;
constexpr int kRepeats = 15;

struct Case {
  const char* name;
  bool average;
  std::int64_t window;
  bool channels_last;
};

constexpr Case kCases[] = {
    {"max_2x2_nhwc", false, 2, true},    {"max_3x3_nhwc", false, 3, true},
    {"average_2x2_nhwc", true, 2, true}, {"max_2x2_nchw", false, 2, false},
    {"max_3x3_nchw", false, 3, false},   {"average_2x2_nchw", true, 2, false}};

std::int64_t out_size(const Case& c) { return (kSize - c.window) / 2 + 1; }

std::string dims(const Case& c, std::int64_t size) {
  const auto text = [](std::int64_t value) { return std::to_string(value); };
  return c.channels_last ? "f32[128," + text(size) + "," + text(size) + ",32]"
                         : "f32[128,32," + text(size) + "," + text(size) + "]";
}

std::string window_of(const Case& c) {
  const std::string w = std::to_string(c.window);
  const std::string spatial = w + "x" + w;
  return "window={size=" + (c.channels_last ? "1x" + spatial + "x1" : "1x1x" + spatial) +
         " stride=" + (c.channels_last ? "1x2x2x1" : "1x1x2x2") + "}";
}

std::string hlo_of(const Case& c) {
  return "HloModule m\nfold {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = "
         "f32[] " +
         std::string(c.average ? "add" : "maximum") +
         "(a, b)\n}\nENTRY e {\n  x = " + dims(c, kSize) +
         " parameter(0)\n  i = f32[] parameter(1)\n  ROOT r = " + dims(c, out_size(c)) +
         " reduce-window(x, i), " + window_of(c) + ", to_apply=fold\n}\n";
}

std::string gradient_hlo_of(const Case& c) {
  return "HloModule m\nge {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = pred[] "
         "compare(a, b), direction=GE\n}\nadd {\n  a = f32[] parameter(0)\n  b = f32[] "
         "parameter(1)\n  ROOT c = f32[] add(a, b)\n}\nENTRY e {\n  x = " +
         dims(c, kSize) + " parameter(0)\n  g = " + dims(c, out_size(c)) +
         " parameter(1)\n  i = f32[] parameter(2)\n  ROOT r = " + dims(c, kSize) +
         " select-and-scatter(x, g, i), " + window_of(c) + ", select=ge, scatter=add\n}\n";
}

double best_milliseconds(const std::function<void()>& body) {
  body();
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = Clock::now();
    body();
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return times.front();
}

// The sum of a window is what is timed for the average: the division is another, elementwise step.
int measure(const Case& c, nlohmann::json& report) {
  auto module = plimsoll::ir::parse_module(hlo_of(c));
  if (!module.ok()) {
    std::cerr << module.status().to_string() << '\n';
    return 1;
  }
  auto kernel = plimsoll::kernels::make_kernel(*(*module)->entry()->root());
  if (!kernel.ok()) {
    std::cerr << kernel.status().to_string() << '\n';
    return 1;
  }
  std::vector<float> in(static_cast<std::size_t>(kBatch * kSize * kSize * kChannels));
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i * 2654435761u % 1024);
  std::vector<float> out(static_cast<std::size_t>(kBatch * out_size(c) * out_size(c) * kChannels));
  std::vector<float> library_out(out.size());
  float init = c.average ? 0.0f : -std::numeric_limits<float>::infinity();

  const void* inputs[] = {in.data(), &init};
  void* outputs[] = {out.data()};
  auto stream = plimsoll::device::cpu_device()->create_stream();
  if (!stream.ok()) return 1;
  plimsoll::Status status;
  const double ours =
      best_milliseconds([&] { status = (*kernel)->launch(**stream, {inputs, outputs, nullptr}); });
  if (!status.ok()) return 1;

  using Desc = dnnl::memory::desc;
  const auto tag =
      c.channels_last ? dnnl::memory::format_tag::nhwc : dnnl::memory::format_tag::nchw;
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream library_stream(engine);
  const Desc source({kBatch, kChannels, kSize, kSize}, dnnl::memory::data_type::f32, tag);
  const Desc target({kBatch, kChannels, out_size(c), out_size(c)}, dnnl::memory::data_type::f32,
                    tag);
  const dnnl::pooling_forward::primitive_desc description(
      {dnnl::prop_kind::forward_inference,
       c.average ? dnnl::algorithm::pooling_avg_exclude_padding : dnnl::algorithm::pooling_max,
       source,
       target,
       {2, 2},
       {c.window, c.window},
       {0, 0},
       {0, 0}},
      engine);
  const dnnl::pooling_forward pooling(description);
  const double library = best_milliseconds([&] {
    pooling.execute(library_stream, {{DNNL_ARG_SRC, {source, engine, in.data()}},
                                     {DNNL_ARG_DST, {target, engine, library_out.data()}}});
    library_stream.wait();
  });
  const float scale = c.average ? 1.0f / static_cast<float>(c.window * c.window) : 1.0f;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] * scale != library_out[i]) {
      std::cerr << c.name << ": results differ at " << i << '\n';
      return 1;
    }
  }
  report[c.name] = {
      {"milliseconds", ours}, {"onednn_milliseconds", library}, {"ratio", ours / library}};
  return 0;
}

int measure_gradient(const Case& c, nlohmann::json& report) {
  auto module = plimsoll::ir::parse_module(gradient_hlo_of(c));
  if (!module.ok()) {
    std::cerr << module.status().to_string() << '\n';
    return 1;
  }
  auto kernel = plimsoll::kernels::make_kernel(*(*module)->entry()->root());
  auto stream = plimsoll::device::cpu_device()->create_stream();
  if (!kernel.ok() || !stream.ok()) return 1;
  std::vector<float> in(static_cast<std::size_t>(kBatch * kSize * kSize * kChannels));
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i * 2654435761u % 65536);
  std::vector<float> gradient(
      static_cast<std::size_t>(kBatch * out_size(c) * out_size(c) * kChannels));
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 512);
  std::vector<float> out(in.size()), library_out(in.size()), pooled(gradient.size());
  const float init = 0;
  const void* inputs[] = {in.data(), gradient.data(), &init};
  void* outputs[] = {out.data()};
  plimsoll::Status status;
  const double ours =
      best_milliseconds([&] { status = (*kernel)->launch(**stream, {inputs, outputs, nullptr}); });
  if (!status.ok()) return 1;

  using Desc = dnnl::memory::desc;
  const auto tag =
      c.channels_last ? dnnl::memory::format_tag::nhwc : dnnl::memory::format_tag::nchw;
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream library_stream(engine);
  const Desc source({kBatch, kChannels, kSize, kSize}, dnnl::memory::data_type::f32, tag);
  const Desc target({kBatch, kChannels, out_size(c), out_size(c)}, dnnl::memory::data_type::f32,
                    tag);
  const dnnl::memory::dims stride = {2, 2}, window = {c.window, c.window}, none = {0, 0};
  const auto algorithm = dnnl::algorithm::pooling_max;
  const dnnl::pooling_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, algorithm, source, target, stride, window, none, none},
      engine);
  const dnnl::pooling_backward::primitive_desc backward(
      {algorithm, source, target, stride, window, none, none}, engine, forward);
  dnnl::memory workspace(forward.workspace_desc(), engine);
  dnnl::pooling_forward(forward).execute(library_stream,
                                         {{DNNL_ARG_SRC, {source, engine, in.data()}},
                                          {DNNL_ARG_DST, {target, engine, pooled.data()}},
                                          {DNNL_ARG_WORKSPACE, workspace}});
  const dnnl::pooling_backward pooling(backward);
  const double library = best_milliseconds([&] {
    pooling.execute(library_stream, {{DNNL_ARG_DIFF_DST, {target, engine, gradient.data()}},
                                     {DNNL_ARG_DIFF_SRC, {source, engine, library_out.data()}},
                                     {DNNL_ARG_WORKSPACE, workspace}});
    library_stream.wait();
  });
  const std::string name = std::string(c.name) + "_gradient";
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] != library_out[i]) {
      std::cerr << name << ": results differ at " << i << '\n';
      return 1;
    }
  }
  report[name] = {
      {"milliseconds", ours}, {"onednn_milliseconds", library}, {"ratio", ours / library}};
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = plimsoll::benchmarks::read_no_arguments("pooling", argc, argv))
    return *status;
  omp_set_num_threads(plimsoll::device::thread_count());
  nlohmann::json report;
  for (const Case& c : kCases) {
    if (measure(c, report) != 0 || (!c.average && measure_gradient(c, report) != 0)) return 1;
  }
  std::cout << report.dump(2) << '\n';
  return 0;
}
