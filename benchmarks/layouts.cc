// SPDX-License-Identifier: Apache-2.0
// What layouts cost: convolutions of three networks, in all directions, and matrix products.
//
// Convolutions: our kernel on activations and filters as a program may write them, over our kernel
// on channels-last activations; and oneDNN by itself, as one primitive on as many OpenMP threads,
// on channels-last and channels-first arrays and in the layout it chooses (blocked), alone and with
// the reorders there and back. Dots: our kernel on every transposition of its operands, and on
// operands that no strides walk (copied first), over the plain one; oneDNN's with a packed right
// operand. Network: convolutions, activations and pooling written channels-first, compiled with the
// pass that assigns layouts and without. One JSON object: milliseconds, the fastest of some runs.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "kernels/cpu/contraction/openmp.h"
#include "kernels/kernels.h"
#include "runtime/backend/backends.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/literal.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"
#include "runtime/program/program.h"

namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

constexpr auto kF32 = dnnl::memory::data_type::f32;

struct Convolution {
  const char* name;
  std::int64_t batch, inputs, size, outputs, kernel, stride;
  std::int64_t padding() const { return kernel / 2; }
  std::int64_t out_size() const { return (size + 2 * padding() - kernel) / stride + 1; }
};

constexpr Convolution kConvolutions[] = {
    {"cnn.stem", 128, 1, 28, 16, 3, 1},     {"cnn.stage1", 128, 16, 28, 16, 3, 1},
    {"cnn.stage2", 128, 32, 14, 32, 3, 1},  {"cnn.stage3", 128, 64, 7, 64, 3, 1},
    {"cnn.narrow", 128, 16, 28, 32, 3, 2},  {"cnn.short_cut", 128, 16, 28, 32, 1, 2},
    {"unet.top", 8, 8, 64, 8, 3, 1},        {"unet.up", 8, 24, 64, 8, 3, 1},
    {"resnet.3x3", 4, 64, 56, 64, 3, 1},    {"resnet.1x1", 4, 64, 56, 256, 1, 1},
    {"resnet.deep", 4, 256, 14, 256, 3, 1},
};

enum class Direction { forward, input_gradient, filter_gradient };
constexpr std::pair<Direction, const char*> kDirections[] = {
    {Direction::forward, "forward"},
    {Direction::input_gradient, "input_gradient"},
    {Direction::filter_gradient, "filter_gradient"}};

