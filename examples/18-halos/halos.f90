! The heat equation on a plate, with halos that neighbours exchange while they compute.
!   symm run -n 3 -- halos
!
! Each rank has a band of rows, with a row more above and below: its halo, or an edge of the plate.
! It computes the outer rows first. Then they go into its neighbours' halos, while it computes the
! others. The elements of a row lie far apart: a row is one piece, whose rows are an element each.
! Two plates take turns as source and target, and each has an exchange of its own.
program halos
  use symm
  implicit none
  integer, parameter :: rows = 240, columns = 238, steps = 400
  real(c_double), parameter :: hot = 100 ! the temperature of the upper edge; the others have 0
  type(symm_group_t) :: group
  type(symm_buffer_t) :: buffer
  type(symm_memory_t) :: memory
  type(symm_exchange_t) :: exchanges(0:1)
  integer(c_int32_t) :: rank, ranks
  type(c_ptr) :: here
  real(c_double), pointer :: plates(:, :, :)
  real(c_double), target :: change(1)
  integer :: mine, most, number, from, to, row

  ! Rank and size come from the launcher; without one it is a group of one.
  call try(symm_group_create(out=group))
  call try(symm_group_rank(group, rank))
  call try(symm_group_size(group, ranks))
  mine = rows_of(rank)
  most = (rows + ranks - 1) / ranks

  call try(symm_alloc(group, 2 * plate_bytes(), out=buffer))
  call try(symm_rendezvous(group, buffer, out=memory))
  call try(symm_memory_pointer(memory, rank, here))
  call c_f_pointer(here, plates, [most + 2, columns + 2, 2])
  plates(:, :, :) = 0
  if (rank == 0) plates(1, :, :) = hot
  ! Nobody puts into a plate that is being filled.
  call try(symm_barrier(group))
  do number = 0, 1
    call create(exchanges(number), number)
  end do

  do number = 1, steps
    from = modulo(number - 1, 2)
    to = 1 - from
    change = 0
    call step(plates(:, :, from + 1), plates(:, :, to + 1), 1, 1)
    call step(plates(:, :, from + 1), plates(:, :, to + 1), mine, mine)
    call try(symm_exchange_start(exchanges(to)))
    call step(plates(:, :, from + 1), plates(:, :, to + 1), 2, mine - 1)
    call try(symm_exchange_finish(exchanges(to)))
  end do

  call try(symm_allreduce(group, c_loc(change), c_loc(change), 1_c_size_t, SYMM_DTYPE_F64, &
                          SYMM_OP_MAX))
  row = rows / 8 + 1 - before(rank)
  if (row >= 1 .and. row <= mine) then
    print '(a, i0, a, i0, a, f0.6, a, f8.6)', "after ", steps, " steps row ", rows / 8, " has ", &
      plates(row + 1, columns / 2 + 2, 1), " degrees in the middle, and changed by ", change(1)
  end if
  do number = 0, 1
    call symm_exchange_release(exchanges(number))
  end do
  call try(symm_group_finalize(group))
contains
  ! Rows of the plate that lie before a rank's band, and in it.
  integer function before(of)
    integer(c_int32_t), intent(in) :: of
    before = rows * of / ranks
  end function

  integer function rows_of(of)
    integer(c_int32_t), intent(in) :: of
    rows_of = before(of + 1) - before(of)
  end function

  integer(c_size_t) function plate_bytes()
    plate_bytes = 8_c_size_t * (most + 2) * (columns + 2)
  end function

  ! One step of the rows `first` to `last` of a band.
  subroutine step(old, new, first, last)
    real(c_double), intent(in) :: old(:, :)
    real(c_double), intent(inout) :: new(:, :)
    integer, intent(in) :: first, last
    integer :: i, k
    do k = 2, columns + 1
      do i = first + 1, last + 1
        new(i, k) = (old(i - 1, k) + old(i + 1, k) + old(i, k - 1) + old(i, k + 1)) / 4
        change = max(change, abs(new(i, k) - old(i, k)))
      end do
    end do
  end subroutine

  ! What puts row `here` of a plate into row `there` of a neighbour's.
  function halo(neighbor, plate, from_row, to_row, piece)
    integer(c_int32_t), intent(in) :: neighbor
    integer, intent(in) :: plate, from_row, to_row
    type(symm_piece_t), intent(out), target :: piece
    type(symm_neighbor_t) :: halo
    piece = symm_piece_t(from=8 * (from_row - 1), to=8 * (to_row - 1), bytes=8, rows=columns + 2, &
                         from_stride=8 * (most + 2), to_stride=8 * (most + 2))
    halo%rank = neighbor
    halo%memory = memory
    halo%offset = plate * plate_bytes()
    halo%source = c_loc(plates(1, 1, plate + 1))
    halo%source_bytes = plate_bytes()
    halo%pieces = c_loc(piece)
    halo%count = 1
    halo%expected_bytes = 8 * (columns + 2)
  end function

  subroutine create(exchange, plate)
    type(symm_exchange_t), intent(inout) :: exchange
    integer, intent(in) :: plate
    type(symm_neighbor_t) :: neighbors(2)
    type(symm_piece_t), target :: pieces(2)
    integer :: count
    count = 0
    if (rank > 0) then
      count = count + 1
      neighbors(count) = halo(rank - 1, plate, 2, rows_of(rank - 1) + 2, pieces(count))
    end if
    if (rank + 1 < ranks) then
      count = count + 1
      neighbors(count) = halo(rank + 1, plate, mine + 1, 1, pieces(count))
    end if
    call try(symm_exchange_create(group, neighbors(:count), out=exchange))
  end subroutine

  subroutine try(status)
    integer(symm_status_t), intent(in) :: status
    if (status /= SYMM_OK) error stop symm_text(symm_last_error())
  end subroutine
end program
