#include "target/request/list_page.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "common/api/custom_metadata.h"
#include "common/base/check.h"
#include "common/base/gather.h"
#include "common/io/mount_info.h"
#include "target/drive/record_fields.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

/// "dir/" of "dir/sub/name" below the prefix; empty for a name that is no further down.
std::string_view directory_of(std::string_view name, const ListPlan& plan) {
  if (!plan.by_directory) return {};
  const auto slash = name.find('/', plan.prefix.size());
  return slash == std::string_view::npos ? std::string_view() : name.substr(0, slash + 1);
}

/// Record that the plan shows of a name; null: nothing.
const io::ObjectRecord* shown_of(const ListPlan& plan, std::string_view name,
                                 const io::ObjectRecord& record) {
  if (plan.shows && !plan.shows(name)) return nullptr;
  return plan.in_place_of ? plan.in_place_of(name, record) : &record;
}

/// One drive's page. Exact as long as no name lies on two drives.
Task<Result<api::PackedPage>> pack_drive(Drive& drive, const ListPlan& plan, std::string after,
                                         std::size_t limit) {
  DrivePage page(plan, location_text(plan.node, drive), after, limit);
  const auto visit = [&](std::string_view name, const io::ObjectRecord& record) {
    return page.visit(name, record);
  };
  CO_TRY_OK(co_await drive.walk(plan.bucket.id, plan.prefix, after, visit, TurnFor::client));
  co_return page.take();
}

/// Packs what the plan shows of a page of the store, up to `limit` entries.
void add_entries(const ObjectStore::Page& page, const ListPlan& plan, std::size_t limit,
                 api::MergedPage& out) {
  for (const auto& entry : page.entries) {
    if (entry.drive != nullptr && plan.shows && !plan.shows(entry.name)) continue;
    if (out.entries.size() == limit) {
      out.more = true;
      return;
    }
    EntryPacker packer(plan, entry.drive == nullptr ? "" : location_text(plan.node, *entry.drive));
    if (entry.drive == nullptr) {
      packer.add_directory(entry.name);
    } else {
      packer.add(entry.name, entry.record, entry.copies);
    }
    auto packed = packer.take(false);
    out.entries.push_back(packed.entries.front());
    out.kept.push_back(std::move(packed.bytes));
  }
}

/// The way for drives of which one may hold an older version of a name than another.
Task<Result<api::MergedPage>> list_by_generation(ObjectStore& store, const ListPlan& plan,
                                                 std::string after, std::size_t limit) {
  api::MergedPage out;
  do {
    const auto shown = [&plan](std::string_view name, const io::ObjectRecord& record) {
      return shown_of(plan, name, record);
    };
    CO_TRY(const auto page,
           co_await store.list(plan.bucket, plan.prefix, after, limit, plan.by_directory, shown));
    out.more = page.more && !page.entries.empty();
    TARN_CHECK(!out.more || after < page.entries.back().name);
    if (out.more) after = page.entries.back().name;
    add_entries(page, plan, limit, out);
  } while (out.more && out.entries.size() < limit);
  co_return out;
}

/// The checksum of the object, in hex; in `room` where the record has it as a number. Empty for an
/// object of a bucket that keeps none.
std::string_view listed_checksum(const io::ObjectRecord& record, std::array<char, 16>& room) {
  bool has_type = false;
  for (const auto& [key, value] : record.custom) {
    if (key == api::kChecksumValueKey) return value;
    has_type = has_type || key == api::kChecksumTypeKey;
  }
  if (has_type) return {};
  std::uint64_t value = record.xxh64;
  for (std::size_t i = room.size(); i-- > 0; value >>= 4U) room[i] = kHexDigits[value & 15U];
  return {room.data(), room.size()};
}

}  // namespace

