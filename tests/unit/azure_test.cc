// Requests to Azure's Blob service and the meaning of its answers, without any server; and the
// account that a target is started with.

#include <map>

#include <catch2/catch.hpp>

#include "common/base/encoding.h"
#include "common/security/azure_signature.h"
#include "target/upstream/dialect.h"
#include "target/upstream/servers.h"

namespace azure_test {

using namespace tarn;
using namespace tarn::target;

/// The key of the storage emulator, which Microsoft has published.
constexpr const char* kEmulatorKey =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
constexpr std::int64_t kAzureNow = 1'435'361'952;  // Fri, 26 Jun 2015 23:39:12 GMT
const api::Bucket kContainer{"azure", "", "", "data"};

security::Environment azure_environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

UpstreamServers azure_servers(std::map<std::string, std::string> values,
                              std::string_view listed = "") {
  return UpstreamServers::load(listed, azure_environment(std::move(values))).value();
}

Result<UpstreamServer> server_at(const UpstreamServers& servers, std::string url = "") {
  return servers.server_of(kContainer, {api::UpstreamKind::azure, std::move(url), "", ""});
}

UpstreamServer azure() {
  return server_at(azure_servers({{"AZURE_STORAGE_ACCOUNT", "myaccount"},
                                  {"AZURE_STORAGE_KEY", kEmulatorKey}}))
      .value();
}

const WritableDialect& azure_dialect() { return *writable_dialect_of(azure()).value(); }

http::ClientResponse azure_answer(unsigned status, http::Fields fields, std::string body = "") {
  http::ClientResponse out;
  out.status = status;
  out.fields = std::move(fields);
  out.body = std::move(body);
  return out;
}

std::string text_of(const http::Fields& fields, std::string_view name) {
  return std::string(http::find_field(fields, name));
}

std::string refused_account(std::map<std::string, std::string> values) {
  const auto loaded = security::load_azure_account(azure_environment(std::move(values)));
  return loaded ? "" : loaded.error().message;
}

TEST_CASE("azure: Shared Key signs the texts that Microsoft's documentation shows",
          "[security][azure]") {
  security::AzureRequest metadata{"GET", "/mycontainer"};
  metadata.query = {{"restype", "container"}, {"comp", "metadata"}, {"timeout", "20"}};
  metadata.headers = {{"x-ms-version", "2015-02-21"},
                      {"x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT"}};
  CHECK(azure_string_to_sign(metadata, "myaccount") ==
        "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\n"
        "x-ms-version:2015-02-21\n/myaccount/mycontainer\ncomp:metadata\nrestype:container\n"
        "timeout:20");
  // base64(hmac.digest(base64.b64decode(KEY), TEXT, "sha256")) of Python.
  const security::AzureCredentials credentials{"myaccount", unbase64(kEmulatorKey).value(), ""};
  CHECK(azure_authorization(metadata, credentials) ==
        "SharedKey myaccount:1u9lui2jDxj0+fpbHjQ5m5NnastJRSYM+PSmfi8TXx4=");

  security::AzureRequest put{"PUT", "/mycontainer/a%20b"};
  put.query = {{"Comp", "block"}, {"blockid", "YQ=="}};
  put.headers = {{"Content-MD5", "q=="}, {"Content-Type", "text/plain"},
                 {"If-Match", "\"t\""},  {"Range", "bytes=0-5"},
                 {"X-MS-B", " 2 "},      {"x-ms-a", "1"}};
  put.content_length = 11;
  CHECK(azure_string_to_sign(put, "myaccount") ==
        "PUT\n\n\n11\nq==\ntext/plain\n\n\n\"t\"\n\n\nbytes=0-5\nx-ms-a:1\nx-ms-b:2\n"
        "/myaccount/mycontainer/a%20b\nblockid:YQ==\ncomp:block");
  CHECK(azure_authorization(put, credentials) ==
        "SharedKey myaccount:0EhCDCkeNlS+2U7BEgyOauWIvnVGQjop8rSE5XHr1QA=");
}

TEST_CASE("azure: the environment names one account", "[security][azure]") {
  const auto account = [](std::map<std::string, std::string> values) {
    return security::load_azure_account(azure_environment(std::move(values))).value();
  };
  CHECK(account({}).endpoint.empty());
  const auto plain =
      account({{"AZURE_STORAGE_ACCOUNT", "acct"}, {"AZURE_STORAGE_KEY", kEmulatorKey}});
  CHECK(plain.endpoint == "https://acct.blob.core.windows.net");
  CHECK(plain.credentials->key.size() == 64);
  const auto open = account({{"AZURE_STORAGE_ACCOUNT", "acct"}});
  CHECK_FALSE(open.credentials);
  const auto sas = account({{"AZURE_STORAGE_ACCOUNT", "acct"},
                            {"AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=a%2Bb"},
                            {"AIS_AZURE_URL", "http://127.0.0.1:10000/acct"}});
  CHECK(sas.endpoint == "http://127.0.0.1:10000/acct");
  CHECK(sas.credentials->sas == "sv=1&sig=a%2Bb");
  const auto connection = account(
      {{"AZURE_STORAGE_CONNECTION_STRING",
        std::string("DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=") + kEmulatorKey +
            ";EndpointSuffix=core.chinacloudapi.cn;QueueEndpoint=http://q/"}});
  CHECK(connection.endpoint == "https://acct.blob.core.chinacloudapi.cn");
  CHECK(connection.credentials->key == plain.credentials->key);
  const auto of_endpoint = account({{"AZURE_STORAGE_CONNECTION_STRING",
                                     "BlobEndpoint=https://h/;SharedAccessSignature=sv=1&sig=x"}});
  CHECK(of_endpoint.endpoint == "https://h/");
  CHECK(of_endpoint.credentials->account.empty());

  const auto says = [](std::map<std::string, std::string> values, std::string_view word) {
    const std::string message = refused_account(std::move(values));
    INFO(message);
    // A secret that stands where it should not is not shown.
    return message.find(word) != std::string::npos && message.find("secret") == std::string::npos;
  };
  CHECK(says({{"AZURE_STORAGE_KEY", kEmulatorKey}}, "AZURE_STORAGE_ACCOUNT"));
  CHECK(says({{"AZURE_STORAGE_SAS_TOKEN", "sig=secret"}}, "AZURE_STORAGE_ACCOUNT"));
  CHECK(says({{"AZURE_STORAGE_ACCOUNT", "a"}, {"AZURE_STORAGE_KEY", "not secret"}}, "base64"));
  CHECK(says({{"AZURE_STORAGE_ACCOUNT", "a/../b"}}, "lower-case"));
  CHECK(says({{"AZURE_STORAGE_ACCOUNT", "a"}, {"AZURE_STORAGE_SAS_TOKEN", "sig=secret x"}},
             "signature"));
  CHECK(says({{"AZURE_STORAGE_ACCOUNT", "a"},
              {"AZURE_STORAGE_KEY", kEmulatorKey},
              {"AZURE_STORAGE_SAS_TOKEN", "sig=secret"}},
             "leave the one out"));
  CHECK(says({{"AZURE_STORAGE_ACCOUNT", "a"},
              {"AZURE_STORAGE_CONNECTION_STRING", "AccountName=a;AccountKey=secret"}},
             "both set"));
  CHECK(says({{"AZURE_STORAGE_CONNECTION_STRING", "secret"}}, "Name=Value"));
  CHECK(says({{"AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true"}}, "BlobEndpoint"));
  CHECK(says({{"AIS_AZURE_URL", "https://h/?sig=secret"}}, "AIS_AZURE_URL"));
}

TEST_CASE("azure: credentials go to the account's own URL alone", "[upstream][azure]") {
  const auto servers =
      azure_servers({{"AZURE_STORAGE_ACCOUNT", "acct"}, {"AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=x"}},
                    "http://127.0.0.1:10000");
  CHECK(servers.is_configured(api::UpstreamKind::azure));
  CHECK_FALSE(servers.is_configured(api::UpstreamKind::s3));
  const auto own = server_at(servers);
  CHECK(own->display() == "https://acct.blob.core.windows.net:443/data");
  CHECK(own->is_signed());
  CHECK(server_at(servers, "https://ACCT.blob.core.windows.net/")->is_signed());
  const auto listed = server_at(servers, "http://127.0.0.1:10000/acct");
  CHECK(listed->display() == "http://127.0.0.1:10000/acct/data");
  CHECK_FALSE(listed->is_signed());
  const auto request =
      dialect_of(*listed).object_request(*listed, http::Method::get, "x", {}, kAzureNow);
  CHECK(request.target == "/acct/data/x");
  CHECK(text_of(request.fields, "Authorization").empty());
  for (const char* url :
       {"https://other.blob.core.windows.net", "http://acct.blob.core.windows.net",
        "https://acct.blob.core.windows.net.evil.example",
        "https://acct.blob.core.windows.net:444"}) {
    INFO(url);
    CHECK(server_at(servers, url).error().code == Errc::forbidden);
  }
  const auto none = server_at(azure_servers({}));
  CHECK(none.error().code == Errc::invalid_argument);
  CHECK(none.error().message.find("AZURE_STORAGE_ACCOUNT") != std::string::npos);
}

TEST_CASE("azure: requests of a key are signed, those of a SAS carry it", "[upstream][azure]") {
  const UpstreamServer server = azure();
  const auto request = azure_dialect().object_request(server, http::Method::get, "a b/c",
                                                      {{"Range", "bytes=0-9"}}, kAzureNow);
  CHECK(request.target == "/data/a%20b/c");
  CHECK(text_of(request.fields, "x-ms-date") == "Fri, 26 Jun 2015 23:39:12 GMT");
  CHECK(text_of(request.fields, "x-ms-version") == "2026-02-06");
  CHECK(text_of(request.fields, "Authorization").starts_with("SharedKey myaccount:"));
  const auto with_sas = server_at(azure_servers({{"AZURE_STORAGE_ACCOUNT", "acct"},
                                                 {"AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=a%2Bb"}}))
                            .value();
  const auto plain =
      azure_dialect().object_request(with_sas, http::Method::get, "x", {}, kAzureNow);
  CHECK(plain.target == "/data/x?sv=1&sig=a%2Bb");
  CHECK(text_of(plain.fields, "Authorization").empty());
  CHECK(with_sas.display().find("sig") == std::string::npos);
  const auto list = azure_dialect().list_request(with_sas, {}, kAzureNow);
  CHECK(list->target == "/data?comp=list&maxresults=1000&restype=container&sv=1&sig=a%2Bb");
}

TEST_CASE("azure: small blobs go in one request, large ones in blocks", "[upstream][azure]") {
  const UpstreamServer server = azure();
  const http::Fields fields{{"Content-Type", "a/b"}, {"Content-Encoding", "gzip"}};
  const UpstreamChange whole = azure_dialect().put_whole(fields, "q==");
  CHECK(text_of(whole.fields, "x-ms-blob-type") == "BlockBlob");
  CHECK(text_of(whole.fields, "x-ms-blob-content-type") == "a/b");
  CHECK(text_of(whole.fields, "x-ms-blob-content-encoding") == "gzip");
  CHECK(text_of(whole.fields, "Content-MD5") == "q==");

  CHECK_FALSE(azure_dialect().begin_upload(fields));
  CHECK_FALSE(azure_dialect().abort_upload("id"));
  const auto part = azure_dialect().change_request(
      server, "x", azure_dialect().put_part("abcdefgh", 3, "q=="), kAzureNow);
  CHECK(part.target ==
        "/data/x?blockid=" + percent_encode(base64("abcdefgh00000003")) + "&comp=block");
  const auto first = azure_dialect().part_tag_in({}, "abcdefgh", 1).value();
  const auto last = azure_dialect().part_tag_in({}, "abcdefgh", 10'000).value();
  CHECK(first.size() == last.size());
  const auto end = azure_dialect().complete_upload("abcdefgh", {first, last}, fields);
  CHECK(end.body.find("<Latest>" + first + "</Latest><Latest>" + last + "</Latest>") !=
        std::string::npos);
  CHECK(text_of(end.fields, "x-ms-blob-content-type") == "a/b");
  CHECK(text_of(end.fields, "Content-Type") == "application/xml");
  CHECK(azure_dialect().completed_tag_in(server, azure_answer(201, {{"ETag", "\"t\""}})) ==
        "\"t\"");
  CHECK_FALSE(azure_dialect().completed_tag_in(server, azure_answer(201, {})));
}

TEST_CASE("azure: only plain parts are asked for as they are", "[upstream][azure]") {
  const auto understands = [](const char* range) {
    return azure_dialect().understands_part({{"Range", range}});
  };
  for (const char* range : {"bytes=0-", "bytes=5-9", "bytes=5-5"}) CHECK(understands(range));
  for (const char* range : {"bytes=-5", "bytes=9-5", "bytes=x-", "items=0-5", "bytes=5"})
    CHECK_FALSE(understands(range));
  CHECK(azure_dialect().understands_part({}));
  CHECK_FALSE(azure_dialect().understands_part({{"Range", "bytes=0-5"}, {"If-Range", "\"t\""}}));
}

TEST_CASE("azure: an answer says size, version and MD5 of a blob", "[upstream][azure]") {
  const UpstreamServer server = azure();
  const auto described = [&](unsigned status, http::Fields fields) {
    fields.push_back({"ETag", "\"0x8D\""});
    return azure_dialect().object_in(server, azure_answer(status, std::move(fields)));
  };
  const auto whole = described(200, {{"Content-Length", "3"}, {"Content-MD5", "a=="}});
  CHECK(whole->size == 3);
  CHECK(text_of(whole->checksums, "Content-MD5") == "a==");
  const auto part = described(206, {{"Content-Range", "bytes 0-1/3"},
                                    {"Content-Length", "2"},
                                    {"Content-MD5", "of the part"},
                                    {"x-ms-blob-content-md5", "b=="}});
  CHECK(part->size == 3);
  CHECK(text_of(part->checksums, "Content-MD5") == "b==");
  CHECK(
      described(206, {{"Content-Range", "bytes 1-1/3"}, {"Content-MD5", "x"}})->checksums.empty());
  CHECK(described(200, {{"x-ms-blob-type", "AppendBlob"}, {"Content-MD5", "a=="}})
            ->checksums.empty());
  CHECK_FALSE(azure_dialect().object_in(server, azure_answer(200, {})));
}

TEST_CASE("azure: a list becomes a page in order", "[upstream][azure]") {
  const UpstreamServer server = azure();
  const std::string text =
      "\xEF\xBB\xBF<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults><Blobs>"
      "<BlobPrefix><Name>m/</Name></BlobPrefix>"
      "<Blob><Name>a&amp;b</Name><Properties><Content-Length>7</Content-Length>"
      "<Etag>0x8D</Etag><Last-Modified>Sun, 06 Nov 1994 08:49:37 GMT</Last-Modified>"
      "</Properties></Blob>"
      "<Blob><Name Encoded=\"true\">q%0Ar</Name><Properties/></Blob>"
      "<Blob><Name>dir</Name><Properties><ResourceType>directory</ResourceType></Properties></Blob>"
      "</Blobs><NextMarker>2!8!abc</NextMarker></EnumerationResults>";
  const auto page = azure_dialect().page_in(server, {}, text);
  REQUIRE(page->entries.size() == 3);
  CHECK(page->more);
  CHECK(page->marker == "2!8!abc");
  CHECK(page->entries[0].name == "a&b");
  CHECK(page->entries[0].size == 7);
  CHECK(page->entries[0].etag == "\"0x8D\"");
  CHECK(page->entries[0].modified == 784'111'777);
  CHECK(page->entries[1].name == "m/");
  CHECK(page->entries[2].name == "q\nr");

  UpstreamListOrder order;
  order.after = "a&b";
  order.limit = 10;
  order.by_directory = true;
  CHECK(azure_dialect().list_request(server, order, kAzureNow)->target ==
        "/data?comp=list&delimiter=%2F&maxresults=11&restype=container&startFrom=a%26b");
  CHECK(azure_dialect().page_in(server, order, text)->entries.size() == 2);  // without the first
  order.after = "m/x";
  const auto other_order = azure_dialect().page_in(server, order, text);
  CHECK(other_order.error().code == Errc::unsupported);
  CHECK(other_order.error().message.find("hierarchical namespace") != std::string::npos);
  for (const char* bad : {"", "<a/>", "not XML"})
    CHECK(azure_dialect().page_in(server, {}, bad).error().code == Errc::bad_upstream);
}

TEST_CASE("azure: what a refusal means", "[upstream][azure]") {
  const UpstreamServer server = azure();
  const auto meaning = [&](unsigned status, http::Fields fields, std::string body = "") {
    return azure_dialect().refusal_in(server, "GET azure://data/x",
                                      azure_answer(status, std::move(fields), std::move(body)));
  };
  const auto absent = meaning(404, {{"x-ms-error-code", "BlobNotFound"}});
  CHECK(absent.names_object);
  CHECK(absent.error.code == Errc::object_not_found);
  CHECK(meaning(404, {{"x-ms-error-code", "ContainerNotFound"}}).names_bucket);
  const auto said = meaning(403, {},
                            "\xEF\xBB\xBF<?xml version=\"1.0\"?><Error><Code>AuthenticationFailed"
                            "</Code><Message>Server failed.\nRequestId:1</Message></Error>");
  CHECK(said.error.code == Errc::forbidden);
  CHECK(said.error.message.ends_with("answered 403 AuthenticationFailed: Server failed."));
  CHECK(meaning(503, {{"x-ms-error-code", "ServerBusy"}}).may_pass);
  const auto overtaken = meaning(400, {{"x-ms-error-code", "InvalidBlockList"}});
  CHECK(overtaken.error.code == Errc::unavailable);
  CHECK_FALSE(overtaken.may_pass);
}

}  // namespace azure_test
