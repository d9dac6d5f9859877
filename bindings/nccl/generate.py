"""Makes the exports of libsymm_nccl.so of functions.txt.

generate.py <folder> writes three files there:

exports.map      the version script: what the library exports
forwarders.S     a jump for each exported name, through a table of slots
functions.inc    SYMM_NCCL_FUNCTION(name, since, returns, by_hand) for each function, in the
                 order of the slots

A slot first leads to code that asks for all functions of the real library and fills the
table, then to the function itself. The jump touches neither arguments nor stack, so it needs
no prototype. Arguments that are passed by value, as ncclUniqueId is, pass through it as well.
"""

import sys
from collections import namedtuple
from pathlib import Path

FUNCTIONS = Path(__file__).resolve().with_name("functions.txt")
RETURNS = ("result", "string", "rank", "team", "nothing")
Function = namedtuple("Function", "name since returns by_hand")


def read(path=FUNCTIONS):
    """The functions of the list, with the prefix `nccl`."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, since, returns, hand = line.split()
        if returns not in RETURNS or hand not in ("hand", "-"):
            sys.exit(f"{path}:{number}: {line}")
        found.append(Function("nccl" + name, since, returns, hand == "hand"))
    if len({function.name for function in found}) != len(found):
        sys.exit(f"{path}: a function stands there twice")
    return found


def exports(functions):
    names = sorted(prefix + f.name for f in functions for prefix in ("", "p"))
    lines = "".join(f"    {name};\n" for name in [*names, "symm_nccl_marker"])
    return f"{{\n  global:\n{lines}  local:\n    *;\n}};\n"


def constants(functions):
    return "".join(
        f'SYMM_NCCL_FUNCTION({f.name}, "{f.since}", {f.returns}, {str(f.by_hand).lower()})\n'
        for f in functions
    )


# What enters the table and what it calls: the registers that may hold arguments are kept while
# the table is filled. A function whose slot is still at its beginning passes the slot's number.
X86_64 = """
  .macro enter name
  .globl \\name
  .type \\name, @function
  .p2align 4
\\name:
  .cfi_startproc
  endbr64
  .endm
  .macro leave name
  .cfi_endproc
  .size \\name, .-\\name
  .endm

  .macro forward name, slot
  enter \\name
  jmp *symm_nccl_slots+8*\\slot(%rip)
  leave \\name
  .endm
  .macro by_hand name, function
  enter \\name
  jmp \\function
  leave \\name
  .endm
  .macro first slot
first_\\slot:
  endbr64
  movl $\\slot, %r11d
  jmp fill
  .endm
  .macro missing slot, function
missing_\\slot:
  endbr64
  movl $\\slot, %edi
  jmp \\function
  .endm

  .type fill, @function
fill:
  .cfi_startproc
  push %rdi
  .cfi_adjust_cfa_offset 8
  push %rsi
  .cfi_adjust_cfa_offset 8
  push %rdx
  .cfi_adjust_cfa_offset 8
  push %rcx
  .cfi_adjust_cfa_offset 8
  push %r8
  .cfi_adjust_cfa_offset 8
  push %r9
  .cfi_adjust_cfa_offset 8
  push %rax
  .cfi_adjust_cfa_offset 8
  sub $128, %rsp
  .cfi_adjust_cfa_offset 128
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)
  movl %r11d, %edi
  call symm_nccl_fill
  movq %rax, %r11
  movups (%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4
  movups 80(%rsp), %xmm5
  movups 96(%rsp), %xmm6
  movups 112(%rsp), %xmm7
  add $128, %rsp
  .cfi_adjust_cfa_offset -128
  pop %rax
  .cfi_adjust_cfa_offset -8
  pop %r9
  .cfi_adjust_cfa_offset -8
  pop %r8
  .cfi_adjust_cfa_offset -8
  pop %rcx
  .cfi_adjust_cfa_offset -8
  pop %rdx
  .cfi_adjust_cfa_offset -8
  pop %rsi
  .cfi_adjust_cfa_offset -8
  pop %rdi
  .cfi_adjust_cfa_offset -8
  jmp *%r11
  .cfi_endproc
  .size fill, .-fill
"""
AARCH64 = """
  .macro enter name
  .globl \\name
  .type \\name, %function
  .p2align 4
\\name:
  .cfi_startproc
  hint #34
  .endm
  .macro leave name
  .cfi_endproc
  .size \\name, .-\\name
  .endm

  .macro forward name, slot
  enter \\name
  adrp x16, symm_nccl_slots+8*\\slot
  ldr x16, [x16, #:lo12:symm_nccl_slots+8*\\slot]
  br x16
  leave \\name
  .endm
  .macro by_hand name, function
  enter \\name
  b \\function
  leave \\name
  .endm
  .macro first slot
first_\\slot:
  hint #34
  mov w17, #\\slot
  b fill
  .endm
  .macro missing slot, function
missing_\\slot:
  hint #34
  mov w0, #\\slot
  b \\function
  .endm

  .type fill, %function
fill:
  .cfi_startproc
  stp x29, x30, [sp, #-224]!
  .cfi_def_cfa_offset 224
  .cfi_offset x29, -224
  .cfi_offset x30, -216
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  str x8, [sp, #80]
  stp q0, q1, [sp, #96]
  stp q2, q3, [sp, #128]
  stp q4, q5, [sp, #160]
  stp q6, q7, [sp, #192]
  mov w0, w17
  bl symm_nccl_fill
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldr x8, [sp, #80]
  ldp q0, q1, [sp, #96]
  ldp q2, q3, [sp, #128]
  ldp q4, q5, [sp, #160]
  ldp q6, q7, [sp, #192]
  ldp x29, x30, [sp], #224
  .cfi_restore x29
  .cfi_restore x30
  .cfi_def_cfa_offset 0
  br x16
  .cfi_endproc
  .size fill, .-fill
"""


def forwarders(functions):
    """Slots come in pairs: that of ncclX has an even number, that of pncclX the next one."""
    jumps, stubs, first, missing = [], [], [], []
    for number, function in enumerate(functions):
        for slot, name in ((2 * number, function.name), (2 * number + 1, "p" + function.name)):
            if function.by_hand:
                jumps.append(f"  by_hand {name}, symm_{function.name}\n")
            else:
                jumps.append(f"  forward {name}, {slot}\n")
            stubs.append(f"  first {slot}\n")
            stubs.append(f"  missing {slot}, symm_nccl_missing_{function.returns}\n")
            first.append(f"  .quad first_{slot}\n")
            missing.append(f"  .quad missing_{slot}\n")
    return f"""# Made by generate.py.
  .text
#if defined(__x86_64__)
{X86_64}
#elif defined(__aarch64__)
{AARCH64}
#else
#error "forwarders are written for x86-64 and aarch64"
#endif

{"".join(jumps)}
{"".join(stubs)}
  .data
  .p2align 3
  .globl symm_nccl_slots
  .hidden symm_nccl_slots
symm_nccl_slots:
{"".join(first)}
  .section .data.rel.ro, "aw"
  .p2align 3
  .globl symm_nccl_missing
  .hidden symm_nccl_missing
symm_nccl_missing:
{"".join(missing)}
  .section .note.GNU-stack, "", %progbits
"""


def main():
    folder = Path(sys.argv[1])
    functions = read()
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("exports.map", exports(functions)),
        ("forwarders.S", forwarders(functions)),
        ("functions.inc", constants(functions)),
    ):
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
