// SPDX-License-Identifier: Apache-2.0
//
// The stable C ABI of Plimsoll: tensor programs under a hard device-memory limit.
//
// Errors. Functions that can fail return `plm_status*`: NULL means success; anything else is owned
// by the caller (plm_status_free). On failure output arguments are left untouched, and the context
// and its tensors stay usable.
//
// Threads. A context and its tensors are used by one thread at a time (which thread may change;
// the caller orders the calls). Work runs on a thread of the context's own meanwhile. What may be
// called from any thread at any time says so: statuses, statistics, limits, executables.
//
// Options. Every options struct starts with `struct_size`, which the caller sets to sizeof; fields
// beyond it keep their defaults, so that old callers work with new libraries. A zeroed struct (but
// for struct_size) asks for the defaults, and a NULL pointer does too.
//
// No exception, abort, signal handler or print leaves the library.
#ifndef PLIMSOLL_PLIMSOLL_H_
#define PLIMSOLL_PLIMSOLL_H_

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define PLM_EXPORT __declspec(dllexport)
#else
#define PLM_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

// Callers may pass any number for an enum, and get an error; C++ may look at such a value only when
// the type beneath is fixed.
#ifdef __cplusplus
#define PLM_ENUM_TYPE : int
#else
#define PLM_ENUM_TYPE
#endif

// In a child that fork() makes without exec, what the parent made of the types below (contexts,
// tensors, buffers, executables, cancellations, communicators) can't be used: functions that take
// it return PLM_FAILED_PRECONDITION, those that destroy or release it do nothing, and counts of
// bytes are 0. A new context in the child works as any.

// An error. Immutable; readable from any thread; owned by whoever received it.
typedef struct plm_status plm_status;
// A trace in recording, a memory limit, and a thread that executes. One user thread at a time.
typedef struct plm_context plm_context;
// A value: an operation not run yet, host data, or device memory. Reference counted (one count is
// given with every tensor returned). Belongs to its context and keeps it alive. Same thread rule as
// the context.
typedef struct plm_tensor plm_tensor;
// An array in device memory, its bytes counted under its context's limit. Any thread may make,
// read, run with, donate and release buffers at any time. Reference counted (one count is given
// with every buffer returned). Keeps what it needs of its context alive.
typedef struct plm_buffer plm_buffer;
// A compiled program with its plans. Immutable; any number of threads may run it at once. Keeps
// what it needs of its context alive.
typedef struct plm_executable plm_executable;
// Asks runs of executables to end early. Any thread.
typedef struct plm_cancellation plm_cancellation;
// A participant's way to the others of programs and contexts: processes, or threads of this one.
// Any thread.
typedef struct plm_communicator plm_communicator;

#define PLM_VERSION_MAJOR 0
#define PLM_VERSION_MINOR 1
#define PLM_VERSION_PATCH 0

// major << 16 | minor << 8 | patch of the library in use. Any thread.
PLM_EXPORT uint32_t plm_version(void);

typedef enum plm_code PLM_ENUM_TYPE {
  PLM_OK = 0,
  PLM_CANCELLED = 1,
  PLM_UNKNOWN = 2,
  PLM_INVALID_ARGUMENT = 3,
  PLM_DEADLINE_EXCEEDED = 4,
  PLM_NOT_FOUND = 5,
  PLM_ALREADY_EXISTS = 6,
  PLM_PERMISSION_DENIED = 7,
  PLM_RESOURCE_EXHAUSTED = 8,
  PLM_FAILED_PRECONDITION = 9,
  PLM_ABORTED = 10,
  PLM_OUT_OF_RANGE = 11,
  PLM_UNIMPLEMENTED = 12,
  PLM_INTERNAL = 13,
  PLM_UNAVAILABLE = 14,
  PLM_DATA_LOSS = 15,
} plm_code;

// PLM_OK for NULL.
PLM_EXPORT plm_code plm_status_code(const plm_status* status);
// "INVALID_ARGUMENT" and so on; static.
PLM_EXPORT const char* plm_code_name(plm_code code);
// `what failed: value (limit, remedy)`; "" for NULL. Lives as long as the status.
PLM_EXPORT const char* plm_status_message(const plm_status* status);
// For PLM_RESOURCE_EXHAUSTED: the limit that was in force, the smallest that would do (0: unknown),
// and what needs it ("" when unknown). 0 and "" otherwise.
PLM_EXPORT int64_t plm_status_limit_bytes(const plm_status* status);
PLM_EXPORT int64_t plm_status_floor_bytes(const plm_status* status);
PLM_EXPORT const char* plm_status_culprit(const plm_status* status);
// Accepts NULL.
PLM_EXPORT void plm_status_free(plm_status* status);
// An error to return from a function of one's own (plm_register_custom_call); NULL for PLM_OK. The
// message is copied.
PLM_EXPORT plm_status* plm_status_create(plm_code code, const char* message);

typedef enum plm_dtype PLM_ENUM_TYPE {
  PLM_PRED = 0,  // a byte each: 0 or 1; of what callers hand over any other counts as 1
  PLM_S8 = 1,
  PLM_S16 = 2,
  PLM_S32 = 3,
  PLM_S64 = 4,
  PLM_U8 = 5,
  PLM_U16 = 6,
  PLM_U32 = 7,
  PLM_U64 = 8,
  PLM_F16 = 9,
  PLM_BF16 = 10,
  PLM_F32 = 11,
  PLM_F64 = 12,
  PLM_C64 = 13,  // complex numbers: two f32 side by side, the real part first; in programs and
                 // buffers, not in recorded operations
  PLM_C128 = 14,
  // Integers and floats of at most a byte; in programs and buffers, not in recorded operations.
  // Elements below a byte lie packed wherever there are bytes of an array: the first in the lowest
  // bits, row-major and without gaps, zeros in the bits left over at the end.
  PLM_S2 = 15,
  PLM_U2 = 16,
  PLM_S4 = 17,
  PLM_U4 = 18,
  PLM_F4E2M1FN = 19,
  PLM_F8E3M4 = 20,
  PLM_F8E4M3 = 21,
  PLM_F8E4M3FN = 22,
  PLM_F8E4M3B11FNUZ = 23,
  PLM_F8E4M3FNUZ = 24,
  PLM_F8E5M2 = 25,
  PLM_F8E5M2FNUZ = 26,
  PLM_F8E8M0FNU = 27,
} plm_dtype;

// Bytes of one element (of less than a byte: 1); 0 for a number that is no dtype. Any thread.
PLM_EXPORT size_t plm_dtype_size(plm_dtype dtype);
// Bits of one element in an array; 0 for a number that is no dtype. Any thread.
PLM_EXPORT size_t plm_dtype_bits(plm_dtype dtype);
// HLO's spelling, "f32"; "" for a number that is no dtype. Static.
PLM_EXPORT const char* plm_dtype_name(plm_dtype dtype);

// One enumerator for each row of ops.def, whose numbers they have: PLM_OP_ADD,
// PLM_OP_REDUCE_WINDOW. Semantics are those of the HLO operation of the same name. plm_op says
// which can be recorded; the others are met in programs.
typedef enum plm_opcode PLM_ENUM_TYPE {
#define PLIMSOLL_OP(number, name, text, c_name, ...) c_name = number,
#include "ops.def"
} plm_opcode;

// HLO's spelling, "dynamic-update-slice"; "" for a number that is no opcode. Static.
PLM_EXPORT const char* plm_opcode_name(plm_opcode opcode);

