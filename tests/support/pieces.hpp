// Collectives whose blocks have lengths of their own, drawn at random: where each rank
// has what it sends and what it expects, and every byte of its operands before and
// after. For tests of kernels, and in pieces_calls.hpp of the library.
#pragma once

#include "tests/support/test.hpp"

namespace support {
using Counts = std::vector<size_t>;
using Bytes = std::vector<std::byte>;
inline constexpr std::byte kUntouched{0xEE};

enum class PiecesKind {
  alltoallv,
  allgatherv,
  reduce_scatterv,
  gather,
  scatter,
  rows,
  reduced_rows,
  gatherv,
  scatterv
};
inline constexpr PiecesKind kPiecesKinds[] = {PiecesKind::alltoallv, PiecesKind::allgatherv,
    PiecesKind::reduce_scatterv, PiecesKind::gather, PiecesKind::scatter, PiecesKind::rows,
    PiecesKind::reduced_rows, PiecesKind::gatherv, PiecesKind::scatterv};

constexpr bool is_in_rows(PiecesKind kind) {
  return kind == PiecesKind::rows || kind == PiecesKind::reduced_rows;
}

constexpr bool has_root(PiecesKind kind) {
  return kind == PiecesKind::gather || kind == PiecesKind::scatter || kind == PiecesKind::gatherv ||
         kind == PiecesKind::scatterv;
}

constexpr bool is_reduced(PiecesKind kind) {
  return kind == PiecesKind::reduce_scatterv || kind == PiecesKind::reduced_rows;
}

struct Range {
  size_t at = 0;
  size_t bytes = 0;
};

// The operands of a rank. Both lie in `before`, from bytes send_at and recv_at on; a call in place
// has one operand for both.
struct PiecesOfRank {
  std::vector<Range> send;   // by the rank that they go to
  std::vector<Range> recv;   // by the rank that they come from
  bool send_packed = false;  // whether the pieces lie one behind the other
  bool recv_packed = false;
  size_t send_at = 0;
  size_t recv_at = 0;
  size_t send_bytes = 0;
  size_t recv_bytes = 0;
  size_t stride = 0;  // bytes from one row to the next, of the operand that has all ranks' rows
  Bytes before;
  Bytes after;

