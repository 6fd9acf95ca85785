#include "common/api/list_page.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "common/api/msgpack.h"

namespace tarn::api {
namespace {

void append_number(std::uint64_t value, std::string& out) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

struct TextField {
  std::string_view key;   ///< in msgpack
  std::string_view word;  ///< in JSON
  std::string_view ListEntry::* field;
};
constexpr std::array kTextFields{TextField{"cs", "checksum", &ListEntry::checksum},
                                 TextField{"a", "atime", &ListEntry::atime},
                                 TextField{"v", "version", &ListEntry::version},
                                 TextField{"t", "location", &ListEntry::location},
                                 TextField{"m", "custom-md", &ListEntry::custom}};

/// Reads one entry, calling `take(key, reader)` for each field but the name.
template <class Take>
std::string_view walk_entry(MsgpackReader& reader, Take take) {
  std::string_view name;
  for (std::size_t left = reader.map(); left > 0 && reader.ok(); --left) {
    const auto key = reader.text();
    if (key == "n") {
      name = reader.text();
    } else {
      take(key, reader);
    }
  }
  return name;
}

}  // namespace

void append_quoted(std::string_view text, std::string& out) {
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

void pack(const ListEntry& entry, std::string& out) {
  MsgpackWriter writer(out);
  std::size_t count = 1;
  for (const TextField& each : kTextFields) count += (entry.*each.field).empty() ? 0 : 1;
  count +=
      (entry.size != 0 ? 1U : 0U) + (entry.copies != 0 ? 1U : 0U) + (entry.flags != 0 ? 1U : 0U);
  writer.map(count);
  writer.text("n");
  writer.text(entry.name);
  for (const TextField& each : kTextFields) {
    if ((entry.*each.field).empty()) continue;
    writer.text(each.key);
    writer.text(entry.*each.field);
  }
  const auto number = [&](std::string_view key, std::uint64_t value) {
    if (value == 0) return;
    writer.text(key);
    writer.number(value);
  };
  number("s", entry.size);
  number("c", entry.copies);
  number("f", entry.flags);
}

Result<ListEntry> unpack_entry(std::string_view bytes) {
  ListEntry out;
  MsgpackReader reader(bytes);
  out.name = walk_entry(reader, [&](std::string_view key, MsgpackReader& from) {
    for (const TextField& each : kTextFields)
      if (each.key == key) {
        out.*each.field = from.text();
        return;
      }
    if (key == "s") {
      out.size = from.number();
    } else if (key == "c") {
      out.copies = static_cast<unsigned>(from.number());
    } else if (key == "f") {
      out.flags = static_cast<unsigned>(from.number());
    } else {
      from.skip();
    }
  });
  if (!reader.ok() || out.name.empty()) return fail(Errc::corrupt, "malformed entry of a list");
  return out;
}

void append_json(const ListEntry& entry, std::string& out) {
  out += "{\"name\":";
  append_quoted(entry.name, out);
  const auto key = [&](std::string_view word) {
    out += ",\"";
    out += word;
    out += "\":";
  };
  for (const TextField& each : kTextFields) {
    if ((entry.*each.field).empty()) continue;
    key(each.word);
    append_quoted(entry.*each.field, out);
  }
  if (entry.size != 0) {
    key("size");
    out += '"';
    append_number(entry.size, out);
    out += '"';
  }
  if (entry.copies != 0) {
    key("copies");
    append_number(entry.copies, out);
  }
  key("flags");
  append_number(entry.flags, out);
  out += '}';
}

void PagePacker::add(const ListEntry& entry) {
  const std::size_t begin = bytes_->size();
  pack(entry, *bytes_);
  // The name is the map's first value: after the map's head, "n" and its own head.
  const std::size_t head = entry.name.size() < 32 ? 1 : entry.name.size() <= 0xFF ? 2 : 3;
  ends_.push_back({begin + 3 + head, entry.name.size(), bytes_->size()});
}

PackedPage PagePacker::take(bool more) {
  PackedPage page;
  page.more = more;
  page.entries.reserve(ends_.size());
  const std::string_view all = *bytes_;
  std::size_t begin = 0;
  for (const End& each : ends_) {
    page.entries.push_back(
        {all.substr(each.name_begin, each.name_size), all.substr(begin, each.end - begin)});
    begin = each.end;
  }
  page.bytes = std::move(bytes_);
  bytes_ = std::make_unique<std::string>();
  ends_.clear();
  return page;
}

std::string encode_page(const std::vector<PackedEntry>& entries, bool more) {
  std::size_t bytes = 64;
  for (const PackedEntry& entry : entries) bytes += entry.bytes.size();
  std::string out;
  out.reserve(bytes);
  MsgpackWriter writer(out);
  writer.map(2);
  writer.text("entries");
  writer.array(entries.size());
  for (const PackedEntry& entry : entries) out += entry.bytes;
  writer.text("more");
  writer.boolean(more);
  return out;
}

Result<PackedPage> decode_page(std::string bytes) {
  PackedPage page;
  page.bytes = std::make_unique<std::string>(std::move(bytes));
  MsgpackReader reader(*page.bytes);
  bool has_more = false;
  for (std::size_t left = reader.map(); left > 0 && reader.ok(); --left) {
    const auto key = reader.text();
    if (key == "more") {
      page.more = reader.boolean();
      has_more = true;
    } else if (key == "entries") {
      const std::size_t count = reader.array();
      page.entries.reserve(std::min<std::size_t>(count, reader.rest().size() / 4));
      for (std::size_t i = 0; i < count && reader.ok(); ++i) {
        const auto from = reader.rest();
        const auto name =
            walk_entry(reader, [](std::string_view, MsgpackReader& value) { value.skip(); });
        if (reader.ok() && name.empty())
          return fail(Errc::corrupt, "malformed page of a list: an entry without a name");
        page.entries.push_back({name, from.substr(0, from.size() - reader.rest().size())});
      }
    } else {
      reader.skip();
    }
  }
  if (!reader.ok() || !reader.at_end()) return fail(Errc::corrupt, "malformed page of a list");
  if (!has_more) return fail(Errc::corrupt, "a page of a list that does not say \"more\"");
  return page;
}

}  // namespace tarn::api
