// SPDX-License-Identifier: Apache-2.0
#include <random>
#include <string>
#include <vector>

#include "runtime/ir/interpreter/interpreter.h"
#include "tests/cases/compare.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

constexpr std::int64_t kTileBytes = 1 << 20;

// The loop that an entry with `lines` gets, as its body computes it; empty: it gets none. What it
// computes must stay.
std::string tiled(const std::string& lines, std::int64_t tile_bytes = kTileBytes) {
  auto module = parse("HloModule m\nENTRY e { " + lines + " }\n");
  if (module == nullptr) return "not read";
  const auto before = module->clone();
  const auto changed = tile_narrow_products(*module, tile_bytes);
  EXPECT_TRUE(changed.ok());
  EXPECT_TRUE(ir::verify(*module).ok()) << ir::verify(*module).message();
  if (!*changed) return "";
  const auto arguments = cases::random_arguments(*before, 7);
  const auto expected = ir::interpret(*before, arguments);
  EXPECT_TRUE(expected.ok()) << expected.status().to_string();
  const auto actual = ir::interpret(*module, arguments);
  EXPECT_TRUE(actual.ok()) << actual.status().to_string();
  EXPECT_EQ(cases::compare_close(*expected, *actual, 1e-3), "");
  for (const auto& computation : module->computations()) {
    if (computation->name().find("tiles.body") == std::string::npos) continue;
    return expression(*computation->root()->operand(1));
  }
  return "no loop";
}

std::string product(const std::string& rows, const std::string& weights, const std::string& result,
                    const std::string& dims) {
  return "x = " + rows + " parameter(0)\n" + weights + " ROOT y = " + result + " dot(" + dims;
}

const std::string kScaled =
    "w = s8[256,4096] parameter(1)\n f = f32[256,4096] convert(w)\n"
    "s = f32[4096] parameter(2)\n b = f32[256,4096] broadcast(s), dimensions={1}\n"
    "m = f32[256,4096] multiply(f, b)\n";

TEST(TiledProducts, ReadTilesOfWhatTheWeightsAreMadeOf) {
  EXPECT_EQ(tiled(product("f32[5,256]", kScaled, "f32[5,4096]",
                          "x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}")),
            "dynamic-update-slice(p0#1, dot(p0#2, multiply(convert(dynamic-slice(p0#3, 0, "
            "multiply(p0#0, 1024))), broadcast(dynamic-slice(p0#4, multiply(p0#0, 1024))))), 0, "
            "multiply(p0#0, 1024))");
}