// How reduce, reduce-window, scatter and select-and-scatter combine two values.
typedef enum plm_reduction PLM_ENUM_TYPE {
  PLM_REDUCE_SUM = 0,
  PLM_REDUCE_PRODUCT = 1,
  PLM_REDUCE_MAX = 2,
  PLM_REDUCE_MIN = 3,
  PLM_REDUCE_AND = 4,
  PLM_REDUCE_OR = 5,
  PLM_REDUCE_REPLACE = 6,  // scatter only: the update takes the place of the old value
} plm_reduction;

typedef enum plm_comparison PLM_ENUM_TYPE {
  PLM_EQ = 0,
  PLM_NE = 1,
  PLM_GE = 2,
  PLM_GT = 3,
  PLM_LE = 4,
  PLM_LT = 5,
} plm_comparison;

// `plm_context_options::memory_limit_bytes` for no limit, whatever the environment says.
#define PLM_NO_LIMIT INT64_MAX

typedef enum plm_log_level PLM_ENUM_TYPE {
  PLM_LOG_INFO = 0,  // one line per cut: cache hit or why not, limit, peak
  PLM_LOG_WARNING = 1,
} plm_log_level;

// Called on the thread that caused the line, never concurrently for one context; must not call
// back into the context. `message` ends with no newline and lives for the call.
typedef void (*plm_log_function)(void* user, plm_log_level level, const char* message);

typedef struct plm_context_options {
  size_t struct_size;
  int64_t memory_limit_bytes;  // 0: from PLIMSOLL_MEMORY_LIMIT, else none
  const char* planner;         // "default", "greedy", "sqrt", "none"; NULL: PLIMSOLL_PLANNER, else
                               // default. Copied.
  uint64_t seed;               // of plm_random_state
  int64_t max_pending_ops;     // past it the trace is cut by itself; 0: 100,000
  plm_log_function log;        // NULL: silent
  void* log_user;
  int disable_optimization;   // nonzero: no fusion and no simplification (for comparisons)
  const char* remedies;       // what may be done with a value instead of keeping it, e.g.
                              // "recompute,compress"; NULL: PLIMSOLL_REMEDIES. Copied.
  int64_t min_size_bytes;     // smaller values are always kept; 0: PLIMSOLL_MIN_SIZE
  double planning_seconds;    // time to look for better plans in; 0: PLIMSOLL_PLANNING_SECONDS
  int64_t host_limit_bytes;   // host memory that values may be swapped to; 0: PLIMSOLL_HOST_LIMIT,
                              // else none
  const char* spill_dir;      // folder of the file that values may be swapped to; NULL:
                              // PLIMSOLL_SPILL_DIR, else none. Copied.
  int64_t spill_limit_bytes;  // of that file; 0: PLIMSOLL_SPILL_LIMIT, else what is free there
  const char* planning;       // "background": a quick plan before the first run, and a better one
                              // from a thread of low priority for later runs, with the same bits;
                              // "full": that plan before the first run, the same in every process;
                              // "first": the quick plan alone. NULL: PLIMSOLL_PLANNING, else
                              // "background". Copied.
  // What operations between participants (PLM_OP_ALL_REDUCE and its like) meet the others by; NULL:
  // there are none, and such operations are errors. Kept by the context. See plm_communicator.
  plm_communicator* communicator;
} plm_context_options;

PLM_EXPORT plm_status* plm_context_create(const plm_context_options* options, plm_context** out);
// Waits for what runs. Tensors and executables of the context keep what they need alive and stay
// valid: each is still to be released. Accepts NULL.
PLM_EXPORT void plm_context_destroy(plm_context* context);

// Any thread. A limit below what is in use succeeds; later work feels it, and the next evaluation
// or read in the context's own thread evicts what is above it. Blocks, where the limit falls, until
// the context's evaluations that were made before have run (not where there are operations between
// participants among them): they were planned under the old limit.
PLM_EXPORT plm_status* plm_context_set_limit(plm_context* context, int64_t limit_bytes);
// 0 for NULL.
PLM_EXPORT int64_t plm_context_limit(const plm_context* context);

// The device that the context works on, "cpu" or "cuda:0", and whether its memory is the host's, so
// that any thread may read it by its address. Static. "" and 0 for NULL. Any thread.
PLM_EXPORT const char* plm_context_device(const plm_context* context);
PLM_EXPORT int plm_context_is_host_memory(const plm_context* context);

// Which participant the context is among how many, by its communicator; 0 of 1 without one, and of
// NULL. Any thread.
PLM_EXPORT int64_t plm_context_participant(const plm_context* context);
PLM_EXPORT int64_t plm_context_participants(const plm_context* context);
// Bytes up to which arrays are better put into one collective than each into its own
// (PLIMSOLL_COLLECTIVE_BUCKET). 0 for NULL. Any thread.
PLM_EXPORT int64_t plm_context_collective_bucket(const plm_context* context);

// A limit as people write it, in bytes: `512MiB`, `1.5GB`, `1048576`; `80%` of the device's memory
// (of a container's, where the device's is the host's); `auto`, what is free of it now, less a
// reserve; `50%peak` of `unlimited_peak_bytes` (0: not known, and such a text an error). `what`
// names where the text comes from in messages. Any thread.
PLM_EXPORT plm_status* plm_parse_memory_limit(const char* text, const char* what,
                                              int64_t unlimited_peak_bytes, int64_t* bytes);

typedef struct plm_memory_statistics {
  size_t struct_size;
  int64_t limit_bytes;  // PLM_NO_LIMIT when there is none
  int64_t used_bytes;
  int64_t peak_bytes;  // high-water mark since creation or plm_context_reset_peak
  // Now, by what the bytes are for.
  int64_t used_parameters, used_constants, used_outputs, used_arena, used_staging;
  // At the moment of the peak.
  int64_t peak_parameters, peak_constants, peak_outputs, peak_arena, peak_staging;
  int64_t allocations;
  // Host memory and disk that values are swapped to; all zero where there is none.
  int64_t host_limit_bytes, host_used_bytes, host_peak_bytes;
  int64_t disk_limit_bytes, disk_used_bytes, disk_peak_bytes;
  int64_t swapped_out_bytes, swapped_in_bytes;  // since the context was made
  // Of the limit, what runs have reserved and do not use (yet); not in used_bytes.
  int64_t reserved_bytes;
  int64_t running_runs, waiting_runs;  // now, those of the context's own thread included
  // Since the context was made: runs that were let in, that had to wait before, and the most
  // younger ones that were let in before one that waited.
  int64_t admitted_runs, waited_runs, most_passed;
  // used_bytes again, with arenas taken apart by what their plans hold at their own peaks: the sum
  // of used_parameters, used_constants and these. Activations: outputs and values in arenas.
  // Encoded: copies that codecs have made. All_staging: used_staging, and what arenas hold of
  // uploaded parameters and of what passes on its way to another tier.
  int64_t used_activations, used_workspaces, used_encoded, used_all_staging;
  // The same at the moment of the peak.
  int64_t peak_activations, peak_workspaces, peak_encoded, peak_all_staging;
  // Machine code of compiled kernels, now and at most: on the CPU device in host memory, in no sum
  // above and under no limit.
  int64_t code_bytes, peak_code_bytes;
  // What plans of runs that succeeded did instead of keeping values, since the context was made
  // (loop bodies once): bytes of results recomputed, and of the copies that codecs made. What was
  // swapped is swapped_out_bytes.
  int64_t recomputed_bytes, encoded_bytes;
} plm_memory_statistics;

