// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/convolution_bytes.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cpu/contraction/strided_copy.h"
#include "kernels/cpu/contraction/visit_product.h"
#include "kernels/cpu/contraction/window_patches.h"
#include "kernels/cpu/products/packed_product.h"
#include "runtime/base/index.h"

namespace plimsoll::kernels {
namespace {

using ir::DType;
using ir::Shape;

// Images that are brought into another order at once, and their results, take no more if one of
// them does.
constexpr std::int64_t kBlockBytes = std::int64_t{1} << 20;

// An array of numbers of `bytes` in the order of its memory, and the strides that a copy has.
struct Reordered {
  std::vector<std::int64_t> dims, strides;
};

struct Geometry {
  std::int64_t batch, features, group_features, inputs, groups;
  std::int64_t images;  // at once, of the result
  bool copies_images = false, copies_filters = false, copies_result = false;
  std::vector<PatchAxis> axes;
  std::vector<std::size_t> window_order;
  MatrixStrides filters;           // of a group
  std::int64_t filter_group = 0;   // from a group's to the next one's
  std::int64_t image_group = 0;    // the same of images
  std::int64_t image_stride = 0;   // from one to the next
  std::int64_t image_numbers = 0;  // of those at once, if they are copied
  Reordered images_as_read, filters_as_read, result_as_written;
};

std::int64_t product_of(const std::vector<std::int64_t>& values) {
  std::int64_t result = 1;
  for (const std::int64_t value : values) result *= value;
  return result;
}

// Dense strides of dims that lie in this order, by the places of what they are called.
std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> strides(dims.size());
  std::int64_t stride = 1;
  for (std::size_t d = dims.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= dims[d];
  }
  return strides;
}

class Reader {
 public:
  explicit Reader(const ir::Instruction& instruction)
      : instruction_(instruction),
        labels_(*instruction.attributes().convolution),
        images_(instruction.operand(0)->shape()),
        filters_(instruction.operand(1)->shape()),
        result_(instruction.shape()),
        image_strides_(ir::row_major_strides(images_.dims())),
        filter_strides_(ir::row_major_strides(filters_.dims())),
        result_strides_(ir::row_major_strides(result_.dims())) {}

  Geometry read() {
    const ir::Attributes& attributes = instruction_.attributes();
    const std::int64_t batch_groups = attributes.batch_group_count;
    g_.batch = size(result_, labels_.output_batch);
    g_.features = size(result_, labels_.output_feature);
    g_.inputs = size(filters_, labels_.kernel_input_feature);
    g_.groups = std::max(attributes.feature_group_count, batch_groups);
    g_.group_features = g_.features / g_.groups;
    const std::int64_t channels = size(images_, labels_.input_feature);
    g_.copies_images = g_.inputs != 1 && stride(image_strides_, labels_.input_feature) != 1;
    g_.copies_result = g_.features != 1 && stride(result_strides_, labels_.output_feature) != 1;
    g_.images = g_.batch;
    const bool has_blocks =
        (g_.copies_images || g_.copies_result) && batch_groups == 1 && labels_.output_batch == 0;
    if (has_blocks) choose_block();
    read_axes(channels);
    read_filters();
    if (g_.copies_result) read_result();
    return std::move(g_);
  }

 private:
  static std::int64_t size(const Shape& shape, std::int64_t d) {
    return shape.dim(static_cast<int>(d));
  }
  static std::int64_t stride(const ir::Dims& strides, std::int64_t d) {
    return strides[static_cast<int>(d)];
  }

  void choose_block() {
    const std::int64_t bytes =
        (g_.copies_images ? images_.element_count() : 0) +
        (g_.copies_result ? result_.element_count() * dtype_bytes(result_.dtype()) : 0);
    while (g_.images > 1 &&
           (g_.batch % g_.images != 0 || bytes / g_.batch * g_.images > kBlockBytes)) {
      --g_.images;
    }
  }

