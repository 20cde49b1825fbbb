// SPDX-License-Identifier: Apache-2.0
// Row fusions: chained reductions along rows as one kernel have the bits of one kernel an
// instruction.
#include <map>

#include "runtime/ir/fusions/in_place.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

using Words = std::vector<std::pair<std::string, std::string>>;

std::string with(std::string text, const Words& words) {
  for (const auto& [word, value] : words) {
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word)) {
      text.replace(at, word.size(), value);
    }
  }
  return text;
}

constexpr const char* kReducers = R"(
sum { x = $T[] parameter(0)
 y = $T[] parameter(1)
 ROOT s = $T[] add(x, y) }
max { x = $T[] parameter(0)
 y = $T[] parameter(1)
 ROOT s = $T[] maximum(x, y) }
)";

// Bodies of fusions on p, q: $T[$D]; w, b: $T[$W] along the row; $R are the rows.
struct Program {
  const char* name;
  const char* lines;
  const char* roots;
  double tolerance;
};

constexpr Program kPrograms[] = {
    {"softmax", R"(
 ninf = $T[] constant(-inf)
 m = $T[$R] reduce(p, ninf), dimensions={$M}, to_apply=max
 mb = $T[$D] broadcast(m), dimensions={$K}
 c = $T[$D] subtract(p, mb)
 e = $T[$D] exponential(c)
 s = $T[$R] reduce(e, z), dimensions={$M}, to_apply=sum
 sb = $T[$D] broadcast(s), dimensions={$K}
 r0 = $T[$D] divide(e, sb))",
     "$T[$D] r0", 1e-5},
    {"softmax with what training keeps", R"(
 ninf = $T[] constant(-inf)
 m = $T[$R] reduce(p, ninf), dimensions={$M}, to_apply=max
 mb = $T[$D] broadcast(m), dimensions={$K}
 c = $T[$D] subtract(p, mb)
 e = $T[$D] exponential(c)
 s = $T[$R] reduce(e, z), dimensions={$M}, to_apply=sum
 sb = $T[$D] broadcast(s), dimensions={$K}
 y = $T[$D] divide(e, sb)
 l = $T[$R] log(s)
 n = $T[$R] add(l, m))",
     "$T[$D] y,$T[$D] e,$T[$R] n", 1e-5},
    {"log-softmax", R"(
 ninf = $T[] constant(-inf)
 m = $T[$R] reduce(p, ninf), dimensions={$M}, to_apply=max
 mb = $T[$D] broadcast(m), dimensions={$K}
 c = $T[$D] subtract(p, mb)
 e = $T[$D] exponential(c)
 s = $T[$R] reduce(e, z), dimensions={$M}, to_apply=sum
 l = $T[$R] log(s)
 lb = $T[$D] broadcast(l), dimensions={$K}
 r0 = $T[$D] subtract(c, lb))",
     "$T[$D] r0", 1e-5},
    {"cross-entropy", R"(
 ninf = $T[] constant(-inf)
 m = $T[$R] reduce(p, ninf), dimensions={$M}, to_apply=max
 mb = $T[$D] broadcast(m), dimensions={$K}
 c = $T[$D] subtract(p, mb)
 e = $T[$D] exponential(c)
 s = $T[$R] reduce(e, z), dimensions={$M}, to_apply=sum
 l = $T[$R] log(s)
 lb = $T[$D] broadcast(l), dimensions={$K}
 o = $T[$D] subtract(c, lb)
 zb = $T[$D] broadcast(z), dimensions={}
 hit = pred[$D] compare(q, zb), direction=GT
 h = $T[$D] select(hit, o, zb)
 r0 = $T[$R] reduce(h, z), dimensions={$M}, to_apply=sum)",
     "$T[$R] r0", 1e-4},
    {"layer norm", R"(
 k = $T[] constant(0.0625)
 kb = $T[$R] broadcast(k), dimensions={}
 s = $T[$R] reduce(p, z), dimensions={$M}, to_apply=sum
 mean = $T[$R] multiply(s, kb)
 mb = $T[$D] broadcast(mean), dimensions={$K}
 c = $T[$D] subtract(p, mb)
 cc = $T[$D] multiply(c, c)
 v = $T[$R] reduce(cc, z), dimensions={$M}, to_apply=sum
 va = $T[$R] multiply(v, kb)
 ve = $T[$R] add(va, kb)
 i = $T[$R] rsqrt(ve)
 ib = $T[$D] broadcast(i), dimensions={$K}
 n = $T[$D] multiply(c, ib)
 wb = $T[$D] broadcast(w), dimensions={$L}
 bb = $T[$D] broadcast(b), dimensions={$L}
 nw = $T[$D] multiply(n, wb)
 y = $T[$D] add(nw, bb))",
     "$T[$D] y,$T[$R] mean,$T[$R] i", 1e-4},
    {"layer norm of a sum that is kept", R"(
 k = $T[] constant(0.0625)
 kb = $T[$R] broadcast(k), dimensions={}
 x = $T[$D] add(p, q)
 s = $T[$R] reduce(x, z), dimensions={$M}, to_apply=sum
 mean = $T[$R] multiply(s, kb)
 mb = $T[$D] broadcast(mean), dimensions={$K}
 c = $T[$D] subtract(x, mb)
 cc = $T[$D] multiply(c, c)
 v = $T[$R] reduce(cc, z), dimensions={$M}, to_apply=sum
 va = $T[$R] multiply(v, kb)
 ve = $T[$R] add(va, kb)
 i = $T[$R] rsqrt(ve)
 ib = $T[$D] broadcast(i), dimensions={$K}
 n = $T[$D] multiply(c, ib))",
     "$T[$D] x,$T[$D] n,$T[$D] c", 1e-4},
    {"gradient of softmax", R"(
 g = $T[$D] multiply(p, q)
 s = $T[$R] reduce(g, z), dimensions={$M}, to_apply=sum
 sb = $T[$D] broadcast(s), dimensions={$K}
 d = $T[$D] subtract(p, sb)
 r0 = $T[$D] multiply(d, q))",
     "$T[$D] r0", 1e-4},
    {"gradient of layer norm", R"(
 k = $T[] constant(0.0625)
 kb = $T[$R] broadcast(k), dimensions={}
 wb = $T[$D] broadcast(w), dimensions={$L}
 g = $T[$D] multiply(p, wb)
 gx = $T[$D] multiply(g, q)
 s = $T[$R] reduce(gx, z), dimensions={$M}, to_apply=sum
 sm = $T[$R] multiply(s, kb)
 smb = $T[$D] broadcast(sm), dimensions={$K}
 xs = $T[$D] multiply(q, smb)
 d = $T[$D] subtract(g, xs)
 t = $T[$R] reduce(d, z), dimensions={$M}, to_apply=sum
 tm = $T[$R] multiply(t, kb)
 tb = $T[$D] broadcast(tm), dimensions={$K}
 dx = $T[$D] subtract(d, tb)
 dp = $T[$D] add(dx, p))",
     "$T[$D] dp,$T[$R] s", 1e-3},
};

