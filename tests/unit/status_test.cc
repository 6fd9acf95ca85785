#include "common/api/status.h"

#include <string>

#include <catch2/catch.hpp>

namespace status_test {

using namespace tarn;

TEST_CASE(
    "api: what another node's error means is told by its name, else as little as its status says",
    "[api]") {
  const auto named = [](std::string_view tcode) {
    return R"({"tcode":")" + std::string(tcode) + R"(","message":"m"})";
  };
  for (const Errc code : {Errc::bucket_not_found, Errc::object_not_found, Errc::bucket_exists,
                          Errc::conflict, Errc::checksum_mismatch, Errc::no_space})
    CHECK(api::errc_of_answer(api::http_status(code), named(api::tcode(code))) == code);
  for (const std::string& body : {std::string(), std::string("no JSON"), named("ErrElsewhere")}) {
    CHECK(api::errc_of_answer(404, body) == Errc::not_found);
    CHECK(api::errc_of_answer(409, body) == Errc::conflict);
    CHECK(api::errc_of_answer(400, body) == Errc::invalid_argument);
    CHECK(api::errc_of_answer(503, body) == Errc::unavailable);
    CHECK(api::errc_of_answer(502, body) == Errc::bad_upstream);  // not a lost connection
  }
  // A name that belongs to another status is not believed.
  CHECK(api::errc_of_answer(503, named("ErrNotFound")) == Errc::unavailable);
  CHECK(api::errc_of_answer(418, "") == Errc::invalid_argument);
  CHECK(api::errc_of_answer(599, "") == Errc::internal);
}

}  // namespace status_test
