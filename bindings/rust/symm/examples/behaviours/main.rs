// SPDX-License-Identifier: Apache-2.0
//! Runs tests/bindings/behaviours/table.txt as one of three ranks, through this crate; that directory's README says how. Where the
//! types of Rust make a wrong call impossible, the call goes through the raw layer: `raw.rs`.

mod line;
#[path = "../../tests/ranks/mod.rs"]
mod ranks;
mod raw;

use half::{bf16, f16};
use line::{Line, Outcome, RANKS, named, number};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use symm::{Algorithm, Buffer, Element, F8E4M3, F8E5M2, Group, GroupConfig, Memory, Op, Place, Raw, Status, Timeout};

/// A handle, an array of this process, or the address of a handle that was released or that a memory has taken.
enum Thing {
    Group(Group),
    Buffer(Buffer<u8>),
    Memory(Memory<u8>),
    Array(Vec<u8>),
    Gone(*mut c_void),
}

impl Thing {
    fn raw(&self) -> *mut c_void {
        match self {
            Self::Group(group) => group.as_raw().cast(),
            Self::Buffer(buffer) => buffer.as_raw().cast(),
            Self::Memory(memory) => memory.as_raw().cast(),
            Self::Array(array) => array.as_ptr().cast_mut().cast(),
            Self::Gone(raw) => *raw,
        }
    }
}

type Verb = fn(&mut Runner, &Line) -> Outcome;

