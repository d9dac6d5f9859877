//! Groups of ranks that share memory: how to make one, and information about it.

use crate::buffer::bytes;
use crate::convert::{Feature, Handle, count, index, to_c};
use crate::error::{Called, Error, Result, acting, looked_up};
use crate::operand::{Source, Target};
use crate::store::{Adapter, Store};
use crate::stream::no_wait;
use crate::{
    Algorithm, Backend, Collective, Element, Locality, Order, Scale, Status, Stream, Timeout,
    TopologyClass,
};
use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::{Arc, Weak};
use std::time::Duration;
use symm_sys::{self as sys, symm_group};

/// How the devices of a group's ranks are linked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupTopology {
    /// Class of the whole; ranks on one GPU count as linked.
    pub class: TopologyClass,
    /// `links[a][b]` is the number of links between ranks a and b; nothing where one of the two is
    /// on another machine than this rank.
    pub links: Vec<Vec<Option<usize>>>,
}

/// The bytes by which the ranks of one group meet. They may travel by any means.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UniqueId(Vec<u8>);

impl UniqueId {
    /// The bytes, to be sent to the other ranks.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Makes an id of bytes that came from another process. They are checked when a group is made.
impl From<Vec<u8>> for UniqueId {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&[u8]> for UniqueId {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

/// Makes an id by which the ranks of one group meet. A local call, of one rank or of any other
/// process, which sends the bytes to all ranks by any means.
///
/// Where libsodium, the secret file and an address of this machine can be had, this process listens
/// for ranks on any machine, and must live until the group is formed. Else, or with
/// `SYMM_ID_ADDRESS=machine`, the ranks must be on this machine, and this process may end. An id
/// serves for one group. Errors: `InvalidArgument` (`$SYMM_ID_ADDRESS`), `Unavailable` (no private
/// directory), `System`.
///
/// ```no_run
/// # fn sent_by_rank_0(_: Option<&[u8]>) -> Vec<u8> { Vec::new() }
/// # let (rank, size) = (0, 1);
/// let made = if rank == 0 { Some(symm::unique_id()?) } else { None };
/// let id = symm::UniqueId::from(sent_by_rank_0(made.as_ref().map(|id| id.as_bytes())));
/// let group = symm::GroupConfig::new().ranks(rank, size).id(&id).create()?;
/// # Ok::<(), symm::Error>(())
/// ```
pub fn unique_id() -> Result<UniqueId> {
    let mut id = vec![0; sys::SYMM_UNIQUE_ID_MAX_BYTES as usize];
    let mut len = 0;
    // SAFETY: the vector holds `id.len()` bytes.
    acting(no_wait(), |api, options| unsafe {
        api.symm_unique_id(options, id.as_mut_ptr().cast(), id.len(), &mut len)
    })?;
    id.truncate(len);
    Ok(UniqueId(id))
}

/// The bytes by which processes join a group that grows. They may travel by any means.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(Vec<u8>);

impl Ticket {
    /// The bytes, to be sent to newcomers.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Waits, as a newcomer, until the group of the ticket grows, and becomes a rank of what it
    /// becomes. A process that waits here as a spare costs the ranks of the group nothing until
    /// they call [`Group::grow`]. `timeout`: the default is `$SYMM_CREATE_TIMEOUT_MS`, else 300 s.
    /// Errors: `InvalidArgument` (no ticket, or an expired one), `Unavailable` (of another machine
    /// or user), `Unsupported` (of another version of symm), `Timeout` (no rank took this
    /// process), otherwise as [`GroupConfig::create`].
    pub fn join(&self, timeout: impl Into<Timeout>) -> Result<Group> {
        GroupConfig::new().create_timeout(timeout).join(self)
    }
}

/// Makes a ticket of bytes that came from another process. They are checked when they are used.
impl From<Vec<u8>> for Ticket {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&[u8]> for Ticket {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

builder! {
    /// How a group grows: [`Group::grow_with`]. All but [`timeout`](Self::timeout) must be equal
    /// on all ranks.
    #[derive(Debug, Clone)]
    #[must_use = "options do nothing until a group grows with them"]
    pub struct GrowOptions {
        /// Deadline of the call. Otherwise the group's deadline of create, split and rendezvous.
        timeout(timeout: impl Into<Timeout>): Timeout = timeout.into();
        /// So many newcomers follow the living, who move up as in [`Group::shrink`]. Otherwise
        /// newcomers take the numbers of the ranks that are gone, and all others keep theirs.
        append(newcomers: usize): usize = newcomers;
    }
}

builder! {
    /// How to make a group. Whatever is not set is left to the environment and the library's
    /// defaults.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// let group = symm::GroupConfig::new()
    ///     .name("workers")
    ///     .timeout(Duration::from_secs(5))
    ///     .create()?;
    /// # Ok::<(), symm::Error>(())
    /// ```
    #[must_use = "a configuration does nothing until create() is called"]
    pub struct GroupConfig {
        /// This rank and the number of ranks. Otherwise both come from the bootstrap.
        ranks(rank: usize, size: usize): Option<(usize, usize)> = Some((rank, size));
        /// The back end; the same on all ranks. Otherwise CUDA where a
        /// [`device`](Self::device) is named, else `$SYMM_BACKEND`, else the host.
        backend(backend: Backend): Option<Backend> = Some(backend);
        /// The CUDA device. Otherwise the local rank's share.
        device(device: usize): Option<usize> = Some(device);
        /// Where the ranks meet: `env://` (the launcher says), `dir:///path` (a
        /// directory of mode 0700) or `thread://name` (ranks are threads of this
        /// process). Otherwise `$SYMM_BOOTSTRAP`, else `env://`.
        bootstrap(place: impl Into<String>): Option<String> = Some(place.into());
        /// A store of your own by which the ranks find each other. Needs
        /// [`ranks`](Self::ranks).
        store(store: impl Store + 'static): Option<Box<dyn Store>> = Some(Box::new(store));
        /// The id that [`unique_id`] made on one rank, the same on all ranks, by which they meet.
        /// Needs [`ranks`](Self::ranks), and excludes a bootstrap and a store.
        id(id: &UniqueId): Option<UniqueId> = Some(id.clone());
        /// Deadline of create, split and rendezvous. Otherwise `$SYMM_CREATE_TIMEOUT_MS`, else
        /// 300 seconds.
        create_timeout(timeout: impl Into<Timeout>): Timeout = timeout.into();
        /// Deadline of every other wait. Otherwise `$SYMM_TIMEOUT_MS`, else 60 seconds.
        timeout(timeout: impl Into<Timeout>): Timeout = timeout.into();
        /// Tells apart concurrent groups with the same bootstrap, and is shown in messages.
        name(name: impl Into<String>): Option<String> = Some(name.into());
        /// Barrier channels, and signal channels of memories that ask for no other number; equal
        /// on all ranks. Otherwise 64.
        channels(number: usize): usize = number;
        /// The most that the scratch of this group, and of each made of it, may take on
        /// each rank. Otherwise what is fastest.
        scratch_bytes(bytes: u64): u64 = bytes;
        /// Whether the group's memories are given multicast addresses, where they can be had. All
        /// ranks must ask. Otherwise as `$SYMM_MULTICAST` says.
        multicast(wanted: bool): Option<bool> = Some(wanted);
        /// Whether groups made of this one, but by
        /// [`shrink`](crate::Group::shrink), work in its scratch: CUDA only.
        /// Collectives of all of them have one order, also in graphs, and a
        /// failure of one is a failure of all; `symm.h` says it exactly.
        shared_scratch(wanted: bool): Option<bool> = Some(wanted);
        /// Whether all-reduces between machines may combine floats in an order of their
        /// own, which takes less time. All ranks must ask. Otherwise as `$SYMM_ORDER` says;
        /// `false` keeps the order of the ranks, whatever it says.
        any_order(allowed: bool): Option<bool> = Some(allowed);
        /// Whether floats are combined as a balanced binary tree of the ranks, so that a sum has
        /// the same bits however many ranks share the work. All ranks must ask. Otherwise as
        /// `$SYMM_ORDER` says; `false` keeps the order of the ranks, whatever it says.
        tree_order(wanted: bool): Option<bool> = Some(wanted);
        /// A promise about each all-reduce, all-gather, all-to-all and broadcast: `recv` is
        /// private on all ranks, or at one offset of one memory on all ranks, and the call is in
        /// place on all ranks or on none. Large calls then use copy engines with CUDA. All ranks
        /// must ask.
        same_offsets(promised: bool): Option<bool> = Some(promised);
        /// Whether the environment variables for this call are those that the library found when
        /// it was loaded: for a thread that makes a group while another one may change them.
        variables_at_load(wanted: bool): bool = wanted;
        /// Whether several ranks may use one CUDA device.
        overlapping_devices(allowed: bool): Option<bool> = Some(allowed);
        /// Whether every rank compares the arguments of every collective with every other.
        /// Otherwise as `$SYMM_CHECK` says.
        check(compare: bool): Option<bool> = Some(compare);
    }
}

builder! {
    /// How to make a group of another: [`Group::split_with`], [`Group::create_from_ranks_with`],
    /// [`Group::local_with`], [`Group::shrink_with`]. Whatever is not set is as in the other
    /// group; the environment is not asked again. All but [`timeout`](Self::timeout) must be
    /// equal on all ranks of the new group.
    ///
    /// ```no_run
    /// # let group = symm::Group::from_env()?;
    /// let options = symm::GroupOptions::new().name("pairs").check(true);
    /// let pair = group.split_with(Some(group.rank() as u32 / 2), 0, &options)?;
    /// # Ok::<(), symm::Error>(())
    /// ```
    #[derive(Debug, Clone)]
    #[must_use = "options do nothing until a group is made with them"]
    pub struct GroupOptions {
        /// Deadline of the call that makes the group. Otherwise the other group's deadline of
        /// create, split and rendezvous.
        timeout(timeout: impl Into<Timeout>): Timeout = timeout.into();
        /// Shown in messages.
        name(name: impl Into<String>): Option<String> = Some(name.into());
        /// As [`GroupConfig::create_timeout`], of the new group.
        create_timeout(timeout: impl Into<Timeout>): Timeout = timeout.into();
        /// As [`GroupConfig::timeout`], of the new group.
        group_timeout(timeout: impl Into<Timeout>): Timeout = timeout.into();
        /// As [`GroupConfig::scratch_bytes`].
        scratch_bytes(bytes: u64): u64 = bytes;
        /// As [`GroupConfig::channels`].
        channels(number: usize): usize = number;
        /// As [`GroupConfig::multicast`].
        multicast(wanted: bool): Option<bool> = Some(wanted);
        /// As [`GroupConfig::shared_scratch`].
        shared_scratch(wanted: bool): Option<bool> = Some(wanted);
        /// As [`GroupConfig::any_order`].
        any_order(allowed: bool): Option<bool> = Some(allowed);
        /// As [`GroupConfig::tree_order`].
        tree_order(wanted: bool): Option<bool> = Some(wanted);
        /// As [`GroupConfig::same_offsets`].
        same_offsets(promised: bool): Option<bool> = Some(promised);
        /// As [`GroupConfig::overlapping_devices`].
        overlapping_devices(allowed: bool): Option<bool> = Some(allowed);
        /// As [`GroupConfig::check`].
        check(compare: bool): Option<bool> = Some(compare);
    }
}

/// Flags to set, and inherited flags to remove. A wish is what is wanted or not, if anything was
/// said, its flag, and the flag of its opposite, 0 if there is none.
fn flags_of(wishes: [(Option<bool>, u64, u64); 7]) -> (u64, u64) {
    let mut flags = 0;
    let mut removed = 0;
    for (wish, flag, opposite) in wishes {
        match wish {
            Some(true) => flags |= flag,
            Some(false) if opposite == 0 => removed |= flag,
            Some(false) => flags |= opposite,
            None => {}
        }
    }
    // An order that is asked for goes before another one that is not wanted.
    if flags & (sys::SYMM_GROUP_ANY_ORDER | sys::SYMM_GROUP_TREE_ORDER) != 0 {
        flags &= !sys::SYMM_GROUP_RANK_ORDER;
    }
    (flags, removed)
}

/// The flags of a [`GroupConfig`] or of [`GroupOptions`].
macro_rules! flags_of {
    ($of:ident) => {
        flags_of([
            (
                $of.multicast,
                sys::SYMM_GROUP_MULTICAST,
                sys::SYMM_GROUP_NO_MULTICAST,
            ),
            (
                $of.any_order,
                sys::SYMM_GROUP_ANY_ORDER,
                sys::SYMM_GROUP_RANK_ORDER,
            ),
            ($of.check, sys::SYMM_GROUP_CHECK, sys::SYMM_GROUP_NO_CHECK),
            ($of.shared_scratch, sys::SYMM_GROUP_SHARED_SCRATCH, 0),
            (
                $of.tree_order,
                sys::SYMM_GROUP_TREE_ORDER,
                sys::SYMM_GROUP_RANK_ORDER,
            ),
            ($of.same_offsets, sys::SYMM_GROUP_SAME_OFFSETS, 0),
            (
                $of.overlapping_devices,
                sys::SYMM_GROUP_OVERLAPPING_DEVICES,
                0,
            ),
        ])
    };
}

impl GroupConfig {
    /// Forms the group. All ranks of it do this, and all succeed or all fail. Errors:
    /// `InvalidArgument`, `Unavailable` (library, back end, launcher), `Timeout` (names
    /// the missing ranks), `PeerFailed`, `Mismatch`, `System`, `OutOfMemory`.
    pub fn create(self) -> Result<Group> {
        // SAFETY: make() gives a configuration and a place for the handle.
        self.make(|api, config, out| unsafe { api.symm_group_create(config, out) })
    }

    /// Waits as [`Ticket::join`] does, until [`create_timeout`](Self::create_timeout) has passed.
    /// A newcomer chooses its [`device`](Self::device),
    /// [`overlapping_devices`](Self::overlapping_devices), [`check`](Self::check) and
    /// [`multicast`](Self::multicast), and has all else from the group. A spare that names its
    /// device loads the kernels there while it waits. Errors: `InvalidArgument` (what the group
    /// decides is given), `Mismatch` (another back end than the group's), otherwise as of
    /// [`Ticket::join`].
    pub fn join(self, ticket: &Ticket) -> Result<Group> {
        let bytes = &ticket.0;
        // SAFETY: as in create(), and the vector holds its bytes.
        self.make(|api, config, out| unsafe {
            api.symm_group_join(bytes.as_ptr().cast(), bytes.len(), config, out)
        })
    }

    /// Makes a group by `function`, which may read the configuration during the call, and gives
    /// one reference.
    fn make(
        self,
        function: impl FnOnce(
            &sys::Api,
            &sys::symm_group_config_t,
            *mut *mut sys::symm_group_t,
        ) -> Called,
    ) -> Result<Group> {
        let (rank, size) = self.ranks.unwrap_or_default();
        if self.ranks.is_some() && size == 0 {
            return Err(Error::argument("size is 0: a group has at least one rank"));
        }
        let bootstrap = optional_to_c("bootstrap", self.bootstrap.as_deref())?;
        let name = optional_to_c("name", self.name.as_deref())?;
        // A flag that is not wanted, and has no opposite, is just not there.
        let (mut flags, _) = flags_of!(self);
        if self.device.is_some() {
            flags |= sys::SYMM_GROUP_ON_DEVICE;
        }
        if self.variables_at_load {
            flags |= sys::SYMM_GROUP_VARIABLES_AT_LOAD;
        }

        let store = self.store.map(Adapter::new);
        let table = store.as_ref().map(Adapter::table);
        let config = sys::symm_group_config_t {
            rank: number("rank", rank)?,
            size: number("size", size)?,
            backend: self.backend.unwrap_or(Backend::Auto).as_raw(),
            device: number("device", self.device.unwrap_or(0))?,
            flags,
            bootstrap: as_pointer(bootstrap.as_deref()),
            store: table.as_ref().map_or(ptr::null(), ptr::from_ref),
            id: self
                .id
                .as_ref()
                .map_or(ptr::null(), |id| id.0.as_ptr().cast()),
            id_bytes: self.id.as_ref().map_or(0, |id| id.0.len()),
            create_timeout_ms: self.create_timeout.as_millis(),
            timeout_ms: self.timeout.as_millis(),
            name: as_pointer(name.as_deref()),
            scratch_bytes: self.scratch_bytes,
            channels: number("channels", self.channels)?,
            ..Default::default()
        };

        let mut out = ptr::null_mut();
        // The struct says its size; its strings, its id and its store live until the end of this
        // function.
        let made = acting(config, |api, config| function(api, config, &mut out));
        made.map_err(|mut error| {
            let complaint = store.as_ref().and_then(Adapter::complaint);
            error.message.push_str(&complaint.unwrap_or_default());
            error
        })?;
        // SAFETY: a successful call gives one reference.
        Group::from_handle(unsafe { Handle::new(out) }?)
    }
}

impl GroupOptions {
    /// Makes a group by `function`, which is given these options.
    fn make<T>(&self, function: impl FnOnce(sys::symm_group_options_t) -> Result<T>) -> Result<T> {
        let name = optional_to_c("name", self.name.as_deref())?;
        let (flags, remove_flags) = flags_of!(self);
        function(sys::symm_group_options_t {
            timeout_ms: self.timeout.as_millis(),
            name: as_pointer(name.as_deref()),
            flags,
            remove_flags,
            scratch_bytes: self.scratch_bytes,
            create_timeout_ms: self.create_timeout.as_millis(),
            group_timeout_ms: self.group_timeout.as_millis(),
            channels: number("channels", self.channels)?,
            ..Default::default()
        })
    }
}

/// A C string, if there is a text.
pub(crate) fn optional_to_c(what: &str, text: Option<&str>) -> Result<Option<CString>> {
    text.map(|text| to_c(what, text)).transpose()
}

/// The address of a C string, NULL if there is none.
pub(crate) fn as_pointer(text: Option<&CStr>) -> *const c_char {
    text.map_or(ptr::null(), CStr::as_ptr)
}

impl Group {
    /// Forms the group that the environment describes: the launcher's job, or a group of one.
    /// Short for `GroupConfig::new().create()`.
    pub fn from_env() -> Result<Self> {
        GroupConfig::new().create()
    }
}

pub(crate) fn number(what: &str, value: usize) -> Result<i32> {
    i32::try_from(value).map_err(|_| Error::argument(format!("{what} {value} is too large")))
}

/// Ranks that share memory.
///
/// A clone is another handle to the same group. The group is released when the last of its
/// handles, buffers and memories is dropped; peers that still wait for this rank then get
/// [`Status::PeerFailed`](crate::Status::PeerFailed). Call [`finalize`](Self::finalize) first to
/// leave without that.
///
/// All ranks must make their collective calls in one order. Calls from several threads of one
/// rank are serialised by the library.
#[derive(Clone)]
pub struct Group {
    pub(crate) shared: Arc<Shared>,
    pub(crate) stream: Stream,
    pub(crate) algorithm: Algorithm,
    pub(crate) timeout: Timeout,
    pub(crate) factor: Factor,
    pub(crate) tag: Option<Arc<CStr>>,
    pub(crate) max_blocks: i32,
    pub(crate) order: Order,
    pub(crate) wire: (i32, i32),
    pub(crate) chunks: Chunks,
}

/// The bytes of a chunk, the addresses of words, their value, and where that is read.
#[derive(Clone, Copy, Default)]
pub(crate) struct Chunks {
    pub(crate) bytes: u64,
    pub(crate) progress: usize,
    pub(crate) ready: usize,
    pub(crate) value: u32,
    pub(crate) value_at: usize,
}

/// A factor of reductions: its position, its value, and the address of an f32 that has the value
/// if that address is not 0.
pub(crate) type Factor = (Scale, f64, usize);
const NO_FACTOR: Factor = (Scale::None, 0.0, 0);

impl Group {
    pub(crate) fn from_handle(handle: Handle<symm_group>) -> Result<Self> {
        let info = on!(handle.symm_group_info() => GroupInfo)?;
        let shared = Shared {
            handle,
            rank: info.rank,
            size: info.size,
            backend: info.backend,
        };
        Ok(Self::from_shared(Arc::new(shared), Stream::none()))
    }

    /// A handle with the defaults of calls.
    pub(crate) fn from_shared(shared: Arc<Shared>, stream: Stream) -> Self {
        Self {
            shared,
            stream,
            algorithm: Algorithm::Auto,
            timeout: Timeout::Group,
            factor: NO_FACTOR,
            tag: None,
            max_blocks: 0,
            order: Order::Group,
            wire: (0, 0),
            chunks: Chunks::default(),
        }
    }

    /// This process's or thread's rank.
    pub fn rank(&self) -> usize {
        self.shared.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.shared.size
    }

    /// The kind of memory that the group works on: [`Backend::Host`] or [`Backend::Cuda`].
    pub fn backend(&self) -> Backend {
        self.shared.backend
    }

    /// Describes the group.
    pub fn info(&self) -> Result<GroupInfo> {
        on!(self.symm_group_info() => GroupInfo)
    }

    /// Why the group was revoked, and who is to blame; `None` while it works. Never waits.
    pub fn status(&self) -> Result<Option<Error>> {
        let error = on!(self.symm_group_status() => Error)?;
        Ok((error.status != Status::Ok).then_some(error))
    }

    /// A handle to this group whose calls are ordered on `stream`, and so are those on buffers and
    /// memories that are made by the handle.
    #[must_use]
    pub fn with_stream(&self, stream: Stream) -> Self {
        Self {
            stream,
            ..self.clone()
        }
    }

    /// A handle to this group whose collectives use `algorithm`, which must be equal on all ranks.
    #[must_use]
    pub fn with_algorithm(&self, algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            ..self.clone()
        }
    }

    /// A handle to this group whose reductions of floats multiply by `factor`, before they combine
    /// or after. The factor must be equal on all ranks. Other collectives by this handle are
    /// `InvalidArgument`.
    #[must_use]
    pub fn with_scale(&self, position: Scale, factor: f64) -> Self {
        Self {
            factor: (position, factor, 0),
            ..self.clone()
        }
    }

    /// As [`with_scale`](Self::with_scale), by a factor that is read when a call runs, and may
    /// differ from rank to rank: a captured call reads the factor again at each replay.
    ///
    /// # Safety
    /// `factor` is valid for reads, by the device with the CUDA back end, while calls by this
    /// handle run.
    #[must_use]
    pub unsafe fn with_scale_at(&self, position: Scale, factor: *const f32) -> Self {
        Self {
            factor: (position, 0.0, factor as usize),
            ..self.clone()
        }
    }

    /// A handle to this group whose barriers, collectives and other calls that wait have this
    /// deadline. What is made by the handle has the group's own.
    #[must_use]
    pub fn with_timeout(&self, timeout: impl Into<Timeout>) -> Self {
        Self {
            timeout: timeout.into(),
            ..self.clone()
        }
    }

    /// A handle to this group whose collectives are shown by a name of yours: in traces, ranges of
    /// NVTX, `symm top` and messages. Each rank has its own. Errors: `InvalidArgument` for a NUL
    /// character.
    pub fn with_tag(&self, tag: &str) -> Result<Self> {
        Ok(Self {
            tag: Some(to_c("tag", tag)?.into()),
            ..self.clone()
        })
    }

    /// A handle to this group whose collectives use at most this many multiprocessors for a
    /// kernel, which must be equal on all ranks; 0 for as many as the plan says. The host only
    /// compares it.
    #[must_use]
    pub fn with_max_blocks(&self, blocks: usize) -> Self {
        Self {
            max_blocks: index(blocks),
            ..self.clone()
        }
    }

    /// A handle to this group whose collectives combine floats in this order, which must be equal
    /// on all ranks.
    #[must_use]
    pub fn with_order(&self, order: Order) -> Self {
        Self {
            order,
            ..self.clone()
        }
    }

    /// A handle to this group whose sums and averages travel as codes: of the type `W`, which is
    /// [`F8E4M3`](crate::F8E4M3), [`F8E5M2`](crate::F8E5M2) or `i8`, with a scale for each `group`
    /// elements, 32 or 128. `symm.h` states the error. Both must be equal on all ranks. Other
    /// collectives by this handle are `InvalidArgument`.
    #[must_use]
    pub fn with_wire<W: Element>(&self, group: usize) -> Self {
        Self {
            wire: (W::DTYPE, index(group)),
            ..self.clone()
        }
    }

    /// A handle to this group whose all-gathers, all-reduces and reduce-scatters are made in chunks
    /// of so many bytes, a multiple of 16 that must be equal on all ranks. `symm.h` tells what
    /// chunks and their words are. Other collectives by this handle are `InvalidArgument`.
    #[must_use]
    pub fn with_chunks(&self, bytes: usize) -> Self {
        self.chunked(Chunks {
            bytes: bytes as u64,
            ..self.chunks
        })
    }

    /// A handle to this group whose all-gathers say what has come: the word of a chunk of a rank's
    /// part of `recv` becomes `value` when the chunk is there, this rank's first, then those of the
    /// ranks after it.
    ///
    /// # Safety
    /// `words` has a word for each chunk of each rank, valid for atomic writes, by the device with
    /// the CUDA back end, while calls by this handle run.
    #[must_use]
    pub unsafe fn with_progress(&self, words: *mut u32, value: u32) -> Self {
        self.chunked(Chunks {
            progress: words as usize,
            value,
            ..self.chunks
        })
    }

    /// A handle to this group whose all-reduces and reduce-scatters wait, for each chunk of `send`,
    /// until its word has reached `value`.
    ///
    /// # Safety
    /// `words` has a word for each chunk of `send`, valid for atomic reads, by the device with the
    /// CUDA back end, while calls by this handle run. Who writes a chunk stores its word with
    /// release order afterwards.
    #[must_use]
    pub unsafe fn with_ready(&self, words: *const u32, value: u32) -> Self {
        self.chunked(Chunks {
            ready: words as usize,
            value,
            ..self.chunks
        })
    }

    /// A handle to this group that reads the value of words when a call runs, so that a captured
    /// call has a new one at each replay. The value of [`with_progress`](Self::with_progress) or
    /// [`with_ready`](Self::with_ready) is 0 then.
    ///
    /// # Safety
    /// `value` is valid for atomic reads, by the device with the CUDA back end, while calls by this
    /// handle run.
    #[must_use]
    pub unsafe fn with_word_at(&self, value: *const u32) -> Self {
        self.chunked(Chunks {
            value_at: value as usize,
            ..self.chunks
        })
    }

    fn chunked(&self, chunks: Chunks) -> Self {
        Self {
            chunks,
            ..self.clone()
        }
    }

    /// Divides the group. Ranks that pass equal colors form a new group, ordered by key, then by
    /// rank. A rank that passes `None` takes part in the call and is in no new group. All ranks of
    /// the group call it.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Self>> {
        self.split_with(color, key, &GroupOptions::new())
    }

