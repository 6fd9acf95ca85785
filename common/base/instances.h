#pragma once

// Part of the precompiled header only. Templates that nearly every file would otherwise instantiate
// and optimize again, only for the linker to throw them away, are compiled once, in instances.cc: a
// third of what compiling all of Tarn would cost.

#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

extern template class nlohmann::basic_json<>;
extern template class nlohmann::detail::parser<
    nlohmann::json, nlohmann::detail::iterator_input_adapter<std::string::const_iterator>>;
extern template class nlohmann::detail::parser<
    nlohmann::json, nlohmann::detail::iterator_input_adapter<const char*>>;
extern template void fmt::detail::vformat_to<char>(
    fmt::detail::buffer<char>&, fmt::string_view, fmt::basic_format_args<fmt::buffer_context<char>>,
    fmt::detail::locale_ref);
