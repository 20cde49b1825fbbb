// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <span>

#include "kernels/cpu/contraction/contraction.h"
#include "kernels/cpu/products/product_loops.h"
#include "runtime/ir/shapes/shape_inference.h"
#include "tests/kernels/kernel_harness.h"

namespace plimsoll::kernels {
namespace {

using ir::DType;
using ir::Shape;

struct Case {
  std::string labels;  // as in HLO text
  Shape lhs, rhs;
  std::vector<ir::WindowDimension> window;
  std::int64_t feature_groups = 1, batch_groups = 1;
  DType result = DType::f32;
};

ir::ConvolutionDimensions parse_labels(const std::string& text) {
  ir::ConvolutionDimensions d;
  const auto kernel = text.find('_'), arrow = text.find("->");
  const auto read = [](const std::string& part, char batch, char feature, std::int64_t& b,
                       std::int64_t& f, std::vector<std::int64_t>& spatial) {
    spatial.resize(part.size() - 2);
    for (std::size_t i = 0; i < part.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      if (part[i] == batch) {
        b = at;
      } else if (part[i] == feature) {
        f = at;
      } else {
        spatial[static_cast<std::size_t>(part[i] - '0')] = at;
      }
    }
  };
  read(text.substr(0, kernel), 'b', 'f', d.input_batch, d.input_feature, d.input_spatial);
  read(text.substr(kernel + 1, arrow - kernel - 1), 'o', 'i', d.kernel_output_feature,
       d.kernel_input_feature, d.kernel_spatial);
  read(text.substr(arrow + 2), 'b', 'f', d.output_batch, d.output_feature, d.output_spatial);
  return d;
}

struct Built {
  std::unique_ptr<ir::Module> module;
  ir::Instruction* instruction = nullptr;
};

Built build(const Case& c) {
  Built built;
  built.module = std::make_unique<ir::Module>("test");
  ir::Computation* computation = built.module->add_computation("main");
  ir::Attributes attributes;
  attributes.convolution = std::make_shared<ir::ConvolutionDimensions>(parse_labels(c.labels));
  attributes.window = c.window;
  for (std::size_t i = 0; i < c.window.size(); ++i) {
    attributes.window[i].size =
        c.rhs.dim(static_cast<int>(attributes.convolution->kernel_spatial[i]));
  }
  attributes.feature_group_count = c.feature_groups;
  attributes.batch_group_count = c.batch_groups;
  const Shape* operands[] = {&c.lhs, &c.rhs};
  auto shape = ir::infer_shape(ir::Opcode::convolution, operands, attributes, {}, nullptr);
  EXPECT_TRUE(shape.ok()) << shape.status().to_string();
  if (!shape.ok()) return built;
  built.instruction = computation->add(
      ir::Opcode::convolution, Shape(c.result, shape->dims()),
      {computation->add_parameter(0, c.lhs), computation->add_parameter(1, c.rhs)}, "", attributes);
  return built;
}

// The semantics, term by term: scatter every (input, window position) pair to its output.
std::vector<double> reference(const ir::Instruction& conv, const ir::Literal& lhs,
                              const ir::Literal& rhs) {
  const auto& d = *conv.attributes().convolution;
  const auto& window = conv.attributes().window;
  const Shape& out = conv.shape();
  std::vector<double> result(static_cast<std::size_t>(out.element_count()), 0.0);
  const auto unravel = [](const Shape& s, std::int64_t i) {
    std::vector<std::int64_t> at(static_cast<std::size_t>(s.rank()));
    for (int k = s.rank(); k-- > 0; i /= s.dim(k)) at[static_cast<std::size_t>(k)] = i % s.dim(k);
    return at;
  };
  const auto pick = [](const std::vector<std::int64_t>& v, std::int64_t i) {
    return v[static_cast<std::size_t>(i)];
  };
  const std::int64_t features = out.dim(static_cast<int>(d.output_feature));
  const std::int64_t batches = out.dim(static_cast<int>(d.output_batch));
  const std::int64_t inputs = rhs.shape().dim(static_cast<int>(d.kernel_input_feature));
  const std::int64_t fg = conv.attributes().feature_group_count;
  const std::int64_t bg = conv.attributes().batch_group_count;
  // The places of the inputs' elements, and which elements each input feature has.
  std::vector<std::vector<std::int64_t>> places,
      of_feature(static_cast<std::size_t>(lhs.shape().dim(static_cast<int>(d.input_feature))));
  for (std::int64_t l = 0; l < lhs.shape().element_count(); ++l) {
    places.push_back(unravel(lhs.shape(), l));
    of_feature[static_cast<std::size_t>(pick(places.back(), d.input_feature))].push_back(l);
  }
  std::vector<std::int64_t> o(static_cast<std::size_t>(out.rank()));
  for (std::int64_t r = 0; r < rhs.shape().element_count(); ++r) {
    const auto k = unravel(rhs.shape(), r);
    const std::int64_t f = pick(k, d.kernel_output_feature);
    const std::int64_t feature = f / (features / fg) * inputs + pick(k, d.kernel_input_feature);
    for (const std::int64_t l : of_feature[static_cast<std::size_t>(feature)]) {
      const auto& j = places[static_cast<std::size_t>(l)];
      const std::int64_t b = pick(j, d.input_batch);
      if (b / batches != f / (features / bg)) continue;
      o[static_cast<std::size_t>(d.output_batch)] = b % batches;
      o[static_cast<std::size_t>(d.output_feature)] = f;
      bool inside = true;
      for (std::size_t s = 0; s < window.size(); ++s) {
        const auto& w = window[s];
        std::int64_t position = pick(k, d.kernel_spatial[s]);
        if (w.reversal) position = w.size - 1 - position;
        const std::int64_t at = pick(j, d.input_spatial[s]) * w.base_dilation + w.padding_low -
                                position * w.window_dilation;
        inside = inside && at >= 0 && at % w.stride == 0 &&
                 at / w.stride < out.dim(static_cast<int>(d.output_spatial[s]));
        o[static_cast<std::size_t>(d.output_spatial[s])] = at / w.stride;
      }
      if (!inside) continue;
      std::int64_t at = 0;
      for (int i = 0; i < out.rank(); ++i) at = at * out.dim(i) + o[static_cast<std::size_t>(i)];
      result[static_cast<std::size_t>(at)] += lhs.at(l) * rhs.at(r);
    }
  }
  return result;
}

// A sum as integers of few bytes hold it.
double wrapped(double sum, DType to) {
  const auto whole = [&] { return static_cast<std::int64_t>(sum); };
  if (to == DType::pred) return static_cast<double>(sum != 0);
  if (to == DType::s8) return static_cast<double>(static_cast<std::int8_t>(whole()));
  if (to == DType::u8) return static_cast<double>(static_cast<std::uint8_t>(whole()));
  if (to == DType::u32) return static_cast<double>(static_cast<std::uint32_t>(whole()));
  return sum;
}

std::string check(const Case& c, unsigned seed = 1) {
  const Built built = build(c);
  if (built.instruction == nullptr) return "no shape";
  const std::vector<ir::Literal> operands = {small_integers(c.lhs, seed),
                                             small_integers(c.rhs, seed + 1)};
  std::string kernel;
  auto got = run_instruction(*built.instruction, operands, &kernel);
  EXPECT_TRUE(got.ok()) << got.status().to_string();
  if (!got.ok()) return kernel;
  const std::vector<double> expected = reference(*built.instruction, operands[0], operands[1]);
  int wrong = 0;
  for (std::size_t i = 0; i < expected.size() && wrong < 3; ++i) {
    const double value = got->at(static_cast<std::int64_t>(i));
    const double want = wrapped(expected[i], c.result);
    if (value != want) {
      ++wrong;
      ADD_FAILURE() << kernel << " " << c.labels << " " << c.lhs.to_string() << " "
                    << c.rhs.to_string() << " element " << i << ": " << value << ", expected "
                    << want;
    }
  }
  return kernel;
}

ir::WindowDimension window(std::int64_t stride, std::int64_t low, std::int64_t high,
                           std::int64_t base = 1, std::int64_t dilation = 1,
                           bool reversal = false) {
  return {1, stride, low, high, base, dilation, reversal};
}

TEST(Convolution, ForwardChannelsLastRunsInTheLibrary) {
  EXPECT_EQ(check({"b01f_01io->b01f",
                   Shape(DType::f32, {9, 7, 7, 16}),
                   Shape(DType::f32, {3, 3, 16, 32}),
                   {window(1, 1, 1), window(1, 1, 1)}}),
            "onednn.convolution.forward");
  EXPECT_EQ(check({"b01f_01io->b01f",
                   Shape(DType::f32, {8, 10, 10, 1}),
                   Shape(DType::f32, {3, 3, 1, 16}),
                   {window(2, 0, 1), window(2, 0, 1)}}),
            "onednn.convolution.forward");
}

// The library's blocked layout of sixteen channels is channels-last: its code for that runs where
// it has some, else that for channels-last.
TEST(Convolution, ForwardToSixteenChannelsRunsInTheLibrary) {
  for (const std::int64_t inputs : {1, 2, 15, 16, 17}) {
    for (const std::int64_t stride : {1, 2}) {
      for (const std::int64_t batch : {1, 9}) {
        EXPECT_EQ(check({"b01f_01io->b01f",
                         Shape(DType::f32, {batch, 13, 13, inputs}),
                         Shape(DType::f32, {3, 3, inputs, 16}),
                         {window(stride, 1, 1), window(stride, 1, 1)}}),
                  "onednn.convolution.forward");
      }
    }
  }
}

TEST(Convolution, OneImageIsCutByRows) {
  EXPECT_EQ(check({"b01f_01io->b01f",
                   Shape(DType::f32, {1, 17, 9, 32}),
                   Shape(DType::f32, {5, 3, 32, 48}),
                   {window(2, 2, 2), window(1, 1, 1, 1, 2)}}),
            "onednn.convolution.forward");
}

TEST(Convolution, InputGradientRunsInTheLibrary) {
  for (const bool reversal : {false, true}) {
    EXPECT_EQ(check({"b01f_01oi->b01f",
                     Shape(DType::f32, {3, 5, 5, 32}),
                     Shape(DType::f32, {3, 3, 16, 32}),
                     {window(1, 1, 2, 2, 1, reversal), window(1, 1, 2, 2, 1, reversal)}}),
              "onednn.convolution.input_gradient");
  }
}

TEST(Convolution, FilterGradientRunsInTheLibrary) {
  EXPECT_EQ(check({"f01b_i01o->01bf",
                   Shape(DType::f32, {5, 6, 6, 16}),
                   Shape(DType::f32, {5, 6, 6, 32}),
                   {window(1, 1, 1), window(1, 1, 1)}}),
            "onednn.convolution.filter_gradient");
  EXPECT_EQ(check({"f01b_i01o->01bf",
                   Shape(DType::f32, {5, 6, 6, 16}),
                   Shape(DType::f32, {5, 3, 3, 32}),
                   {window(1, 0, 1, 1, 2), window(1, 0, 1, 1, 2)}}),
            "onednn.convolution.filter_gradient");
}

TEST(Convolution, DepthwiseAndItsFilterGradientMatchTheDefinition) {
  check({"b01f_01io->b01f",
         Shape(DType::f32, {4, 8, 8, 16}),
         Shape(DType::f32, {3, 3, 1, 16}),
         {window(1, 1, 1), window(1, 1, 1)},
         16});
  check({"f01b_i01o->01bf",
         Shape(DType::f32, {4, 8, 8, 16}),
         Shape(DType::f32, {4, 8, 8, 16}),
         {window(1, 1, 1), window(1, 1, 1)},
         1,
         16});
}

// The gradients of a first layer's filters, one of each example: all at once the library would pad
// one channel to as many as a vector has lanes.
TEST(Convolution, GroupsThatWouldBePaddedRunOneByOne) {
  const auto gradients = [](std::int64_t examples, DType dtype) {
    return Case{"f01b_i01o->01bf",
                Shape(dtype, {examples, 24, 23, 1}),
                Shape(dtype, {1, 12, 11, examples * 16}),
                {window(1, 3, 3, 1, 2), window(1, 2, 3, 1, 2)},
                examples};
  };
  Case halves = gradients(24, DType::f16);
  halves.result = DType::f32;
  // Where vectors are short the library pads nothing.
  const std::string name = check(gradients(24, DType::f32));
  const std::string whole = "onednn.convolution.forward";
  EXPECT_TRUE(name == whole || name == whole + ".groupwise") << name;
  EXPECT_EQ(check(halves), name + ".widened");
  EXPECT_EQ(check(gradients(7, DType::f32)), whole);
  const Built built = build(gradients(24, DType::f32));
  const auto kernel = *make_convolution(*built.instruction);
  EXPECT_LT(kernel->workspace_bytes(), 24 * 12 * 11 * 16 * 4 * 4);
  // Nothing is padded here: what the workspace has is copies of images in another order.
  EXPECT_EQ(check({"bf01_oi01->bf01",
                   Shape(DType::f32, {8, 32, 48, 48}),
                   Shape(DType::f32, {32, 1, 3, 3}),
                   {window(1, 1, 1), window(1, 1, 1)},
                   32}),
            whole);
  // Of an input, with the window reversed: each group's filters change places and layout.
  check({"b01f_01io->b01f",
         Shape(DType::f32, {2, 7, 7, 64}),
         Shape(DType::f32, {9, 9, 2, 32}),
         {window(1, 4, 4, 1, 1, true), window(1, 4, 4, 1, 1, true)},
         32});
}

// As many images at once as take a few megabytes, here one of seven.
TEST(Convolution, HalvesAreWidenedBlockByBlock) {
  const DType dtypes[] = {DType::f16, DType::f32};
  for (const DType result : dtypes) {
    EXPECT_EQ(check({"b01f_01io->b01f",
                     Shape(DType::f16, {7, 64, 64, 64}),
                     Shape(DType::f16, {1, 1, 64, 16}),
                     {window(1, 0, 0), window(1, 0, 0)},
                     1,
                     1,
                     result}),
              "onednn.convolution.forward.widened");
  }
  EXPECT_EQ(check({"b01f_01io->b01f",
                   Shape(DType::f16, {3, 7, 7, 16}),
                   Shape(DType::f16, {3, 3, 16, 32}),
                   {window(1, 1, 1), window(1, 1, 1)},
                   1,
                   1,
                   DType::f16}),
            "onednn.convolution.forward.widened");
  EXPECT_EQ(check({"f01b_i01o->01bf",
                   Shape(DType::f16, {5, 6, 6, 16}),
                   Shape(DType::f16, {5, 6, 6, 32}),
                   {window(1, 1, 1), window(1, 1, 1)},
                   1,
                   1,
                   DType::f16}),
            "onednn.convolution.filter_gradient.widened");
}

// Filters that are too small to be multiplied as bytes, and, where nothing multiplies bytes,
// others.
TEST(Convolution, BytesAreWidenedWhereTheirSumsAreExact) {
  const auto kernel = [](DType dtype, std::int64_t features, DType result) {
    return check({"b01f_01io->b01f",
                  Shape(dtype, {3, 7, 7, features}),
                  Shape(dtype, {3, 3, features, 32}),
                  {window(1, 1, 1), window(1, 1, 1)},
                  1,
                  1,
                  result});
  };
  EXPECT_EQ(check({"b01f_01io->b01f",
                   Shape(DType::s8, {3, 7, 7, 16}),
                   Shape(DType::s8, {3, 3, 1, 16}),
                   {window(1, 1, 1), window(1, 1, 1)},
                   16,
                   1,
                   DType::s32}),
            "onednn.convolution.forward.widened");
  if (byte_product_loops(true, true) != nullptr) {
    EXPECT_EQ(kernel(DType::s8, 16, DType::s32), "convolution.bytes");
    EXPECT_EQ(kernel(DType::u8, 29, DType::s32), "convolution.bytes");
    return;
  }
  EXPECT_EQ(kernel(DType::s8, 16, DType::s32), "onednn.convolution.forward.widened");
  EXPECT_EQ(kernel(DType::u8, 16, DType::u32), "onednn.convolution.forward.widened");
  EXPECT_EQ(kernel(DType::s8, 113, DType::s32), "onednn.convolution.forward.widened");
  EXPECT_EQ(kernel(DType::s8, 114, DType::s32), "convolution.blocked");
  EXPECT_EQ(kernel(DType::u8, 29, DType::s32), "convolution.blocked");
}

// Any bytes, the extreme ones often.
ir::Literal any_bytes(const Shape& shape, unsigned seed) {
  ir::Literal literal(shape);
  std::mt19937 random(seed);
  const int least = shape.dtype() == DType::s8 ? -128 : 0;
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    const auto drawn = static_cast<std::uint32_t>(random());
    constexpr int kExtremes[] = {0, 128, 255};
    literal.set(i, (drawn % 3 == 0 ? kExtremes[drawn / 3 % 3] : drawn >> 8 & 255) + least);
  }
  return literal;
}

// Of images and filters of either sign, to every result, on one thread and on more.
void check_bytes(Case c) {
  constexpr DType kSigns[] = {DType::s8, DType::u8};
  constexpr DType kResults[] = {DType::s32, DType::s8, DType::u8, DType::u32};
  const int before = device::thread_count();
  for (int variant = 0; variant < 4; ++variant) {
    c.lhs = Shape(kSigns[variant % 2], c.lhs.dims());
    c.rhs = Shape(kSigns[variant / 2], c.rhs.dims());
    c.result = kResults[variant];
    const Built built = build(c);
    ASSERT_NE(built.instruction, nullptr);
    const std::vector<ir::Literal> operands = {any_bytes(c.lhs, 1), any_bytes(c.rhs, 2)};
    const std::vector<double> expected = reference(*built.instruction, operands[0], operands[1]);
    for (const int threads : {1, 2, 5}) {
      device::set_thread_count(threads);
      std::string kernel;
      const auto got = run_instruction(*built.instruction, operands, &kernel);
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      EXPECT_EQ(kernel == "convolution.bytes", byte_product_loops(true, true) != nullptr) << kernel;
      std::int64_t wrong = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const double want = wrapped(expected[i], c.result);
        wrong += got->at(static_cast<std::int64_t>(i)) == want ? 0 : 1;
      }
      EXPECT_EQ(wrong, 0) << kernel << " " << c.labels << " " << c.lhs.to_string() << " "
                          << c.rhs.to_string() << " to " << built.instruction->shape().to_string()
                          << ", threads " << threads;
    }
  }
  device::set_thread_count(before);
}

