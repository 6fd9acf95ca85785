// tarn-bench-load: HTTP/1.1 load on 127.0.0.1 from one thread, and what it cost the server.
//
//   tarn-bench-load --urls FILE [--method GET|PUT|DELETE] [--connections N] [--requests N |
//   --seconds S] [--follow]
//                   [--body BYTES] [--copy] [--warm-up N] [--expect STATUS] [--server-pid PID]...
//
// FILE has one URL a line; requests take them in turn, from the start again when they are used up.
// --follow goes after redirects, over connections that are kept for each port. Bodies of answers
// are dropped in the kernel (MSG_TRUNC) unless --copy is given, so that the client is not what is
// measured. Bodies of PUTs come from memory by sendfile.
// --warm-up N requests a connection are made before the clock starts. The server's CPU time is that
// of all threads of the given processes and of their descendants (schedstat, nanoseconds), kernel
// time in system calls included.
//
// Prints one line of JSON. Exit code 1 when a request failed or nothing happened for 30 s.
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include "bench.h"

namespace {

using tarn::bench::Url;

constexpr std::size_t kHeadBytesMax = 16U << 10U;
constexpr std::size_t kShownBytes = 600;  // of the answer to a failed request
constexpr std::size_t kCopyBytes = 256U << 10U;
constexpr std::size_t kDropBytes = 64U << 20U;
constexpr std::uint64_t kBodyInMemoryBytes = 64U << 20U;
constexpr int kPatienceMs = 30'000;

struct Options {
  std::string method = "GET";
  std::vector<Url> urls;
  int connections = 1;
  std::uint64_t requests = 0;  // 0: until `seconds` are over
  double seconds = 1;
  std::uint64_t body = 0;
  bool follow = false;
  bool copy = false;
  int warm_up = 1;
  int expect = 0;  // 0: any 2xx
  std::vector<int> server_pids;
};

struct Lane;

/// One TCP connection of a lane.
struct Socket {
  Lane* lane = nullptr;
  std::uint16_t port = 0;
  int fd = -1;
};

/// One request at a time: what a connection of the load is. With --follow it has a socket a port.
struct Lane {
  std::vector<std::unique_ptr<Socket>> sockets;
  Socket* current = nullptr;
  std::string out;
  std::size_t sent = 0;
  std::uint64_t body_left = 0;
  bool body_withheld = false;
  std::array<char, kHeadBytesMax> head{};
  std::size_t head_bytes = 0;
  bool in_head = true;
  std::uint64_t answer_left = 0;
  int status = 0;
  int hops = 0;
  bool close = false;
  std::string location;
  double started = 0;
  bool busy = false;
};

/// Result of one run.
struct Totals {
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
  std::uint64_t errors = 0;
  int last_bad_status = 0;
  std::vector<double> latencies;
};

class Load {
 public:
  explicit Load(const Options& options)
      : options_(options), epoll_(::epoll_create1(EPOLL_CLOEXEC)), scratch_(kCopyBytes) {
    if (options_.method == "PUT") make_body();
    for (int i = 0; i < options_.connections; ++i) lanes_.push_back(std::make_unique<Lane>());
  }

  /// Runs until `requests` are done, or until nothing new was begun for `seconds`.
  Totals run(std::uint64_t requests, double seconds) {
    totals_ = {};
    begun_ = 0;
    requests_ = requests;
    deadline_ = tarn::bench::now() + seconds;
    for (auto& lane : lanes_) next(*lane);
    std::array<epoll_event, 256> events{};
    while (busy_ > 0) {
      const int count = ::epoll_wait(epoll_, events.data(), events.size(), kPatienceMs);
      if (count == 0) tarn::bench::die("no server answered for 30 s");
      for (int i = 0; i < count; ++i) {
        auto* socket = static_cast<Socket*>(events[static_cast<std::size_t>(i)].data.ptr);
        if (socket->lane->current == socket && socket->lane->busy) turn(*socket->lane);
      }
    }
    return std::move(totals_);
  }

 private:
  void make_body() {
    const std::uint64_t size = std::min(options_.body, kBodyInMemoryBytes);
    body_ = ::memfd_create("body", MFD_CLOEXEC);
    std::vector<char> buffer(1U << 20U);
    std::uint64_t state = 0x9e3779b97f4a7c15ULL;  // bytes that no drive and no link can compress
    for (std::uint64_t at = 0; at < size; at += buffer.size()) {
      for (std::size_t i = 0; i + 8 <= buffer.size(); i += 8) {
        state ^= state << 13U;
        state ^= state >> 7U;
        state ^= state << 17U;
        std::memcpy(buffer.data() + i, &state, 8);
      }
      const std::size_t length = std::min<std::uint64_t>(buffer.size(), size - at);
      if (::pwrite(body_, buffer.data(), length, static_cast<off_t>(at)) < 0)
        tarn::bench::die("cannot fill the body");
    }
  }

  [[nodiscard]] bool more() const {
    return requests_ > 0 ? begun_ < requests_ : tarn::bench::now() < deadline_;
  }

