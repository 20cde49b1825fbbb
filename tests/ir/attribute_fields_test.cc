// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/attribute_fields.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/cases/attribute_variants.h"

namespace plimsoll::ir {
namespace {

bool same(const Attributes& a, const Attributes& b) {
  return all_fields(a, b, [](auto, const auto& x, const auto& y) { return same_value(x, y); });
}

TEST(AttributeFields, TellApartWhateverDiffers) {
  const auto variants = cases::attribute_variants();
  EXPECT_GT(variants.size(), std::tuple_size_v<decltype(kFields<Attributes>)>);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    SCOPED_TRACE(variants[i].letter);
    EXPECT_FALSE(same(variants[i].attributes, Attributes()));
    int set = 0;
    for_each_set_field(variants[i].attributes, [&](auto, const auto&) { ++set; });
    EXPECT_EQ(set, 1);
    for (std::size_t j = 0; j < variants.size(); ++j) {
      EXPECT_EQ(same(variants[i].attributes, variants[j].attributes), i == j) << i << " " << j;
    }
  }
}

TEST(AttributeFields, HaveLettersOfTheirOwn) {
  std::set<char> letters;
  Attributes attributes;
  for_each_field(attributes, [&](auto field, const auto&) {
    if (field.letter == 0) return;
    EXPECT_TRUE(letters.insert(field.letter).second) << field.letter;
  });
}

// A type whose list of fields lacks one; for_each_field does not compile for it.
struct Forgetful {
  int kept = 0, forgotten = 0;
};

}  // namespace

template <>
inline constexpr auto kFields<Forgetful> = std::tuple(Field<&Forgetful::kept>{});
static_assert(!fields::kAreAllListed<Forgetful>);
static_assert(fields::kAreAllListed<Attributes>);

}  // namespace plimsoll::ir
