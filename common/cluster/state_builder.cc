#include "common/cluster/state_builder.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/encoding.h"
#include "common/cluster/keys.h"

namespace tarn::cluster {
namespace {

using nlohmann::json;

/// A document of type T. nlohmann's exceptions end here.
template <class T>
Result<T> document(const std::string& key, const std::string& text) {
  try {
    return json::parse(text).get<T>();
  } catch (const std::exception& problem) {
    return fail(Errc::corrupt, "key {} of the meta store: {}", key, problem.what());
  }
}

/// Takes one key into `state`. Keys that this version does not know are left alone.
Status take(const std::string& key, StateBuilder::Value& held, ClusterState& state) {
  const std::string& value = held.text;
  if (key == keys::kCluster) {
    state.uuid = value;
  } else if (key == keys::kMap) {
    if (!held.map) {
      TRY(held.map, document<Smap>(key, value));
    }
    state.map = *held.map;
  } else if (key == keys::kBmdVersion) {
    TRY(state.bmd.version, decode_number(key, value));
  } else if (key.starts_with(keys::kBuckets)) {
    if (!held.bucket) {
      TRY(held.bucket, document<BucketRecord>(key, value));
    }
    state.bmd.buckets[held.bucket->name] = *held.bucket;
  } else if (key.starts_with(keys::kDeadBuckets)) {
    TRY(const auto id, decode_number(key, std::string_view(key).substr(keys::kDeadBuckets.size())));
    state.bmd.dead.insert(BucketId{id});
  } else if (key.starts_with(keys::kLive)) {
    state.live.insert(key.substr(keys::kLive.size()));
  } else if (key == keys::kSealed) {
    state.sealed = true;
  } else if (key == keys::kRevisionBase) {
    TRY(const auto base, decode_number(key, value));
    state.revision_base = static_cast<Revision>(base);
  } else if (key == keys::kPrimary) {
    state.primary = value;
  } else if (key == keys::kConfig) {
    TRY(state.config, document<ClusterConfig>(key, value));
  } else if (key == keys::kMovedTo) {
    state.moved_to = value;
  } else if (key == keys::kSchema && value != keys::kSchemaText) {
    return fail(Errc::unsupported,
                "the meta store has format {}, this version of Tarn reads format {}", value,
                keys::kSchemaText);
  }
  return {};
}

}  // namespace

Result<std::uint64_t> decode_number(std::string_view key, std::string_view text) {
  const auto value = parse_u64(text);
  if (!value) return fail(Errc::corrupt, "key {} of the meta store: '{}' is no number", key, text);
  return *value;
}

std::string encode(const LiveRecord& record) {
  return json{{"role", record.role == Role::proxy ? "proxy" : "target"},
              {"map", record.map_version},
              {"bmd", record.bmd_version}}
      .dump();
}

Result<LiveRecord> decode_live(const KeyValue& item) {
  try {
    const json in = json::parse(item.value);
    LiveRecord out;
    out.role = in.at("role") == "proxy" ? Role::proxy : Role::target;
    in.at("map").get_to(out.map_version);
    in.at("bmd").get_to(out.bmd_version);
    return out;
  } catch (const std::exception& problem) {
    return fail(Errc::corrupt, "key {} of the meta store: {}", item.key, problem.what());
  }
}

void StateBuilder::reset(const RangeResult& all) {
  values_.clear();
  for (const KeyValue& item : all.items) values_[item.key] = Value{item.value};
  revision_ = all.revision;
}

void StateBuilder::apply(const WatchBatch& batch) {
  for (const WatchEvent& event : batch.events) {
    if (event.type == WatchEvent::Type::put) {
      values_[event.item.key] = Value{event.item.value};
    } else {
      values_.erase(event.item.key);
    }
  }
  revision_ = batch.revision;
}

Revision StateBuilder::ordinal() const {
  const auto base = values_.find(std::string(keys::kRevisionBase));
  const auto value = base == values_.end() ? std::nullopt : parse_u64(base->second.text);
  return revision_ + static_cast<Revision>(value.value_or(0));
}

Result<std::shared_ptr<const ClusterState>> StateBuilder::build() {
  auto state = std::make_shared<ClusterState>();
  for (auto& [key, value] : values_) TRY_OK(take(key, value, *state));
  if (state->uuid.empty())
    return fail(Errc::not_found, "there is no cluster in the meta store yet");
  state->revision = revision_ + state->revision_base;
  return std::shared_ptr<const ClusterState>(std::move(state));
}

}  // namespace tarn::cluster
