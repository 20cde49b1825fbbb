// SPDX-License-Identifier: Apache-2.0
// The convolutions of a residual network's training step (forward, input gradient, filter
// gradient), each followed by an elementwise loop on the shared pool, three ways: oneDNN on one
// thread, oneDNN on its own OpenMP threads, and as the kernels do it, oneDNN single-threaded inside
// tasks of the pool. Prints one JSON object: milliseconds per step, GFLOP/s of the convolutions
// alone, and ratios.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "kernels/cpu/contraction/openmp.h"
#include "kernels/kernels.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/text/text.h"

namespace {

using plimsoll::device::Kernel;
using Clock = std::chrono::steady_clock;

struct Layer {
  std::int64_t batch, size, in, out, stride, repeats;
};

constexpr Layer kLayers[] = {{128, 28, 1, 16, 1, 1},  {128, 28, 16, 16, 1, 4},
                             {128, 28, 16, 32, 2, 1}, {128, 14, 32, 32, 1, 4},
                             {128, 14, 32, 64, 2, 1}, {128, 7, 64, 64, 1, 4}};

struct Buffer {
  explicit Buffer(std::int64_t bytes)
      : data(static_cast<float*>(
            std::aligned_alloc(64, static_cast<std::size_t>((bytes + 127) / 64 * 64)))) {
    std::fill_n(data, (bytes + 3) / 4, 0.5f);
  }
  ~Buffer() { std::free(data); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  float* data;
};

// One of the three convolutions of a layer, both ways.
struct Work {
  std::string name;
  double flops = 0;
  std::int64_t loop_count = 0;
  std::shared_ptr<Buffer> lhs, rhs, out, workspace;
  std::shared_ptr<const Kernel> kernel;
  // Made for the number of OpenMP threads that was set then.
  dnnl::primitive one_thread, threads;
  std::unordered_map<int, dnnl::memory> one_thread_arguments, threads_arguments;
};

dnnl::engine& engine() {
  static dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

void make_library(const Layer& layer, int which, int threads, dnnl::primitive& primitive,
                  std::unordered_map<int, dnnl::memory>& arguments) {
  omp_set_num_threads(threads);
  using Desc = dnnl::memory::desc;
  using Tag = dnnl::memory::format_tag;
  constexpr auto kF32 = dnnl::memory::data_type::f32;
  const std::int64_t out_size = layer.size / layer.stride;
  const std::int64_t high = (out_size - 1) * layer.stride + 3 - layer.size - 1;
  const Desc src({layer.batch, layer.in, layer.size, layer.size}, kF32, Tag::nhwc);
  const Desc dst({layer.batch, layer.out, out_size, out_size}, kF32, Tag::nhwc);
  const Desc weights({layer.out, layer.in, 3, 3}, kF32, Tag::any);
  const dnnl::memory::dims strides{layer.stride, layer.stride}, low{1, 1}, up{high, high};
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kDirect, src, weights, dst, strides, low, up}, engine());
  if (which == 0) {
    primitive = dnnl::convolution_forward(forward);
    arguments = {{DNNL_ARG_SRC, {src, engine()}},
                 {DNNL_ARG_WEIGHTS, {forward.weights_desc(), engine()}},
                 {DNNL_ARG_DST, {dst, engine()}}};
  } else if (which == 1) {
    const dnnl::convolution_backward_data::primitive_desc description(
        {kDirect, src, weights, dst, strides, low, up}, engine(), forward);
    primitive = dnnl::convolution_backward_data(description);
    arguments = {{DNNL_ARG_DIFF_SRC, {src, engine()}},
                 {DNNL_ARG_WEIGHTS, {description.weights_desc(), engine()}},
                 {DNNL_ARG_DIFF_DST, {dst, engine()}}};
  } else {
    const dnnl::convolution_backward_weights::primitive_desc description(
        {kDirect, src, weights, dst, strides, low, up}, engine(), forward);
    primitive = dnnl::convolution_backward_weights(description);
    arguments = {{DNNL_ARG_SRC, {src, engine()}},
                 {DNNL_ARG_DIFF_WEIGHTS, {description.diff_weights_desc(), engine()}},
                 {DNNL_ARG_DIFF_DST, {dst, engine()}}};
  }
  for (auto& [id, memory] : arguments) {
    std::fill_n(static_cast<float*>(memory.get_data_handle()),
                memory.get_desc().get_size() / sizeof(float), 0.5f);
  }
}

std::string dims(std::initializer_list<std::int64_t> values) {
  std::string text = "f32[";
  for (const std::int64_t value : values) text += std::to_string(value) + ",";
  text.back() = ']';
  return text;
}

std::string hlo_of(const Layer& layer, int which) {
  const std::int64_t out_size = layer.size / layer.stride;
  const std::int64_t high = (out_size - 1) * layer.stride + 3 - layer.size - 1;
  const std::string activations = dims({layer.batch, layer.size, layer.size, layer.in});
  const std::string gradient = dims({layer.batch, out_size, out_size, layer.out});
  const std::string filter = dims({3, 3, layer.in, layer.out});
  const std::string s = std::to_string(layer.stride), h = std::to_string(high);
  std::string lhs, rhs, out, attributes;
  if (which == 0) {
    lhs = activations, rhs = filter, out = gradient;
    attributes = "window={size=3x3 stride=" + s + "x" + s + " pad=1_" + h + "x1_" + h +
                 "}, dim_labels=b01f_01io->b01f";
  } else if (which == 1) {
    lhs = gradient, rhs = filter, out = activations;
    const std::string up = std::to_string(layer.size + 1 - (out_size - 1) * layer.stride - 1);
    attributes = "window={size=3x3 pad=1_" + up + "x1_" + up + " lhs_dilate=" + s + "x" + s +
                 " rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f";
  } else {
    lhs = activations, rhs = gradient, out = filter;
    const std::string size = std::to_string(out_size);
    attributes = "window={size=" + size + "x" + size + " pad=1_" + h + "x1_" + h +
                 " rhs_dilate=" + s + "x" + s + "}, dim_labels=f01b_i01o->01bf";
  }
  return "HloModule m\nENTRY e {\n  a = " + lhs + " parameter(0)\n  b = " + rhs +
         " parameter(1)\n  ROOT c = " + out + " convolution(a, b), " + attributes + "\n}\n";
}

Work make_work(const Layer& layer, int which, int threads) {
  Work work;
  work.name = std::string(which == 0   ? "forward"
                          : which == 1 ? "input_gradient"
                                       : "filter_gradient") +
              " " + std::to_string(layer.size) + "x" + std::to_string(layer.size) + " " +
              std::to_string(layer.in) + "->" + std::to_string(layer.out) + " stride " +
              std::to_string(layer.stride);
  const std::int64_t out_size = layer.size / layer.stride;
  work.flops = 2.0 * 9 * static_cast<double>(layer.batch * out_size * out_size) *
               static_cast<double>(layer.in * layer.out);
  auto module = plimsoll::ir::parse_module(hlo_of(layer, which));
  if (!module.ok()) {
    std::cerr << module.status().to_string() << "\n";
    std::exit(1);
  }
  const plimsoll::ir::Instruction& root = *(*module)->entry()->root();
  auto kernel = plimsoll::kernels::make_kernel(root);
  if (!kernel.ok()) {
    std::cerr << kernel.status().to_string() << "\n";
    std::exit(1);
  }
  work.kernel = *kernel;
  work.lhs = std::make_shared<Buffer>(root.operand(0)->shape().byte_size());
  work.rhs = std::make_shared<Buffer>(root.operand(1)->shape().byte_size());
  work.out = std::make_shared<Buffer>(root.shape().byte_size());
  work.workspace = std::make_shared<Buffer>(work.kernel->workspace_bytes());
  work.loop_count = layer.batch * out_size * out_size * layer.out;
  make_library(layer, which, 1, work.one_thread, work.one_thread_arguments);
  make_library(layer, which, threads, work.threads, work.threads_arguments);
  return work;
}

double seconds_of(const std::function<void()>& body) {
  body();
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const auto start = Clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = plimsoll::benchmarks::read_no_arguments("threads", argc, argv))
    return *status;
  const int threads = plimsoll::device::thread_count();
  std::vector<Work> works;
  std::vector<std::int64_t> repeats;
  for (const Layer& layer : kLayers) {
    // The gradient of the images is never asked for.
    for (int which = 0; which < 3; ++which) {
      if (layer.in == 1 && which == 1) continue;
      works.push_back(make_work(layer, which, threads));
      repeats.push_back(layer.repeats);
    }
  }
  Buffer activations(128 * 28 * 28 * 16 * 4);
  dnnl::stream stream(engine());
  auto device_stream = plimsoll::device::cpu_device()->create_stream();
  if (!device_stream.ok()) return 1;

