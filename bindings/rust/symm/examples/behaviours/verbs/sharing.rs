//! Verbs on memory that is shared by a token.

use super::pieces::with_pieces;
use crate::line::Line;
use crate::runner::Runner;
use std::any::Any;
use std::time::Duration;
use symm::ipc::{
    self, Asleep, Bundle, ExportOptions, Import, ImportOptions, NamedPiece, Sleeper, Token,
};
use symm::{Memory, Result, SignalOp, symm_sys};

pub fn export(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let mut options = ExportOptions::new();
    if line.has("hold_ms") {
        options = options.hold(Duration::from_millis(line.get("hold_ms")));
    }
    if line.has("channels") {
        options = options
            .channels(line.get("channels"))
            .fence_bytes(line.get("fence_bytes"));
    }
    let token = options.export(&r.piece(line)?)?;
    r.made(line, token)
}

pub fn import(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let import = ipc::import::<u8>(r.the::<Token>(line.text("token")))?;
    r.made(line, import)
}

pub fn put_import(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let import = r.the::<Import<u8>>(line.text("import"));
    let source = r.bytes(line, "source");
    with_pieces(line, |pieces| {
        import.put_pieces(line.get("offset"), &source, pieces, line.get("epoch"))
    })
}

pub fn get_import(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let import = r.the::<Import<u8>>(line.text("import"));
    let mut destination = r.bytes(line, "destination");
    with_pieces(line, |pieces| {
        import.get_pieces(line.get("offset"), &mut destination, pieces)
    })
}

pub fn signal_import(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let op = line.named("signal", SignalOp::from_raw);
    let import = r.the::<Import<u8>>(line.text("import"));
    import.signal_value(line.channel(), op, line.get("value"))
}

pub fn wait_token(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let token = r.the::<Token>(line.text("token"));
    let value = line.get("value");
    let seen = ipc::wait_value(token, line.channel(), line.compare(), value, line.timeout())?;
    line.expect("expected", seen);
    Ok(())
}

pub fn fence(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    ipc::fence(&r.piece(line)?, line.get("epoch"), line.timeout())
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

/// Puts what came of a step under the name of what it took.
pub(super) fn put_back<New: Any, Old: Any>(
    r: &mut Runner,
    name: &str,
    outcome: std::result::Result<New, Box<(Old, symm::Error)>>,
) -> Result<()> {
    match outcome {
        Ok(new) => {
            r.put(name, new);
            Ok(())
        }
        Err(refused) => {
            let (old, error) = *refused;
            r.put(name, old);
            Err(error)
        }
    }
}

pub fn suspend_import(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let name = line.text("import");
    let import = r.remove(name).expect("an import");
    match import.downcast::<Bundle>() {
        Ok(bundle) => put_back(r, name, bundle.suspend()),
        Err(other) => {
            let import = other.downcast::<Import<u8>>().expect("an import");
            put_back(r, name, import.suspend())
        }
    }
}

pub fn resume_import(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let name = line.text("import");
    let token = line
        .has("token")
        .then(|| r.the::<Token>(line.text("token")).clone());
    let options = ImportOptions::new();
    let asleep = r.remove(name).expect("an import");
    match asleep.downcast::<Asleep<Bundle>>() {
        Ok(bundle) => put_back(r, name, options.resume(*bundle, token.as_ref())),
        Err(other) => {
            let import = other.downcast::<Asleep<Import<u8>>>().expect("an import");
            put_back(r, name, options.resume(*import, token.as_ref()))
        }
    }
}

pub fn expect_asleep(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let name = line.text("import");
    let flags = if let Some(asleep) = r.find::<Asleep<Bundle>>(name) {
        asleep.info()?.flags
    } else if let Some(asleep) = r.find::<Asleep<Import<u8>>>(name) {
        asleep.info()?.flags
    } else if let Some(import) = r.find::<Import<u8>>(name) {
        import.info()?.flags
    } else {
        r.the::<Bundle>(name).info()?.flags
    };
    let is_asleep = flags & symm_sys::SYMM_IPC_SUSPENDED != 0;
    line.expect("asleep", i64::from(is_asleep));
    Ok(())
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