double best_milliseconds(const std::function<void()>& body) {
  constexpr int kRepeats = 6;
  body();
  double best = 1e30;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = Clock::now();
    body();
    best = std::min(best, std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return best;
}

std::vector<float> values(std::int64_t count) {
  std::vector<float> made(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < made.size(); ++i)
    made[i] = static_cast<float>(i * 2654435761u % 1024) / 512.0f - 1.0f;
  return made;
}

// The root's kernel on made-up operands; negative when there is none.
double kernel_milliseconds(const std::string& hlo) {
  auto module = plimsoll::ir::parse_module(hlo);
  if (!module.ok()) {
    std::fprintf(stderr, "layouts: %s\n%s\n", module.status().to_string().c_str(), hlo.c_str());
    return -1;
  }
  const plimsoll::ir::Instruction& root = *(*module)->entry()->root();
  auto kernel = plimsoll::kernels::make_kernel(root);
  auto stream = plimsoll::device::cpu_device()->create_stream();
  if (!kernel.ok() || !stream.ok()) return -1;
  std::vector<std::vector<float>> operands;
  std::vector<const void*> inputs;
  for (const plimsoll::ir::Instruction* operand : root.operands()) {
    operands.push_back(values(operand->shape().element_count()));
    inputs.push_back(operands.back().data());
  }
  std::vector<float> result(static_cast<std::size_t>(root.shape().element_count()));
  std::vector<std::byte> workspace(static_cast<std::size_t>((*kernel)->workspace_bytes() + 64));
  std::byte* aligned = workspace.data();
  aligned += 63 - (reinterpret_cast<std::uintptr_t>(aligned) + 63) % 64;
  void* outputs[] = {result.data()};
  bool failed = false;
  const double time = best_milliseconds(
      [&] { failed = !(*kernel)->launch(**stream, {inputs, outputs, aligned}).ok() || failed; });
  return failed ? -1 : time;
}

std::string array(const std::vector<std::int64_t>& dims) {
  std::string text = "f32[";
  for (const std::int64_t dim : dims) text += (text.back() == '[' ? "" : ",") + std::to_string(dim);
  return text + "]";
}

std::string twice(std::int64_t value, const char* between = "x") {
  return std::to_string(value) + between + std::to_string(value);
}

// As differentiation writes it, activations NHWC or NCHW, filters HWIO or OIHW.
std::string convolution_text(const Convolution& c, Direction direction, bool nhwc, bool hwio) {
  const std::int64_t out = c.out_size(), pad = c.padding();
  const auto activation = [&](std::int64_t channels, std::int64_t size) {
    return nhwc ? array({c.batch, size, size, channels}) : array({c.batch, channels, size, size});
  };
  const std::string x = activation(c.inputs, c.size), y = activation(c.outputs, out);
  const std::string w = hwio ? array({c.kernel, c.kernel, c.inputs, c.outputs})
                             : array({c.outputs, c.inputs, c.kernel, c.kernel});
  const std::string act = nhwc ? "b01f" : "bf01";
  std::string lhs, rhs, result, window, labels;
  switch (direction) {
    case Direction::forward:
      lhs = x, rhs = w, result = y;
      window = "size=" + twice(c.kernel) + " stride=" + twice(c.stride) +
               " pad=" + twice(pad, "_") + "x" + twice(pad, "_");
      labels = act + "_" + (hwio ? "01io" : "oi01") + "->" + act;
      break;
    case Direction::input_gradient: {
      lhs = y, rhs = w, result = x;
      const std::int64_t low = c.kernel - 1 - pad;
      const std::int64_t high = c.size - ((out - 1) * c.stride + 1) - low + c.kernel - 1;
      const std::string one = std::to_string(low) + "_" + std::to_string(high);
      window = "size=" + twice(c.kernel) + " pad=" + one + "x" + one +
               " lhs_dilate=" + twice(c.stride) + " rhs_reversal=1x1";
      labels = act + "_" + (hwio ? "01oi" : "io01") + "->" + act;
      break;
    }
    case Direction::filter_gradient: {
      lhs = x, rhs = y, result = w;
      const std::int64_t high = c.kernel - 1 + (out - 1) * c.stride + 1 - c.size - pad;
      const std::string one = std::to_string(pad) + "_" + std::to_string(high);
      window = "size=" + twice(out) + " pad=" + one + "x" + one + " rhs_dilate=" + twice(c.stride);
      labels = std::string(nhwc ? "f01b_i01o" : "fb01_io01") + "->" + (hwio ? "01bf" : "fb01");
      break;
    }
  }
  return "HloModule m\nENTRY e {\n  a = " + lhs + " parameter(0)\n  b = " + rhs +
         " parameter(1)\n  ROOT r = " + result + " convolution(a, b), window={" + window +
         "}, dim_labels=" + labels + "\n}\n";
}

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::memory filled(const Desc& desc) {
  dnnl::memory memory(desc, engine());
  auto* data = static_cast<float*>(memory.get_data_handle());
  std::fill(data, data + desc.get_size() / sizeof(float), 0.5f);
  return memory;
}

struct LibraryTimes {
  double alone = -1, with_reorders = -1;
  std::string implementation;
};

// One primitive; `given` is the layout of the activations, or `any`; the reorders are those from
// channels-last activations and HWIO filters and back.
LibraryTimes library_milliseconds(const Convolution& c, Direction direction, Tag given) {
  const dnnl::memory::dims x = {c.batch, c.inputs, c.size, c.size};
  const dnnl::memory::dims y = {c.batch, c.outputs, c.out_size(), c.out_size()};
  const dnnl::memory::dims w = {c.outputs, c.inputs, c.kernel, c.kernel};
  const dnnl::memory::dims stride = {c.stride, c.stride}, pad = {c.padding(), c.padding()};
  const Desc dx(x, kF32, given), dy(y, kF32, given), dw(w, kF32, Tag::any);
  const Desc plain[] = {Desc(x, kF32, Tag::nhwc), Desc(w, kF32, Tag::hwio),
                        Desc(y, kF32, Tag::nhwc)};
  dnnl::stream stream(engine());
  LibraryTimes times;
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  try {
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, kDirect, dx, dw, dy, stride, pad, pad}, engine());
    const auto run = [&](const dnnl::primitive& primitive, const Desc(&descs)[3],
                         const int(&ids)[3], int written) {
      std::vector<dnnl::memory> own, outside;
      for (int i = 0; i < 3; ++i) {
        own.push_back(filled(descs[i]));
        outside.push_back(filled(plain[i]));
      }
      const auto execute = [&] {
        primitive.execute(stream, {{ids[0], own[0]}, {ids[1], own[1]}, {ids[2], own[2]}});
        stream.wait();
      };
      times.alone = best_milliseconds(execute);
      times.with_reorders = best_milliseconds([&] {
        for (std::size_t i = 0; i < 3; ++i) {
          if (static_cast<int>(i) != written && descs[i] != plain[i])
            dnnl::reorder(outside[i], own[i]).execute(stream, outside[i], own[i]);
        }
        execute();
        const auto last = static_cast<std::size_t>(written);
        if (descs[last] != plain[last])
          dnnl::reorder(own[last], outside[last]).execute(stream, own[last], outside[last]);
        stream.wait();
      });
    };
    if (direction == Direction::forward) {
      times.implementation = forward.impl_info_str();
      run(dnnl::convolution_forward(forward),
          {forward.src_desc(), forward.weights_desc(), forward.dst_desc()},
          {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, 2);
    } else if (direction == Direction::input_gradient) {
      const dnnl::convolution_backward_data::primitive_desc description(
          {kDirect, dx, dw, dy, stride, pad, pad}, engine(), forward);
      times.implementation = description.impl_info_str();
      run(dnnl::convolution_backward_data(description),
          {description.diff_src_desc(), description.weights_desc(), description.diff_dst_desc()},
          {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST}, 0);
    } else {
      const dnnl::convolution_backward_weights::primitive_desc description(
          {kDirect, dx, dw, dy, stride, pad, pad}, engine(), forward);
      times.implementation = description.impl_info_str();
      run(dnnl::convolution_backward_weights(description),
          {description.src_desc(), description.diff_weights_desc(), description.diff_dst_desc()},
          {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}, 1);
    }
  } catch (const dnnl::error&) {
    times.implementation = "none";
  }
  return times;
}

