// The interface of a measured library. Each peer is one file, linked with main.cpp; the measuring
// code is the same for all.
#pragma once

#include <cstddef>
#include <cstdint>

#include <symm/symm.h>

namespace peer {
struct Place {
  int rank = 0;
  int size = 0;
};

// Any failure is thrown, or ends the process when it has said what failed.
Place start(int* argc, char*** argv);
void finish();

// Symmetric memory of the same size on all ranks; null if the peer has none.
void* allocate_symmetric(size_t bytes);
void release_symmetric(void* pointer);

// Elements are f32, reductions are sums, rank 0 is the root. send == recv is in place.
void collective(const symm_collective_call_t& call);
void barrier();

// Half a round trip each: data to another rank, and from it. put() writes into the other rank's
// inbox, which is symmetric memory where there is such, and take() waits until it is there; send()
// and receive() pass a message.
void put(const void* data, void* inbox, size_t bytes, int to);
void take(void* inbox, size_t bytes, int from);
void send(const void* data, void* inbox, size_t bytes, int to);
void receive(void* inbox, size_t bytes, int from);

// Both at once, with the other of two ranks: data goes to `offset` of its inbox, and what comes is
// at the same place of this one.
void exchange(const void* data, void* inbox, size_t offset, size_t bytes, int other);

// A cube of f64 with `edge` elements an axis, in a border of one element. Ranks are a ring: the
// three lower faces of a cube become the upper border of the rank before, and the upper faces the
// lower border of the rank behind.
struct Cube {
  size_t edge;
  size_t line() const { return edge + 2; }  // elements, the border included
  size_t elements() const { return line() * line() * line(); }
  size_t at(size_t z, size_t y, size_t x) const { return (z * line() + y) * line() + x; }
};

// Two cubes, one behind the other, whose faces are exchanged by turns: a rank that is one exchange
// ahead writes to the cube that nobody reads. They are symmetric memory where there is any.
enum class Form {
  own,     // by the peer's types, or lists
  packed,  // the program packs faces by itself, if that is another way than the peer's own
  kept     // by a request of each cube that is made once and started in each exchange
};
void prepare_faces(double* cubes, const Cube& cube, Form form);
void exchange_faces(int which);
void finish_faces();

// A word of zeros on each rank, to which any rank adds; returned is what the word was before.
void prepare_words();
uint64_t fetch_add(int rank, uint64_t value);
void finish_words();
}  // namespace peer