    /// As [`split`](Self::split), into groups as `options` say. Those of ranks of different colors
    /// may differ.
    pub fn split_with(
        &self,
        color: Option<u32>,
        key: i32,
        options: &GroupOptions,
    ) -> Result<Option<Self>> {
        let color = match color {
            None => -1,
            Some(color) => i32::try_from(color)
                .map_err(|_| Error::argument(format!("color {color} is over 2^31 - 1")))?,
        };

        let out = options.make(
            |c| on!(self.symm_group_split(color, key, options) -> ptr::null_mut(), options: c),
        )?;
        if out.is_null() {
            return Ok(None);
        }
        // SAFETY: a successful split gives one reference, or NULL for no group.
        Self::from_handle(unsafe { Handle::new(out) }?).map(Some)
    }

    /// A group of some ranks of this one, in this order. Only those ranks call it, with equal
    /// lists. Errors: as [`GroupConfig::create`]; `Mismatch` if the order differs.
    pub fn create_from_ranks(&self, ranks: &[usize]) -> Result<Self> {
        self.create_from_ranks_with(ranks, &GroupOptions::new())
    }

    /// As [`create_from_ranks`](Self::create_from_ranks), a group as `options` say.
    pub fn create_from_ranks_with(&self, ranks: &[usize], options: &GroupOptions) -> Result<Self> {
        let ranks: Vec<i32> = ranks.iter().map(|rank| index(*rank)).collect();
        let first = ranks.as_ptr();
        let len = ranks.len();
        Self::from_handle(options.make(
            |c| on!(self.symm_group_create_from_ranks(first, len, options) => Handle, options: c),
        )?)
    }