  // Counts and displacements of send and recv, in elements of so many bytes.
  std::array<Counts, 4> lists(size_t element) const {
    std::array<Counts, 4> all;
    for (size_t i = 0; i < all.size(); ++i) {
      for (const Range& piece : i < 2 ? send : recv) {
        all[i].push_back((i % 2 == 0 ? piece.bytes : piece.at) / element);
      }
    }
    return all;
  }
};

// How elements are made, and reduced, for a kind that is reduced.
struct Elements {
  std::function<void(std::byte* element)> make;
  std::function<void(const std::vector<const std::byte*>& of_all, std::byte* result)> reduce;
};

// Elements of type i32 whose sums are small enough for f32 to hold them, too.
inline Elements sums(std::mt19937& random) {
  const auto make = [&random](std::byte* element) {
    const auto number = static_cast<int32_t>(random() % 997);
    std::memcpy(element, &number, sizeof number);
  };

  const auto reduce = [](const std::vector<const std::byte*>& of_all, std::byte* result) {
    int32_t sum = 0;
    for (const std::byte* element : of_all) {
      int32_t number = 0;
      std::memcpy(&number, element, sizeof number);
      sum += number;
    }
    std::memcpy(result, &sum, sizeof sum);
  };

  return {make, reduce};
}

// So many ranks, elements of so many bytes; in place as far as
// the call knows that; up to `scale` times 20,000 bytes from
// each to each; what is there after of all, or of one rank.
class DrawnPieces {
 public:
  DrawnPieces(PiecesKind what, size_t ranks, size_t element_bytes, bool in_place,
      std::mt19937& random, const Elements& elements = {}, size_t scale = 1,
      size_t of_interest = SIZE_MAX)
      : kind(what),
        element(element_bytes),
        is_in_place(in_place),
        n_(ranks),
        scale_(scale),
        random_(random),
        of(ranks) {
    root = random_() % n_;
    const size_t equal = length();
    if (is_in_rows(kind)) {
      // Longer rows are fewer, so that all rows together have about as many bytes.
      const size_t longer = random_() % 2 == 0 ? 1 : 1 + random_() % 20;
      row = (1 + random_() % 700) * longer * element;
      rows = random_() % 40 / longer;
      for (PiecesOfRank& mine : of) {
        mine.stride = n_ * row + random_() % 9 * element;
      }
    }

    Counts own;  // the lengths of collectives in which each rank has one length
    for (size_t r = 0; r < n_; ++r) {
      own.push_back(length());
    }

    std::vector<Counts> bytes(n_, Counts(n_, 0));
    for (size_t from = 0; from < n_; ++from) {
      for (size_t to = 0; to < n_; ++to) {
        size_t& here = bytes[from][to];
        if (kind == PiecesKind::alltoallv) {
          here = in_place && to < from ? bytes[to][from] : length();
        }
        if (kind == PiecesKind::allgatherv) here = own[from];
        if (kind == PiecesKind::reduce_scatterv) here = own[to];
        if (is_in_rows(kind)) here = rows * row;
        if (kind == PiecesKind::gather ? to == root : kind == PiecesKind::scatter && from == root) {
          here = equal;
        }
        if (kind == PiecesKind::gatherv && to == root) here = own[from];
        if (kind == PiecesKind::scatterv && from == root) here = own[to];
      }
    }

    for (size_t rank = 0; rank < n_; ++rank) {
      Counts in;
      for (size_t from = 0; from < n_; ++from) {
        in.push_back(bytes[from][rank]);
      }
      place(rank, bytes[rank], in);
    }

    for (PiecesOfRank& mine : of) {
      fill(mine, elements);
    }

    for (size_t rank = 0; rank < n_; ++rank) {
      if (of_interest == SIZE_MAX || of_interest == rank) expect(rank, elements);
    }
  }

  const PiecesKind kind;
  const size_t element;
  const bool is_in_place;
  size_t root = 0;
  size_t row = 0;
  size_t rows = 0;

 private:
  const size_t n_;
  const size_t scale_;
  std::mt19937& random_;

 public:
  std::vector<PiecesOfRank> of;

