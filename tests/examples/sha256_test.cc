// SPDX-License-Identifier: Apache-2.0
#include "examples/training/sha256.h"

#include <gtest/gtest.h>

namespace plimsoll::examples {
namespace {

std::string sha256_of(const std::string& text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.finish();
}

TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheBytesArrive) {
  const std::string text(1000, 'x');
  Sha256 hash;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t take = std::min<std::size_t>(at % 130 + 1, text.size() - at);
    hash.update(text.data() + at, take);
    at += take;
  }
  EXPECT_EQ(hash.finish(), sha256_of(text));
}

}  // namespace
}  // namespace plimsoll::examples
