#pragma once

#include "target/upstream/dialect.h"

namespace tarn::target {

/// Web servers, of which only RFC 9110 is expected. They have no lists and take no writes.
class WebDialect final : public Dialect {
 public:
  [[nodiscard]] http::ClientRequest object_request(const UpstreamServer& server,
                                                   http::Method method, std::string_view object,
                                                   http::Fields more,
                                                   std::int64_t now) const override;
  [[nodiscard]] http::ClientRequest bucket_request(const UpstreamServer& server,
                                                   std::int64_t now) const override;
  [[nodiscard]] Result<http::ClientRequest> list_request(const UpstreamServer& server,
                                                         const UpstreamListOrder& order,
                                                         std::int64_t now) const override;
  [[nodiscard]] Result<UpstreamObject> object_in(const UpstreamServer& server,
                                                 const http::ClientResponse& answer) const override;
  [[nodiscard]] Result<UpstreamPage> page_in(const UpstreamServer& server,
                                             const UpstreamListOrder& order,
                                             std::string_view body) const override;

 protected:
  /// Returns nothing: bodies of refusals are pages for people.
  [[nodiscard]] Said said_in(const http::ClientResponse& answer) const override;
};

}  // namespace tarn::target
