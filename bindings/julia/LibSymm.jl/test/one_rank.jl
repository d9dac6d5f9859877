@testset "a group of one" begin
    group = Group(backend=:host, name="alone", timeout=20, create_timeout=20)
    @test (group.rank, group.size, group.backend) == (0, 1, :host)
    @test LibSymm.info(group).name == "alone" && LibSymm.info(group).channels > 0
    @test string(status(group).status) == "SYMM_OK"
    # of a newer library
    @test LibSymm.status_name(reinterpret(LibSymm.symm_status_t, Int32(-99))) == "unknown status -99"
    @test status(group) == (status=LibSymm.SYMM_OK, failed_rank=-1, failed_pid=0, message="")
    @test sprint(show, group) == "Group(rank 0 of 1, host)"
    barrier(group)

    @testset "arrays" begin
        A = SymmArray{Float32}(group, 4, 5)
        @test A isa DenseArray{Float32,2} && size(A) == (4, 5) && strides(A) == (1, 4) && all(iszero, A)
        A .= reshape(1:20, 4, 5)
        @test A[3, 2] == 7 && A[end] == 20 && sum(A) == 210 && A' * A == Array(A)' * Array(A)
        @test pointer(A) == pointer(A.memory) && pointer(A, 3) == pointer(A) + 8
        @test peer(A, 0) == A && pointer(peer(A, 0)) == pointer(A)
        @test similar(A) isa Array && copy(view(A, :, 2)) == [5, 6, 7, 8]
        @test SymmArray(group, [1 2; 3 4]) == [1 2; 3 4]
        @test isempty(SymmArray{Int64}(group, 0))
        @test SymmArray{UInt8}(A.memory, 8; offset=4) == reinterpret(UInt8, Float32[2, 3])
        @test_throws ArgumentError SymmArray{Float32}(A.memory, 20; offset=4)
        @test_throws ArgumentError SymmArray{Float32}(A.memory, 1; offset=2)
        @test_throws ArgumentError SymmArray{Float32}(A.memory, typemax(Int) ÷ 2, 8)
        @test_throws ArgumentError SymmArray{Complex{Float32}}(group, 4)
        @test_throws BoundsError A[21]
        found = LibSymm.find(group, pointer(A, 4))
        @test (found.rank, found.offset, found.memory.bytes) == (0, 12, 80)
        @test LibSymm.info(A.memory).bytes == 80 && unsafe_load(LibSymm.signal_pad(A.memory, 0)) == 0
        @test unsafe_load(LibSymm.pointer_table(A.memory)) == pointer(A.memory)
        @test unsafe_load(LibSymm.signal_pad_table(A.memory)) == LibSymm.signal_pad(A.memory, 0)
        why = error_of(() -> LibSymm.multicast_pointer(A.memory))
        @test why.status == LibSymm.SYMM_ERR_UNAVAILABLE && occursin(LibSymm.info(A.memory).multicast_reason, why.message)
        @test LibSymm.info(Group(backend=:host, multicast=true)).multicast == 0
    end

    @testset "kinds of memory" begin
        buffer = Buffer(group, 4096; host=true)
        @test buffer.bytes == 4096 && unsafe_load(Ptr{UInt8}(pointer(buffer))) == 0
        refused(f, status, words="") = (why = error_of(f); why.status == status && occursin(words, why.message))
        @test refused(() -> LibSymm.export_dmabuf(buffer), LibSymm.SYMM_ERR_UNAVAILABLE, "DMA-BUF")
        @test refused(() -> LibSymm.export_dmabuf(buffer; offset=8), LibSymm.SYMM_ERR_INVALID_ARGUMENT, "offset")
        @test refused(() -> LibSymm.adopt(group, pointer(buffer), 16), LibSymm.SYMM_ERR_UNSUPPORTED, "pointer")
        bound() = Buffer(group, 64; host=true, node=0)
        @test refused(bound, LibSymm.SYMM_OK) || refused(bound, LibSymm.SYMM_ERR_UNAVAILABLE, "mbind")
        @test refused(() -> Buffer(group, 64; host=true, node=65534), LibSymm.SYMM_ERR_INVALID_ARGUMENT)
        @test refused(() -> Buffer(group, 64; node=0), LibSymm.SYMM_ERR_INVALID_ARGUMENT)
        @test_throws ArgumentError Buffer(group, 64; host=true, node=-1)
        about = only(LibSymm.devices(:host))
        @test about.host_memory == 1 && about.numa_node == -1 && about.host_memory_reason == ""
        close(buffer)
    end

    @testset "heap" begin
        heap = Heap(group, 10000; name="small")
        A = SymmArray{Float64}(heap, 5, 100; alignment=4096)
        A .= 3
        @test sum(A) == 1500 && A.offset == 0 && LibSymm.info(heap).name == "small" && LibSymm.info(heap).pieces == 1
        @test LibSymm.find(heap, pointer(A, 500)) == (offset=0, bytes=4000) && LibSymm.find(heap, pointer(heap.memory) + 4000) === nothing
        LibSymm.free(heap, A)
        @test isempty(SymmArray{Int}(heap, 0)) && LibSymm.alloc(heap, 1) == 0
        close(heap)
        @test sum(A) == 1500 && sprint(show, heap) == "Heap(10240 bytes of each of 1 ranks, closed)"
        @test error_of(() -> LibSymm.alloc(heap, 1)).status == LibSymm.SYMM_ERR_INVALID_HANDLE
    end

    @testset "operands" begin
        A = SymmArray(group, collect(1.0:6.0))
        @test allreduce!(A, +) === A && allreduce(A, max) == 1:6
        @test allreduce!([1, 2], +, group) == [1, 2]
        @test allreduce!(zeros(3), view(A, 2:4), +) == 2:4
        @test allreduce!(view(A, 1:2), *) == 1:2
        private = zeros(Int32, 3)
        @test GC.@preserve private allreduce!(private, Span{Int32}(UInt(pointer(private)), 3), +, group) == [0, 0, 0]
        @test_throws ArgumentError allreduce!([1, 2], +)  # of no group
        @test_throws ArgumentError allreduce!(view(A, 1:2:5), +)
        @test_throws ArgumentError allreduce!(A, -)
        @test_throws ArgumentError allreduce!(zeros(Float32, 6), A, +)
        @test_throws ArgumentError allreduce!("text", +, group)
        @test_throws DimensionMismatch allreduce!(zeros(5), A, +)
        @test_throws DimensionMismatch alltoall!(zeros(5), A)
        @test_throws DimensionMismatch allgatherv!(zeros(150), UInt8[200], zeros(200), group; displacements=UInt8[200])
        @test allgatherv!(fill(7, 400), UInt8[200], group; displacements=UInt8[200]) == fill(7, 400)
        @test_throws ArgumentError allreduce!(A, +; algorithm=:fastest)
        @test_throws ArgumentError barrier(group; timeout=-1)
        @test_throws BoundsError LibSymm.put!(A, 0, [1.0, 2.0]; at=6)
        @test_throws ArgumentError LibSymm.put!(A, 0, [1, 2])
        @test plan(:allreduce, A, A, +).algorithm isa Symbol && !isempty(plan(:allgather, A, A).reason)
        @test !isempty(plan(:allgatherv, A, A; to_counts=[length(A)]).reason)
        @test startswith(plan(:allreduce, A, A, +; scale=0.5).reason, "f64: ")
        @test plan(:allreduce, A, A, +; algorithm=:two_shot).algorithm in (:two_shot, :one_shot)
        once() = (allreduce!(A, +); nothing)
        once()
        @test (@allocated once()) == 0
    end

    @testset "errors" begin
        @test error_of(() -> Group(0, 2, "dir://relative")).status == LibSymm.SYMM_ERR_INVALID_ARGUMENT
        @test_throws ArgumentError Group(backend=:quantum)
        other = Group(backend=:host)
        close(other)
        close(other)
        @test !isopen(other) && error_of(() -> barrier(other)).status == LibSymm.SYMM_ERR_INVALID_HANDLE
    end

    # In a function, so that nothing but the variables is alive.
    make() = SymmArray(Group(backend=:host), [1, 2, 3])

    @testset "finalizers, in every order" begin
        for order in ((1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1))
            g = Group(backend=:host)
            buffer = Buffer(g, 4096)
            memory = SymmMemory(g, buffer)
            foreach(i -> finalize((g, buffer, memory)[i]), order)
            @test !isopen(g) && !isopen(buffer) && !isopen(memory)
        end
        # What the collector finds: an array keeps its memory, and the memory its group.
        A = make()
        GC.gc()
        @test A == [1, 2, 3] && allreduce!(A, +) == [1, 2, 3]
        # Even if only the bare array is left, as in a loop, while new blocks want its place.
        data = make().data
        foreach(_ -> (GC.gc(); make()), 1:3)
        @test data == [1, 2, 3]
        given = import_token(Int, export_token(SymmArray(group, [4, 5, 6]); hold=20, imports=1)).data
        foreach(_ -> (GC.gc(); make(); ipc_collect()), 1:3)
        @test given == [4, 5, 6]
        B = view(make(), 2:3)
        GC.gc()
        @test B == [2, 3]
    end

    @testset "a store that fails" begin
        broken = Store((key, value, seconds) -> error("no ink"), (key, seconds) -> nothing)
        @test_throws ErrorException("no ink") Group(0, 2, broken; create_timeout=5)
        silent = Store((key, value, seconds) -> nothing, (key, seconds) -> nothing)
        @test error_of(() -> Group(0, 2, silent; create_timeout=0.2, backend=:host)).status == LibSymm.SYMM_ERR_TIMEOUT
    end

    @testset "devices" begin
        @test length(LibSymm.devices(:host)) == 1 && LibSymm.devices(:host)[1].backend === :host && !isempty(LibSymm.devices(:host)[1].name)
        @test LibSymm.topology(:host) == (class=:fully_connected, links=zeros(Int32, 1, 1))
    end

    @testset "tokens" begin
        A = SymmArray(group, collect(Float32, 1:100))
        before = ipc_stats().leased
        token = export_token(A)
        @test 0 < length(token) <= LibSymm.SYMM_IPC_TOKEN_MAX_SIZE
        B = import_token(Float32, token)
        @test B isa DenseArray && B == A && LibSymm.info(B).bytes == 400
        B[7] = -1
        @test A[7] == -1
        C = import_token(Float32, export_token(view(A, 3:6)), 2, 2)
        @test C == [3 5; 4 6] && ipc_stats().leased == before + 2
        @test isempty(import_token(Float32, export_token(view(A, 1:0))))
        close(B)
        finalize(C.data)
        made = import_token(export_token(A.memory))
        stream_wait(made)
        record_use(made)
        @test made.bytes == 400 && unsafe_load(Ptr{Float32}(pointer(made))) == 1
        close(made)
        @test error_of(() -> export_token(zeros(4))).status == LibSymm.SYMM_ERR_INVALID_ARGUMENT
        @test ipc_collect().bytes_in_limbo == 0
    end

    finalize_group(group; timeout=5)
    @test error_of(() -> barrier(group)).status == LibSymm.SYMM_ERR_INVALID_HANDLE
end

@testset "log messages" begin
    seen = []
    on_log((level, message) -> (push!(seen, (level, message)); error("of the function")), :debug)
    close(Group(backend=:host, name="100% %s logged"))
    @test_logs (:error, r"on_log") match_mode = :any LibSymm.flush_log()
    @test any(line -> line[1] === :info && occursin("100% %s logged", line[2]), seen)

    # ranks.jl has messages from the library's own thread.
    on_log(nothing)
    count = length(seen)
    close(Group(backend=:host))
    LibSymm.flush_log()
    @test length(seen) == count
    @test_throws ArgumentError on_log(println, :chatty)
end