ordered_json measure_ours(const Convolution& c, Direction direction, const char* name) {
  const double base = kernel_milliseconds(convolution_text(c, direction, true, true));
  const double oihw = kernel_milliseconds(convolution_text(c, direction, true, false));
  const double nchw = kernel_milliseconds(convolution_text(c, direction, false, false));
  return {{"convolution", c.name},
          {"direction", name},
          {"nhwc_hwio", base},
          {"nhwc_oihw_over_it", oihw / base},
          {"nchw_oihw_over_it", nchw / base}};
}

void add_library(ordered_json& row, const Convolution& c, Direction direction) {
  const LibraryTimes last = library_milliseconds(c, direction, Tag::nhwc);
  const LibraryTimes first = library_milliseconds(c, direction, Tag::nchw);
  const LibraryTimes blocked = library_milliseconds(c, direction, Tag::any);
  row["onednn_nhwc"] = last.alone;
  row["onednn_nchw"] = first.alone;
  row["onednn_blocked"] = blocked.alone;
  row["onednn_blocked_with_reorders"] = blocked.with_reorders;
  row["ours_over_fastest_onednn"] =
      row["nhwc_hwio"].get<double>() / std::min(last.with_reorders, blocked.with_reorders);
  row["implementations"] = {last.implementation, first.implementation, blocked.implementation};
}

struct Product {
  const char* name;
  std::int64_t batch, m, n, k;
};

