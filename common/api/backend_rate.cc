#include "common/api/backend_rate.h"

#include <charconv>

#include <nlohmann/json.hpp>

#include "common/base/settings.h"

namespace tarn::api {
namespace {

constexpr const char* kPerOperation = "rate_limit.backend.per_op_max_tokens";
constexpr const char* kRateInterval = "rate_limit.backend.interval";

/// The value of a property that has not its default; else null.
nlohmann::json rate_value(const BucketProps& props, std::string_view key) {
  const auto found = props.others.find("rate_limit.backend." + std::string(key));
  if (found == props.others.end()) return nullptr;
  return nlohmann::json::parse(found->second, nullptr, false);
}

/// One of "get:100,put:50".
Status take_operation(std::string_view text, BackendRate& rate) {
  const auto colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  std::uint64_t* const limit = name == "get"      ? &rate.reads
                               : name == "put"    ? &rate.writes
                               : name == "delete" ? &rate.removals
                                                  : nullptr;
  const std::string_view digits = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size() && value > 0;
  if (limit != nullptr && is_number) {
    *limit = value;
    return {};
  }
  return fail(Errc::invalid_argument,
              "bucket property '{}': \"{}\" is not understood: operations get, put and delete with "
              "a number above 0 are allowed, as in \"get:100,put:50\"",
              kPerOperation, text);
}

}  // namespace

std::uint64_t BackendRate::requests(BackendRequest kind) const {
  switch (kind) {
    case BackendRequest::read: return reads;
    case BackendRequest::write: return writes;
    case BackendRequest::remove: break;
  }
  return removals;
}

Result<BackendRate> backend_rate_of(const BucketProps& props) {
  BackendRate out;
  out.enabled = rate_value(props, "enabled").is_boolean();  // false is the default
  if (const auto text = rate_value(props, "interval"); text.is_string()) {
    TRY(out.interval, parse_duration(text.get<std::string>()));
    if (out.interval < std::chrono::seconds(1))
      return fail(Errc::invalid_argument,
                  "bucket property '{}' cannot be \"{}\": at least a second is allowed",
                  kRateInterval, text.get<std::string>());
  }
  if (const auto number = rate_value(props, "max_tokens"); number.is_number_unsigned())
    out.reads = out.writes = out.removals = number.get<std::uint64_t>();
  if (const auto number = rate_value(props, "num_retries"); number.is_number_unsigned())
    out.retries = number.get<unsigned>();
  if (const auto text = rate_value(props, "max_bandwidth"); text.is_string()) {
    TRY(out.bytes_per_second, parse_size(text.get<std::string>()));
  }
  const auto operations = rate_value(props, "per_op_max_tokens");
  if (!operations.is_string()) return out;
  const std::string text = operations.get<std::string>();
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    TRY_OK(take_operation(std::string_view(text).substr(begin, end - begin), out));
    begin = end + 1;
  }
  return out;
}

}  // namespace tarn::api
