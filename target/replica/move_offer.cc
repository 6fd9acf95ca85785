#include "target/replica/move_offer.h"

#include <stdexcept>

#include <nlohmann/json.hpp>

#include "common/base/encoding.h"
#include "common/base/read_json.h"

namespace tarn::target {
namespace {

using nlohmann::json;
using Kind = io::ObjectRecord::Kind;

OfferedName offered_name(const json& in) {
  OfferedName out;
  auto name = percent_decode(in.at("name").get<std::string>());
  if (!name) throw std::invalid_argument("a name is not percent-encoded");
  out.name = std::move(*name);
  const int kind = in.at("kind").get<int>();
  if (kind != static_cast<int>(Kind::object) && kind != static_cast<int>(Kind::tombstone))
    throw std::invalid_argument("kind is 1 for an object or 2 for a tombstone");
  out.kind = static_cast<Kind>(kind);
  const auto& generation = in.at("generation");
  if (generation.size() != 3) throw std::invalid_argument("a generation has three numbers");
  generation.at(0).get_to(out.generation.map_version);
  generation.at(1).get_to(out.generation.incarnation);
  generation.at(2).get_to(out.generation.counter);
  return out;
}

}  // namespace

std::string encode(const Offer& offer) {
  json names = json::array();
  for (const OfferedName& each : offer.names) {
    const Generation& at = each.generation;
    names.push_back({{"name", percent_encode(each.name, "/")},
                     {"kind", static_cast<int>(each.kind)},
                     {"generation", {at.map_version, at.incarnation, at.counter}}});
  }
  return json{{"bucket", raw(offer.bucket)},
              {"bmd", offer.bmd_version},
              {"map", offer.map_version},
              {"names", std::move(names)}}
      .dump();
}

Result<Offer> decode_offer(const std::string& text) {
  return read_json(Errc::invalid_argument, "offer", [&]() -> Result<Offer> {
    const json in = json::parse(text);
    Offer offer;
    offer.bucket = BucketId{in.at("bucket").get<std::uint64_t>()};
    in.at("bmd").get_to(offer.bmd_version);
    in.at("map").get_to(offer.map_version);
    for (const json& each : in.at("names")) offer.names.push_back(offered_name(each));
    if (offer.names.size() > Offer::kNamesMax)
      return fail(Errc::invalid_argument, "an offer of {} names, at most {} are taken at once",
                  offer.names.size(), Offer::kNamesMax);
    return offer;
  });
}

std::string encode_wanted(const std::vector<std::size_t>& wanted) {
  return json{{"wanted", wanted}}.dump();
}

Result<std::vector<std::size_t>> decode_wanted(const std::string& text, std::size_t names) {
  return read_json(Errc::invalid_argument, "answer to an offer", [&] {
    auto wanted = json::parse(text).at("wanted").get<std::vector<std::size_t>>();
    for (const std::size_t each : wanted)
      if (each >= names) throw std::out_of_range("a name that was not offered is wanted");
    return wanted;
  });
}

}  // namespace tarn::target
