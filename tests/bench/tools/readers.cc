// tarn-bench-readers: streams that read whole files or objects at once, and how they fared.
//
//   tarn-bench-readers --sources FILE [--streams N] [--seconds S] [--pace BYTES_PER_S [--ahead
//   BYTES] [--batch BYTES]]
//
// FILE has one source a line: a URL of this machine (redirects are followed) or the path of a file.
// Each stream takes the next source that no stream has taken. It reads that from its beginning to
// its end, and copies every byte into its own memory. Then it takes another, until none is left or
// S seconds are over (0, the default: until none is left). With --seconds the measurement also ends
// when a stream finds no source any more, so that N streams are N streams all the time.
//
// --pace is a consumer such as a GPU. It takes one batch every batch/pace seconds out of what the
// streams have read ahead (at most --ahead bytes). It stalls while there is none.
//
// Prints one line of JSON: bytes, seconds, the longest time that a stream went without a byte,
// streams that got none at all. Then come the fewest and the most bytes of a stream. Then come the
// sources that were read to their end, and the seconds that 99 of 100 of them took at most. Of the
// paced consumer it prints the share of its time in which it stalled.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "bench.h"

namespace {

using tarn::bench::now;

constexpr std::size_t kReadBytes = 256U << 10U;
constexpr std::size_t kHeadBytesMax = 16U << 10U;

struct Options {
  std::vector<std::string> sources;
  std::size_t streams = 1;
  double seconds = 0;
  double pace = 0;
  std::uint64_t ahead = 64U << 20U;
  std::uint64_t batch = 4U << 20U;
};

/// Bytes that have been read and not yet consumed: bounded, so streams wait when the consumer does
/// not.
class Shelf {
 public:
  explicit Shelf(std::uint64_t limit) : limit_(limit) {}

  void put(std::uint64_t bytes) {
    std::unique_lock lock(mutex_);
    taken_.wait(lock, [&] { return closed_ || filled_ + bytes <= limit_; });
    filled_ += bytes;
    put_.notify_one();
  }

  /// Waits for `bytes`. False: the streams have ended.
  bool take(std::uint64_t bytes) {
    std::unique_lock lock(mutex_);
    put_.wait(lock, [&] { return closed_ || filled_ >= bytes; });
    if (filled_ < bytes) return false;
    filled_ -= bytes;
    taken_.notify_all();
    return true;
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    put_.notify_all();
    taken_.notify_all();
  }

 private:
  const std::uint64_t limit_;
  std::mutex mutex_;
  std::condition_variable put_;
  std::condition_variable taken_;
  std::uint64_t filled_ = 0;
  bool closed_ = false;
};

/// One reader. Written by its own thread, read by the one that measures.
struct Stream {
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<double> last_byte{0};
  std::atomic<double> longest_wait{0};
  std::atomic<bool> reading{true};
};

class Readers {
 public:
  explicit Readers(const Options& options) : options_(options), shelf_(options.ahead) {}

  int run() {
    began_ = now();
    for (std::size_t i = 0; i < options_.streams; ++i) {
      streams_.push_back(std::make_unique<Stream>());
      streams_.back()->last_byte = began_;
    }
    for (auto& stream : streams_) std::thread([this, &stream] { read_all(*stream); }).detach();
    if (options_.pace > 0) {
      consume();
    } else {
      wait_for_end();
    }
    report();
    // Streams may still wait for a drive; this program does not wait for them.
    std::fflush(stdout);
    std::_Exit(bytes_ > 0 ? 0 : 1);
  }

 private:
  void read_all(Stream& stream) {
    const auto buffer = std::make_unique<char[]>(kReadBytes);
    while (true) {
      const std::size_t index = taken_++;
      if (index >= options_.sources.size()) break;
      const std::string& source = options_.sources[index];
      const double began = now();
      if (source.starts_with("http://")) {
        read_url(stream, source, buffer.get());
      } else {
        read_file(stream, source, buffer.get());
      }
      const std::lock_guard lock(mutex_);
      took_.push_back(now() - began);
    }
    stream.reading = false;
    {
      const std::lock_guard lock(mutex_);
      ++ended_;
    }
    if (ended_ == streams_.size()) shelf_.close();
    end_.notify_all();
  }

