// The states of a job, and the records of jobs in a meta store that several proxies share.

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "common/base/pause.h"
#include "common/base/resume.h"
#include "common/cluster/store/embedded_store.h"
#include "common/cluster/store/keys.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/kept_jobs.h"
#include "tests/unit/forwarding_store.h"
#include "tests/unit/run_task.h"

namespace job_records_test {

using namespace tarn;
using namespace tarn::proxy;
using test::eventually;
using test::TaskRunner;
using test::TemporaryDirectory;

constexpr JobState kAllStates[] = {JobState::pending, JobState::running, JobState::stopping,
                                   JobState::done,    JobState::aborted, JobState::failed};

Status broken() { return fail(Errc::io, "a drive is away"); }
Status cancelled() { return fail(Errc::cancelled, "something newer"); }

Job in_state(JobState state) {
  Job job;
  job.id = "id";
  job.kind = "copy-bck";
  job.parts["t1"] = {};
  if (state != JobState::pending) REQUIRE(take(job, {"p1", 1}));
  if (state == JobState::stopping) REQUIRE(ask_to_stop(job));
  if (state == JobState::done) REQUIRE(end(job, {}, 5));
  if (state == JobState::aborted) REQUIRE(end(job, cancelled(), 5));
  if (state == JobState::failed) REQUIRE(end(job, broken(), 5));
  return job;
}

TEST_CASE("job states: each change leads where it may, and nowhere else", "[proxy][jobs]") {
  struct Row {
    const char* what;
    bool (*change)(Job&);
    std::map<JobState, JobState> leads;  // from others it may not be
  };
  using enum JobState;
  const Row rows[] = {
      {"take",
       [](Job& job) { return take(job, {"p2", 2}); },
       {{pending, running}, {running, running}, {stopping, stopping}}},
      {"take by nobody", [](Job& job) { return take(job, {}); }, {}},
      {"stop",
       [](Job& job) { return ask_to_stop(job); },
       {{pending, stopping}, {running, stopping}}},
      {"done", [](Job& job) { return end(job, {}, 9); }, {{running, done}, {stopping, done}}},
      {"failed",
       [](Job& job) { return end(job, broken(), 9); },
       {{running, JobState::failed}, {stopping, aborted}}},
      {"cancelled",
       [](Job& job) { return end(job, cancelled(), 9); },
       {{running, aborted}, {stopping, aborted}}},
  };
  for (const Row& row : rows)
    for (const JobState from : kAllStates) {
      INFO(row.what << " from " << to_string(from));
      Job job = in_state(from);
      REQUIRE(state_of(job) == from);
      const std::string before = encode(job);
      const auto leads = row.leads.find(from);
      CHECK(row.change(job) == (leads != row.leads.end()));
      if (leads != row.leads.end())
        CHECK(state_of(job) == leads->second);
      else
        CHECK(encode(job) == before);
      CHECK(job.is_running() == (state_of(job) <= stopping));
    }
}

TEST_CASE("job states: how it ended is told, and its parts end with it", "[proxy][jobs]") {
  Job stopped = in_state(JobState::stopping);
  REQUIRE(end(stopped, broken(), 9));
  CHECK(stopped.error.empty());
  CHECK(stopped.abort_reason == "stopped by a user");
  CHECK(stopped.parts["t1"].ended_ns == 9);
  CHECK(in_state(JobState::aborted).abort_reason == "something newer");
  CHECK(in_state(JobState::failed).error == "a drive is away");
  Job taken = in_state(JobState::running);
  taken.parts["t1"] = {.objects = 5, .bytes = 50, .ended_ns = 7};
  REQUIRE(take(taken, {"p2", 2}));
  CHECK(taken.runs == 2);
  CHECK(taken.parts["t1"].objects == 0);
  CHECK(taken.parts["t1"].ended_ns == 0);
  const Job read = decode_job(encode(stopped)).value();
  CHECK(encode(read) == encode(stopped));
  CHECK(decode_job("{}").error().code == Errc::corrupt);
  CHECK(decode_job("x").error().code == Errc::corrupt);
}

TEST_CASE("kept jobs: the newest, not too many of one kind, not too large, not too old",
          "[proxy][jobs]") {
  std::vector<EndedJob> ended;
  ended.reserve(10);
  for (int i = 0; i < 10; ++i)
    ended.push_back({fmt::format("a{}", i), i % 2 == 0 ? "x" : "y", 100 + i, 10});
  const auto forget = [&](KeptJobs kept, std::int64_t now = 200) {
    return jobs_to_forget(ended, kept, now);
  };
  CHECK(forget({}).empty());
  CHECK(forget({.all = 8}) == std::vector<std::string>{"a0", "a1"});
  CHECK(forget({.of_a_kind = 4}) == std::vector<std::string>{"a0", "a1"});
  CHECK(forget({.bytes = 85}) == std::vector<std::string>{"a0", "a1"});
  const std::int64_t hour = std::chrono::nanoseconds(std::chrono::hours(1)).count();
  CHECK(forget({.age = std::chrono::hours(1)}, hour + 102) == std::vector<std::string>{"a0", "a1"});
}

/// A proxy as far as jobs are concerned: its lease is the key live/<id>, as that of a real one.
class TestProxy {
 public:
  using Drive = Jobs::Drive;
  TestProxy(std::string id, cluster::MetaStore& store, TaskRunner& run, Drive drive,
            std::uint64_t incarnation = 1)
      : id_(std::move(id)), store_(store), run_(run) {
    jobs.emplace(JobsNode{store,
                          system_clock(),
                          tasks_,
                          {id_, incarnation},
                          [this] { return lives_.load(); },
                          [](const std::string& proxy) { return is_live(proxy); }});
    jobs->drive_with(std::move(drive));
    put_live();
    tasks_.spawn(run.executor(), "follow", jobs->follow());
    tasks_.spawn(run.executor(), "tend", jobs->tend());
  }
  ~TestProxy() { CHECK(tasks_.close(60)); }

