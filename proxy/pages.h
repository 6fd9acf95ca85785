#pragma once

#include <string>
#include <string_view>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/services.h"
#include "proxy/list/list.h"

namespace tarn::proxy {

/// HTML for a person with a browser, and for programs that walk links (wget -r, rclone, fsspec):
/// plain links, no script, only text that came from names, escaped. `href` is relative to the page,
/// so links hold below a path prefix, too; `data-href` is the path within the store.

/// GET /: the buckets.
Task<Status> root_page(const Services& services, http::Request& request);
/// GET /<bucket>/<prefix>: the entries of one virtual directory ('/' separates), from query `after`
/// on. A browser (`Accept: text/html`) gets a thousand names and a button to the next ones (not a
/// link, which a program could take for an entry). Any other client gets all names on one page,
/// sent as they are listed; the connection is reset if the list fails. `prefix` is empty or ends in
/// '/'. object_not_found when no object lies below a prefix; an empty bucket has a page.
Task<Status> bucket_page(const Services& services, http::Request& request, std::string bucket,
                         std::string prefix);

/// `text` with the characters that HTML would read as its own replaced.
[[nodiscard]] std::string escape_html(std::string_view text);
/// The page of one directory in parts, exposed for tests: the opening with the first entries, more
/// entries, and the end. The end has a button to the next page when the last entries have one.
[[nodiscard]] std::string render_opening(const std::string& bucket, const std::string& prefix,
                                         const api::MergedPage& listed);
[[nodiscard]] std::string render_entries(const std::string& bucket, const std::string& prefix,
                                         const api::MergedPage& listed);
[[nodiscard]] std::string render_closing(const api::MergedPage& listed);

}  // namespace tarn::proxy
