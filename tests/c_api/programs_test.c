/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static plm_context* context;

static const char kProgram[] =
    "HloModule affine\n"
    "ENTRY main {\n"
    "  x = f32[2,3] parameter(0)\n"
    "  w = f32[3,2] parameter(1)\n"
    "  y = f32[2,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  n = f32[2,2] negate(y)\n"
    "  ROOT r = (f32[2,2], f32[2,2]) tuple(y, n)\n"
    "}\n";
static const float kX[6] = {1, 2, 3, 4, 5, 6};
static const float kW[6] = {1, 0, 0, 1, 1, 1};
static const float kY[4] = {4, 5, 10, 11};

static plm_executable* compile(const plm_executable_options* options) {
  plm_executable* made = NULL;
  CHECK_OK(plm_executable_create(context, kProgram, strlen(kProgram), "affine", options, &made));
  return made;
}

static void a_program_describes_itself(void) {
  plm_executable* program = compile(NULL);
  CHECK(plm_executable_parameter_count(program) == 2);
  CHECK(plm_executable_result_count(program) == 2);
  plm_value_info info = {0};
  info.struct_size = sizeof info;
  CHECK_OK(plm_executable_parameter(program, 1, &info));
  CHECK(info.dtype == PLM_F32 && info.rank == 2 && info.dims[0] == 3 && info.dims[1] == 2);
  CHECK(info.byte_size == 24 && strcmp(info.name, "w") == 0);
  CHECK_OK(plm_executable_result(program, 1, &info));
  CHECK(strcmp(info.name, "n") == 0);
  CHECK_FAILS(plm_executable_result(program, 2, &info), PLM_OUT_OF_RANGE, "no value 2");
  int64_t floor_bytes = 0;
  CHECK_OK(plm_executable_floor(program, &floor_bytes));
  CHECK(floor_bytes > 0 && floor_bytes <= plm_executable_peak(program));
  CHECK(strstr(plm_executable_summary(program), "\"peak_bytes\"") != NULL);
  plm_executable_destroy(program);
}

static void a_program_runs_on_host_buffers(void) {
  plm_executable* program = compile(NULL);
  const void* parameters[2] = {kX, kW};
  float y[4], n[4];
  void* results[2] = {y, n};
  CHECK_OK(plm_executable_run(program, parameters, 2, results, 2));
  CHECK(memcmp(y, kY, sizeof y) == 0 && n[3] == -11);
  results[0] = NULL;
  CHECK_OK(plm_executable_run(program, parameters, 2, results, 2));
  CHECK_FAILS(plm_executable_run(program, parameters, 1, results, 2), PLM_INVALID_ARGUMENT,
              "must be 2 and 2");
  parameters[1] = NULL;
  CHECK_FAILS(plm_executable_run(program, parameters, 2, results, 2), PLM_INVALID_ARGUMENT,
              "(w) is NULL");
  plm_executable_destroy(program);
}

static void* serve(void* argument) {
  const plm_executable* program = argument;
  for (int i = 0; i < 50; ++i) {
    const void* parameters[2] = {kX, NULL};
    float y[4], n[4];
    void* results[2] = {y, n};
    plm_status* status = plm_executable_run(program, parameters, 2, results, 2);
    if (status != NULL || memcmp(y, kY, sizeof y) != 0) {
      plm_status_free(status);
      return argument;
    }
  }
  return NULL;
}

static void a_bound_program_serves_many_threads(void) {
  const plm_placement placements[2] = {PLM_PLACEMENT_HOST, PLM_PLACEMENT_RESIDENT};
  plm_executable_options options = {0};
  options.struct_size = sizeof options;
  options.placements = placements;
  options.placement_count = 2;
  plm_executable* program = compile(&options);
  plm_tensor* w = NULL;
  CHECK_OK(plm_tensor_from_host(context, PLM_F32, (const int64_t[]){3, 2}, 2, kW, &w));
  CHECK_FAILS(plm_executable_bind(program, 0, w), PLM_INVALID_ARGUMENT, "parameter x");
  CHECK_OK(plm_executable_bind(program, 1, w));
  plm_tensor_release(w);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, serve, program);
  for (int i = 0; i < 4; ++i) {
    void* failed = NULL;
    pthread_join(threads[i], &failed);
    CHECK(failed == NULL);
  }
  plm_executable_destroy(program);
}

