#include "cli/base/listing.h"

#include <nlohmann/json.hpp>

#include "cli/base/printing.h"
#include "common/api/bucket.h"
#include "common/base/encoding.h"
#include "common/base/read_json.h"

namespace tarn::cli {
namespace {

using nlohmann::json;

// AIStore's flag: immediate children and virtual directories.
constexpr int kNoRecursion = 2048;
// AIStore's flags: what the cluster has; what an inventory has.
constexpr int kCached = 1;
constexpr int kInventory = 32768;

int flags_of(ListedFrom from) {
  if (from == ListedFrom::cluster) return kCached;
  return from == ListedFrom::inventory ? kInventory : 0;
}

/// AIStore writes sizes as strings; numbers are understood, too.
std::uint64_t listing_size_of(const json& entry) {
  const auto found = entry.find("size");
  if (found == entry.end()) return 0;
  if (found->is_number_unsigned()) return found->get<std::uint64_t>();
  return found->is_string() ? parse_u64(found->get<std::string>()).value_or(0) : 0;
}

ListedObject object_from(const json& entry) {
  return {entry.at("name").get<std::string>(), listing_size_of(entry), entry.value("checksum", ""),
          entry.value("version", "")};
}

}  // namespace

std::string Listing::request_body() const {
  const json value{
      {"uuid", uuid_},
      {"continuation_token", token_},
      {"prefix", place_.object},
      {"props", "name,size,checksum,version"},
      {"flags", std::to_string((depth_ == Depth::one_level ? kNoRecursion : 0) + flags_of(from_))}};
  return json{{"action", "list"}, {"name", ""}, {"value", value}}.dump();
}

Task<Result<std::vector<ListedObject>>> Listing::next_page() {
  CO_TRY_OK(api::check_prefix(place_.object));
  CO_TRY(const auto answer,
         co_await session_.call(http::Method::get, place_.bucket_target(), request_body()));
  co_return take_page(answer.body);
}

Result<std::vector<ListedObject>> Listing::take_page(std::string_view body) {
  const json page = json::parse(body, nullptr, false);
  const auto malformed = fmt::format("the list of {} is malformed", place_.bucket_display());
  return read_json(Errc::io, malformed, [&]() -> Result<std::vector<ListedObject>> {
    std::vector<ListedObject> out;
    uuid_ = page.at("uuid").get<std::string>();
    const auto token = page.at("continuation_token").get<std::string>();
    if (const auto entries = page.find("entries"); entries != page.end() && !entries->is_null())
      for (const json& entry : *entries) out.push_back(object_from(entry));
    if (!token.empty() && token <= token_)
      return fail(Errc::io, "the list of {} goes round in circles at '{}'", place_.bucket_display(),
                  token);
    token_ = token;
    done_ = token.empty();
    return out;
  });
}

Exit list_buckets(Session& session, std::string_view command, BucketsOf which, bool json_wanted) {
  const char* const path = which == BucketsOf::cluster ? "/v1/buckets" : "/v1/buckets?presence=0";
  const auto answer = session.run(
      session.call(http::Method::get, path, R"({"action":"list","name":"","value":null})"));
  if (!answer) return complain(command, answer.error());
  const auto buckets = nlohmann::ordered_json::parse(answer->body, nullptr, false);
  if (!buckets.is_array()) return complain(command, {Errc::io, "the list of buckets is malformed"});
  if (json_wanted) {
    print_json(buckets);
    return Exit::ok;
  }
  for (const auto& each : buckets) {
    const auto bucket = json(each).get<api::Bucket>();
    const bool is_plain = bucket.ns_name.empty() && bucket.ns_uuid.empty();
    fmt::print("{}\n", printable(is_plain ? Place{bucket.name, "", bucket.provider}.bucket_display()
                                          : bucket.display()));
  }
  return Exit::ok;
}

}  // namespace tarn::cli
