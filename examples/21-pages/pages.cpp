// A process puts pages of a cache into the memory of another one, which is in no group with it:
//   symm_pages
// The owner of the pages waits for a word, and names a writer that died. A request that was given
// up gives its pages back: behind the fence nothing lands that the writer still sends for it.
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "symm/symm.h"
#include <symm/symm.hpp>

constexpr size_t kPage = 4096;
constexpr size_t kPages = 16;
constexpr size_t kToken = SYMM_IPC_TOKEN_MAX_BYTES;

// What the owner asks for: two pages, to be put where it says.
struct Request {
  uint64_t number;
  uint64_t pages[2];
};

static void send(int to, const void* data, size_t bytes) {
  if (write(to, data, bytes) != static_cast<ssize_t>(bytes)) std::perror("write");
}

static void own(int to_writer) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.bootstrap = "thread://pages";
  config.size = 1;
  const symm::Group alone = symm::Group::create(config);
  const symm::Buffer cache = alone.allocate(kPages * kPage);
  const symm::Span<std::byte> pages = cache.span();
  const auto page = [&](uint64_t number) { return pages.subspan(number * kPage, kPage); };

  symm_ipc_export_options_t options = SYMM_IPC_EXPORT_OPTIONS_INIT;
  options.channels = 1;
  options.fence_bytes = kPage;
  symm::Token token = symm::ipc_export(pages, options);
  const size_t bytes = token.size();
  token.resize(kToken);
  send(to_writer, token.data(), kToken);
  send(to_writer, &bytes, sizeof bytes);
  token.resize(bytes);

  const Request first{1, {3, 9}};
  send(to_writer, &first, sizeof first);
  symm::ipc_wait_value(token, 0, SYMM_COMPARE_GE, 1);
  std::printf("owner: request 1 filled page 9 with %d\n", static_cast<int>(page(9)[0]));

  // Nobody wants request 2 any more, which the writer does not know yet.
  const Request second{2, {3, 9}};
  for (const uint64_t number : second.pages) {
    symm::ipc_fence(page(number), second.number + 1);
  }
  send(to_writer, &second, sizeof second);
  const Request third{3, {9, 3}};
  send(to_writer, &third, sizeof third);
  symm::ipc_wait_value(token, 0, SYMM_COMPARE_GE, 3);
  std::printf("owner: request 3 filled page 9 with %d\n", static_cast<int>(page(9)[0]));

  close(to_writer);
  wait(nullptr);
}

static void put(int from_owner) {
  symm::Token token(kToken);
  size_t bytes = 0;
  if (read(from_owner, token.data(), kToken) != static_cast<ssize_t>(kToken) ||
      read(from_owner, &bytes, sizeof bytes) != sizeof bytes) {
    return;
  }
  token.resize(bytes);
  const symm::Import cache(token);

  Request request;
  while (read(from_owner, &request, sizeof request) == sizeof request) {
    const std::vector<std::byte> computed(2 * kPage, static_cast<std::byte>(10 * request.number));
    const symm::Pieces pages = symm::Pieces::pages(kPage, {}, request.pages)
                                   .with_signal(0, SYMM_SIGNAL_SET, request.number);
    try {
      cache.put_pieces(0, computed, pages, request.number);
    } catch (const symm::Error& error) {
      if (error.status() != SYMM_ERR_ABORTED) throw;
      std::printf("writer: request %d was given up\n", static_cast<int>(request.number));
      std::fflush(stdout);
    }
  }
}

int main() try {
  int ends[2];
  if (pipe(ends) != 0) {
    std::perror("pipe");
    return 1;
  }

  // The processes part before either of them has called symm.
  const pid_t writer = fork();
  if (writer == 0) {
    close(ends[1]);
    put(ends[0]);
    return 0;
  }
  close(ends[0]);
  own(ends[1]);
} catch (const symm::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