    /// A group of the ranks of this rank's machine. Only those ranks call it.
    pub fn local(&self) -> Result<Self> {
        self.local_with(&GroupOptions::new())
    }

    /// As [`local`](Self::local), a group as `options` say.
    pub fn local_with(&self, options: &GroupOptions) -> Result<Self> {
        Self::from_handle(
            options.make(|c| on!(self.symm_group_local(options) => Handle, options: c))?,
        )
    }

    /// A group of the ranks that are alive and have not released this one, in their old order. It
    /// works after a failure too: this group may be revoked, and stays as it is. All ranks that
    /// are alive call it, and all get one group or all one failure; a rank that dies meanwhile is
    /// left out. Errors: `Timeout` (a rank is alive and did not call; once it is gone the call can
    /// be made again), otherwise as [`GroupConfig::create`].
    pub fn shrink(&self) -> Result<Self> {
        self.shrink_with(&GroupOptions::new())
    }

    /// As [`shrink`](Self::shrink), to a group as `options` say.
    pub fn shrink_with(&self, options: &GroupOptions) -> Result<Self> {
        Self::from_handle(
            options.make(|c| on!(self.symm_group_shrink(options) => Handle, options: c))?,
        )
    }

    /// A ticket, by which other processes of this user on this machine join this group when it
    /// grows, and the groups that [`shrink`](Self::shrink) and [`grow`](Self::grow) make of it. A
    /// local call. `lifetime`: for how long the ticket is good; `None`: until the machine is
    /// started anew. Errors: `Unsupported` (a group on several machines),
    /// `Unavailable` (no private directory), `System`.
    pub fn invite(&self, lifetime: Option<Duration>) -> Result<Ticket> {
        let given = sys::symm_invite_options_t {
            lifetime_ms: lifetime.map_or(0, |time| Timeout::After(time).as_millis()),
            ..Default::default()
        };
        let mut ticket = vec![0; sys::SYMM_TICKET_MAX_BYTES as usize];
        let mut len = 0;
        // SAFETY: the struct says its size, and the vector holds `ticket.len()` bytes.
        acting(given, |api, options| unsafe {
            api.symm_group_invite(
                self.as_raw(),
                options,
                ticket.as_mut_ptr().cast(),
                ticket.len(),
                &mut len,
            )
        })?;
        ticket.truncate(len);
        Ok(Ticket(ticket))
    }

