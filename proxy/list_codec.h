#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "proxy/list_entry.h"
#include "proxy/list_request.h"

namespace tarn::proxy {

/// What a target answers to GET /v1/internal/list.
struct TargetPage {
  std::vector<ListEntry> entries;
  bool more = false;
};
/// Reads a target's page: a msgpack map {"entries": [{"n", "s", "cs", "v", "a", "t"}, ..], "more":
/// bool}. Unknown keys are skipped. corrupt when it is malformed or "more" is missing.
[[nodiscard]] Result<TargetPage> decode_target_page(std::string_view msgpack);

/// One page as AIStore's clients get it.
struct ListPage {
  std::string uuid;
  std::string token;  ///< empty: the last page
  const std::vector<ListEntry>* entries = nullptr;
};
/// In msgpack, as Python's SDK wants it, and as JSON. Pages of 10,000 entries are written without a
/// tree of values in between: this runs on an event loop.
[[nodiscard]] std::string to_msgpack(const ListPage& page, const ListRequest& request);
[[nodiscard]] std::string to_json_text(const ListPage& page, const ListRequest& request);

}  // namespace tarn::proxy
