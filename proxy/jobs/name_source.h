#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/api/multi_object.h"
#include "common/base/async.h"
#include "common/base/ids.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// The names that a job on many objects is about, part by part, so that there may be millions: a
/// client's list, the names of its template, or those that the bucket has, from lists of it, which
/// are complete while names move. Few names of a template are made and tried; for many it is
/// cheaper to list those that exist.
class NameSource {
 public:
  /// Names of a bucket with an upstream: those that upstream has, too, or those that the cluster
  /// has.
  enum class Names : std::uint8_t { all, in_cluster };
  /// All must outlive it.
  NameSource(const Services& services, BucketId bucket, const api::MultiObject& what, Names names)
      : services_(services), bucket_(bucket), what_(what), names_(names) {}

  /// Leaves out the names of `other`; both must list the same prefix.
  void leave_out(NameSource other) { others_ = std::make_unique<NameSource>(std::move(other)); }

  /// Some more names, at most `limit`; none at the end. After an error it may be asked again, for
  /// the same names. Errors: as list_entries(); bucket_not_found when the bucket is gone.
  Task<Result<std::vector<std::string>>> next(std::size_t limit);
  /// Number of names in all: none before the last page of a list has come.
  [[nodiscard]] std::optional<std::uint64_t> total() const;

 private:
  [[nodiscard]] std::optional<std::uint64_t> count() const;
  Task<Status> drop_others(std::vector<std::string>& names);
  [[nodiscard]] std::vector<std::string> next_of(std::uint64_t count, std::size_t limit);
  Task<Result<std::vector<std::string>>> next_page(std::size_t limit);

  const Services& services_;
  const BucketId bucket_;
  const api::MultiObject& what_;
  const Names names_;
  std::uint64_t next_ = 0;   // of a list or of a template's names
  std::uint64_t given_ = 0;  // of the pages so far
  std::string after_;        // the last name of the pages so far
  bool listed_ = false;      // the last page has come

  std::unique_ptr<NameSource> others_;
  std::vector<std::string> other_names_;  // read from `others_`, not yet passed
};

}  // namespace tarn::proxy
