// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <future>
#include <mutex>
#include <string>
#include <thread>

#include "examples/serve/handles.h"
#include "examples/serve/http_server.h"
#include "examples/serve/service.h"

namespace plimsoll::examples::serve {
namespace {

struct Options {
  HttpOptions http;
  std::string folder;
  std::string memory_limit;
  std::int64_t host_buffer_bytes = 0;  // 0: default_host_buffers
  std::int64_t drain_seconds = 30;
};

// Throws std::runtime_error with what the library says.
void expect(plm_status* status) {
  if (status == nullptr) return;
  const std::string message = plm_status_message(status);
  plm_status_free(status);
  throw std::runtime_error(message);
}

ContextHandle make_context(const Options& options) {
  plm_context_options c = {};
  c.struct_size = sizeof c;
  if (!options.memory_limit.empty()) {
    expect(plm_parse_memory_limit(options.memory_limit.c_str(), "--memory-limit", 0,
                                  &c.memory_limit_bytes));
  }
  c.log = [](void*, plm_log_level level, const char* message) {
    if (level == PLM_LOG_WARNING) std::fprintf(stderr, "serve: %s\n", message);
  };
  plm_context* made = nullptr;
  expect(plm_context_create(&c, &made));
  return ContextHandle(made);
}

// 1 GiB, or a quarter of what there is for the process where that is less: tensors of a device
// whose memory is the host's want room there, too.
std::int64_t default_host_buffers(const plm_context* context) {
  std::int64_t bytes = std::int64_t{1} << 30, share = 0;
  if (plm_context_is_host_memory(context) == 0) return bytes;
  expect(plm_parse_memory_limit("25%", "--host-buffers", 0, &share));
  return std::min(bytes, share);
}

// Descriptors for so many connections, beside those of files; throws where the system gives fewer.
void allow_connections(int connections) {
  constexpr rlim_t kFiles = 128;
  const rlim_t needed = static_cast<rlim_t>(connections) + kFiles;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  limit.rlim_cur = std::min(needed, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < needed) {
    throw std::runtime_error(std::to_string(connections) + " connections need " +
                             std::to_string(needed) + " file descriptors (at most " +
                             std::to_string(limit.rlim_max) + " here: --connections, ulimit -n)");
  }
}

void serve(const Options& options) {
  // Before any thread: they inherit it, and this one waits for the signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // What threads free goes back to the system: of bodies at once, of smaller things from few heaps.
  constexpr int kHeaps = 4, kMappedBytes = 256 << 10;
  mallopt(M_ARENA_MAX, kHeaps);
  mallopt(M_MMAP_THRESHOLD, kMappedBytes);

  if (!std::filesystem::is_directory(options.folder)) {
    throw std::runtime_error(options.folder + " is no folder (a model repository)");
  }
  allow_connections(options.http.connections);
  const ContextHandle context = make_context(options);
  plm_cancellation* made = nullptr;
  expect(plm_cancellation_create(&made));
  const CancellationHandle cancellation(made);
  const std::int64_t host_bytes = options.host_buffer_bytes != 0
                                      ? options.host_buffer_bytes
                                      : default_host_buffers(context.get());
  HostBudget host(static_cast<std::size_t>(host_bytes));
  std::mutex turn;
  Service service({context.get(), cancellation.get(), &host, &turn}, options.folder);
  HttpServer server(service, options.http);
  const int port = server.bind();
  service.repository().load_all();
  for (const Repository::Entry& entry : service.repository().index()) {
    std::fprintf(stderr, "serve: %s %s%s\n", entry.name.c_str(),
                 entry.ready ? "version " : "is not served: ",
                 entry.ready ? entry.version.c_str() : entry.reason.c_str());
  }
  std::printf("serving on http://%s:%d\n", options.http.host.c_str(), port);
  std::fflush(stdout);

  auto serving = std::async(std::launch::async, [&] { server.serve(); });
  int signal = 0;
  sigwait(&signals, &signal);
  std::fprintf(stderr, "serve: ends when what is under way has been answered\n");
  service.drain();
  server.stop();
  if (serving.wait_for(std::chrono::seconds(options.drain_seconds)) != std::future_status::ready) {
    std::fprintf(stderr, "serve: cancels what still runs after %lld s\n",
                 static_cast<long long>(options.drain_seconds));
    plm_cancellation_cancel(cancellation.get());
  }
  serving.get();
}

}  // namespace
}  // namespace plimsoll::examples::serve

int main(int argc, char** argv) {
  plimsoll::examples::serve::Options options;
  CLI::App app("Serves models by the Open Inference Protocol (KServe v2) over HTTP", "serve");
  app.add_option("models", options.folder, "Model repository: NAME/VERSION/model.hlo and its like")
      ->required();
  app.add_option("--memory-limit", options.memory_limit,
                 "Device memory of all models and runs together: 512MiB, 80% of the device's, auto "
                 "[PLIMSOLL_MEMORY_LIMIT, else none]");
  app.add_option("--host", options.http.host, "Address to listen on; 0.0.0.0 for all")
      ->capture_default_str();
  app.add_option("--port", options.http.port, "0: any")
      ->capture_default_str()
      ->check(CLI::Range(0, 65535));
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
  constexpr int kMostConnections = 1'000'000;
  app.add_option("--connections", options.http.connections, "Connections at once, idle ones too")
      ->capture_default_str()
      ->check(CLI::Range(1, kMostConnections));
  constexpr int kMostWorkers = 10'000;
  app.add_option("--workers", options.http.workers,
                 "Infer requests that are answered at once; as many more wait, others get 503")
      ->capture_default_str()
      ->check(CLI::Range(1, kMostWorkers));
  app.add_option("--least-rate", options.http.least_bytes_per_second,
                 "Bytes a second that a body, or a response that is read, may lag 10 s behind")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::int64_t{1}, kMostBytes))
      ->capture_default_str();
  app.add_option("--max-body", options.http.most_body_bytes, "Bytes of a request's body")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::int64_t{1}, kMostBytes))
      ->capture_default_str();
  app.add_option("--host-buffers", options.host_buffer_bytes,
                 "Bytes of host memory for bodies of all requests and responses together [1GiB, at "
                 "most a quarter of the machine's or the container's memory]")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::int64_t{1}, kMostBytes));
  app.add_option("--drain-seconds", options.drain_seconds,
                 "After SIGTERM, how long requests under way may take before they are cancelled")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000'000}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    plimsoll::examples::serve::serve(options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "serve: %s\n", error.what());
    return 1;
  }
}
