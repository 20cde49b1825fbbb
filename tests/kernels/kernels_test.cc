// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <thread>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/kernels/kernel_harness.h"

namespace plimsoll::kernels {
namespace {

struct Program {
  const char* name;
  const char* hlo;
  double low, high;
  double tolerance;
};

// Large enough that every kernel cuts its work into several tasks.
const Program kPrograms[] = {
    {"embedding gradient",
     R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  table = f32[100,64] parameter(0)
  ids = s32[1000] parameter(1)
  updates = f32[1000,64] parameter(2)
  ROOT r = f32[100,64] scatter(table, ids, updates), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
})",
     -5, 110, 0},
    {"max pooling",
     R"(HloModule m
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
ENTRY e {
  x = f32[4,20,20,160] parameter(0)
  low = f32[] constant(-inf)
  ROOT r = f32[4,10,10,160] reduce-window(x, low), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0}, to_apply=max
})",
     -2, 2, 0},
    {"channels-first pooling with padding on both sides",
     R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[3,5,21,43] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[3,5,11,22] reduce-window(x, zero), window={size=1x1x3x3 stride=1x1x2x2 pad=0_0x0_0x1_1x1_1}, to_apply=add
})",
     -2, 2, 1e-6},
    {"dilated channels-first max pooling",
     R"(HloModule m
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
ENTRY e {
  x = f32[3,5,21,43] parameter(0)
  low = f32[] constant(-inf)
  ROOT r = f32[3,5,19,15] reduce-window(x, low), window={size=1x1x3x4 stride=1x1x1x3 pad=0_0x0_0x0_0x5_3 rhs_dilate=1x1x1x2}, to_apply=max
})",
     -2, 2, 0},
    {"max pooling gradient",
     R"(HloModule m
ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GE }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[4,20,20,160] parameter(0)
  g = f32[4,10,10,160] parameter(1)
  zero = f32[] constant(0)
  ROOT r = f32[4,20,20,160] select-and-scatter(x, g, zero), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0}, select=ge, scatter=add
})",
     -2, 2, 1e-6},
    {"running sum",
     R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[300,200] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[300,200] reduce-window(x, zero), window={size=1x200 pad=0_0x199_0}, to_apply=add
})",
     -2, 2, 1e-5},
    {"sort of pairs along a middle dimension",
     R"(HloModule m
lt { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3) ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e {
  k = f32[20,50,30] parameter(0)
  v = s32[20,50,30] parameter(1)
  ROOT r = (f32[20,50,30], s32[20,50,30]) sort(k, v), dimensions={1}, is_stable=true, to_apply=lt
})",
     -2, 2, 0},
    {"sort of one long line by a computed key",
     R"(HloModule m
by_size { a = f32[] parameter(0) b = f32[] parameter(1) x = f32[] abs(a) y = f32[] abs(b) ROOT r = pred[] compare(x, y), direction=GT }
ENTRY e {
  k = f32[3000] parameter(0)
  ROOT r = f32[3000] sort(k), dimensions={0}, to_apply=by_size
})",
     -2, 2, 0},
    {"random bits",
     R"(HloModule m
ENTRY e {
  state = u64[3] parameter(0)
  ROOT r = (u64[3], u32[10001]) rng-bit-generator(state), algorithm=rng_philox
})",
     0, 1000, 0},
    {"wide random bits",
     R"(HloModule m
ENTRY e {
  state = u64[2] parameter(0)
  ROOT r = (u64[2], u64[10001]) rng-bit-generator(state), algorithm=rng_philox
})",
     0, 1000, 0},
    {"map",
     R"(HloModule m
f { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] multiply(a, b) d = f32[] constant(2) ROOT r = f32[] subtract(c, d) }
ENTRY e {
  x = f32[9000] parameter(0)
  y = f32[9000] parameter(1)
  ROOT r = f32[9000] map(x, y), dimensions={0}, to_apply=f
})",
     -2, 2, 0},
    {"matrix product",
     R"(HloModule m
ENTRY e {
  a = f32[300,200] parameter(0)
  b = f32[200,310] parameter(1)
  ROOT r = f32[300,310] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})",
     -2, 2, 1e-5},
};

