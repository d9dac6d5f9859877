# How the generated layer calls the library.

"""Names of the library's functions, in the order in which `@call` and `@waiting` defined them."""
const FUNCTIONS = Symbol[]

"""
`@call f(a::T, b::U)::R`: define `f(a, b)`, which calls the function `f` of the library as `ccall`
does.
"""
macro call(signature)
    name, arguments, types, result = take_apart(signature)
    find = :($(GlobalRef(@__MODULE__, :address))($(index_of(name))))
    body = :(ccall($find, $result, ($(types...),), $(arguments...)))
    return defined(name, arguments, body)
end

"""
`@waiting f(a::T, b::U)::R`: as `@call`, for functions that may wait. Other threads of Julia may
collect garbage during the call. Otherwise a thread that allocates would stop until the call
returns, and if the call waits for this very thread, for ever. The function must not call back into
Julia.

The task that calls cannot be switched: its thread of Julia is blocked. `@waiting g f(a::T)::R`
calls the Julia function `g`.
"""
macro waiting(signature)
    return waiting(signature.args[1].args[1], signature)
end

macro waiting(own, signature)
    return waiting(own, signature)
end

function defined(name, arguments, body)
    return esc(:(Core.@__doc__ $name($(arguments...)) = $body))
end

function waiting(own, signature)
    name, arguments, types, result = take_apart(signature)
    entry = gensym(:entry)
    find = :($(GlobalRef(@__MODULE__, :address))($(index_of(name))))

    if VERSION >= v"1.12"
        typed = [:($argument::$type) for (argument, type) in zip(arguments, types)]
        body = :(
            let $entry = $find
                @ccall gc_safe = true $(Expr(:$, entry))($(typed...))::$result
            end
        )
        return defined(own, arguments, body)
    end

    # Arguments are converted as ccall converts them, but before the collector is let in.
    roots = [gensym(argument) for argument in arguments]
    raw = [gensym(argument) for argument in arguments]
    converted = map(zip(roots, types, arguments)) do (root, type, argument)
        return :($root = Base.cconvert($type, $argument))
    end
    unwrapped = map(zip(raw, types, roots)) do (pointer, type, root)
        return :($pointer = Base.unsafe_convert($type, $root))
    end

    state = gensym(:state)
    answer = gensym(:answer)
    body = quote
        let $entry = $find, $(converted...)
            GC.@preserve $(roots...) begin
                $(unwrapped...)
                $state = ccall(:jl_gc_safe_enter, Int8, ())
                $answer = ccall($entry, $result, ($(types...),), $(raw...))
                ccall(:jl_gc_safe_leave, Cvoid, (Int8,), $state)
                $answer
            end
        end
    end
    return defined(own, arguments, body)
end

"""Name, arguments, types and result of `f(a::T, b::U)::R`."""
function take_apart(signature)
    call, result = signature.args
    typed = call.args[2:end]
    return call.args[1], [t.args[1] for t in typed], [t.args[2] for t in typed], result
end

function index_of(name)
    name in FUNCTIONS || push!(FUNCTIONS, name)
    return findfirst(==(name), FUNCTIONS)::Int
end
