// SPDX-License-Identifier: Apache-2.0
// Functions of a user's own that programs call by name.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "tests/c_api/shared_budget.h"

namespace plimsoll::testing {
namespace {

const std::string kProgram = R"(HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  y = f32[2,3] add(x, x)
  c = (f32[2,3], s32[]) custom-call(y), custom_call_target="custom_call_test.TARGET", backend_config="by 3"
  z = f32[2,3] get-tuple-element(c), index=0
  ROOT r = f32[2,3] negate(z)
}
)";

std::string program(const std::string& target) {
  std::string text = kProgram;
  return text.replace(text.find("TARGET"), 6, target);
}

struct Seen {
  std::atomic<int> calls{0};
  bool fails = false;
};

plm_status* triple(void* user, const plm_call_arguments* arguments) {
  Seen& seen = *static_cast<Seen*>(user);
  ++seen.calls;
  if (seen.fails) return plm_status_create(PLM_DATA_LOSS, "the wells are dry");
  const plm_call_array& x = arguments->input_arrays[0];
  if (arguments->input_count != 1 || arguments->output_count != 2 || x.dtype != PLM_F32 ||
      x.rank != 2 || x.dims[1] != 3 || x.byte_size != 24 ||
      arguments->output_arrays[1].dtype != PLM_S32 || std::string(arguments->config) != "by 3") {
    return plm_status_create(PLM_INVALID_ARGUMENT, "other arguments");
  }
  for (int i = 0; i < 6; ++i) {
    static_cast<float*>(arguments->outputs[0])[i] =
        3 * static_cast<const float*>(arguments->inputs[0])[i];
  }
  *static_cast<std::int32_t*>(arguments->outputs[1]) = 7;
  return nullptr;
}

class CustomCall : public ::testing::Test {
 protected:
  void SetUp() override {
    plm_context* made = nullptr;
    ASSERT_EQ(take(plm_context_create(nullptr, &made)).code, PLM_OK);
    context_.reset(made);
  }
  Outcome create(const std::string& text, plm_executable** out) {
    return take(plm_executable_create(context_.get(), text.data(), text.size(), "m", nullptr, out));
  }

  ContextHandle context_;
};

TEST_F(CustomCall, RunsAFunctionOfTheUser) {
  Seen seen;
  ASSERT_EQ(take(plm_register_custom_call("custom_call_test.triple", triple, &seen)).code, PLM_OK);
  EXPECT_EQ(take(plm_register_custom_call("custom_call_test.triple", triple, &seen)).code,
            PLM_ALREADY_EXISTS);
  plm_executable* executable = nullptr;
  ASSERT_EQ(create(program("triple"), &executable).message, "");
  const float x[6] = {1, 2, 3, 4, 5, 6};
  float r[6] = {};
  const void* parameters[] = {x};
  void* results[] = {r};
  EXPECT_EQ(take(plm_executable_run(executable, parameters, 1, results, 1)).message, "");
  for (int i = 0; i < 6; ++i) EXPECT_EQ(r[i], -6 * x[i]);
  EXPECT_EQ(seen.calls, 1);
  seen.fails = true;
  const Outcome failed = take(plm_executable_run(executable, parameters, 1, results, 1));
  EXPECT_EQ(failed.code, PLM_DATA_LOSS);
  EXPECT_NE(failed.message.find("the wells are dry"), std::string::npos) << failed.message;
  seen.fails = false;
  EXPECT_EQ(take(plm_executable_run(executable, parameters, 1, results, 1)).code, PLM_OK);
  plm_executable_destroy(executable);
}

