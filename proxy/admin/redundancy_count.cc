#include "proxy/admin/redundancy_count.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "common/api/coding_props.h"
#include "common/api/mirror_props.h"
#include "common/api/status.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "common/base/resume.h"
#include "common/cluster/place/visible_names.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/target_counts.h"
#include "proxy/list/list.h"

namespace tarn::proxy {
namespace {

/// Many, since each page waits twice for the slowest target, and some wait for their drives.
constexpr std::size_t kPageNames = 5000;
constexpr std::string_view kRecordsPath = "/v1/internal/list-moving?";

/// Ids of the targets that do not answer; objects there are not counted.
using Away = std::set<std::string>;

/// A bucket to count, and options.
struct Count {
  const Services& services;
  const cluster::ClusterState& state;
  const cluster::BucketRecord& bucket;
  CountOrder order;
  std::set<std::string> stops = {};  ///< targets without which objects may be unreadable
};

Nodes targets_but(const cluster::ClusterState& state, const Away& away) {
  Nodes out;
  for (const auto& [id, node] : state.map.nodes)
    if (node.role == cluster::Role::target && !away.contains(id)) out.push_back(&node);
  return out;
}

Away silent_targets(const Services& services, const cluster::ClusterState& state) {
  const auto answering = services.suspects.answering();
  Away away;
  for (const cluster::Node* target : targets_but(state, {}))
    if (!answering->contains(target->id)) away.insert(target->id);
  return away;
}

/// Notes in `away` the targets that answer that they cannot now. Returns the first of all other
/// errors.
template <class T>
Status sort_out(const Nodes& targets, const std::vector<Result<T>>& answers, Away& away) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i]) continue;
    if (answers[i].error().code != Errc::unavailable) return fail(answers[i].error());
    away.insert(targets[i]->id);
  }
  return {};
}

Task<Result<api::SliceCounts>> ask_slices(const Services& services, const cluster::Node& target,
                                          std::string path) {
  constexpr http::CallLimits kLimits{.total = std::chrono::minutes(10)};
  CO_TRY(const auto answer,
         co_await call_node(services, target, http::Method::get, std::move(path), kLimits));
  if (answer.status == 421)
    co_return fail(Errc::conflict, "target t[{}] acts on a newer map", target.id);
  if (answer.status != 200)
    co_return fail(api::errc_of_answer(answer.status, answer.body), "target t[{}]: {}", target.id,
                   api::error_message_of(answer.body));
  co_return api::slice_counts_from(answer.body);
}

/// Counts the slices of coded objects after `after` up to `last`, as their owners know them. One
/// more target in `away`: it went meanwhile, and the sum has no meaning.
Task<Result<api::SliceCounts>> count_slices(const Count& count, const std::string& after,
                                            const std::string& last, Away& away) {
  api::Query query;
  query.set("bucket", std::to_string(raw(count.bucket.id)));
  query.set("map", std::to_string(count.state.map.version));
  query.set("bmd", std::to_string(count.state.bmd.version));
  query.set("after", after);
  query.set("last", last);
  if (!count.stops.empty()) query.set("without", fmt::format("{}", fmt::join(count.stops, ",")));
  const std::string path = "/v1/internal/slices?" + query.encode();
  const Nodes targets = targets_but(count.state, away);
  std::vector<Task<Result<api::SliceCounts>>> calls;
  for (const cluster::Node* target : targets)
    calls.push_back(ask_slices(count.services, *target, path));
  const auto answers = co_await gather(std::move(calls));
  CO_TRY_OK(sort_out(targets, answers, away));
  api::SliceCounts sum;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]) continue;
    if (!count.stops.empty() && !answers[i]->unreadable)
      co_return fail(Errc::unsupported,
                     "target t[{}] runs a version that cannot tell whether others may stop",
                     targets[i]->id);
    sum.add(*answers[i]);
  }
  co_return sum;
}

/// The records after `after` of all targets but those in `away`, compared by name; `away` as for
/// count_slices().
Task<Result<NamePage>> next_page(const Count& count, const std::string& after, Away& away) {
  const Nodes targets = targets_but(count.state, away);
  const ListRequest request;
  api::Query query = list_query(count.state, count.bucket, request, after, kPageNames);
  query.set("own", "all");
  query.set("away", "count");
  const std::string path = std::string(kRecordsPath) + query.encode();
  ListSources sources;  // sort_out() notes those that cannot answer
  std::vector<Task<Result<std::string>>> calls;
  for (const cluster::Node* target : targets)
    calls.push_back(ask_for_list(count.services, *target, path, sources));
  const auto answers = co_await gather(std::move(calls));
  CO_TRY_OK(sort_out(targets, answers, away));
  NamePage page(cluster::zones_by_id(cluster::ownership_of(count.state.map).members), count.stops);
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (answers[i]) CO_TRY_OK(page.take(targets[i]->id, *answers[i]));
  co_return page;
}

