#pragma once

#include <string>
#include <vector>

#include "cli/base/place.h"
#include "cli/base/session.h"

namespace tarn::cli {

/// The objects that words of a command line stand for, in order: templates are expanded
/// (templates.h). A name with %06d stands for all objects with such a name, in the order of their
/// numbers; not_found when there is none. With `literal` every word is a name.
Task<Result<std::vector<Place>>> resolve_objects(Session& session, std::vector<std::string> words,
                                                 bool literal);

/// Target names of objects or files that are called `names` (last components), according to
/// `where`: in a bucket or a prefix that ends in '/', under their names; numbered by %06d from 0
/// on; the names of a template, one each; `where` itself for a single one. invalid_argument when
/// two would get the same name, or when it is not clear where they shall go. Pure.
[[nodiscard]] Result<std::vector<Place>> destinations(const std::vector<std::string>& names,
                                                      const std::string& where, bool literal);

/// invalid_argument that names a name which stands twice in `names`.
[[nodiscard]] Status check_distinct(const std::vector<std::string>& names,
                                    const std::string& where);

/// Part after the last '/'.
[[nodiscard]] std::string base_name(const std::string& path);

}  // namespace tarn::cli