/// What each verb does. The keys that it does not have are not asked for, so that a mistake in the table is found.
const VERBS: &[(&str, Verb)] = &[
    ("expect_group", |r, line| {
        let info = r.group(line)?.info()?;
        line.compare(&[("rank", info.rank), ("size", info.size), ("channels", info.channels)])
    }),
    ("expect_status", |r, line| r.expect_status(line, Duration::ZERO)),
    ("await", |r, line| r.expect_status(line, Duration::from_secs(20))),
    ("create", |r, line| {
        let name = line.text("as")?;
        r.create(name, name, Duration::from_millis(line.get("timeout_ms")?))
    }),
    ("split", |r, line| {
        let (name, color) = (line.text("as")?, u32::try_from(line.get::<i64>("color")?).ok());
        let part = r.group(line)?.split(color, line.get("key")?)?;
        require(part.is_some(), color.is_some(), "whether there is a group")?;
        part.map_or(Ok(()), |part| r.add(name, Thing::Group(part)))
    }),
    ("finalize", |r, line| Ok(r.group(line)?.finalize()?)),
    ("abort", |r, line| Ok(r.group(line)?.abort(line.text("reason")?)?)),
    ("die", |_, _| ranks::die()),
    ("barrier", |r, line| {
        let group = r.group(line)?.with_timeout(timeout(line)?);
        Ok(group.barrier_among(&line.ranks("among")?, line.get_or("channel", 0)?)?)
    }),
    ("private", |r, line| r.add(line.text("as")?, Thing::Array(vec![0; line.get("bytes")?]))),
    ("alloc", |r, line| {
        let buffer = r.group(line)?.alloc(line.get("bytes")?)?;
        r.add(line.text("as")?, Thing::Buffer(buffer))
    }),
    ("rendezvous", |r, line| {
        let (group, name) = (r.group(line)?, line.text("buffer")?);
        let gone = Thing::Gone(r.thing(name)?.raw());
        let Some(Thing::Buffer(buffer)) = r.things.insert(name.to_owned(), gone) else {
            return Err(format!("{name} is no buffer").into());
        };
        let memory = group.rendezvous_tagged(buffer, line.get_or("tag", 0)?)?;
        r.add(line.text("as")?, Thing::Memory(memory))
    }),
    ("release", |r, line| {
        let gone = Thing::Gone(r.thing(line.text("name")?)?.raw());
        r.add(line.text("name")?, gone)
    }),
    ("expect_memory", |r, line| {
        let m = r.block(line)?;
        let seen = [("rank", m.rank()), ("size", m.size()), ("bytes", m.len()), ("channels", m.channels())];
        line.compare(&seen)
    }),
    ("find", |r, line| {
        let found = r.group(line)?.find(r.address(line, "at")?.cast_const())?;
        require(found.memory.id(), r.block(line)?.id(), "id")?;
        line.compare(&[("rank", found.rank), ("offset", found.offset)])
    }),
    ("write", |r, line| {
        let (dtype, f, (name, at)) = (dtype(line)?.0, line.formula()?, line.address("at")?);
        let elements = (0..line.get("count")?).map(|i| encode(dtype, f(r.rank as i64, i)));
        let bytes = elements.collect::<Outcome<Vec<_>>>()?.concat();
        match r.things.get_mut(name) {
            Some(Thing::Array(array)) => array[at..at + bytes.len()].copy_from_slice(&bytes),
            _ => r.memory(name)?.view(r.owner(line, name)?)?.write(at, &bytes),
        }
        Ok(())
    }),
    ("expect", |r, line| {
        let (dtype, f, (name, at)) = (dtype(line)?.0, line.formula()?, line.address("at")?);
        let (count, from): (usize, i64) = (line.get("count")?, line.get_or("from", r.rank as i64)?);
        let (shift, size) = (line.get_or("shift", 0)?, size(dtype));
        let op = line.has("op").then(|| line.named("op", Op::from_raw)).transpose()?;
        let seen: Vec<u8> = match r.thing(name)? {
            Thing::Array(array) => array[at..at + count * size].to_owned(),
            _ => {
                let (memory, rank) = (r.memory(name)?, r.owner(line, name)?);
                let view = memory.view(rank)?;
                (at..at + count * size).map(|at| view.load(at)).collect()
            }
        };
        for (seen, i) in seen.chunks(size).zip(shift..) {
            let value = op.map_or(f(from, i), |op| combine(op, |r| f(r, i)));
            require(seen, &encode(dtype, value)?, &format!("element {} ({value})", i - shift))?;
        }
        Ok(())
    }),
    ("put", |r, line| {
        let source = r.operand(line, "source", line.get("bytes")?)?;
        Ok(r.block(line)?.put(line.get("rank")?, line.get("offset")?, &source)?)
    }),
    ("put_with_signal", |r, line| {
        let (source, channel) = (r.operand(line, "source", line.get("bytes")?)?, line.get_or("channel", 0)?);
        let (memory, rank, offset) = (r.block(line)?, line.get("rank")?, line.get("offset")?);
        Ok(memory.put_with_signal(rank, offset, &source, channel)?)
    }),
    ("get", |r, line| {
        let mut destination = r.operand(line, "destination", line.get("bytes")?)?;
        Ok(r.block(line)?.get(line.get("rank")?, line.get("offset")?, &mut destination)?)
    }),
    ("put_signal", |r, line| Ok(r.block(line)?.put_signal(line.get("rank")?, line.get_or("channel", 0)?)?)),
    ("wait_signal", |r, line| {
        let (memory, channel) = (r.block(line)?, line.get_or("channel", 0)?);
        Ok(memory.wait_signal_for(line.get("rank")?, channel, timeout(line)?)?)
    }),
    // Words: the safe layer counts in them.
    ("fill32", |r, line| {
        let (memory, word) = (r.block(line)?.cast::<u32>(), line.get::<usize>("offset")? / 4);
        Ok(memory.fill(line.get("rank")?, word, line.get("value")?, line.get("count")?)?)
    }),
    ("write_value32", |r, line| {
        let (memory, word) = (r.block(line)?.cast::<u32>(), line.get::<usize>("offset")? / 4);
        Ok(memory.write_value(line.get("rank")?, word, line.get("value")?)?)
    }),
];

struct Runner {
    rank: usize,
    things: BTreeMap<String, Thing>,
}

impl Runner {
    fn begin(&mut self, scenario: &str) -> Outcome {
        self.things.clear();
        self.create("group", scenario, Duration::from_secs(60))
    }

    fn run(&mut self, line: &Line) -> Outcome {
        if raw::only(self, line)? {
            return raw::run(self, line);
        }
        let verb = VERBS.iter().find(|(name, _)| *name == line.verb).map(|(_, verb)| *verb);
        let verb = if line.has("send") { dtype(line)?.1 } else { verb };
        verb.ok_or(format!("unknown verb {}", line.verb))?(self, line)
    }

    fn add(&mut self, name: &str, thing: Thing) -> Outcome {
        self.things.insert(name.to_owned(), thing);
        Ok(())
    }

    fn thing(&self, name: &str) -> Outcome<&Thing> {
        Ok(self.things.get(name).ok_or(format!("nothing is called {name}"))?)
    }

    fn group(&self, line: &Line) -> Outcome<Group> {
        match self.thing(line.text_or("group", "group")?)? {
            Thing::Group(group) => Ok(group.clone()),
            _ => Err("that is no group".into()),
        }
    }

