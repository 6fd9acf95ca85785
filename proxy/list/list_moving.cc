// A list while names move between targets: first misplaced names, then those in place
// (docs/decisions/011): a name that moves in between is in the second round. Generations of records
// decide which of two is the newer, a deleted one too.

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "common/base/check.h"
#include "common/base/gather.h"
#include "common/base/read_json.h"
#include "proxy/list/list.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr std::string_view kListMovingPath = "/v1/internal/list-moving";

struct Row {
  Generation generation;
  std::string entry;  ///< packed; empty: deleted
};

/// Answers so far about the names after one name.
struct Rows {
  std::map<std::string, Row> rows;
  std::optional<std::string> bound;  ///< after it a target has not sent all
};

void take(const json& record, const std::string& after, Rows& into) {
  Row row;
  const auto name = record.at(0).get<std::string>();
  if (name <= after) throw std::out_of_range("a name that was not asked for: " + name);
  const json& generation = record.at(1);
  row.generation = {generation.at(0), generation.at(1), generation.at(2)};
  const auto& bytes = record.at(2).get_binary();
  row.entry.assign(bytes.begin(), bytes.end());
  const auto [at, is_new] = into.rows.try_emplace(name, row);
  if (!is_new && at->second.generation < row.generation) at->second = std::move(row);
}

Status take_answer(const std::string& target, const std::string& body, const std::string& after,
                   Rows& into) {
  return read_json(Errc::internal, fmt::format("target t[{}]", target), [&] {
    const json in = json::from_msgpack(body);
    for (const json& record : in.at("records")) take(record, after, into);
    if (in.at("more").get<bool>()) {
      const auto last = in.at("last").get<std::string>();
      if (last <= after) throw std::out_of_range("its page has no end");
      if (!into.bound || last < *into.bound) into.bound = last;
    }
  });
}

class MovingList {
 public:
  MovingList(const Services& services, const KnownBucket& bucket, const ListRequest& request,
             ListSources& sources)
      : services_(services), bucket_(bucket), request_(request), sources_(sources) {}

  Task<Result<api::MergedPage>> page();

 private:
  Task<Status> round(std::vector<const cluster::Node*> targets, bool own, Rows& into);
  void add(const std::string& name, const std::string& entry);
  void add_directory(const std::string& name);
  /// Takes from `rows` the entries that the page still wants. True: it is full, and there is more.
  bool fill(const Rows& heard);

  const Services& services_;
  const KnownBucket& bucket_;
  const ListRequest& request_;
  ListSources& sources_;
  std::string after_ = request_.after;
  std::string directory_;  // the last one
  api::MergedPage page_;
};

Task<Status> MovingList::round(std::vector<const cluster::Node*> targets, bool own, Rows& into) {
  std::vector<Task<Result<std::string>>> calls;
  for (const cluster::Node* target : targets) {
    api::Query query =
        list_query(*bucket_.state, *bucket_.record, request_, after_, request_.limit);
    query.set("own", own ? "1" : "0");
    calls.push_back(ask_for_list(services_, *target,
                                 std::string(kListMovingPath) + "?" + query.encode(), sources_));
  }
  const auto answers = co_await gather(std::move(calls));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    CO_TRY_OK(answers[i]);
    CO_TRY_OK(take_answer(targets[i]->id, *answers[i], after_, into));
  }
  co_return Status();
}

void MovingList::add(const std::string& name, const std::string& entry) {
  TARN_CHECK(page_.entries.size() < request_.limit);
  TARN_CHECK(page_.entries.empty() || page_.entries.back().name < name);
  auto text = std::make_unique<std::string>(name + entry);
  const std::string_view all = *text;
  page_.entries.push_back({all.substr(0, name.size()), all.substr(name.size())});
  page_.kept.push_back(std::move(text));
}

void MovingList::add_directory(const std::string& name) {
  TARN_CHECK(page_.entries.size() < request_.limit);
  TARN_CHECK(page_.entries.empty() || page_.entries.back().name < name);
  api::ListEntry entry;
  entry.name = name;
  entry.flags = api::kEntryPresent | api::kEntryDirectory;
  api::PagePacker packer;
  packer.add(entry);
  auto packed = packer.take(false);
  page_.entries.push_back(packed.entries.front());
  page_.kept.push_back(std::move(packed.bytes));
}

bool MovingList::fill(const Rows& heard) {
  for (const auto& [name, row] : heard.rows) {
    if (heard.bound && name > *heard.bound) return false;
    if (row.entry.empty()) continue;
    const auto slash =
        request_.recursive ? std::string::npos : name.find('/', request_.prefix.size());
    const std::string directory = slash == std::string::npos ? "" : name.substr(0, slash + 1);
    if (!directory.empty() && (directory == directory_ || directory <= request_.after)) continue;
    if (page_.entries.size() == request_.limit) {
      page_.more = true;
      return true;
    }
    if (directory.empty()) {
      add(name, row.entry);
    } else {
      directory_ = directory;
      add_directory(directory);
    }
  }
  return false;
}

Task<Result<api::MergedPage>> MovingList::page() {
  const cluster::ClusterState& state = *bucket_.state;
  const Answering& answering = sources_.answering;
  CO_TRY(const auto all, targets_for_list(state, answering, *bucket_.record));
  auto owners = state.map.placeable_targets();
  std::erase_if(owners, [&](const auto* target) { return !answering.contains(target->id); });
  while (true) {
    Rows heard;
    CO_TRY_OK(co_await round(all, false, heard));
    CO_TRY_OK(co_await round(owners, true, heard));
    if (fill(heard) || !heard.bound) co_return std::move(page_);
    TARN_CHECK(after_ < *heard.bound);
    after_ = *heard.bound;
    // 0xFF is in no UTF-8 name: after all names in the directory.
    if (!directory_.empty() && after_.starts_with(directory_)) after_ = directory_ + '\xFF';
  }
}

}  // namespace

Task<Result<api::MergedPage>> list_while_moving(const Services& services, const KnownBucket& bucket,
                                                const ListRequest& request, ListSources& sources) {
  MovingList list(services, bucket, request, sources);
  auto page = co_await list.page();
  co_return page;
}

}  // namespace tarn::proxy