// Any thread. Fills the first `struct_size` bytes.
PLM_EXPORT plm_status* plm_context_memory(const plm_context* context, plm_memory_statistics* out);
PLM_EXPORT void plm_context_reset_peak(plm_context* context);
// For tests of embedding programs: the n-th device allocation from now fails (1: the next one);
// 0 turns it off. Any thread.
PLM_EXPORT void plm_context_fail_allocation(plm_context* context, int64_t n);

// What the last cut did and how it ran, as one JSON object: limit_bytes and available_bytes (null:
// none), floor_bytes (only after a RESOURCE_EXHAUSTED), peak_bytes, arena_bytes, live_bytes,
// host_bytes, disk_bytes,
// predicted_seconds, unlimited_seconds, lower_bound_seconds, planning_seconds, compile_seconds,
// step_seconds, recomputed_bytes, policy, steps{compute,recompute,...},
// lossy[{codec,encodes,error_bound}] (the codecs in use that change bits),
// peak_by_cause{parameters,...} (also as by_cause),
// arena_at_peak{activations,workspaces,encoded,staging},
// memory{used_bytes,peak_bytes,used{parameters,activations,...},peak{...},code_bytes,
// peak_code_bytes} (of the context, as plm_context_memory says), expected_seconds,
// expected_unlimited_seconds (by measured times), replans, trials (of two plans by whole runs),
// is_planning, is_trying (now: until neither, another plan may come), launched_kernels, launches
// (small kernels share them; loop bodies counted once), graph_runs (of this plan, that a device did
// as one launch of a graph), ops, parameters, outputs, cache ("hit" | "miss"), miss_reason, cuts,
// cache_hits, cache_misses, segments (programs the cut was run as where its inputs did not fit at
// once, else 0), evictions{evicted, stored, stored_bytes, tier_bytes, encoded, loaded, recomputed,
// recompute_seconds} (tensors of earlier cuts evicted, of these copied, to another tier (their
// bytes, and what they take there) or encoded, and restored, so far); with profiling on, also
// kernels[{name, origin, launches, recomputes, seconds, transfer_seconds, bytes}], summed over the
// runs of this plan (of transfers, `seconds` is what the run waited, and all of one that its own
// threads made). Waits for what runs. The text lives until the next call with this context.
PLM_EXPORT plm_status* plm_context_report(plm_context* context, const char** json);
// Profiling reads the clock around every step of a plan. Off by default.
PLM_EXPORT void plm_context_enable_profile(plm_context* context, int on);

// Copies `data` (dense, row-major, plm_dtype_size * product(dims) bytes) at the call. The data stay
// in host memory and are uploaded when an execution needs them; plm_eval moves them to the device.
PLM_EXPORT plm_status* plm_tensor_from_host(plm_context* context, plm_dtype dtype,
                                            const int64_t* dims, size_t rank, const void* data,
                                            plm_tensor** out);
// A rank-0 constant, converted from `value` (rounded to nearest; PLM_PRED: value != 0;
// INVALID_ARGUMENT for integers where it is no whole number or out of range). A constant that turns
// out to change from step to step costs one more compilation, then none.
PLM_EXPORT plm_status* plm_scalar(plm_context* context, plm_dtype dtype, double value,
                                  plm_tensor** out);
// The same for a value that is known to change from step to step (learning rate, step count): it
// becomes an input of the compiled step from the start.
PLM_EXPORT plm_status* plm_scalar_input(plm_context* context, plm_dtype dtype, double value,
                                        plm_tensor** out);
// A fresh u64[2] state for PLM_OP_RNG_BIT_GENERATOR: the context's seed and a counter that counts
// the calls. The same program draws the same states. An input of the compiled step.
PLM_EXPORT plm_status* plm_random_state(plm_context* context, plm_tensor** out);
// How many states were drawn, and to go on as if so many had been: with it, a run that is resumed
// draws what it would have drawn. 0 for NULL.
PLM_EXPORT uint64_t plm_random_counter(const plm_context* context);
PLM_EXPORT plm_status* plm_set_random_counter(plm_context* context, uint64_t counter);

// Questions about a tensor; of NULL the answers are 0 (PLM_PRED), NULL and "".
PLM_EXPORT plm_dtype plm_tensor_dtype(const plm_tensor* tensor);
PLM_EXPORT size_t plm_tensor_rank(const plm_tensor* tensor);
// `rank` numbers; lives until the tensor is released or assigned to.
PLM_EXPORT const int64_t* plm_tensor_dims(const plm_tensor* tensor);
PLM_EXPORT size_t plm_tensor_byte_size(const plm_tensor* tensor);
// 1 while the value has not been cut from the trace (nothing has been planned for it), else 0.
PLM_EXPORT int plm_tensor_is_pending(const plm_tensor* tensor);
PLM_EXPORT plm_context* plm_tensor_context(const plm_tensor* tensor);  // borrowed
// Grows with recording: of two tensors of a context, the value with the less was recorded first.
PLM_EXPORT uint64_t plm_tensor_sequence(const plm_tensor* tensor);
typedef enum plm_hint PLM_ENUM_TYPE {
  PLM_HINT_NONE = 0,
  PLM_HINT_KEEP = 1,       // never evicted
  PLM_HINT_RECOMPUTE = 2,  // the others: evicted before what has no hint, in this way
  PLM_HINT_COMPRESS = 3,
  PLM_HINT_SWAP = 4,
} plm_hint;

// What is to be done with a value while nobody reads it, where memory is short. It is recorded with
// the operation: set it before the value is evaluated, later it says nothing. A value with a hint
// other than PLM_HINT_RECOMPUTE stays a value of its own in memory: no fusion swallows it. Of an
// all-gather PLM_HINT_RECOMPUTE means that gradients gather it again where they read it, at the
// same place for all participants, so that it need not be kept until then.
PLM_EXPORT plm_status* plm_tensor_hint(plm_tensor* tensor, plm_hint hint);
// Marks a floating tensor as one that gradients will be taken with respect to, its present value
// and all that it is assigned (`is_variable` 0: no longer). It changes no gradient: what is
// computed from variables and then evaluated is known to be, for plm_gradient_options::unbroken.
PLM_EXPORT plm_status* plm_tensor_set_variable(plm_tensor* tensor, int is_variable);
// For messages and dumps; copied. NULL takes the name away.
PLM_EXPORT plm_status* plm_tensor_set_name(plm_tensor* tensor, const char* name);
PLM_EXPORT const char* plm_tensor_name(const plm_tensor* tensor);  // "" when none

// Accepts NULL.
PLM_EXPORT void plm_tensor_retain(plm_tensor* tensor);
// Accepts NULL. The last release frees host and device memory once nothing pending needs it.
PLM_EXPORT void plm_tensor_release(plm_tensor* tensor);
// Another tensor with the same value; later assignments to one do not touch the other.
PLM_EXPORT plm_status* plm_tensor_alias(plm_tensor* tensor, plm_tensor** out);

// A list of numbers, read during the call only.
typedef struct plm_ints {
  const int64_t* data;
  size_t size;
} plm_ints;

// Spatial lists give, per spatial dimension, its position (HLO's dim_labels).
typedef struct plm_convolution_dims {
  int64_t input_batch, input_feature;
  int64_t kernel_input_feature, kernel_output_feature;
  int64_t output_batch, output_feature;
  plm_ints input_spatial, kernel_spatial, output_spatial;
} plm_convolution_dims;

// HLO's gather dimension numbers.
typedef struct plm_gather_dims {
  plm_ints offset_dims, collapsed_slice_dims, start_index_map;
  plm_ints operand_batching_dims, start_indices_batching_dims;
  int64_t index_vector_dim;
} plm_gather_dims;

