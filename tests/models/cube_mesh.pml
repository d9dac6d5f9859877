/* The all-reduce of the host in a hybrid cube mesh (kernels/host/hybrid_cube_mesh.cpp), with quads
 * of two ranks: 0 and 1 are the low quad, r and r ^ 2 partners. A rank waits for its neighbours
 * only, so ranks without a link may be two steps apart.
 *
 * Invariant: a slot that is read holds the chunk that is expected, from the beginning of the read
 * to its end. A write takes two steps, too.
 *
 * MUTANT 1: there are two slots of each kind.
 * MUTANT 2: a rank does not wait for its partner.
 * MUTANT 3: a rank announces its step before it has done it.
 */
#define CHUNKS 4
#define STEPS (CHUNKS + 4)
#define SLOTS (MUTANT == 1 -> 2 : 3)
#define AT(r, t) [(r) * 3 + (t) % SLOTS]
#define WRITE(what, r, t) what AT(r, t) = 0; what AT(r, t) = (t) + 1
#define READ(what, r, t) \
  assert(what AT(r, t) == (t) + 1); assert(what AT(r, t) == (t) + 1)
#define DUE(age) (s >= age && s - age < CHUNKS)

/* chunk + 1 that lies there, 0: it is being written */
byte operand[12], sum[12], result[12];
byte announced[4]; /* steps that a rank has announced */

proctype Rank(byte r) {
  byte s;
  for (s : 0 .. STEPS - 1) {
    announced[r ^ 1] >= s;
    if :: MUTANT != 2 -> announced[r ^ 2] >= s :: else fi;
    if :: MUTANT == 3 -> announced[r] = s + 1 :: else fi;

    if :: DUE(0) -> WRITE(operand, r, s) :: else fi;
    if
    :: r < 2 && DUE(1) ->
       READ(operand, r ^ 1, s - 1); WRITE(sum, r, s - 1)
    :: r >= 2 && DUE(2) ->
       READ(operand, r ^ 1, s - 2); READ(sum, r ^ 2, s - 2); WRITE(result, r, s - 2)
    :: else
    fi;
    if :: r < 2 && DUE(3) -> READ(result, r ^ 2, s - 3); WRITE(result, r, s - 3) :: else fi;
    if :: DUE(4) -> READ(result, r ^ 1, s - 4) :: else fi;

    announced[r] = s + 1
  }
}

init {
  byte r;
  atomic { for (r : 0 .. 3) { run Rank(r) } }
}
