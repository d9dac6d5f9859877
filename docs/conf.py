"""The site: all Markdown of the tree as pages, and references out of the headers and
sources. tests/docs/site.py builds it.
"""

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

root = Path(__file__).resolve().parent.parent
made, headers = root / "build/docs/made", root / "capi/include/symm"
rust = root / "build/docs/rust/doc"  # where `bindings/rust/dev pages` puts them

project, html_title, html_theme, html_show_copyright = "symm", "symm", "furo", False
extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
include_patterns = ["*.md", "docs/**", "packaging/README.md", "bindings/rust/symm*/README.md"]
exclude_patterns = [".*", "build", "dist", "bindings/julia", "bindings/python", "tests"]
root_doc, myst_heading_anchors, highlight_language = "docs/index", 3, "none"
breathe_projects, breathe_default_project, breathe_domain_by_extension = (
    {"symm": str(made / "xml")},
    "symm",
    {"h": "c"},
)
autodoc_member_order, autodoc_typehints_format, default_role = "bysource", "short", "py:obj"
autodoc_class_signature, napoleon_use_ivar = "separated", True
# What is of standard libraries, of CUDA and of other packages
# has no page here; of equal names the first is as good.
nitpick_ignore_regex, suppress_warnings = (
    [("(c|cpp):identifier", ".*"), ("py:.*", ".*")],
    ["ref.python"],
)
doxygen = """
    QUIET=YES
    WARN_IF_INCOMPLETE_DOC=NO
    WARN_AS_ERROR=FAIL_ON_WARNINGS
    GENERATE_HTML=NO
    GENERATE_LATEX=NO
    GENERATE_XML=YES
    XML_PROGRAMLISTING=NO
    EXTENSION_MAPPING=cuh=C++
    EXTRACT_ALL=YES
    FILE_PATTERNS=*.h
    FILE_PATTERNS+=*.hpp
    FILE_PATTERNS+=*.cuh
    MACRO_EXPANSION=YES
    EXPAND_ONLY_PREDEF=YES
    EXCLUDE_SYMBOLS=symm::detail
    EXCLUDE_SYMBOLS+=SYMM_MULTIMEM_*
    EXPAND_AS_DEFINED=SYMM_MULTIMEM_LOAD
    EXPAND_AS_DEFINED+=SYMM_MULTIMEM_TO
    EXPAND_AS_DEFINED+=SYMM_MULTIMEM_WORD_TO
    PREDEFINED=__CUDACC__
    PREDEFINED+=SYMM_HAS_MULTIMEM=1
    PREDEFINED+=SYMM_API=
    PREDEFINED+=SYMM_DEVICE=
    PREDEFINED+=SYMM_HOST_DEVICE=
    PREDEFINED+=__device__=
    PREDEFINED+=__forceinline__=
"""


SECTION = re.compile(r"^(?://|/\*) ---- (.+?) -+(?: \*/)?\n", flags=re.M)


def uncommented(text):
    """The text of a plain comment, /* */ or //, without its ornaments."""
    lines = re.sub(r"^/\*\n|\n ?\*/$", "", text.strip()).splitlines()
    return "\n".join(re.sub(r"^ ?(?:\*|//) ?", "", line) for line in lines)


def markdown(text):
    """Of a plain comment: words as they are, calls as links, and a line of words that a list or
    an empty line follows as a heading of its own.
    """
    text = re.sub(r"(?m)(?<=\n\n)([A-Z][\w ]+)\n(?=- |\n)", r"**\1.**\n\n", text)
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith(("    ", "**")):  # a formula, or code; a heading
            continue
        words = re.split(r"(`[^`]+`|symm_\w+\(\))", line)
        words[::2] = [re.sub(r"([][*<_])", r"\\\1", plain) for plain in words[::2]]
        lines[number] = "".join(
            re.sub(r"^(symm_\w+)\(\)$", r"{c:func}`\1`", word) for word in words
        )
    return "\n".join(lines) + "\n"


