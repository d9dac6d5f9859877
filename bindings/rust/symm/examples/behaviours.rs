//! Runs tests/bindings/behaviours/table.txt as one of three ranks, through this crate; that directory's README says how; what is not as the
//! table says is a panic. Wrong calls that the types of Rust make impossible are left out: [`Runner::cannot_be_said`].

#[path = "../tests/ranks/mod.rs"]
mod ranks;

use half::{bf16, f16};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::num::ParseIntError;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use symm::ipc::{self, ExportOptions, Import, Token};
use symm::{
    Algorithm, AllocConfig, Blocks, Bool, Buffer, Compare, Element, F8E4M3, F8E5M2, Group, GroupConfig, Heap, Memory, Op, Piece,
    Place, Raw, Reduces, Result, RmsNorm, Scale, SignalOp, SignalWait, Span, Status, Timeout,
};

const RANKS: usize = 3;

/// One line of the table, and the values in it as one rank reads them. A mistake in the table is a panic.
struct Line {
    /// Whether this rank runs it.
    mine: bool,
    verb: String,
    /// The status with which it must fail, the rank that is to be blamed (-1: none), and words of the message.
    failure: Option<(String, Option<i64>, Vec<String>)>,
    rank: usize,
    values: BTreeMap<String, String>,
    used: RefCell<BTreeSet<String>>,
}

impl Line {
    fn new(text: &str, rank: usize) -> Self {
        let (call, failure) = text.split_once(" -> ").map_or((text, None), |(call, failure)| (call, Some(failure)));
        let mut words = call.split_whitespace();
        let (ranks, verb) = (words.next().expect("ranks"), words.next().expect("a verb").to_owned());
        let mine = ranks == "all" || ranks.split(',').any(|one| one == rank.to_string());
        let pairs = words.map(|word| word.split_once('=').expect("key=value"));
        let values = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let mut line = Self { mine, verb, failure: None, rank, values, used: RefCell::default() };
        line.failure = failure.map(|failure| {
            let (status, words) = failure.split_once(": ").expect("a failure with words");
            let blamed = status.split_once(" rank=").map(|(_, rank)| line.parse(rank));
            let status = status.split(' ').next().unwrap_or_default().to_owned();
            (status, blamed, words.split(" & ").map(str::to_owned).collect())
        });
        line
    }

    fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    fn text(&self, key: &str) -> &str {
        self.used.borrow_mut().insert(key.to_owned());
        self.values.get(key).unwrap_or_else(|| panic!("{} without {key}=", self.verb))
    }

    fn text_or<'a>(&'a self, key: &str, otherwise: &'a str) -> &'a str {
        if self.has(key) { self.text(key) } else { otherwise }
    }

    /// An integer, in the type in which it is needed.
    fn get<T: TryFrom<i64>>(&self, key: &str) -> T {
        T::try_from(self.parse(self.text(key))).unwrap_or_else(|_| panic!("{key} is out of range"))
    }

    fn get_or<T: TryFrom<i64>>(&self, key: &str, otherwise: T) -> T {
        if self.has(key) { self.get(key) } else { otherwise }
    }

    /// A constant, without the prefix of its enum; a number stands for itself.
    fn named<T: Debug>(&self, key: &str, from_raw: fn(i32) -> T) -> T {
        named(self.text(key), from_raw)
    }

    /// Name and bytes of `m+128`.
    fn address(&self, key: &str) -> (&str, usize) {
        let (name, offset) = self.text(key).split_once('+').expect("an address");
        (name, self.parse(offset).try_into().expect("an offset"))
    }

    fn ranks(&self, key: &str) -> Vec<usize> {
        let all = self.text_or(key, "").split(':').filter(|one| !one.is_empty());
        all.map(|one| one.parse().expect("a rank")).collect()
    }

    /// `f=a:b:m:c` of a rank and an index.
    fn formula(&self) -> impl Fn(i64, i64) -> i64 + use<> {
        let numbers: Vec<i64> = self.text("f").split(':').map(|text| number(text).expect("a number")).collect();
        let [a, b, m, c] = numbers[..] else { panic!("f is not a:b:m:c") };
        move |rank, i| (a * rank + b * i) % m + c
    }

    /// The key, if it is given, is as seen.
    fn same(&self, key: &str, seen: i64) {
        assert_eq!(seen, self.get_or(key, seen), "{key}");
    }

    /// A key that nobody asked for is a mistake in the table or here.
    fn use_all(&self) {
        self.used.borrow_mut().extend(self.values.keys().cloned());
    }