    fn memory(&self, name: &str) -> Outcome<Memory<u8>> {
        match self.thing(name)? {
            Thing::Memory(memory) => Ok(memory.clone()),
            _ => Err(format!("{name} is no memory").into()),
        }
    }

    fn block(&self, line: &Line) -> Outcome<Memory<u8>> {
        self.memory(line.text("memory")?)
    }

    fn create(&mut self, name: &str, title: &str, create_timeout: Duration) -> Outcome {
        let config = GroupConfig::new().backend(symm::Backend::Host).name(title);
        let group = config.create_timeout(create_timeout).timeout(Duration::from_secs(60)).create()?;
        self.add(name, Thing::Group(group))
    }

    fn expect_status(&mut self, line: &Line, patience: Duration) -> Outcome {
        let (group, deadline) = (self.group(line)?, Instant::now() + patience);
        let mut now = group.status()?;
        while now.status == Status::Ok && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
            now = group.status()?;
        }
        require(now.status, line.named("status", Status::from_raw)?, &format!("status ({})", now.message))?;
        let seen = now.failed_rank.map_or(-1, |rank| rank as i64);
        require(seen, line.get_or("failed_rank", seen)?, "failed_rank")
    }

    /// Whose block `at` means: this rank's own, unless the line says otherwise. Its rank is that of the memory's group.
    fn owner(&self, line: &Line, name: &str) -> Outcome<usize> {
        line.get_or("rank", self.memory(name)?.rank())
    }

    /// The address of a byte of an array or a block.
    fn address(&self, line: &Line, key: &str) -> Outcome<*mut u8> {
        let (name, offset) = line.address(key)?;
        let start = match self.thing(name)? {
            Thing::Array(array) => array.as_ptr().cast_mut(),
            _ if key == "at" => self.memory(name)?.pointer(self.owner(line, name)?)?,
            _ => self.memory(name)?.pointer(self.memory(name)?.rank())?,
        };
        Ok(start.wrapping_add(offset))
    }

    /// `len` elements there.
    fn operand<T: Element>(&self, line: &Line, key: &str, len: usize) -> Outcome<Raw<'static, T>> {
        // SAFETY: arrays and blocks live until the next scenario begins, and calls on the host are done when they return. That the
        // table stays within them is the table's business, as in C.
        Ok(unsafe { Raw::new(self.address(line, key)?.cast(), len, Place::Host) })
    }
}

fn collective<T: Element>(r: &mut Runner, line: &Line) -> Outcome {
    let algorithm = line.has("algorithm").then(|| line.named("algorithm", Algorithm::from_raw)).transpose()?;
    let group = r.group(line)?.with_algorithm(algorithm.unwrap_or(Algorithm::Auto));
    let count: usize = line.get("count")?;
    let all = count.saturating_mul(group.size());
    let (of_send, of_recv) = match line.verb.as_str() {
        "reduce_scatter" => (all, count),
        "allgather" => (count, all),
        "alltoall" => (all, all),
        _ => (count, count),
    };
    let (send, mut recv) = (r.operand::<T>(line, "send", of_send)?, r.operand::<T>(line, "recv", of_recv)?);
    let op = || line.named("op", Op::from_raw);
    match line.verb.as_str() {
        "allreduce" => group.allreduce(&send, &mut recv, op()?)?,
        "reduce_scatter" => group.reduce_scatter(&send, &mut recv, op()?)?,
        "allgather" => group.allgather(&send, &mut recv)?,
        "broadcast" => group.broadcast(&send, &mut recv, line.get("root")?)?,
        "reduce" => group.reduce(&send, &mut recv, op()?, line.get("root")?)?,
        "alltoall" => group.alltoall(&send, &mut recv)?,
        verb => return Err(format!("unknown verb {verb}").into()),
    }
    Ok(())
}

