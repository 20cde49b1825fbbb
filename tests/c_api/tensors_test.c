/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* The numbers of operations come from a table; programs in use have them built in. */
_Static_assert(PLM_OP_PARAMETER == 0 && PLM_OP_ABS == 23 && PLM_OP_ADD == 48 && PLM_OP_DOT == 63 &&
                   PLM_OP_ASYNC_DONE == 106,
               "a number of the ABI has changed");

static plm_context* context;

static plm_tensor* array(const int64_t* dims, size_t rank, const float* data) {
  plm_tensor* made = NULL;
  CHECK_OK(plm_tensor_from_host(context, PLM_F32, dims, rank, data, &made));
  return made;
}

static plm_tensor* vector3(float a, float b, float c) {
  return array((const int64_t[]){3}, 1, (const float[]){a, b, c});
}

static plm_tensor* matrix23(void) {
  return array((const int64_t[]){2, 3}, 2, (const float[]){1, 2, 3, 4, 5, 6});
}

static plm_tensor* indices(const int32_t* data, int64_t count) {
  plm_tensor* made = NULL;
  CHECK_OK(plm_tensor_from_host(context, PLM_S32, &count, 1, data, &made));
  return made;
}

static plm_tensor* scalar(double value) {
  plm_tensor* made = NULL;
  CHECK_OK(plm_scalar(context, PLM_F32, value, &made));
  return made;
}

/* Releases its operands. */
static plm_tensor* op(plm_opcode opcode, plm_tensor* a, plm_tensor* b, plm_op_attributes* given) {
  const plm_tensor* operands[2] = {a, b};
  plm_tensor* out = NULL;
  if (given != NULL) given->struct_size = sizeof *given;
  CHECK_OK(plm_op(context, opcode, operands, b == NULL ? 1 : 2, given, &out, 1));
  plm_tensor_release(a);
  plm_tensor_release(b);
  return out;
}

static void elementwise_operations_compute(void) {
  CHECK_VALUES(op(PLM_OP_ADD, vector3(1, 2, 3), vector3(4, 5, 6), NULL), 5, 7, 9);
  CHECK_VALUES(op(PLM_OP_DIVIDE, vector3(1, 2, 3), scalar(2), NULL), 0.5f, 1, 1.5f);
  CHECK_VALUES(op(PLM_OP_EXPONENTIAL, vector3(0, 1, 2), NULL, NULL), 1, 2.7182818f, 7.3890561f);
  CHECK_VALUES(scalar(4.5), 4.5f);
}

static void short_forms_mean_what_the_header_says(void) {
  plm_op_attributes a = {0};
  a.dimensions = INTS(1);
  CHECK_VALUES(op(PLM_OP_REDUCE, matrix23(), NULL, &a), 6, 15);
  a.reduction = PLM_REDUCE_MAX;
  CHECK_VALUES(op(PLM_OP_REDUCE, matrix23(), NULL, &a), 3, 6);

  plm_op_attributes pad = {0};
  pad.padding_low = INTS(1);
  pad.padding_interior = INTS(1);
  CHECK_VALUES(op(PLM_OP_PAD, vector3(1, 2, 3), NULL, &pad), 0, 1, 0, 2, 0, 3);

  plm_op_attributes broadcast = {0};
  broadcast.shape = INTS(2, 2);
  CHECK_VALUES(op(PLM_OP_BROADCAST, scalar(7), NULL, &broadcast), 7, 7, 7, 7);

  plm_op_attributes none = {0};
  CHECK_VALUES(op(PLM_OP_DOT, matrix23(), vector3(1, 0, -1), &none), -2, -2);

  plm_op_attributes rows = {0};
  CHECK_VALUES(op(PLM_OP_GATHER, matrix23(), indices((const int32_t[]){1, 0, 1}, 3), &rows), 4, 5,
               6, 1, 2, 3, 4, 5, 6);
  rows.dimensions = INTS(1);
  CHECK_VALUES(op(PLM_OP_GATHER, matrix23(), indices((const int32_t[]){2, 0}, 2), &rows), 3, 1, 6,
               4);

  plm_op_attributes slice = {0};
  slice.starts = INTS(0, 1);
  slice.limits = INTS(2, 3);
  CHECK_VALUES(op(PLM_OP_SLICE, matrix23(), NULL, &slice), 2, 3, 5, 6);

  plm_op_attributes window = {0};
  window.window_size = INTS(2);
  window.reduction = PLM_REDUCE_SUM;
  CHECK_VALUES(op(PLM_OP_REDUCE_WINDOW, vector3(1, 2, 3), NULL, &window), 3, 5);

  plm_op_attributes iota = {0};
  iota.dtype = PLM_F32;
  iota.shape = INTS(4);
  plm_tensor* counted = NULL;
  iota.struct_size = sizeof iota;
  CHECK_OK(plm_op(context, PLM_OP_IOTA, NULL, 0, &iota, &counted, 1));
  CHECK_VALUES(counted, 0, 1, 2, 3);
}

