// Calls of libc that the library makes pass through here, in a program into which both
// are linked, and may fail, be interrupted, or move less than was asked for. Those of
// shared libraries do not, as nothing here is visible to them. Arguments are words, so
// that each function is called as if it had seven.
#include "tests/points/outside.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <netdb.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

typedef long Function(long, long, long, long, long, long, long);

static Function* next_one(const char* name) {
  Function* next = NULL;
  *(void**)&next = dlsym(RTLD_NEXT, name);
  return next;
}

// Calls that may read or write only a part of what they were asked to.
static int is_stream(long fd) {
  struct stat what;
  int type = 0;
  socklen_t size = sizeof type;
  if (next_one("fstat")(fd, (long)&what, 0, 0, 0, 0, 0) != 0) return 0;
  if (!S_ISSOCK(what.st_mode)) return S_ISREG(what.st_mode) || S_ISFIFO(what.st_mode);
  next_one("getsockopt")(fd, SOL_SOCKET, SO_TYPE, (long)&type, (long)&size, 0, 0);
  return type == SOCK_STREAM;
}

static long fails_with(int error, long answer) {
  errno = error;
  return answer;
}

#define CALL(name, before)                                                   \
  long call_##name(long, long, long, long, long, long, long) __asm__(#name); \
  long call_##name(long a, long b, long c, long d, long e, long f, long g) { \
    static Function* next;                                                   \
    if (next == NULL) next = next_one(#name);                                \
    before;                                                                  \
    return next(a, b, c, d, e, f, g);                                        \
  }
#define MEETS(fault, name, error, answer) \
  if (symm_strikes(fault, name)) return fails_with(error, answer)
#define FAILS(name, error) CALL(name, MEETS(SYMM_FAILS, #name, error, -1))
#define FAIL(error, a, b, c) FAILS(a, error) FAILS(b, error) FAILS(c, error)
#define FAILS_WITH(name, answer, error) CALL(name, MEETS(SYMM_FAILS, #name, error, answer))
#define WAITS(name, error) \
  CALL(name, MEETS(SYMM_INTERRUPTED, #name, EINTR, -1); MEETS(SYMM_FAILS, #name, error, -1))
#define MOVES(name, error)                                                                   \
  CALL(name, MEETS(SYMM_INTERRUPTED, #name, EINTR, -1); MEETS(SYMM_FAILS, #name, error, -1); \
      if (c > 1 && is_stream(a) && symm_strikes(SYMM_SHORTENED, #name)) c = (c + 1) / 2)

FAILS(access, EACCES)
FAIL(ENOSPC, bind, ftruncate, linkat)
FAIL(ENOSPC, mkdir, mkdirat, renameat)
FAIL(EMFILE, epoll_create1, eventfd, fcntl)
FAIL(EMFILE, memfd_create, socket, timerfd_create)
FAIL(EMFILE, accept4, open, openat)
FAIL(EIO, fstat, fstatat, stat)
FAIL(ENOBUFS, getpeername, getsockname, getsockopt)
FAIL(ENOMEM, listen, madvise, mmap)
FAILS(setsockopt, ENOMEM)
FAILS(connect, ENOMEM)
FAILS(shutdown, ENOTCONN)
FAILS(flock, ENOLCK)
FAILS_WITH(dlopen, 0, ENOMEM)
FAILS_WITH(fdopendir, 0, ENOMEM)
FAILS_WITH(getaddrinfo, EAI_MEMORY, 0)
WAITS(epoll_wait, EINTR)
WAITS(fallocate, ENOSPC)
WAITS(poll, ENOMEM)
WAITS(recvmsg, ENOMEM)
WAITS(sendmsg, ENOBUFS)
MOVES(pread, EIO)
MOVES(read, EIO)
MOVES(recv, ENOMEM)
MOVES(send, ENOBUFS)
MOVES(write, ENOSPC)
CALL(epoll_ctl, if (b == EPOLL_CTL_ADD) MEETS(SYMM_FAILS, "epoll_ctl", ENOSPC, -1))
CALL(posix_fallocate, MEETS(SYMM_INTERRUPTED, "posix_fallocate", 0, EINTR);
    MEETS(SYMM_FAILS, "posix_fallocate", 0, ENOSPC))
CALL(syscall, if (a == SYS_pidfd_open) MEETS(SYMM_FAILS, "pidfd_open", EMFILE, -1);
    if (a == SYS_set_robust_list || a == SYS_membarrier) MEETS(SYMM_FAILS, "syscall", ENOSYS, -1);
    if (a == SYS_futex_waitv || (a == SYS_futex && c == FUTEX_WAIT))
        MEETS(SYMM_INTERRUPTED, "futex", EINTR, -1))
