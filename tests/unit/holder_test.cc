#include "common/cluster/node/holder.h"

#include <csignal>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "common/cluster/state/state_builder.h"

namespace tarn::cluster {
namespace holder_test {

/// A process that waits until it is killed.
pid_t start_child() {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::pause();
  ::_exit(0);
}

/// Field 22 of its stat; the name of this program has no blank.
std::string started(pid_t pid) {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string field;
  for (int i = 1; i <= 22; ++i) stat >> field;
  return field;
}

TEST_CASE("A holder of a lease runs, or is gone, or may be elsewhere", "[cluster][holder]") {
  const Holder own = new_holder();
  CHECK(look_at(own) == HolderState::gone);  // its own lease does not stop a process
  const pid_t child = start_child();
  REQUIRE(child > 0);
  Holder other = own;
  other.pid = child;
  other.started = started(child) + "0";
  CHECK(look_at(other) == HolderState::gone);  // another process has this pid now
  other.started = started(child);
  CHECK(look_at(other) == HolderState::runs);
  other.machine = "another";
  CHECK(look_at(other) == HolderState::unknown);
  other.machine = own.machine;
  ::kill(child, SIGKILL);
  siginfo_t ended{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
  CHECK(look_at(other) == HolderState::gone);  // dead, and not waited for yet
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(look_at(other) == HolderState::gone);
}

TEST_CASE("A holder is kept in the record of a live node", "[cluster][holder]") {
  const Holder own = new_holder();
  CHECK(own.id != new_holder().id);
  CHECK(parse_holder(encode(own)) == own);
  CHECK_FALSE(parse_holder(""));
  CHECK_FALSE(parse_holder("one two three"));
  LiveRecord record{Role::target, 3, 4};
  record.holder = encode(own);
  const auto read = decode_live({"/tarn/live/t1", encode(record), 1, 1, 0});
  REQUIRE(read.has_value());
  CHECK(*read == record);
  CHECK(decode_live({"/tarn/live/t1", R"({"role":"target","map":1,"bmd":1})", 1, 1, 0})->holder ==
        "");
}

}  // namespace holder_test
}  // namespace tarn::cluster