    /// A group of the ranks that are alive and have not released this one, and of newcomers, which
    /// wait in [`Ticket::join`] and take the numbers of the ranks that are gone. It works after a
    /// failure too: this group may be revoked, and stays as it is. All ranks that are alive call
    /// it, and all get one group or all one failure, after which the call can be made again.
    /// Errors: `Timeout` (too few newcomers, or a rank is alive and did not call), `PeerFailed` (a
    /// rank or a newcomer died meanwhile), `Unsupported` (a group on several machines), otherwise
    /// as [`GroupConfig::create`].
    pub fn grow(&self) -> Result<Self> {
        self.grow_with(&GrowOptions::new())
    }

    /// As [`grow`](Self::grow), as `options` say.
    pub fn grow_with(&self, options: &GrowOptions) -> Result<Self> {
        let given = sys::symm_grow_options_t {
            timeout_ms: options.timeout.as_millis(),
            mode: if options.append == 0 {
                sys::SYMM_GROW_FILL_DEAD
            } else {
                sys::SYMM_GROW_APPEND
            },
            count: number("append", options.append)?,
            ..Default::default()
        };
        Self::from_handle(on!(self.symm_group_grow(options) => Handle, options: given)?)
    }

    /// Connects `count` newcomers with the ranks that are alive, as the spares of this group. They
    /// stay in [`Ticket::join`]; [`grow`](Self::grow) takes them first, and is faster then.
    /// [`GroupInfo::spares`](crate::GroupInfo::spares) tells how many wait. Groups that
    /// [`shrink`](Self::shrink) and [`grow`](Self::grow) make keep those that are left, and a later
    /// call replaces them. Collective over the living; `timeout`: the default is the group's
    /// deadline of create, split and rendezvous. Errors: as [`grow`](Self::grow).
    pub fn keep_spares(&self, count: usize, timeout: impl Into<Timeout>) -> Result<()> {
        let given = sys::symm_grow_options_t {
            timeout_ms: timeout.into().as_millis(),
            mode: sys::SYMM_GROW_SPARE,
            count: number("count", count)?,
            ..Default::default()
        };
        let mut none = ptr::null_mut();
        // SAFETY: the struct says its size, and the call makes no handle.
        acting(given, |api, options| unsafe {
            api.symm_group_grow(self.as_raw(), options, &mut none)
        })
    }

