#include "common/cluster/store/gateway_json.h"

#include <charconv>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/api/status.h"
#include "common/base/encoding.h"

namespace tarn::cluster::gateway {
namespace {

using nlohmann::json;
using std::chrono::seconds;

/// gRPC's status codes, as they stand in "code".
constexpr int kInvalidArgument = 3;
constexpr int kDeadlineExceeded = 4;
constexpr int kNotFound = 5;
constexpr int kPermissionDenied = 7;
constexpr int kUnimplemented = 12;
constexpr int kInternal = 13;
constexpr int kUnavailable = 14;
constexpr int kDataLoss = 15;
constexpr int kUnauthenticated = 16;

struct CodeRow {
  Errc errc;
  int code;
};
constexpr CodeRow kCodes[] = {
    {Errc::invalid_argument, kInvalidArgument},
    {Errc::not_found, kNotFound},
    {Errc::forbidden, kPermissionDenied},
    {Errc::unsupported, kUnimplemented},
    {Errc::unavailable, kUnavailable},
    {Errc::timeout, kDeadlineExceeded},
    {Errc::corrupt, kDataLoss},
    {Errc::unauthenticated, kUnauthenticated},
};

/// Thrown by the readers below and turned into an Error by parse().
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const json kNothing;

std::string camel_case(std::string_view snake) {
  std::string out;
  for (std::size_t i = 0; i < snake.size(); ++i) {
    const bool join = snake[i] == '_' && i + 1 < snake.size();
    if (join) ++i;
    out += join && snake[i] >= 'a' && snake[i] <= 'z' ? static_cast<char>(snake[i] - 'a' + 'A')
                                                      : snake[i];
  }
  return out;
}

/// A field of an object; null when it is left out.
const json& field(const json& object, std::string_view name) {
  if (!object.is_object()) throw std::runtime_error("an object is missing where one belongs");
  auto found = object.find(std::string(name));
  if (found == object.end()) found = object.find(camel_case(name));
  return found == object.end() ? kNothing : *found;
}

std::int64_t integer(const json& object, std::string_view name) {
  const json& value = field(object, name);
  if (value.is_null()) return 0;
  if (value.is_number_integer()) return value.get<std::int64_t>();
  const auto& text = value.get_ref<const std::string&>();
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size())
    throw std::runtime_error("'" + text + "' is not a number");
  return out;
}

std::string bytes(const json& object, std::string_view name) {
  const json& value = field(object, name);
  if (value.is_null()) return {};
  auto out = unbase64(value.get_ref<const std::string&>());
  if (!out) throw std::runtime_error(std::string(name) + " is not base64");
  return std::move(*out);
}

bool boolean(const json& object, std::string_view name) {
  const json& value = field(object, name);
  return !value.is_null() && value.get<bool>();
}

/// A word, or the number that the protocol buffer has for it.
bool is_word(const json& value, std::string_view word, int number) {
  return value.is_string() ? value.get_ref<const std::string&>() == word : value == number;
}

/// Runs `read` over the JSON of `body`. `code` is the error for a malformed body.
template <class Read>
auto parse(std::string_view body, Errc code, Read read) -> Result<decltype(read(kNothing))> {
  const json document = json::parse(body, nullptr, false);
  if (document.is_discarded()) return fail(code, "no JSON but '{}'", body.substr(0, 200));
  try {
    return read(document);
  } catch (const Unsupported& problem) {
    return fail(Errc::unsupported, "{}", problem.what());
  } catch (const std::exception& problem) {
    return fail(code, "{}: {}", problem.what(), body.substr(0, 200));
  }
}

std::string number(std::int64_t value) { return std::to_string(value); }

json header(Revision revision) { return {{"revision", number(revision)}}; }

std::string line(json result) { return json{{"result", std::move(result)}}.dump() + "\n"; }

json item_json(const KeyValue& item) {
  json out{{"key", base64(item.key)}, {"mod_revision", number(item.mod_revision)}};
  if (item.create_revision != 0) out["create_revision"] = number(item.create_revision);
  if (!item.value.empty()) out["value"] = base64(item.value);
  if (item.lease != 0) out["lease"] = number(item.lease);
  return out;
}

KeyValue read_item(const json& in) {
  return {bytes(in, "key"), bytes(in, "value"), integer(in, "create_revision"),
          integer(in, "mod_revision"), integer(in, "lease")};
}

json put_json(const Put& put) {
  json out{{"key", base64(put.key)}, {"value", base64(put.value)}};
  if (put.lease != 0) out["lease"] = number(put.lease);
  return out;
}

Put read_put(const json& in) {
  Put put{bytes(in, "key"), bytes(in, "value"), integer(in, "lease")};
  if (put.key.empty()) throw std::runtime_error("the key of a put is missing");
  return put;
}

json delete_json(const Delete& del) {
  json out{{"key", base64(del.key)}};
  if (!del.range_end.empty()) out["range_end"] = base64(del.range_end);
  return out;
}

Delete read_delete(const json& in) {
  Delete del{bytes(in, "key"), bytes(in, "range_end")};
  if (del.key.empty()) throw std::runtime_error("the key of a delete is missing");
  return del;
}

json compare_json(const Compare& compare) {
  const bool mod = compare.what == Compare::What::mod_revision;
  return {{"key", base64(compare.key)},
          {"target", mod ? "MOD" : "CREATE"},
          {"result", "EQUAL"},
          {mod ? "mod_revision" : "create_revision", number(compare.revision)}};
}

Compare read_compare(const json& in) {
  const json& result = field(in, "result");
  if (!result.is_null() && !is_word(result, "EQUAL", 0))
    throw Unsupported("comparisons other than EQUAL are not served here");
  if (!bytes(in, "range_end").empty())
    throw Unsupported("comparisons of ranges are not served here");
  const json& target = field(in, "target");
  if (is_word(target, "MOD", 2))
    return {bytes(in, "key"), Compare::What::mod_revision, integer(in, "mod_revision")};
  if (is_word(target, "CREATE", 1))
    return {bytes(in, "key"), Compare::What::create_revision, integer(in, "create_revision")};
  throw Unsupported("comparisons of anything but MOD and CREATE revisions are not served here");
}

void read_operation(const json& in, Transaction& out) {
  if (const json& put = field(in, "request_put"); !put.is_null()) {
    out.puts.push_back(read_put(put));
  } else if (const json& del = field(in, "request_delete_range"); !del.is_null()) {
    out.deletes.push_back(read_delete(del));
  } else {
    throw Unsupported("transactions have puts and deletes only here");
  }
}

}  // namespace