  void next(Lane& lane) {
    if (lane.busy) --busy_;
    lane.busy = false;
    if (!more()) return;
    ++begun_;
    ++busy_;
    lane.busy = true;
    lane.hops = 0;
    lane.started = tarn::bench::now();
    ask(lane, options_.urls[url_++ % options_.urls.size()]);
  }

  Socket* connection(Lane& lane, std::uint16_t port) {
    for (auto& socket : lane.sockets)
      if (socket->port == port) {
        if (socket->fd < 0) dial(*socket);
        return socket.get();
      }
    lane.sockets.push_back(std::make_unique<Socket>(Socket{&lane, port, -1}));
    dial(*lane.sockets.back());
    return lane.sockets.back().get();
  }

  void dial(Socket& socket) {
    socket.fd = tarn::bench::dial(socket.port, SOCK_NONBLOCK);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLET;
    event.data.ptr = &socket;
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket.fd, &event);
  }

  static void hang_up(Socket& socket) {
    if (socket.fd >= 0) ::close(socket.fd);
    socket.fd = -1;
  }

  void ask(Lane& lane, const Url& url) {
    lane.current = connection(lane, url.port);
    const bool is_put = options_.method == "PUT";
    // A proxy answers from the head alone: the body belongs to whom it names.
    lane.body_withheld = is_put && options_.follow && lane.hops == 0;
    lane.out = options_.method + " " + url.target +
               " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(url.port) + "\r\n";
    if (is_put) lane.out += "Content-Length: " + std::to_string(options_.body) + "\r\n";
    if (lane.body_withheld) lane.out += "Expect: 100-continue\r\n";
    lane.out += "\r\n";
    lane.sent = 0;
    lane.body_left = is_put && !lane.body_withheld ? options_.body : 0;
    lane.head_bytes = 0;
    lane.in_head = true;
    lane.answer_left = 0;
    turn(lane);
  }

  /// All that can be sent and received now.
  void turn(Lane& lane) {
    if (!send_some(lane)) return failed(lane);
    while (lane.busy) {
      const Progress progress = lane.in_head ? receive_head(lane) : receive_body(lane);
      if (progress == Progress::wait) return;
      if (progress == Progress::broken) return failed(lane);
      if (progress == Progress::done) return finished(lane);
    }
  }

  enum class Progress { wait, more, done, broken };

  /// False: the connection is gone.
  bool send_some(Lane& lane) {
    const int fd = lane.current->fd;
    while (lane.sent < lane.out.size()) {
      const ssize_t count = ::send(fd, lane.out.data() + lane.sent, lane.out.size() - lane.sent,
                                   MSG_NOSIGNAL | (lane.body_left > 0 ? MSG_MORE : 0));
      if (count < 0) return errno == EAGAIN;
      lane.sent += static_cast<std::size_t>(count);
    }
    const std::uint64_t in_memory = std::min(options_.body, kBodyInMemoryBytes);
    while (lane.body_left > 0) {
      auto at = static_cast<off_t>((options_.body - lane.body_left) % in_memory);
      const std::uint64_t length =
          std::min(lane.body_left, in_memory - static_cast<std::uint64_t>(at));
      const ssize_t count = ::sendfile(fd, body_, &at, length);
      if (count < 0) return errno == EAGAIN;
      if (count == 0) return false;
      lane.body_left -= static_cast<std::uint64_t>(count);
    }
    return true;
  }

  Progress receive_head(Lane& lane) {
    const ssize_t count = ::recv(lane.current->fd, lane.head.data() + lane.head_bytes,
                                 lane.head.size() - lane.head_bytes, 0);
    if (count < 0 && errno == EAGAIN) return Progress::wait;
    if (count <= 0) return Progress::broken;
    lane.head_bytes += static_cast<std::size_t>(count);
    return parse_head(lane);
  }

  Progress parse_head(Lane& lane) {
    const std::string_view received(lane.head.data(), lane.head_bytes);
    const std::size_t end = received.find("\r\n\r\n");
    if (end == std::string_view::npos)
      return lane.head_bytes == lane.head.size() ? Progress::broken : Progress::more;
    const std::string_view head = received.substr(0, end);
    if (head.size() < 12) return Progress::broken;
    lane.status = std::atoi(head.data() + 9);
    if (lane.status == 100) {
      std::memmove(lane.head.data(), lane.head.data() + end + 4, lane.head_bytes - end - 4);
      lane.head_bytes -= end + 4;
      if (lane.body_withheld) {  // not redirected: it is wanted here
        lane.body_withheld = false;
        lane.body_left = options_.body;
        if (!send_some(lane)) return Progress::broken;
      }
      return lane.head_bytes > 0 ? parse_head(lane) : Progress::more;
    }
    std::uint64_t length = 0;
    const std::string_view text = tarn::bench::field(head, "content-length");
    std::from_chars(text.data(), text.data() + text.size(), length);
    lane.close = tarn::bench::field(head, "connection").starts_with("close");
    lane.location = tarn::bench::field(head, "location");
    totals_.bytes += length;
    const std::uint64_t have = std::min<std::uint64_t>(lane.head_bytes - end - 4, length);
    lane.answer_left = length - have;
    lane.in_head = false;
    return lane.answer_left == 0 ? Progress::done : Progress::more;
  }