    /// The rank in this group of the process that is rank `rank` of `other`; `None` if that
    /// process is not in this group.
    pub fn translate_rank(&self, other: &Self, rank: usize) -> Result<Option<usize>> {
        let mut here = 0;
        let found = looked_up(on!(self.symm_group_translate_rank(
            other.as_raw(),
            index(rank),
            &mut here
        )))?;
        Ok(found.then(|| count(here)))
    }

    /// The ranks that this rank knows to be dead, or to have released the group, ascending. Never
    /// waits.
    pub fn failed_ranks(&self) -> Result<Vec<usize>> {
        let mut ranks = vec![0; self.size()];
        let failed = on!(self.symm_group_failed_ranks(ranks.as_mut_ptr(), ranks.len()) -> 0)?;
        Ok(ranks.into_iter().take(failed).map(count).collect())
    }

    /// A descriptor that becomes readable when the group is revoked, for event loops.
    /// Errors: `System`, `InvalidHandle` in a forked child.
    pub fn failure_fd(&self) -> Result<BorrowedFd<'_>> {
        let fd = on!(self.symm_group_failure_fd() -> -1)?;
        // SAFETY: the descriptor is the group's, and this handle keeps the group alive.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Describes a rank: its process, host and device, and whether it is alive.
    pub fn peer_info(&self, rank: usize) -> Result<PeerInfo> {
        on!(self.symm_group_peer_info(index(rank)) => PeerInfo)
    }

