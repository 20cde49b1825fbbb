// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/sharding.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <optional>

#include "runtime/base/index.h"

namespace plimsoll::ir {
namespace {

// Reads a sharding's text from the front.
class Text {
 public:
  explicit Text(std::string_view text) : rest_(text) {}

  bool take(std::string_view word) {
    skip_spaces();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool at_end() {
    skip_spaces();
    return rest_.empty();
  }
  std::optional<std::int64_t> number() {
    skip_spaces();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  // Numbers with commas between, as far as they go.
  std::vector<std::int64_t> numbers() {
    std::vector<std::int64_t> list;
    do {
      const auto one = number();
      if (!one) break;
      list.push_back(*one);
    } while (take(","));
    return list;
  }
  // Up to the brace that closes what is open, without it; nothing where none does.
  std::optional<std::string_view> braced() {
    int depth = 1;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      if (rest_[i] == '{') ++depth;
      if (rest_[i] == '}' && --depth == 0) {
        const std::string_view inside = rest_.substr(0, i);
        rest_.remove_prefix(i + 1);
        return inside;
      }
    }
    return std::nullopt;
  }

 private:
  void skip_spaces() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  std::string_view rest_;
};

Status no_sharding(std::string_view text) {
  return invalid_argument(fmt::format("'{}' is no sharding of this array", text));
}

// Of holders by tile and then by the dimensions `behind`, of which some are of summands: those
// first.
void order_holders(Sharding& sharding, std::span<const std::int64_t> behind,
                   const std::vector<bool>& summed) {
  for (std::size_t i = 0; i < behind.size(); ++i) {
    sharding.copies *= behind[i];
    if (summed[i]) sharding.summands *= behind[i];
  }
  if (sharding.summands == 1) return;
  const std::vector<std::int64_t> given = sharding.holders;
  const std::int64_t each = sharding.copies / sharding.summands;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(given.size()); ++i) {
    std::int64_t rest = i % sharding.copies, summand = 0, copy = 0, summands = 1, copies = 1;
    for (std::size_t d = behind.size(); d-- > 0; rest /= behind[d]) {
      std::int64_t& place = summed[d] ? summand : copy;
      std::int64_t& count = summed[d] ? summands : copies;
      place += rest % behind[d] * count;
      count *= behind[d];
    }
    const std::int64_t tile = i / sharding.copies;
    sharding.holders[at(tile * sharding.copies + summand * each + copy)] = given[at(i)];
  }
}

// `[2,1,2]<=[4]T(1,0)` or `[2,1,2]0,1,2,3`.
Result<Sharding> parse_tiles(Text& text, std::string_view whole, int rank,
                             std::int64_t partitions) {
  if (!text.take("[")) return no_sharding(whole);
  Sharding made;
  made.tiles = text.numbers();
  if (!text.take("]")) return no_sharding(whole);
  std::int64_t count = 1;
  for (const std::int64_t size : made.tiles) {
    if (size < 1 || size > std::numeric_limits<std::int64_t>::max() / count) {
      return no_sharding(whole);
    }
    count *= size;
  }
  if (count != partitions) {
    return invalid_argument(
        fmt::format("'{}' is for {} partitions, and the program has {}", whole, count, partitions));
  }
  if (static_cast<std::int64_t>(made.tiles.size()) < rank) {
    return invalid_argument(fmt::format("'{}' cuts {} dimensions, and the array has {}", whole,
                                        made.tiles.size(), rank));
  }
  if (text.take("<=")) {
    std::vector<std::int64_t> order;
    if (!text.take("[")) return no_sharding(whole);
    const std::vector<std::int64_t> sizes = text.numbers();
    if (!text.take("]")) return no_sharding(whole);
    if (text.take("T")) {
      if (!text.take("(")) return no_sharding(whole);
      order = text.numbers();
      if (!text.take(")")) return no_sharding(whole);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(made.holders, iota_participants(sizes, order));
  } else {
    made.holders = text.numbers();
  }
  std::vector<bool> summed;  // of the dimensions behind the array's own
  if (text.take("last_tile_dims=")) {
    const auto kinds = text.take("{") ? text.braced() : std::nullopt;
    if (!kinds) return no_sharding(whole);
    for (std::string_view rest = *kinds; !rest.empty();) {
      const std::size_t end = std::min(rest.find(','), rest.size());
      summed.push_back(rest.substr(0, end).find("unreduced") != std::string_view::npos);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  } else {
    (void)text.take("last_tile_dim_replicate");
  }
  std::vector<std::int64_t> sorted = made.holders;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::int64_t> all(at(partitions));
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) return no_sharding(whole);
  std::vector<std::int64_t> behind(made.tiles.begin() + rank, made.tiles.end());
  summed.resize(behind.size(), false);
  made.tiles.resize(at(rank));
  order_holders(made, behind, summed);
  if (made.copies == partitions && made.summands == 1) return Sharding();
  return made;
}

}  // namespace

std::vector<std::int64_t> Sharding::tile_of_partition(std::int64_t partitions) const {
  std::vector<std::int64_t> tiles_of(at(partitions), 0);
  for (std::size_t i = 0; i < holders.size(); ++i) {
    tiles_of[at(holders[i])] = static_cast<std::int64_t>(i) / copies;
  }
  return tiles_of;
}

std::vector<std::int64_t> Sharding::place_of_tile(std::int64_t tile) const {
  std::vector<std::int64_t> place(tiles.size());
  for (std::size_t d = place.size(); d-- > 0;) {
    place[d] = tile % tiles[d];
    tile /= tiles[d];
  }
  return place;
}

std::vector<std::int64_t> Sharding::copy_of_partition(std::int64_t partitions) const {
  std::vector<std::int64_t> copy_of(at(partitions), 0);
  for (std::size_t i = 0; i < holders.size(); ++i) {
    copy_of[at(holders[i])] = static_cast<std::int64_t>(i) % copies;
  }
  return copy_of;
}

std::vector<std::int64_t> Sharding::summand_of_partition(std::int64_t partitions) const {
  std::vector<std::int64_t> of = copy_of_partition(partitions);
  for (std::int64_t& one : of) one /= copies / summands;
  return of;
}

Sharding Sharding::summed() const {
  const bool is_cut =
      std::any_of(tiles.begin(), tiles.end(), [](std::int64_t count) { return count > 1; });
  if (!is_cut) return Sharding();
  Sharding made = *this;
  made.summands = 1;
  return made;
}

Result<Sharding> parse_sharding(std::string_view text, int rank, std::int64_t partitions) {
  Text from(text);
  if (!from.take("{")) return no_sharding(text);
  const auto inside = from.braced();
  if (!inside || !from.at_end()) return no_sharding(text);
  Text of(*inside);
  Sharding made;
  if (of.take("devices=")) {
    PLIMSOLL_ASSIGN_OR_RETURN(made, parse_tiles(of, text, rank, partitions));
  } else if (of.take("maximal")) {
    if (!of.take("device=") || !of.number()) return no_sharding(text);
  } else if (of.take("unknown")) {
    made.is_unknown = true;
  } else if (of.take("unreduced")) {
    made.tiles.assign(at(rank), 1);
    made.copies = made.summands = partitions;
    made.holders.resize(at(partitions));
    std::iota(made.holders.begin(), made.holders.end(), 0);
  } else if (!of.take("replicated") && !of.take("manual")) {
    return no_sharding(text);
  }
  if (of.take("metadata=")) {
    if (!of.take("{") || !of.braced()) return no_sharding(text);
  }
  if (!of.at_end()) return no_sharding(text);
  return made;
}

Result<std::vector<Sharding>> parse_shardings(std::string_view text, std::span<const int> ranks,
                                              std::int64_t partitions) {
  std::vector<Sharding> made;
  Text from(text);
  if (!from.take("{")) return no_sharding(text);
  if (!from.take("{")) {
    for (const int rank : ranks) {
      PLIMSOLL_ASSIGN_OR_RETURN(Sharding one, parse_sharding(text, rank, partitions));
      made.push_back(std::move(one));
    }
    return made;
  }
  do {
    const auto inside = from.braced();
    if (!inside || made.size() == ranks.size()) return no_sharding(text);
    PLIMSOLL_ASSIGN_OR_RETURN(Sharding one, parse_sharding(fmt::format("{{{}}}", *inside),
                                                           ranks[made.size()], partitions));
    made.push_back(std::move(one));
  } while (from.take(",") && from.take("{"));
  if (!from.take("}") || made.size() != ranks.size()) return no_sharding(text);
  return made;
}

// The participants that differ in the parts alone hold the tiles, in the parts' order, and of each
// the summands; each group of them is a copy.
Result<Sharding> mesh_sharding(std::span<const std::int64_t> sizes,
                               std::span<const std::vector<MeshAxisPart>> dimensions,
                               std::span<const std::int64_t> participants,
                               std::span<const MeshAxisPart> unreduced) {
  std::vector<MeshAxisPart> parts;
  // How many differ in these.
  const auto take = [&](std::span<const MeshAxisPart> some) -> Result<std::int64_t> {
    std::int64_t count = 1;
    for (const MeshAxisPart& part : some) {
      if (part.axis < 0 || part.axis >= static_cast<std::int64_t>(sizes.size())) {
        return invalid_argument("a sharding by an axis that the mesh has not");
      }
      count *= part.size == 0 ? sizes[at(part.axis)] : part.size;
      parts.push_back(part);
    }
    return count;
  };
  Sharding made;
  for (const auto& dimension : dimensions) {
    PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t tiles, take(dimension));
    made.tiles.push_back(tiles);
  }
  PLIMSOLL_ASSIGN_OR_RETURN(made.summands, take(unreduced));
  if (parts.empty()) return Sharding();
  PLIMSOLL_ASSIGN_OR_RETURN(const ReplicaGroups groups, mesh_groups(sizes, parts, participants));
  if (groups.empty() || groups[0].size() <= 1) return Sharding();
  made.copies = static_cast<std::int64_t>(groups.size()) * made.summands;
  for (std::size_t one = 0; one < groups[0].size(); ++one) {
    for (const auto& group : groups) made.holders.push_back(group[one]);
  }
  return made;
}

std::string to_string(const Sharding& sharding) {
  if (sharding.is_replicated()) return "{replicated}";
  std::vector<std::int64_t> tiles = sharding.tiles;
  std::string_view last = sharding.copies > 1 ? " last_tile_dim_replicate" : "";
  if (sharding.is_summed()) {
    tiles.push_back(sharding.summands);
    last = " last_tile_dims={unreduced}";
  }
  if (sharding.copies > sharding.summands) {
    tiles.push_back(sharding.copies / sharding.summands);
    if (sharding.is_summed()) last = " last_tile_dims={unreduced, replicated}";
  }
  return fmt::format("{{devices=[{}]{}{}}}", fmt::join(tiles, ","),
                     fmt::join(sharding.holders, ","), last);
}

Result<Shape> tile_shape(const Shape& whole, const Sharding& sharding) {
  if (sharding.is_replicated()) return whole;
  if (!whole.is_array() || at(whole.rank()) != sharding.tiles.size()) {
    return invalid_argument(
        fmt::format("{} has no tiles by {}", whole.to_string(), to_string(sharding)));
  }
  Dims dims = whole.dims();
  for (int i = 0; i < whole.rank(); ++i) {
    const std::int64_t tiles = sharding.tiles[at(i)];
    dims[i] = (dims[i] + tiles - 1) / tiles;
  }
  return Shape(whole.dtype(), dims);
}

bool is_even(std::int64_t size, const Sharding& sharding, int dimension) {
  return sharding.tiles.empty() || size % sharding.tiles[at(dimension)] == 0;
}

Result<Shape> whole_shape(const Shape& tile, const Sharding& sharding) {
  if (sharding.is_replicated()) return tile;
  if (!tile.is_array() || at(tile.rank()) != sharding.tiles.size()) {
    return invalid_argument(
        fmt::format("{} is no tile by {}", tile.to_string(), to_string(sharding)));
  }
  Dims dims = tile.dims();
  for (int i = 0; i < tile.rank(); ++i) dims[i] *= sharding.tiles[at(i)];
  return Shape(tile.dtype(), dims);
}

}  // namespace plimsoll::ir
