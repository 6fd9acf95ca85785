#include "target/upstream/role_credentials.h"

#include <map>
#include <string>

#include <catch2/catch.hpp>

namespace role_credentials_test {

using namespace tarn;
using namespace tarn::target;

Result<std::optional<RoleSource>> source_of(std::map<std::string, std::string> values,
                                            bool has_keys = false) {
  const auto environment = [&](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
  return role_source(environment,
                     values.contains("AWS_REGION") ? values["AWS_REGION"] : "us-east-1", has_keys);
}

const std::map<std::string, std::string> kWebIdentity{
    {"AWS_ROLE_ARN", "arn:aws:iam::1:role/x"}, {"AWS_WEB_IDENTITY_TOKEN_FILE", "/run/token"}};

TEST_CASE("role: the order of sources is that of AWS's programs", "[upstream]") {
  CHECK_FALSE(source_of({}).value());
  auto values = kWebIdentity;
  values["AWS_REGION"] = "eu-west-1";
  const RoleSource sts = source_of(values, true).value().value();
  CHECK(sts.url.host == "sts.eu-west-1.amazonaws.com");
  CHECK(sts.url.tls);
  CHECK(sts.session == "tarn");
  values["AWS_REGION"] = "cn-north-1";
  CHECK(source_of(values).value()->url.host == "sts.cn-north-1.amazonaws.com.cn");
  values["AWS_ENDPOINT_URL_STS"] = "http://127.0.0.1:9000";
  CHECK(source_of(values).value()->url.authority() == "127.0.0.1:9000");
  values["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://127.0.0.1/v1";
  CHECK(source_of(values).value()->role_arn == "arn:aws:iam::1:role/x");
  for (const char* first : {"AWS_ACCESS_KEY_ID", "AWS_PROFILE"}) {
    auto with_keys = values;
    with_keys[first] = "x";
    CHECK_FALSE(source_of(with_keys).value());
  }

  const auto container = source_of({{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/id"}}).value();
  CHECK(container->url.authority() == "169.254.170.2:80");
  CHECK(container->url.path == "/v2/id");
  CHECK_FALSE(source_of({{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/id"}}, true).value());
}

TEST_CASE("role: half of a pair, and a far service without TLS, are refused", "[upstream]") {
  const auto half = source_of({{"AWS_WEB_IDENTITY_TOKEN_FILE", "/run/token"}});
  REQUIRE_FALSE(half);
  CHECK(half.error().message.find("AWS_ROLE_ARN is not") != std::string::npos);
  const auto far = source_of({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://10.0.0.1/x"}});
  REQUIRE_FALSE(far);
  CHECK(far.error().message.find("https is wanted") != std::string::npos);
  CHECK_FALSE(source_of({{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "x"}}));
  CHECK(source_of({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "https://10.0.0.1/x"}}).value());
  CHECK(source_of({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.1.2.3/x"}}).value());
  CHECK(source_of({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://[fd00:ec2::23]/v1"}}).value());
}

TEST_CASE("role: requests and answers of both kinds of service", "[upstream]") {
  const RoleSource sts = source_of(kWebIdentity).value().value();
  const auto request = role_request(sts, "a.b-c");
  CHECK(request.method == http::Method::post);
  CHECK(request.body ==
        "Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fx"
        "&RoleSessionName=tarn&Version=2011-06-15&WebIdentityToken=a.b-c");
  const auto given = credentials_in(
      sts,
      "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
      "<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>A</AccessKeyId>"
      "<SecretAccessKey>S</SecretAccessKey><SessionToken>T</SessionToken>"
      "<Expiration>2026-11-26T10:11:12Z</Expiration></Credentials>"
      "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>");
  REQUIRE(given);
  CHECK(given->keys.access_key == "A");
  CHECK(given->keys.session_token == "T");
  CHECK(given->expires == 1'795'687'872);

  const RoleSource container =
      source_of({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:81/v1/credentials"}})
          .value()
          .value();
  const auto asked = role_request(container, "secret");
  CHECK(asked.target == "/v1/credentials");
  CHECK(http::find_field(asked.fields, "Authorization") == "secret");
  CHECK(credentials_in(container, R"({"AccessKeyId":"A","SecretAccessKey":"S","Token":"T",)"
                                  R"("Expiration":"2026-11-26T10:11:12Z"})")
            ->expires == 1'795'687'872);
  const char* const of_other_zone =
      R"({"AccessKeyId":"A","SecretAccessKey":"S","Expiration":"2026-11-26T10:11:12+02:00"})";
  for (const char* bad :
       {"", "{}", "[]", R"({"AccessKeyId":"A","SecretAccessKey":"S"})",
        R"({"AccessKeyId":1,"Expiration":"2026-11-26T10:11:12Z"})", of_other_zone}) {
    const auto refused = credentials_in(container, bad);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::bad_upstream);
  }
}

TEST_CASE("role: the reason of a refusal is found in all that services send", "[upstream]") {
  CHECK(
      role_refusal_in("<ErrorResponse><Error><Code>AccessDenied</Code><Message>m</Message></Error>"
                      "</ErrorResponse>") == "AccessDenied: m");
  CHECK(role_refusal_in("<Error><Code>NoSuchKey</Code></Error>") == "NoSuchKey");
  CHECK(role_refusal_in(R"({"code":"E","message":"m"})") == "E: m");
  CHECK(role_refusal_in(R"({"code":403,"message":"Forbidden"})") == "Forbidden");
  CHECK(role_refusal_in(R"({"message":null})").empty());
  CHECK(role_refusal_in("[1]: (AccessDeniedException): m\nmore") ==
        "[1]: (AccessDeniedException): m");
  CHECK(role_refusal_in("<html>").empty());
}

TEST_CASE("role: without credentials a request says why", "[upstream]") {
  ManualClock clock;
  const RoleCredentials role(source_of(kWebIdentity).value().value(), clock);
  const auto none = role.get();
  REQUIRE_FALSE(none);
  CHECK(none.error().code == Errc::unavailable);
  CHECK(none.error().message == "the credentials of role arn:aws:iam::1:role/x are not here yet");
}

}  // namespace role_credentials_test
