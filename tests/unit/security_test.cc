#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <vector>

#include <catch2/catch.hpp>

#include "common/base/encoding.h"
#include "common/base/random.h"
#include "common/security/cluster_secret.h"
#include "common/security/node_auth.h"
#include "common/security/redirect_token.h"

namespace tarn::security {
namespace security_test {

namespace fs = std::filesystem;

std::string bytes(std::string_view digits) { return unhex(digits).value(); }

std::string sequence(int first, int last) {
  std::string out;
  for (int i = first; i <= last; ++i) out += static_cast<char>(i);
  return out;
}

class Directory {
 public:
  Directory() : path_(fs::temp_directory_path() / ("tarn-security-" + random_id(8))) {
    fs::create_directories(path_);
  }
  ~Directory() { fs::remove_all(path_); }
  fs::path operator/(const char* name) const { return path_ / name; }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

TEST_CASE("HMAC-SHA256 agrees with RFC 4231", "[security]") {
  struct Case {
    std::string key;
    std::string data;
    std::string mac;
  };
  const std::vector<Case> cases{
      {std::string(20, '\x0b'), "Hi There",
       "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {"Jefe", "what do ya want for nothing?",
       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {std::string(20, '\xaa'), std::string(50, '\xdd'),
       "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
      {sequence(1, 25), std::string(50, '\xcd'),
       "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
      {std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First",
       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
      {std::string(131, '\xaa'),
       "This is a test using a larger than block-size key and a larger than block-size data. The "
       "key "
       "needs to be hashed before being used by the HMAC algorithm.",
       "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
  };
  for (const Case& one : cases) CHECK(hex(hmac_sha256(one.key, one.data)) == one.mac);
}

TEST_CASE("HKDF-SHA256 agrees with RFC 5869", "[security]") {
  CHECK(hex(hkdf_sha256(std::string(22, '\x0b'), sequence(0, 12), bytes("f0f1f2f3f4f5f6f7f8f9"),
                        42)) ==
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
  CHECK(
      hex(hkdf_sha256(sequence(0x00, 0x4f), sequence(0x60, 0xaf), sequence(0xb0, 0xff), 82)) ==
      "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c"
      "59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3"
      "434f1d87");
  CHECK(hex(hkdf_sha256(std::string(22, '\x0b'), "", "", 42)) ==
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

TEST_CASE("A cluster secret is made once, for its owner only", "[security]") {
  const Directory directory;
  const fs::path file = directory / "cluster.secret";
  const auto made = ClusterSecret::load_or_create(file);
  REQUIRE(made);
  struct stat info{};
  REQUIRE(::stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0600U);
  CHECK(directory.entries() == 1);
  const auto again = ClusterSecret::load_or_create(file);
  REQUIRE(again);
  CHECK(made->derive("a") == again->derive("a"));
  CHECK(made->derive("a") != made->derive("b"));
  CHECK(made->derive("a").size() == 32);
  CHECK(ClusterSecret::load_or_create(directory / "other")->derive("a") != made->derive("a"));
}

TEST_CASE("A cluster secret that others can read, or that is none, is refused", "[security]") {
  const Directory directory;
  const fs::path file = directory / "cluster.secret";
  CHECK(ClusterSecret::load(file).error().code == Errc::invalid_argument);
  REQUIRE(ClusterSecret::load_or_create(file));
  REQUIRE(::chmod(file.c_str(), 0644) == 0);
  CHECK(ClusterSecret::load(file).error().message.find("644") != std::string::npos);
  for (const char* text : {"", "abc", "zz", "00112233"}) {
    std::ofstream(file, std::ios::trunc) << text;
    REQUIRE(::chmod(file.c_str(), 0600) == 0);
    CHECK(ClusterSecret::load(file).error().code == Errc::invalid_argument);
  }
}

RedirectClaim claim() {
  RedirectClaim out;
  out.method = "PUT";
  out.target_id = "tgtAAAA1";
  out.uname = "ais/@#/photos/cat.jpg";
  out.proxy_id = "prxAAAA1";
  out.issued_ns = 1'755'770'000'000'000'000;
  out.expires_s = 1'755'770'060;
  out.map_version = 1'000'000;
  out.bmd_version = 7;
  out.length = "1048576";
  out.request_id = "0123456789abcdef";
  return out;
}

api::Query signed_query(const RedirectSigner& signer, const RedirectClaim& wanted,
                        const char* before = "provider=ais&archpath=a%2Fb") {
  std::string url = "/v1/objects/photos/cat.jpg?";
  signer.append_signed(url, wanted, api::Query::parse(before).value());
  return api::Query::parse(url.substr(url.find('?') + 1)).value();  // as it arrives
}

auto verify(const RedirectSigner& signer, const RedirectClaim& asked, const api::Query& query) {
  return signer.verify(asked.method, asked.target_id, asked.uname, query);
}

/// The query with one item changed (or dropped, when `value` is null).
api::Query with(const api::Query& query, std::string_view key, const char* value) {
  api::Query out;
  for (const auto& [name, old] : query.items()) {
    if (name != key) {
      out.set(name, old);
    } else if (value != nullptr) {
      out.set(name, value);
    }
  }
  return out;
}

TEST_CASE("A redirect that was signed is believed, with all that it says", "[security]") {
  const RedirectSigner signer("key");
  const auto query = signed_query(signer, claim());
  CHECK(query.get("vpams") == "lfls");
  const auto verdict = verify(signer, claim(), query);
  REQUIRE(verdict);
  REQUIRE(verdict->has_value());
  const RedirectClaim& got = **verdict;
  CHECK(got.method == "PUT");
  CHECK(got.proxy_id == "prxAAAA1");
  CHECK(got.issued_ns == claim().issued_ns);
  CHECK(got.expires_s == claim().expires_s);
  CHECK(got.map_version == 1'000'000);
  CHECK(got.bmd_version == 7);
  CHECK(got.length == "1048576");
  CHECK(got.request_id == "0123456789abcdef");
}

TEST_CASE("A redirect holds for what was signed and nothing else", "[security]") {
  const RedirectSigner signer("key");
  const auto query = signed_query(signer, claim());
  const auto code = [&](const RedirectClaim& asked, const api::Query& sent) {
    const auto verdict = verify(signer, asked, sent);
    REQUIRE_FALSE(verdict);
    return verdict.error().code;
  };
  auto other = claim();
  other.method = "DELETE";
  CHECK(code(other, query) == Errc::forbidden);
  other = claim();
  other.target_id = "tgtBBBB2";
  CHECK(code(other, query) == Errc::forbidden);
  other = claim();
  other.uname += "x";
  CHECK(code(other, query) == Errc::forbidden);
  for (const char* key :
       {"provider", "archpath", "pid", "utm", "exp", "vpams", "vbmd", "len", "rid"}) {
    INFO(key);
    CHECK(code(claim(), with(query, key, "5")) == Errc::forbidden);
  }
  auto added = query;
  added.set("latest-ver", "true");
  CHECK(code(claim(), added) == Errc::forbidden);
  CHECK(code(claim(), with(query, "len", nullptr)) == Errc::forbidden);
  CHECK(verify(RedirectSigner("other key"), claim(), query).error().code == Errc::forbidden);
}

TEST_CASE("Marks of a redirect that are missing, malformed or doubled are refused", "[security]") {
  const RedirectSigner signer("key");
  const auto query = signed_query(signer, claim());
  for (const char* key : {"utm", "exp", "vpams", "vbmd", "u"}) {
    INFO(key);
    CHECK(verify(signer, claim(), with(query, key, nullptr)).error().code ==
          Errc::invalid_argument);
    CHECK(verify(signer, claim(), with(query, key, "")).error().code == Errc::invalid_argument);
    const auto mark = "&" + std::string(key) + "=" + std::string(query.get(key));
    const auto twice = api::Query::parse(query.encode() + mark).value();
    CHECK(verify(signer, claim(), twice).error().code == Errc::invalid_argument);
  }
  CHECK(verify(signer, claim(), with(query, "utm", "-1")).error().code == Errc::invalid_argument);
  CHECK(verify(signer, claim(), with(query, "vpams", "?")).error().code == Errc::invalid_argument);
  CHECK(verify(signer, claim(), with(query, "exp", "99999999999999999999")).error().code ==
        Errc::invalid_argument);
  CHECK(verify(signer, claim(), with(query, "len", "1e3")).error().code == Errc::invalid_argument);
}

TEST_CASE("A request without marks is no redirect", "[security]") {
  const RedirectSigner signer("key");
  const auto plain = api::Query::parse("provider=ais&u=abc").value();
  const auto verdict = verify(signer, claim(), plain);
  REQUIRE(verdict);
  CHECK_FALSE(verdict->has_value());
}

TEST_CASE("A client's own marks are dropped before signing", "[security]") {
  const RedirectSigner signer("key");
  const auto query = signed_query(signer, claim(), "pid=evil&len=1&u=x&provider=ais&exp=9");
  const auto verdict = verify(signer, claim(), query);
  REQUIRE(verdict);
  CHECK((*verdict)->length == "1048576");
  CHECK((*verdict)->proxy_id == "prxAAAA1");
}

TEST_CASE("GET and HEAD are one class, and empty length and request id are left out",
          "[security]") {
  const RedirectSigner signer("key");
  auto get = claim();
  get.method = "GET";
  get.length.clear();
  get.request_id.clear();
  const auto query = signed_query(signer, get);
  CHECK_FALSE(query.find("len"));
  CHECK_FALSE(query.find("rid"));
  get.method = "HEAD";
  REQUIRE(verify(signer, get, query));
  CHECK((*verify(signer, get, query))->method == "HEAD");
}

TEST_CASE("While the secret is replaced, redirects of both epochs are believed", "[security]") {
  const RedirectSigner before("old");
  const RedirectSigner now("new", "old");
  const RedirectSigner later("new");
  const auto query = signed_query(before, claim());
  CHECK(verify(now, claim(), query));
  CHECK(verify(now, claim(), signed_query(now, claim())));
  CHECK(verify(later, claim(), signed_query(now, claim())));
  CHECK_FALSE(verify(later, claim(), query));
  CHECK_FALSE(verify(before, claim(), signed_query(now, claim())));
}

TEST_CASE("Equal keys of a query keep their order in what is signed", "[security]") {
  const RedirectSigner signer("key");
  const auto query = signed_query(signer, claim(), "a=1&a=2");
  api::Query swapped;
  swapped.set("a", "2");
  swapped.set("a", "1");
  for (const auto& [key, value] : query.items())
    if (key != "a") swapped.set(key, value);
  CHECK(verify(signer, claim(), query));
  CHECK_FALSE(verify(signer, claim(), swapped));
}

TEST_CASE("A node proves who it is to those who have the same secret", "[security]") {
  ManualClock clock;
  const NodeAuth caller("key", "tgtAAAA1", clock);
  const NodeAuth callee("key", "prxAAAA1", clock);
  const auto header = caller.sign("POST", "/v3/kv/range");
  CHECK(callee.verify(header, "POST", "/v3/kv/range").value() == "tgtAAAA1");
  CHECK(caller.sign("POST", "/v3/kv/range") != header);  // a nonce of its own
  const auto refused = [&](std::string_view given, std::string_view method,
                           std::string_view target) {
    const auto verdict = callee.verify(given, method, target);
    return !verdict && verdict.error().code == Errc::unauthenticated;
  };
  CHECK(refused("", "POST", "/v3/kv/range"));
  CHECK(refused(header, "GET", "/v3/kv/range"));
  CHECK(refused(header, "POST", "/v3/kv/txn"));
  CHECK(refused("x" + header, "POST", "/v3/kv/range"));
  CHECK(refused(header + " x", "POST", "/v3/kv/range"));
  CHECK(refused(header.substr(0, header.size() - 1), "POST", "/v3/kv/range"));
  CHECK(refused("a b c", "POST", "/v3/kv/range"));
  CHECK(refused(std::string(1000, 'a'), "POST", "/v3/kv/range"));
  CHECK(refused(NodeAuth("other", "tgtAAAA1", clock).sign("POST", "/x"), "POST", "/x"));
}

TEST_CASE("A node's proof grows old", "[security]") {
  ManualClock clock;
  const NodeAuth auth("key", "tgtAAAA1", clock);
  const auto header = auth.sign("GET", "/x");
  clock.advance(NodeAuth::kSkewMax);
  CHECK(auth.verify(header, "GET", "/x"));
  clock.advance(std::chrono::seconds(1));
  CHECK(auth.verify(header, "GET", "/x").error().code == Errc::unauthenticated);
  clock.advance(-2 * NodeAuth::kSkewMax - std::chrono::seconds(2));
  CHECK(auth.verify(header, "GET", "/x").error().code == Errc::unauthenticated);
}

}  // namespace security_test
}  // namespace tarn::security
