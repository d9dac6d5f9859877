//! Waits in tokio for a signal, and for the end of the group, while the thread has other work.
//! docs/rust.md shows it.

use std::time::Duration;
use symm::{Group, Timeout};
use symm_tokio::{Failure, failure};
use tokio::task::spawn_blocking;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let group = spawn_blocking(Group::from_env).await??;
    let all = group.clone();
    let memory = spawn_blocking(move || all.memory::<u64>(1)).await??;
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
