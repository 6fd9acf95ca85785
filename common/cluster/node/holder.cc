#include "common/cluster/node/holder.h"

#include <array>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include <fmt/format.h>

#include "common/base/random.h"

namespace tarn::cluster {
namespace {

/// Start time of a process in clock ticks since boot (proc(5), field 22 of stat). Empty if there is
/// no such process, or it is a zombie.
std::string start_of(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text, '\0');
  const auto end_of_name = text.rfind(')');  // the name may hold blanks and parentheses
  if (end_of_name == std::string::npos) return {};
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string field;
  std::string state;
  fields >> state;
  for (int i = 4; i <= 22; ++i) fields >> field;
  return state == "Z" || state == "X" ? "" : field;
}

/// Boot id and pid namespace of this process; "-" if unknown.
std::string this_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  std::array<char, 64> space{};
  const ssize_t got = ::readlink("/proc/self/ns/pid", space.data(), space.size() - 1);
  return boot.empty() || got <= 0 ? std::string("-") : boot + "/" + space.data();
}

}  // namespace

std::string encode(const Holder& holder) {
  return fmt::format("{} {} {} {} {}", holder.id, holder.pid, holder.started, holder.machine,
                     holder.host);
}

std::optional<Holder> parse_holder(std::string_view text) {
  std::istringstream in{std::string(text)};
  Holder out;
  in >> out.id >> out.pid >> out.started >> out.machine >> out.host;
  if (in.fail()) return std::nullopt;
  return out;
}

Holder new_holder() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  const std::int64_t pid = ::getpid();
  const std::string started = start_of(pid);
  return {random_id(16), host[0] == '\0' ? "-" : host.data(), pid, started.empty() ? "-" : started,
          this_machine()};
}

HolderState look_at(const Holder& holder) {
  if (holder.machine == "-" || holder.machine != this_machine() || holder.started == "-")
    return HolderState::unknown;
  const bool is_there = start_of(holder.pid) == holder.started;
  const bool is_this = is_there && holder.pid == ::getpid();
  return is_there && !is_this ? HolderState::runs : HolderState::gone;
}

std::string display(const Holder& holder) {
  return fmt::format("process {} on {}", holder.pid, holder.host);
}

}  // namespace tarn::cluster
