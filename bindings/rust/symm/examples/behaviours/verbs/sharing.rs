//! Verbs on memory that is shared by a token.

use crate::line::Line;
use crate::runner::Runner;
use std::time::Duration;
use symm::Result;
use symm::ipc::{self, ExportOptions, Import, Token};

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
