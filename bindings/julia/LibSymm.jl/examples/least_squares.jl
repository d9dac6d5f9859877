# Least squares on the GPUs of all ranks, with CUDA.jl: each rank has rows of its own, and all have
# one solution, by gradient descent.
#
#   symm run -n 4 -- julia --project=<with CUDA and LibSymm> least_squares.jl
#
# It was never run on a GPU: the test runs it with a stand-in for CUDA.jl, on the host, which is
# what the argument "host" is for.
using CUDA
using LibSymm

# A GPU for each rank, which CUDA.jl then uses, too.
group = Group(; backend=get(ARGS, 1, "cuda") == "host" ? :host : :cuda)
if group.backend === :cuda
    CUDA.device!(LibSymm.peer_info(group, group.rank).device)
end

# The rows of this rank, and what they are to be.
rows, columns = 1024, 8
truth = CuArray(Float32.(1:columns))
A = CuArray([sin(Float32(i * j + group.rank)) for i in 1:rows, j in 1:columns])
b = A * truth

# The gradient lies in symmetric memory, so the all-reduce reads and writes it where it is. Without
# a stream it is ordered on this task's, like the work of CUDA.jl before and after it.
memory = SymmMemory(group, columns * sizeof(Float32))
gradient = CuArray{Float32}(memory, columns)
x = CuArray(zeros(Float32, columns))
rate = 1.0f0 / (rows * group.size)
for step in 1:100
    gradient .= A' * (A * x .- b)
    allreduce!(gradient, +, group)
    x .-= rate .* gradient
end

# The sums have the same bits on all ranks, so the solutions have, too.
solution = Array(x)
largest = maximum(abs, solution .- (1:columns))
println("rank $(group.rank) of $(group.size): off by $largest, bits $(hash(solution))")
finalize_group(group)
