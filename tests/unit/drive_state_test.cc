#include "target/drive/drive_state.h"

#include <set>
#include <string>

#include <catch2/catch.hpp>

namespace drive_state_test {

using namespace tarn::target;

constexpr std::array kStates{DriveState::up,       DriveState::slow,     DriveState::suspect,
                             DriveState::draining, DriveState::disabled, DriveState::hung,
                             DriveState::out,      DriveState::missing};

TEST_CASE("drive state: each state allows no more than the one before it", "[target][drive]") {
  for (std::size_t i = 1; i < kStates.size(); ++i) {
    const DriveRules before = rules_of(kStates[i - 1]);
    const DriveRules after = rules_of(kStates[i]);
    CAPTURE(to_string(kStates[i]));
    CHECK(before.takes_files >= after.takes_files);
    CHECK(before.is_read >= after.is_read);
    CHECK(before.answers >= after.answers);
  }
}

TEST_CASE("drive state: what is read can be asked, and what takes files is read",
          "[target][drive]") {
  std::set<std::string> words;
  for (const DriveState state : kStates) {
    const DriveRules rules = rules_of(state);
    CAPTURE(to_string(state));
    CHECK((!rules.takes_files || rules.is_read));
    CHECK((!rules.is_read || rules.answers));
    words.emplace(to_string(state));
  }
  CHECK(words.size() == kStates.size());
}

}  // namespace drive_state_test
