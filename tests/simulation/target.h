#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/cluster/place/hand_over.h"
#include "tests/simulation/history.h"
#include "tests/simulation/store.h"
#include "tests/simulation/world.h"

namespace tarn::simulation {

/// An object or, with value 0, a tombstone.
struct Record {
  Generation generation;
  Value value = 0;
};

class Target;

/// State that the nodes of one schedule share.
struct Nodes {
  World& world;
  Store& store;
  std::vector<std::string> names;
  std::vector<std::uint64_t> digests;
  std::vector<std::unique_ptr<Target>> targets = {};  ///< [0] is at place 1
  /// Greatest generation that was acknowledged, by name.
  std::vector<Generation> acknowledged = {};
  Value last_value = 0;
  std::string violation = {};

  [[nodiscard]] Target& target(const std::string& id) const {
    return *targets[static_cast<std::size_t>(std::stoul(id.substr(1))) - 1];
  }
  void violated(std::string what) {
    world.trace("VIOLATION {}", what);
    if (violation.empty()) violation = std::move(what);
  }
};

/// How a request at a target ended.
struct Answer {
  enum class Kind : std::uint8_t { done, no_effect, unknown, other_owner, exists };
  Kind kind = Kind::no_effect;
  Value value = 0;
  std::uint64_t map_version = 0;
};
using Reply = std::function<void(Answer)>;

/// Answer of a node on one name when another asks.
struct Found {
  bool is_authoritative = false;  ///< false: it cannot tell, or acts on a newer map
  std::optional<Record> record;
};

/// A model of a storage target: the real HandOver, placement and plans, over a disk that keeps what
/// was synced. Public functions run at its place, as messages or events.
class Target {
 public:
  static constexpr std::size_t kDrives = 2;

  Target(Nodes& nodes, Place place);

  /// The process starts; drives whose bit is in `missing` are away until the next start.
  void boot(unsigned missing);
  /// The process dies; of each commit under way, the disk has all or nothing.
  void crash();

  void learn(const StatePtr& state);
  /// A client's PUT, or DELETE (value 0), that a proxy sent here acting on `version`. `create`:
  /// only when there is nothing (If-None-Match: *).
  void put(std::size_t name, Value value, bool create, std::uint64_t version, const Reply& reply);
  void get(std::size_t name, std::uint64_t version, const Reply& reply);
  /// Records of names that are in place here (own) or misplaced, for a list by `version`; nothing
  /// when it is not authoritative for them.
  using Listed = std::vector<std::optional<Record>>;
  void list(bool own, std::uint64_t version,
            const std::function<void(std::optional<Listed>)>& reply);
  void look_up(std::size_t name, std::uint64_t version,
               const std::function<void(const Found&)>& reply);
  /// Stores what moved here; says whether it is, or something newer, on stable storage.
  void take_copy(std::size_t name, const Record& record, const cluster::CopySender& sender,
                 const std::function<void(bool)>& reply);

  [[nodiscard]] Place place() const { return place_; }
  [[nodiscard]] std::optional<Record> on_disk(std::size_t name) const;
  void wipe();
  /// Writes that its drives begin before `until` are not done before then.
  void hang_drives(Time until) { hung_until_ = until; }
  std::uint64_t copies_taken = 0;

 private:
  struct Write;
  struct Read;
  World& world() { return nodes_.world; }
  [[nodiscard]] const cluster::Ownership& map() const { return *hand_over_->state()->map; }
  [[nodiscard]] bool knows() const { return hand_over_->state() != nullptr; }
  [[nodiscard]] bool is_replica(std::size_t name) const;
  [[nodiscard]] std::int64_t lease() const;
  void with_version(std::uint64_t version, const std::function<void(bool)>& then);

  void tick();
  void renew();
  void poll();
  void renewed(bool kept, Time sent);
  void enlist();
  void tell();
  [[nodiscard]] bool holds_only_its_own() const;

  void try_put(const std::shared_ptr<Write>& write, int attempt);
  void commit(const std::shared_ptr<Write>& write);
  void check_absent(const std::shared_ptr<Write>& write);
  void write_out(const std::shared_ptr<Write>& write);
  void stored(const std::shared_ptr<Write>& write, const Record& record);
  void end(const std::shared_ptr<Write>& write, Answer::Kind kind);
  void try_get(const std::shared_ptr<Read>& read);
  void ask(const std::shared_ptr<Read>& read, Target& other);
  void asked_all(const std::shared_ptr<Read>& read);
  void store_copy(std::size_t name, const Record& record, const cluster::CopySender& sender,
                  const std::function<void(bool)>& reply);

  void rebalance();
  void send_away(std::size_t name, const Record& record);
  void forget_tombstones();

  [[nodiscard]] std::optional<Record> newest(std::size_t name) const;
  [[nodiscard]] bool is_authoritative_for(const std::optional<Record>& record) const;
  void write_disk(std::size_t name, const Record& record);
  void erase(std::size_t name, const Generation& up_to);
  [[nodiscard]] Time disk_delay();

  Nodes& nodes_;
  Place place_;
  std::string id_;
  std::array<std::vector<std::optional<Record>>, kDrives> disk_;

  // Of one life of the process.
  unsigned missing_ = 0;
  Time hung_until_ = 0;
  std::unique_ptr<cluster::HandOver> hand_over_;
  std::int64_t lease_ = 0;
  std::int64_t key_changed_ = 0;
  Time valid_until_ = 0;
  std::uint64_t incarnation_ = 0;
  std::uint64_t counter_ = 0;
  bool telling_ = false;
  cluster::TargetStatus told_;
  std::vector<bool> locked_;   // a commit of the name is under way
  std::vector<bool> sending_;  // a copy of the name is on its way elsewhere
  struct Syncing {
    std::size_t name;
    Record record;
    std::uint64_t number;
  };
  std::vector<Syncing> syncing_;  // what a crash leaves whole or not at all
  std::uint64_t syncs_ = 0;
};

}  // namespace tarn::simulation
