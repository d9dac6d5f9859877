// Files that the drop-in opens in the program's process.
#pragma once

namespace symm::nccl {
// As open(), for a file that is closed before the call returns that opened it. The descriptor is
// none of a standard stream that the program has closed, whose text would land in the file.
int open_file(const char* path, int flags) noexcept;
// Writes to a file by one call, or not at all where the limit on file sizes (RLIMIT_FSIZE) forbids
// it: the kernel would end the program by SIGXFSZ.
void write_once(int fd, const char* bytes, unsigned long size) noexcept;
}  // namespace symm::nccl
