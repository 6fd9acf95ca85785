#include "common/cluster/store/meta_store.h"

namespace tarn::cluster {

std::string prefix_end(std::string prefix) {
  while (!prefix.empty()) {
    const auto last = static_cast<unsigned char>(prefix.back());
    prefix.pop_back();
    if (last != 0xff) {
      prefix += static_cast<char>(last + 1);
      return prefix;
    }
  }
  return std::string(1, '\0');  // etcd's word for "to the end of all keys"
}

Task<Result<std::optional<KeyValue>>> read_key(MetaStore& store, std::string key) {
  RangeRequest request{std::move(key), "", 0};
  CO_TRY(auto found, co_await store.range(std::move(request)));
  if (found.items.empty()) co_return std::optional<KeyValue>();
  co_return std::optional<KeyValue>(std::move(found.items.front()));
}

}  // namespace tarn::cluster
