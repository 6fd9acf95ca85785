#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

/// The few asynchronous words that the whole program uses.
namespace tarn {

namespace asio = boost::asio;

/// A coroutine: runs on the loop of its caller.
template <class T = void>
using Task = asio::awaitable<T>;

/// Completion token of awaits whose error is a value: `auto [ec, n] = co_await s.async_read(..,
/// kTuple)`.
inline constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

}  // namespace tarn