/// Bounds the restarts of a count because the map changed. Five times at least, as a count may take
/// long; and for 30 s, as many changes may follow each other within a second.
class MapPatience {
 public:
  /// True if the count may begin (anew).
  bool lasts() { return attempts_++ < kAttemptsMin || std::chrono::steady_clock::now() < until_; }

 private:
  static constexpr int kAttemptsMin = 5;
  static constexpr std::chrono::seconds kTime{30};

  int attempts_ = 0;
  const std::chrono::steady_clock::time_point until_ = std::chrono::steady_clock::now() + kTime;
};

/// cancelled when the caller has been asked to end.
Task<Status> rest(const Count& count, BootTime since) {
  if (count.order.rests == 0) co_return Status();
  const auto took = count.services.clock.boot_time() - since;
  co_await pause(std::chrono::ceil<std::chrono::milliseconds>(took * count.order.rests));
  if (co_await is_cancelled()) co_return fail(Errc::cancelled, "the count was told to stop");
  co_return Status();
}

/// True if each name that some target of `blind` may hold, and not show, is shown by another
/// target.
bool others_show(const Count& count, const std::set<std::string>& blind) {
  return cluster::shows_all_names(cluster::ownership_of(count.state.map),
                                  count.bucket.replica_count(),
                                  [&](const std::string& id) { return blind.contains(id); });
}

/// Copies, or records, on nodes, and slices. False: one more target is in `into.targets_away`, and
/// the counts so far are not to be used.
Task<Result<bool>> count_on_nodes(const Count& count, bool with_slices, Redundancy& into) {
  const std::size_t before = into.targets_away.size();
  std::string after = count.order.list ? count.order.list_after : "";
  for (bool more = true; more;) {
    const auto since = count.services.clock.boot_time();
    CO_TRY(const NamePage page, co_await next_page(count, after, into.targets_away));
    if (into.targets_away.size() > before) co_return false;
    const std::string last = page.last();
    api::SliceCounts slices;
    // Also of a bucket without a name: slices may lie there that no record names.
    if (with_slices && (!page.names().empty() || after.empty())) {
      CO_TRY(slices, co_await count_slices(count, after, last, into.targets_away));
    }
    if (into.targets_away.size() > before) co_return false;
    add_page(page, slices, into);
    more = page.more() && !(into.list && into.list->names.more());
    after = last;
    CO_TRY_OK(co_await rest(count, since));
  }
  co_return true;
}

/// Copies on drives: each target counts its own.
Task<Status> count_on_drives(const Count& count, Redundancy& into) {
  api::Query query;
  query.set("bucket", std::to_string(raw(count.bucket.id)));
  query.set("bmd", std::to_string(count.state.bmd.version));
  query.set("lost_after", count.order.lost_after);
  query.set("lost_max", std::to_string(count.order.lost_max));
  if (count.order.list) {
    query.set("list", api::to_string(*count.order.list));
    query.set("after", count.order.list_after);
    query.set("list_max", std::to_string(count.order.list_max));
  }
  const std::string path = "/v1/internal/redundancy?" + query.encode();
  const Nodes targets = targets_but(count.state, into.targets_away);
  std::vector<Task<Result<api::CountedCopies>>> calls;
  for (const cluster::Node* target : targets)
    calls.push_back(ask_counts<api::CountedCopies>(count.services, *target, path));
  const auto answers = co_await gather(std::move(calls));
  CO_TRY_OK(sort_out(targets, answers, into.targets_away));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto& each = answers[i];
    if (!each) continue;
    if (into.list && !each->list)
      co_return fail(Errc::unsupported,
                     "target t[{}] runs a version that cannot list objects by their state",
                     targets[i]->id);
    if (into.list) into.list->names.add(*each->list);
    into.counts.add(each->counts);
    into.lost.add(each->lost);
    into.all_seen = into.all_seen && each->all_seen;
  }
  into.survives_drives = into.counts.survives();
  if (into.survives_drives) {  // all copies of an object lie on one node
    into.survives_nodes = 0;
    if (!cluster::zones_by_id(cluster::ownership_of(count.state.map).members).empty())
      into.survives_zones = 0;
  }
  co_return Status();
}

