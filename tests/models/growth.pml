/* Ranks that form a group of members and newcomers, and agree that all of them have it
 * (core/group/growth.cpp, steps 4 and 5; core/group/agreement.hpp). Ranks 0 and 1 are members, rank
 * 2 is a newcomer. One member and the newcomer may be killed anywhere, also between two messages
 * that say the same, and each may fail to form its half of the group, whatever the others do.
 * Deadlines are longer than any step takes.
 *
 * Invariant: in the end all that live have the group, or none has it.
 *
 * MUTANT 1: a rank that has formed its half does not ask the others.
 * MUTANT 2: a rank that has decided does not tell the others.
 * MUTANT 3: a rank that failed does not give its half up before it ends, and the others do not miss
 *           it.
 */
#define RANKS 3
#define NOTHING 0
#define FORMED 1
#define FAILED 2
bool alive[RANKS] = true, gave_up[RANKS];
byte said[RANKS];
byte over;
/* From each rank to each, in order: the set of ranks that are gone, and whether that is decided. */
chan box[9] = [4] of { byte, bool };

#define GONE(rank) (!alive[rank] || (gave_up[rank] && MUTANT != 3))
#define IN(rank, set) (((set) >> (rank)) & 1)
/* Whether the rank need not be awaited: it is this one, is gone, or has told the same. */
#define AGREES(rank) (me == rank || IN(rank, view) || told[rank] == view)
#define UNTOLD 255

/* Messages are sent one after the other, and a rank may die between two of them. */
#define SEND(other, decided) \
  if \
  :: atomic { alive[me] && me != other && !IN(other, view) -> \
       box[me * RANKS + other] ! view, decided } \
  :: alive[me] && (me == other || IN(other, view)) \
  :: !alive[me] -> goto out \
  fi
inline tell(decided) {
  SEND(0, decided);
  SEND(1, decided);
  SEND(2, decided)
}

inline hear(from) {
  atomic {
    box[from * RANKS + me] ? heard, is_decided;
    grew = !is_decided && (view | heard) != view;
    if
    :: is_decided -> view = heard
    :: else -> told[from] = heard; view = view | heard
    fi
  }
  if
  :: is_decided -> goto decided
  :: !is_decided && grew -> tell(false)
  :: else
  fi
}

proctype Rank(byte me) {
  byte view = 0, heard;
  byte told[RANKS] = UNTOLD;
  bool is_decided, grew;

  if
  :: alive[me] /* it has formed its half */
  :: alive[me] -> atomic { gave_up[me] = true; said[me] = FAILED }; goto out
  :: !alive[me] -> goto out
  fi;
  if
  :: MUTANT == 1 -> goto decided
  :: else
  fi;

  tell(false);
  do
  :: alive[me] && me != 0 && !IN(0, view) && nempty(box[me]) -> hear(0)
  :: alive[me] && me != 1 && !IN(1, view) && nempty(box[RANKS + me]) -> hear(1)
  :: alive[me] && me != 2 && !IN(2, view) && nempty(box[2 * RANKS + me]) -> hear(2)
  :: alive[me] && me != 0 && !IN(0, view) && GONE(0) && empty(box[me]) ->
     view = view | 1; tell(false)
  :: alive[me] && me != 1 && !IN(1, view) && GONE(1) && empty(box[RANKS + me]) ->
     view = view | 2; tell(false)
  :: alive[me] && me != 2 && !IN(2, view) && GONE(2) && empty(box[2 * RANKS + me]) ->
     view = view | 4; tell(false)
  :: alive[me] && AGREES(0) && AGREES(1) && AGREES(2) -> break
  :: !alive[me] -> goto out
  :: atomic { timeout && alive[me] -> said[me] = NOTHING }; goto out
  od;

decided:
  if
  :: MUTANT != 1 && MUTANT != 2 -> tell(true)
  :: else
  fi;
  if
  :: alive[me] && view == 0 -> said[me] = FORMED
  :: alive[me] && view != 0 -> atomic { gave_up[me] = true; said[me] = FAILED }
  :: !alive[me]
  fi;
out:
  over++
}

active proctype Killer() {
  do
  :: alive[0] -> alive[0] = false
  :: alive[2] -> alive[2] = false
  :: break
  od
}

init {
  byte me;
  atomic { run Rank(0); run Rank(1); run Rank(2) };
  atomic { over == RANKS ->
    for (me : 0 .. RANKS - 1) {
      assert(!alive[me] || said[me] != NOTHING);
      assert(!alive[me] || !alive[0] || said[me] == said[0]);
      assert(!alive[me] || !alive[1] || said[me] == said[1])
    }
  }
}
