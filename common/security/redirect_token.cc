#include "common/security/redirect_token.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <tuple>
#include <vector>

#include "common/base/encoding.h"
#include "common/security/cluster_secret.h"

namespace tarn::security {
namespace {

constexpr std::string_view kSignature = "u";
constexpr std::array<std::string_view, 8> kMarks{"pid",  "utm", "exp", "vpams",
                                                 "vbmd", "len", "rid", kSignature};
constexpr int kVersionBase = 36;

bool is_mark(std::string_view key) {
  return std::find(kMarks.begin(), kMarks.end(), key) != kMarks.end();
}

std::string in_base36(std::uint64_t value) {
  std::array<char, 16> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, kVersionBase).ptr;
  return {text.data(), end};
}

std::optional<std::uint64_t> from_base36(std::string_view text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, kVersionBase);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

void append_field(std::string& out, std::string_view field) {
  const auto length = static_cast<std::uint32_t>(field.size());
  const std::array<char, 4> prefix{static_cast<char>(length >> 24U),
                                   static_cast<char>(length >> 16U),
                                   static_cast<char>(length >> 8U), static_cast<char>(length)};
  out.append(prefix.data(), prefix.size());
  out += field;
}

std::string signed_text(std::string_view method, std::string_view target_id, std::string_view uname,
                        const api::Query& query) {
  std::vector<std::tuple<std::string_view, std::size_t, std::string_view>> items;
  for (const auto& [key, value] : query.items())
    if (key != kSignature) items.emplace_back(key, items.size(), value);
  std::sort(items.begin(), items.end());
  std::string out;
  out.reserve(512);
  append_field(out, method == "HEAD" ? "GET" : method);
  append_field(out, target_id);
  append_field(out, uname);
  for (const auto& [key, place, value] : items) {
    append_field(out, key);
    append_field(out, value);
  }
  return out;
}

/// The value of a mark that must be there.
Result<std::string_view> required(const api::Query& query, std::string_view key) {
  const auto value = query.find(key);
  if (!value || value->empty())
    return fail(Errc::invalid_argument, "the redirect's mark {} is missing", key);
  return *value;
}

Result<std::uint64_t> number(const api::Query& query, std::string_view key, std::uint64_t max) {
  TRY(const auto text, required(query, key));
  const auto value = key == "vpams" ? from_base36(text) : parse_u64(text);
  if (!value || *value > max)
    return fail(Errc::invalid_argument, "the redirect's mark {}={} is malformed", key, text);
  return *value;
}

Status check_marks_once(const api::Query& query) {
  for (const std::string_view mark : kMarks) {
    const auto count = std::count_if(query.items().begin(), query.items().end(),
                                     [&](const auto& item) { return item.first == mark; });
    if (count > 1)
      return fail(Errc::invalid_argument, "the redirect's mark {} is given {} times", mark, count);
  }
  return {};
}

}  // namespace

void RedirectSigner::sign(const RedirectClaim& claim, api::Query& query) const {
  api::Query out;
  for (const auto& [key, value] : query.items())
    if (!is_mark(key)) out.set(key, value);
  out.set("pid", claim.proxy_id);
  out.set("utm", std::to_string(claim.issued_ns));
  out.set("vpams", in_base36(claim.map_version));
  out.set("vbmd", std::to_string(claim.bmd_version));
  if (!claim.length.empty()) out.set("len", claim.length);
  if (!claim.request_id.empty()) out.set("rid", claim.request_id);
  out.set("exp", std::to_string(claim.expires_s));
  const std::string text = signed_text(claim.method, claim.target_id, claim.uname, out);
  out.set(kSignature, base64url(hmac_sha256(key_, text)));
  query = std::move(out);
}

Result<std::optional<RedirectClaim>> RedirectSigner::verify(std::string_view method,
                                                            std::string_view target_id,
                                                            std::string_view uname,
                                                            const api::Query& query) const {
  if (!query.find("pid")) return std::optional<RedirectClaim>();
  TRY_OK(check_marks_once(query));
  constexpr std::uint64_t kInt64Max = std::numeric_limits<std::int64_t>::max();
  RedirectClaim claim;
  TRY(const auto proxy_id, required(query, "pid"));
  TRY(const auto issued, number(query, "utm", kInt64Max));
  TRY(const auto expires, number(query, "exp", kInt64Max));
  TRY(claim.map_version, number(query, "vpams", std::numeric_limits<std::uint64_t>::max()));
  TRY(claim.bmd_version, number(query, "vbmd", std::numeric_limits<std::uint64_t>::max()));
  TRY(const auto given, required(query, kSignature));
  claim.length = query.get("len");
  const bool is_word = claim.length == kChunkedLength || claim.length == kRelayedLength;
  if (!claim.length.empty() && !is_word && !parse_u64(claim.length))
    return fail(Errc::invalid_argument, "the redirect's mark len={} is malformed", claim.length);

  const std::string text = signed_text(method, target_id, uname, query);
  const auto signed_with = [&](const std::string& key) {
    return equal_constant_time(given, base64url(hmac_sha256(key, text)));
  };
  if (!signed_with(key_) && (previous_key_.empty() || !signed_with(previous_key_)))
    return fail(Errc::forbidden,
                "the redirect's signature does not match this request: send it to a proxy again");

  claim.method = method;
  claim.target_id = target_id;
  claim.uname = uname;
  claim.proxy_id = proxy_id;
  claim.issued_ns = static_cast<std::int64_t>(issued);
  claim.expires_s = static_cast<std::int64_t>(expires);
  claim.request_id = query.get("rid");
  return std::optional<RedirectClaim>(std::move(claim));
}

}  // namespace tarn::security
