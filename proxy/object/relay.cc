#include "proxy/object/relay.h"

#include <array>
#include <atomic>
#include <optional>
#include <span>

#include "common/api/mirror_props.h"
#include "common/api/status.h"
#include "common/base/buffer_pool.h"
#include "common/base/encoding.h"
#include "common/base/pause.h"
#include "common/obs/log.h"
#include "proxy/object/assign.h"

namespace tarn::proxy {
namespace {

/// Fields of a client's head that reach a target. All else (Host, framing, Connection, credentials,
/// fields that claim to be internal) is the proxy's own or left out.
constexpr std::array<std::string_view, 16> kRequestFields{"Range",
                                                          "If-Match",
                                                          "If-None-Match",
                                                          "If-Modified-Since",
                                                          "If-Unmodified-Since",
                                                          "If-Range",
                                                          "Cache-Control",
                                                          "Content-Type",
                                                          "Content-Encoding",
                                                          "Content-MD5",
                                                          "Ais-Checksum-Type",
                                                          "Ais-Checksum-Value",
                                                          "x-amz-checksum-crc32",
                                                          "x-amz-checksum-crc32c",
                                                          "x-amz-checksum-sha1",
                                                          "x-amz-checksum-sha256"};

constexpr std::array<std::string_view, 28> kAnswerFields{"Content-Type",
                                                         "Content-Encoding",
                                                         "Content-Range",
                                                         "Accept-Ranges",
                                                         "ETag",
                                                         "Last-Modified",
                                                         "Cache-Control",
                                                         "Retry-After",
                                                         "Allow",
                                                         "X-Content-Type-Options",
                                                         "Hdr-Error",
                                                         "Tarn-Stale",
                                                         "Tarn-Durability",
                                                         "Ais-Checksum-Type",
                                                         "Ais-Checksum-Value",
                                                         "Ais-Version",
                                                         "Ais-Atime",
                                                         "Ais-Bucket-Name",
                                                         "Ais-Bucket-Provider",
                                                         "Ais-Present",
                                                         "Ais-Location",
                                                         "Ais-Mirror-Copies",
                                                         "Ais-Mirror-Paths",
                                                         "Ais-Ec-Generation",
                                                         "Ais-Ec-Data",
                                                         "Ais-Ec-Parity",
                                                         "Ais-Ec-Replicated",
                                                         "Ais-Append-Handle"};
constexpr std::string_view kObjectName = "Ais-Name";
constexpr std::string_view kCustomMetadata = "Ais-Custom-Md";  // one field for each pair

constexpr std::size_t kErrorBytesMax = 64U << 10U;
constexpr std::chrono::seconds kGoOnMax{8};
constexpr std::chrono::milliseconds kGoOnEvery{100};
constexpr int kHopsMax =
    4;  // as often as targets send a client on (target/request/redirect_to_owner.cc)
/// A target may sync for long before it acknowledges.
constexpr http::CallLimits kRelayLimits{.stall = std::chrono::seconds(60)};
/// A copy or a rename is answered when all of the object has been copied.
constexpr http::CallLimits kCopyLimits{.stall = std::chrono::minutes(10)};

/// Least rate at which a target reads a body that came without a length, and writes it as slices,
/// after its end.
constexpr std::uint64_t kEncodedBytesPerSecond = 8U << 20U;

/// Time that the answer to such a body of so many bytes may take.
std::chrono::milliseconds answer_patience(std::uint64_t bytes) {
  const std::chrono::seconds more(bytes / kEncodedBytesPerSecond);
  return std::min(kCopyLimits.stall, kRelayLimits.stall + more);
}

/// A POST, a PATCH, or a PUT without body, is one of those or soon answered. An append may fetch
/// its first bytes, and send all of it upstream at its end.
const http::CallLimits& limits_for(const http::RequestHead& head, std::string_view url) {
  const bool is_append = url.find("append_type=") != std::string_view::npos;
  const bool may_copy = head.method == http::Method::post || head.method == http::Method::patch ||
                        (head.method == http::Method::put && (!head.has_body() || is_append));
  return may_copy ? kCopyLimits : kRelayLimits;
}

http::ClientRequest request_to_target(const http::RequestHead& head, std::string path_and_query) {
  http::ClientRequest out;
  out.method = head.method;
  out.target = std::move(path_and_query);
  for (const std::string_view name : kRequestFields)
    if (const auto value = head.field(name); !value.empty())
      out.fields.push_back({std::string(name), std::string(value)});
  for (const http::Field& field : head.fields)
    if (iequals(field.name, kCustomMetadata))
      out.fields.push_back({std::string(kCustomMetadata), field.value});
  // So that a target which refuses answers before the body has crossed the network twice.
  if (head.has_body()) out.fields.push_back({"Expect", "100-continue"});
  return out;
}

/// None means chunks.
std::optional<std::uint64_t> length_for_target(const http::RequestHead& head) {
  if (head.chunked) return std::nullopt;
  const bool takes_body = head.method == http::Method::put || head.method == http::Method::post ||
                          head.method == http::Method::patch;
  return takes_body ? head.content_length.value_or(0) : head.content_length;
}

http::Response answer_to_client(const http::ClientResponse& head) {
  http::Response out(head.status);
  for (const std::string_view name : kAnswerFields)
    if (const auto value = head.field(name); !value.empty()) out.set(name, value);
  for (const http::Field& field : head.fields)
    if (iequals(field.name, kCustomMetadata)) out.set(kCustomMetadata, field.value);
  return out;
}

/// Error for a client whose target could not be asked, or went away before it answered. The outcome
/// of a write is unknown then; doing it again is safe. `owner`: "target t[id], which owns
/// ais://B/O".
Error target_lost(const std::string& owner, const Error& cause) {
  return {Errc::unavailable, fmt::format("{}, did not answer: {}", owner, cause.message)};
}

/// Passes the body on until it ends or the target answers early. The answer's head in both cases.
Task<Result<http::ClientResponse>> pass_body(http::Exchange& exchange, http::ClientStream& stream,
                                             const std::string& owner, PooledBuffer& buffer) {
  std::uint64_t passed = 0;
  while (!stream.answer_ready()) {
    CO_TRY(const std::size_t got, co_await exchange.read_some(buffer.span()));
    passed += got;
    Status sent;
    if (got == 0)
      sent = co_await stream.finish();
    else
      sent = co_await stream.write(buffer.span().first(got));
    // A target that closed may have sent the reason in its answer.
    if (got == 0 || !sent) break;
  }
  const http::RequestHead& head = exchange.head();
  if (head.chunked && head.method == http::Method::put) stream.set_stall(answer_patience(passed));
  auto final_answer = co_await stream.read_head();
  if (!final_answer) co_return fail(target_lost(owner, final_answer.error()));
  co_return std::move(*final_answer);
}

const std::atomic<bool>* silence_of(const Services& services, const cluster::Node& target) {
  return services.suspects.answering()->silence_of(target.id);
}

bool is_redirect(const http::ClientResponse& answer) {
  return answer.status >= 300 && answer.status < 400 && answer.status != 304;
}

/// A request at a target, and the first that it answered: `100 Continue` when it wants the body.
struct Asked {
  http::ClientStream stream;
  http::ClientResponse answer;
};
/// Asks at `url` and, where a target that knows a newer map sends us on, at the next one. No byte
/// of a body has been taken. `is_silent` as CallLimits has it: for reads with other replicas to go
/// to.
Task<Result<Asked>> relay_ask(const Services& services, const http::RequestHead& head,
                              std::string url, const std::string& owner,
                              const std::atomic<bool>* is_silent) {
  http::CallLimits limits = limits_for(head, url);
  limits.is_silent = is_silent;
  for (int hop = 0;; ++hop) {
    CO_TRY(http::Url address, http::parse_url(url));
    http::ClientRequest ours = request_to_target(head, address.path);
    auto opened = co_await services.client.open(std::move(address), std::move(ours),
                                                length_for_target(head), limits);
    if (!opened) co_return fail(target_lost(owner, opened.error()));
    http::ClientStream stream = std::move(*opened);
    auto answer = co_await stream.read_head();
    if (!answer) co_return fail(target_lost(owner, answer.error()));
    if (!is_redirect(*answer)) co_return Asked{std::move(stream), std::move(*answer)};
    if (hop == kHopsMax) co_return fail(Errc::unavailable, "{}, does not any more", owner);
    url = answer->field("Location");
    limits.is_silent = nullptr;  // another one
  }
}

/// An answer without payload, or an error with its few lines of text.
Task<Status> pass_small_answer(http::Exchange& exchange, http::ClientStream& stream,
                               const http::ClientResponse& head, std::string_view object,
                               PooledBuffer& buffer) {
  http::Response out = answer_to_client(head);
  // From the request: parsing the field has removed blanks at the ends of the name.
  if (!head.field(kObjectName).empty()) out.set(kObjectName, object);
  const bool is_head = exchange.head().method == http::Method::head;
  if (is_head) {
    if (const auto length = stream.content_length())
      out.set("Content-Length", std::to_string(*length));
  } else if (head.status != 304) {
    while (out.body.size() < kErrorBytesMax) {
      CO_TRY(const std::size_t got, co_await stream.read_some(buffer.span()));
      if (got == 0) break;
      out.body.append(reinterpret_cast<const char*>(buffer.span().data()), got);
    }
  }
  const Status sent = co_await exchange.respond(std::move(out));
  co_return sent;
}

/// The part of an object that a client has not been sent yet.
struct Rest {
  std::uint64_t from = 0;
  std::uint64_t end = 0;
  std::string etag;
};

/// The part of an answer; none if the answer does not identify the part and the version.
std::optional<Rest> rest_of(const http::ClientResponse& head, std::optional<std::uint64_t> length) {
  Rest rest{0, length.value_or(0), std::string(head.field("ETag"))};
  if (!length || !rest.etag.starts_with('"')) return std::nullopt;
  if (head.status == 206) {
    std::string_view range = head.field("Content-Range");
    constexpr std::string_view kUnit = "bytes ";
    if (!range.starts_with(kUnit)) return std::nullopt;
    range.remove_prefix(kUnit.size());
    const auto first = parse_u64(range.substr(0, range.find('-')));
    if (!first) return std::nullopt;
    rest.from = *first;
    rest.end += *first;
  }
  return rest;
}

/// A GET of the rest at the target that serves the object now, which must be the same version.
Task<Result<Asked>> ask_for_rest(const Services& services, http::Request& request,
                                 const Wanted& wanted, const Rest& rest) {
  CO_TRY(const Assignment assignment, co_await assign(services, request, wanted, Passage::relayed));
  http::RequestHead head = request.head();
  std::erase_if(head.fields, [](const http::Field& field) {
    return iequals(field.name, "Range") || iequals(field.name, "If-Range") ||
           iequals(field.name, "If-Match") || iequals(field.name, "If-None-Match");
  });
  head.fields.push_back({"Range", fmt::format("bytes={}-{}", rest.from, rest.end - 1)});
  head.fields.push_back({"If-Match", rest.etag});
  const std::string owner = fmt::format("target t[{}]", assignment.target->id);
  CO_TRY(Asked asked, co_await relay_ask(services, head, assignment.url, owner,
                                         silence_of(services, *assignment.target)));
  if (asked.answer.status != 206)
    co_return fail(Errc::unavailable, "{}, does not have the same version ({})", owner,
                   asked.answer.status);
  co_return std::move(asked);
}

/// Asks the target that serves the object now for the part that a reader has not been sent yet:
/// `rest`, or all of it.
Task<Result<Asked>> ask_again(const Services& services, http::Request& request,
                              const Wanted& wanted, const Rest* rest) {
  if (rest != nullptr) co_return co_await ask_for_rest(services, request, wanted, *rest);
  CO_TRY(const Assignment assignment, co_await assign(services, request, wanted, Passage::relayed));
  const std::string owner =
      fmt::format("target t[{}], which owns {}", assignment.target->id, wanted.display());
  co_return co_await relay_ask(services, request.head(), assignment.url, owner,
                               silence_of(services, *assignment.target));
}

/// Another replica goes on where one has failed: tried until the dead ones are known to be gone.
Task<Result<Asked>> go_on_elsewhere(const Services& services, http::Request& request,
                                    const Wanted& wanted, const Rest* rest) {
  const auto patience = std::chrono::steady_clock::now() + kGoOnMax;
  while (true) {
    auto asked = co_await ask_again(services, request, wanted, rest);
    if (asked || std::chrono::steady_clock::now() >= patience) co_return asked;
    co_await pause(kGoOnEvery);
  }
}

/// With `wanted`, an unfinished rest is fetched from another replica.
Task<Status> pass_payload(const Services& services, http::Request& request, const Wanted* wanted,
                          Asked& asked, PooledBuffer& buffer) {
  http::Exchange& exchange = request.exchange;
  auto rest = rest_of(asked.answer, asked.stream.content_length());
  CO_TRY_OK(co_await exchange.begin(answer_to_client(asked.answer), asked.stream.content_length()));
  while (true) {
    const auto got = co_await asked.stream.read_some(buffer.span());
    if (!got) {
      if (wanted == nullptr || !rest || rest->from == rest->end) co_return fail(got.error());
      auto other = co_await go_on_elsewhere(services, request, *wanted, &*rest);
      if (!other) co_return fail(got.error());
      obs::log("relay").info("goes on elsewhere req={} object={} from={}", exchange.request_id(),
                             wanted->display(), rest->from);
      asked = std::move(*other);
      continue;
    }
    if (*got == 0) break;
    if (rest) rest->from += *got;
    CO_TRY_OK(co_await exchange.write(buffer.span().first(*got)));
  }
  const Status ended = co_await exchange.finish();
  co_return ended;
}

}  // namespace

Task<Status> relay_object(const Services& services, http::Request& request, std::string bucket,
                          std::string object) {
  http::Exchange& exchange = request.exchange;
  const http::RequestHead& head = request.head();
  CO_TRY_OK(check_body_framing(head));
  CO_TRY(const Wanted wanted, wanted_by(request, bucket, object));
  CO_TRY(const Assignment assignment, co_await assign(services, request, wanted, Passage::relayed));
  const std::string owner =
      fmt::format("target t[{}], which owns {}", assignment.target->id, wanted.display());
  const auto* record = assignment.state->bmd.find(wanted.bucket);
  const bool has_other_replicas =
      access_of(head.method) == Access::read && record != nullptr && record->replica_count().many();
  auto asked =
      co_await relay_ask(services, head, assignment.url, owner,
                         has_other_replicas ? silence_of(services, *assignment.target) : nullptr);
  if (!asked && has_other_replicas)
    asked = co_await go_on_elsewhere(services, request, wanted, nullptr);
  if (!asked) co_return fail(asked.error());
  http::ClientStream& stream = asked->stream;
  http::ClientResponse& answer = asked->answer;

  PooledBuffer buffer(PooledBuffer::kSmallBytes);
  if (answer.status < 200) {
    CO_TRY(answer, co_await pass_body(exchange, stream, owner, buffer));
    if (is_redirect(answer)) co_return fail(Errc::unavailable, "{}, does not any more", owner);
  }
  const bool has_payload =
      head.method == http::Method::get && (answer.status == 200 || answer.status == 206);
  if (!has_payload) {
    const Status passed =
        co_await pass_small_answer(exchange, stream, answer, wanted.object, buffer);
    co_return passed;
  }
  const Wanted* const again = has_other_replicas ? &wanted : nullptr;
  const Status passed = co_await pass_payload(services, request, again, *asked, buffer);
  co_return passed;
}

}  // namespace tarn::proxy
