// tarn-bench-slices: what the streams of ec/ cost beside the functions of ISA-L that they call.
//
//   tarn-bench-slices --code K+M --work encode|decode [--seconds S] [--buffer BYTES]
//
// One thread works on the memory of two stripes, in turn and a few milliseconds each. It measures
// ISA-L's encoding alone, CRC32C of the same blocks alone, the stream, and (encode) the stream with
// the object's XXH64. Encoding: bytes are where the encoder wants them, as after a receive, or with
// --buffer are copied there from elsewhere in chunks. Decoding: the first M data slices are lost,
// and made again out of the next K; what is made is not copied.
//
// Prints one line of JSON: of each, bytes of the object and CPU seconds.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "bench.h"
#include <isa-l/erasure_code.h>

#include "common/base/hash.h"
#include "ec/decoder.h"
#include "ec/encoder.h"

namespace {

using namespace tarn;
using bench::die;

constexpr std::size_t kStripes = 2;
constexpr int kStripesATime = 100;
constexpr ec::SetId kSet{7};

struct Options {
  ec::Geometry geometry;
  bool encode = true;
  double seconds = 0.4;
  std::size_t chunk = 0;
};

Options parse(int argc, char** argv) {
  Options options;
  bench::Words words(argc, argv);
  while (const auto word = words.next()) {
    const std::string value = words.value();
    if (*word == "--code") {
      options.geometry.k = std::strtoul(value.c_str(), nullptr, 10);
      options.geometry.m = std::strtoul(value.c_str() + value.find('+') + 1, nullptr, 10);
    } else if (*word == "--work" && (value == "encode" || value == "decode")) {
      options.encode = value == "encode";
    } else if (*word == "--seconds") {
      options.seconds = std::strtod(value.c_str(), nullptr);
    } else if (*word == "--buffer") {
      options.chunk = std::strtoul(value.c_str(), nullptr, 10);
    } else {
      die("unknown: " + *word + " " + value);
    }
  }
  if (const auto valid = check(options.geometry); !valid) die(valid.error().message);
  if (options.geometry.m > options.geometry.k) die("fewer data than parity slices");
  return options;
}

/// Whole stripes as the encoder makes them.
std::vector<ec::Stripe> stripes_of(const ec::Geometry& geometry) {
  auto encoder = ec::Encoder::of(geometry, kSet, false);
  std::vector<ec::Stripe> stripes;
  while (stripes.size() < kStripes) {
    const auto room = encoder->room();
    for (std::byte& byte : room) byte = static_cast<std::byte>(std::rand() >> 7);
    encoder->filled(room.size());
    if (encoder->ready()) stripes.push_back(encoder->take());
  }
  return stripes;
}

/// ISA-L by itself, as its manual has it: m units out of the k after the first `lost`.
class Raw {
 public:
  Raw(const ec::Geometry& geometry, bool encode)
      : k_(static_cast<int>(geometry.k)),
        m_(static_cast<int>(geometry.m)),
        first_(encode ? 0 : geometry.m),
        unit_(static_cast<int>(geometry.unit_bytes())),
        tables_(32 * geometry.k * geometry.m) {
    const std::size_t square = geometry.k * geometry.k;
    std::vector<std::uint8_t> matrix(geometry.k * geometry.slices());
    std::vector<std::uint8_t> inverse(square);
    gf_gen_cauchy1_matrix(matrix.data(), k_ + m_, k_);
    std::uint8_t* rows = &matrix[square];
    if (!encode) {
      if (gf_invert_matrix(&matrix[first_ * geometry.k], inverse.data(), k_) != 0)
        die("cannot invert");
      rows = inverse.data();
    }
    ec_init_tables(k_, m_, rows, tables_.data());
  }
  void run(const ec::Stripe& stripe, const ec::Stripe& out) {
    std::array<std::uint8_t*, ec::kSlicesMax> from{};
    std::array<std::uint8_t*, ec::kSlicesMax> to{};
    for (std::size_t i = 0; i < static_cast<std::size_t>(k_); ++i)
      from[i] = reinterpret_cast<std::uint8_t*>(stripe.room(first_ + i).data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(m_); ++i)
      to[i] = reinterpret_cast<std::uint8_t*>(out.room(i).data());
    ec_encode_data(unit_, k_, m_, tables_.data(), from.data(), to.data());
  }

