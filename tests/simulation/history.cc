#include "tests/simulation/history.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/check.h"

namespace tarn::simulation {
namespace {

class Search {
 public:
  explicit Search(const std::vector<Operation>& operations) : operations_(operations) {
    for (std::size_t i = 0; i < operations.size(); ++i)
      if (operations[i].end != Operation::kNever) must_ |= 1ULL << i;
  }
  bool run(std::uint64_t done, Value value) {
    if ((done & must_) == must_) return true;
    if (!seen_.insert({done, value}).second) return false;
    const Time first_end = earliest_end(done);
    // Operations that began before any one not yet placed had ended may be next.
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      const Operation& next = operations_[i];
      if ((done >> i & 1U) != 0) continue;
      if (next.begin > first_end) break;  // sorted by begin
      if (!possible(next, value)) continue;
      const bool writes = next.kind == Kind::put || next.kind == Kind::create;
      if (run(done | 1ULL << i, writes ? next.value : value)) return true;
    }
    return false;
  }

 private:
  using Kind = Operation::Kind;
  static bool possible(const Operation& next, Value value) {
    switch (next.kind) {
      case Kind::put: return true;
      case Kind::create: return value == 0;
      case Kind::read: return value == next.value;
      case Kind::exists: return value != 0;
    }
    return false;
  }
  [[nodiscard]] Time earliest_end(std::uint64_t done) const {
    Time out = Operation::kNever;
    for (std::size_t i = 0; i < operations_.size(); ++i)
      if ((done >> i & 1U) == 0) out = std::min(out, operations_[i].end);
    return out;
  }

  const std::vector<Operation>& operations_;
  std::uint64_t must_ = 0;
  std::set<std::pair<std::uint64_t, Value>> seen_;
};

const char* word(const Operation& operation) {
  switch (operation.kind) {
    case Operation::Kind::put: return operation.value == 0 ? "delete" : "put";
    case Operation::Kind::create: return "create";
    case Operation::Kind::read: return "read";
    case Operation::Kind::exists: return "exists";
  }
  return "";
}

}  // namespace

bool linearizable(std::vector<Operation> operations) {
  std::erase_if(operations, [](const Operation& operation) { return operation.without_effect; });
  TARN_CHECK(operations.size() <= 64);
  std::sort(operations.begin(), operations.end(),
            [](const Operation& a, const Operation& b) { return a.begin < b.begin; });
  return Search(operations).run(0, 0);
}

std::string describe(const std::vector<Operation>& operations) {
  std::string out;
  for (const Operation& operation : operations)
    if (!operation.without_effect)
      out += fmt::format("    {:9.3f} .. {:9}  {} {}\n",
                         static_cast<double>(operation.begin) / kSecond,
                         operation.end == Operation::kNever
                             ? "?"
                             : fmt::format("{:.3f}", static_cast<double>(operation.end) / kSecond),
                         word(operation), operation.value);
  return out;
}

}  // namespace tarn::simulation
