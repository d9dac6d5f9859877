//! What the programs of this package share.

use std::error::Error;
use symm::Group;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// What goes wrong in a task, which any thread may run.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Waits until the group is revoked, and returns why. Nobody reads the descriptor, so it stays
/// readable.
pub async fn failure(group: &Group) -> Result<symm::Error, Failure> {
    let fd = group.failure_fd()?;
    // SAFETY: the descriptor is open, and the same, as long as the group, which is borrowed.
    let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    let fd = fd.map_err(std::io::Error::from)?;
    let _ready = fd.readable().await?;
    let reason = group.status()?;
    Ok(reason.ok_or("the descriptor of a group that works is readable")?)
}
