#include "common/security/cluster_secret.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include "common/base/check.h"
#include "common/base/encoding.h"
#include "common/base/random.h"
#include "common/base/unique_fd.h"
#include "common/security/hmac.h"
#include "common/security/secret_file.h"

namespace tarn::security {
namespace {

constexpr std::size_t kSecretBytes = 32;

Status write_synced(UniqueFd file, std::string_view text, const std::string& name) {
  while (!text.empty()) {
    const ssize_t put = ::write(file.get(), text.data(), text.size());
    if (put < 0) {
      if (errno == EINTR) continue;
      return fail_errno(errno, "write " + name);
    }
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  if (::fsync(file.get()) != 0) return fail_errno(errno, "fsync " + name);
  return file.close();
}

Status sync_directory(const std::filesystem::path& directory) {
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0)
    return fail_errno(errno, "fsync " + directory.string());
  return {};
}

/// Makes `file` with a new secret, whole or not at all. A faster process wins: link() does not
/// replace, and the secret that load() reads afterwards counts.
Status create(const std::filesystem::path& file) {
  const std::string temporary = file.string() + "." + random_id(8) + ".new";
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return fail_errno(errno, "create " + temporary);
  auto status = write_synced(std::move(fd), hex(random_bytes(kSecretBytes)) + "\n", temporary);
  if (status && ::link(temporary.c_str(), file.c_str()) != 0 && errno != EEXIST)
    status = fail_errno(errno, "link " + file.string());
  ::unlink(temporary.c_str());
  TRY_OK(std::move(status));
  return sync_directory(file.has_parent_path() ? file.parent_path() : ".");
}

}  // namespace

Result<ClusterSecret> ClusterSecret::load(const std::filesystem::path& file) {
  const std::string name = file.string();
  TRY(auto text, read_secret_file(file));
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  auto bytes = unhex(trim(text));
  if (!bytes || bytes->size() != kSecretBytes)
    return fail(Errc::invalid_argument, "{} is not a cluster secret: want {} hexadecimal digits",
                name, 2 * kSecretBytes);
  return ClusterSecret(std::move(*bytes));
}

Result<ClusterSecret> ClusterSecret::load_or_create(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error) && !error) TRY_OK(create(file));
  return load(file);
}

std::string ClusterSecret::derive(std::string_view purpose) const {
  return hkdf_sha256(bytes_, "", purpose, kSecretBytes);
}

std::string hkdf_sha256(std::string_view secret, std::string_view salt, std::string_view info,
                        std::size_t length) {
  using Kdf = std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)>;
  using Context = std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)>;
  const Kdf kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr), &EVP_KDF_free);
  TARN_CHECK(kdf != nullptr);
  const Context context(EVP_KDF_CTX_new(kdf.get()), &EVP_KDF_CTX_free);
  TARN_CHECK(context != nullptr);
  const auto octets = [](const char* key, std::string_view value) {
    return OSSL_PARAM_construct_octet_string(key, const_cast<char*>(value.data()), value.size());
  };
  std::string digest = "SHA256";
  std::array<OSSL_PARAM, 5> params{};
  std::size_t count = 0;
  params[count++] =
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), digest.size());
  params[count++] = octets(OSSL_KDF_PARAM_KEY, secret);
  if (!salt.empty()) params[count++] = octets(OSSL_KDF_PARAM_SALT, salt);
  if (!info.empty()) params[count++] = octets(OSSL_KDF_PARAM_INFO, info);
  params[count] = OSSL_PARAM_construct_end();
  std::string out(length, '\0');
  const int derived = EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(out.data()),
                                     out.size(), params.data());
  TARN_CHECK(derived == 1);
  return out;
}

std::string hmac_sha256(std::string_view key, std::string_view message) {
  const auto mac = HmacKey(key).sign(message);
  return {mac.data(), mac.size()};
}

bool equal_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tarn::security