static void scatter_adds_rows(void) {
  plm_tensor* target = matrix23();
  plm_tensor* where = indices((const int32_t[]){1, 1}, 2);
  plm_tensor* what = matrix23();
  const plm_tensor* operands[3] = {target, where, what};
  plm_tensor* out = NULL;
  plm_op_attributes a = {0};
  a.struct_size = sizeof a;
  CHECK_OK(plm_op(context, PLM_OP_SCATTER, operands, 3, &a, &out, 1));
  CHECK_VALUES(out, 1, 2, 3, 9, 12, 15);
  plm_tensor_release(target);
  plm_tensor_release(where);
  plm_tensor_release(what);
}

static void convolution_slides_by_default_labels(void) {
  plm_tensor* image = array((const int64_t[]){1, 2, 2, 1}, 4, (const float[]){1, 2, 3, 4});
  plm_tensor* kernel = array((const int64_t[]){2, 2, 1, 1}, 4, (const float[]){1, 10, 100, 1000});
  plm_op_attributes a = {0};
  CHECK_VALUES(op(PLM_OP_CONVOLUTION, image, kernel, &a), 4321);
}

static void sort_gives_as_many_results_as_operands(void) {
  plm_tensor* keys = vector3(3, 1, 2);
  plm_tensor* values = vector3(30, 10, 20);
  const plm_tensor* operands[2] = {keys, values};
  plm_tensor* out[2] = {NULL, NULL};
  plm_op_attributes a = {0};
  a.struct_size = sizeof a;
  a.dimensions = INTS(0);
  a.descending = 1;
  CHECK_FAILS(plm_op(context, PLM_OP_SORT, operands, 2, &a, out, 1), PLM_INVALID_ARGUMENT,
              "sort: has 2 results");
  CHECK_OK(plm_op(context, PLM_OP_SORT, operands, 2, &a, out, 2));
  CHECK_VALUES(out[0], 3, 2, 1);
  CHECK_VALUES(out[1], 30, 20, 10);
  plm_tensor_release(keys);
  plm_tensor_release(values);
}

static void random_states_differ_and_repeat_with_the_seed(void) {
  uint32_t bits[2][4];
  for (int round = 0; round < 2; ++round) {
    plm_context_options options = {0};
    options.struct_size = sizeof options;
    options.seed = 42;
    plm_context* own = NULL;
    CHECK_OK(plm_context_create(&options, &own));
    plm_tensor* first = NULL;
    plm_tensor* second = NULL;
    CHECK_OK(plm_random_state(own, &first));
    CHECK_OK(plm_random_state(own, &second));
    uint64_t states[2][2];
    CHECK_OK(plm_tensor_read(first, states[0], sizeof states[0]));
    CHECK_OK(plm_tensor_read(second, states[1], sizeof states[1]));
    CHECK(memcmp(states[0], states[1], sizeof states[0]) != 0);
    plm_op_attributes a = {0};
    a.struct_size = sizeof a;
    a.dtype = PLM_U32;
    a.shape = INTS(4);
    plm_tensor* out[2] = {NULL, NULL};
    const plm_tensor* operand = first;
    CHECK_OK(plm_op(own, PLM_OP_RNG_BIT_GENERATOR, &operand, 1, &a, out, 2));
    CHECK_OK(plm_tensor_read(out[1], bits[round], sizeof bits[round]));
    plm_tensor_release(out[0]);
    plm_tensor_release(out[1]);
    plm_tensor_release(first);
    plm_tensor_release(second);
    plm_context_destroy(own);
  }
  CHECK(memcmp(bits[0], bits[1], sizeof bits[0]) == 0);
}

