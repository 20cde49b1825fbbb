// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "plugins/pjrt/abi.h"

extern "C" const void* GetPjrtApi();

// The plugin's functions as a framework calls them.
namespace plimsoll::pjrt {

using namespace abi;

inline const Api& api() { return *static_cast<const Api*>(GetPjrtApi()); }

template <typename Args>
Args make() {
  Args args = {};
  args.struct_size = sizeof args;
  return args;
}

template <typename Args>
Error* call(void* function, Args& args) {
  return reinterpret_cast<Error* (*)(Args*)>(function)(&args);
}

struct Failure {
  Code code = kOk;
  std::string message;
};

// Frees the error.
inline Failure take(Error* error) {
  if (error == nullptr) return {};
  auto message = make<Error_Message_Args>();
  message.error = error;
  reinterpret_cast<void (*)(Error_Message_Args*)>(api().Error_Message)(&message);
  auto code = make<Error_GetCode_Args>();
  code.error = error;
  EXPECT_EQ(call(api().Error_GetCode, code), nullptr);
  auto payload = make<Error_ForEachPayload_Args>();
  payload.error = error;
  EXPECT_EQ(call(api().Error_ForEachPayload, payload), nullptr);
  Failure failure{code.code, std::string(message.message, message.message_size)};
  auto end = make<Error_Destroy_Args>();
  end.error = error;
  reinterpret_cast<void (*)(Error_Destroy_Args*)>(api().Error_Destroy)(&end);
  return failure;
}

#define EXPECT_PJRT_OK(function, args)                                    \
  do {                                                                    \
    const Failure failure = take(call(api().function, args));             \
    EXPECT_EQ(failure.code, kOk) << #function << ": " << failure.message; \
  } while (false)

inline void wait_and_destroy(Event* event) {
  auto await = make<Event_Await_Args>();
  await.event = event;
  EXPECT_PJRT_OK(Event_Await, await);
  auto destroy = make<Event_Destroy_Args>();
  destroy.event = event;
  EXPECT_PJRT_OK(Event_Destroy, destroy);
}

}  // namespace plimsoll::pjrt