    /// The links between the devices of the ranks. Errors: `Unavailable` where NVML does not tell
    /// of links.
    pub fn topology(&self) -> Result<GroupTopology> {
        let size = self.size();
        let mut class = 0;
        let mut links = vec![0; size * size];
        let (to, len) = (links.as_mut_ptr(), links.len());
        on!(self.symm_group_topology(&mut class, to, len, ptr::null_mut()))?;

        let rows = links.chunks(size).map(|row| {
            row.iter()
                .map(|links| usize::try_from(*links).ok())
                .collect()
        });
        Ok(GroupTopology {
            class: TopologyClass::from_raw(class),
            links: rows.collect(),
        })
    }

    /// Counts what this rank has done on the group so far.
    pub fn stats(&self) -> Result<GroupStats> {
        on!(self.symm_group_stats() => GroupStats)
    }

    /// Counts the calls of one collective of this rank on the group so far. Errors: `Unsupported`
    /// for a collective that the library does not know.
    pub fn collective_stats(&self, collective: Collective) -> Result<CollectiveStats> {
        on!(self.symm_group_collective_stats(collective.as_raw()) => CollectiveStats)
    }

    /// Counts the collectives of this rank on the group so far that used one algorithm. Errors:
    /// `Unsupported` for an algorithm that the library does not know.
    pub fn algorithm_stats(&self, algorithm: Algorithm) -> Result<AlgorithmStats> {
        on!(self.symm_group_algorithm_stats(algorithm.as_raw()) => AlgorithmStats)
    }

