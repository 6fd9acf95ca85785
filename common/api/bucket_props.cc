#include "common/api/bucket_props.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/api/coding_props.h"
#include "common/api/mirror_props.h"
#include "common/base/encoding.h"
#include "common/base/settings.h"

namespace tarn::api {
namespace {

using nlohmann::json;

enum class Kind : std::uint8_t {
  boolean,
  integer,   // least to most; 0 stands for the default where it is below least
  count,     // least to most
  duration,  // Go's "1m30s"
  size,      // "1GiB"
  word,      // one of `words`
  text,      // at most `most` bytes
  fixed,     // has its default until its feature is built
};

/// A property: the one place that knows its name, its default and its allowed values.
struct Leaf {
  std::string_view path;
  std::string_view initial;  ///< JSON
  Kind kind = Kind::fixed;
  std::int64_t least = 0;
  std::int64_t most = 0;
  std::string_view words = "";  ///< of Kind::word, each between two bars: "|full|nosync|"
  std::string_view later = "";  ///< AIStore's other words, in the same form
};

constexpr std::int64_t kMany = 1'000'000'000;
constexpr std::int64_t kTextBytesMax = 1024;
constexpr std::string_view kWritePolicies = "||immediate|";
constexpr std::string_view kLaterPolicies = "|delayed|never|";

/// Defaults are those of AIStore 5.0. A switch whose feature is not built is `fixed`; the numbers
/// that belong to it can be set all the same, as they can in AIStore while it is off.
constexpr std::array kLeaves{
    Leaf{"backend_bck.name", R"("")"},
    Leaf{"backend_bck.provider", R"("")"},
    Leaf{"backend_bck.namespace.uuid", R"("")"},
    Leaf{"backend_bck.namespace.name", R"("")"},
    Leaf{"write_policy.data", R"("immediate")", Kind::word, 0, 0, kWritePolicies, kLaterPolicies},
    Leaf{"write_policy.md", R"("immediate")", Kind::word, 0, 0, kWritePolicies, kLaterPolicies},
    Leaf{"checksum.type", R"("xxhash2")", Kind::word, 0, 0,
         "|xxhash2|xxhash|md5|crc32c|sha256|sha512|none|"},
    Leaf{"checksum.validate_cold_get", "false"},
    Leaf{"checksum.validate_warm_get", "false"},
    Leaf{"checksum.validate_obj_move", "false"},
    Leaf{"checksum.enable_read_range", "false"},
    Leaf{"extra.aws.cloud_region", R"("")", Kind::text, 0, kTextBytesMax},
    Leaf{"extra.aws.endpoint", R"("")", Kind::text, 0, kTextBytesMax},
    Leaf{"extra.aws.profile", R"("")", Kind::text, 0, kTextBytesMax},
    Leaf{"extra.aws.max_pagesize", "0"},
    Leaf{"extra.aws.multipart_size", R"("0B")"},
    Leaf{"extra.gcp.application_creds", R"("")"},
    Leaf{"extra.gcp.endpoint", R"("")", Kind::text, 0, kTextBytesMax},
    Leaf{"extra.gcp.profile", R"("")", Kind::text, 0, kTextBytesMax},
    Leaf{"extra.azure.endpoint", R"("")", Kind::text, 0, kTextBytesMax},
    Leaf{"extra.oci.region", R"("")"},
    Leaf{"extra.http.url", R"("")", Kind::text, 0, kTextBytesMax},
    Leaf{"extra.custom", R"("")", Kind::text, 0, kTextBytesMax},
    Leaf{"rate_limit.backend.interval", R"("1m")", Kind::duration},
    Leaf{"rate_limit.backend.max_tokens", "1000", Kind::integer, 1, kMany},
    Leaf{"rate_limit.backend.enabled", "false", Kind::boolean},
    Leaf{"rate_limit.backend.num_retries", "3", Kind::integer, 1, 100},
    Leaf{"rate_limit.backend.per_op_max_tokens", R"("")", Kind::text, 0, kTextBytesMax},
    Leaf{"rate_limit.backend.max_bandwidth", R"("0B")", Kind::size, 0, std::int64_t{1} << 50U},
    Leaf{"rate_limit.frontend.interval", R"("1m")", Kind::duration},
    Leaf{"rate_limit.frontend.max_tokens", "1000", Kind::integer, 1, kMany},
    Leaf{"rate_limit.frontend.enabled", "false"},
    Leaf{"rate_limit.frontend.burst_size", "375", Kind::integer, 1, kMany},
    Leaf{"rate_limit.frontend.per_op_max_tokens", R"("")", Kind::text, 0, kTextBytesMax},
    Leaf{"ec.compression", R"("never")", Kind::word, 0, 0, "|never|always|"},
    Leaf{"ec.bundle_multiplier", "2", Kind::integer, 1, 16},
    Leaf{"ec.burst_buffer", "512", Kind::integer, 0, kMany},
    Leaf{"ec.objsize_limit", "262144", Kind::integer, -1, std::numeric_limits<std::int64_t>::max()},
    Leaf{"ec.data_slices", "2", Kind::count, 1, 32},
    Leaf{"ec.parity_slices", "2", Kind::count, 1, 32},
    Leaf{"ec.enabled", "false", Kind::boolean},
    Leaf{"ec.layout", R"("whole")", Kind::word, 0, 0, "|whole|striped|"},
    Leaf{"ec.disk_only", "false", Kind::boolean},
    Leaf{"chunks.objsize_limit", R"("0B")"},
    Leaf{"chunks.max_monolithic_size", R"("1TiB")"},
    Leaf{"chunks.chunk_size", R"("1GiB")", Kind::size, 1 << 10U, std::int64_t{5} << 30U},
    Leaf{"chunks.checkpoint_every", "0", Kind::integer, 0, kMany},
    Leaf{"chunks.flags", "0"},
    Leaf{"mirror.copies", "2", Kind::integer, 2, 32},
    Leaf{"mirror.burst_buffer", "512", Kind::integer, 0, kMany},
    Leaf{"mirror.enabled", "false", Kind::boolean},
    Leaf{"mirror.domain", R"("drive")", Kind::word, 0, 0, "|drive|node|"},
    Leaf{"lru.dont_evict_time", R"("2h0m")", Kind::duration},
    Leaf{"lru.capacity_upd_time", R"("10m")", Kind::duration},
    Leaf{"lru.batch_size", "32768", Kind::integer, 1024, 1'000'000},
    Leaf{"lru.enabled", "false", Kind::boolean},
    Leaf{"access", R"("18446744073709551615")"},
    Leaf{"features", R"("0")"},
    Leaf{"versioning.enabled", "true", Kind::boolean},
    Leaf{"versioning.validate_warm_get", "false", Kind::boolean},
    Leaf{"versioning.synchronize", "false", Kind::boolean},
    Leaf{"versioning.validate_interval", R"("0s")", Kind::duration},
    Leaf{"cold_range", R"("auto")", Kind::word, 0, 0, "|auto|pass|fill|"},
    Leaf{"durability", R"("full")", Kind::word, 0, 0, "|full|nosync|strict|owner|"},
};

/// AIStore leaves these out where they have no value, or does not know them.
constexpr std::array<std::string_view, 18> kLeftOutWhenDefault{
    "extra.aws.cloud_region",
    "extra.aws.endpoint",
    "extra.aws.profile",
    "extra.aws.max_pagesize",
    "extra.aws.multipart_size",
    "extra.gcp.application_creds",
    "extra.gcp.endpoint",
    "extra.gcp.profile",
    "extra.azure.endpoint",
    "extra.oci.region",
    "extra.http.url",
    "extra.custom",
    "chunks.flags",
    "versioning.validate_interval",
    "cold_range",
    "rate_limit.backend.per_op_max_tokens",
    "rate_limit.backend.max_bandwidth",
    "rate_limit.frontend.per_op_max_tokens"};

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

bool has_word(std::string_view words, const std::string& word) {
  return word.find('|') == std::string::npos &&
         words.find("|" + word + "|") != std::string_view::npos;
}

/// "|full|nosync|" as people read it: `"full", "nosync"`.
std::string readable(std::string_view words) {
  std::string out;
  for (words.remove_prefix(1); !words.empty();) {
    const auto bar = words.find('|');
    out += fmt::format("{}\"{}\"", out.empty() ? "" : ", ", words.substr(0, bar));
    words.remove_prefix(bar + 1);
  }
  return out;
}

/// The part of the tree at a dotted path, made when it is not there.
json& at_path(json& tree, std::string_view path) {
  json* node = &tree;
  for (auto dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    node = &(*node)[std::string(path.substr(0, dot))];
    path.remove_prefix(dot + 1);
  }
  return (*node)[std::string(path)];
}

tl::unexpected<Error> bucket_props_wrong(const Leaf& leaf, const json& value,
                                         std::string_view allowed) {
  return fail(Errc::invalid_argument, "bucket property '{}' cannot be {}: {}", leaf.path,
              dump(value), allowed);
}

tl::unexpected<Error> not_yet(const Leaf& leaf, const json& value, std::string_view can_be) {
  return fail(Errc::unsupported,
              "bucket property '{}' = {} belongs to later work: now it can be {} only", leaf.path,
              dump(value), can_be);
}

Result<json> checked_number(const Leaf& leaf, const json& value) {
  const bool zero_is_default = leaf.kind == Kind::integer && leaf.least > 0;
  const auto allowed = fmt::format("a whole number from {} to {} is allowed{}", leaf.least,
                                   leaf.most, zero_is_default ? ", or 0 for the default" : "");
  if (!value.is_number_integer()) return bucket_props_wrong(leaf, value, allowed);
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    return bucket_props_wrong(leaf, value, allowed);
  const auto number = value.get<std::int64_t>();
  if (number == 0 && zero_is_default) return json::parse(leaf.initial);
  if (number < leaf.least || number > leaf.most) return bucket_props_wrong(leaf, value, allowed);
  return value;
}

Result<json> checked_text(const Leaf& leaf, const json& value) {
  if (!value.is_string()) return bucket_props_wrong(leaf, value, "a string is allowed");
  const auto text = value.get<std::string>();
  switch (leaf.kind) {
    case Kind::duration:
      if (!parse_duration(text))
        return bucket_props_wrong(leaf, value,
                                  "a duration such as \"90s\", \"10m\" or \"2h0m\" is allowed");
      return value;
    case Kind::size: {
      const auto bytes = parse_size(text);
      if (!bytes || *bytes < static_cast<std::uint64_t>(leaf.least) ||
          *bytes > static_cast<std::uint64_t>(leaf.most))
        return bucket_props_wrong(leaf, value,
                                  fmt::format("a size from {} to {} is allowed",
                                              size_text(static_cast<std::uint64_t>(leaf.least)),
                                              size_text(static_cast<std::uint64_t>(leaf.most))));
      return value;
    }
    case Kind::word:
      if (has_word(leaf.later, text)) return not_yet(leaf, value, readable(leaf.words));
      if (!has_word(leaf.words, text))
        return bucket_props_wrong(leaf, value, readable(leaf.words) + " is allowed");
      if (text.empty()) return json::parse(leaf.initial);
      return value;
    default:
      if (text.size() > static_cast<std::size_t>(leaf.most))
        return bucket_props_wrong(leaf, "...",
                                  fmt::format("at most {} bytes are allowed", leaf.most));
      return value;
  }
}

/// `value` as it will be kept.
Result<json> checked(const Leaf& leaf, const json& value) {
  if (leaf.kind == Kind::integer || leaf.kind == Kind::count) return checked_number(leaf, value);
  json initial = json::parse(leaf.initial);
  if (leaf.kind == Kind::boolean || initial.is_boolean()) {
    if (!value.is_boolean()) return bucket_props_wrong(leaf, value, "true or false is allowed");
    if (leaf.kind == Kind::fixed && value != initial) return not_yet(leaf, value, dump(initial));
    return value;
  }
  if (leaf.kind != Kind::fixed) return checked_text(leaf, value);
  // AIStore writes some numbers as strings, and takes both.
  const bool is_same = value == initial || (initial.is_string() && value.is_number() &&
                                            dump(value) == initial.get<std::string>());
  if (!is_same && value.is_structured())
    return bucket_props_wrong(leaf, value, "a value like " + dump(initial) + " is allowed");
  if (!is_same) return not_yet(leaf, value, dump(initial));
  return initial;
}

Status bucket_props_take(const Leaf& leaf, const json& value, BucketProps& props) {
  TRY(const json kept, checked(leaf, value));
  if (leaf.path == "durability") {
    TRY(props.durability, parse_durability(kept.get<std::string>()));
  } else if (leaf.path == "versioning.enabled") {
    props.versioning = kept.get<bool>();
  } else if (kept == json::parse(leaf.initial)) {
    props.others.erase(std::string(leaf.path));
  } else {
    props.others[std::string(leaf.path)] = dump(kept);
  }
  return {};
}

Status bucket_props_take_part(const std::string& path, const json& wanted, BucketProps& props) {
  for (const auto& [key, value] : wanted.items()) {
    if (value.is_null()) continue;  // in Go's messages: not given
    const std::string name = to_lower(path.empty() ? key : fmt::format("{}.{}", path, key));
    if (name == "force" && !value.is_boolean())
      return fail(Errc::invalid_argument, "\"force\" cannot be {}: true or false is allowed",
                  dump(value));
    const auto leaf = std::find_if(kLeaves.begin(), kLeaves.end(),
                                   [&](const Leaf& each) { return each.path == name; });
    if (leaf != kLeaves.end()) {
      TRY_OK(bucket_props_take(*leaf, value, props));
      continue;
    }
    const bool is_branch = std::any_of(kLeaves.begin(), kLeaves.end(), [&](const Leaf& each) {
      return each.path.starts_with(name + ".");
    });
    if (!is_branch) continue;
    if (!value.is_object())
      return fail(Errc::invalid_argument,
                  "bucket property '{}' cannot be {}: it is an object with properties of its own",
                  name, dump(value));
    TRY_OK(bucket_props_take_part(name, value, props));
  }
  return {};
}

bool on_nodes(const BucketProps& props) {
  const auto domain = props.others.find("mirror.domain");
  return domain != props.others.end() && domain->second == R"("node")";
}

std::uint8_t number_of_copies(const BucketProps& props) {
  const auto number = props.others.find("mirror.copies");
  return number == props.others.end() ? 2 : static_cast<std::uint8_t>(std::stoi(number->second));
}

bool is_left_out(const Leaf& leaf) {
  return std::find(kLeftOutWhenDefault.begin(), kLeftOutWhenDefault.end(), leaf.path) !=
         kLeftOutWhenDefault.end();
}

}  // namespace

std::string_view to_string(Durability durability) noexcept {
  switch (durability) {
    case Durability::nosync: return "nosync";
    case Durability::strict: return "strict";
    case Durability::owner: return "owner";
    case Durability::full: break;
  }
  return "full";
}

Result<Durability> parse_durability(std::string_view text) {
  if (text == "full") return Durability::full;
  if (text == "nosync") return Durability::nosync;
  if (text == "strict") return Durability::strict;
  if (text == "owner") return Durability::owner;
  return fail(Errc::invalid_argument, "durability '{}': it is full, nosync, strict or owner", text);
}

json props_tree(const BucketProps& props) {
  json tree{{"Renamed", ""},
            {"extra", {{"aws", json::object()}, {"gcp", json::object()}, {"oci", json::object()}}}};
  for (const Leaf& leaf : kLeaves)
    if (!is_left_out(leaf)) at_path(tree, leaf.path) = json::parse(leaf.initial);
  for (const auto& [path, value] : props.others)
    if (path != kSpreadKey && path != kRecordCopiesKey && path != kCodedKey)
      at_path(tree, path) = json::parse(value, nullptr, false);
  tree["versioning"]["enabled"] = props.versioning;
  tree["durability"] = to_string(props.durability);
  return tree;
}

Result<BucketProps> with_changes(BucketProps props, const json& wanted) {
  if (wanted.is_null()) return props;
  if (!wanted.is_object())
    return fail(Errc::invalid_argument, "bucket properties must be an object, not {}",
                dump(wanted));
  const bool was_coded = was_ever_coded(props);
  TRY_OK(bucket_props_take_part("", wanted, props));
  if (props.others.contains("mirror.enabled") && !on_nodes(props))
    props.others[kSpreadKey] = "true";
  if (was_coded || coding_of(props)) props.others[kCodedKey] = "true";
  return props;
}

std::string checksum_type_of(const BucketProps& props) {
  const auto type = props.others.find("checksum.type");
  if (type == props.others.end()) return "xxhash2";
  return type->second.substr(1, type->second.size() - 2);  // a word in quotes
}

std::uint8_t copies_of(const BucketProps& props) {
  if (props.others.empty()) return 0;
  const auto of_records = props.others.find(kRecordCopiesKey);
  if (of_records != props.others.end())
    return static_cast<std::uint8_t>(std::stoul(of_records->second));
  if (!props.others.contains(kSpreadKey)) return 0;
  if (!props.others.contains("mirror.enabled") || on_nodes(props)) return 1;
  return number_of_copies(props);
}

std::uint8_t node_copies_of(const BucketProps& props) {
  if (props.others.empty() || !on_nodes(props)) return 1;
  return props.others.contains("mirror.enabled") ? number_of_copies(props) : 1;
}

std::optional<CodingProps> coding_of(const BucketProps& props) {
  if (props.others.empty() || !props.others.contains("ec.enabled")) return std::nullopt;
  const auto number = [&](const char* key, std::int64_t initial) {
    const auto found = props.others.find(key);
    return found == props.others.end() ? initial : std::stoll(found->second);
  };
  const auto layout = props.others.find("ec.layout");
  const bool is_striped = layout != props.others.end() && layout->second == R"("striped")";
  return CodingProps{static_cast<std::uint8_t>(number("ec.data_slices", 2)),
                     static_cast<std::uint8_t>(number("ec.parity_slices", 2)),
                     number("ec.objsize_limit", 262144), !is_striped};
}

bool was_ever_coded(const BucketProps& props) {
  return !props.others.empty() &&
         (props.others.contains(kCodedKey) || props.others.contains("ec.enabled"));
}

std::uint8_t replicas_of(const BucketProps& props) {
  const auto coding = coding_of(props);
  return coding ? static_cast<std::uint8_t>(1 + coding->m) : node_copies_of(props);
}

BucketProps with_record_copies(BucketProps props, std::size_t targets) {
  const auto coding = coding_of(props);
  if (!coding || targets == 0) return props;
  const std::size_t wanted = coding->m + std::size_t{1};
  const std::size_t each = (wanted + targets - 1) / targets;
  if (each > std::max<std::size_t>(1, copies_of(props)))
    props.others[kRecordCopiesKey] = std::to_string(each);
  return props;
}

Status check_coding(const BucketProps& props) {
  const auto coding = coding_of(props);
  if (!coding && props.durability == Durability::owner)
    return fail(Errc::invalid_argument,
                "durability \"owner\" says when slices come: it needs ec.enabled");
  if (!coding) return {};
  constexpr int kSlicesMax = 32;
  if (coding->k + coding->m > kSlicesMax)
    return fail(Errc::invalid_argument,
                "ec.data_slices {} and ec.parity_slices {}: together they can be {} at most",
                coding->k, coding->m, kSlicesMax);
  if (props.others.contains("mirror.enabled"))
    return fail(Errc::invalid_argument,
                "mirror.enabled and ec.enabled exclude each other: choose one of them");
  return {};
}

Status check_other_coding(const BucketProps& before, const BucketProps& after) {
  if (coding_of(before).has_value() == coding_of(after).has_value()) return {};
  if (after.others.contains(kRecordCopiesKey))
    return fail(
        Errc::unsupported,
        "ec.enabled: there are, or were, fewer targets than ec.parity_slices + 1, so it can be "
        "chosen when a bucket is made only: make a new bucket and copy this one to it");
  if (copies_of(before) > 0)
    return fail(Errc::unsupported,
                "ec.enabled: the bucket has, or had, copies on drives and cannot be coded: make a "
                "new bucket "
                "and copy this one to it");
  return {};
}

Result<BucketProps> with_coding(BucketProps props, const json& wanted) {
  json asked = wanted;
  if (wanted.is_string()) asked = json::parse(wanted.get<std::string>(), nullptr, false);
  if (asked.is_null() || (wanted.is_string() && wanted.get<std::string>().empty()))
    asked = json::object();
  if (!asked.is_object())
    return fail(Errc::invalid_argument,
                "ec-encode wants the text of an object such as "
                "{{\"data_slices\":4,\"parity_slices\":2}}, not {}",
                dump(wanted));
  json ec{{"enabled", true}};
  for (const char* key : {"data_slices", "parity_slices", "objsize_limit", "layout"})
    if (const auto found = asked.find(key); found != asked.end() && !found->is_null())
      ec[key] = *found;
  return with_changes(std::move(props), {{"ec", std::move(ec)}});
}

Status check_copies(const BucketProps& before, const BucketProps& after, bool on_nodes) {
  if (after.others.contains(kRecordCopiesKey)) return {};  // both, which 019 allows for coded ones
  if (on_nodes && copies_of(after) > 0)
    return fail(Errc::unsupported,
                "the bucket has, or had, copies on nodes and cannot have any on drives: make a new "
                "bucket and copy this one to it");
  if (copies_of(before) > 0 && node_copies_of(after) > 1)
    return fail(Errc::unsupported,
                "the bucket has, or had, copies on drives and cannot have any on nodes: make a new "
                "bucket and copy this one to it");
  return {};
}

BucketProps reset_props(const BucketProps& props, BucketProps defaults) {
  if (was_ever_coded(props)) defaults.others[kCodedKey] = "true";
  for (const char* key : {kSpreadKey, kRecordCopiesKey})
    if (const auto found = props.others.find(key); found != props.others.end())
      defaults.others[key] = found->second;
  // The server of a bucket's objects stays.
  for (const auto& [key, value] : props.others)
    if (key.starts_with("extra.") && key != "extra.custom") defaults.others[key] = value;
  return defaults;
}

BucketProps with_copies(BucketProps props, int copies) {
  if (copies > 1) {
    props.others["mirror.enabled"] = "true";
    props.others["mirror.copies"] = std::to_string(copies);
    if (copies == 2) props.others.erase("mirror.copies");
    if (!on_nodes(props)) props.others[kSpreadKey] = "true";
  } else {
    props.others.erase("mirror.enabled");
  }
  return props;
}

}  // namespace tarn::api
