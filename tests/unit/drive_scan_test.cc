// Objects that an export finds on drives that hold slices of objects, too.

#include "cli/drives/drive_scan.h"

#include <fstream>

#include "cli/drives/slice_files.h"
#include "target/drive/drive_identity.h"
#include "tests/unit/slice_fixture.h"

namespace drive_scan_test {

using namespace tarn;
using namespace tarn::target;
using namespace tarn::target::testing;

/// The bytes that an export would write.
Result<std::string> bytes_of(const cli::FoundFile& file) {
  std::string out;
  TRY_OK(cli::read_slices(file, [&](std::span<const std::byte> chunk) -> Status {
    out.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    return {};
  }));
  return out;
}

void flip(const std::string& path, std::uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ 1));
  REQUIRE(file.good());
}

Task<Status> put_coded(Fixture& f, const CutObject& object) {
  CO_TRY(auto file, co_await f.drive->create(0, true));
  Drive::Publication publication;
  publication.attribute.bucket_id = kSliceBucket;
  publication.attribute.bucket.name = "b";
  publication.attribute.name = object.name;
  io::ObjectRecord& record = publication.attribute.record;
  record.file = file->name();
  record.generation = gen(50);
  record.size = object.content.size();
  record.xxh64 = xxh64(object.content);
  record.coding = io::Coding{io::Coding::Layout::striped, 2, 1, 512, object.set, gen(1),
                             {"t1", "t2", "t3"},          ""};
  co_return co_await f.drive->publish(*file, publication);  // the older one's file stays
}

struct Scanned {
  std::vector<std::string> problems;
  cli::DriveScan scan{[this](const Error& error) { problems.push_back(error.message); }};
  explicit Scanned(const Fixture& f) { REQUIRE(scan.add(f.directory.path())); }
};

TEST_CASE("drive scan: a coded object is made of its slices, and of no older file",
          "[cli][slice]") {
  Fixture f;
  REQUIRE(write_identity(*f.files, {1, "c", "d1", "t1", f.directory.path(), {}}));
  REQUIRE(f.put("plain", "content"));
  REQUIRE(f.put("a", "an older version"));
  const CutObject object;
  const CutObject other(3000, 99);  // of the same name; its record is gone
  REQUIRE(seal(*f.drive, object, 0, 50) == Drive::Sealed::done);
  REQUIRE(seal(*f.drive, other, 0, 40) == Drive::Sealed::done);
  REQUIRE(seal(*f.drive, other, 1, 40) == Drive::Sealed::done);
  REQUIRE(wait_for(put_coded(f, object)));

  const auto too_few = Scanned(f).scan.objects();
  REQUIRE(too_few.size() == 2);
  const auto& one = too_few.at({"b", "a"});
  REQUIRE(one.size() == 1);
  const auto refused = bytes_of(one.front());
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::corrupt);
  CHECK(refused.error().message.find("1 good blocks of stripe 0 are there, 2 are needed") !=
        std::string::npos);

  REQUIRE(seal(*f.drive, object, 2, 50) == Drive::Sealed::done);
  REQUIRE(seal(*f.drive, object, 1, 50) == Drive::Sealed::done);
  const Scanned found(f);
  CHECK(found.problems.empty());
  CHECK(found.scan.without_record().empty());
  const auto file = found.scan.objects().at({"b", "a"}).front();
  REQUIRE(file.slices);
  REQUIRE(file.slices->slices.size() == 3);
  CHECK(bytes_of(file) == object.content);
  // Another slice is damaged in each stripe: none of the files is whole, all bytes are there.
  for (std::uint64_t stripe = 0; stripe < 3; ++stripe)
    flip(file.slices->slices[stripe].path, stripe * 512 + 10);
  CHECK(bytes_of(file) == object.content);
  flip(file.slices->slices[1].path, 20);
  CHECK(bytes_of(file).error().code == Errc::corrupt);
}

TEST_CASE("drive scan: slices without a record are told of when they are enough", "[cli][slice]") {
  Fixture f;
  REQUIRE(write_identity(*f.files, {1, "c", "d1", "t1", f.directory.path(), {}}));
  const CutObject object;
  REQUIRE(seal(*f.drive, object, 0, 50) == Drive::Sealed::done);
  CHECK(Scanned(f).scan.without_record().empty());
  REQUIRE(seal(*f.drive, object, 2, 50) == Drive::Sealed::done);
  const Scanned found(f);
  CHECK(found.scan.objects().empty());
  const auto files = found.scan.without_record().at({"b", "a"});
  REQUIRE(files.size() == 1);
  CHECK(bytes_of(files.front()) == object.content);
  REQUIRE(seal(*f.drive, object, io::kFullCopy, 50) == Drive::Sealed::done);
  const auto with_full_copy = Scanned(f).scan.without_record().at({"b", "a"});
  REQUIRE(with_full_copy.size() == 2);
  CHECK(with_full_copy.front().slices == nullptr);
}

}  // namespace drive_scan_test
