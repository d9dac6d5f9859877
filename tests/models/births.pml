/* Ranks that meet in a directory (core/bootstrap/directory_rendezvous.hpp). Ranks 0 and 1 may be
 * killed anywhere. Ranks 2 and 3 live, and come when they like: in time, or late for an attempt
 * that has failed. Nobody is started again. Deadlines are longer than any step takes.
 *
 * Invariant: in the end all that live say the same. (Rank 0 may die when it has sealed the attempt;
 * who is in the attempt finds that out afterwards, and blames it.)
 *
 * MUTANT 1: there are no tombstones.
 * MUTANT 2: only rank 0 sets them.
 * MUTANT 3: a rank whose rank 0 died does not look for what rank 0 had declared.
 */
#define RANKS 4
#define FORMED 7
#define LATE 8
#define NOTHING 9
bool alive[RANKS] = true, opened, in[RANKS], sealed;
byte declared = NOTHING, tombstone = NOTHING, said[RANKS] = NOTHING; /* the rank that is blamed */
byte over;

#define OPEN (opened && alive[0] && !sealed && declared == NOTHING)
#define GO(rank) atomic { if :: alive[me] -> said[me] = rank :: else fi }; goto out
/* The first tombstone counts, as link() and symlink() have it. */
#define FAIL(rank) \
  if \
  :: MUTANT == 1 || (MUTANT == 2 && me != 0) \
  :: else -> \
     if \
     :: atomic { alive[me] && tombstone == NOTHING -> tombstone = rank } \
     :: alive[me] && tombstone != NOTHING \
     :: !alive[me] \
     fi \
  fi; \
  GO(rank)

proctype Leader() {
  byte me = 0;
  if
  :: atomic { alive[0] -> opened = true; in[0] = true }
  :: !alive[0] -> goto out
  fi;
  do
  :: alive[0] && in[1] && in[2] && in[3] && alive[1] -> sealed = alive[0]; GO(FORMED)
  :: alive[0] && in[1] && !alive[1] -> /* and is not started again within the grace period */
     if
     :: atomic { alive[0] && declared == NOTHING -> declared = 1 }
     :: !alive[0]
     fi;
     FAIL(declared)
  :: !alive[0] -> break
  :: atomic { timeout && alive[0] -> said[0] = LATE }; break
  od;
out:
  over++
}

proctype Follower(byte me) {
  bool is_dead;
  do
  :: atomic { alive[me] && OPEN -> in[me] = true }; break
  :: alive[me] && !OPEN && tombstone != NOTHING -> GO(tombstone)
  :: !alive[me] -> goto out
  :: atomic { timeout && alive[me] -> said[me] = LATE }; goto out
  od;
  do
  :: alive[me] && sealed -> GO(FORMED)
  :: alive[me] && !sealed && (!alive[0] || declared != NOTHING) ->
     is_dead = !alive[0];
     if
     :: MUTANT == 3 && is_dead -> FAIL(0)
     :: else
     fi;
     if
     :: declared != NOTHING -> FAIL(declared)
     :: declared == NOTHING && is_dead -> FAIL(0)
     :: declared == NOTHING && !is_dead
     fi
  :: !alive[me] -> break
  :: atomic { timeout && alive[me] -> said[me] = LATE }; break
  od;
out:
  over++
}

active proctype Killer() {
  do
  :: alive[0] -> alive[0] = false
  :: alive[1] -> alive[1] = false
  :: break
  od
}

#define SAYS(rank) (said[rank] == FORMED && !alive[0] -> 0 : said[rank])

init {
  byte me;
  atomic { run Leader(); run Follower(1); run Follower(2); run Follower(3) };
  atomic { over == RANKS ->
    for (me : 0 .. RANKS - 1) {
      assert(!alive[me] || SAYS(me) == SAYS(2));
      assert(!alive[me] || said[me] != NOTHING)
    }
  }
}
