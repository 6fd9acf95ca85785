#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "common/api/status.h"
#include "common/base/read_json.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {

/// GET `path` at a target that goes through whole indexes for its answer, millions of names.
/// Returns its counts, read as a T from JSON. Errors are its own, with its id; internal for an
/// answer that is no T.
template <class T>
Task<Result<T>> ask_counts(const Services& services, const cluster::Node& target,
                           std::string path) {
  constexpr http::CallLimits kLimits{.total = std::chrono::minutes(10)};
  CO_TRY(const auto answer,
         co_await call_node(services, target, http::Method::get, std::move(path), kLimits));
  if (answer.status != 200)
    co_return fail(api::errc_of_answer(answer.status, answer.body), "target t[{}]: {}", target.id,
                   api::error_message_of(answer.body));
  co_return parse_json<T>(answer.body, Errc::internal, fmt::format("target t[{}]", target.id));
}

}  // namespace tarn::proxy
