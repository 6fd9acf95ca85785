#include <catch2/catch.hpp>

#include "cli/base/names.h"
#include "cli/base/templates.h"
#include "common/api/name_template.h"

namespace tarn::cli {
namespace cli_templates_test {

using Names = std::vector<std::string>;

std::string refusal(std::string_view text) {
  const auto expanded = expand_template(text);
  return expanded ? "" : expanded.error().message;
}

Names displayed(const Result<std::vector<Place>>& places) {
  Names out;
  if (places)
    for (const Place& place : *places) out.push_back(place.display());
  return out;
}

TEST_CASE("templates: the cluster's grammar gives the same names", "[cli][templates]") {
  for (const char* text :
       {"a{1..3}", "{08..11}", "{0..010}-x", "{0..90..10}/{1..2}", "p-@12-s", "{7..7}"}) {
    INFO(text);
    const auto meant = api::NameTemplate::parse(cluster_template(text).value());
    REQUIRE(meant.has_value());
    Names names;
    for (std::uint64_t i = 0; i < meant->count().value(); ++i) names.push_back(meant->name(i));
    CHECK(names == expand_template(text).value());
  }
  CHECK(cluster_template("a-%06d.tar").value() == "a-%06d.tar");
  CHECK(cluster_template("plain").error().message.find("no template") != std::string::npos);
  CHECK(!cluster_template("{3..1}").has_value());
}

TEST_CASE("templates: braces count with both ends", "[cli][templates]") {
  const auto shards = expand_template("b/shard-{000000..000999}.tar");
  REQUIRE(shards.has_value());
  CHECK(shards->size() == 1000);
  CHECK(shards->front() == "b/shard-000000.tar");
  CHECK(shards->back() == "b/shard-000999.tar");
  CHECK(expand_template("{8..11}").value() == Names{"8", "9", "10", "11"});
  CHECK(expand_template("{08..11}").value() == Names{"08", "09", "10", "11"});
  CHECK(expand_template("{0..010}").value().back() == "010");
  CHECK(expand_template("{0..11}").value().back() == "11");
  CHECK(expand_template("{0..11}").value().front() == "0");
  CHECK(expand_template("{0..9..4}").value() == Names{"0", "4", "8"});
  CHECK(expand_template("{7..7}").value() == Names{"7"});
  CHECK(expand_template("a{1..2}b{1..2}").value() == Names{"a1b1", "a1b2", "a2b1", "a2b2"});
}

TEST_CASE("templates: @ counts from zero, its end excluded", "[cli][templates]") {
  const auto shards = expand_template("b/d-@001000.tar");
  REQUIRE(shards.has_value());
  CHECK(shards->size() == 1000);
  CHECK(shards->front() == "b/d-000000.tar");
  CHECK(shards->back() == "b/d-000999.tar");
  CHECK(expand_template("@3").value() == Names{"0", "1", "2"});
}

TEST_CASE("templates: what is none stands for itself", "[cli][templates]") {
  for (const char* name :
       {"b/x", "", "b/{a}", "b/{}", "b/a@b", "b/x@", "b/100%", "b/}{", "b/{1,2}"}) {
    INFO(name);
    CHECK(expand_template(name).value() == Names{name});
  }
}

TEST_CASE("templates: errors name the template and what is wrong", "[cli][templates]") {
  CHECK(refusal("b/{9..1}") == "template '{9..1}' counts down: write the smaller number first");
  CHECK(refusal("b/{a..z}").find("'{a..z}': 'a' is not a whole number") != std::string::npos);
  CHECK(refusal("b/{1..}").find("'' is not a whole number") != std::string::npos);
  CHECK(refusal("b/{..1}").find("'{..1}'") != std::string::npos);
  CHECK(refusal("b/{1..9").find("closing brace") != std::string::npos);
  CHECK(refusal("b/{1..9..0}").find("step of 0") != std::string::npos);
  CHECK(refusal("b/{1..-9}").find("'-9'") != std::string::npos);
  CHECK(refusal("b/@000").find("'@000' stands for no name") != std::string::npos);
  CHECK(refusal("b/{0..9999999}").find("more than 1000000 names") != std::string::npos);
  CHECK(refusal("{0..9999}{0..9999}").find("more than 1000000 names") != std::string::npos);
  CHECK(refusal("{0..99999999999999999999}").find("not a whole number") != std::string::npos);
}

TEST_CASE("templates: a running number is written and found again", "[cli][templates]") {
  const auto numbered = find_numbering("d/train-%06d.tar");
  REQUIRE((numbered.has_value() && numbered->has_value()));
  const NumberedName& name = **numbered;
  CHECK(name.name(0) == "d/train-000000.tar");
  CHECK(name.name(12'345'678) == "d/train-12345678.tar");
  CHECK(name.number_in("d/train-000017.tar") == 17);
  CHECK(name.number_in("d/train-12345678.tar") == 12'345'678);
  for (const char* other : {"d/train-17.tar", "d/train-0000017.tar", "d/train-.tar",
                            "d/train-00001x.tar", "d/train-000017.tar.gz", "e/train-000017.tar"}) {
    INFO(other);
    CHECK_FALSE(name.number_in(other).has_value());
  }
  CHECK((*find_numbering("%d"))->name(7) == "7");
  for (const char* none : {"a/100%", "a%b", "%s", "a%20b", "c+d%.bin", "%"}) {
    INFO(none);
    CHECK_FALSE(find_numbering(none).value().has_value());
  }
  CHECK(find_numbering("%06d-%06d").error().message.find("only one number") != std::string::npos);
  CHECK(find_numbering("%6d").error().message.find("%06d") != std::string::npos);
  CHECK_FALSE(find_numbering("%099d").has_value());
  CHECK_FALSE(find_numbering("%00d").has_value());
}

TEST_CASE("destinations: names are kept, numbered or paired", "[cli][templates]") {
  const Names two{"x.tar", "y.tar"};
  CHECK(displayed(destinations(two, "b", false)) == Names{"b/x.tar", "b/y.tar"});
  CHECK(displayed(destinations(two, "b/p/", false)) == Names{"b/p/x.tar", "b/p/y.tar"});
  CHECK(displayed(destinations(two, "b/s-%03d", false)) == Names{"b/s-000", "b/s-001"});
  CHECK(displayed(destinations(two, "b/s-{7..8}", false)) == Names{"b/s-7", "b/s-8"});
  CHECK(displayed(destinations({"x"}, "b/z", false)) == Names{"b/z"});
  CHECK(displayed(destinations({"x"}, "b/s-%03d", true)) == Names{"b/s-%03d"});
  CHECK_FALSE(destinations(two, "b/z", false).has_value());
  CHECK_FALSE(destinations(two, "b/s-{1..3}", false).has_value());
  CHECK(destinations({"x", "x"}, "b/", false).error().message.find("'x'") != std::string::npos);
}

}  // namespace cli_templates_test
}  // namespace tarn::cli
