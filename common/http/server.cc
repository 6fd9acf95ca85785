#include "common/http/server.h"

#include <list>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/check.h"
#include "common/base/event.h"
#include "common/base/local_address.h"
#include "common/base/pause.h"
#include "common/base/process.h"
#include "common/base/resume.h"
#include "common/base/run_blocking.h"
#include "common/http/connection.h"
#include "common/obs/log.h"

namespace tarn::http {
namespace {

using asio::ip::tcp;
using Acceptor = asio::basic_socket_acceptor<tcp, asio::io_context::executor_type>;
using ReusePort = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;

constexpr auto kSweepEvery = std::chrono::milliseconds(500);
constexpr auto kSweepAtRestEvery = std::chrono::milliseconds(1'000);
constexpr int kBacklog = 4096;
/// Time for which the kernel keeps a silent connection, where its first bytes are to be seen.
constexpr int kDeferSeconds = 1;

/// "127.0.0.1:8080", "[::1]:8080", ":8080"
Result<tcp::endpoint> parse_endpoint(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos)
    return fail(Errc::invalid_argument, "address '{}' is not of the form host:port", text);
  std::string host = text.substr(0, colon);
  if (host.empty()) host = "0.0.0.0";
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string::npos)
    return fail(Errc::invalid_argument, "address '{}': an IPv6 address stands in brackets: [{}]:{}",
                text, host, text.substr(colon + 1));
  boost::system::error_code ec;
  const auto address = asio::ip::make_address(host, ec);
  char* end = nullptr;
  const std::string port_text = text.substr(colon + 1);
  const unsigned long port = std::strtoul(port_text.c_str(), &end, 10);
  if (ec || port_text.empty() || *end != '\0' || port > 65535)
    return fail(Errc::invalid_argument,
                "address '{}' is not of the form IP:port (for example 127.0.0.1:8080)", text);
  return tcp::endpoint(address, static_cast<std::uint16_t>(port));
}

}  // namespace

/// State of a listener on one loop; touched on that loop only.
struct PerLoop {
  explicit PerLoop(Loop& its_loop)
      : loop(its_loop), acceptor(its_loop.context()), sweeper(its_loop.context()) {}
  Loop& loop;
  Acceptor acceptor;
  asio::steady_timer sweeper;
  bool ends = false;
  std::list<Connection*> connections;
};

/// True if the bytes that a connection has brought so far begin with these.
bool begins_with(int fd, const std::string& bytes) {
  std::string seen(bytes.size(), '\0');
  const ssize_t got = ::recv(fd, seen.data(), seen.size(), MSG_PEEK | MSG_DONTWAIT);
  return got == static_cast<ssize_t>(seen.size()) && seen == bytes;
}

Task<void> on_its_loop(PerLoop& here, std::function<void(PerLoop&)> work) {
  work(here);
  co_return;
}

struct Server::Impl {
  Impl(Loops& its_loops, Options options) : loops(its_loops) {
    shared.options = std::move(options);
    shared.patience.take(shared.options.limits);
  }

  Loops& loops;
  ServerShared shared;
  std::vector<std::unique_ptr<PerLoop>> per_loop;  ///< apart.loop's, if there is one, is the last
  std::size_t next = 0;                            ///< of the accepting loop, with `apart`
  TaskGroup listeners;
  TaskGroup sessions;
  tcp::endpoint bound;
  bool stopped = false;
  bool has_left = false;  ///< another Impl, with handlers that still run

  Status listen(PerLoop& here, const tcp::endpoint& endpoint);
  [[nodiscard]] bool accepts(const PerLoop& here) const;
  PerLoop& place_of(PerLoop& here, int fd);
  Task<void> accept(PerLoop& here);
  Task<void> sweep(PerLoop& here);
  Task<void> session(PerLoop& here, Socket socket);
};

Status Server::Impl::listen(PerLoop& here, const tcp::endpoint& endpoint) {
  boost::system::error_code ec;
  here.acceptor.open(endpoint.protocol(), ec);
  if (!ec) here.acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  // No other process shares the port: a second one is refused by the check in start().
  if (!ec) here.acceptor.set_option(ReusePort(true), ec);
  if (!ec) here.acceptor.bind(endpoint, ec);
  if (!ec && shared.options.apart.loop != nullptr)
    ::setsockopt(here.acceptor.native_handle(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &kDeferSeconds,
                 sizeof kDeferSeconds);
  if (!ec) here.acceptor.listen(kBacklog, ec);
  if (ec) return fail(Errc::io, "cannot listen on {}: {}", shared.options.address, ec.message());
  return {};
}

Task<void> Server::Impl::session(PerLoop& here, Socket socket) {
  Connection connection(shared, std::move(socket));
  const auto place = here.connections.insert(here.connections.end(), &connection);
  if (here.connections.size() == 1) here.sweeper.cancel();  // the sweeper waits for the first one
  if (shared.closing) connection.stop(false);
  try {
    co_await connection.run();
  } catch (const std::exception& problem) {
    obs::log("http").error("connection failed err={}", problem.what());
  }
  here.connections.erase(place);
}

bool Server::Impl::accepts(const PerLoop& here) const {
  return shared.options.apart.loop == nullptr || &here == per_loop.back().get();
}

/// Loop on which a connection is served. One whose first bytes come late is not served apart.
PerLoop& Server::Impl::place_of(PerLoop& here, int fd) {
  const Apart& apart = shared.options.apart;
  if (apart.loop == nullptr || begins_with(fd, apart.first_bytes)) return here;
  return *per_loop[next++ % loops.size()];
}

Task<void> Server::Impl::accept(PerLoop& here) {
  static obs::LogLimiter limiter;
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!shared.closing) {
    auto [ec, socket] = co_await here.acceptor.async_accept(kTuple);
    if (ec == asio::error::operation_aborted || shared.closing) break;
    if (ec) {
      // Out of file descriptors: wait for some to be closed instead of spinning.
      if (limiter.allow()) obs::log("http").warn("accept failed err={}", ec.message());
      co_await pause(std::chrono::milliseconds(50));
      continue;
    }
    const std::size_t open = shared.open.load(std::memory_order_relaxed);
    if (open >= shared.options.limits.connections_max ||
        !fd_is_within_limit(socket.native_handle(), FdUse::connection)) {
      if (limiter.allow())
        obs::log("http").warn("too many connections or open files listener={} open={} max={}",
                              shared.options.name, open, shared.options.limits.connections_max);
      constexpr std::string_view kBusy =
          "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
          "Connection: close\r\n\r\n";
      ::send(socket.native_handle(), kBusy.data(), kBusy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      continue;
    }
    PerLoop& its = place_of(here, socket.native_handle());
    Socket ours(its.loop.context(), socket.local_endpoint().protocol(), socket.release());
    sessions.spawn(its.loop.executor(), "connection", session(its, std::move(ours)));
  }
}

Task<void> Server::Impl::sweep(PerLoop& here) {
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!here.ends && !co_await is_cancelled()) {
    const bool is_timed = std::any_of(here.connections.begin(), here.connections.end(),
                                      [](const Connection* each) { return each->is_timed(); });
    here.sweeper.expires_at(here.connections.empty() ? asio::steady_timer::time_point::max()
                            : is_timed               ? next_tick(kSweepEvery)
                                                     : next_tick(kSweepAtRestEvery));
    (void)co_await here.sweeper.async_wait(kTuple);
    const auto now = std::chrono::steady_clock::now();
    for (Connection* connection : here.connections) connection->sweep(now);
  }
}

