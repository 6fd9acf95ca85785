#include "tests/simulation/safeties.h"

#include <array>
#include <string>

#include "common/base/fail_point.h"
#include "common/base/random.h"

namespace tarn::simulation {
namespace {

constexpr std::array kSafeties{
    Safety{"safety.settle_waits", "settling waits for live targets"},
    Safety{"safety.keep_tombstones", "a tombstone is kept while someone may hold the name"},
    Safety{"safety.incarnation", "the incarnation in generations"},
    Safety{"safety.lease_from_send", "a lease counts from the sending of its renewal"},
    Safety{"safety.wait_for_listed", "a new owner waits for writes that are listed as under way"},
    Safety{"safety.version_of_owner",
           "a write that outlives its ownership keeps the old map version"},
    Safety{"safety.same_lease",
           "a write is committed and acknowledged under the lease it began with", 111106},
    Safety{"safety.learn_before_lease",
           "a new lease counts once the state of its registration is known"},
    Safety{"safety.refuse_old_copies", "moved copies sent under an older map are refused"},
    Safety{"safety.refuse_fenced", "copies of a fenced target are refused"},
    Safety{"safety.same_map", "who asks and who answers act on the same map"},
    Safety{"safety.look_again", "the last look at one's own record after others were asked"},
    Safety{"safety.list_misplaced_first", "a list asks first for what is misplaced"},
    Safety{"safety.idle_before_join",
           "a target with something on its way to its drives is not empty", 500015534},
    Safety{"safety.answer_when_quiescent",
           "a target does not answer for a name that is on its way to its drives", 1021253384564},
};

fail_point::Id g_left_out = 0;
std::uint64_t g_count = 0;

}  // namespace

std::span<const Safety> safeties() { return kSafeties; }

void leave_out(std::string_view name) {
  g_left_out = name.empty() ? 0 : fail_point::id_of(name);
  g_count = 0;
}

std::uint64_t left_out_count() { return g_count; }

}  // namespace tarn::simulation

namespace tarn::fail_point {

Status hit(Id) { return {}; }

bool is_off(Id safety) {
  const bool off = safety == simulation::g_left_out;
  if (off) ++simulation::g_count;
  return off;
}

std::string identity(std::size_t length, std::string_view) { return random_id(length); }

}  // namespace tarn::fail_point