struct Dims {
  std::string full, rows, kept, reduced, row;
};

// `rows` x `minor`, and forms of the same with more dimensions.
std::vector<Dims> forms(int rows, int minor) {
  const std::string r = std::to_string(rows), m = std::to_string(minor);
  std::vector<Dims> result = {{r + "," + m, r, "0", "1", m}};
  if (rows % 3 == 0) {
    const std::string third = std::to_string(rows / 3);
    result.push_back({third + ",3," + m, third + ",3", "0,1", "2", m});
  }
  return result;
}

std::string text_of(const Program& program, const std::string& dtype, const Dims& dims) {
  std::string types, names;
  std::string roots = program.roots;
  for (std::size_t begin = 0; begin < roots.size();) {
    // Commas separate roots only after a name.
    std::size_t space = roots.find(' ', begin);
    std::size_t end = roots.find(',', space);
    if (end == std::string::npos) end = roots.size();
    types += (types.empty() ? "" : ", ") + roots.substr(begin, space - begin);
    names += (names.empty() ? "" : ", ") + roots.substr(space + 1, end - space - 1);
    begin = end + 1;
  }
  const std::string parameters =
      " p = $T[$D] parameter(0)\n q = $T[$D] parameter(1)\n w = $T[$W] parameter(2)\n b = $T[$W] "
      "parameter(3)\n";
  const auto rank = std::count(dims.full.begin(), dims.full.end(), ',');
  return with(std::string(kReducers) + "f {\n" + parameters + " z = $T[] constant(0)" +
                  program.lines + "\n ROOT root = (" + types + ") tuple(" + names +
                  ")\n}\nENTRY e {\n" + parameters + " ROOT root = (" + types +
                  ") fusion(p, q, w, b), kind=kInput, calls=f }",
              {{"$T", dtype},
               {"$D", dims.full},
               {"$R", dims.rows},
               {"$K", dims.kept},
               {"$M", dims.reduced},
               {"$W", dims.row},
               {"$L", std::to_string(rank)}});
}