 private:
  bool sends_one() const {
    return kind == PiecesKind::allgatherv || kind == PiecesKind::rows ||
           kind == PiecesKind::gather || kind == PiecesKind::gatherv;
  }
  // A length of more chunks than there are slots, of one chunk, or of nothing.
  size_t length() {
    constexpr size_t kMost[] = {1, 40, 3000, 20'000};
    return random_() % kMost[random_() % 4] * scale_ / element * element;
  }

  // Pieces in any order, with gaps; where they end.
  size_t lay(const Counts& bytes, bool packed, std::vector<Range>& pieces) {
    Counts order(n_);
    std::iota(order.begin(), order.end(), size_t{0});
    if (!packed) std::shuffle(order.begin(), order.end(), random_);
    pieces.resize(n_);
    size_t at = packed ? 0 : random_() % 3 * 16;
    for (const size_t r : order) {
      pieces[r] = {at, bytes[r]};
      at += bytes[r] + (packed ? 0 : random_() % 4 * element);
    }
    return at;
  }

  void place(size_t rank, const Counts& out, const Counts& in) {
    PiecesOfRank& mine = of[rank];
    const bool equal = kind == PiecesKind::gather || kind == PiecesKind::scatter;
    mine.recv_packed = equal || random_() % 3 == 0;
    mine.send_packed = equal || random_() % 3 == 0;
    mine.recv_bytes = lay(in, mine.recv_packed, mine.recv);
    mine.send_bytes = lay(out, mine.send_packed, mine.send);

    if (sends_one()) {
      for (size_t to = 0; to < n_; ++to) {
        mine.send[to].at = 0;
      }
      mine.send_bytes = *std::max_element(out.begin(), out.end());
    }

    if (is_reduced(kind)) {
      for (Range& piece : mine.recv) {
        piece.at = 0;
      }
      mine.recv_bytes = in[rank];
    }

    if (kind == PiecesKind::scatter || kind == PiecesKind::scatterv) {
      mine.recv[root].at = 0;
      mine.recv_bytes = in[root];
    }
    if (kind == PiecesKind::rows) {
      for (size_t from = 0; from < n_; ++from) {
        mine.recv[from].at = from * row;
      }
      mine.recv_bytes = rows * mine.stride;
    }
    if (kind == PiecesKind::reduced_rows) {
      for (size_t to = 0; to < n_; ++to) {
        mine.send[to].at = to * row;
      }
      mine.send_bytes = rows * mine.stride;
    }

    // One behind the other, or the operand that is a part of the other lies there.
    const auto behind = [](size_t bytes) { return (bytes + 31) / 16 * 16; };
    const bool may_be_in_place = has_root(kind) ? rank == root : !is_in_rows(kind);

    if (!is_in_place || !may_be_in_place) {
      mine.recv_at = behind(mine.send_bytes);
    } else if (kind == PiecesKind::alltoallv) {
      mine.send = mine.recv;
      mine.send_packed = mine.recv_packed;
      mine.send_bytes = mine.recv_bytes;
    } else if (sends_one()) {
      mine.send_at = mine.recv[rank].at;
    } else {
      mine.recv_at = mine.send[rank].at;
    }

    mine.before.assign(
        behind(std::max(mine.send_at + mine.send_bytes, mine.recv_at + mine.recv_bytes)) + 16,
        kUntouched);
  }

  void fill(PiecesOfRank& mine, const Elements& elements) {
    static const Bytes noise = [] {
      Bytes made(1 << 19);
      std::mt19937 dice(1);
      for (std::byte& one : made) {
        one = static_cast<std::byte>(dice() % 237);
      }
      return made;
    }();

    for (const Range& piece : mine.send) {
      std::byte* const at = mine.before.data() + mine.send_at + piece.at;
      const size_t part = kind == PiecesKind::reduced_rows && row != 0 ? row : piece.bytes;
      for (size_t done = 0, to = 0; done < piece.bytes; done += part, to += mine.stride) {
        std::copy_n(noise.data() + random_() % (noise.size() / 2), part, at + to);
        for (size_t i = 0; i < part && elements.make; i += element) {
          elements.make(at + to + i);
        }
      }
    }
  }

  void expect(size_t rank, const Elements& elements) {
    PiecesOfRank& mine = of[rank];
    mine.after = mine.before;
    const auto sent = [&](size_t r, size_t at = 0) {
      const bool by_rows = kind == PiecesKind::reduced_rows;
      return of[r].before.data() + of[r].send_at + of[r].send[rank].at +
             (by_rows ? at / row * of[r].stride + at % row : at);
    };

    for (size_t from = 0; from < n_; ++from) {
      std::byte* const piece = mine.after.data() + mine.recv_at + mine.recv[from].at;
      const size_t bytes = mine.recv[from].bytes;
      if (elements.reduce) {
        std::vector<const std::byte*> of_all(n_);
        for (size_t i = 0; i < bytes && from == 0; i += element) {
          for (size_t r = 0; r < n_; ++r) {
            of_all[r] = sent(r, i);
          }
          elements.reduce(of_all, piece + i);
        }
      } else {
        const size_t part = row == 0 ? bytes : row;
        for (size_t at = 0, to = 0; at < bytes; at += part, to += mine.stride) {
          std::copy_n(sent(from) + at, part, piece + to);
        }
      }
    }
  }
};
}  // namespace support