  Progress receive_body(Lane& lane) {
    const std::size_t want =
        std::min<std::uint64_t>(lane.answer_left, options_.copy ? scratch_.size() : kDropBytes);
    // With MSG_TRUNC the kernel drops the bytes of a TCP socket and writes nothing to the buffer.
    // The bare call, since AddressSanitizer takes its count for bytes written.
    const ssize_t count = ::syscall(SYS_recvfrom, lane.current->fd, scratch_.data(), want,
                                    options_.copy ? 0 : MSG_TRUNC, nullptr, nullptr);
    if (count < 0 && errno == EAGAIN) return Progress::wait;
    if (count <= 0) return Progress::broken;
    lane.answer_left -= static_cast<std::uint64_t>(count);
    return lane.answer_left == 0 ? Progress::done : Progress::more;
  }

  void finished(Lane& lane) {
    const bool unsent = lane.body_left > 0;
    if (lane.close || unsent || lane.body_withheld) hang_up(*lane.current);
    if (options_.follow && lane.status >= 300 && lane.status < 400 && lane.hops < 2) {
      ++lane.hops;
      return ask(lane, tarn::bench::parse_url(lane.location));
    }
    const bool good = options_.expect > 0 ? lane.status == options_.expect : lane.status / 100 == 2;
    if (!good || unsent) return failed(lane);
    ++totals_.requests;
    totals_.latencies.push_back(tarn::bench::now() - lane.started);
    next(lane);
  }

  void failed(Lane& lane) {
    ++totals_.errors;
    totals_.last_bad_status = lane.in_head ? 0 : lane.status;
    hang_up(*lane.current);
    if (totals_.errors > 100)
      tarn::bench::die("more than 100 requests failed, the last with status " +
                       std::to_string(totals_.last_bad_status) + ": " +
                       std::string(lane.head.data(), std::min(lane.head_bytes, kShownBytes)));
    next(lane);
  }

  const Options& options_;
  int epoll_;
  int body_ = -1;
  std::vector<char> scratch_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  Totals totals_;
  std::uint64_t begun_ = 0;
  std::uint64_t requests_ = 0;
  double deadline_ = 0;
  std::size_t url_ = 0;
  int busy_ = 0;
};

Options parse(int argc, char** argv) {
  Options options;
  tarn::bench::Words words(argc, argv);
  while (const auto word = words.next()) {
    if (*word == "--urls")
      options.urls = tarn::bench::read_urls(words.value());
    else if (*word == "--method")
      options.method = words.value();
    else if (*word == "--connections")
      options.connections = std::stoi(words.value());
    else if (*word == "--requests")
      options.requests = std::stoull(words.value());
    else if (*word == "--seconds")
      options.seconds = std::stod(words.value());
    else if (*word == "--body")
      options.body = std::stoull(words.value());
    else if (*word == "--follow")
      options.follow = true;
    else if (*word == "--copy")
      options.copy = true;
    else if (*word == "--warm-up")
      options.warm_up = std::stoi(words.value());
    else if (*word == "--expect")
      options.expect = std::stoi(words.value());
    else if (*word == "--server-pid")
      options.server_pids.push_back(std::stoi(words.value()));
    else
      tarn::bench::die("unknown word " + *word);
  }
  if (options.urls.empty()) tarn::bench::die("--urls with at least one URL is wanted");
  return options;
}

double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const Options options = parse(argc, argv);
  Load load(options);
  if (options.warm_up > 0)
    load.run(static_cast<std::uint64_t>(options.warm_up) *
                 static_cast<std::uint64_t>(options.connections),
             0);
  const auto server = [&] {
    double seconds = 0;
    for (const int pid : options.server_pids) seconds += tarn::bench::cpu_seconds(pid);
    return seconds;
  };
  const double server_before = server();
  const double own_before = tarn::bench::own_cpu_seconds();
  const double began = tarn::bench::now();
  Totals totals = load.run(options.requests, options.seconds);
  const double seconds = tarn::bench::now() - began;
  const double own = tarn::bench::own_cpu_seconds() - own_before;
  const double served = server() - server_before;
  std::ranges::sort(totals.latencies);
  const std::uint64_t bytes =
      options.method == "PUT" ? totals.requests * options.body : totals.bytes;
  std::printf(
      "{\"requests\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"server_cpu_s\": %.6f, "
      "\"client_cpu_s\": %.6f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"errors\": %llu, "
      "\"last_bad_status\": %d}\n",
      static_cast<unsigned long long>(totals.requests), static_cast<unsigned long long>(bytes),
      seconds, served, own, percentile(totals.latencies, 0.5) * 1e6,
      percentile(totals.latencies, 0.99) * 1e6, static_cast<unsigned long long>(totals.errors),
      totals.last_bad_status);
  return totals.errors > 0 || totals.requests == 0 ? 1 : 0;
}
