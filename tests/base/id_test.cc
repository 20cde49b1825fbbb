// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/id.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <unordered_set>
#include <vector>

namespace plimsoll {
namespace {

using ShipId = Id<struct ShipTag>;
using PortId = Id<struct PortTag>;
using Names = IdVector<ShipId, std::string>;

// What compiles for these operands.
template <typename A, typename B>
concept Comparable = requires(A a, B b) { a == b; } || requires(A a, B b) { a < b; };
template <typename A, typename B>
concept Subtractable = requires(A a, B b) { a - b; };
template <typename Vector, typename Index>
concept Indexable = requires(Vector vector, Index index) { vector[index]; };

static_assert(Comparable<ShipId, ShipId> && !Comparable<ShipId, PortId>);
static_assert(!Comparable<ShipId, std::size_t> && !Comparable<std::int32_t, ShipId>);
static_assert(Subtractable<ShipId, ShipId> && !Subtractable<ShipId, PortId>);
static_assert(Indexable<Names, ShipId> && !Indexable<Names, PortId>);
static_assert(!Indexable<Names, int> && !Indexable<Names, std::size_t>);
static_assert(Indexable<Rows<ShipId, PortId>, ShipId> && !Indexable<Rows<ShipId, PortId>, PortId>);
static_assert(!std::is_constructible_v<ShipId, PortId> && !std::is_convertible_v<int, ShipId>);
static_assert(!std::is_convertible_v<ShipId, int> && !std::is_assignable_v<ShipId&, PortId>);
static_assert(sizeof(ShipId) == sizeof(std::int32_t) && std::is_trivially_copyable_v<ShipId>);

TEST(Id, ByDefaultIsThatOfNone) {
  constexpr ShipId none;
  static_assert(none < 0 && !(none >= 0) && none.value() == -1);
  static_assert(ShipId(0) >= 0 && none < ShipId(0));
}

TEST(Id, CountsOn) {
  ShipId id(3);
  EXPECT_EQ((id + 2).value(), 5);
  EXPECT_EQ(ShipId(7) - id, 4);
  EXPECT_EQ((id++).value(), 3);
  EXPECT_EQ((--id).value(), 3);
  EXPECT_TRUE(std::unordered_set<ShipId>({id, ShipId(4)}).contains(ShipId(4)));
}

TEST(IdVector, GivesTheIdOfWhatIsAppended) {
  Names names;
  EXPECT_EQ(names.push_back("Argo"), ShipId(0));
  EXPECT_EQ(names.push_back("Beagle"), ShipId(1));
  EXPECT_EQ(names[ShipId(1)], "Beagle");
  EXPECT_EQ(names.end_id(), ShipId(2));
  std::string all;
  for (const ShipId ship : names.ids()) all += names[ship] + " ";
  EXPECT_EQ(all, "Argo Beagle ");
}

TEST(Rows, InvertListsTheRowsOfEachItem) {
  Rows<ShipId, PortId> calls;
  calls.push_row(std::vector{PortId(1), PortId(0)});
  calls.push_row({});
  calls.push_row(std::vector{PortId(1)});
  calls.extend(PortId(2));
  ASSERT_EQ(calls[ShipId(2)].size(), 2u);
  const Rows<PortId, ShipId> visitors = invert(calls, 4);
  ASSERT_EQ(visitors.size(), 4);
  const auto of = [&](int port) {
    const auto row = visitors[PortId(port)];
    return std::vector<ShipId>(row.begin(), row.end());
  };
  EXPECT_EQ(of(0), std::vector{ShipId(0)});
  EXPECT_EQ(of(1), (std::vector{ShipId(0), ShipId(2)}));
  EXPECT_EQ(of(2), std::vector{ShipId(2)});
  EXPECT_TRUE(of(3).empty());
}

}  // namespace
}  // namespace plimsoll
