// The peer that measures symm itself.
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "bench/host/peer.hpp"
#include "symm/symm.h"
#include "tools/bench/call.hpp"
#include <symm/symm.hpp>

namespace peer {
namespace {
symm::Group group;
std::map<void*, symm::Memory> memories;  // by this rank's block
}  // namespace

Place start(int*, char***) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_HOST;
  group = symm::Group::create(config);
  return {group.rank(), group.size()};
}

void finish() {
  group.finalize();
  group.reset();
}

void* allocate_symmetric(size_t bytes) {
  symm::Memory memory = group.rendezvous(group.allocate(bytes));
  void* const block = memory.span().data();
  memories.emplace(block, std::move(memory));
  return block;
}

void release_symmetric(void* pointer) { memories.erase(pointer); }

void collective(const symm_collective_call_t& call) {
  symm::check(symm::tool::run(group.get(), call, nullptr, nullptr), "a collective");
}

void barrier() {
  symm::check(symm_barrier(group.get(), nullptr, 0, 0, nullptr, nullptr), "symm_barrier");
}

void put(const void* data, void* inbox, size_t bytes, int to) {
  symm::check(symm_put_signal(memories.at(inbox).get(), to, 0, data, bytes, 0, nullptr, nullptr),
      "symm_put_signal");
}

void take(void* inbox, size_t, int from) {
  symm::check(
      symm_wait_signal(memories.at(inbox).get(), from, 0, nullptr, nullptr), "symm_wait_signal");
}

void send(const void* data, void*, size_t bytes, int to) {
  symm::check(symm_send(group.get(), to, 0, data, bytes, nullptr, nullptr), "symm_send");
}

void receive(void* inbox, size_t bytes, int from) {
  symm::check(
      symm_recv(group.get(), from, 0, inbox, bytes, nullptr, nullptr, nullptr), "symm_recv");
}

void exchange(const void* data, void* inbox, size_t offset, size_t bytes, int other) {
  symm_memory_t* const memory = memories.at(inbox).get();
  symm::check(
      symm_put_signal(memory, other, offset, data, bytes, 0, nullptr, nullptr), "symm_put_signal");
  symm::check(symm_wait_signal(memory, other, 0, nullptr, nullptr), "symm_wait_signal");
}

namespace {
// What goes to one of the neighbours.
struct Faces {
  int to = 0;
  std::vector<symm_piece_t> pieces;
};

struct {
  double* cubes = nullptr;
  Cube cube{};
  Form form{};
  Faces lower;
  Faces upper;
  symm::NeighborExchange kept[2];  // of each cube
} faces;

// The faces at `inner` of a cube, which become the border at `border`.
std::vector<symm_piece_t> pieces_of(const Cube& cube, size_t inner, size_t border) {
  const auto byte = [&](size_t z, size_t y, size_t x) { return cube.at(z, y, x) * sizeof(double); };
  const size_t line = cube.line() * sizeof(double);
  const size_t plane = cube.line() * line;
  const size_t row = cube.edge * sizeof(double);
  std::vector<symm_piece_t> pieces = {
      {byte(inner, 1, 1), byte(border, 1, 1), row, cube.edge, line, line},
      {byte(1, inner, 1), byte(1, border, 1), row, cube.edge, plane, plane}};
  for (size_t z = 1; z <= cube.edge; ++z) {
    pieces.push_back(
        {byte(z, 1, inner), byte(z, 1, border), sizeof(double), cube.edge, line, line});
  }
  return pieces;
}
}  // namespace

void prepare_faces(double* cubes, const Cube& cube, Form form) {
  const int before = (group.rank() + group.size() - 1) % group.size();
  const int behind = (group.rank() + 1) % group.size();
  faces = {cubes, cube, form, {before, pieces_of(cube, 1, cube.edge + 1)},
      {behind, pieces_of(cube, cube.edge, 0)}, {}};
  if (form != Form::kept) return;

  const size_t bytes = 3 * cube.edge * cube.edge * sizeof(double);
  for (size_t which = 0; which < 2; ++which) {
    const size_t first = which * cube.elements();
    std::vector<symm_neighbor_t> neighbors;
    for (const Faces* one : {&faces.lower, &faces.upper}) {
      neighbors.push_back(symm::neighbor(one->to, memories.at(cubes), first * sizeof(double),
          symm::Span(cubes + first, cube.elements()), one->pieces, bytes));
    }
    faces.kept[which] = group.exchange(neighbors);
  }
}

void exchange_faces(int which) {
  if (faces.form == Form::kept) {
    faces.kept[which].start();
    return faces.kept[which].finish();
  }
  const symm::Memory& memory = memories.at(faces.cubes);
  const size_t first = static_cast<size_t>(which) * faces.cube.elements();
  const symm::Span cube(faces.cubes + first, faces.cube.elements());
  for (const Faces* one : {&faces.lower, &faces.upper}) {
    const auto pieces = symm::Pieces(one->pieces).with_signal(0);
    memory.put_pieces(one->to, first * sizeof(double), cube, pieces);
  }
  memory.wait_signal(faces.lower.to);
  memory.wait_signal(faces.upper.to);
}

void finish_faces() { faces = {}; }

namespace {
symm::Memory words;
}  // namespace

void prepare_words() {
  symm::Buffer buffer = group.allocate(sizeof(uint64_t));
  words = group.rendezvous(std::move(buffer));
}

uint64_t fetch_add(int rank, uint64_t value) {
  uint64_t before = 0;
  symm::check(
      symm_atomic64(words.get(), rank, 0, SYMM_ATOMIC_ADD, value, 0, nullptr, &before, nullptr),
      "symm_atomic64");
  return before;
}

void finish_words() {
  barrier();
  words.reset();
}
}  // namespace peer
