//! Verbs on memory that is shared by a token.

use crate::line::Line;
use crate::runner::Runner;
use std::time::Duration;
use symm::ipc::{self, Bundle, ExportOptions, Import, NamedPiece, Token};
use symm::{Memory, Result};

pub fn export(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let options = if line.has("hold_ms") {
        ExportOptions::new().hold(Duration::from_millis(line.get("hold_ms")))
    } else {
        ExportOptions::new()
    };
    let token = options.export(&r.piece(line)?)?;
    r.made(line, token)
}

pub fn import(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let import = ipc::import::<u8>(r.the::<Token>(line.text("token")))?;
    r.made(line, import)
}

pub fn withdraw(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    ipc::withdraw(&r.piece(line)?, line.timeout())
}

fn exported(r: &Runner, line: &Line<'_>, options: &ExportOptions) -> Result<Token> {
    let (name, start) = line.address("at");
    let bytes: usize = line.get("bytes");
    let memory = r.the::<Memory<u8>>(name);
    let mut spans = Vec::new();
    for (i, name) in line.text("names").split(':').enumerate() {
        let at = start + i * bytes;
        spans.push((name, memory.span(at..at + bytes)?));
    }

    let pieces = spans
        .iter()
        .map(|(name, span)| NamedPiece::new(name, span))
        .collect::<Result<Vec<_>>>()?;
    options.export_bundle(&pieces)
}

pub fn export_bundle(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let mut options = ExportOptions::new();
    if line.has("hold_ms") {
        options = options.hold(Duration::from_millis(line.get("hold_ms")));
    }
    let token = exported(r, line, &options)?;
    r.made(line, token)
}

pub fn import_bundle(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let bundle = ipc::import_bundle(r.the::<Token>(line.text("token")))?;
    r.made(line, bundle)
}

pub fn expect_bundle(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let bundle = r.the::<Bundle>(line.text("import"));
    line.expect("pieces", bundle.len() as u64);
    line.expect("bytes", bundle.info()?.bytes);
    if !line.has("name") {
        return Ok(());
    }
    let name = line.text("name");
    let count: usize = line.get("count");
    if count == 0 {
        assert_eq!(bundle.find(name)?, None);
        return Ok(());
    }

    let piece = bundle.get::<i32>(name)?;
    let from: i64 = line.get("from");
    let f = line.formula();
    for i in 0..count {
        assert_eq!(i64::from(piece.load(i)), f(from, i as i64), "element {i}");
    }
    Ok(())
}

pub fn publish(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let token = r.the::<Token>(line.text("token"));
    ipc::publish(
        line.text("name"),
        line.get("version"),
        token,
        line.get_or("keep", 0),
    )
}

pub fn lookup(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let version: u64 = line.get("version");
    let (found, token) = ipc::lookup(line.text("name"), line.compare(), version, line.timeout())?;
    line.expect("expected", found);
    r.made(line, token)
}

pub fn withdraw_version(_: &mut Runner, line: &Line<'_>) -> Result<()> {
    let version: u64 = line.get("version");
    ipc::withdraw_version(line.text("name"), version, line.timeout())
}

pub fn expect_import(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let info = r.the::<Import<u8>>(line.text("import")).info()?;
    line.expect("bytes", info.bytes);
    line.expect("offset", info.offset);
    line.expect("host_memory", i64::from(info.host_memory));
    Ok(())
}

pub fn expect_holders(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let holders = ipc::holders(&r.piece(line)?)?;
    line.expect("leases", holders.leases);
    line.expect("processes", holders.processes);
    line.expect("quarantined", holders.quarantined);
    Ok(())
}
