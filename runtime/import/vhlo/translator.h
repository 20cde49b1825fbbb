// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/import/vhlo/operations.h"
#include "runtime/ir/module.h"
#include "runtime/ir/sharding.h"

namespace plimsoll::vhlo {

// What a computation knows: the instructions of values, inner ones included that it was given.
struct Scope {
  ir::Computation* computation = nullptr;
  bool of_elements = false;  // what an operation does with each element, which devices share by it
  std::unordered_map<const Value*, ir::Instruction*> values;
};

// Makes a module of VHLO's operations. Functions become computations; regions too, which are given
// what they use of the operations around them: small constants are made anew, other values are
// passed along with the operands of branches and the state of loops.
class Translator {
 public:
  // `top` is the block around the module.
  explicit Translator(const Block& top) : top_(top) {}

  Result<std::unique_ptr<ir::Module>> translate();

 private:
  using Instructions = std::vector<ir::Instruction*>;
  using Computations = std::vector<ir::Computation*>;
  using Handler = Result<Instructions> (Translator::*)(const Operation&, Scope&);
  struct Function {
    const Operation* operation = nullptr;
    ir::Computation* computation = nullptr;  // null: not translated yet
    bool is_open = false;                    // being translated
  };
  struct Row {
    std::string_view name;  // without `vhlo.` and version
    Handler handler;
  };
  static const Row* find_row(std::string_view name);

  Status find_functions(const Block& module);
  Status read_arguments(const Operation& function, ir::Module& module, bool has_tuple);
  // How many replicas and partitions run the module, and how they hold what comes and goes.
  Status read_participants(const Operation& module, const Operation& function);
  Result<ir::Computation*> function(std::string_view name);
  // Gives the values that the block returns.
  Result<Instructions> translate_block(const Block& block, Scope& scope);
  Result<Instructions> translate_operation(const Operation& operation, Scope& scope);
  // One value stands for itself, several or none for their tuple.
  static ir::Instruction* pack(ir::Computation& computation, const Instructions& values);
  // The other direction.
  static Instructions unpack(ir::Computation& computation, ir::Instruction* packed,
                             std::size_t count);

  // The instruction of a value; of a small constant of a region around this one, a new one.
  Result<ir::Instruction*> use(const Value* value, Scope& scope);
  Result<ir::Instruction*> operand(const Operation& operation, std::size_t i, Scope& scope);
  Result<Instructions> operands(const Operation& operation, Scope& scope);

  // Regions.
  // Each argument a parameter; what it uses from outside can only be constants. `shapes`: the
  // arguments', where their types do not say them.
  Result<ir::Computation*> region(const Operation& operation, std::size_t i,
                                  std::span<const ir::Shape> shapes = {});
  // What a region uses of values from outside, but for what use() makes anew, each once.
  static std::vector<const Value*> captures(const Operation& operation);
  // A computation of one parameter, which holds `arguments` and `captured` in this order; its
  // result is the block's, followed by `captured` where `passes_on`.
  Result<ir::Computation*> packed_region(const Block& block, const ir::Shape& parameter,
                                         const std::vector<const Value*>& arguments,
                                         const std::vector<const Value*>& captured, bool passes_on);

  // An instruction of the type that the operation's only result has; `opcode` as HLO writes it.
  Result<Instructions> one(const Operation& operation, Scope& scope, std::string_view opcode,
                           Instructions operands, ir::Attributes attributes = {},
                           Computations called = {});
  // The same, of a tuple where there are several results.
  Result<Instructions> several(const Operation& operation, Scope& scope, std::string_view opcode,
                               Instructions operands, ir::Attributes attributes = {},
                               Computations called = {});

