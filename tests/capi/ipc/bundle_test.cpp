// Bundles: many named pieces by one token. All of them come, or none; whoever holds one is known to
// the owner of each of its pieces; and nothing of it is left when its processes are gone.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/capi/ipc/sharing.hpp"

namespace support {
namespace {
using Pieces = std::vector<symm_ipc_piece_t>;

symm_ipc_piece_t piece_of(void* pointer, size_t bytes, const char* name) {
  symm_ipc_piece_t piece = SYMM_IPC_PIECE_INIT;
  piece.pointer = pointer;
  piece.bytes = bytes;
  piece.name = name;
  return piece;
}

Token bundle_of(const Pieces& pieces, uint64_t hold_ms = 0) {
  symm_ipc_export_options_t options = SYMM_IPC_EXPORT_OPTIONS_INIT;
  options.hold_ms = hold_ms;
  const symm::Token made = symm::ipc_export_bundle(pieces, options);
  Token token{made.size(), {}};
  std::memcpy(token.bytes, made.data(), made.size());
  return token;
}

int int_of(const Import& bundle, const std::string& name) {
  return *static_cast<const int*>(bundle.bundle_piece(name).pointer);
}

// Blocks with a number in each of their pieces.
struct Model {
  explicit Model(size_t blocks, size_t per_block = 4, int first = 0) {
    for (size_t b = 0; b < blocks; ++b) {
      owned.push_back(std::make_unique<Owned>(4096));
      for (size_t i = 0; i < per_block; ++i) {
        names.push_back(std::make_unique<std::string>("layer." + std::to_string(names.size())));
        *owned.back()->at<int>(64 * i) = first + static_cast<int>(names.size()) - 1;
        pieces.push_back(piece_of(owned.back()->data + 64 * i, 64, names.back()->c_str()));
      }
    }
  }
  std::vector<std::unique_ptr<Owned>> owned;
  std::vector<std::unique_ptr<std::string>> names;
  Pieces pieces;
};

using Bundle = Sharing;

TEST_F(Bundle, HasItsPiecesByNumberAndByName) {
  exporter([&] {
    Model model(3);
    struct About {
      double scale;
      int32_t extents[2];
    } const about{0.5, {4, 4}};
    model.pieces[5].about = &about;
    model.pieces[5].about_bytes = sizeof about;
    model.pieces[6].name = nullptr;
    model.pieces.push_back(piece_of(nullptr, 0, "nothing"));
    model.pieces.push_back(piece_of(model.owned[0]->data, 4096, ""));
    facts->token = bundle_of(model.pieces);
    EXPECT_LE(facts->token.size, size_t{SYMM_IPC_TOKEN_MAX_BYTES});
    EXPECT_EQ(ipc_stats().exported_blocks, 3U);
    pass();
    EXPECT_EQ(*model.owned[2]->at<int>(64), -1);
    EXPECT_EQ(ipc_stats().granted_leases, 1U) << "one for all pieces";
  });

  importer([&] {
    const Import bundle = import(facts->token);
    ASSERT_EQ(bundle.bundle_size(), 14U);
    EXPECT_EQ(bundle.span().data(), nullptr);
    EXPECT_EQ(bundle.info().bytes, 12U * 64 + 4096);
    EXPECT_EQ(bundle.info().block_bytes, 3U * 4096);
    EXPECT_EQ(bundle.info().host_memory, 1);
    EXPECT_EQ(ipc_stats().imported_blocks, 3U);
    for (int i = 0; i < 12; ++i) {
      const symm_ipc_piece_t piece = bundle.bundle_piece(static_cast<size_t>(i));
      EXPECT_EQ(piece.bytes, 64U);
      EXPECT_EQ(*static_cast<int*>(piece.pointer), i);
      if (i == 6) {
        EXPECT_EQ(piece.name, nullptr);
        EXPECT_EQ(outcome_of([&] { int_of(bundle, "layer.6"); }).status, SYMM_ERR_NOT_FOUND);
      } else {
        EXPECT_EQ(piece.name, "layer." + std::to_string(i));
        EXPECT_EQ(int_of(bundle, "layer." + std::to_string(i)), i);
      }
    }

    const symm_ipc_piece_t told = bundle.bundle_piece(5);
    ASSERT_EQ(told.about_bytes, 16U);
    double scale = 0;
    std::memcpy(&scale, told.about, sizeof scale);
    EXPECT_EQ(scale, 0.5);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(told.about) % 16, 0U);
    EXPECT_EQ(bundle.bundle_piece("nothing").pointer, nullptr);
    EXPECT_EQ(bundle.bundle_piece("").bytes, 4096U);
    EXPECT_THROW(bundle.bundle_piece(14), Error);
    *static_cast<int*>(bundle.bundle_piece("layer.9").pointer) = -1;
  });
}

TEST_F(Bundle, IsAskedForOnceAndMappedOnce) {
  exporter([&] {
    const Model model(300, 2);  // more blocks than one answer has, and than the board
    facts->tokens[0] = bundle_of(model.pieces);
    facts->tokens[1] = bundle_of(model.pieces);
    facts->tokens[2] = make_token(model.owned[7]->data, 64);
    pass();
    expect_eventually("all leases are over", [] { return ipc_stats().leases == 0; });
  });

  importer([&] {
    const Import first = import(facts->tokens[0]);
    EXPECT_EQ(ipc_stats().imported_blocks, 300U);
    const Footprint one = Footprint::now();
    const Import again = import(facts->tokens[0]);
    const Import same = import(facts->tokens[1]);
    const Import piece = import(facts->tokens[2]);
    EXPECT_EQ(Footprint::now(), one);
    EXPECT_EQ(same.bundle_piece(599).pointer, first.bundle_piece(599).pointer);
    EXPECT_EQ(piece.at<std::byte>(), first.bundle_piece(14).pointer);
    for (int i = 0; i < 600; ++i) {
      ASSERT_EQ(int_of(same, "layer." + std::to_string(i)), i);
    }
  });
}

TEST_F(Bundle, ForReadingIsForReading) {
  exporter([&] {
    const Model model(2);
    facts->token = bundle_of(model.pieces);
    const Import mine = import_for_reading(facts->token);
    EXPECT_NE(mine.bundle_piece("layer.5").pointer, model.pieces[5].pointer);
    EXPECT_EQ(int_of(mine, "layer.5"), 5);
    EXPECT_EQ(import(facts->token).bundle_piece("layer.5").pointer, model.pieces[5].pointer);
    pass();
  });

  importer([&] {
    const Import bundle = import_for_reading(facts->token);
    EXPECT_EQ(bundle.info().flags, SYMM_IPC_READ_ONLY);
    EXPECT_EQ(int_of(bundle, "layer.7"), 7);
    Process writer([&] {
      signal(SIGSEGV, SIG_DFL);
      *static_cast<int*>(bundle.bundle_piece("layer.7").pointer) = 1;
    });
    EXPECT_TRUE(writer.reap(20'000));
    EXPECT_EQ(int_of(bundle, "layer.7"), 7);
  });
}

TEST_F(Bundle, EndsAsAWhole) {
  exporter([&] {
    Model model(3);
    facts->tokens[0] = bundle_of(model.pieces);
    facts->tokens[1] = bundle_of({model.pieces[8]});
    facts->tokens[2] = make_token(model.owned[0]->data, 64);
    pass();

    const symm_ipc_holders_t holders = symm::ipc_holders(symm::Span(model.owned[1]->data, 1));
    EXPECT_EQ(holders.leases, 1U);
    EXPECT_EQ(holders.pid, static_cast<int64_t>(facts->tokens[9].size));
    EXPECT_EQ(symm::ipc_holders(symm::Span(model.owned[1]->data + 4000, 1)).leases, 0U);
    expect_failed(symm_ipc_withdraw(model.owned[1]->data, 1, within(SYMM_TIMEOUT_NOW)),
        SYMM_ERR_TIMEOUT, {"pid " + std::to_string(facts->tokens[9].size)});
    EXPECT_EQ(last_failure().pid, static_cast<int64_t>(facts->tokens[9].size));
    EXPECT_EQ(ipc_stats().limbo_blocks, 0U) << "tables are no buffers";
    pass();
    check(symm_ipc_withdraw(model.owned[1]->data, 1, within(20'000)));
    facts->tokens[3] = bundle_of(model.pieces);
    pass();
    model.owned[2].reset();
    pass();
    EXPECT_EQ(ipc_stats().limbo_blocks, 1U) << "held by the bundle";
    go_on();
    expect_eventually("its lease is over", [] { return ipc_collect().limbo_blocks == 0; });
  });

  importer([&] {
    facts->tokens[9].size = static_cast<size_t>(getpid());
    Import bundle = import(facts->tokens[0]);
    pass();
    EXPECT_EQ(outcome_of_import(facts->tokens[0]).status, SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(outcome_of_import(facts->tokens[1]).message, "") << "of another block";
    EXPECT_EQ(outcome_of_import(facts->tokens[2]).message, "");
    EXPECT_EQ(int_of(bundle, "layer.11"), 11) << "what is imported stays";
    bundle.reset();
    pass();
    bundle = import(facts->tokens[3]);
    pass();
    EXPECT_EQ(outcome_of_import(facts->tokens[3]).status, SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(outcome_of_import(facts->tokens[1]).status, SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(int_of(bundle, "layer.11"), 11);
    pass();
  });
}

TEST_F(Bundle, IsHeldAsAWhole) {
  exporter([&] {
    {
      const Model model(3);
      facts->token = bundle_of(model.pieces, 60'000);
    }
    EXPECT_EQ(ipc_stats().limbo_blocks, 3U);
    pass();
  });
  importer([&] { EXPECT_EQ(int_of(import(facts->token), "layer.11"), 11); });
}

TEST_F(Bundle, TakesNoMoreMemoryWhenExportedAgain) {
  exporter([] {
    const Model model(2);
    bundle_of(model.pieces);
    const Footprint one = Footprint::now();
    for (int i = 0; i < 100; ++i) {
      bundle_of(model.pieces);
    }
    EXPECT_EQ(Footprint::now(), one);
    for (int i = 0; i < 100; ++i) {
      check(symm_ipc_withdraw(model.owned[0]->data, 4096, within(1)));
      bundle_of(model.pieces);
    }
    EXPECT_EQ(Footprint::now(), one);
  });
}

TEST_F(Bundle, OfWhatCannotBeInOneIsRefusedByTheNumberOfThePiece) {
  exporter([&] {
    Model model(2);
    const auto expect_refused = [&](const Pieces& pieces, const std::string& words) {
      const Outcome got = outcome_of([&] { bundle_of(pieces); });
      EXPECT_EQ(got.status, SYMM_ERR_INVALID_ARGUMENT);
      EXPECT_NE(got.message.find(words), std::string::npos) << got.message;
    };
    const auto with = [&](auto change) {
      Pieces pieces = model.pieces;
      change(pieces[3]);
      return pieces;
    };

    int on_stack = 0;
    const std::string longest(SYMM_IPC_NAME_MAX_BYTES, 'x');
    const std::string longer = longest + "x";
    const std::string much(SYMM_IPC_ABOUT_MAX_BYTES + 1, 'x');
    expect_refused({}, "pieces: is NULL");
    expect_refused({piece_of(nullptr, 0, "a")}, "none of them has any bytes");
    expect_refused(with([](auto& p) { p.pointer = nullptr; }), "pieces[3].pointer: is NULL");
    expect_refused(with([&](auto& p) { p.pointer = &on_stack; }), "pieces[3].pointer:");
    expect_refused(with([](auto& p) { p.bytes = 4096; }), "pieces[3].bytes:");
    expect_refused(with([](auto& p) { p.name = "layer.1"; }), "is the name of pieces[1], too");
    expect_refused(with([](auto& p) { p.name = "two\nlines"; }), "pieces[3].name:");
    expect_refused(with([&](auto& p) { p.name = longer.c_str(); }), "pieces[3].name:");
    expect_refused(with([](auto& p) { p.about_bytes = 1; }), "pieces[3].about: is NULL");
    expect_refused(with([&](auto& p) {
      p.about = much.data();
      p.about_bytes = much.size();
    }),
        "pieces[3].about_bytes:");
    EXPECT_EQ(ipc_stats().tokens, 0U);
    bundle_of(with([&](auto& p) { p.name = longest.c_str(); }));

    facts->token = make_token(model.owned[0]->data, 64);
    pass();
  });

  importer([&] {
    const Import piece = import(facts->token);
    EXPECT_THROW(piece.bundle_size(), Error) << "no bundle";
    EXPECT_EQ(outcome_of([&] { bundle_of({piece_of(piece.at<std::byte>(), 8, "a")}); }).status,
        SYMM_ERR_INVALID_ARGUMENT)
        << "of another process, which lives";
  });
}

// ---- processes that die

TEST_F(Bundle, OfADeadOwnerStaysAndCanBeExportedAgain) {
  Process& owner = exporter([&] {
    const Model model(3);
    facts->token = bundle_of(model.pieces);
    go_on();
    sleep_for_ever();
  });

  importer([&] {
    const Import bundle = import_for_reading(facts->token);
    go_on();
    expect_eventually("its death is noticed", [&] { return bundle.info().exporter_alive == 0; });
    Pieces pieces;
    for (size_t i = 0; i < bundle.bundle_size(); ++i) {
      pieces.push_back(bundle.bundle_piece(i));
    }
    facts->tokens[0] = bundle_of(pieces);
    Process reader([&] {
      const Import second = import(facts->tokens[0]);
      for (int i = 0; i < 12; ++i) {
        EXPECT_EQ(int_of(second, "layer." + std::to_string(i)), i);
      }
    });
    reader.expect_success("a reader");
    expect_eventually("its lease is over", [] { return ipc_stats().leases == 0; });
  });

  wait_for(facts->done, 1);
  owner.kill(SIGKILL);
  gone(owner);
}

// Owner and readers are killed at any time. Those that are left see whole bundles or an error, and
// the owner loses no memory to the readers.
TEST_F(Bundle, SurvivesKillsAtRandom) {
  constexpr int kKills = 60;
  exporter([&] {
    uint64_t seed = 1;
    for (int kill = 0; kill < kKills; ++kill) {
      auto model = std::make_unique<Model>(5, 4, kill * 1000);
      const Token token = bundle_of(model->pieces);
      std::atomic<int>& whole = facts->done;
      whole = 0;
      Process victim([&] {
        for (;;) {
          const Import bundle = import_for_reading(token);
          for (int i = 0; i < 20; ++i) {
            if (int_of(bundle, "layer." + std::to_string(i)) != kill * 1000 + i) _exit(3);
          }
          ++whole;
          if (whole % 8 == 0) ipc_collect();
        }
      });
      seed = seed * 6364136223846793005U + 1442695040888963407U;
      usleep(static_cast<useconds_t>(seed >> 33) % 8000);
      victim.kill(SIGKILL);
      EXPECT_TRUE(victim.reap(20'000));
      check(symm_ipc_withdraw(model->pieces[0].pointer, 1, within(20'000)));
      model.reset();
      expect_eventually("all of it is given back", [] { return ipc_collect().limbo_blocks == 0; });
      ASSERT_EQ(ipc_stats().leases, 0U);
      ASSERT_EQ(ipc_stats().exported_blocks, 0U);
    }
    facts->done = 0;
  });
}
}  // namespace
}  // namespace support
