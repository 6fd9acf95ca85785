#include "target/drives/slow_watch.h"

#include <algorithm>

namespace tarn::target {
namespace {

constexpr double kHistoryWeight = 0.01;

/// Bytes that take as long as a request does before its first byte.
double bytes_of_request(io::DriveKind kind) {
  return kind == io::DriveKind::rotational ? 2.4e6 : 65536;
}

/// Below this many ms no drive is slow, however fast its siblings are.
double never_slow(io::DriveKind kind) { return kind == io::DriveKind::rotational ? 40 : 1; }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <typename Values>
double median_of(const Values& values) {
  return median({values.begin(), values.end()});
}

}  // namespace

/// True if there was enough for a sample. Time is kept until there is: a request that takes seconds
/// ends in another look than those in which the disk was busy with it.
bool SlowWatch::take_sample(Drive& drive, const Seen& now, bool well) {
  const Seen& last = drive.last;
  if (now.requests < last.requests || now.bytes < last.bytes || now.busy_ms < last.busy_ms ||
      now.kind != last.kind) {
    drive = Drive{.last = now, .samples = {}};  // another disk
    return false;
  }
  const std::uint64_t requests = now.requests - last.requests;
  if (requests < kSampleRequests) return false;
  const double work = static_cast<double>(requests) +
                      static_cast<double>(now.bytes - last.bytes) / bytes_of_request(now.kind);
  const double sample = static_cast<double>(now.busy_ms - last.busy_ms) / work;
  drive.last = now;
  drive.samples.push_back(sample);
  if (drive.samples.size() > kSamples) drive.samples.pop_front();
  if (well) {
    ++drive.history_samples;
    const double weight = std::max(kHistoryWeight, 1 / static_cast<double>(drive.history_samples));
    drive.history += weight * (sample - drive.history);
  }
  return true;
}

std::optional<double> SlowWatch::usual(const std::string& path) const {
  const Drive& its = drives_.at(path);
  std::vector<double> others;
  for (const auto& [other, drive] : drives_)
    if (other != path && drive.last.kind == its.last.kind && drive.samples.size() == kSamples)
      others.push_back(median_of(drive.samples));
  if (!others.empty()) return median(std::move(others));
  if (its.history_samples >= kHistory) return its.history;
  return std::nullopt;
}

std::vector<SlowWatch::Change> SlowWatch::look(const std::map<std::string, Seen>& seen) {
  const auto is_gone = [&](const auto& each) { return !seen.contains(each.first); };
  std::erase_if(drives_, is_gone);
  std::erase_if(slow_, [&](const std::string& path) { return !seen.contains(path); });
  std::set<std::string> sampled;
  for (const auto& [path, now] : seen) {
    const auto [its, fresh] = drives_.try_emplace(path, Drive{.last = now, .samples = {}});
    if (fresh) continue;
    if (take_sample(its->second, now, !slow_.contains(path))) sampled.insert(path);
    if (its->second.samples.empty()) slow_.erase(path);
  }
  std::vector<Change> changes;
  for (const std::string& path : sampled) {
    const Drive& drive = drives_.at(path);
    const auto its_usual = usual(path);
    if (drive.samples.size() < kSamples || !its_usual) continue;
    const double ms = median_of(drive.samples);
    const bool was = slow_.contains(path);
    const double times = was ? kWell : kTimes;
    const bool is = ms >= never_slow(drive.last.kind) && ms >= times * *its_usual;
    if (is == was) continue;
    if (is)
      slow_.insert(path);
    else
      slow_.erase(path);
    changes.push_back({path, is, ms, *its_usual});
  }
  return changes;
}

}  // namespace tarn::target