static void gradient_descends(void) {
  plm_tensor* w = vector3(1, -2, 3);
  CHECK_OK(plm_eval(context, &w, 1));
  for (int step = 0; step < 5; ++step) {
    const plm_tensor* squared[2] = {w, w};
    plm_tensor* square = NULL;
    CHECK_OK(plm_op(context, PLM_OP_MULTIPLY, squared, 2, NULL, &square, 1));
    plm_op_attributes a = {0};
    a.dimensions = INTS(0);
    plm_tensor* loss = op(PLM_OP_REDUCE, square, NULL, &a);
    plm_tensor* gradient = NULL;
    const plm_tensor* wrt = w;
    CHECK_OK(plm_backward(context, loss, &wrt, 1, &gradient));
    plm_tensor* rate = NULL;
    CHECK_OK(plm_scalar_input(context, PLM_F32, 0.25, &rate));
    plm_tensor* change = op(PLM_OP_MULTIPLY, gradient, rate, NULL);
    const plm_tensor* difference[2] = {w, change};
    plm_tensor* next = NULL;
    CHECK_OK(plm_op(context, PLM_OP_SUBTRACT, difference, 2, NULL, &next, 1));
    CHECK_OK(plm_assign(context, w, next));
    plm_tensor_release(change);
    plm_tensor_release(next);
    plm_tensor_release(loss);
    CHECK_OK(plm_step(context));
  }
  CHECK_VALUES(w, 1.0f / 32, -2.0f / 32, 3.0f / 32);
  const char* json = NULL;
  CHECK_OK(plm_context_report(context, &json));
  CHECK(strstr(json, "\"cache\": \"hit\"") != NULL);
  CHECK(strstr(json, "\"peak_bytes\"") != NULL);
}

static plm_tensor* attention(plm_tensor* q, plm_tensor* k, plm_tensor* v,
                             const plm_attention_options* options) {
  plm_tensor* out = NULL;
  CHECK_OK(plm_attention(context, q, k, v, options, &out));
  return out;
}

static void attention_mixes_what_is_seen(void) {
  const int64_t dims[] = {2, 1};
  plm_tensor* zeros = array(dims, 2, (const float[]){0, 0});
  plm_tensor* ones = array(dims, 2, (const float[]){1, 1});
  plm_tensor* v = array(dims, 2, (const float[]){1, 3});
  CHECK_VALUES(attention(zeros, zeros, v, NULL), 2, 2);
  plm_attention_options options = {.struct_size = sizeof options, .causal = 1};
  CHECK_VALUES(attention(zeros, zeros, v, &options), 1, 2);
  plm_tensor* bias = array((const int64_t[]){2}, 1, (const float[]){0, 100});
  options = (plm_attention_options){.struct_size = sizeof options, .scale = 3, .bias = bias};
  CHECK_VALUES(attention(ones, ones, v, &options), 3, 3);
  plm_tensor* out = NULL;
  CHECK_FAILS(plm_attention(context, zeros, bias, v, NULL, &out), PLM_INVALID_ARGUMENT,
              "attention: operand is f32[2], must be floating [.., time, depth]");
  options.mask = bias;
  CHECK_FAILS(plm_attention(context, zeros, zeros, v, &options, &out), PLM_INVALID_ARGUMENT,
              "attention: the mask is f32[2], must be pred");
  CHECK_FAILS(plm_attention(context, zeros, zeros, v, NULL, NULL), PLM_INVALID_ARGUMENT,
              "attention: the output pointer is NULL");
  plm_tensor_release(zeros);
  plm_tensor_release(ones);
  plm_tensor_release(v);
  plm_tensor_release(bias);
}

