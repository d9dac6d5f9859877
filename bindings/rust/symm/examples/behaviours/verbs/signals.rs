//! Verbs on signals.

use crate::line::Line;
use crate::runner::Runner;
use symm::{Result, SignalOp, SignalWait};

pub fn signal(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    r.block(line).signal(line.get("rank"), line.channel())
}

pub fn wait_signal(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    r.block(line)
        .wait_signal_for(line.get("rank"), line.channel(), line.timeout())
}

pub fn test_signal(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let pending = r
        .block(line)
        .test_signal(line.get("rank"), line.channel())?;
    line.expect("expected", pending);
    Ok(())
}

pub fn put_signal(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let source = r.bytes(line, "source");
    let offset = line.get("offset");
    r.block(line)
        .put_signal(line.get("rank"), offset, &source, line.channel())
}

pub fn put_signal_value(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let source = r.bytes(line, "source");
    let op = line.named("signal", SignalOp::from_raw);
    let (offset, value) = (line.get("offset"), line.get("value"));
    r.block(line)
        .put_signal_value(line.get("rank"), offset, &source, line.channel(), op, value)
}

pub fn signal_value(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let op = line.named("signal", SignalOp::from_raw);
    let value = line.get("value");
    r.block(line)
        .signal_value(line.get("rank"), line.channel(), op, value)
}

pub fn wait_signal_value(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let seen = r.block(line).wait_signal_value(
        line.get("rank"),
        line.channel(),
        line.compare(),
        line.get("value"),
        line.timeout(),
    )?;
    line.expect("expected", seen.expect("on the host"));
    Ok(())
}

pub fn wait_signals(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let wait_for = |rank| SignalWait {
        rank,
        channel: line.channel(),
        compare: line.compare(),
        value: line.get("value"),
    };
    let waits: Vec<_> = line.list("among").into_iter().map(wait_for).collect();
    if !line.flag("any") {
        return r.block(line).wait_all_signals(&waits, line.timeout());
    }

    let first = r.block(line).wait_any_signal(&waits, line.timeout())?;
    line.expect("expected", first.expect("on the host"));
    Ok(())
}

pub fn test_signal_value(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let value = r
        .block(line)
        .test_signal_value(line.get("rank"), line.channel())?;
    line.expect("expected", value);
    Ok(())
}