// HLO's scatter dimension numbers.
typedef struct plm_scatter_dims {
  plm_ints update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims;
  plm_ints input_batching_dims, scatter_indices_batching_dims;
  int64_t index_vector_dim;
} plm_scatter_dims;

// Each operation reads the fields it needs. Empty lists of strides and dilations are ones, of
// padding zeros.
typedef struct plm_op_attributes {
  size_t struct_size;
  // broadcast: where operand dims go in the result (HLO's). transpose: permutation. reduce,
  // reverse: the dims. concatenate, iota, sort, and row-form gather and scatter: one dim.
  plm_ints dimensions;
  // Dims of the result: broadcast, reshape, iota, rng-bit-generator (of the bits).
  plm_ints shape;
  // Result dtype: convert, bitcast-convert, iota, rng-bit-generator (of the bits).
  // dot, convolution: nonzero `use_dtype` asks for it as accumulation and result type.
  plm_dtype dtype;
  int use_dtype;
  plm_ints starts, limits, strides;  // slice
  plm_ints slice_sizes;              // dynamic-slice, gather (general form)
  // pad (low and high may be negative); low and high also of convolution, reduce-window and
  // select-and-scatter.
  plm_ints padding_low, padding_high, padding_interior;
  // convolution: sizes come from the kernel. reduce-window, select-and-scatter: one per dim.
  plm_ints window_size, window_strides, base_dilation, window_dilation;
  plm_ints window_reversal;  // 0 or 1 per dim
  // dot; all empty: the last dim of the first with the next-to-last (or only) dim of the second,
  // leading dims as batch.
  plm_ints lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
  const plm_convolution_dims* convolution;  // NULL: b01f_01io->b01f for any number of spatial dims
  int64_t feature_group_count;              // 0 is 1
  int64_t batch_group_count;                // 0 is 1
  const plm_gather_dims* gather;            // NULL: row form
  const plm_scatter_dims* scatter;          // NULL: row form
  plm_reduction reduction;    // reduce, reduce-window, scatter; select-and-scatter: of scatter
  plm_comparison comparison;  // compare; select-and-scatter: of select (there PLM_EQ
                              // is PLM_GE)
  int total_order;            // compare of floats: -0 < +0, NaN ordered; 0: IEEE
  int descending;             // sort
  int indices_are_sorted, unique_indices;  // gather, scatter
  int32_t exponent_bits, mantissa_bits;    // reduce-precision
  int64_t root;  // collective-broadcast: the participant whose value it is
  // Operations between participants: who meets whom, group after group; empty: all meet. Everybody
  // is in one group. `group_sizes` says how many are in each; empty: all in one.
  plm_ints groups, group_sizes;
} plm_op_attributes;

// Records one operation and gives its results; nothing is computed yet. `attributes` may be NULL
// for operations that read none. `out_count` is the number of results: 1, but for sort and
// operations between participants (as many as operands) and rng-bit-generator (2: next state,
// bits). INVALID_ARGUMENT names the operation and the shapes, e.g. `add: f32[2,3] and f32[4] differ
// in dims`.
//
// Recordable: all elementwise operations, iota, broadcast, reshape, transpose, convert,
// bitcast-convert, copy, slice, dynamic-slice, dynamic-update-slice, concatenate, pad, reverse,
// gather, scatter, select, compare, clamp, dot, convolution, reduce, reduce-window,
// select-and-scatter, sort, rng-bit-generator, opt-barrier (one operand), all-reduce, all-gather,
// reduce-scatter, collective-broadcast.
//
// The last four are between all participants of the context's communicator (FAILED_PRECONDITION
// without one), or between those of each of `groups`, which all participants record alike. They
// meet once for all operands of an operation; these have one dtype. Sums go over the participants
// in their order, of a group in the order in which it names them (docs/collectives.md), so that
// everybody has the same bits.
//   all-reduce            `reduction` of everybody's operand
//   reduce-scatter        the participant's own piece of that, along `dimensions[0]` (none: 0),
//                         which their number must divide; groups are of one size
//   all-gather            everybody's operand, one after the other along `dimensions[0]` (none: 0);
//                         groups are of one size
//   collective-broadcast  the operand of participant `root`; of groups: of the one that each names
//                         as its `root`-th
// Gradients are those of the sum of all participants' losses; of all-reduce and reduce-scatter only
// with PLM_REDUCE_SUM. Participants record the same operations between them in the same order, and
// cut at the same places: a cut runs its own in the order of recording, whatever its plan. What
// differs between participants must be data or plm_scalar_input, as a constant may be computed
// away. A cut with such operations that fails while it runs ends the communicator for all, with its
// error.
//
// Shorter than HLO where nothing is lost:
//   elementwise   a rank-0 operand beside an array is broadcast to it
//   pad           the padding value may be left out: zero
//   reduce, reduce-window, select-and-scatter
//                 the initial value may be left out: the reduction's identity
//   broadcast     a rank-0 operand needs no `dimensions`
//   gather        row form: result = operand with dim `dimensions[0]` replaced by the dims of the
//                 (integer) indices; scatter, row form: (operand, indices, updates), updates shaped
//                 like that gather's result
//   sort          stable, by the first operand; the others follow it
//   dynamic-slice, dynamic-update-slice
//                 one rank-0 integer start per dim after the arrays
PLM_EXPORT plm_status* plm_op(plm_context* context, plm_opcode opcode,
                              const plm_tensor* const* operands, size_t operand_count,
                              const plm_op_attributes* attributes, plm_tensor** out,
                              size_t out_count);

typedef struct plm_attention_options {
  size_t struct_size;
  double scale;            // of the products; 0: 1 / sqrt(depth)
  int causal;              // nonzero: the last query sees every key, each before it one less
  const plm_tensor* mask;  // pred, broadcast to [.., queries, keys]: which keys are seen; NULL: all
  const plm_tensor* bias;  // floating, broadcast likewise, added to the scaled products; NULL: none
} plm_attention_options;

// softmax(scale * query key^T + bias) value, softmax over the keys that are seen, for queries
// [.., queries, depth], keys [.., keys, depth] and values [.., keys, value depth] of one floating
// dtype: [.., queries, value depth]. Scores are f32 (f64 for f64). A query that sees no key gets
// the mean of all values. Depth 0 needs a scale (INVALID_ARGUMENT without one); its scores are
// equal, so the mean of the values that are seen comes out. Recorded as plain operations, which
// compilation makes one kernel of, and one of their gradient, neither of which holds the scores
// (PLIMSOLL_ATTENTION; not with f64, not where the bias has a gradient). `options` may be NULL.
PLM_EXPORT plm_status* plm_attention(plm_context* context, const plm_tensor* query,
                                     const plm_tensor* key, const plm_tensor* value,
                                     const plm_attention_options* options, plm_tensor** out);

// Loops and branches, whose parts callbacks record. A callback is called once, during the call that
// it is given to, and records operations as always, on tensors that stand for the values of a
// round: `inputs`, which it may use until it returns. It puts its results in `outputs`, a count of
// each, which the library takes: new ones, its inputs, or tensors from outside (plm_tensor_retain).
// What it reads of outside becomes part of the loop or branch by itself. It may record loops and
// branches inside itself (up to 32 deep), and gradients.
//
// Nothing is known of a value yet: whatever evaluates, reads, measures or assigns fails with
// FAILED_PRECONDITION there, as does what uses a tensor of a callback once that has returned
// (INVALID_ARGUMENT). Operations between participants are UNIMPLEMENTED there. Constants that a
// callback makes (plm_scalar) are part of the program: what changes from step to step is made
// outside, with plm_scalar_input. Dims and dtypes of a state stay as they are.
//
// An error that a callback returns is that of the call, with its code, and taken by the library.
// On any error nothing was recorded. All of it is one operation, planned as a loop or branch, with
// the same bits at every limit.
typedef plm_status* (*plm_record_function)(void* user, plm_tensor* const* inputs,
                                           size_t input_count, plm_tensor** outputs,
                                           size_t output_count);

