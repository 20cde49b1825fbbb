/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

static plm_context* context;

static plm_tensor* vector2(float a, float b) {
  plm_tensor* made = NULL;
  CHECK_OK(plm_tensor_from_host(context, PLM_F32, (const int64_t[]){2}, 1, (const float[]){a, b},
                                &made));
  return made;
}

static plm_tensor* number(plm_dtype dtype, double value) {
  plm_tensor* made = NULL;
  CHECK_OK(plm_scalar(context, dtype, value, &made));
  return made;
}

/* Of borrowed operands. */
static plm_status* apply(plm_opcode opcode, const plm_tensor* a, const plm_tensor* b,
                         plm_tensor** out) {
  plm_op_attributes attributes = {.struct_size = sizeof attributes, .comparison = PLM_LT};
  return plm_op(context, opcode, (const plm_tensor*[]){a, b}, b == NULL ? 1 : 2, &attributes, out,
                1);
}

/* state[0] < 3 */
static plm_status* below_three(void* user, plm_tensor* const* inputs, size_t input_count,
                               plm_tensor** outputs, size_t output_count) {
  (void)user;
  (void)input_count;
  (void)output_count;
  plm_tensor* three = number(PLM_S32, 3);
  plm_status* status = apply(PLM_OP_COMPARE, inputs[0], three, outputs);
  plm_tensor_release(three);
  return status;
}

/* (count + 1, x * factor), the factor from outside. */
static plm_status* count_and_scale(void* user, plm_tensor* const* inputs, size_t input_count,
                                   plm_tensor** outputs, size_t output_count) {
  CHECK(input_count == 2 && output_count == 2 && outputs[0] == NULL && outputs[1] == NULL);
  plm_tensor* one = number(PLM_S32, 1);
  plm_status* status = apply(PLM_OP_ADD, inputs[0], one, &outputs[0]);
  plm_tensor_release(one);
  if (status != NULL) return status;
  return apply(PLM_OP_MULTIPLY, inputs[1], user, &outputs[1]);
}

static void a_loop_takes_what_it_reads_of_outside(void) {
  plm_tensor* factor = vector2(2, 3);
  plm_tensor* state[2] = {number(PLM_S32, 0), vector2(1, 1)};
  plm_tensor* last[2] = {NULL, NULL};
  CHECK_OK(plm_while(context, below_three, count_and_scale, factor, (const plm_tensor* const*)state,
                     2, last));
  plm_tensor_release(factor);
  plm_tensor_release(state[0]);
  /* Its gradient, as constants tell the number of rounds. */
  plm_op_attributes all = {.struct_size = sizeof all, .dimensions = INTS(0)};
  plm_tensor *sum = NULL, *gradient = NULL;
  CHECK_OK(plm_op(context, PLM_OP_REDUCE, (const plm_tensor*[]){last[1]}, 1, &all, &sum, 1));
  CHECK_OK(plm_backward(context, sum, (const plm_tensor*[]){state[1]}, 1, &gradient));
  CHECK_VALUES(gradient, 8, 27);
  CHECK_VALUES(last[1], 8, 27);
  plm_tensor_release(sum);
  plm_tensor_release(state[1]);
  plm_tensor_release(last[0]);
}

static plm_status* give_user(void* user, plm_tensor* const* inputs, size_t input_count,
                             plm_tensor** outputs, size_t output_count) {
  (void)inputs;
  CHECK(input_count == 0 && output_count == 1);
  plm_tensor_retain(user);
  outputs[0] = user;
  return NULL;
}

static plm_status* negate_user(void* user, plm_tensor* const* inputs, size_t input_count,
                               plm_tensor** outputs, size_t output_count) {
  (void)inputs;
  CHECK(input_count == 0 && output_count == 1);
  return apply(PLM_OP_NEGATE, user, NULL, outputs);
}

static void a_branch_may_be_what_lies_outside(void) {
  plm_tensor* x = vector2(5, 6);
  for (int truth = 0; truth < 2; ++truth) {
    plm_tensor *predicate = NULL, *result = NULL;
    CHECK_OK(plm_scalar_input(context, PLM_PRED, truth, &predicate));
    CHECK_OK(plm_conditional(context, predicate, give_user, negate_user, x, &result, 1));
    if (truth) {
      CHECK_VALUES(result, 5, 6);
    } else {
      CHECK_VALUES(result, -5, -6);
    }
    plm_tensor_release(predicate);
  }
  plm_tensor_release(x);
}