  void read_file(Stream& stream, const std::string& path, char* buffer) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) tarn::bench::die("cannot open " + path);
    while (true) {
      // Shelf's lock is free again by now; the analyzer does not follow the condition variable.
      const ssize_t count =
          ::read(fd, buffer, kReadBytes);  // NOLINT(clang-analyzer-unix.BlockInCriticalSection)
      if (count < 0) tarn::bench::die("cannot read " + path + ": " + std::strerror(errno));
      if (count == 0) break;
      note(stream, static_cast<std::uint64_t>(count));
    }
    ::close(fd);
  }

  void read_url(Stream& stream, const std::string& url, char* buffer) {
    std::string location = url;
    for (int hop = 0; hop < 3; ++hop) {
      const auto parts = tarn::bench::parse_url(location);
      const int fd = tarn::bench::dial(parts.port, 0);
      const std::string request =
          "GET " + parts.target + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
      if (::send(fd, request.data(), request.size(), MSG_NOSIGNAL) < 0)
        tarn::bench::die("cannot ask for " + location);
      location = receive(stream, fd, location, buffer);
      ::close(fd);
      if (location.empty()) return;
    }
    tarn::bench::die("too many redirects from " + url);
  }

  /// The body, or where it is: empty, or the redirect's Location.
  std::string receive(Stream& stream, int fd, const std::string& url, char* buffer) {
    std::string head;
    std::size_t end = std::string::npos;
    while (end == std::string::npos) {
      const ssize_t count = ::recv(fd, buffer, kHeadBytesMax, 0);
      if (count <= 0) tarn::bench::die("no answer to " + url);
      head.append(buffer, static_cast<std::size_t>(count));
      end = head.find("\r\n\r\n");
    }
    const int status = head.size() > 12 ? std::atoi(head.c_str() + 9) : 0;
    const std::string_view fields = std::string_view(head).substr(0, end + 2);
    if (status == 302 || status == 307) return std::string(tarn::bench::field(fields, "location"));
    if (status != 200) tarn::bench::die(url + " answered " + std::to_string(status));
    std::uint64_t length = 0;
    const std::string_view text = tarn::bench::field(fields, "content-length");
    std::from_chars(text.data(), text.data() + text.size(), length);
    std::uint64_t got = head.size() - end - 4;
    if (got > 0) note(stream, got);
    while (got < length) {
      const ssize_t count =
          ::recv(fd, buffer, kReadBytes, 0);  // NOLINT(clang-analyzer-unix.BlockInCriticalSection)
      if (count <= 0) tarn::bench::die(url + " ended early");
      got += static_cast<std::uint64_t>(count);
      note(stream, static_cast<std::uint64_t>(count));
    }
    return {};
  }

  void note(Stream& stream, std::uint64_t bytes) {
    const double time = now();
    stream.longest_wait = std::max<double>(stream.longest_wait, time - stream.last_byte);
    stream.bytes += bytes;
    if (options_.pace > 0) shelf_.put(bytes);
    // A stream's wait for room on the shelf is not a wait for the drive.
    stream.last_byte = options_.pace > 0 ? now() : time;
  }

  void wait_for_end() {
    std::unique_lock lock(mutex_);
    if (options_.seconds > 0) {
      end_.wait_for(lock, std::chrono::duration<double>(options_.seconds),
                    [&] { return ended_ > 0; });
    } else {
      end_.wait(lock, [&] { return ended_ == streams_.size(); });
    }
  }

  /// The GPU: its next step begins one interval after the last one began, or when its batch is
  /// there.
  void consume() {
    const double interval = static_cast<double>(options_.batch) / options_.pace;
    if (!shelf_.take(options_.batch)) return;  // the first batch: the job's start, not a stall
    double step = now();
    first_step_ = step;
    while (options_.seconds <= 0 || step - first_step_ < options_.seconds) {
      const double due = step + interval;
      std::this_thread::sleep_for(std::chrono::duration<double>(due - now()));
      const double asked = now();
      if (!shelf_.take(options_.batch)) break;
      const double got = now();
      // A timer that fires late is not the storage's fault: only waiting for bytes is a stall.
      const double stalled = got - asked;
      stalled_ += stalled;
      step = due + (stalled > 0.0005 ? got - due : 0);
      ++steps_;
    }
    consumed_seconds_ = now() - first_step_;
  }

  void report() {
    const double end = now();
    std::uint64_t fewest = ~0ULL;
    std::uint64_t most = 0;
    std::size_t starved = 0;
    double longest = 0;
    for (const auto& stream : streams_) {
      const std::uint64_t its = stream->bytes;
      bytes_ += its;
      fewest = std::min(fewest, its);
      most = std::max(most, its);
      starved += its == 0 ? 1 : 0;
      longest = std::max<double>(longest, stream->longest_wait);
      if (stream->reading && options_.pace <= 0)
        longest = std::max<double>(longest, end - stream->last_byte);
    }
    const std::lock_guard lock(mutex_);
    std::sort(took_.begin(), took_.end());
    const double slow = took_.empty() ? 0 : took_[(took_.size() - 1) * 99 / 100];
    std::printf(
        "{\"sources\": %zu, \"p99_s\": %.4f, \"bytes\": %llu, \"seconds\": %.4f, "
        "\"longest_wait_s\": %.4f, \"starved_streams\": %zu, "
        "\"fewest_bytes\": %llu, \"most_bytes\": %llu, \"client_cpu_s\": %.4f, \"steps\": %llu, "
        "\"stalled_s\": %.4f, \"consumed_s\": %.4f}\n",
        took_.size(), slow, static_cast<unsigned long long>(bytes_), end - began_, longest, starved,
        static_cast<unsigned long long>(fewest), static_cast<unsigned long long>(most),
        tarn::bench::own_cpu_seconds(), static_cast<unsigned long long>(steps_), stalled_,
        consumed_seconds_);
  }

  const Options& options_;
  Shelf shelf_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::atomic<std::size_t> taken_{0};
  std::mutex mutex_;
  std::vector<double> took_;  // by source, guarded by mutex_
  std::condition_variable end_;
  std::atomic<std::size_t> ended_{0};
  double began_ = 0;
  std::uint64_t bytes_ = 0;
  double first_step_ = 0;
  double stalled_ = 0;
  double consumed_seconds_ = 0;
  std::uint64_t steps_ = 0;
};

Options parse(int argc, char** argv) {
  Options options;
  tarn::bench::Words words(argc, argv);
  while (const auto word = words.next()) {
    if (*word == "--sources") {
      options.sources = tarn::bench::read_lines(words.value());
    } else if (*word == "--streams") {
      options.streams = std::stoul(words.value());
    } else if (*word == "--seconds") {
      options.seconds = std::stod(words.value());
    } else if (*word == "--pace") {
      options.pace = std::stod(words.value());
    } else if (*word == "--ahead") {
      options.ahead = std::stoull(words.value());
    } else if (*word == "--batch") {
      options.batch = std::stoull(words.value());
    } else {
      tarn::bench::die("unknown word " + *word);
    }
  }
  if (options.sources.size() < options.streams)
    tarn::bench::die("--sources must have at least one source a stream");
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const Options options = parse(argc, argv);
  return Readers(options).run();
}