// The GPT's: projections of the tokens and their gradients, attention, logits.
constexpr Product kProducts[] = {
    {"gpt.expand", 1, 1024, 384, 96},  {"gpt.contract", 1, 1024, 96, 384},
    {"gpt.weights", 1, 96, 384, 1024}, {"gpt.logits", 1, 1024, 96, 96},
    {"gpt.scores", 64, 64, 64, 24},    {"gpt.mixed", 64, 64, 24, 64},
    {"square", 1, 512, 512, 512}};

std::string product_text(const Product& p, bool left, bool right) {
  const std::string lhs = left ? array({p.batch, p.k, p.m}) : array({p.batch, p.m, p.k});
  const std::string rhs = right ? array({p.batch, p.n, p.k}) : array({p.batch, p.k, p.n});
  return "HloModule m\nENTRY e {\n  a = " + lhs + " parameter(0)\n  b = " + rhs +
         " parameter(1)\n  ROOT r = " + array({p.batch, p.m, p.n}) +
         " dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={" +
         (left ? "1" : "2") + "}, rhs_contracting_dims={" + (right ? "2" : "1") + "}\n}\n";
}

// The left operand's batch between its rows and columns, as heads lie in [time, head, width].
std::string interleaved_text(const Product& p) {
  return "HloModule m\nENTRY e {\n  a = " + array({p.m, p.batch, p.k}) +
         " parameter(0)\n  b = " + array({p.batch, p.k, p.n}) +
         " parameter(1)\n  ROOT r = " + array({p.batch, p.m, p.n}) +
         " dot(a, b), lhs_batch_dims={1}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
         "rhs_contracting_dims={1}\n}\n";
}

// Rows and columns of the left operand cut in two each and mixed: no strides walk them.
std::string copied_text(const Product& p) {
  return "HloModule m\nENTRY e {\n  a = " + array({p.batch, p.m / 2, p.k / 2, 2, 2}) +
         " parameter(0)\n  b = " + array({p.batch, p.k / 2, 2, p.n}) +
         " parameter(1)\n  ROOT r = " + array({p.batch, p.m / 2, 2, p.n}) +
         " dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2,4}, "
         "rhs_contracting_dims={1,2}\n}\n";
}

// A single product on OpenMP threads, the right operand as it is or in the library's own layout.
double packed_milliseconds(const Product& p, bool packed, bool with_reorder) {
  dnnl::stream stream(engine());
  const Desc a({p.batch, p.m, p.k}, kF32, Tag::abc), b({p.batch, p.k, p.n}, kF32, Tag::abc),
      any({p.batch, p.k, p.n}, kF32, Tag::any), out({p.batch, p.m, p.n}, kF32, Tag::abc);
  const dnnl::matmul::primitive_desc description({a, packed ? any : b, out}, engine());
  const dnnl::matmul matmul(description);
  dnnl::memory lhs = filled(a), plain = filled(b), rhs = filled(description.weights_desc()),
               result = filled(out);
  return best_milliseconds([&] {
    if (with_reorder && description.weights_desc() != b)
      dnnl::reorder(plain, rhs).execute(stream, plain, rhs);
    matmul.execute(stream, {{DNNL_ARG_SRC, lhs}, {DNNL_ARG_WEIGHTS, rhs}, {DNNL_ARG_DST, result}});
    stream.wait();
  });
}

ordered_json measure_ours(const Product& p) {
  const double plain = kernel_milliseconds(product_text(p, false, false));
  return {{"dot", p.name},
          {"plain", plain},
          {"left_transposed_over_it", kernel_milliseconds(product_text(p, true, false)) / plain},
          {"right_transposed_over_it", kernel_milliseconds(product_text(p, false, true)) / plain},
          {"both_transposed_over_it", kernel_milliseconds(product_text(p, true, true)) / plain},
          {"batch_inside_over_it", kernel_milliseconds(interleaved_text(p)) / plain},
          {"copied_over_it", kernel_milliseconds(copied_text(p)) / plain}};
}

void add_library(ordered_json& row, const Product& p) {
  row["onednn"] = packed_milliseconds(p, false, false);
  row["onednn_packed"] = packed_milliseconds(p, true, false);
  row["onednn_packed_with_reorder"] = packed_milliseconds(p, true, true);
}

