#include "target/drive/work_file.h"

#include <unistd.h>

#include "common/base/check.h"
#include "common/obs/log.h"
#include "target/drive/drive.h"

namespace tarn::target {

WorkFile::WorkFile(Drive& drive, io::FileName name, UniqueFd fd)
    : drive_(drive), name_(name), fd_(std::move(fd)) {
  ++drive_.uploads_;
}

WorkFile::~WorkFile() {
  if (published_ || !fd_.valid()) {
    drive_.forget_work_file(name_);
    const std::size_t uploads = drive_.uploads_--;
    TARN_CHECK(uploads > 0);
    return;
  }
  // Not durable, and need not be: without an attribute the next start removes it as well.
  drive_.threads_->post([&drive = drive_, name = name_, fd = fd_.release()] {
    ::close(fd);
    if (const Status gone = drive.files_->remove(name.path()); !gone)
      obs::log("drive").warn("work file not removed file={} err={}", name.path(),
                             gone.error().message);
    drive.forget_work_file(name);
    const std::size_t uploads = drive.uploads_--;
    TARN_CHECK(uploads > 0);
  });
}

}  // namespace tarn::target