// While `condition` (state -> pred[]) holds, which is looked at before each round: state =
// `body`(state). `out` has `count` tensors, shaped like `init`. It has a gradient where the number
// of rounds follows from constants (a counter that starts at one and is compared with one, both
// plm_scalar), else UNIMPLEMENTED when asked for.
PLM_EXPORT plm_status* plm_while(plm_context* context, plm_record_function condition,
                                 plm_record_function body, void* user,
                                 const plm_tensor* const* init, size_t count, plm_tensor** out);

// What `then_branch` makes where `predicate` (pred[]) is true, else what `else_branch` makes;
// neither has inputs, and only one of them runs. Gradients run the branch again.
PLM_EXPORT plm_status* plm_conditional(plm_context* context, const plm_tensor* predicate,
                                       plm_record_function then_branch,
                                       plm_record_function else_branch, void* user,
                                       plm_tensor** out, size_t out_count);

typedef struct plm_scan_options {
  size_t struct_size;
  int64_t length;  // rounds, where there are no `xs`; 0: as many as these have slices
  int reverse;     // nonzero: from the last slice to the first
} plm_scan_options;

// For each slice of `xs` along their first dim (of one size): (state, results) = `body`(state,
// slices), from the state `init` on. `last` gets the state after the last round, `stacked` each of
// the `stacked_count` results of all rounds, along a new first dim, in the order of the slices.
// Inputs of the body are `init_count` arrays and `xs_count` slices; its outputs the next state,
// then the results. `options` may be NULL. Gradients of all that is floating; what they need of a
// round is stacked, unless the planner recomputes it.
PLM_EXPORT plm_status* plm_scan(plm_context* context, plm_record_function body, void* user,
                                const plm_tensor* const* init, size_t init_count,
                                const plm_tensor* const* xs, size_t xs_count,
                                const plm_scan_options* options, plm_tensor** last,
                                plm_tensor** stacked, size_t stacked_count);

// The value of `tensor`, through which no gradient flows.
PLM_EXPORT plm_status* plm_stop_gradient(plm_context* context, const plm_tensor* tensor,
                                         plm_tensor** out);

// The gradients of the rank-0 floating `loss` with respect to each of `wrt`, recorded in the same
// trace. Each has the shape and dtype of its `wrt`. The path from `wrt` to `loss` must still be
// pending: a value that was evaluated is an input from then on, so take gradients before reading
// what lies between. INVALID_ARGUMENT when `loss` does not depend on one of `wrt`; UNIMPLEMENTED
// names an operation that has no gradient.
PLM_EXPORT plm_status* plm_backward(plm_context* context, const plm_tensor* loss,
                                    const plm_tensor* const* wrt, size_t wrt_count,
                                    plm_tensor** gradients);

typedef struct plm_gradient_options {
  size_t struct_size;
  int allow_unused;  // nonzero: zeros where an output does not depend on a `wrt`, no error
  int null_unused;   // nonzero: NULL there instead, and no error
  // Nonzero: FAILED_PRECONDITION where a path from an output ends at a value that was computed from
  // variables (plm_tensor_set_variable), not assigned, and evaluated, so that gradients would be
  // lost. plm_stop_gradient says that they may be.
  int unbroken;
} plm_gradient_options;

// The vector-Jacobian product: sums over outputs i of output_gradients[i] (shaped like outputs[i];
// NULL array or entry: ones) times d outputs[i] / d wrt[k].
PLM_EXPORT plm_status* plm_gradients(plm_context* context, const plm_tensor* const* outputs,
                                     const plm_tensor* const* output_gradients, size_t output_count,
                                     const plm_tensor* const* wrt, size_t wrt_count,
                                     const plm_gradient_options* options, plm_tensor** gradients);

// `variable` takes the value (same shape and dtype): what is recorded from now on sees the new one,
// what was recorded before keeps the old one. At the next cut the value is computed, and the
// variable's old memory is donated to it. Other live tensors that still need the old value are
// computed in that cut too, so release what is not needed (gradients, activations) before it.
PLM_EXPORT plm_status* plm_assign(plm_context* context, plm_tensor* variable,
                                  const plm_tensor* value);
// As plm_assign, but no cut computes the value for it: while it is pending, the variable is a
// recipe that takes no memory, and each cut that reads it computes it again. For a parameter that
// is made of what each participant has a share of (PLM_HINT_RECOMPUTE).
PLM_EXPORT plm_status* plm_assign_recipe(plm_context* context, plm_tensor* variable,
                                         const plm_tensor* value);

// Cuts the trace: plans and starts what `tensors` and all assigned variables need, and returns
// while it runs. Other pending tensors stay pending unless they need memory that this cut gives
// away. RESOURCE_EXHAUSTED (with floor and culprit) when no plan fits the limit: everything stays
// pending, and may be tried again under a higher limit. Errors of the execution itself surface at
// plm_wait or at the read of a tensor that depends on it. An execution that failed for lack of
// memory is tried again at the next use of its results. Host tensors among `tensors` move to
// device memory. At most two executions wait; a third call waits for the first of them.
PLM_EXPORT plm_status* plm_eval(plm_context* context, plm_tensor* const* tensors, size_t count);
// Cuts what assignments ask for: the end of a training step. plm_eval with no tensors.
PLM_EXPORT plm_status* plm_step(plm_context* context);

typedef struct plm_memory_needs {
  size_t struct_size;
  int64_t floor_bytes;           // the smallest limit that would do
  int64_t unlimited_peak_bytes;  // of the plan that nothing limits
} plm_memory_needs;

// What plm_eval of the same tensors would need now, the memory of other live tensors included.
// Compiles and plans; runs nothing, and everything stays pending. Zeros when nothing is to be done.
PLM_EXPORT plm_status* plm_measure(plm_context* context, plm_tensor* const* tensors, size_t count,
                                   plm_memory_needs* out);
// Waits until everything started has ended; the first error since the last wait.
PLM_EXPORT plm_status* plm_wait(plm_context* context);
// Copies the value (`bytes` must be plm_tensor_byte_size) to host memory; evaluates it first when
// it is pending, and waits for it.
PLM_EXPORT plm_status* plm_tensor_read(plm_tensor* tensor, void* destination, size_t bytes);

// The pending operations that `tensors` need, as HLO text. The text lives until the next call with
// this context.
PLM_EXPORT plm_status* plm_trace_text(plm_context* context, plm_tensor* const* tensors,
                                      size_t count, const char** text);

// Buffers. Every function of this section may be called from any thread.
//
// A buffer is pending while the run that makes it goes on, then ready or failed, for good; and
// deleted once its bytes were given away, by plm_buffer_delete or to a run: it keeps its shape.

// A copy of host data, read before the call returns. `byte_strides`: `rank` distances in bytes
// between neighbours along each dim, negative and zero ones among them; NULL: dense and row-major.
// With strides an element below a byte has a byte of its own, of which the low bits are taken.
// INVALID_ARGUMENT for strides that leave the address space.
// RESOURCE_EXHAUSTED when the limit leaves no room, also after what runs has ended.
PLM_EXPORT plm_status* plm_buffer_from_host(plm_context* context, plm_dtype dtype,
                                            const int64_t* dims, size_t rank, const void* data,
                                            const int64_t* byte_strides, plm_buffer** out);

