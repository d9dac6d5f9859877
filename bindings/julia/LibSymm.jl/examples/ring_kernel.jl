# A kernel of your own in CUDA.jl that stores into the memory of another rank: numbers go once round
# the ranks, and each rank adds 1.
#
#   symm run -n 4 -- julia --project=<with CUDA and LibSymm> ring_kernel.jl
#
# It was never run on a GPU: the test runs it with a stand-in for CUDA.jl, on the host, which is
# what the argument "host" is for.
using CUDA
using LibSymm

# Kernels load from and store to the block of any rank that is mapped here, like any other memory.
function pass_on!(inbox, numbers)
    i = (blockIdx().x - 1) * blockDim().x + threadIdx().x
    if i <= length(numbers)
        inbox[i] = numbers[i] + Int32(1)
    end
    return nothing
end

group = Group(; backend=get(ARGS, 1, "cuda") == "host" ? :host : :cuda)
if group.backend === :cuda
    CUDA.device!(LibSymm.peer_info(group, group.rank).device)
end
right = mod(group.rank + 1, group.size)
left = mod(group.rank - 1, group.size)

elements = 1000
memory = SymmMemory(group, elements * sizeof(Int32))
inbox = CuArray{Int32}(memory, elements)
inbox_of_right = CuArray{Int32}(memory, elements; rank=right)
numbers = CuArray(fill(Int32(1000 * group.rank), elements))

# Signals order the kernels of different ranks. All of this is on this task's stream.
arrived, was_read = 0, 1
for step in 1:group.size
    @cuda threads = 256 blocks = cld(elements, 256) pass_on!(inbox_of_right, numbers)
    signal!(memory, right; channel=arrived)
    wait_signal(memory, left; channel=arrived)
    numbers .= inbox
    signal!(memory, left; channel=was_read)
    wait_signal(memory, right; channel=was_read)
end

wrong = sum(Array(numbers) .!= 1000 * group.rank + group.size)
println("rank $(group.rank) of $(group.size): $wrong numbers wrong after a round")
finalize_group(group)
