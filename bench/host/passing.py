"""What two ranks pass to each other, beside MPI: puts, messages, words, scans and faces of cubes.

Every library runs the same cases with the same number of ranks, a processor for each where there
are so many, by turns. A ratio is the time of the fastest MPI over that of symm.
"""

import rounds
from common import size_label, table
from report import ratio, us

K, M = 1 << 10, 1 << 20
# Calls of a launch; of what takes longer there are fewer.
TRIPS = {8: 3000, K: 3000, 8 * K: 1500, 64 * K: 600, 256 * K: 200, M: 80, 4 * M: 25}
SCANS = {8: 3000, K: 3000, 8 * K: 1500, 64 * K: 600, M: 80}
EDGE = 128
FACES = 6 * 8 * EDGE * EDGE
EXCHANGES = 12  # batches of ten
ADDITIONS = 200  # batches of a hundred
# Where ranks share processors, some libraries take milliseconds for a call.
CROWDED = 20

OF_BOTH = ("symmetric", "private")


def cases_of(peer, crowded):
    """The cases of a library: (operation, memory, place, bytes, iterations)."""
    share = CROWDED if crowded else 1
    memories = OF_BOTH if peer.family == "symm" else ("private",)

    def some(iterations):
        return max(6, iterations // share)

    cases = [("ping", "private", "out", size, some(count)) for size, count in TRIPS.items()]
    cases += [
        (operation, memory, "out", size, some(count))
        for operation, sizes in (("message", TRIPS), ("scan", SCANS))
        for size, count in sizes.items()
        for memory in memories
    ]
    # symm packs nothing by loops of the program.
    forms = ("own", "kept") if peer.family == "symm" else ("own", "packed", "kept")
    cases += [("faces", "private", form, FACES, max(4, EXCHANGES // share)) for form in forms]
    cases += [("fetch", "private", place, 8, some(ADDITIONS)) for place in ("own", "one")]
    return cases


def of_one_distance(samples):
    """Of each case the times at the distance of the processors that has most of them.

    Only such times can be compared. Memories and forms of an operation are, so they have one
    distance.

    Returns:
        (samples, {operation and bytes: distance}, times that were left out)
    """
    kept, moved = rounds.by_distance(samples)
    times = {}  # {what: {distance: {library: number of times}}}
    for distance, libraries in kept.items():
        for name, cases in libraries.items():
            for (operation, _, _, size), results in cases.items():
                at = times.setdefault((operation, size), {}).setdefault(distance, {})
                at[name] = at.get(name, 0) + len(results)

    def weight(of_distance):
        least = min(of_distance.values())
        return "symm" in of_distance, len(of_distance), least, sum(of_distance.values())

    chosen = {what: max(at, key=lambda name: weight(at[name])) for what, at in times.items()}
    out = {
        name: {
            case: kept[distance][name][case]
            for case in cases
            if (distance := chosen.get((case[0], case[3]))) and case in kept[distance].get(name, {})
        }
        for name, cases in samples.items()
    }
    return out, chosen, moved


def measure(peers, turns, ranks, processors, say):
    """({library: {case: summary}}, {what: distance}, a note, {library that failed: why})"""
    crowded = ranks > len(processors)
    peers = [peer for peer in peers if not peer.for_collectives]
    samples, failed = rounds.alternate(
        peers,
        turns,
        ranks,
        not crowded,
        lambda peer: cases_of(peer, crowded),
        processors[:ranks],
        say,
    )
    note = f"{ranks} ranks on {min(ranks, len(processors))} processors, {turns} rounds"
    distances = {}
    if ranks == 2 and not crowded:
        samples, distances, moved = of_one_distance(samples)
        note += f"; {moved} measurements left out because the processors moved"
    return rounds.summarise(samples), distances, note, failed


def rows_of(found, distances):
    """The rows of the table: what is compared with what."""
    mpi = [name for name in found if name != "symm"]

    def mine(*case):
        one = found["symm"].get(case)
        return one["p50"] if one else None

    def row(title, label, case, symmetric, private):
        times = [(found[name][case]["p50"], name) for name in mpi if case in found[name]]
        best, name = min(times, default=(None, "-"))
        ours = [
            f"{us(time)} ({ratio(best, time)})" if time is not None else "-"
            for time in (symmetric, private)
        ]
        others = [f"{who} {us(time)}" for time, who in sorted(times) if who != name]
        where = distances.get((case[0], case[3]), "")
        return [title, label, where, *ours, us(best), name, ", ".join(others)]

    for size in TRIPS:
        case = ("message", "private", "out", size)
        title = "send and receive, there and back"
        sent = [mine("message", memory, "out", size) for memory in OF_BOTH]
        yield row(title, size_label(size), case, *sent)
    for size in TRIPS:
        case = ("ping", "private", "out", size)
        yield row("put with signal, there and back", size_label(size), case, mine(*case), None)
    for size in SCANS:
        scans = [mine("scan", memory, "out", size) for memory in OF_BOTH]
        yield row("scan", size_label(size), ("scan", "private", "out", size), *scans)

    pieces = [mine("faces", "private", form, FACES) for form in ("own", "kept")]
    for title, form, time in (
        ("MPI_Neighbor_alltoallw, subarrays; `symm_put_pieces()`", "own", pieces[0]),
        ("the same; `symm_exchange_t`", "own", pieces[1]),
        ("MPI_Isend, MPI_Irecv, packed by loops; `symm_exchange_t`", "packed", pieces[1]),
        ("persistent requests of both", "kept", pieces[1]),
    ):
        yield row(f"faces: {title}", f"{EDGE}^3", ("faces", "private", form, FACES), time, None)
    for title, place in (("a word for each pair", "own"), ("one word for all", "one")):
        case = ("fetch", "private", place, 8)
        yield row(f"fetch-and-add, {title}", "8 B", case, mine(*case), None)


def wrong_of(found):
    """What has failed the checks of the results."""
    return [
        f"{name} {case}: {one['wrong']}"
        for name, cases in found.items()
        for case, one in cases.items()
        if one["wrong"]
    ]


def markdown(found, distances, note):
    head = ["what", "size", "processors", "symm, symmetric", "symm, private", "best MPI", "which"]
    return f"{note}\n\n{table([*head, 'other MPIs'], list(rows_of(found, distances)))}\n"