Redundancy nothing_of(const Count& count, Away away) {
  const api::BucketProps& props = count.bucket.props;
  const auto coding = api::coding_of(props);
  const int copies =
      count.bucket.replica_count().many() ? api::node_copies_of(props) : api::copies_of(props);
  Redundancy out;
  out.bucket = count.bucket.name;
  out.wanted = static_cast<std::uint64_t>(coding ? coding->m + 1 : std::max(1, copies));
  out.lost = {count.order.lost_after, count.order.lost_max};
  if (count.order.list)
    out.list = api::StateList{*count.order.list, {count.order.list_after, count.order.list_max}};
  if (api::was_ever_coded(props)) out.coded = 0;
  out.targets_away = std::move(away);
  return out;
}

Task<Result<Redundancy>> redundancy_count_count_bucket(const Count& count) {
  Redundancy out = nothing_of(count, silent_targets(count.services, count.state));
  // Also when the bucket is not coded any more: some objects may be still, or cannot be otherwise.
  const bool with_slices = api::was_ever_coded(count.bucket.props);
  if (!with_slices && !count.bucket.replica_count().many()) {
    CO_TRY_OK(co_await count_on_drives(count, out));
    co_return out;
  }
  while (true) {
    CO_TRY(const bool counted, co_await count_on_nodes(count, with_slices, out));
    if (counted) {
      out.judge([&](const auto& blind) { return others_show(count, blind); });
      co_return out;
    }
    out = nothing_of(count, std::move(out.targets_away));
  }
}

/// Names of a page that are unreadable without the targets of `count.stops`. A version that is
/// written just now is seen on some of its targets before the rest, so such names are read again.
/// `last` and `more` are set as the page has them.
Task<Result<std::set<std::string>>> unreadable_after(const Count& count, const std::string& after,
                                                     Away& away, std::string& last, bool& more) {
  constexpr int kLooks = 3;
  constexpr std::chrono::milliseconds kBetween{200};
  const bool coded = api::was_ever_coded(count.bucket.props);
  std::optional<std::set<std::string>> found;
  for (int look = 0; look < kLooks && (!found || !found->empty()); ++look) {
    if (found) co_await pause(kBetween);
    CO_TRY(const NamePage page, co_await next_page(count, after, away));
    // Names after the first end were looked at once only: they come with the next page.
    if (!found || page.last() < last) {
      last = page.last();
      more = page.more();
    }
    api::SliceCounts slices;
    if (coded && !page.names().empty()) {
      CO_TRY(slices, co_await count_slices(count, after, page.last(), away));
    }
    auto names = unreadable_names(page, coded, slices);
    if (found) std::erase_if(names, [&](const auto& name) { return !found->contains(name); });
    found = std::move(names);
  }
  co_return std::move(*found);
}

Task<Result<Unreadable>> redundancy_count_unreadable(const Count& count) {
  Away away = silent_targets(count.services, count.state);
  const std::size_t before = away.size();
  Unreadable out;
  std::string after;
  for (bool more = true; more;) {
    std::string last;
    CO_TRY(const auto names, co_await unreadable_after(count, after, away, last, more));
    if (away.size() > before)
      co_return fail(Errc::conflict, "a target went away while its objects were counted");
    if (out.objects == 0 && !names.empty()) out.first = *names.begin();
    out.objects += names.size();
    after = last;
  }
  co_return out;
}

}  // namespace

Task<Result<Unreadable>> count_unreadable(const Services& services,
                                          std::shared_ptr<const cluster::ClusterState> state,
                                          BucketId bucket, std::set<std::string> stops) {
  MapPatience patience;
  while (patience.lasts()) {
    const auto* record = state->bmd.find(bucket);
    if (record == nullptr) co_return fail(Errc::bucket_not_found, "the bucket is gone");
    const Count count{services, *state, *record, {}, stops};
    auto counted = co_await redundancy_count_unreadable(count);
    if (counted || counted.error().code != Errc::conflict) co_return counted;
    CO_TRY(state, co_await services.view.fresh());
  }
  co_return fail(Errc::unavailable, "the cluster map changes; try again");
}

Task<Result<Redundancy>> count_redundancy(const Services& services,
                                          std::shared_ptr<const cluster::ClusterState> state,
                                          BucketId bucket, CountOrder order) {
  MapPatience patience;
  while (patience.lasts()) {
    const auto* record = state->bmd.find(bucket);
    if (record == nullptr) co_return fail(Errc::bucket_not_found, "the bucket is gone");
    const Count count{services, *state, *record, order};
    auto counted = co_await redundancy_count_count_bucket(count);
    if (counted || counted.error().code != Errc::conflict) co_return counted;
    CO_TRY(state, co_await services.view.fresh());
  }
  co_return fail(Errc::unavailable, "the cluster map changes; try again");
}

}  // namespace tarn::proxy
