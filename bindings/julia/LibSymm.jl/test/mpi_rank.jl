# A rank of extensions.jl. Julia before 1.9 loads no extensions, so the extension is included here.
using LibSymm

pushfirst!(LOAD_PATH, joinpath(@__DIR__, "standin"))
import MPI
@static if VERSION < v"1.9"
    include(joinpath(@__DIR__, "..", "ext", "LibSymmMPIExt.jl"))
end

MPI.Init()
comm = MPI.world()
group = Group(comm; backend=:host, create_timeout=20)
place = (group.rank, group.size)
place == (MPI.Comm_rank(comm), 2) || error("rank $(group.rank) of $(group.size)")
allreduce!([group.rank + 1.0], +, group) == [3.0] || error("a wrong sum")
close(group)
MPI.Finalize()
