#include "common/base/fail_points.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <signal.h>
#include <string>
#include <thread>
#include <unistd.h>

#include "common/base/encoding.h"
#include "common/base/mutex.h"
#include "common/base/random.h"

namespace tarn::fail_point {
namespace {

struct Setting {
  std::string name;
  std::string action;
  std::uint64_t only = 0;  // 0: every hit
  std::string when;        // "" or a path: the first hit when there is such a file
  std::uint64_t hits = 0;
};

class Registry {
 public:
  Registry() {
    if (const char* text = std::getenv("TARN_FAIL_POINTS")) parse(text);
    if (const char* text = std::getenv("TARN_FAIL_POINTS_DELAY"))
      longest_delay_ = parse_u64(text).value_or(0);
  }
  /// Delay of this hit, in microseconds: 0 three times of four, or when no delays are wanted.
  std::uint64_t delay() {
    if (longest_delay_ == 0) return 0;
    const MutexLock lock(mutex_);
    const std::uint64_t dice = dice_();
    return dice % 4 == 0 ? dice / 4 % (longest_delay_ * 1000) : 0;
  }
  void parse(std::string_view text) {
    const MutexLock lock(mutex_);
    settings_.clear();
    while (!text.empty()) {
      const auto end = text.find(';');
      const auto item = trim(text.substr(0, end));
      text = end == std::string_view::npos ? "" : text.substr(end + 1);
      const auto equals = item.find('=');
      if (equals == std::string_view::npos) continue;
      Setting setting;
      setting.name = item.substr(0, equals);
      std::string_view action = item.substr(equals + 1);
      if (const auto at = action.rfind('@'); at != std::string_view::npos) {
        const std::string_view hit = action.substr(at + 1);
        if (hit.starts_with('/'))
          setting.when = hit;
        else
          setting.only = parse_u64(hit).value_or(0);
        action = action.substr(0, at);
      }
      setting.action = action;
      settings_.insert_or_assign(id_of(setting.name), setting);
    }
  }
  /// Counts a hit of the point; returns its setting if the action is due now.
  std::optional<Setting> due(Id point) {
    const MutexLock lock(mutex_);
    if (settings_.empty()) return std::nullopt;
    const auto found = settings_.find(point);
    if (found == settings_.end()) return std::nullopt;
    Setting& setting = found->second;
    ++setting.hits;
    if (setting.only != 0 && setting.hits != setting.only) return std::nullopt;
    if (!setting.when.empty()) {
      if (::access(setting.when.c_str(), F_OK) != 0) return std::nullopt;
      setting.when.clear();
      setting.only = setting.hits;
    }
    // stderr and not the logger: the process may be dead in the next line.
    std::fprintf(stderr, "warn failpoint hit name=%s action=%s n=%lu\n", setting.name.c_str(),
                 setting.action.c_str(), static_cast<unsigned long>(setting.hits));
    std::fflush(stderr);
    return setting;
  }

 private:
  Mutex mutex_;
  std::map<Id, Setting> settings_ TARN_GUARDED_BY(mutex_);
  std::uint64_t longest_delay_ = 0;  // milliseconds
  std::mt19937_64 dice_ TARN_GUARDED_BY(mutex_){static_cast<std::uint64_t>(::getpid())};
};

Registry& registry() {
  static Registry instance;
  return instance;
}

std::string_view last_two_parts(std::string_view path) {
  const auto name = path.rfind('/');
  const auto parent = name == 0 || name == path.npos ? path.npos : path.rfind('/', name - 1);
  return parent == path.npos ? path : path.substr(parent + 1);
}

}  // namespace

Status hit(Id point) {
  if (const std::uint64_t delay = registry().delay(); delay != 0)
    std::this_thread::sleep_for(std::chrono::microseconds(delay));
  const std::optional<Setting> due = registry().due(point);
  if (!due) return {};
  const std::string_view action = due->action;
  if (action == "kill") {
    ::kill(::getpid(), SIGKILL);
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
  if (action == "error") return fail(Errc::io, "fail point {}", due->name);
  if (action.starts_with("sleep:")) {
    const auto ms = parse_u64(action.substr(6)).value_or(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  }
  return {};
}

bool is_off(Id safety) {
  const std::optional<Setting> due = registry().due(safety);
  return due && due->action == "off";
}

std::string identity(std::size_t length, std::string_view of) {
  static Mutex mutex;
  static std::map<std::string, unsigned> made TARN_GUARDED_BY(mutex);
  const char* text = std::getenv("TARN_TEST_IDENTITIES");
  if (text == nullptr) return random_id(length);
  const std::string place(last_two_parts(of));
  const MutexLock lock(mutex);
  const unsigned number = ++made[place];
  std::mt19937_64 dice(id_of(fmt::format("{} {} {}", text, place, number)));
  std::string out;
  while (out.size() < length) out += kIdAlphabet[dice() % kIdAlphabet.size()];
  return out;
}

std::string place_of(std::string_view path) {
  const char* text = std::getenv("TARN_TEST_PLACES");
  return text == nullptr ? std::string(path) : fmt::format("{} {}", text, last_two_parts(path));
}

void set(std::string_view settings) { registry().parse(settings); }

}  // namespace tarn::fail_point
