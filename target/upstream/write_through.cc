#include "target/upstream/write_through.h"

#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/coded/put_tombstone.h"
#include "target/drive/record_fields.h"
#include "target/replica/away_drive.h"
#include "target/replica/newest.h"
#include "target/replica/node_copies.h"
#include "target/upstream/body.h"
#include "target/upstream/dialect.h"
#include "target/upstream/filling.h"
#include "target/upstream/upload.h"
#include "target/upstream/write_mark.h"

namespace tarn::target {
namespace {

/// True for what a header field carries as it is.
bool is_visible_ascii(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

/// Before anything is sent or marked.
Status check_writable(const ObjectRequest& wanted, const api::CustomMetadata& custom) {
  if (upstream_name(wanted).props.kind == api::UpstreamKind::web)
    return fail(Errc::unsupported,
                "{} is a web server's, which takes no writes: put the file there by other means",
                wanted.bucket.name.display());
  const WritableDialect& dialect = *writable_dialect_of(upstream_name(wanted).props.kind);
  for (const auto& [key, value] : custom) {
    if (is_content_field(key)) continue;  // reserved keys among them
    if (dialect.keeps_key(key) && is_visible_ascii(value)) continue;
    return fail(Errc::invalid_argument,
                "{}: upstream does not keep the custom metadata \"{}\" as it is: take a key of "
                "lower-case letters, digits and _, and a value of ASCII characters",
                wanted.display(), printable(key));
  }
  return {};
}

/// Content-Type, Content-Encoding and custom metadata, which upstream keeps too. A server would
/// choose a type of its own where none is sent.
http::Fields kept_upstream(const ObjectRequest& wanted, const api::CustomMetadata& custom) {
  const WritableDialect& dialect = *writable_dialect_of(upstream_name(wanted).props.kind);
  http::Fields out;
  for (const auto& [key, value] : custom) {
    if (api::is_reserved_key(key)) continue;
    if (is_content_field(key) && value.empty()) continue;
    const std::string prefix(is_content_field(key) ? "" : dialect.metadata_prefix());
    out.push_back({prefix + key, value});
  }
  if (http::find_field(out, "Content-Type").empty())
    out.push_back({"Content-Type", std::string(http::kBytes)});
  return out;
}

/// Result of a look at a name. Any version may be the newest unless that is certain.
struct Seen {
  std::vector<Located> here;
  std::optional<io::ObjectRecord> record;
  bool is_certain = false;
};

/// Under the name's lock.
Task<Result<Seen>> look(TargetNode& node, const ObjectRequest& wanted) {
  auto newest = co_await find_newest(node, wanted);
  if (newest) co_return Seen{std::move(newest->here), std::move(newest->record), true};
  if (newest.error().code != Errc::unavailable) co_return fail(newest.error());
  Seen out;
  CO_TRY(out.here, co_await find_here(node, wanted.name));
  co_return out;
}

/// `object`: what upstream has.
Status check_conditions(const ObjectRequest& wanted, const http::RequestHead& head,
                        const std::optional<UpstreamObject>& object) {
  const std::string etag = object ? object->etag : std::string();
  const auto modified = object ? object->modified : std::nullopt;
  if (http::check_write_conditions(head, etag, modified) == http::Condition::proceed) return {};
  return fail(Errc::precondition_failed, "{} {}", wanted.display(),
              object ? "is upstream now " + etag : "does not exist upstream");
}

Error changed_meanwhile(const ObjectRequest& wanted, std::string_view why) {
  return {Errc::unavailable,
          fmt::format("{} has changed upstream meanwhile: send the request again ({})",
                      wanted.display(), why)};
}

/// unsupported for an object whose custom metadata a write of ours would make less.
Status check_shows_metadata(const ObjectRequest& wanted, const UpstreamObject& object) {
  if (!object.hides_metadata) return {};
  return fail(Errc::unsupported,
              "{} has custom metadata upstream that the cluster cannot show, and that would be "
              "lost: more than {} bytes of it, or keys and values that are no text",
              wanted.display(), api::kCustomMetadataBytesMax);
}

Error unknown_outcome(const ObjectRequest& wanted, const std::string& why) {
  return {Errc::unavailable,
          fmt::format("{}: it is not known if upstream has made the change: {}. Read it to see, or "
                      "send it again",
                      wanted.display(), why)};
}

}  // namespace

Task<Status> WriteThrough::check(const ObjectRequest& wanted, const http::RequestHead& head) {
  CO_TRY(const auto custom, custom_metadata_of(head));
  CO_TRY_OK(check_writable(wanted, custom));
  const UpstreamName name = upstream_name(wanted);
  CO_TRY([[maybe_unused]] const UpstreamServer server, upstream_.server_of(name));
  if (has_write_conditions(&head)) CO_TRY_OK(co_await ask(wanted, &head));
  co_return Status();
}

Task<Status> WriteThrough::check_append(const ObjectRequest& wanted) {
  CO_TRY_OK(check_writable(wanted, {}));
  const auto object = co_await upstream_.head(upstream_name(wanted));
  if (!object && object.error().code == Errc::object_not_found) co_return Status();
  if (!object) co_return fail(object.error());
  CO_TRY_OK(check_shows_metadata(wanted, *object));
  co_return check_writable(wanted, kept_metadata(*object, BodyChecksums()));
}

/// Asks upstream what it has: if the conditions of `head` hold, and that it answers at all, before
/// anything is lost for a write that cannot be made. Other refusals are left to the write itself: a
/// server may allow that and not this.
Task<Result<WriteThrough::Asked>> WriteThrough::ask(const ObjectRequest& wanted,
                                                    const http::RequestHead* head) {
  auto object = co_await upstream_.head(upstream_name(wanted));
  Asked out;
  out.is_absent = !object && object.error().code == Errc::object_not_found;
  const bool has_conditions = has_write_conditions(head);
  if (!object && !out.is_absent) {
    const Errc why = object.error().code;
    if (has_conditions || may_pass(why) || why == Errc::bucket_not_found)
      co_return fail(object.error());
  }
  if (object) out.object = std::move(*object);
  if (has_conditions) CO_TRY_OK(check_conditions(wanted, *head, out.object));
  co_return out;
}

Task<bool> WriteThrough::may_be_stored(const ObjectRequest& wanted) {
  const auto newest = co_await find_complete(node_, wanted);
  co_return !newest || newest->exists();
}

Task<Result<WriteThrough::Mark>> WriteThrough::set_mark(const ObjectRequest& wanted) {
  // A write of its own, which ends with it: other targets may ask what this node has of the name
  // while upstream is at work.
  CO_TRY(const OwnedNames::Write write, co_await begin_write(node_, wanted.name.uname));
  const auto held = co_await node_.store.locks().acquire(wanted.name.key());
  CO_TRY(Seen seen, co_await look(node_, wanted));
  Mark out;
  const std::int64_t now = node_.clock.wall_time().count();
  out.is_alone = seen.is_certain && !(seen.record && is_open_mark(*seen.record, now));
  if (!SAFETY("safety.write_mark")) {
    if (seen.record) out.generation = seen.record->generation;
    co_return out;
  }
  CO_TRY(out.generation,
         co_await put_tombstone(node_, wanted, std::move(seen.here), write, write_mark()));
  co_return out;
}

/// Clears the mark of a write that surely has ended: the name is as any other that the cluster does
/// not have. The mark stays where another write may be under way.
Task<Status> WriteThrough::clear_mark(const ObjectRequest& wanted, Mark mark) {
  if (!mark.is_alone || !SAFETY("safety.write_mark")) co_return Status();
  CO_TRY(const OwnedNames::Write write, co_await begin_write(node_, wanted.name.uname));
  const auto held = co_await node_.store.locks().acquire(wanted.name.key());
  CO_TRY(Newest newest, co_await find_newest(node_, wanted));
  if (!newest.record || newest.record->generation != mark.generation) co_return Status();
  CO_TRY([[maybe_unused]] const Generation generation,
         co_await put_tombstone(node_, wanted, std::move(newest.here), write, {}));
  co_return Status();
}

Task<void> WriteThrough::clear_or_log(const ObjectRequest& wanted, Mark mark,
                                      std::string_view write) {
  if (const Status done = co_await clear_mark(wanted, mark); !done)
    obs::log("target").warn("mark of a {} stays object={} err={}", write, wanted.display(),
                            done.error().message);
}

/// After upstream has answered, or has not.
Task<Status> WriteThrough::finish(const ObjectRequest& wanted, const OwnedNames::Write& write,
                                  Mark mark, Status sent, bool may_have_happened, Clears clears) {
  CO_FAIL_POINT("write_through.after_upstream");
  if (SAFETY("safety.part_with_fill")) board_.part_with(wanted.name.key());
  ++(sent ? upstream_.counts().writes : upstream_.counts().writes_failed);
  if (!sent && may_have_happened) co_return fail(unknown_outcome(wanted, sent.error().message));
  if (!sent && clears == Clears::here) co_await clear_or_log(wanted, mark, "refused write");
  CO_TRY_OK(sent);
  // A new owner may have written meanwhile, and upstream may have made its version the newer one.
  if (!write.tenure()) co_return fail(unknown_outcome(wanted, "the name has another owner by now"));
  co_return Status();
}

/// Steps 2 to 5; the entity tag.
Task<Result<std::string>> WriteThrough::send(const ObjectRequest& wanted,
                                             const OwnedNames::Write& write, Upload& upload,
                                             const http::RequestHead* head, Mark& mark) {
  const bool stored = co_await may_be_stored(wanted);
  if (stored || has_write_conditions(head)) CO_TRY_OK(co_await ask(wanted, head));
  CO_FAIL_POINT("write_through.before_mark");
  CO_TRY(mark, co_await set_mark(wanted));
  CO_FAIL_POINT("write_through.after_mark");
  auto sent = co_await upload.commit();
  const Status accepted = sent.etag ? Status() : fail(sent.etag.error());
  CO_TRY_OK(co_await finish(wanted, write, mark, accepted, sent.may_have_happened));
  co_return std::move(*sent.etag);
}

/// Step 6.
Task<Status> WriteThrough::keep(const ObjectRequest& wanted, const OwnedNames::Write& write,
                                NewBytes bytes, api::CustomMetadata custom, Mark mark) {
  if (!mark.is_alone)
    co_return fail(Errc::conflict, "another write of it may be under way upstream");
  CO_TRY(const Sliced sliced, co_await slice_file(node_, wanted, bytes));
  const auto held = co_await node_.store.locks().acquire(wanted.name.key());
  CO_TRY(const Newest newest, co_await find_newest(node_, wanted));
  const Generation seen = newest.record ? newest.record->generation : Generation();
  if (seen != mark.generation) co_return fail(Errc::conflict, "it has changed meanwhile");
  CO_TRY(const io::ObjectRecord kept,
         co_await commit_locked(node_, wanted, write, sliced.instead_of(std::move(bytes)),
                                std::move(custom), nullptr));
  co_await confirm_replicas(node_, wanted.name, kept.generation);
  co_return Status();
}

/// Logs why an object is not kept; it is fetched when it is read.
Task<void> WriteThrough::keep_or_log(const ObjectRequest& wanted, const OwnedNames::Write& write,
                                     NewBytes bytes, api::CustomMetadata custom, Mark mark) {
  const Status kept = co_await keep(wanted, write, std::move(bytes), std::move(custom), mark);
  if (kept) co_return;
  const bool is_usual = kept.error().code == Errc::conflict;
  obs::log("target").log(is_usual ? spdlog::level::info : spdlog::level::warn,
                         "write not kept here, upstream has it object={} err={}", wanted.display(),
                         kept.error().message);
  co_await clear_or_log(wanted, mark, "write that is not kept");
}

Task<Result<std::shared_ptr<EarlyUpload>>> WriteThrough::begin(const ObjectRequest& wanted,
                                                               WorkFile& file, std::uint64_t size,
                                                               const api::CustomMetadata& custom) {
  if (!Upload::has_parts(size)) co_return std::shared_ptr<EarlyUpload>();
  CO_TRY_OK(check_writable(wanted, custom));
  CO_TRY(auto out, co_await new_upload(wanted, file, size, custom));
  CO_TRY_OK(co_await out->begin());
  co_return std::shared_ptr<EarlyUpload>(std::move(out));
}

Task<Result<std::shared_ptr<Upload>>> WriteThrough::new_upload(const ObjectRequest& wanted,
                                                               WorkFile& file, std::uint64_t size,
                                                               const api::CustomMetadata& custom) {
  CO_TRY(auto followed, co_await file.drive().follow(file));
  const Upload::NotedAt noted_at{open_uploads_, node_.store.drive_at(file.drive().path()),
                                 wanted.bucket.id};
  if (!noted_at.drive)
    co_return fail(Errc::unavailable, "drive {} is not in use any more", file.drive().path());
  co_return std::make_shared<Upload>(upstream_, upstream_name(wanted), noted_at,
                                     std::move(followed), size, kept_upstream(wanted, custom));
}

Task<Result<std::shared_ptr<Upload>>> WriteThrough::upload_of(const ObjectRequest& wanted,
                                                              const NewBytes& bytes,
                                                              const api::CustomMetadata& custom) {
  CO_TRY_OK(check_writable(wanted, custom));
  CO_TRY(auto out, co_await new_upload(wanted, bytes.file, bytes.size, custom));
  out->written(bytes.size);
  Status sent = co_await out->begin();
  if (sent) sent = co_await out->send();
  if (sent) co_return out;
  co_await out->abandon();
  co_return fail(sent.error());
}

Task<Result<io::ObjectRecord>> WriteThrough::put(const ObjectRequest& wanted,
                                                 const OwnedNames::Write& write, NewBytes bytes,
                                                 api::CustomMetadata custom,
                                                 const http::RequestHead* head,
                                                 std::shared_ptr<EarlyUpload> early) {
  auto upload = std::static_pointer_cast<Upload>(std::move(early));
  if (!upload) {
    CO_TRY(upload, co_await upload_of(wanted, bytes, custom));
  }
  const auto turn = co_await turns_.acquire(wanted.name.key());
  Mark mark;
  auto etag = co_await send(wanted, write, *upload, head, mark);
  if (!etag) {
    co_await upload->abandon();
    co_return fail(etag.error());
  }
  custom.emplace_back(api::kSourceKey, wanted.bucket.name.provider);
  custom.emplace_back(api::kSourceTagKey, *etag);
  io::ObjectRecord record;
  record.size = bytes.size;
  record.xxh64 = bytes.xxh64;
  record.modified_ns = node_.clock.wall_time().count();
  record.custom = custom;
  bytes.modified_ns = record.modified_ns;
  co_await keep_or_log(wanted, write, std::move(bytes), std::move(custom), mark);
  co_return record;
}

/// Without a copy that can be made, the object is fetched when it is read next.
Task<WriteThrough::StoredCopy> WriteThrough::copy_stored(const ObjectRequest& wanted,
                                                         const UpstreamObject& object) {
  StoredCopy out;
  out.sums.keep(api::checksum_type_of(wanted.bucket.props));
  const auto from = co_await open_newest(node_, wanted);
  if (!from || !*from || !is_version_of(object, (*from)->record())) co_return out;
  const io::ObjectRecord& record = (*from)->record();
  auto file = co_await create_here(node_, wanted.name, record.size);
  Status copied = file ? Status() : fail(file.error());
  if (copied)
    copied = co_await copy_bytes(node_, wanted.name, **from, **file, out.digests, {}, &out.sums);
  if (copied) copied = out.sums.check(out.digests.xxh64());
  if (copied && out.digests.xxh64() != record.xxh64)
    copied = fail(Errc::corrupt, "it does not match its checksum");
  if (copied) out.file = std::move(*file);
  if (!copied)
    obs::log("target").warn("what is stored cannot be kept with other metadata object={} err={}",
                            wanted.display(), copied.error().message);
  co_return out;
}

/// Makes the copy the object of the cluster, or, without one, ends the write.
Task<void> WriteThrough::keep_copy(const ObjectRequest& wanted, const OwnedNames::Write& write,
                                   StoredCopy stored, api::CustomMetadata custom, std::string etag,
                                   Mark mark) {
  if (!stored.file) co_return co_await clear_or_log(wanted, mark, "change of metadata");
  stored.sums.note_kept(custom);
  custom.emplace_back(api::kSourceKey, wanted.bucket.name.provider);
  custom.emplace_back(api::kSourceTagKey, std::move(etag));
  NewBytes bytes = new_bytes(*stored.file, stored.digests);
  bytes.modified_ns = node_.clock.wall_time().count();
  co_await keep_or_log(wanted, write, std::move(bytes), std::move(custom), mark);
}

Task<Status> WriteThrough::patch(const ObjectRequest& wanted, const OwnedNames::Write& write,
                                 const MetadataChange& change, const http::RequestHead& head) {
  CO_TRY_OK(check_writable(wanted, {}));
  const UpstreamName name = upstream_name(wanted);
  CO_TRY(const UpstreamServer server, upstream_.server_of(name));
  CO_TRY(const WritableDialect* dialect, writable_dialect_of(server));
  const auto metadata_after = [&](const UpstreamObject& object) -> Result<api::CustomMetadata> {
    if (!change.replaces) TRY_OK(check_shows_metadata(wanted, object));
    TRY(auto out, with_change(kept_metadata(object, BodyChecksums()), change));
    TRY_OK(check_writable(wanted, out));
    return out;
  };
  CO_TRY(const UpstreamObject before, co_await upstream_.head(name));
  CO_TRY_OK(check_conditions(wanted, head, before));
  CO_TRY_OK(metadata_after(before));
  // The copy of a large object takes a while, in which other clients may write.
  StoredCopy stored = co_await copy_stored(wanted, before);
  const auto turn = co_await turns_.acquire(wanted.name.key());
  CO_TRY(const Asked asked, co_await ask(wanted, &head));
  if (!asked.object) co_return fail(changed_meanwhile(wanted, "it does not show the object"));
  const UpstreamObject& now = *asked.object;
  if (!now.is_same_version(before)) stored.file.reset();
  // Made of what upstream has now: an entity tag stays the same when metadata changes.
  CO_TRY(auto custom, metadata_after(now));
  CO_TRY(UpstreamChange request,
         dialect->set_metadata(server, wanted.name.object, now, kept_upstream(wanted, custom)));
  CO_FAIL_POINT("write_through.before_mark");
  CO_TRY(const Mark mark, co_await set_mark(wanted));
  CO_FAIL_POINT("write_through.after_mark");
  const auto sent = co_await upstream_.change(name, std::move(request), {}, Upload::kPatience);
  auto tag = sent.answer ? dialect->changed_tag_in(server, *sent.answer)
                         : Result<std::string>(fail(sent.answer.error()));
  const bool may_have_happened =
      sent.may_have_happened || (sent.answer && !tag && may_pass(tag.error().code));
  const Status accepted = tag ? Status() : fail(tag.error());
  const Status done =
      co_await finish(wanted, write, mark, accepted, may_have_happened, Clears::caller);
  if (done) {
    co_await keep_copy(wanted, write, std::move(stored), std::move(custom), std::move(*tag), mark);
    co_return Status();
  }
  if (tag || may_have_happened) co_return done;
  const bool has_changed = done.error().code == Errc::precondition_failed;
  if (has_changed || !write.tenure()) stored.file.reset();
  // The object is as it was. Upstream may not let it be read: the copy may be all that can.
  co_await keep_copy(wanted, write, std::move(stored), kept_metadata(now, BodyChecksums()),
                     now.etag, mark);
  co_return has_changed ? Status(fail(changed_meanwhile(wanted, done.error().message))) : done;
}

Task<Result<std::uint64_t>> WriteThrough::remove(const ObjectRequest& wanted,
                                                 const OwnedNames::Write& write,
                                                 const http::RequestHead* head) {
  const UpstreamName name = upstream_name(wanted);
  if (name.props.kind == api::UpstreamKind::web)
    co_return fail(Errc::unsupported,
                   "{} is a web server's, which deletes nothing: to take the object out of the "
                   "cluster alone, evict it",
                   wanted.bucket.name.display());
  const auto turn = co_await turns_.acquire(wanted.name.key());
  CO_TRY(const Asked asked, co_await ask(wanted, head));
  if (asked.is_absent && !co_await may_be_stored(wanted)) co_return fail(object_missing(wanted));
  CO_FAIL_POINT("write_through.before_mark");
  CO_TRY(const Mark mark, co_await set_mark(wanted));
  CO_FAIL_POINT("write_through.after_mark");
  const auto sent = co_await upstream_.change(name, {http::Method::del}, {}, Upload::kPatience);
  // Some servers report of an absent object that it is absent.
  const bool is_gone = sent.answer || sent.answer.error().code == Errc::object_not_found;
  const Status accepted = is_gone ? Status() : fail(sent.answer.error());
  CO_TRY_OK(co_await finish(wanted, write, mark, accepted, sent.may_have_happened));
  co_await clear_or_log(wanted, mark, "delete");
  co_return asked.object ? asked.object->size.value_or(0) : 0;
}

}  // namespace tarn::target
