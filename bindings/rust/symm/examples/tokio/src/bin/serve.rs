//! Serves memory to other processes from tokio: a client gets a token, by which it maps the block
//! of the server. `serve <socket> <clients>` is the server, which ends after so many clients, and
//! `serve <socket>` is a client. docs/rust.md shows it.

use std::path::Path;
use symm::ipc::{Import, Token};
use symm::symm_sys::SYMM_IPC_TOKEN_MAX_BYTES;
use symm::{Group, Timeout};
use symm_tokio::{Failure, failure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinSet, spawn_blocking};

const ELEMENTS: usize = 1 << 20;

async fn serve(socket: &Path, clients: usize) -> Result<(), Failure> {
    // All ranks of the group meet here, which may take long: off the executor.
    let group = spawn_blocking(Group::from_env).await??;
    let mut buffer = group.alloc::<f32>(ELEMENTS)?;
    buffer.as_mut_slice()?.fill(1.5);
    let shared = buffer.share();

    let listener = UnixListener::bind(socket)?;
    println!("ready");
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        tokio::select! {
            accepted = listener.accept() => {
                // To export never waits, so a task may do it.
                let token = shared.span(..)?.export()?;
                tasks.spawn(hand_out(accepted?.0, token));
            }
            reason = failure(&group) => Err(reason?)?, // a rank of the server is dead
        }
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }

    // The block is private again when no client holds it, for which this waits.
    let withdrawn = spawn_blocking(move || shared.withdraw(Timeout::Group)).await?;
    let buffer = withdrawn.map_err(symm::Error::from)?;
    println!("served, {}", buffer.as_slice()?[0]);
    Ok(())
}

/// Sends a token, and waits until the client closes the connection.
async fn hand_out(mut client: UnixStream, token: Token) -> Result<(), Failure> {
    let bytes = token.as_bytes();
    client.write_u32(u32::try_from(bytes.len())?).await?;
    client.write_all(bytes).await?;
    while client.read(&mut [0; 64]).await? != 0 {}
    Ok(())
}

async fn fetch(socket: &Path) -> Result<(), Failure> {
    let mut server = UnixStream::connect(socket).await?;
    let len = server.read_u32().await?;
    if len > SYMM_IPC_TOKEN_MAX_BYTES {
        return Err("this is not a token".into());
    }
    let mut bytes = vec![0; len as usize];
    server.read_exact(&mut bytes).await?;

    // To import waits for the answer of the server.
    let token = Token::from(bytes);
    let import: Import<f32> = spawn_blocking(move || symm::ipc::import(&token)).await??;
    let view = import.view()?;
    println!("fetched, {}", view.load(ELEMENTS - 1));
    view.store(0, 2.5);
    Ok(()) // the lease ends, and then the connection
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [socket, clients] => serve(Path::new(socket), clients.parse()?).await,
        [socket] => fetch(Path::new(socket)).await,
        _ => Err("usage: serve <socket> [clients]".into()),
    }
}
