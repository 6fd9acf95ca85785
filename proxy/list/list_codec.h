#pragma once

#include <string>
#include <string_view>

#include "common/api/list_merge.h"

namespace tarn::proxy {

/// One page as AIStore's clients get it. `token` is empty on the last page.
struct ListPage {
  std::string uuid;
  std::string token;
  const std::vector<api::PackedEntry>* entries = nullptr;
};
/// In msgpack, as Python's SDK wants it: the entries are copied as the targets packed them.
[[nodiscard]] std::string to_msgpack(const ListPage& page);
/// As JSON. corrupt when an entry is malformed.
[[nodiscard]] Result<std::string> to_json_text(const ListPage& page);

}  // namespace tarn::proxy
