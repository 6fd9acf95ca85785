#include "cli/tools/bucket_choices.h"

#include <nlohmann/json.hpp>

#include "common/api/upstream_props.h"
#include "common/base/encoding.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;

/// A number, true, false or a text in quotes as in JSON; anything else is a text.
ordered_json value_of(const std::string& text) {
  auto value = ordered_json::parse(text, nullptr, false);
  if (value.is_discarded() || value.is_structured() || value.is_null()) return text;
  return value;
}

/// "mirror.copies=3" into the tree.
Status set_property(ordered_json& tree, const std::string& text) {
  const auto equals = text.find('=');
  if (equals == 0 || equals == std::string::npos)
    return fail(Errc::invalid_argument,
                "'{}' is no KEY=VALUE, such as durability=strict; tarn bucket show lists the keys",
                text);
  std::string_view path(text);
  path = path.substr(0, equals);
  ordered_json* node = &tree;
  for (auto dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    node = &(*node)[std::string(path.substr(0, dot))];
    if (!node->is_null() && !node->is_object())
      return fail(Errc::invalid_argument, "'{}' is below a key that has a value already", text);
    path.remove_prefix(dot + 1);
  }
  (*node)[std::string(path)] = value_of(text.substr(equals + 1));
  return {};
}

Status set_coding(ordered_json& tree, const BucketChoices& choices) {
  const auto plus = choices.ec.find('+');
  const auto k = parse_u64(std::string_view(choices.ec).substr(0, plus));
  const auto m = plus == std::string::npos
                     ? std::nullopt
                     : parse_u64(std::string_view(choices.ec).substr(plus + 1));
  if (!k || !m)
    return fail(Errc::invalid_argument,
                "--ec '{}': data slices and parity slices are wanted, such as 4+2", choices.ec);
  tree["ec"] = {{"enabled", true}, {"data_slices", *k}, {"parity_slices", *m}};
  if (!choices.layout.empty()) tree["ec"]["layout"] = choices.layout;
  return {};
}

}  // namespace

Result<ordered_json> props_of(const BucketChoices& choices, const std::string& provider) {
  ordered_json tree;
  if (!choices.upstream.empty()) {
    const auto kind = api::upstream_kind({provider, "", "", ""});
    if (!kind)
      return fail(Errc::invalid_argument,
                  "--upstream is for buckets of another provider: s3://BUCKET, gs://BUCKET, "
                  "az://BUCKET or ht://BUCKET");
    tree = ordered_json(api::server_props(*kind, choices.upstream));
  }
  if (!choices.ec.empty()) TRY_OK(set_coding(tree, choices));
  if (choices.copies != 0) {
    tree["mirror"] = {{"enabled", true}, {"copies", choices.copies}};
    if (!choices.domain.empty()) tree["mirror"]["domain"] = choices.domain;
  }
  for (const std::string& each : choices.set) TRY_OK(set_property(tree, each));
  return tree;
}

}  // namespace tarn::cli