 private:
  int k_;
  int m_;
  std::size_t first_;
  int unit_;
  std::vector<std::uint8_t> tables_;
};

void check_sums(const ec::Stripe& stripe, std::size_t first, std::size_t count) {
  static volatile std::uint32_t sum = 0;
  for (std::size_t i = first; i < first + count; ++i) sum = sum ^ crc32c(stripe.block(i));
}

/// The bytes are where the encoder's next stripe will be: the pool hands out what came back last.
void encode(ec::Encoder& encoder, const std::string& from, std::size_t chunk) {
  while (!encoder.ready()) {
    const auto room = encoder.room();
    if (chunk == 0) {
      encoder.filled(room.size());
      continue;
    }
    encoder.write(std::as_bytes(std::span(from)).first(chunk));
  }
  static_cast<void>(encoder.take());
}

void decode(const ec::Geometry& geometry, const ec::Layout& layout,
            const std::vector<ec::Stripe>& stripes) {
  ec::Decoder decoder(layout, kSet, 0, layout.object_bytes());
  for (; !decoder.done(); decoder.next()) {
    for (std::size_t i = geometry.m; i < geometry.slices(); ++i)
      if (!decoder.add(i, stripes[decoder.stripe()].block(i))) die("a block is bad");
    if (!decoder.bytes()) die("cannot decode");
  }
}

struct Side {
  const char* name;
  std::function<void(std::size_t stripe)> run;
  double seconds = 0;
  double bytes = 0;
};

void measure(std::vector<Side>& sides, const Options& options) {
  double all = 0;
  for (std::size_t turn = 0; all < options.seconds * static_cast<double>(sides.size()); ++turn) {
    for (Side& side : sides) {
      const double began = bench::own_cpu_seconds();
      for (int i = 0; i < kStripesATime; ++i) side.run(static_cast<std::size_t>(i) % kStripes);
      const double took = bench::own_cpu_seconds() - began;
      if (turn == 0) continue;  // warm now
      side.seconds += took;
      side.bytes += static_cast<double>(kStripesATime * options.geometry.stripe_bytes());
      all += took;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const ec::Geometry& geometry = options.geometry;
  const auto stripes = stripes_of(geometry);
  const auto layout = ec::Layout::of(geometry, kStripes * geometry.stripe_bytes());
  const ec::Stripe made(geometry.block_bytes, geometry.m);
  const std::string from(options.chunk, 'x');
  Raw raw(geometry, options.encode);
  auto plain = ec::Encoder::of(geometry, kSet, false);
  auto hashed = ec::Encoder::of(geometry, kSet, true);
  // The encoder gets the same memory again for each stripe.
  const auto& one = stripes.front();
  std::vector<Side> sides;
  sides.push_back(
      {"isal", [&](std::size_t i) { raw.run(options.encode ? one : stripes[i], made); }});
  if (options.encode) {
    sides.push_back({"crc32c", [&](std::size_t) { check_sums(one, 0, geometry.slices()); }});
    sides.push_back({"stream", [&](std::size_t) { encode(*plain, from, options.chunk); }});
    sides.push_back({"hashed", [&](std::size_t) { encode(*hashed, from, options.chunk); }});
  } else {
    sides.push_back(
        {"crc32c", [&](std::size_t i) { check_sums(stripes[i], geometry.m, geometry.k); }});
    sides.push_back({"stream", [&](std::size_t i) {
                       if (i == 0) decode(geometry, *layout, stripes);  // both stripes
                     }});
  }
  measure(sides, options);
  std::string line;
  for (const Side& side : sides)
    line += fmt::format("{}\"{}\": {{\"bytes\": {:.0f}, \"cpu_s\": {:.6f}}}",
                        line.empty() ? "" : ", ", side.name, side.bytes, side.seconds);
  std::printf("{%s}\n", line.c_str());
}
