// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/http_server.h"

#include <httplib.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "examples/serve/connection.h"
#include "examples/serve/connection_pool.h"
#include "examples/serve/gzip.h"
#include "examples/serve/http_error.h"

namespace plimsoll::examples::serve {
namespace {

constexpr std::size_t kLongestPath = 1024;
constexpr int kBacklog = 512;

// Of the request under way on this thread, which the handlers of cpp-httplib don't get.
thread_local Connection* current = nullptr;

std::optional<std::size_t> natural(const std::string& text) {
  std::size_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Whether a list of encodings has gzip, and not with `q=0`.
bool accepts_gzip(const std::string& list) {
  std::size_t start = 0;
  while (start < list.size()) {
    const std::size_t end = std::min(list.find(',', start), list.size());
    std::string one = list.substr(start, end - start);
    std::erase_if(one, [](char c) { return c == ' ' || c == '\t'; });
    const std::string name = one.substr(0, one.find(';'));
    const std::size_t quality = one.find(";q=");
    const bool refused = quality != std::string::npos &&
                         one.find_first_not_of("0.", quality + 3) == std::string::npos;
    if ((name == "gzip" || name == "*") && !refused) return true;
    start = end + 1;
  }
  return false;
}

bool has_content(const httplib::Request& request) {
  return request.has_header("Transfer-Encoding") ||
         (request.has_header("Content-Length") &&
          request.get_header_value("Content-Length") != "0");
}

// What the headers say of a body, before any of it is read; `most_bytes` may it have. Throws.
void check_content(const httplib::Request& request, std::size_t most_bytes) {
  const bool has_length = request.has_header("Content-Length");
  if (request.has_header("Transfer-Encoding")) {
    // Both, or a length twice: this server and a proxy before it could disagree on where it ends.
    if (has_length) throw bad_request("both Content-Length and Transfer-Encoding");
    std::string encoding = request.get_header_value("Transfer-Encoding");
    std::transform(encoding.begin(), encoding.end(), encoding.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (encoding != "chunked" || request.get_header_value_count("Transfer-Encoding") != 1) {
      throw HttpError(501, "Transfer-Encoding " + in_quotes(encoding) + " is not known here");
    }
  }
  if (has_length) {
    const auto length = natural(request.get_header_value("Content-Length"));
    if (!length || request.get_header_value_count("Content-Length") != 1) {
      throw bad_request("Content-Length is no natural number");
    }
    if (*length > most_bytes) {
      throw HttpError(413, "a body of " + std::to_string(*length) + " bytes (at most " +
                               std::to_string(most_bytes) + ")");
    }
  }
  const std::string encoding = request.get_header_value("Content-Encoding");
  constexpr const char* kEncodings[] = {"", "identity", "gzip", "deflate", "br"};
  if (std::none_of(std::begin(kEncodings), std::end(kEncodings),
                   [&](const char* one) { return encoding == one; })) {
    throw HttpError(415, "Content-Encoding " + in_quotes(encoding) +
                             " is not known here (gzip, deflate and br are)");
  }
  if (request.is_multipart_form_data()) {
    throw HttpError(415, "forms are not known here (application/json and octet-stream are)");
  }
}

// Reads the body. Throws; what is left of it then stays unread.
std::string read_body(const httplib::Request& request, const httplib::ContentReader& reader,
                      std::size_t most_bytes, HostBudget::Lease& lease) {
  std::string body;
  if (!has_content(request)) return body;
  const bool is_plain = request.get_header_value("Content-Encoding").empty();
  std::size_t leased = 0;
  if (is_plain && request.has_header("Content-Length")) {
    // Before anything of it is taken in.
    leased = natural(request.get_header_value("Content-Length")).value_or(0);
    if (!lease.grow(leased)) throw busy("no host memory for the request now");
    body.reserve(leased);
  }
  std::optional<HttpError> refused;
  const bool complete = reader([&](const char* data, std::size_t bytes) {
    if (bytes > most_bytes - body.size()) {
      refused = HttpError(413, "a body of more than " + std::to_string(most_bytes) + " bytes");
      return false;
    }
    if (body.size() + bytes > leased) {
      constexpr std::size_t kStep = 1 << 20;
      const std::size_t more = std::max(bytes, kStep);
      // Twice: a string that grows is there twice for a moment.
      if (!lease.grow(2 * more)) {
        refused = busy("no host memory for the request now");
        return false;
      }
      leased += more;
    }
    body.append(data, bytes);
    return true;
  });
  if (refused) throw *refused;
  if (!complete) throw bad_request("the body ends too early, or is not encoded as its header says");
  current->has_unread_body = false;
  return body;
}

}  // namespace

class HttpServer::Impl final : public httplib::Server {
 public:
  Impl(Service& service, const HttpOptions& options) : service_(service), options_(options) {
    new_task_queue = [this] { return new ConnectionPool(options_.connections, has_waiting_); };
    // SO_REUSEPORT, which is the library's choice, would let two servers share a port unnoticed.
    set_socket_options([](int socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    set_keep_alive_timeout(options_.keep_alive_milliseconds / 1000);
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      return answer_without_body(request, response) ? HandlerResponse::Handled
                                                    : HandlerResponse::Unhandled;
    });
    Post("[\\s\\S]*", [this](const httplib::Request& request, httplib::Response& response,
                             const httplib::ContentReader& reader) {
      answer_with_body(request, response, reader);
    });
    set_expect_100_continue_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          return expect_body(request, response);
        });
    set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (!response.body.empty()) return;
      if (current->has_too_many_headers()) response.status = 431;
      const bool too_long = response.status == 414;
      give(error_reply(response.status, response.status == 431 ? "the headers are too long"
                                        : too_long             ? "the path is too long"
                                        : response.status == 404
                                            ? "no such path"
                                            : "this is no HTTP request as this server knows it"),
           response);
    });
    set_exception_handler(
        [](const httplib::Request&, httplib::Response& response, std::exception_ptr) {
          give(error_reply(503, "no host memory for the request now", 1), response);
        });
    set_post_routing_handler([this](const httplib::Request&, httplib::Response& response) {
      current->begin_reply();
      service_.count(response.status);
      if (!current->has_unread_body && !stopping_) return;
      response.headers.erase("Keep-Alive");
      response.headers.erase("Connection");
      response.set_header("Connection", "close");
    });
  }

  int bind() {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    // The library tells no name that leads nowhere from a port that is taken.
    if (const int code = ::getaddrinfo(options_.host.c_str(), nullptr, &hints, &found); code != 0) {
      throw std::runtime_error("cannot listen on " + options_.host + ": " + ::gai_strerror(code) +
                               " (--host: an address of this machine)");
    }
    ::freeaddrinfo(found);
    int port = options_.port;
    if (port == 0) {
      port = bind_to_any_port(options_.host);
    } else if (!bind_to_port(options_.host, port)) {
      port = -1;
    }
    // The library's backlog of 5 would make clients that come at once wait for a second.
    if (port < 0 || ::listen(svr_sock_, kBacklog) != 0) {
      throw std::runtime_error("cannot listen on " + options_.host + ":" +
                               std::to_string(options_.port) + ": " + std::strerror(errno));
    }
    return port;
  }

  void serve() {
    if (!stopping_) listen_after_bind();
    has_ended_ = true;
  }

  void stop() {
    if (stopping_.exchange(true)) return;
    while (!is_running() && !has_ended_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (is_running()) httplib::Server::stop();
  }

 private:
  static void give(ServiceReply reply, httplib::Response& response) {
    response.status = reply.status;
    response.set_header("Content-Type", reply.content_type);
    if (reply.json_bytes != 0) {
      response.set_header("Inference-Header-Content-Length", std::to_string(reply.json_bytes));
    }
    if (reply.retry_after != 0) {
      response.set_header("Retry-After", std::to_string(reply.retry_after));
    }
    constexpr std::size_t kLeast = 1024;  // less is not worth it
    if (current->accepts_gzip && reply.body.size() >= kLeast) {
      reply.body = gzip(reply.body);
      response.set_header("Content-Encoding", "gzip");
    }
    response.body = std::move(reply.body);
  }

  // Requests that have no body, or whose body nobody will read.
  bool answer_without_body(const httplib::Request& request, httplib::Response& response) {
    if (request.path.size() > kLongestPath) {
      give(error_reply(414, "a path of " + std::to_string(request.path.size()) +
                                " bytes (at most " + std::to_string(kLongestPath) + ")"),
           response);
      return true;
    }
    if (request.method == "POST") return false;
    give(service_.answer({request.method, request.path, std::nullopt, {}}, current->lease),
         response);
    return true;
  }

  void answer_with_body(const httplib::Request& http, httplib::Response& response,
                        const httplib::ContentReader& reader) {
    try {
      check_content(http, options_.most_body_bytes);
      ServiceRequest request{http.method, http.path, std::nullopt, {}};
      if (http.has_header("Inference-Header-Content-Length")) {
        request.json_bytes = natural(http.get_header_value("Inference-Header-Content-Length"));
        if (!request.json_bytes) {
          throw bad_request("Inference-Header-Content-Length is no natural number");
        }
      }
      current->lease = HostBudget::Lease(service_.host());
      current->begin_body();
      request.body = read_body(http, reader, options_.most_body_bytes, current->lease);
      give(service_.answer(request, current->lease), response);
    } catch (const HttpError& error) {
      give(error_reply(error.status(), error.what(), error.retry_after()), response);
    }
  }

  // Before the client sends a body that it has asked for leave to send.
  int expect_body(const httplib::Request& request, httplib::Response& response) const {
    try {
      check_content(request, options_.most_body_bytes);
      return 100;
    } catch (const HttpError& error) {
      give(error_reply(error.status(), error.what()), response);
      return error.status();
    }
  }

  bool wait_for_request(Connection& connection) const {
    constexpr std::int64_t kSlice = 50;
    for (std::int64_t waited = 0; !stopping_; waited += kSlice) {
      if (connection.wait(kSlice)) return true;
      // An idle connection gives its thread to one that waits for it.
      if (connection.is_closed() || has_waiting_ || waited > options_.keep_alive_milliseconds) {
        return false;
      }
    }
    return false;
  }

  bool process_and_close_socket(int socket) override {
    const int yes = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    Connection connection(socket, options_);
    current = &connection;
    bool ok = false;
    while (wait_for_request(connection)) {
      connection.begin_headers();
      bool is_last = false;
      ok = process_request(connection, stopping_, is_last, [&](httplib::Request& request) {
        connection.has_unread_body = has_content(request);
        connection.accepts_gzip = accepts_gzip(request.get_header_value("Accept-Encoding"));
        // The library would compress by itself what it takes for text, and cut ranges out of it.
        request.headers.erase("Accept-Encoding");
        request.ranges.clear();
        connection.begin_body();
      });
      connection.lease = {};
      if (!connection.has_replied && connection.has_too_many_headers()) {
        // A line that does not end.
        const std::string text =
            "HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n"
            "Content-Length: 0\r\n\r\n";
        connection.begin_reply();
        connection.httplib::Stream::write(text);
        service_.count(431);
      }
      if (connection.has_unread_body) connection.linger();
      if (!ok || is_last || connection.has_unread_body) break;
    }
    current = nullptr;
    ::shutdown(socket, SHUT_RDWR);
    ::close(socket);
    return ok;
  }

  Service& service_;
  const HttpOptions options_;
  std::atomic<bool> stopping_{false}, has_ended_{false};
  std::atomic<bool> has_waiting_{false};  // connections, for a thread
};

HttpServer::HttpServer(Service& service, const HttpOptions& options)
    : impl_(std::make_unique<Impl>(service, options)) {}
HttpServer::~HttpServer() = default;
int HttpServer::bind() { return impl_->bind(); }
void HttpServer::serve() { impl_->serve(); }
void HttpServer::stop() { impl_->stop(); }

}  // namespace plimsoll::examples::serve
