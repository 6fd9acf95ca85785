# Everything that Tarn links comes from Debian 12 (deploy/install-deps).
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
find_package(RocksDB REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(pugixml REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
find_path(TARN_CLI11_INCLUDE CLI/CLI.hpp REQUIRED)
find_path(TARN_EXPECTED_INCLUDE tl/expected.hpp REQUIRED)

# Asio and Beast compiled once (common/http/asio_beast.cc) instead of in every file that uses them.
add_library(tarn_asio INTERFACE)
target_link_libraries(tarn_asio INTERFACE Boost::headers OpenSSL::SSL OpenSSL::Crypto Threads::Threads)
target_compile_definitions(tarn_asio INTERFACE
  BOOST_ASIO_SEPARATE_COMPILATION BOOST_BEAST_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED
  BOOST_BEAST_USE_STD_STRING_VIEW)