    /// Waits until all ranks are here. Whatever a rank wrote before its barrier is visible to all
    /// ranks afterwards. Errors: `Timeout` (names the first missing rank), `PeerFailed`,
    /// `Aborted`.
    pub fn barrier(&self) -> Result<()> {
        self.barrier_among(&[], 0)
    }

    /// Waits until the given ranks are here, of which this rank is one. An empty list means all
    /// ranks. Barriers on different channels, and of different sets, are independent.
    pub fn barrier_among(&self, ranks: &[usize], channel: usize) -> Result<()> {
        let ranks: Vec<i32> = ranks.iter().map(|rank| index(*rank)).collect();
        let pointer = if ranks.is_empty() {
            ptr::null()
        } else {
            ranks.as_ptr()
        };

        let len = ranks.len();
        let channel = index(channel);
        let stream = self.stream.as_raw();
        on!(
            self.symm_barrier(pointer, len, channel, options, stream),
            options: self.timeout.options()
        )
    }

    /// Sends the elements of `source` to `rank`. Messages from one rank to another on one channel
    /// are received in the order in which they were sent. A short one is left for the receiver; for
    /// a longer one the call returns when it has been received. A local call. Errors: `Timeout`
    /// (the rank has not received), `Mismatch` (the message is longer than the room for it),
    /// `PeerFailed`, `Unsupported` (the group is of devices on several machines). On a device the
    /// call returns at once, and the stream goes on when the message is received.
    pub fn send<S: Source + ?Sized>(&self, rank: usize, source: &S, channel: usize) -> Result<()> {
        let from = source.operand().on(&self.shared, &self.stream)?;
        let (at, bytes) = (from.pointer(), bytes::<S::Element>(from.len())?);
        let (rank, channel) = (index(rank), index(channel));
        on!(
            self.symm_send(rank, channel, at, bytes, options, self.stream.as_raw()),
            options: self.timeout.options()
        )
    }

    /// Receives the next message from `rank` into `target`, which may be longer. Returns the number
    /// of bytes that came. A local call. Errors: `Timeout` (no message has come; the group stays
    /// usable), `Mismatch` (the message is longer than `target`; the group is revoked),
    /// `PeerFailed`, `Unsupported` (as of [`send`](Self::send)). On a device the message has to be
    /// as long as `target`, since the call returns before it comes.
    pub fn recv<D: Target + ?Sized>(
        &self,
        rank: usize,
        target: &mut D,
        channel: usize,
    ) -> Result<usize> {
        let to = target.operand_mut().on(&self.shared, &self.stream)?;
        let (at, bytes) = (to.pointer(), bytes::<D::Element>(to.len())?);
        let (rank, channel) = (index(rank), index(channel));
        let (stream, mut came) = (self.stream.as_raw(), 0);
        on!(
            self.symm_recv(rank, channel, at, bytes, options, &mut came, stream),
            options: self.timeout.options()
        )?;
        Ok(came)
    }

    /// Waits until all work that was issued on this handle's stream is done. Errors: the status
    /// with which that work failed or the group was revoked; `Timeout` if the work is not done
    /// yet, after which the group stays usable; `InvalidArgument` for a stream under capture.
    pub fn synchronize(&self) -> Result<()> {
        on!(
            self.symm_group_synchronize(self.stream.as_raw(), options),
            options: self.timeout.options()
        )
    }

    /// Whether all work that was issued on this handle's stream is done; always true on the host.
    /// Never waits. Errors: `InvalidArgument` for a stream under capture, which goes on.
    pub fn is_done(&self) -> Result<bool> {
        let stream = self.stream.as_raw();
        on!(self.symm_stream_query(stream, options) -> 0, options: no_wait()).map(|done| done != 0)
    }

    /// Orders work that is issued on this handle's stream from now on after the work that was
    /// issued on another stream. `None` means all streams on which calls on this group were
    /// issued. Does nothing on the host.
    pub fn wait_for(&self, other: Option<&Stream>) -> Result<()> {
        let after = other.map_or_else(Stream::all, Stream::as_raw);
        on!(
            self.symm_stream_wait(self.stream.as_raw(), after, options),
            options: no_wait()
        )
    }

    /// Revokes the group on all ranks: pending and later calls return
    /// [`Status::Aborted`](crate::Status::Aborted). Never waits; may be called from any thread,
    /// and more than once.
    pub fn abort(&self, reason: &str) -> Result<()> {
        self.shared.abort(reason)
    }

    /// A handle by which another thread can abort the group, and which does not keep the group
    /// alive.
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle(Arc::downgrade(&self.shared))
    }

    /// Ends the group: waits until all ranks are here, so that no rank sees another leave early.
    /// Afterwards only queries are of use. All ranks call it. Errors: `Timeout`, `PeerFailed`,
    /// `Aborted`; the group has ended after an error too.
    pub fn finalize(&self) -> Result<()> {
        on!(self.symm_group_finalize(options), options: self.timeout.options())
    }

