#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/api/bucket.h"
#include "common/api/name_template.h"
#include "common/base/error.h"

namespace tarn::api {

/// The kind of a job that fetches files of other servers into a bucket, and the prefix of its id.
inline constexpr std::string_view kDownload = "download";
inline constexpr std::string_view kDownloadIdPrefix = "dnl-";

/// Reserved keys (is_reserved_key()) of the link that an object was downloaded from, without its
/// query, and of the version that it had there: its entity tag, or its time in seconds.
inline constexpr const char* kLinkKey = "Tarn-Link";
inline constexpr const char* kLinkVersionKey = "Tarn-Link-Version";

/// One object of a download.
struct DownloadItem {
  std::string name;
  std::string link;  ///< URL of the file; empty: the object of the same name upstream of the bucket
};

/// The terms of a download that each target obeys.
struct DownloadTerms {
  using Headers = std::vector<std::pair<std::string, std::string>>;

  std::uint64_t connections = 0;         ///< of each target, at a time; 0: its own choice
  std::uint64_t bytes_per_hour = 0;      ///< of the whole cluster; 0: as fast as it goes
  std::chrono::milliseconds timeout{0};  ///< of one object; 0: none
  Headers headers;                       ///< fields of each request to the server of a link
  bool synchronize = false;              ///< of a bucket: objects gone upstream are evicted
};
void to_json(nlohmann::json& out, const DownloadTerms& terms);
void from_json(const nlohmann::json& in, DownloadTerms& terms);

/// A download as a client asks for it: the body of POST /v1/download (docs/api.md).
struct DownloadRequest {
  /// Most bytes of the body: it becomes part of the record of a job.
  static constexpr std::size_t kBytesMax = 768U << 10U;
  static constexpr std::size_t kDescriptionBytesMax = 1024;
  static constexpr std::uint64_t kConnectionsMax = 128;

  Bucket bucket;
  std::string description;  ///< of the client, or made of the rest
  DownloadTerms terms;
  std::vector<DownloadItem> items;      ///< types single and multi
  std::optional<NameTemplate> pattern;  ///< type range: of links
  std::string subdir;                   ///< type range: before each name, with a slash at the end
  std::string prefix;                   ///< type backend
  std::string suffix;                   ///< type backend

  /// True if the objects come from upstream of the bucket itself, not from links.
  [[nodiscard]] bool is_backend() const;
  /// Number of objects; none for a bucket, which has to be listed.
  [[nodiscard]] std::optional<std::uint64_t> count() const;
  /// Object number `index`, from 0 to count() - 1.
  [[nodiscard]] DownloadItem item(std::uint64_t index) const;
  /// One link for each server that the download asks.
  [[nodiscard]] std::vector<std::string> servers() const;
};
/// Reads the body. invalid_argument, naming the fault: an unknown type or field, a field of another
/// type, a link that cannot be fetched, an invalid object name, two links for one name. unsupported
/// for fields of later work.
[[nodiscard]] Result<DownloadRequest> parse_download(const nlohmann::json& body);

/// A link taken apart: "https://host:1/dir/a%20b.tar?x=1", "s3://bucket/dir/a b.tar".
struct Link {
  std::string scheme;  ///< "http", "https", "s3", "gs" or "az"
  std::string server;  ///< "https://host:1", in lower case; of a cloud the bucket, "s3://bucket"
  std::string path;    ///< after it: of http with its slash and query, of a cloud the key
  std::string name;    ///< of the object, by the last part of the path; decoded; may be empty

  [[nodiscard]] bool is_web() const { return scheme.starts_with("http"); }
  /// The link without its query, which may have a signature in it: for people, and to be kept.
  [[nodiscard]] std::string display() const;
};
/// invalid_argument for a text that is no such link, that has credentials or a fragment in it, or
/// bytes that must be percent-encoded.
[[nodiscard]] Result<Link> parse_link(std::string_view text);

/// Jobs that a GET or DELETE of /v1/download is about.
struct DownloadQuery {
  std::string id;
  std::string regex;         ///< of descriptions
  bool only_active = false;  ///< of a list: jobs that run; of one job: without ended objects
};
/// invalid_argument for another body, for unknown fields, and for an id beside a regex. An empty
/// body asks for all.
[[nodiscard]] Result<DownloadQuery> parse_download_query(std::string_view body);

}  // namespace tarn::api
