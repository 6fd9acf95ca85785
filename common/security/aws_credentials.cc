#include "common/security/aws_credentials.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/base/encoding.h"

namespace tarn::security {
namespace {

/// Both halves, or the profile is of no use here: it may name a role or a program.
bool is_complete(const AwsCredentials& credentials) {
  return !credentials.access_key.empty() && !credentials.secret_key.empty();
}

Result<std::map<std::string, AwsCredentials>> read_profiles(const Environment& environment,
                                                            const IdentityNames& names) {
  const auto named = environment(names.file);
  const auto home = *names.home_file == '\0' ? std::nullopt : environment("HOME");
  if (!named && !home) return std::map<std::string, AwsCredentials>();
  const std::string path = named ? *named : *home + names.home_file;
  std::ifstream file(path);
  if (!file && !named) return std::map<std::string, AwsCredentials>();
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || file.bad())
    return fail(Errc::invalid_argument, "{}: {} cannot be read", names.file, path);
  auto profiles = parse_credentials_file(text.str(), names);
  if (!profiles) return fail(Errc::invalid_argument, "{}: {}", path, profiles.error().message);
  return profiles;
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

Result<std::map<std::string, AwsCredentials>> parse_credentials_file(std::string_view text,
                                                                     const IdentityNames& names) {
  std::map<std::string, AwsCredentials> out;
  AwsCredentials* profile = nullptr;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    auto line = trim(text.substr(0, end));
    if (line.ends_with('\r')) line = trim(line.substr(0, line.size() - 1));  // written elsewhere
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      if (line.back() != ']')
        return fail(Errc::invalid_argument, "line {}: '[' without ']'", number);
      profile = &out[std::string(trim(line.substr(1, line.size() - 2)))];
      continue;
    }
    const auto equals = line.find('=');
    if (equals == std::string_view::npos)
      return fail(Errc::invalid_argument, "line {}: neither '[profile]' nor 'key = value'", number);
    if (profile == nullptr)
      return fail(Errc::invalid_argument, "line {}: stands before the first '[profile]'", number);
    const auto key = to_lower(trim(line.substr(0, equals)));
    const auto value = std::string(trim(line.substr(equals + 1)));
    if (key == names.access_entry) profile->access_key = value;
    if (key == names.secret_entry) profile->secret_key = value;
    if (!key.empty() && key == names.token_entry) profile->session_token = value;
  }
  return out;
}

Result<AwsIdentities> AwsIdentities::load(const Environment& environment,
                                          const IdentityNames& names) {
  AwsIdentities out;
  out.names_ = names;
  TRY(out.profiles_, read_profiles(environment, names));
  const auto access_key = environment(names.access_key);
  const auto secret_key = environment(names.secret_key);
  if (access_key.has_value() != secret_key.has_value())
    return fail(Errc::invalid_argument, "{} and {}: one of them is set and the other not",
                names.access_key, names.secret_key);
  if (access_key) {
    out.usual_ = AwsCredentials{*access_key, *secret_key, ""};
    if (*names.session_token != '\0')
      out.usual_->session_token = environment(names.session_token).value_or("");
    return out;
  }
  const auto named = environment(names.profile);
  const auto found = out.profiles_.find(named.value_or("default"));
  if (found != out.profiles_.end() && is_complete(found->second)) {
    out.usual_ = found->second;
  } else if (named) {
    return fail(Errc::invalid_argument, "{}: no profile '{}' with both keys is there",
                names.profile, *named);
  }
  return out;
}

Result<std::optional<AwsCredentials>> AwsIdentities::find(const std::string& profile) const {
  if (profile.empty()) return usual_;
  const auto found = profiles_.find(profile);
  if (found == profiles_.end() || !is_complete(found->second))
    return fail(Errc::invalid_argument,
                "{}: this target's credentials have no profile '{}' with both keys",
                names_.property, profile);
  return std::optional(found->second);
}

}  // namespace tarn::security
