#include "common/api/multi_object.h"

#include <random>
#include <set>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/unit/seed.h"

namespace tarn::api {
namespace multi_object_test {

using Names = std::vector<std::string>;

Names expanded(std::string_view text) {
  const auto parsed = NameTemplate::parse(text);
  INFO(text);
  REQUIRE(parsed.has_value());
  Names out;
  for (std::uint64_t i = 0; i < parsed->count().value(); ++i) out.push_back(parsed->name(i));
  return out;
}

std::string refusal(std::string_view text) {
  const auto parsed = NameTemplate::parse(text);
  return parsed ? "" : parsed.error().message;
}

NameTemplate parsed(std::string_view text) { return NameTemplate::parse(text).value(); }

/// A template and, made in the plainest way, the names that it stands for.
struct Sample {
  std::string text;
  Names names{""};

  void literal(const std::string& words) {
    text += words;
    for (std::string& name : names) name += words;
  }
  void range(std::size_t first, std::size_t last, std::size_t step, std::size_t width_of_first,
             std::size_t width_of_last) {
    const auto number = [](std::size_t n, std::size_t width) {
      std::string out = std::to_string(n);
      if (out.size() < width) out.insert(0, width - out.size(), '0');
      return out;
    };
    const std::string from = number(first, width_of_first);
    const std::string to = number(last, width_of_last);
    text += "{" + from + ".." + to + (step == 1 ? "" : ".." + std::to_string(step)) + "}";
    Names out;
    for (const std::string& name : names)
      for (std::size_t i = first; i <= last; i += step)
        out.push_back(name + number(i, std::min(from.size(), to.size())));
    names = out;
  }
};

Sample random_sample(std::mt19937& random) {
  const auto below = [&](std::size_t n) { return random() % n; };
  Sample out;
  for (std::size_t parts = 1 + below(3); parts > 0; --parts) {
    if (below(3) > 0) out.literal(Names{"a", "x-", "7", "dir/", "@1", "%02d", "0"}[below(7)]);
    const std::size_t first = below(13) == 0 ? 98 : below(12);
    out.range(first, first + below(14), 1 + below(4), below(4), below(4));
  }
  if (below(2) > 0) out.literal(Names{".tar", "1", "-z"}[below(3)]);
  return out;
}

TEST_CASE("name template: the forms of AIStore", "[api][multi]") {
  CHECK(expanded("a-{0001..0003}-b") == Names{"a-0001-b", "a-0002-b", "a-0003-b"});
  CHECK(expanded("x{0..10..4}y{1..2}") == Names{"x0y1", "x0y2", "x4y1", "x4y2", "x8y1", "x8y2"});
  CHECK(expanded("{08..0010}") == Names{"08", "09", "10"});
  CHECK(expanded("{7..7}") == Names{"7"});
  CHECK(expanded("p-@3-s") == Names{"p-0-s", "p-1-s", "p-2-s", "p-3-s"});
  CHECK(expanded("p@00010").back() == "p00010");
  CHECK(expanded("p@00010").size() == 11);
  CHECK(expanded("a@1b@1") == Names{"a0b0", "a0b1", "a1b0", "a1b1"});
  CHECK(parsed("{0000000..9999999}").count() == 10'000'000U);
  CHECK(parsed("{0000000..9999999}").name(1'234'567) == "1234567");
}

TEST_CASE("name template: what is no range is a prefix", "[api][multi]") {
  for (const char* text : {"logs/2026/", "a@b", "me@1x@y", "100%", "a%5x", "%-d"}) {
    INFO(text);
    REQUIRE(refusal(text).empty());
    CHECK(parsed(text).is_prefix());
    CHECK(parsed(text).prefix() == text);
    CHECK(parsed(text).matches(std::string(text) + "more"));
    CHECK(!parsed(text).matches("other"));
    CHECK(!parsed(text).count());
  }
  for (const char* text : {"", "*"}) {
    CHECK(parsed(text).is_prefix());
    CHECK(parsed(text).matches("anything"));
  }
}

TEST_CASE("name template: a running number has no end", "[api][multi]") {
  const auto numbers = parsed("a-%03d.tar");
  CHECK(!numbers.count());
  CHECK(!numbers.is_prefix());
  CHECK(numbers.prefix() == "a-");
  for (const char* name : {"a-000.tar", "a-999.tar", "a-1000.tar"}) CHECK(numbers.matches(name));
  for (const char* name : {"a-00.tar", "a-0000.tar", "a-001.tar2", "b-001.tar", "a-x01.tar", "a-"})
    CHECK(!numbers.matches(name));
  CHECK(parsed("%d").matches("0"));
  CHECK(!parsed("%d").matches("01"));
}

TEST_CASE("name template: what cannot be is refused with its reason", "[api][multi]") {
  for (const char* text :
       {"a{", "a}", "{1..3", "{}", "{1}", "{1..}", "{..3}", "{1...3}", "{-1..3}", "{a..c}",
        "{1..3..1..1}", "{1..2}}", "{{1..2}", "{1..3}{", "{0..1000000000000000000}"}) {
    INFO(text);
    CHECK(refusal(text).find("template '" + std::string(text) + "'") != std::string::npos);
  }
  CHECK(refusal("{3..1}").find("counts down") != std::string::npos);
  CHECK(refusal("{1..3..0}").find("step of 0") != std::string::npos);
  CHECK(refusal("{1..10000001}").find("more than 10000000") != std::string::npos);
  CHECK(refusal("{1..10000}/{1..1001}").find("more than 10000000") != std::string::npos);
  CHECK(refusal("a@999999999").find("more than 10000000") != std::string::npos);
  CHECK(refusal("%d-%d").find("one number") != std::string::npos);
}

TEST_CASE("name template: names are those of a plain expander", "[api][multi]") {
  const auto seed = test_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 500; ++round) {
    const Sample sample = random_sample(random);
    CAPTURE(sample.text);
    REQUIRE(expanded(sample.text) == sample.names);
    const auto tried = parsed(sample.text);
    const std::set<std::string> names(sample.names.begin(), sample.names.end());
    for (int i = 0; i < 100; ++i) {
      std::string name = sample.names[random() % sample.names.size()];
      CHECK(tried.matches(name));
      CHECK(name.starts_with(tried.prefix()));
      // A neighbour of a name: often one of them, too.
      const std::size_t at = random() % (name.size() + 1);
      if (random() % 3 == 0)
        name.insert(at, 1, static_cast<char>('0' + random() % 10));
      else if (at < name.size() && random() % 2 == 0)
        name[at] = static_cast<char>('0' + random() % 10);
      else
        name = name.substr(0, at);
      CAPTURE(name);
      REQUIRE(tried.matches(name) == names.contains(name));
    }
  }
}

TEST_CASE("multi-object: a message says which objects", "[api][multi]") {
  using nlohmann::json;
  const auto read = [](std::string_view action, const char* text) {
    return parse_multi_object(action, json::parse(text));
  };
  const auto list = read(kDeleteObjects, R"({"objnames":["b","a","b"],"template":"","COER":true})");
  REQUIRE(list.has_value());
  CHECK(list->names == Names{"b", "a"});
  CHECK(list->about == "list:[b a]");
  CHECK(list->how.continue_on_error);
  const auto range = read(kDeleteObjects, R"({"objnames":null,"template":"a{1..9}"})");
  REQUIRE(range.has_value());
  CHECK(!range->is_list());
  CHECK(range->about == "template:a{1..9}");
  CHECK(read(kDeleteObjects, R"({"template":""})")->pattern->is_prefix());

  const auto copy =
      read(kCopyObjects, R"({"objnames":["a"],"prefix":"","prepend":"p/","dry_run":false,
      "tobck":{"name":"goal","provider":"ais","namespace":null},"coer":false})");
  REQUIRE(copy.has_value());
  CHECK(copy->to->name == "goal");
  CHECK(copy->how.prepend == "p/");

