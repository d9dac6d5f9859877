//! Verbs on groups.

use crate::line::Line;
use crate::runner::{Gone, PATIENCE, Runner};
use crate::values::group_flag;
use std::process::Command;
use std::time::{Duration, Instant};
use symm::{
    Advice, Backend, Buffer, Collective, Error, GroupConfig, GroupOptions, GrowOptions, Locality,
    Op, Result, Status, Ticket, UniqueId,
};

/// Sets the flags that a line wants or forbids.
macro_rules! wishes {
    ($builder:ident, $line:ident) => {
        if let Some(wish) = $line.wish("check") {
            $builder = $builder.check(wish);
        }
        if let Some(wish) = $line.wish("any_order") {
            $builder = $builder.any_order(wish);
        }
        if let Some(wish) = $line.wish("multicast") {
            $builder = $builder.multicast(wish);
        }
    };
}

pub fn create(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let timeout = line.timeout_of("group_timeout_ms");
    let mut config = GroupConfig::new()
        .name(line.text("as"))
        .backend(Backend::Host)
        .create_timeout(line.timeout())
        .timeout(timeout.unwrap_or(PATIENCE.into()))
        .shared_scratch(line.flag("shared_scratch"));
    wishes!(config, line);
    r.made(line, config.create()?)
}

/// The options of a line that makes a group of another.
fn options(line: &Line<'_>) -> GroupOptions {
    let mut options = GroupOptions::new()
        .timeout(line.timeout())
        .channels(line.get_or("channels", 0))
        .create_timeout(line.timeout_of("create_timeout_ms").unwrap_or_default())
        .group_timeout(line.timeout_of("group_timeout_ms").unwrap_or_default());
    if let Some(name) = line.find("name") {
        options = options.name(name);
    }
    wishes!(options, line);
    options
}

pub fn make_id(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let made = symm::unique_id()?;
    let array = r.array(line, "at", 128);
    array.fill(0);
    array[..made.as_bytes().len()].copy_from_slice(made.as_bytes());
    Ok(())
}

pub fn create_by_id(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let size = r.group(line).size();
    let id = UniqueId::from(&*r.array(line, "at", line.get("bytes")));
    let group = GroupConfig::new()
        .ranks(r.rank, size)
        .id(&id)
        .backend(Backend::Host)
        .timeout(Duration::from_secs(60))
        .create()?;
    r.made(line, group)
}

pub fn split(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let color = u32::try_from(line.get::<i64>("color")).ok();
    let part = r
        .group(line)
        .split_with(color, line.get("key"), &options(line))?;

    assert_eq!(part.is_some(), color.is_some(), "whether there is a group");
    match part {
        Some(part) => r.made(line, part),
        None => r.made(line, Gone),
    }
}

pub fn local(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let group = r.group(line).local_with(&options(line))?;
    r.made(line, group)
}

pub fn create_from_ranks(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let group = r
        .group(line)
        .create_from_ranks_with(&line.list("ranks"), &options(line))?;
    r.made(line, group)
}

pub fn shrink(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let group = r.group(line).shrink_with(&options(line))?;
    r.made(line, group)
}

pub fn invite(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let ticket = r.group(line).invite(None)?;
    let bytes = ticket.as_bytes();
    r.array(line, "at", bytes.len()).copy_from_slice(bytes);
    Ok(())
}

pub fn join(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let ticket = Ticket::from(&*r.array(line, "at", line.get("bytes")));
    let group = ticket.join(line.timeout())?;
    r.made(line, group)
}

pub fn grow(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let options = GrowOptions::new()
        .append(line.get_or("append", 0))
        .timeout(line.timeout());
    let group = r.group(line).grow_with(&options)?;
    r.made(line, group)
}

pub fn keep_spares(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    r.group(line).keep_spares(line.get("count"), line.timeout())
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
    line.expect("spares", info.spares);
    line.expect_timeout("timeout_ms", info.timeout);
    line.expect_timeout("create_timeout_ms", info.create_timeout);

    let named = |key| line.find(key).unwrap_or_default().split(':');
    for name in named("flags").filter(|name| !name.is_empty()) {
        assert_ne!(
            info.flags & group_flag(name),
            0,
            "{name} of {:#x}",
            info.flags
        );
    }
    for name in named("without").filter(|name| !name.is_empty()) {
        assert_eq!(
            info.flags & group_flag(name),
            0,
            "{name} of {:#x}",
            info.flags
        );
    }
    Ok(())
}

pub fn expect_calls(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let collective = line.named("collective", Collective::from_raw);
    let stats = r.group(line).collective_stats(collective)?;
    line.expect("calls", stats.calls);
    line.expect("bytes", stats.bytes);
    Ok(())
}

pub fn expect_cuda(_: &mut Runner, line: &Line<'_>) -> Result<()> {
    let on_device = |name| {
        let config = GroupConfig::new().name(name).create_timeout(PATIENCE);
        config.device(line.get("device"))
    };
    let by_itself = on_device("auto").create().expect_err("no such device");
    let asked = on_device("cuda").backend(Backend::Cuda).create();
    let asked = asked.expect_err("no such device");
    assert_eq!(by_itself.status, asked.status, "{by_itself}, {asked}");
    Ok(())
}

pub fn expect_peer(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let group = r.group(line);
    let rank: usize = line.get("rank");
    let links: usize = line.get("links");
    let peer = group.peer_info(rank)?;
    assert_eq!(peer.locality, line.named("locality", Locality::from_raw));
    assert_eq!(peer.links, Some(links));
    assert_eq!(group.topology()?.links[r.rank][rank], Some(links));
    Ok(())
}

pub fn expect_advice(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let send = vec![0_f32; 8];
    let recv = vec![0_f32; 8];
    let group = r.group(line);
    let plan = group.plan(Collective::Allreduce, &send, &recv, 8, Op::Sum, 0)?;
    assert_eq!(plan.advice, line.named("advice", Advice::from_raw));
    let is_measured = plan.advice != Advice::Unmeasured;
    assert_eq!(plan.symm_ns > 0 && plan.nccl_ns > 0, is_measured);
    assert!(!plan.advice_reason.is_empty());
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

pub fn batch(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    r.make_batch(line)
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
