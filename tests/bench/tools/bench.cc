#include "bench.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sstream>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>

namespace tarn::bench {
namespace {

double seconds_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double threads_of(int pid) {
  double nanoseconds = 0;
  std::error_code gone;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", gone)) {
    double its = 0;
    std::ifstream(thread.path() / "schedstat") >> its;
    nanoseconds += its;
  }
  return nanoseconds * 1e-9;
}

std::vector<int> children_of(int pid) {
  std::vector<int> children;
  std::error_code gone;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", gone)) {
    std::ifstream file(thread.path() / "children");
    // A kernel without this file would make a server's workers look free.
    if (!file && std::filesystem::exists(thread.path(), gone))
      die("this kernel has no /proc/PID/task/TID/children");
    for (int child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

}  // namespace

void die(const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, why.c_str());
  std::_Exit(2);
}

double now() { return seconds_of(CLOCK_MONOTONIC); }
double own_cpu_seconds() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

double cpu_seconds(int pid) {
  double sum = threads_of(pid);
  for (const int child : children_of(pid)) sum += cpu_seconds(child);
  return sum;
}

Url parse_url(const std::string& text) {
  constexpr std::string_view kStart = "http://127.0.0.1:";
  if (!text.starts_with(kStart)) die("not a URL of this machine: " + text);
  const std::size_t slash = text.find('/', kStart.size());
  const int port = std::atoi(text.c_str() + kStart.size());
  if (slash == std::string::npos || port <= 0 || port > 65535) die("not a URL: " + text);
  return {static_cast<std::uint16_t>(port), text.substr(slash)};
}

std::vector<std::string> read_lines(const std::string& file) {
  std::ifstream input(file);
  if (!input) die("cannot read " + file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(input, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

std::vector<Url> read_urls(const std::string& file) {
  std::vector<Url> urls;
  for (const std::string& line : read_lines(file)) urls.push_back(parse_url(line));
  return urls;
}

namespace {

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter | 0x20) : letter;
}

}  // namespace

std::string_view field(std::string_view head, std::string_view name) {
  for (std::size_t at = head.find("\r\n"); at != std::string_view::npos;) {
    const std::size_t line = at + 2;
    at = head.find("\r\n", line);
    const std::string_view text = head.substr(line, at == std::string_view::npos ? at : at - line);
    if (text.size() > name.size() && text[name.size()] == ':' &&
        std::ranges::equal(text.substr(0, name.size()), name, {}, lower, lower)) {
      const std::size_t value = text.find_first_not_of(' ', name.size() + 1);
      return value == std::string_view::npos ? std::string_view() : text.substr(value);
    }
  }
  return {};
}

int dial(std::uint16_t port, int flags) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) die("no more sockets");
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    die("no server takes connections on port " + std::to_string(port));
  if ((flags & SOCK_NONBLOCK) != 0) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  return fd;
}

std::optional<std::string> Words::next() {
  if (at_ == words_.size()) return std::nullopt;
  return words_[at_++];
}

std::string Words::value() {
  if (at_ == words_.size()) die(words_[at_ - 1] + " wants a value");
  return words_[at_++];
}

}  // namespace tarn::bench
