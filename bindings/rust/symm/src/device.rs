//! Version of the library, and the devices of this machine.

use crate::convert::{Feature, count, filled, given, index};
use crate::error::{Error, Result, call};
use crate::{Backend, Status, TopologyClass};
use std::ffi::CStr;
use std::fmt;
use std::ptr;

/// Version of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Changes when the interface changes incompatibly.
    pub major: u32,
    /// Changes when something is added.
    pub minor: u32,
    /// Changes when something is fixed.
    pub patch: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Version of the loaded library. Errors: `Unavailable` if there is no library; the message names
/// the places where it was looked for, which [`symm_sys`] lists.
pub fn version() -> Result<Version> {
    // SAFETY: the function has no preconditions.
    let encoded = unsafe { symm_sys::api()?.symm_version() }?;
    Ok(Version {
        major: encoded >> 24,
        minor: encoded >> 12 & 0xfff,
        patch: encoded & 0xfff,
    })
}

/// A JSON object: version, git revision, compiler, back ends, CUDA architectures, SIMD targets.
pub fn build_info() -> Result<&'static str> {
    // SAFETY: the function has no preconditions, and its string is static and never NULL.
    let text = unsafe { CStr::from_ptr(symm_sys::api()?.symm_build_info()?) };
    Ok(text.to_str().unwrap_or_default())
}

known! {
    /// Information about one device.
    pub struct DeviceInfo of symm_device_info_t {
        pub backend: Backend = "Host or CUDA.";
        pub device: usize = "Its number.";
        pub memory_bytes: u64 = "Total memory.";
        pub compute_units: usize = "Processors that this process may use, or multiprocessors.";
        pub name: String = "Product name.";
        pub uuid: String = "GPU UUID; for the host, the boot id.";
        pub multicast: Feature, or multicast_reason = "Whether multicast addresses can be had.";
        pub fabric: Feature, or fabric_reason = "Whether memory can be had by fabric handles.";
        pub dmabuf: Feature, or dmabuf_reason = "Whether memory can be exported as DMA-BUF.";
        pub host_memory: Feature, or host_memory_reason =
            "Whether [`Group::alloc_on_host`](crate::Group::alloc_on_host) can be had.";
        pub numa_node: Option<usize> =
            "The NUMA node of the host that is nearest to the device, where that is known; `None` \
             for the host.";
    }
}

/// Number of devices of a back end. The host back end has one.
/// Errors: `Unavailable` when the back end cannot be used here; the message says why.
pub fn device_count(backend: Backend) -> Result<usize> {
    // SAFETY: the function has no preconditions.
    let devices = given(0, |api, out| unsafe {
        api.symm_device_count(backend.as_raw(), out)
    })?;
    Ok(count(devices))
}

/// Describes a device. Errors: `Unavailable` when the back end cannot be used,
/// `InvalidArgument` for a device out of range.
pub fn device_info(backend: Backend, device: usize) -> Result<DeviceInfo> {
    filled(|out| {
        // SAFETY: the struct says its size.
        call(|api| unsafe { api.symm_device_info(backend.as_raw(), index(device), out) })
    })
    .map(DeviceInfo::from)
}

/// Links between the devices of a back end.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Topology {
    /// Class of the topology as a whole.
    pub class: TopologyClass,
    /// `links[a][b]` is the number of direct links between devices a and b; 0 for a device and
    /// itself.
    pub links: Vec<Vec<usize>>,
}

/// The links between the devices of a back end. Errors: `Unavailable` when the back end cannot be
/// used.
pub fn topology(backend: Backend) -> Result<Topology> {
    let devices = device_count(backend)?;
    if devices == 0 {
        return Err(Error::from_parts(
            Status::Unavailable,
            "the back end has no devices",
        ));
    }

    let mut class = 0;
    let mut links = vec![0; devices * devices];
    let to = links.as_mut_ptr();
    // SAFETY: `to` holds `links.len()` numbers.
    call(|api| unsafe {
        api.symm_topology(
            backend.as_raw(),
            &mut class,
            to,
            links.len(),
            ptr::null_mut(),
        )
    })?;

    let rows = links
        .chunks(devices)
        .map(|row| row.iter().map(|links| count(*links)).collect());
    Ok(Topology {
        class: TopologyClass::from_raw(class),
        links: rows.collect(),
    })
}
