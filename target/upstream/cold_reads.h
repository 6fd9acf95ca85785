#pragma once

#include "target/node/cold_objects.h"
#include "target/upstream/fill.h"
#include "target/upstream/filling.h"
#include "target/upstream/part_reads.h"
#include "target/upstream/upstream.h"

namespace tarn::target {

struct TargetNode;

/// Answers reads of objects that the cluster does not have from upstream (docs/decisions/021).
/// Concurrent readers of one object share one Fill; its first reader begins it, and it goes on when
/// all of them have left. Thread-safe.
class ColdReads final : public ColdObjects {
 public:
  /// Both must outlive it, and the tasks in `node.aside`.
  ColdReads(TargetNode& node, Upstream& upstream) : node_(node), upstream_(upstream) {}

  /// conflict when the object has come meanwhile and nothing was answered yet.
  Task<Status> get(http::Request& request, const ObjectRequest& wanted) override;
  Task<Status> pass_through(http::Request& request, const ObjectRequest& wanted) override;
  Task<Result<std::uint64_t>> fetch(const ObjectRequest& wanted, std::stop_token stop) override;
  Task<Result<std::uint64_t>> size(const ObjectRequest& wanted) override;
  Task<Result<bool>> confirm(const ObjectRequest& wanted, const io::ObjectRecord& record) override;
  Task<bool> wait_stored(const ObjectRequest& wanted) override;
  [[nodiscard]] bool is_fetching(const ObjectRequest& wanted) const override {
    return board_.find(wanted.name.key()) != nullptr;
  }
  [[nodiscard]] bool was_confirmed(const ObjectRequest& wanted,
                                   const io::ObjectRecord& record) const override;
  Task<Status> head(http::Request& request, const ObjectRequest& wanted, bool status_only) override;

  /// Answers fill_of_former_owner() of another target.
  Task<Status> send_fill(http::Request& request);

  [[nodiscard]] FillBoard& board() { return board_; }

 private:
  Task<bool> is_of_now(const ObjectRequest& wanted, const Fill& fill);
  Task<FillBoard::Joined> join_or_begin(const ObjectRequest& wanted, FillFrom from);
  Task<Status> evict(const ObjectRequest& wanted, Generation version);
  Task<Status> check_folder(const ObjectRequest& wanted, const Error& why);
  Task<Result<bool>> has_newest(const ObjectRequest& wanted, Fill& fill);
  Task<Result<std::shared_ptr<Fill>>> fill_for(const ObjectRequest& wanted, bool newest);
  Task<bool> is_of_whole(const ObjectRequest& wanted, std::string_view range);
  Task<Status> get_part(http::Request& request, const ObjectRequest& wanted,
                        std::shared_ptr<Fill> fill);
  Task<Status> follow(http::Request& request, const ObjectRequest& wanted,
                      std::shared_ptr<Fill> fill);

  TargetNode& node_;
  Upstream& upstream_;
  FillBoard board_;
  PartReads parts_;
};

}  // namespace tarn::target