static void errors_name_what_is_wrong(void) {
  plm_tensor* a = matrix23();
  plm_tensor* b = vector3(1, 2, 3);
  const plm_tensor* operands[2] = {a, b};
  plm_tensor* out = NULL;
  CHECK_FAILS(plm_op(context, PLM_OP_ADD, operands, 2, NULL, &out, 1), PLM_INVALID_ARGUMENT,
              "add: f32[2,3] and f32[3] differ in dims");
  CHECK(out == NULL);
  CHECK_FAILS(plm_op(context, PLM_OP_WHILE, operands, 1, NULL, &out, 1), PLM_UNIMPLEMENTED,
              "while");
  CHECK_FAILS(plm_op(context, (plm_opcode)9999, operands, 1, NULL, &out, 1), PLM_INVALID_ARGUMENT,
              "9999");
  CHECK_FAILS(plm_op(context, PLM_OP_NEGATE, NULL, 1, NULL, &out, 1), PLM_INVALID_ARGUMENT, "NULL");
  CHECK_FAILS(plm_backward(context, a, operands, 1, &out), PLM_INVALID_ARGUMENT, "rank 0");
  CHECK_FAILS(plm_assign(context, a, b), PLM_INVALID_ARGUMENT, "f32[2,3]");
  float value;
  CHECK_FAILS(plm_tensor_read(b, &value, sizeof value), PLM_INVALID_ARGUMENT, "must be 12");
  CHECK_FAILS(plm_tensor_from_host(context, (plm_dtype)77, NULL, 0, &value, &out),
              PLM_INVALID_ARGUMENT, "77");
  CHECK_FAILS(plm_tensor_from_host(context, PLM_F32, (const int64_t[]){-1}, 1, &value, &out),
              PLM_INVALID_ARGUMENT, "negative");
  plm_op_attributes long_list = {0};
  long_list.struct_size = sizeof long_list;
  int64_t many[40] = {0};
  long_list.shape = (plm_ints){many, 40};
  CHECK_FAILS(plm_op(context, PLM_OP_RESHAPE, operands, 1, &long_list, &out, 1),
              PLM_INVALID_ARGUMENT, "rank 40");
  plm_context* other = NULL;
  plm_context_options options = {0};
  options.struct_size = sizeof options;
  options.planner = "magic";
  CHECK_FAILS(plm_context_create(&options, &other), PLM_INVALID_ARGUMENT, "magic");
  options.planner = NULL;
  options.remedies = "recompute,pray";
  CHECK_FAILS(plm_context_create(&options, &other), PLM_INVALID_ARGUMENT, "'pray'");
  options.remedies = NULL;
  options.planning_seconds = -1;
  CHECK_FAILS(plm_context_create(&options, &other), PLM_INVALID_ARGUMENT, "planning_seconds");
  options.planning_seconds = 0;
  options.planning = "later";
  CHECK_FAILS(plm_context_create(&options, &other), PLM_INVALID_ARGUMENT,
              "planning: 'later' is not one of full, first, background");
  options.planning = NULL;
  options.max_pending_ops = -1;
  CHECK_FAILS(plm_context_create(&options, &other), PLM_INVALID_ARGUMENT, "max_pending_ops");
  options.struct_size = 0;
  CHECK_FAILS(plm_context_create(&options, &other), PLM_INVALID_ARGUMENT, "struct_size");
  long_list.struct_size = 0;
  CHECK_FAILS(plm_op(context, PLM_OP_RESHAPE, operands, 1, &long_list, &out, 1),
              PLM_INVALID_ARGUMENT, "struct_size");
  plm_memory_statistics memory = {0};
  const char* text = NULL;
  CHECK_FAILS(plm_context_set_limit(NULL, 1), PLM_INVALID_ARGUMENT, "NULL");
  CHECK_FAILS(plm_context_memory(NULL, &memory), PLM_INVALID_ARGUMENT, "NULL");
  CHECK_FAILS(plm_context_report(NULL, &text), PLM_INVALID_ARGUMENT, "NULL");
  CHECK_FAILS(plm_wait(NULL), PLM_INVALID_ARGUMENT, "NULL");
  CHECK_FAILS(plm_tensor_set_name(NULL, "x"), PLM_INVALID_ARGUMENT, "NULL");
  CHECK_OK(plm_context_create(NULL, &other));
  CHECK_FAILS(plm_eval(other, &a, 1), PLM_INVALID_ARGUMENT, "another context");
  plm_context_destroy(other);
  plm_tensor_release(a);
  plm_tensor_release(b);
}

/* No operation makes a tensor of what tensors are not. */
static void dtypes_of_programs_are_refused_by_every_operation(void) {
  static const plm_opcode kOps[] = {PLM_OP_DOT, PLM_OP_CONVOLUTION, PLM_OP_CONVERT,
                                    PLM_OP_BITCAST_CONVERT, PLM_OP_IOTA};
  const float data[16] = {0};
  plm_tensor* image = NULL;
  CHECK_OK(plm_tensor_from_host(context, PLM_F32, (const int64_t[]){2, 2, 2, 2}, 4, data, &image));
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; ++i) {
    const plm_tensor* operands[2] = {image, image};
    const size_t count = kOps[i] == PLM_OP_IOTA ? 0 : i < 2 ? 2 : 1;
    plm_op_attributes attributes = {0};
    attributes.struct_size = sizeof attributes;
    attributes.use_dtype = 1;
    attributes.shape = (plm_ints){(const int64_t[]){4}, 1};
    for (int dtype = PLM_C64; dtype <= PLM_F8E8M0FNU; ++dtype) {
      plm_tensor* out = NULL;
      attributes.dtype = (plm_dtype)dtype;
      CHECK_FAILS(plm_op(context, kOps[i], operands, count, &attributes, &out, 1),
                  PLM_UNIMPLEMENTED, plm_dtype_name((plm_dtype)dtype));
      CHECK(out == NULL);
    }
    plm_tensor* out = NULL;
    attributes.dtype = (plm_dtype)77;
    CHECK_FAILS(plm_op(context, kOps[i], operands, count, &attributes, &out, 1),
                PLM_INVALID_ARGUMENT, "77 is no dtype");
  }
  plm_tensor_release(image);
}

