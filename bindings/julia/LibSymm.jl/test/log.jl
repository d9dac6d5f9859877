@testset "log messages" begin
    seen = []
    on_log((level, message) -> push!(seen, (level, message)), :debug)
    close(Group(backend=:host, name="100% %s logged"))
    LibSymm.flush_log()
    @test any(line -> line[1] === :info && occursin("100% %s logged", line[2]), seen)

    # ranks.jl has messages from the library's own thread.
    on_log(nothing)
    count = length(seen)
    close(Group(backend=:host))
    LibSymm.flush_log()
    @test length(seen) == count
    @test_throws ArgumentError on_log(println, :chatty)
end
