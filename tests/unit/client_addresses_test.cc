#include "common/cluster/state/client_addresses.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace tarn::cluster {
namespace client_addresses_test {

Node advertised(const std::vector<std::string>& words) {
  const auto parsed = parse_advertised(words);
  REQUIRE(parsed);
  Node node;
  node.id = "tgtAAAA1";
  node.public_url = parsed->url;
  node.internal_url = "http://10.244.0.9:8180";
  node.client_addresses = parsed->networks;
  return node;
}

TEST_CASE("The narrowest network that contains a client decides its URL", "[cluster][addresses]") {
  const Node node = advertised({"http://store.example.com:31000", "10.0.0.0/8=http://rack:8080/",
                                "10.244.0.0/16=http://pod:8080", "fd00::/8=http://[fd00::7]:8080",
                                "192.168.1.7=http://one:8080"});
  CHECK(url_for_client(node, "10.1.2.3:51234") == "http://rack:8080");
  CHECK(url_for_client(node, "10.244.7.7:51234") == "http://pod:8080");
  CHECK(url_for_client(node, "10.245.7.7:51234") == "http://rack:8080");
  CHECK(url_for_client(node, "[fd12::1]:51234") == "http://[fd00::7]:8080");
  CHECK(url_for_client(node, "[fe80::1%eth0]:51234") == "http://store.example.com:31000");
  CHECK(url_for_client(node, "192.168.1.7:1") == "http://one:8080");
  CHECK(url_for_client(node, "192.168.1.8:1") == "http://store.example.com:31000");
  CHECK(url_for_client(node, "[::ffff:10.244.0.1]:1") == "http://pod:8080");
  CHECK(url_for_client(node, "") == "http://store.example.com:31000");
}

TEST_CASE("Nodes reach each other by the network of their own address", "[cluster][addresses]") {
  const Node node = advertised({"http://outside:31000", "10.244.0.0/16=http://pod:8080"});
  Node caller = node;
  CHECK(url_for_node(node, caller) == "http://pod:8080");
  caller.internal_url = "http://172.16.0.1:8180";
  CHECK(url_for_node(node, caller) == "http://outside:31000");
  caller.internal_url = "http://a-name:8180";
  CHECK(url_for_node(node, caller) == "http://outside:31000");
}

TEST_CASE("Addresses by network are kept in the cluster map", "[cluster][addresses]") {
  Smap map;
  map.nodes["tgtAAAA1"] = advertised({"http://outside:1", "10.0.0.0/8=http://in:2"});
  const nlohmann::json written = map;
  const auto read = written.get<Smap>();
  CHECK(read.nodes.at("tgtAAAA1").client_addresses == map.nodes["tgtAAAA1"].client_addresses);
  nlohmann::json broken = written;
  broken["nodes"][0]["client_addresses"][0]["network"] = "10.0.0.1/8";
  CHECK_THROWS(broken.get<Smap>());
}

TEST_CASE("What --advertise cannot mean is refused in words", "[cluster][addresses]") {
  const auto refusal = [](const std::vector<std::string>& words) {
    const auto parsed = parse_advertised(words);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == Errc::invalid_argument);
    return parsed.error().message;
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(refusal({"10.0.0.5:8200"}), Contains("10.0.0.5:8200"));
  CHECK_THAT(refusal({"10.0.0.1/8=http://a:1"}), Contains("write 10.0.0.0/8"));
  CHECK_THAT(refusal({"10.0.0.0/33=http://a:1"}), Contains("no network"));
  CHECK_THAT(refusal({"pods=http://a:1"}), Contains("'pods' is no network"));
  CHECK_THAT(refusal({"10.0.0.0/8=a:1"}), Contains("a:1"));
  CHECK_THAT(refusal({"http://a:1", "http://b:1"}), Contains("NETWORK=URL"));
  CHECK_THAT(refusal({"10.0.0.0/8=http://a:1", "10.0.0.0/8=http://b:1"}), Contains("twice"));
  CHECK(parse_advertised({})->url.empty());
}

}  // namespace client_addresses_test
}  // namespace tarn::cluster