/* What is planned has less than the limit where other tensors hold memory; the user set the limit.
 */
static void a_refusal_speaks_of_the_contexts_limit(void) {
  plm_context* own = NULL;
  CHECK_OK(plm_context_create(NULL, &own));
  const int64_t dims[1] = {32};
  const float data[32] = {0};
  plm_tensor *x = NULL, *a = NULL, *b = NULL;
  CHECK_OK(plm_tensor_from_host(own, PLM_F32, dims, 1, data, &x));
  const plm_tensor* operand = x;
  CHECK_OK(plm_op(own, PLM_OP_COSINE, &operand, 1, NULL, &a, 1));
  CHECK_OK(plm_eval(own, &a, 1));
  operand = a;
  CHECK_OK(plm_op(own, PLM_OP_SINE, &operand, 1, NULL, &b, 1));
  CHECK_OK(plm_context_set_limit(own, 200));
  plm_status* status = plm_eval(own, &b, 1);
  CHECK(plm_status_code(status) == PLM_RESOURCE_EXHAUSTED);
  char limit[64], least[64];
  snprintf(limit, sizeof limit, "limit of 200 bytes");
  snprintf(least, sizeof least, "would do is %lld;", (long long)plm_status_floor_bytes(status));
  CHECK(strstr(plm_status_message(status), limit) != NULL);
  CHECK(strstr(plm_status_message(status), least) != NULL);
  const int64_t floor_bytes = plm_status_floor_bytes(status);
  plm_status_free(status);
  CHECK_OK(plm_context_set_limit(own, floor_bytes));
  CHECK_OK(plm_eval(own, &b, 1));
  plm_tensor_release(x);
  plm_tensor_release(a);
  plm_tensor_release(b);
  plm_context_destroy(own);
}

static void a_limit_that_is_too_low_tells_the_floor(void) {
  plm_context_options options = {0};
  options.struct_size = sizeof options;
  options.memory_limit_bytes = 4096;
  plm_context* own = NULL;
  CHECK_OK(plm_context_create(&options, &own));
  const int64_t dims[1] = {4096};
  float* data = calloc(4096, sizeof *data);
  plm_tensor* x = NULL;
  CHECK_OK(plm_tensor_from_host(own, PLM_F32, dims, 1, data, &x));
  plm_tensor* y = NULL;
  const plm_tensor* operand = x;
  CHECK_OK(plm_op(own, PLM_OP_COSINE, &operand, 1, NULL, &y, 1));
  plm_status* status = plm_eval(own, &y, 1);
  CHECK(plm_status_code(status) == PLM_RESOURCE_EXHAUSTED);
  CHECK(plm_status_limit_bytes(status) == 4096);
  const int64_t floor_bytes = plm_status_floor_bytes(status);
  CHECK(floor_bytes >= 16384);
  CHECK(strlen(plm_status_culprit(status)) > 0);
  plm_status_free(status);
  CHECK(plm_tensor_is_pending(y) == 1);
  CHECK_OK(plm_context_set_limit(own, floor_bytes));
  CHECK_OK(plm_eval(own, &y, 1));
  CHECK_OK(plm_tensor_read(y, data, 4096 * sizeof *data));
  CHECK(data[4095] == 1.0f);
  plm_memory_statistics memory = {0};
  memory.struct_size = sizeof memory;
  CHECK_OK(plm_context_memory(own, &memory));
  CHECK(memory.peak_bytes <= floor_bytes);
  CHECK(memory.limit_bytes == floor_bytes);
  free(data);
  plm_tensor_release(x);
  plm_context_destroy(own);
  /* A tensor outlives its context's owner. */
  float last[4096];
  CHECK_OK(plm_tensor_read(y, last, sizeof last));
  plm_tensor_release(y);
}

static void a_failed_allocation_is_an_error_and_no_more(void) {
  plm_tensor* x = vector3(1, 2, 3);
  plm_tensor* y = op(PLM_OP_NEGATE, x, NULL, NULL);
  plm_context_fail_allocation(context, 1);
  CHECK_OK(plm_eval(context, &y, 1));
  CHECK_FAILS(plm_wait(context), PLM_RESOURCE_EXHAUSTED, "injected");
  CHECK_OK(plm_wait(context));
  CHECK_VALUES(y, -1, -2, -3);
}