def opening(text):
    """What a header says before its first line of code: an introduction, and conventions, each
    a heading with an indented text below.
    """
    code = re.sub(r"^(/\*|//) SPDX.*\n(//\n)?", "", text)
    comment = re.match(r"/\*(?:.|\n)*?\*/|(?://.*\n)+", code)[0]
    parts = re.split(r"^([A-Z][\w ,]+)\n(?=  \S)", uncommented(comment), flags=re.M)
    page = markdown(parts[0]) + ("\n## Conventions\n" if parts[1:] else "")
    for title, body in zip(parts[1::2], parts[2::2]):
        page += f"\n### {title}\n\n" + markdown(re.sub(r"^  ", "", body, flags=re.M))
    return page


def declared(text):
    """The directives for what C code declares, in its order. A struct comes before its
    initialiser and the calls that use it, because the header has it so.
    """
    kinds = (
        (r"^#define (SYMM_(?!API\b)\w+) +\S", "define"),
        (r"^enum (symm_\w+)", "enum"),
        (r"^\} (symm_\w+);", "struct"),
        (r"^typedef (?:int32_t|struct \w+) (symm_\w+);", "typedef"),
        (r"^typedef \w+ \(\*(symm_\w+)\)", "typedef"),
        (r"^SYMM_API .*?\b(symm_\w+)\(", "function"),
    )
    found = []
    code = re.sub(r"/\*.*?\*/", lambda comment: re.sub(r"[^\n]", " ", comment[0]), text, flags=re.S)
    for pattern, kind in kinds:
        found += [(match.start(), kind, match[1]) for match in re.finditer(pattern, code, re.M)]

    for _, kind, name in sorted(found):
        members = ":members:\n:undoc-members:\n" if kind == "struct" else ""
        yield f"```{{doxygen{kind}}} {name}\n{members}```\n\n"


def readable(text):
    """Of a header: what Doxygen would take for a link to a file, or for a tag, it shall not."""
    return re.sub(
        r"(?<![/\w])\w+\.(?:h|hpp|cuh)\b", r"%\g<0>", re.sub(r"<(pid|uid)>", r"\\<\1\\>", text)
    )


def chapter(title, body):
    """A chapter of a header of C, without the marks of its heading."""
    intro = re.match(r"\s*(/\*\n.*?\*/)", body, flags=re.S)
    said = markdown(uncommented(intro[1])) + "\n" if intro else ""
    return f"{title[0].upper()}{title[1:]}\n\n{said}" + "".join(declared(body))


def pages_of_c(folder):
    """A page for each chapter of symm.h, in `folder`, one for fused.h and one for page.h; gives the
    text for the page above.
    """
    texts = {name: (headers / name).read_text() for name in ("symm.h", "fused.h", "page.h")}
    for name, text in texts.items():
        (made / name).write_text(readable(text))

    first, *chapters = SECTION.split(texts["symm.h"])
    links = ""
    for title, body in zip(chapters[::2], chapters[1::2]):
        slug = title.replace(" ", "-")
        (folder / f"{slug}.md").write_text(f"# {chapter(title, body)}")
        links += f"{folder.name}/{slug}\n"

    first_of_fused, *chapters = SECTION.split(texts["fused.h"])
    (folder / "fused.md").write_text(
        "# Fused calls, which may still change\n\n"
        + opening(texts["fused.h"])
        + "\n## Its version\n\n"
        + "".join(declared(first_of_fused))
        + "".join(f"\n## {chapter(*one)}" for one in zip(chapters[::2], chapters[1::2]))
    )

    (folder / "page.md").write_text(
        "# What monitors see\n\n" + opening(texts["page.h"]) + "".join(declared(texts["page.h"]))
    )
    page = opening(texts["symm.h"]) + "\n## Version\n\n" + "".join(declared(first))
    links += f"{folder.name}/fused\n{folder.name}/page\n"
    return f"\n{page}\n```{{toctree}}\n:caption: Chapters\n\n{links}```\n"


