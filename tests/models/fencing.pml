/* A buffer of a group that failed is given to another one (core/group/stragglers.hpp) while a rank of the former, which may be
 * stopped anywhere and go on, has it mapped. It never writes to what was given away. Of a death it is told before the last thread
 * has ended. MUTANT 1: nobody waits; 2: the news of a death suffices; 3: so does taking part in another group. */
bool rank_knows, owner_knows, given, has_left, is_out, is_dying, is_dead;

active proctype Rank() {
  do
  :: is_dead -> break
  :: !rank_knows && !is_dead -> /* a call */
     do
     :: atomic { !is_dead -> assert(!given) } /* it writes */
     :: break
     od
  :: atomic { !is_dead -> is_out = is_out || rank_knows || MUTANT == 3 } /* it makes another group */
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
