#include "common/api/status.h"

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace tarn::api {
namespace {

struct Row {
  Errc code;
  unsigned status;
  std::string_view tcode;
};

/// Order: of several with one status the first one stands for an answer without a tcode.
constexpr Row kTable[] = {
    {Errc::invalid_argument, 400, ""},
    {Errc::unauthenticated, 401, ""},
    {Errc::forbidden, 403, ""},
    {Errc::not_found, 404, ""},
    {Errc::bucket_not_found, 404, "ErrBckNotFound"},
    {Errc::remote_not_known, 404, "ErrRemoteBckNotFound"},
    {Errc::object_not_found, 404, "ErrNotFound"},
    {Errc::conflict, 409, "ErrBusy"},
    {Errc::bucket_exists, 409, "ErrBucketAlreadyExists"},
    {Errc::locked, 423, "ErrBusy"},
    {Errc::precondition_failed, 412, ""},
    {Errc::method_not_allowed, 405, ""},
    {Errc::expectation_failed, 417, ""},
    {Errc::request_timeout, 408, ""},
    {Errc::version_unsupported, 505, ""},
    {Errc::length_required, 411, ""},
    {Errc::range_not_satisfiable, 416, "ErrRangeNotSatisfiable"},
    {Errc::uri_too_long, 414, ""},
    {Errc::header_too_large, 431, ""},
    {Errc::body_too_large, 413, ""},
    {Errc::checksum_mismatch, 400, "ErrInvalidCksum"},
    {Errc::no_space, 507, "ErrCapExceeded"},
    {Errc::unsupported, 501, "ErrUnsupp"},
    {Errc::unavailable, 503, ""},
    {Errc::timeout, 504, ""},
    {Errc::cancelled, 503, ""},
    {Errc::bad_upstream, 502, ""},  // the meaning of an answer of 502: a lost connection has none
    {Errc::disconnected, 502, ""},
    {Errc::io, 503, ""},
    {Errc::corrupt, 500, ""},
    {Errc::internal, 500, ""},
};

const Row& row(Errc code) noexcept {
  for (const Row& candidate : kTable)
    if (candidate.code == code) return candidate;
  return kTable[std::size(kTable) - 1];
}

/// A text of an error's JSON.
std::optional<std::string> text_in(std::string_view body, const char* key) {
  const auto parsed = nlohmann::json::parse(body, nullptr, false);
  if (!parsed.is_object()) return std::nullopt;
  const auto found = parsed.find(key);
  if (found == parsed.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

}  // namespace

unsigned http_status(Errc code) noexcept { return row(code).status; }
std::string_view tcode(Errc code) noexcept { return row(code).tcode; }

Errc errc_of_answer(unsigned status, std::string_view body) {
  const std::string name = tcode_of(body);
  const Row* unnamed = nullptr;
  for (const Row& candidate : kTable) {
    if (candidate.status != status) continue;
    if (!name.empty() && candidate.tcode == name) return candidate.code;
    if (unnamed == nullptr) unnamed = &candidate;
  }
  if (unnamed != nullptr) return unnamed->code;
  return status >= 500 ? Errc::internal : Errc::invalid_argument;
}

std::string_view reason_phrase(unsigned status) noexcept {
  switch (status) {
    case 100: return "Continue";
    case 200: return "OK";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 304: return "Not Modified";
    case 307: return "Temporary Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 411: return "Length Required";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 416: return "Range Not Satisfiable";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 423: return "Locked";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    case 507: return "Insufficient Storage";
    default: return "Status";
  }
}

std::string error_json(const Error& error, const ErrorScene& scene) {
  nlohmann::ordered_json out;
  const std::string_view name = scene.tcode.empty() ? tcode(error.code) : scene.tcode;
  if (!name.empty()) out["tcode"] = name;
  out["message"] = error.message;
  out["method"] = scene.method;
  // Without the query, which may hold a signature.
  out["url_path"] = scene.url_path.substr(0, scene.url_path.find('?'));
  out["remote_addr"] = scene.remote_address;
  out["caller"] = "";
  out["node"] = scene.node;
  out["status"] = http_status(error.code);
  // Names in messages may be any bytes: replace what is not UTF-8 instead of throwing.
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string error_message_of(std::string_view body) {
  const auto message = text_in(body, "message");
  return message ? *message : std::string(body.substr(0, 500));
}

std::string tcode_of(std::string_view body) { return text_in(body, "tcode").value_or(""); }

}  // namespace tarn::api
