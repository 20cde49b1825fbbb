// SPDX-License-Identifier: Apache-2.0
// Products and convolutions on a GPU, where there is one: against the CPU, the same bits when
// repeated, and how fast they are.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/backend/backends.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/devices.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/executor/limit_check.h"

namespace plimsoll::device {
namespace {

class GpuProducts : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = find_device("cuda:0");
    if (!device.ok()) GTEST_SKIP() << device.status().message();
    device_ = *device;
    auto provider = backend::create_kernels(device_);
    ASSERT_TRUE(provider.ok()) << provider.status().to_string();
    provider_ = *provider;
    cpu_ = backend::create_kernels(cpu_device()).value();
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<KernelProvider> provider_, cpu_;
};

std::string operation(const std::string& lhs, const std::string& rhs, const std::string& result,
                      const std::string& what, const std::string& rest) {
  return "HloModule m\nENTRY e { a = " + lhs + " parameter(0)\n b = " + rhs +
         " parameter(1)\n ROOT r = " + result + " " + what + "(a, b), " + rest + " }";
}
constexpr const char* kRows = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
constexpr const char* kColumns = "lhs_contracting_dims={1}, rhs_contracting_dims={1}";
constexpr const char* kTurned = "lhs_contracting_dims={0}, rhs_contracting_dims={0}";
constexpr const char* kBatch =
    "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}";

struct Case {
  std::string lhs, rhs, result, what, rest;
};

std::vector<Case> cases_of(const std::string& dtype) {
  const auto of = [&](const char* dims) { return dtype + dims; };
  const std::string sum = dtype == "bf16" || dtype == "f16" ? "f32" : dtype;
  const auto dot = [&](const char* lhs, const char* rhs, const char* out, const char* numbers) {
    return Case{of(lhs), of(rhs), sum + out, "dot", numbers};
  };
  const auto convolution = [&](const char* lhs, const char* rhs, const char* out,
                               const char* rest) {
    return Case{of(lhs), of(rhs), sum + out, "convolution", rest};
  };
  std::vector<Case> cases = {
      dot("[3,5]", "[5,7]", "[3,7]", kRows),
      dot("[64,96]", "[96,64]", "[64,64]", kRows),
      dot("[1000,333]", "[333,777]", "[1000,777]", kRows),
      dot("[2048,512]", "[512,1536]", "[2048,1536]", kRows),
      dot("[2048,512]", "[1536,512]", "[2048,1536]", kColumns),
      dot("[512,2048]", "[512,1536]", "[2048,1536]", kTurned),
      dot("[8,4096]", "[4096,1024]", "[8,1024]", kRows),
      dot("[16,200,64]", "[16,64,200]", "[16,200,200]", kBatch),
      dot("[3000,1111]", "[1111,1]", "[3000,1]", kRows),
      dot("[2,4096]", "[4096,1000]", "[2,1000]", kRows),
  };
  // The CPU has none of integers.
  if (dtype == "s32") return cases;
  cases.push_back(convolution("[4,28,28,64]", "[3,3,64,96]", "[4,28,28,96]",
                              "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"));
  cases.push_back(convolution("[4,29,31,24]", "[3,3,24,40]", "[4,15,16,40]",
                              "window={size=3x3 stride=2x2 pad=1_1x1_1}, "
                              "dim_labels=b01f_01io->b01f"));
  cases.push_back(convolution("[2,20,17,19]", "[36,20,3,3]", "[2,36,17,19]",
                              "window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01"));
  cases.push_back(convolution("[2,16,16,48]", "[3,3,1,48]", "[2,16,16,48]",
                              "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, "
                              "feature_group_count=48"));
  return cases;
}

TEST_F(GpuProducts, AreCloseToTheCpusAndTheSameEveryTime) {
  for (const char* dtype : {"f32", "bf16", "f16", "f64", "s32"}) {
    const double tolerance = std::string(dtype) == "f64" ? 1e-12 : 2e-5;
    for (const Case& c : cases_of(dtype)) {
      const std::string text = operation(c.lhs, c.rhs, c.result, c.what, c.rest);
      SCOPED_TRACE(text);
      const auto module = ir::parse_module(text, "products");
      ASSERT_TRUE(module.ok()) << module.status().to_string();
      const auto arguments = cases::random_arguments(**module, 11);
      std::string error;
      ir::Literal expected = testing::run_unlimited(**module, arguments, *cpu_, false, error);
      if (!error.empty()) {  // the CPU has no kernel for it
        auto value = ir::interpret(**module, arguments);
        ASSERT_TRUE(value.ok()) << error << "\n" << value.status().to_string();
        expected = *std::move(value);
      }
      const ir::Literal first =
          testing::run_unlimited(**module, arguments, *provider_, false, error);
      ASSERT_EQ(error, "");
      EXPECT_EQ(cases::compare_close(expected, first, tolerance, 1), "");
      const ir::Literal again =
          testing::run_unlimited(**module, arguments, *provider_, false, error);
      ASSERT_EQ(error, "");
      EXPECT_EQ(cases::compare_bits(first, again), "");
    }
  }
}

// Device memory with numbers about one in it, or a message.
class Buffer {
 public:
  Buffer(Device& device, Stream& stream, const ir::Shape& shape)
      : device_(device), bytes_(shape.byte_size()) {
    auto made = device.allocate(bytes_);
    if (!made.ok()) {
      problem_ = made.status().to_string();
      return;
    }
    pointer_ = *made;
    const ir::Literal sample = cases::random_literal(ir::Shape(shape.dtype(), {1 << 16}), 3);
    const auto part = static_cast<std::int64_t>(sample.bytes().size());
    for (std::int64_t at = 0; at < bytes_; at += part) {
      const Status copied = stream.copy(static_cast<char*>(pointer_) + at, sample.bytes().data(),
                                        std::min(part, bytes_ - at), CopyKind::host_to_device);
      if (!copied.ok()) problem_ = copied.to_string();
    }
    const Status done = stream.synchronize();
    if (!done.ok()) problem_ = done.to_string();
  }
  ~Buffer() {
    if (pointer_ != nullptr) device_.deallocate(pointer_, bytes_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void* data() const { return pointer_; }
  const std::string& problem() const { return problem_; }

 private:
  Device& device_;
  std::int64_t bytes_;
  void* pointer_ = nullptr;
  std::string problem_;
};

struct Timed {
  std::string name;
  Case operation;
  double operations;  // multiplications and additions
};

// Seconds of one launch, the mean of as many as take a tenth of a second.
Result<double> seconds_of(Device& device, const Kernel& kernel,
                          const ir::Instruction& instruction) {
  PLIMSOLL_ASSIGN_OR_RETURN(const auto stream, device.create_stream());
  const Buffer lhs(device, *stream, instruction.operand(0)->shape());
  const Buffer rhs(device, *stream, instruction.operand(1)->shape());
  const Buffer out(device, *stream, instruction.shape());
  const Buffer workspace(device, *stream, ir::Shape(ir::DType::u8, {kernel.workspace_bytes()}));
  for (const Buffer* buffer : {&lhs, &rhs, &out, &workspace}) {
    if (!buffer->problem().empty()) return internal_error(buffer->problem());
  }
  const void* inputs[] = {lhs.data(), rhs.data()};
  void* outputs[] = {out.data()};
  PLIMSOLL_ASSIGN_OR_RETURN(const auto begin, device.create_event());
  PLIMSOLL_ASSIGN_OR_RETURN(const auto end, device.create_event());
  int times = 1;
  for (;;) {
    PLIMSOLL_RETURN_IF_ERROR(stream->record(*begin));
    for (int i = 0; i < times; ++i) {
      PLIMSOLL_RETURN_IF_ERROR(kernel.launch(*stream, {inputs, outputs, workspace.data()}));
    }
    PLIMSOLL_RETURN_IF_ERROR(stream->record(*end));
    PLIMSOLL_RETURN_IF_ERROR(stream->synchronize());
    PLIMSOLL_ASSIGN_OR_RETURN(const double seconds, end->seconds_since(*begin));
    if (times > 1 && (seconds > 0.1 || times >= 1 << 12)) return seconds / times;
    times *= seconds < 0.01 ? 8 : 2;
  }
}

TEST_F(GpuProducts, HaveASpeed) {
  const auto dot = [](const std::string& name, const std::string& dtype, std::int64_t batch,
                      std::int64_t m, std::int64_t k, std::int64_t n) {
    const auto shape = [&](std::int64_t rows, std::int64_t columns) {
      return batch == 1 ? fmt::format("{}[{},{}]", dtype, rows, columns)
                        : fmt::format("{}[{},{},{}]", dtype, batch, rows, columns);
    };
    return Timed{name,
                 {shape(m, k), shape(k, n), shape(m, n), "dot", batch == 1 ? kRows : kBatch},
                 2.0 * static_cast<double>(batch * m * n) * static_cast<double>(k)};
  };
  const auto convolution = [](const std::string& dtype) {
    return Timed{dtype + " 3x3 convolution, 256 to 256 channels, 56x56, 32 images",
                 {dtype + "[32,56,56,256]", dtype + "[3,3,256,256]", dtype + "[32,56,56,256]",
                  "convolution", "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"},
                 2.0 * 32 * 56 * 56 * 256 * 256 * 9};
  };
  const Timed all[] = {
      dot("f32 4096x4096x4096", "f32", 1, 4096, 4096, 4096),
      dot("f32 1024x4096x1024", "f32", 1, 1024, 4096, 1024),
      dot("f32 64 of 512x64x512", "f32", 64, 512, 64, 512),
      dot("f64 2048x2048x2048", "f64", 1, 2048, 2048, 2048),
      dot("bf16 4096x4096x4096", "bf16", 1, 4096, 4096, 4096),
      dot("bf16 8192x8192x8192", "bf16", 1, 8192, 8192, 8192),
      dot("bf16 1024x4096x1024", "bf16", 1, 1024, 4096, 1024),
      dot("bf16 64 of 512x64x512", "bf16", 64, 512, 64, 512),
      dot("bf16 16x8192x8192", "bf16", 1, 16, 8192, 8192),
      dot("f32 8192x8192 by a vector", "f32", 1, 8192, 8192, 1),
      dot("f32 a vector by 8192x8192", "f32", 1, 1, 8192, 8192),
      dot("bf16 8192x8192 by a vector", "bf16", 1, 8192, 8192, 1),
      dot("bf16 a vector by 8192x8192", "bf16", 1, 1, 8192, 8192),
      convolution("f32"),
      convolution("bf16"),
  };
  fmt::print(
      "| product | kernel | microseconds | TFLOP/s | GB/s read and written once |\n"
      "|---|---|---|---|---|\n");
  for (const Timed& timed : all) {
    SCOPED_TRACE(timed.name);
    const Case& c = timed.operation;
    const auto module =
        ir::parse_module(operation(c.lhs, c.rhs, c.result, c.what, c.rest), "products");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const ir::Instruction& root = *(*module)->entry()->root();
    const auto kernel = provider_->kernel(root);
    ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
    const auto seconds = seconds_of(*device_, **kernel, root);
    ASSERT_TRUE(seconds.ok()) << seconds.status().to_string();
    EXPECT_GT(*seconds, 0);
    const auto bytes =
        static_cast<double>(root.operand(0)->shape().byte_size() +
                            root.operand(1)->shape().byte_size() + root.shape().byte_size());
    fmt::print("| {} | {} | {:.1f} | {:.1f} | {:.0f} |\n", timed.name, (*kernel)->name(),
               *seconds * 1e6, timed.operations / *seconds * 1e-12, bytes / *seconds * 1e-9);
  }
}

}  // namespace
}  // namespace plimsoll::device
