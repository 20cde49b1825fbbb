// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll {
namespace {

TEST(Sha256, MatchesThePublishedExamples) {
  const auto of = [](const std::string& text) { return sha256(std::as_bytes(std::span(text))); };
  EXPECT_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(of(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnThePieces) {
  const std::string text(300, 'x');
  const auto bytes = std::as_bytes(std::span(text));
  for (std::size_t cut = 0; cut <= text.size(); cut += 7) {
    Sha256 hash;
    hash.update(bytes.first(cut));
    hash.update(bytes.subspan(cut));
    EXPECT_EQ(hash.finish(), sha256(bytes));
  }
}

}  // namespace
}  // namespace plimsoll