// The fused computation on `arguments`, one kernel an instruction.
std::vector<ir::Literal> run_apart(const ir::Module& module,
                                   const std::vector<ir::Literal>& arguments) {
  const ir::Computation& body = *module.entry()->root()->to_apply();
  std::map<const ir::Instruction*, ir::Literal> values;
  for (const auto& instruction : body.instructions()) {
    if (instruction->opcode() == ir::Opcode::tuple) continue;
    if (instruction->opcode() == ir::Opcode::parameter) {
      values.emplace(
          instruction.get(),
          arguments[static_cast<std::size_t>(instruction->attributes().parameter_number)]);
      continue;
    }
    std::vector<ir::Literal> operands;
    for (const ir::Instruction* operand : instruction->operands()) {
      operands.push_back(values.at(operand));
    }
    auto result = run(*instruction, operands);
    EXPECT_TRUE(result.ok()) << result.status().to_string();
    if (!result.ok()) return {};
    values.emplace(instruction.get(), std::move((*result)[0]));
  }
  std::vector<ir::Literal> results;
  if (body.root()->opcode() != ir::Opcode::tuple) return {values.at(body.root())};
  for (const ir::Instruction* root : body.root()->operands()) results.push_back(values.at(root));
  return results;
}

void check_rows(const std::string& text, double tolerance, std::uint64_t seed = 1) {
  const auto module = parse(text);
  ASSERT_NE(module, nullptr) << text;
  const auto arguments = arguments_for(*module->entry(), seed);
  const auto apart = run_apart(*module, arguments);
  const auto fused = run(*module->entry()->root(), arguments);
  ASSERT_TRUE(fused.ok()) << fused.status().to_string();
  ASSERT_EQ(apart.size(), fused->size());
  for (std::size_t i = 0; i < apart.size(); ++i) {
    EXPECT_TRUE(same_bits(apart[i], (*fused)[i])) << "output " << i << "\n" << text;
  }
  if (tolerance == 0) return;
  const auto expected = ir::interpret(*module, arguments);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  const auto leaves = flatten(*expected);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    EXPECT_TRUE(close(leaves[i], (*fused)[i], tolerance)) << "output " << i;
  }
}

constexpr int kMinors[] = {2,  3,  5,  7,  8,   9,   15,  16,   17,  31,
                           33, 63, 64, 65, 127, 129, 257, 1000, 4097};

TEST(RowKernel, HasTheBitsOfOneKernelAnInstruction) {
  for (const Program& program : kPrograms) {
    for (const int minor : kMinors) {
      const int rows = minor > 500 ? 3 : minor % 2 == 0 ? 21 : 19;
      const auto dims = forms(rows, minor).back();
      SCOPED_TRACE(std::string(program.name) + " " + dims.full);
      check_rows(text_of(program, "f32", dims), program.tolerance);
    }
  }
}