    /// The handle, for calls of [`symm_sys`]. It is valid while this value, or another handle to
    /// the group, lives.
    #[inline]
    pub fn as_raw(&self) -> *mut symm_group {
        self.shared.handle.as_raw()
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Group(rank {} of {}, {:?})",
            self.rank(),
            self.size(),
            self.backend()
        )
    }
}

/// The state that all handles to a group share.
pub(crate) struct Shared {
    pub(crate) handle: Handle<symm_group>,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) backend: Backend,
}

impl Shared {
    fn abort(&self, reason: &str) -> Result<()> {
        let handle = &self.handle;
        let reason = to_c("reason", reason)?;
        on!(handle.symm_group_abort(reason.as_ptr()))
    }
}

/// Aborts a group from any thread, while another thread is in a call on the group. Does not keep
/// the group alive.
#[derive(Clone)]
pub struct AbortHandle(Weak<Shared>);

impl AbortHandle {
    /// As [`Group::abort`](crate::Group::abort). Errors: `InvalidHandle` if the group was
    /// released; `InvalidArgument` for a reason with a NUL character.
    pub fn abort(&self, reason: &str) -> Result<()> {
        match self.0.upgrade() {
            Some(shared) => shared.abort(reason),
            None => Err(Error::from_parts(
                Status::InvalidHandle,
                "the group was released, so there is nothing to abort",
            )),
        }
    }
}

known! {
    /// Information about a group.
    pub struct GroupInfo of symm_group_info_t {
        pub rank: usize = "This rank.";
        pub size: usize = "Number of ranks.";
        pub backend: Backend = "Host or CUDA.";
        pub device: usize = "The device; 0 on the host.";
        pub id: u64 = "Equal on all ranks, different for every group.";
        pub flags: u64 =
            "`SYMM_GROUP_*` of [`symm_sys`] that are in force: those of its configuration, those \
             that it has inherited, and those that the environment has added.";
        pub create_timeout of create_timeout_ms: Timeout =
            "Deadline of create, split and rendezvous.";
        pub timeout of timeout_ms: Timeout = "Deadline of every other wait.";
        pub channels: usize =
            "Barrier channels, and signal channels of a memory by default: `0 .. channels`.";
        pub unwatched_peers: usize = "Peers whose death is noticed by their closed socket only.";
        pub rejected_connections: u64 =
            "Connection attempts refused during creation: wrong user or wrong group.";
        pub bootstrap: String =
            "How the ranks found each other, for instance `env:// (Open MPI)`.";
        pub name: String = "The name of its configuration.";
        pub multicast: Feature, or multicast_reason =
            "Whether its memories are given multicast addresses, or why not; equal on all ranks.";
        pub scratch_bytes: u64 = "Bytes that its scratch takes on this rank.";
        pub max_ranks: usize = "The most ranks that a group of this back end can have.";
        pub max_memories: usize = "The most memories that a group can have; 0 for no limit.";
        pub max_channels: usize = "The most channels that a group or memory can have.";
        pub max_handles: usize = "The most handles of each kind that a process can have.";
        pub max_name_bytes: usize = "The most bytes of a name that are kept.";
        pub shared_scratch_bytes: u64 =
            "Bytes of the scratch that it shares with the group it was made of; 0 if it shares \
             none.";
        pub machines: usize =
            "Number of machines of its ranks; ranks of one machine map each other's memory.";
        pub machine: usize =
            "This rank's machine; machines are numbered in the order of their lowest ranks.";
        pub local_rank: usize = "This rank's number among the ranks of its machine.";
        pub local_size: usize = "Number of ranks of this rank's machine.";
        pub spares: usize = "Number of spares that wait, as far as this rank knows.";
        pub engine: String = "The transport between machines; empty on one machine.";
    }

    /// Information about one rank of a group.
    #[derive(PartialEq, Eq)]
    pub struct PeerInfo of symm_group_peer_info_t {
        pub rank: usize = "The rank.";
        pub backend: Backend = "Host or CUDA.";
        pub device: usize = "The device, as that rank's process numbers it.";
        pub alive: bool = "Whether neither its death nor its departure was noticed.";
        pub pid: Option<i64> = "Its process as seen from here.";
        pub host: String = "Its host name.";
        pub machine: usize = "Its machine, numbered as [`GroupInfo::machine`].";
        pub machine_name: String = "`$SYMM_MACHINE` there, or the boot id of its kernel.";
        pub uuid: String = "The UUID of its GPU; for the host back end, the boot id.";
        pub mapped: bool = "Whether its memory is mapped here.";
        pub numa_node: Option<usize> =
            "The NUMA node nearest to its GPU, or to which its process was bound, where known.";
        pub links: Option<usize> = "Links between its GPU and this rank's, where known.";
        pub locality: Locality = "Where its memory is, as seen from this rank.";
    }

    /// Counts of what this rank has done on a group so far. Calls that failed are counted only
    /// where a field says so.
    #[derive(PartialEq, Eq)]
    pub struct GroupStats of symm_group_stats_t {
        pub barriers: u64 = "Barriers.";
        pub signals_sent: u64 = "Signals sent.";
        pub signals_taken: u64 = "Signals taken.";
        pub failures: u64 = "Collectives, barriers and waits that failed.";
        pub sleeps: u64 = "Waits on the host that did not end while they spun.";
        pub slept_ns: u64 = "Nanoseconds that those waits took in sum.";
        pub waits: u64 = "Waits for values of signals, and for words.";
    }
    /// Counts of one collective on a group, of calls that succeeded.
    #[derive(PartialEq, Eq)]
    pub struct CollectiveStats of symm_collective_stats_t {
        pub calls: u64 = "Calls.";
        pub bytes: u64 = "Count times the size of an element, summed over the calls.";
    }

    /// Counts of one algorithm on a group, of calls that succeeded.
    #[derive(PartialEq, Eq)]
    pub struct AlgorithmStats of symm_algorithm_stats_t {
        pub calls: u64 = "Calls of any collective; those that needed none count under `Auto`.";
    }
}