/* (h + x, h) */
static plm_status* add_slice(void* user, plm_tensor* const* inputs, size_t input_count,
                             plm_tensor** outputs, size_t output_count) {
  (void)user;
  CHECK(input_count == 2 && output_count == 2);
  plm_tensor_retain(inputs[0]);
  outputs[1] = inputs[0];
  return apply(PLM_OP_ADD, inputs[0], inputs[1], &outputs[0]);
}

static void a_scan_stacks_its_results(void) {
  plm_tensor* start = number(PLM_F32, 10);
  plm_tensor* slices = vector2(1, 2);
  plm_scan_options options = {.struct_size = sizeof options, .reverse = 1};
  plm_tensor *last = NULL, *stacked = NULL;
  CHECK_OK(plm_scan(context, add_slice, NULL, (const plm_tensor*[]){start}, 1,
                    (const plm_tensor*[]){slices}, 1, NULL, &last, &stacked, 1));
  CHECK_VALUES(last, 13);
  CHECK_VALUES(stacked, 10, 11);
  CHECK_OK(plm_scan(context, add_slice, NULL, (const plm_tensor*[]){start}, 1,
                    (const plm_tensor*[]){slices}, 1, &options, &last, &stacked, 1));
  CHECK_VALUES(last, 13);
  CHECK_VALUES(stacked, 12, 10);
  plm_tensor_release(start);
  plm_tensor_release(slices);
}

/* Gives an output, and fails. */
static plm_status* fails(void* user, plm_tensor* const* inputs, size_t input_count,
                         plm_tensor** outputs, size_t output_count) {
  (void)user;
  (void)input_count;
  (void)output_count;
  plm_tensor_retain(inputs[0]);
  outputs[0] = inputs[0];
  return plm_status_create(PLM_NOT_FOUND, "no such thing");
}

static plm_status* gives_nothing(void* user, plm_tensor* const* inputs, size_t input_count,
                                 plm_tensor** outputs, size_t output_count) {
  (void)user;
  (void)inputs;
  (void)input_count;
  (void)outputs;
  (void)output_count;
  return NULL;
}

static plm_status* reads(void* user, plm_tensor* const* inputs, size_t input_count,
                         plm_tensor** outputs, size_t output_count) {
  (void)user;
  (void)input_count;
  (void)outputs;
  (void)output_count;
  float values[2];
  return plm_tensor_read(inputs[1], values, sizeof values);
}

/* Destroys its context, which its tensors then keep. */
static plm_status* destroys(void* user, plm_tensor* const* inputs, size_t input_count,
                            plm_tensor** outputs, size_t output_count) {
  plm_context_destroy(user);
  for (size_t i = 0; i < output_count && i < input_count; ++i) {
    plm_tensor_retain(inputs[i]);
    outputs[i] = inputs[i];
  }
  return NULL;
}

static void errors_of_callbacks_are_those_of_the_call(void) {
  plm_tensor* state[2] = {number(PLM_S32, 0), vector2(1, 1)};
  plm_tensor* out[2] = {NULL, NULL};
  const plm_tensor* const* init = (const plm_tensor* const*)state;
  CHECK_FAILS(plm_while(context, below_three, fails, NULL, init, 2, out), PLM_NOT_FOUND,
              "while: the body failed: no such thing");
  CHECK_FAILS(plm_while(context, fails, count_and_scale, NULL, init, 2, out), PLM_NOT_FOUND,
              "while: the condition failed: no such thing");
  CHECK_FAILS(plm_while(context, below_three, gives_nothing, NULL, init, 2, out),
              PLM_INVALID_ARGUMENT, "while: the body left output 0 NULL");
  CHECK_FAILS(plm_while(context, below_three, reads, NULL, init, 2, out), PLM_FAILED_PRECONDITION,
              "while: the body failed: read: inside a callback");
  CHECK(out[0] == NULL && out[1] == NULL);
  plm_tensor_release(state[0]);
  plm_tensor_release(state[1]);
}