// Channels last and first, of whole tiles and of parts of them; images together and one by one;
// filters as a matrix either way, and not; strides, dilations, padding, groups.
TEST(Convolution, BytesAreMultipliedExactlyWhateverTheWindow) {
  const auto shape = [](const ir::Dims& dims) { return Shape(DType::s8, dims); };
  const ir::WindowDimension same = window(1, 1, 1), one = window(1, 0, 0);
  const Case cases[] = {
      {"b01f_01io->b01f", shape({2, 7, 6, 64}), shape({3, 3, 64, 40}), {same, same}},
      {"b01f_01io->b01f",
       shape({1, 9, 9, 3}),
       shape({7, 7, 3, 33}),
       {window(2, 3, 3), window(2, 3, 2)}},
      {"b01f_o01i->b01f",
       shape({2, 7, 8, 33}),
       shape({20, 3, 2, 33}),
       {window(1, 2, 1, 1, 2), one}},
      {"b01f_10io->b01f", shape({2, 5, 8, 16}), shape({2, 3, 16, 17}), {same, one}},
      {"b01f_01io->b01f", shape({2, 5, 8, 70}), shape({1, 1, 70, 20}), {one, one}},
      {"b01f_01io->b01f", shape({2, 5, 8, 70}), shape({1, 1, 70, 20}), {window(2, 0, 0), one}},
      {"b01f_01io->b01f",
       shape({1, 8, 9, 128}),
       shape({2, 2, 128, 8}),
       {window(1, -1, -2), window(1, -1, 2)}},
      {"bf01_oi01->bf01", shape({3, 20, 6, 7}), shape({18, 20, 3, 3}), {same, same}},
      {"bf01_oi01->bf01",
       shape({2, 64, 9, 9}),
       shape({40, 64, 1, 1}),
       {window(2, 0, 0), window(2, 0, 0)}},
      {"bf01_oi01->b01f", shape({3, 5, 6, 7}), shape({18, 5, 3, 3}), {same, same}},
      {"b01f_01io->bf01", shape({3, 6, 7, 9}), shape({3, 3, 9, 18}), {same, same}},
      {"b01f_01oi->b01f",
       shape({2, 5, 5, 24}),
       shape({3, 3, 16, 24}),
       {window(1, 1, 2, 2, 1, true), window(1, 1, 2, 2)}},
      {"b01f_01io->b01f",
       shape({2, 6, 5, 10}),
       shape({3, 3, 10, 24}),
       {window(1, 1, 1, 1, 1, true), window(1, 1, 1, 1, 1, true)}},
      {"01bf_01io->01bf", shape({6, 5, 3, 10}), shape({3, 3, 10, 24}), {same, same}},
      {"f01b_i01o->01bf", shape({5, 6, 6, 3}), shape({5, 6, 6, 32}), {same, same}},
      {"b0f_0io->b0f", shape({2, 300, 1}), shape({65, 1, 5}), {window(3, 30, 0)}},
      {"bf_io->bf", shape({40, 70}), shape({70, 20}), {}},
      {"b012f_012io->b012f", shape({2, 4, 4, 5, 12}), shape({2, 3, 2, 12, 16}), {one, same, one}},
      {"b01f_01io->b01f", shape({1, 4, 4, 1100}), shape({2, 2, 1100, 9}), {one, one}},
      {"b01f_01io->b01f", shape({2, 6, 6, 48}), shape({3, 3, 24, 40}), {same, same}, 2},
      {"bf01_oi01->bf01", shape({2, 48, 6, 6}), shape({40, 24, 3, 3}), {same, same}, 2},
      {"b01f_01io->b01f", shape({4, 6, 6, 24}), shape({3, 3, 24, 40}), {same, same}, 1, 2},
      {"bf01_oi01->bf01", shape({4, 24, 6, 6}), shape({40, 24, 3, 3}), {same, same}, 1, 2},
  };
  for (const Case& c : cases) check_bytes(c);
}