  // Images as they lie, or a block of them with channels last; positions in the result's order.
  void read_axes(std::int64_t channels) {
    const ir::Attributes& attributes = instruction_.attributes();
    const std::int64_t batches = g_.images * attributes.batch_group_count;
    const std::size_t spatial = labels_.kernel_spatial.size();
    g_.image_stride = stride(image_strides_, labels_.input_batch);
    std::int64_t batch_stride = g_.image_stride;
    std::int64_t channel_stride = stride(image_strides_, labels_.input_feature);
    std::vector<std::int64_t> spatial_strides;
    for (const std::int64_t d : labels_.input_spatial) {
      spatial_strides.push_back(stride(image_strides_, d));
    }
    if (g_.copies_images) {
      Reordered& copy = g_.images_as_read;
      copy.dims = {batches};
      copy.strides = {batch_stride};
      for (std::size_t s = 0; s < spatial; ++s) {
        copy.dims.push_back(size(images_, labels_.input_spatial[s]));
        copy.strides.push_back(spatial_strides[s]);
      }
      copy.dims.push_back(channels);
      copy.strides.push_back(channel_stride);
      const auto dense = dense_strides(copy.dims);
      batch_stride = dense[0];
      spatial_strides.assign(dense.begin() + 1, dense.end() - 1);
      channel_stride = 1;
      g_.image_numbers = product_of(copy.dims);
    }
    struct Ordered {
      PatchAxis axis;
      std::int64_t result_stride;
      std::size_t spatial;  // or that of the batch
    };
    std::vector<Ordered> ordered;
    PatchAxis batch;
    batch.out = g_.images;
    batch.in = batches;
    batch.in_stride = batch_stride;
    ordered.push_back({batch, stride(result_strides_, labels_.output_batch), spatial});
    for (std::size_t s = 0; s < spatial; ++s) {
      const ir::WindowDimension& w = attributes.window[s];
      PatchAxis axis;
      axis.out = size(result_, labels_.output_spatial[s]);
      axis.in = size(images_, labels_.input_spatial[s]);
      axis.window = size(filters_, labels_.kernel_spatial[s]);
      axis.in_stride = spatial_strides[s];
      axis.stride = w.stride;
      axis.window_dilation = w.window_dilation;
      axis.base_dilation = w.base_dilation;
      axis.padding_low = w.padding_low;
      axis.is_reversed = w.reversal;
      ordered.push_back({axis, stride(result_strides_, labels_.output_spatial[s]), s});
    }
    if (!g_.copies_result) {
      std::stable_sort(ordered.begin(), ordered.end(), [](const Ordered& a, const Ordered& b) {
        return a.result_stride > b.result_stride;
      });
    }
    g_.window_order.resize(spatial + 1);
    for (std::size_t i = 0; i < ordered.size(); ++i) {
      g_.axes.push_back(ordered[i].axis);
      g_.window_order[ordered[i].spatial == spatial ? 0 : ordered[i].spatial + 1] = i;
    }
    g_.image_group =
        attributes.batch_group_count > 1 ? g_.images * batch_stride : g_.inputs * channel_stride;
  }

  // As they lie where places of the window and channels are rows or columns of one matrix.
  void read_filters() {
    const std::int64_t input = stride(filter_strides_, labels_.kernel_input_feature);
    const std::int64_t output = stride(filter_strides_, labels_.kernel_output_feature);
    g_.filters = {input, output};
    bool is_matrix = true;
    std::int64_t expected = input * g_.inputs, depth = g_.inputs;
    Reordered copy{{g_.features}, {output}};
    for (std::size_t s = labels_.kernel_spatial.size(); s-- > 0;) {
      const std::int64_t d = labels_.kernel_spatial[s], window = size(filters_, d);
      is_matrix = is_matrix && (window == 1 || stride(filter_strides_, d) == expected);
      expected *= window;
      depth *= window;
    }
    // Where there is one of either, its stride says nothing.
    if (depth == 1) g_.filters.row = 1;
    if (g_.group_features == 1) g_.filters.column = 1;
    if (g_.inputs == 1 && depth > 1) is_matrix = is_matrix && input == 1;
    g_.filter_group = g_.group_features * output;
    if (is_matrix && (g_.filters.row == 1 || g_.filters.column == 1)) return;
    g_.copies_filters = true;
    for (const std::int64_t d : labels_.kernel_spatial) {
      copy.dims.push_back(size(filters_, d));
      copy.strides.push_back(stride(filter_strides_, d));
    }
    copy.dims.push_back(g_.inputs);
    copy.strides.push_back(input);
    g_.filters = {1, depth};
    g_.filter_group = g_.group_features * depth;
    g_.filters_as_read = std::move(copy);
  }

  // A block's results lie by positions; they are written in the order of the array.
  void read_result() {
    std::vector<std::int64_t> dense_dims = {g_.images};
    for (const std::int64_t d : labels_.output_spatial) dense_dims.push_back(size(result_, d));
    dense_dims.push_back(g_.features);
    const auto dense = dense_strides(dense_dims);
    Reordered& copy = g_.result_as_written;
    copy.dims.resize(at(result_.rank()));
    copy.strides.resize(at(result_.rank()));
    const auto put = [&](std::int64_t d, std::size_t from) {
      copy.dims[at(d)] = dense_dims[from];
      copy.strides[at(d)] = dense[from];
    };
    put(labels_.output_batch, 0);
    for (std::size_t s = 0; s < labels_.output_spatial.size(); ++s) {
      put(labels_.output_spatial[s], s + 1);
    }
    put(labels_.output_feature, dense_dims.size() - 1);
  }

