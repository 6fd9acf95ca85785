#include "common/http/request_fields.h"

#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "common/api/status.h"

namespace tarn::http {
namespace request_fields_test {

struct Case {
  const char* method;
  const char* field;
  const char* value;
  unsigned status;  ///< 0: let through
};

RequestHead request_with(const char* method, const char* field, const char* value) {
  RequestHead head;
  head.method_text = method;
  head.fields.push_back({field, value});
  return head;
}

unsigned status_of(const Case& its) {
  const Status checked = check_request_fields(request_with(its.method, its.field, its.value), {});
  return checked ? 0 : api::http_status(checked.error().code);
}

TEST_CASE("a field that asks for what is not done is refused, on every method that it changes",
          "[http][fields]") {
  for (const Case& its :
       {Case{"PUT", "Content-Range", "bytes 5-9/10", 400},
        Case{"PUT", "content-range", "bytes */10", 400},
        Case{"POST", "Content-Range", "bytes 0-1/*", 400},
        Case{"PATCH", "Content-Range", "anything", 400},
        Case{"DELETE", "Content-Range", "bytes 0-1/2", 400},
        Case{"GET", "Content-Range", "bytes 0-1/2", 0},
        Case{"POST", "X-HTTP-Method-Override", "DELETE", 501},
        Case{"GET", "x-http-method", "DELETE", 501},
        Case{"PUT", "x-amz-copy-source", "/a/b", 501},
        Case{"PUT", "X-Amz-Server-Side-Encryption", "AES256", 501},
        Case{"GET", "x-amz-server-side-encryption-customer-key", "k", 501},
        Case{"PUT", "x-amz-meta-a", "b", 501},
        Case{"PUT", "x-amz-checksum-crc64nvme", "AAAAAAAAAAA=", 501},
        Case{"PUT", "x-amz-checksum-sha256", "abc", 0},
        Case{"PUT", "x-amz-date", "20260101T000000Z", 0},
        Case{"PUT", "x-amz-content-sha256", "UNSIGNED-PAYLOAD", 0},
        Case{"PUT", "x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", 501},
        Case{"PUT", "Content-Encoding", "aws-chunked,gzip", 501},
        Case{"PUT", "Content-Encoding", "gzip", 0},
        Case{"PUT", "X-Copy-From", "/c/o", 501},
        Case{"PUT", "X-Delete-After", "10", 501},
        Case{"PUT", "X-Request-Id", "1", 0},
        Case{"PUT", "Range", "bytes=0-1", 0},
        Case{"PUT", "Content-Language", "en", 0}}) {
    INFO(its.method << " with " << its.field << ": " << its.value);
    CHECK(status_of(its) == its.status);
  }
}

TEST_CASE("every rule of the table refuses, or does not, as it says", "[http][fields]") {
  for (const FieldRule& rule : field_rules()) {
    std::string name(rule.name);
    if (name.ends_with('*')) name.replace(name.size() - 1, 1, "anything");
    for (const char* method : {"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"}) {
      if (!rule.methods.empty() && rule.methods.find(method) == std::string_view::npos) continue;
      INFO(method << " with " << name);
      const Status checked = check_request_fields(request_with(method, name.c_str(), "x"), {});
      CHECK(checked.has_value() == (rule.verdict != FieldRule::Verdict::refused));
      if (!checked) CHECK(checked.error().message.find(name) != std::string::npos);
    }
  }
}

TEST_CASE("an operation of S3 in the query is not taken for a plain request", "[http][fields]") {
  for (const char* query : {"uploads", "uploadId=1&partNumber=2", "acl", "tagging=", "versionId=v"})
    CHECK_FALSE(check_request_fields(request_with("PUT", "A", "b"), *api::Query::parse(query)));
  CHECK(check_request_fields(request_with("PUT", "A", "b"), *api::Query::parse("provider=ais")));
}

TEST_CASE("docs/http.md has the table of fields", "[http][fields]") {
  std::ifstream file(TARN_SOURCE_DIR "/docs/http.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const FieldRule& rule : field_rules()) {
    const char* verdict = rule.verdict == FieldRule::Verdict::acted_on   ? "acted on"
                          : rule.verdict == FieldRule::Verdict::harmless ? "ignored"
                                                                         : "refused";
    const std::string what = rule.verdict == FieldRule::Verdict::refused
                                 ? fmt::format("{} {}", verdict, api::http_status(rule.code))
                                 : verdict;
    const std::string row =
        fmt::format("| `{}` | {} | {} | {} |", rule.name,
                    rule.methods.empty() ? "all" : rule.methods, what, rule.meaning);
    INFO(row);
    CHECK(text.str().find(row) != std::string::npos);
  }
}

}  // namespace request_fields_test
}  // namespace tarn::http
