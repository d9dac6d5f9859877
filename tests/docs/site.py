"""Builds the site into build/docs/html and looks at it as its readers do. 77, with a reason, where
a tool is missing. Without Rust the site is made and passes, so that ./dev docs goes on; ctest sees
by the line "SKIPPED: passed, but ..." that a part was not checked.
"""

import html
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

root = Path(__file__).resolve().parents[2]
site = root / "build/docs/html"
sys.path.insert(0, str(root / "tests/abi"))
from layout import functions, types


def run(*command):
    return subprocess.run(command, cwd=root, capture_output=True, text=True)


def browse(*arguments):
    return run(
        "chromium-headless-shell",
        "--no-sandbox",
        "--enable-logging=stderr",
        "--virtual-time-budget=10000",
        *arguments,
    )


def lost():
    """Links to what is not there."""
    pages = {
        path: path.read_text() for path in site.rglob("*.html") if site / "rust" not in path.parents
    }
    places = {
        path: {"", *map(html.unescape, re.findall(r'\b(?:id|name)="([^"]+)"', text))}
        for path, text in pages.items()
    }

    for path, text in pages.items():
        for link in map(
            urlsplit, map(html.unescape, re.findall(r'\b(?:href|src)="([^"]+)"', text))
        ):
            target = (path.parent / unquote(link.path)).resolve() if link.path else path
            if not link.scheme and not (
                target.exists()
                and (target not in places or unquote(link.fragment) in places[target])
            ):
                yield f"{path.relative_to(site)}: {link.geturl()} leads nowhere"


def untagged():
    """Calls of the headers whose comments do not say how they are called, and since when."""
    headers = [root / "capi/include/symm" / name for name in ("symm.h", "fused.h")]
    header = "".join(path.read_text() for path in headers)
    commented = r"/\*\*((?:(?!\*/).)*)\*/\nSYMM_API [^(]*?(\w+)\("
    comments = {name: comment for comment, name in re.findall(commented, header, flags=re.S)}
    for name in functions():
        said = comments.get(name, "")
        if not re.search(r"\[(?:local|collective)\b", said) or "Since 0." not in said:
            yield f"{name}: its comment lacks [local] or [collective], or Since"


def unseen():
    """What a reader does not find."""
    for page in ("docs/index", "docs/reference/c", "docs/reference/c/groups"):
        picture = site.parent / f"{Path(page).name}.png"
        said = browse(
            "--window-size=1300,1000", f"--screenshot={picture}", f"file://{site}/{page}.html"
        ).stderr
        if "CONSOLE" in said or picture.stat().st_size < 30_000:  # of an empty page: 5,000
            yield f"{picture}: empty, or with errors: {said}"

    if (
        "reference/c/memories.html#c.symm_rendezvous"
        not in browse("--dump-dom", f"file://{site}/search.html?q=symm_rendezvous").stdout
    ):
        yield "the search does not find symm_rendezvous()"

    for page in sorted((site / "docs/reference").glob("*.html")):
        if "dev docs" in page.read_text():
            yield f"{page}: says on itself that ./dev docs makes it"

    if has_rust:
        has_items = (site / "rust/symm/struct.Group.html").exists()
        has_link = "rust/symm/index.html" in (site / "docs/rust.html").read_text()
        if not has_items or not has_link:
            yield "the site lacks the pages of the Rust crates, or docs/rust.html the link to them"

    python = (site / "docs/reference/python.html").read_text()
    if not 0 < python.find('id="symm.Group"') < python.find('id="symm.SymmError"'):
        yield "Python's reference does not begin with groups and end with errors"
    if "highlight-python" not in python:
        yield "the code in Python's docstrings has no colours"

    chapters = sorted((site / "docs/reference/c").glob("*.html"))
    calls = "".join(chapter.read_text() for chapter in chapters)
    statuses = (site / "docs/reference/statuses.html").read_text()
    for chapter in chapters:
        if chapter.stat().st_size > 150_000:
            yield f"{chapter}: a chapter of {chapter.stat().st_size} bytes is to be divided"

    yield from (
        f"{name} is in no chapter of C"
        for name in (*functions(), *types())
        if f'id="c.{name}"' not in calls
    )
    yield from (
        f"{name} has no remedy"
        for name in set(re.findall(r"SYMM_ERR_[A-Z_]+", calls))
        if name not in statuses
    )


missing = [
    tool
    for tool in ("sphinx-build", "doxygen", "chromium-headless-shell")
    if not shutil.which(tool)
]
has_rust = False
without_rust = ""
if not missing:
    shutil.rmtree(site, ignore_errors=True)
    crates = run("bindings/rust/dev", "pages")
    has_rust = crates.returncode == 0
    if crates.returncode not in (0, 77):
        sys.exit(f"the pages of the Rust crates: {crates.stdout}{crates.stderr}")
    if not has_rust:
        why = f"{crates.stdout}{crates.stderr}".replace("SKIPPED: ", "").strip()
        without_rust = f"without the pages of the Rust crates: {why}"
    built = run(
        "sphinx-build",
        "-q",
        "-E",
        "-n",
        "-W",
        "--keep-going",
        "-c",
        "docs",
        "-d",
        "build/docs/trees",
        ".",
        site,
    )
    missing = re.findall(
        "Could not import extension.*|no theme named.*|no libclang.*", built.stdout + built.stderr
    )
if missing:
    print(f"SKIPPED: without {', '.join(missing)}; ./dev docs installs what apt has")
    sys.exit(77)
offences = [built.stderr, *untagged()]
if not built.returncode:
    offences += [*lost(), *unseen()]
print("\n".join(filter(None, offences)) or f"the site begins at {site}/index.html")
if without_rust:
    print(without_rust if any(offences) else f"SKIPPED: passed, but {without_rust}")
sys.exit(any(offences))