static void structs_of_other_versions_are_understood(void) {
  struct {
    plm_context_options options;
    char future[64];
  } newer;
  memset(&newer, 1, sizeof newer);
  memset(&newer.options, 0, sizeof newer.options);
  newer.options.struct_size = sizeof newer;
  plm_context* own = NULL;
  CHECK_OK(plm_context_create(&newer.options, &own));
  plm_memory_statistics older;
  memset(&older, 0x55, sizeof older);
  older.struct_size = offsetof(plm_memory_statistics, used_bytes);
  CHECK_OK(plm_context_memory(own, &older));
  CHECK(older.limit_bytes == PLM_NO_LIMIT);
  CHECK(older.used_bytes == 0x5555555555555555);
  plm_context_destroy(own);
}

static void other_places_for_bytes_are_limited_and_counted(void) {
  plm_context_options options = {0};
  options.struct_size = sizeof options;
  options.host_limit_bytes = 1 << 20;
  options.spill_dir = "/tmp";
  options.spill_limit_bytes = 1 << 21;
  plm_context* own = NULL;
  CHECK_OK(plm_context_create(&options, &own));
  plm_memory_statistics memory = {0};
  memory.struct_size = sizeof memory;
  CHECK_OK(plm_context_memory(own, &memory));
  CHECK(memory.host_limit_bytes == 1 << 20 && memory.disk_limit_bytes == 1 << 21);
  CHECK(memory.host_used_bytes == 0 && memory.disk_peak_bytes == 0);
  plm_context_destroy(own);
  options.spill_dir = "/nonexistent/folder";
  CHECK_FAILS(plm_context_create(&options, &own), PLM_INVALID_ARGUMENT, "/nonexistent/folder");
  options.spill_dir = NULL;
  options.host_limit_bytes = -1;
  CHECK_FAILS(plm_context_create(&options, &own), PLM_INVALID_ARGUMENT, "host_limit_bytes");
}

static void hints_are_recorded_and_change_no_value(void) {
  plm_tensor* x = op(PLM_OP_EXPONENTIAL, vector3(0, 0, 0), NULL, NULL);
  CHECK_OK(plm_tensor_hint(x, PLM_HINT_COMPRESS));
  CHECK_FAILS(plm_tensor_hint(x, (plm_hint)5), PLM_INVALID_ARGUMENT, "hint: 5");
  CHECK_FAILS(plm_tensor_hint(NULL, PLM_HINT_KEEP), PLM_INVALID_ARGUMENT, "NULL");
  plm_tensor* y = op(PLM_OP_NEGATE, x, NULL, NULL);
  const char* text = NULL;
  CHECK_OK(plm_trace_text(context, &y, 1, &text));
  CHECK(strstr(text, "plimsoll.hint=\"compress\"") != NULL);
  CHECK_VALUES(y, -1, -1, -1);
}