TEST(Convolution, EveryDtypeMatchesTheDefinition) {
  for (int i = 0; i <= static_cast<int>(DType::f64); ++i) {
    const DType dtype = static_cast<DType>(i);
    check({"b01f_01io->b01f",
           Shape(dtype, {2, 5, 5, 3}),
           Shape(dtype, {3, 3, 3, 4}),
           {window(1, 1, 1), window(2, 1, 0)},
           1,
           1,
           dtype});
  }
}

// Attributes drawn at random, of up to `most` features and positions; the kernel may be any.
void check_random_attributes(std::span<const DType> dtypes, int most, int trials) {
  std::mt19937 random(7);
  const auto draw = [&](int low, int high) {
    return static_cast<std::int64_t>(
        low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1)));
  };
  const char* labels[] = {"b01f_01io->b01f", "bf01_oi01->bf01", "f01b_i01o->01bf",
                          "b01f_01oi->b01f", "01bf_io01->f0b1", "b0f_0io->b0f",
                          "bf0_oi0->bf0",    "bf_io->bf",       "b012f_012io->b012f"};
  for (int trial = 0; trial < trials; ++trial) {
    const std::string text = labels[random() % std::size(labels)];
    const auto d = parse_labels(text);
    const std::size_t spatial = d.input_spatial.size();
    const std::int64_t groups = draw(0, 4) == 0 ? 2 : 1;
    const bool batch_groups = groups == 2 && draw(0, 1) == 0;
    ir::Dims lhs(std::vector<std::int64_t>(spatial + 2, 1)), rhs = lhs;
    const std::int64_t inputs = draw(1, most), outputs = draw(1, most);
    lhs[static_cast<int>(d.input_batch)] = draw(1, 5) * (batch_groups ? groups : 1);
    lhs[static_cast<int>(d.input_feature)] = inputs * (batch_groups ? 1 : groups);
    rhs[static_cast<int>(d.kernel_input_feature)] = inputs;
    rhs[static_cast<int>(d.kernel_output_feature)] = outputs * groups;
    Case c{text, {}, {}, {}, batch_groups ? 1 : groups, batch_groups ? groups : 1};
    for (std::size_t s = 0; s < spatial; ++s) {
      const std::int64_t size = draw(1, most > 5 && spatial == 1 ? most : 7), kernel = draw(1, 4);
      ir::WindowDimension w = window(draw(1, 2), draw(-1, 3), draw(-1, 3), draw(0, 2) == 0 ? 2 : 1,
                                     draw(1, 2), draw(0, 3) == 0);
      const std::int64_t padded = (size - 1) * w.base_dilation + 1 + w.padding_low + w.padding_high;
      const std::int64_t reach = (kernel - 1) * w.window_dilation + 1;
      if (padded < reach) w.padding_high += reach - padded;
      lhs[static_cast<int>(d.input_spatial[s])] = size;
      rhs[static_cast<int>(d.kernel_spatial[s])] = kernel;
      c.window.push_back(w);
    }
    c.result = dtypes[static_cast<std::size_t>(trial) % dtypes.size()];
    c.lhs = Shape(c.result, lhs);
    c.rhs = Shape(c.result, rhs);
    check(c, static_cast<unsigned>(trial));
    if (testing::Test::HasFailure()) {
      for (const auto& w : c.window) {
        ADD_FAILURE() << "trial " << trial << " window stride " << w.stride << " pad "
                      << w.padding_low << "_" << w.padding_high << " base " << w.base_dilation
                      << " dilation " << w.window_dilation << " reversal " << w.reversal
                      << " groups " << c.feature_groups << " " << c.batch_groups;
      }
      return;
    }
  }
}