def pages_of_cpp(name, folder):
    """The page of a C++ header, in `folder`, and one for each section of symm.hpp, which is long.
    The header is written as Doxygen shall read it: with its sections as
    groups, its plain comments for users.
    """
    text = (headers / name).read_text()
    slug = name.replace(".", "-")
    page, below = f"# {name}\n\n{opening(text)}", ""
    text = re.sub(r"^SYMM_MULTIMEM_\w+\(.*\)$", r"\g<0>;", readable(text), flags=re.M)
    text = text.replace("inline namespace v0 {\n", "").replace("}  // namespace v0\n", "")
    # What a class declares and the header defines below has its entry in the class.
    text = re.sub(r"^inline \w+ \w+::\w+\(.*?^\}\n", "", text, flags=re.M | re.S)
    if not SECTION.search(text):
        text = re.sub(r"^namespace (.+) \{$", r"\g<0>\n// ---- in namespace \1 -", text, flags=re.M)

    text, *sections = SECTION.split(text)
    for number, (title, body) in enumerate(zip(sections[::2], sections[1::2])):
        group = f"{slug}-{number}"
        body, rest = re.fullmatch(
            r"(.*?)(^(?:\}  // )?namespace .*|\Z)", body, flags=re.M | re.S
        ).groups()
        text += f"/** @defgroup {group} {title}\n * @{{ */\n{body}\n/** @}} */\n{rest}"
        said = f"{title[0].upper()}{title[1:]}\n\n```{{doxygengroup}} {group}\n"
        said += ":content-only:\n:members:\n:undoc-members:\n```\n"
        if name == "symm.hpp":
            part = f"{slug}-{title.replace(' ', '-').replace(',', '')}"
            (folder / f"{part}.md").write_text(f"# {said}")
            below += f"{part}\n"
        else:
            page += f"\n## {said}"

    (made / name).write_text(re.sub(r"^( *)// ", r"\1/// ", text, flags=re.M))
    (folder / f"{slug}.md").write_text(page + (f"\n```{{toctree}}\n{below}```\n" if below else ""))
    return f"{folder.name}/{slug}\n"


def chapters_of(name):
    """The folder for the pages that are made below docs/reference/`name`.md, which is empty."""
    folder = root / "docs/reference" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def docstrings_of_julia():
    """Those that begin with a call. They are Markdown."""
    text = "\n".join(
        file.read_text() for file in sorted((root / "bindings/julia/LibSymm.jl/src").glob("*.jl"))
    )
    found = re.findall(r'^"""\n((?:    [^\n]+\n)+)\n(.*?)^"""$', text, flags=re.M | re.S)
    entries = "".join(
        f"```julia\n{re.sub('^    ', '', calls, flags=re.M)}```\n\n{said}\n"
        for calls, said in found
    )
    return re.sub(r"\[(`[^`]+`)\]\(@ref\)", r"\1", entries).replace("\\$", "$")


# The chapters of Python's reference, in the order in which a reader needs them.
PYTHON = {
    "Groups": "group",
    "Batches": "collectives",
    "Arrays": "array",
    "What arrays have in common": "_view",
    "Memory": "memory",
    "Pieces": "_pieces",
    "Messages": "messages",
    "Exchanges": "exchange",
    "Requests": "requests",
    "Heaps": "heap",
    "Memory by tokens": "ipc",
    "When memory is short": "pressure",
    "Types of elements": "dtypes",
    "Values": "enums",
    "What calls return": "_generated",
    "Devices": "devices",
    "Logs": "logs",
    "Errors": "errors",
    "The version": "_library",
}


def chapters_of_python():
    """The names that the package imports, by the module that has them. Code in docstrings is
    Python.
    """
    folder = root / "bindings/python/src/symm"
    imported = {
        node.module.removeprefix("symm."): [alias.name for alias in node.names]
        for node in ast.parse((folder / "__init__.py").read_text()).body
        if isinstance(node, ast.ImportFrom) and node.module.startswith("symm.")
    }
    if lost := set(imported) ^ set(PYTHON.values()):
        sys.exit(f"docs/conf.py: the chapters of Python and the package differ in {lost}")

    yield "\n```{eval-rst}\n.. highlight:: python\n\n.. automodule:: symm\n```\n"
    for title, module in PYTHON.items():
        source = folder / f"{module}.py"
        functions = {
            node.name
            for node in (ast.parse(source.read_text()).body if source.exists() else [])
            if isinstance(node, ast.FunctionDef)
        }
        yield f"\n## {title}\n\n```{{eval-rst}}\n.. highlight:: python\n\n"
        for name in imported[module]:
            kind = "function" if name in functions else "class"
            if module == "dtypes" and name != "DType":
                kind = "data"
            yield f".. auto{kind}:: symm.{name}\n"
            if kind == "class":
                yield "   :members:\n   :undoc-members:\n   :exclude-members: __new__, LAYOUT\n"
            yield "\n"
        yield "```\n"