const Program& program(std::string_view name) {
  return *std::find_if(std::begin(kPrograms), std::end(kPrograms),
                       [&](const Program& p) { return p.name == name; });
}

TEST(Kernels, CutWorkMatchesTheInterpreterAndItselfOnOneThread) {
  const int before = device::thread_count();
  for (const Program& program : kPrograms) {
    SCOPED_TRACE(program.name);
    auto module = ir::parse_module(program.hlo, program.name);
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const std::vector<cases::InputRange> ranges(4, {program.low, program.high, false});
    const auto arguments = cases::random_arguments(**module, 5, ranges);
    // A parameter is an operand; constants are evaluated.
    std::vector<ir::Literal> operands;
    const ir::Instruction& root = *(*module)->entry()->root();
    for (const ir::Instruction* operand : root.operands()) {
      operands.push_back(
          operand->opcode() == ir::Opcode::constant
              ? *operand->attributes().literal
              : arguments[static_cast<std::size_t>(operand->attributes().parameter_number)]);
    }
    auto expected = ir::interpret(root, operands);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    device::set_thread_count(1);
    auto serial = run_instruction(root, operands);
    device::set_thread_count(2);
    auto parallel = run_instruction(root, operands);
    ASSERT_TRUE(serial.ok()) << serial.status().to_string();
    ASSERT_TRUE(parallel.ok()) << parallel.status().to_string();
    EXPECT_EQ(*serial, *parallel);
    EXPECT_EQ(cases::compare(*expected, *parallel, program.tolerance), "");
  }
  device::set_thread_count(before);
}

TEST(Scatter, WritesIntoItsOperandsBuffer) {
  auto module = ir::parse_module(program("embedding gradient").hlo);
  ASSERT_TRUE(module.ok());
  const auto arguments = cases::random_arguments(**module, 5, {{-2, 2}, {-5, 110}, {-2, 2}});
  const ir::Instruction& root = *(*module)->entry()->root();
  auto expected = run_instruction(root, arguments);
  ASSERT_TRUE(expected.ok());
  auto kernel = make_kernel(root);
  ASSERT_TRUE(kernel.ok());
  ir::Literal table = arguments[0];
  void* const buffer = table.mutable_bytes().data();
  const void* inputs[] = {buffer, arguments[1].bytes().data(), arguments[2].bytes().data()};
  void* outputs[] = {buffer};
  auto stream = device::cpu_device()->create_stream();
  ASSERT_TRUE(stream.ok());
  ASSERT_TRUE((*kernel)->launch(**stream, {inputs, outputs, nullptr}).ok());
  EXPECT_EQ(*expected, table);
}

TEST(Kernels, OneKernelRunsOnManyThreadsAtOnce) {
  auto module = ir::parse_module(program("wide random bits").hlo);
  ASSERT_TRUE(module.ok());
  const auto arguments = cases::random_arguments(**module, 5);
  const ir::Instruction& root = *(*module)->entry()->root();
  auto kernel = make_kernel(root);
  ASSERT_TRUE(kernel.ok());
  auto expected = run_kernel(**kernel, root.shape(), arguments);
  ASSERT_TRUE(expected.ok());
  std::vector<std::thread> threads;
  std::vector<int> same(4, 0);
  for (std::size_t t = 0; t < same.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        auto got = run_kernel(**kernel, root.shape(), arguments);
        same[t] += got.ok() && *got == *expected ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : same) EXPECT_EQ(count, 5);
}

