"""tests/abi/layout.txt: what a compiled caller relies on, as text: sizes, offsets, values, prototypes. Every language is compared with it.
Whoever reads it puts a line break and two spaces where "; " stands."""
from header import packed


def render(header):
    lines = [f"typedef {name} size {type_.bytes} signed {int(type_.signed)}" for name, (type_, _) in header.integers.items()]
    lines += [packed([f"enum {enum.name}", *(f"{c.name} {c.value}" for c in enum.constants)], rest="  ") for enum in header.enums]
    # The version says which header it is, and is no promise.
    lines += [f"macro {m.name} 0x{m.value:x}" for m in header.macros if not m.name.startswith("SYMM_VERSION")]
    for struct in header.structs:
        fields = [f"{f.name} offset {f.offset} size {f.bytes}" for f in struct.fields]
        lines.append(packed([f"struct {struct.name} size {struct.bytes} align {struct.alignment}", *fields], rest="  "))
    lines += [f"handle {name}" for name in header.handles]
    lines += [*(form for form, _ in header.callbacks.values()), *(function.prototype for function in header.functions)]
    return "\n".join(lines) + "\n"
