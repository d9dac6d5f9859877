//! The objects that the table names, and access to their memory.

use crate::line::Line;
use crate::values::{combine, dtype, encode, named, size};
use crate::{Verb, verbs};
use std::any::{Any, type_name};
use std::collections::BTreeMap;
use std::time::Duration;
use symm::{
    Algorithm, Backend, Batch, Element, Group, GroupConfig, Heap, Memory, Order, Place, Raw,
    Result, Scale, Span,
};

/// Bytes of the memory and of the array with which a scenario begins.
const BYTES: usize = 262_144;

/// Stands where a name's handle was released, or was taken by a call that failed.
pub struct Gone;

pub struct Runner {
    pub rank: usize,
    /// By their names: groups, buffers, memories, heaps and their pieces, arrays of this process,
    /// tokens, imports. The name of a buffer that was shared has the memory.
    things: BTreeMap<String, Box<dyn Any>>,
    /// The lines that wait for the batch that they name.
    waiting: BTreeMap<String, Vec<Line<'static>>>,
    /// The batch that is being collected.
    pub batch: Option<Batch<'static>>,
}

/// The deadlines of the group with which a scenario begins.
pub const PATIENCE: Duration = Duration::from_secs(60);

impl Runner {
    pub fn new(rank: usize) -> Self {
        Self {
            rank,
            things: BTreeMap::new(),
            waiting: BTreeMap::new(),
            batch: None,
        }
    }

    /// Keeps a call for the batch that its line names.
    pub fn wait(&mut self, line: Line<'static>) {
        let name = line.text("into").to_owned();
        self.waiting.entry(name).or_default().push(line);
    }

    /// Makes the lines that wait for a batch.
    pub fn make_batch(&mut self, line: &Line<'_>) -> Result<()> {
        let lines = self.waiting.remove(line.text("calls")).expect("calls");
        self.batch = Some(self.group(line).batch());
        for one in &lines {
            let noted = self.verb(one).expect("a collective")(self, one);
            if noted.is_err() {
                self.batch = None;
                return noted;
            }
            one.require_all_keys_used();
        }
        self.batch.take().expect("a batch").submit()
    }

    pub fn begin(&mut self, scenario: &str) -> Result<()> {
        self.things.clear();
        self.waiting.clear();
        let group = GroupConfig::new()
            .name(scenario)
            .backend(Backend::Host)
            .timeout(PATIENCE)
            .create_timeout(PATIENCE)
            .create()?;
        let memory = group.memory::<u8>(BYTES)?;
        self.put("b", memory.clone());
        self.put("m", memory);
        self.put("p", vec![0_u8; BYTES]);
        self.put("group", group);
        Ok(())
    }

    /// Runs a verb. A collective with a formula is given operands by it, and must give the results
    /// of it.
    pub fn run(&mut self, line: &Line<'_>) -> Result<()> {
        let verb = self
            .verb(line)
            .unwrap_or_else(|| panic!("unknown verb {}", line.verb));
        if !line.has("send") || !line.has("f") {
            return verb(self, line);
        }

        self.write(line, "send")?;
        verb(self, line)?;
        self.expect(line, "recv")
    }

    /// A verb with `send` is a collective, which depends on the data type.
    fn verb(&self, line: &Line<'_>) -> Option<Verb> {
        if line.has("send") {
            dtype(line.text("dtype")).1
        } else {
            verbs::find(line.verb)
        }
    }

    /// Gives a name to a thing, and returns the thing that had the name before.
    pub fn put(&mut self, name: &str, thing: impl Any) -> Box<dyn Any> {
        self.things
            .insert(name.to_owned(), Box::new(thing))
            .unwrap_or(Box::new(()))
    }

    /// Gives the line's name to a thing that the line has made.
    pub fn made(&mut self, line: &Line<'_>, thing: impl Any) -> Result<()> {
        self.put(line.text("as"), thing);
        Ok(())
    }

    pub fn remove(&mut self, name: &str) -> Option<Box<dyn Any>> {
        self.things.remove(name)
    }

    /// The thing of a name, if it is of this type.
    pub fn find<T: Any>(&self, name: &str) -> Option<&T> {
        self.things
            .get(name)
            .unwrap_or_else(|| panic!("nothing is called {name}"))
            .downcast_ref()
    }

    pub fn the<T: Any>(&self, name: &str) -> &T {
        self.find(name)
            .unwrap_or_else(|| panic!("{name} is no {}", type_name::<T>()))
    }

