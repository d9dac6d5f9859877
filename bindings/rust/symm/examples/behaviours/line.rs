//! Lines of the table.

use crate::RANKS;
use crate::values::{named, number};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;
use symm::{Compare, Op, Result, Timeout};

/// One line of the table, and the values in it as one rank reads them. A mistake in the table is a
/// panic.
pub struct Line<'a> {
    pub verb: &'a str,
    /// The status with which the call must fail, the rank to be blamed, and words of the message.
    pub failure: Option<&'a str>,
    rank: usize,
    values: BTreeMap<&'a str, &'a str>,
    /// The keys that no verb has asked for, which are mistakes of the table.
    unused: RefCell<BTreeSet<&'a str>>,
}

impl<'a> Line<'a> {
    /// None for an empty line, and for a line of other ranks.
    pub fn new(text: &'a str, rank: usize) -> Option<Self> {
        let (call, failure) = match text.split_once(" -> ") {
            Some((call, failure)) => (call, Some(failure)),
            None => (text, None),
        };

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

    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    pub fn find(&self, key: &str) -> Option<&'a str> {
        self.unused.borrow_mut().remove(key);
        self.values.get(key).copied()
    }

    pub fn text(&self, key: &str) -> &'a str {
        self.find(key)
            .unwrap_or_else(|| panic!("{} without {key}=", self.verb))
    }

    pub fn get<T: TryFrom<i64>>(&self, key: &str) -> T {
        self.integer(self.text(key))
    }

    pub fn get_or<T: TryFrom<i64>>(&self, key: &str, otherwise: T) -> T {
        self.find(key).map_or(otherwise, |text| self.integer(text))
    }

    pub fn flag(&self, key: &str) -> bool {
        self.get_or(key, 0) != 0
    }

    /// An integer, or the one of this rank in a list with one for each, as the type in which it is
    /// needed.
    pub fn integer<T: TryFrom<i64>>(&self, text: &str) -> T {
        let by_rank: Vec<&str> = text.split(',').collect();
        let own = if by_rank.len() == 1 {
            by_rank[0]
        } else {
            by_rank[self.rank]
        };

        let value = match own {
            "self" => self.rank as i64,
            "left" => ((self.rank + RANKS - 1) % RANKS) as i64,
            "right" => ((self.rank + 1) % RANKS) as i64,
            one => number(one).unwrap_or_else(|error| panic!("{one}: {error}")),
        };
        T::try_from(value).unwrap_or_else(|_| panic!("{text} is out of range"))
    }

    /// A constant, without the prefix of its enum; a number stands for itself.
    pub fn named<T: Debug>(&self, key: &str, from_raw: fn(i32) -> T) -> T {
        named(self.text(key), from_raw)
    }

    pub fn op(&self) -> Op {
        self.named("op", Op::from_raw)
    }

    pub fn compare(&self) -> Compare {
        self.named("compare", Compare::from_raw)
    }

    pub fn channel(&self) -> usize {
        self.get_or("channel", 0)
    }

    /// The element at the byte `offset`, because the crate counts in elements.
    pub fn at<T>(&self) -> usize {
        self.get::<usize>("offset") / size_of::<T>()
    }

    pub fn timeout(&self) -> Timeout {
        self.timeout_of("timeout_ms").unwrap_or_default()
    }

    pub fn timeout_of(&self, key: &str) -> Option<Timeout> {
        match self.find(key)? {
            "0" => None,
            "now" => Some(Duration::ZERO.into()),
            "infinite" => Some(Timeout::Never),
            millis => Some(Duration::from_millis(self.integer(millis)).into()),
        }
    }

    /// Whether something is wanted, if the line says anything of it.
    pub fn wish(&self, key: &str) -> Option<bool> {
        self.has(key).then(|| self.flag(key))
    }

    /// Requires that a time-out is as the line says, if it says anything of this key.
    pub fn expect_timeout(&self, key: &str, seen: Timeout) {
        let expected = self.timeout_of(key).unwrap_or(seen);
        assert_eq!(seen, expected, "{key}");
    }

    /// The name and the bytes of `m+128`.
    pub fn address(&self, key: &str) -> (&'a str, usize) {
        let (name, offset) = self.text(key).split_once('+').expect("an address");
        (name, self.integer(offset))
    }

    /// A list of ranks or of other numbers: `2:0`.
    pub fn list(&self, key: &str) -> Vec<usize> {
        let Some(all) = self.find(key) else {
            return Vec::new();
        };
        all.split(':')
            .map(|one| one.parse().expect("a number"))
            .collect()
    }

    /// The formula `f=a:b:m:c` of a rank and an index.
    pub fn formula(&self) -> impl Fn(i64, i64) -> i64 + use<> {
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

    /// Requires that a value is as the line says, if it says anything of this key.
    pub fn expect<T: TryInto<i64>>(&self, key: &str, seen: T) {
        let seen = seen
            .try_into()
            .unwrap_or_else(|_| panic!("{key} is more than 63 bits"));
        let expected: i64 = self.get_or(key, seen);
        assert_eq!(seen, expected, "{key}");
    }

    /// Leaves the line out. Its keys are no mistakes.
    pub fn skip(&self) -> Result<()> {
        self.unused.borrow_mut().clear();
        Ok(())
    }

    pub fn require_all_keys_used(&self) {
        let unused = self.unused.borrow();
        assert!(unused.is_empty(), "{} has no keys {unused:?}", self.verb);
    }
}
