#include "common/api/inventory.h"

#include <nlohmann/json.hpp>

#include "common/base/read_json.h"

namespace tarn::api {
namespace {

using nlohmann::json;

constexpr std::string_view kCreateInventory = "create-inventory";

Error wrong_order(std::string_view what) {
  return {Errc::invalid_argument, fmt::format("{}: {}", kCreateInventory, what)};
}

Status check_inventory_name(const std::string& name) {
  if (name.empty()) return {};
  if (name.find('/') != std::string::npos)
    return fail(wrong_order("\"name\" must not have a slash"));
  return check_object_name(name);
}

}  // namespace

Bucket inventory_store() {
  Bucket out;
  out.name = ".sys-inventory";
  return out;
}

bool is_system_bucket(const Bucket& bucket) { return bucket == inventory_store(); }

std::string inventory_object(const Bucket& bucket, std::string_view name) {
  return bucket.uname(name);
}

Result<InventoryOrder> parse_inventory_order(const json& value) {
  InventoryOrder out;
  if (value.is_null()) return out;
  if (!value.is_object()) return fail(wrong_order("\"value\" is no JSON object"));
  TRY_OK(read_json(Errc::invalid_argument, kCreateInventory, [&] {
    out.name = value.value("name", "");
    out.prefix = value.value("prefix", "");
    out.force = value.value("force", false);
    const auto names = value.value<std::uint64_t>("names_per_chunk", 0);
    if (names != 0) out.names_of_chunk = names;
  }));
  TRY_OK(check_inventory_name(out.name));
  TRY_OK(check_prefix(out.prefix));
  if (out.names_of_chunk < InventoryOrder::kNamesOfChunkMin ||
      out.names_of_chunk > InventoryOrder::kNamesOfChunkMax)
    return fail(wrong_order(fmt::format("\"names_per_chunk\" is from {} to {}",
                                        InventoryOrder::kNamesOfChunkMin,
                                        InventoryOrder::kNamesOfChunkMax)));
  return out;
}

void to_json(json& out, const InventoryInfo& info) {
  out = {{"bucket", info.bucket},        {"name", info.name},    {"obj_name", info.object},
         {"prefix", info.prefix},        {"size", info.bytes},   {"started", info.started_ns},
         {"finished", info.finished_ns}, {"ntotal", info.names}, {"smap_ver", info.map_version},
         {"chunks", info.chunks},        {"nat", info.targets}};
}

void from_json(const json& in, InventoryInfo& info) {
  info.bucket = in.at("bucket");
  info.name = in.at("name");
  info.object = in.at("obj_name");
  info.prefix = in.at("prefix");
  info.bytes = in.at("size");
  info.started_ns = in.at("started");
  info.finished_ns = in.at("finished");
  info.names = in.at("ntotal");
  info.map_version = in.at("smap_ver");
  info.chunks = in.at("chunks");
  info.targets = in.at("nat");
}

}  // namespace tarn::api
