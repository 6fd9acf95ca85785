// A directory served through FUSE as it is: what the tools have in common that serve one with
// something added. Include it after FUSE_USE_VERSION, once a program.
#pragma once

#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <dirent.h>
#include <fuse.h>

namespace tarn::passthrough {

inline std::string root;  ///< the directory below; set before anything is served

inline std::string below(const char* path) { return root + path; }
/// Result of a system call as FUSE wants it.
inline int result(long value) { return value < 0 ? -errno : static_cast<int>(value); }
/// The descriptor is the low half of fh; the other half is the tool's.
inline int fd_of(const fuse_file_info* file) { return static_cast<int>(file->fh & 0xffffffffU); }

/// Opens the file below. O_APPEND is the kernel's business: it gives every write its offset.
inline int open_file(const char* path, int flags, mode_t mode, fuse_file_info* file) {
  const int fd = ::open(below(path).c_str(), (flags & ~(O_DIRECT | O_APPEND)) | O_CLOEXEC, mode);
  if (fd < 0) return -errno;
  file->fh = static_cast<std::uint64_t>(fd);
  return 0;
}

inline int sync_file(const fuse_file_info* file, int data_only) {
  return result(data_only != 0 ? ::fdatasync(fd_of(file)) : ::fsync(fd_of(file)));
}

inline int sync_directory(const char* path) {
  const int fd = ::open(below(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -errno;
  const int answer = result(::fsync(fd));
  ::close(fd);
  return answer;
}

inline int read_directory(const char* path, void* buffer, fuse_fill_dir_t fill, off_t,
                          fuse_file_info*, fuse_readdir_flags) {
  DIR* directory = ::opendir(below(path).c_str());
  if (directory == nullptr) return -errno;
  while (const dirent* entry = ::readdir(directory)) {
    struct stat info{};
    info.st_ino = entry->d_ino;
    info.st_mode = static_cast<mode_t>(entry->d_type << 12);
    fill(buffer, entry->d_name, &info, 0, fuse_fill_dir_flags{});
  }
  ::closedir(directory);
  return 0;
}

/// Everything but open, create, read, write, fsync and fsyncdir, which every tool has of its own.
/// Also others may be replaced.
inline fuse_operations operations() {
  fuse_operations ops{};
  ops.release = [](const char*, fuse_file_info* file) { return result(::close(fd_of(file))); };
  ops.truncate = [](const char* path, off_t size, fuse_file_info* file) {
    return result(file != nullptr ? ::ftruncate(fd_of(file), size)
                                  : ::truncate(below(path).c_str(), size));
  };
  ops.fallocate = [](const char*, int mode, off_t offset, off_t length, fuse_file_info* file) {
    return result(::fallocate(fd_of(file), mode, offset, length));
  };
  ops.flock = [](const char*, fuse_file_info* file, int operation) {
    return result(::flock(fd_of(file), operation));
  };
  ops.getattr = [](const char* path, struct stat* info, fuse_file_info* file) {
    return result(file != nullptr ? ::fstat(fd_of(file), info)
                                  : ::lstat(below(path).c_str(), info));
  };
  ops.readdir = read_directory;
  ops.unlink = [](const char* path) { return result(::unlink(below(path).c_str())); };
  ops.mkdir = [](const char* path, mode_t mode) {
    return result(::mkdir(below(path).c_str(), mode));
  };
  ops.rmdir = [](const char* path) { return result(::rmdir(below(path).c_str())); };
  ops.rename = [](const char* from, const char* to, unsigned flags) {
    return flags != 0 ? -EINVAL : result(::rename(below(from).c_str(), below(to).c_str()));
  };
  ops.link = [](const char* from, const char* to) {
    return result(::link(below(from).c_str(), below(to).c_str()));
  };
  ops.chmod = [](const char* path, mode_t mode, fuse_file_info*) {
    return result(::chmod(below(path).c_str(), mode));
  };
  ops.utimens = [](const char* path, const timespec times[2], fuse_file_info*) {
    return result(::utimensat(AT_FDCWD, below(path).c_str(), times, AT_SYMLINK_NOFOLLOW));
  };
  ops.statfs = [](const char* path, struct statvfs* info) {
    return result(::statvfs(below(path).c_str(), info));
  };
  ops.setxattr = [](const char* path, const char* name, const char* value, std::size_t size,
                    int flags) {
    return result(::lsetxattr(below(path).c_str(), name, value, size, flags));
  };
  ops.getxattr = [](const char* path, const char* name, char* value, std::size_t size) {
    return result(::lgetxattr(below(path).c_str(), name, value, size));
  };
  ops.listxattr = [](const char* path, char* list, std::size_t size) {
    return result(::llistxattr(below(path).c_str(), list, size));
  };
  ops.removexattr = [](const char* path, const char* name) {
    return result(::lremovexattr(below(path).c_str(), name));
  };
  return ops;
}

}  // namespace tarn::passthrough
