// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/op_case_groups.h"

namespace plimsoll::cases {
namespace {

const char* const kScaledTanh =
    "scaled {\n  x = f32[4,8] parameter(0)\n  s = f32[] parameter(1)\n"
    "  b = f32[4,8] broadcast(s), dimensions={}\n  t = f32[4,8] tanh(x)\n"
    "  ROOT m = f32[4,8] multiply(t, b)\n}\n";

const char* const kLoop =
    "goes_on {\n  t = (s32[], f32[6]) parameter(0)\n  i = s32[] get-tuple-element(t), index=0\n"
    "  n = s32[] constant(7)\n  ROOT k = pred[] compare(i, n), direction=LT\n}\n"
    "step {\n  u = (s32[], f32[6]) parameter(0)\n  j = s32[] get-tuple-element(u), index=0\n"
    "  v = f32[6] get-tuple-element(u), index=1\n  one = s32[] constant(1)\n"
    "  j2 = s32[] add(j, one)\n  h = f32[] constant(0.5)\n  hb = f32[6] broadcast(h), "
    "dimensions={}\n  w = f32[6] multiply(v, hb)\n  c = f32[6] cosine(v)\n"
    "  v2 = f32[6] add(w, c)\n  ROOT r2 = (s32[], f32[6]) tuple(j2, v2)\n}\n";

const char* const kBranches =
    "double_it {\n  x = f32[5] parameter(0)\n  ROOT a = f32[5] add(x, x)\n}\n"
    "negate_it {\n  y = f32[5] parameter(0)\n  ROOT n = f32[5] negate(y)\n}\n"
    "square_it {\n  z = f32[5] parameter(0)\n  ROOT s = f32[5] multiply(z, z)\n}\n";

const char* const kTwoResults =
    "two {\n  x = f32[4,8] parameter(0)\n  y = f32[4,8] parameter(1)\n  s = f32[4,8] add(x, y)\n"
    "  e = f32[4,8] exponential(s)\n  ROOT t = (f32[4,8], f32[4,8]) tuple(s, e)\n}\n";

const char* const kSoftmaxSum =
    "add_f32 {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"
    "sum_of_exp {\n  x = f32[4,8] parameter(0)\n  e = f32[4,8] exponential(x)\n"
    "  z = f32[] constant(0)\n  ROOT r = f32[4] reduce(e, z), dimensions={1}, "
    "to_apply=add_f32\n}\n";

}  // namespace

void add_control_cases(std::vector<OpCase>& table) {
  const auto add = [&](const char* name, const std::vector<std::string>& parameters,
                       const char* body, const char* computations = "", double tolerance = 0,
                       std::vector<InputRange> ranges = {}) {
    table.push_back(
        {name, module_text(parameters, body, computations), tolerance, {}, std::move(ranges)});
  };
  add("call.scaled", {"f32[4,8]", "f32[]"}, "  ROOT r = f32[4,8] call(p0, p1), to_apply=scaled",
      kScaledTanh);
  add("call.tuple", {"f32[4,8]", "f32[4,8]"},
      "  c = (f32[4,8], f32[4,8]) call(p0, p1), to_apply=two\n"
      "  a = f32[4,8] get-tuple-element(c), index=0\n"
      "  b = f32[4,8] get-tuple-element(c), index=1\n  ROOT r = f32[4,8] subtract(b, a)",
      kTwoResults);
  add("call.twice", {"f32[4,8]", "f32[]"},
      "  a = f32[4,8] call(p0, p1), to_apply=scaled\n"
      "  ROOT r = f32[4,8] call(a, p1), to_apply=scaled",
      kScaledTanh);
  add("while.counted", {"f32[6]"},
      "  z = s32[] constant(0)\n  t = (s32[], f32[6]) tuple(z, p0)\n"
      "  w = (s32[], f32[6]) while(t), condition=goes_on, body=step\n"
      "  ROOT r = f32[6] get-tuple-element(w), index=1",
      kLoop);
  add("while.never", {"f32[6]"},
      "  z = s32[] constant(9)\n  t = (s32[], f32[6]) tuple(z, p0)\n"
      "  ROOT w = (s32[], f32[6]) while(t), condition=goes_on, body=step",
      kLoop);
  add("while.tuple-result", {"s32[]", "f32[6]"},
      "  t = (s32[], f32[6]) tuple(p0, p1)\n"
      "  ROOT w = (s32[], f32[6]) while(t), condition=goes_on, body=step",
      kLoop, 0, {{-4, 8}});
  for (const char* value : {"true", "false"}) {
    add((std::string("conditional.pred.") + value).c_str(), {"f32[5]", "f32[5]"},
        ("  k = pred[] constant(" + std::string(value) +
         ")\n  ROOT r = f32[5] conditional(k, p0, p1), true_computation=double_it, "
         "false_computation=negate_it")
            .c_str(),
        kBranches);
  }
  for (const char* value : {"0", "1", "2", "3", "-1"}) {
    add((std::string("conditional.index.") + value).c_str(), {"f32[5]", "f32[5]", "f32[5]"},
        ("  k = s32[] constant(" + std::string(value) +
         ")\n  ROOT r = f32[5] conditional(k, p0, p1, p2), branch_computations={double_it, "
         "negate_it, square_it}")
            .c_str(),
        kBranches);
  }
  add("conditional.data", {"pred[]", "f32[5]"},
      "  ROOT r = f32[5] conditional(p0, p1, p1), true_computation=double_it, "
      "false_computation=negate_it",
      kBranches);
  add("fusion.loop", {"f32[4,8]", "f32[]"},
      "  ROOT r = f32[4,8] fusion(p0, p1), kind=kLoop, calls=scaled", kScaledTanh);
  add("fusion.outputs", {"f32[4,8]", "f32[4,8]"},
      "  ROOT r = (f32[4,8], f32[4,8]) fusion(p0, p1), kind=kLoop, calls=two", kTwoResults);
  add("fusion.reduction", {"f32[4,8]"},
      "  ROOT r = f32[4] fusion(p0), kind=kInput, calls=sum_of_exp", kSoftmaxSum, 2e-6);
  add("tuple.nested", {"f32[3]", "s32[2]"},
      "  a = (f32[3], s32[2]) tuple(p0, p1)\n  b = ((f32[3], s32[2]), f32[3]) tuple(a, p0)\n"
      "  c = (f32[3], s32[2]) get-tuple-element(b), index=0\n"
      "  d = s32[2] get-tuple-element(c), index=1\n"
      "  ROOT r = (s32[2], ((f32[3], s32[2]), f32[3])) tuple(d, b)");
  add("tuple.parameter", {"(f32[3], (s32[2], pred[]))"},
      "  a = (s32[2], pred[]) get-tuple-element(p0), index=1\n"
      "  b = s32[2] get-tuple-element(a), index=0\n  c = f32[3] get-tuple-element(p0), index=0\n"
      "  d = f32[3] negate(c)\n  e = s32[2] negate(b)\n  ROOT r = (f32[3], s32[2]) tuple(d, e)");
  add("tuple.empty", {}, "  ROOT r = () tuple()");
  add("parameter.returned", {"f32[7]"}, "  ROOT r = (f32[7], f32[7]) tuple(p0, p0)");
  add("opt-barrier.tuple", {"f32[3]", "s32[2]"},
      "  a = (f32[3], s32[2]) tuple(p0, p1)\n"
      "  b = (f32[3], s32[2]) opt-barrier(a)\n"
      "  ROOT r = f32[3] get-tuple-element(b), index=0");
  add("after-all.dependency", {"f32[3]"},
      "  t = token[] after-all()\n  ROOT r = f32[3] add-dependency(p0, t)");
  add("partition-id.replica-id", {},
      "  a = u32[] partition-id()\n  b = u32[] replica-id()\n  ROOT r = (u32[], u32[]) tuple(a, "
      "b)");
  add("all-reduce.one", {"f32[5]"},
      "  ROOT r = f32[5] all-reduce(p0), replica_groups={{0}}, to_apply=add_f32",
      "add_f32 {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  ROOT c = f32[] add(a, b)\n}\n");
  add("all-reduce.pair", {"f32[5]"},
      "  s = f32[5] all-reduce-start(p0), replica_groups={{0}}, to_apply=add_f32\n"
      "  ROOT r = f32[5] all-reduce-done(s)",
      "add_f32 {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  ROOT c = f32[] add(a, b)\n}\n");
  // Rows 1 and 2 to row 0, and row 4 to row 3; no row from where there is none.
  add("ragged-all-to-all.one", {"f32[5,3]", "f32[4,3]"},
      "  from = s32[3] constant({1, 9, 4})\n  rows = s64[3] constant({2, 0, 1})\n"
      "  to = u32[3] constant({0, 7, 3})\n"
      "  ROOT r = f32[4,3] ragged-all-to-all(p0, p1, from, rows, to, rows), replica_groups={{0}}");
  add("all-gather.one", {"f32[5]"},
      "  ROOT r = f32[5] all-gather(p0), replica_groups={{0}}, dimensions={0}");
  add("reduce-scatter.one", {"f32[5]"},
      "  ROOT r = f32[5] reduce-scatter(p0), replica_groups={{0}}, dimensions={0}, "
      "to_apply=add_f32",
      "add_f32 {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  ROOT c = f32[] add(a, b)\n}\n");
  add("collective-permute.one", {"f32[5]"},
      "  ROOT r = f32[5] collective-permute(p0), source_target_pairs={{0,0}}");
  add("collective-permute.nobody", {"f32[5]"},
      "  ROOT r = f32[5] collective-permute(p0), source_target_pairs={}");
}

}  // namespace plimsoll::cases