static void a_program_runs_on_tensors(void) {
  plm_executable* program = compile(NULL);
  plm_tensor* parameters[2] = {NULL, NULL};
  plm_tensor* results[2] = {NULL, NULL};
  CHECK_OK(plm_tensor_from_host(context, PLM_F32, (const int64_t[]){2, 3}, 2, kX, &parameters[0]));
  CHECK_OK(plm_tensor_from_host(context, PLM_F32, (const int64_t[]){3, 2}, 2, kW, &parameters[1]));
  const plm_tensor* operand = parameters[1];
  plm_tensor* doubled = NULL;
  const plm_tensor* both[2] = {operand, operand};
  CHECK_OK(plm_op(context, PLM_OP_ADD, both, 2, NULL, &doubled, 1));
  plm_tensor_release(parameters[1]);
  parameters[1] = doubled;
  CHECK_OK(plm_executable_run_tensors(program, parameters, 2, results, 2));
  CHECK_VALUES(results[0], 8, 10, 20, 22);
  CHECK_VALUES(results[1], -8, -10, -20, -22);
  plm_tensor_release(parameters[0]);
  plm_tensor_release(parameters[1]);
  plm_executable_destroy(program);
}

static void bad_programs_are_errors(void) {
  plm_executable* program = NULL;
  const char text[] = "HloModule m\nENTRY main {\n  x = f32[2] nonsense(3)\n}\n";
  CHECK_FAILS(plm_executable_create(context, text, strlen(text), "bad.hlo", NULL, &program),
              PLM_INVALID_ARGUMENT, "bad.hlo:3:");
  CHECK_FAILS(plm_executable_load(context, "/nonexistent/file.hlo", NULL, &program), PLM_NOT_FOUND,
              "/nonexistent/file.hlo");
  plm_executable_options options = {0};
  options.struct_size = sizeof options;
  options.memory_limit_bytes = 64;
  plm_status* status =
      plm_executable_create(context, kProgram, strlen(kProgram), NULL, &options, &program);
  CHECK(plm_status_code(status) == PLM_RESOURCE_EXHAUSTED);
  CHECK(plm_status_floor_bytes(status) > 64);
  plm_status_free(status);
  CHECK(program == NULL);
  CHECK_FAILS(plm_executable_load(context, "/", NULL, &program), PLM_NOT_FOUND, "/: is a folder");
  const plm_placement placements[2] = {PLM_PLACEMENT_HOST, (plm_placement)7};
  options.memory_limit_bytes = 0;
  options.placements = placements;
  options.placement_count = 2;
  CHECK_FAILS(plm_executable_create(context, kProgram, strlen(kProgram), "p", &options, &program),
              PLM_INVALID_ARGUMENT, "placement 7");
  options.placements = NULL;
  options.memory_limit_bytes = -1;
  CHECK_FAILS(plm_executable_create(context, kProgram, strlen(kProgram), "p", &options, &program),
              PLM_INVALID_ARGUMENT, "memory_limit_bytes");
  int64_t floor_bytes = 0;
  CHECK_FAILS(plm_executable_floor(NULL, &floor_bytes), PLM_INVALID_ARGUMENT, "NULL");
  CHECK_FAILS(plm_executable_bind(NULL, 0, NULL), PLM_INVALID_ARGUMENT, "NULL");
  CHECK_FAILS(plm_executable_run(NULL, NULL, 0, NULL, 0), PLM_INVALID_ARGUMENT, "NULL");
  plm_value_info info = {0};
  CHECK_FAILS(plm_executable_result(NULL, 0, &info), PLM_INVALID_ARGUMENT, "NULL");
}