    fn require_all_used(&self) {
        let used = self.used.borrow();
        let unused = self.values.keys().find(|key| !used.contains(*key));
        assert!(unused.is_none(), "{} has no key {unused:?}", self.verb);
    }

    fn parse(&self, value: &str) -> i64 {
        let by_rank: Vec<&str> = value.split(',').collect();
        match if by_rank.len() == 1 { by_rank[0] } else { by_rank[self.rank] } {
            "self" => self.rank as i64,
            "left" => ((self.rank + RANKS - 1) % RANKS) as i64,
            "right" => ((self.rank + 1) % RANKS) as i64,
            one => number(one).unwrap_or_else(|error| panic!("{one}: {error}")),
        }
    }
}

fn number(text: &str) -> std::result::Result<i64, ParseIntError> {
    text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| i64::from_str_radix(hex, 16))
}

/// `INVALID_ARGUMENT` is the value that calls itself `InvalidArgument`.
fn named<T: Debug>(name: &str, from_raw: fn(i32) -> T) -> T {
    if let Ok(value) = number(name) {
        return from_raw(value as i32);
    }
    let plain = name.replace('_', "");
    let found = (-16..16).map(from_raw).find(|value| format!("{value:?}").to_uppercase() == plain);
    found.unwrap_or_else(|| panic!("no constant is called {name}"))
}

/// A handle, an array of this process, the memory that has taken a buffer, or a handle that was released.
enum Thing {
    Group(Group),
    Buffer(Buffer<u8>),
    Memory(Memory<u8>),
    Heap(Heap, Vec<Piece<u8>>),
    Array(Vec<u8>),
    Token(Token),
    Import(Import<u8>),
    Taken(Memory<u8>),
    Gone,
}

type Verb = fn(&mut Runner, &Line) -> Result<()>;

/// The keys that are given are as the values of these names.
macro_rules! same {
    ($line:expr, $($key:ident: $seen:expr),+) => {{ $($line.same(stringify!($key), $seen as i64);)+ Ok(()) }};
    ($line:expr, $info:expr; $($key:ident),+) => {{ let info = $info; same!($line, $($key: info.$key),+) }};
}