  const auto elementwise = [&](std::int64_t count) {
    plimsoll::device::parallel_for(count, 16384, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        activations.data[i] = std::max(activations.data[i] * 0.999f, 0.1f);
    });
  };
  const auto one_thread = [&](Work& w) {
    omp_set_num_threads(1);
    w.one_thread.execute(stream, w.one_thread_arguments);
  };
  const auto library_threads = [&](Work& w) {
    omp_set_num_threads(threads);
    w.threads.execute(stream, w.threads_arguments);
  };
  const auto ours = [&](Work& w) {
    const void* inputs[] = {w.lhs->data, w.rhs->data};
    void* outputs[] = {w.out->data};
    const plimsoll::Status status =
        w.kernel->launch(**device_stream, {inputs, outputs, w.workspace->data});
    if (!status.ok()) {
      std::cerr << status.to_string() << "\n";
      std::exit(1);
    }
  };
  const auto step = [&](const auto& run, bool with_loops) {
    return seconds_of([&] {
      for (std::size_t i = 0; i < works.size(); ++i) {
        for (std::int64_t repeat = 0; repeat < repeats[i]; ++repeat) {
          run(works[i]);
          if (with_loops) elementwise(works[i].loop_count);
        }
      }
    });
  };

  nlohmann::json result;
  result["threads"] = threads;
  double flops = 0;
  for (std::size_t i = 0; i < works.size(); ++i)
    flops += works[i].flops * static_cast<double>(repeats[i]);
  const double serial = step(one_thread, true), library = step(library_threads, true);
  const double pool = step(ours, true);
  result["step_milliseconds"] = {{"library_one_thread", serial * 1e3},
                                 {"library_threads", library * 1e3},
                                 {"ours", pool * 1e3}};
  const double library_alone = step(library_threads, false), pool_alone = step(ours, false);
  result["convolutions_alone_gflops"] = {{"library_threads", flops / library_alone * 1e-9},
                                         {"ours", flops / pool_alone * 1e-9}};
  result["time_ratio_ours_to_library_threads"] = {
      {"interleaved", pool / library}, {"convolutions_alone", pool_alone / library_alone}};
  for (Work& w : works) {
    const double theirs = seconds_of([&] { library_threads(w); });
    const double own = seconds_of([&] { ours(w); });
    result["convolutions"].push_back({{"name", w.name},
                                      {"library_threads_gflops", w.flops / theirs * 1e-9},
                                      {"ours_gflops", w.flops / own * 1e-9},
                                      {"time_ratio", own / theirs},
                                      {"workspace_bytes", w.kernel->workspace_bytes()}});
  }
  std::cout << result.dump(2) << "\n";
  return 0;
}
