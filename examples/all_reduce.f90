! An array that all ranks share: each looks into its neighbour's block, and all add theirs up.
! docs/c.md shows it.
program all_reduce
  use symm
  implicit none
  integer(c_size_t), parameter :: n = 1024
  type(symm_group_t) :: group
  type(symm_buffer_t) :: buffer
  type(symm_memory_t) :: memory
  type(c_ptr) :: here, there
  integer(c_int32_t) :: rank, ranks, right
  real(c_double), pointer :: mine(:), theirs(:)
  real(c_double), target :: total(n)
  ! Rank and size come from the launcher; without one it is a group of one.
  call try(symm_group_create(out=group))
  call try(symm_group_rank(group, rank))
  call try(symm_group_size(group, ranks))
  call try(symm_alloc(group, n * c_sizeof(total(1)), out=buffer))
  ! From here on every rank's block is mapped here.
  call try(symm_rendezvous(group, buffer, out=memory))
  right = mod(rank + 1, ranks)
  call try(symm_memory_pointer(memory, rank, here))
  call try(symm_memory_pointer(memory, right, there))
  call c_f_pointer(here, mine, [n])
  call c_f_pointer(there, theirs, [n])
  mine = rank + 1
  call try(symm_barrier(group, count=0_c_size_t, channel=0, stream=c_null_ptr))
  if (any(nint(theirs) /= right + 1)) error stop "the neighbour's block is not as it was filled"
  call try(symm_allreduce(group, here, c_loc(total), n, SYMM_DTYPE_F64, SYMM_OP_SUM, &
                          stream=c_null_ptr))
  print '(3(a, i0))', "rank ", rank, " of ", ranks, ": the sum is ", nint(total(n))
  call try(symm_group_finalize(group))
contains
  subroutine try(status)
    integer(symm_status_t), intent(in) :: status
    if (status /= SYMM_OK) error stop symm_text(symm_last_error())
  end subroutine
end program
