// Signed redirects: no query that was not signed is believed, and none crashes the target.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "common/api/request_path.h"
#include "common/security/redirect_token.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tarn;
  static const security::RedirectSigner signer(std::string(32, 'k'));
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto query = api::Query::parse(text);
  if (!query) return 0;
  const auto claim = signer.verify("PUT", "target01", "ais/@#/b/o", *query);
  if (claim && *claim) std::abort();  // forged without the key
  // A signed claim is believed, with whatever else the query holds.
  security::RedirectClaim ours;
  ours.method = "PUT";
  ours.target_id = "target01";
  ours.uname = "ais/@#/b/o";
  ours.proxy_id = "proxy001";
  ours.length = "5";
  std::string signed_query;
  signer.append_signed(signed_query, ours, *query);
  const auto again = api::Query::parse(signed_query);
  if (!again) return 0;  // more parameters than allowed
  const auto verified = signer.verify("PUT", "target01", "ais/@#/b/o", *again);
  if (!verified || !*verified || (*verified)->length != "5") std::abort();
  return 0;
}
