/* A fence against late puts (core/ipc/token_pad.hpp). A writer puts with an old epoch, then with a
 * new one, and may be killed anywhere; the owner raises the fence and waits for what is under way.
 *
 * Invariant: behind the fence no store of the old epoch lands, and no signal of it comes.
 *
 * MUTANT 1: the writer looks at the fence before it says that it has begun.
 * MUTANT 2: the owner looks for puts under way before it raises the fence.
 * MUTANT 3: the writer says that it is done before it signals.
 * MUTANT 4: the owner takes a writer for dead before it is.
 */
#define OLD 1
#define NEW 2
#define NONE 9
byte under_way = NONE, fence;
bool is_dying, is_dead, is_fenced;

#define STORE(epoch) atomic { assert(!is_fenced || epoch >= NEW) }

inline put(epoch) {
  is_late = false;
  if
  :: MUTANT == 1 -> is_late = epoch < fence; under_way = epoch
  :: else -> under_way = epoch; is_late = epoch < fence
  fi;
  if
  :: is_late
  :: else ->
     STORE(epoch);
     STORE(epoch);
     if
     :: MUTANT == 3 -> under_way = NONE; STORE(epoch)
     :: else -> STORE(epoch)
     fi
  fi;
  under_way = NONE
}

active proctype Writer() {
  bool is_late;
  {
    put(OLD);
    put(OLD);
    put(NEW)
  } unless { is_dead }
}

active proctype Kernel() {
  if
  :: is_dying = true; is_dead = true
  :: skip
  fi
}

#define NOTHING_LATE \
  (under_way >= NEW || is_dead || (MUTANT == 4 && is_dying))

active proctype Owner() {
  if
  :: MUTANT == 2 -> NOTHING_LATE; fence = NEW
  :: else -> fence = NEW; NOTHING_LATE
  fi;
  is_fenced = true
}