/// What each verb does. The keys that it does not have are not asked for, so that a mistake in the table is found.
const VERBS: &[(&str, Verb)] = &[
    ("expect_group", |r, line| same!(line, r.group(line).info()?; rank, size, channels)),
    ("expect_status", |r, line| r.expect_status(line, Duration::ZERO)),
    ("await", |r, line| r.expect_status(line, Duration::from_secs(20))),
    ("create", |r, line| {
        let name = line.text("as");
        let [shared, check] = ["shared_scratch", "check"].map(|flag| line.get_or(flag, 0) != 0);
        let config = GroupConfig::new().shared_scratch(shared).check(check);
        r.create(name, config.name(name), Duration::from_millis(line.get("timeout_ms")))
    }),
    ("split", |r, line| {
        let (name, color) = (line.text("as"), u32::try_from(line.get::<i64>("color")).ok());
        let part = r.group(line).split(color, line.get("key"))?;
        assert_eq!(part.is_some(), color.is_some(), "whether there is a group");
        part.map_or(Ok(()), |part| r.add(name, Thing::Group(part)))
    }),
    ("local", |r, line| r.made(line, Thing::Group(r.group(line).local()?))),
    ("create_from_ranks", |r, line| r.made(line, Thing::Group(r.group(line).create_from_ranks(&line.ranks("ranks"))?))),
    ("shrink", |r, line| r.made(line, Thing::Group(r.group(line).shrink(None, Timeout::Group)?))),
    ("expect_failed", |r, line| {
        assert_eq!(r.group(line).failed_ranks()?, line.ranks("ranks"), "who failed");
        Ok(())
    }),
    ("finalize", |r, line| r.group(line).finalize()),
    ("abort", |r, line| r.group(line).abort(line.text("reason"))),
    ("synchronize", |r, line| r.group(line).with_timeout(timeout(line)).synchronize()),
    ("stream_wait", |r, line| r.group(line).wait_for(None)),
    ("expect_stream_done", |r, line| {
        assert!(r.group(line).is_done()?);
        Ok(())
    }),
    ("record_use", |r, line| match r.thing(line.text("name")) {
        Thing::Buffer(buffer) => buffer.record_use(),
        Thing::Memory(memory) => memory.record_use(),
        _ => panic!("no memory"),
    }),
    ("die", |_, _| ranks::die()),
    ("barrier", |r, line| {
        let group = r.group(line).with_timeout(timeout(line));
        group.barrier_among(&line.ranks("among"), line.get_or("channel", 0))
    }),
    ("private", |r, line| r.made(line, Thing::Array(vec![0; line.get("bytes")]))),
    ("alloc", |r, line| {
        let config = AllocConfig::new().alignment(line.get_or("alignment", 0));
        r.made(line, Thing::Buffer(r.group(line).alloc_with(line.get("bytes"), &config)?))
    }),
    ("rendezvous_again", |r, line| {
        line.text("buffer"); // which the memory has
        let again = r.block(line).rendezvous_on(&r.group(line), 0)?;
        assert_eq!(again.as_raw(), r.block(line).as_raw(), "the same memory");
        r.made(line, Thing::Memory(again))
    }),
    ("rendezvous", |r, line| {
        let (group, name, tag) = (r.group(line), line.text("buffer"), line.get_or("tag", 0));
        let memory = match r.things.insert(name.to_owned(), Thing::Gone) {
            Some(Thing::Buffer(buffer)) => group.rendezvous_with(buffer, tag, line.get_or("channels", 0))?,
            Some(Thing::Taken(memory)) => memory.rendezvous_on(&group, tag)?,
            _ => panic!("{name} is no buffer"),
        };
        r.add(name, Thing::Taken(memory.clone()))?;
        r.made(line, Thing::Memory(memory))
    }),
    ("heap", |r, line| r.made(line, Thing::Heap(r.group(line).heap(line.get("bytes"))?, Vec::new()))),
    ("take", |r, line| {
        let piece = r.heap(line).alloc_aligned(line.get("bytes"), line.get_or("alignment", 0))?;
        line.same("offset", piece.offset() as i64);
        r.pieces(line).push(piece);
        Ok(())
    }),
    ("give", |r, line| {
        let at = line.address("at").1;
        r.pieces(line).retain(|piece| piece.offset() != at);
        Ok(())
    }),
    ("expect_piece", |r, line| {
        let (offset, bytes) = r.heap(line).find(r.address(line, "at"))?.unwrap_or((0, 0));
        same!(line, offset: offset, bytes: bytes)
    }),
    ("expect_heap", |r, line| same!(line, r.heap(line).info()?; used_bytes, free_bytes, pieces, largest_free, fragmentation)),
    ("release", |r, line| r.add(line.text("name"), Thing::Gone)),
    ("export", |r, line| {
        let mut options = ExportOptions::new();
        if line.has("hold_ms") {
            options = options.hold(Duration::from_millis(line.get("hold_ms")));
        }
        r.made(line, Thing::Token(r.with_piece(line, |piece| options.export(piece))?))
    }),
    ("import", |r, line| {
        let Thing::Token(token) = r.thing(line.text("token")) else { panic!("that is no token") };
        r.made(line, Thing::Import(ipc::import(token)?))
    }),
    ("expect_import", |r, line| {
        let Thing::Import(import) = r.thing(line.text("import")) else { panic!("that is no import") };
        same!(line, import.info()?; bytes, offset, host_memory)
    }),
    ("expect_holders", |r, line| same!(line, r.with_piece(line, ipc::holders)?; leases, processes, quarantined)),
    ("withdraw", |r, line| r.with_piece(line, |piece| ipc::withdraw(piece, timeout(line)))),
    ("expect_memory", |r, line| {
        let m = r.block(line);
        same!(line, rank: m.rank(), size: m.size(), bytes: m.len(), channels: m.channels())
    }),
    ("find", |r, line| {
        if r.far(line)? {
            line.use_all();
            return Ok(()); // and found by no address
        }
        let address = r.address(line, "at").cast_const();
        let Some(found) = r.group(line).find(address)? else {
            assert!(!line.has("memory") && symm::find_buffer(address)?.is_none(), "found nothing");
            return Ok(());
        };
        assert_eq!(found.memory.id(), r.block(line).id(), "id");
        same!(line, found; rank, offset)
    }),
    ("write", |r, line| {
        let (dtype, f, (name, at)) = (dtype(line).0, line.formula(), line.address("at"));
        let far = r.far(line)?;
        let bytes: Vec<u8> = (0..line.get("count")).flat_map(|i| encode(dtype, f(r.rank as i64, i))).collect();
        match r.things.get_mut(name) {
            Some(Thing::Array(array)) => array[at..at + bytes.len()].copy_from_slice(&bytes),
            _ if far => r.memory(name).put(r.owner(line, name), at, &bytes)?,
            _ => r.memory(name).view(r.owner(line, name))?.write(at, &bytes),
        }
        Ok(())
    }),
    ("expect", |r, line| {
        let far = r.far(line)?;
        if far && r.group(line).status()?.status != Status::Ok {
            line.use_all();
            return Ok(()); // what a dead machine had is gone
        }
        let (dtype, f, (name, at)) = (dtype(line).0, line.formula(), line.address("at"));
        let (count, from): (usize, i64) = (line.get("count"), line.get_or("from", r.rank as i64));
        let (shift, size) = (line.get_or("shift", 0), size(dtype));
        let op = line.has("op").then(|| line.named("op", Op::from_raw));
        let seen: Vec<u8> = match r.thing(name) {
            Thing::Array(array) => array[at..at + count * size].to_owned(),
            _ if far => {
                let mut copy = vec![0; count * size];
                r.memory(name).get(r.owner(line, name), at, &mut copy)?;
                copy
            }
            _ => {
                let (memory, rank) = (r.memory(name), r.owner(line, name));
                let view = memory.view(rank)?;
                (at..at + count * size).map(|at| view.load(at)).collect()
            }
        };
        for (seen, i) in seen.chunks(size).zip(shift..) {
            let value = op.map_or(f(from, i), |op| combine(op, |r| f(r, i))) * line.get_or("times", 1);
            assert_eq!(seen, encode(dtype, value), "element {} ({value})", i - shift);
        }
        Ok(())
    }),
    ("put", |r, line| {
        let source = r.operand(line, "source", line.get("bytes"));
        r.block(line).put(line.get("rank"), line.get("offset"), &source)
    }),
    ("put_signal", |r, line| {
        let (source, channel) = (r.operand(line, "source", line.get("bytes")), line.get_or("channel", 0));
        r.block(line).put_signal(line.get("rank"), line.get("offset"), &source, channel)
    }),
    ("get", |r, line| {
        let mut destination = r.operand(line, "destination", line.get("bytes"));
        r.block(line).get(line.get("rank"), line.get("offset"), &mut destination)
    }),
    ("signal", |r, line| r.block(line).signal(line.get("rank"), line.get_or("channel", 0))),
    ("wait_signal", |r, line| r.block(line).wait_signal_for(line.get("rank"), line.get_or("channel", 0), timeout(line))),
    ("signal_value", |r, line| {
        let (op, value) = (line.named("signal", SignalOp::from_raw), line.get("value"));
        r.block(line).signal_value(line.get("rank"), line.get("channel"), op, value)
    }),
    ("wait_signal_value", |r, line| {
        let (rank, channel, compare) = (line.get("rank"), line.get("channel"), compare(line));
        let seen = r.block(line).wait_signal_value(rank, channel, compare, line.get("value"), timeout(line))?;
        same!(line, expected: seen.expect("on the host"))
    }),
    ("wait_signals", |r, line| {
        let (channel, compare, value) = (line.get("channel"), compare(line), line.get("value"));
        let waits: Vec<_> = line.ranks("among").into_iter().map(|rank| SignalWait { rank, channel, compare, value }).collect();
        if line.get::<i64>("any") == 0 {
            return r.block(line).wait_all_signals(&waits, timeout(line));
        }
        let first = r.block(line).wait_any_signal(&waits, timeout(line))?;
        same!(line, expected: first.expect("on the host"))
    }),
    ("test_signal", |r, line| same!(line, expected: r.block(line).test_signal(line.get("rank"), line.get("channel"))?)),
    (
        "test_signal_value",
        |r, line| same!(line, expected: r.block(line).test_signal_value(line.get("rank"), line.get("channel"))?),
    ),
    ("wait_value32", |r, line| {
        let (memory, word) = word::<u32>(r, line);
        memory.wait_value(word, compare(line), line.get("value"), timeout(line))
    }),
    ("write_value32", |r, line| {
        let (memory, word) = word::<u32>(r, line);
        memory.write_value(line.get("rank"), word, line.get("value"))
    }),
    ("wait_value64", |r, line| {
        let (memory, word) = word::<u64>(r, line);
        memory.wait_value(word, compare(line), line.get("value"), timeout(line))
    }),
    ("write_value64", |r, line| {
        let (memory, word) = word::<u64>(r, line);
        memory.write_value(line.get("rank"), word, line.get("value"))
    }),
    ("fill32", |r, line| {
        let (memory, word) = word::<u32>(r, line);
        memory.fill(line.get("rank"), word, line.get("value"), line.get("count"))
    }),
];

