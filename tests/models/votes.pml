/* Votes (core/group/exchange.cpp) of ranks 0 to 2, which live, and of rank 3, which stops wherever
 * it likes. Deadlines are longer than any step takes.
 *
 * Invariant: in the end either all that live have formed the group, or all say that it failed, and
 * blame the same rank.
 *
 * MUTANT 1: a time-out counts from its deadline.
 * MUTANT 2: a rank that is blamed says nothing.
 * MUTANT 3: a rank that has formed the group hears nothing.
 */
#define LIVING 3
#define ROUNDS 2
#define NOBODY 9
bool sent[32], expired; /* by round, from, to */
#define SENT(from, to) sent[round * 16 + (from) * 4 + (to)]
byte clock = 10, done, formed, blamed[LIVING] = NOBODY, when[LIVING] = 255;
chan news[LIVING] = [8] of { byte, byte };

/* Revocation::revoke(); all others are told of what a rank says itself. */
#define ADOPT(rank, at) \
  if \
  :: at < when[me] || (at == when[me] && rank < blamed[me]) -> blamed[me] = rank; when[me] = at \
  :: else \
  fi
#define BLAME(rank, at) \
  ADOPT(rank, at); \
  news[(me + 1) % LIVING] ! rank, at; \
  news[(me + 2) % LIVING] ! rank, at
#define HAS(from) (me == from || SENT(from, me))
#define MISSING (!HAS(0) -> 0 : (!HAS(1) -> 1 : (!HAS(2) -> 2 : 3)))

proctype Rank(byte me) {
  byte round, rank, at, began;
  for (round : 0 .. ROUNDS - 1) {
    atomic { clock++; began = clock };
    for (rank : 0 .. LIVING) { SENT(me, rank) = true };
    if
    :: HAS(0) && HAS(1) && HAS(2) && HAS(3)
    :: nempty(news[me]) -> goto heard
    :: expired -> atomic {
         clock++;
         rank = MISSING;
         at = (MUTANT == 1 -> clock : began);
         BLAME(rank, at)
       };
       goto over
    fi
  }
  formed = formed | (1 << me);
  goto over;
heard:
  atomic {
    news[me] ? rank, at;
    ADOPT(rank, at);
    if
    :: rank == me && MUTANT != 2 ->
       rank = MISSING;
       at = (MUTANT != 1 && began < at -> began : at - 1);
       BLAME(rank, at)
    :: else
    fi
  };
over:
  done++;
end: do
  :: atomic {
       news[me] ? rank, at ->
       if
       :: MUTANT == 3 && (formed & (1 << me))
       :: else -> ADOPT(rank, at)
       fi
     }
  od
}

active proctype Stopped() {
  byte round = 0;
  do
  :: round < ROUNDS ->
     if :: SENT(3, 0) = true :: break fi;
     if :: SENT(3, 1) = true :: break fi;
     if :: SENT(3, 2) = true :: break fi;
     if :: SENT(0, 3) && SENT(1, 3) && SENT(2, 3) -> round++ :: expired -> break fi
  :: else -> break
  od
}

active proctype Clock() { end: timeout -> expired = true }

init {
  byte me;
  atomic { run Rank(0); run Rank(1); run Rank(2) };
  atomic { done == LIVING && empty(news[0]) && empty(news[1]) && empty(news[2]) ->
    for (me : 0 .. LIVING - 1) {
      assert(blamed[me] == 3 || (blamed[me] == NOBODY && formed == 7));
      assert(blamed[me] == blamed[0])
    }
  }
}