static void questions_of_nothing_have_answers(void) {
  CHECK(plm_executable_parameter_count(NULL) == 0);
  CHECK(plm_executable_result_count(NULL) == 0);
  CHECK(plm_executable_peak(NULL) == 0);
  CHECK(strcmp(plm_executable_summary(NULL), "") == 0);
  CHECK(plm_context_limit(NULL) == 0);
  plm_context_reset_peak(NULL);
  plm_context_fail_allocation(NULL, 1);
  plm_context_enable_profile(NULL, 1);
}

/* In ONNX: y = reshape(x:0 + x:0, shape), where x:0 is f32[n] and shape s64[2]. */
static const char kModel[] =
    "\010\010\022\000:c\012\022\012\003x:0\012\003x:0\022\001s\042\003Add\012\026\012\001s"
    "\012\005shape\022\001y\042\007Reshape\022\001gZ\022\012\003x:0\022\013\012\011\010\001"
    "\022\005\012\003\022\001nZ\023\012\005shape\022\012\012\010\010\007\022\004\012\002\010"
    "\002b\011\012\001y\022\004\012\002\010\001B\004\012\000\020\021";

static void a_model_is_told_its_open_sizes(void) {
  plm_executable* model = NULL;
  const size_t size = sizeof kModel - 1;
  CHECK_FAILS(plm_executable_create(context, kModel, size, "m.onnx", NULL, &model),
              PLM_INVALID_ARGUMENT, "input 'x:0' is [n]: the model leaves 'n' open");
  const int64_t sizes[1] = {6}, shape_sizes[1] = {2}, shape[2] = {2, -1};
  plm_model_input inputs[2] = {{0}};
  inputs[0].name = "x:0";
  inputs[0].rank = 1;
  inputs[0].dims = sizes;
  plm_executable_options options = {0};
  options.struct_size = sizeof options;
  options.inputs = inputs;
  options.input_count = 1;
  CHECK_FAILS(plm_executable_create(context, kModel, size, "m.onnx", &options, &model),
              PLM_INVALID_ARGUMENT, "plm_executable_options.inputs");
  inputs[1].name = "shape";
  inputs[1].dtype = PLM_S64;
  inputs[1].rank = 1;
  inputs[1].dims = shape_sizes;
  inputs[1].data = shape;
  options.input_count = 2;
  CHECK_OK(plm_executable_create(context, kModel, size, "m.onnx", &options, &model));
  CHECK(plm_executable_parameter_count(model) == 1);
  plm_value_info info = {0};
  info.struct_size = sizeof info;
  CHECK_OK(plm_executable_result(model, 0, &info));
  CHECK(info.rank == 2 && info.dims[0] == 2 && info.dims[1] == 3);
  const void* parameters[1] = {kX};
  float y[6] = {0};
  void* results[1] = {y};
  CHECK_OK(plm_executable_run(model, parameters, 1, results, 1));
  for (int i = 0; i < 6; ++i) CHECK(y[i] == 2 * kX[i]);
  plm_executable_destroy(model);
  inputs[1].name = NULL;
  CHECK_FAILS(plm_executable_create(context, kModel, size, "m.onnx", &options, &model),
              PLM_INVALID_ARGUMENT, "input 1 has no name");
}

int main(void) {
  CHECK_OK(plm_context_create(NULL, &context));
  if (context == NULL) return 1;
  a_program_describes_itself();
  a_program_runs_on_host_buffers();
  a_bound_program_serves_many_threads();
  a_program_runs_on_tensors();
  bad_programs_are_errors();
  questions_of_nothing_have_answers();
  a_model_is_told_its_open_sizes();
  plm_executable* last = compile(NULL);
  plm_context_destroy(context);
  const void* parameters[2] = {kX, kW};
  float y[4];
  void* results[2] = {y, NULL};
  CHECK_OK(plm_executable_run(last, parameters, 2, results, 2));
  CHECK(y[0] == 4);
  plm_executable_destroy(last);
  return check_failures() == 0 ? 0 : 1;
}