std::string encode(const RangeRequest& request) {
  json out{{"key", base64(request.key)}};
  if (!request.range_end.empty()) out["range_end"] = base64(request.range_end);
  if (request.limit > 0) out["limit"] = number(request.limit);
  return out.dump();
}

std::string encode(const Transaction& transaction) {
  json compare = json::array();
  json success = json::array();
  for (const Compare& one : transaction.compare) compare.push_back(compare_json(one));
  for (const Put& put : transaction.puts) success.push_back({{"request_put", put_json(put)}});
  for (const Delete& del : transaction.deletes)
    success.push_back({{"request_delete_range", delete_json(del)}});
  return json{{"compare", std::move(compare)}, {"success", std::move(success)}}.dump();
}

std::string encode(const WatchRequest& request) {
  json create{{"key", base64(request.key)}, {"progress_notify", true}};
  if (!request.range_end.empty()) create["range_end"] = base64(request.range_end);
  if (request.from != 0) create["start_revision"] = number(request.from);
  return json{{"create_request", std::move(create)}}.dump();
}

std::string encode_grant(seconds ttl) { return json{{"TTL", number(ttl.count())}}.dump(); }

std::string encode_lease(LeaseId lease) {
  return json{{"ID", number(lease)}, {"keys", true}}.dump();
}

Result<RangeRequest> decode_range(std::string_view body) {
  return parse(body, Errc::invalid_argument, [](const json& in) {
    RangeRequest out{bytes(in, "key"), bytes(in, "range_end"), integer(in, "limit")};
    if (out.key.empty()) throw std::runtime_error("the key of a range is missing");
    if (integer(in, "revision") != 0)
      throw Unsupported("ranges at an older revision are not served here");
    return out;
  });
}

Result<Transaction> decode_transaction(std::string_view body) {
  return parse(body, Errc::invalid_argument, [](const json& in) {
    Transaction out;
    for (const json& compare : field(in, "compare")) out.compare.push_back(read_compare(compare));
    for (const json& operation : field(in, "success")) read_operation(operation, out);
    if (!field(in, "failure").empty())
      throw Unsupported("operations for the failure of a transaction are not served here");
    return out;
  });
}