TEST(Convolution, RandomAttributesMatchTheDefinition) {
  const DType dtypes[] = {DType::f32};
  check_random_attributes(dtypes, 5, 150);
}

// Around the sizes of tiles, lanes along outputs and along features.
TEST(Convolution, RandomAttributesMatchTheDefinitionByTiles) {
  const DType dtypes[] = {DType::f64, DType::s32, DType::u64};
  check_random_attributes(dtypes, 5, 150);
  check_random_attributes(dtypes, 70, 90);
}

TEST(Convolution, RandomAttributesOfBytesMatchTheDefinition) {
  const DType dtypes[] = {DType::s8, DType::u8};
  check_random_attributes(dtypes, 5, 150);
  check_random_attributes(dtypes, 70, 90);
}

// What lies outside of the input is not multiplied with a filter's infinities and NaNs.
TEST(Convolution, PaddingCountsForNothingWhateverTheFilter) {
  for (const std::int64_t features : {1, 3, 80}) {
    const Case c{"b01f_01io->b01f",
                 Shape(DType::f64, {2, 5, 6, 2}),
                 Shape(DType::f64, {3, 3, 2, features}),
                 {window(1, 1, 1), window(1, 2, 1, 2)},
                 1,
                 1,
                 DType::f64};
    const Built built = build(c);
    ASSERT_NE(built.instruction, nullptr);
    std::vector<ir::Literal> operands = {small_integers(c.lhs, 3), small_integers(c.rhs, 4)};
    operands[1].set(0, INFINITY);
    operands[1].set(17 * features + features - 1, NAN);
    const auto got = run_instruction(*built.instruction, operands);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    const std::vector<double> expected = reference(*built.instruction, operands[0], operands[1]);
    std::size_t finite = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double value = got->at(static_cast<std::int64_t>(i));
      finite += std::isfinite(expected[i]) ? 1 : 0;
      EXPECT_TRUE(value == expected[i] || (std::isnan(value) && std::isnan(expected[i])))
          << i << ": " << value << ", expected " << expected[i];
    }
    EXPECT_GT(finite, expected.size() / 10);
    EXPECT_LT(finite, expected.size());
  }
}