    /// The group of a line, with the timeout, algorithm, tag, limit and scale that the
    /// line sets.
    pub fn group(&self, line: &Line<'_>) -> Group {
        let algorithm = line
            .find("algorithm")
            .map_or(Algorithm::Auto, |name| named(name, Algorithm::from_raw));
        let mut group = self
            .the::<Group>(line.find("group").unwrap_or("group"))
            .with_timeout(line.timeout())
            .with_algorithm(algorithm)
            .with_max_blocks(line.get_or("max_blocks", 0));
        if let Some(order) = line.find("order") {
            group = group.with_order(named(order, Order::from_raw));
        }
        let per_scale = line.get_or("wire_group", 0);
        group = match line.find("wire") {
            Some("F8E4M3") => group.with_wire::<symm::F8E4M3>(per_scale),
            Some("F8E5M2") => group.with_wire::<symm::F8E5M2>(per_scale),
            Some("I8") => group.with_wire::<i8>(per_scale),
            Some(other) => panic!("{other} is no type of codes"),
            None => group,
        };
        group = self.in_chunks(line, group);
        if let Some(tag) = line.find("tag") {
            group = group.with_tag(tag).expect("a tag without NUL");
        }

        let Some(position) = line.find("position") else {
            return group;
        };
        let position = named(position, Scale::from_raw);
        match line.find("scale") {
            Some(factor) => group.with_scale(position, f64::from(line.integer::<i32>(factor))),
            // SAFETY: the table keeps a number there until the call has returned.
            None => unsafe { group.with_scale_at(position, self.address(line, "scale_at").cast()) },
        }
    }

    /// The handle for calls in the chunks of a line, with its words.
    fn in_chunks(&self, line: &Line<'_>, group: Group) -> Group {
        if line.find("chunk_bytes").is_none() {
            return group;
        }
        let mut group = group.with_chunks(line.get_or("chunk_bytes", 0));
        let value = line.get_or("word_value", 0);
        // SAFETY: the table keeps words there until the call has returned.
        unsafe {
            if line.find("progress").is_some() {
                group = group.with_progress(self.address(line, "progress").cast(), value);
            }
            if line.find("ready").is_some() {
                group = group.with_ready(self.address(line, "ready").cast(), value);
            }
            if line.find("word_at").is_some() {
                group = group.with_word_at(self.address(line, "word_at").cast());
            }
        }
        group
    }

    pub fn memory(&self, name: &str) -> Memory<u8> {
        match self.find::<Heap>(name) {
            Some(heap) => heap.memory(),
            None => self.the::<Memory<u8>>(name).clone(),
        }
    }

    pub fn heap(&self, line: &Line<'_>) -> &Heap {
        self.the(line.text("heap"))
    }

    /// The memory of a line, with the timeout that the line sets.
    pub fn block(&self, line: &Line<'_>) -> Memory<u8> {
        self.memory(line.text("memory"))
            .with_timeout(line.timeout())
    }

    /// Requires that something belongs to the group that the line says, if it says anything of it.
    pub fn expect_group_of(&self, line: &Line<'_>, seen: &Group) -> Result<()> {
        if let Some(name) = line.find("of") {
            assert_eq!(seen.info()?.id, self.the::<Group>(name).info()?.id, "of");
        }
        Ok(())
    }

    pub fn words<T: Element>(&self, line: &Line<'_>) -> Memory<T> {
        self.block(line).cast()
    }

