// tarn-bench-seed: many objects on a stopped target's drive, for lists and starts, without a PUT
// for each.
//
//   tarn-bench-seed DRIVE FILE COUNT PREFIX
//
// FILE is an object of the drive: its attribute says bucket and node. COUNT files are made beside
// it, named PREFIX and eight digits, each with the attribute of docs/on-disk-layout.md and a size
// but no bytes (sparse). The next start of the target adopts them, as after the loss of its index.
// They can be listed, not read: their checksums are made up.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "bench.h"

#include "common/io/object_attribute.h"

namespace {

constexpr std::uint32_t kFilesInDirectory = 1024;
constexpr std::uint64_t kSmallestBytes = 100'000'000;

std::uint32_t last_directory(const std::filesystem::path& drive) {
  std::uint32_t last = 0;
  for (const auto& entry : std::filesystem::directory_iterator(drive / "data"))
    last = std::max(last, static_cast<std::uint32_t>(
                              std::strtoul(entry.path().filename().c_str(), nullptr, 16)));
  return last;
}

void make_object(const std::filesystem::path& drive, const tarn::io::ObjectAttribute& attribute) {
  const std::string path = drive / attribute.record.file.path();
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) tarn::bench::die("cannot make " + path);
  const std::string bytes = tarn::io::encode(attribute);
  if (::ftruncate(fd, static_cast<off_t>(attribute.record.size)) != 0 ||
      ::fsetxattr(fd, tarn::io::kAttributeName, bytes.data(), bytes.size(), XATTR_CREATE) != 0)
    tarn::bench::die("cannot set size and attribute of " + path);
  ::close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  tarn::bench::Words words(argc, argv);
  const std::filesystem::path drive = words.value();
  const std::string file = words.value();
  const std::uint64_t count = std::stoull(words.value());
  const std::string prefix = words.value();

  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) tarn::bench::die("cannot open " + file);
  auto attribute = tarn::io::read_attribute(fd, file);
  if (!attribute) tarn::bench::die(attribute.error().message);
  ::close(fd);

  const std::uint32_t first = last_directory(drive) + 1;
  for (std::uint64_t i = 0; i < count; ++i) {
    auto& record = attribute->record;
    record.file.directory = first + static_cast<std::uint32_t>(i / kFilesInDirectory);
    record.file.id = 0x5eed000000000000ULL + i;
    record.size = kSmallestBytes + i * 977 % kSmallestBytes;
    if (i % kFilesInDirectory == 0)
      std::filesystem::create_directory(drive / record.file.directory_path());
    char name[16];
    std::snprintf(name, sizeof name, "%08llu", static_cast<unsigned long long>(i));
    attribute->name = prefix + name;
    make_object(drive, *attribute);
  }
  return 0;
}