  const ir::Instruction& instruction_;
  const ir::ConvolutionDimensions& labels_;
  const Shape &images_, &filters_, &result_;
  ir::Dims image_strides_, filter_strides_, result_strides_;
  Geometry g_{};
};

class ByteConvolution final : public KernelBase {
 public:
  ByteConvolution(const ir::Instruction& instruction, const ProductLoops<std::uint8_t>& loops)
      : KernelBase("convolution.bytes", device::KernelOrigin::own),
        loops_(loops),
        g_(Reader(instruction).read()),
        patches_(g_.axes, g_.window_order, g_.inputs),
        product_(patches_.positions(), g_.group_features, patches_.depth(), loops),
        result_bytes_(dtype_bytes(instruction.shape().dtype())),
        packed_(reserve_workspace(product_.workspace_bytes())) {
    if (g_.copies_images) images_ = reserve_workspace(g_.image_numbers);
    if (g_.copies_filters) filters_ = reserve_workspace(product_of(g_.filters_as_read.dims));
    if (g_.copies_result) {
      result_ = reserve_workspace(patches_.positions() * g_.features * result_bytes_);
    }
  }

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    const auto part = [&](std::int64_t at) { return byte_offset(arguments.workspace, at); };
    const auto* filters = static_cast<const std::uint8_t*>(arguments.inputs[1]);
    if (g_.copies_filters) {
      const Reordered& copy = g_.filters_as_read;
      copy_to_dense(copy.dims, copy.strides, 1, filters, part(filters_));
      filters = reinterpret_cast<const std::uint8_t*>(part(filters_));
    }
    const std::int64_t block_bytes = patches_.positions() * g_.features * result_bytes_;
    for (std::int64_t image = 0; image < g_.batch; image += g_.images) {
      const auto* images =
          static_cast<const std::uint8_t*>(arguments.inputs[0]) + image * g_.image_stride;
      if (g_.copies_images) {
        const Reordered& copy = g_.images_as_read;
        copy_to_dense(copy.dims, copy.strides, 1, images, part(images_));
        images = reinterpret_cast<const std::uint8_t*>(part(images_));
      }
      std::byte* const out = byte_offset(arguments.outputs[0], image / g_.images * block_bytes);
      std::byte* const to = g_.copies_result ? part(result_) : out;
      for (std::int64_t group = 0; group < g_.groups; ++group) {
        multiply(images + group * g_.image_group, filters + group * g_.filter_group,
                 to + group * g_.group_features * result_bytes_, part(packed_));
      }
      if (!g_.copies_result) continue;
      const Reordered& copy = g_.result_as_written;
      copy_to_dense(copy.dims, copy.strides, result_bytes_, to, out);
    }
    return ok_status();
  }

 private:
  void multiply(const std::uint8_t* images, const std::uint8_t* filters, std::byte* to,
                void* packed) const {
    ProductResult<std::uint8_t> result{nullptr, g_.features};
    if (result_bytes_ == 1) {
      result.narrowed = reinterpret_cast<std::uint8_t*>(to);
    } else {
      result.sums = reinterpret_cast<std::uint32_t*>(to);
    }
    if (patches_.row_stride() != 0) {
      product_.run(MatrixRows<std::uint8_t>(images, {patches_.row_stride(), 1}, loops_), filters,
                   g_.filters, result, packed);
    } else {
      product_.run(WindowPatches<std::uint8_t>(patches_, images, loops_), filters, g_.filters,
                   result, packed);
    }
  }

  const ProductLoops<std::uint8_t>& loops_;
  Geometry g_;
  PatchGeometry patches_;
  PackedProduct<std::uint8_t> product_;
  int result_bytes_;
  // Where in the workspace what begins.
  std::int64_t packed_, images_ = 0, filters_ = 0, result_ = 0;
};

}  // namespace

std::shared_ptr<const device::Kernel> make_byte_convolution(const ir::Instruction& instruction) {
  const Shape& images = instruction.operand(0)->shape();
  const Shape& filters = instruction.operand(1)->shape();
  const Shape& result = instruction.shape();
  const DType to = result.dtype();
  if (!is_signed_or_unsigned_byte(images.dtype()) || !is_signed_or_unsigned_byte(filters.dtype()) ||
      (!is_signed_or_unsigned_byte(to) && to != DType::s32 && to != DType::u32)) {
    return nullptr;
  }
  for (const Shape* shape : {&images, &filters, &result}) {
    if (shape->element_count() == 0) return nullptr;
  }
  const auto* const loops = dot_loops<std::uint8_t>(images.dtype(), filters.dtype());
  if (loops == nullptr) return nullptr;
  // Products of a position, below which packing what it sees is most of the work; of groups each
  // packs it.
  constexpr std::int64_t kLeastProducts = 256, kLeastOfGroup = 4096;
  const ir::Attributes& attributes = instruction.attributes();
  std::int64_t places = 1;
  for (const std::int64_t d : attributes.convolution->kernel_spatial) {
    places *= filters.dim(static_cast<int>(d));
  }
  const std::int64_t groups =
      std::max(attributes.feature_group_count, attributes.batch_group_count);
  const std::int64_t products = filters.element_count() / groups;
  if (places > PatchGeometry::kMostPlaces ||
      products < (groups == 1 ? kLeastProducts : kLeastOfGroup)) {
    return nullptr;
  }
  return std::make_shared<ByteConvolution>(instruction, *loops);
}

}  // namespace plimsoll::kernels