TEST_F(CustomCall, TruthsThatItWritesAreZeroOrOne) {
  const auto wild = [](void*, const plm_call_arguments* arguments) -> plm_status* {
    for (int i = 0; i < 4; ++i) {
      static_cast<std::uint8_t*>(arguments->outputs[0])[i] =
          static_cast<const std::uint8_t*>(arguments->inputs[0])[i];
    }
    return nullptr;
  };
  ASSERT_EQ(take(plm_register_custom_call("custom_call_test.wild", wild, nullptr)).code, PLM_OK);
  plm_executable* made = nullptr;
  ASSERT_EQ(create("HloModule m\nENTRY e {\n  x = u8[4] parameter(0)\n"
                   "  ROOT c = pred[4] custom-call(x), "
                   "custom_call_target=\"custom_call_test.wild\"\n}\n",
                   &made)
                .message,
            "");
  const ExecutableHandle executable(made);
  const std::uint8_t x[] = {0, 1, 2, 255};
  std::vector<std::uint8_t> r(4);
  const void* parameters[] = {x};
  void* results[] = {r.data()};
  ASSERT_EQ(take(plm_executable_run(made, parameters, 1, results, 1)).message, "");
  EXPECT_EQ(r, (std::vector<std::uint8_t>{0, 1, 1, 1}));
}

