#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tarn::api {

/// Appends values in msgpack's format (msgpack.org's spec.md): big-endian, the shortest form of
/// each.
class MsgpackWriter {
 public:
  explicit MsgpackWriter(std::string& out) : out_(out) {}

  void map(std::size_t size) { sized(size, 0x80, 16, 0, 0xDE, 0xDF); }
  void array(std::size_t size) { sized(size, 0x90, 16, 0, 0xDC, 0xDD); }
  void boolean(bool value) { out_ += static_cast<char>(value ? 0xC3 : 0xC2); }
  void text(std::string_view value) {
    sized(value.size(), 0xA0, 32, 0xD9, 0xDA, 0xDB);
    out_ += value;
  }
  void number(std::uint64_t value);

 private:
  void big_endian(std::uint64_t value, unsigned bytes);
  void tagged(unsigned tag, std::uint64_t value, unsigned bytes) {
    out_ += static_cast<char>(tag);
    big_endian(value, bytes);
  }
  /// The head of a map, an array or a text; `tag8` is 0 where the format has none.
  void sized(std::size_t size, unsigned fix, std::size_t fix_end, unsigned tag8, unsigned tag16,
             unsigned tag32) {
    if (size < fix_end) {
      out_ += static_cast<char>(fix | size);
    } else if (tag8 != 0 && size <= 0xFF) {
      tagged(tag8, size, 1);
    } else {
      size <= 0xFFFF ? tagged(tag16, size, 2) : tagged(tag32, size, 4);
    }
  }

  std::string& out_;
};

/// Walks through msgpack values without copying. ok() turns false at the first value that is
/// malformed, ends too early or is of another type than was asked for. All further results are then
/// empty.
class MsgpackReader {
 public:
  explicit MsgpackReader(std::string_view bytes) : rest_(bytes) {}

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  [[nodiscard]] std::string_view rest() const { return rest_; }

  [[nodiscard]] std::size_t map();    ///< number of pairs that follow
  [[nodiscard]] std::size_t array();  ///< number of values that follow
  [[nodiscard]] std::string_view text();
  [[nodiscard]] std::uint64_t number();  ///< from 0 on
  [[nodiscard]] bool boolean();
  /// Passes over one value with all that is in it. Fails beyond 32 levels.
  void skip() { skip(32); }

 private:
  unsigned byte() {
    if (rest_.empty()) return fail();
    const auto value = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  unsigned fail() {
    ok_ = false;
    rest_ = {};
    return 0;
  }
  std::uint64_t big_endian(unsigned bytes);
  std::string_view take(std::size_t size);
  void skip(int levels);

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace tarn::api
