// SPDX-License-Identifier: Apache-2.0
// The execution provider as ONNX Runtime uses it: through its two functions and what they make.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/plugins/small_onnxruntime.h"

extern "C" plimsoll::ort::abi::Status* CreateEpFactories(const char*,
                                                         const plimsoll::ort::abi::ApiBase*,
                                                         const plimsoll::ort::abi::Logger*,
                                                         plimsoll::ort::abi::EpFactory**,
                                                         std::size_t, std::size_t*);
extern "C" plimsoll::ort::abi::Status* ReleaseEpFactory(plimsoll::ort::abi::EpFactory*);

namespace plimsoll::ort {
namespace {

using namespace testing;

// Its message; "" of none. Frees it.
std::string take(abi::Status* status) {
  const std::unique_ptr<abi::Status> owned(status);
  return owned == nullptr ? "" : owned->message;
}

using Entries = std::map<std::string, std::string>;

// A session's provider.
struct Session {
  explicit Session(const Entries& entries = {}) {
    std::size_t count = 0;
    EXPECT_EQ(
        take(CreateEpFactories("plimsoll", &small_onnxruntime(), &logger, &factory, 4, &count)),
        "");
    EXPECT_EQ(count, 1U);
    abi::SessionOptions options;
    for (const auto& [name, value] : entries) {
      options.entries["ep.plimsollexecutionprovider." + name] = value;
    }
    options.entries["session.other"] = "1";
    error = take(factory->create_ep(factory, nullptr, nullptr, 0, &options, &logger, &ep));
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    if (info != nullptr) ep->release_compute_infos(ep, &info, 1);
    if (ep != nullptr) factory->release_ep(factory, ep);
    EXPECT_EQ(take(ReleaseEpFactory(factory)), "");
  }

  std::vector<std::size_t> sizes_of_parts(const abi::Graph& graph) {
    abi::GraphSupport support;
    EXPECT_EQ(take(ep->get_capability(ep, &graph, &support)), "");
    std::vector<std::size_t> sizes;
    for (const auto& part : support.parts) sizes.push_back(part.size());
    return sizes;
  }

  // The whole graph as one program. ONNX Runtime names the node and hands over no constants.
  std::string compile(const abi::Graph& graph) {
    fused.name = "fused";
    fused.inputs = graph.inputs;
    fused.outputs = graph.outputs;
    const abi::Graph* const graphs = &graph;
    const abi::Node* const nodes = &fused;
    return take(ep->compile(ep, const_cast<const abi::Graph**>(&graphs),
                            const_cast<const abi::Node**>(&nodes), 1, &info, nullptr));
  }

  std::string run(const std::vector<abi::Value>& inputs, std::vector<abi::Value>& outputs) {
    abi::KernelContext context;
    for (const abi::Value& input : inputs) context.inputs.push_back(&input);
    for (const abi::ValueInfo* output : fused.outputs) {
      context.outputs.push_back({{output->type.tensor.element_type, {}}, {}});
    }
    void* state = nullptr;
    EXPECT_EQ(take(info->create_state(info, nullptr, &state)), "");
    const std::string failed = take(info->compute(info, state, &context));
    info->release_state(info, state);
    outputs = std::move(context.outputs);
    return failed;
  }