TEST(RowKernel, OtherDtypesRoundAtEveryOperation) {
  for (const Program& program : kPrograms) {
    for (const char* dtype : {"bf16", "f16", "f64"}) {
      for (const int minor : {3, 65, 300}) {
        const auto dims = forms(6, minor).back();
        SCOPED_TRACE(std::string(program.name) + " " + dtype + dims.full);
        check_rows(text_of(program, dtype, dims), 0);
      }
    }
  }
}

TEST(RowKernel, OneRowAndMany) {
  for (const Program& program : kPrograms) {
    for (const int minor : {4, 20, 500}) {
      for (const int rows : {1, 2, 1000}) {
        const auto dims = forms(rows, minor).front();
        SCOPED_TRACE(std::string(program.name) + " " + dims.full);
        check_rows(text_of(program, "f32", dims), program.tolerance);
      }
    }
  }
}

TEST(RowKernel, ThreadsChangeNoBit) {
  const int threads = device::thread_count();
  for (const Program& program : kPrograms) {
    for (const int minor : {5, 100, 5000}) {
      const auto module = parse(text_of(program, "f32", forms(40000 / minor, minor).front()));
      ASSERT_NE(module, nullptr);
      const auto arguments = arguments_for(*module->entry());
      std::vector<ir::Literal> reference;
      for (const int count : {1, 2, 5}) {
        device::set_thread_count(count);
        const auto results = run(*module->entry()->root(), arguments);
        ASSERT_TRUE(results.ok()) << results.status().to_string();
        if (reference.empty()) reference = *results;
        for (std::size_t i = 0; i < reference.size(); ++i) {
          EXPECT_TRUE(same_bits(reference[i], (*results)[i])) << program.name << " " << count;
        }
      }
    }
  }
  device::set_thread_count(threads);
}

// Two, four, eight and sixteen rows at a time, and what is left over.
TEST(RowKernel, ComputesRowsTogether) {
  for (const Program& program : kPrograms) {
    for (const char* dtype : {"f32", "bf16", "f64"}) {
      for (const auto& [rows, minor] : {std::pair{33, 300}, {67, 17}, {143, 100}, {269, 64}}) {
        const auto dims = forms(rows, minor).front();
        SCOPED_TRACE(std::string(program.name) + " " + dtype + dims.full);
        check_rows(text_of(program, dtype, dims), 0);
      }
    }
  }
}

// Wherever ir/fusions/in_place.h lets an output take over an operand, for every size of row.
TEST(RowKernel, ResultsMayTakeOverOperands) {
  int checked = 0;
  for (const Program& program : kPrograms) {
    for (const int minor : {3, 16, 100, 200, 300, 5000}) {
      const int rows = minor == 100 || minor == 300 ? 135 : 5;
      const auto module = parse(text_of(program, "f32", forms(rows, minor).front()));
      ASSERT_NE(module, nullptr);
      const ir::Instruction& fusion = *module->entry()->root();
      const auto arguments = arguments_for(*module->entry());
      const auto expected = run(fusion, arguments);
      ASSERT_TRUE(expected.ok()) << expected.status().to_string();
      for (const int operand : {0, 1}) {
        if (!ir::may_reuse_operand(fusion, operand, 0)) continue;
        ++checked;
        const auto results = run(fusion, arguments, operand);
        ASSERT_TRUE(results.ok());
        for (std::size_t i = 0; i < expected->size(); ++i) {
          EXPECT_TRUE(same_bits((*expected)[i], (*results)[i]))
              << program.name << " " << minor << " operand " << operand;
        }
      }
    }
  }
  EXPECT_GT(checked, 40);
}

}  // namespace
}  // namespace plimsoll::jit::testing
