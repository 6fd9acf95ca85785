#include "common/security/redirect_token.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include <boost/container/small_vector.hpp>

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

/// A number as text, without memory of its own.
class Digits {
 public:
  template <class Number>
  explicit Digits(Number value, int base = 10) {
    char* const begin = text_.data();
    const auto end = std::to_chars(begin, begin + text_.size(), value, base).ptr;
    length_ = static_cast<std::size_t>(end - begin);
  }
  [[nodiscard]] std::string_view view() const { return {text_.data(), length_}; }

 private:
  std::array<char, 20> text_{};  // 2^64 has 20 digits, and so has -2^63 with its sign
  std::size_t length_ = 0;
};

std::optional<std::uint64_t> from_base36(std::string_view text) {
  std::uint64_t value = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, value, kVersionBase);
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

struct Item {
  std::string_view key;
  std::string_view value;
};
using Items = boost::container::small_vector<Item, 24>;

/// Equal keys keep their order. There are few items, so each simply sinks to its place.
void sort_by_key(Items& items) {
  for (auto next = items.begin(); next != items.end(); ++next) {
    const auto place = std::upper_bound(items.begin(), next, *next,
                                        [](const Item& a, const Item& b) { return a.key < b.key; });
    std::rotate(place, next, next + 1);
  }
}

/// The text that is signed. `items` are all but the signature, in the order of the query.
std::string signed_text(std::string_view method, std::string_view target_id, std::string_view uname,
                        Items items) {
  sort_by_key(items);
  std::string out;
  out.reserve(512);
  append_field(out, method == "HEAD" ? "GET" : method);
  append_field(out, target_id);
  append_field(out, uname);
  for (const Item& item : items) {
    append_field(out, item.key);
    append_field(out, item.value);
  }
  return out;
}

std::string_view view_of(const std::array<char, SHA256_DIGEST_LENGTH>& mac) {
  return {mac.data(), mac.size()};
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

RedirectSigner::RedirectSigner(std::string_view key, std::string_view previous_key) : key_(key) {
  if (!previous_key.empty()) previous_key_.emplace(previous_key);
}

void RedirectSigner::append_signed(std::string& url, const RedirectClaim& claim,
                                   const api::Query& query) const {
  const Digits issued(claim.issued_ns);
  const Digits expires(claim.expires_s);
  const Digits map_version(claim.map_version, kVersionBase);
  const Digits bmd_version(claim.bmd_version);
  Items items;
  for (const auto& [key, value] : query.items())
    if (!is_mark(key)) items.push_back({key, value});
  items.push_back({"pid", claim.proxy_id});
  items.push_back({"utm", issued.view()});
  items.push_back({"vpams", map_version.view()});
  items.push_back({"vbmd", bmd_version.view()});
  if (!claim.length.empty()) items.push_back({"len", claim.length});
  if (!claim.request_id.empty()) items.push_back({"rid", claim.request_id});
  items.push_back({"exp", expires.view()});
  for (const Item& item : items) api::Query::append_encoded(url, item.key, item.value);
  const auto mac =
      key_.sign(signed_text(claim.method, claim.target_id, claim.uname, std::move(items)));
  url += "&u=";
  append_base64url(url, view_of(mac));
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

  Items items;
  for (const auto& [key, value] : query.items())
    if (key != kSignature) items.push_back({key, value});
  const std::string text = signed_text(method, target_id, uname, std::move(items));
  const auto signed_with = [&](const HmacKey& key) {
    return equal_constant_time(given, base64url(view_of(key.sign(text))));
  };
  if (!signed_with(key_) && !(previous_key_ && signed_with(*previous_key_)))
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
