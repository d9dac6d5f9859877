"""The Fortran module `symm` as text: constants, types,
and an interface for each function of the header.
"""

import re
import textwrap

from prose import filled, first_sentence, one_line

WIDTH = 96
TITLE = """\
! SPDX-License-Identifier: Apache-2.0
! Generated from symm.h, which says at length what is here in a sentence. It needs Fortran 2018,
! and brings iso_c_binding with it.
!
! Every name and every meaning is the header's; of a constant and a function that differ in case
! only, the constant ends in _VALUE.
!   Handles    are types of their own, and so are structs, whose variables begin with the
!              header's defaults, struct_size among them.
!   Arguments  that point to constants are optional, as are outputs behind the first of which the
!              header does not say "not NULL", and what it says may be NULL: left out, they are
!              NULL. Left out, too, may be stream (NULL), channel (0) and count or capacity behind
!              an array (its size, or 0 without an array). What follows one that is left out is
!              given by its name.
!              Such a call is one of Fortran; that of C has c_ before its name.
!   Memory     (void *) is a type(c_ptr): what the library gave, c_loc() of a target, or
!              c_null_ptr.
!   Options    are variables of their type, or made in place by the name of a field:
!              options=symm_call_options_t(timeout_ms=500). A place for the failure is c_loc() of
!              a symm_failure_t that is a target.
!   Flags      are joined by ior().
!   Streams    are addresses; transfer(SYMM_ALL_STREAMS, c_null_ptr) is all of them.
!   Text       for a call ends in c_null_char. symm_text() makes text of what comes back, and of
!              c_loc() of characters in a struct.
!   Unsigned   numbers are the signed ones with the same bits.
module symm
  use, intrinsic :: iso_c_binding
  implicit none
"""

# What an argument that is passed by value is when it is left out. C has no optional ones, so a
# function that has some is called through one of Fortran.
DEFAULTS = {"channel": "0", "stream": "c_null_ptr"}
SIZES = ("count", "capacity")

TEXT = """
  pure function address_or_null(given) result(address)
    type(c_ptr), intent(in), optional :: given
    type(c_ptr) :: address
    address = c_null_ptr
    if (present(given)) address = given
  end function

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
    parts = [
        "\n".join(
            f"  integer, parameter :: {name} = c_int{8 * type_.bytes}_t"
            for name, (type_, _) in header.integers.items()
        ),
        *constants(header),
        *(
            derived(name, comment, ["type(c_ptr) :: address = c_null_ptr"])
            for name, comment in header.handles.items()
        ),
        *(derived(one.name, one.comment, components(one, header)) for one in header.structs),
        "  interface\n" + "\n\n".join(map(interface, header.functions)) + "\n  end interface",
        "  private :: address_or_null",
        "contains\n" + "\n\n".join(caller(one) for one in header.functions if defaults(one)),
    ]
    text = TITLE + "\n\n".join(parts) + "\n" + TEXT
    check_names(text)

    return text


def check_names(text):
    """Fortran has no names of more than 63 letters, and does not tell upper from lower case."""
    found = re.findall(
        r"^  (?:type, bind\(C\)|integer, parameter) :: (\w+)"
        r"|^  integer\(\w+\), parameter :: (\w+)"
        r"|^ +(?:function|subroutine) (\w+)",
        text,
        flags=re.M,
    )

    names = ["".join(row).lower() for row in found]
    wrong = {
        name for name in names if len(name) > 63 or name.startswith("_") or names.count(name) > 1
    }
    if wrong:
        raise SystemExit(f"these are no names in Fortran, or not different ones: {sorted(wrong)}")


def remark(comment, indent):
    return filled(comment, WIDTH, f"{indent}! ") + "\n" if comment else ""


def constants(header):
    """The macros, the values of each enum, and the flags."""
    functions = {function.name for function in header.functions}
    # the header has one beside each integer type
    typed = {name.removesuffix("_t") + "_values": name for name in header.integers}

    of_flags = {flag.name for flags in header.flags for flag in flags.constants}
    yield "\n".join(
        constant(f"c_int{8 * one.bytes}_t", one, 8 * one.bytes, functions)
        for one in header.macros
        if one.name not in of_flags
    )
    for enum in header.enums:
        kind = typed.get(enum.name, "c_int32_t")
        yield "\n".join(constant(kind, one, 32, functions) for one in enum.constants)
    for flags in header.flags:
        names = "\n".join(constant("c_int64_t", one, 64, functions) for one in flags.constants)
        yield remark(flags.comment, "  ") + names


def constant(kind, found, bits, functions):
    """Unsigned numbers become the signed ones with the same bits."""
    name = found.name + ("_VALUE" if found.name.lower() in functions else "")
    value = found.value - (1 << bits if found.value >> (bits - 1) > 0 else 0)
    return f"  integer({kind}), parameter :: {name} = {value}"


def of_type(type_):
    if type_.kind == "integer":
        return integer(type_)
    if type_.kind == "double":
        return "real(c_double)"
    if type_.kind == "callback":
        return "type(c_funptr)"
    if type_.kind == "pointer":
        return f"type({type_.of.name if type_.of.kind == 'handle' else 'c_ptr'})"
    return f"type({type_.name})"


def integer(type_):
    if type_.name == "char":
        return "character(kind=c_char)"
    if type_.name == "size_t":
        return "integer(c_size_t)"
    if type_.name.startswith("symm_"):
        return f"integer({type_.name})"
    return f"integer(c_int{8 * type_.bytes}_t)"


def components(struct, header):
    """The fields, each with the value that the header's initialiser gives it."""
    if struct.fields[0].name != "struct_size":
        return map(component, struct.fields, ["0"] * len(struct.fields))
    defaults = header.initialisers.get(struct.name) or ["0"] * (len(struct.fields) - 1)
    return map(component, struct.fields, [str(struct.bytes), *defaults])


