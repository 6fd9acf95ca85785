#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include "common/base/error.h"

namespace tarn::cli {

/// Which objects of a bucket a job of the cluster is about, and how it is begun.
struct ObjectSelection {
  std::string pattern;             ///< --template
  std::string prefix;              ///< --prefix
  std::vector<std::string> names;  ///< --list
  bool all = false;
  bool dry_run = false;
  bool go_on = false;  ///< --continue-on-error
  bool no_wait = false;

  /// Adds the options to a command.
  void add_to(CLI::App* command);
  /// True if one of them says that a job is meant.
  [[nodiscard]] bool given() const;
  /// The keys of the job's message. invalid_argument when they say nothing or too much.
  [[nodiscard]] Result<nlohmann::ordered_json> message() const;
  /// "data/old-{0..9}": for people.
  [[nodiscard]] std::string display(const std::string& bucket) const;
};

}  // namespace tarn::cli
