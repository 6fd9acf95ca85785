#include "cli/transfer.h"

#include <algorithm>

#include "common/base/encoding.h"
#include "common/base/hash.h"

namespace tarn::cli {
namespace {

constexpr std::size_t kBufferBytes = 1U << 20U;
constexpr int kRestartsMax = 5;

std::span<std::byte> bytes_of(std::string& text) { return std::as_writable_bytes(std::span(text)); }

/// The XXH64 that an answer bears, in AIStore's header or in the ETag; empty when it has none.
std::string checksum_of(const http::ClientResponse& answer) {
  const auto type = answer.field("Ais-Checksum-Type");
  if (type == "xxhash2" || type == "xxhash") return to_lower(answer.field("Ais-Checksum-Value"));
  const auto etag = answer.field("ETag");  // "45ab6734b21e6968-11"
  const bool ours = etag.size() > 18 && etag.front() == '"' && etag[17] == '-';
  return ours ? std::string(etag.substr(1, 16)) : "";
}

Stored stored_by(const http::ClientResponse& answer, std::uint64_t size) {
  return {size, std::string(answer.field("ETag")), checksum_of(answer),
          std::string(answer.field("Ais-Version"))};
}

http::ClientRequest request_for(http::Method method, const Place& place) {
  return {method, place.request_target(), {}, {}};
}

/// Sends the body and returns its XXH64.
Task<Result<std::string>> send_body(http::ClientStream& stream, Body& source, Patience& patience,
                                    Meter* meter) {
  Xxh64Stream hash;
  if (meter != nullptr) meter->at(0);
  std::string buffer(kBufferBytes, '\0');
  while (true) {
    CO_TRY(const std::size_t got, source.read(bytes_of(buffer)));
    if (got == 0) break;
    const auto piece = bytes_of(buffer).first(got);
    hash.update(piece);
    CO_TRY_OK(co_await stream.write(piece));
    patience.progressed();
    if (meter != nullptr) meter->add(got);
  }
  CO_TRY_OK(co_await stream.finish());
  co_return hex64(hash.digest());
}

/// The answer behind a body. When sending had failed: why, if the target said so, else that
/// failure.
Task<Result<http::ClientResponse>> answer_to(Opened& opened, const Result<std::string>& sent) {
  auto head = co_await opened.stream.read_head();
  while (head && head->status < 200) head = co_await opened.stream.read_head();
  if (!head) co_return fail(sent ? head.error() : sent.error());
  opened.head = *head;
  if (head->status >= 400) {
    Error refused = co_await refusal(opened);
    co_return fail(std::move(refused));
  }
  if (!sent) co_return fail(sent.error());
  if (head->status >= 300)
    co_return fail(Errc::io, "redirected (status {}) when the body had been sent", head->status);
  co_return std::move(*head);
}

/// The fields of a PUT that go before its body.
void announce(http::ClientRequest& request, const UploadOptions& options, bool empty) {
  // Redirects are followed with the head alone; only who says 100 Continue gets the body.
  if (!empty) request.fields.push_back({"Expect", "100-continue"});
  if (options.overwrite == Overwrite::only_if_absent)
    request.fields.push_back({"If-None-Match", "*"});
  if (options.checksum.empty()) return;
  request.fields.push_back({"Ais-Checksum-Type", "xxhash2"});
  request.fields.push_back({"Ais-Checksum-Value", options.checksum});
}

/// `stored`, when its checksum is that of what was sent.
Result<Stored> confirmed(const Place& place, Stored stored, const std::string& checksum) {
  if (stored.checksum == checksum) return stored;
  return fail(Errc::corrupt,
              "{}: the cluster stored bytes with the XXH64 '{}', '{}' was sent: put it again",
              place.display(), stored.checksum, checksum);
}

Error nothing_stored(unsigned status) {
  return {Errc::io,
          fmt::format("status {} before the body was sent: nothing has been stored", status)};
}

Task<Result<Stored>> upload_once(Session& session, const Place& place, Body& source,
                                 const UploadOptions& options, Patience& patience) {
  http::ClientRequest request = request_for(http::Method::put, place);
  const auto length = source.length();
  const bool empty = length == std::uint64_t{0};
  announce(request, options, empty);
  CO_TRY(Opened opened, co_await session.open(std::move(request), length, patience));
  std::string checksum = hex64(xxh64(std::string_view()));
  if (opened.head.status == 100) {
    const auto sent = co_await send_body(opened.stream, source, patience, options.meter);
    CO_TRY(opened.head, co_await answer_to(opened, sent));
    checksum = *sent;
  } else if (!empty) {
    co_return fail(nothing_stored(opened.head.status));
  }
  co_return confirmed(place, stored_by(opened.head, length.value_or(0)), checksum);
}

/// Sends what comes on and returns its XXH64.
Task<Result<std::string>> pass_on(http::ClientStream& from, http::ClientStream& to,
                                  Patience& patience, Meter* meter) {
  Xxh64Stream hash;
  std::string buffer(kBufferBytes, '\0');
  while (true) {
    CO_TRY(const std::size_t got, co_await from.read_some(bytes_of(buffer)));
    if (got == 0) break;
    const auto piece = bytes_of(buffer).first(got);
    hash.update(piece);
    CO_TRY_OK(co_await to.write(piece));
    patience.progressed();
    if (meter != nullptr) meter->add(got);
  }
  CO_TRY_OK(co_await to.finish());
  co_return hex64(hash.digest());
}

Task<Result<Stored>> copy_once(Session& session, const Place& from, const Place& to,
                               UploadOptions options, Patience& patience) {
  CO_TRY(Opened source,
         co_await session.open(request_for(http::Method::get, from), std::nullopt, patience));
  const auto length = source.stream.content_length();
  options.checksum = checksum_of(source.head);
  if (source.head.status != 200 || !length || options.checksum.empty())
    co_return fail(Errc::corrupt, "{}: an answer without length or checksum (status {})",
                   from.display(), source.head.status);
  if (options.meter != nullptr) options.meter->begin(*length, 0);
  http::ClientRequest request = request_for(http::Method::put, to);
  announce(request, options, *length == 0);
  CO_TRY(Opened sink, co_await session.open(std::move(request), length, patience));
  if (sink.head.status == 100) {
    const auto sent = co_await pass_on(source.stream, sink.stream, patience, options.meter);
    CO_TRY(sink.head, co_await answer_to(sink, sent));
  } else if (*length > 0) {
    co_return fail(nothing_stored(sink.head.status));
  }
  co_return confirmed(to, stored_by(sink.head, *length), options.checksum);
}

/// A download under way: what is in the sink, and which object it is of.
struct Partial {
  std::uint64_t size = 0;
  std::uint64_t got = 0;
  std::string etag;
  std::string checksum;
  Xxh64Stream hash;
  bool begun = false;
};

/// Whether "bytes 100-199/200" is what is missing.
bool is_rest(std::string_view content_range, const Partial& partial) {
  return content_range ==
         fmt::format("bytes {}-{}/{}", partial.got, partial.size - 1, partial.size);
}

/// Takes the answer's head in. precondition_failed when it is not of the object that was begun.
Status begin_or_resume(const Opened& opened, const Place& place, Partial& partial) {
  const http::ClientResponse& head = opened.head;
  const auto length = opened.stream.content_length();
  if (!partial.begun && head.status == 200) {
    if (!length) return fail(Errc::io, "{}: an answer without length", place.display());
    partial.size = *length;
    partial.etag = head.field("ETag");
    partial.checksum = checksum_of(head);
    partial.begun = true;
    if (!partial.checksum.empty()) return {};
    return fail(Errc::corrupt, "{}: the answer has no checksum to compare the bytes with",
                place.display());
  }
  if (partial.begun && head.status == 206 && is_rest(head.field("Content-Range"), partial) &&
      head.field("ETag") == partial.etag)
    return {};
  if (partial.begun && head.status == 200)
    return fail(Errc::precondition_failed, "{}: the rest was answered with the whole",
                place.display());
  return fail(Errc::io, "{}: unexpected status {} with Content-Range '{}'", place.display(),
              head.status, head.field("Content-Range"));
}

/// Gets what is missing, or as much of it as comes.
Task<Status> download_rest(Session& session, const Place& place, Destination& sink,
                           Partial& partial, Patience& patience, Meter* meter) {
  http::ClientRequest request = request_for(http::Method::get, place);
  if (partial.begun) {
    request.fields.push_back({"Range", fmt::format("bytes={}-", partial.got)});
    request.fields.push_back({"If-Match", partial.etag});
  }
  CO_TRY(Opened opened, co_await session.open(std::move(request), std::nullopt, patience));
  CO_TRY_OK(begin_or_resume(opened, place, partial));
  if (meter != nullptr) meter->begin(partial.size, partial.got);
  std::string buffer(kBufferBytes, '\0');
  while (partial.got < partial.size) {
    CO_TRY(const std::size_t got, co_await opened.stream.read_some(bytes_of(buffer)));
    if (got == 0) co_return fail(Errc::disconnected, "{}: cut short", place.display());
    const auto piece = bytes_of(buffer).first(got);
    CO_TRY_OK(sink.write(piece));
    partial.hash.update(piece);
    partial.got += got;
    if (meter != nullptr) meter->at(partial.got);
    patience.progressed();
  }
  co_return Status();
}

/// The object changed while it was read: forgets what came. False when it cannot be taken back.
Result<bool> begin_anew(Destination& sink, Partial& partial) {
  TRY(const bool anew, sink.restart());
  if (anew) partial = Partial();
  return anew;
}

}  // namespace

Task<Result<Stored>> upload(Session& session, Place place, Body& source, UploadOptions options) {
  Patience patience = session.patience();
  while (true) {
    if (options.meter != nullptr) options.meter->begin(source.length().value_or(0), 0);
    auto stored = co_await upload_once(session, place, source, options, patience);
    if (stored || !source.rewind()) co_return stored;
    const bool again = co_await patience.again(stored.error());
    if (!again) co_return stored;
  }
}

Task<Result<Stored>> download(Session& session, Place place, Destination& sink, Meter* meter) {
  Patience patience = session.patience();
  Partial partial;
  for (int restarts = 0;;) {
    const auto came = co_await download_rest(session, place, sink, partial, patience, meter);
    if (came) break;
    if (came.error().code == Errc::precondition_failed && partial.begun &&
        restarts++ < kRestartsMax) {
      CO_TRY(const bool anew, begin_anew(sink, partial));
      if (anew) continue;
      co_return fail(Errc::conflict,
                     "{} changed while it was read, and what was written cannot be taken back",
                     place.display());
    }
    const bool again = co_await patience.again(came.error());
    if (!again) co_return fail(came.error());
  }
  if (hex64(partial.hash.digest()) != partial.checksum)
    co_return fail(Errc::corrupt, "{}: the bytes have the XXH64 {}, the object {}: get it again",
                   place.display(), hex64(partial.hash.digest()), partial.checksum);
  CO_TRY_OK(sink.publish());
  co_return Stored{partial.size, partial.etag, partial.checksum, ""};
}

Task<Result<ObjectHead>> head_object(Session& session, Place place) {
  Patience patience = session.patience();
  while (true) {
    auto opened =
        co_await session.open(request_for(http::Method::head, place), std::nullopt, patience);
    if (opened) {
      const auto length = opened->stream.content_length();
      if (!length) co_return fail(Errc::io, "{}: an answer without length", place.display());
      co_return ObjectHead{stored_by(opened->head, *length), std::move(opened->head.fields)};
    }
    const bool again = co_await patience.again(opened.error());
    if (!again) co_return fail(opened.error());
  }
}

Task<Status> remove_object(Session& session, Place place) {
  Patience patience = session.patience();
  while (true) {
    const auto opened =
        co_await session.open(request_for(http::Method::del, place), std::nullopt, patience);
    if (opened) co_return Status();
    const bool again = co_await patience.again(opened.error());
    if (!again) co_return fail(opened.error());
  }
}

Task<Result<Stored>> copy_object(Session& session, Place from, Place to, UploadOptions options) {
  Patience patience = session.patience();
  while (true) {
    auto stored = co_await copy_once(session, from, to, options, patience);
    if (stored) co_return stored;
    const bool again = co_await patience.again(stored.error());
    if (!again) co_return stored;
  }
}

}  // namespace tarn::cli
