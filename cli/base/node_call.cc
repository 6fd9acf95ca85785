#include "cli/base/node_call.h"

#include <span>
#include <utility>

namespace tarn::cli {
namespace {

constexpr std::size_t kAnswerBytesMax = 16U << 20U;
/// A drive is opened while we wait.
constexpr std::chrono::minutes kStall{10};

Task<Result<std::string>> read_rest(http::ClientStream& stream) {
  std::string out;
  std::string buffer(16384, '\0');
  while (true) {
    CO_TRY(const std::size_t got,
           co_await stream.read_some(std::as_writable_bytes(std::span(buffer))));
    if (got == 0) co_return out;
    out.append(buffer, 0, got);
    if (out.size() > kAnswerBytesMax) co_return fail(Errc::io, "the node's answer has no end");
  }
}

}  // namespace

Task<Result<std::string>> call_node(Session& session, http::Method method, std::string node,
                                    std::string path, std::string body) {
  http::ClientRequest request{method, "/v1/reverse" + path, {{"Ais-Node-Id", node}}, {}};
  std::optional<std::uint64_t> length;
  if (!body.empty()) {
    request.fields.push_back({"Content-Type", "application/json"});
    request.fields.push_back({"Expect", "100-continue"});
    length = body.size();
  } else if (method != http::Method::get) {
    length = 0;
  }
  Patience patience = session.patience();
  CO_TRY(Opened opened, co_await session.open(std::move(request), length, patience, kStall));
  if (opened.head.status == 100) {
    CO_TRY_OK(co_await opened.stream.write(std::as_bytes(std::span(body))));
    CO_TRY_OK(co_await opened.stream.finish());
    CO_TRY(opened.head, co_await opened.stream.read_head());
    if (opened.head.status >= 400) {
      Error refused = co_await refusal(opened);
      co_return fail(std::move(refused));
    }
  }
  co_return co_await read_rest(opened.stream);
}

}  // namespace tarn::cli
