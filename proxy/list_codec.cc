#include "proxy/list_codec.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "common/base/encoding.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

// AIStore's bits of an entry's "f".
constexpr unsigned kPresent = 64;
constexpr unsigned kDirectory = 256;

unsigned flags_of(const ListEntry& entry) {
  return entry.is_directory() ? kPresent | kDirectory : kPresent;
}

/// Fills a TargetPage while nlohmann's parser walks through the bytes. Depth 1 is the page, depth 2
/// the array of entries or an unknown value, depth 3 an entry.
class PageReader final : public nlohmann::json_sax<json> {
 public:
  TargetPage page;
  std::string problem;
  bool has_more = false;

  bool null() override { return true; }
  bool boolean(bool value) override {
    if (depth_ == 1 && key_ == "more") {
      page.more = value;
      has_more = true;
    }
    return true;
  }
  bool number_integer(number_integer_t value) override {
    if (value >= 0) return number_unsigned(static_cast<number_unsigned_t>(value));
    if (in_entry() && key_ == "a") page.entries.back().atime_ns = value;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!in_entry()) return true;
    ListEntry& entry = page.entries.back();
    if (key_ == "s") entry.size = value;
    if (key_ == "v") entry.version = value;
    if (key_ == "a") entry.atime_ns = static_cast<std::int64_t>(value);
    return true;
  }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t& value) override {
    if (!in_entry()) return true;
    ListEntry& entry = page.entries.back();
    if (key_ == "n") {
      entry.name = std::move(value);
    } else if (key_ == "cs") {
      entry.checksum = std::move(value);
    } else if (key_ == "t") {
      entry.location = std::move(value);
    } else if (key_ == "v") {
      entry.version = parse_u64(value).value_or(0);
    }
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    ++depth_;
    if (depth_ == 3 && in_entries_) page.entries.emplace_back();
    return true;
  }
  bool key(string_t& name) override {
    key_ = std::move(name);
    return true;
  }
  bool end_object() override {
    if (in_entry() && page.entries.back().name.empty()) {
      problem = "an entry without a name";
      return false;
    }
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    if (depth_ == 2 && key_ == "entries") in_entries_ = true;
    return true;
  }
  bool end_array() override {
    if (depth_ == 2) in_entries_ = false;
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    problem = error.what();
    return false;
  }

 private:
  [[nodiscard]] bool in_entry() const { return depth_ == 3 && in_entries_; }
  int depth_ = 0;
  bool in_entries_ = false;
  std::string key_;
};

/// Appends values in msgpack's format: big-endian, the shortest form of each.
class MsgpackWriter {
 public:
  std::string out;

  void map(std::size_t size) { sized(size, 0x80, 16, 0, 0xDE, 0xDF); }
  void array(std::size_t size) { sized(size, 0x90, 16, 0, 0xDC, 0xDD); }
  void text(std::string_view value) {
    sized(value.size(), 0xA0, 32, 0xD9, 0xDA, 0xDB);
    out += value;
  }
  void number(std::uint64_t value) {
    if (value < 0x80) {
      big_endian(value, 1);
    } else if (value <= 0xFF) {
      tagged(0xCC, value, 1);
    } else if (value <= 0xFFFF) {
      tagged(0xCD, value, 2);
    } else if (value <= 0xFFFFFFFF) {
      tagged(0xCE, value, 4);
    } else {
      tagged(0xCF, value, 8);
    }
  }

 private:
  void big_endian(std::uint64_t value, unsigned bytes) {
    for (unsigned i = bytes; i-- > 0;) out += static_cast<char>((value >> (8 * i)) & 0xFF);
  }
  void tagged(unsigned tag, std::uint64_t value, unsigned bytes) {
    out += static_cast<char>(tag);
    big_endian(value, bytes);
  }
  /// A length in the tag itself below `inline_end`, else behind a tag for 8 (0: none), 16 or 32
  /// bits.
  void sized(std::size_t size, unsigned tag, std::size_t inline_end, unsigned tag8, unsigned tag16,
             unsigned tag32) {
    if (size < inline_end) {
      big_endian(tag | size, 1);
    } else if (tag8 != 0 && size <= 0xFF) {
      tagged(tag8, size, 1);
    } else if (size <= 0xFFFF) {
      tagged(tag16, size, 2);
    } else {
      tagged(tag32, size, 4);
    }
  }
};