// Where a buffer's bytes are.
typedef enum plm_memory PLM_ENUM_TYPE {
  PLM_MEMORY_DEVICE = 0,  // under the context's limit
  PLM_MEMORY_HOST = 1,    // the host's, which no limit counts: of programs that keep values there
  PLM_MEMORY_UNPINNED_HOST = 2,  // the same in pages that copies to and from GPUs are slower with
} plm_memory;
// The same copy in any memory.
PLM_EXPORT plm_status* plm_buffer_from_host_in(plm_context* context, plm_memory memory,
                                               plm_dtype dtype, const int64_t* dims, size_t rank,
                                               const void* data, const int64_t* byte_strides,
                                               plm_buffer** out);

typedef void (*plm_release_function)(void* user);
// The caller's memory itself, dense and row-major, which the caller leaves as it is until `release`
// is called: once, on any thread, when nothing uses it any more. Its bytes count under the limit
// meanwhile. Where a device can't work on it (a GPU; an address that is no multiple of
// PLM_BUFFER_ALIGNMENT; PLM_PRED with bytes that are neither 0 nor 1), it is copied, and `release`
// called before this returns. Not called when this fails.
#define PLM_BUFFER_ALIGNMENT 64
PLM_EXPORT plm_status* plm_buffer_borrow(plm_context* context, plm_dtype dtype, const int64_t* dims,
                                         size_t rank, void* data, plm_release_function release,
                                         void* user, plm_buffer** out);
// The same of memory of the context's device (on a GPU: of any library in the process that uses its
// primary context), after all the work that anybody has given the device so far. With
// `byte_strides` (NULL: dense and row-major), at an address that is no multiple of
// PLM_BUFFER_ALIGNMENT, and of PLM_PRED it is copied.
PLM_EXPORT plm_status* plm_buffer_borrow_device(plm_context* context, plm_dtype dtype,
                                                const int64_t* dims, size_t rank, void* data,
                                                const int64_t* byte_strides,
                                                plm_release_function release, void* user,
                                                plm_buffer** out);

// Accepts NULL.
PLM_EXPORT void plm_buffer_retain(plm_buffer* buffer);
// Accepts NULL. The bytes go with the last reference, after the runs that use them.
PLM_EXPORT void plm_buffer_release(plm_buffer* buffer);

// Questions about a buffer; of NULL the answers are 0 (PLM_PRED) and NULL.
PLM_EXPORT plm_dtype plm_buffer_dtype(const plm_buffer* buffer);
PLM_EXPORT size_t plm_buffer_rank(const plm_buffer* buffer);
// `rank` numbers; lives as long as the buffer.
PLM_EXPORT const int64_t* plm_buffer_dims(const plm_buffer* buffer);
PLM_EXPORT size_t plm_buffer_byte_size(const plm_buffer* buffer);
PLM_EXPORT plm_memory plm_buffer_memory(const plm_buffer* buffer);
PLM_EXPORT int plm_buffer_is_deleted(const plm_buffer* buffer);
// 0 while it is pending.
PLM_EXPORT int plm_buffer_is_ready(const plm_buffer* buffer);

// How what was waited for ended: NULL for success; else borrowed, it lives for the call. Must not
// wait for runs of the same context.
typedef void (*plm_done_function)(void* user, const plm_status* status);

// Gives the bytes up, now or when the runs that use them have ended.
PLM_EXPORT void plm_buffer_delete(plm_buffer* buffer);
// Blocks while pending. NULL: ready; else what its making failed with. FAILED_PRECONDITION when
// deleted.
PLM_EXPORT plm_status* plm_buffer_wait(plm_buffer* buffer);
// Has `done` called once the buffer is ready or failed: at once on this thread where it is, else on
// the thread that makes it. FAILED_PRECONDITION when deleted (and no call).
PLM_EXPORT plm_status* plm_buffer_when_ready(plm_buffer* buffer, plm_done_function done,
                                             void* user);
// Copies the value to host memory (`bytes` must be plm_buffer_byte_size), dense and row-major;
// waits for it.
PLM_EXPORT plm_status* plm_buffer_read(plm_buffer* buffer, void* destination, size_t bytes);

// Keeps the bytes where they are until plm_hold_release, whatever becomes of the buffer: a run that
// it is donated to takes a copy. For memory that is given to other libraries (DLPack). Waits while
// pending. `data`: the address in device memory (in host memory on the CPU device).
typedef struct plm_hold plm_hold;
PLM_EXPORT plm_status* plm_buffer_hold(plm_buffer* buffer, void** data, plm_hold** out);
// Waits for all the work that anybody has given a GPU so far. Accepts NULL.
PLM_EXPORT void plm_hold_release(plm_hold* hold);

// Where a parameter's bytes are when the program runs.
typedef enum plm_placement PLM_ENUM_TYPE {
  PLM_PLACEMENT_HOST = 0,      // uploaded inside the plan, when first needed
  PLM_PLACEMENT_RESIDENT = 1,  // device memory for the whole run, read only
  PLM_PLACEMENT_DONATED = 2,   // device memory that the run takes over: for a result, or for
                               // whatever it holds after its last use
  PLM_PLACEMENT_PROGRAM = 3,   // HOST where the program has it in host memory (JAX's memory kind
                               // `pinned_host`), DONATED where its input_output_alias or
                               // buffer_donor names the parameter, else RESIDENT
} plm_placement;

// What is said of an input of a model in ONNX, whose files may leave sizes open.
typedef struct plm_model_input {
  const char* name;  // as the model has it
  plm_dtype dtype;   // of `data`
  size_t rank;
  const int64_t* dims;
  // Its elements, dense and row-major, or NULL. They are read where a shape depends on them; such
  // an input is a constant of the executable and no parameter.
  const void* data;
} plm_model_input;

typedef struct plm_executable_options {
  size_t struct_size;
  int64_t memory_limit_bytes;  // for one run, parameters and results included; 0: the context's,
                               // as it is when a run starts
  const char* planner;         // as in plm_context_options; NULL: the context's
  // One per parameter; NULL: all as `default_placement` says.
  const plm_placement* placements;
  size_t placement_count;
  int disable_optimization;         // nonzero: run the module as written
  plm_placement default_placement;  // 0: PLM_PLACEMENT_HOST. With PROGRAM, results that the program
                                    // has in host memory are returned there, too.
  int64_t replicas, partitions;     // that run the program together; 0: as it says
  // Of a program whose participants are processes: this process runs participant
  // plm_communicator_rank. Kept by the executable; runs of all that share it go one at a time, and
  // must be the same, in the same order, in every process. NULL: this process runs all.
  plm_communicator* communicator;
  // How partitions hold each parameter, as HLO text says it ("{devices=[4,1]<=[4]}": rows in four
  // tiles), of a program whose arrays are whole: each partition gets its tile and computes what
  // goes along with it. NULL entries: as the program says, or everybody has all of it. NULL: none.
  const char* const* shardings;
  size_t sharding_count;  // as many as parameters
  // Of a model in ONNX: inputs whose sizes it leaves open, or whose values decide shapes. NULL:
  // none.
  const plm_model_input* inputs;
  size_t input_count;
} plm_executable_options;

