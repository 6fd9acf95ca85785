#include "proxy/jobs/name_source.h"

#include <algorithm>
#include <iterator>

#include "common/base/check.h"
#include "proxy/list/list.h"

namespace tarn::proxy {
namespace {

/// Names of a template that are tried one by one: a miss costs a look into an index, about a
/// thousand times the cost of listing a name that is there.
constexpr std::uint64_t kTriedMax = 100'000;

}  // namespace

/// Number of names that are tried one by one; none for those that come from lists.
std::optional<std::uint64_t> NameSource::count() const {
  if (what_.is_list()) return what_.names.size();
  const auto count = what_.pattern->count();
  return count && *count <= kTriedMax ? count : std::nullopt;
}

std::optional<std::uint64_t> NameSource::total() const {
  if (const auto tried = count()) return tried;
  return listed_ ? std::optional(given_) : std::nullopt;
}

Task<Result<std::vector<std::string>>> NameSource::next(std::size_t limit) {
  if (const auto tried = count()) co_return next_of(*tried, limit);
  CO_TRY(auto page, co_await next_page(limit));
  given_ += page.size();
  co_return page;
}

std::vector<std::string> NameSource::next_of(std::uint64_t count, std::size_t limit) {
  std::vector<std::string> out;
  for (; next_ < count && out.size() < limit; ++next_)
    out.push_back(what_.is_list() ? what_.names[next_] : what_.pattern->name(next_));
  return out;
}

/// Takes the names of `others_` out of `names`. Lists are in byte order, so both are walked once.
Task<Status> NameSource::drop_others(std::vector<std::string>& names) {
  while (!others_->listed_ && (other_names_.empty() || other_names_.back() < names.back())) {
    CO_TRY(auto more, co_await others_->next(ListRequest::kLimitMax));
    other_names_.insert(other_names_.end(), std::make_move_iterator(more.begin()),
                        std::make_move_iterator(more.end()));
  }
  std::vector<std::string> left;
  std::set_difference(names.begin(), names.end(), other_names_.begin(), other_names_.end(),
                      std::back_inserter(left));
  const auto behind = std::upper_bound(other_names_.begin(), other_names_.end(), names.back());
  other_names_.erase(other_names_.begin(), behind);
  names = std::move(left);
  co_return Status();
}

/// Takes names from the next page of the bucket that has some.
Task<Result<std::vector<std::string>>> NameSource::next_page(std::size_t limit) {
  std::vector<std::string> out;
  while (out.empty() && !listed_) {
    KnownBucket bucket{services_.view.state(), nullptr};
    bucket.record = bucket.state->bmd.find(bucket_);
    if (bucket.record == nullptr)
      co_return fail(Errc::bucket_not_found, "the bucket was destroyed meanwhile");
    ListRequest request;
    request.prefix = what_.pattern->prefix();
    request.after = after_;
    request.limit = std::min(limit, ListRequest::kLimitMax);
    request.recursive = what_.how.recursive;
    request.cached = names_ == Names::in_cluster;
    request.fields.size = false;
    CO_TRY(const api::MergedPage page, co_await list_entries(services_, bucket, request));
    for (const auto& entry : page.entries)  // a name that ends in '/' is a directory
      if (!entry.name.ends_with('/') && what_.pattern->matches(entry.name))
        out.emplace_back(entry.name);
    if (others_ && !out.empty()) CO_TRY_OK(co_await drop_others(out));
    listed_ = !page.more || page.entries.empty();
    // A list that goes back returns the same names for ever.
    TARN_CHECK(page.entries.empty() || after_ < page.entries.back().name);
    if (!page.entries.empty()) after_ = page.entries.back().name;
  }
  co_return out;
}

}  // namespace tarn::proxy