Result<Put> decode_put(std::string_view body) {
  return parse(body, Errc::invalid_argument, read_put);
}

Result<Delete> decode_delete(std::string_view body) {
  return parse(body, Errc::invalid_argument, read_delete);
}

Result<WatchRequest> decode_watch(std::string_view body) {
  return parse(body, Errc::invalid_argument, [](const json& in) {
    const json& create = field(in, "create_request");
    return WatchRequest{bytes(create, "key"), bytes(create, "range_end"),
                        integer(create, "start_revision")};
  });
}

Result<seconds> decode_grant(std::string_view body) {
  return parse(body, Errc::invalid_argument,
               [](const json& in) { return seconds(integer(in, "TTL")); });
}

Result<LeaseId> decode_lease(std::string_view body) {
  return parse(body, Errc::invalid_argument, [](const json& in) { return integer(in, "ID"); });
}

std::string encode(const RangeResult& result) {
  json items = json::array();
  for (const KeyValue& item : result.items) items.push_back(item_json(item));
  json out{{"header", header(result.revision)}, {"kvs", std::move(items)}};
  out["count"] = number(static_cast<std::int64_t>(result.items.size()));
  return out.dump();
}

std::string encode(const TransactionResult& result, const Transaction& transaction) {
  json out{{"header", header(result.revision)}};
  if (result.succeeded) {
    out["succeeded"] = true;
    json& responses = out["responses"] = json::array();
    const json done{{"header", header(result.revision)}};
    for (std::size_t i = 0; i < transaction.puts.size(); ++i)
      responses.push_back({{"response_put", done}});
    for (std::size_t i = 0; i < transaction.deletes.size(); ++i)
      responses.push_back({{"response_delete_range", done}});
  }
  return out.dump();
}

std::string encode_header(Revision revision) { return json{{"header", header(revision)}}.dump(); }

std::string encode_granted(LeaseId lease, seconds ttl) {
  return json{{"ID", number(lease)}, {"TTL", number(ttl.count())}}.dump();
}

std::string encode_kept(LeaseId lease, std::optional<seconds> ttl) {
  json result{{"ID", number(lease)}};
  if (ttl) result["TTL"] = number(ttl->count());
  return line(std::move(result));
}

std::string encode_left(LeaseId lease, const std::optional<LeaseState>& state) {
  if (!state) return json{{"ID", number(lease)}, {"TTL", "-1"}}.dump();
  json keys = json::array();
  for (const std::string& key : state->keys) keys.push_back(base64(key));
  return json{{"ID", number(lease)},
              {"TTL", number(state->left.count())},
              {"grantedTTL", number(state->granted.count())},
              {"keys", std::move(keys)}}
      .dump();
}

std::string encode_watch_created(Revision revision) {
  return line({{"header", header(revision)}, {"created", true}});
}

std::string encode_watch_progress(Revision revision) {
  return line({{"header", header(revision)}});
}

std::string encode_watch_batch(const WatchBatch& batch) {
  json events = json::array();
  for (const WatchEvent& event : batch.events) {
    json out{{"kv", item_json(event.item)}};
    if (event.type == WatchEvent::Type::del) out["type"] = "DELETE";
    events.push_back(std::move(out));
  }
  return line({{"header", header(batch.revision)}, {"events", std::move(events)}});
}

std::string encode_watch_compacted(Revision oldest) {
  return line({{"canceled", true}, {"compact_revision", number(oldest)}});
}

