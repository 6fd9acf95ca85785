#include "proxy/options.h"

#include "common/api/bucket.h"

namespace tarn::proxy {

void Options::bind(Settings& settings) {
  settings.custom(
      "redirect_put_status", "307", "307 or 302",
      [this](std::string_view value) -> Status {
        if (value != "307" && value != "302")
          return fail(Errc::invalid_argument, "'{}' is not 307 or 302", value);
        redirect_put_status = value == "307" ? 307 : 302;
        return {};
      },
      "status that answers a PUT on the redirecting listener; 302 loses uploads of clients that "
      "make "
      "a GET of it");
  settings.custom(
      "default_bucket", default_bucket, "bucket name",
      [this](std::string_view value) -> Status {
        TRY_OK(api::check_bucket_name(value));
        default_bucket = value;
        return {};
      },
      "bucket that is made with the cluster and holds objects whose path has one segment only");
  service.bind(settings);
}

}  // namespace tarn::proxy
