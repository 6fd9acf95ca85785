#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/async.h"
#include "common/base/error.h"

namespace tarn::cluster {

/// A change counter of the whole store: every committed change makes a new, greater one.
using Revision = std::int64_t;
using LeaseId = std::int64_t;

struct KeyValue {
  std::string key;
  std::string value;
  Revision create_revision = 0;
  Revision mod_revision = 0;  ///< 0: the key does not exist
  LeaseId lease = 0;
};

/// Keys in [key, range_end); range_end empty: just `key`; a single NUL byte: to the end of all
/// keys.
struct RangeRequest {
  std::string key;
  std::string range_end;
  std::int64_t limit = 0;  ///< 0: all
};
struct RangeResult {
  std::vector<KeyValue> items;  ///< sorted by key
  Revision revision = 0;        ///< of the store when it answered
};

/// A condition of a transaction: the key's mod_revision (or create_revision) equals `revision`;
/// 0 means that the key does not exist.
struct Compare {
  enum class What : std::uint8_t { mod_revision, create_revision };
  std::string key;
  What what = What::mod_revision;
  Revision revision = 0;
};
struct Put {
  std::string key;
  std::string value;
  LeaseId lease = 0;  ///< 0: none. The key goes when its lease ends.
};
struct Delete {
  std::string key;
  std::string range_end;
};
/// A transaction: if all of `compare` hold, `puts` and `deletes` are done at one revision; else
/// none is. A key may be written once only: invalid_argument for one that is put twice, or put and
/// deleted.
struct Transaction {
  std::vector<Compare> compare;
  std::vector<Put> puts;
  std::vector<Delete> deletes;
};
struct TransactionResult {
  bool succeeded = false;
  Revision revision = 0;  ///< of the store after the transaction; its own if it changed a key
};

struct LeaseState {
  std::chrono::seconds left{0};
  std::chrono::seconds granted{0};
  std::vector<std::string> keys;  ///< keys that go with it, sorted
};

struct WatchEvent {
  enum class Type : std::uint8_t { put, del };
  Type type = Type::put;
  KeyValue item;  ///< for del: key and mod_revision only
};
/// Several events of one revision arrive together; `revision` is that of the last one.
struct WatchBatch {
  std::vector<WatchEvent> events;
  Revision revision = 0;
};

/// The first key after all keys that begin with `prefix`; a single NUL when there is none.
[[nodiscard]] std::string prefix_end(std::string prefix);

/// The consensus system that holds the little that a cluster must agree on (docs/architecture.md).
/// Implementations: EmbeddedStore (in the one proxy of a single machine) and GatewayStore (etcd's
/// JSON gateway, or the embedded store under the same paths). Semantics are etcd v3's. Thread-safe.
/// Errors: unavailable (out of reach; a write's outcome is then unknown and must be read again
/// before it is repeated), not_found (a lease that has ended), corrupt. A call of a cancelled
/// caller ends soon, by cancelled or as if there was no cancellation. It leaves the caller's
/// throw_if_cancelled() as it was.
class MetaStore {
 public:
  virtual ~MetaStore() = default;

  virtual Task<Result<RangeResult>> range(RangeRequest request) = 0;
  virtual Task<Result<TransactionResult>> commit(Transaction transaction) = 0;
  virtual Task<Result<LeaseId>> grant(std::chrono::seconds ttl) = 0;
  /// The seconds that the renewed lease now has.
  virtual Task<Result<std::chrono::seconds>> keep_alive(LeaseId lease) = 0;
  /// Ends the lease and deletes its keys.
  virtual Task<Status> revoke(LeaseId lease) = 0;
  virtual Task<Result<LeaseState>> time_to_live(LeaseId lease) = 0;
  /// Calls `sink` on the caller's loop for every change of keys that begin with `prefix`, from
  /// revision `from` on (0: from now on), in order, until it returns false (then ok) or an error
  /// ends it: conflict when `from` is too old (range again and watch from there), unavailable when
  /// the store went away. Cancellable.
  virtual Task<Status> watch(std::string prefix, Revision from,
                             std::function<bool(WatchBatch)> sink) = 0;
};

/// Returns the value of one key, or none if the store does not have it.
Task<Result<std::optional<KeyValue>>> read_key(MetaStore& store, std::string key);

}  // namespace tarn::cluster
