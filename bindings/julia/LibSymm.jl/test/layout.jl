# How Julia lays out the mirrors of the header's structs, compared with what a C compiler has said.

@testset "layout of structs" begin
    golden = normpath(@__DIR__, "..", "..", "..", "..", "tests", "abi", "layout.txt")
    seen, T = 0, Nothing
    for line in split(replace(read(golden, String), "; " => "\n  "), '\n')
        words = split(line)
        if !isempty(words) && words[1] == "struct"
            T = getfield(LibSymm, Symbol(words[2]))
            seen += 1
            @test T in LibSymm.STRUCTS && sizeof(T) == parse(Int, words[4])
            @test unsafe_load(Ptr{Csize_t}(Base.unsafe_convert(Ptr{T}, LibSymm.sized(T)))) == sizeof(T)
        elseif length(words) == 5 && words[2] == "offset"
            field = findfirst(==(Symbol(words[1])), fieldnames(T))
            @test fieldoffset(T, field) == parse(Int, words[3]) && sizeof(fieldtype(T, field)) == parse(Int, words[5])
        elseif length(words) == 2 && startswith(words[1], "SYMM_")
            @test getfield(LibSymm, Symbol(words[1])) == parse(Int, words[2])
        elseif !isempty(words) && words[1] == "typedef" && words[3] == "size"
            @test sizeof(getfield(LibSymm, Symbol(words[2]))) == parse(Int, words[4])
        end
    end
    @test seen == length(LibSymm.STRUCTS)
end