fn compare(line: &Line) -> Compare {
    line.named("compare", Compare::from_raw)
}

/// The memory as words, and the one at `offset`: the safe layer counts in them.
fn word<T: Element>(r: &Runner, line: &Line) -> (Memory<T>, usize) {
    (r.block(line).cast(), line.get::<usize>("offset") / size_of::<T>())
}

struct Runner {
    rank: usize,
    things: BTreeMap<String, Thing>,
}

impl Runner {
    fn begin(&mut self, scenario: &str) -> Result<()> {
        self.things.clear();
        self.create("group", GroupConfig::new().name(scenario), Duration::from_secs(60))
    }

    fn run(&mut self, line: &Line) -> Result<()> {
        let verb = VERBS.iter().find(|(name, _)| *name == line.verb).map(|(_, verb)| *verb);
        let verb = if line.has("send") { dtype(line).1 } else { verb };
        verb.unwrap_or_else(|| panic!("unknown verb {}", line.verb))(self, line)
    }

    /// A released handle, a negative rank or channel, a data type that does not exist, words at an odd offset, a piece that is nobody's.
    /// The library refuses them to whoever calls, and to each rank by itself.
    fn cannot_be_said(&self, line: &Line) -> bool {
        let gone = |key| line.has(key) && matches!(self.thing(line.text(key)), Thing::Gone);
        let negative = |key| line.get_or::<i64>(key, 0) < 0;
        let odd = || line.verb == "fill32" && line.get::<i64>("offset") % 4 != 0;
        let unknown = || line.has("send") && dtype(line).1.is_none();
        let wrong = || gone("memory") || gone("buffer") || negative("rank") || negative("channel") || odd() || unknown();
        line.failure.is_some() && (wrong() || line.verb == "give")
    }

