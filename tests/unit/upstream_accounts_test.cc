// Lists of the buckets of an account upstream: the requests, and the meaning of answers.

#include <catch2/catch.hpp>

#include "target/upstream/dialect.h"
#include "target/upstream/servers.h"

namespace upstream_accounts_test {

using namespace tarn;
using namespace tarn::target;
using api::UpstreamKind;

constexpr std::int64_t kNow = 1'795'651'200;

UpstreamServers started_with(std::map<std::string, std::string> values) {
  const auto environment = [&](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
  return UpstreamServers::load("", environment).value();
}

UpstreamServers with_all_accounts() {
  return started_with({{"AWS_ACCESS_KEY_ID", "AK"},
                       {"AWS_SECRET_ACCESS_KEY", "SK"},
                       {"AWS_REGION", "eu-west-1"},
                       {"GCS_ACCESS_KEY_ID", "GK"},
                       {"GCS_SECRET_ACCESS_KEY", "GS"},
                       {"AZURE_STORAGE_ACCOUNT", "acc"},
                       {"AZURE_STORAGE_KEY", "a2V5"}});
}

std::string asked(const UpstreamServer& account, const std::string& marker) {
  return (*writable_dialect_of(account))->buckets_request(account, marker, kNow).target;
}

TEST_CASE("accounts: each cloud's own host is asked for the first page and those after it",
          "[upstream]") {
  const UpstreamServers servers = with_all_accounts();
  const UpstreamServer s3 = servers.account_of(UpstreamKind::s3).value();
  CHECK(s3.display() == "https://s3.eu-west-1.amazonaws.com:443");
  CHECK(asked(s3, "") == "/?max-buckets=1000");
  CHECK(asked(s3, "a b") == "/?continuation-token=a%20b&max-buckets=1000");
  const UpstreamServer gcs = servers.account_of(UpstreamKind::gcs).value();
  CHECK(gcs.display() == "https://storage.googleapis.com:443");
  CHECK(asked(gcs, "") == "/");
  const UpstreamServer azure = servers.account_of(UpstreamKind::azure).value();
  CHECK(azure.display() == "https://acc.blob.core.windows.net:443");
  CHECK(asked(azure, "") == "/?comp=list");
  CHECK(asked(azure, "/acc/next") == "/?comp=list&marker=%2Facc%2Fnext");
  for (const UpstreamServer& each : {s3, gcs, azure}) CHECK(each.is_signed());
}

TEST_CASE("accounts: a server that was named is asked below its path", "[upstream]") {
  const UpstreamServers servers =
      started_with({{"AWS_ENDPOINT_URL", "http://127.0.0.1:9000/below/"},
                    {"AIS_AZURE_URL", "http://127.0.0.1:10000/acc"},
                    {"AZURE_STORAGE_ACCOUNT", "acc"},
                    {"AZURE_STORAGE_KEY", "a2V5"}});
  const UpstreamServer s3 = servers.account_of(UpstreamKind::s3).value();
  CHECK(s3.display() == "http://127.0.0.1:9000/below");
  CHECK(asked(s3, "") == "/below?max-buckets=1000");
  const UpstreamServer azure = servers.account_of(UpstreamKind::azure).value();
  CHECK(asked(azure, "") == "/acc?comp=list");
}

TEST_CASE("accounts: a target that was started with none says so", "[upstream]") {
  const UpstreamServers servers = started_with({});
  for (const UpstreamKind kind :
       {UpstreamKind::s3, UpstreamKind::gcs, UpstreamKind::azure, UpstreamKind::web}) {
    const auto account = servers.account_of(kind);
    REQUIRE_FALSE(account);
    CHECK(account.error().code == Errc::bucket_not_found);
    CHECK(account.error().message.find("without a server or credentials") != std::string::npos);
  }
}

TEST_CASE("accounts: lists of buckets are read, and what is none is refused", "[upstream]") {
  const UpstreamServers servers = with_all_accounts();
  const UpstreamServer s3 = servers.account_of(UpstreamKind::s3).value();
  const WritableDialect& of_s3 = **writable_dialect_of(s3);
  const auto page = of_s3.buckets_in(s3, R"(<?xml version="1.0"?>
<ListAllMyBucketsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Owner><ID>1</ID></Owner>
<Buckets><Bucket><Name>one</Name><CreationDate>2026-11-27T00:00:00Z</CreationDate></Bucket>
<Bucket><Name>two</Name></Bucket></Buckets><ContinuationToken>next</ContinuationToken>
</ListAllMyBucketsResult>)");
  REQUIRE(page);
  CHECK(page->names == std::vector<std::string>{"one", "two"});
  CHECK(page->marker == "next");

  const UpstreamServer azure = servers.account_of(UpstreamKind::azure).value();
  const WritableDialect& of_azure = **writable_dialect_of(azure);
  const auto containers = of_azure.buckets_in(azure, R"(<?xml version="1.0"?>
<EnumerationResults ServiceEndpoint="https://acc.blob.core.windows.net/"><Containers>
<Container><Name>blobs</Name><Properties/></Container></Containers><NextMarker/>
</EnumerationResults>)");
  REQUIRE(containers);
  CHECK(containers->names == std::vector<std::string>{"blobs"});
  CHECK(containers->marker.empty());

  for (const char* text : {"", "<html>", "<Error><Code>AccessDenied</Code></Error>", "{}"}) {
    CHECK(of_s3.buckets_in(s3, text).error().code == Errc::bad_upstream);
    CHECK(of_azure.buckets_in(azure, text).error().code == Errc::bad_upstream);
  }
}

}  // namespace upstream_accounts_test