/* Both evaluations run at once, so that one thread may wait for one after the other. */
static void participants_meet_in_what_they_record(void) {
  plm_tensor* alone = vector3(1, 2, 3);
  const plm_tensor* operand = alone;
  plm_op_attributes sum = {0};
  sum.struct_size = sizeof sum;
  plm_tensor* out = NULL;
  CHECK_FAILS(plm_op(context, PLM_OP_ALL_REDUCE, &operand, 1, &sum, &out, 1),
              PLM_FAILED_PRECONDITION, "all-reduce: the context has no communicator");
  CHECK(plm_context_participant(context) == 0 && plm_context_participants(context) == 1);
  plm_tensor_release(alone);

  plm_communicator* communicators[2] = {NULL, NULL};
  CHECK_FAILS(plm_communicator_create_local(0, communicators), PLM_INVALID_ARGUMENT,
              "0 participants");
  CHECK_OK(plm_communicator_create_local(2, communicators));
  CHECK(plm_communicator_rank(communicators[1]) == 1);
  CHECK(plm_communicator_size(communicators[1]) == 2);
  plm_context* contexts[2];
  plm_tensor *sums[2], *copies[2];
  for (int i = 0; i < 2; ++i) {
    plm_context_options options = {0};
    options.struct_size = sizeof options;
    options.communicator = communicators[i];
    CHECK_OK(plm_context_create(&options, &contexts[i]));
    CHECK(plm_context_participant(contexts[i]) == i && plm_context_participants(contexts[i]) == 2);
    CHECK(plm_context_collective_bucket(contexts[i]) == 25 << 20);
    const float data[2] = {1.0f + (float)i, 3};
    plm_tensor* x = NULL;
    CHECK_OK(plm_tensor_from_host(contexts[i], PLM_F32, (const int64_t[]){2}, 1, data, &x));
    operand = x;
    CHECK_OK(plm_op(contexts[i], PLM_OP_ALL_REDUCE, &operand, 1, &sum, &sums[i], 1));
    plm_op_attributes from = sum;
    from.root = 1;
    CHECK_OK(plm_op(contexts[i], PLM_OP_COLLECTIVE_BROADCAST, &operand, 1, &from, &copies[i], 1));
    CHECK(plm_tensor_sequence(x) < plm_tensor_sequence(sums[i]));
    CHECK(plm_tensor_sequence(sums[i]) < plm_tensor_sequence(copies[i]));
    plm_tensor_release(x);
    plm_tensor* both[2] = {sums[i], copies[i]};
    CHECK_OK(plm_eval(contexts[i], both, 2));
  }
  for (int i = 0; i < 2; ++i) {
    CHECK_VALUES(sums[i], 3, 6);
    CHECK_VALUES(copies[i], 2, 3);
  }
  /* The error of one is the error of the other; nobody waits for who has left. */
  plm_communicator_leave(communicators[0], PLM_ABORTED, "no more");
  plm_tensor* more = NULL;
  operand = alone = NULL;
  CHECK_OK(plm_tensor_from_host(contexts[1], PLM_F32, NULL, 0, (const float[]){1}, &alone));
  operand = alone;
  CHECK_OK(plm_op(contexts[1], PLM_OP_ALL_REDUCE, &operand, 1, &sum, &more, 1));
  float read = 0;
  CHECK_FAILS(plm_tensor_read(more, &read, sizeof read), PLM_ABORTED, "participant 0: no more");
  plm_tensor_release(more);
  plm_tensor_release(alone);
  for (int i = 0; i < 2; ++i) {
    plm_context_destroy(contexts[i]);
    plm_communicator_destroy(communicators[i]);
  }
  plm_communicator_leave(NULL, PLM_OK, NULL);
  CHECK(plm_tensor_sequence(NULL) == 0 && plm_context_participants(NULL) == 1);
}

static void handles_count_references(void) {
  plm_tensor* x = vector3(1, 2, 3);
  plm_tensor_retain(x);
  plm_tensor_release(x);
  plm_tensor* same = NULL;
  CHECK_OK(plm_tensor_alias(x, &same));
  CHECK_OK(plm_tensor_set_name(x, "weights"));
  CHECK(strcmp(plm_tensor_name(x), "weights") == 0);
  CHECK(plm_tensor_rank(same) == 1 && plm_tensor_dims(same)[0] == 3);
  CHECK(plm_tensor_dtype(same) == PLM_F32 && plm_tensor_byte_size(same) == 12);
  plm_tensor* value = vector3(7, 8, 9);
  CHECK_OK(plm_assign(context, x, value));
  plm_tensor_release(value);
  CHECK_VALUES(same, 1, 2, 3);
  CHECK_VALUES(x, 7, 8, 9);
  plm_tensor_release(NULL);
  plm_status_free(NULL);
  plm_context_destroy(NULL);
  plm_executable_destroy(NULL);
}

static void null_handles_have_no_answers(void) {
  CHECK(plm_tensor_rank(NULL) == 0 && plm_tensor_dims(NULL) == NULL);
  CHECK(plm_tensor_dtype(NULL) == PLM_PRED && plm_tensor_byte_size(NULL) == 0);
  CHECK(plm_tensor_is_pending(NULL) == 0 && plm_tensor_context(NULL) == NULL);
  CHECK(strcmp(plm_tensor_name(NULL), "") == 0);
  plm_tensor_retain(NULL);
  plm_tensor_release(NULL);
  CHECK(plm_buffer_rank(NULL) == 0 && plm_buffer_dims(NULL) == NULL);
  CHECK(plm_buffer_dtype(NULL) == PLM_PRED && plm_buffer_byte_size(NULL) == 0);
  CHECK(plm_buffer_is_deleted(NULL) == 0 && plm_buffer_is_ready(NULL) == 0);
  plm_buffer_retain(NULL);
  plm_buffer_release(NULL);
  plm_buffer_delete(NULL);
}

