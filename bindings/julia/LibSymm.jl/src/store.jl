"""
    Store(set, get)

A key-value store of the caller's by which ranks find each other, for instance one made of a cluster
manager's messages:

- `set(key::String, value::Vector{UInt8}, seconds)` keeps `value` under `key`, which is set once;
- `get(key::String, seconds)` waits for `key`, at most this long, and returns its bytes, or
  `nothing` if the time has passed.

Both are called on the task that is inside `Group(...)`, and may wait and yield there.
"""
struct Store
    set::Any
    get::Any
end

# The store of one creation. Exceptions must not cross the library, so the first one is kept here,
# and thrown when the creation returns.
mutable struct StoreCall
    store::Store
    failure::Any
end

function guarded(body, user)
    call = unsafe_pointer_to_objref(user)::StoreCall
    try
        return body(call.store)::symm_status_t
    catch why
        if call.failure === nothing
            call.failure = (why, catch_backtrace())
        end
        return SYMM_ERR_SYSTEM
    end
end

function store_set(user, key, value, count, timeout_ms)
    return guarded(user) do store
        bytes = copy(unsafe_wrap(Array, Ptr{UInt8}(value), count))
        store.set(unsafe_string(key), bytes, timeout_ms / 1000)
        return SYMM_OK
    end
end

function store_get(user, key, value, capacity, out_bytes, timeout_ms)
    return guarded(user) do store
        found = store.get(unsafe_string(key), timeout_ms / 1000)
        found === nothing && return SYMM_ERR_TIMEOUT
        unsafe_store!(out_bytes, length(found))
        length(found) > capacity && return SYMM_ERR_INVALID_ARGUMENT

        bytes = convert(Vector{UInt8}, found)
        GC.@preserve bytes unsafe_copyto!(Ptr{UInt8}(value), pointer(bytes), length(bytes))
        return SYMM_OK
    end
end

function symm_store(call::StoreCall)
    set = @cfunction(
        store_set,
        symm_status_t,
        (Ptr{Cvoid}, Cstring, Ptr{Cvoid}, Csize_t, UInt64)
    )
    get = @cfunction(
        store_get,
        symm_status_t,
        (Ptr{Cvoid}, Cstring, Ptr{Cvoid}, Csize_t, Ptr{Csize_t}, UInt64)
    )
    return symm_store_t(sizeof(symm_store_t), pointer_from_objref(call), set, get)
end