typedef struct plm_communicator_options {
  size_t struct_size;
  int64_t rank;            // this process, from 0 on; below zero: RANK
  int64_t world_size;      // processes; 0: WORLD_SIZE
  const char* rendezvous;  // tcp://HOST:PORT, where rank 0 listens, or file:///FOLDER that all
                           // share; NULL: PLIMSOLL_RENDEZVOUS, else MASTER_ADDR and MASTER_PORT
  double timeout_seconds;  // of connecting and of every wait; 0: PLIMSOLL_COLLECTIVE_TIMEOUT
  // "gloo": over TCP; "nccl": on the GPU that PLIMSOLL_DEVICE names, which contexts work on. NULL:
  // PLIMSOLL_COMMUNICATOR, else "gloo". The same for all.
  const char* communicator;
} plm_communicator_options;

// For `count` participants in this process, each with a context of its own that a thread of its own
// uses: `out` receives one communicator each, in their order. They read each other's memory.
PLM_EXPORT plm_status* plm_communicator_create_local(size_t count, plm_communicator** out);
// Connects to all other processes and waits for them. NULL options: all by the environment, as
// launchers set it. INVALID_ARGUMENT names what is missing; DEADLINE_EXCEEDED who has not come;
// with "nccl" FAILED_PRECONDITION a device that is no GPU, NOT_FOUND a library that is not there.
PLM_EXPORT plm_status* plm_communicator_connect(const plm_communicator_options* options,
                                                plm_communicator** out);
// 0 and 1 of NULL.
PLM_EXPORT int64_t plm_communicator_rank(const plm_communicator* communicator);
PLM_EXPORT int64_t plm_communicator_size(const plm_communicator* communicator);
// This participant comes to no more collectives: those that wait for it get an error, or, where
// `code` is not PLM_OK, all others do, wherever they wait, with that code and message (NULL: none).
// Waits for the one that it is in.
PLM_EXPORT void plm_communicator_leave(plm_communicator* communicator, plm_code code,
                                       const char* message);
// The handle. Executables and contexts that use it go on; with the last of these, this participant
// leaves. Accepts NULL.
PLM_EXPORT void plm_communicator_destroy(plm_communicator* communicator);

// Files of arrays with names: safetensors and NumPy's .npz. No context, any thread.
//
// An open file. Arrays of safetensors are the file's own pages, read when they are looked at;
// replace such a file by renaming another, as plm_write_arrays does, but don't change it. Those of
// .npz are copies. Immutable.
typedef struct plm_array_file plm_array_file;
typedef struct plm_array {
  const char* name;
  plm_dtype dtype;
  size_t rank;
  const int64_t* dims;
  size_t byte_size;
  const void* data;  // dense and row-major, at any address
} plm_array;

// Told apart by their bytes. NOT_FOUND, or INVALID_ARGUMENT that names the path and the array:
// every length, offset and size has been checked when this succeeds.
PLM_EXPORT plm_status* plm_array_file_open(const char* path, plm_array_file** out);
// Its arrays' pointers are of no use afterwards. Accepts NULL.
PLM_EXPORT void plm_array_file_close(plm_array_file* file);
// 0 for NULL.
PLM_EXPORT size_t plm_array_file_count(const plm_array_file* file);
// Pointers in `out` live until the file is closed. By place, in the file's order; or by name
// (NOT_FOUND).
PLM_EXPORT plm_status* plm_array_file_get(const plm_array_file* file, size_t index, plm_array* out);
PLM_EXPORT plm_status* plm_array_file_find(const plm_array_file* file, const char* name,
                                           plm_array* out);
// What safetensors say of the file beside its arrays; NULL where the key is missing. Lives until
// the file is closed.
PLM_EXPORT const char* plm_array_file_metadata(const plm_array_file* file, const char* key);
// Makes `path` a file of these arrays, or leaves it as it was, also where the process ends
// meanwhile: .npz where it ends so, else safetensors, with the metadata keys[i] = values[i].
// INVALID_ARGUMENT for a name that is there twice and what the format can't say (a dtype; metadata
// in .npz); UNAVAILABLE where the disk is full or the folder can't be written.
PLM_EXPORT plm_status* plm_write_arrays(const char* path, const plm_array* arrays, size_t count,
                                        const char* const* keys, const char* const* values,
                                        size_t metadata_count);

// Functions of one's own, which programs call by name (HLO's custom-call, `custom_call_target`).
typedef struct plm_call_array {
  plm_dtype dtype;
  size_t rank;
  const int64_t* dims;  // dense and row-major; complex arrays are their parts, in a last dim of two
  size_t byte_size;
} plm_call_array;

// Lives for one call. Arrays of tuples come one by one, depth first. Memory is the device's: the
// host's on the CPU device. Outputs are written whole; they overlap nothing.
typedef struct plm_call_arguments {
  size_t struct_size;
  const void* const* inputs;
  const plm_call_array* input_arrays;
  size_t input_count;
  void* const* outputs;
  const plm_call_array* output_arrays;
  size_t output_count;
  const char* config;  // the call's backend_config, without quotes; "" where it has none
} plm_call_arguments;

// Returns NULL for success, else an error for the run (plm_status_create). Called by any thread, at
// once by several, and again where its results are recomputed: equal inputs must give equal bits.
typedef plm_status* (*plm_call_function)(void* user, const plm_call_arguments* arguments);

// Makes `function` what calls of `target` run, in programs that are created from here on, in the
// whole process and for its life. It goes before a function of the library's own by that name.
// ALREADY_EXISTS for a name that is registered. Any thread.
PLM_EXPORT plm_status* plm_register_custom_call(const char* target, plm_call_function function,
                                                void* user);

// Any thread may create executables, also while others use the context.
//
// Compiles a program: HLO text, a serialized HloModuleProto (or what XLA dumps around one), a
// portable StableHLO artifact as jax.export writes it, or a model in ONNX, told apart by their
// bytes. INVALID_ARGUMENT of text starts with `source:line:column: `; RESOURCE_EXHAUSTED tells the
// floor. Parameters and results that are tuples are numbered by their array leaves, depth first.
PLM_EXPORT plm_status* plm_executable_create(plm_context* context, const char* text,
                                             size_t text_size, const char* source_name,
                                             const plm_executable_options* options,
                                             plm_executable** out);
// The same from a file. A model's external data is read from files below its folder.
PLM_EXPORT plm_status* plm_executable_load(plm_context* context, const char* path,
                                           const plm_executable_options* options,
                                           plm_executable** out);
// Whether a program can be read, without compiling it: what plm_executable_create would fail with
// before it compiles. `inputs` as in plm_executable_options. No context; any thread.
PLM_EXPORT plm_status* plm_program_check(const char* text, size_t text_size,
                                         const char* source_name, const plm_model_input* inputs,
                                         size_t input_count);
// A program of several participants: an executable for each, in a context of its own, whose limit
// is that participant's. Participant i is partition i % partitions of replica i / partitions; `out`
// receives `count` executables, for as many contexts, which must be all participants. Compiled
// once. Of programs whose arrays are whole (as JAX exports them), parameters and results are what
// one partition has of them.
PLM_EXPORT plm_status* plm_executable_create_together(plm_context* const* contexts, size_t count,
                                                      const char* text, size_t text_size,
                                                      const char* source_name,
                                                      const plm_executable_options* options,
                                                      plm_executable** out);
// Waits for no one: call it when no thread runs it, on the thread that uses the context when
// parameters are bound. Accepts NULL.
PLM_EXPORT void plm_executable_destroy(plm_executable* executable);

// The rest of this section may be called from any thread.