  /// As kill -9: nothing more is done, and the lease ends.
  void die() {
    lives_ = false;
    tasks_.close(60);
    cluster::Transaction transaction;
    transaction.deletes.push_back({cluster::keys::live(id_), ""});
    REQUIRE(run_(store_.commit(std::move(transaction))));
    dead().insert(id_);
  }
  static std::set<std::string>& dead() {
    static std::set<std::string> all;
    return all;
  }

  std::optional<Jobs> jobs;

 private:
  static bool is_live(const std::string& proxy) { return !dead().contains(proxy); }
  void put_live() {
    dead().erase(id_);
    cluster::Transaction transaction;
    transaction.puts.push_back({cluster::keys::live(id_), "{}", 0});
    REQUIRE(run_(store_.commit(std::move(transaction))));
  }

  const std::string id_;
  cluster::MetaStore& store_;
  TaskRunner& run_;
  std::atomic<bool> lives_ = true;
  http::TaskGroup tasks_;
};

/// Work that ends when it is told to.
struct Gate {
  std::atomic<bool> open = false;
  std::atomic<int> begun = 0;
};
Task<Status> wait_for(Gate& gate, Jobs& jobs, std::string id) {
  ++gate.begun;
  while (!gate.open) {
    if (jobs.should_stop(id)) co_return fail(Errc::cancelled, "told to stop");
    co_await pause(std::chrono::milliseconds(2));
  }
  co_return Status();
}

Job a_job() {
  Job job;
  job.kind = "copy-bck";
  job.parts["t1"] = {};
  return job;
}

struct Fixture {
  Fixture() {
    cluster::Transaction made;
    made.puts.push_back({std::string(cluster::keys::kCluster), "a cluster", 0});
    REQUIRE(run(store->commit(std::move(made))));
  }

  TemporaryDirectory directory;
  TaskRunner run;
  std::unique_ptr<cluster::EmbeddedStore> store =
      cluster::EmbeddedStore::open(directory.path(), system_clock()).value();
  Gate gate;