    fn add(&mut self, name: &str, thing: Thing) -> Result<()> {
        self.things.insert(name.to_owned(), thing);
        Ok(())
    }

    fn made(&mut self, line: &Line, thing: Thing) -> Result<()> {
        self.add(line.text("as"), thing)
    }

    fn thing(&self, name: &str) -> &Thing {
        self.things.get(name).unwrap_or_else(|| panic!("nothing is called {name}"))
    }

    fn group(&self, line: &Line) -> Group {
        let Thing::Group(group) = self.thing(line.text_or("group", "group")) else { panic!("that is no group") };
        group.clone()
    }

    fn memory(&self, name: &str) -> Memory<u8> {
        match self.thing(name) {
            Thing::Memory(memory) => memory.clone(),
            Thing::Heap(heap, _) => heap.memory(),
            _ => panic!("{name} is no memory"),
        }
    }

    fn heap(&self, line: &Line) -> Heap {
        let Thing::Heap(heap, _) = self.thing(line.text("heap")) else { panic!("that is no heap") };
        heap.clone()
    }

    fn pieces(&mut self, line: &Line) -> &mut Vec<Piece<u8>> {
        let Some(Thing::Heap(_, pieces)) = self.things.get_mut(line.text("heap")) else { panic!("that is no heap") };
        pieces
    }

    fn block(&self, line: &Line) -> Memory<u8> {
        self.memory(line.text("memory"))
    }

    /// What `use_it` makes of the bytes of the block at `at`.
    fn with_piece<R>(&self, line: &Line, use_it: impl FnOnce(&Span<'_, u8>) -> Result<R>) -> Result<R> {
        let (name, start) = line.address("at");
        let bytes: usize = line.get("bytes");
        use_it(&self.memory(name).span(start..start + bytes)?)
    }

    fn create(&mut self, name: &str, config: GroupConfig, create_timeout: Duration) -> Result<()> {
        let config = config.backend(symm::Backend::Host).timeout(Duration::from_secs(60));
        let group = config.create_timeout(create_timeout).create()?;
        self.add(name, Thing::Group(group))
    }

    fn expect_status(&mut self, line: &Line, patience: Duration) -> Result<()> {
        let (group, deadline) = (self.group(line), Instant::now() + patience);
        let mut now = group.status()?;
        while now.status == Status::Ok && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
            now = group.status()?;
        }
        assert_eq!(now.status, line.named("status", Status::from_raw), "status ({})", now.message);
        same!(line, failed_rank: now.failed_rank.map_or(-1, |rank| rank as i64))
    }

    /// On another machine: its memory is not mapped here, and is copied. Only in the group of the scenario.
    fn far(&self, line: &Line) -> Result<bool> {
        let Thing::Group(group) = self.thing("group") else { panic!("no group") };
        Ok(!group.peer_info(line.get_or("rank", self.rank))?.mapped)
    }

