// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <numeric>
#include <string>

#include "runtime/ir/participants.h"
#include "tests/cases/random_steps.h"

namespace plimsoll::cases {
namespace {

using ir::Attributes;
using ir::Computation;
using ir::Dims;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

std::vector<std::int64_t> shuffled(Random& random, std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  for (std::size_t i = numbers.size(); i > 1; --i) {
    std::swap(numbers[i - 1], numbers[random.below(i)]);
  }
  return numbers;
}

// Random groups of equal sizes, and how many participants each has.
struct Grouping {
  std::shared_ptr<ir::CollectiveAttributes> attributes =
      std::make_shared<ir::CollectiveAttributes>();
  std::int64_t size = 1;
};

// `may_cross`: of an operation whose groups may bring replicas and partitions together.
Grouping grouping(const ir::Module& module, Random& random, bool may_cross) {
  const std::int64_t replicas = module.replica_count, partitions = module.num_partitions;
  Grouping made;
  std::int64_t count = replicas;
  if (random.chance(0.5)) {
    made.attributes->channel_id = ir::unused_channel(module);
    made.attributes->use_global_device_ids = may_cross && random.chance(0.5);
    if (!may_cross) count = partitions;
    if (made.attributes->use_global_device_ids) count = replicas * partitions;
  }
  const bool with_partitions =
      may_cross && made.attributes->channel_id != 0 && !made.attributes->use_global_device_ids;
  made.size = count;
  if (made.attributes->use_global_device_ids || random.chance(0.7)) {
    std::vector<std::int64_t> sizes;
    for (std::int64_t size = 1; size <= count; ++size) {
      if (count % size == 0) sizes.push_back(size);
    }
    made.size = sizes[random.below(sizes.size())];
    const std::vector<std::int64_t> numbers = shuffled(random, count);
    for (std::int64_t first = 0; first < count; first += made.size) {
      made.attributes->replica_groups.emplace_back(numbers.begin() + first,
                                                   numbers.begin() + first + made.size);
    }
  }
  if (with_partitions) made.size *= partitions;
  return made;
}

Computation* reducer_of(ir::Module& module, Opcode opcode, DType dtype = DType::f32) {
  Computation* computation = module.add_computation("reducer");
  const Shape scalar(dtype, {});
  Instruction* a = computation->add_parameter(0, scalar);
  Instruction* b = computation->add_parameter(1, scalar);
  Graph graph(*computation);
  computation->set_root(graph.op(opcode, {a, b}));
  return computation;
}

double reduced_bound(Opcode opcode, double bound, std::int64_t members) {
  return opcode == Opcode::add ? bound * static_cast<double>(members) : bound;
}

constexpr double kWholes = 16;  // of one

Instruction* as_integers(Graph& graph, Value x) {
  return graph.convert(graph.scaled(x, kWholes).at, DType::s32);
}
Value from_integers(Graph& graph, Instruction* at, double bound) {
  return graph.scaled({graph.convert(at, DType::f32), kWholes * bound, false}, 1 / kWholes);
}
// Cut to sixteenths.
Value whole(Graph& graph, Value x) { return from_integers(graph, as_integers(graph, x), x.bound); }

// The sum, maximum or minimum of x over a group, at times as a start and a done half.
Value all_reduced(Graph& graph, Random& random, Value x, Opcode opcode, bool whole_sums) {
  const bool in_wholes = whole_sums && opcode == Opcode::add;
  const bool in_integers = in_wholes && random.chance(0.5);
  if (in_wholes && !in_integers) x = whole(graph, x);
  Instruction* const operand = in_integers ? as_integers(graph, x) : x.at;
  const Grouping groups = grouping(graph.module(), random, true);
  Attributes attributes;
  attributes.collective = groups.attributes;
  Computation* reducer = reducer_of(graph.module(), opcode, operand->shape().dtype());
  Instruction* made = nullptr;
  if (random.chance(0.3)) {
    Instruction* start =
        graph.given(Opcode::all_reduce_start, operand->shape(), {operand}, attributes, {reducer});
    made = graph.given(Opcode::all_reduce_done, operand->shape(), {start});
  } else {
    made = graph.op(Opcode::all_reduce, {operand}, attributes, {reducer});
  }
  const double bound = reduced_bound(opcode, x.bound, groups.size);
  if (in_integers) return from_integers(graph, made, bound);
  return {made, bound, x.exact && opcode != Opcode::add};
}

Opcode any_reducer(Random& random) {
  const Opcode opcodes[] = {Opcode::add, Opcode::add, Opcode::maximum, Opcode::minimum};
  return opcodes[random.below(4)];
}

void reduces(Builder& b) {
  b.push(all_reduced(b.graph, b.random, b.any(), any_reducer(b.random), b.options.whole_sums));
}

// At times of two dtypes.
void reduces_several(Builder& b) {
  Value x = b.any(), y = b.any();
  // What rounds otherwise than the interpreter could round to another half.
  const bool in_half = y.exact && b.random.chance(0.5);
  const Grouping groups = grouping(b.graph.module(), b.random, true);
  const Opcode opcode = any_reducer(b.random);
  if (b.options.whole_sums && opcode == Opcode::add) {
    x = whole(b.graph, x);
    y = whole(b.graph, y);
  }
  Attributes attributes;
  attributes.collective = groups.attributes;
  Instruction* const second = in_half ? b.graph.convert(y.at, DType::bf16) : y.at;
  Instruction* both = b.graph.op(Opcode::all_reduce, {x.at, second}, attributes,
                                 {reducer_of(b.graph.module(), opcode)});
  for (const auto& [of, element] : {std::pair(x, 0), std::pair(y, 1)}) {
    Instruction* part = b.graph.computation().add_get_tuple_element(both, element);
    if (element == 1 && in_half) part = b.graph.convert(part, DType::f32);
    b.push({part, reduced_bound(opcode, of.bound, groups.size), of.exact && opcode != Opcode::add});
  }
}

// What is linear, or adds what all have.
Value linear(Builder& b, Value x) {
  switch (b.random.below(5)) {
    case 0:
      return b.graph.unary(Opcode::negate, x, x.bound);
    case 1:
      return b.graph.scaled(x, 0.5);
    case 2:
      return b.graph.binary(Opcode::add, x, b.graph.constant(0.75, x.dims()), x.bound + 0.75);
    case 3:
      return b.graph.binary(Opcode::subtract, b.graph.constant(1.5, x.dims()), x, x.bound + 1.5);
    default:
      return b.graph.scaled(x, 2);
  }
}

// Over partitions, then, of something linear of it, over replicas.
void reduces_twice(Builder& b) {
  Value x = b.any();
  const bool in_wholes = b.options.whole_sums, in_integers = in_wholes && b.random.chance(0.5);
  if (in_wholes && !in_integers) x = whole(b.graph, x);
  ir::Module& module = b.graph.module();
  auto inner = std::make_shared<ir::CollectiveAttributes>();
  inner->channel_id = ir::unused_channel(module);
  for (std::int64_t r = 0; r < module.replica_count; ++r) inner->replica_groups.push_back({r});
  Attributes attributes;
  attributes.collective = std::move(inner);
  const double bound = reduced_bound(Opcode::add, x.bound, module.num_partitions);
  if (in_integers) {
    Computation* reducer = reducer_of(module, Opcode::add, DType::s32);
    Instruction* const sum =
        b.graph.op(Opcode::all_reduce, {as_integers(b.graph, x)}, attributes, {reducer});
    Instruction* part = b.graph.op(Opcode::negate, {sum});
    if (b.random.chance(0.5)) {
      part = b.graph.op(Opcode::add,
                        {part, b.graph.spread(b.graph.scalar(std::int32_t{5}), x.dims())});
    }
    Instruction* const all = b.graph.op(Opcode::all_reduce, {part}, {}, {reducer});
    return b.push(
        from_integers(b.graph, all, reduced_bound(Opcode::add, bound + 1, module.replica_count)));
  }
  Computation* reducer = reducer_of(module, Opcode::add);
  const Value sum{b.graph.op(Opcode::all_reduce, {x.at}, attributes, {reducer}), bound, false};
  Value part = b.graph.scaled(sum, 0.25);
  if (in_wholes) {
    for (std::uint64_t i = b.random.below(3); i > 0; --i) part = linear(b, part);
  }
  b.push({b.graph.op(Opcode::all_reduce, {part.at}, {}, {reducer}),
          reduced_bound(Opcode::add, part.bound, module.replica_count), false});
}

void gathers(Builder& b) {
  const Value x = b.any_matrix();
  const Grouping groups = grouping(b.graph.module(), b.random, true);
  const auto dimension = static_cast<int>(b.random.between(0, 1));
  Dims dims = x.dims();
  dims[dimension] *= groups.size;
  Attributes attributes;
  attributes.collective = groups.attributes;
  attributes.dimensions = {dimension};
  const Shape large(DType::f32, dims);
  Instruction* made = nullptr;
  if (b.random.chance(0.3)) {
    Instruction* start = b.graph.given(Opcode::all_gather_start,
                                       Shape::tuple({x.at->shape(), large}), {x.at}, attributes);
    made = b.graph.given(Opcode::all_gather_done, large, {start});
  } else {
    made = b.graph.given(Opcode::all_gather, large, {x.at}, attributes);
  }
  b.push({made, x.bound, x.exact});
}

void scatters(Builder& b) {
  const Grouping groups = grouping(b.graph.module(), b.random, true);
  Dims piece = b.any_shape();
  const auto dimension = static_cast<int>(b.random.between(0, 1));
  Dims dims = piece;
  dims[dimension] *= groups.size;
  Value x = b.graph.fitted(b.any(), dims);
  const Opcode opcode = any_reducer(b.random);
  if (b.options.whole_sums && opcode == Opcode::add) x = whole(b.graph, x);
  Attributes attributes;
  attributes.collective = groups.attributes;
  attributes.dimensions = {dimension};
  b.push({b.graph.given(Opcode::reduce_scatter, Shape(DType::f32, piece), {x.at}, attributes,
                        {reducer_of(b.graph.module(), opcode)}),
          reduced_bound(opcode, x.bound, groups.size), x.exact && opcode != Opcode::add});
}

void trades(Builder& b) {
  const Grouping groups = grouping(b.graph.module(), b.random, false);
  Attributes attributes;
  attributes.collective = groups.attributes;
  if (b.random.chance(0.3)) {
    const Dims dims = b.any_shape();
    std::vector<Instruction*> operands;
    std::vector<Shape> shapes;
    double bound = 0;
    bool exact = true;
    for (std::int64_t i = 0; i < groups.size; ++i) {
      const Value x = b.graph.fitted(b.any(), dims);
      operands.push_back(x.at);
      shapes.push_back(x.at->shape());
      bound = std::max(bound, x.bound);
      exact = exact && x.exact;
    }
    if (groups.size == 1) return;
    Instruction* all =
        b.graph.given(Opcode::all_to_all, Shape::tuple(shapes), operands, attributes);
    const auto element = static_cast<std::int64_t>(b.random.below(operands.size()));
    return b.push({b.graph.computation().add_get_tuple_element(all, element), bound, exact});
  }
  const auto dimension = static_cast<int>(b.random.between(0, 1));
  Dims dims = b.any_shape();
  dims[dimension] *= groups.size;
  const Value x = b.graph.fitted(b.any(), dims);
  attributes.dimensions = {dimension};
  b.push({b.graph.given(Opcode::all_to_all, x.at->shape(), {x.at}, attributes), x.bound, x.exact});
}

// Some send to others, some receive from nobody.
void permutes(Builder& b) {
  const Value x = b.any();
  auto collective = std::make_shared<ir::CollectiveAttributes>();
  std::int64_t count = b.graph.module().replica_count;
  if (b.random.chance(0.5)) {
    collective->channel_id = ir::unused_channel(b.graph.module());
    count = b.graph.module().num_partitions;
  }
  const auto sources = shuffled(b.random, count), targets = shuffled(b.random, count);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (b.random.chance(0.8)) collective->source_target_pairs.emplace_back(sources[i], targets[i]);
  }
  Attributes attributes;
  attributes.collective = std::move(collective);
  Instruction* made = nullptr;
  if (b.random.chance(0.3)) {
    Instruction* start =
        b.graph.given(Opcode::collective_permute_start,
                      Shape::tuple({x.at->shape(), x.at->shape()}), {x.at}, attributes);
    made = b.graph.given(Opcode::collective_permute_done, x.at->shape(), {start});
  } else {
    made = b.graph.op(Opcode::collective_permute, {x.at}, attributes);
  }
  b.push({made, x.bound, x.exact});
}

// What one sends another: in rings, with both first halves before both second ones, and along
// chains, in which what is sent follows from what was received.
void sends(Builder& b) {
  const Value x = b.any();
  ir::Module& module = b.graph.module();
  auto collective = std::make_shared<ir::CollectiveAttributes>();
  std::int64_t count = module.replica_count;
  if (b.random.chance(0.5)) {
    collective->channel_id = ir::unused_channel(module);
    count = module.num_partitions;
  }
  const bool is_chain = b.random.chance(0.4);
  const auto order = shuffled(b.random, count);
  const auto targets = is_chain ? order : shuffled(b.random, count);
  std::string pairs;
  for (std::size_t i = is_chain ? 1 : 0; i < order.size(); ++i) {
    if (!is_chain && b.random.chance(0.2)) continue;
    pairs += (pairs.empty() ? "{" : ",{") + std::to_string(order[is_chain ? i - 1 : i]) + "," +
             std::to_string(targets[i]) + "}";
  }
  Attributes attributes;
  attributes.collective = std::move(collective);
  attributes.extra.emplace_back("frontend_attributes",
                                "{" + std::string(ir::kSendRecvPairs) + "=\"{" + pairs + "}\"}");
  const Shape shape = x.at->shape(), token = Shape::token();
  const Shape under_way = Shape::tuple({shape, Shape(DType::u32, {}), token});
  Attributes of_done;
  of_done.collective = attributes.collective;
  Instruction* const after = b.graph.given(Opcode::after_all, token, {});
  Instruction *recv = nullptr, *done = nullptr, *sent = nullptr;
  const auto receive = [&] { recv = b.graph.given(Opcode::recv, under_way, {after}, attributes); };
  const auto end_receive = [&] {
    done = b.graph.given(Opcode::recv_done, Shape::tuple({shape, token}), {recv}, of_done);
  };
  const auto send = [&](Instruction* what) {
    sent = b.graph.given(Opcode::send, under_way, {what, after}, attributes);
  };
  const auto end_send = [&] { b.graph.given(Opcode::send_done, token, {sent}, of_done); };
  Instruction* got = nullptr;
  if (is_chain) {
    receive();
    end_receive();
    got = b.graph.computation().add_get_tuple_element(done, 0);
    send(b.graph.tamed(b.graph.binary(Opcode::add, {got, x.bound, x.exact}, x, 2 * x.bound)).at);
    end_send();
  } else {
    const bool receives_first = b.random.chance(0.5);
    if (receives_first) receive();
    send(x.at);
    if (!receives_first) receive();
    if (b.random.chance(0.5)) {
      end_send();
      end_receive();
    } else {
      end_receive();
      end_send();
    }
    got = b.graph.computation().add_get_tuple_element(done, 0);
  }
  b.push({got, std::max(x.bound, 2.0), x.exact && !is_chain});
}

// Some rows to each of a group. Who sends how many to whom stands in tables, of which everybody
// reads its own line.
void trades_rows(Builder& b) {
  ir::Module& module = b.graph.module();
  const Grouping groups = grouping(module, b.random, false);
  const bool by_partition = groups.attributes->channel_id != 0;
  const std::int64_t numbers = by_partition ? module.num_partitions : module.replica_count;
  const std::int64_t updates = b.random.between(1, 3), line = groups.size * updates;
  const std::int64_t rows = b.random.between(3, 6);
  const auto numbers_of = [&](std::size_t from, std::size_t to) {
    return static_cast<std::size_t>(static_cast<std::int64_t>(from) * line +
                                    static_cast<std::int64_t>(to) * updates);
  };
  std::vector<std::int32_t> begins(static_cast<std::size_t>(numbers * line)),
      sizes = begins, places = begins, expected = begins;
  auto members_of = groups.attributes->replica_groups;
  if (members_of.empty()) {
    members_of.emplace_back(static_cast<std::size_t>(numbers));
    std::iota(members_of[0].begin(), members_of[0].end(), 0);
  }
  std::int64_t most = 1;
  for (const auto& group : members_of) {
    for (std::size_t to = 0; to < group.size(); ++to) {
      std::int64_t next = b.random.between(0, 1);
      for (const std::int64_t from : shuffled(b.random, groups.size)) {
        for (std::int64_t k = 0; k < updates; ++k) {
          const auto sender = static_cast<std::size_t>(group[static_cast<std::size_t>(from)]);
          const std::size_t i = numbers_of(sender, to) + static_cast<std::size_t>(k);
          const std::int64_t size = b.random.between(0, 2);
          sizes[i] = static_cast<std::int32_t>(size);
          begins[i] = static_cast<std::int32_t>(b.random.between(0, rows - size));
          places[i] = static_cast<std::int32_t>(next);
          expected[numbers_of(static_cast<std::size_t>(group[to]), static_cast<std::size_t>(from)) +
                   static_cast<std::size_t>(k)] = sizes[i];
          next += size + b.random.between(0, 1);
        }
      }
      most = std::max(most, next);
    }
  }
  Instruction* const id = b.graph.given(by_partition ? Opcode::partition_id : Opcode::replica_id,
                                        Shape(DType::u32, {}), {});
  Instruction* const zero = b.graph.computation().add_constant(
      ir::Literal::array<std::uint32_t>({}, std::vector<std::uint32_t>{0}));
  const auto own = [&](const std::vector<std::int32_t>& table) {
    Instruction* const all = b.graph.computation().add_constant(
        ir::Literal::array<std::int32_t>({numbers, line}, table));
    Attributes slices;
    slices.slice_sizes = {1, line};
    Instruction* const row = b.graph.op(Opcode::dynamic_slice, {all, id, zero}, slices);
    return b.graph.given(Opcode::reshape, Shape(DType::s32, {line}), {row});
  };
  const std::int64_t columns = b.random.between(1, 40);
  const Value x = b.graph.fitted(b.any(), {rows, columns}),
              before = b.graph.fitted(b.any(), {most, columns});
  Attributes attributes;
  attributes.collective = groups.attributes;
  b.push({b.graph.op(Opcode::ragged_all_to_all,
                     {x.at, before.at, own(begins), own(sizes), own(places), own(expected)},
                     attributes),
          std::max(x.bound, before.bound), x.exact && before.exact});
}

void broadcasts(Builder& b) {
  const Value x = b.any();
  Attributes attributes;
  attributes.collective = grouping(b.graph.module(), b.random, false).attributes;
  b.push({b.graph.op(Opcode::collective_broadcast, {x.at}, attributes), x.bound, x.exact});
}

void numbers(Builder& b) {
  const bool replica = b.random.chance(0.5);
  Instruction* id =
      b.graph.given(replica ? Opcode::replica_id : Opcode::partition_id, Shape(DType::u32, {}), {});
  const Value number{b.graph.convert(id, DType::f32), 16, true};
  const Value x = b.any();
  const Value spread{b.graph.spread(b.graph.scaled(number, 0.1).at, x.dims()), 2, true};
  b.push(b.graph.binary(Opcode::add, x, spread, x.bound + 2));
}

// A sum over a group in each round of a loop.
void loops(Builder& b) {
  const Value x = b.graph.tamed(b.any_matrix());
  Instruction* loop =
      counted_loop(b.graph, b.random.between(2, 4), {x.at},
                   [&](Graph& body, Instruction*, const std::vector<Instruction*>& state) {
                     const Value sum = all_reduced(body, b.random, {state[0], 2, false},
                                                   Opcode::add, b.options.whole_sums);
                     return std::vector<Instruction*>{body.tamed(sum).at};
                   });
  b.push({b.graph.computation().add_get_tuple_element(loop, 1), 2, false});
}

void calls(Builder& b) {
  const Value x = b.graph.tamed(b.any());
  Computation* callee = b.graph.module().add_computation("together");
  const Value argument{callee->add_parameter(0, x.at->shape()), 2, x.exact};
  Graph inner(*callee);
  const Value made =
      inner.tamed(all_reduced(inner, b.random, inner.unary(Opcode::sine, argument, 1),
                              any_reducer(b.random), b.options.whole_sums));
  callee->set_root(made.at);
  b.push({b.graph.op(Opcode::call, {x.at}, {}, {callee}), 2, false});
}

}  // namespace

Value summed_over_all(Graph& graph, Random& random, Value x, const RandomModuleOptions& options) {
  return all_reduced(graph, random, x, Opcode::add, options.whole_sums);
}

std::vector<Step> collective_steps() {
  return {reduces, reduces,    reduces_several, gathers, scatters, trades,        permutes,
          sends,   broadcasts, numbers,         loops,   calls,    reduces_twice, trades_rows};
}

}  // namespace plimsoll::cases