  abi::Logger logger;
  abi::EpFactory* factory = nullptr;
  abi::Ep* ep = nullptr;
  abi::ComputeInfo* info = nullptr;
  abi::Node fused;
  std::string error;
};

// y = relu(x * w) + b
void build_layer(GraphBuilder& builder, std::int64_t rows) {
  builder.value("x", {rows, 2});
  builder.constant("w", floats({2, 3}, {1, 2, 3, -4, 5, 6}));
  builder.constant("b", floats({3}, {10, 20, 30}));
  builder.node("MatMul", {"x", "w"}, {"h"});
  builder.node("Relu", {"h"}, {"r"});
  builder.node("Add", {"r", "b"}, {"y"});
  builder.inputs({{"x"}});
  builder.outputs({{"y"}});
}

TEST(OnnxRuntimePlugin, RunsAGraphWithItsConstants) {
  GraphBuilder builder;
  build_layer(builder, 2);
  Session session;
  ASSERT_EQ(session.error, "");
  EXPECT_EQ(session.sizes_of_parts(builder.graph), std::vector<std::size_t>{3});
  EXPECT_EQ(session.logger.last, "plimsoll takes 3 of 3 nodes, as 1 programs");
  ASSERT_EQ(session.compile(builder.graph), "");
  std::vector<abi::Value> outputs;
  ASSERT_EQ(session.run({floats({2, 2}, {1, 1, 0, 2})}, outputs), "");
  EXPECT_EQ(outputs[0].info.dims, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(floats_of(outputs[0]), (std::vector<float>{10, 27, 39, 10, 30, 42}));
  EXPECT_NE(session.run({floats({1, 2}, {1, 1})}, outputs).find("other sizes"), std::string::npos);
}

TEST(OnnxRuntimePlugin, SizesThatAreNotSaidAreThoseOfEachRun) {
  GraphBuilder builder;
  build_layer(builder, -1);
  Session session;
  ASSERT_EQ(session.compile(builder.graph), "");
  // More sizes than executables are kept.
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t rows = 0; rows < 36; ++rows) {
      std::vector<abi::Value> outputs;
      const std::vector<float> ones(static_cast<std::size_t>(2 * rows), 1);
      ASSERT_EQ(session.run({floats({rows, 2}, ones)}, outputs), "");
      std::vector<float> expected;
      for (std::int64_t i = 0; i < rows; ++i) expected.insert(expected.end(), {10, 27, 39});
      EXPECT_EQ(floats_of(outputs[0]), expected);
    }
  }
}

TEST(OnnxRuntimePlugin, ManyThreadsRunAtOnce) {
  GraphBuilder builder;
  build_layer(builder, -1);
  Session session(Entries{{"memory_limit", "4KiB"}});
  ASSERT_EQ(session.error, "");
  ASSERT_EQ(session.compile(builder.graph), "");
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&session, t] {
      for (std::int64_t i = 0; i < 50; ++i) {
        const std::int64_t rows = 1 + (t + i) % 5;
        std::vector<abi::Value> outputs;
        EXPECT_EQ(session.run({floats({rows, 2}, std::vector<float>(2 * rows, 1))}, outputs), "");
        EXPECT_EQ(floats_of(outputs[0]).size(), static_cast<std::size_t>(3 * rows));
        EXPECT_EQ(floats_of(outputs[0]).back(), 39);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(OnnxRuntimePlugin, ValuesThatDecideShapesMayChange) {
  GraphBuilder builder;
  builder.value("x", {6});
  builder.value("sizes", {2}, kInt64);
  builder.node("Reshape", {"x", "sizes"}, {"y"});
  builder.inputs({{"x", "sizes"}});
  builder.outputs({{"y"}});
  Session session;
  EXPECT_EQ(session.sizes_of_parts(builder.graph), std::vector<std::size_t>{1});
  ASSERT_EQ(session.compile(builder.graph), "");
  const abi::Value x = floats({6}, {0, 1, 2, 3, 4, 5});
  for (const auto& sizes : {std::vector<std::int64_t>{2, 3}, {3, 2}, {2, 3}}) {
    std::vector<abi::Value> outputs;
    ASSERT_EQ(session.run({x, integers({2}, sizes)}, outputs), "");
    EXPECT_EQ(outputs[0].info.dims, sizes);
    EXPECT_EQ(outputs[0].bytes, x.bytes);
  }
}

TEST(OnnxRuntimePlugin, AttributesOfEveryTypeArrive) {
  GraphBuilder builder;
  builder.value("x", {2, 3});
  builder.node("Transpose", {"x"}, {"t"}, {numbers("perm", {1, 0})});
  builder.node("LeakyRelu", {"t"}, {"l"}, {real("alpha", 0.5F)});
  builder.node("Concat", {"l", "l"}, {"c"}, {number("axis", 1)});
  builder.node("Constant", {}, {"k"}, {tensor("value", floats({4}, {1, 2, 3, 4}))});
  builder.node("Constant", {}, {"m"}, {reals("value_floats", {2, 2, 2, 3})});
  builder.node("Add", {"c", "k"}, {"a"});
  builder.node("Mul", {"a", "m"}, {"u"});
  builder.constant("pads", integers({4}, {0, 1, 0, 0}));
  builder.node("Pad", {"u", "pads"}, {"y"}, {text("mode", "reflect")});
  builder.inputs({{"x"}});
  builder.outputs({{"y"}});
  Session session;
  EXPECT_EQ(session.sizes_of_parts(builder.graph), std::vector<std::size_t>{8});
  ASSERT_EQ(session.compile(builder.graph), "");
  std::vector<abi::Value> outputs;
  ASSERT_EQ(session.run({floats({2, 3}, {1, 2, 3, -2, -4, -6})}, outputs), "");
  EXPECT_EQ(floats_of(outputs[0]),
            (std::vector<float>{2, 4, 2, 8, 9, 0, 6, 0, 10, 6, -2, 8, -2, 12, 3}));
}

// A recurrent layer whose activations are a list of texts.
TEST(OnnxRuntimePlugin, ListsOfTextsArrive) {
  GraphBuilder builder;
  builder.value("x", {1, 1, 1});
  builder.constant("w", floats({1, 1, 1}, {2}));
  builder.constant("r", floats({1, 1, 1}, {0}));
  builder.node("RNN", {"x", "w", "r"}, {"", "y"},
               {number("hidden_size", 1), texts("activations", {"Relu"})});
  builder.inputs({{"x"}});
  builder.outputs({{"y"}});
  builder.graph.nodes[0]->outputs[0] = nullptr;
  Session session;
  ASSERT_EQ(session.compile(builder.graph), "");
  std::vector<abi::Value> outputs;
  ASSERT_EQ(session.run({floats({1, 1, 1}, {3})}, outputs), "");
  EXPECT_EQ(floats_of(outputs[0]), std::vector<float>{6});
}

TEST(OnnxRuntimePlugin, NodesThatAreNotReadStandBetweenPrograms) {
  GraphBuilder builder;
  builder.value("x", {4});
  builder.value("words", {4}, kString);
  builder.node("Relu", {"x"}, {"a"});
  builder.node("Exp", {"a"}, {"b"});
  builder.node("SomethingElse", {"b"}, {"c"});
  builder.node("Identity", {"words"}, {"more words"});
  builder.node("Neg", {"c"}, {"d"});
  builder.value("e", {-1}, kInt64);
  builder.node("Exp", {"d"}, {"f"}).domain = "some.other.domain";
  Session session;
  EXPECT_EQ(session.sizes_of_parts(builder.graph), (std::vector<std::size_t>{2, 1}));
  EXPECT_EQ(session.logger.last, "plimsoll takes 3 of 6 nodes, as 2 programs");
}

// As TorchScript names values: the second input of one part may be called as a first one's value.
TEST(OnnxRuntimePlugin, ValuesMayHaveAnyNames) {
  GraphBuilder builder;
  for (const char* name : {"input.1", "input"}) builder.value(name, {2});
  builder.node("Neg", {"input.1"}, {"input.0"});
  builder.node("Add", {"input.0", "input"}, {"y"});
  builder.inputs({{"input.1", "input"}});
  builder.outputs({{"y"}});
  Session session;
  ASSERT_EQ(session.error, "");
  ASSERT_EQ(session.compile(builder.graph), "");
  std::vector<abi::Value> outputs;
  ASSERT_EQ(session.run({floats({2}, {1, 2}), floats({2}, {10, 20})}, outputs), "");
  EXPECT_EQ(floats_of(outputs[0]), (std::vector<float>{9, 18}));
}

// y = c > 0 ? x + k : -x, with what the branches name of the graph around them.
TEST(OnnxRuntimePlugin, BranchesGoWithTheirNode) {
  GraphBuilder builder, then, otherwise;
  builder.value("x", {2});
  builder.value("c", {1});
  builder.constant("k", floats({2}, {10, 20}));
  builder.constant("zero", floats({1}, {0}));
  builder.node("Greater", {"c", "zero"}, {"is"}).outputs[0] = builder.value("is", {1}, 9);
  then.see(builder);
  then.constant("one", floats({2}, {1, 1}));
  then.node("Add", {"x", "k"}, {"s"});
  then.node("Mul", {"s", "one"}, {"t"});
  then.outputs({{"t"}});
  otherwise.see(builder);
  otherwise.node("Neg", {"x"}, {"n"});
  otherwise.outputs({{"n"}});
  abi::Node& branch = builder.node("If", {"is"}, {"y"});
  branch.subgraphs = {{"then_branch", &then.graph}, {"else_branch", &otherwise.graph}};
  branch.implicit = {builder.graph.nodes[0]->inputs[0], builder.graph.constants[0]};
  branch.implicit[0] = then.graph.nodes[0]->inputs[0];
  builder.inputs({{"x", "c"}});
  builder.outputs({{"y"}});
  then.graph.parent = otherwise.graph.parent = &branch;
  Session session;
  EXPECT_EQ(session.sizes_of_parts(then.graph), std::vector<std::size_t>{});
  EXPECT_EQ(session.sizes_of_parts(builder.graph), std::vector<std::size_t>{2});
  ASSERT_EQ(session.compile(builder.graph), "");
  std::vector<abi::Value> outputs;
  ASSERT_EQ(session.run({floats({2}, {1, 2}), floats({1}, {1})}, outputs), "");
  EXPECT_EQ(floats_of(outputs[0]), (std::vector<float>{11, 22}));
  ASSERT_EQ(session.run({floats({2}, {1, 2}), floats({1}, {-1})}, outputs), "");
  EXPECT_EQ(floats_of(outputs[0]), (std::vector<float>{-1, -2}));
}

TEST(OnnxRuntimePlugin, SaysWhatIsWrong) {
  const Session misspelt(Entries{{"memory_limitt", "1MiB"}});
  EXPECT_NE(misspelt.error.find("no such provider option: 'memory_limitt' (there are memory_limit"),
            std::string::npos);
  const Session unreadable(Entries{{"memory_limit", "much"}});
  EXPECT_NE(unreadable.error.find("memory_limit"), std::string::npos);

  GraphBuilder builder;
  build_layer(builder, -1);
  Session tight(Entries{{"memory_limit", "64"}});
  ASSERT_EQ(tight.error, "");
  ASSERT_EQ(tight.compile(builder.graph), "");
  std::vector<abi::Value> outputs;
  const std::string refusal = tight.run({floats({1, 2}, {1, 1})}, outputs);
  EXPECT_NE(refusal.find("RESOURCE_EXHAUSTED"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("the smallest that would do is"), std::string::npos) << refusal;

  // Where all sizes are known, the session is told.
  GraphBuilder known;
  build_layer(known, 1);
  Session early(Entries{{"memory_limit", "64"}});
  EXPECT_NE(early.compile(known.graph).find("the smallest that would do is"), std::string::npos);

  abi::EpFactory* factory = nullptr;
  std::size_t count = 0;
  const std::string old =
      take(CreateEpFactories("plimsoll", &small_onnxruntime(true), nullptr, &factory, 4, &count));
  EXPECT_EQ(old, "plimsoll: needs ONNX Runtime 1.23 or newer; this is 1.20.1");
}

TEST(OnnxRuntimePlugin, OffersTheProcessorAlone) {
  Session session;
  const abi::HardwareDevice processor, other{1};
  const abi::HardwareDevice* const devices[] = {&other, &processor};
  abi::EpDevice* found[4] = {};
  std::size_t count = 0;
  ASSERT_EQ(
      take(session.factory->get_supported_devices(session.factory, devices, 2, found, 4, &count)),
      "");
  ASSERT_EQ(count, 1U);
  EXPECT_EQ(found[0]->hardware, &processor);
  delete found[0];
  EXPECT_STREQ(session.factory->get_name(session.factory), "PlimsollExecutionProvider");
  EXPECT_STREQ(session.factory->get_version(session.factory), "0.1.0");
}

}  // namespace
}  // namespace plimsoll::ort
