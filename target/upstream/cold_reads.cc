// Reads of objects that the cluster does not have: by a fill, which stores them, or passed through.

#include "target/upstream/cold_reads.h"

#include "common/base/buffer_pool.h"
#include "common/base/encoding.h"
#include "common/http/error_response.h"
#include "target/coded/put_tombstone.h"
#include "target/drive/record_fields.h"
#include "target/node/node.h"
#include "target/replica/move_format.h"
#include "target/replica/newest.h"
#include "target/request/object_fields.h"
#include "target/upstream/former_fill.h"

namespace tarn::target {
namespace {

using http::ByteRange;
using http::RangeVerdict;
using std::chrono::steady_clock;

/// A part that a fill is going to reach after so many bytes waits for it.
constexpr std::uint64_t kReachBytes = 64U << 20U;

/// Parts of an object of at least so many bytes have it fetched only if they follow each other.
constexpr std::uint64_t kFillByPartsBelow = std::uint64_t{1} << 30U;

/// The record that the object is going to have: headers of cold and of stored objects are the same,
/// but for the checksum, which is not known yet.
io::ObjectRecord record_of(const UpstreamObject& object, const ObjectRequest& wanted) {
  io::ObjectRecord record;
  record.size = object.size.value_or(0);
  record.modified_ns = object.modified.value_or(0) * 1'000'000'000;
  record.custom.emplace_back(api::kChecksumTypeKey, "none");
  record.custom.emplace_back(api::kSourceKey, wanted.bucket.name.provider);
  record.custom.emplace_back(api::kSourceTagKey, object.etag);
  if (!object.content_type.empty()) record.custom.emplace_back("Content-Type", object.content_type);
  if (!object.content_encoding.empty())
    record.custom.emplace_back("Content-Encoding", object.content_encoding);
  record.custom.insert(record.custom.end(), object.custom.begin(), object.custom.end());
  return record;
}

/// The fields of an answer about it. Without those that upstream did not send.
void add_cold_fields(http::Response& response, const UpstreamObject& object,
                     const ObjectRequest& wanted) {
  add_object_fields(response, wanted, record_of(object, wanted));
  std::erase_if(response.fields, [&](const http::Field& field) {
    return (field.name == "ETag" && object.etag.empty()) ||
           (field.name == "Last-Modified" && !object.modified) ||
           (field.value.starts_with("ETag=") && object.etag.empty());
  });
  response.set("Ais-Present", "false");
}

/// Sends what a fill has, from `at` to `end`, as it comes.
Task<Status> send_behind(http::Exchange& exchange, Fill& fill, FollowedFile& file, std::uint64_t at,
                         std::uint64_t end) {
  const PooledBuffer buffer(PooledBuffer::kSmallBytes);
  while (at < end) {
    CO_TRY(const std::uint64_t released, co_await fill.wait_beyond(at));
    const std::uint64_t upto = std::min(released, end);
    const auto chunk =
        buffer.span().first(std::min<std::uint64_t>(upto - at, buffer.span().size()));
    CO_TRY_OK(co_await file.read(chunk, at));
    CO_TRY_OK(co_await exchange.write(chunk));
    at += chunk.size();
  }
  co_return co_await exchange.finish();
}

/// Sends the body of a download as it comes.
Task<Status> send_download(http::Exchange& exchange, Upstream& upstream, const UpstreamName& name,
                           Upstream::Download& download, std::uint64_t length) {
  const PooledBuffer buffer(PooledBuffer::kSmallBytes);
  std::uint64_t sent = 0;
  while (sent < length) {
    CO_TRY(const std::size_t got, co_await download.stream.read_some(buffer.span()));
    if (got == 0 || sent + got > length)
      co_return fail(Errc::bad_upstream, "upstream's body is not as long as it had announced");
    CO_TRY_OK(co_await upstream.received(name, got));
    CO_TRY_OK(co_await exchange.write(buffer.span().first(got)));
    sent += got;
  }
  co_return co_await exchange.finish();
}

/// Fields on which upstream decides: which part it sends. Its entity tags are those of our answers.
http::Fields passed_fields(const http::Request& request) {
  http::Fields out;
  for (const char* name : {"Range", "If-Range"})
    if (const auto value = request.head().field(name); !value.empty())
      out.push_back({name, std::string(value)});
  return out;
}

/// Range and If-Match of a part, for a server that does not understand more.
http::Fields plain_part(ByteRange range, const std::string& etag) {
  return {{"Range", fmt::format("bytes={}-{}", range.offset, range.offset + range.length - 1)},
          {"If-Match", etag}};
}

/// True if an older version than upstream has now would be wrong.
bool wants_newest(const http::Request& request, const ObjectRequest& wanted) {
  return request.query().flag("latest-ver").value_or(false) ||
         api::freshness_of(wanted.bucket.props) != api::Freshness::never;
}

bool has_several_ranges(const http::Request& request) {
  return request.head().field("Range").find(',') != std::string_view::npos;
}

}  // namespace

/// False for a fill that an owner in between may have overtaken: this node has got the name back.
Task<bool> ColdReads::is_of_now(const ObjectRequest& wanted, const Fill& fill) {
  if (fill.map_version() == wanted.state->map.version) co_return true;
  const auto newest = co_await find_complete(node_, wanted);
  if (!newest) co_return false;
  co_return fill.is_of(newest->generation());
}

Task<FillBoard::Joined> ColdReads::join_or_begin(const ObjectRequest& wanted, FillFrom from) {
  const std::string key = wanted.name.key();
  auto joined = board_.join(key, wanted.state->map.version);
  while (!joined.is_new) {
    const bool is_current = co_await is_of_now(wanted, *joined.fill);
    if (is_current) co_return joined;
    board_.end(key, *joined.fill);
    joined = board_.join(key, wanted.state->map.version);
  }
  ObjectRequest own;
  own.state = wanted.state;
  own.bucket = wanted.bucket;
  own.name = wanted.name;
  const bool begun =
      node_.aside.spawn(co_await asio::this_coro::executor, "fill",
                        fill_object(node_, upstream_, board_, joined.fill, std::move(own), from));
  if (!begun) {
    board_.end(key, *joined.fill);
    const auto stopping = fail(Errc::unavailable, "this target is stopping; try again");
    joined.fill->end(stopping, stopping);
  }
  co_return joined;
}

/// False if the fill fetches another version than upstream has now. It may have begun before
/// upstream had the newest.
Task<Result<bool>> ColdReads::has_newest(const ObjectRequest& wanted, Fill& fill) {
  const auto opened = co_await fill.opened();
  if (!opened) co_return true;  // the fill has the reason
  CO_TRY(const UpstreamObject newest, co_await upstream_.head(upstream_name(wanted)));
  co_return is_version_of(newest, record_of(opened->object, wanted));
}

/// The fill under way, or a new one; null: it fetches an older version than the reader wants.
Task<Result<std::shared_ptr<Fill>>> ColdReads::fill_for(const ObjectRequest& wanted, bool newest) {
  const auto joined = co_await join_or_begin(wanted, newest ? FillFrom::upstream : FillFrom::any);
  if (!newest || joined.is_new) co_return joined.fill;
  CO_TRY(const bool is_newest, co_await has_newest(wanted, *joined.fill));
  co_return is_newest ? joined.fill : nullptr;
}

Task<Status> ColdReads::get(http::Request& request, const ObjectRequest& wanted) {
  const std::string_view range = request.head().field("Range");
  if (!range.empty() && board_.find(wanted.name.key()) == nullptr) {
    const bool whole = co_await is_of_whole(wanted, range);
    if (!whole) co_return co_await pass_through(request, wanted);
  }
  CO_TRY(auto fill, co_await fill_for(wanted, wants_newest(request, wanted)));
  if (!fill) co_return co_await pass_through(request, wanted);
  if (!range.empty()) co_return co_await get_part(request, wanted, std::move(fill));
  co_return co_await follow(request, wanted, std::move(fill));
}

/// True if a part is a further one of a reader of the whole, as far as the bucket's rule has it:
/// of a large object another reader may want a few bytes.
Task<bool> ColdReads::is_of_whole(const ObjectRequest& wanted, std::string_view range) {
  const auto part = http::resolve_range(range, PartReads::kSizeUnknown);
  if (part.first != RangeVerdict::partial) co_return false;
  const std::string key = wanted.name.key();
  const PartReads::Seen seen = parts_.note(key, part.second, steady_clock::now());
  const api::ColdRange rule = api::cold_range_of(wanted.bucket.props);
  if (!seen.is_again || rule == api::ColdRange::pass) co_return false;
  if (seen.follows || rule == api::ColdRange::fill) co_return true;
  if (seen.size) co_return *seen.size < kFillByPartsBelow;
  const auto object = co_await upstream_.head(upstream_name(wanted));
  if (!object || !object->size) co_return false;  // its own request has the reason
  parts_.note_size(key, *object->size);
  co_return *object->size < kFillByPartsBelow;
}

Task<Status> ColdReads::get_part(http::Request& request, const ObjectRequest& wanted,
                                 std::shared_ptr<Fill> fill) {
  const auto opened = co_await fill->opened();
  if (!opened) co_return co_await follow(request, wanted, std::move(fill));  // with the reason
  const auto [verdict, part] =
      http::resolve_range(request.head().field("Range"), *opened->object.size);
  const bool is_near =
      verdict != RangeVerdict::partial || part.offset <= fill->released() + kReachBytes;
  if (!is_near) co_return co_await pass_through(request, wanted);
  co_return co_await follow(request, wanted, std::move(fill));
}

Task<Status> ColdReads::follow(http::Request& request, const ObjectRequest& wanted,
                               std::shared_ptr<Fill> fill) {
  const auto opened = co_await fill->opened();
  if (!opened && fill->has_local_failure()) co_return co_await pass_through(request, wanted);
  if (!opened) co_return fail(opened.error());
  const UpstreamObject& object = opened->object;
  const io::ObjectRecord record = record_of(object, wanted);
  CO_TRY(auto unchanged, judge_conditions(request.head(), wanted, record));
  if (unchanged) co_return co_await request.exchange.respond(std::move(*unchanged));
  RangeAnswer chosen = choose_range(request, wanted, record);
  if (chosen.refused) co_return co_await request.exchange.respond(std::move(chosen.response));
  const ByteRange range = chosen.range;
  http::Response response = std::move(chosen.response);
  add_cold_fields(response, object, wanted);
  // An error before the first byte is an answer; after it, a cut connection.
  if (range.length > 0) {
    const auto first = co_await fill->wait_beyond(range.offset);
    if (!first && fill->has_local_failure()) co_return co_await pass_through(request, wanted);
    if (!first) co_return fail(first.error());
  }
  CO_TRY_OK(co_await request.exchange.begin(std::move(response), range.length));
  co_return co_await send_behind(request.exchange, *fill, *opened->file, range.offset,
                                 range.offset + range.length);
}

Task<Status> ColdReads::pass_through(http::Request& request, const ObjectRequest& wanted) {
  http::Fields fields = passed_fields(request);
  if (has_several_ranges(request)) {
    if (request.query().get("multirange") != "whole")
      co_return fail(Errc::range_not_satisfiable,
                     "one range a request, please: several in one are not served");
    fields.clear();
  }
  const UpstreamName name = upstream_name(wanted);
  CO_TRY(const UpstreamServer server, upstream_.server_of(name));
  if (!dialect_of(server).understands_part(fields)) {
    CO_TRY(const UpstreamObject object, co_await upstream_.head(name));
    RangeAnswer chosen = choose_range(request, wanted, record_of(object, wanted));
    if (chosen.refused) co_return co_await request.exchange.respond(std::move(chosen.response));
    fields.clear();
    if (chosen.response.status == 206) fields = plain_part(chosen.range, object.etag);
  }
  auto download = co_await upstream_.get(name, std::move(fields));
  if (!download) co_return fail(download.error());
  CO_TRY(auto unchanged,
         judge_conditions(request.head(), wanted, record_of(download->object, wanted)));
  if (unchanged) co_return co_await request.exchange.respond(std::move(*unchanged));
  const auto length = download->stream.content_length();
  if (!length)
    co_return fail(Errc::bad_upstream, "{}: upstream does not say how long it is (Content-Length)",
                   wanted.display());
  http::Response response(download->status);
  if (download->status == 206) parts_.note_size(wanted.name.key(), *download->object.size);
  if (download->status == 206)
    response.set("Content-Range",
                 fmt::format("bytes {}-{}/{}", *download->object.part_at,
                             *download->object.part_at + *length - 1, *download->object.size));
  add_cold_fields(response, download->object, wanted);
  CO_TRY_OK(co_await request.exchange.begin(std::move(response), length));
  co_return co_await send_download(request.exchange, upstream_, name, *download, *length);
}

Task<Result<std::uint64_t>> ColdReads::fetch(const ObjectRequest& wanted, std::stop_token stop) {
  const bool newest = api::freshness_of(wanted.bucket.props) != api::Freshness::never;
  const auto joined = co_await join_or_begin(wanted, newest ? FillFrom::upstream : FillFrom::any);
  auto stored = co_await joined.fill->ended(std::move(stop));
  // The object came by another way, and that is what was wanted.
  if (!stored && stored.error().code == Errc::conflict) co_return 0;
  co_return stored;
}

Task<bool> ColdReads::wait_stored(const ObjectRequest& wanted) {
  const auto fill = board_.find(wanted.name.key());
  if (fill == nullptr || !fill->is_whole()) co_return false;
  static_cast<void>(co_await fill->ended());
  co_return true;
}

Task<Result<std::uint64_t>> ColdReads::size(const ObjectRequest& wanted) {
  CO_TRY(const UpstreamObject object, co_await upstream_.head(upstream_name(wanted)));
  if (!object.size)
    co_return fail(Errc::bad_upstream, "{}: upstream does not say how long it is (Content-Length)",
                   wanted.display());
  co_return *object.size;
}

/// Without the folder that they lie in, all objects of a web server answer 404: then none of them
/// is known to be gone. `why`: the 404 of one.
Task<Status> ColdReads::check_folder(const ObjectRequest& wanted, const Error& why) {
  const UpstreamName name = upstream_name(wanted);
  if (name.props.kind != api::UpstreamKind::web) co_return Status();
  CO_TRY(const bool is_there, co_await upstream_.has_folder(name));
  if (is_there) co_return Status();
  co_return fail(Errc::bad_upstream,
                 "{}; the URL of the bucket itself answers 404 as well, so the object may be there "
                 "still, and stays stored here: have the server answer for that URL",
                 why.message);
}

/// Takes a version out of the cluster, unless it has been replaced meanwhile. Another replica of
/// the name, which serves while the owner does not answer, leaves that to the owner.
Task<Status> ColdReads::evict(const ObjectRequest& wanted, Generation version) {
  const auto* owner = cluster::owner_of(wanted.state->map, wanted.name.uname);
  if (owner == nullptr || owner->id != node_.id) co_return Status();
  co_return co_await delete_version(node_, wanted, version);
}

Task<Status> ColdReads::send_fill(http::Request& request) {
  const auto& query = request.query();
  const auto bucket_id = parse_u64(query.get("bucket"));
  const std::string object(query.get("object"));
  const auto known = parse_generation(query.get("known"));
  if (!bucket_id || object.empty() || (!known && !query.get("known").empty()))
    co_return fail(Errc::invalid_argument, "fill: bucket, object and known are required");
  const auto state = node_.view.state();
  const auto* bucket = state->bmd.find(BucketId(*bucket_id));
  const auto fill = bucket == nullptr ? nullptr : board_.find(name_in(*bucket, object).key());
  std::optional<Fill::Opened> opened;
  if (fill != nullptr && fill->is_of(known)) {
    if (fill->asks_upstream()) static_cast<void>(co_await fill->opened());
    opened = fill->opened_now();
  }
  const std::string described = opened ? to_text(opened->object) : std::string();
  if (described.empty()) co_return co_await request.exchange.respond(http::Response(404));
  http::Response response(200);
  response.set(kFillObject, described);
  const std::uint64_t size = *opened->object.size;
  CO_TRY_OK(co_await request.exchange.begin(std::move(response), size));
  co_return co_await send_behind(request.exchange, *fill, *opened->file, 0, size);
}

Task<Result<bool>> ColdReads::confirm(const ObjectRequest& wanted, const io::ObjectRecord& record) {
  const BootTime asked = node_.clock.boot_time();
  const auto object = co_await upstream_.head(upstream_name(wanted));
  const Generation version = record.generation;
  if (!object && object.error().code == Errc::object_not_found) {
    CO_TRY_OK(co_await check_folder(wanted, object.error()));
    if (api::freshness_of(wanted.bucket.props) == api::Freshness::changed_gone)
      CO_TRY_OK(co_await evict(wanted, version));
    co_return fail(object.error());
  }
  if (!object) co_return fail(object.error());
  if (is_version_of(*object, record)) {
    upstream_.confirmed().note(wanted.name.key(), version, asked);
    co_return true;
  }
  CO_TRY_OK(co_await evict(wanted, version));
  co_return false;
}

bool ColdReads::was_confirmed(const ObjectRequest& wanted, const io::ObjectRecord& record) const {
  const auto interval = api::validate_interval(wanted.bucket.props);
  if (interval.count() == 0) return false;
  return upstream_.confirmed().had_since(wanted.name.key(), record.generation,
                                         node_.clock.boot_time() - interval);
}

Task<Status> ColdReads::head(http::Request& request, const ObjectRequest& wanted,
                             bool status_only) {
  CO_TRY(const UpstreamObject object, co_await upstream_.head(upstream_name(wanted)));
  CO_TRY(auto unchanged, judge_conditions(request.head(), wanted, record_of(object, wanted)));
  if (unchanged) co_return co_await request.exchange.respond(std::move(*unchanged));
  http::Response response(200);
  if (!status_only) {
    add_cold_fields(response, object, wanted);
    response.set("Ais-Name", wanted.name.object)
        .set("Ais-Bucket-Name", wanted.bucket.name.name)
        .set("Ais-Bucket-Provider", wanted.bucket.name.provider);
  }
  CO_TRY_OK(co_await request.exchange.begin(std::move(response), object.size));
  co_return co_await request.exchange.finish();
}

}  // namespace tarn::target
