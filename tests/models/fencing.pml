/* A buffer of a group that failed is given to another group (core/group/stragglers.hpp) while a
 * rank of the first one, which may be stopped anywhere and go on, has it mapped. The owner hears of
 * that rank's death before its last thread has ended.
 *
 * Invariant: the rank never writes to a buffer that was given away.
 *
 * MUTANT 1: the owner does not wait.
 * MUTANT 2: the news of a death suffices.
 * MUTANT 3: the rank's part in another group suffices.
 */
bool rank_knows, owner_knows, given, has_left, is_out, is_dying, is_dead;

active proctype Rank() {
  do
  :: is_dead -> break
  /* The rank is in a call, and writes. */
  :: !rank_knows && !is_dead ->
     do
     :: atomic { !is_dead -> assert(!given) }
     :: break
     od
  /* The rank makes another group. */
  :: atomic { !is_dead -> is_out = is_out || rank_knows || MUTANT == 3 }
  :: atomic { rank_knows && !is_dead -> has_left = true }; break
  od
}

active proctype World() {
  do
  :: !rank_knows -> rank_knows = true
  :: !owner_knows -> owner_knows = true
  :: !is_dying -> is_dying = true
  :: is_dying && !is_dead -> is_dead = true
  :: break
  od
}

active proctype Owner() {
end: owner_knows;
end2: MUTANT == 1 || is_dead || has_left || is_out || (MUTANT == 2 && is_dying);
  given = true
}
