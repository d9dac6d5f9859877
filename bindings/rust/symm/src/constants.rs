// SPDX-License-Identifier: Apache-2.0
//! The enumerations of `symm.h`.

use symm_sys as sys;

/// An `enum` over C values. A newer library may answer with a value that is not here: that is `Unknown`, never undefined.
macro_rules! values {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $value:ident,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $variant,)*
            /// A value of a newer library.
            Unknown(i32),
        }

        impl $name {
            /// From the value in `symm.h`.
            pub const fn from_raw(value: i32) -> Self {
                match value {
                    $(sys::$value => Self::$variant,)*
                    other => Self::Unknown(other),
                }
            }

            /// The value in `symm.h`.
            pub const fn as_raw(self) -> i32 {
                match self {
                    $(Self::$variant => sys::$value,)*
                    Self::Unknown(other) => other,
                }
            }
        }
    };
}

values! {
    /// Why a call failed.
    Status {
        /// It did not.
        Ok = SYMM_OK,
        /// An argument is out of range; the message names it.
        InvalidArgument = SYMM_ERR_INVALID_ARGUMENT,
        /// A handle that was inherited through `fork()`, or whose group was finalized.
        InvalidHandle = SYMM_ERR_INVALID_HANDLE,
        /// Host or device memory, or a limit on it.
        OutOfMemory = SYMM_ERR_OUT_OF_MEMORY,
        /// No such device, driver, launcher, library or feature on this machine.
        Unavailable = SYMM_ERR_UNAVAILABLE,
        /// The library does not do that.
        Unsupported = SYMM_ERR_UNSUPPORTED,
        /// A deadline passed; the message names who was awaited.
        Timeout = SYMM_ERR_TIMEOUT,
        /// [`Group::abort`](crate::Group::abort) was called, here or on another rank.
        Aborted = SYMM_ERR_ABORTED,
        /// A rank died or left; the message gives its rank and pid.
        PeerFailed = SYMM_ERR_PEER_FAILED,
        /// Ranks disagree (size, operation, data type, count ...).
        Mismatch = SYMM_ERR_MISMATCH,
        /// A system call failed; the message names it and its errno.
        System = SYMM_ERR_SYSTEM,
        /// A CUDA driver call failed; the message names it and its result.
        Cuda = SYMM_ERR_CUDA,
        /// The object is in use.
        Busy = SYMM_ERR_BUSY,
        /// A defect of the library.
        Internal = SYMM_ERR_INTERNAL,
    }
}

values! {
    /// What memory a group works on.
    Backend {
        /// CUDA where a device is usable, else host.
        Auto = SYMM_BACKEND_AUTO,
        /// Memory shared between processes of one machine.
        Host = SYMM_BACKEND_HOST,
        /// Memory of CUDA devices.
        Cuda = SYMM_BACKEND_CUDA,
    }
}

values! {
    /// Reduction. Ranks are combined in the order 0, 1, ..., size-1 on every rank and in every algorithm, so the result has the
    /// same bits everywhere.
    Op {
        /// The sum; integers wrap.
        Sum = SYMM_OP_SUM,
        /// The sum divided by the number of ranks; integers are truncated towards zero.
        Avg = SYMM_OP_AVG,
        /// The least; NaN if any operand is.
        Min = SYMM_OP_MIN,
        /// The greatest; NaN if any operand is.
        Max = SYMM_OP_MAX,
        /// The product; integers wrap.
        Prod = SYMM_OP_PROD,
    }
}

values! {
    /// How a collective is carried out. All give the same bits, but for the two of multicast, used only where they are asked for.
    Algorithm {
        /// The library chooses.
        Auto = SYMM_ALGORITHM_AUTO,
        /// Flag in data: the message rides in the line that signals it.
        Ll = SYMM_ALGORITHM_LL,
        /// Every rank publishes its input, every rank combines all.
        OneShot = SYMM_ALGORITHM_ONE_SHOT,
        /// Each rank combines its slice and stores it to all.
        TwoShot = SYMM_ALGORITHM_TWO_SHOT,
        /// The same in chunks through library memory; any buffer.
        TwoShotStaged = SYMM_ALGORITHM_TWO_SHOT_STAGED,
        /// 8 ranks, each touching 4 neighbours only.
        HybridCubeMesh = SYMM_ALGORITHM_HYBRID_CUBE_MESH,
        /// Every rank loads the sum from a multicast address; not in place.
        MultimemOneShot = SYMM_ALGORITHM_MULTIMEM_ONE_SHOT,
        /// Each rank loads the sum of its slice and stores it to all, by multicast.
        MultimemTwoShot = SYMM_ALGORITHM_MULTIMEM_TWO_SHOT,
    }
}

values! {
    /// The collectives, for [`Group::plan`](crate::Group::plan).
    Collective {
        /// [`Group::allreduce`](crate::Group::allreduce)
        Allreduce = SYMM_COLLECTIVE_ALLREDUCE,
        /// [`Group::reduce_scatter`](crate::Group::reduce_scatter)
        ReduceScatter = SYMM_COLLECTIVE_REDUCE_SCATTER,
        /// [`Group::allgather`](crate::Group::allgather)
        Allgather = SYMM_COLLECTIVE_ALLGATHER,
        /// [`Group::broadcast`](crate::Group::broadcast)
        Broadcast = SYMM_COLLECTIVE_BROADCAST,
        /// [`Group::reduce`](crate::Group::reduce)
        Reduce = SYMM_COLLECTIVE_REDUCE,
        /// [`Group::alltoall`](crate::Group::alltoall)
        Alltoall = SYMM_COLLECTIVE_ALLTOALL,
    }
}

values! {
    /// Class of the links between devices.
    TopologyClass {
        /// None of the others.
        Other = SYMM_TOPOLOGY_UNKNOWN,
        /// Every device has a link to every other.
        FullyConnected = SYMM_TOPOLOGY_FULLY_CONNECTED,
        /// Eight devices, each linked to four.
        HybridCubeMesh = SYMM_TOPOLOGY_HYBRID_CUBE_MESH,
    }
}

values! {
    /// Severity of a log message.
    LogLevel {
        /// Something failed.
        Error = SYMM_LOG_ERROR,
        /// Something is not as it should be.
        Warning = SYMM_LOG_WARNING,
        /// What was chosen, and why.
        Info = SYMM_LOG_INFO,
        /// What happens.
        Debug = SYMM_LOG_DEBUG,
    }
}
