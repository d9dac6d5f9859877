/* Members that take a spare (core/group/spares.hpp; core/group/growth.cpp, steps 2 to 5). Members 0
 * and 1 have agreed that each of them lives, spares 2 and 3 wait, and a place is free. The lowest
 * member leads: it asks the spares, tells the other one which of those that answered it takes, and
 * when they have agreed that both live still, tells the spare. Then all three form a group, and
 * each has it if none of the others has gone or given up; that all agree on it is the subject of
 * growth.pml, and one step here. Member 0 and one spare may be killed anywhere, also between two
 * messages; if the leader dies, member 1 leads anew, or makes the call again, and takes two spares
 * if they are there.
 *
 * Invariant: in the end member 1 has a group, or a spare has died; who else lives in its group has
 * it, too, and who lives and is not in it waits as a spare.
 *
 * MUTANT 1: a spare that has been asked keeps to the member that asked it.
 * MUTANT 2: a spare whose group has failed does not wait for the next one.
 * MUTANT 3: a spare that is told a place takes a rank at once, and does not agree with the others.
 */
#define NONE 9
bool alive[4] = true;
byte over, rest; /* members, and spares, that are at the end */

/* What a spare hears: from whom, and what. The group is the number of its leader's attempt. */
mtype = { ask, take };
chan box[4] = [6] of { byte, mtype, byte };
chan answers[2] = [4] of { byte };

/* A group that is to be, by its leader: who is in it, who has formed it, who has given it up. */
byte wants[2];    /* sets of ranks */
byte formed[2];
bool ended[2];    /* one of them has given it up, or all have it */
bool made[2];

byte agreed;      /* members that have heard what the leader tells */
bool told;        /* the leader, 0, has told member 1 which spares it takes */
byte has[4] = NONE; /* the group that a rank has */
bool failed, leads;

#define BIT(rank) (1 << (rank))
#define IN(rank, set) (((set) >> (rank)) & 1)
#define DEAD_IN(set) ((!alive[0] && IN(0, set)) || (!alive[2] && IN(2, set)) || \
                      (!alive[3] && IN(3, set)))

/* Who forms group `g` either sees it complete, or somebody gone, or that somebody gave it up. All
 * that live come to the same (growth.pml). */
inline form(g) {
  atomic { formed[g] = formed[g] | BIT(me) };
  if
  :: MUTANT == 3 && me >= 2 -> has[me] = g
  :: else ->
     if
     :: atomic { !ended[g] && formed[g] == wants[g] && !DEAD_IN(wants[g]) ->
          made[g] = true; ended[g] = true }
     :: atomic { !ended[g] && DEAD_IN(wants[g]) -> ended[g] = true }
     :: ended[g]
     :: !alive[me] -> goto out
     fi;
     if
     :: made[g] -> has[me] = g
     :: else
     fi
  fi
}

/* The leader asks the spares, and takes `count` of those that answer, the first ones first. */
inline choose(count) {
  number = 0;
  set = 0;
  if :: alive[me] -> box[2] ! me, ask, 0 :: else fi;
  if :: alive[me] -> box[3] ! me, ask, 0 :: else fi;
  do
  :: atomic { alive[me] && number < count && nempty(answers[me]) ->
       answers[me] ? who; set = set | BIT(who); number++ }
  :: alive[me] && number == count -> break
  :: atomic { alive[me] && number < count && timeout } -> break /* a dead one does not answer */
  :: !alive[me] -> goto out
  od
}
inline tell_spares(g) {
  if :: alive[me] && IN(2, set) -> box[2] ! me, take, g :: else fi;
  if :: alive[me] && IN(3, set) -> box[3] ! me, take, g :: else fi
}

proctype Leader() {
  byte me = 0, who, number, set;
  choose(1);
  if
  :: number < 1 -> failed = true; goto out
  :: else
  fi;
  wants[0] = BIT(0) | BIT(1) | set;
  if
  :: atomic { alive[0] -> told = true }
  :: !alive[0] -> goto out
  fi;
  if
  :: agreed == 1 /* the other one has heard, so both go on */
  :: !alive[0] -> goto out
  fi;
  tell_spares(0);
  form(0);
out:
  over++
}

proctype Member() {
  byte me = 1, who, number, set;
  if
  :: atomic { told && alive[0] -> agreed = 1 };
     form(0);
     if
     :: has[1] != NONE || alive[0] -> goto out
     :: else
     fi
  :: failed -> goto out
  :: !alive[0]
  fi;
  /* The leader is dead, and its place is free, too. */
  leads = true;
  choose(2);
  if
  :: number < 2 -> failed = true; goto out
  :: else
  fi;
  wants[1] = BIT(1) | set;
  tell_spares(1);
  form(1);
out:
  over++
}

proctype Spare(byte me) {
  byte from, group, bound = NONE;
  mtype what;
  do
  :: atomic { alive[me] && has[me] == NONE && nempty(box[me]) -> box[me] ? from, what, group };
     if
     :: what == ask && (MUTANT != 1 || bound == NONE || bound == from) ->
        bound = from;
        if :: atomic { alive[me] && (from == 1 || alive[0]) -> answers[from] ! me } :: else fi
     :: what == ask && MUTANT == 1 && bound != NONE && bound != from
     :: what == take ->
        form(group);
        if
        :: MUTANT == 2 && has[me] == NONE -> goto out
        :: else
        fi
     fi
  :: !alive[me] -> break
  :: over == 2 && (has[me] != NONE || empty(box[me])) -> break
  od;
out:
  rest++
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
  atomic { run Leader(); run Member(); run Spare(2); run Spare(3) };
  over == 2 && rest == 2;
  assert(has[1] != NONE || failed || !alive[2]);
  assert(has[1] != NONE || !leads || !alive[2]);
  for (me : 0 .. 3) {
    assert(!alive[me] || has[1] == NONE || has[me] == has[1] || !IN(me, wants[has[1]]));
    assert(!alive[me] || has[me] == NONE || has[me] == has[1])
  }
}
