// SPDX-License-Identifier: Apache-2.0
// collectives: sums over participants. In processes: over Gloo's connections beside Gloo's own
// all-reduce in the same processes, and many arrays in one call beside one by one. In threads:
// beside copies of as many bytes as must be read and written. And steps whose sums go on beside
// kernels, in two orders, or are waited for. Prints one JSON object: medians in seconds, and ratios
// of them.
#include <fmt/core.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "collectives/gloo.h"
#include "collectives/local.h"
#include "kernels/cpu/collectives/reduction.h"
#include "runtime/backend/backends.h"
#include "runtime/device/devices.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/participants.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"

namespace {

using namespace plimsoll;
using device::Communicator;
using Json = nlohmann::ordered_json;
using Group = std::vector<std::int64_t>;

struct Sizes {
  std::int64_t megabytes = 64;
  int rounds = 9, gradients = 200;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double seconds_of(const auto& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Of all threads of this process, in the system and outside.
double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

std::shared_ptr<const device::Reduction> float_sum() {
  const auto module = ir::parse_module(
      "HloModule m\nENTRY e { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, "
      "b) }");
  return *kernels::make_reduction(*(*module)->entry(), ir::DType::f32);
}

void need(const Status& status) {
  if (status.ok()) return;
  std::cerr << status.to_string() << "\n";
  std::_Exit(1);
}

// As a network's gradients: mostly small ones, a few that hold most of the bytes.
std::vector<std::int64_t> gradient_sizes(int count) {
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < count; ++i) {
    sizes.push_back(i % 10 == 0 ? 147'456 : i % 3 == 0 ? 4'608 : 64 + 8 * (i % 50));
  }
  return sizes;
}

// How many of these arrays, which a step of so many gradients sums, each collective takes that it
// is compiled to where every participant plans alone.
std::vector<std::size_t> buckets_of(const std::vector<std::int64_t>& sizes) {
  std::string text =
                  "HloModule step, replica_count=2\nsum { a = f32[] parameter(0) b = f32[] "
                  "parameter(1) ROOT r = "
                  "f32[] add(a, b) }\nENTRY e {\n",
              results, types;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string n = std::to_string(i), type = "f32[" + std::to_string(sizes[i]) + "]";
    text += "x" + n + " = " + type + " parameter(" + n + ")\ng" + n + " = " + type + " tanh(x" + n +
            ")\ns" + n + " = " + type + " all-reduce(g" + n + "), to_apply=sum\ny" + n + " = " +
            type + " subtract(x" + n + ", s" + n + ")\n";
    results += (i > 0 ? ", y" : "y") + n;
    types += (i > 0 ? ", " : "") + type;
  }
  auto module = ir::parse_module(text + "ROOT t = (" + types + ") tuple(" + results + ")\n}\n");
  need(module.status());
  need(passes::optimize(**module, {.same_collectives_in_all_forms = true}));
  std::vector<std::size_t> found;
  for (const auto& instruction : (*module)->entry()->instructions()) {
    if (instruction->opcode() != ir::Opcode::all_reduce) continue;
    found.push_back(static_cast<std::size_t>(instruction->operand_count()));
  }
  return found;
}

void sum_by_gloo(const std::shared_ptr<gloo::Context>& context, float* in, float* out,
                 std::size_t count) {
  gloo::AllreduceOptions options(context);
  options.setInput(in, count);
  options.setOutput(out, count);
  options.setReduceFunction(
      static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
  gloo::allreduce(options);
}

// Steps of so many layers, whose gradients are summed over all. Updates behind all, as some
// optimizers have them, or each right behind its sum; or no gradients, but weights that are in
// shares and gathered where they are read (ZeRO 3).
enum class StepKind { updates_behind, updates_at_once, gathers };

std::string gathers_text(int ranks, int layers, int width) {
  const std::string square = fmt::format("f32[{0},{0}]", width);
  std::string text = fmt::format(
      "HloModule step, replica_count={}\nENTRY e {{\n  h0 = {} parameter(0)\n", ranks, square);
  for (int i = 0; i < layers; ++i) {
    text += fmt::format(
        "  w{0} = f32[{3},{4}] parameter({2})\n  a{0} = {1} all-gather(w{0}), dimensions={{0}}\n"
        "  p{0} = {1} dot(h{0}, a{0}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        "  h{2} = {1} tanh(p{0})\n",
        i, square, i + 1, width / ranks, width);
  }
  return text + fmt::format("  ROOT r = {} negate(h{})\n}}\n", square, layers);
}

std::string step_text(StepKind kind, int ranks, int layers, int width) {
  if (kind == StepKind::gathers) return gathers_text(ranks, layers, width);
  const std::string square = fmt::format("f32[{0},{0}]", width);
  std::string text = fmt::format(
      "HloModule step, replica_count={}\n"
      "sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}\n"
      "ENTRY e {{\n  h0 = {} parameter(0)\n",
      ranks, square);
  std::string results, updates;
  for (int i = 0; i < layers; ++i) {
    text += fmt::format(
        "  w{0} = {1} parameter({2})\n"
        "  p{0} = {1} dot(h{0}, w{0}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        "  h{2} = {1} tanh(p{0})\n"
        "  g{0} = {1} dot(h{0}, h{2}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}\n"
        "  s{0} = {1} all-reduce(g{0}), to_apply=sum\n",
        i, square, i + 1);
    std::string& where = kind == StepKind::updates_at_once ? text : updates;
    where += fmt::format("  n{0} = {1} subtract(w{0}, s{0})\n", i, square);
    results += fmt::format("{}n{}", i == 0 ? "" : ", ", i);
  }
  return text + updates + "  ROOT r = tuple(" + results + ")\n}\n";
}

struct Step {
  std::shared_ptr<const executor::Executable> executable;
  std::shared_ptr<memory::Budget> budget;
  std::vector<ir::Literal> arguments;
};

// Nothing goes on beside kernels; or what does in the order of the lowest peak; or in one for it.
enum class How { waiting, as_planned, in_order };

Step make_step(device::KernelProvider& provider, StepKind kind, int ranks, How how) {
  Step made;
  auto module = ir::parse_module(step_text(kind, ranks, 12, 512));
  need(module.status());
  for (const ir::Instruction* parameter : (*module)->entry()->parameters()) {
    ir::Literal& argument = made.arguments.emplace_back(parameter->shape());
    for (std::int64_t i = 0; i < parameter->shape().element_count(); ++i) {
      argument.mutable_data<float>()[i] = 0.001F * static_cast<float>(i % 61 - 30);
    }
  }
  made.budget = memory::Budget::create(device::default_device(), planner::kUnlimited);
  executor::ProgramOptions options;
  options.plans_alone = true;
  options.collective_bucket_bytes = 0;
  options.overlap_bytes = how == How::waiting ? 0 : executor::overlap_bytes_for(1, 1);
  planner::PlanPolicy policy;
  if (how == How::as_planned) policy.without.add(planner::Technique::overlap);
  const auto program = executor::Program::create(std::move(*module), provider, options);
  need(program.status());
  auto executable = executor::make_executable(*program, policy, {}, *made.budget);
  need(executable.status());
  made.executable = *executable;
  return made;
}

// Steps in which collectives go on beside kernels, in both orders, and in which they are waited
// for: how long they take, and for how long of that their threads wait.
Json measure_steps(Communicator& communicator, StepKind kind, int ranks, int rounds,
                   const std::function<void()>& together) {
  const auto provider = backend::create_kernels(device::default_device());
  need(provider.status());
  constexpr How kAll[] = {How::waiting, How::as_planned, How::in_order};
  std::vector<Step> steps;
  for (const How how : kAll) steps.push_back(make_step(**provider, kind, ranks, how));
  executor::RunOptions options;
  options.communicator = &communicator;
  std::vector<double> seconds[3], waited[3];
  for (int i = 0; i <= rounds; ++i) {
    std::vector<ir::Literal> results;
    for (std::size_t k = 0; k < steps.size(); ++k) {
      const Step& step = steps[k];
      double waits = 0;
      options.waited_seconds = &waits;
      together();
      const double took = seconds_of([&] {
        auto result =
            executor::run_on_host(*step.executable, *step.budget, step.arguments, options);
        need(result.status());
        results.push_back(std::move(*result));
      });
      if (i == 0) continue;
      seconds[k].push_back(took);
      waited[k].push_back(waits);
    }
    if (!(results[0] == results[1] && results[0] == results[2])) {
      need(internal_error("other bits beside kernels"));
    }
  }
  Json json = {{"collectives", 12}, {"bytes_of_each", 512 * 512 * 4}};
  constexpr const char* kNames[] = {"waiting", "as_planned", "in_order"};
  for (std::size_t k = 0; k < steps.size(); ++k) {
    json[kNames[k]] = {{"beside_kernels", steps[k].executable->launches().beside},
                       {"peak_bytes", steps[k].executable->plan().peak_bytes},
                       {"seconds", median(seconds[k])},
                       {"waited_seconds", median(waited[k])},
                       {"ratio", median(seconds[k]) / median(seconds[0])},
                       {"ratio_waited", median(waited[k]) / median(waited[0])}};
  }
  return json;
}

// One of the processes; the first one prints.
void run_process(int rank, int ranks, const Sizes& sizes, const std::string& folder) {
  collectives::Membership membership;
  membership.rank = rank;
  membership.world_size = ranks;
  membership.folder = folder + "/ours";
  membership.interface_name = "lo";
  auto connected = collectives::connect_gloo(membership);
  need(connected.status());
  Communicator& ours = **connected;
  gloo::transport::tcp::attr attributes("127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  auto theirs = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  gloo::rendezvous::FileStore store(folder + "/gloo");
  theirs->connectFullMesh(store, device);

  Group all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  const Communicator::Call call{"sum", all, static_cast<std::size_t>(rank)};
  const auto sums = float_sum();
  const auto together = [&] {
    const std::vector<device::Rows> nothing(all.size());
    need(ours.exchange(call, nothing, nothing));
  };
  const auto count = (sizes.megabytes << 20) / 4;
  std::vector<float> in(static_cast<std::size_t>(count), 1.0F), out(in.size());
  const Communicator::Reduce array{in.data(), out.data(), 1, count, sums.get()};
  const Communicator::Reduce in_place{out.data(), out.data(), 1, count, sums.get()};
  const auto sum_ours = [&](const Communicator::Reduce& what) {
    need(ours.all_reduce(call, std::span(&what, 1)));
  };
  const auto sum_theirs = [&](float* from) { sum_by_gloo(theirs, from, out.data(), out.size()); };
  const std::pair<const char*, std::function<void()>> large[] = {
      {"ours", [&] { sum_ours(array); }},
      {"gloo", [&] { sum_theirs(in.data()); }},
      {"ours_in_place", [&] { sum_ours(in_place); }},
      {"gloo_in_place", [&] { sum_theirs(out.data()); }}};
  std::vector<double> large_seconds[4], large_work[4];
  for (int i = 0; i <= sizes.rounds; ++i) {
    for (std::size_t k = 0; k < std::size(large); ++k) {
      std::fill(out.begin(), out.end(), 1.0F);
      together();
      const double before = processor_seconds();
      const double took = seconds_of(large[k].second);
      const double worked = processor_seconds() - before;
      if (out.back() != static_cast<float>(ranks)) need(internal_error("a wrong sum"));
      if (i == 0) continue;  // memory that is new
      large_seconds[k].push_back(took);
      large_work[k].push_back(worked);
    }
  }
  std::vector<double> one_by_one, by_gloo, at_once;
  std::vector<Communicator::Reduce> gradients;
  std::int64_t place = 0;
  for (const std::int64_t size : gradient_sizes(sizes.gradients)) {
    if (place + size > count) break;
    gradients.push_back({in.data() + place, out.data() + place, 1, size, sums.get()});
    place += size;
  }
  std::vector<std::int64_t> summed;
  for (const Communicator::Reduce& gradient : gradients) summed.push_back(gradient.row);
  const std::vector<std::size_t> buckets = buckets_of(summed);
  std::vector<double> in_buckets;
  for (int i = 0; i <= sizes.rounds; ++i) {
    together();
    const double apart = seconds_of([&] {
      for (const Communicator::Reduce& gradient : gradients) {
        need(ours.all_reduce(call, std::span(&gradient, 1)));
      }
    });
    together();
    const double other = seconds_of([&] {
      for (const Communicator::Reduce& gradient : gradients) {
        const auto begin = static_cast<const float*>(gradient.in) - in.data();
        sum_by_gloo(theirs, in.data() + begin, out.data() + begin,
                    static_cast<std::size_t>(gradient.row));
      }
    });
    together();
    const double joint = seconds_of([&] { need(ours.all_reduce(call, gradients)); });
    together();
    const double combined = seconds_of([&] {
      std::size_t first = 0;
      for (const std::size_t bucket : buckets) {
        need(ours.all_reduce(call, std::span(gradients).subspan(first, bucket)));
        first += bucket;
      }
    });
    if (i == 0) continue;
    in_buckets.push_back(combined);
    one_by_one.push_back(apart);
    by_gloo.push_back(other);
    at_once.push_back(joint);
  }
  const Json steps = {
      {"updates_behind",
       measure_steps(ours, StepKind::updates_behind, ranks, sizes.rounds, together)},
      {"updates_at_once",
       measure_steps(ours, StepKind::updates_at_once, ranks, sizes.rounds, together)},
      {"gathers", measure_steps(ours, StepKind::gathers, ranks, sizes.rounds, together)}};
  (*connected)->leave(ok_status());
  if (rank != 0) return;
  Json of_large;
  for (std::size_t k = 0; k < std::size(large); ++k) {
    of_large[large[k].first] = {{"seconds", median(large_seconds[k])},
                                {"processor_seconds", median(large_work[k])}};
  }
  const Json json = {
      {"processes", ranks},
      {"megabytes", sizes.megabytes},
      {"seconds", median(large_seconds[0])},
      {"gloo_seconds", median(large_seconds[1])},
      {"ratio_to_gloo", median(large_seconds[0]) / median(large_seconds[1])},
      {"ratio_to_gloo_in_place", median(large_seconds[2]) / median(large_seconds[3])},
      {"large", of_large},
      {"gradients", gradients.size()},
      {"gradient_bytes", place * 4},
      {"one_by_one_seconds", median(one_by_one)},
      {"gloo_one_by_one_seconds", median(by_gloo)},
      {"ratio_to_gloo_one_by_one", median(one_by_one) / median(by_gloo)},
      {"at_once_seconds", median(at_once)},
      {"ratio_at_once", median(at_once) / median(one_by_one)},
      {"meetings_planned_alone", buckets.size()},
      {"planned_alone_seconds", median(in_buckets)},
      {"ratio_planned_alone", median(in_buckets) / median(one_by_one)},
      {"steps", steps}};
  std::cout << json.dump() << std::endl;
}

// One of the processes that benchmarks/peers/collectives.py starts, found by the variables that
// launchers set: for each line `array` or `gradients` on standard input it sums that with the
// others, all of the gradients in one call, and prints the seconds.
void take_turns(const Sizes& sizes) {
  const auto membership = collectives::read_membership();
  need(membership.status());
  auto connected = collectives::connect_gloo(*membership);
  need(connected.status());
  Group all(static_cast<std::size_t>(membership->world_size));
  std::iota(all.begin(), all.end(), 0);
  const Communicator::Call call{"sum", all, static_cast<std::size_t>(membership->rank)};
  const auto sums = float_sum();
  const auto count = (sizes.megabytes << 20) / 4;
  // In place, as plans have it where nothing else reads the operand, and as PyTorch does.
  std::vector<float> values(static_cast<std::size_t>(count));
  const std::vector<Communicator::Reduce> array = {
      {values.data(), values.data(), 1, count, sums.get()}};
  std::vector<Communicator::Reduce> gradients;
  std::int64_t place = 0;
  for (const std::int64_t size : gradient_sizes(sizes.gradients)) {
    if (place + size > count) break;
    float* const gradient = values.data() + place;
    gradients.push_back({gradient, gradient, 1, size, sums.get()});
    place += size;
  }
  std::cout << "{\"ready\": true}" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::fill(values.begin(), values.end(), 1.0F);
    const std::vector<device::Rows> nothing(all.size());
    need((*connected)->exchange(call, nothing, nothing));
    const std::span<const Communicator::Reduce> summed =
        line == "array" ? std::span(array) : gradients;
    const double seconds = seconds_of([&] { need((*connected)->all_reduce(call, summed)); });
    if (values[0] != static_cast<float>(all.size())) need(internal_error("a wrong sum"));
    std::cout << "{\"seconds\": " << seconds << "}" << std::endl;
  }
  (*connected)->leave(ok_status());
}

// A step of convolutions that two replicas do on images of their own, each cut into an upper and a
// lower half for two partitions, which hand each other the rows at the border. The gradient of a
// kernel is summed over partitions, scaled, joined by the weight decay, and summed over replicas.
std::string halves_text(int layers) {
  std::string text =
      "HloModule halves, replica_count=2, num_partitions=2\n"
      "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
      "ENTRY e {\n  h0 = f32[8,32,64,16] parameter(0)\n  decay = f32[] constant(0.01)\n"
      "  decays = f32[3,3,16,16] broadcast(decay), dimensions={}\n";
  std::string results;
  for (int i = 0; i < layers; ++i) {
    text += fmt::format(
        "  w{0} = f32[3,3,16,16] parameter({2}), sharding={{replicated}}\n"
        "  first{0} = f32[8,1,64,16] slice(h{0}), slice={{[0:8],[0:1],[0:64],[0:16]}}\n"
        "  last{0} = f32[8,1,64,16] slice(h{0}), slice={{[0:8],[31:32],[0:64],[0:16]}}\n"
        "  above{0} = f32[8,1,64,16] collective-permute(last{0}), channel_id={1}, "
        "source_target_pairs={{{{0,1}}}}\n"
        "  below{0} = f32[8,1,64,16] collective-permute(first{0}), channel_id={3}, "
        "source_target_pairs={{{{1,0}}}}\n"
        "  rows{0} = f32[8,34,64,16] concatenate(above{0}, h{0}, below{0}), dimensions={{1}}\n"
        "  c{0} = f32[8,32,64,16] convolution(rows{0}, w{0}), window={{size=3x3 pad=0_0x1_1}}, "
        "dim_labels=b01f_01io->b01f\n"
        "  h{2} = f32[8,32,64,16] tanh(c{0})\n"
        "  g{0} = f32[3,3,16,16] convolution(rows{0}, h{2}), window={{size=32x64 "
        "pad=0_0x1_1}}, dim_labels=f01b_i01o->01bf\n"
        "  p{0} = f32[3,3,16,16] all-reduce(g{0}), channel_id={4}, replica_groups={{{{0}},{{1}}}}, "
        "to_apply=sum\n"
        "  m{0} = f32[3,3,16,16] multiply(p{0}, decays)\n"
        "  d{0} = f32[3,3,16,16] multiply(w{0}, decays)\n"
        "  a{0} = f32[3,3,16,16] add(m{0}, d{0})\n"
        "  s{0} = f32[3,3,16,16] all-reduce(a{0}), replica_groups={{{{0,1}}}}, to_apply=sum\n"
        "  n{0} = f32[3,3,16,16] subtract(w{0}, s{0})\n",
        i, 3 * i + 1, i + 1, 3 * i + 2, 3 * i + 3);
    results += fmt::format("{}n{}", i == 0 ? "" : ", ", i);
  }
  return text + "  ROOT r = tuple(" + results + ")\n}\n";
}

// Sums of a program, the bytes that go into them, and the bytes that a participant sends for them:
// 2 (n - 1) / n of a sum of n (docs/collectives.md).
Json sums_of(const ir::Module& module) {
  std::int64_t calls = 0, bytes = 0;
  double sent = 0;
  for (const auto& instruction : module.entry()->instructions()) {
    if (instruction->opcode() != ir::Opcode::all_reduce) continue;
    const auto groups = ir::collective_groups(*instruction);
    need(groups.status());
    const auto members = static_cast<double>((*groups)[0].size());
    const std::int64_t own = instruction->operand(0)->shape().byte_size();
    ++calls;
    bytes += own;
    sent += 2 * (members - 1) / members * static_cast<double>(own);
  }
  return {{"calls", calls}, {"bytes", bytes}, {"sent_bytes", static_cast<std::int64_t>(sent)}};
}

Json count_promotion() {
  auto module = ir::parse_module(halves_text(8));
  need(module.status());
  const Json before = sums_of(**module);
  need(passes::promote_all_reduces(**module).status());
  return {{"convolutions", 8}, {"written", before}, {"promoted", sums_of(**module)}};
}

// In processes of this program's own, before it has any threads.
Json measure_processes(int ranks, const Sizes& sizes) {
  std::string folder = (std::filesystem::temp_directory_path() / "plimsoll-sums-XXXXXX").string();
  int pipe[2];
  if (mkdtemp(folder.data()) == nullptr || ::pipe(pipe) != 0) return nullptr;
  std::filesystem::create_directory(folder + "/gloo");
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(pipe[1], 1);
      run_process(rank, ranks, sizes, folder);
      std::_Exit(0);
    }
    children.push_back(child);
  }
  ::close(pipe[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(pipe[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(pipe[0]);
  bool is_good = true;
  for (const pid_t child : children) {
    int status = 0;
    is_good &= ::waitpid(child, &status, 0) == child && status == 0;
  }
  std::filesystem::remove_all(folder);
  return is_good ? Json::parse(text, nullptr, false) : Json();
}

// Every participant's array is read once, and the sum written to every participant: as much as if
// each copied its own.
Json measure_threads(int members, const Sizes& sizes) {
  const auto count = (sizes.megabytes << 20) / 4;
  collectives::LocalGroup group(members, std::chrono::seconds(300));
  Group all(static_cast<std::size_t>(members));
  std::iota(all.begin(), all.end(), 0);
  const auto sums = float_sum();
  std::barrier together(members);
  std::vector<double> summing, copying;
  std::vector<std::thread> threads;
  for (int self = 0; self < members; ++self) {
    threads.emplace_back([&, self] {
      std::vector<float> in(static_cast<std::size_t>(count), 1.0F), out(in.size());
      const Communicator::Call call{"sum", all, static_cast<std::size_t>(self)};
      const Communicator::Reduce array{in.data(), out.data(), 1, count, sums.get()};
      for (int i = 0; i <= sizes.rounds; ++i) {
        together.arrive_and_wait();
        const double sum = seconds_of([&] {
          need(group.communicator(self).all_reduce(call, std::span(&array, 1)));
          together.arrive_and_wait();
        });
        together.arrive_and_wait();
        const double copy = seconds_of([&] {
          std::memcpy(out.data(), in.data(), in.size() * sizeof(float));
          together.arrive_and_wait();
        });
        if (self != 0 || i == 0) continue;
        summing.push_back(sum);
        copying.push_back(copy);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {{"threads", members},
          {"megabytes", sizes.megabytes},
          {"seconds", median(summing)},
          {"copy_seconds", median(copying)},
          {"ratio_to_copy", median(summing) / median(copying)}};
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  std::vector<int> members{2, 4};
  plimsoll::benchmarks::CommandLine line("Sums over participants.", "collectives");
  line.add("--megabytes", sizes.megabytes, "Of the large array", {.least = 1, .most = 4096});
  line.add("--rounds", sizes.rounds, "Of each measurement", {.least = 1, .most = 1000});
  line.add("--gradients", sizes.gradients, "Arrays of mixed sizes", {.least = 1, .most = 10'000});
  line.add("--members", members, "Numbers of participants", {.least = 1, .most = 64});
  bool turns = false;
  line.add_flag("--turns", turns, "Be one of the processes of benchmarks/peers/collectives.py");
  if (const auto status = line.read(argc, argv)) return *status;
  if (turns) {
    take_turns(sizes);
    return 0;
  }
  Json processes = Json::array(), threads = Json::array();
  for (const int count : members) {
    processes.push_back(measure_processes(count, sizes));
    if (!processes.back().is_object()) return 1;
  }
  for (const int count : members) threads.push_back(measure_threads(count, sizes));
  std::cout << Json{{"processes", processes},
                    {"threads", threads},
                    {"promotion", count_promotion()}}
                   .dump(2)
            << "\n";
  return 0;
}
