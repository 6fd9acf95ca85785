#include "cli/base/names.h"

#include <algorithm>
#include <set>

#include "cli/base/listing.h"
#include "cli/base/templates.h"

namespace tarn::cli {
namespace {

/// All objects whose names have the number, by number.
Task<Result<std::vector<Place>>> existing(Session& session, Place prefix, NumberedName numbered,
                                          std::string word) {
  std::vector<std::pair<std::uint64_t, std::string>> found;
  prefix.object = numbered.before;
  Listing listing(session, prefix, Depth::all);
  while (!listing.done()) {
    CO_TRY(const auto page, co_await listing.next_page());
    for (const ListedObject& object : page)
      if (const auto number = numbered.number_in(object.name))
        found.emplace_back(*number, object.name);
  }
  if (found.empty())
    co_return fail(Errc::not_found, "there is no object with such a number: '{}'", word);
  std::sort(found.begin(), found.end());
  std::vector<Place> out;
  out.reserve(found.size());
  for (auto& [number, name] : found) out.push_back(prefix.with(std::move(name)));
  co_return out;
}

Result<std::vector<std::string>> expand(const std::string& word, bool literal) {
  if (literal) return std::vector<std::string>{word};
  return expand_template(word);
}

Result<std::vector<Place>> parse_all(const std::vector<std::string>& words) {
  std::vector<Place> out;
  for (const std::string& word : words) {
    TRY(Place place, parse_object(word));
    out.push_back(std::move(place));
  }
  return out;
}

}  // namespace

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Task<Result<std::vector<Place>>> resolve_objects(Session& session, std::vector<std::string> words,
                                                 bool literal) {
  std::vector<Place> out;
  for (const std::string& word : words) {
    CO_TRY(const auto names, expand(word, literal));
    if (names.front() != word)
      session.advise(
          fmt::format("'{}' stands for {} names, the first is '{}'; if it is the name of "
                      "one object, say --literal",
                      word, names.size(), names.front()));
    for (const std::string& name : names) {
      CO_TRY(const auto numbered,
             literal ? Result<std::optional<NumberedName>>() : find_numbering(name));
      if (!numbered) {
        CO_TRY(Place place, parse_object(name));
        out.push_back(std::move(place));
        continue;
      }
      CO_TRY(const Place place, parse_place(name));
      CO_TRY(const auto in_object, find_numbering(place.object));
      if (!in_object)
        co_return fail(Errc::invalid_argument, "'{}': the number belongs into the object's name",
                       word);
      CO_TRY(auto found, co_await existing(session, place, *in_object, word));
      std::move(found.begin(), found.end(), std::back_inserter(out));
    }
  }
  co_return out;
}

Status check_distinct(const std::vector<std::string>& names, const std::string& where) {
  std::set<std::string_view> seen;
  for (const std::string& name : names)
    if (!seen.insert(name).second)
      return fail(Errc::invalid_argument,
                  "two of the sources would become '{}' in '{}': number them, with %06d, or send "
                  "them in two calls",
                  name, where);
  return {};
}

Result<std::vector<Place>> destinations(const std::vector<std::string>& names,
                                        const std::string& where, bool literal) {
  TRY(const auto numbered, literal ? Result<std::optional<NumberedName>>() : find_numbering(where));
  std::vector<std::string> out;
  if (numbered) {
    for (std::size_t i = 0; i < names.size(); ++i) out.push_back(numbered->name(i));
    return parse_all(out);
  }
  TRY(out, expand(where, literal));
  if (out.size() > 1 && out.size() != names.size())
    return fail(Errc::invalid_argument,
                "template '{}' stands for {} names, but there are {} sources", where, out.size(),
                names.size());
  if (out.size() > 1) return parse_all(out);
  TRY(Place place, parse_place(out.front()));
  if (!place.object.empty() && !place.object.ends_with('/')) {
    if (names.size() == 1) return parse_all(out);
    return fail(Errc::invalid_argument,
                "{} sources cannot all become '{}': name a bucket, a prefix that ends in '/', or "
                "number them, as in {}-%06d",
                names.size(), where, where);
  }
  TRY_OK(check_distinct(names, where));
  out.clear();
  for (const std::string& name : names)
    out.push_back(place.bucket_display() + "/" + place.object + name);
  return parse_all(out);
}

}  // namespace tarn::cli
