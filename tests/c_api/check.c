/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

int check_failures(void) { return failures; }

void check_that(int condition, const char* text, const char* file, int line) {
  if (condition) return;
  ++failures;
  fprintf(stderr, "%s:%d: not true: %s\n", file, line, text);
}

void check_ok(plm_status* status, const char* file, int line) {
  if (status == NULL) return;
  ++failures;
  fprintf(stderr, "%s:%d: %s: %s\n", file, line, plm_code_name(plm_status_code(status)),
          plm_status_message(status));
  plm_status_free(status);
}

void check_fails(plm_status* status, plm_code code, const char* part, const char* file, int line) {
  if (plm_status_code(status) != code || strstr(plm_status_message(status), part) == NULL) {
    ++failures;
    fprintf(stderr, "%s:%d: expected %s with '%s', got %s: %s\n", file, line, plm_code_name(code),
            part, plm_code_name(plm_status_code(status)), plm_status_message(status));
  }
  plm_status_free(status);
}

void check_values(plm_tensor* tensor, const float* expected, size_t count, const char* file,
                  int line) {
  if (tensor == NULL) return;
  float* values = malloc(count * sizeof *values + 1);
  plm_status* status = plm_tensor_read(tensor, values, count * sizeof *values);
  check_ok(status, file, line);
  for (size_t i = 0; i < count && status == NULL; ++i) {
    if (fabsf(values[i] - expected[i]) > 1e-5f * fmaxf(1, fabsf(expected[i]))) {
      ++failures;
      fprintf(stderr, "%s:%d: element %zu is %g, expected %g\n", file, line, i, (double)values[i],
              (double)expected[i]);
      break;
    }
  }
  free(values);
  plm_tensor_release(tensor);
}
