#include "target/drive/next_names.h"

#include <utility>

namespace tarn::target {
namespace {

constexpr std::size_t kNamesAtOnce = 1000;
constexpr std::size_t kNameRecordsAtOnce = 50'000;

}  // namespace

Task<Result<NamePage>> next_names(Drive& drive, BucketId bucket, std::string after,
                                  NameFilter wanted) {
  NamePage page;
  std::size_t seen = 0;
  const auto visit = [&](std::string_view name, const io::ObjectRecord& record) -> Index::Step {
    page.last = std::string(name);
    if (wanted(name, record)) page.names.push_back(page.last);
    page.more = ++seen == kNameRecordsAtOnce || page.names.size() == kNamesAtOnce;
    return {.stop = page.more, .skip_to = {}};
  };
  CO_TRY_OK(co_await drive.walk(bucket, "", std::move(after), visit));
  co_return page;
}

}  // namespace tarn::target
