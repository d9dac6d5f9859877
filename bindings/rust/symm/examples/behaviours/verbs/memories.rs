//! Verbs on buffers and memories.

use super::sharing::put_back;
use crate::line::Line;
use crate::runner::{Gone, Runner};
use std::any::Any;
use symm::{
    AllocConfig, Atomic, Buffer, Memory, RendezvousOptions, Result, Status, Suspended, symm_sys,
};

pub fn alloc(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let config = AllocConfig::new().alignment(line.get_or("alignment", 0));
    let bytes = line.get("bytes");
    let buffer = r.group(line).alloc_with::<u8>(bytes, &config)?;
    r.made(line, buffer)
}

/// The kernel may refuse to bind memory to nodes, as in containers, but only if it is asked to.
pub fn expect_node(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let node = line.has("node").then(|| line.get::<u16>("node"));
    let mut config = AllocConfig::new();
    if let Some(node) = node {
        config = config.node(node);
    }

    match r.group(line).alloc_with::<u8>(line.get("bytes"), &config) {
        Ok(buffer) => {
            let expected = node.map(usize::from);
            assert_eq!(buffer.info()?.numa_node, expected, "the NUMA node");
        }
        Err(error) => {
            let (Some(node), Status::Unavailable) = (node, error.status) else {
                return Err(error);
            };
            assert!(error.to_string().contains(&format!("NUMA node {node} ")));
        }
    }
    Ok(())
}

pub fn rendezvous(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let group = r.group(line);
    let name = line.text("buffer");
    let options = RendezvousOptions::new()
        .tag(line.get_or("tag", 0))
        .channels(line.get_or("channels", 0))
        .timeout(line.timeout());
    let memory = match r.put(name, Gone).downcast::<Buffer<u8>>() {
        Ok(buffer) => group.rendezvous_with(*buffer, &options)?,
        Err(memory) => memory
            .downcast::<Memory<u8>>()
            .expect("a buffer")
            .rendezvous_on(&group, &options)?,
    };

    if line.has("memory") {
        assert_eq!(memory.as_raw(), r.block(line).as_raw(), "the memory");
    }
    r.put(name, memory.clone()); // which has the buffer
    r.made(line, memory)
}

pub fn move_memory(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let from = line.has("memory").then(|| r.block(line));
    let memory = r.group(line).move_memory(from.as_ref(), line.timeout())?;
    r.made(line, memory)
}

pub fn release(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    r.put(line.text("name"), Gone);
    Ok(())
}

pub fn expect_memory(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let memory = r.block(line);
    line.expect("rank", memory.rank());
    line.expect("size", memory.size());
    line.expect("bytes", memory.len());
    line.expect("channels", memory.channels());
    let own = memory.pointer(memory.rank())? as usize;
    assert_eq!(memory.buffer_info()?.address, own, "its buffer");
    r.expect_group_of(line, &memory.group())
}

pub fn expect_buffer(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let buffer: &Buffer<u8> = r.the(line.text("buffer"));
    line.expect("bytes", buffer.len());
    r.expect_group_of(line, &buffer.group())
}

pub fn find(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    if r.is_remote(line)? {
        return line.skip(); // no address is that of a remote block
    }

    let address = r.address(line, "at").cast_const();
    let Some(found) = r.group(line).find(address)? else {
        assert!(!line.has("memory"), "no memory was found");
        assert!(symm::find_buffer(address)?.is_none(), "a buffer was found");
        return Ok(());
    };

    assert_eq!(found.memory.id(), r.block(line).id(), "id");
    line.expect("rank", found.rank);
    line.expect("offset", found.offset);
    Ok(())
}

pub fn write(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    r.write(line, "at")
}

pub fn expect(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    r.expect(line, "at")
}

pub fn put(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let source = r.bytes(line, "source");
    r.block(line)
        .put(line.get("rank"), line.get("offset"), &source)
}

pub fn get(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let mut destination = r.bytes(line, "destination");
    r.block(line)
        .get(line.get("rank"), line.get("offset"), &mut destination)
}