// Channels-first: three stages of five convolutions with activations, pooled after each.
std::string network_text() {
  constexpr std::int64_t kBatch = 32;
  std::string text =
      "HloModule m\nmax { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, "
      "b) }\n"
      "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\nENTRY e {\n"
      "  zero = f32[] constant(0)\n  low = f32[] constant(-inf)\n  x = " +
      array({kBatch, 3, 32, 32}) + " parameter(0)\n";
  std::string value = "x";
  std::int64_t parameters = 1, channels = 3, size = 32;
  const auto name = [&](const char* what, std::int64_t i) { return what + std::to_string(i); };
  for (const std::int64_t width : {32, 64, 128}) {
    for (int layer = 0; layer < 5; ++layer) {
      const std::int64_t i = parameters++;
      const std::string type = array({kBatch, width, size, size});
      text += "  " + name("w", i) + " = " + array({width, channels, 3, 3}) + " parameter(" +
              std::to_string(i) + ")\n  " + name("c", i) + " = " + type + " convolution(" + value +
              ", " + name("w", i) +
              "), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01\n  " + name("z", i) +
              " = " + type + " broadcast(zero), dimensions={}\n  " + name("r", i) + " = " + type +
              " maximum(" + name("c", i) + ", " + name("z", i) + ")\n";
      value = name("r", i);
      channels = width;
    }
    size /= 2;
    text += "  " + name("p", size) + " = " + array({kBatch, channels, size, size}) +
            " reduce-window(" + value +
            ", low), window={size=1x1x2x2 stride=1x1x2x2}, to_apply=max\n";
    value = name("p", size);
  }
  return text + "  ROOT r = " + array({kBatch, channels}) + " reduce(" + value +
         ", zero), dimensions={2,3}, to_apply=add\n}\n";
}

// The network with all passes, or with all but one; negative when it does not run.
double network_milliseconds(bool assign_layouts) {
  using namespace plimsoll;
  auto module = ir::parse_module(network_text());
  auto provider = backend::create_kernels(device::default_device());
  if (!module.ok() || !provider.ok()) return -1;
  if (!assign_layouts) {
    for (const passes::PassInfo& pass : passes::all_passes()) {
      if (pass.name != "assign-layouts" && !pass.run(**module, {}).ok()) return -1;
    }
  }
  std::vector<ir::Literal> arguments;
  for (const ir::Instruction* parameter : (*module)->entry()->parameters()) {
    const auto made = values(parameter->shape().element_count());
    arguments.push_back(
        ir::Literal::from_bytes(parameter->shape(), std::as_bytes(std::span(made))));
  }
  auto program = executor::Program::create(std::move(*module), **provider, assign_layouts);
  if (!program.ok()) return -1;
  const auto budget = memory::Budget::create(device::cpu_device(), planner::kUnlimited);
  auto executable = executor::make_executable(*program, {}, {}, *budget);
  if (!executable.ok()) return -1;
  bool failed = false;
  const double time = best_milliseconds(
      [&] { failed = !executor::run_on_host(**executable, *budget, arguments).ok() || failed; });
  return failed ? -1 : time;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = plimsoll::benchmarks::read_no_arguments("layouts", argc, argv))
    return *status;
  ordered_json out = {{"threads", plimsoll::device::thread_count()}};
  for (const Convolution& c : kConvolutions) {
    for (const auto& [direction, name] : kDirections)
      out["convolutions"].push_back(measure_ours(c, direction, name));
  }
  for (const Product& p : kProducts) out["dots"].push_back(measure_ours(p));
  const double as_written = network_milliseconds(false), assigned = network_milliseconds(true);
  out["network"] = {{"channels_first", as_written},
                    {"assigned", assigned},
                    {"assigned_over_it", assigned / as_written}};
  // Only now: OpenMP's threads spin beside ours from their first primitive on.
  omp_set_num_threads(plimsoll::device::thread_count());
  std::size_t row = 0;
  for (const Convolution& c : kConvolutions) {
    for (const auto& [direction, name] : kDirections)
      add_library(out["convolutions"][row++], c, direction);
  }
  row = 0;
  for (const Product& p : kProducts) add_library(out["dots"][row++], p);
  std::cout << out.dump(2) << '\n';
  return 0;
}
