"""Which sizes are measured, and how often: the same on all ranks, since it follows from the size alone."""

KIB, MIB = 1 << 10, 1 << 20

ONE_SHOT_LARGEST = 16 * MIB  # of PyTorch's: every rank reads everything, so above this it only takes time
TWO_SHOT_SMALLEST = 4 * KIB
PEER_LARGEST = 32 * MIB  # of FlashInfer's two-shot kernel and of vLLM's, whose users take them for small ones
ROW = 16 * KIB  # of a token; a shorter message is one of its own length
RMSNORM_LARGEST = 16 * MIB
OTHERS_SMALLEST = 4 * KIB
ROOT = 1  # of a broadcast and a reduction


def sizes(smallest, largest, step):
    """Bytes, each `step` times the one before; the largest is not added if it is not among them."""
    if smallest < 1 or step < 2:
        raise ValueError("sizes must be positive, and the step between them 2 or more")
    found = []
    while smallest <= largest:
        found.append(smallest)
        smallest *= step
    return found


def sizes_of(collective, options, world):
    """An all-gather moves whole elements of every rank, so its sizes start where there are some."""
    if collective == "barrier":
        return [0]
    if collective == "rmsnorm":
        return [row for row in sizes(ROW // 8, RMSNORM_LARGEST, options.step) if options.smallest <= row <= options.largest]
    if collective == "allreduce":
        return sizes(options.smallest, options.largest, options.step)
    return [share_of(size, world) * world for size in sizes(max(options.smallest, OTHERS_SMALLEST), options.largest, options.step_others)]


def share_of(size, world):
    """Bytes of one rank's part, a multiple of 16."""
    return size // world // 16 * 16


def calls_of(size, mode):
    """Calls between two events. An eager burst never fills the queue of launches, so that issuing it does not wait."""
    if mode == "eager" and size <= 64 * KIB:
        return 100
    return 50 if size <= 64 * KIB else 20 if size <= MIB else 5 if size <= 16 * MIB else 2


def repeats_of(size, most):
    """Large messages vary less and take longer."""
    return most if size <= 16 * MIB else max(3, most * 7 // 9) if size <= 128 * MIB else max(3, most * 5 // 9)


def bus_factor(collective, world):
    """What passes over one rank's link, for each byte of the larger operand."""
    if collective in ("allreduce", "rmsnorm"):
        return 2 * (world - 1) / world
    return 1 if collective in ("broadcast", "reduce") else (world - 1) / world