  std::unique_ptr<TestProxy> proxy(const std::string& id, std::uint64_t incarnation = 1) {
    auto slot = std::make_shared<Jobs*>(nullptr);
    auto made = std::make_unique<TestProxy>(
        id, *store, run, [this, slot](const Job& job) { return wait_for(gate, **slot, job.id); },
        incarnation);
    *slot = &*made->jobs;
    return made;
  }
  JobState state_at(TestProxy& proxy, const std::string& id) {
    return state_of(run(proxy.jobs->look_up(id)).value());
  }
};

TEST_CASE("jobs: any proxy knows of a job when its id is told, and stops it", "[proxy][jobs]") {
  Fixture all;
  const auto one = all.proxy("p1");
  const auto two = all.proxy("p2");
  const std::string id = all.run(one->jobs->start(a_job())).value();
  CHECK(id.size() >= 9);
  CHECK(all.state_at(*two, id) == JobState::running);
  REQUIRE(all.run(two->jobs->catch_up()));
  CHECK(two->jobs->find(id));
  CHECK(all.run(two->jobs->look_up("no-such-job")).error().code == Errc::not_found);
  REQUIRE(all.run(two->jobs->ask_to_stop(id)));
  CHECK(eventually([&] { return all.state_at(*two, id) == JobState::aborted; }));
  CHECK(all.state_at(*one, id) == JobState::aborted);
  CHECK(all.run(two->jobs->ask_to_stop(id)));
  CHECK(all.run(two->jobs->ask_to_stop("no-such-job")).error().code == Errc::not_found);
}

TEST_CASE("jobs: of two that exclude each other one begins, at whatever proxies", "[proxy][jobs]") {
  Fixture all;
  const auto one = all.proxy("p1");
  const auto two = all.proxy("p2");
  const auto refuse = [](const Job& running) { return "there is " + running.id; };
  std::vector<std::future<Result<std::string>>> starts;
  starts.reserve(10);
  for (int i = 0; i < 10; ++i)
    starts.push_back(asio::co_spawn(all.run.executor(),
                                    (i % 2 == 0 ? one : two)->jobs->start(a_job(), refuse),
                                    asio::use_future));
  std::vector<Result<std::string>> ends;
  ends.reserve(starts.size());
  for (auto& start : starts) ends.push_back(start.get());
  const auto good = std::count_if(ends.begin(), ends.end(), [](const auto& end) { return !!end; });
  CHECK(good == 1);
  for (const auto& end : ends)
    if (!end) CHECK(end.error().code == Errc::conflict);
  all.gate.open = true;
  const auto all_ended = [&] {
    for (const auto& proxy : {&one, &two})
      for (const Job& job : (*proxy)->jobs->all())
        if (job.is_running()) return false;
    return true;
  };
  CHECK(eventually(all_ended));
  CHECK(all.run(two->jobs->start(a_job(), refuse)));
  CHECK(eventually(all_ended));
  CHECK(all.run(one->jobs->start(a_job(), refuse)));
}

TEST_CASE("jobs: another proxy takes over, once, what a dead one drove", "[proxy][jobs]") {
  Fixture all;
  auto one = all.proxy("p1");
  const auto two = all.proxy("p2");
  const auto three = all.proxy("p3");
  const std::string id = all.run(one->jobs->start(a_job())).value();
  const std::string stopped = all.run(one->jobs->start(a_job())).value();
  CHECK(eventually([&] { return all.gate.begun == 2; }));
  one->die();
  REQUIRE(all.run(two->jobs->ask_to_stop(stopped)));
  CHECK(eventually([&] { return all.state_at(*two, stopped) == JobState::aborted; }));
  CHECK(eventually([&] { return all.run(two->jobs->look_up(id)).value().runs == 2; }));
  // The record says so before the one that took it does.
  CHECK(eventually([&] { return two->jobs->driven().size() + three->jobs->driven().size() == 1; }));
  all.gate.open = true;
  CHECK(eventually([&] { return all.state_at(*three, id) == JobState::done; }));
  CHECK(all.run(two->jobs->look_up(id)).value().runs == 2);
}

TEST_CASE("jobs: a proxy that starts again goes on with its own", "[proxy][jobs]") {
  Fixture all;
  auto one = all.proxy("p1");
  const std::string id = all.run(one->jobs->start(a_job())).value();
  one->die();
  one.reset();
  const auto again = all.proxy("p1", 2);
  CHECK(eventually([&] { return all.run(again->jobs->look_up(id)).value().runs == 2; }));
  all.gate.open = true;
  CHECK(eventually([&] { return all.state_at(*again, id) == JobState::done; }));
}

TEST_CASE("jobs: who lost a job to another proxy is told so", "[proxy][jobs]") {
  Fixture all;
  const auto one = all.proxy("p1");
  const std::string id = all.run(one->jobs->start(a_job())).value();
  CHECK(all.run(one->jobs->is_ours(id)));
  Job stolen = one->jobs->find(id).value();
  REQUIRE(take(stolen, {"p9", 1}));
  cluster::Transaction transaction;
  transaction.puts.push_back({cluster::keys::job(id), encode(stolen), 0});
  REQUIRE(all.run(all.store->commit(std::move(transaction))));
  CHECK_FALSE(all.run(one->jobs->is_ours(id)));
  CHECK(one->jobs->should_stop(id));
  CHECK(eventually([&] { return one->jobs->driven().empty(); }));
  CHECK(all.run(one->jobs->look_up(id)).value().driver.proxy == "p9");
  CHECK(all.state_at(*one, id) == JobState::running);
}

TEST_CASE("jobs: nothing is written into a store that has lost the cluster", "[jobs]") {
  Fixture fixture;
  const auto proxy = fixture.proxy("p1");
  cluster::Transaction lost;
  lost.deletes.push_back({std::string(cluster::keys::kCluster), ""});
  REQUIRE(fixture.run(fixture.store->commit(std::move(lost))));
  Job job;
  job.id = "g7";
  job.kind = "rebalance";
  const auto noted = fixture.run(proxy->jobs->add_pending(job));
  REQUIRE_FALSE(noted);
  CHECK(noted.error().code == Errc::unavailable);
  const std::string jobs(cluster::keys::kAllOfJobs);
  cluster::RangeRequest all{jobs, cluster::prefix_end(jobs), 0};
  CHECK(fixture.run(fixture.store->range(std::move(all)))->items.empty());
}

TEST_CASE("jobs: one that is carried out at once is forgotten when it fails", "[proxy][jobs]") {
  Fixture all;
  std::string seen;
  TestProxy proxy("p1", *all.store, all.run, [&](Job job) -> Task<Status> {
    seen = job.id;
    const Status end = job.about == "good" ? Status() : broken();
    co_return end;
  });
  Job good = a_job();
  good.about = "good";
  const auto done = all.run(proxy.jobs->carry_out(good));
  REQUIRE(done);
  CHECK(all.state_at(proxy, *done) == JobState::done);
  CHECK(all.run(proxy.jobs->carry_out(a_job())).error().message == "a drive is away");
  CHECK(all.run(proxy.jobs->look_up(seen)).error().code == Errc::not_found);
}

TEST_CASE("jobs: a driver that breaks fails its job", "[proxy][jobs]") {
  Fixture all;
  TestProxy proxy("p1", *all.store, all.run, [](const Job&) -> Task<Status> {
    throw std::runtime_error("broken");
    co_return Status();
  });
  const std::string id = all.run(proxy.jobs->start(a_job())).value();
  CHECK(eventually([&] { return all.state_at(proxy, id) == JobState::failed; }));
  CHECK(all.run(proxy.jobs->look_up(id)).value().error == "broken");
}

/// A store out of which a caller gets nothing once it is cancelled, as one across a network.
class FarStore : public test::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Task<Result<cluster::RangeResult>> range(cluster::RangeRequest request) override {
    if (co_await is_cancelled()) co_return fail(Errc::cancelled, "range was cancelled");
    co_return co_await ForwardingStore::range(std::move(request));
  }
  Task<Result<cluster::TransactionResult>> commit(cluster::Transaction transaction) override {
    if (co_await is_cancelled()) co_return fail(Errc::cancelled, "commit was cancelled");
    co_return co_await ForwardingStore::commit(std::move(transaction));
  }
};

