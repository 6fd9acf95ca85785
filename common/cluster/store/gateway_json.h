#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/cluster/store/meta_store.h"

/// The JSON of etcd's v3 HTTP gateway, as far as Tarn uses it, both ways: for GatewayStore as a
/// client, and for a proxy that serves the embedded store. Pure functions.
///
/// Keys and values are base64; 64-bit numbers are decimal strings (plain numbers are read too);
/// fields that are zero, empty or false may be left out. Names are read in snake_case and
/// camelCase.
namespace tarn::cluster::gateway {

inline constexpr std::string_view kRange = "/v3/kv/range";
inline constexpr std::string_view kTxn = "/v3/kv/txn";
inline constexpr std::string_view kPut = "/v3/kv/put";
inline constexpr std::string_view kDeleteRange = "/v3/kv/deleterange";
inline constexpr std::string_view kGrant = "/v3/lease/grant";
inline constexpr std::string_view kKeepAlive = "/v3/lease/keepalive";
inline constexpr std::string_view kRevoke = "/v3/lease/revoke";
inline constexpr std::string_view kTimeToLive = "/v3/lease/timetolive";
inline constexpr std::string_view kWatch = "/v3/watch";
inline constexpr std::string_view kAuthenticate = "/v3/auth/authenticate";

struct WatchRequest {
  std::string key;
  std::string range_end;
  Revision from = 0;
};

/// Requests.
[[nodiscard]] std::string encode(const RangeRequest& request);
[[nodiscard]] std::string encode(const Transaction& transaction);
[[nodiscard]] std::string encode(const WatchRequest& request);
[[nodiscard]] std::string encode_grant(std::chrono::seconds ttl);
/// Of keepalive, revoke and timetolive.
[[nodiscard]] std::string encode_lease(LeaseId lease);
/// Of authenticate, which only etcd has.
[[nodiscard]] std::string encode_login(const std::string& user, const std::string& password);

/// The same read by the server. invalid_argument for a malformed request; unsupported, naming it,
/// for parts of etcd's API that Tarn does not use (other comparisons, nested or failure
/// operations).
[[nodiscard]] Result<RangeRequest> decode_range(std::string_view body);
[[nodiscard]] Result<Transaction> decode_transaction(std::string_view body);
[[nodiscard]] Result<Put> decode_put(std::string_view body);
[[nodiscard]] Result<Delete> decode_delete(std::string_view body);
[[nodiscard]] Result<WatchRequest> decode_watch(std::string_view body);
[[nodiscard]] Result<std::chrono::seconds> decode_grant(std::string_view body);
[[nodiscard]] Result<LeaseId> decode_lease(std::string_view body);

/// Answers. A lease that has ended is no error to etcd: it answers without a TTL, or with -1.
[[nodiscard]] std::string encode(const RangeResult& result);
[[nodiscard]] std::string encode(const TransactionResult& result, const Transaction& transaction);
/// Of put, deleterange and revoke.
[[nodiscard]] std::string encode_header(Revision revision);
[[nodiscard]] std::string encode_granted(LeaseId lease, std::chrono::seconds ttl);
[[nodiscard]] std::string encode_kept(LeaseId lease, std::optional<std::chrono::seconds> ttl);
[[nodiscard]] std::string encode_left(LeaseId lease, const std::optional<LeaseState>& state);
/// Lines of a watch, each with a line feed at its end.
[[nodiscard]] std::string encode_watch_created(Revision revision);
[[nodiscard]] std::string encode_watch_progress(Revision revision);
[[nodiscard]] std::string encode_watch_batch(const WatchBatch& batch);
[[nodiscard]] std::string encode_watch_compacted(Revision oldest);
/// {"error":..,"code":..,"message":..} with gRPC's code for the error.
[[nodiscard]] std::string encode(const Error& error);

/// The same read by the client. not_found for a lease that has ended; corrupt when the answer is
/// none.
[[nodiscard]] Result<RangeResult> decode_range_result(std::string_view body);
[[nodiscard]] Result<TransactionResult> decode_transaction_result(std::string_view body);
[[nodiscard]] Result<LeaseId> decode_granted(std::string_view body);
[[nodiscard]] Result<std::chrono::seconds> decode_kept(std::string_view body);
[[nodiscard]] Result<LeaseState> decode_left(std::string_view body);
/// One line of a watch: its events (none for "created" and progress). conflict when it was
/// cancelled because its revision is compacted, unavailable for other ends.
[[nodiscard]] Result<WatchBatch> decode_watch_line(std::string_view line);
/// The token of authenticate.
[[nodiscard]] Result<std::string> decode_token(std::string_view body);
/// True if etcd wants to see another token: ours has ended, or is older than a change of users.
[[nodiscard]] bool wants_login(unsigned status, std::string_view body);
/// Error in an answer with a status other than 200.
[[nodiscard]] Error decode_error(unsigned status, std::string_view body);

}  // namespace tarn::cluster::gateway
