#pragma once

#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/error.h"

namespace tarn {

/// Returns what `read` returns. `read` takes values out of JSON; it may return a value, a Result,
/// or void. Where a value is missing or has another type, or the text is not JSON: `code`, with
/// `subject` and the reason as its text. The same where a from_json() or std::stoull() refuses a
/// value by a std::logic_error. Other exceptions, such as std::bad_alloc, pass to the caller.
template <class Read>
[[nodiscard]] auto read_json(Errc code, std::string_view subject, const Read& read) {
  using Value = std::invoke_result_t<const Read&>;
  constexpr bool is_result = requires { typename Value::error_type; };
  using Out = std::conditional_t<is_result, Value, Result<Value>>;
  try {
    if constexpr (std::is_void_v<Value>) {
      read();
      return Out();
    } else {
      return Out(read());
    }
  } catch (const nlohmann::json::exception& problem) {
    return Out(fail(code, "{}: {}", subject, problem.what()));
  } catch (const std::logic_error& problem) {
    return Out(fail(code, "{}: {}", subject, problem.what()));
  }
}

/// Returns the value that the JSON `text` holds, by from_json(). Fails as read_json() does.
template <class T>
[[nodiscard]] Result<T> parse_json(std::string_view text, Errc code, std::string_view subject) {
  return read_json(code, subject, [text] { return nlohmann::json::parse(text).get<T>(); });
}

}  // namespace tarn