    /// Whose block `at` means: this rank's own, unless the line says otherwise. Its rank is that of the memory's group.
    fn owner(&self, line: &Line, name: &str) -> usize {
        line.get_or("rank", self.memory(name).rank())
    }

    /// The address of a byte of an array or a block; one of no block for what is not mapped.
    fn address(&self, line: &Line, key: &str) -> *mut u8 {
        let (name, offset) = line.address(key);
        let block = |rank| self.memory(name).pointer(rank).unwrap_or(std::ptr::from_ref(line).cast_mut().cast());
        let start = match self.thing(name) {
            Thing::Array(array) => array.as_ptr().cast_mut(),
            _ if key == "at" => block(self.owner(line, name)),
            _ => block(self.memory(name).rank()),
        };
        start.wrapping_add(offset)
    }

    /// `len` elements there.
    fn operand<T: Element>(&self, line: &Line, key: &str, len: usize) -> Raw<'static, T> {
        // SAFETY: arrays and blocks live until the next scenario begins, and calls on the host are done when they return. That the
        // table stays within them is the table's business, as in C.
        unsafe { Raw::new(self.address(line, key).cast(), len, Place::Host) }
    }
}

fn rmsnorm<T: Element>(r: &Runner, line: &Line, group: &Group) -> Result<()> {
    let (tokens, hidden): (usize, usize) = (line.get("tokens"), line.get("hidden"));
    let all = tokens * hidden;
    let rows = |key: &str| line.has(key).then(|| r.operand::<T>(line, key, all));
    let of_group = line.has("quant_scale") && line.text("quant_scale") == "GROUP";
    let numbers = |key: &str, len| line.has(key).then(|| r.operand::<f32>(line, key, len));
    let weight = r.operand::<T>(line, "weight", hidden);
    let (residual, mut sums, mut results) = (rows("residual_in"), rows("residual_out"), rows("norm_out"));
    let mut codes = line.has("quant_out").then(|| r.operand::<F8E4M3>(line, "quant_out", all));
    let (scale, mut scales) = (numbers("scale_in", 1), numbers("scale_out", if of_group { all / 128 } else { tokens }));
    let mut norm = RmsNorm::new(&weight);
    norm.epsilon = 0.0;
    norm.weight_offset = f32::from(line.get_or::<i16>("weight_offset", 0));
    norm.residual_in = residual.as_ref().map(|one| one as _);
    norm.residual_out = sums.as_mut().map(|one| one as _);
    norm.norm_out = results.as_mut().map(|one| one as _);
    norm.quant_out = codes.as_mut().map(|one| one as _);
    norm.scale_in = scale.as_ref().map(|one| one as _);
    norm.scale_out = scales.as_mut().map(|one| one as _);
    group.allreduce_rmsnorm(&r.operand::<T>(line, "send", all), norm)
}

fn collective<T: Element>(r: &mut Runner, line: &Line) -> Result<()> {
    let algorithm = line.has("algorithm").then(|| line.named("algorithm", Algorithm::from_raw));
    let group = r.group(line).with_algorithm(algorithm.unwrap_or(Algorithm::Auto));
    if matches!(line.verb.as_str(), "allgatherv" | "reduce_scatterv" | "alltoallv" | "alltoallv_device") {
        return blocks::<T>(r, line);
    }
    let group = if line.has("scale_at") {
        // SAFETY: the table keeps a number there until the call has returned.
        unsafe { group.with_scale_at(line.named("position", Scale::from_raw), r.address(line, "scale_at").cast()) }
    } else if line.has("position") {
        group.with_scale(line.named("position", Scale::from_raw), f64::from(line.get::<i32>("scale")))
    } else {
        group
    };
    if line.has("result") {
        assert_eq!(line.text("result"), "F32");
        assert_eq!(dtype(line).0, T::DTYPE);
        return match T::DTYPE {
            f16::DTYPE => widened::<f16>(r, line, &group),
            _ => widened::<bf16>(r, line, &group),
        };
    }
    if line.verb == "allreduce_rmsnorm" {
        return rmsnorm::<T>(r, line, &group);
    }
    let count: usize = line.get("count");
    if line.verb == "allgather_rows" {
        let (rows, stride): (usize, usize) = (line.get("rows"), line.get("recv_stride"));
        let mut recv = r.operand::<T>(line, "recv", rows * stride);
        return group.allgather_rows(&r.operand::<T>(line, "send", rows * count), &mut recv, rows, stride);
    }
    let all = count.saturating_mul(group.size());
    if line.get_or("in_place", 0) != 0 {
        return in_place::<T>(r, line, &group, (count, all));
    }
    let (of_send, of_recv) = match line.verb.as_str() {
        "reduce_scatter" | "scatter" => (all, count),
        "allgather" | "gather" => (count, all),
        "alltoall" => (all, all),
        _ => (count, count),
    };
    let (send, mut recv) = (r.operand::<T>(line, "send", of_send), r.operand::<T>(line, "recv", of_recv));
    let op = || line.named("op", Op::from_raw);
    match line.verb.as_str() {
        "allreduce" => group.allreduce(&send, &mut recv, op()),
        "reduce_scatter" => group.reduce_scatter(&send, &mut recv, op()),
        "allgather" => group.allgather(&send, &mut recv),
        "broadcast" => group.broadcast(&send, &mut recv, line.get("root")),
        "reduce" => group.reduce(&send, &mut recv, op(), line.get("root")),
        "alltoall" => group.alltoall(&send, &mut recv),
        "gather" => group.gather(&send, &mut recv, line.get("root")),
        "scatter" => group.scatter(&send, &mut recv, line.get("root")),
        verb => panic!("unknown verb {verb}"),
    }
}

