#include "target/coded/slice_messages.h"

#include <array>
#include <charconv>
#include <cstring>
#include <limits>

#include <nlohmann/json.hpp>

#include "common/base/encoding.h"
#include "common/base/random.h"
#include "common/base/read_json.h"
#include "target/replica/move_format.h"

namespace tarn::target {
namespace {

Result<std::uint64_t> slice_messages_number_in(
    const api::Query& query, const char* key,
    std::uint64_t max = std::numeric_limits<std::uint64_t>::max()) {
  const auto value = parse_u64(query.get(key));
  if (!value || *value > max) return fail(Errc::invalid_argument, "{}= is missing or wrong", key);
  return *value;
}

/// As hex64() writes it.
Result<std::uint64_t> hex_in(const api::Query& query, const char* key) {
  const std::string_view text = query.get(key);
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  const bool good = text.size() == 16 && problem == std::errc() && end == text.data() + text.size();
  if (!good) return fail(Errc::invalid_argument, "{}= is missing or not 16 hex digits", key);
  return value;
}

void set(api::Query& query, const char* key, std::uint64_t value) {
  query.set(key, std::to_string(value));
}

void set(api::Query& query, const AsOf& as_of) {
  set(query, "map", as_of.map_version);
  set(query, "bmd", as_of.bmd_version);
}

void set(api::Query& query, SliceToken token) {
  query.set("token", hex64(static_cast<std::uint64_t>(token)));
}

void set(api::Query& query, TurnFor purpose) {
  if (purpose == TurnFor::background) query.set("repair", "1");
}

TurnFor purpose_in(const api::Query& query) {
  return query.get("repair") == "1" ? TurnFor::background : TurnFor::client;
}

void set(api::Query& query, const SliceKey& key) {
  set(query, "bucket", raw(key.bucket));
  query.set("object", key.name);
  query.set("set", hex64(key.set));
  set(query, "index", key.index);
}

Result<SliceKey> key_in(const api::Query& query) {
  SliceKey key;
  TRY(const std::uint64_t bucket, slice_messages_number_in(query, "bucket"));
  TRY(key.set, hex_in(query, "set"));
  TRY(const std::uint64_t index, slice_messages_number_in(query, "index", io::kFullCopy));
  key.bucket = BucketId(bucket);
  key.name = query.get("object");
  key.index = static_cast<std::uint8_t>(index);
  if (key.name.empty()) return fail(Errc::invalid_argument, "object= is missing");
  return key;
}

using nlohmann::json;

template <class T, class ToJson>
std::string list_body(std::span<const T> items, const ToJson& to_json) {
  json out = json::array();
  for (const T& item : items) out.push_back(to_json(item));
  std::string body;
  json::to_msgpack(out, body);
  return body;
}

template <class T, class FromJson>
Result<std::vector<T>> list_in(std::string_view body, const FromJson& from_json) {
  return read_json(Errc::invalid_argument, "slices", [&]() -> Result<std::vector<T>> {
    const json in = json::from_msgpack(body);
    if (!in.is_array() || in.size() > kSlicesAtOnce)
      return fail(Errc::invalid_argument, "slices: a list of at most {} is wanted", kSlicesAtOnce);
    std::vector<T> out;
    for (const json& item : in) out.push_back(from_json(item));
    return out;
  });
}

json slice_messages_json_of(const Generation& generation) {
  return json::array({generation.map_version, generation.incarnation, generation.counter});
}

Generation generation_in(const json& in) { return {in.at(0), in.at(1), in.at(2)}; }

json slice_messages_json_of(const SliceKey& key) {
  return json::array({raw(key.bucket), key.name, key.set, key.index});
}

SliceKey key_in(const json& in) {
  return {BucketId(in.at(0).get<std::uint64_t>()), in.at(1), in.at(2), in.at(3)};
}

}  // namespace

SliceToken new_slice_token() { return SliceToken(random_u64()); }

Result<AsOf> as_of(const api::Query& query) {
  AsOf out;
  TRY(out.map_version, slice_messages_number_in(query, "map"));
  TRY(out.bmd_version, slice_messages_number_in(query, "bmd"));
  return out;
}

api::Query to_query(const SliceWrite& write, const AsOf& as_of) {
  api::Query query;
  set(query, write.token);
  set(query, write.key);
  set(query, "k", write.geometry.k);
  set(query, "m", write.geometry.m);
  set(query, "block", write.geometry.block_bytes);
  set(query, "rank", write.rank);
  if (write.bytes) set(query, "bytes", *write.bytes);
  set(query, write.purpose);
  set(query, as_of);
  return query;
}

Result<SliceWrite> slice_write_of(const api::Query& query) {
  SliceWrite out;
  TRY(out.token, slice_token_of(query));
  TRY(out.key, key_in(query));
  TRY(out.geometry.k, slice_messages_number_in(query, "k"));
  TRY(out.geometry.m, slice_messages_number_in(query, "m"));
  TRY(out.geometry.block_bytes, slice_messages_number_in(query, "block"));
  TRY_OK(ec::check(out.geometry));
  if (out.key.index != io::kFullCopy && out.key.index >= out.geometry.slices())
    return fail(Errc::invalid_argument, "{} + {} slices have no slice {}", out.geometry.k,
                out.geometry.m, out.key.index);
  TRY(out.rank, slice_messages_number_in(query, "rank", io::kFullCopy));
  if (query.find("bytes")) {
    TRY(out.bytes, slice_messages_number_in(query, "bytes"));
  }
  out.purpose = purpose_in(query);
  return out;
}

api::Query to_query(const SliceSeal& seal, const AsOf& as_of) {
  api::Query query = to_query(seal.token);
  if (seal.anew) query.set("anew", "1");
  set(query, as_of);
  return query;
}

std::string to_body(const SliceSeal& seal) { return copy_prelude(seal.attribute) + seal.label; }

Result<SliceSeal> slice_seal_of(const api::Query& query, const std::string& body) {
  SliceSeal out;
  TRY(out.token, slice_token_of(query));
  out.anew = query.get("anew") == "1";
  std::array<char, 4> prefix{};
  if (body.size() < prefix.size()) return fail(Errc::invalid_argument, "an attribute is missing");
  std::memcpy(prefix.data(), body.data(), prefix.size());
  const std::size_t bytes = from_little_endian(prefix);
  if (bytes > body.size() - prefix.size())
    return fail(Errc::invalid_argument, "an attribute of {} bytes is cut", bytes);
  auto attribute = io::decode_attribute(body.substr(prefix.size(), bytes));
  if (!attribute)
    return fail(Errc::checksum_mismatch, "what a slice is to say of itself: {}",
                attribute.error().message);
  if (attribute->record.kind != io::ObjectRecord::Kind::slice)
    return fail(Errc::invalid_argument, "only a slice is sealed");
  out.attribute = std::move(*attribute);
  out.label = body.substr(prefix.size() + bytes);
  return out;
}

api::Query to_query(SliceToken token) {
  api::Query query;
  set(query, token);
  return query;
}

Result<SliceToken> slice_token_of(const api::Query& query) {
  TRY(const std::uint64_t token, hex_in(query, "token"));
  return SliceToken(token);
}

api::Query to_query(const SliceRead& read, const AsOf& as_of) {
  api::Query query;
  set(query, read.key);
  set(query, "offset", read.range.offset);
  set(query, "bytes", read.range.bytes);
  set(query, read.purpose);
  if (read.unless_slow) query.set("unless_slow", "1");
  set(query, as_of);
  return query;
}

Result<SliceRead> slice_read_of(const api::Query& query) {
  SliceRead out;
  TRY(out.key, key_in(query));
  TRY(out.range.offset, slice_messages_number_in(query, "offset", ec::kObjectBytesMax));
  TRY(out.range.bytes, slice_messages_number_in(query, "bytes", ec::kObjectBytesMax));
  out.purpose = purpose_in(query);
  out.unless_slow = query.get("unless_slow") == "1";
  return out;
}

api::Query to_query(const SliceDrop& drop, const AsOf& as_of) {
  api::Query query;
  set(query, drop.key);
  set(query, "version", drop.up_to.map_version);
  set(query, "incarnation", drop.up_to.incarnation);
  set(query, "counter", drop.up_to.counter);
  set(query, as_of);
  return query;
}

Result<SliceDrop> slice_drop_of(const api::Query& query) {
  SliceDrop out;
  TRY(out.key, key_in(query));
  TRY(out.up_to.map_version, slice_messages_number_in(query, "version"));
  TRY(out.up_to.incarnation, slice_messages_number_in(query, "incarnation"));
  TRY(out.up_to.counter, slice_messages_number_in(query, "counter"));
  return out;
}

std::string to_body(std::span<const SliceKey> keys) {
  return list_body(keys, [](const SliceKey& key) { return slice_messages_json_of(key); });
}

Result<std::vector<SliceKey>> slice_keys_of(std::string_view body) {
  return list_in<SliceKey>(body, [](const json& in) { return key_in(in); });
}

std::string to_body(std::span<const SliceState> states) {
  return list_body(states, [](SliceState state) { return json(static_cast<int>(state)); });
}

Result<std::vector<SliceState>> slice_states_of(std::string_view body) {
  return list_in<SliceState>(body, [](const json& in) {
    const int state = in.get<int>();
    return state == 0 ? SliceState::good : state == 1 ? SliceState::waiting : SliceState::missing;
  });
}

std::string to_body(std::span<const HeldSlice> slices) {
  return list_body(slices, [](const HeldSlice& slice) {
    return json::array(
        {slice_messages_json_of(slice.key), slice_messages_json_of(slice.generation), slice.k});
  });
}

Result<std::vector<HeldSlice>> held_slices_of(std::string_view body) {
  return list_in<HeldSlice>(body, [](const json& in) {
    return HeldSlice{key_in(in.at(0)), generation_in(in.at(1)), in.at(2).get<std::uint8_t>()};
  });
}

std::string to_body(std::span<const SliceVerdict> verdicts) {
  return list_body(verdicts, [](const SliceVerdict& verdict) {
    if (verdict.kind == SliceVerdict::Kind::drop) return slice_messages_json_of(verdict.up_to);
    return json(verdict.kind == SliceVerdict::Kind::keep ? "keep" : "wait");
  });
}

Result<std::vector<SliceVerdict>> slice_verdicts_of(std::string_view body) {
  return list_in<SliceVerdict>(body, [](const json& in) -> SliceVerdict {
    if (in.is_array()) return {SliceVerdict::Kind::drop, generation_in(in)};
    return {in == "keep" ? SliceVerdict::Kind::keep : SliceVerdict::Kind::wait};
  });
}

api::Query to_query(const SliceKey& key, const AsOf& when) {
  api::Query query = to_query(when);
  set(query, key);
  return query;
}

Result<SliceKey> slice_key_of(const api::Query& query) { return key_in(query); }

api::Query to_query(const AsOf& when) {
  api::Query query;
  set(query, when);
  return query;
}

}  // namespace tarn::target
