// What happens on a GET at the target: find the record and open its file on the drive's threads,
// answer conditions and ranges from the record, then send the bytes (sender.cc): from memory by
// sendfile on the event loop, where the drive's threads have brought and verified them.

#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "target/node.h"
#include "target/sender.h"

namespace tarn::target {
namespace {

using http::ByteRange;
using http::Condition;
using http::RangeVerdict;

std::int64_t seconds_of(const io::ObjectRecord& record) {
  return record.modified_ns / 1'000'000'000;
}

void add_object_fields(http::Response& response, const ObjectRequest& wanted,
                       const io::ObjectRecord& record) {
  std::string_view type = http::kBytes;
  for (const auto& [key, value] : record.custom)
    if (key == "Content-Type") type = value;
  response.set("Content-Type", type)
      .set("ETag", record.etag())
      .set("Last-Modified", http::http_date(seconds_of(record)))
      .set("Accept-Ranges", "bytes")
      .set("Ais-Checksum-Type", "xxhash2")
      .set("Ais-Checksum-Value", hex64(record.xxh64))
      .set("Ais-Version", std::to_string(record.version))
      .set("Ais-Atime", std::to_string(record.modified_ns))
      .set("X-Content-Type-Options", "nosniff");
  if (wanted.stale_seconds > 0) response.set("Tarn-Stale", std::to_string(wanted.stale_seconds));
}

Task<Status> send_object(TargetNode& node, http::Request& request, const ObjectRequest& wanted,
                         std::shared_ptr<OpenObject> object) {
  const io::ObjectRecord& record = object->record();
  const auto& head = request.head();
  ByteRange range{0, record.size};
  http::Response response(200);
  if (head.method == http::Method::get && !head.field("Range").empty() &&
      http::range_applies(head, record.etag(), seconds_of(record))) {
    auto [verdict, part] = http::resolve_range(head.field("Range"), record.size);
    // AIStore's paths refuse several ranges; for plain ones the proxy asks for the whole.
    if (verdict == RangeVerdict::multiple && request.query().get("multirange") == "whole")
      verdict = RangeVerdict::whole;
    if (verdict == RangeVerdict::unsatisfiable || verdict == RangeVerdict::multiple) {
      request.exchange.close_after();
      http::Response none(416, http::kText,
                          verdict == RangeVerdict::multiple
                              ? "one range a request, please\n"
                              : fmt::format("the object has {} bytes\n", record.size));
      none.set("Content-Range", fmt::format("bytes */{}", record.size));
      co_return co_await request.exchange.respond(std::move(none));
    }
    if (verdict == RangeVerdict::partial) {
      range = part;
      response.status = 206;
      response.set("Content-Range", fmt::format("bytes {}-{}/{}", part.offset,
                                                part.offset + part.length - 1, record.size));
    }
  }
  add_object_fields(response, wanted, record);
  if (head.method == http::Method::head) {
    CO_TRY_OK(co_await request.exchange.begin(std::move(response), range.length));
    co_return co_await request.exchange.finish();
  }
  Sender sender(request.exchange, std::move(object), range, node.verify_always);
  CO_TRY_OK(co_await sender.prepare());
  CO_TRY_OK(co_await request.exchange.begin(std::move(response), range.length));
  CO_TRY_OK(co_await sender.send());
  co_return co_await request.exchange.finish();
}

}  // namespace

Task<Status> get_object(TargetNode& node, http::Request& request) {
  CO_TRY(const ObjectRequest wanted, co_await admit_read(node, request));
  const auto object = co_await node.store.open_object(wanted.name);
  if (!object) {
    if (object.error().code == Errc::corrupt)
      co_return fail(Errc::corrupt, "{}/{}: {}", wanted.bucket.name.display(), wanted.name.object,
                     object.error().message);
    co_return fail(object.error());
  }
  if (!*object)
    co_return fail(Errc::object_not_found,
                   "{}/{} does not exist; PUT makes it (curl -L -T FILE URL, or tarn put)",
                   wanted.bucket.name.display(), wanted.name.object);
  const io::ObjectRecord& found = (*object)->record();
  switch (http::check_read_conditions(request.head(), found.etag(), seconds_of(found))) {
    case Condition::failed:
      co_return fail(Errc::precondition_failed, "{}/{} is now {}", wanted.bucket.name.display(),
                     wanted.name.object, found.etag());
    case Condition::not_modified: {
      http::Response unchanged(304);
      unchanged.set("ETag", found.etag()).set("Last-Modified", http::http_date(seconds_of(found)));
      if (wanted.stale_seconds > 0)
        unchanged.set("Tarn-Stale", std::to_string(wanted.stale_seconds));
      co_return co_await request.exchange.respond(std::move(unchanged));
    }
    case Condition::proceed: break;
  }
  auto sent = co_await send_object(node, request, wanted, *object);
  if (!sent && sent.error().code == Errc::corrupt)
    co_return fail(Errc::corrupt, "{}/{}: {}", wanted.bucket.name.display(), wanted.name.object,
                   sent.error().message);
  co_return sent;
}

}  // namespace tarn::target
