// Bucket properties that clients send, one change a line: whatever comes, an error or a tree that
// says what was set. The tree is what clients get back and may send again whole, so it must be
// taken as it is and change nothing.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "common/api/bucket_props.h"

namespace {

using namespace tarn::api;

void check(const BucketProps& props) {
  // Over the wire and back.
  const auto tree = nlohmann::json::parse(props_tree(props).dump());
  const auto anew = with_changes({}, tree);
  if (!anew || !(*anew == props)) std::abort();  // all of it stands in the tree
  const auto again = with_changes(props, tree);
  if (!again || !(*again == props)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  BucketProps props;
  while (!rest.empty()) {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const auto wanted = nlohmann::json::parse(line, nullptr, false);
    if (wanted.is_discarded()) continue;
    const auto changed = with_changes(props, wanted);
    if (!changed) {
      if (changed.error().message.empty()) std::abort();  // it says what was wrong
      continue;
    }
    props = *changed;
    check(props);
  }
  return 0;
}
