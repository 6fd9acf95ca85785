#include "cli/transfer/transfer.h"

#include <algorithm>
#include <chrono>

#include "cli/base/exit_code.h"
#include "common/base/encoding.h"
#include "common/base/hash.h"

namespace tarn::cli {
namespace {

constexpr std::size_t kTransferBufferBytes = 1U << 20U;
constexpr int kRestartsMax = 5;

std::span<std::byte> bytes_of(std::string& text) { return std::as_writable_bytes(std::span(text)); }

/// The XXH64 that an answer has, in AIStore's header or in the ETag; empty when it has none.
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

/// Sends the body and returns its XXH64. `unreadable` is set when `source` cannot be read: the
/// peer waits for the rest of the body then, and sends no answer.
Task<Result<std::string>> send_body(http::ClientStream& stream, Body& source, Patience& patience,
                                    Meter* meter, std::optional<Error>& unreadable) {
  Xxh64Stream hash;
  if (meter != nullptr) meter->at(0);
  std::string buffer(kTransferBufferBytes, '\0');
  while (true) {
    const auto got = source.read(bytes_of(buffer));
    if (!got) unreadable = got.error();
    if (!got) co_return fail(got.error());
    if (*got == 0) break;
    const auto chunk = bytes_of(buffer).first(*got);
    hash.update(chunk);
    CO_TRY_OK(co_await stream.write(chunk));
    patience.progressed();
    if (meter != nullptr) meter->add(*got);
  }
  CO_TRY_OK(co_await stream.finish());
  co_return hex64(hash.digest());
}

/// The answer after a body. If sending had failed: the reason that the target sent, else that
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
  // Redirects are followed with the head alone; only a node that answers 100 Continue gets the
  // body.
  if (!empty) request.fields.push_back({"Expect", "100-continue"});
  if (options.overwrite == Overwrite::only_if_absent)
    request.fields.push_back({"If-None-Match", "*"});
  if (options.checksum.empty()) return;
  request.fields.push_back({"Ais-Checksum-Type", "xxhash2"});
  request.fields.push_back({"Ais-Checksum-Value", options.checksum});
}

/// `stored`, if its checksum is that of the sent bytes.
Result<Stored> transfer_confirmed(const Place& place, Stored stored, const std::string& checksum) {
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
    std::optional<Error> unreadable;
    const auto sent =
        co_await send_body(opened.stream, source, patience, options.meter, unreadable);
    if (unreadable) co_return fail(std::move(*unreadable));
    CO_TRY(opened.head, co_await answer_to(opened, sent));
    checksum = *sent;
  } else if (!empty) {
    co_return fail(nothing_stored(opened.head.status));
  }
  co_return transfer_confirmed(place, stored_by(opened.head, length.value_or(0)), checksum);
}

Task<Result<ObjectHead>> head_once(Session& session, const Place& place, Patience& patience) {
  CO_TRY(Opened opened,
         co_await session.open(request_for(http::Method::head, place), std::nullopt, patience));
  const auto length = opened.stream.content_length();
  if (!length) co_return fail(Errc::io, "{}: an answer without length", place.display());
  co_return ObjectHead{stored_by(opened.head, *length), std::move(opened.head.fields)};
}

/// True if a retry was refused because of an object that an earlier attempt may have stored: its
/// answer can have been lost.
bool is_of_first_try(int tries, Overwrite overwrite, const Error& error) {
  return tries > 0 && overwrite == Overwrite::only_if_absent &&
         error.code == Errc::precondition_failed;
}

/// Returns the object at `place` if it has this size and checksum, else `refused`.
Task<Result<Stored>> find_same(Session& session, const Place& place, std::uint64_t size,
                               const std::string& checksum, Error refused, Patience& patience) {
  CO_TRY(const ObjectHead head, co_await head_once(session, place, patience));
  if (head.stored.size != size || head.stored.checksum != checksum) co_return fail(refused);
  co_return head.stored;
}

/// Returns the object at `place` if it has the bytes of `source`, else `refused`.
Task<Result<Stored>> find_same_as(Session& session, const Place& place, Body& source, Error refused,
                                  Patience& patience) {
  const auto length = source.length();
  if (!length) co_return fail(refused);
  CO_TRY(const std::uint64_t hash, hash_of(source));
  co_return co_await find_same(session, place, *length, hex64(hash), std::move(refused), patience);
}

/// Time that the cluster may take to copy so much before its first byte: drives that are busy with
/// other readers write a few MiB a second.
std::chrono::milliseconds copy_limit(std::uint64_t size) {
  constexpr std::uint64_t kSlowestBytesPerSecond = 4U << 20U;
  return std::chrono::minutes(2) + std::chrono::seconds(size / kSlowestBytesPerSecond);
}

