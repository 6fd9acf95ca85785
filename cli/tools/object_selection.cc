#include "cli/tools/object_selection.h"

#include <nlohmann/json.hpp>

#include "cli/base/templates.h"
#include "common/api/name_template.h"

namespace tarn::cli {

void ObjectSelection::add_to(CLI::App* command) {
  const auto* const group = "Many objects of BUCKET, as a job of the cluster";
  command->add_option("--template", pattern, "these, such as 'old-{0000..9999}.tar'")->group(group);
  command->add_option("--prefix", prefix, "those whose names begin so")->group(group);
  command->add_option("--list", names, "these, with commas between")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group);
  command->add_flag("--all", all, "all of them")->group(group);
  command->add_flag("--dry-run", dry_run, "count, and change nothing")->group(group);
  command->add_flag("--continue-on-error", go_on, "go on after an error; missing objects are none")
      ->group(group);
  command->add_flag("--no-wait", no_wait, "print the id of the job and go")->group(group);
}

bool ObjectSelection::given() const {
  return !pattern.empty() || !prefix.empty() || !names.empty() || all || dry_run || go_on ||
         no_wait;
}

Result<nlohmann::ordered_json> ObjectSelection::message() const {
  const int said = int{!pattern.empty()} + int{!prefix.empty()} + int{!names.empty()} + int{all};
  if (said != 1)
    return fail(Errc::invalid_argument,
                "which objects? Say one of --template, --prefix, --list, --all");
  nlohmann::ordered_json out{{"dry_run", dry_run}, {"coer", go_on}};
  if (!names.empty()) out["objnames"] = names;
  if (all) out["template"] = "*";
  if (!pattern.empty()) {
    TRY(out["template"], cluster_template(pattern));
  }
  if (!prefix.empty()) {
    const auto meant = api::NameTemplate::parse(prefix);
    if (!meant || !meant->is_prefix() || meant->prefix() != prefix)
      return fail(Errc::invalid_argument,
                  "the cluster would take the prefix '{}' for a template: use --template or --list",
                  prefix);
    out["template"] = prefix;
  }
  return out;
}

std::string ObjectSelection::display(const std::string& bucket) const {
  if (!names.empty()) return fmt::format("{} of {}", names.size(), bucket);
  return bucket + "/" + pattern + prefix;
}

}  // namespace tarn::cli
