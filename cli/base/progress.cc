#include "cli/base/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/base/printing.h"

namespace tarn::cli {
namespace {

constexpr std::chrono::milliseconds kDrawEvery{200};
constexpr std::chrono::milliseconds kPlainEvery{5'000};
constexpr std::size_t kLinesMax = 16;

struct Screen {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

Screen screen() {
  struct winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {size.ws_col, size.ws_row};
}

double progress_seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

/// At most `columns` characters of UTF-8.
std::string clipped(std::string text, std::size_t columns) {
  if (columns == 0) return text;
  std::size_t shown = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U;
    if (begins && shown++ == columns) return text.substr(0, i);
  }
  return text;
}

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::llround(std::clamp(seconds, 0.0, 3.6e8)));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string progress_line(std::string_view name, const ProgressFigures& figures,
                          std::size_t columns) {
  std::string numbers;
  if (figures.total > 0) {
    const auto done = std::min(figures.done, figures.total);
    const double share = static_cast<double>(done) / static_cast<double>(figures.total);
    numbers = fmt::format("{:3.0f}%  {} of {}", std::floor(share * 100), readable_size(done),
                          readable_size(figures.total));
  } else {
    numbers = readable_size(figures.done);
  }
  numbers += fmt::format("  {}/s", readable_size(static_cast<std::uint64_t>(figures.rate)));
  if (figures.total > figures.done && figures.rate > 0)
    numbers += fmt::format(
        "  {} left", clock_text(static_cast<double>(figures.total - figures.done) / figures.rate));
  // The numbers count more than the whole of a long name.
  std::string shown = printable(name);
  if (columns > 0 && shown.size() + 2 + numbers.size() > columns) {
    const std::size_t room = columns > numbers.size() + 6 ? columns - numbers.size() - 5 : 0;
    std::size_t from = shown.size() - std::min(shown.size(), room);
    while (from < shown.size() && (static_cast<unsigned char>(shown[from]) & 0xC0U) == 0x80U)
      ++from;
    shown = room == 0 ? "" : "..." + shown.substr(from);
  }
  return clipped(shown + "  " + numbers, columns);
}

ProgressStyle progress_style(bool quiet) {
  if (quiet) return ProgressStyle::silent;
  const char* const term = std::getenv("TERM");
  const bool can_draw = term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
  return ::isatty(STDERR_FILENO) != 0 && can_draw ? ProgressStyle::live : ProgressStyle::plain;
}

Progress::Line::Line(Progress& progress, std::string name)
    : progress_(progress), name_(std::move(name)) {
  const MutexLock lock(progress_.mutex_);
  progress_.lines_.push_back(this);
}

Progress::Line::~Line() {
  const MutexLock lock(progress_.mutex_);
  progress_.lines_.remove(this);
  progress_.bytes_done_ += meter_.done();
  ++progress_.items_done_;
}

Progress::Progress(std::string command, ProgressStyle style)
    : command_(std::move(command)), style_(style) {
  if (style_ != ProgressStyle::silent) thread_ = std::thread([this] { run(); });
}

Progress::~Progress() { finish(); }

void Progress::expect(std::size_t items, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  items_ = items;
  bytes_ = bytes;
}

void Progress::say(std::string_view text) {
  const MutexLock lock(mutex_);
  wipe();
  fmt::print(stderr, "tarn {}: {}\n", command_, printable(text));
}

Exit Progress::complain(const Error& error) {
  say(error.message);
  return exit_for(error.code);
}

void Progress::finish() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    wipe();
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Progress::run() {
  MutexLock lock(mutex_);
  const auto every = style_ == ProgressStyle::live ? kDrawEvery : kPlainEvery;
  while (!stop_) {
    const auto next = std::chrono::steady_clock::now() + every;
    while (!stop_ && wake_.wait_until(lock, next)) {
    }
    if (stop_) return;
    if (style_ == ProgressStyle::live)
      draw();
    else
      print_plain();
  }
}

ProgressFigures Progress::total_figures() const {
  ProgressFigures figures{bytes_done_, bytes_, 0};
  for (const Line* line : lines_) figures.done += line->meter_.done();
  if (items_ == 1 && bytes_ == 0 && !lines_.empty()) figures.total = lines_.front()->meter_.total();
  const double seconds = progress_seconds_since(since_);
  if (seconds > 0) figures.rate = static_cast<double>(figures.done) / seconds;
  return figures;
}

std::string Progress::total_line(std::size_t columns) const {
  const std::string items = items_ > 0 ? fmt::format("{} of {} done", items_done_, items_)
                                       : fmt::format("{} done", items_done_);
  return progress_line(items, total_figures(), columns);
}

void Progress::wipe() {
  if (drawn_ == 0) return;
  fmt::print(stderr, "\x1b[{}A\x1b[J", drawn_);
  drawn_ = 0;
}

void Progress::draw() {
  const Screen now = screen();
  std::string out;
  if (drawn_ > 0) out = fmt::format("\x1b[{}A\x1b[J", drawn_);
  drawn_ = 0;
  const std::size_t columns = now.columns - 1;
  const std::size_t lines_max = std::min(kLinesMax, now.rows > 3 ? now.rows - 2 : 1);
  for (const Line* line : lines_) {
    if (drawn_ == lines_max) break;
    const double seconds = progress_seconds_since(line->since_);
    const std::uint64_t done = line->meter_.done();
    const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    out += progress_line(line->name_, {done, line->meter_.total(), rate}, columns) + "\n";
    ++drawn_;
  }
  if (items_ != 1) {
    out += total_line(columns) + "\n";
    ++drawn_;
  }
  std::fwrite(out.data(), 1, out.size(), stderr);
  std::fflush(stderr);
}

void Progress::print_plain() {
  const std::uint64_t done = total_figures().done;
  if (done == bytes_said_) return;
  bytes_said_ = done;
  fmt::print(stderr, "tarn {}: {}\n", command_, total_line(0));
}

}  // namespace tarn::cli
