! A matrix that all ranks share: each looks into its neighbour's when that is filled, and all add
! theirs up. docs/c.md shows it.
program all_reduce
  use symm
  implicit none
  integer, parameter :: rows = 64, columns = 16
  type(symm_group_t) :: group
  type(symm_buffer_t) :: buffer
  type(symm_memory_t) :: memory
  type(c_ptr) :: here, there
  integer(c_int32_t) :: rank, ranks, left, right
  real(c_double), pointer :: mine(:, :), theirs(:, :)
  real(c_double), target :: total(rows, columns)
  ! Rank and size come from the launcher; without one it is a group of one.
  call try(symm_group_create(out=group))
  call try(symm_group_rank(group, rank))
  call try(symm_group_size(group, ranks))
  call try(symm_alloc(group, c_sizeof(total), out=buffer))
  ! From here on every rank's block is mapped here.
  call try(symm_rendezvous(group, buffer, out=memory))
  left = modulo(rank - 1, ranks)
  right = modulo(rank + 1, ranks)
  call try(symm_memory_pointer(memory, rank, here))
  call try(symm_memory_pointer(memory, right, there))
  call c_f_pointer(here, mine, [rows, columns])
  call c_f_pointer(there, theirs, [rows, columns])
  mine = rank + 1
  ! The left neighbour takes the signal, and then sees what was written before it.
  call try(symm_signal(memory, left))
  call try(symm_wait_signal(memory, right))
  if (any(nint(theirs) /= right + 1)) error stop "the neighbour's block is not as it was filled"
  call try(symm_allreduce(group, here, c_loc(total), size(total, kind=c_size_t), &
                          SYMM_DTYPE_F64, SYMM_OP_SUM))
  print '(3(a, i0))', "rank ", rank, " of ", ranks, ": the sum is ", nint(total(rows, columns))
  call try(symm_group_finalize(group))
contains
  subroutine try(status)
    integer(symm_status_t), intent(in) :: status
    if (status /= SYMM_OK) error stop symm_text(symm_last_error())
  end subroutine
end program