Task<Result<Stored>> copy_once(Session& session, const Place& from, const Place& to,
                               Overwrite overwrite, Meter* meter, Patience& patience) {
  CO_TRY(const ObjectHead head, co_await head_once(session, from, patience));
  const Stored& source = head.stored;
  if (meter != nullptr) meter->begin(source.size, 0);
  http::ClientRequest request = request_for(http::Method::put, from);
  const bool has_query = request.target.find('?') != std::string::npos;
  request.target +=
      (has_query ? "&" : "?") + ("object_to=" + percent_encode(to.bucket_uname() + to.object));
  if (overwrite == Overwrite::only_if_absent) request.fields.push_back({"If-None-Match", "*"});
  CO_TRY(const Opened done, co_await session.open(std::move(request), std::uint64_t{0}, patience,
                                                  copy_limit(source.size)));
  Stored stored = stored_by(done.head, source.size);
  if (stored.checksum.empty())
    co_return fail(Errc::corrupt, "the answer does not say what was copied (status {})",
                   done.head.status);
  // The copy may be of a newer version than the one that was there a moment ago; it is copied
  // whole.
  if (stored.etag != source.etag) {
    CO_TRY(const ObjectHead copy, co_await head_once(session, to, patience));
    stored.size = copy.stored.size;
  }
  if (meter != nullptr) meter->at(stored.size);
  co_return stored;
}

/// Returns the object at `to` if it is a copy of the one at `from`, else `refused`.
Task<Result<Stored>> find_copy(Session& session, const Place& from, const Place& to, Error refused,
                               Patience& patience) {
  CO_TRY(const ObjectHead head, co_await head_once(session, from, patience));
  co_return co_await find_same(session, to, head.stored.size, head.stored.checksum,
                               std::move(refused), patience);
}

/// A download under way: the bytes in the sink, and the object that they are of.
struct Partial {
  std::uint64_t size = 0;
  std::uint64_t got = 0;
  std::string etag;
  std::string checksum;
  Xxh64Stream hash;
  bool begun = false;
  bool from_earlier_run = false;
  /// True if it comes from upstream: its checksum is known when all of it was stored. Its target
  /// compares it with that of upstream, and cuts the connection before the end if it differs.
  bool cold = false;
};

/// True if `content_range` ("bytes 100-199/200") is the missing part.
bool is_rest(std::string_view content_range, const Partial& partial) {
  return content_range ==
         fmt::format("bytes {}-{}/{}", partial.got, partial.size - 1, partial.size);
}