void EntryPacker::add(std::string_view name, const io::ObjectRecord& record, std::uint32_t copies) {
  api::ListEntry entry;
  entry.name = name;
  entry.flags = api::kEntryPresent;
  if (fields_.size) entry.size = record.size;
  if (fields_.copies) entry.copies = copies;
  if (fields_.location) entry.location = location_;
  if (fields_.atime) entry.atime = times_.of(record.modified_ns);
  std::array<char, 16> xxh64{};
  if (fields_.checksum) entry.checksum = listed_checksum(record, xxh64);
  std::array<char, 24> version{};
  if (fields_.version) {
    const auto end =
        std::to_chars(version.data(), version.data() + version.size(), record.version).ptr;
    entry.version = {version.data(), static_cast<std::size_t>(end - version.data())};
  }
  std::string custom;
  if (fields_.custom || fields_.etag || fields_.last_modified) {
    custom = custom_text(record, fields_);
    entry.custom = custom;
  }
  packer_.add(entry);
}

void EntryPacker::add_directory(std::string_view name) {
  api::ListEntry entry;
  entry.name = name;
  entry.flags = api::kEntryPresent | api::kEntryDirectory;
  packer_.add(entry);
}

Index::Step DrivePage::visit(std::string_view name, const io::ObjectRecord& record) {
  const io::ObjectRecord* shown = shown_of(plan_, name, record);
  if (shown == nullptr || shown->kind != io::ObjectRecord::Kind::object) return {};
  TARN_CHECK(packer_.size() <= limit_);
  const auto directory = directory_of(name, plan_);
  const bool is_known = !directory.empty() && directory <= after_;
  if (packer_.size() == limit_ && !is_known) {
    more_ = true;
    return {.stop = true, .skip_to = {}};
  }
  if (directory.empty()) {
    packer_.add(name, *shown);
    return {};
  }
  if (!is_known) packer_.add_directory(directory);
  // 0xFF is in no UTF-8 name: after everything in the directory.
  return {.stop = false, .skip_to = std::string(directory) + '\xFF'};
}

std::string custom_text(const io::ObjectRecord& record, const api::ListFields& fields) {
  std::map<std::string, std::string> pairs;
  if (fields.custom)
    for (const auto& [key, value] : record.custom)
      if (!is_content_field(key)) pairs[key] = value;
  if (fields.custom)
    for (const auto& [key, value] : source_fields(record)) pairs.try_emplace(key, value);
  if (fields.etag) pairs.try_emplace("ETag", record.etag());
  if (fields.last_modified)
    pairs.try_emplace("LastModified",
                      api::format_time(record.modified_ns, api::TimeFormat::rfc3339));
  std::string out;
  for (const auto& [key, value] : pairs) {
    if (!out.empty()) out += ' ';
    out += key;
    out += ':';
    out += value;
  }
  return out.empty() ? out : "[" + out + "]";
}

std::string location_text(const std::string& node, const Drive& drive) {
  const io::MountInfo& mount = drive.mount();
  return fmt::format("t[{}]:mp[{}, {}, {}]", node, drive.path(), mount.disk, mount.type);
}

Task<Result<api::MergedPage>> list_page(ObjectStore& store, ListPlan plan, std::string after,
                                        std::size_t limit) {
  CO_TRY_OK(store.lists_all(plan.bucket));
  if (plan.bucket.copies > 0 || store.may_hold_misplaced())
    co_return co_await list_by_generation(store, plan, std::move(after), limit);
  const auto& drives = store.drives();
  api::ListMerge merge(drives.size(), limit, after);
  for (auto wanting = merge.wanting(); !wanting.empty(); wanting = merge.wanting()) {
    std::vector<Task<Result<api::PackedPage>>> walks;
    walks.reserve(wanting.size());
    for (const std::size_t i : wanting)
      walks.push_back(pack_drive(*drives[i], plan, merge.after(i), merge.batch()));
    auto pages = co_await gather(std::move(walks));
    for (std::size_t k = 0; k < wanting.size(); ++k) {
      CO_TRY(auto page, std::move(pages[k]));
      CO_TRY_OK(merge.feed(wanting[k], std::move(page)));
    }
  }
  co_return merge.take();
}

}  // namespace tarn::target
