#include "target/drive/followed_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/base/check.h"
#include "target/drive/drive.h"

namespace tarn::target {

FollowedFile::FollowedFile(Drive& drive, UniqueFd fd) : drive_(drive), fd_(std::move(fd)) {
  ++drive_.open_objects_;
}

FollowedFile::~FollowedFile() {
  drive_.threads_->post([fd = fd_.release(), &drive = drive_] {
    ::close(fd);
    const std::size_t open = drive.open_objects_--;
    TARN_CHECK(open > 0);
  });
}

Task<Status> FollowedFile::read(std::span<std::byte> into, std::uint64_t offset) {
  const auto work = [this, into, offset]() -> Status {
    TRY_OK(drive_.usable());
    return drive_.files_->read(fd_.get(), into, offset);
  };
  co_return co_await drive_.threads_->run(work);
}

Task<Result<std::shared_ptr<FollowedFile>>> Drive::follow(WorkFile& file) {
  const auto work = [&]() -> Result<std::shared_ptr<FollowedFile>> {
    UniqueFd fd(::fcntl(file.fd_.get(), F_DUPFD_CLOEXEC, 0));
    if (!fd.valid()) return fail_errno(errno, options_.path);
    return std::make_shared<FollowedFile>(*this, std::move(fd));
  };
  co_return co_await threads_->run(work);
}

}  // namespace tarn::target