pub fn fill32(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let at = line.at::<u32>();
    let count = line.get("count");
    r.words::<u32>(line)
        .fill(line.get("rank"), at, line.get("value"), count)
}

macro_rules! fills {
    ($($verb:ident $word:ident;)*) => {$(
        pub fn $verb(r: &mut Runner, line: &Line<'_>) -> Result<()> {
            let at = line.at::<$word>();
            let count = line.get("count");
            r.words::<$word>(line)
                .fill(line.get("rank"), at, line.get("value"), count)
        }
    )*};
}
fills! {
    fill8 u8;
    fill16 u16;
    fill64 u64;
}

macro_rules! changes {
    ($($change:ident $read:ident $word:ident;)*) => {$(
        pub fn $change(r: &mut Runner, line: &Line<'_>) -> Result<()> {
            let value: $word = line.get_or("value", 0);
            let how = match line.text("atomic") {
                "FETCH" => Atomic::Fetch,
                "ADD" => Atomic::Add(value),
                "AND" => Atomic::And(value),
                "OR" => Atomic::Or(value),
                "XOR" => Atomic::Xor(value),
                "SWAP" => Atomic::Swap(value),
                "COMPARE_SWAP" => Atomic::CompareSwap {
                    current: line.get("compared"),
                    new: value,
                },
                other => panic!("no operation {other}"),
            };
            let at = line.at::<$word>();
            let mut before = [0];
            r.words::<$word>(line)
                .fetch(line.get("rank"), at, how, &mut before)?;
            line.expect("expected", before[0]);
            Ok(())
        }

        pub fn $read(r: &mut Runner, line: &Line<'_>) -> Result<()> {
            let at = line.at::<$word>();
            let seen = r.words::<$word>(line).read_value(line.get("rank"), at)?;
            line.expect("expected", seen);
            Ok(())
        }
    )*};
}
changes! {
    atomic32 read_value32 u32;
    atomic64 read_value64 u64;
}

pub fn write_value32(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let at = line.at::<u32>();
    r.words::<u32>(line)
        .write_value(line.get("rank"), at, line.get("value"))
}

pub fn write_value64(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let at = line.at::<u64>();
    r.words::<u64>(line)
        .write_value(line.get("rank"), at, line.get("value"))
}

pub fn wait_value32(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let at = line.at::<u32>();
    r.words::<u32>(line)
        .wait_value(at, line.compare(), line.get("value"), line.timeout())
}

pub fn wait_value64(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let at = line.at::<u64>();
    r.words::<u64>(line)
        .wait_value(at, line.compare(), line.get("value"), line.timeout())
}

/// A thing of this type, which the verb takes.
fn taken<T: Any>(r: &mut Runner, name: &str) -> T {
    let thing = r.remove(name).expect("a thing of that name");
    *thing.downcast().expect("a thing of that type")
}

pub fn suspend(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let name = line.text("name");
    let outcome = taken::<Buffer<u8>>(r, name).suspend(line.has("keep") && line.flag("keep"));
    put_back(r, name, outcome)
}

pub fn resume(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let name = line.text("name");
    let outcome = taken::<Suspended<u8>>(r, name).resume();
    put_back(r, name, outcome)
}

pub fn expect_suspended(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let name = line.text("name");
    let flags = match r.find::<Suspended<u8>>(name) {
        Some(suspended) => suspended.info()?.flags,
        None => r.the::<Buffer<u8>>(name).info()?.flags,
    };
    let is_suspended = flags & symm_sys::SYMM_BUFFER_SUSPENDED != 0;
    line.expect("suspended", i64::from(is_suspended));
    Ok(())
}

pub fn write_buffer(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let name = line.text("name");
    let mut buffer = taken::<Buffer<u8>>(r, name);
    buffer.as_mut_slice()?.fill(line.get("value"));
    r.put(name, buffer);
    Ok(())
}

pub fn expect_buffer_bytes(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let value: u8 = line.get("value");
    let buffer = r.the::<Buffer<u8>>(line.text("name"));
    assert!(buffer.as_slice()?.iter().all(|byte| *byte == value));
    Ok(())
}
