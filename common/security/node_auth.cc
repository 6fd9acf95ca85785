#include "common/security/node_auth.h"

#include <array>
#include <cstdlib>
#include <optional>

#include "common/base/encoding.h"
#include "common/base/random.h"
#include "common/security/cluster_secret.h"

namespace tarn::security {
namespace {

constexpr std::size_t kHeaderBytesMax = 512;
constexpr std::size_t kNonceLength = 16;

std::int64_t unix_ms(const Clock& clock) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock.wall_time()).count();
}

/// No field can hold a line feed: the header is cut at spaces, and the server refuses targets with
/// control characters.
std::string proof(const std::string& key, std::string_view node, std::string_view time,
                  std::string_view nonce, std::string_view method, std::string_view target) {
  std::string text;
  for (const std::string_view field : {node, time, nonce, method, target}) {
    text += field;
    text += '\n';
  }
  return base64url(hmac_sha256(key, text));
}

/// The header's four words; none if there are fewer or more.
std::optional<std::array<std::string_view, 4>> split(std::string_view header) {
  std::array<std::string_view, 4> words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto space = header.find(' ');
    const bool last = i + 1 == words.size();
    if (last != (space == std::string_view::npos)) return std::nullopt;
    words[i] = header.substr(0, space);
    if (words[i].empty() || words[i].find('\n') != std::string_view::npos) return std::nullopt;
    if (!last) header.remove_prefix(space + 1);
  }
  return words;
}

}  // namespace

std::string NodeAuth::sign(std::string_view method, std::string_view target) const {
  const std::string time = std::to_string(unix_ms(clock_));
  const std::string nonce = random_id(kNonceLength);
  return node_id_ + " " + time + " " + nonce + " " +
         proof(key_, node_id_, time, nonce, method, target);
}

Result<std::string> NodeAuth::verify(std::string_view header, std::string_view method,
                                     std::string_view target) const {
  if (header.empty())
    return fail(Errc::unauthenticated, "calls of this listener need the header {}", kHeader);
  const auto words = header.size() <= kHeaderBytesMax ? split(header) : std::nullopt;
  if (!words) return fail(Errc::unauthenticated, "{} is malformed", kHeader);
  const auto [node, time, nonce, given] = *words;
  if (!equal_constant_time(given, proof(key_, node, time, nonce, method, target)))
    return fail(Errc::unauthenticated,
                "{} of node {} does not match: it has another cluster's secret", kHeader, node);
  const auto sent = parse_u64(time);
  const std::chrono::milliseconds age(unix_ms(clock_) -
                                      static_cast<std::int64_t>(sent.value_or(0)));
  if (!sent || age > kSkewMax || age < -kSkewMax)
    return fail(Errc::unauthenticated,
                "{} of node {} is {} ms old, at most {} min are allowed: set the clocks", kHeader,
                node, age.count(), kSkewMax.count());
  return std::string(node);
}

}  // namespace tarn::security
