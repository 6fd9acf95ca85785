#pragma once

#include <functional>
#include <span>

#include "cli/drives/drive_scan.h"
#include "common/base/error.h"

namespace tarn::cli {

/// The bytes of an object, in order, made of the files of its slices: `take` gets one chunk after
/// the other, valid during the call; its error ends it. A block that does not check (ec/) is made
/// of the rest of its stripe, so no file has to be whole. corrupt, naming the object's first file
/// and what is missing, when fewer than k blocks of a stripe are good. Blocking; memory: k + m
/// blocks.
Status read_slices(const FoundFile& object,
                   const std::function<Status(std::span<const std::byte>)>& take);

}  // namespace tarn::cli