#define PLM_MAX_RANK 10
typedef struct plm_value_info {
  size_t struct_size;
  plm_dtype dtype;
  size_t rank;
  int64_t dims[PLM_MAX_RANK];
  size_t byte_size;
  const char* name;           // lives as long as the executable; a result's is that of the
                              // instruction that the root tuple holds, as `plimsoll run` says it
  int64_t aliased_parameter;  // of a result: the parameter whose donated memory it is returned in,
                              // by the plan that was made first; -1: none
  const char* sharding;       // how the partitions of a program hold the array of which this is a
                              // part, as HLO text says it ("{devices=[2,1]0,1}"); "": not said
  plm_memory memory;          // where it is passed or returned
} plm_value_info;

// Questions of NULL answer 0 or "".
PLM_EXPORT size_t plm_executable_parameter_count(const plm_executable* executable);
PLM_EXPORT size_t plm_executable_result_count(const plm_executable* executable);
PLM_EXPORT plm_status* plm_executable_parameter(const plm_executable* executable, size_t index,
                                                plm_value_info* out);
PLM_EXPORT plm_status* plm_executable_result(const plm_executable* executable, size_t index,
                                             plm_value_info* out);
// The module's name. Lives as long as the executable.
PLM_EXPORT const char* plm_executable_name(const plm_executable* executable);
// The smallest limit that a plan exists for; found when first asked for.
PLM_EXPORT plm_status* plm_executable_floor(const plm_executable* executable, int64_t* bytes);
// Peak device bytes of a run that has all the memory that the limits allowed when the executable
// was made: parameters, constants, results and arena.
PLM_EXPORT int64_t plm_executable_peak(const plm_executable* executable);
// The plan as a JSON object (the fields of plm_context_report that concern a plan). Lives as long
// as the executable.
PLM_EXPORT const char* plm_executable_summary(const plm_executable* executable);

// Makes `tensor` (evaluated first when pending) the value of a parameter placed RESIDENT for all
// later runs, e.g. a weight shared by all requests. Not while another thread runs the executable;
// on the thread that uses the tensor's context.
PLM_EXPORT plm_status* plm_executable_bind(plm_executable* executable, size_t parameter,
                                           plm_tensor* tensor);
typedef struct plm_run_options {
  size_t struct_size;
  // From the call on, waiting and running together: DEADLINE_EXCEEDED when it is over; 0: none.
  double deadline_seconds;
  plm_cancellation* cancellation;  // CANCELLED once it is cancelled; NULL: never
  int dont_wait;                   // nonzero: RESOURCE_EXHAUSTED where no plan fits at once
} plm_run_options;

// Runs once on host buffers: one dense row-major buffer per parameter (ignored and may be NULL for
// bound ones) and per result (NULL: not wanted). Returns when the results are there; on an error,
// CANCELLED among them, nothing has been written to them.
//
// All that a run takes of device memory is reserved at once, before it starts: by the fastest plan
// that fits into what is free at that moment. While none fits it waits for other runs to end, and
// holds nothing. Runs that wait are served in the order in which they came, but one for which there
// is room may go before older ones that there is none for; no run is passed more than 16 times.
// RESOURCE_EXHAUSTED at once, with the limit that would do, when not even the plan for the least
// memory would fit if all other runs had ended. A limit that is changed meanwhile counts for runs
// that have not started.
PLM_EXPORT plm_status* plm_executable_run(const plm_executable* executable,
                                          const void* const* parameters, size_t parameter_count,
                                          void* const* results, size_t result_count);
// The same, with a deadline or a way to end it early: looked at while it waits and before every
// step of its plan, loop bodies included (one that is planning or inside a kernel goes on until
// that is done), and while it waits for other participants, which then get an error that names it;
// a communicator is of no use afterwards.
PLM_EXPORT plm_status* plm_executable_run_with(const plm_executable* executable,
                                               const void* const* parameters,
                                               size_t parameter_count, void* const* results,
                                               size_t result_count, const plm_run_options* options);
// Runs once on tensors of the executable's context (evaluated first when pending) and gives new
// tensors. On the thread that uses the context. Entries of bound parameters may be NULL.
PLM_EXPORT plm_status* plm_executable_run_tensors(const plm_executable* executable,
                                                  plm_tensor* const* parameters,
                                                  size_t parameter_count, plm_tensor** results,
                                                  size_t result_count);

PLM_EXPORT plm_status* plm_executable_run_tensors_with(const plm_executable* executable,
                                                       plm_tensor* const* parameters,
                                                       size_t parameter_count, plm_tensor** results,
                                                       size_t result_count,
                                                       const plm_run_options* options);

// Runs once on buffers of the executable's context, and gives new buffers: `results` receives one
// reference each. Parameters may be pending; they are used where they are, without copies, but for
// those in host memory, which are uploaded. A parameter placed HOST takes a buffer in host memory,
// or in device memory that is the host's. Buffers of donated parameters are deleted by the call,
// whatever becomes of the run; their memory becomes a result's or is freed, unless somebody else
// still uses or holds it, or it was borrowed: then the run works on a copy. Any thread; at once as
// many as like.
//
// INVALID_ARGUMENT (a shape, another context's buffer, one that is donated and passed twice) and
// FAILED_PRECONDITION (a deleted buffer, a GPU's memory for a parameter placed HOST) delete nothing
// and give nothing.
// What the run itself fails with comes from this call when it is synchronous, and from whatever
// uses the results otherwise; parameters that failed fail the run.
typedef enum plm_run_mode PLM_ENUM_TYPE {
  PLM_RUN_SYNCHRONOUS = 0,   // returns when the results are ready
  PLM_RUN_ASYNCHRONOUS = 1,  // returns at once, or once the runs before it have ended where there
                             // is no room for it beside them; one context's go in the calls' order
  PLM_RUN_AUTOMATIC = 2,     // as SYNCHRONOUS where nothing has to be waited for and the run is
                             // expected to take less than handing it over pays for (errors come by
                             // the results all the same), else as ASYNCHRONOUS
} plm_run_mode;

typedef struct plm_buffer_run_options {
  size_t struct_size;
  plm_run_options run;  // its own struct_size is not looked at: zeros are the defaults
  plm_run_mode mode;
  const unsigned char* keep;  // one per parameter; nonzero: donated in name only, the buffer stays
                              // and is copied for the run; NULL: none
  plm_done_function done;     // called once the run has ended, after its results are ready or
                              // failed, on the thread that ran it; NULL: nobody is told
  void* done_user;
} plm_buffer_run_options;

PLM_EXPORT plm_status* plm_executable_run_buffers(const plm_executable* executable,
                                                  plm_buffer* const* parameters,
                                                  size_t parameter_count, plm_buffer** results,
                                                  size_t result_count,
                                                  const plm_buffer_run_options* options);

// The same for all executables of plm_executable_create_together, in their order: `parameters[i]`
// and `results[i]` are participant i's. Asynchronous runs go in one order in all contexts;
// AUTOMATIC is as ASYNCHRONOUS. `keep` and the deadline hold for all. Where one participant fails,
// all of them do, with its error; `done` is called once, after the last.
PLM_EXPORT plm_status* plm_executable_run_buffers_together(
    const plm_executable* const* executables, size_t count, plm_buffer* const* const* parameters,
    size_t parameter_count, plm_buffer** const* results, size_t result_count,
    const plm_buffer_run_options* options);

PLM_EXPORT plm_status* plm_cancellation_create(plm_cancellation** out);
// Runs that use it, now or later, end with CANCELLED, unless they are done. May be called often.
PLM_EXPORT void plm_cancellation_cancel(plm_cancellation* cancellation);
// Runs that use it go on, and can no longer be cancelled. Accepts NULL.
PLM_EXPORT void plm_cancellation_destroy(plm_cancellation* cancellation);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // PLIMSOLL_PLIMSOLL_H_