    /// The line's `bytes` of this rank's block at `at`.
    pub fn piece(&self, line: &Line<'_>) -> Result<Span<'_, u8>> {
        let (name, start) = line.address("at");
        let bytes: usize = line.get("bytes");
        self.the::<Memory<u8>>(name).span(start..start + bytes)
    }

    /// Whether the rank of a line is on another machine: its memory is not mapped here, and is
    /// copied. Only in the group of the scenario.
    pub fn is_remote(&self, line: &Line<'_>) -> Result<bool> {
        let rank = line.get_or("rank", self.rank);
        let peer = self.the::<Group>("group").peer_info(rank)?;
        Ok(!peer.mapped)
    }

    /// The rank whose block an address means: this rank, unless the line says otherwise. The
    /// number is that in the memory's group.
    fn owner(&self, line: &Line<'_>, name: &str) -> usize {
        line.get_or("rank", self.memory(name).rank())
    }

    /// The address of a byte of an array or a block. A block that is not mapped has an address that
    /// lies in no block.
    pub fn address(&self, line: &Line<'_>, key: &str) -> *mut u8 {
        let (name, offset) = line.address(key);
        let block = |rank| match self.memory(name).pointer(rank) {
            Ok(pointer) => pointer,
            Err(_) => std::ptr::from_ref(line).cast_mut().cast(),
        };

        let start = match self.find::<Vec<u8>>(name) {
            Some(array) => array.as_ptr().cast_mut(),
            None if key == "at" => block(self.owner(line, name)),
            None => block(self.memory(name).rank()),
        };
        start.wrapping_add(offset)
    }

    /// `len` elements at an address.
    pub fn operand<T: Element>(&self, line: &Line<'_>, key: &str, len: usize) -> Raw<'static, T> {
        // SAFETY: arrays and blocks live until the next scenario begins, and calls on the host are
        // done when they return. The table must stay within them, as a program in C must.
        unsafe { Raw::new(self.address(line, key).cast(), len, Place::Host) }
    }

    /// `count` blocks of the line's `bytes`, one behind the other.
    pub fn blocks(&self, line: &Line<'_>, key: &str, count: usize) -> Vec<Raw<'static, u8>> {
        let bytes = line.get::<usize>("bytes");
        let start = self.address(line, key);
        (0..count)
            // SAFETY: as of operand().
            .map(|i| unsafe { Raw::new(start.wrapping_add(i * bytes), bytes, Place::Host) })
            .collect()
    }

    /// The line's `bytes` at an address.
    pub fn bytes(&self, line: &Line<'_>, key: &str) -> Raw<'static, u8> {
        self.operand(line, key, line.get("bytes"))
    }

    /// Bytes of a private array.
    pub fn array(&mut self, line: &Line<'_>, key: &str, bytes: usize) -> &mut [u8] {
        let (name, at) = line.address(key);
        let thing = self.things.get_mut(name);
        let array = thing.and_then(|thing| thing.downcast_mut::<Vec<u8>>());
        &mut array.expect("a private array")[at..at + bytes]
    }

    /// Stores elements by the formula.
    pub fn write(&mut self, line: &Line<'_>, key: &str) -> Result<()> {
        let dtype = dtype(line.text("dtype")).0;
        let f = line.formula();
        let (name, at) = line.address(key);
        let rank = self.rank as i64;
        let bytes: Vec<u8> = (0..line.get("count"))
            .flat_map(|i| encode(dtype, f(rank, i)))
            .collect();

        let thing = self.things.get_mut(name);
        if let Some(array) = thing.and_then(|thing| thing.downcast_mut::<Vec<u8>>()) {
            array[at..at + bytes.len()].copy_from_slice(&bytes);
            return Ok(());
        }

        let memory = self.memory(name);
        let owner = self.owner(line, name);
        if self.is_remote(line)? {
            return memory.put(owner, at, &bytes);
        }
        memory.view(owner)?.write(at, &bytes);
        Ok(())
    }

    /// Requires elements by the formula, or the reduction of those of all ranks.
    pub fn expect(&self, line: &Line<'_>, key: &str) -> Result<()> {
        if self.is_remote(line)? && self.group(line).status()?.is_some() {
            return line.skip(); // the memory of a dead machine is gone
        }

        let operand = line.text("dtype");
        let result = if line.has("result") {
            line.text("result")
        } else {
            operand
        };
        let dtype = dtype(result).0;
        let f = line.formula();
        let from: i64 = line.get_or("from", self.rank as i64);
        let shift: i64 = line.get_or("shift", 0);
        let times: i64 = line.get_or("times", 1);
        let op = line.has("op").then(|| line.op());
        let count: usize = line.get("count");

        let seen = self.load(line, key, count * size(dtype))?;
        for (i, seen) in (0..).zip(seen.chunks(size(dtype))) {
            let value = match op {
                Some(op) => combine(op, |rank| f(rank, i + shift)),
                None => f(from, i + shift),
            };
            let value = value * times;
            assert_eq!(seen, encode(dtype, value), "element {i} ({value})");
        }
        Ok(())
    }

    /// The bytes at an address, in an array or a block.
    fn load(&self, line: &Line<'_>, key: &str, bytes: usize) -> Result<Vec<u8>> {
        let (name, at) = line.address(key);
        if let Some(array) = self.find::<Vec<u8>>(name) {
            return Ok(array[at..at + bytes].to_owned());
        }

        let memory = self.memory(name);
        let owner = self.owner(line, name);
        if self.is_remote(line)? {
            let mut copy = vec![0; bytes];
            memory.get(owner, at, &mut copy)?;
            return Ok(copy);
        }
        let view = memory.view(owner)?;
        Ok((at..at + bytes).map(|at| view.load(at)).collect())
    }
}