// Calls that number what they see: of a loop's rounds, and of what follows it. Values that are read
// again in reverse order leave a plan under a limit nothing but to compute them twice.
const std::string kNotes = R"(HloModule m
body {
  s = (s32[], token[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  t = token[] get-tuple-element(s), index=1
  v = f32[] get-tuple-element(s), index=2
  u = token[] custom-call(t, i), custom_call_target="custom_call_test.note", custom_call_has_side_effect=true
  one = s32[] constant(1)
  n = s32[] add(i, one)
  ROOT r = (s32[], token[], f32[]) tuple(n, u, v)
}
condition {
  s = (s32[], token[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  five = s32[] constant(5)
  ROOT p = pred[] compare(i, five), direction=LT
}
ENTRY e {
  t = token[] parameter(0)
  x = f32[64,64] parameter(1)
  zero = s32[] constant(0)
  f = f32[] constant(0)
  s = (s32[], token[], f32[]) tuple(zero, t, f)
  w = (s32[], token[], f32[]) while(s), condition=condition, body=body
  u = token[] get-tuple-element(w), index=1
  a = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[64,64] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[64,64] dot(b, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[64,64] dot(c, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[64,64] dot(d, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  six = s32[] constant(6)
  seven = s32[] constant(7)
  v = token[] custom-call(u, six), custom_call_target="custom_call_test.note", custom_call_has_side_effect=true
  n = () custom-call(seven), custom_call_target="custom_call_test.note_alone", custom_call_has_side_effect=true
  ROOT r = (token[], f32[64,64]) tuple(v, g)
}
)";

plm_status* note(void* user, const plm_call_arguments* arguments) {
  static_cast<std::vector<int>*>(user)->push_back(
      *static_cast<const std::int32_t*>(arguments->inputs[arguments->input_count - 1]));
  return nullptr;
}

TEST_F(CustomCall, EffectsHappenOnceAndInTheirOrderAtEveryLimit) {
  std::vector<int> seen, alone;
  ASSERT_EQ(take(plm_register_custom_call("custom_call_test.note", note, &seen)).code, PLM_OK);
  ASSERT_EQ(take(plm_register_custom_call("custom_call_test.note_alone", note, &alone)).code,
            PLM_OK);
  const std::int64_t none[] = {0}, square[] = {64, 64};
  const std::vector<float> x(64 * 64, 0.1F);
  std::vector<float> expected;
  std::int64_t limit = 0;
  for (int run = 0; run < 2; ++run) {
    plm_executable_options options = {};
    options.struct_size = sizeof options;
    options.memory_limit_bytes = limit;
    options.default_placement = PLM_PLACEMENT_PROGRAM;
    plm_executable* made = nullptr;
    ASSERT_EQ(take(plm_executable_create(context_.get(), kNotes.data(), kNotes.size(), "m",
                                         &options, &made))
                  .message,
              "");
    const ExecutableHandle executable(made);
    plm_value_info token = {};
    token.struct_size = sizeof token;
    ASSERT_EQ(take(plm_executable_parameter(made, 0, &token)).code, PLM_OK);
    EXPECT_EQ(token.byte_size, 0U);
    plm_buffer* given[2] = {};
    plm_buffer* results[2] = {};
    ASSERT_EQ(
        take(plm_buffer_from_host(context_.get(), PLM_PRED, none, 1, x.data(), nullptr, &given[0]))
            .message,
        "");
    ASSERT_EQ(
        take(plm_buffer_from_host(context_.get(), PLM_F32, square, 2, x.data(), nullptr, &given[1]))
            .message,
        "");
    // A token that a run gave goes into the next.
    for (int i = 0; i < 2; ++i) {
      seen.clear();
      alone.clear();
      plm_buffer_run_options how = {};
      how.struct_size = sizeof how;
      how.mode = PLM_RUN_SYNCHRONOUS;
      ASSERT_EQ(take(plm_executable_run_buffers(made, given, 2, results, 2, &how)).message, "");
      EXPECT_EQ(seen, (std::vector{0, 1, 2, 3, 4, 6}));
      EXPECT_EQ(alone, std::vector{7});
      std::vector<float> got(64 * 64);
      ASSERT_EQ(take(plm_buffer_read(results[1], got.data(), got.size() * sizeof(float))).message,
                "");
      if (expected.empty()) expected = got;
      EXPECT_EQ(got, expected);
      plm_buffer_release(given[0]);
      plm_buffer_release(results[1]);
      given[0] = results[0];
    }
    plm_buffer_release(given[0]);
    plm_buffer_release(given[1]);
    ASSERT_EQ(take(plm_executable_floor(made, &limit)).code, PLM_OK);
    EXPECT_LT(limit, run == 0 ? plm_executable_peak(made) : limit + 1);
  }
}

TEST_F(CustomCall, UnknownTargetsAreNamedBesideTheKnownOnes) {
  plm_executable* executable = nullptr;
  const Outcome refused = create(program("nobody"), &executable);
  EXPECT_EQ(refused.code, PLM_UNIMPLEMENTED);
  for (const char* part :
       {"custom_call_test.nobody", "lapack_*getrf_ffi", "plm_register_custom_call"}) {
    EXPECT_NE(refused.message.find(part), std::string::npos) << refused.message;
  }
}

TEST_F(CustomCall, SinksOfValuesDoNothing) {
  const std::string text =
      "ENTRY e { a = f32[3] parameter(0)\n"
      "  s = () custom-call(a), custom_call_target=\"dce_sink\", custom_call_has_side_effect=true\n"
      "  ROOT r = f32[3] negate(a) }";
  plm_executable* executable = nullptr;
  ASSERT_EQ(create(text, &executable).message, "");
  const ExecutableHandle owned(executable);
  const float x[3] = {1, 2, 3};
  float r[3] = {};
  const void* parameters[] = {x};
  void* results[] = {r};
  EXPECT_EQ(take(plm_executable_run(executable, parameters, 1, results, 1)).message, "");
  EXPECT_EQ(r[2], -3);
}

TEST_F(CustomCall, ArraysThatAFunctionDoesNotTakeAreNamed) {
  const std::string text =
      "ENTRY e { a = f32[3,4] parameter(0)\n"
      "  ROOT c = (f32[3,4], s32[]) custom-call(a), custom_call_target=\"lapack_spotrf_ffi\" }";
  plm_executable* executable = nullptr;
  const Outcome refused = create(text, &executable);
  EXPECT_EQ(refused.code, PLM_INVALID_ARGUMENT);
  EXPECT_NE(refused.message.find("not square"), std::string::npos) << refused.message;
  EXPECT_EQ(take(plm_register_custom_call(nullptr, triple, nullptr)).code, PLM_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace plimsoll::testing
