#pragma once

#include <cstdint>
#include <string>

#include "cli/base/place.h"
#include "cli/base/progress.h"
#include "cli/base/session.h"
#include "cli/transfer/sink.h"
#include "cli/transfer/source.h"

namespace tarn::cli {

/// State of an object in the cluster, as its answer reports it.
struct Stored {
  std::uint64_t size = 0;
  std::string etag;      ///< quoted
  std::string checksum;  ///< XXH64, hex
  std::string version;
};

/// `only_if_absent`: precondition_failed when there is an object already. A retry that finds the
/// same bytes succeeds: an earlier attempt stored them, and its answer was lost.
enum class Overwrite : std::uint8_t { allowed, only_if_absent };

struct UploadOptions {
  Overwrite overwrite = Overwrite::allowed;
  /// XXH64 of the body, hex, when it is known before: the target then stores these bytes or none.
  std::string checksum;
  Meter* meter = nullptr;
};

/// Sends all of `source`. The redirect is followed before the first byte of the body is sent. Tries
/// again while the cluster is not ready and the source can be read again. Errors besides those of
/// the cluster: corrupt when the cluster's checksum is not that of the bytes sent.
Task<Result<Stored>> upload(Session& session, Place place, Body& source, UploadOptions options);

/// Writes the whole object to `sink` and publishes it when size and checksum are right. A transfer
/// that is cut is resumed where it was, while the object is the same, and so is the part of an
/// earlier run; a changed object is begun anew. Ended early (exit code 5), `sink` keeps its bytes.
/// Errors besides those of the cluster: corrupt when the bytes do not match the checksum.
Task<Result<Stored>> download(Session& session, Place place, Destination& sink,
                              Meter* meter = nullptr);

/// All that a HEAD of an object returns.
struct ObjectHead {
  Stored stored;
  http::Fields fields;
};
Task<Result<ObjectHead>> head_object(Session& session, Place place);

/// Succeeds if a retry finds no object.
Task<Status> remove_object(Session& session, Place place);

/// Lets the cluster copy `from` to `to`; no byte of the object comes here. Targets compare the
/// bytes that they read and write with the object's checksum. Asks again when one of them is away.
Task<Result<Stored>> copy_object(Session& session, Place from, Place to, Overwrite overwrite,
                                 Meter* meter);

}  // namespace tarn::cli