  // Handlers (translate_*.cc).
  Result<Instructions> by_name(const Operation& operation, Scope& scope);
  Result<Instructions> constant(const Operation& operation, Scope& scope);
  Result<Instructions> broadcast_in_dim(const Operation& operation, Scope& scope);
  Result<Instructions> broadcast(const Operation& operation, Scope& scope);
  Result<Instructions> dimensions(const Operation& operation, Scope& scope);
  Result<Instructions> slice(const Operation& operation, Scope& scope);
  Result<Instructions> dynamic_slice(const Operation& operation, Scope& scope);
  Result<Instructions> pad(const Operation& operation, Scope& scope);
  Result<Instructions> compare(const Operation& operation, Scope& scope);
  Result<Instructions> select(const Operation& operation, Scope& scope);
  Result<Instructions> reduce_precision(const Operation& operation, Scope& scope);
  Result<Instructions> get_dimension_size(const Operation& operation, Scope& scope);
  Result<Instructions> gather(const Operation& operation, Scope& scope);
  Result<Instructions> scatter(const Operation& operation, Scope& scope);
  Result<Instructions> dot(const Operation& operation, Scope& scope);
  Result<Instructions> dot_general(const Operation& operation, Scope& scope);
  Result<Instructions> convolution(const Operation& operation, Scope& scope);
  Result<Instructions> reduce(const Operation& operation, Scope& scope);
  Result<Instructions> reduce_window(const Operation& operation, Scope& scope);
  Result<Instructions> select_and_scatter(const Operation& operation, Scope& scope);
  Result<Instructions> sort(const Operation& operation, Scope& scope);
  Result<Instructions> map(const Operation& operation, Scope& scope);
  Result<Instructions> rng(const Operation& operation, Scope& scope);
  Result<Instructions> rng_bit_generator(const Operation& operation, Scope& scope);
  Result<Instructions> tuple(const Operation& operation, Scope& scope);
  Result<Instructions> get_tuple_element(const Operation& operation, Scope& scope);
  Result<Instructions> optimization_barrier(const Operation& operation, Scope& scope);
  Result<Instructions> call(const Operation& operation, Scope& scope);
  Result<Instructions> composite(const Operation& operation, Scope& scope);
  Result<Instructions> custom_call(const Operation& operation, Scope& scope);
  Result<Instructions> batch_norm(const Operation& operation, Scope& scope);
  Result<Instructions> token(const Operation& operation, Scope& scope);
  Result<Instructions> fft(const Operation& operation, Scope& scope);
  // A factorization or a solution: cholesky and triangular_solve.
  Result<Instructions> triangular(const Operation& operation, Scope& scope);
  Result<Instructions> while_loop(const Operation& operation, Scope& scope);
  Result<Instructions> conditional(const Operation& operation, Scope& scope);
  Result<Instructions> collective(const Operation& operation, Scope& scope);
  static Result<Instructions> moved_pieces(const Operation& operation, const Instructions& values,
                                           ir::Attributes attributes, std::int64_t from,
                                           std::int64_t to, std::int64_t pieces);
  Result<Instructions> partition(const Operation& operation, Scope& scope);
  // A region of Shardy that every partition runs on its tiles: a call between custom calls that
  // enter and leave it.
  Result<Instructions> manual_computation(const Operation& operation, Scope& scope);
  // A value whose sharding is said, which counts where it is a result.
  Result<Instructions> constrained(const Operation& operation, Scope& scope);
  // What `sharding` says by its mesh, of which only `axes` count; null: all.
  Result<ir::Sharding> sharding_of(const Attribute& sharding, const Attribute* axes) const;

  const Block& top_;
  std::unique_ptr<ir::Module> module_;
  std::vector<Function> functions_;
  std::unordered_map<std::string_view, std::size_t> function_index_;
  std::unordered_map<std::string_view, const Attribute*> meshes_;
  int depth_ = 0;
};

// INVALID_ARGUMENT: what the operation `is` or `has` that no reader can make sense of.
Status wrong(const Operation& operation, std::string_view what = "is malformed");

// The base of an operation's name: `vhlo.dot_general_v2` -> `dot_general`.
std::string_view base_name(std::string_view name);

// Null where the dictionary has no such entry.
const Attribute* entry_of(const Attribute& dictionary, std::string_view name);

// Attributes by name; INVALID_ARGUMENT where there is none of that kind.
Result<std::int64_t> number_of(const Operation& operation, std::string_view name);
Result<std::string_view> text_of(const Operation& operation, std::string_view name);
// The elements of an integer tensor or of a list of numbers, in order.
Result<std::vector<std::int64_t>> numbers_of(const Operation& operation, std::string_view name);

}  // namespace plimsoll::vhlo
