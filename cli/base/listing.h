#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/base/exit_code.h"
#include "cli/base/place.h"
#include "cli/base/session.h"

namespace tarn::cli {

struct ListedObject {
  std::string name;  ///< ends in '/' for a directory of a list of one level
  std::uint64_t size = 0;
  std::string checksum;
  std::string version;

  [[nodiscard]] bool is_directory() const { return name.ends_with('/'); }
};

enum class Depth : std::uint8_t { all, one_level };

/// Source of a list of a bucket with an upstream: all that it has, what the cluster has, or what
/// upstream had when the bucket's inventory was made.
enum class ListedFrom : std::uint8_t { everywhere, cluster, inventory };

/// The objects of a bucket whose names begin with place.object, page by page, in the order of their
/// names. A page that cannot be had whole is an error: a list is never short.
class Listing {
 public:
  Listing(Session& session, Place place, Depth depth, ListedFrom from = ListedFrom::everywhere)
      : session_(session), place_(std::move(place)), depth_(depth), from_(from) {}
  [[nodiscard]] bool done() const { return done_; }
  Task<Result<std::vector<ListedObject>>> next_page();

 private:
  [[nodiscard]] std::string request_body() const;
  Result<std::vector<ListedObject>> take_page(std::string_view body);

  Session& session_;
  Place place_;
  Depth depth_;
  ListedFrom from_;
  std::string uuid_;
  std::string token_;
  bool done_ = false;
};

/// Buckets to list: those that the cluster knows, or also those of accounts upstream.
enum class BucketsOf : std::uint8_t { cluster, accounts_too };
/// Prints buckets, a line each, or as JSON. Errors are printed under the name `command`.
Exit list_buckets(Session& session, std::string_view command, BucketsOf which, bool json);

}  // namespace tarn::cli
