#pragma once

#include <string>

#include "common/api/multi_object.h"
#include "common/base/async.h"
#include "common/base/ids.h"
#include "proxy/services.h"

namespace tarn::proxy {

/// A job that deletes or copies many objects of a bucket.
struct ObjectJob {
  std::string id;  ///< of the job in Services::jobs
  BucketId bucket{};
  BucketId to{};  ///< of a copy
  api::MultiObject what;
};

/// Does it and ends it, in Services::jobs (docs/decisions/016): sends each name, in batches, to the
/// target that owns it, and again, to whoever owns it then, what could not be done. It waits for
/// targets that are away as long as something goes on, and for half a minute when nothing does. May
/// be run again from its start: what is done is done. A copy stays idle for a while before it ends,
/// as AIStore's clients expect.
Task<void> run_object_job(const Services& services, ObjectJob job);

}  // namespace tarn::proxy