def component(field, value):
    one, count = field.type, ""
    if one.kind == "array":
        one, count = one.of, f"({one.count})"

    if one.kind == "pointer":
        value = f"{one.of.name}(c_null_ptr)" if one.of.kind == "handle" else "c_null_ptr"
    elif one.kind == "callback":
        value = "c_null_funptr"
    elif one.name == "char":
        value = "c_null_char"
    elif one.kind == "double" and not value.isdigit():
        value += "_c_double"
    return f"{of_type(one)} :: {field.name}{count} = {value}"


def derived(name, comment, components):
    return "\n".join(
        [
            f"{remark(one_line(comment), '  ')}  type, bind(C) :: {name}",
            *(f"    {one}" for one in components),
            "  end type",
        ]
    )


def kind_of(function):
    return "subroutine" if function.result.kind == "void" else "function"


def continued(text, indent):
    """A statement, in as many lines as it needs."""
    lines = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_on_hyphens=False,
    )
    return " &\n".join(lines)


def with_following(function):
    """The parameters, each with the name of the next one."""
    names = [name for name, _ in function.parameters]
    return zip(function.parameters, [*names[1:], ""])


def interface(function):
    """A function of C: by its own name, unless one of Fortran has that."""
    bound = function.name
    name = f"c_{bound}" if defaults(function) else bound
    names = ", ".join(parameter for parameter, _ in function.parameters)
    what = kind_of(function)

    lines = ["import"]
    lines += [argument(function, *one, following) for one, following in with_following(function)]
    if what == "function":
        lines.append(f"{of_type(function.result)} :: {name}")

    first = continued(f'{what} {name}({names}) bind(C, name="{bound}")', "    ")
    comment = "" if defaults(function) else remark(first_sentence(function.comment), "    ")
    return comment + "\n      ".join([first, *lines]) + f"\n    end {what}"


def defaults(function):
    """Of each argument that is passed by value and may be left out: what it is then."""
    found = {}
    before = None
    for (name, type_), following in with_following(function):
        if not is_by_reference(type_):
            is_address = type_.kind == "pointer" and type_.of.kind == "void"
            if name in SIZES and before:
                found[name] = before
            elif name in DEFAULTS:
                found[name] = DEFAULTS[name]
            elif is_address and may_be_null(function, name):
                found[name] = "c_null_ptr"
        before = name if following in SIZES and is_by_reference(type_) else None
    return found


def caller(function):
    """The function of Fortran that knows the defaults of one of C."""
    left_out = defaults(function)
    what = kind_of(function)
    result = " result(returned)" if what == "function" else ""
    names = ", ".join(name for name, _ in function.parameters)

    declared, before_call, passed = [], [], []
    for (name, type_), following in with_following(function):
        line = argument(function, name, type_, following)
        if name in left_out:
            line = line.replace(", value ::", ", intent(in), optional ::")
            passed.append(value_of(name, type_, left_out[name], declared, before_call))
        else:
            line = line.replace(", value ::", ", intent(in) ::")
            passed.append(name)
        if following in SIZES and following in left_out:
            line = line.replace(" ::", ", contiguous ::").replace("(*)", "(:)")
        declared.append(line)
    if result:
        declared.append(f"{of_type(function.result)} :: returned")

    call = f"c_{function.name}({', '.join(passed)})"
    statements = [
        *sorted(declared, key=lambda line: ":: used_" in line),
        *before_call,
        f"returned = {call}" if result else f"call {call}",
    ]
    return "\n".join(
        [
            remark(first_sentence(function.comment), "  ")
            + continued(f"{what} {function.name}({names}){result}", "  "),
            *(continued(one, "    ") for one in statements),
            f"  end {what}",
        ]
    )


def value_of(name, type_, default, declared, before_call):
    """The expression for an argument that may have been left out."""
    if default == "c_null_ptr":
        return f"address_or_null({name})"

    used = f"used_{name}"
    declared.append(f"{of_type(type_)} :: {used}")
    if default.isdigit():
        before_call.append(f"{used} = {default}")
    else:
        before_call.append(f"{used} = 0")
        before_call.append(f"if (present({default})) {used} = size({default}, kind=c_size_t)")
    before_call.append(f"if (present({name})) {used} = {name}")
    return used


def is_by_reference(type_):
    return type_.kind == "pointer" and type_.of.kind not in ("void", "handle")


def argument(function, name, type_, following):
    of = type_.of
    if not is_by_reference(type_):
        return f"{of_type(type_)}, value :: {name}"

    # What is written is "inout": the library reads struct_size, and writes nothing if it fails.
    attributes = [of_type(of), f"intent({'in' if type_.const else 'inout'})"]
    if type_.const or is_further_output(function, name) or may_be_null(function, name):
        attributes.append("optional")
    is_array = (type_.const and of.kind == "integer") or following in SIZES
    return f"{', '.join(attributes)} :: {name}{'(*)' if is_array else ''}"


def said_of(function, name):
    """What the header says of an argument."""
    found = re.search(rf"@param\S*\s+{name}\b([^@]*)", function.comment)
    return found[1] if found else ""


def may_be_null(function, name):
    return re.search(r"(?<!\bnot )\bNULL\b", said_of(function, name))


def is_further_output(function, name):
    """Whether it is an output behind the first, which may be NULL unless the header says that it
    is not.
    """
    outputs = [name for name, _ in function.parameters if re.match(r"out(_|$)", name)]
    return name in outputs[1:] and not re.search(r"\bnot\s+NULL\b", said_of(function, name))