/// Appends `text` as a JSON string. Names are UTF-8 (checked when they were stored).
void append_json(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

/// Calls `text(key, value)` and `number(key, value)` for what a client wants of an entry besides
/// its name, zero and empty values left out.
template <class Text, class Number>
void for_each_field(const ListEntry& entry, const ListRequest& request, Text text, Number number) {
  const ListFields& fields = request.fields;
  if (entry.is_directory()) return;
  if (fields.checksum && !entry.checksum.empty()) text("cs", "checksum", entry.checksum);
  if (fields.atime && entry.atime_ns != 0)
    text("a", "atime", format_time(entry.atime_ns, request.time_format));
  if (fields.version && entry.version != 0) text("v", "version", std::to_string(entry.version));
  if (fields.location && !entry.location.empty()) text("t", "location", entry.location);
  if (fields.size && entry.size != 0) number("s", "size", entry.size);
  if (fields.copies) number("c", "copies", 1);
}

}  // namespace

Result<TargetPage> decode_target_page(std::string_view msgpack) {
  PageReader reader;
  const bool parsed =
      json::sax_parse(msgpack.begin(), msgpack.end(), &reader, json::input_format_t::msgpack);
  if (!parsed) return fail(Errc::corrupt, "malformed page of a list: {}", reader.problem);
  if (!reader.has_more) return fail(Errc::corrupt, "a page of a list that does not say \"more\"");
  return std::move(reader.page);
}

std::string to_msgpack(const ListPage& page, const ListRequest& request) {
  MsgpackWriter writer;
  writer.out.reserve(128 + page.entries->size() * 96);
  writer.map(4);
  writer.text("UUID");
  writer.text(page.uuid);
  writer.text("ContinuationToken");
  writer.text(page.token);
  writer.text("Flags");
  writer.number(0);
  writer.text("Entries");
  writer.array(page.entries->size());
  for (const ListEntry& entry : *page.entries) {
    std::size_t count = 2;
    const auto counted = [&count](auto&&...) { ++count; };
    for_each_field(entry, request, counted, counted);
    writer.map(count);
    writer.text("n");
    writer.text(entry.name);
    for_each_field(
        entry, request,
        [&](std::string_view key, std::string_view, std::string_view value) {
          writer.text(key);
          writer.text(value);
        },
        [&](std::string_view key, std::string_view, std::uint64_t value) {
          writer.text(key);
          writer.number(value);
        });
    writer.text("f");
    writer.number(flags_of(entry));
  }
  return std::move(writer.out);
}

std::string to_json_text(const ListPage& page, const ListRequest& request) {
  std::string out;
  out.reserve(128 + page.entries->size() * 128);
  out += "{\"uuid\":";
  append_json(out, page.uuid);
  out += ",\"continuation_token\":";
  append_json(out, page.token);
  out += ",\"entries\":[";
  for (const ListEntry& entry : *page.entries) {
    if (out.back() != '[') out += ',';
    out += "{\"name\":";
    append_json(out, entry.name);
    const auto put = [&](std::string_view key, std::string_view value) {
      out += ",\"";
      out += key;
      out += "\":";
      append_json(out, value);
    };
    for_each_field(
        entry, request,
        [&](std::string_view, std::string_view key, std::string_view value) { put(key, value); },
        [&](std::string_view, std::string_view key, std::uint64_t value) {
          if (key == "size") {
            put(key, std::to_string(value));
          } else {
            out += fmt::format(",\"{}\":{}", key, value);
          }
        });
    out += fmt::format(",\"flags\":{}}}", flags_of(entry));
  }
  out += "],\"flags\":0}\n";
  return out;
}

}  // namespace tarn::proxy
