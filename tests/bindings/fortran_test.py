"""fortran_test.py <libsymm.so> <symm>: the Fortran module compiles without a warning; its
constants, structs and interfaces are those of the layouts in tests/abi and of the library; the
default of every field is zero; what is left out has the header's default; a failure is written
where the options say; and the examples run as ranks.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAYOUTS = [ROOT / "tests/abi/layout.txt", ROOT / "tests/abi/fused.txt"]
PROMISED = "".join(layout.read_text(encoding="utf-8") for layout in LAYOUTS)


# What is left out is what the header gives for it: NULL, 0, or the size of the array before.
LEFT_OUT = """
program left_out
  use symm
  implicit none
  type(symm_group_t) :: group
  type(symm_buffer_t) :: buffer
  type(symm_memory_t) :: memory
  type(symm_group_t) :: part
  type(symm_signal_wait_t) :: waits(2)
  type(symm_failure_t), target :: why
  type(symm_group_info_t) :: facts
  type(c_ptr) :: here
  integer(c_int32_t) :: ranks(2, 3), dead(4)
  integer(c_size_t) :: found
  integer(c_int64_t), target :: sum(2)
  type(symm_piece_t), target :: piece
  type(symm_pieces_call_t) :: pieces
  type(symm_neighbor_t) :: neighbors(1)
  type(symm_exchange_t) :: exchange
  ranks = 5
  ranks(1, 2) = 0
  call expect(symm_group_create(out=group), SYMM_OK)
  call expect(symm_alloc(group, 4096_c_size_t, out=buffer), SYMM_OK)
  call expect(symm_rendezvous(group, buffer, out=memory), SYMM_OK)
  call expect(symm_memory_pointer(memory, 0, here), SYMM_OK)
  call expect(symm_barrier(group), SYMM_OK)
  call expect(symm_barrier(group, ranks(1:1, 2)), SYMM_OK)
  call expect(symm_barrier(group, ranks(:, 2)), SYMM_ERR_INVALID_ARGUMENT)
  call expect(symm_barrier(group, ranks(:, 2), 1_c_size_t, channel=1), SYMM_OK)
  call expect(symm_signal(memory, 0), SYMM_OK)
  call expect(symm_signal(memory, 0, 1), SYMM_OK)
  call expect(symm_wait_signal(memory, 0, 1, stream=c_null_ptr), SYMM_OK)
  call expect(symm_wait_signal(memory, 0), SYMM_OK)
  waits%channel = [2, 3]
  waits%compare = SYMM_COMPARE_GE
  waits%value = 1
  call expect(symm_signal(memory, 0, 2), SYMM_OK)
  call expect(symm_signal(memory, 0, channel=3), SYMM_OK)
  call expect(symm_wait_signals(memory, waits, mode=SYMM_WAIT_ALL), SYMM_OK)
  call expect(symm_group_failed_ranks(group, out_count=found), SYMM_OK)
  call expect(symm_group_failed_ranks(group, dead, out_count=found), SYMM_OK)
  if (found /= 0) error stop "dead ranks"
  sum = [3, 4]
  call expect(symm_allreduce(group, c_loc(sum), c_loc(sum), 2_c_size_t, SYMM_DTYPE_I64, &
                             SYMM_OP_SUM), SYMM_OK)
  if (any(sum /= [3, 4])) error stop "sum"
  call expect(symm_put(memory, 0, 8_c_size_t, c_loc(sum), 8_c_size_t), SYMM_OK)
  piece = symm_piece_t(bytes=8, to=16, rows=2, from_stride=8, to_stride=16)
  pieces%pieces = c_loc(piece)
  pieces%count = 1
  call expect(symm_put_pieces(memory, 0, 64_c_size_t, c_loc(sum), 16_c_size_t, pieces), SYMM_OK)
  sum = 0
  piece = symm_piece_t(from=32, bytes=8)
  call expect(symm_get_pieces(memory, 0, 64_c_size_t, c_loc(sum), 16_c_size_t, pieces), SYMM_OK)
  if (any(sum /= [4, 0])) error stop "pieces"
  sum = [5, 6]
  piece = symm_piece_t(to=128, bytes=16)
  neighbors%memory = memory
  neighbors%source = c_loc(sum)
  neighbors%source_bytes = 16
  neighbors%pieces = c_loc(piece)
  neighbors%count = 1
  neighbors%expected_bytes = 16
  call expect(symm_exchange_create(group, neighbors, out=exchange), SYMM_OK)
  call expect(symm_exchange_start(exchange), SYMM_OK)
  call expect(symm_exchange_finish(exchange), SYMM_OK)
  call symm_exchange_release(exchange)
  sum = 0
  call expect(symm_get(memory, 0, 128_c_size_t, c_loc(sum), 16_c_size_t), SYMM_OK)
  if (any(sum /= [5, 6])) error stop "exchange"
  call expect(symm_ipc_withdraw(here, 8_c_size_t), SYMM_OK)
  call expect(symm_wait_signal(memory, 0, options=symm_call_options_t(timeout_ms=5)), &
              SYMM_ERR_TIMEOUT)

  ! The failure of a call goes where its options say, and another failure leaves it alone.
  call expect(symm_signal(memory, 7, options=symm_call_options_t(failure=c_loc(why))), &
              SYMM_ERR_INVALID_ARGUMENT)
  call expect(symm_signal(memory, 0, 999), SYMM_ERR_INVALID_ARGUMENT)
  if (why%status /= SYMM_ERR_INVALID_ARGUMENT .or. why%rank /= -1) error stop "a failure"
  if (index(symm_text(c_loc(why%message)), "rank: 7") /= 1) error stop "a message of its own"

  call expect(symm_group_local(group, symm_group_options_t(flags=SYMM_GROUP_CHECK, &
                                                           channels=3), part), SYMM_OK)
  call expect(symm_group_info(part, facts), SYMM_OK)
  if (iand(facts%flags, SYMM_GROUP_CHECK) == 0) error stop "a flag"
  if (facts%channels /= 3) error stop "channels"
