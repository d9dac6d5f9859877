// A process of a test with two libraries: it loads the libsymm that LD_LIBRARY_PATH leads to, does
// what its arguments say, and prints what came of it: a line of JSON without quotes in its values.
//
//   client group <host|cuda> [id]   a rank of a group: its memory, a barrier, an all-reduce
//   client pause                    a rank that stays in its group until its input ends
//   client id                       a unique id, which serves until its input ends
//   client export <host|cuda>       a token of four floats, which serve until its input ends
//   client import <host|cuda> <token>
//   client publish <host|cuda>      version 7 of "weights", which is there until its input ends
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <symm/symm.h>
#include <symm/symm.hpp>

namespace {
constexpr float kFirst = 40;
constexpr uint64_t kVersion = 7;

std::string hex_of(const std::vector<unsigned char>& bytes) {
  std::string text;
  for (const unsigned char byte : bytes) {
    std::array<char, 3> two{};
    std::snprintf(two.data(), two.size(), "%02x", byte);
    text += two.data();
  }
  return text;
}

std::vector<unsigned char> bytes_of(const std::string& hex) {
  constexpr int kBase = 16;
  std::vector<unsigned char> bytes;
  for (size_t at = 0; at + 1 < hex.size(); at += 2) {
    bytes.push_back(
        static_cast<unsigned char>(std::strtoul(hex.substr(at, 2).c_str(), nullptr, kBase)));
  }
  return bytes;
}

// The text on one line and without quotes, as a value of the JSON that is printed.
std::string clean(std::string text) {
  std::replace(text.begin(), text.end(), '"', '\'');
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void say(const std::string& what, const std::string& value) {
  std::printf(
      "{\"version\": %u, \"%s\": \"%s\"}\n", symm_version(), what.c_str(), clean(value).c_str());
  std::fflush(stdout);
}

void await_end_of_input() {
  while (std::getchar() != EOF) {
  }
}

symm_backend_t backend_named(const std::string& name) {
  return name == "cuda" ? SYMM_BACKEND_CUDA : SYMM_BACKEND_HOST;
}

symm_group_config_t config_of(const std::string& backend) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = backend_named(backend);
  config.name = "versions";
  return config;
}

// The sum of the ranks' numbers + 1, as each rank reads it.
std::string group(const std::string& backend, const std::string& id) {
  symm_group_config_t config = config_of(backend);
  const std::vector<unsigned char> bytes = bytes_of(id);
  if (!bytes.empty()) {
    config.id = bytes.data();
    config.id_bytes = bytes.size();
    config.rank = std::atoi(std::getenv("SYMM_RANK"));
    config.size = std::atoi(std::getenv("SYMM_SIZE"));
  }

  const symm::Group group = symm::Group::create(config);
  constexpr size_t kCount = 1000;
  const symm::Memory memory = group.rendezvous(group.allocate(kCount * sizeof(float)));
  group.barrier();
  float sum = -1;
  if (config.backend == SYMM_BACKEND_HOST) {
    std::vector<float> own(kCount, static_cast<float>(group.rank() + 1));
    group.allreduce(own, own, SYMM_OP_SUM);
    sum = own.back();
  }
  group.finalize();
  return std::to_string(static_cast<int>(sum));
}

std::string token_of(const symm::Buffer& buffer) {
  std::vector<unsigned char> token(SYMM_IPC_TOKEN_MAX_BYTES);
  size_t bytes = 0;
  symm::check(symm_ipc_export(buffer.span().data(), 4 * sizeof(float), nullptr, token.data(),
                  token.size(), &bytes, nullptr),
      "symm_ipc_export");
  token.resize(bytes);
  return hex_of(token);
}

std::string imported(const std::string& backend, const std::string& hex) {
  const std::vector<unsigned char> token = bytes_of(hex);
  symm_ipc_t* piece = nullptr;
  symm::check(
      symm_ipc_import(token.data(), token.size(), nullptr, &piece, nullptr), "symm_ipc_import");
  void* at = nullptr;
  symm::check(symm_ipc_pointer(piece, &at), "symm_ipc_pointer");
  const float first = backend == "host" ? *static_cast<const float*>(at) : -1;
  symm_ipc_release(piece, nullptr);
  return std::to_string(static_cast<int>(first));
}

void act(const std::vector<std::string>& words) {
  const std::string backend = words.size() > 1 ? words[1] : "host";
  const std::string last = words.size() > 2 ? words[2] : "";
  if (words[0] == "group") return say("sum", group(backend, last));
  if (words[0] == "import") return say("first", imported(backend, last));

  if (words[0] == "id") {
    std::vector<unsigned char> id(SYMM_UNIQUE_ID_MAX_BYTES);
    size_t bytes = 0;
    symm::check(symm_unique_id(nullptr, id.data(), id.size(), &bytes), "symm_unique_id");
    id.resize(bytes);
    say("id", hex_of(id));
    return await_end_of_input();
  }

  const symm::Group group = symm::Group::create(config_of(backend));
  const symm::Buffer buffer = group.allocate(4 * sizeof(float));
  if (words[0] == "export") {
    if (backend == "host") {
      buffer.span<float>()[0] = kFirst;
    }
    say("token", token_of(buffer));
  } else if (words[0] == "publish") {
    const std::vector<unsigned char> token = bytes_of(token_of(buffer));
    symm::check(symm_ipc_publish("weights", kVersion, token.data(), token.size(), nullptr),
        "symm_ipc_publish");
    say("published", std::to_string(kVersion));
  } else {
    say("group", "is made");
  }
  await_end_of_input();
}
}  // namespace

int main(int argc, char** argv) {
  try {
    act({argv + 1, argv + argc});
  } catch (const symm::Error& error) {
    std::printf("{\"version\": %u, \"status\": %d, ", symm_version(), error.status());
    std::printf("\"message\": \"%s\"}\n", clean(error.what()).c_str());
  }
}
