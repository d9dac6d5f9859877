//! How to make a group.

use crate::convert::to_c;
use crate::error::{Error, Result, call};
use crate::handle::Handle;
use crate::store::{Adapter, Store};
use crate::{Backend, Group, Timeout};
use std::ffi::CString;
use std::ptr;
use symm_sys as sys;

/// How to make a group. What is not said is left to the environment and the library's defaults.
///
/// ```no_run
/// use std::time::Duration;
/// let group = symm::GroupConfig::new().name("workers").timeout(Duration::from_secs(5)).create()?;
/// # Ok::<(), symm::Error>(())
/// ```
#[derive(Default)]
#[must_use = "a configuration does nothing until create() is called"]
pub struct GroupConfig {
    ranks: Option<(usize, usize)>,
    backend: Option<Backend>,
    device: Option<usize>,
    flags: u64,
    bootstrap: Option<String>,
    store: Option<Box<dyn Store>>,
    create_timeout: Timeout,
    timeout: Timeout,
    name: Option<String>,
    channels: usize,
    scratch_bytes: u64,
}

setters! { GroupConfig:
    /// This rank and the number of ranks. Otherwise both come from the bootstrap.
    ranks(rank: usize, size: usize) = Some((rank, size));
    /// The back end; the same on all ranks. Otherwise CUDA where a [`device`](Self::device) is named, else `$SYMM_BACKEND`, else the
    /// host.
    backend(backend: Backend) = Some(backend);
    /// The CUDA device. Otherwise the local rank's share.
    device(device: usize) = Some(device);
    /// Where the ranks meet: `env://` (the launcher says), `dir:///path` (a directory of mode 0700) or `thread://name` (ranks
    /// are threads of this process). Otherwise `$SYMM_BOOTSTRAP`, else `env://`.
    bootstrap(place: impl Into<String>) = Some(place.into());
    /// A store of your own by which the ranks find each other. Needs [`ranks`](Self::ranks).
    store(store: impl Store + 'static) = Some(Box::new(store));
    /// Deadline of create, split and rendezvous. Otherwise `$SYMM_CREATE_TIMEOUT_MS`, else 300 seconds.
    create_timeout(timeout: impl Into<Timeout>) = timeout.into();
    /// Deadline of every other wait. Otherwise `$SYMM_TIMEOUT_MS`, else 60 seconds.
    timeout(timeout: impl Into<Timeout>) = timeout.into();
    /// Tells apart concurrent groups with the same bootstrap, and is shown in messages.
    name(name: impl Into<String>) = Some(name.into());
    /// Barrier channels, and signal channels of memories that ask for no other number; the same on all ranks. Otherwise 64.
    channels(number: usize) = number;
    /// The most that the scratch of this group, and of each made of it, may take on each rank. Otherwise what is fastest.
    scratch_bytes(bytes: u64) = bytes;
}

impl GroupConfig {
    /// Whether the group's memories are given multicast addresses, where they can be had. All ranks must ask.
    pub fn multicast(self, wanted: bool) -> Self {
        self.flag(sys::SYMM_GROUP_MULTICAST, wanted)
    }

    /// Whether groups made of this one, but by [`shrink`](crate::Group::shrink), work in its scratch: CUDA only. Collectives of all of
    /// them have one order, also in graphs, and a failure of one is a failure of all; `symm.h` says it exactly.
    pub fn shared_scratch(self, wanted: bool) -> Self {
        self.flag(sys::SYMM_GROUP_SHARED_SCRATCH, wanted)
    }

    /// Whether all-reduces between machines may combine floats in an order of their own, which takes less time. All ranks must ask.
    pub fn any_order(self, allowed: bool) -> Self {
        self.flag(sys::SYMM_GROUP_ANY_ORDER, allowed)
    }

    /// Whether several ranks may use one CUDA device.
    pub fn overlapping_devices(self, allowed: bool) -> Self {
        self.flag(sys::SYMM_GROUP_OVERLAPPING_DEVICES, allowed)
    }

    /// Whether every rank compares the arguments of every collective with every other.
    pub fn check(self, compare: bool) -> Self {
        self.flag(sys::SYMM_GROUP_CHECK, compare)
    }

    fn flag(mut self, bit: u64, on: bool) -> Self {
        self.flags = if on { self.flags | bit } else { self.flags & !bit };
        self
    }

    /// Forms the group. All ranks of it do this, and all succeed or all fail.
    ///
    /// # Errors
    /// `InvalidArgument`, `Unavailable` (library, back end, launcher), `Timeout` (names the missing ranks), `PeerFailed`,
    /// `Mismatch`, `System`, `OutOfMemory`.
    pub fn create(self) -> Result<Group> {
        let (rank, size) = self.ranks.unwrap_or_default();
        let bootstrap = self.bootstrap.map(|text| to_c("bootstrap", &text)).transpose()?;
        let name = self.name.map(|text| to_c("name", &text)).transpose()?;
        let store = self.store.map(Adapter::new);
        let table = store.as_ref().map(Adapter::table);
        let pointer = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        let config = sized!(symm_group_config_t: rank = number("rank", rank)?, size = number("size", size)?,
            backend = self.backend.unwrap_or(if self.device.is_some() { Backend::Cuda } else { Backend::Auto }).as_raw(),
            device = self.device.map_or(Ok(sys::SYMM_DEVICE_AUTO), |device| number("device", device))?,
            flags = self.flags, bootstrap = pointer(&bootstrap),
            store = table.as_ref().map_or(ptr::null(), ptr::from_ref),
            create_timeout_ms = self.create_timeout.as_millis(), timeout_ms = self.timeout.as_millis(),
            name = pointer(&name), scratch_bytes = self.scratch_bytes, channels = number("channels", self.channels)?);
        if self.ranks.is_some() && size == 0 {
            return Err(Error::argument("size is 0: a group has at least one rank"));
        }
        let mut out = ptr::null_mut();
        // SAFETY: the struct says its size, its strings and its store live until the end of this function.
        let made = call(|api| unsafe { api.symm_group_create(&config, &mut out) });
        made.map_err(|mut error| {
            error.message.push_str(&store.as_ref().and_then(Adapter::complaint).unwrap_or_default());
            error
        })?;
        // SAFETY: a successful create gives one reference.
        Group::from_handle(unsafe { Handle::new(out) }?)
    }
}

impl Group {
    /// Forms the group of which the environment speaks: the launcher's job, or a group of one. As `GroupConfig::new().create()`.
    pub fn from_env() -> Result<Self> {
        GroupConfig::new().create()
    }
}

pub(crate) fn number(what: &str, value: usize) -> Result<i32> {
    i32::try_from(value).map_err(|_| Error::argument(format!("{what} {value} is too large")))
}
