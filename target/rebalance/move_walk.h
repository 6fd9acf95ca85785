#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/steady_timer.hpp>

#include "common/api/move_progress.h"
#include "target/node/move_pace.h"
#include "target/node/node.h"

namespace tarn::target {

/// A record that is to be moved.
struct WalkEntry {
  const cluster::BucketRecord* bucket = nullptr;  ///< within the walk's state
  ObjectName name;
  io::ObjectRecord record;  ///< as it was on the drive that is walked over
  // Fields for prepare() and handle():
  std::vector<std::string> to;  ///< targets that want it
  bool given_up = false;        ///< no target can take it now
  bool awaited = false;         ///< other targets have not sent it to all of its replicas yet
};

/// A walk over all drives of a target that moves what does not belong where it lies: what rebalance
/// and resilver have in common. Pages of the indexes, so memory is bounded; all drives at the same
/// time, each with a few workers that read in the drive's turns as any reader does. It looks
/// through everything again until a look finds nothing to move. For one loop.
class MoveWalk {
 public:
  MoveWalk(TargetNode& node, const Pace& pace, api::MoveProgress& progress)
      : node_(node), pace_(pace), progress_(progress) {}
  virtual ~MoveWalk() = default;
  MoveWalk(const MoveWalk&) = delete;
  MoveWalk& operator=(const MoveWalk&) = delete;

  /// Ok: nothing is left to be moved, and no drive is away. cancelled and conflict as Pace;
  /// unavailable or io when something could not be moved: what could be was.
  Task<Status> run();

 protected:
  /// True if this record on `drive` has to be moved; of a name with several copies, if the name
  /// has. On the drive's threads: quick, and pure.
  [[nodiscard]] virtual bool concerns(const Drive& drive, const cluster::BucketRecord& bucket,
                                      const std::string& uname) const = 0;
  /// Called when a look through everything has ended and nothing failed.
  virtual void round_done() {}
  /// Shown all entries of a page before they are handled one by one.
  virtual Task<Status> prepare(std::vector<WalkEntry>& entries) = 0;
  /// Moves one. False: it is not what it was any more, the next look will find out. Errors of the
  /// walk (cancelled, conflict) end it, other errors are those of the entry.
  virtual Task<Result<bool>> handle(Drive& drive, const WalkEntry& entry) = 0;
  /// Called when an entry failed for good in this round.
  virtual void given_up(const WalkEntry&, const Error&) {}
  void note_failure(std::uint64_t names, const Error& error);

  TargetNode& node_;
  const Pace& pace_;
  api::MoveProgress& progress_;
  std::shared_ptr<const cluster::ClusterState> state_;  ///< of the present round

 private:
  struct Page {
    std::vector<WalkEntry> entries;
    std::string last;  ///< the last name that was looked at
    bool more = false;
    std::size_t next = 0;  ///< of `entries` that no worker has taken
  };
  struct Count {
    std::uint64_t names = 0;
    std::uint64_t bytes = 0;
  };
  Task<Status> count();
  Task<Status> count_drive(Drive& drive);
  Task<Status> move();
  Task<Status> move_drive(Drive& drive);
  Task<Result<Page>> next_page(Drive& drive, const cluster::BucketRecord& bucket, std::string after,
                               Count* only_count);
  Task<void> leave_to_others(const Drive& drive, Page& page);
  Task<Status> work(Drive& drive, Page& page, std::size_t worker, asio::steady_timer& idle);
  Task<Status> take_entries(Drive& drive, Page& page, std::size_t worker, asio::steady_timer& idle);
  Task<Result<bool>> handle_patiently(Drive& drive, const WalkEntry& entry);
  [[nodiscard]] std::size_t workers(const Drive& drive) const;

  std::uint64_t handled_ = 0;  // in this round
  std::string first_error_;
  bool ended_ = false;  // by an error of the walk
};

}  // namespace tarn::target
