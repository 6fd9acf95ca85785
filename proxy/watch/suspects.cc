#include "proxy/watch/suspects.h"

#include <array>

#include "common/base/pause.h"
#include "common/base/random.h"
#include "common/base/resume.h"
#include "common/obs/log.h"

namespace tarn::proxy {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kSuspectsPath = "/v1/internal/heartbeat";
constexpr milliseconds kReconnect{50};
constexpr std::size_t kSuspectsLineBytesMax = 64U << 10U;  // some 30 for each drive

Task<void> pause_before_reconnect() {
  const milliseconds jitter(random_u64() % 25);
  co_await pause(kReconnect + jitter);
}

}  // namespace

Suspects::Suspects(cluster::ClusterView& view, http::Client& client, const security::NodeAuth& auth,
                   obs::Metrics& metrics, milliseconds silence_max)
    : view_(view), client_(client), auth_(auth), metrics_(metrics), silence_max_(silence_max) {}

Suspects::~Suspects() = default;

void Suspects::start(http::Loop& loop) {
  loop_ = &loop;
  const auto known = view_.state();
  auto unheard = std::make_shared<Answering>();
  for (const auto& [id, node] : known->map.nodes)
    if (node.role == cluster::Role::target) unheard->suspects.insert(id);
  answering_.set(std::move(unheard));
  view_.on_change([this](const cluster::ClusterState&, const cluster::ClusterState& state) {
    follow_new(state);
  });
  follow_new(*known);
}

bool Suspects::stop() { return tasks_.close(10); }

void Suspects::follow_new(const cluster::ClusterState& state) {
  for (const auto& [id, node] : state.map.nodes) {
    if (node.role != cluster::Role::target) continue;
    {
      const MutexLock lock(mutex_);
      if (!followed_.insert(id).second) continue;
    }
    metrics_
        .gauge("tarn_target_suspect", "1 for a target that does not answer now.", {{"target", id}})
        .Set(answering_.get()->contains(id) ? 0 : 1);
    tasks_.spawn(loop_->executor(), "heartbeats of " + id, follow(id));
  }
}

std::string Suspects::url_of(const std::string& id) const {
  const auto state = view_.state();
  const cluster::Node* node = state->map.find(id);
  return node == nullptr ? "" : node->internal_url;
}

Task<void> Suspects::follow(std::string id) {
  // A target that starts again may have other addresses: look them up each time.
  for (std::string url = url_of(id); !url.empty(); url = url_of(id)) {
    const Status ended = co_await listen(id, url);
    if (co_await is_cancelled()) break;  // this proxy ends, the target is not to blame
    set_answering(id, false, ended ? "the stream ended" : ended.error().message);
    co_await pause_before_reconnect();
  }
  const MutexLock lock(mutex_);
  followed_.erase(id);
}

/// Reads lines until the stream ends in whatever way.
Task<Status> Suspects::listen(std::string id, std::string url) {
  CO_TRY(http::Url address, http::parse_url(url));
  http::ClientRequest request;
  request.target = kSuspectsPath;
  request.fields.push_back(
      {std::string(security::NodeAuth::kHeader), auth_.sign("GET", kSuspectsPath)});
  const http::CallLimits limits{.connect = silence_max_, .stall = silence_max_};
  CO_TRY(http::ClientStream stream,
         co_await client_.open(std::move(address), std::move(request), std::nullopt, limits));
  CO_TRY(const http::ClientResponse head, co_await stream.read_head());
  if (head.status != 200)
    co_return fail(Errc::unavailable, "heartbeat answered with status {}", head.status);
  std::string line;
  std::array<std::byte, 1024> buffer{};
  while (true) {
    CO_TRY(const std::size_t got, co_await stream.read_some(buffer));
    if (got == 0) co_return Status();
    line.append(reinterpret_cast<const char*>(buffer.data()), got);
    for (auto end = line.find('\n'); end != std::string::npos; end = line.find('\n')) {
      const auto said = parse_heartbeat(std::string_view(line).substr(0, end));
      if (!said) co_return fail(Errc::corrupt, "a heartbeat that is no JSON with \"ready\"");
      take_load(id, said->drives);
      set_answering(id, said->ready, said->ready ? "" : "it is not ready");
      line.erase(0, end + 1);
    }
    if (line.size() > kSuspectsLineBytesMax)
      co_return fail(Errc::corrupt, "a heartbeat line of more than {} bytes",
                     kSuspectsLineBytesMax);
  }
}

void Suspects::take_load(const std::string& id, const std::vector<LoadReport::OfDrive>& drives) {
  auto& its = loads_[id];
  const bool is_first = its == nullptr;
  if (is_first) its = std::make_shared<Snapshot<LoadReport>>();
  its->set(std::make_shared<const LoadReport>(drives));
  if (!is_first) return;
  auto next = std::make_shared<Answering>(*answering_.get());
  next->loads[id] = its;
  answering_.set(std::move(next));
}

void Suspects::set_answering(const std::string& id, bool answers, std::string_view reason) {
  const auto now = answering_.get();  // only loop_ writes
  std::atomic<bool>& is_silent = silence_[id];
  is_silent = !answers;
  if (now->contains(id) == answers && now->silence.contains(id)) return;
  auto next = std::make_shared<Answering>(*now);
  next->silence[id] = &is_silent;
  if (now->contains(id) == answers) {
    answering_.set(std::move(next));
    return;
  }
  if (answers) {
    next->suspects.erase(id);
    obs::log("proxy").info("target answers node={}", id);
  } else {
    next->suspects.insert(id);
    obs::log("proxy").warn("target suspect node={} err={}", id, reason);
  }
  answering_.set(std::move(next));
  metrics_.gauge("tarn_target_suspect", "", {{"target", id}}).Set(answers ? 0 : 1);
}

}  // namespace tarn::proxy
