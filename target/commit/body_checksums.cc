#include "target/commit/body_checksums.h"

#include <algorithm>
#include <optional>

#include <isa-l/crc.h>
#include <openssl/evp.h>

#include "common/base/encoding.h"
#include "common/base/hash.h"

namespace tarn::target {
namespace {

std::string big_endian(std::uint64_t value, std::size_t bytes) {
  std::string out;
  for (std::size_t i = bytes; i-- > 0;) out += static_cast<char>(value >> (8 * i));
  return out;
}

std::size_t digest_bytes(std::string_view algorithm) {
  if (algorithm == "md5") return 16;
  if (algorithm == "sha1") return 20;
  if (algorithm == "sha256") return 32;
  if (algorithm == "sha512") return 64;
  if (algorithm == "xxhash") return 8;
  return 4;  // crc32, crc32c
}

}  // namespace

struct BodyChecksums::Sum {
  std::string algorithm;
  std::string header;  ///< the field that announced it; "": none did
  std::string wanted;
  std::string got;  ///< after check()
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest{nullptr, &EVP_MD_CTX_free};
  std::uint32_t crc = 0;

  void update(std::span<const std::byte> bytes) {
    if (digest) {
      EVP_DigestUpdate(digest.get(), bytes.data(), bytes.size());
    } else if (algorithm == "crc32c") {
      crc = crc32c(bytes, crc);
    } else if (algorithm == "crc32") {
      crc =
          crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    }
  }
  [[nodiscard]] std::string result(std::uint64_t xxh64) const {
    if (algorithm == "xxhash") return big_endian(xxh64, 8);
    if (!digest) return big_endian(crc, 4);
    std::string out(EVP_MAX_MD_SIZE, '\0');
    unsigned length = 0;
    EVP_DigestFinal_ex(digest.get(), reinterpret_cast<unsigned char*>(out.data()), &length);
    out.resize(length);
    return out;
  }
};

BodyChecksums::BodyChecksums() = default;
BodyChecksums::~BodyChecksums() = default;
BodyChecksums::BodyChecksums(BodyChecksums&&) noexcept = default;

Status BodyChecksums::expect(std::string header, std::string algorithm, std::string bytes) {
  if (bytes.size() != digest_bytes(algorithm))
    return fail(Errc::invalid_argument, "{}: {} bytes are no {} checksum", header, bytes.size(),
                algorithm);
  Sum& sum = add(std::move(algorithm));
  sum.header = std::move(header);
  sum.wanted = std::move(bytes);
  return {};
}

BodyChecksums::Sum& BodyChecksums::add(std::string algorithm) {
  auto sum = std::make_unique<Sum>();
  sum->algorithm = std::move(algorithm);
  if (const EVP_MD* type = EVP_get_digestbyname(sum->algorithm.c_str())) {
    sum->digest.reset(EVP_MD_CTX_new());
    EVP_DigestInit_ex(sum->digest.get(), type, nullptr);
  }
  sums_.push_back(std::move(sum));
  return *sums_.back();
}

void BodyChecksums::keep(std::string_view type) {
  if (type == "xxhash2") return;
  kept_type_ = type;
  const auto is_kept = [&](const auto& sum) { return sum->algorithm == kept_type_; };
  if (type != "none" && std::none_of(sums_.begin(), sums_.end(), is_kept)) add(kept_type_);
}

Result<BodyChecksums> BodyChecksums::from(const http::RequestHead& head) {
  BodyChecksums all;
  constexpr std::pair<std::string_view, std::string_view> kBase64Fields[] = {
      {"Content-MD5", "md5"},
      {"x-amz-checksum-crc32", "crc32"},
      {"x-amz-checksum-crc32c", "crc32c"},
      {"x-amz-checksum-sha1", "sha1"},
      {"x-amz-checksum-sha256", "sha256"}};
  for (const auto& [header, algorithm] : kBase64Fields) {
    const auto value = head.field(header);
    if (value.empty()) continue;
    auto bytes = unbase64(value);
    if (!bytes) return fail(Errc::invalid_argument, "{}: '{}' is no base64", header, value);
    TRY_OK(all.expect(std::string(header), std::string(algorithm), std::move(*bytes)));
  }
  const auto type = to_lower(head.field("Ais-Checksum-Type"));
  const auto value = head.field("Ais-Checksum-Value");
  if (type.empty() || type == "none" || value.empty()) return all;
  const std::string algorithm = type == "xxhash2" ? "xxhash" : type;
  if (algorithm != "xxhash" && algorithm != "md5" && algorithm != "crc32c" &&
      algorithm != "sha256" && algorithm != "sha512")
    return fail(Errc::invalid_argument,
                "Ais-Checksum-Type '{}': known are xxhash2, xxhash, md5, crc32c, sha256, sha512",
                type);
  auto bytes = unhex(value);
  if (!bytes) return fail(Errc::invalid_argument, "Ais-Checksum-Value '{}' is no hex", value);
  TRY_OK(all.expect("Ais-Checksum-Value", algorithm, std::move(*bytes)));
  return all;
}

bool BodyChecksums::needs_bytes() const {
  return std::any_of(sums_.begin(), sums_.end(),
                     [](const auto& sum) { return sum->algorithm != "xxhash"; });
}

void BodyChecksums::update(std::span<const std::byte> bytes) {
  for (const auto& sum : sums_) sum->update(bytes);
}

Status BodyChecksums::check(std::uint64_t xxh64) {
  for (const auto& sum : sums_) {
    sum->got = sum->result(xxh64);
    if (!sum->header.empty() && sum->got != sum->wanted)
      return fail(Errc::checksum_mismatch,
                  "{}: the body has {} {}, {} was announced; nothing was stored", sum->header,
                  sum->algorithm, hex(sum->got), hex(sum->wanted));
  }
  return {};
}

void BodyChecksums::note_kept(api::CustomMetadata& custom) const {
  std::erase_if(custom, [](const auto& pair) { return api::is_reserved_key(pair.first); });
  if (kept_type_.empty()) return;
  custom.emplace_back(api::kChecksumTypeKey, kept_type_);
  for (const auto& sum : sums_) {
    if (sum->algorithm != kept_type_) continue;
    custom.emplace_back(api::kChecksumValueKey, hex(sum->got));
    return;
  }
}

}  // namespace tarn::target
