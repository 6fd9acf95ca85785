#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/history.h"
#include "tests/simulation/target.h"

namespace tarn::simulation {

/// A model of a proxy, of clients that use it, and of the coordinator, which any proxy may be. Here
/// all are at the same time, since that is harder.
class Proxy {
 public:
  Proxy(Nodes& nodes, Place place, std::vector<std::vector<Operation>>& history);

  void boot();
  /// As a restart would: it knows nothing any more.
  void forget();
  void learn(const StatePtr& state);
  /// One client that does `count` operations, one after the other.
  void run_client(int count);
  /// Reads every name, and lists, until each has been answered once.
  void read_all();
  [[nodiscard]] std::size_t unread() const { return unread_; }

  cluster::AbsenceLimits limits;
  /// True if what a target holds may be given up.
  std::function<bool(const std::string&)> may_fence = [](const std::string&) { return false; };

 private:
  struct Request;
  struct Listing;
  World& world() { return nodes_.world; }
  void tick();
  void coordinate();
  [[nodiscard]] std::chrono::nanoseconds absent_for(const std::string& id) const;
  void next_operation(int left);
  void send(const std::shared_ptr<Request>& request);
  void answered(const std::shared_ptr<Request>& request, Answer answer);
  void finish(const std::shared_ptr<Request>& request, Answer answer);
  void list(const std::function<void(bool)>& done);
  void list_round(const std::shared_ptr<Listing>& listing, bool own);
  void listed(const std::shared_ptr<Listing>& listing);
  void read_until_answered(std::size_t name);
  void list_until_answered();

  Nodes& nodes_;
  Place place_;
  std::vector<std::vector<Operation>>& history_;
  StatePtr state_;
  std::map<std::string, Time> absent_since_;
  std::size_t unread_ = 0;
};

}  // namespace tarn::simulation
