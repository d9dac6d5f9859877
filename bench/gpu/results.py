"""The file of a run."""
import json
import os

FORMAT = 1
METHOD = ("Ways take turns in one process a rank. In graphs: a graph of `calls` calls is replayed; eager: `calls` calls are issued in a "
          "row; either between two events, after one more that lines the ranks up. A time is the median of the turns on the slowest rank, "
          "of one call, in microseconds; host times are what issuing took, from Python. Results are checked.")
KEYS = {"format": int, "date": str, "world": int, "device": dict, "driver": str, "versions": dict, "environment": dict, "settings": dict,
        "method": str, "unavailable": dict, "errors": list, "complete": bool, "seconds": (int, float), "rows": list}
ROW_KEYS = {"collective": str, "dtype": str, "mode": str, "bytes": int, "calls": int, "repeats": int, "us": dict, "times": dict}


def new(world, date, settings):
    return {"format": FORMAT, "date": date, "world": world, "device": {}, "driver": "", "versions": {}, "environment": {},
            "settings": settings, "method": METHOD, "unavailable": {}, "errors": [], "complete": False, "seconds": 0, "rows": []}


def faults(found):
    """What is wrong with the contents of such a file, in words."""
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        return [f"not results of format {FORMAT}"]
    wrong = [f"{key} is missing or of the wrong type" for key, kind in KEYS.items() if not isinstance(found.get(key), kind)]
    for number, row in enumerate(found.get("rows") or []):
        wrong += [f"rows[{number}].{name} is missing or of the wrong type" for name, kind in ROW_KEYS.items()
                  if not isinstance(row.get(name), kind)]
        if not wrong and row["us"].keys() != row["times"].keys():
            wrong.append(f"rows[{number}] has not the same ways in us and times")
    return wrong


def path(folder, found):
    return os.path.join(folder, found["settings"]["name"] + ".json")


def write(folder, found):
    """Whole or not at all, since a run may be cut off."""
    os.makedirs(folder, exist_ok=True)
    name = path(folder, found)
    with open(name + ".part", "w", encoding="utf-8") as file:
        json.dump(found, file)
        file.write("\n")
    os.replace(name + ".part", name)
    return name


def read(name):
    with open(name, encoding="utf-8") as file:
        found = json.load(file)
    if wrong := faults(found):
        raise ValueError(f"{name}: {wrong[0]}")
    return found
