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

TEST_F(CustomCall, UnknownTargetsAreNamedBesideTheKnownOnes) {
  plm_executable* executable = nullptr;
  const Outcome refused = create(program("nobody"), &executable);
  EXPECT_EQ(refused.code, PLM_UNIMPLEMENTED);
  for (const char* part :
       {"custom_call_test.nobody", "lapack_*getrf_ffi", "plm_register_custom_call"}) {
    EXPECT_NE(refused.message.find(part), std::string::npos) << refused.message;
  }
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
