"""The Fortran module `symm` as text: constants, types,
and an interface for each function of the header.
"""

import re
import textwrap

from julia import first_sentence, one_line

TITLE = """! SPDX-License-Identifier: Apache-2.0
! Generated from symm.h, which says at length what is here in a sentence. It needs Fortran 2018, and brings iso_c_binding with it.
! Every name and every meaning is the header's; of a constant and a function that differ in case only, the constant ends in _VALUE.
!   Handles    are types of their own, and so are structs, whose variables begin with the header's defaults, struct_size among them.
!   Arguments  that point to constants are optional, and those that the header says may be NULL: left out, they are NULL.
!   Memory     (void *) is a type(c_ptr): what the library gave, c_loc() of a target, or c_null_ptr.
!   Text       for a call ends in c_null_char. Of what comes back, and of c_loc() of characters in a struct, symm_text() makes text.
!   Unsigned   numbers are the signed ones with the same bits.
module symm
  use, intrinsic :: iso_c_binding
  implicit none
"""

TEXT = """contains
  function symm_text(address) result(text)
    type(c_ptr), intent(in) :: address
    character(len=:), allocatable :: text
    character, pointer :: letters(:)
    text = ""
    call c_f_pointer(address, letters, [huge(0)])
    do while (letters(len(text) + 1) /= c_null_char)
      text = text // letters(len(text) + 1)
    end do
  end function
end module
"""


def render(header):
    functions = {function.name for function in header.functions}
    # the header has one beside each integer type
    typed = {name.removesuffix("_t") + "_values": name for name in header.integers}
    lines = [
        f"  integer, parameter :: {name} = c_int{8 * type_.bytes}_t"
        for name, (type_, _) in header.integers.items()
    ]
    lines += [constants(f"c_int{8 * m.bytes}_t", [m], functions) for m in header.macros]
    lines += [
        constants(typed.get(enum.name, "c_int32_t"), enum.constants, functions)
        for enum in header.enums
    ]
    lines += [
        derived(name, comment, ["type(c_ptr) :: address = c_null_ptr"])
        for name, comment in header.handles.items()
    ]
    for struct in header.structs:
        values = [
            str(struct.bytes),
            *(header.initialisers.get(struct.name) or ["0"] * (len(struct.fields) - 1)),
        ]
        lines.append(derived(struct.name, struct.comment, map(component, struct.fields, values)))
    lines += ["\n  interface", *map(interface, header.functions), "  end interface"]
    text = TITLE + "\n".join(lines) + "\n" + TEXT
    names = re.findall(
        r"^  (?:type, bind\(C\)|integer, parameter) :: (\w+)|(SYMM_\w+)=|^ +(?:function|subroutine) (\w+)",
        text,
        flags=re.M,
    )
    names = ["".join(row).lower() for row in names]
    if wrong := {
        name for name in names if len(name) > 63 or name.startswith("_") or names.count(name) > 1
    }:
        raise SystemExit(f"these are no names in Fortran, or not different ones: {sorted(wrong)}")
    return text


def wrapped(text, indent):
    return " &\n".join(
        textwrap.wrap(
            text,
            128,
            initial_indent=indent,
            subsequent_indent=indent + "  ",
            break_on_hyphens=False,
        )
    )


def remark(comment, indent):
    return (
        textwrap.fill(comment, 130, initial_indent=f"{indent}! ", subsequent_indent=f"{indent}! ")
        + "\n"
        if comment
        else ""
    )


def constants(kind, found, functions):
    values = []
    for constant in found:
        bits = 8 * getattr(constant, "bytes", 4)
        value = constant.value - (1 << bits if constant.value >> (bits - 1) > 0 else 0)
        values.append(
            f"{constant.name}{'_VALUE' if constant.name.lower() in functions else ''}={value}"
        )
    return wrapped(f"integer({kind}), parameter :: {', '.join(values)}", "  ")


def of_type(type_):
    if type_.kind == "integer":
        known = {"char": "character(kind=c_char)", "size_t": "integer(c_size_t)"}
        return (
            known.get(type_.name)
            or f"integer({type_.name if type_.name.startswith('symm_') else f'c_int{8 * type_.bytes}_t'})"
        )
    if type_.kind == "pointer":
        return f"type({type_.of.name if type_.of.kind == 'handle' else 'c_ptr'})"
    return {"double": "real(c_double)", "callback": "type(c_funptr)"}.get(
        type_.kind
    ) or f"type({type_.name})"


def component(field, value):
    one, count = (
        (field.type.of, f"({field.type.count})") if field.type.kind == "array" else (field.type, "")
    )
    value = {"pointer": "c_null_ptr", "callback": "c_null_funptr"}.get(one.kind) or (
        "c_null_char" if one.name == "char" else value
    )
    return f"{of_type(one)} :: {field.name}{count} = {value}{'_c_double' if one.kind == 'double' and not value.isdigit() else ''}"


def derived(name, comment, components):
    return "\n".join(
        [
            f"\n{remark(one_line(comment), '  ')}  type, bind(C) :: {name}",
            *(f"    {one}" for one in components),
            "  end type",
        ]
    )


def interface(function):
    names = [name for name, _ in function.parameters]
    result = (
        [f"{of_type(function.result)} :: {function.name}"] if function.result.kind != "void" else []
    )
    lines = [
        "import",
        *(
            argument(function, *one, following)
            for one, following in zip(function.parameters, [*names[1:], ""])
        ),
        *result,
    ]
    what = "function" if result else "subroutine"
    first = wrapped(
        f'{what} {function.name}({", ".join(names)}) bind(C, name="{function.name}")', "    "
    )
    return (
        "\n      ".join([remark(first_sentence(function.comment), "    ") + first, *lines])
        + f"\n    end {what}"
    )


def argument(function, name, type_, following):
    of = type_.of
    if type_.kind != "pointer" or of.kind in ("void", "handle"):
        return f"{of_type(type_)}, value :: {name}"
    null = type_.const or re.search(rf"@param\S*\s+{name}\b[^@]*\bNULL\b", function.comment)
    many = type_.const and of.kind == "integer" or following in ("count", "capacity")
    # What is written is "inout": the library reads struct_size, and writes nothing if it fails.
    intent = "in" if type_.const else "inout"
    return f"{of_type(of)}, intent({intent}){', optional' if null else ''} :: {name}{'(*)' if many else ''}"
