/* The two ways of a chain of machines (core/multinode/allreduce.cpp), with a rank each: sums go up,
 * results come down. A chunk waits in the place where it arrived until it has been sent on.
 *
 * Invariant: a place is written only when it is free.
 *
 * MUTANT 1: there is a place less.
 * MUTANT 2: results are taken behind the sums of a step.
 */
#define N 3
#define CHUNKS 5
#define LAG(k) (1 + (N - 1 - (k)))
#define DEPTH (MUTANT == 1 -> LAG(0) - 1 : LAG(0))
#define PLACE(k, c) [(k) * 4 + (c) % DEPTH]
#define LEAVE(ways, k, c) assert(ways PLACE(k, c) == 0); ways PLACE(k, c) = (c) + 1
#define FREE(ways, k, c) assert(ways PLACE(k, c) == (c) + 1); ways PLACE(k, c) = 0
byte sums[N * 4], results[N * 4]; /* chunk + 1 that lies there, 0: free */
byte sums_here[N], results_here[N];
chan up[N] = [CHUNKS] of { byte };
chan down[N] = [CHUNKS] of { byte };

proctype MessageEngine(byte k) {
  byte c;
end: do
  :: atomic { up[k] ? c -> FREE(sums, k - 1, c); LEAVE(sums, k, c); sums_here[k]++ }
  :: atomic { down[k] ? c -> FREE(results, k + 1, c); LEAVE(results, k, c); results_here[k]++ }
  od
}

#define TAKE_RESULTS \
  if \
  :: step >= LAG(k) && k < N - 1 -> \
     results_here[k] > step - LAG(k); \
     if \
     :: k > 0 -> down[k - 1] ! step - LAG(k) \
     :: else -> atomic { FREE(results, k, step - LAG(k)) } \
     fi \
  :: else \
  fi

proctype Machine(byte k) {
  byte step;
  for (step : 0 .. CHUNKS + LAG(k) - 1) {
    if :: MUTANT != 2 -> TAKE_RESULTS :: else fi;
    if
    :: step < CHUNKS ->
       if :: k > 0 -> sums_here[k] > step :: else -> atomic { LEAVE(sums, k, step) } fi;
       if :: k < N - 1 -> up[k + 1] ! step
          :: else -> atomic { FREE(sums, k, step); LEAVE(results, k, step) }; down[k - 1] ! step
       fi
    :: else
    fi;
    if :: MUTANT == 2 -> TAKE_RESULTS :: else fi
  }
}

init {
  byte k;
  atomic { for (k : 0 .. N - 1) { run Machine(k); run MessageEngine(k) } }
}