Server::Server(Loops& loops, Options options)
    : impl_(std::make_unique<Impl>(loops, std::move(options))) {}

// Ends the process when it cannot stop: connections may not be destroyed while they are served.
// NOLINTNEXTLINE(bugprone-exception-escape)
Server::~Server() { stop(std::chrono::milliseconds(0)); }

Status Server::start() {
  Impl& it = *impl_;
  TRY(tcp::endpoint endpoint, parse_endpoint(it.shared.options.address));
  {
    // SO_REUSEPORT would let a second process share the port and steal half of the connections.
    asio::io_context probe;
    tcp::acceptor single(probe);
    boost::system::error_code ec;
    single.open(endpoint.protocol(), ec);
    if (!ec) single.set_option(tcp::acceptor::reuse_address(true), ec);
    if (!ec) single.bind(endpoint, ec);
    if (!ec) endpoint = single.local_endpoint(ec);
    if (ec)
      return fail(Errc::io, "cannot listen on {}: {}", it.shared.options.address, ec.message());
  }
  for (std::size_t i = 0; i < it.loops.size(); ++i)
    it.per_loop.push_back(std::make_unique<PerLoop>(it.loops.at(i)));
  if (it.shared.options.apart.loop != nullptr)
    it.per_loop.push_back(std::make_unique<PerLoop>(*it.shared.options.apart.loop));
  for (auto& here : it.per_loop)
    if (it.accepts(*here)) TRY_OK(it.listen(*here, endpoint));
  it.bound = endpoint;
  for (auto& here : it.per_loop) {
    if (it.accepts(*here)) it.listeners.spawn(here->loop.executor(), "accept", it.accept(*here));
    it.listeners.spawn(here->loop.executor(), "sweep", it.sweep(*here));
  }
  return {};
}

void Server::set_patience(const Limits& limits) { impl_->shared.patience.take(limits); }

std::uint16_t Server::port() const noexcept { return impl_->bound.port(); }

std::string Server::url(const std::string& own) const {
  const auto address = impl_->bound.address();
  std::string host = address.to_string();
  if (address.is_unspecified()) {
    const bool is_v6 = own.find(':') != std::string::npos;
    host = own.empty() || (is_v6 && address.is_v4()) ? "127.0.0.1" : own;
  }
  return "http://" + authority_text(host, port());
}

bool Server::stop(std::chrono::milliseconds grace) {
  Impl& it = *impl_;
  if (std::exchange(it.stopped, true)) return !it.has_left;
  it.shared.closing = true;
  const auto on_each = [&it](const std::function<void(PerLoop&)>& work) {
    for (auto& here : it.per_loop) run_blocking(here->loop.executor(), on_its_loop(*here, work));
  };
  on_each([](PerLoop& here) {
    boost::system::error_code ignored;
    here.acceptor.close(ignored);
    for (Connection* connection : here.connections) connection->stop(false);
  });
  it.sessions.wait(std::chrono::duration<double>(grace).count());
  on_each([](PerLoop& here) {
    here.ends = true;
    here.sweeper.cancel();
    for (Connection* connection : here.connections) connection->stop(true);
  });
  const bool none_listens = it.listeners.close(5);
  const bool none_is_served = it.sessions.close(5);
  if (none_listens && none_is_served) return true;
  // A handler hangs on a drive that does not answer: it may not be destroyed under it.
  obs::log("http").warn("connections still busy at shutdown listener={} count={}",
                        it.shared.options.name, it.sessions.running());
  Impl* const left = impl_.release();  // leaked on purpose, the process is about to end
  impl_ = std::make_unique<Impl>(left->loops, Options{});
  impl_->stopped = true;
  impl_->has_left = true;
  return false;
}

std::size_t Server::open_connections() const noexcept { return impl_->shared.open.load(); }
std::uint64_t Server::body_bytes_received() const noexcept {
  return impl_->shared.body_bytes.load();
}

}  // namespace tarn::http
