//! Waits in tokio for a signal, and for the end of the group, while the thread has other work.
//! docs/rust.md shows it.

use std::error::Error;
use std::time::Duration;
use symm::{Group, Timeout};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::spawn_blocking;

/// Returns the reason when the group is revoked. Nobody reads the descriptor, so it stays readable.
async fn failure(group: &Group) -> Result<symm::Error, Box<dyn Error>> {
    let fd = group.failure_fd()?;
    // SAFETY: the descriptor is open, and the same, as long as the group, which is borrowed.
    let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    let fd = fd.map_err(std::io::Error::from)?;
    let _ready = fd.readable().await?;
    Ok(group
        .status()?
        .ok_or("the descriptor is readable too early")?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let group = Group::from_env()?;
    let memory = group.memory::<u64>(1)?;
    let (rank, size) = (group.rank(), group.size());
    memory.signal((rank + 1) % size, 0)?;

    // Signals have no descriptor: one of tokio's threads waits. A failure ends that wait, too.
    let left = (rank + size - 1) % size;
    let mut signal = spawn_blocking(move || memory.wait_signal_for(left, 0, Timeout::Never));
    let mut work = tokio::time::interval(Duration::from_millis(10));
    loop {
        tokio::select! {
            taken = &mut signal => break println!("rank {rank}: a signal, {:?}", taken?),
            reason = failure(&group) => Err(reason?)?,
            _ = work.tick() => {} // other work
        }
    }

    let all = group.clone();
    spawn_blocking(move || all.barrier()).await??;
    if rank == 1 {
        std::process::abort(); // dies
    }
    println!("rank {rank}: {}", failure(&group).await?);
    Ok(())
}