/// On the whole, or on the part of a rank that has no more.
fn in_place<T: Element>(r: &Runner, line: &Line, group: &Group, (count, all): (usize, usize)) -> Result<()> {
    let (op, root) = (|| line.named("op", Op::from_raw), line.get_or("root", 0));
    let _ = (line.text("send"), line.text("recv")); // one of them is asked for
    let one = |key, len| r.operand::<T>(line, key, len);
    let of_root = if group.rank() == root { all } else { count };
    match line.verb.as_str() {
        "allreduce" => group.allreduce_in_place(&mut one("send", count), op()),
        "reduce_scatter" => group.reduce_scatter_in_place(&mut one("send", all), op()),
        "allgather" => group.allgather_in_place(&mut one("recv", all)),
        "broadcast" => group.broadcast_in_place(&mut one("send", count), root),
        "reduce" => group.reduce_in_place(&mut one("send", count), op(), root),
        "alltoall" => group.alltoall_in_place(&mut one("send", all)),
        "gather" => group.gather_in_place(&mut one("recv", of_root), root),
        "scatter" => group.scatter_in_place(&mut one("send", of_root), root),
        verb => panic!("{verb} has no form in place"),
    }
}

/// Those whose blocks have lengths of their own.
fn blocks<T: Element>(r: &mut Runner, line: &Line) -> Result<()> {
    let lists = ["send_counts", "send_displacements", "recv_counts", "recv_displacements"].map(|key| line.ranks(key));
    let of = |i: usize| {
        if lists[i + 1].is_empty() { Blocks::packed(&lists[i]) } else { Blocks::at(&lists[i], &lists[i + 1]) }
    };
    let (of_send, of_recv) = (of(0), of(2));
    let length = |mine: &Blocks<'_>, counts: &[usize], other: &[usize]| {
        if counts.is_empty() { other[r.rank] } else { mine.end() }
    };
    let send = r.operand::<T>(line, "send", length(&of_send, &lists[0], &lists[2]));
    let mut recv = r.operand::<T>(line, "recv", length(&of_recv, &lists[2], &lists[0]));
    let group = r.group(line);
    if line.verb == "alltoallv_device" {
        let send = r.operand::<T>(line, "send", line.get("send_capacity"));
        let mut recv = r.operand::<T>(line, "recv", line.get("recv_capacity"));
        let [sent, at, received, recv_at] = lists.map(|list| list.into_iter().map(|n| n as u64).collect::<Vec<_>>());
        return group.alltoallv_device(&send, (&sent[..], &at[..]), &mut recv, (&received[..], &recv_at[..]));
    }
    match line.verb.as_str() {
        "allgatherv" => group.allgatherv(&send, &mut recv, of_recv),
        "reduce_scatterv" => group.reduce_scatterv(&send, of_send, &mut recv, line.named("op", Op::from_raw)),
        _ => group.alltoallv(&send, of_send, &mut recv, of_recv),
    }
}

/// A reduction into f32.
fn widened<T: Reduces<f32>>(r: &mut Runner, line: &Line, group: &Group) -> Result<()> {
    let (send, mut recv) = (r.operand::<T>(line, "send", line.get("count")), r.operand(line, "recv", line.get("count")));
    let op = line.named("op", Op::from_raw);
    match line.verb.as_str() {
        "allreduce" => group.allreduce(&send, &mut recv, op),
        _ => group.reduce(&send, &mut recv, op, line.get("root")),
    }
}

