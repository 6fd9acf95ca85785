// AWS Signature Version 4: the examples of AWS's own documents, to the last digit.

#include "common/security/sigv4.h"

#include <map>

#include <catch2/catch.hpp>

#include "common/security/aws_credentials.h"

namespace sigv4_test {

using namespace tarn;
using namespace tarn::security;

/// "Examples: Signature Calculations" of the S3 API.
const AwsCredentials kS3{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
/// The Signature Version 4 test suite.
const AwsCredentials kSuite{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", ""};

RequestToSign s3_request(std::string_view method, std::string_view path,
                         std::string_view payload = kEmptyPayload) {
  RequestToSign out{method, path};
  out.payload = payload;
  out.amz_date = "20130524T000000Z";
  out.headers = {{"Host", "examplebucket.s3.amazonaws.com"},
                 {"x-amz-content-sha256", std::string(payload)},
                 {"x-amz-date", std::string(out.amz_date)}};
  return out;
}

std::string s3_signature(const RequestToSign& request) {
  const std::string text = sigv4_authorization(request, kS3, "us-east-1", "s3");
  return text.substr(text.rfind('=') + 1);
}

std::string suite_signature(std::string_view path, RequestToSign::Pairs query) {
  RequestToSign request{"GET", path};
  request.query = std::move(query);
  request.headers = {{"Host", "example.amazonaws.com"}, {"X-Amz-Date", "20150830T123600Z"}};
  request.payload = kEmptyPayload;
  request.amz_date = "20150830T123600Z";
  const std::string text = sigv4_authorization(request, kSuite, "us-east-1", "service");
  return text.substr(text.rfind('=') + 1);
}

Environment environment_of(const std::map<std::string, std::string>& variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

TEST_CASE("SigV4: the published examples of S3", "[security][sigv4]") {
  auto get = s3_request("GET", "/test.txt");
  get.headers.emplace_back("Range", "bytes=0-9");
  CHECK(sigv4_authorization(get, kS3, "us-east-1", "s3") ==
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");

  auto put = s3_request("PUT", "/test%24file.text", sha256_hex("Welcome to Amazon S3."));
  put.payload = put.headers[1].second;
  put.headers.emplace_back("Date", "Fri, 24 May 2013 00:00:00 GMT");
  put.headers.emplace_back("x-amz-storage-class", "REDUCED_REDUNDANCY");
  CHECK(s3_signature(put) == "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");

  auto lifecycle = s3_request("GET", "/");
  lifecycle.query = {{"lifecycle", ""}};
  CHECK(s3_signature(lifecycle) ==
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");

  auto list = s3_request("GET", "/");
  list.query = {{"prefix", "J"}, {"max-keys", "2"}};
  CHECK(s3_signature(list) == "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST_CASE("SigV4: the test suite that AWS publishes", "[security][sigv4]") {
  CHECK(suite_signature("/", {}) ==
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  CHECK(suite_signature("/", {{"Param2", "value2"}, {"Param1", "value1"}}) ==
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
  CHECK(suite_signature("/%E1%88%B4", {}) ==
        "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85");
}

TEST_CASE("SigV4: queries are sorted as they are encoded, and headers squeezed",
          "[security][sigv4]") {
  CHECK(canonical_query({{"b", "2"}, {"a", "x y"}, {"a", "+"}}) == "a=%2B&a=x%20y&b=2");
  RequestToSign request{"GET", "/"};
  request.headers = {{"X-B", "  two   words "}, {"Host", "h"}};
  request.payload = kUnsignedPayload;
  CHECK(canonical_request(request) ==
        "GET\n/\n\nhost:h\nx-b:two words\n\nhost;x-b\nUNSIGNED-PAYLOAD");
  CHECK(amz_date(1369353600) == "20130524T000000Z");
}

TEST_CASE("credentials of AWS: a file with profiles", "[security][sigv4]") {
  const auto profiles = parse_credentials_file(
      "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=S=/+\n\n[ two ]\r\n"
      "AWS_ACCESS_KEY_ID=B\naws_secret_access_key = T\naws_session_token = tok\nregion = x\n");
  REQUIRE(profiles);
  CHECK(profiles->at("default").secret_key == "S=/+");
  CHECK(profiles->at("two").access_key == "B");
  CHECK(profiles->at("two").session_token == "tok");
  CHECK(parse_credentials_file("aws_access_key_id = A\n").error().message.find("line 1") == 0);
  CHECK_FALSE(parse_credentials_file("[a]\nsecret words\n"));
  // A secret that stands where it should not is not shown.
  CHECK(parse_credentials_file("[a]\nsecret words\n").error().message.find("secret") ==
        std::string::npos);
}

TEST_CASE("credentials of Google: its own names, never those of AWS", "[security][sigv4]") {
  const auto profiles = parse_credentials_file(
      "[Credentials]\ngs_access_key_id = G\ngs_secret_access_key = S\naws_access_key_id = A\n",
      kGoogleNames);
  REQUIRE(profiles);
  CHECK(profiles->at("Credentials").access_key == "G");
  CHECK(profiles->at("Credentials").secret_key == "S");
  const auto none = AwsIdentities::load(
      environment_of({{"AWS_ACCESS_KEY_ID", "A"}, {"AWS_SECRET_ACCESS_KEY", "S"}}), kGoogleNames);
  REQUIRE(none);
  CHECK_FALSE(none->find("").value());
  CHECK(none->find("x").error().message.find("extra.gcp.profile") == 0);
  CHECK_FALSE(AwsIdentities::load(environment_of({{"GCS_ACCESS_KEY_ID", "A"}}), kGoogleNames));
}

TEST_CASE("credentials of AWS: the environment comes first, then a profile", "[security][sigv4]") {
  const auto plain = AwsIdentities::load(
      environment_of({{"AWS_ACCESS_KEY_ID", "A"}, {"AWS_SECRET_ACCESS_KEY", "S"}}));
  REQUIRE(plain);
  CHECK(plain->find("").value()->access_key == "A");
  CHECK(plain->find("nobody").error().code == Errc::invalid_argument);

  const auto none = AwsIdentities::load(environment_of({}));
  REQUIRE(none);
  CHECK_FALSE(none->find("").value());

  CHECK_FALSE(AwsIdentities::load(environment_of({{"AWS_ACCESS_KEY_ID", "A"}})));
  CHECK_FALSE(AwsIdentities::load(environment_of({{"AWS_PROFILE", "nobody"}})));
  CHECK_FALSE(AwsIdentities::load(
      environment_of({{"AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials"}})));
}

}  // namespace sigv4_test
