//! Runs tests/bindings/behaviours/table.txt as one of three ranks,
//! through this crate; that directory's README says how; what is
//! not as the table says is a panic. Wrong calls that the types of
//! Rust make impossible are left out: [`Runner::cannot_be_said`].

use half::{bf16, f16};
use std::any::{Any, type_name};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::num::ParseIntError;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use symm::ipc::{self, ExportOptions, Import, Token};
use symm::{
    Algorithm, AllocConfig, Blocks, Bool, Buffer, Compare, Element, F8E4M3, F8E5M2, Group,
    GroupConfig, Heap, Memory, Op, Piece, Place, Raw, Reduces, Result, RmsNorm, Scale, SignalOp,
    SignalWait, Span, Status, Timeout,
};

const RANKS: usize = 3;
/// Of the memory and the array with which a scenario begins.
const BYTES: usize = 262_144;

/// One line of the table, and the values in it as one
/// rank reads them. A mistake in the table is a panic.
struct Line<'a> {
    verb: &'a str,
    /// The status with which it must fail, who is to be blamed, and words of the message.
    failure: Option<&'a str>,
    rank: usize,
    values: BTreeMap<&'a str, &'a str>,
    unused: RefCell<BTreeSet<&'a str>>,
}

impl<'a> Line<'a> {
    /// None for a comment, and for a line of other ranks.
    fn new(text: &'a str, rank: usize) -> Option<Self> {
        let (call, failure) = text
            .split_once(" -> ")
            .map_or((text, None), |(call, failure)| (call, Some(failure)));
        let mut words = call.split_whitespace();
        let ranks = words.next()?;
        if ranks != "all" && ranks.split(',').all(|one| one != rank.to_string()) {
            return None;
        }
        let verb = words.next().expect("a verb");
        let values: BTreeMap<_, _> = words
            .map(|word| word.split_once('=').expect("key=value"))
            .collect();
        let unused = RefCell::new(values.keys().copied().collect());
        Some(Self {
            verb,
            failure,
            rank,
            values,
            unused,
        })
    }

    fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    fn find(&self, key: &str) -> Option<&'a str> {
        self.unused.borrow_mut().remove(key);
        self.values.get(key).copied()
    }

    fn text(&self, key: &str) -> &'a str {
        self.find(key)
            .unwrap_or_else(|| panic!("{} without {key}=", self.verb))
    }

    fn get<T: TryFrom<i64>>(&self, key: &str) -> T {
        self.integer(self.text(key))
    }

    fn get_or<T: TryFrom<i64>>(&self, key: &str, otherwise: T) -> T {
        self.find(key).map_or(otherwise, |text| self.integer(text))
    }

    /// In the type in which it is needed.
    fn integer<T: TryFrom<i64>>(&self, text: &str) -> T {
        let by_rank: Vec<&str> = text.split(',').collect();
        let value = match if by_rank.len() == 1 {
            by_rank[0]
        } else {
            by_rank[self.rank]
        } {
            "self" => self.rank as i64,
            "left" => ((self.rank + RANKS - 1) % RANKS) as i64,
            "right" => ((self.rank + 1) % RANKS) as i64,
            one => number(one).unwrap_or_else(|error| panic!("{one}: {error}")),
        };
        T::try_from(value).unwrap_or_else(|_| panic!("{text} is out of range"))
    }

    /// A constant, without the prefix of its enum; a number stands for itself.
    fn named<T: Debug>(&self, key: &str, from_raw: fn(i32) -> T) -> T {
        named(self.text(key), from_raw)
    }

    fn op(&self) -> Op {
        self.named("op", Op::from_raw)
    }

    fn compare(&self) -> Compare {
        self.named("compare", Compare::from_raw)
    }

    fn channel(&self) -> usize {
        self.get_or("channel", 0)
    }

    /// The element at `offset`: the safe layer counts in them.
    fn at<T>(&self) -> usize {
        self.get::<usize>("offset") / size_of::<T>()
    }

    fn timeout(&self) -> Timeout {
        match self.find("timeout_ms") {
            None | Some("0") => Timeout::Group,
            Some("now") => Timeout::Now,
            Some(millis) => Duration::from_millis(self.integer(millis)).into(),
        }
    }

    /// Name and bytes of `m+128`.
    fn address(&self, key: &str) -> (&'a str, usize) {
        let (name, offset) = self.text(key).split_once('+').expect("an address");
        (name, self.integer(offset))
    }

    fn ranks(&self, key: &str) -> Vec<usize> {
        self.find(key).map_or(Vec::new(), |all| {
            all.split(':')
                .map(|one| one.parse().expect("a rank"))
                .collect()
        })
    }

    /// `f=a:b:m:c` of a rank and an index.
    fn formula(&self) -> impl Fn(i64, i64) -> i64 + use<> {
        let numbers: Vec<i64> = self
            .text("f")
            .split(':')
            .map(|text| number(text).expect("a number"))
            .collect();
        let [a, b, m, c] = numbers[..] else {
            panic!("f is not a:b:m:c")
        };
        move |rank, i| (a * rank + b * i) % m + c
    }

    /// Where there is nothing to do, no key is a mistake.
    fn skip(&self) -> Result<()> {
        self.unused.borrow_mut().clear();
        Ok(())
    }
}

