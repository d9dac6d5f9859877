/* Votes (core/group/exchange.cpp) of ranks 0 to 2, which live, and of rank 3, which stops wherever
 * it likes, and goes on when the others have ended, or never. Deadlines are longer than any step
 * takes.
 *
 * Invariant: in the end either all that live have formed the group, or all say that it failed, and
 * blame rank 3.
 *
 * MUTANT 1: a time-out counts from its deadline.
 * MUTANT 2: a rank that is blamed says nothing.
 * MUTANT 3: a rank that has formed the group hears nothing.
 * MUTANT 4: a rank that was stopped past its deadline blames as the others do.
 */
#define RANKS 4
#define ROUNDS 2
#define NOBODY 9
bool sent[32], expired, gone; /* sent by round, from, to */
#define SENT(from, to) sent[round * 16 + (from) * 4 + (to)]
byte clock = 10, done, formed, blamed[RANKS] = NOBODY, when[RANKS] = 255;
chan news[RANKS] = [9] of { byte, byte };

/* Revocation::revoke(); all others are told of what a rank says itself. */
#define ADOPT(rank, at) \
  if \
  :: at < when[me] || (at == when[me] && rank < blamed[me]) -> blamed[me] = rank; when[me] = at \
  :: else \
  fi
#define BLAME(rank, at) \
  ADOPT(rank, at); \
  news[(me + 1) % RANKS] ! rank, at; \
  news[(me + 2) % RANKS] ! rank, at; \
  news[(me + 3) % RANKS] ! rank, at
#define HAS(from) (me == from || SENT(from, me))
#define MISSING (!HAS(0) -> 0 : (!HAS(1) -> 1 : (!HAS(2) -> 2 : 3)))
#define MAY_STOP \
  if \
  :: me == 3 && !stopped -> \
     if :: done == RANKS - 1 -> stopped = true :: expired -> gone = true; goto over fi \
  :: true \
  fi

proctype Rank(byte me) {
  byte round, rank, at, began;
  bool stopped;
  for (round : 0 .. ROUNDS - 1) {
    atomic { clock++; began = clock };
    for (rank : 0 .. RANKS - 1) { MAY_STOP; SENT(me, rank) = true };
    MAY_STOP;
    if
    :: HAS(0) && HAS(1) && HAS(2) && HAS(3)
    :: nempty(news[me]) -> goto heard
    :: atomic { expired && (!stopped || empty(news[me])) ->
         clock++;
         rank = MISSING;
         at = (MUTANT == 1 || (stopped && MUTANT != 4) -> clock : began);
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
    :: rank == me && MUTANT != 2 && (!stopped || MUTANT == 4) ->
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

active proctype Clock() { end: timeout -> expired = true }

init {
  byte me;
  atomic { run Rank(0); run Rank(1); run Rank(2); run Rank(3) };
  atomic {
    done == RANKS && empty(news[0]) && empty(news[1]) && empty(news[2]) && empty(news[3]) ->
    for (me : 0 .. RANKS - 1) {
      if
      :: me == 3 && gone
      :: else ->
         assert(blamed[me] == 3 || (blamed[me] == NOBODY && (formed & 7) == 7));
         assert(blamed[me] == blamed[0])
      fi
    }
  }
}