type Type = (&'static str, i32, Verb);

const fn of<T: Element>(name: &'static str) -> Type {
    (name, T::DTYPE, collective::<T>)
}

macro_rules! types {
    ($($type:ty)*) => { &[$(of::<$type>(stringify!($type))),*] };
}
const TYPES: &[Type] = types!(i8 i16 i32 i64 u8 u16 u32 u64 Bool f16 bf16 f32 f64 F8E4M3 F8E5M2);

/// The value of a data type, and the collectives on elements of it if it exists.
fn dtype(line: &Line) -> (i32, Option<Verb>) {
    let name = line.text("dtype");
    match TYPES.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name)) {
        Some((_, dtype, run)) => (*dtype, Some(*run)),
        None => (number(name).expect("a data type") as i32, None),
    }
}

fn size(dtype: i32) -> usize {
    (dtype & 0xff) as usize / 8
}

/// The bits of `value`, little endian, without any arithmetic of the type.
fn encode(dtype: i32, value: i64) -> Vec<u8> {
    let bytes = size(dtype);
    let (mantissa, bias) = match dtype {
        f16::DTYPE => (10, 15),
        f32::DTYPE => (23, 127),
        f64::DTYPE => (52, 1023),
        bf16::DTYPE => (7, 127),
        F8E4M3::DTYPE => (3, 7),
        F8E5M2::DTYPE => (2, 15),
        _ => return value.to_le_bytes()[..bytes].to_owned(),
    };
    let Some(k) = value.unsigned_abs().checked_ilog2() else { return vec![0; bytes] };
    let rest = value.unsigned_abs() ^ (1 << k);
    let exact = k <= mantissa || rest & ((1 << (k - mantissa)) - 1) == 0;
    assert!(exact, "the table expects an inexact value");
    let fraction = if k > mantissa { rest >> (k - mantissa) } else { rest << (mantissa - k) };
    let bits = u64::from(value < 0) << (8 * bytes - 1) | (u64::from(k) + bias) << mantissa | fraction;
    bits.to_le_bytes()[..bytes].to_owned()
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

fn timeout(line: &Line) -> Timeout {
    if line.has("timeout_ms") && line.text("timeout_ms") == "now" {
        return Timeout::Now;
    }
    let millis = line.get_or("timeout_ms", 0);
    if millis == 0 { Timeout::Group } else { Duration::from_millis(millis).into() }
}

/// Runs a line, which must fail as it says, or not at all.
fn run(runner: &mut Runner, line: &Line) {
    if runner.cannot_be_said(line) {
        return;
    }
    match (runner.run(line), &line.failure) {
        (Ok(()), None) => line.require_all_used(),
        (Ok(()), Some(_)) => panic!("it succeeded"),
        (Err(error), None) => panic!("{error}"),
        (Err(error), Some((status, blamed, words))) => {
            assert_eq!(error.status, named(status, Status::from_raw), "status ({error})");
            let rank = error.rank.map_or(-1, |rank| rank as i64);
            assert_eq!(rank, blamed.unwrap_or(rank), "the rank to blame ({error})");
            let missing = words.iter().find(|words| !error.message.contains(*words));
            assert!(missing.is_none(), "{missing:?} is not in '{}'", error.message);
        }
    }
}

fn table(path: &str, rank: usize) -> usize {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    std::panic::set_hook(Box::new(move |what| println!("table.txt:{}: rank {rank}: {what}", NUMBER.load(Relaxed))));
    let mut runner = Runner { rank, things: BTreeMap::new() };
    let mut scenarios = 0;
    for (number, text) in std::fs::read_to_string(path).expect("a table").lines().enumerate() {
        NUMBER.store(number + 1, Relaxed);
        if let Some(name) = text.strip_prefix("scenario ") {
            scenarios += 1;
            runner.begin(name).expect("a group");
        } else if !text.is_empty() && !text.starts_with('#') {
            let line = Line::new(text, rank);
            if line.mine {
                run(&mut runner, &line);
            }
        }
    }
    assert!(scenarios > 0, "the table has no scenarios");
    scenarios
}

fn main() -> ExitCode {
    let rank = std::env::var("SYMM_RANK").ok().and_then(|rank| rank.parse().ok());
    let (Some(rank), Some(path)) = (rank, std::env::args().nth(1)) else {
        eprintln!("usage: symm run -n 3 -- behaviours table.txt");
        return ExitCode::from(2);
    };
    println!("rank {rank}: {} scenarios", table(&path, rank));
    ExitCode::SUCCESS
}
