#include "common/http/request_fields.h"

#include <algorithm>
#include <array>

#include "common/base/encoding.h"

namespace tarn::http {
namespace {

using enum FieldRule::Verdict;

constexpr std::string_view kWrites = "PUT POST PATCH DELETE";
constexpr std::string_view kReads = "GET HEAD";
constexpr std::string_view kOverride = "the method stands in the request line";
constexpr std::string_view kSwift = "a feature of Swift that Tarn does not have";
constexpr std::string_view kS3 = "a feature of S3 that Tarn does not have";

constexpr std::array kRules{
    // RFC 9110
    FieldRule{"content-range", kWrites, refused, Errc::invalid_argument,
              "a part of an object cannot be written, only the whole: leave the field out and send "
              "all of it"},
    FieldRule{"content-type", "PUT", acted_on, {}, "kept with the object and returned"},
    FieldRule{"content-encoding", "PUT", acted_on, {}, "kept with the object and returned"},
    FieldRule{"content-md5", "PUT", acted_on, {}, "compared with the body: 400"},
    FieldRule{"expect", "", acted_on, {}, "100-continue; anything else is 417"},
    FieldRule{"if-match", "", acted_on, {}, "412 when the object is another one"},
    FieldRule{"if-none-match", "", acted_on, {}, "304 for reads, 412 for writes"},
    FieldRule{"if-modified-since", kReads, acted_on, {}, "304 when it is as old"},
    FieldRule{"if-modified-since", kWrites, harmless, {}, "as RFC 9110, 13.1.3 has it"},
    FieldRule{"if-unmodified-since", "", acted_on, {}, "412 when it is newer"},
    FieldRule{"if-range", kReads, acted_on, {}, "the whole object when it is another one"},
    FieldRule{"range", kReads, acted_on, {}, "206, or 416"},
    FieldRule{"range", kWrites, harmless, {}, "as RFC 9110, 14.2 has it"},
    FieldRule{"cache-control", kReads, acted_on, {}, "no-cache: no answer from an old map"},
    FieldRule{"accept", kReads, acted_on, {}, "text/html: index pages in parts, for people"},
    // Fields by which the method is another one.
    FieldRule{"x-http-method-override", "", refused, Errc::unsupported, kOverride},
    FieldRule{"x-http-method", "", refused, Errc::unsupported, kOverride},
    FieldRule{"x-method-override", "", refused, Errc::unsupported, kOverride},
    // AIStore
    FieldRule{"ais-checksum-*", "PUT", acted_on, {}, "compared with the body: 400"},
    FieldRule{"ais-custom-md", "PUT", acted_on, {}, "kept with the object and returned"},
    FieldRule{"ais-node-id", "", acted_on, {}, "the node that /v1/reverse is about"},
    // Swift
    FieldRule{"x-copy-from*", "PUT", refused, Errc::unsupported, kSwift},
    FieldRule{"x-object-manifest", "PUT", refused, Errc::unsupported, kSwift},
    FieldRule{"x-delete-*", kWrites, refused, Errc::unsupported, kSwift},
    // S3
    FieldRule{"x-amz-checksum-crc32", "PUT", acted_on, {}, "compared with the body: 400"},
    FieldRule{"x-amz-checksum-crc32c", "PUT", acted_on, {}, "compared with the body: 400"},
    FieldRule{"x-amz-checksum-sha1", "PUT", acted_on, {}, "compared with the body: 400"},
    FieldRule{"x-amz-checksum-sha256", "PUT", acted_on, {}, "compared with the body: 400"},
    FieldRule{"x-amz-checksum-mode", kReads, harmless, {}, "checksums are always sent"},
    FieldRule{"x-amz-content-sha256", "", harmless, {}, "part of a signature"},
    FieldRule{"x-amz-date", "", harmless, {}, "part of a signature"},
    FieldRule{"x-amz-sdk-checksum-algorithm", "", harmless, {}, "names what another field holds"},
    FieldRule{"x-amz-security-token", "", harmless, {}, "part of a signature"},
    FieldRule{"x-amz-user-agent", "", harmless, {}, "the name of the client"},
    FieldRule{"x-amz-*", "", refused, Errc::unsupported, kS3}};

/// Query parameters of S3 that make another operation of a request for an object.
constexpr std::array<std::string_view, 12> kOperationsOfS3{
    "acl",    "attributes", "legal-hold", "partNumber", "restore", "retention",
    "select", "tagging",    "torrent",    "uploadId",   "uploads", "versionId"};

bool fits(const FieldRule& rule, std::string_view name) {
  if (!rule.name.ends_with('*')) return iequals(name, rule.name);
  const std::string_view beginning = rule.name.substr(0, rule.name.size() - 1);
  return name.size() >= beginning.size() && iequals(name.substr(0, beginning.size()), beginning);
}

const FieldRule* rule_of(std::string_view name, std::string_view method) {
  const auto found = std::find_if(kRules.begin(), kRules.end(), [&](const FieldRule& rule) {
    return fits(rule, name) && (rule.methods.empty() || has_word(rule.methods, method));
  });
  return found == kRules.end() ? nullptr : &*found;
}

/// True if a rule may refuse the field, by its first letters: most requests have no such field.
bool may_be_refused(std::string_view name) {
  return iequals(name.substr(0, 2), "x-") || iequals(name.substr(0, 8), "content-");
}

}  // namespace

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const auto end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

std::span<const FieldRule> field_rules() { return kRules; }

Status check_request_fields(const RequestHead& head, const api::Query& query) {
  for (const Field& field : head.fields) {
    if (!may_be_refused(field.name)) continue;
    // Its body is not the object but chunks of it with signatures.
    const bool is_signed_in_chunks =
        (iequals(field.name, "content-encoding") && field.value.find("aws-chunked") == 0) ||
        (iequals(field.name, "x-amz-content-sha256") && field.value.find("STREAMING-") == 0);
    if (is_signed_in_chunks)
      return fail(Errc::unsupported, "{}: {} is {}; send the object as it is", field.name,
                  field.value, kS3);
    const FieldRule* rule = rule_of(field.name, head.method_text);
    if (rule != nullptr && rule->verdict == refused)
      return fail(rule->code, "{} with the field {}: {}", head.method_text, field.name,
                  rule->meaning);
  }
  for (const auto& [key, value] : query.items())
    if (std::find(kOperationsOfS3.begin(), kOperationsOfS3.end(), key) != kOperationsOfS3.end())
      return fail(Errc::unsupported, "{} with ?{}: {}", head.method_text, key, kS3);
  return {};
}

}  // namespace tarn::http
