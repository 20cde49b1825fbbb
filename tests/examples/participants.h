// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "plimsoll/plimsoll.hpp"

namespace plimsoll::examples {

// Runs `body` by `count` participants, threads of this process with a context each, which is the
// current one, by `options_of`. Who throws leaves with the error. Gives the messages, by
// participant; empty for those that ended well.
inline std::vector<std::string> run_participants(
    std::size_t count, const std::function<void(std::int64_t participant)>& body,
    const std::function<ContextOptions(std::int64_t participant)>& options_of = {}) {
  std::vector<Communicator> communicators = Communicator::local(count);
  std::vector<std::string> messages(count);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        ContextOptions own;
        if (options_of) own = options_of(static_cast<std::int64_t>(i));
        own.communicator = communicators[i];
        const Context context(own);
        const ContextScope scope(context);
        body(static_cast<std::int64_t>(i));
      } catch (const Error& error) {
        messages[i] = error.message();
        communicators[i].leave(error);
      }
      communicators[i].leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return messages;
}

inline ::testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << text << "' does not contain '" << part << "'";
}

// Of what run_participants gave.
inline ::testing::AssertionResult ended_well(const std::vector<std::string>& messages) {
  for (const std::string& message : messages) {
    if (!message.empty()) return ::testing::AssertionFailure() << message;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace plimsoll::examples
