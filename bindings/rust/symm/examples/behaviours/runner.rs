// SPDX-License-Identifier: Apache-2.0
//! What the verbs do, through the safe layer.

use crate::line::{Line, RANKS, constant};
use crate::things::{Thing, Things};
use crate::{Outcome, element, raw};
use std::time::{Duration, Instant};
use symm::{Backend, GroupConfig, Op, Place, Raw, Timeout};

pub struct Runner {
    pub rank: usize,
    pub things: Things,
}

pub fn require<T: PartialEq + std::fmt::Debug>(seen: T, expected: T, what: &str) -> Outcome {
    if seen == expected { Ok(()) } else { Err(format!("{what} is {seen:?}, not {expected:?}").into()) }
}

impl Runner {
    pub fn new(rank: usize) -> Self {
        Self { rank, things: Things::default() }
    }

    pub fn begin(&mut self, scenario: &str) -> symm::Result<()> {
        self.things = Things::default();
        let minute = Duration::from_secs(60);
        let config = GroupConfig::new().backend(Backend::Host).name(scenario).create_timeout(minute).timeout(minute);
        self.things.add("group", Thing::Group(config.create()?));
        Ok(())
    }

    pub fn run(&mut self, line: &Line) -> Outcome {
        if raw::only(self, line)? {
            return raw::run(self, line);
        }
        match line.verb.as_str() {
            "expect_group" => self.expect_group(line),
            "expect_status" => self.expect_status(line, Duration::ZERO),
            "await" => self.expect_status(line, Duration::from_secs(20)),
            "split" => self.split(line),
            "finalize" => Ok(self.things.group(line)?.finalize()?),
            "abort" => Ok(self.things.group(line)?.abort(line.text("reason")?)?),
            "die" => die(),
            "private" => {
                self.things.add_array(line.text("as")?, line.size("bytes")?);
                Ok(())
            }
            "alloc" => {
                let buffer = self.things.group(line)?.alloc(line.size("bytes")?)?;
                self.things.add(line.text("as")?, Thing::Buffer(buffer));
                Ok(())
            }
            "rendezvous" => self.rendezvous(line),
            "release" => Ok(self.things.release(line.text("name")?)?),
            "expect_memory" => self.expect_memory(line),
            "find" => self.find(line),
            "write" => self.write(line),
            "expect" => self.expect(line),
            "barrier" => {
                let group = self.things.group(line)?.with_timeout(timeout(line)?);
                Ok(group.barrier_among(&line.ranks("among")?, line.size_or("channel", 0)?)?)
            }
            _ if line.has("memory") => self.data(line),
            _ if line.has("send") => self.collective(line),
            verb => Err(format!("unknown verb {verb}").into()),
        }
    }

    fn expect_group(&self, line: &Line) -> Outcome {
        let info = self.things.group(line)?.info()?;
        require(info.rank, line.size_or("rank", info.rank)?, "rank")?;
        require(info.size, line.size_or("size", info.size)?, "size")?;
        require(info.channels, line.size_or("channels", info.channels)?, "channels")
    }

