//! Waits in tokio for a signal, and for the end of the group, while the thread has other work.
//! docs/rust.md shows it.

use std::time::Duration;
use symm::{Group, Op, Timeout};
use symm_tokio::{Failure, failure};
use tokio::task::spawn_blocking;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let group = spawn_blocking(Group::from_env).await??;
    let all = group.clone();
    let memory = spawn_blocking(move || all.memory::<u64>(1)).await??;
    let (rank, size) = (group.rank(), group.size());
    memory.signal((rank + 1) % size, 0)?;

    // A request is a future: no thread of tokio waits. A failure ends that wait, too.
    let left = (rank + size - 1) % size;
    let patient = memory.with_timeout(Timeout::Never);
    let mut signal = patient.start_wait_signal(left, 0)?;
    let mut work = tokio::time::interval(Duration::from_millis(10));
    loop {
        tokio::select! {
            taken = &mut signal => break println!("rank {rank}: a signal, {taken:?}"),
            reason = failure(&group) => Err(reason?)?,
            _ = work.tick() => {} // other work
        }
    }

    let sum = group
        .start_allreduce_in_place(vec![1_u32; 4], Op::Sum)?
        .await?;
    println!("rank {rank}: the sum is {sum:?}");
    group.start_barrier()?.await?;
    if rank == 1 {
        std::process::abort(); // dies
    }
    println!("rank {rank}: {}", failure(&group).await?);
    Ok(())
}
