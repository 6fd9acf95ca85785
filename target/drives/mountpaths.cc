#include "target/drives/mountpaths.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>

#include "common/api/action.h"
#include "common/base/pause.h"
#include "common/http/error_response.h"

namespace tarn::target {
namespace {

constexpr auto kKnownMax = std::chrono::seconds(5);
constexpr auto kMountpathsLookEvery = std::chrono::milliseconds(10);

/// The path that a message names, as the start takes those of --drive.
Result<std::string> mountpaths_path_of(const api::Action& action) {
  const std::string given = action.value.is_string() ? action.value.get<std::string>() : "";
  if (!given.starts_with('/'))
    return fail(Errc::invalid_argument,
                "{}: \"value\" must be the absolute path of a drive, such as \"/srv/d1\"",
                action.action);
  std::string path = std::filesystem::path(given).lexically_normal().string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

Status check_method(const http::Request& request, const std::string& action) {
  const bool is_put = action == "attach-mp";
  const bool is_delete = action == "detach-mp";
  const std::string_view wanted = is_put ? "PUT" : is_delete ? "DELETE" : "POST";
  if (request.head().method_text == wanted) return {};
  return fail(Errc::invalid_argument, "{} is sent with {}", action, wanted);
}

Task<Status> act(DriveAdmin& admin, std::string action, std::string path, std::string label,
                 bool no_resilver) {
  if (action == "attach-mp")
    co_return co_await admin.attach(std::move(path), std::move(label), !no_resilver);
  if (action == "detach-mp") co_return co_await admin.detach(std::move(path), no_resilver);
  if (action == "disable-mp") co_return co_await admin.disable(std::move(path), no_resilver);
  if (action == "enable-mp") co_return co_await admin.enable(std::move(path), !no_resilver);
  co_return co_await admin.examine(std::move(path));
}

/// Waits until the cluster knows the change: then an operator can go on with drives. Before that,
/// names with copies on nodes are unavailable here (is_authoritative_for_copies()). Not for ever,
/// since the meta store may be away.
Task<void> until_cluster_knows(TargetNode& node) {
  const auto patience = std::chrono::steady_clock::now() + kKnownMax;
  while (!node.owned.drive_set_is_known() && std::chrono::steady_clock::now() < patience) {
    co_await pause(kMountpathsLookEvery);
  }
}

Task<Status> change_drives(TargetNode& node, DriveAdmin& admin, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(api::Action::kBytesMax));
  CO_TRY(const api::Action action, api::parse_action(body));
  const std::string& verb = action.action;
  bool known = false;
  for (const char* each :
       {"attach-mp", "detach-mp", "enable-mp", "disable-mp", "rescan-mp", "fshc-mp"})
    known = known || verb == each;
  if (!known)
    co_return fail(Errc::invalid_argument,
                   "drives are changed with attach-mp, detach-mp, enable-mp, disable-mp, rescan-mp "
                   "or fshc-mp, not with '{}'",
                   verb);
  CO_TRY_OK(check_method(request, verb));
  std::string label(request.query().get("mountpath_label"));
  if (!label.empty()) CO_TRY_OK(check_drive_label(label));
  if (!label.empty() && verb != "attach-mp")
    co_return fail(Errc::invalid_argument, "mountpath_label= goes with attach-mp, not with {}",
                   verb);
  CO_TRY(const bool no_resilver, request.query().flag("dntres"));
  CO_TRY(std::string path, mountpaths_path_of(action));
  const Status done = co_await act(admin, verb, std::move(path), std::move(label), no_resilver);
  if (!done && done.error().code == Errc::not_found) {
    const std::string_view tcode = verb == "attach-mp" ? "ErrNotFound" : "ErrMpathNotFound";
    co_return co_await request.exchange.respond(
        http::error_response(request.exchange, done.error(), tcode));
  }
  CO_TRY_OK(done);
  co_await until_cluster_knows(node);
  co_return co_await request.exchange.respond(http::Response(200));
}

}  // namespace

std::vector<http::Route> mountpath_routes(TargetNode& node, DriveAdmin& admin) {
  return {
      {"PUT POST DELETE", "/v1/daemon/mountpaths", "drives come and go",
       [&node, &admin](http::Request& request) { return change_drives(node, admin, request); }}};
}

}  // namespace tarn::target
