// One target's part of a bucket copy: it walks its own indexes page by page and copies each object
// to the owner of the new name. Several at a time, each as a PUT with object_to= does. The proxy
// that runs the job reads a line of progress several times a second; when it goes away, or asks for
// it, the copy stops. Nothing of it outlives the process: a proxy asks for it again, and what was
// copied is found to be there.

#include "target/job/bucket_copy.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/api/bucket_copy.h"
#include "common/api/mirror_props.h"
#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/base/read_json.h"
#include "common/obs/log.h"
#include "target/coded/put_tombstone.h"
#include "target/job/copy_named.h"
#include "target/node/job_stream.h"
#include "target/node/retry.h"
#include "target/replica/newest.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

using nlohmann::json;

constexpr std::size_t kBucketCopyPageEntries = 1000;
constexpr std::size_t kBucketCopyOrderBytesMax = 1U << 20U;
constexpr std::size_t kBucketCopyWorkersOfSolidDrive = 4;
constexpr std::size_t kWorkersMax = 32;

/// Order of the proxy.
struct CopyOrder {
  std::string job;
  BucketId from{};
  BucketId to{};
  std::uint64_t bmd_version = 0;  ///< at which both buckets exist
  bool again = false;             ///< some of it may have been done before
  api::BucketCopy what;
};

Result<CopyOrder> bucket_copy_parse_order(const std::string& body) {
  return read_json(Errc::invalid_argument, "copy", [&]() -> Result<CopyOrder> {
    const json in = json::parse(body);
    CopyOrder order;
    in.at("job").get_to(order.job);
    order.from = BucketId{in.at("from").get<std::uint64_t>()};
    order.to = BucketId{in.at("to").get<std::uint64_t>()};
    in.at("bmd").get_to(order.bmd_version);
    in.at("what").get_to(order.what);
    in.at("again").get_to(order.again);
    return order;
  });
}

/// True if a copy that ended with such an error may do better when it is asked for again.
bool bucket_copy_may_pass(Errc code) {
  return code == Errc::unavailable || code == Errc::timeout || code == Errc::disconnected ||
         code == Errc::cancelled;
}

/// One copy under way. All of it runs on the loop of its request, so nothing is locked.
class CopyRun {
 public:
  CopyRun(TargetNode& node, CopyOrder order, const asio::any_io_executor& executor)
      : node_(node),
        order_(std::move(order)),
        lines_(executor, [this] { return json(progress_).dump(); }),
        stop_(lines_.stop().get_token()) {}

  [[nodiscard]] JobLines& lines() { return lines_; }
  /// Copies, and reports in the progress how it ended.
  Task<Status> run();

 private:
  using Step = Task<Status> (CopyRun::*)(const ObjectStore::Listed&);

  Task<Status> walk(BucketId bucket, Step step);
  Task<Result<ObjectStore::Page>> next_page(BucketId bucket, const std::string& after);
  Task<Status> take_entry(Step step, const ObjectStore::Listed& entry);
  Task<Status> patiently(Step step, const ObjectStore::Listed& entry);
  Task<Status> copy_one(const ObjectStore::Listed& entry);
  Task<Status> delete_if_gone(const ObjectStore::Listed& entry);
  [[nodiscard]] std::size_t workers() const;

  TargetNode& node_;
  const CopyOrder order_;
  api::CopyProgress progress_;
  JobLines lines_;
  std::stop_token stop_;
  ObjectStore::Page page_;
  std::string first_error_;
};

Task<Status> CopyRun::run() {
  Status result = co_await walk(order_.from, &CopyRun::copy_one);
  if (result && order_.what.synchronize && !order_.what.dry_run)
    result = co_await walk(order_.to, &CopyRun::delete_if_gone);
  if (result && progress_.failed > 0)
    result = fail(Errc::io, "{} objects could not be copied, the first: {}", progress_.failed,
                  first_error_);
  if (!result) {
    progress_.error = result.error().message;
    progress_.again = bucket_copy_may_pass(result.error().code);
  }
  progress_.done = true;
  lines_.end();
  obs::log("target").info("bucket copy ended job={} objects={} bytes={} deleted={} err={}",
                          order_.job, progress_.objects, progress_.bytes, progress_.deleted,
                          progress_.error);
  co_return Status();
}

std::size_t CopyRun::workers() const {
  if (order_.what.workers < 0) return 1;
  if (order_.what.workers > 0) return static_cast<std::size_t>(order_.what.workers);
  // A rotational drive's head would be moved between them.
  std::size_t sum = 0;
  for (const auto& drive : node_.store.drives())
    sum += drive->kind() == io::DriveKind::rotational ? 1 : kBucketCopyWorkersOfSolidDrive;
  return std::clamp<std::size_t>(sum, 1, kWorkersMax);
}

