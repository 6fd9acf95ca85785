#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/async.h"
#include "common/cluster/store/meta_store.h"

namespace tarn::conformance {

/// Subject of a check: a store, and a prefix for its keys that no other check uses.
struct Subject {
  cluster::MetaStore& store;
  std::string prefix;
  /// Makes the store forget the changes up to a revision, in whatever way it can be brought to.
  std::function<Task<void>(cluster::Revision)> compact;
};

/// One sentence that holds for every meta store. `run` throws std::runtime_error when it does not.
struct Check {
  std::string_view name;
  Task<void> (*run)(Subject&);
};

/// The semantics that Tarn builds on (common/cluster/store/meta_store.h): embedded store, its
/// gateway and etcd must agree on every one.
[[nodiscard]] const std::vector<Check>& meta_store_checks();

/// For stores that keep a bounded number of changes: makes so many that the oldest are forgotten.
Task<void> compact_by_writing(cluster::MetaStore& store, std::string prefix, std::size_t events);

}  // namespace tarn::conformance
