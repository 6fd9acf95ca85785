#include "common/cluster/state/state_builder.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/encoding.h"
#include "common/base/read_json.h"
#include "common/cluster/store/keys.h"

namespace tarn::cluster {
namespace {

using nlohmann::json;

/// A state that is being put together, and the input of the ownership of names.
struct Draft {
  ClusterState state;
  std::uint64_t settled = 0;
  std::map<std::string, LiveRecord> live;
};

/// Takes one key into `draft`. Keys that this version does not know are left alone.
Status state_builder_take(const std::string& key, StateBuilder::Value& held, Draft& draft) {
  const std::string& value = held.text;
  ClusterState& state = draft.state;
  if (key == keys::kCluster) {
    state.uuid = value;
  } else if (key == keys::kMap) {
    if (!held.map) {
      TRY(held.map, decode_map(value));
    }
    state.map = *held.map;
  } else if (key == keys::kBmdVersion) {
    TRY(state.bmd.version, decode_number(key, value));
  } else if (key.starts_with(keys::kBuckets)) {
    if (!held.bucket) {
      TRY(held.bucket, parse_json<BucketRecord>(value, Errc::corrupt, subject_of_key(key)));
    }
    state.bmd.buckets[held.bucket->name] = *held.bucket;
  } else if (key.starts_with(keys::kDeadBuckets)) {
    TRY(const auto id, decode_number(key, std::string_view(key).substr(keys::kDeadBuckets.size())));
    state.bmd.dead.insert(BucketId{id});
  } else if (key.starts_with(keys::kLive)) {
    const std::string node = key.substr(keys::kLive.size());
    state.live.insert(node);
    LiveRecord& record = draft.live[node];
    TRY(record, decode_live({key, value}));
    state.holders[node] = record.holder.substr(0, record.holder.find(' '));
  } else if (key == keys::kSettled) {
    TRY(draft.settled, decode_number(key, value));
  } else if (key == keys::kRevisionBase) {
    TRY(const auto base, decode_number(key, value));
    state.revision_base = static_cast<Revision>(base);
  } else if (key == keys::kPrimary) {
    state.primary = value;
  } else if (key == keys::kConfig) {
    TRY(state.config, parse_json<ClusterConfig>(value, Errc::corrupt, subject_of_key(key)));
  } else if (key == keys::kMovedTo) {
    state.moved_to = value;
  } else if (key == keys::kSchema && value != keys::kSchemaText &&
             value != keys::kZonesSchemaText && value != keys::kOldSchemaText) {
    return fail(Errc::unsupported,
                "the meta store has format {}, this version of Tarn reads format {}", value,
                keys::kZonesSchemaText);
  }
  return {};
}

}  // namespace

std::string subject_of_key(std::string_view key) {
  return fmt::format("key {} of the meta store", key);
}

Result<Smap> decode_map(std::string_view text) {
  return parse_json<Smap>(text, Errc::corrupt, "the cluster map in the meta store");
}

Result<std::uint64_t> decode_number(std::string_view key, std::string_view text) {
  const auto value = parse_u64(text);
  if (!value) return fail(Errc::corrupt, "{}: '{}' is no number", subject_of_key(key), text);
  return *value;
}

std::string encode(const LiveRecord& record) {
  json out{{"role", record.role == Role::proxy ? "proxy" : "target"},
           {"map", record.map_version},
           {"bmd", record.bmd_version}};
  if (!record.under_way.empty()) out["under_way"] = record.under_way;
  if (record.moved != 0) out["moved"] = record.moved;
  if (record.drive_set != 0) out["drive_set"] = record.drive_set;
  if (record.drives != 0) out["drives"] = record.drives;
  if (record.coding) out["coding"] = 1;
  if (record.lost_drives != 0) out["lost_drives"] = record.lost_drives;
  if (record.zones) out["zones"] = 1;
  if (!record.holder.empty()) out["holder"] = record.holder;
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<LiveRecord> decode_live(const KeyValue& item) {
  return read_json(Errc::corrupt, subject_of_key(item.key), [&] {
    const json in = json::parse(item.value);
    LiveRecord out;
    out.role = in.at("role") == "proxy" ? Role::proxy : Role::target;
    in.at("map").get_to(out.map_version);
    in.at("bmd").get_to(out.bmd_version);
    out.under_way = in.value("under_way", std::vector<std::string>());
    out.moved = in.value("moved", std::uint64_t{0});
    out.drive_set = in.value("drive_set", std::uint64_t{0});
    out.drives = in.value("drives", std::uint32_t{0});
    out.coding = in.value("coding", 0) != 0;
    out.lost_drives = in.value("lost_drives", std::uint64_t{0});
    out.zones = in.value("zones", 0) != 0;
    out.holder = in.value("holder", "");
    return out;
  });
}

std::shared_ptr<const OwnershipState> ownership_state(
    Revision revision, const Smap& map, std::uint64_t settled,
    const std::map<std::string, LiveRecord>& live) {
  auto out = std::make_shared<OwnershipState>();
  out->revision = revision;
  out->map = std::make_shared<const Ownership>(ownership_of(map));
  out->settled = settled;
  for (const auto& [id, record] : live)
    if (record.role == Role::target)
      out->live.push_back({id, record.map_version, record.under_way, record.moved, record.drive_set,
                           record.drives, record.coding, record.lost_drives});
  return out;
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
  Draft draft;
  for (auto& [key, value] : values_) TRY_OK(state_builder_take(key, value, draft));
  if (draft.state.uuid.empty())
    return fail(Errc::not_found, "there is no cluster in the meta store yet");
  auto state = std::make_shared<ClusterState>(std::move(draft.state));
  state->revision = revision_ + state->revision_base;
  state->ownership = ownership_state(state->revision, state->map, draft.settled, draft.live);
  return std::shared_ptr<const ClusterState>(std::move(state));
}

}  // namespace tarn::cluster