TEST(CustomCall, GetsItsConfigAndReportsItsFailures) {
  const char* text = R"(HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  ROOT r = f32[4] custom-call(x), custom_call_target="kernels_test.scale", backend_config="by \"3\""
})";
  auto module = ir::parse_module(text);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const ir::Instruction& root = *(*module)->entry()->root();
  const Status unknown = make_kernel(root).status();
  EXPECT_EQ(unknown.code(), StatusCode::unimplemented);
  for (const char* part : {"kernels_test.scale", "lapack_*getrf_ffi", "plm_register_custom_call"}) {
    EXPECT_NE(unknown.message().find(part), std::string::npos) << unknown.message();
  }

  std::string seen;
  bool fails = false;
  const auto function = [&](const device::CustomCallArguments& arguments) {
    seen = arguments.config;
    if (fails) throw std::runtime_error("out of luck");
    EXPECT_EQ(arguments.inputs[0], root.operand(0)->shape());
    for (int i = 0; i < arguments.outputs[0].element_count(); ++i) {
      static_cast<float*>(arguments.memory.outputs[0])[i] =
          3 * static_cast<const float*>(arguments.memory.inputs[0])[i];
    }
    return ok_status();
  };
  ASSERT_TRUE(register_custom_call("kernels_test.scale", function).ok());
  EXPECT_EQ(register_custom_call("kernels_test.scale", function).code(),
            StatusCode::already_exists);
  EXPECT_TRUE(supports(root));
  const std::vector<ir::Literal> operands = {small_integers(root.shape(), 1)};
  auto got = run_instruction(root, operands);
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  EXPECT_EQ(seen, "by \"3\"");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(got->at(i), 3 * operands[0].at(i));
  fails = true;
  const Status status = run_instruction(root, operands).status();
  EXPECT_EQ(status.code(), StatusCode::internal);
  EXPECT_NE(status.message().find("out of luck"), std::string::npos);
}

TEST(Rng, DrawsDifferAndStayInRange) {
  const char* text = R"(HloModule m
ENTRY e {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[1000] rng(a, b), distribution=rng_uniform
})";
  auto module = ir::parse_module(text);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const ir::Instruction& root = *(*module)->entry()->root();
  const std::vector<ir::Literal> operands = {ir::Literal::scalar(-1.0f), ir::Literal::scalar(3.0f)};
  auto first = run_instruction(root, operands), second = run_instruction(root, operands);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_FALSE(*first == *second);
  double sum = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    ASSERT_GE(first->at(i), -1);
    ASSERT_LT(first->at(i), 3);
    sum += first->at(i);
  }
  EXPECT_NEAR(sum / 1000, 1, 0.2);
}

std::string all_reduce_of(const std::string& groups) {
  return R"(HloModule m, replica_count=2
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[4] parameter(0)
  ROOT total = f32[4] all-reduce(x), replica_groups=)" +
         groups + ", to_apply=add\n}";
}

TEST(Collective, ParticipantsThatAreNotThereAreRefusedByName) {
  auto module = ir::parse_module(all_reduce_of("{{0,1,2}}"));
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const Status status = make_kernel(*(*module)->entry()->root()).status();
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_NE(status.message().find("'total': there is no replica 2"), std::string::npos)
      << status.message();
}

TEST(Collective, AStreamWithoutACommunicatorIsRefused) {
  auto module = ir::parse_module(all_reduce_of("{{0,1}}"));
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto kernel = make_kernel(*(*module)->entry()->root());
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  const auto stream = device::cpu_device()->create_stream();
  ASSERT_TRUE(stream.ok());
  float in[4] = {}, out[4] = {};
  const void* const inputs[] = {in};
  void* const outputs[] = {out};
  const Status status = (*kernel)->launch(**stream, {inputs, outputs});
  EXPECT_EQ(status.code(), StatusCode::failed_precondition);
  EXPECT_NE(status.message().find("2 replicas x 1 partitions, and was run by 1"), std::string::npos)
      << status.message();
}

TEST(Kernels, WhatHasNoScalarFormIsRefusedByName) {
  const char* text = R"(HloModule m
f { a = f32[] parameter(0) b = f32[3] broadcast(a), dimensions={} c = f32[1] slice(b), slice={[0:1]} ROOT r = f32[] reshape(c) }
ENTRY e {
  x = f32[4] parameter(0)
  ROOT r = f32[4] map(x), dimensions={0}, to_apply=f
})";
  auto module = ir::parse_module(text);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const Status status = make_kernel(*(*module)->entry()->root()).status();
  EXPECT_EQ(status.code(), StatusCode::unimplemented);
  EXPECT_NE(status.message().find("computation f"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace plimsoll::kernels