// Filters of more than a thousand numbers a position: strides, dilations and padding on all sides,
// two images, one and three spatial dimensions, filters as a matrix either way.
TEST(Convolution, LargeFiltersAreMultipliedAsTheyLie) {
  const Case cases[] = {{"b01f_01io->b01f",
                         Shape(DType::f32, {2, 4, 5, 40}),
                         Shape(DType::f32, {3, 3, 40, 130}),
                         {window(1, 1, 1), window(1, 1, 1)}},
                        {"b01f_01io->b01f",
                         Shape(DType::f32, {1, 9, 8, 48}),
                         Shape(DType::f32, {3, 3, 48, 64}),
                         {window(2, 1, 1), window(2, 0, 2)}},
                        {"b01f_01io->b01f",
                         Shape(DType::f32, {1, 7, 9, 33}),
                         Shape(DType::f32, {2, 3, 33, 199}),
                         {window(1, 0, 2, 1, 3), window(2, 2, 3, 1, 2)}},
                        {"b01f_oi01->b01f",
                         Shape(DType::f32, {1, 5, 6, 200}),
                         Shape(DType::f32, {170, 200, 1, 1}),
                         {window(1, 0, 0), window(1, 0, 0)}},
                        {"b0f_0io->b0f",
                         Shape(DType::f32, {1, 20, 100}),
                         Shape(DType::f32, {5, 100, 64}),
                         {window(1, 2, 2)}},
                        {"b012f_012io->b012f",
                         Shape(DType::f32, {1, 3, 3, 3, 32}),
                         Shape(DType::f32, {3, 3, 3, 32, 40}),
                         {window(1, 1, 1), window(1, 1, 1), window(1, 1, 1)}}};
  const int before = device::thread_count();
  for (const Case& c : cases) {
    EXPECT_EQ(check(c), "convolution.packed") << c.labels;
    const Built built = build(c);
    const std::vector<ir::Literal> operands = {random_floats(c.lhs, 1), random_floats(c.rhs, 2)};
    device::set_thread_count(1);
    const auto one = run_instruction(*built.instruction, operands);
    ASSERT_TRUE(one.ok());
    for (const int threads : {2, 3, 7}) {
      device::set_thread_count(threads);
      const auto many = run_instruction(*built.instruction, operands);
      ASSERT_TRUE(many.ok());
      EXPECT_EQ(*one, *many) << c.labels << " " << threads << " threads";
    }
  }
  device::set_thread_count(before);
}

