//! Messages between two ranks.

use crate::line::Line;
use crate::runner::Runner;
use symm::{Request, Result};

pub fn send(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let source = r.bytes(line, "source");
    r.group(line)
        .send(line.get("rank"), &source, line.channel())
}

pub fn recv(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let mut destination = r.bytes(line, "destination");
    let came = r
        .group(line)
        .recv(line.get("rank"), &mut destination, line.channel())?;
    line.expect("expected", came);
    Ok(())
}

pub fn start_recv(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let mut destination = r.bytes(line, "destination");
    let group = r.group(line);
    // SAFETY: the scenario keeps its arrays and memories until it has waited for the request.
    let request = unsafe {
        symm::start((), |()| {
            group.recv(line.get("rank"), &mut destination, line.channel())
        })
    }?;
    r.made(line, request)
}

pub fn wait_request(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let request = r.the::<Request<()>>(line.text("request"));
    request.wait_for(line.timeout())?;
    line.expect("expected", request.value()? as usize);
    Ok(())
}

/// Block i is sent to the i-th rank of `to`, and received from the i-th rank of `from`.
pub fn messages(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let (to, from) = (line.list("to"), line.list("from"));
    let sources = r.blocks(line, "source", to.len());
    let mut destinations = r.blocks(line, "destination", from.len());

    let group = r.group(line);
    let mut messages = group.messages();
    let receives_first = line.flag("receives_first");
    if !receives_first {
        for (rank, source) in to.iter().zip(&sources) {
            messages.send(*rank, source, line.channel())?;
        }
    }
    for (rank, destination) in from.iter().zip(&mut destinations) {
        messages.recv(*rank, destination, line.channel())?;
    }
    if receives_first {
        for (rank, source) in to.iter().zip(&sources) {
            messages.send(*rank, source, line.channel())?;
        }
    }

    for came in messages.pass()? {
        line.expect("expected", came);
    }
    Ok(())
}
