/* wait_word() against publish() (core/base/wait.hpp), where each processor has a buffer of stores.
 *
 * Invariant: a waiter that sleeps is woken.
 *
 * FENCE 1: writer and waiter have a barrier.
 * FENCE 2: the waiter has one, and has the kernel put one into the writer too.
 * MUTANT 1: that barrier is missing; each processor sees its own stores in order.
 */
byte word, waiter, wakes, buffered;
#define EMPTIES if :: buffered != 0 -> word = buffered; buffered = 0 :: else fi

active proctype Buffer() { /* of the writer's processor, which empties it when it likes */
end: do :: atomic { buffered != 0 -> EMPTIES } od
}

active proctype Writer() {
  byte value;
  for (value : 1 .. 2) {
    buffered == 0;
    buffered = value;
    if :: MUTANT == 0 && FENCE == 1 -> buffered == 0 :: else fi;
    if :: waiter != 0 -> buffered == 0; wakes++ :: else fi /* a system call is a barrier */
  }
}

active proctype Waiter() {
  byte seen, before;
  waiter = 1; /* a locked instruction: at once there for all */
  if :: MUTANT == 0 && FENCE == 2 -> atomic { EMPTIES } :: else fi;
  do
  :: seen = word;
     if :: word == 2 -> break :: else fi;
     if
     :: atomic { word == seen -> before = wakes }; wakes != before /* the futex */
     :: word != seen
     fi
  od
}