type Type = (&'static str, i32, Verb);

const fn of<T: Element>(name: &'static str) -> Type {
    (name, T::DTYPE, collective::<T>)
}

const TYPES: &[Type] = &[
    of::<i8>("I8"),
    of::<i32>("I32"),
    of::<i64>("I64"),
    of::<u8>("U8"),
    of::<u32>("U32"),
    of::<u64>("U64"),
    of::<f16>("F16"),
    of::<f32>("F32"),
    of::<f64>("F64"),
    of::<bf16>("BF16"),
    of::<F8E4M3>("F8E4M3"),
    of::<F8E5M2>("F8E5M2"),
];

/// The value of a data type, and the collectives on elements of it if it exists.
fn dtype(line: &Line) -> Outcome<(i32, Option<Verb>)> {
    let name = line.text("dtype")?;
    match TYPES.iter().find(|(known, ..)| *known == name) {
        Some((_, dtype, run)) => Ok((*dtype, Some(*run))),
        None => Ok((number(name)? as i32, None)),
    }
}

fn size(dtype: i32) -> usize {
    (dtype & 0xff) as usize / 8
}

/// The bits of `value`, little endian, without any arithmetic of the type.
fn encode(dtype: i32, value: i64) -> Outcome<Vec<u8>> {
    let bytes = size(dtype);
    let (mantissa, bias) = match dtype {
        f16::DTYPE => (10, 15),
        f32::DTYPE => (23, 127),
        f64::DTYPE => (52, 1023),
        bf16::DTYPE => (7, 127),
        F8E4M3::DTYPE => (3, 7),
        F8E5M2::DTYPE => (2, 15),
        _ => return Ok(value.to_le_bytes()[..bytes].to_owned()),
    };
    let Some(k) = value.unsigned_abs().checked_ilog2() else { return Ok(vec![0; bytes]) };
    let rest = value.unsigned_abs() ^ (1 << k);
    if k > mantissa && rest & ((1 << (k - mantissa)) - 1) != 0 {
        return Err("the table expects an inexact value".into());
    }
    let fraction = if k > mantissa { rest >> (k - mantissa) } else { rest << (mantissa - k) };
    let bits = u64::from(value < 0) << (8 * bytes - 1) | (u64::from(k) + bias) << mantissa | fraction;
    Ok(bits.to_le_bytes()[..bytes].to_owned())
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

fn require<T: PartialEq + std::fmt::Debug>(seen: T, expected: T, what: &str) -> Outcome {
    if seen == expected { Ok(()) } else { Err(format!("{what} is {seen:?}, not {expected:?}").into()) }
}

fn timeout(line: &Line) -> Outcome<Timeout> {
    let millis = line.get_or("timeout_ms", 0)?;
    Ok(if millis == 0 { Timeout::Group } else { Duration::from_millis(millis).into() })
}

/// Runs a line, which must fail as it says, or not at all.
fn run(runner: &mut Runner, line: &Line) -> Outcome {
    let wrong = match runner.run(line) {
        Err(wrong) => wrong,
        Ok(()) if line.failure.is_none() => return line.require_all_used(),
        Ok(()) => return Err("it succeeded".into()),
    };
    let (Some((status, blamed, words)), Some(error)) = (&line.failure, wrong.downcast_ref::<symm::Error>()) else {
        return Err(wrong);
    };
    require(error.status, named(status, Status::from_raw)?, &format!("status ({error})"))?;
    let rank = error.rank.map_or(-1, |rank| rank as i64);
    require(rank, blamed.unwrap_or(rank), &format!("the rank to blame ({error})"))?;
    let missing = words.iter().find(|words| !error.message.contains(*words));
    missing.map_or(Ok(()), |words| Err(format!("'{words}' is not in '{}'", error.message).into()))
}

fn table(path: &str, rank: usize) -> Outcome<usize> {
    let mut runner = Runner { rank, things: BTreeMap::new() };
    let mut scenarios = 0;
    for (number, text) in std::fs::read_to_string(path)?.lines().enumerate() {
        let mut step = || {
            if let Some(name) = text.strip_prefix("scenario ") {
                scenarios += 1;
                return runner.begin(name);
            }
            if text.is_empty() || text.starts_with('#') {
                return Ok(());
            }
            let line = Line::new(text, rank)?;
            if line.mine { run(&mut runner, &line) } else { Ok(()) }
        };
        step().map_err(|what| format!("table.txt:{}: rank {rank}: {what}", number + 1))?;
    }
    Ok(scenarios)
}

fn main() -> ExitCode {
    let rank = std::env::var("SYMM_RANK").ok().and_then(|rank| rank.parse().ok());
    let (Some(rank), Some(path)) = (rank, std::env::args().nth(1)) else {
        eprintln!("usage: symm run -n 3 -- behaviours table.txt");
        return ExitCode::from(2);
    };
    let result = table(&path, rank);
    match &result {
        Ok(scenarios) => println!("rank {rank}: {scenarios} scenarios"),
        Err(what) => println!("{what}"),
    }
    if matches!(result, Ok(1..)) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