static void lists_without_data_are_refused(void) {
  plm_tensor* x = matrix23();
  const plm_tensor* operands[1] = {x};
  plm_tensor* out = NULL;
  plm_op_attributes a = {.struct_size = sizeof a, .dimensions = {NULL, 5}};
  CHECK_FAILS(plm_op(context, PLM_OP_REDUCE, operands, 1, &a, &out, 1), PLM_INVALID_ARGUMENT,
              "dimensions is NULL with a size of 5");
  const plm_gather_dims gather = {.offset_dims = {NULL, 1}};
  plm_op_attributes g = {.struct_size = sizeof g, .gather = &gather};
  const plm_tensor* two[2] = {x, x};
  CHECK_FAILS(plm_op(context, PLM_OP_GATHER, two, 2, &g, &out, 1), PLM_INVALID_ARGUMENT,
              "offset_dims is NULL");
  plm_tensor_release(x);
}

static void gradients_end_at_no_evaluated_value_unless_asked(void) {
  plm_tensor* w = vector3(1, 2, 3);
  CHECK_OK(plm_tensor_set_variable(w, 1));
  const int32_t whole = 1;
  plm_tensor* integers = indices(&whole, 1);
  CHECK_FAILS(plm_tensor_set_variable(integers, 1), PLM_INVALID_ARGUMENT, "must be floating");
  plm_tensor_release(integers);
  plm_tensor_retain(w);
  plm_tensor* hidden = op(PLM_OP_NEGATE, w, NULL, NULL);
  CHECK_OK(plm_eval(context, &hidden, 1));
  plm_tensor_retain(hidden);
  plm_tensor* y = op(PLM_OP_TANH, hidden, NULL, NULL);
  const plm_tensor* outputs[1] = {y};
  const plm_tensor* wrt[1] = {w};
  plm_tensor* gradient = NULL;
  plm_gradient_options options = {.struct_size = sizeof options, .null_unused = 1};
  CHECK_OK(plm_gradients(context, outputs, NULL, 1, wrt, 1, &options, &gradient));
  CHECK(gradient == NULL);
  options.unbroken = 1;
  CHECK_FAILS(plm_gradients(context, outputs, NULL, 1, wrt, 1, &options, &gradient),
              PLM_FAILED_PRECONDITION, "evaluated already");
  plm_tensor_release(y);
  plm_tensor_release(hidden);
  plm_tensor_release(w);
}

static void names_and_sizes_are_those_of_hlo(void) {
  CHECK(plm_version() == (PLM_VERSION_MAJOR << 16 | PLM_VERSION_MINOR << 8 | PLM_VERSION_PATCH));
  CHECK(strcmp(plm_opcode_name(PLM_OP_DYNAMIC_UPDATE_SLICE), "dynamic-update-slice") == 0);
  CHECK(strcmp(plm_dtype_name(PLM_BF16), "bf16") == 0 && plm_dtype_size(PLM_BF16) == 2);
  CHECK(strcmp(plm_dtype_name(PLM_F8E8M0FNU), "f8e8m0fnu") == 0);
  CHECK(plm_dtype_size(PLM_S4) == 1 && plm_dtype_bits(PLM_S4) == 4);
  CHECK(plm_dtype_bits(PLM_F32) == 32 && plm_dtype_bits((plm_dtype)99) == 0);
  CHECK(strcmp(plm_code_name(PLM_DATA_LOSS), "DATA_LOSS") == 0);
  CHECK(plm_dtype_size((plm_dtype)99) == 0 && strcmp(plm_opcode_name((plm_opcode)9999), "") == 0);
  CHECK(plm_status_code(NULL) == PLM_OK && strcmp(plm_status_message(NULL), "") == 0);
}

int main(void) {
  CHECK_OK(plm_context_create(NULL, &context));
  if (context == NULL) return 1;
  elementwise_operations_compute();
  short_forms_mean_what_the_header_says();
  scatter_adds_rows();
  convolution_slides_by_default_labels();
  sort_gives_as_many_results_as_operands();
  random_states_differ_and_repeat_with_the_seed();
  gradient_descends();
  attention_mixes_what_is_seen();
  errors_name_what_is_wrong();
  dtypes_of_programs_are_refused_by_every_operation();
  a_limit_that_is_too_low_tells_the_floor();
  a_refusal_speaks_of_the_contexts_limit();
  a_failed_allocation_is_an_error_and_no_more();
  structs_of_other_versions_are_understood();
  other_places_for_bytes_are_limited_and_counted();
  hints_are_recorded_and_change_no_value();
  participants_meet_in_what_they_record();
  handles_count_references();
  null_handles_have_no_answers();
  lists_without_data_are_refused();
  gradients_end_at_no_evaluated_value_unless_asked();
  names_and_sizes_are_those_of_hlo();
  plm_context_destroy(context);
  return check_failures() == 0 ? 0 : 1;
}
