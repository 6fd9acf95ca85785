#include "common/http/request_parser.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>

#include "common/base/encoding.h"

namespace tarn::http {
namespace {

namespace beast_http = boost::beast::http;
using boost::system::error_code;

constexpr std::size_t kRequestParserHeadReadBytes = 1536;  // most heads
constexpr std::size_t kIdleBytesMax = 2048;  // an idle connection keeps a buffer of this size
constexpr std::size_t kRequestParserChunkedReadBytes =
    256UL * 1024;                           // 512 bytes, Beast's default, cost 4x the CPU
constexpr std::size_t kLastChunkBytes = 5;  // "0\r\n\r\n"
constexpr std::size_t kRequestParserChunkLineBytesMax =
    16UL * 1024;  // chunk sizes, extensions, trailers

Method method_of(beast_http::verb verb) {
  switch (verb) {
    case beast_http::verb::get: return Method::get;
    case beast_http::verb::head: return Method::head;
    case beast_http::verb::put: return Method::put;
    case beast_http::verb::post: return Method::post;
    case beast_http::verb::patch: return Method::patch;
    case beast_http::verb::delete_: return Method::del;
    case beast_http::verb::options: return Method::options;
    default: return Method::other;
  }
}

/// Beast waits for CR LF CR LF; a head with bare line feeds would wait for ever. So look for them
/// first.
bool has_bare_line_feed(std::string_view bytes) {
  const auto end = bytes.find("\r\n\r\n");
  const auto head = bytes.substr(0, end);
  for (auto at = head.find('\n'); at != std::string_view::npos; at = head.find('\n', at + 1))
    if (at == 0 || head[at - 1] != '\r') return true;
  return false;
}

Error head_error(const error_code& ec) {
  if (ec == beast_http::error::header_limit)
    return {Errc::header_too_large, "the header block is too large"};
  if (ec == beast_http::error::bad_version)
    return {Errc::version_unsupported, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
  return {Errc::invalid_argument, fmt::format("malformed HTTP request: {}", ec.message())};
}

std::size_t count_fields(const RequestHead& head, std::string_view name) {
  return static_cast<std::size_t>(
      std::count_if(head.fields.begin(), head.fields.end(),
                    [&](const Field& field) { return iequals(field.name, name); }));
}

Status check_host(const RequestHead& head) {
  const auto count = count_fields(head, "Host");
  if (count > 1 || (count == 0 && head.version == 11))
    return fail(Errc::invalid_argument, "a request needs exactly one Host field, this one has {}",
                count);
  if (head.field("Host").find_first_of(" \t,/@\\") != std::string_view::npos)
    return fail(Errc::invalid_argument, "malformed Host field '{}'", head.field("Host"));
  return {};
}

/// The forms of RFC 9112, 3.2, less the one of CONNECT: the bytes after that are no HTTP.
Status check_target(const RequestHead& head) {
  const std::string_view target = head.target;
  const auto scheme = target.substr(0, target.find(':'));
  const bool absolute = (iequals(scheme, "http") || iequals(scheme, "https")) &&
                        target.substr(scheme.size()).starts_with("://");
  const bool asterisk = target == "*" && head.method == Method::options;
  if ((target.starts_with('/') || absolute || asterisk) && head.method_text != "CONNECT") return {};
  return fail(Errc::invalid_argument, "malformed request target '{}'", target);
}

}  // namespace

Status check_framing(const RequestHead& head, std::size_t header_bytes, const Limits& limits) {
  if (head.target.size() > limits.target_bytes_max)
    return fail(Errc::uri_too_long, "the request target has {} bytes, at most {} are allowed",
                head.target.size(), limits.target_bytes_max);
  if (header_bytes > limits.header_bytes_max)
    return fail(Errc::header_too_large, "the header block has {} bytes, at most {} are allowed",
                header_bytes, limits.header_bytes_max);
  if (head.fields.size() > limits.fields_max)
    return fail(Errc::header_too_large, "{} header fields, at most {} are allowed",
                head.fields.size(), limits.fields_max);
  TRY_OK(check_target(head));
  TRY_OK(check_host(head));
  const auto lengths = count_fields(head, "Content-Length");
  const auto codings = count_fields(head, "Transfer-Encoding");
  if (lengths > 1) return fail(Errc::invalid_argument, "more than one Content-Length field");
  if (codings > 1) return fail(Errc::invalid_argument, "more than one Transfer-Encoding field");
  if (lengths == 1 && codings == 1)
    return fail(Errc::invalid_argument, "both Content-Length and Transfer-Encoding");
  if (lengths == 1 && !parse_u64(head.field("Content-Length")))
    return fail(Errc::invalid_argument, "malformed Content-Length '{}'",
                head.field("Content-Length"));
  if (codings == 1) {
    const auto coding = head.field("Transfer-Encoding");
    if (head.version == 10)
      return fail(Errc::invalid_argument, "Transfer-Encoding in an HTTP/1.0 request");
    if (!iequals(coding, "chunked"))
      return fail(Errc::invalid_argument, "transfer coding '{}': only chunked is understood",
                  coding);
  }
  if (const auto expect = head.field("Expect"); !expect.empty() && !iequals(expect, "100-continue"))
    return fail(Errc::expectation_failed, "expectation '{}': only 100-continue is understood",
                expect);
  return {};
}

namespace {

/// Heads that have been returned. A busy connection needs one at a time, an idle one none.
constexpr std::size_t kSpareHeadsMax = 64;
constexpr std::size_t kSpareHeadBytesMax = 8UL * 1024;  // of each: a long one may not stay
std::vector<RequestHead>& spare_heads() {
  thread_local std::vector<RequestHead> heads = [] {
    std::vector<RequestHead> none;
    none.reserve(kSpareHeadsMax);  // returning one must not fail
    return none;
  }();
  return heads;
}

RequestHead take_head() {
  auto& spare = spare_heads();
  if (spare.empty()) return {};
  RequestHead head = std::move(spare.back());
  spare.pop_back();
  return head;
}

std::size_t bytes_held(const RequestHead& head) {
  std::size_t bytes = head.target.capacity() + head.fields.capacity() * sizeof(Field);
  for (const Field& field : head.fields) bytes += field.name.capacity() + field.value.capacity();
  return bytes;
}

bool asks_to_keep_alive(const RequestHead& head) {
  return to_lower(head.field("Connection")).find("keep-alive") != std::string::npos;
}

/// Beast's parser, whose findings go straight into a RequestHead and into the caller's buffer.
class MessageParser final : public beast_http::basic_parser<true> {
 public:
  using Text = boost::beast::string_view;

