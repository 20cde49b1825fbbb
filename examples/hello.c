// SPDX-License-Identifier: Apache-2.0
#include <plimsoll/plimsoll.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  const char* text =
      "HloModule hello\nENTRY main {\n  x = f32[4] parameter(0)\n"
      "  ROOT y = f32[4] multiply(x, x)\n}\n";
  const float x[4] = {1, 2, 3, 4};
  float y[4];
  plm_context_options options = {.struct_size = sizeof options, .memory_limit_bytes = 1 << 20};
  plm_context* context = NULL;
  plm_executable* run = NULL;
  plm_status* status = plm_context_create(&options, &context);
  if (!status) status = plm_executable_create(context, text, strlen(text), "hello", NULL, &run);
  if (!status) status = plm_executable_run(run, (const void*[]){x}, 1, (void*[]){y}, 1);
  if (!status) printf("%g %g %g %g\n", y[0], y[1], y[2], y[3]);
  if (status) fprintf(stderr, "hello: %s\n", plm_status_message(status));
  plm_executable_destroy(run);
  plm_context_destroy(context);
  return status ? 1 : 0;
}
