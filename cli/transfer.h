#pragma once

#include <cstdint>
#include <string>

#include "cli/place.h"
#include "cli/session.h"
#include "cli/sink.h"
#include "cli/source.h"

namespace tarn::cli {

/// What the cluster has of an object, by the word of its answer.
struct Stored {
  std::uint64_t size = 0;
  std::string etag;      ///< quoted
  std::string checksum;  ///< XXH64, hex
  std::string version;
};

/// `only_if_absent`: precondition_failed when there is an object already.
enum class Overwrite : std::uint8_t { allowed, only_if_absent };

/// Sends all of `source`. The redirect is followed before the first byte of the body is sent. Tries
/// again while the cluster is not ready and the source can be read again. Errors besides those of
/// the cluster: corrupt when the cluster's checksum is not that of the bytes sent.
Task<Result<Stored>> upload(Session& session, Place place, Source& source, Overwrite overwrite);

/// Writes the whole object to `sink` and publishes it when size and checksum are right. A transfer
/// that is cut is resumed where it was, while the object is the same; a changed one is begun anew.
/// Errors besides those of the cluster: corrupt when the bytes do not match the checksum.
Task<Result<Stored>> download(Session& session, Place place, Sink& sink);

}  // namespace tarn::cli
