// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/exact/integer_program.h"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "runtime/base/index.h"

namespace plimsoll::exact {
namespace {

using planner::Op;
using planner::OpId;
using planner::Problem;
using planner::ValueId;

template <typename... Places>
std::string name(char kind, int t, Places... places) {
  std::string text = std::string(1, kind) + std::to_string(t);
  ((text += "_" + std::to_string(places)), ...);
  return text;
}

class ProgramWriter {
 public:
  ProgramWriter(const Problem& problem, std::int64_t limit) : problem_(problem), limit_(limit) {}

  std::string run() {
    objective_ << "Minimize\n obj: 0 zero";
    rows_ << "Subject To\n";
    bounds_ << "Bounds\n 0 <= zero <= 0\n";
    binaries_ << "Binary\n";
    for (int t = 0; t < problem_.op_count(); ++t) {
      for (int k = 0; k <= t; ++k) write_runs(t, k);
      for (const ValueId v : values()) {
        if (producer(v) >= 0 && producer(v) < t) {
          binaries_ << " " << name('s', t, v.value()) << "\n";
        }
      }
      for (int k = 0; k <= t; ++k) write_time_step(t, k);
      write_end(t);
    }
    return objective_.str() + "\n" + rows_.str() + bounds_.str() + binaries_.str() + "End\n";
  }

 private:
  IdRange<ValueId> values() const { return problem_.values.ids(); }
  // -1: none.
  int producer(ValueId v) const { return problem_.values[v].producer.value(); }
  std::int64_t bytes(ValueId v) const {
    return problem_.in_arena(v) ? problem_.values[v].bytes : 0;
  }
  bool exists(int t, ValueId v) const { return producer(v) >= 0 && producer(v) <= t; }
  void row(const std::string& text) { rows_ << " c" << row_count_++ << ": " << text << "\n"; }

  void write_runs(int t, int k) {
    const std::string r = name('r', t, k);
    binaries_ << " " << r << "\n";
    if (k == t) {
      row(r + " = 1");
      return;
    }
    const Op& what = problem_.ops[OpId(k)];
    if (!what.recomputable) row(r + " = 0");
    objective_ << "\n + " << what.seconds << " " << r;
  }

  // What is live while op k of stage t runs.
  void write_time_step(int t, int k) {
    const OpId op(k);
    const Op& what = problem_.ops[op];
    const std::string r = name('r', t, k);
    std::string memory;
    for (const ValueId v : values()) {
      if (!exists(t, v)) continue;
      const std::string p = name('p', t, v.value(), k);
      std::string limit = p;
      if (k > 0) limit += " - " + name('p', t, v.value(), k - 1);
      if (k == 0 && producer(v) < t) limit += " - " + name('s', t, v.value());
      if (producer(v) == k) limit += " - " + r;
      row(limit + " <= 0");
      bounds_ << " 0 <= " << p << " <= 1\n";
      if (bytes(v) > 0) memory += " + " + std::to_string(bytes(v)) + " " + p;
    }
    const auto live = [&](ValueId v) {
      if (v >= 0 && producer(v) >= 0) row(r + " - " + name('p', t, v.value(), k) + " <= 0");
    };
    for (const ValueId v : problem_.reads[op]) live(v);
    for (const ValueId v : problem_.outputs[op]) live(v);
    if (what.workspace > 0) {
      memory += " + " + std::to_string(what.workspace) + " " + r;
    }
    const auto& reuse = problem_.reuse[op];
    for (std::size_t i = 0; i < reuse.size(); ++i) {
      if (bytes(reuse[i].output) == 0 || bytes(reuse[i].input) == 0) continue;
      const std::string d = name('d', t, k, static_cast<int>(i));
      bounds_ << " 0 <= " << d << " <= 1\n";
      row(d + " - " + r + " <= 0");
      const ValueId in = reuse[i].input;
      if (k < t) row(d + " + " + name('p', t, in.value(), k + 1) + " <= 1");
      if (k == t && t + 1 < problem_.op_count())
        row(d + " + " + name('s', t + 1, in.value()) + " <= 1");
      if (k == t && t + 1 == problem_.op_count() && problem_.values[in].live_out) row(d + " = 0");
      memory += " - " + std::to_string(bytes(reuse[i].output)) + " " + d;
    }
    if (!memory.empty()) row(memory.substr(3) + " <= " + std::to_string(limit_));
  }

  void write_end(int t) {
    const bool last = t + 1 == problem_.op_count();
    for (const ValueId v : values()) {
      if (!exists(t, v)) continue;
      if (!last) row(name('s', t + 1, v.value()) + " - " + name('p', t, v.value(), t) + " <= 0");
      if (last && problem_.values[v].live_out) row(name('p', t, v.value(), t) + " = 1");
    }
  }

  const Problem& problem_;
  const std::int64_t limit_;
  std::ostringstream objective_, rows_, bounds_, binaries_;
  int row_count_ = 0;
};

}  // namespace

std::string integer_program(const Problem& problem, std::int64_t limit) {
  return ProgramWriter(problem, limit).run();
}

bool solver_installed() { return std::system("command -v cbc > /dev/null 2>&1") == 0; }

Answer solve(const Problem& problem, std::int64_t limit, const std::string& folder,
             double seconds) {
  const std::string program = folder + "/program.lp", solution = folder + "/solution.txt";
  std::ofstream(program) << integer_program(problem, limit);
  std::ofstream(solution) << "";
  const auto start = std::chrono::steady_clock::now();
  const std::string command = "cbc '" + program + "' sec " + std::to_string(seconds) +
                              " ratio 0 solve solution '" + solution + "' > /dev/null 2>&1";
  Answer answer;
  const int code = std::system(command.c_str());
  answer.solver_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  // The first line: the outcome, " - objective value ", the value.
  std::ifstream file(solution);
  std::string line;
  std::getline(file, line);
  if (code != 0) return answer;
  if (line.starts_with("Infeasible") || line.starts_with("Integer infeasible")) {
    answer.outcome = Answer::Outcome::infeasible;
  } else if (line.starts_with("Optimal")) {
    answer.outcome = Answer::Outcome::optimal;
    const std::size_t value = line.rfind(' ');
    answer.extra_seconds = std::strtod(line.c_str() + value, nullptr);
  }
  return answer;
}

}  // namespace plimsoll::exact
