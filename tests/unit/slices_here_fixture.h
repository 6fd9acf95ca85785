#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include "target/store/object_store.h"
#include "tests/unit/slice_fixture.h"

namespace tarn::target::testing {

/// A target with some drives.
struct Store {
  std::vector<std::unique_ptr<TemporaryDirectory>> directories;
  IndexMemory memory{8U << 20U, 8U << 20U};
  std::optional<ObjectStore> store;

  explicit Store(std::size_t count) {
    std::vector<DrivePlace> places;
    for (std::size_t i = 0; i < count; ++i) {
      directories.push_back(std::make_unique<TemporaryDirectory>());
      places.push_back({directories.back()->path(), 0});
    }
    std::vector<std::unique_ptr<Drive>> drives;
    for (const auto& directory : directories) {
      Drive::Options options;
      options.path = directory->path();
      options.threads = 2;
      options.places = places;
      drives.push_back(Drive::open(std::move(options), memory).value());
    }
    store.emplace(std::move(drives), std::map<std::string, std::string>());
  }
  [[nodiscard]] SlicesHere& slices() { return store->slices(); }
  [[nodiscard]] std::shared_ptr<Drive> drive(std::size_t i) { return store->drives().at(i); }
  [[nodiscard]] static ObjectName name_of(const CutObject& object) {
    return {kSliceBucket, "ais/@#/b/" + object.name, object.name, 0};
  }
  Result<std::unique_ptr<NewSlice>> create(const CutObject& object, std::uint8_t index,
                                           std::size_t rank = 0) {
    SlicesHere::Wanted wanted;
    wanted.rank = rank;
    wanted.bytes = object.body(index).size();
    return wait_for(slices().create(name_of(object), object.key(index), wanted));
  }
  Task<Result<Drive::Sealed>> seal_task(const CutObject& object, NewSlice& slice,
                                        std::uint64_t counter, bool anew) {
    const std::uint8_t index = slice.key().index;
    const std::string& body = object.body(index);
    auto writing = slice.file().drive().write(slice.file(), std::as_bytes(std::span(body)), 0);
    CO_TRY_OK(co_await writing.get());
    co_return co_await slices().seal(slice, object.order(index, counter, anew));
  }
  Result<Drive::Sealed> seal(const CutObject& object, NewSlice& slice, std::uint64_t counter,
                             bool anew = false) {
    return wait_for(seal_task(object, slice, counter, anew));
  }
  Result<Drive::Sealed> put(const CutObject& object, std::uint8_t index, std::uint64_t counter,
                            bool anew = false) {
    const auto slice = create(object, index, index).value();
    return seal(object, *slice, counter, anew);
  }
  /// Which of the drives have the slice, and under which counter.
  std::map<std::size_t, std::uint64_t> where(const SliceKey& key) {
    std::map<std::size_t, std::uint64_t> out;
    for (std::size_t i = 0; i < store->drives().size(); ++i)
      if (const auto counter = sealed_at(*drive(i), key)) out[i] = counter;
    return out;
  }
  /// Seals a slice on a drive as if the others were not there.
  void put_on(std::size_t i, const CutObject& object, std::uint8_t index, std::uint64_t counter) {
    REQUIRE(testing::seal(*drive(i), object, index, counter) == Drive::Sealed::done);
  }
  [[nodiscard]] std::size_t index_of(const Drive& wanted) {
    for (std::size_t i = 0; i < directories.size(); ++i)
      if (drive(i).get() == &wanted) return i;
    return directories.size();
  }
};

}  // namespace tarn::target::testing
