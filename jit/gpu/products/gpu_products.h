// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "jit/gpu/gpu_entry.h"
#include "jit/gpu/products/gpu_contraction.h"
#include "jit/gpu/products/gpu_operand.h"

namespace plimsoll::jit {

struct Products;

// How few rows of one operand (vectors) are multiplied with those of the other, a matrix.
struct VectorForm {
  static constexpr std::int64_t kMostVectors = 4;

  explicit VectorForm(const Products& products);

  int matrix = 0;  // which operand
  std::int64_t rows = 1, vectors = 1;
  bool along_depth = false;  // neighbouring elements of the matrix are of one row
  bool batch_first = false;  // neighbouring threads have neighbouring batches
  int width = 1;             // of the pieces that it is read by
  // Units are two rows, or `width` neighbouring ones. So many lanes share a unit's positions, or so
  // many parts of a block's threads.
  std::int64_t units = 1, lanes = 1, splits = 1;
  std::int64_t parts = 1;  // that the contracted positions should be cut in
};

// A contraction on its way to code: extents, the dtype that sums have, and the parts that the
// contracted positions are cut in, which follow from the shape alone.
struct Products {
  Products(GpuWriter& writer, const Contraction& contraction);

  GpuWriter& writer;
  const Contraction& contraction;
  const ir::DType dtype;
  const std::int64_t batch, m, n, k;
  std::int64_t part = 0, parts = 1;  // positions in a part, a multiple of kPartUnit
  const ArrayPlaces lhs, rhs, out;
  std::optional<VectorForm> vector;  // of few rows or columns

  llvm::Type* type(int width = 1) const;
  ir::DType operand_dtype(int i) const;
  // In `part_number` (null where there is one part) positions begin and end here.
  llvm::Value* first_position(GpuEntry& entry, llvm::Value* part_number) const;
  llvm::Value* end_position(GpuEntry& entry, llvm::Value* first) const;
};

// Parts begin at multiples of this.
inline constexpr std::int64_t kPartUnit = 16;

// Where the sums of one block go: into the result or, of one part of several, into the workspace.
class ProductResults {
 public:
  ProductResults(GpuEntry& entry, const Products& products, llvm::Value* batch,
                 llvm::Value* part_number, int most_width);

  // So many results of neighbouring columns, from a multiple of it on, can be stored at once; at
  // most `most_width`.
  int width() const { return width_; }
  // The places of a row and of a column, once for all results in it.
  llvm::Value* row(llvm::Value* m);
  llvm::Value* column(llvm::Value* n);
  // `value`: a sum, or a vector of neighbours of them.
  void store(llvm::Value* row, llvm::Value* column, llvm::Value* value);

 private:
  GpuEntry& entry_;
  const Products& products_;
  llvm::Value* start_ = nullptr;
  int width_ = 1;
};

// Adds the launch that adds up the parts, in order; nothing where there is one part.
void write_sum_of_parts(const Products& products);

// A form of tiles, and how fast multiprocessors of a GPU are with it (rough, of an H100).
struct TileForm {
  std::int64_t m = 1, n = 1, depth = 1, threads = kWarp;
  std::int64_t resident = 1;      // blocks that a multiprocessor holds
  double products_per_cycle = 1;  // of a multiprocessor that is full of them, at most
  double products_of_warp = 1;    // per cycle, at most
  double latency = 1;             // cycles from one tile of a block to the next, at least
};
// The fewest cycles that the products may take.
double cycles_of(const Products& products, const TileForm& form);

// A block's tile, and its number in batch and part: blocks that run together share rows and
// columns.
struct BlockPlace {
  llvm::Value* m_first = nullptr;
  llvm::Value* n_first = nullptr;
  llvm::Value* batch = nullptr;
  llvm::Value* part = nullptr;
};
BlockPlace place_block(GpuEntry& entry, const Products& products, std::int64_t tile_m,
                       std::int64_t tile_n);

// The launches of products with vectors, by multiply-adds of single numbers, and by tensor cores,
// which take pairs of f16 or of bf16 from compute capability 8.0 on.
void write_vector_products(const Products& products);
void write_simt_products(const Products& products);
bool takes_tensor_cores(const Products& products);
void write_tensor_products(const Products& products);

}  // namespace plimsoll::jit
