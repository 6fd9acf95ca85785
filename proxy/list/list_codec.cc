#include "proxy/list/list_codec.h"

#include "common/api/msgpack.h"

namespace tarn::proxy {

std::string to_msgpack(const ListPage& page) {
  std::size_t bytes = 128 + page.uuid.size() + page.token.size();
  for (const api::PackedEntry& entry : *page.entries) bytes += entry.bytes.size();
  std::string out;
  out.reserve(bytes);
  api::MsgpackWriter writer(out);
  writer.map(4);
  writer.text("UUID");
  writer.text(page.uuid);
  writer.text("ContinuationToken");
  writer.text(page.token);
  writer.text("Flags");
  writer.number(0);
  writer.text("Entries");
  writer.array(page.entries->size());
  for (const api::PackedEntry& entry : *page.entries) out += entry.bytes;
  return out;
}

Result<std::string> to_json_text(const ListPage& page) {
  std::string out;
  out.reserve(128 + page.entries->size() * 128);
  out += "{\"uuid\":";
  api::append_quoted(page.uuid, out);
  out += ",\"continuation_token\":";
  api::append_quoted(page.token, out);
  out += ",\"entries\":[";
  for (const api::PackedEntry& packed : *page.entries) {
    if (out.back() != '[') out += ',';
    TRY(const api::ListEntry entry, api::unpack_entry(packed.bytes));
    api::append_json(entry, out);
  }
  out += "],\"flags\":0}\n";
  return out;
}

}  // namespace tarn::proxy