/// Asks whether the job is the proxy's when it is cancelled, and succeeds.
Task<Status> ask_late(std::optional<TestProxy>& proxy, std::string id, std::atomic<bool>& begun,
                      std::atomic<bool>& ours) {
  begun = true;
  while (!co_await is_cancelled()) co_await pause(std::chrono::milliseconds(2));
  ours = co_await proxy->jobs->is_ours(std::move(id));
  co_return Status();
}

/// Cancellations are values in a request.
Task<void> carry_out_in_request(Jobs& jobs) {
  co_await asio::this_coro::throw_if_cancelled(false);
  (void)co_await jobs.carry_out(a_job());
}

TEST_CASE("jobs: a cancelled caller does not wait for the store", "[proxy][jobs]") {
  Fixture all;
  FarStore far(*all.store);
  std::optional<TestProxy> one;
  std::atomic<bool> begun = false;
  std::atomic<bool> ours = true;
  const auto drive = [&](const Job& job) { return ask_late(one, job.id, begun, ours); };
  one.emplace("p1", far, all.run, drive);
  http::TaskGroup requests;
  REQUIRE(requests.spawn(all.run.executor(), "request", carry_out_in_request(*one->jobs)));
  CHECK(eventually([&] { return begun.load(); }));
  CHECK(requests.close(90));
  CHECK_FALSE(ours);
}

}  // namespace job_records_test
