/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLIMSOLL_TESTS_C_API_CHECK_H_
#define PLIMSOLL_TESTS_C_API_CHECK_H_

#include <plimsoll/plimsoll.h>

/* Each prints where and why it failed, and counts; none stops the program. */
#define CHECK(condition) check_that((condition) != 0, #condition, __FILE__, __LINE__)
#define CHECK_OK(call) check_ok((call), __FILE__, __LINE__)
/* The call must fail with this code and a message that contains `part`. */
#define CHECK_FAILS(call, code, part) check_fails((call), (code), (part), __FILE__, __LINE__)
#define CHECK_VALUES(tensor, ...)                      \
  check_values((tensor), (const float[]){__VA_ARGS__}, \
               sizeof((const float[]){__VA_ARGS__}) / sizeof(float), __FILE__, __LINE__)
#define INTS(...)                             \
  ((plm_ints){(const int64_t[]){__VA_ARGS__}, \
              sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)})

void check_that(int condition, const char* text, const char* file, int line);
void check_ok(plm_status* status, const char* file, int line);
void check_fails(plm_status* status, plm_code code, const char* part, const char* file, int line);
/* Reads an f32 tensor and compares it within 1e-5. Releases it. */
void check_values(plm_tensor* tensor, const float* expected, size_t count, const char* file,
                  int line);
/* Failures so far. */
int check_failures(void);

#endif
