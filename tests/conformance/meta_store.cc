// tarn-meta-conformance: whether a meta store keeps what Tarn builds on.
//
//   tarn-meta-conformance http://127.0.0.1:2379                       an etcd; also https, with
//       [--meta-ca FILE] [--meta-cert FILE --meta-key FILE] [--meta-user U --meta-password-file F]
//   tarn-meta-conformance http://127.0.0.1:8180 --secret-file FILE    a proxy's internal listener
//   tarn-meta-conformance --embedded DIR                              an embedded store, in this
//   process
//
// Prints a line a check; exit code 0 when all hold, 1 when one does not, 2 for wrong usage.

#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>

#include "common/base/process.h"
#include "common/base/random.h"
#include "common/cluster/store/embedded_store.h"
#include "common/cluster/store/etcd_options.h"
#include "common/cluster/store/gateway_store.h"
#include "common/cluster/store/meta_model.h"
#include "common/http/client.h"
#include "common/http/loops.h"
#include "common/security/cluster_secret.h"
#include "common/security/node_auth.h"
#include "common/security/purposes.h"
#include "tests/conformance/meta_store_checks.h"

namespace tarn::conformance {
namespace {

struct Options {
  std::string url;
  cluster::EtcdOptions etcd;
  std::string secret_file;
  std::string embedded;
};

std::optional<Options> parse(std::span<char*> arguments) {
  Options options;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string word = arguments[i];
    const bool has_value = i + 1 < arguments.size();
    if (word == "--secret-file" && has_value) {
      options.secret_file = arguments[++i];
    } else if (word == "--embedded" && has_value) {
      options.embedded = arguments[++i];
    } else if (word == "--meta-ca" && has_value) {
      options.etcd.tls.ca = arguments[++i];
    } else if (word == "--meta-cert" && has_value) {
      options.etcd.tls.certificate = arguments[++i];
    } else if (word == "--meta-key" && has_value) {
      options.etcd.tls.key = arguments[++i];
    } else if (word == "--meta-user" && has_value) {
      options.etcd.user = arguments[++i];
    } else if (word == "--meta-password-file" && has_value) {
      options.etcd.password_file = arguments[++i];
    } else if (options.url.empty() && !word.starts_with("-")) {
      options.url = word;
    } else {
      return std::nullopt;
    }
  }
  if (options.url.empty() == options.embedded.empty()) return std::nullopt;
  return options;
}

template <class T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

/// The store that was asked for, and what it stands on.
struct Fixture {
  http::Loops loops{1};
  http::Client client;
  std::unique_ptr<security::NodeAuth> auth;
  std::unique_ptr<cluster::MetaStore> store;

  explicit Fixture(const Options& options) {
    if (!options.embedded.empty()) {
      store = value_of(cluster::EmbeddedStore::open(options.embedded, system_clock()));
      return;
    }
    if (options.secret_file.empty()) {
      auto etcd = options.etcd;
      etcd.endpoints = value_of(cluster::parse_endpoints(options.url));
      if (options.url.starts_with("https"))
        client = http::Client(value_of(http::TlsContext::load(etcd.tls)));
      store = value_of(cluster::open_etcd(etcd));
      return;
    }
    const auto secret = value_of(security::ClusterSecret::load(options.secret_file));
    auth = std::make_unique<security::NodeAuth>(secret.derive(security::kNodeAuthPurpose),
                                                "conformance", system_clock());
    const auto sign = [this](http::ClientRequest& request) {
      request.fields.push_back({std::string(security::NodeAuth::kHeader),
                                auth->sign(http::to_string(request.method), request.target)});
    };
    store = std::make_unique<cluster::GatewayStore>(client, std::vector{options.url}, sign);
  }

  void run(Task<void> task) {
    asio::co_spawn(loops.at(0).executor(), std::move(task), asio::use_future).get();
  }
};

/// etcd forgets when it is told to, by any client that can reach it.
Task<void> compact_etcd(http::Client client, std::string endpoint, cluster::Revision revision) {
  http::ClientRequest request;
  request.method = http::Method::post;
  request.target = "/v3/kv/compaction";
  request.body = "{\"revision\":\"" + std::to_string(revision) + "\"}";
  auto url = value_of(http::parse_http_or_https(endpoint));
  const auto answer = value_of(co_await client.call(std::move(url), request));
  if (answer.status != 200) throw std::runtime_error("compaction: " + answer.body);
}

Task<void> remove_all(cluster::MetaStore& store, std::string prefix) {
  cluster::Transaction transaction;
  transaction.deletes.push_back({prefix, cluster::prefix_end(prefix)});
  (void)co_await store.commit(std::move(transaction));
}

int run_checks(const Options& options) {
  Fixture fixture(options);
  const std::string root = "/conformance/" + random_id(8) + "/";
  const bool is_etcd = options.embedded.empty() && options.secret_file.empty();
  int failures = 0;
  int number = 0;
  for (const Check& check : meta_store_checks()) {
    const std::string prefix = root + std::to_string(++number) + "/";
    Subject subject{*fixture.store, prefix, {}};
    subject.compact = [&](cluster::Revision revision) {
      return is_etcd ? compact_etcd(fixture.client,
                                    value_of(cluster::parse_endpoints(options.url)).at(0), revision)
                     : compact_by_writing(*fixture.store, prefix,
                                          cluster::MetaModel::kHistoryEventsMax + 1);
    };
    try {
      fixture.run(check.run(subject));
      std::printf("ok      %s\n", std::string(check.name).c_str());
    } catch (const std::exception& problem) {
      ++failures;
      std::printf("FAILED  %s: %s\n", std::string(check.name).c_str(), problem.what());
    }
    std::fflush(stdout);
  }
  fixture.run(remove_all(*fixture.store, root));
  std::printf("%d of %zu checks hold\n", static_cast<int>(meta_store_checks().size()) - failures,
              meta_store_checks().size());
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tarn::conformance

int main(int argc, char** argv) {
  const auto options = tarn::conformance::parse(std::span(argv, static_cast<std::size_t>(argc)));
  if (!options) {
    std::fputs(
        "usage: tarn-meta-conformance URL [--secret-file FILE | --meta-...] | --embedded DIR\n",
        stderr);
    return 2;
  }
  tarn::prepare_process();  // TLS writes to sockets that the other side may have closed
  try {
    return tarn::conformance::run_checks(*options);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "tarn-meta-conformance: %s\n", problem.what());
    return 1;
  }
}
