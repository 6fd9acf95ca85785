#include "cli/shards/shard_names.h"

#include "common/api/bucket.h"

namespace tarn::cli {

Result<ShardNames> ShardNames::parse(const std::string& where) {
  ShardNames out;
  if (where.starts_with("http://")) {
    TRY(UrlPlace url, parse_url_place(where));
    out.endpoint_ = std::move(url.endpoint);
    out.pattern_ = std::move(url.place);
  } else if (where.starts_with("https://")) {
    return fail(Errc::unsupported, "'{}': TLS belongs to later work, use http://", where);
  } else {
    TRY(out.pattern_, parse_object(where));
  }
  TRY(out.numbered_, find_numbering(out.pattern_.object));
  if (out.numbered_) return out;
  TRY(out.names_, expand_template(out.pattern_.object));
  if (out.names_.size() == 1)
    return fail(Errc::invalid_argument,
                "'{}' names one object, but shards are many: number them, as in dataset-%06d.tar",
                where);
  for (const std::string& name : out.names_) TRY_OK(api::check_object_name(name));
  return out;
}

std::optional<Place> ShardNames::place(std::uint64_t number) const {
  if (numbered_) return pattern_.with(numbered_->name(number));
  if (number >= names_.size()) return std::nullopt;
  return pattern_.with(names_[number]);
}

}  // namespace tarn::cli