// The weights on either side, scales along what is summed over and along blocks of it, several
// dims of columns, columns that tiles don't divide, halves of bytes that are joined.
TEST(TiledProducts, AreThoseOfAllForms) {
  const std::vector<std::string> programs = {
      product("f32[5,256]", kScaled, "f32[4096,5]",
              "m, x), lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
      product("f32[256,5]",
              "w = s8[4096,256] parameter(1)\n f = f32[4096,256] convert(w)\n"
              "s = f32[256] parameter(2)\n b = f32[4096,256] broadcast(s), dimensions={1}\n"
              "m = f32[4096,256] multiply(f, b)\n",
              "f32[5,4096]", "x, m), lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
      product("f32[5,256]",
              "w = s8[8,32,4096] parameter(1)\n f = f32[8,32,4096] convert(w)\n"
              "s = f32[8,4096] parameter(2)\n b = f32[8,32,4096] broadcast(s), dimensions={0,2}\n"
              "c = f32[] constant(8)\n z = f32[8,32,4096] broadcast(c), dimensions={}\n"
              "d = f32[8,32,4096] subtract(f, z)\n t = f32[8,32,4096] multiply(d, b)\n"
              "m = f32[256,4096] reshape(t)\n",
              "f32[5,4096]", "x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
      product("f32[2,256,3]", "w = s8[3,256,1400] parameter(1)\n m = f32[3,256,1400] convert(w)\n",
              "f32[2,3,3,1400]", "x, m), lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
      product("bf16[5,256]", "w = s8[256,9001] parameter(1)\n m = bf16[256,9001] convert(w)\n",
              "f32[5,9001]", "x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
      product("f32[1,256]",
              "w = u8[4096,128] parameter(1)\n c = u8[] constant(4)\n"
              "z = u8[4096,128] broadcast(c), dimensions={}\n"
              "h = u8[4096,128] shift-right-logical(w, z)\n"
              "l = u8[4096,256] concatenate(w, h), dimensions={1}\n"
              "m = f32[4096,256] convert(l)\n",
              "f32[1,4096]", "x, m), lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
      // Two products of the same weights, as of a forward and a backward pass.
      "x = f32[5,256] parameter(0)\n" + kScaled +
          "y = f32[5,4096] dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
          "ROOT t = f32[5,256] dot(y, m), lhs_contracting_dims={1}, rhs_contracting_dims={1}"};
  for (const std::string& program : programs) EXPECT_NE(tiled(program), "") << program;
}

std::string dims_text(const std::vector<std::int64_t>& dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i)
    text += (i > 0 ? "," : "") + std::to_string(dims[i]);
  return text + "]";
}

// A product of either side, by weights of one to three dims of columns, with scales along any dims
// of theirs, in blocks of the depth, from halves that are joined, in any combination.
std::string random_product(std::mt19937_64& random) {
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  const std::string dtype = below(2) == 0 ? "f32" : "bf16";
  const std::int64_t depth = 8 * (1 + below(6)), rows = 1 + below(9);
  std::vector<std::int64_t> dims(1, 400 + below(300));
  for (std::int64_t more = below(3); more > 0; --more) {
    dims.insert(dims.begin() + below(std::ssize(dims) + 1), 1 + below(3));
  }
  const std::int64_t at = below(std::ssize(dims) + 1);
  dims.insert(dims.begin() + at, depth);
  const std::string joined = dtype + dims_text(dims);
  std::string text = "x = " + dtype + dims_text({rows, depth}) + " parameter(0)\n";
  std::vector<std::int64_t> part = dims;
  const bool is_joined = below(2) == 0;
  if (is_joined) part[static_cast<std::size_t>(at)] /= 2;
  text += "w = u8" + dims_text(part) + " parameter(1)\n";
  std::string bytes = "w";
  if (is_joined) {
    text += "four = u8[] constant(4)\nfours = u8" + dims_text(part) +
            " broadcast(four), dimensions={}\nhigh = u8" + dims_text(part) +
            " shift-right-logical(w, fours)\nboth = u8" + dims_text(dims) +
            " concatenate(w, high), dimensions={" + std::to_string(at) + "}\n";
    bytes = "both";
  }
  // Blocks of the depth are a dim of their own as long as scales are taken.
  std::vector<std::int64_t> blocks = dims;
  if (below(2) == 0) {
    blocks[static_cast<std::size_t>(at)] = 4;
    blocks.insert(blocks.begin() + at, depth / 4);
  }
  const std::string apart = dims_text(blocks);
  text += "r = u8" + apart + " reshape(" + bytes + ")\nf = " + dtype + apart + " convert(r)\n";
  std::string scaled_dims, scale = "[";
  for (std::size_t d = 0; d < blocks.size(); ++d) {
    if (below(2) == 0) continue;
    scaled_dims += (scaled_dims.empty() ? "" : ",") + std::to_string(d);
    scale += (scale == "[" ? "" : ",") + std::to_string(blocks[d]);
  }
  text += "s = " + dtype + scale + "] parameter(2)\nt = " + dtype + apart +
          " broadcast(s), dimensions={" + scaled_dims + "}\nm = " + dtype + apart +
          " multiply(f, t)\ng = " + joined + " reshape(m)\n";
  std::vector<std::int64_t> result = dims;
  result.erase(result.begin() + at);
  const bool rows_first = below(2) == 0;
  result.insert(rows_first ? result.begin() : result.end(), rows);
  const std::string depth_of_rows = "_contracting_dims={1}";
  const std::string depth_of_weights = "_contracting_dims={" + std::to_string(at) + "}";
  return text + "ROOT y = " + dtype + dims_text(result) +
         (rows_first ? " dot(x, g), lhs" + depth_of_rows + ", rhs" + depth_of_weights
                     : " dot(g, x), lhs" + depth_of_weights + ", rhs" + depth_of_rows);
}

TEST(TiledProducts, OfRandomWeightsAreTheWholeOnes) {
  int tiled_ones = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    const std::string program = random_product(random);
    SCOPED_TRACE(program);
    if (!tiled(program, 1 << 10).empty()) ++tiled_ones;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(tiled_ones, 20);
}

TEST(TiledProducts, OthersAreLeft) {
  const std::string dot = "x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
  const std::vector<std::string> programs = {
      // As wide as they are read.
      product("f32[5,256]", "m = f32[256,4096] parameter(1)\n", "f32[5,4096]", dot),
      // Something else needs them wide.
      "x = f32[5,256] parameter(0)\n" + kScaled +
          "y = f32[5,4096] dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
          "ROOT t = (f32[5,4096], f32[256,4096]) tuple(y, m)",
      // A cache holds them.
      product("f32[5,256]", "w = s8[256,2048] parameter(1)\n m = f32[256,2048] convert(w)\n",
              "f32[5,2048]", dot),
      // The rows are about as large.
      product("f32[200,4096]", "w = s8[4096,256] parameter(1)\n m = f32[4096,256] convert(w)\n",
              "f32[200,256]", dot),
      // The product takes the time.
      product("f32[257,256]", "w = s8[256,4096] parameter(1)\n m = f32[256,4096] convert(w)\n",
              "f32[257,4096]", dot),
      // What is joined along the columns, or laid out otherwise, has no tiles of its own.
      product("f32[5,256]",
              "w = s8[256,2048] parameter(1)\n l = s8[256,4096] concatenate(w, w), "
              "dimensions={1}\n m = f32[256,4096] convert(l)\n",
              "f32[5,4096]", dot),
      product("f32[5,256]",
              "w = s8[1048576] parameter(1)\n f = f32[1048576] convert(w)\n"
              "m = f32[256,4096] reshape(f)\n",
              "f32[5,4096]", dot)};
  for (const std::string& program : programs) EXPECT_EQ(tiled(program), "") << program;
}

}  // namespace
}  // namespace plimsoll::passes
