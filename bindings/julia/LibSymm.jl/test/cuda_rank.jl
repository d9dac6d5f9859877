# A rank of extensions.jl: the example for CUDA.jl that the argument names, with the stand-in. Julia
# before 1.9 loads no extensions, so the extension is included here.
using LibSymm

pushfirst!(LOAD_PATH, joinpath(@__DIR__, "standin"))
import CUDA
@static if VERSION < v"1.9"
    include(joinpath(@__DIR__, "..", "ext", "LibSymmCUDAExt.jl"))
end

const EXAMPLE = pop!(ARGS)
push!(empty!(ARGS), "host")
include(joinpath(@__DIR__, "..", "examples", EXAMPLE))
