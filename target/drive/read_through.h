#pragma once

#include <memory>

#include "target/drive/drive.h"
#include "target/drive/toll.h"

namespace tarn::target {

/// Reads a file from its first byte to its last, as the drive returns it now, and compares it with
/// its checksums. Errors as OpenObject::read_anew(), and those of `toll`.
Task<Status> read_through(std::shared_ptr<OpenObject> object, Toll toll);

/// The same of a slice on a drive, which is not closed meanwhile, with its label; the file that it
/// is. object_not_found: it is not there.
Task<Result<io::FileName>> read_slice_through(Drive& drive, SliceKey key, Toll toll);

}  // namespace tarn::target
