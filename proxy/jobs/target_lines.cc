#include "proxy/jobs/target_lines.h"

#include <array>

#include "common/api/status.h"
#include "proxy/jobs/jobs.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

/// A target sends a line four times a second, independent of its drives.
constexpr http::CallLimits kTargetLinesLimits{.stall = std::chrono::seconds(20)};
constexpr std::size_t kTargetLinesLineBytesMax = 4U << 20U;

Task<Result<http::ClientStream>> begin_on(const Services& services, const cluster::Node& target,
                                          const TargetJob& job) {
  CO_TRY(http::Url address, http::parse_url(target.internal_url));
  http::ClientRequest request;
  request.method = http::Method::post;
  request.target = job.path;
  request.fields.push_back(
      {std::string(security::NodeAuth::kHeader), services.auth.sign("POST", job.path)});
  CO_TRY(auto stream, co_await services.client.open(std::move(address), std::move(request),
                                                    job.order.size(), kTargetLinesLimits));
  CO_TRY_OK(co_await stream.write(std::as_bytes(std::span(job.order))));
  CO_TRY_OK(co_await stream.finish());
  co_return stream;
}

/// Reads the rest, so that the connection can be used again.
Task<void> drain(http::ClientStream& stream, std::span<std::byte> buffer) {
  while (true) {
    const auto got = co_await stream.read_some(buffer);
    if (!got || *got == 0) co_return;
  }
}

}  // namespace

Task<Status> follow_lines(const Services& services, const cluster::Node& target,
                          const TargetJob& job,
                          std::function<Result<bool>(const std::string& line)> take,
                          std::function<bool()> should_stop) {
  CO_TRY(http::ClientStream stream, co_await begin_on(services, target, job));
  CO_TRY(const http::ClientResponse head, co_await stream.read_head());
  std::string text;
  std::array<std::byte, 4096> buffer{};
  for (bool told = false;;) {
    CO_TRY(const std::size_t got, co_await stream.read_some(buffer));
    if (got == 0 && head.status != 200)
      co_return fail(api::errc_of_answer(head.status, text), "{}", api::error_message_of(text));
    if (got == 0) co_return fail(Errc::unavailable, "it ended before its part was done");
    text.append(reinterpret_cast<const char*>(buffer.data()), got);
    if (text.size() > kTargetLinesLineBytesMax)
      co_return fail(Errc::internal, "an answer of more than {} bytes", kTargetLinesLineBytesMax);
    if (head.status != 200) continue;
    for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      CO_TRY(const bool last, take(text.substr(0, end)));
      text.erase(0, end + 1);
      if (last) co_await drain(stream, buffer);
      if (last) co_return Status();
    }
    if (told || !should_stop()) continue;
    told = true;
    // Work that another driver of the job has begun there since is not ours to stop.
    const bool ours = co_await services.jobs.is_ours(job.id);
    if (!ours) co_return fail(Errc::cancelled, "another proxy drives the job now");
    const std::string path = job.path + "?job=" + job.id;
    const auto answer = co_await call_node(services, target, http::Method::del, path);
    if (!answer) co_return fail(answer.error());
  }
}

}  // namespace tarn::proxy
