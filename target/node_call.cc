#include "target/node_call.h"

#include <utility>

namespace tarn::target {

http::ClientRequest signed_call(const TargetNode& node, http::Method method, std::string target) {
  http::ClientRequest request;
  request.method = method;
  request.target = std::move(target);
  request.fields.push_back({std::string(security::NodeAuth::kHeader),
                            node.auth.sign(http::to_string(method), request.target)});
  return request;
}

}  // namespace tarn::target