/// Takes the answer's head in. precondition_failed when it is not of the object that was begun.
Status begin_or_resume(const Opened& opened, const Place& place, Destination& sink,
                       Partial& partial) {
  const http::ClientResponse& head = opened.head;
  const auto length = opened.stream.content_length();
  if (!partial.begun && head.status == 200) {
    if (!length) return fail(Errc::io, "{}: an answer without length", place.display());
    partial.size = *length;
    partial.etag = head.field("ETag");
    partial.checksum = checksum_of(head);
    partial.cold = head.field("Ais-Present") == "false";
    if (partial.checksum.empty() && !partial.cold)
      return fail(Errc::corrupt, "{}: the answer has no checksum to compare the bytes with",
                  place.display());
    partial.begun = true;
    return sink.begin({partial.size, partial.cold ? partial.etag : partial.checksum});
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

/// Takes up the bytes that an earlier run left, if they are of the object as it is now.
Task<Status> take_up(Session& session, const Place& place, Destination& sink, Partial& partial,
                     Patience& patience) {
  CO_TRY(const ObjectHead head, co_await head_once(session, place, patience));
  const Stored& now = head.stored;
  // A cold object has no checksum by which the part of an earlier run could be known.
  if (now.checksum.empty()) co_return Status();
  CO_TRY(partial.got, sink.take_up({now.size, now.checksum}, partial.hash));
  if (partial.got == 0) co_return Status();
  partial.size = now.size;
  partial.etag = now.etag;
  partial.checksum = now.checksum;
  partial.begun = partial.from_earlier_run = true;
  co_return Status();
}

/// Gets the missing bytes, or as many of them as come.
Task<Status> download_rest(Session& session, const Place& place, Destination& sink,
                           Partial& partial, Patience& patience, Meter* meter) {
  if (sink.has_leftovers()) CO_TRY_OK(co_await take_up(session, place, sink, partial, patience));
  if (partial.begun && partial.got == partial.size) co_return Status();
  http::ClientRequest request = request_for(http::Method::get, place);
  if (partial.begun && partial.etag.empty())
    co_return fail(Errc::precondition_failed, "{}: nothing tells whether it is the same still",
                   place.display());
  if (partial.begun) {
    request.fields.push_back({"Range", fmt::format("bytes={}-", partial.got)});
    request.fields.push_back({"If-Match", partial.etag});
  }
  CO_TRY(Opened opened, co_await session.open(std::move(request), std::nullopt, patience));
  CO_TRY_OK(begin_or_resume(opened, place, sink, partial));
  if (meter != nullptr) meter->begin(partial.size, partial.got);
  std::string buffer(kTransferBufferBytes, '\0');
  while (partial.got < partial.size) {
    CO_TRY(const std::size_t got, co_await opened.stream.read_some(bytes_of(buffer)));
    if (got == 0) co_return fail(Errc::disconnected, "{}: cut short", place.display());
    const auto chunk = bytes_of(buffer).first(got);
    CO_TRY_OK(sink.write(chunk));
    partial.hash.update(chunk);
    partial.got += got;
    if (meter != nullptr) meter->at(partial.got);
    patience.progressed();
  }
  co_return Status();
}

/// The object changed while it was read: forgets the bytes that came. conflict when they cannot be
/// taken back.
Status begin_anew(const Place& place, Destination& sink, Partial& partial) {
  TRY(const bool anew, sink.restart());
  partial = Partial();
  if (anew) return {};
  return fail(Errc::conflict,
              "{} changed while it was read, and what was written cannot be taken back",
              place.display());
}

/// corrupt when the bytes are not those of the object.
Status verify(const Place& place, const Partial& partial) {
  const std::string have = hex64(partial.hash.digest());
  if (have == partial.checksum || partial.cold) return {};
  return fail(Errc::corrupt, "{}: the bytes have the XXH64 {}, the object {}: get it again",
              place.display(), have, partial.checksum);
}

/// The error of a download that ends early: its bytes stay if the same command may go on.
Error given_up(const Error& why, Destination& sink, const Partial& partial) {
  const bool may_go_on = exit_for(why.code) == Exit::temporary || why.code == Errc::timeout;
  const std::string kept = may_go_on && partial.got > 0 ? sink.keep() : "";
  if (kept.empty()) return why;
  return {why.code, fmt::format("{}; {} of {} bytes are kept in '{}': the same command goes on",
                                why.message, partial.got, partial.size, kept)};
}

}  // namespace

Task<Result<Stored>> upload(Session& session, Place place, Body& source, UploadOptions options) {
  Patience patience = session.patience();
  for (int tries = 0;; ++tries) {
    if (options.meter != nullptr) options.meter->begin(source.length().value_or(0), 0);
    auto stored = co_await upload_once(session, place, source, options, patience);
    if (!stored && is_of_first_try(tries, options.overwrite, stored.error()))
      stored = co_await find_same_as(session, place, source, stored.error(), patience);
    if (stored || !source.rewind()) co_return stored;
    const bool again = co_await patience.again(stored.error());
    if (!again) co_return stored;
  }
}

Task<Result<Stored>> download(Session& session, Place place, Destination& sink, Meter* meter) {
  Patience patience = session.patience();
  Partial partial;
  for (int restarts = 0;;) {
    Status came = co_await download_rest(session, place, sink, partial, patience, meter);
    if (came) came = verify(place, partial);
    if (came) break;
    const bool stale = came.error().code == Errc::precondition_failed && partial.begun;
    const bool damaged = came.error().code == Errc::corrupt && partial.from_earlier_run;
    if ((stale || damaged) && restarts++ < kRestartsMax) {
      CO_TRY_OK(begin_anew(place, sink, partial));
      continue;
    }
    const bool again = co_await patience.again(came.error());
    if (!again) co_return fail(given_up(came.error(), sink, partial));
  }
  CO_TRY_OK(sink.publish());
  co_return Stored{partial.size, partial.etag, partial.checksum, ""};
}

Task<Result<ObjectHead>> head_object(Session& session, Place place) {
  Patience patience = session.patience();
  while (true) {
    auto head = co_await head_once(session, place, patience);
    if (head) co_return head;
    const bool again = co_await patience.again(head.error());
    if (!again) co_return head;
  }
}

Task<Status> remove_object(Session& session, Place place) {
  Patience patience = session.patience();
  for (int tries = 0;; ++tries) {
    const auto opened =
        co_await session.open(request_for(http::Method::del, place), std::nullopt, patience);
    // An earlier attempt may have deleted it: its answer can have been lost.
    const bool is_gone = !opened && tries > 0 && opened.error().code == Errc::object_not_found;
    if (opened || is_gone) co_return Status();
    const bool again = co_await patience.again(opened.error());
    if (!again) co_return fail(opened.error());
  }
}

Task<Result<Stored>> copy_object(Session& session, Place from, Place to, Overwrite overwrite,
                                 Meter* meter) {
  Patience patience = session.patience();
  for (int tries = 0;; ++tries) {
    auto stored = co_await copy_once(session, from, to, overwrite, meter, patience);
    if (!stored && is_of_first_try(tries, overwrite, stored.error()))
      stored = co_await find_copy(session, from, to, stored.error(), patience);
    if (stored) co_return stored;
    const bool again = co_await patience.again(stored.error());
    if (!again) co_return stored;
  }
}

}  // namespace tarn::cli
