#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Common parts of the benchmark's programs: clocks, other processes' CPU time, URLs, sockets.
namespace tarn::bench {

/// Ends the program with exit code 2 and a line that says why.
[[noreturn]] void die(const std::string& why);

/// Seconds of the monotonic clock.
[[nodiscard]] double now();
/// CPU seconds of this process, user and kernel.
[[nodiscard]] double own_cpu_seconds();
/// CPU seconds, to the nanosecond, of all living threads of a process and of its descendants
/// (/proc/PID/task/*/schedstat). Time of threads that have ended is not in it.
[[nodiscard]] double cpu_seconds(int pid);

/// http://127.0.0.1:PORT/TARGET; nothing else is ever contacted.
struct Url {
  std::uint16_t port = 0;
  std::string target;
};
/// Dies when it is no such URL.
[[nodiscard]] Url parse_url(const std::string& text);
/// One URL a line.
[[nodiscard]] std::vector<Url> read_urls(const std::string& file);
[[nodiscard]] std::vector<std::string> read_lines(const std::string& file);

/// The value of a field of an HTTP head; empty when it has none of that name.
[[nodiscard]] std::string_view field(std::string_view head, std::string_view name);

/// A TCP connection to 127.0.0.1 without Nagle's delay, the caller's to close. Dies when refused.
[[nodiscard]] int dial(std::uint16_t port, int flags);

/// The words of a command line, one after the other.
class Words {
 public:
  Words(int argc, char** argv) : words_(argv + 1, argv + argc) {}
  [[nodiscard]] std::optional<std::string> next();
  /// The word after the last; dies when there is none.
  [[nodiscard]] std::string value();

 private:
  std::vector<std::string> words_;
  std::size_t at_ = 0;
};

}  // namespace tarn::bench