static void nulls_and_nonsense_are_refused(void) {
  plm_tensor* x = vector2(1, 1);
  plm_tensor* out = NULL;
  const plm_tensor* init[1] = {x};
  CHECK_FAILS(plm_while(NULL, below_three, fails, NULL, init, 1, &out), PLM_INVALID_ARGUMENT,
              "while: init: the context is NULL");
  CHECK_FAILS(plm_while(context, NULL, fails, NULL, init, 1, &out), PLM_INVALID_ARGUMENT, "NULL");
  CHECK_FAILS(plm_while(context, below_three, NULL, NULL, init, 1, &out), PLM_INVALID_ARGUMENT,
              "NULL");
  CHECK_FAILS(plm_while(context, below_three, fails, NULL, init, 1, NULL), PLM_INVALID_ARGUMENT,
              "NULL");
  CHECK_FAILS(plm_while(context, below_three, fails, NULL, NULL, 1, &out), PLM_INVALID_ARGUMENT,
              "NULL");
  CHECK_FAILS(plm_while(context, below_three, fails, NULL, (const plm_tensor*[]){NULL}, 1, &out),
              PLM_INVALID_ARGUMENT, "while: init: tensor 0 is NULL");
  CHECK_FAILS(plm_while(context, below_three, fails, NULL, NULL, 0, &out), PLM_INVALID_ARGUMENT,
              "while: there is no state");
  CHECK_FAILS(plm_conditional(context, NULL, give_user, give_user, x, &out, 1),
              PLM_INVALID_ARGUMENT, "NULL");
  CHECK_FAILS(plm_conditional(context, x, give_user, NULL, x, &out, 1), PLM_INVALID_ARGUMENT,
              "NULL");
  CHECK_FAILS(plm_conditional(context, x, give_user, give_user, x, NULL, 1), PLM_INVALID_ARGUMENT,
              "NULL");
  CHECK_FAILS(plm_conditional(context, x, give_user, give_user, x, &out, 0), PLM_INVALID_ARGUMENT,
              "there are no results");
  CHECK_FAILS(plm_conditional(context, x, give_user, give_user, x, &out, 1), PLM_INVALID_ARGUMENT,
              "the predicate is f32[2], must be pred[]");
  plm_scan_options options = {0};
  CHECK_FAILS(plm_scan(context, add_slice, NULL, init, 1, init, 1, &options, &out, &out, 1),
              PLM_INVALID_ARGUMENT, "struct_size");
  options.struct_size = sizeof options;
  CHECK_FAILS(plm_scan(context, NULL, NULL, init, 1, init, 1, &options, &out, &out, 1),
              PLM_INVALID_ARGUMENT, "NULL");
  CHECK_FAILS(plm_scan(context, add_slice, NULL, init, 1, init, 1, &options, NULL, &out, 1),
              PLM_INVALID_ARGUMENT, "NULL");
  CHECK_FAILS(plm_scan(context, add_slice, NULL, init, 1, init, 1, &options, &out, NULL, 1),
              PLM_INVALID_ARGUMENT, "NULL");
  CHECK_FAILS(plm_scan(context, add_slice, NULL, NULL, 1, init, 1, &options, &out, &out, 1),
              PLM_INVALID_ARGUMENT, "NULL");
  CHECK_FAILS(plm_scan(context, add_slice, NULL, NULL, 0, init, 1, &options, NULL, NULL, 0),
              PLM_INVALID_ARGUMENT, "neither a state nor a result");
  CHECK_FAILS(
      plm_scan(context, add_slice, NULL, init, 1, init, 1, &options, &out, &out, (size_t)1 << 40),
      PLM_INVALID_ARGUMENT, "scan: more than 1048576 values");
  options.length = 3;
  CHECK_FAILS(plm_scan(context, add_slice, NULL, init, 1, init, 1, &options, &out, &out, 1),
              PLM_INVALID_ARGUMENT, "array 0 is f32[2], must have 3 slices");
  CHECK(out == NULL);
  plm_tensor_release(x);
}

static void a_context_that_a_callback_destroys_lives_until_its_tensors_go(void) {
  plm_context* const before = context;
  CHECK_OK(plm_context_create(NULL, &context));
  plm_tensor* state[2] = {number(PLM_S32, 0), vector2(1, 2)};
  plm_tensor* out[2] = {NULL, NULL};
  CHECK_OK(
      plm_while(context, below_three, destroys, context, (const plm_tensor* const*)state, 2, out));
  plm_tensor_release(state[0]);
  plm_tensor_release(state[1]);
  plm_tensor_release(out[0]);
  plm_tensor_release(out[1]);
  context = before;
}

int main(void) {
  CHECK_OK(plm_context_create(NULL, &context));
  a_loop_takes_what_it_reads_of_outside();
  a_branch_may_be_what_lies_outside();
  a_scan_stacks_its_results();
  errors_of_callbacks_are_those_of_the_call();
  nulls_and_nonsense_are_refused();
  a_context_that_a_callback_destroys_lives_until_its_tensors_go();
  plm_context_destroy(context);
  return check_failures() == 0 ? 0 : 1;
}