  RequestHead head;
  std::size_t trailers = 0;
  std::span<std::byte> body;  ///< room for decoded bytes of a chunked body

 private:
  void on_request_impl(beast_http::verb verb, Text method, Text target, int version,
                       error_code&) override {
    head = take_head();
    head.method = method_of(verb);
    head.method_text.assign(method.data(), method.size());
    head.target.assign(target.data(), target.size());
    head.version = static_cast<unsigned>(version);
  }
  void on_field_impl(beast_http::field, Text name, Text value, error_code&) override {
    if (is_header_done()) {
      ++trailers;
      return;
    }
    if (fields_ == head.fields.size()) head.fields.emplace_back();
    Field& field = head.fields[fields_++];
    field.name.assign(name.data(), name.size());
    field.value.assign(value.data(), value.size());
  }
  void on_header_impl(error_code&) override {
    head.fields.resize(fields_);
    // Beast heeds Proxy-Connection as well, which old proxies pass on without understanding it.
    head.keep_alive = keep_alive() && (head.version == 11 || asks_to_keep_alive(head));
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(Text, error_code&) override { return 0; }  // see RequestParser::take
  /// Beast takes any length, and line feeds in a quoted value, which other programs read as the
  /// line's end.
  void on_chunk_header_impl(std::uint64_t, Text extensions, error_code& ec) override {
    if (extensions.size() > kRequestParserChunkLineBytesMax ||
        extensions.find_first_of("\r\n") != Text::npos)
      ec = beast_http::error::bad_chunk_extension;
  }
  std::size_t on_chunk_body_impl(std::uint64_t, Text bytes, error_code& ec) override {
    const std::size_t count = std::min(bytes.size(), body.size());
    if (count > 0) std::memcpy(body.data(), bytes.data(), count);
    body = body.subspan(count);
    if (count < bytes.size()) ec = beast_http::error::need_buffer;
    return count;
  }
  void on_finish_impl(error_code&) override {}
  void on_response_impl(int, Text, int, error_code&) override {}  // never: this parses requests

  std::size_t fields_ = 0;  ///< of `head` that belong to this request
};

}  // namespace

void give_back(RequestHead head) {
  if (spare_heads().size() < kSpareHeadsMax && bytes_held(head) <= kSpareHeadBytesMax)
    spare_heads().push_back(std::move(head));
}

struct RequestParser::Impl {
  explicit Impl(const Limits& its_limits) : limits(its_limits) {}
  const Limits& limits;
  boost::beast::flat_buffer buffer;
  std::optional<MessageParser> http;
  std::size_t head_bytes = 0;
  bool begun = false;  ///< a byte of this request has been looked at

