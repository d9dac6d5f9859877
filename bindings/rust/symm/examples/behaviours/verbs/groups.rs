//! Verbs on groups.

use crate::line::Line;
use crate::runner::{Gone, Runner, create as create_group};
use std::process::Command;
use std::time::{Duration, Instant};
use symm::{Buffer, Error, GroupConfig, Result, Status};

pub fn create(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let mut config = GroupConfig::new().shared_scratch(line.flag("shared_scratch"));
    if line.flag("check") {
        config = config.check(true);
    }
    let group = create_group(line.text("as"), config, line.timeout())?;
    r.made(line, group)
}

pub fn split(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let color = u32::try_from(line.get::<i64>("color")).ok();
    let part = r.group(line).split(color, line.get("key"))?;

    assert_eq!(part.is_some(), color.is_some(), "whether there is a group");
    match part {
        Some(part) => r.made(line, part),
        None => r.made(line, Gone),
    }
}

pub fn local(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let group = r.group(line).local()?;
    r.made(line, group)
}

pub fn create_from_ranks(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let group = r.group(line).create_from_ranks(&line.list("ranks"))?;
    r.made(line, group)
}

pub fn shrink(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let group = r.group(line).shrink()?;
    r.made(line, group)
}

pub fn finalize(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    r.group(line).finalize()
}

pub fn abort(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    r.group(line).abort(line.text("reason"))
}

pub fn expect_group(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let info = r.group(line).info()?;
    line.expect("rank", info.rank);
    line.expect("size", info.size);
    line.expect("channels", info.channels);
    Ok(())
}

pub fn expect_status(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let group = r.group(line);
    let expected = line.named("status", Status::from_raw);

    let deadline = Instant::now() + Duration::from_secs(20);
    let status_of = |failure: &Option<Error>| failure.as_ref().map_or(Status::Ok, |f| f.status);
    let mut now = group.status()?;
    while status_of(&now) != expected && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
        now = group.status()?;
    }

    assert_eq!(status_of(&now), expected, "status ({now:?})");
    let blamed = now.and_then(|failure| failure.rank);
    line.expect("failed_rank", blamed.map_or(-1, |rank| rank as i64));
    Ok(())
}

pub fn expect_failed(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let failed = r.group(line).failed_ranks()?;
    assert_eq!(failed, line.list("ranks"), "who failed");
    Ok(())
}

pub fn barrier(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let ranks = line.list("among");
    r.group(line).barrier_among(&ranks, line.channel())
}

pub fn die(_: &mut Runner, _: &Line<'_>) -> Result<()> {
    let killed = Command::new("kill")
        .arg("-KILL")
        .arg(std::process::id().to_string())
        .status();
    unreachable!("SIGKILL cannot be survived: {killed:?}")
}

pub fn synchronize(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    r.group(line).synchronize()
}

pub fn stream_wait(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    r.group(line).wait_for(None)
}

pub fn expect_stream_done(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    assert!(r.group(line).is_done()?);
    Ok(())
}

pub fn record_use(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let name = line.text("name");
    match r.find::<Buffer<u8>>(name) {
        Some(buffer) => buffer.record_use(),
        None => r.memory(name).record_use(),
    }
}