fn number(text: &str) -> std::result::Result<i64, ParseIntError> {
    text.strip_prefix("0x")
        .map_or_else(|| text.parse(), |hex| i64::from_str_radix(hex, 16))
}

/// `INVALID_ARGUMENT` is the value that calls itself `InvalidArgument`.
fn named<T: Debug>(name: &str, from_raw: fn(i32) -> T) -> T {
    if let Ok(value) = number(name) {
        return from_raw(value as i32);
    }
    let plain = name.replace('_', "");
    let found = (-16..16)
        .map(from_raw)
        .find(|value| format!("{value:?}").to_uppercase() == plain);
    found.unwrap_or_else(|| panic!("no constant is called {name}"))
}

/// What a name stands for when its handle was released, or taken by a call that failed.
struct Gone;

type Verb = fn(&mut Runner, &Line<'_>) -> Result<()>;

/// The keys that are given are as the values of these names.
macro_rules! same {
    ($line:expr, $($key:ident: $seen:expr),+) => {{
        $(let seen = $seen as i64; assert_eq!(seen, $line.get_or(stringify!($key), seen), stringify!($key));)+
        Ok(())
    }};
    ($line:expr, $info:expr; $($key:ident),+) => {{ let info = $info; same!($line, $($key: info.$key),+) }};
}

/// What each verb does. The keys that it does not have are
/// not asked for, so that a mistake in the table is found.
const VERBS: &[(&str, Verb)] = &[
    (
        "expect_group",
        |r, line| same!(line, r.group(line).info()?; rank, size, channels),
    ),
    ("expect_status", |r, line| r.expect_status(line)),
    ("create", |r, line| {
        let [shared, check] = ["shared_scratch", "check"].map(|flag| line.get_or(flag, 0) != 0);
        r.made(
            line,
            create(
                line.text("as"),
                GroupConfig::new().shared_scratch(shared).check(check),
                line.timeout(),
            )?,
        )
    }),
    ("split", |r, line| {
        let color = u32::try_from(line.get::<i64>("color")).ok();
        let part = r.group(line).split(color, line.get("key"))?;
        assert_eq!(part.is_some(), color.is_some(), "whether there is a group");
        match part {
            Some(part) => r.made(line, part),
            None => r.made(line, Gone),
        }
    }),
    ("local", |r, line| r.made(line, r.group(line).local()?)),
    ("create_from_ranks", |r, line| {
        r.made(line, r.group(line).create_from_ranks(&line.ranks("ranks"))?)
    }),
    ("shrink", |r, line| {
        r.made(line, r.group(line).shrink(None, Timeout::Group)?)
    }),
    ("expect_failed", |r, line| {
        r.group(line)
            .failed_ranks()
            .map(|ranks| assert_eq!(ranks, line.ranks("ranks"), "who failed"))
    }),
    ("finalize", |r, line| r.group(line).finalize()),
    ("abort", |r, line| r.group(line).abort(line.text("reason"))),
    ("synchronize", |r, line| r.group(line).synchronize()),
    ("stream_wait", |r, line| r.group(line).wait_for(None)),
    ("expect_stream_done", |r, line| {
        r.group(line).is_done().map(|done| assert!(done))
    }),
    ("record_use", |r, line| {
        match r.find::<Buffer<u8>>(line.text("name")) {
            Some(buffer) => buffer.record_use(),
            None => r.memory(line.text("name")).record_use(),
        }
    }),
    ("die", |_, _| {
        let killed = Command::new("kill")
            .arg("-KILL")
            .arg(std::process::id().to_string())
            .status();
        unreachable!("SIGKILL cannot be survived: {killed:?}")
    }),
    ("barrier", |r, line| {
        r.group(line)
            .barrier_among(&line.ranks("among"), line.channel())
    }),
    ("alloc", |r, line| {
        let config = AllocConfig::new().alignment(line.get_or("alignment", 0));
        r.made(
            line,
            r.group(line).alloc_with::<u8>(line.get("bytes"), &config)?,
        )
    }),
    ("rendezvous", |r, line| {
        let (group, name, tag) = (r.group(line), line.text("buffer"), line.get_or("tag", 0));
        let memory = match r.put(name, Gone).downcast::<Buffer<u8>>() {
            Ok(buffer) => group.rendezvous_with(*buffer, tag, line.get_or("channels", 0))?,
            Err(memory) => memory
                .downcast::<Memory<u8>>()
                .expect("a buffer")
                .rendezvous_on(&group, tag)?,
        };
        assert!(
            !line.has("memory") || memory.as_raw() == r.block(line).as_raw(),
            "the same memory"
        );
        r.put(name, memory.clone()); // which has the buffer
        r.made(line, memory)
    }),
    ("heap", |r, line| {
        r.made(line, r.group(line).heap(line.get("bytes"))?)
    }),
    ("take", |r, line| {
        let piece: Piece<u8> = r
            .heap(line)
            .alloc_aligned(line.get("bytes"), line.get_or("alignment", 0))?;
        let offset = piece.offset();
        r.put(&format!("{}+{offset}", line.text("heap")), piece);
        same!(line, offset: offset)
    }),
    ("give", |r, line| {
        line.text("heap"); // of which the address speaks
        r.things.remove(line.text("at")).expect("a piece");
        Ok(())
    }),
    ("expect_piece", |r, line| {
        let (offset, bytes) = r.heap(line).find(r.address(line, "at"))?.unwrap_or((0, 0));
        same!(line, offset: offset, bytes: bytes)
    }),
    (
        "expect_heap",
        |r, line| same!(line, r.heap(line).info()?; used_bytes, free_bytes, pieces, largest_free, fragmentation),
    ),
    ("release", |r, line| {
        r.put(line.text("name"), Gone);
        Ok(())
    }),
    ("export", |r, line| {
        let hold = Duration::from_millis(line.get_or("hold_ms", 0));
        let options = if hold.is_zero() {
            ExportOptions::new()
        } else {
            ExportOptions::new().hold(hold)
        };
        r.made(line, options.export(&r.piece(line)?)?)
    }),
    ("import", |r, line| {
        r.made(line, ipc::import::<u8>(r.the::<Token>(line.text("token")))?)
    }),
    (
        "expect_import",
        |r, line| same!(line, r.the::<Import<u8>>(line.text("import")).info()?; bytes, offset, host_memory),
    ),
    (
        "expect_holders",
        |r, line| same!(line, ipc::holders(&r.piece(line)?)?; leases, processes, quarantined),
    ),
    ("withdraw", |r, line| {
        ipc::withdraw(&r.piece(line)?, line.timeout())
    }),
    ("expect_memory", |r, line| {
        let m = r.block(line);
        same!(line, rank: m.rank(), size: m.size(), bytes: m.len(), channels: m.channels())
    }),
    ("find", |r, line| {
        if r.far(line)? {
            return line.skip(); // it is found by no address
        }
        let address = r.address(line, "at").cast_const();
        let Some(found) = r.group(line).find(address)? else {
            assert!(
                !line.has("memory") && symm::find_buffer(address)?.is_none(),
                "found nothing"
            );
            return Ok(());
        };
        assert_eq!(found.memory.id(), r.block(line).id(), "id");
        same!(line, found; rank, offset)
    }),
    ("write", |r, line| r.write(line, "at")),
    ("expect", |r, line| r.expect(line, "at")),
    ("put", |r, line| {
        r.block(line).put(
            line.get("rank"),
            line.get("offset"),
            &r.bytes(line, "source"),
        )
    }),
    ("put_signal", |r, line| {
        r.block(line).put_signal(
            line.get("rank"),
            line.get("offset"),
            &r.bytes(line, "source"),
            line.channel(),
        )
    }),
    ("get", |r, line| {
        r.block(line).get(
            line.get("rank"),
            line.get("offset"),
            &mut r.bytes(line, "destination"),
        )
    }),
    ("signal", |r, line| {
        r.block(line).signal(line.get("rank"), line.channel())
    }),
    ("wait_signal", |r, line| {
        r.block(line)
            .wait_signal_for(line.get("rank"), line.channel(), line.timeout())
    }),
    ("signal_value", |r, line| {
        r.block(line).signal_value(
            line.get("rank"),
            line.channel(),
            line.named("signal", SignalOp::from_raw),
            line.get("value"),
        )
    }),
    ("wait_signal_value", |r, line| {
        let (rank, channel, value) = (line.get("rank"), line.channel(), line.get("value"));
        let seen = r.block(line).wait_signal_value(
            rank,
            channel,
            line.compare(),
            value,
            line.timeout(),
        )?;
        same!(line, expected: seen.expect("on the host"))
    }),
    ("wait_signals", |r, line| {
        let (channel, compare, value) = (line.channel(), line.compare(), line.get("value"));
        let waits: Vec<_> = line
            .ranks("among")
            .into_iter()
            .map(|rank| SignalWait {
                rank,
                channel,
                compare,
                value,
            })
            .collect();
        if line.get::<i64>("any") == 0 {
            return r.block(line).wait_all_signals(&waits, line.timeout());
        }
        let first = r.block(line).wait_any_signal(&waits, line.timeout())?;
        same!(line, expected: first.expect("on the host"))
    }),
    (
        "test_signal",
        |r, line| same!(line, expected: r.block(line).test_signal(line.get("rank"), line.channel())?),
    ),
    (
        "test_signal_value",
        |r, line| same!(line, expected: r.block(line).test_signal_value(line.get("rank"), line.channel())?),
    ),
    ("wait_value32", |r, line| {
        r.words::<u32>(line).wait_value(
            line.at::<u32>(),
            line.compare(),
            line.get("value"),
            line.timeout(),
        )
    }),
    ("wait_value64", |r, line| {
        r.words::<u64>(line).wait_value(
            line.at::<u64>(),
            line.compare(),
            line.get("value"),
            line.timeout(),
        )
    }),
    ("write_value32", |r, line| {
        r.words::<u32>(line)
            .write_value(line.get("rank"), line.at::<u32>(), line.get("value"))
    }),
    ("write_value64", |r, line| {
        r.words::<u64>(line)
            .write_value(line.get("rank"), line.at::<u64>(), line.get("value"))
    }),
    ("fill32", |r, line| {
        r.words::<u32>(line).fill(
            line.get("rank"),
            line.at::<u32>(),
            line.get("value"),
            line.get("count"),
        )
    }),
];

/// A group of all ranks.
fn create(name: &str, config: GroupConfig, create_timeout: impl Into<Timeout>) -> Result<Group> {
    config
        .name(name)
        .backend(symm::Backend::Host)
        .timeout(Duration::from_secs(60))
        .create_timeout(create_timeout)
        .create()
}

struct Runner {
    rank: usize,
    /// By their names, groups, buffers, memories, heaps and
    /// their pieces, arrays of this process, tokens, imports.
    /// A buffer that has become a memory stands for that.
    things: BTreeMap<String, Box<dyn Any>>,
}

impl Runner {
    fn begin(&mut self, scenario: &str) -> Result<()> {
        self.things.clear();
        let group = create(scenario, GroupConfig::new(), Duration::from_secs(60))?;
        let memory = group.memory::<u8>(BYTES)?;
        self.put("b", memory.clone());
        self.put("m", memory);
        self.put("p", vec![0_u8; BYTES]);
        self.put("group", group);
        Ok(())
    }

    fn run(&mut self, line: &Line<'_>) -> Result<()> {
        let verb = VERBS
            .iter()
            .find(|(name, _)| *name == line.verb)
            .map(|(_, verb)| *verb);
        let verb = if line.has("send") {
            dtype(line).1
        } else {
            verb
        };
        let checked = line.has("send") && line.has("f");
        if checked {
            self.write(line, "send")?;
        }
        verb.unwrap_or_else(|| panic!("unknown verb {}", line.verb))(self, line)?;
        if checked {
            self.expect(line, "recv")
        } else {
            Ok(())
        }
    }

    /// A released handle, a negative rank or channel, a data type that does not exist,
    /// words at an odd offset, a piece that is nobody's. The library refuses them to
    /// whoever calls, and to each rank by itself.
    fn cannot_be_said(&self, line: &Line<'_>) -> bool {
        let gone = |key| line.has(key) && self.find::<Gone>(line.text(key)).is_some();
        let negative = |key| line.get_or::<i64>(key, 0) < 0;
        let odd = || line.verb == "fill32" && line.get::<i64>("offset") % 4 != 0;
        let wrong =
            || gone("memory") || gone("buffer") || negative("rank") || negative("channel") || odd();
        line.failure.is_some() && (wrong() || line.verb == "give")
    }

    /// What the name stood for before.
    fn put(&mut self, name: &str, thing: impl Any) -> Box<dyn Any> {
        self.things
            .insert(name.to_owned(), Box::new(thing))
            .unwrap_or(Box::new(()))
    }

    fn made(&mut self, line: &Line<'_>, thing: impl Any) -> Result<()> {
        self.put(line.text("as"), thing);
        Ok(())
    }

    /// What is called so, if it is one of these.
    fn find<T: Any>(&self, name: &str) -> Option<&T> {
        self.things
            .get(name)
            .unwrap_or_else(|| panic!("nothing is called {name}"))
            .downcast_ref()
    }

    fn the<T: Any>(&self, name: &str) -> &T {
        self.find(name)
            .unwrap_or_else(|| panic!("{name} is no {}", type_name::<T>()))
    }

    /// With what the line says of the calls of a handle.
    fn group(&self, line: &Line<'_>) -> Group {
        let algorithm = line
            .find("algorithm")
            .map_or(Algorithm::Auto, |name| named(name, Algorithm::from_raw));
        let group = self
            .the::<Group>(line.find("group").unwrap_or("group"))
            .with_timeout(line.timeout())
            .with_algorithm(algorithm);
        let Some(position) = line
            .find("position")
            .map(|name| named(name, Scale::from_raw))
        else {
            return group;
        };
        match line.find("scale") {
            Some(factor) => group.with_scale(position, f64::from(line.integer::<i32>(factor))),
            // SAFETY: the table keeps a number there until the call has returned.
            None => unsafe { group.with_scale_at(position, self.address(line, "scale_at").cast()) },
        }
    }

    fn memory(&self, name: &str) -> Memory<u8> {
        self.find::<Heap>(name)
            .map_or_else(|| self.the::<Memory<u8>>(name).clone(), Heap::memory)
    }

    fn heap(&self, line: &Line<'_>) -> &Heap {
        self.the(line.text("heap"))
    }

    fn block(&self, line: &Line<'_>) -> Memory<u8> {
        self.memory(line.text("memory"))
    }

    fn words<T: Element>(&self, line: &Line<'_>) -> Memory<T> {
        self.block(line).cast()
    }

    /// The bytes of the block at `at`.
    fn piece(&self, line: &Line<'_>) -> Result<Span<'_, u8>> {
        let (name, start) = line.address("at");
        self.the::<Memory<u8>>(name)
            .span(start..start + line.get::<usize>("bytes"))
    }

    fn expect_status(&mut self, line: &Line<'_>) -> Result<()> {
        let (group, deadline) = (self.group(line), Instant::now() + Duration::from_secs(20));
        let (mut now, expected) = (group.status()?, line.named("status", Status::from_raw));
        while now.status != expected && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
            now = group.status()?;
        }
        assert_eq!(now.status, expected, "status ({})", now.message);
        same!(line, failed_rank: now.failed_rank.map_or(-1, |rank| rank as i64))
    }

    /// On another machine: its memory is not mapped here,
    /// and is copied. Only in the group of the scenario.
    fn far(&self, line: &Line<'_>) -> Result<bool> {
        Ok(!self
            .the::<Group>("group")
            .peer_info(line.get_or("rank", self.rank))?
            .mapped)
    }

    /// Whose block `at` means: this rank's own, unless the line says otherwise. Its
    /// rank is that of the memory's group.
    fn owner(&self, line: &Line<'_>, name: &str) -> usize {
        line.get_or("rank", self.memory(name).rank())
    }

    /// The address of a byte of an array or a block; one of no block for what is not mapped.
    fn address(&self, line: &Line<'_>, key: &str) -> *mut u8 {
        let (name, offset) = line.address(key);
        let block = |rank| {
            self.memory(name)
                .pointer(rank)
                .unwrap_or(std::ptr::from_ref(line).cast_mut().cast())
        };
        let start = match self.find::<Vec<u8>>(name) {
            Some(array) => array.as_ptr().cast_mut(),
            None if key == "at" => block(self.owner(line, name)),
            None => block(self.memory(name).rank()),
        };
        start.wrapping_add(offset)
    }

    /// Elements as the formula has them, there.
    fn write(&mut self, line: &Line<'_>, key: &str) -> Result<()> {
        let (dtype, f, (name, at)) = (dtype(line).0, line.formula(), line.address(key));
        let bytes: Vec<u8> = (0..line.get("count"))
            .flat_map(|i| encode(dtype, f(self.rank as i64, i)))
            .collect();
        if let Some(array) = self
            .things
            .get_mut(name)
            .and_then(|thing| thing.downcast_mut::<Vec<u8>>())
        {
            array[at..at + bytes.len()].copy_from_slice(&bytes);
            return Ok(());
        }
        let (memory, rank) = (self.memory(name), self.owner(line, name));
        if self.far(line)? {
            return memory.put(rank, at, &bytes);
        }
        memory.view(rank)?.write(at, &bytes);
        Ok(())
    }

    fn expect(&self, line: &Line<'_>, key: &str) -> Result<()> {
        if self.far(line)? && self.group(line).status()?.status != Status::Ok {
            return line.skip(); // what a dead machine had is gone
        }
        let (dtype, f) = (
            if line.has("result") {
                f32::DTYPE
            } else {
                dtype(line).0
            },
            line.formula(),
        );
        let (from, shift): (i64, i64) = (
            line.get_or("from", self.rank as i64),
            line.get_or("shift", 0),
        );
        let op = line.has("op").then(|| line.op());
        let seen = self.seen(line, key, line.get::<usize>("count") * size(dtype))?;
        for (seen, i) in seen.chunks(size(dtype)).zip(shift..) {
            let value =
                op.map_or(f(from, i), |op| combine(op, |r| f(r, i))) * line.get_or("times", 1);
            assert_eq!(
                seen,
                encode(dtype, value),
                "element {} ({value})",
                i - shift
            );
        }
        Ok(())
    }

    /// What is there, in an array or a block.
    fn seen(&self, line: &Line<'_>, key: &str, bytes: usize) -> Result<Vec<u8>> {
        let (name, at) = line.address(key);
        if let Some(array) = self.find::<Vec<u8>>(name) {
            return Ok(array[at..at + bytes].to_owned());
        }
        let (memory, rank) = (self.memory(name), self.owner(line, name));
        if self.far(line)? {
            let mut copy = vec![0; bytes];
            return memory.get(rank, at, &mut copy).map(|()| copy);
        }
        let view = memory.view(rank)?;
        Ok((at..at + bytes).map(|at| view.load(at)).collect())
    }

    /// `len` elements there.
    fn operand<T: Element>(&self, line: &Line<'_>, key: &str, len: usize) -> Raw<'static, T> {
        // SAFETY: arrays and blocks live until the next scenario
        // begins, and calls on the host are done when they return. That
        // the table stays within them is the table's business, as in C.
        unsafe { Raw::new(self.address(line, key).cast(), len, Place::Host) }
    }

    fn bytes(&self, line: &Line<'_>, key: &str) -> Raw<'static, u8> {
        self.operand(line, key, line.get("bytes"))
    }
}

fn rmsnorm<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let (tokens, hidden): (usize, usize) = (line.get("tokens"), line.get("hidden"));
    let all = tokens * hidden;
    let rows = |key: &str| line.has(key).then(|| r.operand::<T>(line, key, all));
    let of_group = line.find("quant_scale") == Some("GROUP");
    let numbers = |key: &str, len| line.has(key).then(|| r.operand::<f32>(line, key, len));
    let weight = r.operand::<T>(line, "weight", hidden);
    let (residual, mut sums, mut results) =
        (rows("residual_in"), rows("residual_out"), rows("norm_out"));
    let mut codes = line
        .has("quant_out")
        .then(|| r.operand::<F8E4M3>(line, "quant_out", all));
    let (scale, mut scales) = (
        numbers("scale_in", 1),
        numbers("scale_out", if of_group { all / 128 } else { tokens }),
    );
    let mut norm = RmsNorm::new(&weight);
    norm.epsilon = 0.0;
    norm.weight_offset = f32::from(line.get_or::<i16>("weight_offset", 0));
    norm.residual_in = residual.as_ref().map(|one| one as _);
    norm.residual_out = sums.as_mut().map(|one| one as _);
    norm.norm_out = results.as_mut().map(|one| one as _);
    norm.quant_out = codes.as_mut().map(|one| one as _);
    norm.scale_in = scale.as_ref().map(|one| one as _);
    norm.scale_out = scales.as_mut().map(|one| one as _);
    r.group(line)
        .allreduce_rmsnorm(&r.operand::<T>(line, "send", all), norm)
}

fn collective<T: Element>(r: &mut Runner, line: &Line<'_>) -> Result<()> {
    let group = r.group(line);
    match (line.verb, T::DTYPE) {
        ("allreduce_rmsnorm", _) => return rmsnorm::<T>(r, line),
        ("allgatherv" | "reduce_scatterv" | "alltoallv" | "alltoallv_device", _) => {
            return blocks::<T>(r, line);
        }
        (_, f16::DTYPE) if line.has("result") => return widened::<f16>(r, line),
        (_, bf16::DTYPE) if line.has("result") => return widened::<bf16>(r, line),
        _ => {}
    }
    let count: usize = line.get("count");
    if line.verb == "allgather_rows" {
        let (rows, stride): (usize, usize) = (line.get("rows"), line.get("recv_stride"));
        let mut recv = r.operand::<T>(line, "recv", rows * stride);
        return group.allgather_rows(
            &r.operand::<T>(line, "send", rows * count),
            &mut recv,
            rows,
            stride,
        );
    }
    let (in_place, root) = (line.get_or("in_place", 0) != 0, line.get_or("root", 0));
    // In place, one operand is the whole, or the part of a rank that has no more.
    let has_part = in_place && matches!(line.verb, "gather" | "scatter") && group.rank() != root;
    let all = if has_part {
        count
    } else {
        count.saturating_mul(group.size())
    };
    let (of_send, of_recv) = match line.verb {
        "reduce_scatter" | "scatter" => (all, count),
        "allgather" | "gather" => (count, all),
        "alltoall" => (all, all),
        _ => (count, count),
    };
    let (send, mut recv) = (
        r.operand::<T>(line, "send", of_send),
        r.operand::<T>(line, "recv", of_recv),
    );
    let mut one = if matches!(line.verb, "allgather" | "gather") {
        recv
    } else {
        send
    };
    macro_rules! either {
        ($apart:ident, $in_place:ident $(, $more:expr)*) => {
            if in_place { group.$in_place(&mut one $(, $more)*) } else { group.$apart(&send, &mut recv $(, $more)*) }
        };
    }
    match line.verb {
        "allreduce" => either!(allreduce, allreduce_in_place, line.op()),
        "reduce_scatter" => either!(reduce_scatter, reduce_scatter_in_place, line.op()),
        "allgather" => either!(allgather, allgather_in_place),
        "broadcast" => either!(broadcast, broadcast_in_place, root),
        "reduce" => either!(reduce, reduce_in_place, line.op(), root),
        "alltoall" => either!(alltoall, alltoall_in_place),
        "gather" => either!(gather, gather_in_place, root),
        "scatter" => either!(scatter, scatter_in_place, root),
        verb => panic!("unknown verb {verb}"),
    }
}

/// Those whose blocks have lengths of their own.
fn blocks<T: Element>(r: &Runner, line: &Line<'_>) -> Result<()> {
    let lists = [
        "send_counts",
        "send_displacements",
        "recv_counts",
        "recv_displacements",
    ]
    .map(|key| line.ranks(key));
    let of = |i: usize| match &lists[i + 1][..] {
        [] => Blocks::packed(&lists[i]),
        displacements => Blocks::at(&lists[i], displacements),
    };
    let (of_send, of_recv, group) = (of(0), of(2), r.group(line));
    let send_length = if lists[0].is_empty() {
        lists[2][r.rank]
    } else {
        of_send.end()
    };
    let recv_length = if lists[2].is_empty() {
        lists[0][r.rank]
    } else {
        of_recv.end()
    };
    let send = r.operand::<T>(line, "send", line.get_or("send_capacity", send_length));
    let mut recv = r.operand::<T>(line, "recv", line.get_or("recv_capacity", recv_length));
    match line.verb {
        "allgatherv" => group.allgatherv(&send, &mut recv, of_recv),
        "reduce_scatterv" => group.reduce_scatterv(&send, of_send, &mut recv, line.op()),
        "alltoallv" => group.alltoallv(&send, of_send, &mut recv, of_recv),
        _ => {
            let [sent, at, received, recv_at] =
                lists.map(|list| list.into_iter().map(|n| n as u64).collect::<Vec<_>>());
            group.alltoallv_device(&send, (&sent, &at), &mut recv, (&received, &recv_at))
        }
    }
}

/// A reduction into f32.
fn widened<T: Reduces<f32>>(r: &Runner, line: &Line<'_>) -> Result<()> {
    assert_eq!(line.text("result"), "F32");
    let (send, mut recv) = (
        r.operand::<T>(line, "send", line.get("count")),
        r.operand(line, "recv", line.get("count")),
    );
    match line.verb {
        "allreduce" => r.group(line).allreduce(&send, &mut recv, line.op()),
        _ => r
            .group(line)
            .reduce(&send, &mut recv, line.op(), line.get("root")),
    }
}

macro_rules! types {
    ($($type:ty)*) => { &[$((stringify!($type), <$type>::DTYPE, collective::<$type>)),*] };
}
const TYPES: &[(&str, i32, Verb)] =
    types!(i8 i16 i32 i64 u8 u16 u32 u64 Bool f16 bf16 f32 f64 F8E4M3 F8E5M2);

/// The value of a data type, and the collectives on elements of it if it exists.
fn dtype(line: &Line<'_>) -> (i32, Option<Verb>) {
    let name = line.text("dtype");
    match TYPES
        .iter()
        .find(|(known, ..)| known.eq_ignore_ascii_case(name))
    {
        Some((_, dtype, run)) => (*dtype, Some(*run)),
        None => (number(name).expect("a data type") as i32, None),
    }
}

fn size(dtype: i32) -> usize {
    (dtype & 0xff) as usize / 8
}

/// The bytes of a value, of which each type has exactly those that the table names.
fn encode(dtype: i32, value: i64) -> Vec<u8> {
    let number = value as f64;
    let bits_of = |to_f32: fn(u8) -> f32| {
        (0..=u8::MAX)
            .find(|bits| f64::from(to_f32(*bits)) == number)
            .into_iter()
            .collect()
    };
    match dtype {
        f16::DTYPE => f16::from_f64(number).to_le_bytes().to_vec(),
        bf16::DTYPE => bf16::from_f64(number).to_le_bytes().to_vec(),
        f32::DTYPE => (number as f32).to_le_bytes().to_vec(),
        f64::DTYPE => number.to_le_bytes().to_vec(),
        F8E4M3::DTYPE => bits_of(|bits| F8E4M3::from_bits(bits).to_f32()),
        F8E5M2::DTYPE => bits_of(|bits| F8E5M2::from_bits(bits).to_f32()),
        _ => value.to_le_bytes()[..size(dtype)].to_owned(),
    }
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

/// Runs a line, which must fail as it says, or not at all.
fn run(runner: &mut Runner, line: &Line<'_>) {
    if runner.cannot_be_said(line) {
        return;
    }
    match (runner.run(line), line.failure) {
        (Ok(()), None) => assert!(
            line.unused.borrow().is_empty(),
            "{} has no keys {:?}",
            line.verb,
            line.unused.borrow()
        ),
        (Ok(()), Some(_)) => panic!("it succeeded"),
        (Err(error), None) => panic!("{error}"),
        (Err(error), Some(failure)) => {
            let (status, words) = failure.split_once(": ").expect("a failure with words");
            let (status, blamed) = status
                .split_once(" rank=")
                .map_or((status, None), |(status, rank)| (status, Some(rank)));
            assert_eq!(
                error.status,
                named(status, Status::from_raw),
                "status ({error})"
            );
            let rank = error.rank.map_or(-1, |rank| rank as i64);
            assert_eq!(
                rank,
                blamed.map_or(rank, |text| line.integer(text)),
                "the rank to blame ({error})"
            );
            let missing = words
                .split(" & ")
                .find(|words| !error.message.contains(words));
            assert!(
                missing.is_none(),
                "{missing:?} is not in '{}'",
                error.message
            );
        }
    }
}

fn main() {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let usage = "usage: symm run -n 3 -- behaviours table.txt";
    let rank: usize = std::env::var("SYMM_RANK")
        .ok()
        .and_then(|rank| rank.parse().ok())
        .expect(usage);
    let table = std::fs::read_to_string(std::env::args().nth(1).expect(usage)).expect("a table");
    std::panic::set_hook(Box::new(move |what| {
        println!("table.txt:{}: rank {rank}: {what}", NUMBER.load(Relaxed))
    }));
    let mut runner = Runner {
        rank,
        things: BTreeMap::new(),
    };
    let mut scenarios = 0;
    for (number, text) in table.lines().enumerate() {
        NUMBER.store(number + 1, Relaxed);
        if let Some(name) = text.strip_prefix("scenario ") {
            scenarios += 1;
            runner.begin(name).expect("a group");
        } else if !text.starts_with('#') {
            text.split("; ")
                .filter_map(|one| Line::new(one, rank))
                .for_each(|line| run(&mut runner, &line));
        }
    }
    assert!(scenarios > 0, "the table has no scenarios");
    println!("rank {rank}: {scenarios} scenarios");
}
