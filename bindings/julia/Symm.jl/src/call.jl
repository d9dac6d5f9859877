# SPDX-License-Identifier: Apache-2.0
#
# How the generated layer calls the library.

"""
`@call f(a::T, b::U)::R`: call a function of the library as `ccall` does.
"""
macro call(signature)
    name, arguments, types, result = take_apart(signature)
    return esc(:(ccall($(GlobalRef(@__MODULE__, :address))($(index_of(name))), $result, ($(types...),), $(arguments...))))
end

"""
`@waiting f(a::T, b::U)::R`: as `@call`, for what may wait. Other threads of Julia may collect garbage meanwhile; without that, one of
them would stop for the whole wait as soon as it allocates, and if it is what is waited for, for ever. Its own task cannot be switched:
the thread of Julia that calls is blocked. The function must not call back into Julia.
"""
macro waiting(signature)
    name, arguments, types, result = take_apart(signature)
    entry, state, answer = gensym(:entry), gensym(:state), gensym(:answer)
    find = :($(GlobalRef(@__MODULE__, :address))($(index_of(name))))
    if VERSION >= v"1.12"
        typed = [:($argument::$type) for (argument, type) in zip(arguments, types)]
        return esc(:(
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
    return esc(quote
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

index_of(name) = findfirst(==(name), FUNCTIONS)::Int
