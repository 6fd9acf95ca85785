#include "cli/tools/bench.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <fstream>
#include <future>
#include <memory>
#include <unistd.h>

#include <dirent.h>

#include "common/base/encoding.h"
#include "common/base/unique_fd.h"
#include "common/io/file_system.h"

namespace tarn::cli {
namespace {

constexpr std::size_t kBenchBufferBytes = 1U << 20U;
// Near enough to the limit to call it one: measuring itself costs a few percent.
constexpr double kDriveShare = 0.90;
constexpr double kNetworkShare = 0.85;
constexpr double kProcessorShare = 0.85;

Result<UniqueFd> bench_open_file(const BenchFile& file) {
  UniqueFd fd(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOATIME));
  if (!fd.valid() && errno == EPERM) fd = UniqueFd(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno(errno, fmt::format("open '{}'", file.path));
  return fd;
}

double bench_seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

}  // namespace

Result<std::uint64_t> make_cold(const std::vector<BenchFile>& files) {
  std::uint64_t warm = 0;
  for (const BenchFile& file : files) {
    TRY(const UniqueFd fd, bench_open_file(file));
    const int failed = ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    if (failed != 0) return fail_errno(failed, fmt::format("posix_fadvise '{}'", file.path));
    const auto looked = std::min<std::uint64_t>(file.size, 1U << 16U);
    if (looked > 0 && io::is_resident(fd.get(), 0, looked)) ++warm;
  }
  return warm;
}

Result<DriveRate> read_in_sequence(const std::vector<BenchFile>& files) {
  DriveRate out;
  std::vector<std::byte> buffer(kBenchBufferBytes);
  const auto start = std::chrono::steady_clock::now();
  for (const BenchFile& file : files) {
    TRY(const UniqueFd fd, bench_open_file(file));
    static_cast<void>(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL));
    while (true) {
      const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail_errno(errno, fmt::format("read '{}'", file.path));
      if (got == 0) break;
      out.bytes += static_cast<std::uint64_t>(got);
    }
  }
  out.seconds = bench_seconds_since(start);
  return out;
}

Result<std::vector<DriveRate>> read_drives(const std::vector<std::vector<BenchFile>>& drives,
                                           double& seconds) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::future<Result<DriveRate>>> reading;
  reading.reserve(drives.size());
  for (const auto& files : drives)
    reading.push_back(std::async(std::launch::async, [&files] { return read_in_sequence(files); }));
  std::vector<DriveRate> out;
  Status failed;
  for (auto& each : reading) {
    auto rate = each.get();
    if (rate)
      out.push_back(*rate);
    else
      failed = fail(rate.error());
  }
  seconds = bench_seconds_since(start);
  TRY_OK(failed);
  return out;
}

ProcessorTime ProcessorTime::parse(std::string_view line) {
  constexpr std::size_t kIdle = 3;
  constexpr std::size_t kWaiting = 4;  // for drives: not work
  constexpr std::size_t kFields = 8;   // guests are counted in user time
  if (!line.starts_with("cpu ")) return {};
  line.remove_prefix(4);
  ProcessorTime out;
  for (std::size_t i = 0; i < kFields; ++i) {
    line = line.substr(std::min(line.size(), line.find_first_not_of(' ')));
    const auto end = std::min(line.size(), line.find(' '));
    const auto ticks = parse_u64(trim(line.substr(0, end))).value_or(0);
    out.all += ticks;
    if (i != kIdle && i != kWaiting) out.busy += ticks;
    line.remove_prefix(end);
  }
  return out;
}

ProcessorTime ProcessorTime::now() {
  std::ifstream stat("/proc/stat");
  std::string line;
  std::getline(stat, line);
  return parse(line);
}

double busy_share(const ProcessorTime& before, const ProcessorTime& after) {
  if (after.all <= before.all) return 0;
  return static_cast<double>(after.busy - before.busy) /
         static_cast<double>(after.all - before.all);
}

double network_rate() {
  double fastest = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> ports(::opendir("/sys/class/net"), ::closedir);
  if (!ports) return 0;
  while (const dirent* port = ::readdir(ports.get())) {
    if (port->d_name[0] == '.' || std::string_view(port->d_name) == "lo") continue;
    std::ifstream speed(fmt::format("/sys/class/net/{}/speed", port->d_name));
    double megabits = 0;
    if (speed >> megabits) fastest = std::max(fastest, megabits * 1e6 / 8);
  }
  return fastest;
}

std::string what_binds(const BenchFigures& figures) {
  if (!figures.on_this_machine && figures.network > 0 &&
      figures.through_tarn >= kNetworkShare * figures.network)
    return "network";
  if (figures.drives > 0 && figures.through_tarn >= kDriveShare * figures.drives) return "drive";
  if (figures.processor_share >= kProcessorShare) return "processor";
  return "none";
}

}  // namespace tarn::cli
