#pragma once

#include <string>
#include <string_view>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/list.h"
#include "proxy/services.h"

namespace tarn::proxy {

/// HTML for a person with a browser, and for `wget -r`: plain links, no script, nothing but text
/// that came from names, escaped.

/// GET /: the buckets.
Task<Status> root_page(const Services& services, http::Request& request);
/// GET /<bucket>/<prefix>: what lies in one virtual directory ('/' separates), a thousand names a
/// page, with a link to the next one. `prefix` is empty or ends in '/'. object_not_found when
/// nothing lies below a prefix; an empty bucket has a page.
Task<Status> bucket_page(const Services& services, http::Request& request, std::string bucket,
                         std::string prefix);

/// `text` with the characters that HTML would read as its own replaced.
[[nodiscard]] std::string escape_html(std::string_view text);
/// The page of one directory. Exposed for tests.
[[nodiscard]] std::string render_directory(const std::string& bucket, const std::string& prefix,
                                           const api::MergedPage& listed);

}  // namespace tarn::proxy
