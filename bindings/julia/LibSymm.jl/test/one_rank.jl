using Serialization: serialize

@testset "a group of one" begin
    group = Group(; backend=:host, name="alone", timeout=20, create_timeout=20)
    @test group.rank == 0
    @test group.size == 1
    @test group.backend == :host
    @test sprint(show, group) == "Group(rank 0 of 1, host)"

    about = LibSymm.info(group)
    @test about.name == "alone"
    @test about.channels > 0
    @test (about.timeout_ms, about.create_timeout_ms) == (20_000, 20_000)
    nobody = (rank=nothing, pid=nothing, os_error=nothing, cuda_result=nothing)
    @test status(group) == (; status=LibSymm.SYMM_OK, message="", nobody...)
    @test string(status(group).status) == "SYMM_OK"
    barrier(group)

    flags_of(g) = LibSymm.info(g).flags
    is_set(flag, g) = flags_of(g) & flag != 0

    @testset "options that are yes, no or neither" begin
        made(; options...) = Group(; backend=:host, options...)
        @test is_set(LibSymm.SYMM_GROUP_CHECK, made(; check=true))
        @test is_set(LibSymm.SYMM_GROUP_NO_CHECK, made(; check=false))
        @test is_set(LibSymm.SYMM_GROUP_ANY_ORDER, made(; any_order=true))
        @test is_set(LibSymm.SYMM_GROUP_RANK_ORDER, made(; any_order=false))
        @test is_set(LibSymm.SYMM_GROUP_TREE_ORDER, made(; tree_order=true, any_order=false))
        @test is_set(LibSymm.SYMM_GROUP_RANK_ORDER, made(; tree_order=false))
        @test is_set(LibSymm.SYMM_GROUP_NO_MULTICAST, made(; multicast=false))
        @test flags_of(made(; same_offsets=false)) == flags_of(made())
        @test_throws ArgumentError made(; checks=true)
        @test_throws ArgumentError made(; check=1)
    end

    @testset "variables at load" begin
        made(; options...) = Group(; backend=:host, options...)
        before = flags_of(made(; variables_at_load=true))
        withenv("SYMM_ORDER" => "any") do
            @test flags_of(made(; variables_at_load=true)) == before
            @test flags_of(made()) == before | LibSymm.SYMM_GROUP_ANY_ORDER
        end
    end

    @testset "groups made of a group" begin
        parent = Group(; backend=:host, name="parent", check=true, same_offsets=true, channels=5)
        makers = (
            (; options...) -> LibSymm.split(parent, 0; options...),
            (; options...) -> create_from_ranks(parent, [0]; options...),
            (; options...) -> local_group(parent; options...),
            (; options...) -> shrink(parent; options...),
        )
        for make in makers
            same = LibSymm.info(make())
            @test same.flags == flags_of(parent)
            @test same.channels == 5
            @test same.timeout_ms == LibSymm.info(parent).timeout_ms

            other = make(;
                name="part",
                timeout=30,
                create_timeout=7,
                group_timeout=Inf,
                check=false,
                same_offsets=false,
                channels=3,
            )
            about = LibSymm.info(other)
            @test about.name == "part"
            @test about.create_timeout_ms == 7000
            @test about.timeout_ms == LibSymm.SYMM_TIMEOUT_INFINITE
            @test about.channels == 3
            @test !is_set(LibSymm.SYMM_GROUP_CHECK, other)
            @test !is_set(LibSymm.SYMM_GROUP_SAME_OFFSETS, other)
            now() = make(; timeout=0)
            @test refused(now, LibSymm.SYMM_ERR_INVALID_ARGUMENT, "timeout: 0 means")
        end
        @test LibSymm.split(parent, -1; name="none") === nothing
    end

    @testset "a device asks for CUDA" begin
        status_of(; options...) = error_of(() -> close(Group(; options...))).status
        for device in (0, "cuda", "cuda:0")
            @test status_of(; device=device) == status_of(; backend=:cuda)
        end
        @test_throws ArgumentError Group(; device="gpu")
    end

    @testset "counts" begin
        counted = Group(; backend=:host)
        barrier(counted)
        allreduce!([1.0, 2.0, 3.0], +, counted)
        allgather!([1.0], [1.0], counted)
        @test LibSymm.stats(counted).barriers == 1
        @test LibSymm.collective_stats(counted, :allreduce) == (calls=1, bytes=24)
        @test LibSymm.collective_stats(counted, :allgather) == (calls=1, bytes=8)
        @test LibSymm.collective_stats(counted, :reduce).calls == 0
        calls_by(algorithm) = LibSymm.algorithm_stats(counted, algorithm).calls
        @test sum(calls_by, last.(LibSymm.ALGORITHMS.values)) == 2
        @test_throws ArgumentError LibSymm.collective_stats(counted, :allreduces)
    end

    @testset "arrays" begin
        A = SymmArray{Float32}(group, 4, 5)
        @test A isa DenseArray{Float32,2}
        @test size(A) == (4, 5)
        @test strides(A) == (1, 4)
        @test all(iszero, A)

        A .= reshape(1:20, 4, 5)
        @test A[3, 2] == 7
        @test A[end] == 20
        @test sum(A) == 210
        @test A' * A == Array(A)' * Array(A)
        @test similar(A) isa Array
        @test copy(view(A, :, 2)) == [5, 6, 7, 8]
        @test_throws BoundsError A[21]

        @test pointer(A) == pointer(A.memory)
        @test pointer(A, 3) == pointer(A) + 8
        @test peer(A, 0) == A
        @test pointer(peer(A, 0)) == pointer(A)
    end

    @testset "making arrays" begin
        @test SymmArray(group, [1 2; 3 4]) == [1 2; 3 4]
        @test isempty(SymmArray{Int64}(group, 0))
        @test_throws ArgumentError SymmArray{Complex{Float16}}(group, 4)

        memory = SymmArray(group, Float32.(1:20)).memory
        part = SymmArray{UInt8}(memory, 8; offset=4)
        @test part == reinterpret(UInt8, Float32[2, 3])
        @test_throws ArgumentError SymmArray{Float32}(memory, 20; offset=4)
        @test_throws ArgumentError SymmArray{Float32}(memory, 1; offset=2)
        @test_throws ArgumentError SymmArray{Float32}(memory, typemax(Int) ÷ 2, 8)
    end

    @testset "memories" begin
        A = SymmArray{Float32}(group, 4, 5)
        memory = A.memory
        found = LibSymm.find(group, pointer(A, 4))
        @test (found.rank, found.offset, found.memory.bytes) == (0, 12, 80)
        @test LibSymm.info(memory).bytes == 80
        @test unsafe_load(LibSymm.signal_pad(memory, 0)) == 0
        @test unsafe_load(LibSymm.pointer_table(memory)) == pointer(memory)
        pad = LibSymm.signal_pad(memory, 0)
        @test unsafe_load(LibSymm.signal_pad_table(memory)) == pad

        reason = LibSymm.info(memory).multicast_reason
        pointer_of() = LibSymm.multicast_pointer(memory)
        @test refused(pointer_of, LibSymm.SYMM_ERR_UNAVAILABLE, reason)
        @test LibSymm.info(Group(; backend=:host, multicast=true)).multicast == 0
    end

    @testset "what an object belongs to" begin
        id_of(x) = LibSymm.info(x).id
        buffer = Buffer(group, 64)
        memory = SymmMemory(group, buffer)
        @test id_of(LibSymm.group_of(buffer)) == id_of(group)
        @test pointer(LibSymm.buffer_of(memory)) == pointer(buffer)
        @test LibSymm.buffer_of(memory).bytes == 64

        # Another package may have only a handle.
        LibSymm.check(LibSymm.symm_memory_retain(memory))
        @test id_of(SymmMemory(memory.handle).group) == id_of(group)
        heap = Heap(group, 256)
        LibSymm.check(LibSymm.symm_heap_retain(heap))
        @test id_of(LibSymm.group_of(Heap(heap.handle).memory)) == id_of(group)

        short = Group(; backend=:host)
        orphan = Buffer(short, 64)
        close(short)
        @test refused(() -> LibSymm.group_of(orphan), LibSymm.SYMM_ERR_NOT_FOUND)
    end

    @testset "kinds of memory" begin
        buffer = Buffer(group, 4096; host=true)
        @test buffer.bytes == 4096
        @test unsafe_load(Ptr{UInt8}(pointer(buffer))) == 0

        whole() = LibSymm.export_dmabuf(buffer)
        @test refused(whole, LibSymm.SYMM_ERR_UNAVAILABLE, "DMA-BUF")
        odd() = LibSymm.export_dmabuf(buffer; offset=8)
        @test refused(odd, LibSymm.SYMM_ERR_INVALID_ARGUMENT, "offset")
        adopted() = LibSymm.adopt(group, pointer(buffer), 16)
        @test refused(adopted, LibSymm.SYMM_ERR_UNSUPPORTED, "pointer")
        close(buffer)

        on_node(node) = () -> Buffer(group, 64; host=true, node=node)
        @test refused(on_node(0), LibSymm.SYMM_OK) ||
            refused(on_node(0), LibSymm.SYMM_ERR_UNAVAILABLE, "mbind")
        @test refused(on_node(65534), LibSymm.SYMM_ERR_INVALID_ARGUMENT)
        @test_throws ArgumentError on_node(-1)()
        # In a host group all memory is the host's.
        alone() = Buffer(group, 64; node=0)
        @test error_of(alone).status == error_of(on_node(0)).status
    end

    @testset "heap" begin
        heap = Heap(group, 10000; name="small")
        A = SymmArray{Float64}(heap, 5, 100; alignment=4096)
        A .= 3
        @test sum(A) == 1500
        @test A.offset == 0
        @test LibSymm.info(heap).name == "small"
        @test LibSymm.info(heap).pieces == 1
        @test LibSymm.find(heap, pointer(A, 500)) == (offset=0, bytes=4000)
        @test LibSymm.find(heap, pointer(heap.memory) + 4000) === nothing

        LibSymm.free(heap, A)
        @test isempty(SymmArray{Int}(heap, 0))
        @test LibSymm.alloc(heap, 1) == 0
        close(heap)
        @test sum(A) == 1500
        @test sprint(show, heap) == "Heap(10240 bytes of each of 1 ranks, closed)"
        @test refused(() -> LibSymm.alloc(heap, 1), LibSymm.SYMM_ERR_INVALID_HANDLE)
    end

    @testset "operands" begin
        A = SymmArray(group, collect(1.0:6.0))
        @test allreduce!(A, +) === A
        @test allreduce(A, max) == 1:6
        @test allreduce!([1, 2], +, group) == [1, 2]
        @test allreduce!(zeros(3), view(A, 2:4), +) == 2:4
        @test allreduce!(view(A, 1:2), *) == 1:2

        private = zeros(Int32, 3)
        GC.@preserve private begin
            span = Span{Int32}(UInt(pointer(private)), 3)
            @test allreduce!(private, span, +, group) == [0, 0, 0]
        end

        counts = UInt8[200]
        gaps = UInt8[200]
        B = fill(7, 400)
        @test allgatherv!(B, counts, group; displacements=gaps) == fill(7, 400)
    end

    @testset "times of any type and length" begin
        for seconds in (1e30, Inf, 1.8e16, big(10)^400, typemax(UInt128), Inf16, prevfloat(Inf))
            @test LibSymm.milliseconds(seconds) == LibSymm.SYMM_TIMEOUT_INFINITE
        end
        for seconds in (70, Float16(70), Int8(70), 70 // 1, 7 * 10^17 // 10^16, big(70.0))
            @test LibSymm.milliseconds(seconds) == 70_000
        end
        for seconds in (1e-30, nextfloat(0.0), big(10.0)^-400, 1 // typemax(Int))
            @test LibSymm.milliseconds(seconds) == 1
        end
        @test LibSymm.milliseconds(1.7e16) == 17 * UInt64(10)^18
        barrier(group; timeout=1e30)
        @test_throws ArgumentError barrier(group; timeout=NaN)
    end

    # A call that cannot look once says so by the name of its keyword.
    @testset "a time of 0" begin
        A = SymmArray{Float32}(group, 4)
        buffer = Buffer(group, 64)
        barrier(group; timeout=0)
        @test refused(() -> wait_signal(A, 0; timeout=0), LibSymm.SYMM_ERR_TIMEOUT)
        refusing = (
            () -> allreduce!(A, +; timeout=0),
            () -> signal!(A, 0; timeout=0),
            () -> LibSymm.put!(A, 0, zeros(Float32, 1); timeout=0),
            () -> write_value!(A, 1, 0; timeout=0),
            () -> SymmMemory(group, buffer; timeout=0),
            () -> Heap(group, 4096; timeout=0),
            () -> finalize_group(group; timeout=0),
        )
        for call in refusing
            why = error_of(call)
            @test why.status == LibSymm.SYMM_ERR_INVALID_ARGUMENT
            @test startswith(why.message, "timeout: 0 means to look once")
        end
        named = () -> Group(; backend=:host, create_timeout=0)
        @test startswith(error_of(named).message, "create_timeout: 0 means to look once")
    end

    @testset "handles are neither copied nor serialized" begin
        A = SymmArray{Float32}(group, 4)
        heap = Heap(group, 4096)
        for x in (group, A, A.memory, heap, (inside=[A.memory],))
            @test_throws ArgumentError serialize(IOBuffer(), x)
            @test_throws ArgumentError deepcopy(x)
        end
        @test deepcopy(Array(A)) == A
        close(heap)
    end

    @testset "what an element was" begin
        A = SymmArray(group, [1.0, 2.0])
        seen = [0.0]
        @test LibSymm.atomic!(A, :swap, 3.0, 0) === 1.0
        @test LibSymm.atomic!(A, :swap, 4.0, 0; into=seen) === nothing
        @test seen == [3.0]

        small = zeros(Float32, 1)
        refused = @test_throws ArgumentError LibSymm.atomic!(A, :swap, 5.0, 0; into=small)
        @test refused.value.msg == "into has 4 bytes, the element 8"
        @test A == [4.0, 2.0]
    end

    @testset "operands that are refused" begin
        A = SymmArray(group, collect(1.0:6.0))
        @test_throws ArgumentError allreduce!([1, 2], +)  # no group
        @test_throws ArgumentError allreduce!(view(A, 1:2:5), +)
        @test_throws ArgumentError allreduce!(A, -)
        @test_throws ArgumentError allreduce!(zeros(Float32, 6), A, +)
        @test_throws ArgumentError allreduce!("text", +, group)
        @test_throws ArgumentError allreduce!(A, +; algorithm=:fastest)
        @test_throws ArgumentError barrier(group; timeout=-1)
        @test_throws DimensionMismatch allreduce!(zeros(5), A, +)
        @test_throws DimensionMismatch alltoall!(zeros(5), A)
        @test_throws BoundsError LibSymm.put!(A, 0, [1.0, 2.0]; at=6)
        @test_throws ArgumentError LibSymm.put!(A, 0, [1, 2])

        counts = UInt8[200]
        gaps = UInt8[200]
        @test_throws DimensionMismatch allgatherv!(
            zeros(150), counts, zeros(200), group; displacements=gaps
        )
    end

    @testset "batches" begin
        A = [1.0, 2.0]
        B = zeros(Float32, 3)
        C = Float32[4, 5, 6]
        D = zeros(Int32, 4)
        E = zeros(Float32, 8)
        ran = batch(group; timeout=20, tag="a batch") do calls
            @test allreduce!(A, +, calls; scale=2) === A
            allgather!(B, C, calls)
            allgatherv!(D, [2], Int32[7, 8], calls; displacements=[1])
            allreduce_rmsnorm!(E, fill(3.0f0, 8), fill(2.0f0, 8), calls; epsilon=0)
            @test A == [1.0, 2.0]
        end
        @test ran === nothing
        @test A == [2.0, 4.0]
        @test B == C
        @test D == [0, 7, 8, 0]
        @test E ≈ fill(2.0f0, 8)

        refused = @test_throws SymmError batch(group) do calls
            allreduce!(A, +, calls)
            allreduce!(A, +, calls)
        end
        @test occursin("calls[1]: send: overlaps recv of calls[0]", refused.value.message)
        @test_throws DimensionMismatch batch(c -> allreduce!(A, [1.0], +, c), group)
        # Types are compared first.
        @test_throws ArgumentError batch(c -> allreduce!(A, B, +, c), group)
        @test_throws ArgumentError batch(c -> allreduce!(A, +, c; tag="no"), group)
        @test_throws ErrorException batch(group) do calls
            allreduce!(A, +, calls; scale=3)
            error("stop")
        end
        @test batch(calls -> nothing, group) === nothing
        @test A == [2.0, 4.0]
    end

    @testset "plans" begin
        A = SymmArray(group, collect(1.0:6.0))
        @test plan(:allreduce, A, A, +).algorithm isa Symbol
        @test !isempty(plan(:allgather, A, A).reason)
        @test !isempty(plan(:allgatherv, A, A; to_counts=[length(A)]).reason)
        @test startswith(plan(:allreduce, A, A, +; scale=0.5).reason, "f64: ")
        two_shot = plan(:allreduce, A, A, +; algorithm=:two_shot).algorithm
        @test two_shot in (:two_shot, :one_shot)
    end

    @testset "options of a collective" begin
        written(; options...) =
            unsafe_load(LibSymm.collective_options(frame, LibSymm.Choice(; options...)))
        frame = LibSymm.CallFrame()
        tag = "layer 3"
        two = Float32[2]
        GC.@preserve frame tag two begin
            seen = written(; algorithm=:two_shot, timeout=2, tag=tag, max_blocks=8)
            @test seen.algorithm == LibSymm.SYMM_ALGORITHM_TWO_SHOT
            @test (seen.timeout_ms, seen.max_blocks) == (2000, 8)
            @test unsafe_string(seen.tag) == tag
            @test seen.failure == frame.failure

            @test written(; order=:tree).order == LibSymm.SYMM_ORDER_TREE
            @test_throws ArgumentError written(; order=:bush)

            seen = written(; scale=two, scale_position=:after)
            @test seen.scale_position == LibSymm.SYMM_SCALE_AFTER
            @test seen.scale_pointer == pointer(two)
            @test (seen.scale, seen.timeout_ms, seen.tag) == (0, 0, Cstring(C_NULL))
            @test written(; scale=3).scale == 3
        end
        @test_throws ArgumentError LibSymm.tag_text("a\0b") |> LibSymm.text_for_c
        @test_throws MethodError allreduce!([1.0], +, group; tags="x")
    end

    @testset "a collective allocates nothing" begin
        A = SymmArray(group, collect(1.0:6.0))
        function once()
            allreduce!(A, +)
            return nothing
        end
        once()
        @test (@allocated once()) == 0
    end

    @testset "errors" begin
        relative() = Group(0, 2; bootstrap="dir://relative")
        @test refused(relative, LibSymm.SYMM_ERR_INVALID_ARGUMENT)
        @test_throws ArgumentError Group(; backend=:quantum)
        two_ways() = Group(0, 1; bootstrap="thread://two", store=Store(nothing, nothing))
        @test_throws ArgumentError two_ways()

        other = Group(; backend=:host)
        close(other)
        close(other)
        @test !isopen(other)
        @test refused(() -> barrier(other), LibSymm.SYMM_ERR_INVALID_HANDLE)
    end

    orders = ((1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1))
    @testset "finalizers in the order $order" for order in orders
        g = Group(; backend=:host)
        buffer = Buffer(g, 4096)
        memory = SymmMemory(g, buffer)
        things = (g, buffer, memory)
        foreach(i -> finalize(things[i]), order)
        @test !isopen(g)
        @test !isopen(buffer)
        @test !isopen(memory)
    end

    # In a function, so that only its result is alive.
    make() = SymmArray(Group(; backend=:host), [1, 2, 3])

    # Collects garbage while new blocks want its place.
    function collect_and_make()
        for _ in 1:3
            GC.gc()
            make()
            ipc_collect()
        end
    end

    @testset "the collector" begin
        # An array keeps its memory, and the memory its group.
        A = make()
        GC.gc()
        @test A == [1, 2, 3]
        @test allreduce!(A, +) == [1, 2, 3]
        B = view(make(), 2:3)
        GC.gc()
        @test B == [2, 3]

        # The bare array, which may be all that is left in a loop, keeps the memory too.
        data = make().data
        collect_and_make()
        @test data == [1, 2, 3]
        token = export_token(SymmArray(group, [4, 5, 6]); hold=20, imports=1)
        imported = import_token(Int, token).data
        collect_and_make()
        @test imported == [4, 5, 6]
    end

    @testset "a store that fails" begin
        no_ink(key, value, seconds) = error("no ink")
        keeps_nothing(key, value, seconds) = nothing
        has_nothing(key, seconds) = nothing
        broken = Store(no_ink, has_nothing)
        with(store) = Group(0, 2; store=store, create_timeout=0.2, backend=:host)
        @test_throws ErrorException("no ink") with(broken)

        silent = Store(keeps_nothing, has_nothing)
        @test refused(() -> with(silent), LibSymm.SYMM_ERR_TIMEOUT)

        # A call that the store makes has its own failure, and the creation has its own.
        seen = []
        function fails(key, seconds)
            push!(seen, error_of(() -> barrier(group; channel=1000)))
            return nothing
        end
        @test refused(() -> with(Store(keeps_nothing, fails)), LibSymm.SYMM_ERR_TIMEOUT)
        @test startswith(first(seen).message, "channel: 1000 ")
    end

    @testset "devices" begin
        about = only(LibSymm.devices(:host))
        @test about.backend === :host
        @test !isempty(about.name)
        @test about.host_memory == 1
        @test about.numa_node == -1
        @test about.host_memory_reason == ""
        topology = (class=:fully_connected, links=zeros(Int32, 1, 1))
        @test LibSymm.topology(:host) == topology
    end

    @testset "tokens" begin
        A = SymmArray(group, collect(Float32, 1:100))
        before = ipc_stats().leases
        token = export_token(A)
        @test 0 < length(token) <= LibSymm.SYMM_IPC_TOKEN_MAX_BYTES

        B = import_token(Float32, token)
        @test B isa DenseArray
        @test B == A
        @test LibSymm.info(B).bytes == 400
        B[7] = -1
        @test A[7] == -1

        C = import_token(Float32, export_token(view(A, 3:6)), 2, 2)
        @test C == [3 5; 4 6]
        @test ipc_stats().leases == before + 2
        @test isempty(import_token(Float32, export_token(view(A, 1:0))))
        close(B)
        finalize(C.data)

        made = import_token(export_token(A.memory))
        stream_wait(made)
        record_use(made)
        @test made.bytes == 400
        @test unsafe_load(Ptr{Float32}(pointer(made))) == 1
        close(made)

        # No time to hold the memory, whatever the environment says.
        kept_by_none() = export_token(A; hold=0, imports=1)
        @test refused(kept_by_none, LibSymm.SYMM_ERR_INVALID_ARGUMENT)
        @test length(export_token(A; hold=0)) > 0

        private() = export_token(zeros(4))
        @test refused(private, LibSymm.SYMM_ERR_INVALID_ARGUMENT)
        @test ipc_collect().limbo_bytes == 0
    end

    @testset "imports for reading only" begin
        A = SymmArray(group, collect(Float32, 1:100))
        B = import_token(Float32, export_token(A); read_only=true)
        @test LibSymm.info(B).flags == LibSymm.SYMM_IPC_READ_ONLY
        @test B == A
        @test_throws ReadOnlyMemoryError B[1] = 2
        A[1] = 3
        @test B[1] == 3
    end

    @testset "bundles" begin
        A = SymmArray(group, reshape(collect(Float32, 1:12), 3, 4))
        B = SymmArray(group, collect(Int64, 1:5))
        before = ipc_stats().leases
        token = export_bundle(["weight" => A, "steps" => B, "part" => view(B, 2:3)])
        @test length(token) <= LibSymm.SYMM_IPC_TOKEN_MAX_BYTES
        bundle = import_bundle(token)
        @test length(bundle) == 3
        @test keys(bundle) == ["weight", "steps", "part"]
        @test haskey(bundle, "part") && !haskey(bundle, "par")
        @test bundle["weight"] == A
        @test bundle["part"] == [2, 3]
        @test bundle["steps"] isa DenseArray{Int64,1}
        @test_throws KeyError bundle["none"]
        @test_throws ReadOnlyMemoryError bundle["steps"][1] = 2
        @test ipc_stats().leases == before + 1
        import_bundle(token; read_only=false)["steps"][1] = 7
        @test B[1] == 7
        close(bundle)

        twice() = export_bundle(["a" => A, "a" => B])
        @test refused(twice, LibSymm.SYMM_ERR_INVALID_ARGUMENT)
        private() = export_bundle(["a" => zeros(4)])
        @test refused(private, LibSymm.SYMM_ERR_INVALID_ARGUMENT)
    end

    @testset "versions" begin
        A = SymmArray(group, collect(Float32, 1:10))
        B = SymmArray(group, collect(Float32, 1:10))
        ipc_publish("julia", 1, export_bundle(["a" => A]))
        ipc_publish("julia", 2, export_bundle(["a" => B]))
        @test ipc_lookup("julia"; timeout=0).version == 2
        @test ipc_lookup("julia", <, 2; timeout=0).version == 1
        @test refused(
            () -> ipc_lookup("julia", >, 2; timeout=0), LibSymm.SYMM_ERR_TIMEOUT
        )
        held = import_bundle(ipc_lookup("julia", ==, 1).token)
        @test refused(
            () -> ipc_withdraw_version("julia", 1; timeout=0), LibSymm.SYMM_ERR_TIMEOUT
        )
        close(held)
        ipc_withdraw_version("julia", 1)
        ipc_publish("julia", 3, export_bundle(["a" => A]); keep=1)
        @test refused(
            () -> ipc_lookup("julia", ==, 2; timeout=0), LibSymm.SYMM_ERR_TIMEOUT
        )
    end

    @testset "memory that is short" begin
        asked = []
        too_much = 1 << 50  # no machine has so many bytes
        give_one(backend, device, wanted) = (push!(asked, (backend, device, wanted)); 1)
        give_none(backend, device, wanted) = (push!(asked, wanted); 0)
        stops = [on_memory_pressure(give_one), on_memory_pressure(give_none)]
        @test refused(() -> Buffer(group, too_much), LibSymm.SYMM_ERR_OUT_OF_MEMORY)
        @test asked == [(:host, 0, too_much), too_much]
        Buffer(group, 64)
        foreach(stop -> stop(), stops)
        @test refused(() -> Buffer(group, too_much), LibSymm.SYMM_ERR_OUT_OF_MEMORY)
        @test length(asked) == 2

        attempts = Ref(0)
        stop = on_memory_pressure((_...) -> 1)
        @test LibSymm.with_relief(group, 64) do
            attempts[] += 1
            attempts[] == 1 && throw(SymmError(LibSymm.SYMM_ERR_OUT_OF_MEMORY, "short"))
            return attempts[]
        end == 2
        stop()
    end

    finalize_group(group; timeout=5)
    @test refused(() -> barrier(group), LibSymm.SYMM_ERR_INVALID_HANDLE)
end

@testset "log messages" begin
    seen = []
    function keep_and_fail(level, message)
        push!(seen, (level, message))
        return error("of the function")
    end
    on_log(keep_and_fail, :debug)
    close(Group(; backend=:host, name="100% %s logged"))
    @test_logs (:error, r"on_log") match_mode = :any LibSymm.flush_log()
    is_named((level, message)) = level === :info && occursin("100% %s logged", message)
    @test any(is_named, seen)

    # Messages of the library's own thread are in ranks.jl.
    on_log(nothing)
    count = length(seen)
    close(Group(; backend=:host))
    LibSymm.flush_log()
    @test length(seen) == count
    @test_throws ArgumentError on_log(println, :chatty)
end