TEST(Convolution, SameBitsAtEveryThreadCount) {
  const Case cases[] = {{"b01f_01io->b01f",
                         Shape(DType::f32, {13, 12, 12, 16}),
                         Shape(DType::f32, {3, 3, 16, 32}),
                         {window(1, 1, 1), window(1, 1, 1)}},
                        {"f01b_i01o->01bf",
                         Shape(DType::f32, {24, 24, 23, 1}),
                         Shape(DType::f32, {1, 12, 11, 24 * 16}),
                         {window(1, 3, 3, 1, 2), window(1, 2, 3, 1, 2)},
                         24},
                        {"f01b_i01o->01bf",
                         Shape(DType::f32, {13, 12, 12, 16}),
                         Shape(DType::f32, {13, 12, 12, 32}),
                         {window(1, 1, 1), window(1, 1, 1)}}};
  const int before = device::thread_count();
  for (const Case& c : cases) {
    const Built built = build(c);
    const std::vector<ir::Literal> operands = {random_floats(c.lhs, 1), random_floats(c.rhs, 2)};
    device::set_thread_count(1);
    auto one = run_instruction(*built.instruction, operands);
    ASSERT_TRUE(one.ok());
    for (const int threads : {2}) {
      device::set_thread_count(threads);
      auto many = run_instruction(*built.instruction, operands);
      ASSERT_TRUE(many.ok());
      EXPECT_EQ(*one, *many) << threads << " threads";
    }
  }
  device::set_thread_count(before);
}

}  // namespace
}  // namespace plimsoll::kernels