def import_python():
    """The package as it is in the sources, without its extension, which only a build makes."""
    generate = [
        sys.executable,
        "-B",
        "bindings/generator/generate.py",
        "python",
        headers,
        made,
    ]
    subprocess.run(generate, cwd=root, check=True)
    raw = sys.modules["symm._raw"] = type(sys)("symm._raw")

    raw.symm_version, raw.SYMM_VERSION, raw.__getattr__ = (
        lambda: 0,
        0,
        lambda name: lambda *arguments: object,
    )
    folders = [str(root / "bindings/python/src/symm"), str(made)]
    spec = importlib.util.spec_from_file_location(
        "symm", f"{folders[0]}/__init__.py", submodule_search_locations=folders
    )
    module = sys.modules["symm"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def complete(app, name, source):
    """Pages go on with what is read elsewhere, and do not say then that `./dev docs` makes that.
    Links of the first one make the tables of contents, and a folder is not a page.
    """
    if name == "docs/index":
        for title, links in re.findall(
            r"^\*\*(.+?)\*\*(.+?)(?=\n\n|\Z)", source[0], flags=re.M | re.S
        ):
            entries = re.findall(r"(?<!!)\[([^]]+)\]\(([^)#]+)\)", links.replace("\n", " "))
            lines = (
                f"{text[0].upper()}{text[1:]} <{link}{'/README' * (link == 'decisions')}>"
                for text, link in entries
            )
            source[0] += (
                f"\n\n```{{toctree}}\n:caption: {title.strip('.:')}\n:hidden:\n"
                + "\n".join(lines)
                + "\n```\n"
            )

    if name == "docs/decisions/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n0*\n```\n"
    text = re.sub(
        r"\]\((docs/)?decisions\)",
        r"](\1decisions/README.md)",
        re.sub(r"```rust,\w+", "```rust", source[0]),
    )
    if name in added:
        text = re.sub(r"[;.]\s`\./dev docs` makes [^.]*\.", ".", text)
    source[0] = text + added.get(name, "")


def finish(app, exception):
    """Debian's theme loads its script as no module, and so without the other that it imports."""
    script = Path(app.outdir) / "_static/scripts/furo.js"
    if (text := script.read_text()).startswith("import "):
        script.write_text(
            script.with_name("gumshoe-patched.js").read_text() + text.split("\n", 1)[1]
        )
    if rust.is_dir():
        shutil.copytree(rust, Path(app.outdir) / "rust", dirs_exist_ok=True)
    (Path(app.outdir) / "index.html").write_text(
        '<meta http-equiv="refresh" content="0; url=docs/index.html">\n'
    )


def setup(app):
    import_python()
    app.connect("source-read", complete)
    app.connect("build-finished", finish)


made.mkdir(parents=True, exist_ok=True)
cpp = chapters_of("cpp")
CPP = ("symm.hpp", "fused.hpp", "device.cuh", "exchange.cuh", "multimem.cuh")
added = {
    "docs/reference/c": pages_of_c(chapters_of("c")),
    "docs/julia": "\n" + docstrings_of_julia(),
    "docs/reference/cpp": "\n```{toctree}\n"
    + "".join(pages_of_cpp(name, cpp) for name in CPP)
    + "```\n",
    "docs/reference/python": "".join(chapters_of_python()),
    "docs/rust": '\n<a href="../rust/symm/index.html">All items</a>\n' if rust.is_dir() else "",
    "docs/tool": "\n```{literalinclude} ../core/backend/plan_table.txt\n:language: ini\n```\n",
}
subprocess.run(["doxygen", "-"], cwd=made, input="\n".join(doxygen.split()), text=True, check=True)
for file in (made / "xml").glob("*.xml"):
    # as few links to files
    file.write_text(re.sub("<includes .*</includes>", "", file.read_text()))
