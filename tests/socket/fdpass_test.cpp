#include "core/socket/fdpass.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/memfd.hpp"
#include "tests/support/footprint.hpp"
#include "tests/support/process.hpp"

namespace {
using namespace symm;
using fdpass::Received;

struct FdPass : testing::Test {
  FdPass() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
      throw Error(Status::system, "socketpair");
    }
    a = Fd(ends[0]);
    b = Fd(ends[1]);
    before = support::open_descriptors();
  }

  Received receive() { return fdpass::receive(b.get(), buffer); }

  Fd a;
  Fd b;
  size_t before = 0;
  std::array<std::byte, 64> buffer{};
};

// Sends as a hostile peer might: any number of descriptors, in any number of parts.
void send_raw(int socket, size_t bytes, int fds_per_part, int parts) {
  std::vector<char> data(bytes);
  iovec part{data.data(), data.size()};
  std::vector<char> control(
      static_cast<size_t>(parts) * CMSG_SPACE(sizeof(int) * static_cast<size_t>(fds_per_part)));
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);

  for (int i = 0; i < parts; ++i, header = CMSG_NXTHDR(&message, header)) {
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * static_cast<size_t>(fds_per_part));
    std::memset(CMSG_DATA(header), 0, sizeof(int) * static_cast<size_t>(fds_per_part));
  }

  ASSERT_EQ(sendmsg(socket, &message, 0), static_cast<ssize_t>(bytes));
}

TEST_F(FdPass, ManyOrWithTooLongAPacketTheyAreAllClosedAndNothingLeaks) {
  const struct {
    size_t bytes;
    int per_part;
    int parts;
    size_t kept;
    size_t arrived;
  } cases[] = {{10, 1, 1, 1, 1}, {10, 3, 1, 3, 3}, {10, 4, 1, 4, 4}, {10, 5, 1, 0, 4},
      {10, 6, 1, 0, 4}, {10, 200, 1, 0, 4}, {10, 1, 3, 3, 3}, {100, 2, 1, 0, 2}};

  for (const auto& sent : cases) {
    send_raw(a.get(), sent.bytes, sent.per_part, sent.parts);
    {
      const Received received = receive();
      EXPECT_EQ(received.too_long, sent.bytes == 100);
      EXPECT_EQ(received.fds_cut, sent.per_part > 4);
      for (const Fd& fd : received.fds) {
        EXPECT_NE(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
      }
      EXPECT_EQ(received.fds.size(), sent.kept) << sent.per_part << " x " << sent.parts;
      EXPECT_EQ(received.fds_arrived, sent.arrived) << sent.per_part << " x " << sent.parts;
      EXPECT_EQ(received.too_long ? sent.bytes : received.size, sent.bytes);
    }
    EXPECT_EQ(support::open_descriptors(), before);
  }
}

TEST_F(FdPass, WithoutRoomForDescriptorsThePacketComesWithoutThem) {
  send_raw(a.get(), 10, 2, 1);
  const support::Limit descriptors(RLIMIT_NOFILE);
  descriptors.lower(1);
  const Received received = receive();
  EXPECT_EQ(received.what, Received::What::packet);
  EXPECT_EQ(received.size, 10U);
  EXPECT_TRUE(received.fds_cut);
  EXPECT_EQ(received.fds_arrived, 0U);
}

// What another thread writes to a closed stream lands in no received file, even between recvmsg()
// and the next call.
TEST_F(FdPass, ReceivedOnesAreNoStreamsForAMoment) {
  support::Process child([&]() -> std::string {
    close(STDOUT_FILENO);
    std::atomic<bool> stop{false};
    std::atomic<int> taken{0};
    std::thread writer([&] {
      while (!stop)
        taken += support::takes_text(STDOUT_FILENO) ? 1 : 0;
    });
    std::string fault;
    const Fd sent = make_memfd("sent");
    for (int i = 0; i < 3000 && fault.empty(); ++i) {
      const int file = sent.get();
      // Packets with and without descriptors.
      fdpass::send(a.get(), buffer, {&file, static_cast<size_t>(i % 3 == 0 ? 0 : 1)});
      const Received got = receive();
      if (got.fds_arrived != (i % 3 == 0 ? 0U : 1U)) fault = "a descriptor has not come";
      for (const Fd& fd : got.fds) {
        if (fd.get() <= STDERR_FILENO) fault = "a descriptor is a stream";
      }
      if (receive().what == Received::What::closed) fault = "the connection has ended";
    }
    stop = true;
    writer.join();
    if (lseek(sent.get(), 0, SEEK_END) != 0) fault += "text landed in the file";
    return taken == 0 ? fault : fault + std::to_string(taken) + " texts were taken";
  });
  EXPECT_EQ(child.result(), "");
}

TEST_F(FdPass, NothingComesUntilThePeerSendsOrCloses) {
  EXPECT_EQ(receive().what, Received::What::nothing);
  const std::array<std::byte, 3> packet{};
  ASSERT_EQ(fdpass::send(a.get(), packet, {}), fdpass::Sent::done);
  EXPECT_EQ(receive().what, Received::What::packet);

  const Received received = receive();
  EXPECT_EQ(received.what, Received::What::nothing);
  EXPECT_EQ(received.size, 0U);
  EXPECT_TRUE(received.fds.empty());
  EXPECT_EQ(received.fds_arrived, 0U);
  EXPECT_FALSE(received.too_long || received.fds_cut);

  a.reset();
  EXPECT_EQ(receive().what, Received::What::closed);
}

TEST_F(FdPass, TheEndComesAfterTheLastPacketEvenIfOursWentUnread) {
  const std::array<std::byte, 3> packet{};
  EXPECT_EQ(fdpass::send(b.get(), packet, {}), fdpass::Sent::done);
  EXPECT_EQ(fdpass::send(a.get(), packet, {}), fdpass::Sent::done);
  a.reset();
  EXPECT_EQ(receive().size, 3U);
  EXPECT_EQ(receive().what, Received::What::closed);
  EXPECT_EQ(fdpass::send(b.get(), packet, {}), fdpass::Sent::closed);
}
}  // namespace