std::string encode(const Error& error) {
  int code = kInternal;
  for (const CodeRow& row : kCodes)
    if (row.errc == error.code) code = row.code;
  return json{{"error", error.message}, {"code", code}, {"message", error.message}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
}

Result<RangeResult> decode_range_result(std::string_view body) {
  return parse(body, Errc::corrupt, [](const json& in) {
    RangeResult out;
    out.revision = integer(field(in, "header"), "revision");
    for (const json& item : field(in, "kvs")) out.items.push_back(read_item(item));
    return out;
  });
}

Result<TransactionResult> decode_transaction_result(std::string_view body) {
  return parse(body, Errc::corrupt, [](const json& in) {
    return TransactionResult{boolean(in, "succeeded"), integer(field(in, "header"), "revision")};
  });
}

Result<LeaseId> decode_granted(std::string_view body) {
  return parse(body, Errc::corrupt, [](const json& in) {
    const LeaseId id = integer(in, "ID");
    if (id == 0) throw std::runtime_error("the lease has no ID");
    return id;
  });
}

Result<seconds> decode_kept(std::string_view body) {
  TRY(const auto ttl, parse(body, Errc::corrupt,
                            [](const json& in) { return integer(field(in, "result"), "TTL"); }));
  if (ttl <= 0) return fail(Errc::not_found, "the lease has ended");
  return seconds(ttl);
}

std::string encode_login(const std::string& user, const std::string& password) {
  return json{{"name", user}, {"password", password}}.dump(-1, ' ', false,
                                                           json::error_handler_t::replace);
}

Result<std::string> decode_token(std::string_view body) {
  return parse(body, Errc::corrupt, [](const json& in) {
    auto token = field(in, "token").get<std::string>();
    if (token.empty()) throw std::runtime_error("the token is empty");
    return token;
  });
}

/// etcd has a code of its own (16, and with it 401) for the first case only.
bool wants_login(unsigned status, std::string_view body) {
  if (status == 401) return true;
  return status == 400 && body.find("revision of auth store is old") != std::string_view::npos;
}

Result<LeaseState> decode_left(std::string_view body) {
  TRY(auto state, parse(body, Errc::corrupt, [](const json& in) {
        LeaseState out{seconds(integer(in, "TTL")), seconds(integer(in, "grantedTTL")), {}};
        for (const json& key : field(in, "keys")) {
          auto decoded = unbase64(key.get_ref<const std::string&>());
          if (!decoded) throw std::runtime_error("a key is not base64");
          out.keys.push_back(std::move(*decoded));
        }
        return out;
      }));
  if (state.left < seconds(0) || state.granted == seconds(0))
    return fail(Errc::not_found, "the lease has ended");
  return state;
}

Result<WatchBatch> decode_watch_line(std::string_view line) {
  struct Line {
    WatchBatch batch;
    bool canceled = false;
    Revision compacted = 0;
    std::string error;
  };
  TRY(auto read, parse(line, Errc::corrupt, [](const json& in) {
        Line out;
        if (const json& error = field(in, "error"); !error.is_null()) {
          out.error = error.dump();
          return out;
        }
        const json& result = field(in, "result");
        out.canceled = boolean(result, "canceled");
        out.compacted = integer(result, "compact_revision");
        if (const json& head = field(result, "header"); !head.is_null())
          out.batch.revision = integer(head, "revision");
        for (const json& event : field(result, "events")) {
          const bool deleted = is_word(field(event, "type"), "DELETE", 1);
          out.batch.events.push_back({deleted ? WatchEvent::Type::del : WatchEvent::Type::put,
                                      read_item(field(event, "kv"))});
        }
        return out;
      }));
  if (!read.error.empty()) return fail(Errc::unavailable, "the watch ended: {}", read.error);
  if (read.canceled && read.compacted != 0)
    return fail(Errc::conflict, "the watched revision is gone: the oldest is {}", read.compacted);
  if (read.canceled) return fail(Errc::unavailable, "the meta store cancelled the watch");
  if (!read.batch.events.empty()) read.batch.revision = read.batch.events.back().item.mod_revision;
  return std::move(read.batch);
}

Error decode_error(unsigned status, std::string_view body) {
  const std::string text =
      "the meta store answered " + std::to_string(status) + ": " + api::error_message_of(body);
  const json document = json::parse(body, nullptr, false);
  int code = 0;
  if (document.is_object())
    if (const auto found = document.find("code"); found != document.end() && found->is_number())
      code = found->get<int>();
  for (const CodeRow& row : kCodes)
    if (row.code == code) return {row.errc == Errc::timeout ? Errc::unavailable : row.errc, text};
  // Without a code of its own the answer is no meta store's: a 404 then means a wrong address.
  if (status == 401) return {Errc::unauthenticated, text};
  if (status == 403) return {Errc::forbidden, text};
  if (status == 501) return {Errc::unsupported, text};
  return {Errc::unavailable, text};
}

}  // namespace tarn::cluster::gateway
