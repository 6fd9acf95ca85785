#include "target/coded/slice_seen.h"

#include <nlohmann/json.hpp>

#include "common/base/read_json.h"

namespace tarn::target {

using nlohmann::json;

std::string to_body(std::span<const SliceSeen> slices) {
  std::vector<SliceState> states;
  json drives = json::array();
  for (const SliceSeen& slice : slices) {
    states.push_back(slice.state);
    drives.push_back(slice.drive);
  }
  const std::string text = to_body(std::span<const SliceState>(states));
  std::string out;
  json::to_msgpack(json::array({json::binary({text.begin(), text.end()}), std::move(drives)}), out);
  return out;
}

Result<std::vector<SliceSeen>> slices_seen_in(std::string_view body) {
  return read_json(Errc::invalid_argument, "slices", [&]() -> Result<std::vector<SliceSeen>> {
    const json in = json::from_msgpack(body.begin(), body.end());
    const auto& text = in.at(0).get_binary();
    TRY(const auto states, slice_states_of(std::string(text.begin(), text.end())));
    const json& drives = in.at(1);
    if (!drives.is_array() || drives.size() != states.size())
      return fail(Errc::invalid_argument, "slices: {} states, {} drives", states.size(),
                  drives.size());
    std::vector<SliceSeen> out;
    out.reserve(states.size());
    for (std::size_t i = 0; i < states.size(); ++i)
      out.push_back({states[i], drives[i].get<std::uint64_t>()});
    return out;
  });
}

}  // namespace tarn::target
