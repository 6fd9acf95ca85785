#include "target/node/job_stream.h"

namespace tarn::target {

Task<Status> stop_job(TargetNode& node, http::Request& request) {
  node.running_jobs.stop(std::string(request.query().get("job")));
  co_return co_await request.exchange.respond(http::Response(200));
}

}  // namespace tarn::target
