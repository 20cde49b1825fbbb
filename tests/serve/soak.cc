// SPDX-License-Identifier: Apache-2.0
#include <httplib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

// Many clients of one server, which another process is (scripts/serve_tests.sh --soak): prints what
// they got, how long it took, and what the server's memory did meanwhile. Ends with 1 where a
// response was neither 200 nor 503, where a result differed from the first of its kind, where the
// peak passed the limit or where resident memory grew.
namespace {

using Clock = std::chrono::steady_clock;

std::string request_body(int side, int seed, std::size_t& json_bytes) {
  const std::string shape = "[" + std::to_string(side) + "," + std::to_string(side) + "]";
  const std::size_t bytes = static_cast<std::size_t>(side) * static_cast<std::size_t>(side) * 4;
  const auto input = [&](const char* name) {
    return std::string("{\"name\":\"") + name + "\",\"shape\":" + shape +
           ",\"datatype\":\"FP32\",\"parameters\":{\"binary_data_size\":" + std::to_string(bytes) +
           "}}";
  };
  std::string body = "{\"parameters\":{\"binary_data_output\":true},\"inputs\":[" + input("x0") +
                     "," + input("w") + "]}";
  json_bytes = body.size();
  for (int which = 0; which < 2; ++which) {
    for (std::size_t i = 0; i < bytes / 4; ++i) {
      const float value =
          std::sin(static_cast<float>(i + 1) * static_cast<float>(seed + which + 1));
      body.append(reinterpret_cast<const char*>(&value), 4);
    }
  }
  return body;
}

// In KiB; 0 where it can't be read.
long resident_kib(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::stol(line.substr(6));
  }
  return 0;
}

// A line of /metrics that begins with `name `; NaN where there is none.
double metric(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(name + " ", 0) == 0) return std::stod(line.substr(name.size() + 1));
  }
  return std::nan("");
}

}  // namespace

int main(int argc, char** argv) {
  int port = 0, process = 0, clients = 200, side = 256;
  double seconds = 60;
  CLI::App app("Many clients of one server", "serve_soak");
  app.add_option("--port", port)->required();
  app.add_option("--process", process, "The server's, whose resident memory is watched")
      ->required();
  app.add_option("--clients", clients)->capture_default_str();
  app.add_option("--seconds", seconds)->capture_default_str();
  app.add_option("--side", side, "Of the model's matrices")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  constexpr int kKinds = 4;
  std::vector<std::string> bodies(kKinds), expected(kKinds);
  std::size_t json_bytes = 0;
  for (int i = 0; i < kKinds; ++i) {
    bodies[static_cast<std::size_t>(i)] = request_body(side, i * 7, json_bytes);
  }
  std::mutex mutex;  // guards expected and latencies
  std::vector<double> latencies;
  std::atomic<long> ok{0}, busy{0}, other{0}, wrong{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < clients; ++t) {
    threads.emplace_back([&, t] {
      httplib::Client client("127.0.0.1", port);
      client.set_keep_alive(true);
      client.set_read_timeout(120);
      const httplib::Headers headers = {
          {"Inference-Header-Content-Length", std::to_string(json_bytes)}};
      std::vector<double> mine;
      for (std::size_t k = static_cast<std::size_t>(t); !over; ++k) {
        const std::size_t kind = k % kKinds;
        const auto start = Clock::now();
        const auto result = client.Post("/v2/models/layers/infer", headers, bodies[kind],
                                        "application/octet-stream");
        mine.push_back(std::chrono::duration<double>(Clock::now() - start).count());
        if (!result) {
          ++other;
        } else if (result->status == 503 && result->has_header("Retry-After")) {
          ++busy;
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        } else if (result->status != 200) {
          ++other;
        } else {
          ++ok;
          const std::lock_guard lock(mutex);
          if (expected[kind].empty()) expected[kind] = result->body;
          if (expected[kind] != result->body) ++wrong;
        }
      }
      const std::lock_guard lock(mutex);
      latencies.insert(latencies.end(), mine.begin(), mine.end());
    });
  }
  // A quarter of the time to warm up: threads, heaps, plans.
  const auto sleep = [&](double share) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds * share));
  };
  sleep(0.25);
  long first = 0, most = 0;
  constexpr int kSamples = 15;
  for (int i = 0; i < kSamples; ++i) {
    sleep(0.05);
    most = std::max(most, resident_kib(process));
    if (i == kSamples / 3) first = most;
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  httplib::Client client("127.0.0.1", port);
  const auto metrics = client.Get("/metrics");
  const double peak = metrics ? metric(metrics->body, "plimsoll_memory_peak_bytes") : NAN;
  const double limit = metrics ? metric(metrics->body, "plimsoll_memory_limit_bytes") : NAN;
  const double waited = metrics ? metric(metrics->body, "plimsoll_runs_waited_total") : NAN;
  std::sort(latencies.begin(), latencies.end());
  const auto quantile = [&](double share) {
    return latencies.empty() ? NAN
                             : latencies[static_cast<std::size_t>(
                                   share * static_cast<double>(latencies.size() - 1))];
  };
  std::printf("clients %d, seconds %g: 200 %ld, 503 %ld, other %ld, wrong results %ld\n", clients,
              seconds, ok.load(), busy.load(), other.load(), wrong.load());
  std::printf("latency: p50 %.1f ms, p99 %.1f ms, most %.1f ms\n", quantile(0.5) * 1e3,
              quantile(0.99) * 1e3, quantile(1) * 1e3);
  std::printf("device memory: peak %.0f of %.0f bytes; runs that waited: %.0f\n", peak, limit,
              waited);
  std::printf("resident memory: %ld KiB after the warm-up, %ld KiB at most after that\n", first,
              most);
  constexpr double kGrowth = 1.05;
  const bool flat = static_cast<double>(most) <= kGrowth * static_cast<double>(first);
  const bool good = ok > 0 && other == 0 && wrong == 0 && peak <= limit && flat;
  std::printf("soak: %s\n", good ? "holds" : "DOES NOT HOLD");
  return good ? 0 : 1;
}