    fn expect_status(&self, line: &Line, patience: Duration) -> Outcome {
        let deadline = Instant::now() + patience;
        let group = self.things.group(line)?;
        let mut now = group.status()?;
        while now.status == symm::Status::Ok && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
            now = group.status()?;
        }
        let expected = constant("STATUS", line.text("status")?)?;
        require(now.status.as_raw(), expected, &format!("status ({})", now.message))?;
        let seen = now.failed_rank.map_or(-1, |rank| rank as i64);
        require(seen, line.integer_or("failed_rank", seen)?, "failed_rank")
    }

    fn split(&mut self, line: &Line) -> Outcome {
        let color = u32::try_from(line.integer("color")?).ok();
        let key = line.integer("key")? as i32;
        let part = self.things.group(line)?.split(color, key)?;
        require(part.is_some(), color.is_some(), "whether there is a group")?;
        let name = line.text("as")?;
        if let Some(part) = part {
            self.things.add(name, Thing::Group(part));
        }
        Ok(())
    }

    fn rendezvous(&mut self, line: &Line) -> Outcome {
        let group = self.things.group(line)?;
        let buffer = self.things.take_buffer(line.text("buffer")?)?;
        let memory = group.rendezvous_tagged(buffer, line.size_or("tag", 0)? as u64)?;
        self.things.add(line.text("as")?, Thing::Memory(memory));
        Ok(())
    }

    fn expect_memory(&self, line: &Line) -> Outcome {
        let memory = self.things.memory(line.text("memory")?)?;
        require(memory.rank(), line.size_or("rank", memory.rank())?, "rank")?;
        require(memory.size(), line.size_or("size", memory.size())?, "size")?;
        require(memory.len(), line.size_or("bytes", memory.len())?, "bytes")?;
        require(memory.channels(), line.size_or("channels", memory.channels())?, "channels")
    }

    fn find(&mut self, line: &Line) -> Outcome {
        let group = self.things.group(line)?;
        let found = group.find(self.address(line, "at")?.cast_const())?;
        require(found.memory.id(), self.things.memory(line.text("memory")?)?.id(), "id")?;
        require(found.rank, line.size("rank")?, "rank")?;
        require(found.offset, line.size("offset")?, "offset")
    }

    fn write(&mut self, line: &Line) -> Outcome {
        let (dtype, f) = (line.constant("dtype")?, line.formula()?);
        let mut bytes = Vec::new();
        for i in 0..line.integer("count")? {
            bytes.extend(element::encode(dtype, f(self.rank as i64, i))?);
        }
        let (name, offset) = line.address("at")?;
        if let Some(array) = self.things.array(name) {
            array[offset..offset + bytes.len()].copy_from_slice(&bytes);
        } else {
            self.things.memory(name)?.view(line.size_or("rank", self.rank_in(name)?)?)?.write(offset, &bytes);
        }
        Ok(())
    }

    fn expect(&mut self, line: &Line) -> Outcome {
        let (dtype, f, shift) = (line.constant("dtype")?, line.formula()?, line.integer_or("shift", 0)?);
        let (count, from) = (line.size("count")?, line.integer_or("from", self.rank as i64)?);
        let op = if line.has("op") { Some(Op::from_raw(line.constant("op")?)) } else { None };
        let bytes = element::size(dtype);
        let (name, offset) = line.address("at")?;
        let seen: Vec<u8> = if let Some(array) = self.things.array(name) {
            array[offset..offset + count * bytes].to_owned()
        } else {
            let memory = self.things.memory(name)?;
            let view = memory.view(line.size_or("rank", self.rank_in(name)?)?)?;
            (offset..offset + count * bytes).map(|at| view.load(at)).collect()
        };
        for (seen, i) in seen.chunks(bytes).zip(shift..) {
            let value = op.map_or(f(from, i), |op| combine(op, |r| f(r, i)));
            require(seen, &element::encode(dtype, value)?, &format!("element {} ({value})", i - shift))?;
        }
        Ok(())
    }

    /// A memory means this rank's own block, unless the line says otherwise. Its rank is that of the memory's group.
    fn rank_in(&self, name: &str) -> Result<usize, String> {
        Ok(self.things.memory(name)?.rank())
    }

    /// The address of a byte of an array or a block.
    pub fn address(&mut self, line: &Line, key: &str) -> Outcome<*mut u8> {
        let (name, offset) = line.address(key)?;
        if let Some(array) = self.things.array(name) {
            return Ok(array.as_mut_ptr().wrapping_add(offset));
        }
        let own = self.rank_in(name)?;
        let rank = if key == "at" { line.size_or("rank", own)? } else { own };
        Ok(self.things.memory(name)?.pointer(rank)?.wrapping_add(offset))
    }

    /// `len` bytes there.
    pub fn operand(&mut self, line: &Line, key: &str, len: usize) -> Outcome<Raw<'static, u8>> {
        // SAFETY: arrays and blocks live until the next scenario begins, and calls on the host are done when they return. That the
        // table stays within them is the table's business, as in C.
        Ok(unsafe { Raw::new(self.address(line, key)?, len, Place::Host) })
    }
}

pub fn timeout(line: &Line) -> Result<Timeout, String> {
    Ok(match line.size_or("timeout_ms", 0)? {
        0 => Timeout::Group,
        some => Duration::from_millis(some as u64).into(),
    })
}

fn combine(op: Op, value: impl Fn(i64) -> i64) -> i64 {
    let all = (0..RANKS as i64).map(value);
    match op {
        Op::Sum => all.sum(),
        Op::Avg => all.sum::<i64>() / RANKS as i64,
        Op::Min => all.min().unwrap_or(0),
        Op::Max => all.max().unwrap_or(0),
        _ => all.product(),
    }
}

fn die() -> ! {
    const SIGKILL: i32 = 9;
    unsafe extern "C" {
        fn raise(signal: i32) -> i32;
    }
    // SAFETY: it does not return.
    unsafe { raise(SIGKILL) };
    unreachable!("SIGKILL cannot be survived")
}