contains
  subroutine expect(status, promised)
    integer(symm_status_t), intent(in) :: status, promised
    if (status /= promised) error stop symm_text(symm_last_error())
  end subroutine
end program
"""


class Program:
    """A Fortran program that stops at the first value that is not as promised."""

    def __init__(self):
        self.declared = []
        self.checked = []

    def same(self, name, found, promised):
        self.checked.append(f"if ({found} &\n  /= {promised}_c_int64_t) error stop '{name}'")

    def add(self, line):
        kind, rest = line.split(" ", 1)
        if kind == "struct":
            self.add_struct(*re.fullmatch(r"(\w+) size (\d+) align \d+", rest).groups())
        elif kind == "field":
            pattern = r"(\w+)\.(\w+) offset (\d+) size (\d+)"
            self.add_field(*re.fullmatch(pattern, rest).groups())
        elif kind == "enumerator":
            _, name, value = rest.split(" ")
            self.same(name, name, int(value))
        elif kind == "macro":
            name, value = rest.split(" ")
            self.same(name, name, as_signed(int(value, 0)))

    def add_struct(self, struct, size):
        a, b = f"a_{struct}", f"b_{struct}"
        self.declared.append(f"type({struct}), target, save :: {a}")
        self.same(struct, f"c_sizeof({a})", size)
        has_size = f"field {struct}.struct_size " in PROMISED
        if has_size:
            self.same(struct, f"{a}%struct_size", size)

        # Zero is the default of every field, which `symm.h` promises.
        self.declared.append(f"type({struct}), target, save :: {b}")
        self.checked.append(f"{b} = {a}")
        if has_size:
            self.checked.append(f"{b}%struct_size = 0")
        self.same(
            f"{struct}, its defaults",
            f"count(transfer({b}, [0_c_int8_t]) /= 0)",
            0,
        )

    def add_field(self, struct, field, offset, size):
        a = f"a_{struct}"
        self.same(
            f"{struct}.{field}",
            f"transfer(c_loc({a}%{field}), 0_c_int64_t) &\n  - transfer(c_loc({a}), 0_c_int64_t)",
            offset,
        )
        self.same(f"{struct}.{field}", f"c_sizeof({a}%{field})", size)

    def text(self):
        return "\n".join(
            [
                "program check",
                "use symm",
                "implicit none",
                *self.declared,
                *self.checked,
                "end program\n",
            ]
        )


def as_signed(value):
    """The signed number of 64 bits with the bits of an unsigned one."""
    return value - (1 << 64) if value >> 63 > 0 else value


def program():
    made = Program()
    for line in PROMISED.splitlines():
        made.add(line)
    made.same("what may be NULL", "symm_ipc_collect()", 0)
    return made.text()


def named(kind):
    """A pattern for the names of the integer types, or of the handles."""
    return "|".join(re.findall(rf"^{kind} (symm_\w+)", PROMISED, flags=re.M))


def promised_prototypes():
    """The functions of the layouts in the words of gfortran, which has neither signs nor
    pointers to a type(c_ptr); handles are structs to it, which hold a pointer.
    """
    words = "\n".join(re.findall(r"^function (.*)$", PROMISED, flags=re.M))
    words = re.sub(r"\b(u?int64_t|size_t)\b", "long", words)
    words = re.sub(rf"\b(u?int32_t|{named('typedef')})\b", "int", words)
    words = re.sub(r"\b(int16_t|uint16_t)\b", "short", words)
    words = re.sub(r"\b(int8_t|uint8_t)\b", "signed char", words)
    words = re.sub(r"(const )?void \*(const )?\**|^const char \*", "void *", words, flags=re.M)
    words = re.sub(rf"\b({named('handle')}) \*", r"\1 ", words)
    words = re.sub(r"\b(symm_\w+) const \*", r"const \1 *", words)
    words = re.sub(r"\bsymm_\w+_callback_t (\w+)", r"int (*\1)()", words)
    words = words.replace("(void)", "()")
    return set(words.splitlines())


def run(scratch, *command):
    done = subprocess.run(command, cwd=scratch, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(done.stdout)
        sys.exit(done.returncode)
    return done.stdout


def make_module(scratch):
    generator = ROOT / "bindings/generator/generate.py"
    headers = ROOT / "capi/include/symm"
    run(scratch, sys.executable, "-B", generator, "fortran", headers, scratch)


def check_interfaces(scratch):
    said = run(scratch, "gfortran", "-fsyntax-only", "-fc-prototypes", "symm.f90")
    seen = re.findall(r"^(\w.*symm_\w+ \(.*\));$", said, flags=re.M)
    wrong = {line.replace(" (", "(", 1) for line in seen} ^ promised_prototypes()
    assert not wrong, "\n".join(sorted(wrong))


def compile_program(scratch, source, library):
    run(
        scratch,
        *("gfortran", "-std=f2018", "-Wall", "-Werror"),
        *("symm.f90", source, library),
        f"-Wl,-rpath,{Path(library).parent}",
        *("-o", source.stem),
    )


def check_values(scratch, library):
    source = Path(scratch, "check.f90")
    source.write_text(program(), encoding="utf-8")
    compile_program(scratch, source, library)
    run(scratch, "./check")


def check_left_out(scratch, library):
    source = Path(scratch, "left_out.f90")
    source.write_text(LEFT_OUT, encoding="utf-8")
    compile_program(scratch, source, library)
    run(scratch, "./left_out")


def check_examples(scratch, library, tool):
    compile_program(scratch, ROOT / "examples/all_reduce.f90", library)
    said = run(scratch, tool, "run", "-n", "2", "--timeout", "100", "--", "./all_reduce")
    assert said.count("of 2: the sum is 3") == 2, said

    compile_program(scratch, ROOT / "examples/18-halos/halos.f90", library)
    said = run(scratch, tool, "run", "-n", "3", "--timeout", "100", "--", "./halos")
    degrees = "row 30 has 2.841348 degrees in the middle, and changed by 0.060499"
    assert said.count(degrees) == 1, said


def main(library, tool):
    if not shutil.which("gfortran"):
        print("SKIPPED: no gfortran")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as scratch:
        make_module(scratch)
        check_interfaces(scratch)
        check_values(scratch, library)
        check_left_out(scratch, library)
        check_examples(scratch, library, tool)


if __name__ == "__main__":
    main(*sys.argv[1:])
