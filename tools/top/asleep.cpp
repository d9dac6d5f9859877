// Reads /proc/PID/syscall, which needs the right to trace the process, and /proc/PID/wchan, which
// many kernels leave empty. Either is enough.
#include "tools/top/asleep.hpp"

#include <sys/syscall.h>
#include <sys/types.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "tools/run/processes.hpp"

namespace symm::tool {
namespace {
// The calls in which programs wait. Any other is told by its number.
constexpr struct {
  long number;
  const char* name;
} kCalls[] = {
    {SYS_accept, "accept"},
    {SYS_accept4, "accept4"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_close, "close"},
    {SYS_connect, "connect"},
    {SYS_copy_file_range, "copy_file_range"},
    {SYS_epoll_pwait, "epoll_wait"},
    {SYS_fallocate, "fallocate"},
    {SYS_fcntl, "fcntl"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_flock, "flock"},
    {SYS_fsync, "fsync"},
    {SYS_ftruncate, "ftruncate"},
    {SYS_futex, "futex"},
    {SYS_getdents64, "getdents64"},
    {SYS_io_getevents, "io_getevents"},
    {SYS_ioctl, "ioctl"},
    {SYS_mmap, "mmap"},
    {SYS_msync, "msync"},
    {SYS_munmap, "munmap"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_newfstatat, "stat"},
    {SYS_openat, "openat"},
    {SYS_ppoll, "poll"},
    {SYS_pread64, "pread"},
    {SYS_preadv, "preadv"},
    {SYS_pselect6, "select"},
    {SYS_pwrite64, "pwrite"},
    {SYS_pwritev, "pwritev"},
    {SYS_read, "read"},
    {SYS_readv, "readv"},
    {SYS_recvfrom, "recv"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_renameat, "rename"},
    {SYS_rt_sigsuspend, "sigsuspend"},
    {SYS_rt_sigtimedwait, "sigtimedwait"},
    {SYS_semtimedop, "semtimedop"},
    {SYS_sendfile, "sendfile"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_sendto, "send"},
    {SYS_splice, "splice"},
    {SYS_statx, "stat"},
    {SYS_sync_file_range, "sync_file_range"},
    {SYS_unlinkat, "unlink"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_write, "write"},
    {SYS_writev, "writev"},
#if defined(SYS_futex_waitv)
    {SYS_futex_waitv, "futex"},
#endif
#if defined(SYS_io_uring_enter)
    {SYS_io_uring_enter, "io_uring_enter"},
#endif
#if defined(SYS_epoll_wait)
    {SYS_epoll_wait, "epoll_wait"},
#endif
#if defined(SYS_open)
    {SYS_open, "open"},
    {SYS_pause, "pause"},
    {SYS_poll, "poll"},
    {SYS_select, "select"},
    {SYS_stat, "stat"},
    {SYS_unlink, "unlink"},
#endif
};

// The first word of a file of the process; "" if it cannot be read.
std::string word_of(pid_t pid, const char* file) {
  std::string word;
  std::ifstream("/proc/" + std::to_string(pid) + "/" + file) >> word;
  return word;
}
}  // namespace

std::string sleeps_in(pid_t pid) {
  const auto process = find_process(pid);
  if (!process || (process->state != 'S' && process->state != 'D')) return "";

  const std::string call = word_of(pid, "syscall");
  const std::string place = word_of(pid, "wchan");
  const bool has_place = !place.empty() && place != "0";
  // The number is -1 for a thread that is in the kernel without a call, as in a page fault.
  if (call.empty() || call.find_first_not_of("0123456789") != std::string::npos) {
    return has_place ? place : "";
  }

  const long number = std::stol(call);
  const auto* const known = std::find_if(std::begin(kCalls), std::end(kCalls),
      [number](const auto& each) { return each.number == number; });
  const std::string name = known != std::end(kCalls) ? known->name : "system call " + call;
  return has_place ? name + " (" + place + ")" : name;
}
}  // namespace symm::tool
