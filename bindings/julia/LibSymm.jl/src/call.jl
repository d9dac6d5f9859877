# How the generated layer calls the library.

"""Names of the library's functions, in the order in which `@call` and `@waiting` defined them."""
const FUNCTIONS = Symbol[]

"""
`@call f(a::T, b::U)::R`: define `f(a, b)`, which calls the function `f` of the library as `ccall` does.
"""
macro call(signature)
    name, arguments, types, result = take_apart(signature)
    find = :($(GlobalRef(@__MODULE__, :address))($(index_of(name))))
    return defined(name, arguments, :(ccall($find, $result, ($(types...),), $(arguments...))))
end

"""
`@waiting f(a::T, b::U)::R`: as `@call`, for what may wait. Other threads of Julia may collect garbage meanwhile; without that, one of
them would stop for the whole wait as soon as it allocates, and if it is what is waited for, for ever. Its own task cannot be switched:
the thread of Julia that calls is blocked. The function must not call back into Julia. `@waiting g f(a::T)::R` calls it `g`.
"""
macro waiting(signature)
    return waiting(signature.args[1].args[1], signature)
end

macro waiting(own, signature)
    return waiting(own, signature)
end

defined(name, arguments, body) = esc(:(Core.@__doc__ $name($(arguments...)) = $body))

function waiting(own, signature)
    name, arguments, types, result = take_apart(signature)
    entry, state, answer = gensym(:entry), gensym(:state), gensym(:answer)
    find = :($(GlobalRef(@__MODULE__, :address))($(index_of(name))))
    if VERSION >= v"1.12"
        typed = [:($argument::$type) for (argument, type) in zip(arguments, types)]
        return defined(own, arguments, :(
            let $entry = $find
                @ccall gc_safe = true $(Expr(:$, entry))($(typed...))::$result
            end
        ))
    end
    # What ccall does with its arguments, done before the collector is let in.
    roots = [gensym(argument) for argument in arguments]
    raw = [gensym(argument) for argument in arguments]
    converted = [:($root = Base.cconvert($type, $argument)) for (root, type, argument) in zip(roots, types, arguments)]
    unwrapped = [:($r = Base.unsafe_convert($type, $root)) for (r, type, root) in zip(raw, types, roots)]
    return defined(own, arguments, quote
        let $entry = $find, $(converted...)
            GC.@preserve $(roots...) begin
                $(unwrapped...)
                $state = ccall(:jl_gc_safe_enter, Int8, ())
                $answer = ccall($entry, $result, ($(types...),), $(raw...))
                ccall(:jl_gc_safe_leave, Cvoid, (Int8,), $state)
                $answer
            end
        end
    end)
end

function take_apart(signature)
    call, result = signature.args
    typed = call.args[2:end]
    return call.args[1], [t.args[1] for t in typed], [t.args[2] for t in typed], result
end

function index_of(name)
    name in FUNCTIONS || push!(FUNCTIONS, name)
    return findfirst(==(name), FUNCTIONS)::Int
end