/// Shows `step` every object of `bucket` that this target holds and the order is about.
Task<Status> CopyRun::walk(BucketId bucket, Step step) {
  std::string after;
  for (bool more = true; more;) {
    CO_TRY(page_, co_await next_page(bucket, after));
    more = page_.more && !page_.entries.empty();
    if (more) after = page_.entries.back().name;
    const auto take = [&](std::size_t i) { return take_entry(step, page_.entries[i]); };
    CO_TRY_OK(co_await gather_at_most(workers(), page_.entries.size(), take));
    // The records of a destroyed bucket go after its entry: an empty list may be theirs.
    if (node_.view.state()->bmd.find(bucket) == nullptr)
      co_return fail(Errc::bucket_not_found, "a bucket of the copy was destroyed meanwhile");
  }
  co_return Status();
}

Task<Result<ObjectStore::Page>> CopyRun::next_page(BucketId bucket, const std::string& after) {
  for (int attempts = 0;;) {
    const auto state = node_.view.state();
    const auto* record = state->bmd.find(bucket);
    BucketOnDrives lies = on_drives(bucket, record);
    lies.is_refetchable = false;  // a name that no page has is not copied
    auto page = co_await node_.store.list(lies, order_.what.prefix, after, kBucketCopyPageEntries,
                                          !order_.what.recursive);
    if (page) co_return page;
    const bool again = co_await try_again(page.error(), attempts, stop_);
    if (!again) co_return page;
  }
}

/// Fails with an error that ends the copy; counts other errors.
Task<Status> CopyRun::take_entry(Step step, const ObjectStore::Listed& entry) {
  if (entry.drive == nullptr) co_return Status();  // a virtual directory
  if (stop_.stop_requested()) co_return fail(Errc::cancelled, "the copy was told to stop");
  const Status done = co_await patiently(step, entry);
  if (done) co_return done;
  const bool is_end = done.error().code == Errc::cancelled ||
                      done.error().code == Errc::bucket_not_found || !order_.what.continue_on_error;
  if (is_end) co_return done;
  if (progress_.failed++ == 0) first_error_ = done.error().message;
  co_return Status();
}

Task<Status> CopyRun::patiently(Step step, const ObjectStore::Listed& entry) {
  for (int attempts = 0;;) {
    Status done = co_await (this->*step)(entry);
    if (done) co_return done;
    const bool again = co_await try_again(done.error(), attempts, stop_);
    if (!again) co_return done;
  }
}

Task<Status> CopyRun::copy_one(const ObjectStore::Listed& entry) {
  const auto shows = names_to_show(node_, node_.view.state(), order_.from);
  if (shows && !shows(entry.name)) co_return Status();  // its owner copies it
  CO_FAIL_POINT("copy_bucket.object");
  CopiedObject copied{entry.record.size, node_.id};
  if (order_.what.dry_run) {
    CO_TRY_OK(api::check_object_name(order_.what.name_of_copy(entry.name)));
  } else {
    CO_TRY(const auto done, co_await copy_named(node_, order_.job, order_.from, order_.to,
                                                entry.name, order_.what, order_.again, stop_));
    if (!done) co_return Status();  // deleted since it was listed
    copied = *done;
  }
  progress_.add(copied.bytes, copied.owner == node_.id ? "" : copied.owner);
  co_return Status();
}

/// Deletes an object of the destination when the source has none of that name and it is still what
/// was listed.
Task<Status> CopyRun::delete_if_gone(const ObjectStore::Listed& entry) {
  CO_TRY(const Destination source, co_await find_in_bucket(node_, order_.from, entry.name));
  CO_TRY(const bool there, co_await is_there(node_, order_.job, source));
  if (there) co_return Status();
  CO_TRY(const Destination here, co_await find_in_bucket(node_, order_.to, entry.name));
  const ObjectRequest& wanted = here.object;
  CO_TRY(const OwnedNames::Write write, co_await begin_write(node_, wanted.name.uname));
  const auto held = co_await node_.store.locks().acquire(wanted.name.key());
  CO_TRY(auto present, co_await node_.store.find_all(wanted.name));
  if (present.empty() || present.front().record.generation != entry.record.generation)
    co_return Status();
  CO_TRY_OK(co_await delete_present(node_, wanted, std::move(present), write));
  ++progress_.deleted;
  co_return Status();
}

}  // namespace

Task<Status> copy_bucket(TargetNode& node, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kBucketCopyOrderBytesMax));
  CO_TRY(const CopyOrder order, bucket_copy_parse_order(body));
  CO_TRY(const auto state, co_await node.view.at_least(0, order.bmd_version));
  for (const BucketId bucket : {order.from, order.to})
    if (state->bmd.find(bucket) == nullptr)
      co_return fail(Errc::bucket_not_found, "a bucket of the copy was destroyed meanwhile");
  CopyRun run(node, order, co_await asio::this_coro::executor);
  co_return co_await stream_job(node, request, order.job, run);
}

}  // namespace tarn::target
