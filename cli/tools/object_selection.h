#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include "common/base/error.h"

namespace tarn::cli {

/// The objects of a bucket that a job of the cluster is about, and the options of its start.
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
  /// True if one of them asks for a job.
  [[nodiscard]] bool given() const;
  /// The keys of the job's message. invalid_argument when they choose nothing or contradict each
  /// other.
  [[nodiscard]] Result<nlohmann::ordered_json> message() const;
  /// "data/old-{0..9}": for people.
  [[nodiscard]] std::string display(const std::string& bucket) const;
};

}  // namespace tarn::cli
