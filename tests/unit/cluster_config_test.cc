// Settings that operators may change while a cluster runs: names, values, messages.

#include "common/cluster/state/cluster_config.h"

#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/api/action.h"
#include "common/api/request_path.h"

namespace cluster_config_test {

using namespace tarn;
using namespace tarn::cluster;
using nlohmann::json;

ConfigValues one(const std::string& name, const json& value) { return {{name, value.dump()}}; }

std::string message_of(const ConfigValues& wanted, Errc code) {
  const auto set = with_config({}, wanted);
  REQUIRE_FALSE(set);
  CHECK(set.error().code == code);
  return set.error().message;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("configuration: a change is read from a query and from AIStore's message", "[config]") {
  const auto query = [](const char* text) { return api::Query::parse(text).value(); };
  const auto change = parse_config_change(query("log.level=4&transient=true"), {}).value();
  CHECK(change.values == one("log.level", "4"));
  CHECK(change.transient);
  const auto action = api::parse_action(
      R"({"action":"set-config","name":"","value":{"log":{"level":"3","max_size":null},"space":{"highwm":80}}})");
  const auto nested = parse_config_change({}, action.value()).value();
  CHECK(nested.values == ConfigValues{{"log.level", "\"3\""}, {"space.highwm", "80"}});
  CHECK_FALSE(nested.transient);
  CHECK(parse_config_change(query("action=set-config&log.level=4"), {}).value().values ==
        one("log.level", "4"));
  CHECK_FALSE(parse_config_change(query("transient=true"), {}));
  CHECK_FALSE(parse_config_change(query("transient=perhaps&log.level=4"), {}));
  CHECK_FALSE(parse_config_change({}, api::parse_action(R"({"value":[1]})").value()));
}

TEST_CASE("configuration: values are kept in one form, whatever they were written as", "[config]") {
  const auto kept = [](const std::string& name, const json& value) {
    const auto all = with_config({}, one(name, value)).value();
    REQUIRE(all.size() == 1);
    return all.begin()->first + "=" + config_text(all.begin()->second);
  };
  CHECK(kept("LOG.level", "4") == "log.level=debug");
  CHECK(kept("space.high_watermark", "80") == "space.highwm=80");
  CHECK(kept("space.highwm", 80) == "space.highwm=80");
  CHECK(kept("http.idle_timeout", "1m30s") == "http.idle_timeout=90s");
  CHECK(kept("http.body_rate_min", "2048") == "http.body_rate_min=2KiB");
  CHECK(kept("rebuild.floor", "1024KiB") == "rebuild.bandwidth_min=1MiB");
  CHECK(kept("space.reserve", "5%") == "space.reserve=5%");
  CHECK(kept("redirect_put_status", 302) == "redirect_put_status=302");
  CHECK(kept("versioning.enabled", "no") == "versioning.enabled=false");
  CHECK(kept("mirror.copies", "3") == "mirror.copies=3");
  CHECK(kept("durability", "nosync") == "durability=nosync");
  // A default is not stored as a choice, unless --set may have told a program otherwise.
  CHECK(with_config({}, one("versioning.enabled", true)).value().empty());
  CHECK(with_config({}, one("features", "0")).value().empty());
  CHECK(kept("log.level", "info") == "log.level=info");
}

TEST_CASE("configuration: what was stored under a former name counts under the present one",
          "[config]") {
  const json stored{{"version", 3},
                    {"values", {{"rebuild.floor", "2MiB"}, {"log.level", "debug"}}}};
  CHECK(stored.get<ClusterConfig>().values ==
        ConfigValues{{"log.level", "\"debug\""}, {"rebuild.bandwidth_min", "\"2MiB\""}});
  CHECK(stored_values({{"rebuild.floor", "2MiB"}, {"rebuild.bandwidth_min", "4MiB"}}) ==
        ConfigValues{{"rebuild.bandwidth_min", "\"4MiB\""}});
  const auto set = with_config(one("rebuild.bandwidth_min", "4MiB"), {}).value();
  CHECK(without_config(set, {"rebuild.floor"}).value().empty());
}

TEST_CASE("configuration: what cannot be set says why, and changes nothing", "[config]") {
  CHECK(says(message_of(one("bogus.key", "1"), Errc::invalid_argument), "'bogus.key'"));
  CHECK(says(message_of(one("log.level", "loud"), Errc::invalid_argument), "'log.level'"));
  CHECK(says(message_of(one("space.highwm", "101"), Errc::invalid_argument), "from 1 to 100"));
  CHECK(says(message_of(one("http.idle_timeout", "0s"), Errc::invalid_argument), "from 1s to"));
  CHECK(says(message_of(one("http.body_rate_min", "1KB"), Errc::invalid_argument), "1KB"));
  CHECK(says(message_of(one("space.reserve", "51%"), Errc::invalid_argument), "50%"));
  CHECK(
      says(message_of(one("checksum.verify", "never"), Errc::invalid_argument), "cold or always"));
  CHECK(says(message_of(one("drive.threads", "4"), Errc::invalid_argument), "at the start"));
  CHECK(says(message_of(one("versioning.bogus", "1"), Errc::unsupported), "'versioning.bogus'"));
  CHECK(says(message_of(one("versioning.enabled", "perhaps"), Errc::invalid_argument),
             "versioning.enabled"));
  CHECK(says(message_of(one("access", "0"), Errc::invalid_argument), "'access'"));
  CHECK(says(message_of(one("features", "8"), Errc::unsupported), "'features'"));
  CHECK(says(message_of(one("disk.iostat_time_long", "4s"), Errc::unsupported), "AIStore"));
  CHECK(says(message_of(one("checksum.type", "md4"), Errc::invalid_argument), "md4"));
  CHECK(with_config({}, one("checksum.type", "md5")));
  ConfigValues two = one("space.highwm", "96");
  CHECK(says(message_of(two, Errc::invalid_argument), "above 'space.out_of_space' (95)"));
  ConfigValues low = one("space.lowwm", "91");
  CHECK(says(message_of(low, Errc::invalid_argument), "above 'space.highwm' (90)"));
  low.merge(one("space.highwm", "92"));
  CHECK(with_config({}, low).has_value());
  CHECK(with_config({}, one("space.highwm", "60")).has_value());  // then it counts for both
  two.merge(one("space.out_of_space", "98"));
  CHECK(with_config({}, two));
  CHECK_FALSE(check_for_one_node(one("mirror.copies", "3")));
  CHECK(check_for_one_node(one("log.level", "4")));
}

TEST_CASE("configuration: what was set is forgotten by name", "[config]") {
  auto values = with_config({}, {{"log.level", "\"4\""}, {"mirror.copies", "3"}}).value();
  CHECK(without_config(values, {"mirror.copies"}).value() == one("log.level", "debug"));
  CHECK(without_config(values, {"LOG.LEVEL", "mirror.copies"}).value().empty());
  CHECK_FALSE(without_config(values, {"bogus"}));
}

TEST_CASE("configuration: it is shown under AIStore's names, and new buckets begin with it",
          "[config]") {
  ClusterConfig config;
  config.version = 3;
  config.values = with_config({}, {{"log.level", "\"debug\""},
                                   {"space.highwm", "80"},
                                   {"versioning.enabled", "false"},
                                   {"mirror.copies", "3"},
                                   {"rebalance.enabled", "false"},
                                   {"resilver.enabled", "false"},
                                   {"rebalance.bandwidth", "\"10MiB\""}})
                      .value();
  json tree = json::object();
  put_config(config.values, tree);
  CHECK(tree["log"]["level"] == "4");
  CHECK(tree["space"]["highwm"] == 80);
  CHECK(tree["space"]["out_of_space"] == 95);
  CHECK(tree["versioning"]["enabled"] == false);
  CHECK(tree["rebalance"] == json{{"enabled", false}, {"bandwidth", "10MiB"}, {"workers", 0}});
  CHECK_FALSE(with_config({}, {{"rebalance.enabled", "\"perhaps\""}}));
  CHECK_FALSE(with_config({}, {{"rebalance.workers", "65"}}));
  CHECK(tree["checksum"]["type"] == "xxhash2");
  CHECK(tree["checksum"]["verify"] == "cold");
  const auto props = bucket_defaults(config).value();
  CHECK_FALSE(props.versioning);
  CHECK(api::props_tree(props)["mirror"]["copies"] == 3);
  CHECK(bucket_defaults({}).value() == api::BucketProps{});

  CHECK(json(config).get<ClusterConfig>() == config);
  // A later version's settings stay, and are not acted upon.
  config.values["later.setting"] = "1";
  CHECK(json(config).get<ClusterConfig>().values.contains("later.setting"));
}

}  // namespace cluster_config_test