  [[nodiscard]] std::string_view text() const {
    return {static_cast<const char*>(buffer.data().data()), buffer.size()};
  }
  Status check_head_so_far();
};

RequestParser::RequestParser(const Limits& limits) : impl_(std::make_unique<Impl>(limits)) {
  next();
}
RequestParser::~RequestParser() = default;

void RequestParser::next() {
  Impl& it = *impl_;
  auto& http = it.http.emplace();
  http.header_limit(
      static_cast<std::uint32_t>(it.limits.header_bytes_max + it.limits.target_bytes_max + 1024));
  http.body_limit(boost::none);
  it.head_bytes = 0;
  it.begun = false;
  if (it.buffer.capacity() > kIdleBytesMax) rest();
}

void RequestParser::rest() {
  if (impl_->buffer.size() == 0) impl_->buffer = boost::beast::flat_buffer();
}

std::span<std::byte> RequestParser::prepare() {
  const bool in_body = impl_->http->is_header_done();
  const auto room =
      impl_->buffer.prepare(in_body ? kRequestParserChunkedReadBytes : kRequestParserHeadReadBytes);
  return {static_cast<std::byte*>(room.data()), room.size()};
}

void RequestParser::commit(std::size_t bytes) { impl_->buffer.commit(bytes); }
std::size_t RequestParser::buffered() const { return impl_->buffer.size(); }

/// Finds errors that Beast would find late or never, since it waits for the end of the head.
Status RequestParser::Impl::check_head_so_far() {
  if (has_bare_line_feed(text()))
    return fail(Errc::invalid_argument, "a line of the header ends without CR");
  // Beast takes the request line away before the fields: the first byte then may be any of these.
  const bool in_request_line = head_bytes == 0;
  if (in_request_line &&
      std::min(text().find("\r\n"), buffer.size()) > limits.target_bytes_max + 64)
    return fail(Errc::uri_too_long, "the request line is longer than {} bytes",
                limits.target_bytes_max);
  return {};
}

Result<bool> RequestParser::read_head(RequestHead& out) {
  Impl& it = *impl_;
  if (!it.begun) {
    // RFC 9112, 2.2: ignore an empty line before the request line. One, however it is cut into
    // reads.
    if (it.text().empty() || it.text() == "\r") return false;
    it.begun = true;
    if (it.text().starts_with("\r\n")) it.buffer.consume(2);
  }
  if (it.buffer.size() == 0) return false;
  TRY_OK(it.check_head_so_far());
  error_code ec;
  const std::size_t used = it.http->put(it.buffer.data(), ec);
  it.buffer.consume(used);
  it.head_bytes += used;
  if (!it.http->is_header_done()) {
    if (ec && ec != beast_http::error::need_more) return fail(head_error(ec));
    return false;
  }
  out = std::move(it.http->head);
  const std::size_t line_bytes = out.method_text.size() + out.target.size() + 12;
  const std::size_t field_bytes = it.head_bytes > line_bytes ? it.head_bytes - line_bytes : 0;
  TRY_OK(check_framing(out, field_bytes, it.limits));
  out.chunked = !out.field("Transfer-Encoding").empty();
  out.content_length = parse_u64(out.field("Content-Length"));
  out.expects_continue = out.version == 11 && !out.field("Expect").empty();
  return true;
}

std::size_t RequestParser::take(std::span<std::byte> into) {
  auto& buffer = impl_->buffer;
  const std::size_t count = std::min(into.size(), buffer.size());
  if (count > 0) std::memcpy(into.data(), buffer.data().data(), count);
  buffer.consume(count);
  return count;
}

std::size_t RequestParser::drop(std::uint64_t bytes) {
  const std::size_t count = std::min<std::uint64_t>(bytes, impl_->buffer.size());
  impl_->buffer.consume(count);
  return count;
}

Result<RequestParser::Decoded> RequestParser::read_chunked(std::span<std::byte> into) {
  Impl& it = *impl_;
  auto& http = *it.http;
  auto& buffer = it.buffer;
  // Bytes buffered after the body are the next request.
  if (http.is_done()) return Decoded{0, true};
  http.body = into;
  http.eager(true);
  while (true) {
    error_code ec;
    // The shortest end of a body has five bytes. With fewer after a last chunk's size Beast 1.81
    // fails an assertion of its own: so a wait for further bytes is always right.
    const std::size_t used = buffer.size() >= kLastChunkBytes ? http.put(buffer.data(), ec) : 0;
    buffer.consume(used);
    if (ec && ec != beast_http::error::need_more && ec != beast_http::error::need_buffer)
      return fail(Errc::invalid_argument, "malformed chunked body: {}", ec.message());
    const Decoded decoded{into.size() - http.body.size(), http.is_done()};
    if (decoded.done && http.trailers > it.limits.fields_max)
      return fail(Errc::header_too_large, "the body ends in more than {} trailers",
                  it.limits.fields_max);
    if (decoded.bytes > 0 || decoded.done || used == 0) {
      if (used == 0 && buffer.size() > kRequestParserChunkLineBytesMax)
        return fail(Errc::invalid_argument, "a chunk header or trailer is longer than {} bytes",
                    kRequestParserChunkLineBytesMax);
      return decoded;
    }
  }
}

}  // namespace tarn::http