  for (const auto& [text, says] : {std::pair{"null", "which objects"},
                                   {"{}", "which objects"},
                                   {R"({"objnames":[]})", "which objects"},
                                   {R"({"objnames":[],"template":""})", "which objects"},
                                   {R"({"objnames":["a"],"template":"b"})", "both"},
                                   {R"({"objnames":"a"})", "no list"},
                                   {R"({"objnames":[1]})", "no name"},
                                   {R"({"objnames":["../a"]})", "component"},
                                   {R"({"template":7})", "no string"},
                                   {R"({"template":"{1..3}/"})", "end with /"},
                                   {R"({"template":"/x"})", "begin with /"},
                                   {R"({"template":"a","num-workers":999})", "num-workers"}}) {
    const auto refused = read(kDeleteObjects, text);
    INFO(text);
    REQUIRE(!refused.has_value());
    CHECK(refused.error().message.find(says) != std::string::npos);
  }
  for (const auto& [text, says] :
       {std::pair{R"({"template":"a"})", "tobck"},
        {R"({"template":"a","tobck":{"name":"b","provider":"oc"}})", "later work"},
        {R"({"template":"a","tobck":{"name":"b"},"prefix":"x"})", "prefix"},
        {R"({"template":"a","tobck":{"name":"b"},"synchronize":true,"ext":{"a":"b"}})",
         "prepend"}}) {
    const auto refused = read(kCopyObjects, text);
    INFO(text);
    REQUIRE(!refused.has_value());
    CHECK(refused.error().message.find(says) != std::string::npos);
  }
}

TEST_CASE("multi-object: what nodes tell each other comes back as it was", "[api][multi]") {
  ObjectBatch batch;
  batch.job = "j";
  batch.copies = true;
  batch.bucket = 7;
  batch.to = 9;
  batch.bmd_version = 4;
  batch.map_version = 5;
  batch.how.prepend = "p/";
  batch.names = {"a", "b/\xC3\xA4"};
  const auto same = nlohmann::json::parse(nlohmann::json(batch).dump()).get<ObjectBatch>();
  CHECK(nlohmann::json(same) == nlohmann::json(batch));
  BatchProgress progress;
  progress.counts.objects = 3;
  progress.missing = {1};
  progress.later = {0, 4};
  progress.failed = {{2, "why"}};
  progress.unsure = {4};
  progress.why_later = "away";
  progress.map_version = 6;
  const auto back = nlohmann::json::parse(nlohmann::json(progress).dump()).get<BatchProgress>();
  CHECK(nlohmann::json(back) == nlohmann::json(progress));
  CHECK(back.failed == progress.failed);
}

}  // namespace multi_object_test
}  // namespace tarn::api
